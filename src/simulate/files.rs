//! The simulated disk that working databases lie on: folders and files in memory, the same for all processes of a simulation.
//!
//! Doesn't know: what is in the files. Keeps: nothing is written into a folder that isn't there, as on any disk. Tested: here.
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io::{ErrorKind, Result};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use floodmark_state::Files;

#[derive(Debug, Default)]
pub struct MemoryFiles(Mutex<Folder>);

#[derive(Debug, Default)]
struct Folder {
    folders: BTreeMap<String, Folder>,
    files: BTreeMap<String, Bytes>,
}

impl Folder {
    fn at(&self, path: &Path) -> Result<&Self> {
        let found = parts(path).try_fold(self, |folder, part| folder.folders.get(&*part));
        found.ok_or_else(|| ErrorKind::NotFound.into())
    }

    fn at_mut(&mut self, path: &Path) -> Result<&mut Self> {
        let found = parts(path).try_fold(self, |folder, part| folder.folders.get_mut(&*part));
        found.ok_or_else(|| ErrorKind::NotFound.into())
    }
}

fn parts(path: &Path) -> impl Iterator<Item = Cow<'_, str>> {
    path.components().map(|part| part.as_os_str().to_string_lossy())
}

fn split(path: &Path) -> Result<(&Path, &str)> {
    let name = path.file_name().and_then(|name| name.to_str());
    path.parent().zip(name).ok_or_else(|| ErrorKind::InvalidInput.into())
}

impl MemoryFiles {
    fn lock(&self) -> MutexGuard<'_, Folder> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn get(&self, path: &Path) -> Result<Bytes> {
        let (folder, name) = split(path)?;
        self.lock().at(folder)?.files.get(name).cloned().ok_or_else(|| ErrorKind::NotFound.into())
    }

    fn put(&self, path: &Path, content: Bytes) -> Result<()> {
        let (folder, name) = split(path)?;
        self.lock().at_mut(folder)?.files.insert(name.to_owned(), content);
        Ok(())
    }
}

impl Files for MemoryFiles {
    fn make_folder(&self, path: &Path) -> Result<()> {
        let mut root = self.lock();
        parts(path).fold(&mut *root, |folder, part| folder.folders.entry(part.into_owned()).or_default());
        Ok(())
    }

    fn make_new_folder(&self, path: &Path) -> Result<()> {
        let (parent, name) = split(path)?;
        match self.lock().at_mut(parent)?.folders.entry(name.to_owned()) {
            Entry::Occupied(_) => Err(ErrorKind::AlreadyExists.into()),
            Entry::Vacant(free) => {
                free.insert(Folder::default());
                Ok(())
            }
        }
    }

    fn remove_folder(&self, path: &Path) -> Result<()> {
        let (parent, name) = split(path)?;
        let gone = self.lock().at_mut(parent)?.folders.remove(name);
        gone.map(drop).ok_or_else(|| ErrorKind::NotFound.into())
    }

    fn remove_empty_folder(&self, path: &Path) -> Result<()> {
        if self.list(path)?.is_empty() { self.remove_folder(path) } else { Err(ErrorKind::DirectoryNotEmpty.into()) }
    }

    fn remove_file(&self, path: &Path) -> Result<()> {
        let (folder, name) = split(path)?;
        let gone = self.lock().at_mut(folder)?.files.remove(name);
        gone.map(drop).ok_or_else(|| ErrorKind::NotFound.into())
    }

    fn write(&self, path: &Path, bytes: &[u8]) -> Result<()> {
        self.put(path, Bytes::copy_from_slice(bytes))
    }

    fn read(&self, path: &Path) -> Result<Vec<u8>> {
        self.get(path).map(Vec::from)
    }

    fn length(&self, path: &Path) -> Result<u64> {
        self.get(path).map(|content| content.len() as u64)
    }

    fn list(&self, folder: &Path) -> Result<Vec<(String, u64)>> {
        let root = self.lock();
        let Folder { folders, files } = root.at(folder)?;
        let files = files.iter().map(|(name, content)| (name.clone(), content.len() as u64));
        Ok(files.chain(folders.keys().map(|name| (name.clone(), 0))).collect())
    }

    fn link(&self, from: &Path, to: &Path) -> Result<()> {
        let content = self.get(from)?;
        if self.get(to).is_ok() {
            return Err(ErrorKind::AlreadyExists.into());
        }
        self.put(to, content)
    }

    fn copy(&self, from: &Path, to: &Path) -> Result<()> {
        self.put(to, self.get(from)?)
    }
}

#[cfg(test)]
mod tests {
    use floodmark_state::LocalDisk;

    use super::*;

    /// What becomes of it, one answer after another.
    fn told(files: &dyn Files, root: &Path) -> Vec<String> {
        let at = |path: &str| root.join(path);
        let kind = |answer: Result<()>| answer.map_or_else(|error| error.kind().to_string(), |()| "done".into());
        let listed = |path: &str| {
            files.list(&at(path)).map_or_else(
                |error| error.kind().to_string(),
                |mut found| {
                    found.sort();
                    found.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(" ")
                },
            )
        };
        vec![
            kind(files.write(&at("a/1"), b"x")),
            kind(files.make_new_folder(&at("a/b"))),
            kind(files.make_folder(&at("a/b"))),
            kind(files.make_new_folder(&at("a/b"))),
            kind(files.make_new_folder(&at("a/c"))),
            kind(files.write(&at("a/1"), b"one")),
            kind(files.link(&at("a/1"), &at("a/b/2"))),
            kind(files.link(&at("a/1"), &at("a/b/2"))),
            kind(files.copy(&at("a/b/2"), &at("a/b/3"))),
            kind(files.link(&at("a/nothing"), &at("a/b/4"))),
            kind(files.remove_file(&at("a/1"))),
            kind(files.remove_file(&at("a/1"))),
            listed("a"),
            listed("a/b"),
            listed("a/x"),
            format!("{:?} {:?}", files.read(&at("a/b/3")).unwrap(), files.length(&at("a/b/2")).unwrap()),
            format!("{}", files.length(&at("a/b")).is_err()),
            kind(files.remove_empty_folder(&at("a/b"))),
            kind(files.remove_empty_folder(&at("a/c"))),
            kind(files.remove_folder(&at("a/b"))),
            kind(files.remove_folder(&at("a/b"))),
            kind(files.read(&at("a/b/2")).map(drop)),
            listed("a"),
        ]
    }

    #[test]
    fn it_answers_as_a_disk_does() {
        let folder = tempfile::tempdir().unwrap();
        let files = MemoryFiles::default();
        files.make_folder(Path::new("root")).unwrap();
        assert_eq!(told(&files, Path::new("root")), told(&LocalDisk, folder.path()));
    }
}
