//! States of disks and components in words.

use cairn_api::v1::{ComponentRole, ComponentState, DiskHealth};
use cairn_types::format_bytes;

use crate::units::duration;

/// A component's state in words.
pub fn state(state: ComponentState) -> String {
    match state {
        ComponentState::Active => "active".into(),
        ComponentState::Absent { repair_in_s: None, .. } => "absent".into(),
        ComponentState::Absent { repair_in_s: Some(seconds), .. } => {
            format!("absent, replaced in {}", duration(seconds))
        }
        ComponentState::Resyncing { bytes_left, eta_s } => {
            let mut text = String::from("resyncing");
            if let Some(bytes) = bytes_left {
                text += &format!(", {} left", format_bytes(bytes));
            }
            if let Some(seconds) = eta_s {
                text += &format!(", {}", duration(seconds));
            }
            text
        }
        ComponentState::Degraded => "degraded".into(),
    }
}

/// A disk's health in words.
pub fn health(health: DiskHealth) -> &'static str {
    match health {
        DiskHealth::Healthy => "healthy",
        DiskHealth::ReducedRedundancy => "reduced redundancy",
        DiskHealth::Inaccessible => "inaccessible",
        DiskHealth::Deleting => "being deleted",
    }
}

/// What a component is for.
pub fn role(role: ComponentRole) -> String {
    match role {
        ComponentRole::Data { set, copy } => format!("data {set}.{copy}"),
        ComponentRole::Witness => "witness".into(),
    }
}
