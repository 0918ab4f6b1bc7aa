//! Rows of shared items: how many references each has, and where it stands now.
//!
//! Promises    encoding is fixed (golden bytes in the tests); bytes that are no row are an error
//! Not here    who refers to an item, when rows are written (`store`)
//!
//! | first byte | key | value |
//! |---|---|---|
//! | 13 | device, home segment, its generation | [`HomeRow`] |
//!
//! The number of a transaction, then by item, ascending: the step of its first sector from the end of the one before, a byte of the lowest bits of
//! its spot with [`MOVED`], references; where it was moved the step of the sector that it begins with now, from the end of the one before.
//!
//! What a transaction changed stands behind its changes (`map_rows.rs`): device, steps of the home segment and of its generation, then as above; 0
//! references: it is none any more.

use crate::{
    Spot,
    rows::{RowError, key, malformed},
    spot::NAME_GENERATIONS,
    varint,
};

/// Kind of a key.
pub const SHARED: u8 = 13;
/// References of an item, at most: one more than a byte has is never counted.
pub const REFERENCES_MAX: u8 = 254;
/// Of the byte of an item: it does not stand at its home.
const MOVED: u8 = 8;
const SIZE_MASK: u8 = 7;

/// An item with several references. One reference may be left of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SharedItem {
    /// Where it stood first: a place.
    pub home: Spot,
    /// References.
    pub count: u8,
    /// Where it stands.
    pub at: Spot,
}

/// The shared items of a use of a segment, which was their home.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HomeRow {
    /// The transaction that wrote it: later changes hold over it, earlier ones do not.
    pub number: u64,
    /// Ascending.
    pub items: Vec<SharedItem>,
}

/// What a transaction changed of a shared item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SharedChange {
    /// Of which device.
    pub device: u8,
    /// Its home segment.
    pub segment: u32,
    /// Its name.
    pub name: Spot,
    /// References from now on; 0: it is none any more.
    pub count: u8,
    /// Where it stands from now on.
    pub at: Spot,
}

/// Its key. Of the generation the lowest bits count.
pub fn home_key(device: u8, segment: u32, generation: u32) -> Vec<u8> {
    key(SHARED, &[&[device], &segment.to_be_bytes(), &generation.to_be_bytes()])
}

/// Device, segment and generation in a key of kind 13.
///
/// # Errors
/// It is none.
pub fn home_of(key: &[u8]) -> Result<(u8, u32, u32), RowError> {
    let rest = key.get(1..).and_then(|rest| <&[u8; 9]>::try_from(rest).ok()).ok_or_else(|| malformed(key))?;
    let word = |at: usize| u32::from_be_bytes(rest[at..at + 4].try_into().expect("four bytes"));
    let known = u64::from(word(5)) < NAME_GENERATIONS;
    known.then(|| (rest[0], word(1), word(5))).ok_or_else(|| malformed(key))
}

/// How places follow each other.
#[derive(Default)]
struct Steps {
    home: u64,
    at: u64,
}

impl Steps {
    fn put(&mut self, bytes: &mut Vec<u8>, home: Spot, count: u8, at: Spot) {
        varint::put_step(bytes, self.home, home.number());
        let moved = at != home;
        bytes.extend_from_slice(&[home.size() | if moved { MOVED } else { 0 }, count]);
        if moved {
            varint::put_step(bytes, self.at, at.number());
            self.at = at.number_behind();
        }
        self.home = home.number_behind();
    }
    /// Home, references, where it stands.
    fn take(&mut self, bytes: &mut &[u8]) -> Option<(Spot, u8, Spot)> {
        let number = varint::take_step(bytes, self.home)?;
        let (&[flags, count], rest) = bytes.split_first_chunk::<2>()?;
        *bytes = rest;
        let size = flags & SIZE_MASK;
        let home = whole(number, size)?;
        let at = match flags & !SIZE_MASK {
            0 => home,
            MOVED => {
                let at = whole(varint::take_step(bytes, self.at)?, size)?;
                self.at = at.number_behind();
                at
            }
            _ => return None,
        };
        self.home = home.number_behind();
        (count <= REFERENCES_MAX).then_some((home, count, at))
    }
}

/// A place of any kind.
fn whole(number: u64, size: u8) -> Option<Spot> {
    let spot = (number < 1 << 61).then(|| Spot::of_bits(number << 3 | u64::from(size))).flatten();
    spot.filter(|spot| !spot.is_shared())
}

impl HomeRow {
    /// Its bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(10 + 5 * self.items.len());
        varint::put(&mut bytes, self.number);
        let mut steps = Steps::default();
        self.items.iter().for_each(|item| steps.put(&mut bytes, item.home, item.count, item.at));
        bytes
    }

    /// The row of a value.
    ///
    /// # Errors
    /// It is none.
    pub fn decode(key: &[u8], mut bytes: &[u8]) -> Result<Self, RowError> {
        let number = varint::take(&mut bytes).ok_or_else(|| malformed(key))?;
        let (mut steps, mut items) = (Steps::default(), Vec::<SharedItem>::new());
        while !bytes.is_empty() {
            let (home, count, at) = steps.take(&mut bytes).ok_or_else(|| malformed(key))?;
            let after = items.last().is_none_or(|last| last.home.end() <= home.sector());
            if !after || count == 0 {
                return Err(malformed(key));
            }
            items.push(SharedItem { home, count, at });
        }
        Ok(Self { number, items })
    }
}

/// Puts changes behind others.
pub(crate) fn put_changes(bytes: &mut Vec<u8>, changes: &[SharedChange]) {
    let (mut steps, mut segment, mut generation) = (Steps::default(), 0, 0);
    for change in changes {
        bytes.push(change.device);
        varint::put_step(bytes, segment, u64::from(change.segment));
        varint::put_step(bytes, generation, u64::from(change.name.generation()));
        (segment, generation) = (u64::from(change.segment), u64::from(change.name.generation()));
        steps.put(bytes, change.name.home(), change.count, change.at);
    }
}

/// The other end of [`put_changes`], up to the end of the bytes.
pub(crate) fn take_changes(mut bytes: &[u8]) -> Option<Vec<SharedChange>> {
    let (mut steps, mut segment, mut generation, mut changes) = (Steps::default(), 0, 0, Vec::new());
    while let Some((&device, rest)) = bytes.split_first() {
        bytes = rest;
        segment = varint::take_step(&mut bytes, segment)?;
        generation = varint::take_step(&mut bytes, generation).filter(|generation| *generation < NAME_GENERATIONS)?;
        let (home, count, at) = steps.take(&mut bytes)?;
        let segment = u32::try_from(segment).ok()?;
        changes.push(SharedChange { device, segment, name: home.shared(generation), count, at });
    }
    Some(changes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn place() -> impl Strategy<Value = Spot> {
        let raw = (0u64..1 << 35).prop_map(Spot::raw);
        let packed =
            (0u64..1 << 38, 1u32..=6).prop_map(|(sector, sectors)| Spot::packed(sector, sectors).expect("it is one"));
        prop_oneof![raw, packed]
    }

    /// Where an item of this size may stand.
    fn alike(home: Spot, sector: u64) -> Spot {
        Spot::packed(sector, home.sectors()).unwrap_or_else(|| Spot::raw(sector / 8))
    }

    proptest! {
        #[test]
        fn rows_and_changes_read_back(
            homes in proptest::collection::btree_map(0u64..1 << 30, (place(), 1..=REFERENCES_MAX, proptest::option::of(0u64..1 << 38)), 0..50),
            number in any::<u64>(), generation in 0..NAME_GENERATIONS, cut in any::<prop::sample::Index>(), bit in 0u8..8,
        ) {
            let items: Vec<SharedItem> = homes.into_iter().map(|(at, (size, count, moved))| {
                let home = alike(size, at * 8);
                SharedItem { home, count, at: moved.map_or(home, |sector| alike(size, sector)) }
            }).collect();
            let changes: Vec<SharedChange> = (0u32..).zip(&items).map(|(n, item)| SharedChange {
                device: (n % 3) as u8, segment: n * 7, name: item.home.shared(generation), count: item.count - 1, at: item.at,
            }).collect();
            let mut stored = Vec::new();
            put_changes(&mut stored, &changes);
            prop_assert_eq!(take_changes(&stored), Some(changes));
            let row = HomeRow { number, items };
            let mut bytes = row.encode();
            let key = home_key(1, 2, 3);
            prop_assert_eq!(HomeRow::decode(&key, &bytes), Ok(row));
            // Other bytes are no row, or another; nothing worse.
            let at = cut.index(bytes.len());
            bytes[at] ^= 1 << bit;
            let _ = HomeRow::decode(&key, &bytes);
            let _ = take_changes(&bytes);
            let _ = HomeRow::decode(&key, &bytes[..at]);
        }
    }

    /// Goal: rows that are on devices read back. Method: bytes that are fixed.
    #[test]
    fn the_bytes_of_rows_are_fixed() {
        let packed = |sector, sectors| Spot::packed(sector, sectors).expect("it is one");
        let row = HomeRow {
            number: 200,
            items: vec![
                SharedItem { home: Spot::raw(1), count: 2, at: Spot::raw(1) },
                SharedItem { home: packed(16, 3), count: 254, at: packed(40, 3) },
            ],
        };
        assert_eq!(row.encode(), [200, 1, 16, 7, 2, 0, 10, 254, 80]);
        let key = home_key(3, 258, 70_000);
        assert_eq!(key, [13, 3, 0, 0, 1, 2, 0, 1, 0x11, 0x70]);
        assert_eq!(home_of(&key), Ok((3, 258, 70_000)));
        assert!(home_of(&key[..9]).is_err() && home_of(&home_key(3, 258, 1 << 20)).is_err());
        // No references, more than there can be, one item within another, a part of one.
        for bytes in [&[1, 16, 7, 0][..], &[1, 16, 7, 255], &[1, 16, 7, 2, 13, 0, 2], &[1, 16, 7]] {
            assert!(HomeRow::decode(&key, bytes).is_err(), "{bytes:?}");
        }
        let change = SharedChange { device: 1, segment: 2, name: Spot::raw(1).shared(1), count: 0, at: Spot::raw(1) };
        let mut bytes = Vec::new();
        put_changes(&mut bytes, &[change]);
        assert_eq!(bytes, [1, 4, 2, 16, 7, 0]);
    }
}
