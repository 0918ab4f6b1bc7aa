//! `cargo run -p cairn-arch -- lower`: lowers the marks of `ratchet.txt` to what is measured. `make fix` calls it.
//!
//! Not here    raising a mark: that is an edit by hand, for a review to see
#![forbid(unsafe_code)]

use std::{fs, process::ExitCode};

use cairn_arch::{files, ratchet, root};

fn main() -> ExitCode {
    if std::env::args().nth(1).as_deref() != Some("lower") {
        eprintln!("usage: cairn-arch lower");
        return ExitCode::from(2);
    }
    match lower() {
        Ok(()) => ExitCode::SUCCESS,
        Err(text) => {
            eprintln!("{text}");
            ExitCode::FAILURE
        }
    }
}

fn lower() -> Result<(), String> {
    let path = root().join(files::RATCHET);
    let text = fs::read_to_string(&path).map_err(|e| format!("read {}: {e}", path.display()))?;
    let recorded = ratchet::parse(&text)?;
    let now = files::lengths(&files::sources(&root())?);
    let lowered = ratchet::render(&ratchet::lowered(&recorded, &now));
    if lowered != text {
        fs::write(&path, lowered).map_err(|e| format!("write {}: {e}", path.display()))?;
    }
    Ok(())
}
