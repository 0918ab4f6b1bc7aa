//! A file that is not whole yet, under another name than the one that it will have.
//!
//! Promises    the name has all of it or is not taken; of what did not come to its end nothing is left

use std::{
    fs::{self, File, OpenOptions},
    path::{Path, PathBuf},
};

use crate::fail::Fail;

/// A file on its way. Dropped before [`Partial::finish`], it is removed.
#[derive(Debug)]
pub struct Partial {
    wanted: PathBuf,
    path: PathBuf,
}

impl Partial {
    /// Takes `FILE.partial` for a file that may replace another one only where that is `force`d.
    ///
    /// # Errors
    /// The name is taken, or cannot be.
    pub fn begin(wanted: &Path, force: bool) -> Result<Self, Fail> {
        let shown = wanted.display();
        match fs::metadata(wanted) {
            Ok(found) if !found.is_file() => {
                return Err(Fail::refused(format!("{shown} is no ordinary file")).remedy("name a file"));
            }
            Ok(_) if !force => {
                return Err(Fail::refused(format!("{shown} is there already"))
                    .remedy("take another name, or replace it with --force"));
            }
            _ => {}
        }
        let name = wanted.file_name().ok_or_else(|| Fail::usage(format!("{shown} names no file")))?;
        let mut partial = name.to_owned();
        partial.push(".partial");
        let path = wanted.with_file_name(partial);
        OpenOptions::new().write(true).create_new(true).open(&path).map_err(|error| {
            let fail = Fail::refused(format!("cannot make {}: {error}", path.display()));
            match error.kind() {
                std::io::ErrorKind::AlreadyExists => {
                    fail.remedy("it is another export's, or was left by one that was killed: remove it then")
                }
                _ => fail,
            }
        })?;
        Ok(Self { wanted: wanted.to_owned(), path })
    }

    /// Where it is now.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// It is whole: stable first, then under its name. Tells its bytes in the file system.
    ///
    /// # Errors
    /// What the file system said.
    pub fn finish(self) -> Result<u64, Fail> {
        let wanted = self.wanted.clone();
        let ended = || {
            let file = File::open(&self.path)?;
            file.sync_all()?;
            fs::rename(&self.path, &wanted)?;
            let folder = wanted.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
            File::open(folder)?.sync_all()?;
            use std::os::unix::fs::MetadataExt as _;
            Ok(file.metadata()?.blocks() * 512)
        };
        ended().map_err(|error: std::io::Error| Fail::refused(format!("cannot finish {}: {error}", wanted.display())))
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        // After `finish` there is none.
        if let Err(error) = fs::remove_file(&self.path)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            eprintln!("cannot remove {}: {error}", self.path.display());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_whole_or_not_there() {
        let folder = tempfile::tempdir().unwrap();
        let wanted = folder.path().join("a.qcow2");
        let names = || fs::read_dir(folder.path()).unwrap().count();
        drop(Partial::begin(&wanted, false).unwrap());
        assert_eq!(names(), 0);
        let partial = Partial::begin(&wanted, false).unwrap();
        assert!(Partial::begin(&wanted, true).is_err(), "another one is on its way");
        fs::write(partial.path(), "whole").unwrap();
        partial.finish().unwrap();
        assert_eq!((names(), fs::read_to_string(&wanted).unwrap()), (1, "whole".into()));
        assert!(Partial::begin(&wanted, false).is_err(), "it is there");
        drop(Partial::begin(&wanted, true).unwrap());
        assert_eq!(fs::read_to_string(&wanted).unwrap(), "whole", "given up, the earlier one stays");
        assert!(Partial::begin(folder.path(), true).is_err(), "a folder");
    }
}
