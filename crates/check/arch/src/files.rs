//! The source files of the workspace, read once.
//!
//! Promises    the same order everywhere: by path

use std::{fs, path::Path};

use crate::{
    lexer::{Source, split},
    ratchet::{Lengths, Subject, note},
    text::functions,
};

/// The ratchet, from the root.
pub const RATCHET: &str = "crates/check/arch/ratchet.txt";

/// One source file.
#[derive(Debug, Clone)]
pub struct File {
    /// Its path from the root, with slashes.
    pub path: String,
    /// What it says.
    pub text: String,
    /// The same, taken apart.
    pub source: Source,
}

impl File {
    /// Whether it is product code: below a `src` folder.
    pub fn product(&self) -> bool {
        self.path.contains("/src/")
    }

    /// The folder of its crate: `crates/<tier>/<room>`.
    pub fn package(&self) -> String {
        self.path.split('/').take(3).collect::<Vec<_>>().join("/")
    }
}

/// All Rust files below `crates`.
///
/// # Errors
/// A folder or file that cannot be read.
pub fn sources(root: &Path) -> Result<Vec<File>, String> {
    let mut files = Vec::new();
    let mut folders = vec![root.join("crates")];
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(&folder).map_err(|e| format!("read {}: {e}", folder.display()))?;
        for entry in entries {
            let path = entry.map_err(|e| format!("read {}: {e}", folder.display()))?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") {
                let text = fs::read_to_string(&path).map_err(|e| format!("read {}: {e}", path.display()))?;
                let from_root = path.strip_prefix(root).unwrap_or(&path);
                files.push(File { path: from_root.to_string_lossy().into_owned(), source: split(&text), text });
            }
        }
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}

/// Lengths of all files, and of the functions of product code.
pub fn lengths(files: &[File]) -> Lengths {
    let mut lengths = Lengths::new();
    for file in files {
        let subject = Subject::File(file.path.clone());
        note(&mut lengths, subject, file.text.lines().count());
        if file.product() {
            for function in functions(&file.source) {
                let subject = Subject::Function(file.path.clone(), function.name);
                note(&mut lengths, subject, function.lines);
            }
        }
    }
    lengths
}
