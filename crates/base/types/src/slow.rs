//! What becomes of a device that is slow beside its peers.

use serde::{Deserialize, Serialize};

/// How far a cluster goes by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SlowDevices {
    /// It is told, and its disk group is emptied.
    #[default]
    Evacuate,
    /// It is told.
    Tell,
    /// Nobody compares.
    Off,
}

impl SlowDevices {
    /// All of them, the default first.
    pub const ALL: [Self; 3] = [Self::Evacuate, Self::Tell, Self::Off];

    /// As people write it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Evacuate => "evacuate",
            Self::Tell => "tell",
            Self::Off => "off",
        }
    }
}
