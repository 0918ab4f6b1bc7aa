//! Fuzz targets: functions that take any bytes and do with them what the product does with bytes from outside.
//!
//! Promises    a target returns whatever the bytes are; a panic, a wrong answer of an oracle or an endless loop is a finding
//! Assumes     one thread, one input at a time; the same input does the same again
//! Not here    libFuzzer (`bin/fuzz.rs`), how a campaign is run (`scripts/fuzz.sh`), what was found (`docs/fuzz.md`)
//!
//! | target | what is fed |
//! |---|---|
//! | `wire` | frames and messages of peers |
//! | `nbd` | what an NBD client sends, raw and in well-formed requests with odd fields |
//! | `log` | the log of a real disk group: damaged, damaged with right checksums, made up |
//! | `metadata` | superblocks and metadata of a real disk group, likewise |
//! | `config` | the configuration file, sizes, names, ids |
//! | `api` | HTTP requests to a real host in the simulator |

pub mod api;
pub mod config;
pub mod image;
pub mod input;
pub mod log;
pub mod memory;
pub mod metadata;
pub mod nbd;
pub mod panics;
pub mod volume;
pub mod wire;

/// A target.
pub type Target = fn(&[u8]);

/// Every target by its name.
pub const TARGETS: [(&str, Target); 6] = [
    ("wire", wire::target),
    ("nbd", nbd::target),
    ("log", log::target),
    ("metadata", metadata::target),
    ("config", config::target),
    ("api", api::target),
];

/// The target of that name.
pub fn target(name: &str) -> Option<Target> {
    TARGETS.iter().find(|(known, _)| *known == name).map(|(_, target)| *target)
}
