//! Opening: shared items, from rows of homes and of changes.
//!
//! Promises    a change counts once: not where the row of its home is as late as it
//! Assumes     rows of homes come after those of segments, and before changes
//! Not here    the other rows (`recovery.rs`, `load_map.rs`)

use cairn_format::{
    map_rows::CHANGES,
    shared_rows::{HomeRow, SharedChange, SharedItem, home_of},
};

use crate::{
    error::MetaError,
    load_map::LoadedMap,
    rows,
    segments::{COUNTS_MAX, Segments},
    state::State,
};

impl State {
    /// What the metadata has of a home.
    pub(crate) fn load_home(&mut self, map: &mut LoadedMap, key: &[u8], bytes: &[u8]) -> Result<(), MetaError> {
        let (device, segment, generation) = home_of(key)?;
        let row = HomeRow::decode(key, bytes)?;
        let malformed = || MetaError::from(rows::malformed(key));
        let segments = self.tier.get_mut(device).filter(|_| row.number < COUNTS_MAX).ok_or_else(malformed)?;
        for item in row.items {
            if !segments.may_hold(segment, &item) {
                return Err(malformed());
            }
            segments.shares.put((segment, generation), item, row.number);
        }
        segments.shares.told_by_row((segment, generation));
        map.homes.insert((device, segment, generation), row.number);
        self.map.load_number(row.number);
        Ok(())
    }

    /// What the changes of a transaction say, unless the row of the home says it.
    pub(crate) fn load_shared(&mut self, map: &LoadedMap, number: u64, change: SharedChange) -> Result<(), MetaError> {
        let SharedChange { device, segment, name, count, at } = change;
        let item = SharedItem { home: name.home(), count, at };
        let sound = self.tier.get_mut(device).is_some_and(|segments| segments.may_hold(segment, &item));
        if !sound {
            return Err(rows::malformed(&[CHANGES]).into());
        }
        if map.homes.get(&(device, segment, name.generation())).is_none_or(|told| number > *told) {
            self.tier.take_shared(change, number);
        }
        Ok(())
    }
}

impl Segments {
    /// Whether a row may say so of an item. Of a device that is missing nobody knows what it has.
    fn may_hold(&self, segment: u32, item: &SharedItem) -> bool {
        self.count() == 0 || self.has(item.home) && self.segment_of(item.home) == segment && self.has(item.at)
    }
}
