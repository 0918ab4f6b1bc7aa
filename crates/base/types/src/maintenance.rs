//! What becomes of a host's components while it is in maintenance.
//!
//! Source      vSAN's three choices, with its words

use serde::{Deserialize, Serialize};

/// What is moved away from a host before it counts as in maintenance. In each mode it is given nothing new.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MaintenanceMode {
    /// What a disk needs to be served while the host is away: components without which it would have too few votes, or no copy.
    #[default]
    EnsureAccessibility,
    /// Everything.
    FullEvacuation,
    /// Nothing.
    NoEvacuation,
}

impl MaintenanceMode {
    /// All of them, the default first.
    pub const ALL: [Self; 3] = [Self::EnsureAccessibility, Self::FullEvacuation, Self::NoEvacuation];

    /// As people write it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::EnsureAccessibility => "ensure-accessibility",
            Self::FullEvacuation => "full-evacuation",
            Self::NoEvacuation => "no-evacuation",
        }
    }
}
