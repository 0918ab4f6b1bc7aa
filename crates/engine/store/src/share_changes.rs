//! What a transaction does to shared items: its references by name become counts, and places that come into use or go.
//!
//! Promises    counts are those before with what is added and dropped; nothing else changes them (D1)
//! Assumes     one transaction at a time
//! Not here    what is known of items (`shares.rs`), who adds and drops (`transaction.rs`)

use std::collections::{BTreeMap, BTreeSet};

use cairn_format::shared_rows::{REFERENCES_MAX, SharedChange, SharedItem, home_key};
use cairn_types::Canary;

use crate::{
    leaf::Spot,
    meta::Batch,
    segments::Segments,
    shares::{Home, SHARED_BYTES_MAX},
    tier::Tier,
};

impl Segments {
    /// The use of a segment that is the home of a name.
    pub fn home_of(&self, name: Spot) -> Home {
        (self.segment_of(name), name.generation())
    }
    /// The shared item of a name.
    pub fn shared(&self, name: Spot) -> Option<SharedItem> {
        self.shares.get(self.home_of(name), name)
    }
    /// Where a block stands: a place of the device. None where it has none there.
    pub fn place_of(&self, spot: Spot) -> Option<Spot> {
        let place = if spot.is_shared() { self.shared(spot)?.at } else { spot };
        self.has(place).then_some(place)
    }
    /// The name that an item of a run has, or would have.
    pub fn name_of(&self, place: Spot, moved: Option<Spot>) -> Spot {
        moved.unwrap_or_else(|| place.shared(self.row(self.segment_of(place)).generation))
    }
}

/// What a transaction does to shared items.
#[derive(Debug, Default)]
pub(crate) struct ShareChanges {
    /// Names that it makes.
    made: BTreeSet<(u8, Spot)>,
    /// Where the cleaner moved items to, by name.
    moved: BTreeMap<(u8, Spot), Spot>,
    /// What comes of that, and of the references that it adds and drops.
    done: Vec<SharedChange>,
}

impl ShareChanges {
    pub fn make(&mut self, device: u8, name: Spot) {
        self.made.insert((device, name));
    }
    pub fn move_to(&mut self, device: u8, name: Spot, to: Spot) {
        self.moved.insert((device, name), to);
    }

    /// Takes names out of what is added and dropped: what is left of them are places that come into use, or go.
    pub fn settle(
        &mut self,
        tier: &Tier,
        added: &mut Vec<(u8, Spot)>,
        dropped: &mut Vec<(u8, Spot)>,
    ) -> Result<(), String> {
        let is_quiet = |list: &[(u8, Spot)]| list.iter().all(|(_, spot)| !spot.is_shared());
        if self.made.is_empty() && self.moved.is_empty() && is_quiet(added) && is_quiet(dropped) {
            return Ok(());
        }
        let mut by_name: BTreeMap<(u8, Spot), i64> = BTreeMap::new();
        by_name.extend(self.made.iter().chain(self.moved.keys()).map(|key| (*key, 0)));
        let mut take = |list: &mut Vec<(u8, Spot)>, by: i64| {
            for key in list.extract_if(.., |(_, spot)| spot.is_shared()) {
                *by_name.entry(key).or_default() += by;
            }
        };
        take(added, 1);
        take(dropped, if Canary::CountKept.sings() { 0 } else { -1 });
        for ((device, name), by) in by_name {
            let segments = tier.of(device);
            // Should the device be there again at the next opening, it still counts these.
            if segments.failed {
                continue;
            }
            let known = segments.shared(name);
            if known.is_none() && !self.made.contains(&(device, name)) {
                return Err(format!("capacity device {device} has no {name:?}"));
            }
            let (before, from) = known.map_or((0, None), |item| (item.count, Some(item.at)));
            let count = u8::try_from(i64::from(before) + by).ok().filter(|count| *count <= REFERENCES_MAX);
            let count = count
                .ok_or_else(|| format!("{name:?} of capacity device {device} has {before} references and {by} more"))?;
            let at = self.moved.get(&(device, name)).copied().or(from).unwrap_or(name.home());
            if from == Some(at) && count == before || before == 0 && count == 0 {
                continue;
            }
            dropped.extend(from.filter(|from| count == 0 || at != *from).map(|from| (device, from)));
            added.extend((count > 0 && from != Some(at)).then_some((device, at)));
            let at = if Canary::MovedForgotten.sings() { from.unwrap_or(at) } else { at };
            let segment = segments.segment_of(name);
            self.done.push(SharedChange { device, segment, name, count, at });
        }
        Ok(())
    }

    pub fn done(&self) -> &[SharedChange] {
        &self.done
    }
    pub fn take_done(&mut self) -> Vec<SharedChange> {
        std::mem::take(&mut self.done)
    }
}

impl Tier {
    /// It is durable: transaction `number` changed an item.
    pub fn take_shared(&mut self, change: SharedChange, number: u64) {
        let SharedChange { device, segment, name, count, at } = change;
        let item = SharedItem { home: name.home(), count, at };
        self.of_mut(device).shares.put((segment, name.generation()), item, number);
    }

    /// Whether one more item may become shared.
    pub fn may_share(&self) -> bool {
        self.devices().iter().map(|segments| segments.shares.bytes()).sum::<u64>() < SHARED_BYTES_MAX
    }

    /// Adds rows of homes to a transaction, each up to transaction `told`. Gives the transaction before which all changes of shared items are in rows.
    pub fn write_homes(&mut self, batch: &mut Batch, limit: u64, told: u64) -> u64 {
        let mut oldest = u64::MAX;
        for segments in self.devices_mut() {
            let device = segments.device;
            for ((segment, generation), row) in segments.shares.take_rows(limit, told) {
                batch.insert(home_key(device, segment, generation), row);
            }
            oldest = oldest.min(segments.shares.told());
        }
        oldest
    }
}
