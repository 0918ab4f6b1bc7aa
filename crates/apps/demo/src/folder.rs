//! The folder of a demo: made anew, and never one that holds anything else.

use std::{fs, path::Path};

/// Says that the folder is a demo's, and may go.
const MARK: &str = ".cairn-demo";

/// An empty folder with the mark. What an earlier demo left there goes.
///
/// # Errors
/// It holds what no demo made, or cannot be made.
pub fn make_anew(dir: &Path) -> Result<(), String> {
    let refuse = |act: &str, e: std::io::Error| format!("cannot {act} {}: {e}", dir.display());
    let holds_something = fs::read_dir(dir).is_ok_and(|mut entries| entries.next().is_some());
    if holds_something && !dir.join(MARK).exists() {
        return Err(format!("{} holds files that no demo made: give another --dir, or empty it", dir.display()));
    }
    if dir.exists() {
        fs::remove_dir_all(dir).map_err(|e| refuse("empty", e))?;
    }
    fs::create_dir_all(dir).map_err(|e| refuse("make", e))?;
    fs::write(dir.join(MARK), "").map_err(|e| refuse("write to", e))
}
