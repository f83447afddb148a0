//! Takes a file over into a local checkpoint directory by a link: nothing is copied, and what both names share takes space once.
//!
//! Doesn't know: what a file means, or whether it changes; only one that never does may be linked.
//! Keeps: what it has answered for is durable, the name too. Tested: here, publish.rs.
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// False where it can't be linked, since the two lie on different disks for instance: then it has to be copied.
pub fn link(from: &Path, root: &Path, path: &str) -> io::Result<bool> {
    let to = root.join(path);
    let folder = to.parent().unwrap_or(root);
    let is_new = !folder.exists();
    std::fs::create_dir_all(folder)?;
    match std::fs::hard_link(from, &to) {
        Ok(()) => {}
        // Ours, from an attempt that failed later.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && is_one_file(from, &to)? => {}
        Err(_) => return Ok(false),
    }
    File::open(&to)?.sync_all()?;
    let above = if is_new { usize::MAX } else { 1 };
    folder
        .ancestors()
        .take(above)
        .take_while(|folder| folder.starts_with(root))
        .try_for_each(|f| File::open(f)?.sync_all())?;
    Ok(true)
}

fn is_one_file(a: &Path, b: &Path) -> io::Result<bool> {
    let (a, b) = (std::fs::metadata(a)?, std::fs::metadata(b)?);
    Ok((a.dev(), a.ino()) == (b.dev(), b.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_taken_over_once_and_never_that_of_another_file() {
        let folder = tempfile::tempdir().unwrap();
        let (a, b, root) = (folder.path().join("a"), folder.path().join("b"), folder.path().join("dir"));
        std::fs::write(&a, "1").unwrap();
        std::fs::write(&b, "2").unwrap();
        assert!(link(&a, &root, "state/x/9").unwrap());
        assert!(link(&a, &root, "state/x/9").unwrap(), "a second attempt");
        assert!(!link(&b, &root, "state/x/9").unwrap(), "another file");
        assert_eq!(std::fs::read(root.join("state/x/9")).unwrap(), b"1");
    }
}
