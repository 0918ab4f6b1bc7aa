//! What references that come and go do to what segments have in use.
//!
//! Not here    which do (`transaction.rs`), of names, what of them does (`shares.rs`)

use std::collections::BTreeMap;

use crate::{
    error::{StoreError, damaged},
    leaf::Spot,
    segments::LiveChange,
    tier::Tier,
};

/// Changes by device and segment.
pub(crate) fn live_changes(
    tier: &Tier,
    added: &[(u8, Spot)],
    dropped: &[(u8, Spot)],
) -> BTreeMap<(u8, u32), LiveChange> {
    let mut changes: BTreeMap<(u8, u32), LiveChange> = BTreeMap::new();
    let segment = |(device, spot): &(u8, Spot)| (*device, tier.of(*device).segment_of(*spot));
    added.iter().for_each(|place| changes.entry(segment(place)).or_default().add_spot(place.1));
    dropped.iter().for_each(|place| changes.entry(segment(place)).or_default().drop_spot(place.1));
    changes
}

/// Whether every place that is given up is one that its segment counts. A row or a leaf that does not fit the others was
/// damaged, or is an old one.
pub(crate) fn check_live(tier: &Tier, added: &[(u8, Spot)], dropped: &[(u8, Spot)]) -> Result<(), StoreError> {
    let here = |(device, spot): &&(u8, Spot)| tier.of(*device).failed || tier.of(*device).has(*spot);
    if let Some((device, spot)) = added.iter().chain(dropped).find(|place| !here(place)) {
        return Err(damaged(format!("capacity device {device} has no {spot:?}")));
    }
    for ((device, segment), change) in live_changes(tier, added, dropped) {
        let segments = tier.of(device);
        if !segments.failed && change.of(segments.row(segment).live).is_none() {
            return Err(damaged(format!(
                "segment {segment} of capacity device {device} counts less in use than is given up"
            )));
        }
    }
    Ok(())
}
