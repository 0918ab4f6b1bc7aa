//! Turns the ratchets: `cargo run -p cairn-arch -- lower` lowers the marks of `ratchet.txt` and `circles.txt` to what is
//! measured, and `make fix` calls it. `record` also adds what is too long, or a circle, today. `circles` prints the circles.
//!
//! Not here    raising a mark: that is an edit by hand. What `record` adds is for a review to see
#![forbid(unsafe_code)]

use std::{fs, process::ExitCode};

use cairn_arch::{circles, files, ratchet, root};

fn main() -> ExitCode {
    let result = match std::env::args().nth(1).as_deref() {
        Some("lower") => turn(false),
        Some("record") => turn(true),
        Some("circles") => files::sources(&root()).map(|files| print!("{}", circles::print(&circles::circles(&files)))),
        _ => {
            eprintln!("usage: cairn-arch lower|record|circles");
            return ExitCode::from(2);
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(text) => {
            eprintln!("{text}");
            ExitCode::FAILURE
        }
    }
}

fn turn(record: bool) -> Result<(), String> {
    let files = files::sources(&root())?;
    rewrite(files::RATCHET, |text| {
        let (recorded, now) = (ratchet::parse(text)?, files::lengths(&files));
        let turned = ratchet::lowered(&recorded, &now);
        Ok(ratchet::render(&if record { ratchet::with_new(turned, &now) } else { turned }))
    })?;
    rewrite(circles::CIRCLES, |text| {
        let (recorded, now) = (circles::parse(text)?, circles::sizes(&circles::circles(&files)));
        let turned = circles::lowered(&recorded, &now);
        Ok(circles::render(&if record { circles::with_new(turned, &now) } else { turned }))
    })
}

/// Replaces a file of marks, where it changes.
fn rewrite(file: &str, turn: impl Fn(&str) -> Result<String, String>) -> Result<(), String> {
    let path = root().join(file);
    let text = fs::read_to_string(&path).map_err(|e| format!("read {}: {e}", path.display()))?;
    let turned = turn(&text)?;
    if turned != text {
        fs::write(&path, turned).map_err(|e| format!("write {}: {e}", path.display()))?;
    }
    Ok(())
}
