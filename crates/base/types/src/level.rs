//! Levels: which protocol a cluster uses, which ones a build speaks, and what is switched on from which level on.
//!
//! Promises    a feature has one entry here: the code that asks "is it on?" and the list that people see read the same one
//!             a level only rises, and only by `cairn cluster upgrade finish`
//! Not here    who may meet whom, start, finish (`upgrade`); the bytes (`wire`, `env-linux`)

use std::fmt;

use serde::{Deserialize, Serialize};

/// The version of the protocol that a cluster uses. A host sends and writes nothing that is newer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Level(pub u32);

/// Levels, each with the first release that speaks it. The first one is that of clusters whose directory names none.
const FIRST_BUILDS: [(Level, &str); 3] = [(Level::FIRST, "0.2.0"), (Level(13), "0.3.0"), (Level(14), "0.4.0")];

impl Level {
    /// That of release 0.2.0, which knows of no levels: a cluster without an entry in its directory is at this one.
    pub const FIRST: Self = Self(12);

    /// Whether this is switched on at this level. It is all that a store or a codec needs to be told.
    pub fn has(self, feature: Feature) -> bool {
        self >= feature.since()
    }

    /// The first release that speaks it, as far as this build knows.
    pub fn first_build(self) -> Option<&'static str> {
        FIRST_BUILDS.iter().find(|(level, _)| *level == self).map(|(_, build)| *build)
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The levels that a build speaks: all from the least to the highest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Speaks {
    /// The oldest.
    pub least: Level,
    /// The newest.
    pub highest: Level,
}

impl Speaks {
    /// All from `least` to `highest`.
    pub const fn of(least: u32, highest: u32) -> Self {
        Self { least: Level(least), highest: Level(highest) }
    }

    /// Whether it is one of them.
    pub fn includes(self, level: Level) -> bool {
        self.least <= level && level <= self.highest
    }

    /// What such a build has at its highest level, in the order in which it came.
    pub fn features(self) -> impl Iterator<Item = Feature> {
        Feature::ALL.into_iter().filter(move |feature| self.highest.has(*feature))
    }
}

impl fmt::Display for Speaks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.least == self.highest {
            true => write!(f, "protocol {}", self.least),
            false => write!(f, "protocols {} to {}", self.least, self.highest),
        }
    }
}

/// What hosts tell each other of the program that they run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Build {
    /// The release: "0.3.0".
    pub version: String,
    /// What it speaks.
    #[serde(flatten)]
    pub speaks: Speaks,
}

impl Build {
    /// A build that tells nothing of itself but the one protocol that it speaks: 0.2.0, or one before.
    pub fn untold(speaks: Level) -> Self {
        let version = speaks.first_build().unwrap_or("a build before 0.2.0").to_owned();
        Self { version, speaks: Speaks { least: speaks, highest: speaks } }
    }
}

/// What is switched on for all hosts together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Feature {
    /// See [`Feature::sentence`].
    HeartbeatFacts,
    /// See [`Feature::sentence`].
    MapPages,
    /// See [`Feature::sentence`].
    Moves,
    /// See [`Feature::sentence`].
    Scrub,
    /// See [`Feature::sentence`].
    BadMarks,
    /// See [`Feature::sentence`].
    CompareCopies,
    /// See [`Feature::sentence`].
    ErasureCoding,
    /// See [`Feature::sentence`].
    Conversion,
    /// See [`Feature::sentence`].
    Snapshots,
    /// See [`Feature::sentence`].
    Clones,
    /// See [`Feature::sentence`].
    Compression,
    /// See [`Feature::sentence`].
    Deduplication,
}

impl Feature {
    /// All of them, in the order in which they came.
    pub const ALL: [Self; 12] = [
        Self::HeartbeatFacts,
        Self::MapPages,
        Self::Moves,
        Self::Scrub,
        Self::BadMarks,
        Self::CompareCopies,
        Self::ErasureCoding,
        Self::Conversion,
        Self::Snapshots,
        Self::Clones,
        Self::Compression,
        Self::Deduplication,
    ];

    /// As people read it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::HeartbeatFacts => "heartbeat-facts",
            Self::MapPages => "map-pages",
            Self::Moves => "moves",
            Self::Scrub => "scrub",
            Self::BadMarks => "bad-marks",
            Self::CompareCopies => "compare-copies",
            Self::ErasureCoding => "erasure-coding",
            Self::Conversion => "conversion",
            Self::Snapshots => "snapshots",
            Self::Clones => "clones",
            Self::Compression => "compression",
            Self::Deduplication => "deduplication",
        }
    }

    /// The level from which it is on.
    pub const fn since(self) -> Level {
        match self {
            Self::HeartbeatFacts
            | Self::MapPages
            | Self::Moves
            | Self::Scrub
            | Self::BadMarks
            | Self::CompareCopies
            | Self::ErasureCoding
            | Self::Conversion => Level(13),
            Self::Snapshots | Self::Clones | Self::Compression | Self::Deduplication => Level(14),
        }
    }

    /// What it does.
    pub const fn sentence(self) -> &'static str {
        match self {
            Self::HeartbeatFacts => {
                "heartbeats tell the cluster's level, so that hosts hear of a finished upgrade without the directory, and may carry \
                 what older builds pass over"
            }
            Self::MapPages => {
                "disk groups keep the map of their blocks in pages of its own: on devices of terabytes much less metadata is written \
                 and read; older builds do not open these groups"
            }
            Self::Moves => {
                "components are moved to other hosts while their disks are in use, so that a host can be emptied for maintenance; older builds do \
                 not end a move that another host began"
            }
            Self::Scrub => {
                "disk groups are read through now and then, and a block that went bad at rest is repaired from another copy: older builds do \
                 not know how to be asked for that"
            }
            Self::BadMarks => {
                "a copy that is filled marks blocks that no copy in sync can give, and is in sync with all others: before, it waited until \
                 they were written; older builds do not open disk groups with such marks"
            }
            Self::CompareCopies => {
                "the copies of each disk are compared once a day by digests of their checksums, and one that has lost a write is repaired: older \
                 builds do not know how to be asked for that"
            }
            Self::ErasureCoding => {
                "disks may have erasure coding: rows of data and parity over their hosts take less space than copies; older builds do not open disk \
                 groups with parity"
            }
            Self::Conversion => {
                "a disk in use goes over to a policy with another layout, from copies to rows, from rows to copies, or to more stripes: older builds do not \
                 read the record of such a disk"
            }
            Self::Snapshots => {
                "disks have snapshots: moments that can be read, and gone back to; older builds read neither the record of such a disk nor the disk groups \
                 that keep what it held"
            }
            Self::Clones => {
                "a disk is made of another one's snapshot at once, and has of its own only what is written to it: older builds do not read the record of \
                 such a disk"
            }
            Self::Compression => {
                "a disk group packs what it moves to its capacity devices, where an administrator asks for it: older builds do not open such a group"
            }
            Self::Deduplication => {
                "a disk group stores blocks that are equal once on each of its capacity devices, where an administrator asks for it: older builds do not open such a \
                 group"
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_feature_has_a_level_with_a_first_build_and_a_name_of_its_own() {
        for (n, feature) in Feature::ALL.into_iter().enumerate() {
            assert!(feature.since().first_build().is_some(), "{feature:?}: its level is not in FIRST_BUILDS");
            assert!(!Level::FIRST.has(feature), "{feature:?}: 0.2.0 has it not");
            assert!(feature.since().has(feature));
            assert!(Feature::ALL[..n].iter().all(|other| other.name() != feature.name()));
        }
        assert!(FIRST_BUILDS.windows(2).all(|two| two[0].0 < two[1].0));
    }

    #[test]
    fn a_build_before_ranges_speaks_one_protocol() {
        let old = Build::untold(Level(12));
        assert_eq!((old.version.as_str(), old.speaks.to_string()), ("0.2.0", "protocol 12".into()));
        assert!(old.speaks.includes(Level(12)) && !old.speaks.includes(Level(13)));
        assert_eq!(Build::untold(Level(9)).version, "a build before 0.2.0");
        assert_eq!(Speaks::of(12, 13).to_string(), "protocols 12 to 13");
    }
}
