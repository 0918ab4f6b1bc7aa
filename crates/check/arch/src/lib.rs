//! The architecture as a test: who may import whom, how long files and functions may be, what no file may say.
//!
//! Promises    an import against the tiers, a banned dependency, a file without a head, a head with a long sentence, a file
//!             or a function that grew past its mark, a new circle between files fails `make test` (tests/workspace.rs)
//!             the rules themselves are tested on made-up input
//! Not here    bans of single functions of std (clippy.toml of each tier; scripts/bans-bite.sh shows that they bite)
//! Source      TigerBeetle's tidy.zig (the ratchet), omicron's and restate's import rules
#![forbid(unsafe_code)]

pub mod circles;
pub mod files;
pub mod lexer;
pub mod ratchet;
pub mod text;
pub mod tiers;

use std::path::PathBuf;

/// The root of the workspace that this crate was built in.
pub fn root() -> PathBuf {
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(3).map_or_else(|| here.clone(), PathBuf::from)
}
