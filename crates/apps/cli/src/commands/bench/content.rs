//! What the data in files comes to where it is packed: for `cairn bench calc capacity --content`.

use std::{
    fs::{self, File},
    io::Read as _,
    path::{Path, PathBuf},
};

use cairn_sizing::{Content, ContentReport, Exact};
use cairn_types::{BLOCK_BYTES, format_bytes};

use crate::{fail::Fail, output};

/// Bytes that are read at once.
const READ_BYTES: usize = 1 << 20;

/// Looks at all blocks of these files, and of all files in these folders; none where nothing is named. Links are not followed.
pub fn looked_at(paths: &[PathBuf]) -> Result<Option<ContentReport>, Fail> {
    if paths.is_empty() {
        return Ok(None);
    }
    let mut content = Content::default();
    for path in paths {
        let kind = fs::metadata(path).map_err(|error| cannot(path, &error))?;
        if kind.is_dir() { folder(&mut content, path)? } else { file(&mut content, path)? }
    }
    Ok(Some(content.report()?))
}

fn cannot(path: &Path, error: &std::io::Error) -> Fail {
    Fail::refused(format!("cannot read {}: {error}", path.display()))
}

fn folder(content: &mut Content, path: &Path) -> Result<(), Fail> {
    let mut entries: Vec<_> =
        fs::read_dir(path).and_then(Iterator::collect).map_err(|error: std::io::Error| cannot(path, &error))?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let (path, kind) = (entry.path(), entry.file_type());
        let kind = kind.map_err(|error| cannot(&path, &error))?;
        if kind.is_dir() {
            folder(content, &path)?;
        } else if kind.is_file() {
            file(content, &path)?;
        }
    }
    Ok(())
}

fn file(content: &mut Content, path: &Path) -> Result<(), Fail> {
    let mut file = File::open(path).map_err(|error| cannot(path, &error))?;
    let mut part = vec![0; READ_BYTES];
    loop {
        let mut filled = 0;
        while filled < part.len() {
            match file.read(&mut part[filled..]).map_err(|error| cannot(path, &error))? {
                0 => break,
                read => filled += read,
            }
        }
        part[..filled].chunks(BLOCK_BYTES as usize).for_each(|block| content.add(block));
        if filled < part.len() {
            return Ok(());
        }
    }
}

/// The ratios of each rule.
pub fn show(told: &ContentReport) -> String {
    let bytes = |blocks: u64| format_bytes(blocks * u64::from(BLOCK_BYTES));
    let ratio = |packed: Exact| format!("{} : 1", packed.decimal(2));
    let looked = format!("{} with data, {} of zeroes", bytes(told.blocks), bytes(told.zero_blocks));
    let rows = [
        ("packed as a disk group does", told.packed),
        ("packed by vSAN's rule (2 KiB or raw)", told.vsan),
        ("equal blocks kept once", told.once),
        ("once, and packed as a disk group does", told.once_packed),
        ("once, and packed by vSAN's rule", told.once_vsan),
    ];
    let table =
        output::table(&["rule", "before : after"], rows.map(|(rule, packed)| vec![rule.to_owned(), ratio(packed)]));
    let equal = format!("{} of it came before", bytes(told.equal_blocks));
    format!("{}\n\n{table}", output::pairs([("content", looked), ("equal blocks", equal)]))
}
