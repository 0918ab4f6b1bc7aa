//! Files of a host that concern the directory: the embedded directory and the local copy.
//!
//! Promises    the local copy is replaced as a whole: after a crash there is the old one or the new one
//! Not here    what is in them (`cairn-directory`)

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    path::{Path, PathBuf},
    sync::Arc,
};

use cairn_directory::{DirectoryError, Embedded, LocalCopy};
use cairn_types::ClusterId;

fn refuse(act: &str, path: &Path, cause: impl std::fmt::Display) -> DirectoryError {
    DirectoryError::Refused(format!("{act} {}: {cause}", path.display()))
}

/// Opens the embedded directory of `cluster` in the file `path`, or makes it there. One process at a time.
///
/// # Errors
/// `Refused`: the file cannot be opened, is in use, is another cluster's, or is damaged.
pub fn open_embedded_file(path: &Path, cluster: ClusterId) -> Result<Arc<Embedded>, DirectoryError> {
    const ACT: &str = "open the embedded directory";
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)
        .map_err(|e| refuse(ACT, path, e))?;
    let backend = redb::backends::FileBackend::new(file).map_err(|e| refuse(ACT, path, e))?;
    Embedded::open(backend, cluster).map_err(|e| refuse(ACT, path, e))
}

/// Where a host keeps its local copy.
pub fn local_copy_path(data_dir: &Path) -> PathBuf {
    data_dir.join("directory-copy.json")
}

/// Whether the local copy in this data directory says who runs the members. One that cannot be read is told of when it is loaded.
pub fn local_copy_tells_members(data_dir: &Path) -> bool {
    fs::read(local_copy_path(data_dir)).is_ok_and(|json| LocalCopy::tells_members(&json))
}

/// Stores the local copy in the file `path` by atomic replacement.
///
/// # Errors
/// As the operating system has them; the old copy is still there then.
pub fn store_local_copy(path: &Path, copy: &LocalCopy) -> io::Result<()> {
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(".new");
    let mut file = File::create(&temporary)?;
    file.write_all(&copy.to_json())?;
    // Without it a crash can leave the new name on an empty file.
    file.sync_all()?;
    fs::rename(&temporary, path)?;
    File::open(folder)?.sync_all()
}

/// Reads the local copy of the directory of `cluster`; an empty one when there is none yet.
///
/// # Errors
/// `Refused` when there is one that cannot be used.
pub fn load_local_copy(path: &Path, cluster: ClusterId) -> Result<LocalCopy, DirectoryError> {
    const ACT: &str = "read the local copy of the directory";
    match fs::read(path) {
        Ok(json) => LocalCopy::from_json(&json, cluster).map_err(|e| refuse(ACT, path, e)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(LocalCopy::empty(cluster)),
        Err(e) => Err(refuse(ACT, path, e)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cairn_directory::{Followed, Listing, Revision};

    #[test]
    fn a_local_copy_is_replaced_as_a_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("directory.json");
        let cluster = ClusterId(1);
        let empty = load_local_copy(&path, cluster).unwrap();
        assert_eq!(empty.revision(), None, "none yet");
        let mut copy = LocalCopy::empty(cluster);
        for revision in 1..=3 {
            let listing = Listing { revision: Revision(revision), entries: Vec::new() };
            copy.apply(&Followed::Snapshot(listing), 1000 * revision);
            store_local_copy(&path, &copy).unwrap();
            assert_eq!(load_local_copy(&path, cluster).unwrap(), copy);
        }
        // What a crash in the middle of a replacement leaves: the old copy is the copy.
        fs::write(folder.path().join("directory.json.new"), "{\"form").unwrap();
        assert_eq!(load_local_copy(&path, cluster).unwrap(), copy);
        store_local_copy(&path, &copy).unwrap();
        let names: Vec<_> = fs::read_dir(folder.path()).unwrap().collect();
        assert_eq!(names.len(), 1, "nothing is left behind");
        let foreign = load_local_copy(&path, ClusterId(2)).unwrap_err();
        assert!(foreign.to_string().contains("directory.json"), "{foreign}");
        let nowhere = folder.path().join("not/there.json");
        assert!(store_local_copy(&nowhere, &copy).is_err());
    }
}
