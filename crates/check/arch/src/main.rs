//! Turns the ratchet: `cargo run -p cairn-arch -- lower` lowers the marks of `ratchet.txt` to what is measured, and
//! `make fix` calls it; `-- record` also adds what is too long today.
//!
//! Not here    raising a mark: that is an edit by hand. What `record` adds is for a review to see
#![forbid(unsafe_code)]

use std::{fs, process::ExitCode};

use cairn_arch::{files, ratchet, root};

fn main() -> ExitCode {
    let record = match std::env::args().nth(1).as_deref() {
        Some("lower") => false,
        Some("record") => true,
        _ => {
            eprintln!("usage: cairn-arch lower|record");
            return ExitCode::from(2);
        }
    };
    match turn(record) {
        Ok(()) => ExitCode::SUCCESS,
        Err(text) => {
            eprintln!("{text}");
            ExitCode::FAILURE
        }
    }
}

fn turn(record: bool) -> Result<(), String> {
    let path = root().join(files::RATCHET);
    let text = fs::read_to_string(&path).map_err(|e| format!("read {}: {e}", path.display()))?;
    let recorded = ratchet::parse(&text)?;
    let now = files::lengths(&files::sources(&root())?);
    let mut turned = ratchet::lowered(&recorded, &now);
    if record {
        turned = ratchet::with_new(turned, &now);
    }
    let turned = ratchet::render(&turned);
    if turned != text {
        fs::write(&path, turned).map_err(|e| format!("write {}: {e}", path.display()))?;
    }
    Ok(())
}
