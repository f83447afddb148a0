//! Disks that are too small or can't be written to, seen only by the command under test.
//!
//! The command runs in a mount namespace of its own: nothing is mounted on the machine, and what was in there is gone when it ends.

use std::path::Path;
use std::process::Command;

use rustix::process::geteuid;

/// The command, with a new disk of `size_kib` at `folder` (what was there is hidden from it).
pub fn with_small_disk(command: &Command, folder: &Path, size_kib: u32) -> Command {
    mounted(command, folder, &format!(r#"mount -t tmpfs -o size={size_kib}k tmpfs "$1""#))
}

/// The command, with `folder` read-only.
pub fn with_read_only(command: &Command, folder: &Path) -> Command {
    mounted(command, folder, r#"mount --bind "$1" "$1" && mount -o remount,bind,ro "$1""#)
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
        .arg(folder)
        .arg(command.get_program())
        .args(command.get_args());
    for (key, value) in command.get_envs() {
        match value {
            Some(value) => mounted.env(key, value),
            None => mounted.env_remove(key),
        };
    }
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
