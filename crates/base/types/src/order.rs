//! What comes before what: epochs, operations, configurations.

use std::ops::{Range, RangeInclusive};

use serde::{Deserialize, Serialize};

use crate::{HostId, Incarnation};

/// Fences older owners. (number, host, incarnation) in this order, so no two seizers share one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Epoch {
    /// Grows with every change of owner.
    pub number: u64,
    /// The host that owns at this epoch.
    pub host: HostId,
    /// The process of that host.
    pub incarnation: Incarnation,
}

/// One operation on an object, compared as (epoch, seq) everywhere: windows, region tables, `settled`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct OpId {
    /// The epoch of the owner that issued it.
    pub epoch: Epoch,
    /// Its number within that epoch, from 1.
    pub seq: u64,
}

impl OpId {
    /// Before every operation.
    pub const ZERO: Self = Self { epoch: Epoch { number: 0, host: HostId(0), incarnation: Incarnation(0) }, seq: 0 };
}

/// Configuration sequence number of an object; 0 is nascent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Csn(pub u64);

/// Names one front-end request, or a part of it, so that a retry at a new owner is not executed twice.
///
/// A session has slots, and a slot carries one request at a time. So a request of a slot tells that the one which the slot carried
/// before was answered, or will never be repeated: whoever remembers outcomes need not remember that one any longer, and what a
/// client still waits for is remembered however much others do meanwhile.
///
/// Source: the slot tables of NFS 4.1 sessions (RFC 8881, section 2.10.6.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct ClientTag {
    /// The front-end session, random; 0 is "no client" (internal operations).
    pub session: u64,
    /// From the highest bit: the slot (12 bits), its turn (31 bits), the part of the request (21 bits).
    pub number: u64,
}

impl ClientTag {
    /// Slots of a session, at most.
    pub const SLOTS_MAX: u32 = 1 << 12;
    /// Turns of a slot are below it.
    pub const TURNS_MAX: u32 = 1 << 31;
    /// Consecutive blocks whose parts have different names: a request may span so many.
    pub const PARTS_MAX: u64 = 1 << 21;

    /// Numbers of one slot.
    const SLOT_NUMBERS: u64 = Self::TURNS_MAX as u64 * Self::PARTS_MAX;

    /// The request that this slot of the session carries in this turn.
    ///
    /// # Panics
    /// When slot or turn are not below their bounds.
    pub fn request(session: u64, slot: u32, turn: u32) -> Self {
        assert!(slot < Self::SLOTS_MAX && turn < Self::TURNS_MAX, "slot {slot}, turn {turn}");
        Self { session, number: u64::from(slot) * Self::SLOT_NUMBERS + u64::from(turn) * Self::PARTS_MAX }
    }

    /// The part of the request that begins at the object's block `block`.
    pub fn part(self, block: u64) -> Self {
        match self.session {
            0 => Self::default(),
            session => Self { session, number: self.number - self.number % Self::PARTS_MAX + block % Self::PARTS_MAX },
        }
    }

    /// Its slot.
    pub fn slot(self) -> u32 {
        (self.number / Self::SLOT_NUMBERS) as u32
    }

    /// The turn of its slot.
    pub fn turn(self) -> u64 {
        self.number % Self::SLOT_NUMBERS / Self::PARTS_MAX
    }

    /// All requests that its slot carries, with their parts.
    pub fn of_slot(self) -> RangeInclusive<Self> {
        let first = self.number - self.number % Self::SLOT_NUMBERS;
        Self { number: first, ..self }..=Self { number: first + (Self::SLOT_NUMBERS - 1), ..self }
    }

    /// Those that its slot carried before this one: they are answered, or will never be repeated.
    pub fn before(self) -> Range<Self> {
        let first = *self.of_slot().start();
        first..Self { number: self.number - self.number % Self::PARTS_MAX, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_holds_its_requests_and_their_parts_and_no_others() {
        let (slots, turns) = (ClientTag::SLOTS_MAX - 1, ClientTag::TURNS_MAX - 1);
        let parts = [0, 1, ClientTag::PARTS_MAX - 1];
        let all: Vec<ClientTag> = [0, 1, slots - 1, slots]
            .into_iter()
            .flat_map(|slot| [0, 1, turns - 1, turns].map(|turn| ClientTag::request(9, slot, turn)))
            .flat_map(|request| parts.map(|block| request.part(block)))
            .collect();
        assert!(all.is_sorted() && all.windows(2).all(|two| two[0] != two[1]), "by slot, turn and part");
        for tag in &all {
            let of_slot: Vec<_> = all.iter().filter(|t| tag.of_slot().contains(t)).collect();
            assert_eq!(of_slot.len(), 4 * parts.len());
            let before: Vec<_> = of_slot.iter().filter(|t| t.turn() < tag.turn()).collect();
            assert_eq!(before, of_slot.iter().filter(|t| tag.before().contains(t)).collect::<Vec<_>>());
            assert!(!tag.of_slot().contains(&ClientTag { session: 8, ..*tag }));
        }
    }

    #[test]
    fn numbers_of_operations_have_no_padding() {
        assert_eq!((size_of::<Epoch>(), size_of::<OpId>(), align_of::<OpId>()), (32, 40, 8));
    }

    #[test]
    fn a_part_is_named_by_its_block_and_nobodys_request_has_no_parts() {
        let request = ClientTag::request(9, 3, 4);
        assert_eq!(request.part(5 + ClientTag::PARTS_MAX), request.part(5));
        assert_eq!(request.part(5).part(6), request.part(6));
        assert_eq!(ClientTag::default().part(5), ClientTag::default());
    }
}
