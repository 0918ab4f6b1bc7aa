//! What would become of a disk that is not created yet: for `cairn disk create --dry-run` and for planning.
//!
//! Not here    multipliers, host minima and lost hosts of a cluster that is not there yet (`sizing`)

use cairn_geometry::Area;
use cairn_types::Policy;

use crate::{
    picture::ClusterPicture,
    refusal::Refusal,
    verbs::{Placement, place, preview_ids},
};

/// Disks that [`what_if`] counts, at most: past that the exact number helps nobody.
const DISKS_MAX: u32 = 1000;

/// The answer to "what if such a disk were created".
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WhatIf {
    /// Where it would go, or why it would be refused. Component ids are counted from 1, not real.
    pub placement: Result<Placement, Refusal>,
    /// Bytes on capacity devices once every byte of it is written, all copies together.
    pub raw_bytes_full: u64,
    /// How many such disks fit one after the other with every byte reserved; 1000 stands for more.
    pub disks_full_max: u32,
}

/// Works out what would become of a disk of `size_bytes` with `policy`; takes nothing.
pub fn what_if(picture: &ClusterPicture, policy: &Policy, size_bytes: u64) -> WhatIf {
    let mut last_id = 0;
    let mut ids = preview_ids(&mut last_id);
    let placement = place(picture, policy, size_bytes, &mut ids);
    let Ok(placed) = &placement else {
        return WhatIf { placement, raw_bytes_full: 0, disks_full_max: 0 };
    };
    let areas = Area::all(&placed.addresses, size_bytes);
    let one_copy: u64 = areas.flat_map(|area| area.sets().map(move |set| area.component_bytes(set))).sum();
    let full = Policy { reservation_percent: 100, force_provisioning: false, ..policy.clone() };
    let copies = placed.members.iter().filter_map(|m| m.set());
    let copies_placed = copies.filter(|set| *set == 0).count() as u64;
    let mut picture = picture.clone();
    let mut disks_full_max = 0;
    while disks_full_max < DISKS_MAX
        && let Ok(one) = place(&picture, &full, size_bytes, &mut ids)
    {
        picture.take(&one.addresses, &full, size_bytes, &one.members);
        disks_full_max += 1;
    }
    WhatIf { raw_bytes_full: one_copy * copies_placed, disks_full_max, placement }
}
