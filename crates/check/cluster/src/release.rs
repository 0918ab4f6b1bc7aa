//! The releases that simulated hosts run: this one, and the one before it.
//!
//! Promises    a host of the previous release reads no message, and no entry of the directory, that came after it
//! Assumes     what both have in common is this build's code: the previous release itself runs in `make test-upgrade`

use cairn_directory::{Entry as _, LevelEntry};
use cairn_sim::Host;
use cairn_types::{Build, Level};
use cairn_wire::{SPEAKS, decode};
use serde::{Deserialize, Serialize};

use crate::directory::TroubledWay;

/// What a host runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Release {
    /// As release 0.2.0: it speaks protocol 12, and knows of no levels.
    Previous,
    /// This one.
    #[default]
    Current,
}

impl Release {
    /// What it tells its peers.
    pub fn build(self) -> Build {
        match self {
            Self::Previous => Build::untold(Level::FIRST),
            Self::Current => Build { version: env!("CARGO_PKG_VERSION").to_owned(), speaks: SPEAKS },
        }
    }

    /// What it enters of itself.
    pub fn entered(self) -> Option<Build> {
        (self == Self::Current).then(|| self.build())
    }

    /// The level of a cluster that it makes.
    pub fn level_of_new_clusters(self) -> Level {
        self.build().speaks.highest
    }

    /// A saved copy of the directory, as far as this release reads it.
    pub fn read(self, copy: Vec<u8>) -> Vec<u8> {
        let mut json: serde_json::Value = match self {
            Self::Previous => serde_json::from_slice(&copy).expect("our own copy is JSON"),
            Self::Current => return copy,
        };
        let folder = format!("{}/", LevelEntry::KIND.folder());
        let entries = json["entries"].as_object_mut().expect("a copy has entries");
        entries.retain(|path, _| !path.starts_with(&folder));
        serde_json::to_vec(&json).expect("JSON becomes JSON")
    }

    /// From now on processes of this host are of it.
    pub fn install(self, host: &Host, way: &TroubledWay) {
        let highest = self.build().speaks.highest;
        let reads = move |body: &[u8]| decode(body).map_or(true, |message| message.since() <= highest);
        match self {
            Self::Previous => host.set_build(self.build(), reads),
            // It reads all that this build writes.
            Self::Current => host.set_build(self.build(), |_| true),
        }
        way.set_before_levels(self == Self::Previous);
    }
}
