//! Disks that are too small or can't be written to, seen only by the command under test.
//!
//! The command runs in a mount namespace of its own: nothing is mounted on the machine, and what was in there is gone when it ends.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rustix::process::geteuid;

use crate::process::Process;
use crate::{Result, StackError, until};

/// The command, with a new disk of `size_kib` at `folder` (what was there is hidden from it).
pub fn with_small_disk(command: &Command, folder: &Path, size_kib: u32) -> Command {
    mounted(command, folder, &format!(r#"mount -t tmpfs -o size={size_kib}k tmpfs "$1""#))
}

/// The command, with `folder` read-only.
pub fn with_read_only(command: &Command, folder: &Path) -> Command {
    mounted(command, folder, r#"mount --bind "$1" "$1" && mount -o remount,bind,ro "$1""#)
}

/// A disk that several commands see one after another, and the test too; it is gone with this value.
pub struct SmallDisk {
    holder: Process,
    folder: PathBuf,
}

impl SmallDisk {
    /// Of `size_kib`, at `folder`.
    pub fn start(folder: &Path, size_kib: u32) -> Result<SmallDisk> {
        let mut sleep = Command::new("sleep");
        sleep.arg("1000000");
        let output = folder.with_extension("disk-log");
        let holder = Process::start(with_small_disk(&sleep, folder, size_kib), &output)?;
        let disk = SmallDisk { holder, folder: folder.to_owned() };
        // The last command of the chain runs only when the disk is there.
        let name = format!("/proc/{}/comm", disk.holder.id());
        let mounted = || std::fs::read_to_string(&name).is_ok_and(|name| name.trim() == "sleep");
        if !until(Duration::from_secs(20), mounted) {
            return Err(StackError::StillRunning { limit: Duration::from_secs(20), log: disk.holder.output_tail() });
        }
        Ok(disk)
    }

    /// The command, with this disk in its place.
    pub fn seen_by(&self, command: &Command) -> Command {
        let mut inside = Command::new("nsenter");
        inside.arg(format!("--mount=/proc/{}/ns/mnt", self.holder.id()));
        if !geteuid().is_root() {
            inside.arg(format!("--user=/proc/{}/ns/user", self.holder.id())).arg("--preserve-credentials");
        }
        let folder = command.get_current_dir().unwrap_or(Path::new("/")).to_owned();
        inside.args(["sh", "-c", r#"cd "$1" && shift && exec "$@""#, "inside"]).arg(folder);
        copy(command, &mut inside);
        inside
    }

    /// Where a file of the disk can be reached from outside.
    pub fn path(&self, name: &str) -> PathBuf {
        let folder = self.folder.strip_prefix("/").unwrap_or(&self.folder);
        Path::new("/proc").join(self.holder.id().to_string()).join("root").join(folder).join(name)
    }

    /// Takes all space there is but `left_kib`; what was taken before stays taken.
    pub fn fill(&self, left_kib: u32) -> std::io::Result<()> {
        let left = vec![0; left_kib as usize * 1024];
        std::fs::write(self.path("room"), left)?;
        let mut filler = std::fs::File::options().create(true).append(true).open(self.path("filler"))?;
        while std::io::Write::write_all(&mut filler, &[0; 4096]).is_ok() {}
        std::fs::remove_file(self.path("room"))
    }

    /// Gives back what `fill` took.
    pub fn free(&self) -> std::io::Result<()> {
        std::fs::remove_file(self.path("filler"))
    }
}

/// Program, arguments and environment.
fn copy(command: &Command, to: &mut Command) {
    to.arg(command.get_program()).args(command.get_args());
    for (key, value) in command.get_envs() {
        match value {
            Some(value) => to.env(key, value),
            None => to.env_remove(key),
        };
    }
}

/// Everything ends in an `exec`: the process id is the command's own. A working folder is entered anew, to see the mount.
fn mounted(command: &Command, folder: &Path, mount: &str) -> Command {
    let mut mounted = Command::new("unshare");
    if !geteuid().is_root() {
        mounted.arg("--map-root-user");
    }
    mounted
        .args(["--mount", "sh", "-c"])
        .arg(format!(r#"{mount} && cd "$PWD" && shift && exec "$@""#))
        .arg("mount")
        .arg(folder);
    copy(command, &mut mounted);
    if let Some(folder) = command.get_current_dir() {
        mounted.current_dir(folder);
    }
    mounted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(kib: u32, folder: &Path) -> Command {
        let mut command = Command::new("sh");
        command.arg("-c").arg(format!("head -c {} /dev/zero > file", kib * 1024)).current_dir(folder);
        command
    }

    #[test]
    fn a_small_disk_fills_up_and_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let fits = with_small_disk(&write(100, folder.path()), folder.path(), 1024).output().unwrap();
        assert!(fits.status.success(), "{}", String::from_utf8_lossy(&fits.stderr));
        let full = with_small_disk(&write(2000, folder.path()), folder.path(), 1024).output().unwrap();
        assert!(String::from_utf8_lossy(&full.stderr).contains("No space left on device"));
        assert_eq!(folder.path().read_dir().unwrap().count(), 0);
    }

    #[test]
    fn a_disk_keeps_its_files_from_one_command_to_the_next() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("disk");
        std::fs::create_dir(&place).unwrap();
        let disk = SmallDisk::start(&place, 1024).unwrap();
        disk.fill(200).unwrap();
        assert!(disk.seen_by(&write(100, &place)).output().unwrap().status.success());
        assert_eq!(std::fs::metadata(disk.path("file")).unwrap().len(), 100 * 1024);
        let full = disk.seen_by(&write(400, &place)).output().unwrap();
        assert!(String::from_utf8_lossy(&full.stderr).contains("No space left on device"));
        disk.free().unwrap();
        assert!(disk.seen_by(&write(400, &place)).output().unwrap().status.success());
        assert_eq!(place.read_dir().unwrap().count(), 0, "outside nothing is mounted");
    }

    #[test]
    fn a_read_only_folder_can_be_read_and_not_written() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("before"), "here").unwrap();
        let refused = with_read_only(&write(1, folder.path()), folder.path()).output().unwrap();
        assert!(String::from_utf8_lossy(&refused.stderr).contains("Read-only file system"));
        let mut cat = Command::new("cat");
        cat.arg(folder.path().join("before"));
        assert_eq!(with_read_only(&cat, folder.path()).output().unwrap().stdout, b"here");
    }
}
