//! Cleans up after a test process that dies without dropping its values: SIGKILL, Ctrl-C, abort.
//!
//! A small shell waits at the end of a pipe. A line means that all is cleaned up already; the pipe's end means that the test process is gone.

use std::ffi::OsStr;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use crate::Result;
use crate::error::Doing;

pub struct Guard {
    shell: Child,
}

impl Guard {
    /// Kills a process group.
    pub fn of_process_group(group: u32) -> Result<Guard> {
        Guard::new(r#"kill -s KILL -- "-$1""#, OsStr::new(&group.to_string()))
    }

    /// Removes a folder; once more if those who write to it were just dying.
    pub fn of_folder(folder: &OsStr) -> Result<Guard> {
        Guard::new(r#"rm -rf "$1" || { sleep 1; rm -rf "$1"; }"#, folder)
    }

    fn new(clean_up: &str, argument: &OsStr) -> Result<Guard> {
        let shell = Command::new("sh")
            .arg("-c")
            .arg(format!("read -r _ && exit; {clean_up}"))
            .arg("guard")
            .arg(argument)
            .current_dir("/")
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .doing("start a guard")?;
        Ok(Guard { shell })
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(pipe) = &mut self.shell.stdin {
            let _ = pipe.write_all(b"cleaned up\n");
        }
        let _ = self.shell.wait();
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::time::Duration;

    use super::*;
    use crate::until;

    const LIMIT: Duration = Duration::from_secs(20);

    /// What the shell sees when the test process dies.
    fn close_pipe(guard: &mut Guard) {
        drop(guard.shell.stdin.take());
    }

    #[test]
    fn a_process_is_killed_when_the_test_process_dies() {
        let mut sleeper = Command::new("sleep").arg("1000").process_group(0).spawn().unwrap();
        let mut guard = Guard::of_process_group(sleeper.id()).unwrap();
        close_pipe(&mut guard);
        let mut ended = None;
        until(LIMIT, || {
            ended = sleeper.try_wait().unwrap();
            ended.is_some()
        });
        assert_eq!(ended.and_then(|status| status.signal()), Some(9));
    }

    #[test]
    fn a_folder_is_removed_when_the_test_process_dies_and_left_alone_otherwise() {
        let folder = tempfile::tempdir().unwrap();
        drop(Guard::of_folder(folder.path().as_os_str()).unwrap());
        assert!(folder.path().exists());
        let mut guard = Guard::of_folder(folder.path().as_os_str()).unwrap();
        close_pipe(&mut guard);
        assert!(until(LIMIT, || !folder.path().exists()));
    }
}
