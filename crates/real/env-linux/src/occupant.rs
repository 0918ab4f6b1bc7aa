//! Who or what has a device that Cairn is about to format: signatures as `blkid` knows them, and holders as the kernel does.
//!
//! Promises    asking writes nothing, and ends after [`ASK_MAX`]
//!             what cannot be asked is an error, never an empty device
//! Assumes     util-linux, which knows every signature that people put on disks and is kept so by others
//! Not here    Cairn's own superblocks (`format`), what else the kernel tells of a device (`machine`)

use std::{
    ffi::OsStr,
    fs,
    os::unix::fs::{FileTypeExt as _, MetadataExt as _},
    path::{Path, PathBuf},
    time::Duration,
};

use crate::{
    machine::Machine,
    program::{self, Unanswered},
};

/// A sound device answers in milliseconds; one that hangs must not hang a host.
const ASK_MAX: Duration = Duration::from_secs(10);
/// Where `blkid` is where PATH does not say so.
const PROGRAMS: [&str; 3] = ["blkid", "/usr/sbin/blkid", "/sbin/blkid"];

/// What stands on the device or file, in words: a file system, a partition table, a member of a volume. None: nothing that is known.
///
/// # Errors
/// `blkid` cannot be asked; the text says why and what to do.
pub fn signature_of(path: &Path) -> Result<Option<String>, String> {
    // blkid has one answer for what is blank and what it cannot open.
    let readable = fs::File::open(path).map(drop).map_err(|e| e.to_string());
    readable.and_then(|()| ask(&PROGRAMS, path)).map_err(|why| {
        format!("whether something stands on {} cannot be found out with blkid (util-linux): {why}", path.display())
    })
}

fn ask(programs: &[&str], path: &Path) -> Result<Option<String>, String> {
    let arguments = [OsStr::new("-p"), OsStr::new("-o"), OsStr::new("export"), OsStr::new("--"), path.as_os_str()];
    let said = program::ask(programs, &arguments, ASK_MAX).map_err(|why| match why {
        Unanswered::NotInstalled => "blkid is not installed".to_owned(),
        Unanswered::TooLong => format!("blkid did not answer in {} s", ASK_MAX.as_secs()),
        Unanswered::Failed(why) => why,
    })?;
    match said.code {
        Some(0) => Ok(Some(words(&said.out))),
        Some(2) if said.err.trim().is_empty() => Ok(None),
        // It sees several things at once, and cannot say which of them is in use.
        Some(8) => Ok(Some("signatures of several file systems or partition tables".into())),
        _ => Err(format!("blkid says: {}", said.err.trim())),
    }
}

/// What `blkid -o export` found, for people.
fn words(said: &str) -> String {
    let value = |key: &str| {
        let found = said.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
        found.filter(|value| !value.is_empty())
    };
    let label = value("LABEL").map_or(String::new(), |label| format!(", label {label}"));
    match (value("TYPE"), value("USAGE"), value("PTTYPE")) {
        (Some(kind), usage, _) => format!("{kind} ({}{label})", usage.unwrap_or("a known signature")),
        (None, _, Some(table)) => format!("a partition table ({table})"),
        _ => "a signature that blkid knows".into(),
    }
}

/// Who uses the device or file now: mount points, swap, volumes and loop devices on it.
pub fn holders_of(path: &Path) -> Vec<String> {
    let Ok(path) = fs::canonicalize(path) else { return Vec::new() };
    let Ok(meta) = fs::metadata(&path) else { return Vec::new() };
    if !meta.file_type().is_block_device() {
        return Machine::default().loops_over(&path);
    }
    let number = |device: u64| format!("{}:{}", rustix::fs::major(device), rustix::fs::minor(device));
    let folder = PathBuf::from("/sys/dev/block").join(number(meta.rdev()));
    let name = path.strip_prefix("/dev").unwrap_or(&path).to_string_lossy().into_owned();
    Machine::default().users_of(&folder, &name)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: no tool, no answer, no format. Method: a program that is not there, one that fails, a file that is not there.
    #[test]
    fn what_cannot_be_asked_is_no_blank_device() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), [0; 8192]).unwrap();
        assert!(ask(&["/nowhere/blkid"], file.path()).unwrap_err().contains("not installed"));
        assert!(ask(&["/bin/false"], file.path()).is_err());
        assert!(signature_of(Path::new("/nowhere/disk")).unwrap_err().contains("/nowhere/disk"));
        assert_eq!(signature_of(file.path()), Ok(None));
    }

    /// Goal: people read what it is. Method: what blkid prints.
    #[test]
    fn signatures_have_words() {
        assert_eq!(
            words("DEVNAME=/dev/sdb\nLABEL=home\nTYPE=ext4\nUSAGE=filesystem\n"),
            "ext4 (filesystem, label home)"
        );
        assert_eq!(words("PTTYPE=gpt\n"), "a partition table (gpt)");
    }
}
