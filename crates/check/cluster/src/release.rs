//! The releases that simulated hosts run: this one, the one before it, and the first that others work with.
//!
//! Promises    a host of an earlier release reads no message that came after it
//! Assumes     what both have in common is this build's code: the previous release itself runs in `make test-upgrade`

use cairn_sim::Host;
use cairn_types::{Build, Level, Speaks};
use cairn_wire::{SPEAKS, decode};
use serde::{Deserialize, Serialize};

/// What a host runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Release {
    /// As release 0.2.0: it speaks protocol 12 alone.
    First,
    /// As release 0.3.0: it speaks protocols 12 and 13.
    Previous,
    /// This one.
    #[default]
    Current,
}

impl Release {
    /// What it tells its peers.
    pub fn build(self) -> Build {
        match self {
            Self::First => Build::untold(Level::FIRST),
            Self::Previous => Build { version: "0.3.0".into(), speaks: Speaks::of(12, 13) },
            Self::Current => Build { version: env!("CARGO_PKG_VERSION").to_owned(), speaks: SPEAKS },
        }
    }

    /// The level of a cluster that it makes.
    pub fn level_of_new_clusters(self) -> Level {
        self.build().speaks.highest
    }

    /// From now on processes of this host are of it.
    pub fn install(self, host: &Host) {
        let highest = self.build().speaks.highest;
        let reads = move |body: &[u8]| decode(body).map_or(true, |message| message.since() <= highest);
        match self {
            Self::First | Self::Previous => host.set_build(self.build(), reads),
            // It reads all that this build writes.
            Self::Current => host.set_build(self.build(), |_| true),
        }
    }
}
