//! Pending rows: what the metadata has of operations that were destaged before they were settled.
//!
//! Promises    a row of a mirror is what it was before there was parity
//! Not here    when a row is written and goes (`fold.rs`, `transaction.rs`), which bits of the superblock it needs (`append.rs`)

use cairn_types::{ClientTag, UnsettledOp};

use crate::{
    leaf::Spot,
    records::{Body, Place, Record},
    row_checks::RowChecks,
    rows::{PendingBody, PendingRow},
};

/// The row of a record, whose blocks stand in spots. `known`: the operation, unless it is settled meanwhile. `told_as_copy`: where it
/// came as a copy its row says so, as its component has cuts.
pub(crate) fn row_of(record: &Record, known: Option<&UnsettledOp>, told_as_copy: bool) -> PendingRow {
    let members = known.map_or(0, |known| known.members);
    let told = match &record.body {
        Body::Zero { keep_allocated } if members == 0 => PendingBody::Zero { keep_allocated: *keep_allocated },
        Body::Zero { keep_allocated } => PendingBody::ZeroRows { members, keep_allocated: *keep_allocated },
        Body::Data { place: Place::Spots(spots), crcs, row_checks } => {
            let (crcs, row_checks) = (crcs.to_vec(), row_checks.as_slice().to_vec());
            let slots: Option<Vec<u64>> = spots.iter().map(|spot| spot.slot()).collect();
            match (slots, members == 0 && row_checks.is_empty()) {
                (Some(slots), true) => PendingBody::Data { slots, crcs },
                (Some(slots), false) => PendingBody::Rows { members, slots, crcs, row_checks },
                (None, _) => {
                    let spots = spots.iter().map(|spot| spot.bits()).collect();
                    PendingBody::Spots { members, spots, crcs, row_checks }
                }
            }
        }
        Body::Data { place: Place::Log(_), .. } => unreachable!("a pending row has spots"),
    };
    let body = if record.is_copy && told_as_copy { PendingBody::Copied(Box::new(told)) } else { told };
    PendingRow {
        component: record.component,
        op: record.op,
        client: known.map_or_else(ClientTag::default, |known| known.client),
        position: record.position,
        range: record.range,
        body,
    }
}

/// What a row says.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Told {
    pub body: Body,
    /// Which members its operation concerns.
    pub members: u16,
    /// It came as a copy to a component that has cuts.
    pub is_copy: bool,
}

/// What a row says of so many blocks. None where it does not fit them.
pub(crate) fn body_of(body: PendingBody, blocks: usize) -> Option<Told> {
    match body {
        PendingBody::Copied(own) if matches!(*own, PendingBody::Copied(_)) => None,
        PendingBody::Copied(own) => Some(Told { is_copy: true, ..body_of(*own, blocks)? }),
        own => {
            let (body, members) = blocks_of(own, blocks)?;
            Some(Told { body, members, is_copy: false })
        }
    }
}

fn of_slots(slots: Vec<u64>) -> Option<Box<[Spot]>> {
    slots.into_iter().map(Spot::of_slot).collect()
}

fn blocks_of(body: PendingBody, blocks: usize) -> Option<(Body, u16)> {
    let data = |spots: Option<Box<[Spot]>>, crcs: Vec<u32>, row_checks: Vec<u32>| {
        let spots = spots?;
        let row_checks = RowChecks::new(row_checks.into());
        let whole = spots.len() == blocks && crcs.len() == blocks && row_checks.fits(blocks);
        whole.then(|| Body::Data { place: Place::Spots(spots), crcs: crcs.into(), row_checks })
    };
    Some(match body {
        PendingBody::Zero { keep_allocated } => (Body::Zero { keep_allocated }, 0),
        PendingBody::ZeroRows { members, keep_allocated } => (Body::Zero { keep_allocated }, members),
        PendingBody::Data { slots, crcs } => (data(of_slots(slots), crcs, Vec::new())?, 0),
        PendingBody::Rows { members, slots, crcs, row_checks } => (data(of_slots(slots), crcs, row_checks)?, members),
        PendingBody::Spots { members, spots, crcs, row_checks } => {
            let placeless = |bits| Spot::of_slot(bits).filter(|spot| !spot.is_place());
            // What is not settled shares nothing.
            let place = |bits| Spot::of_bits(bits).filter(|spot| !spot.is_shared());
            let spots = spots.into_iter().map(|bits| place(bits).or_else(|| placeless(bits))).collect();
            (data(spots, crcs, row_checks)?, members)
        }
        PendingBody::Copied(_) => return None,
    })
}

#[cfg(test)]
mod tests {
    use cairn_types::{BlockRange, ComponentId, OpId};
    use proptest::prelude::*;

    use super::*;
    use crate::pending_number::PendingNumber;

    fn spot() -> impl Strategy<Value = Spot> {
        let raw = (0u64..1 << 35).prop_map(Spot::raw);
        let packed =
            (0u64..1 << 38, 1u32..=6).prop_map(|(sector, sectors)| Spot::packed(sector, sectors).expect("it is one"));
        prop_oneof![4 => raw, 1 => packed, 1 => Just(Spot::NONE), 1 => Just(Spot::BAD)]
    }

    proptest! {
        /// Goal: what a record says of its blocks is what its row says, and a row of other lengths is none. Method: any sums, members and
        /// bodies; rows of mirrors are of the kinds that they were.
        #[test]
        fn rows_read_back(
            blocks in proptest::collection::vec((spot(), any::<u32>(), prop_oneof![Just(0u32), any::<u32>()]), 1..9),
            members in prop_oneof![Just(0u16), any::<u16>()],
            zero in any::<bool>(),
            is_copy in any::<bool>(),
        ) {
            let count = blocks.len();
            let body = match zero {
                true => Body::Zero { keep_allocated: count % 2 == 0 },
                false => Body::Data {
                    place: Place::Spots(blocks.iter().map(|block| block.0).collect()),
                    crcs: blocks.iter().map(|block| block.1).collect(),
                    row_checks: RowChecks::new(blocks.iter().map(|block| block.2).collect()),
                },
            };
            let range = BlockRange::new(7, count as u32);
            let (component, op, row) = (ComponentId(1), OpId::ZERO, Some(PendingNumber::new(0)));
            let record = Record { component, op, range, position: 9, body: body.clone(), is_copy, live: 0, row };
            let known = UnsettledOp { op, range, client: ClientTag { session: 3, number: 4 }, members };
            let cut = row_of(&record, Some(&known), true);
            prop_assert_eq!(matches!(cut.body, PendingBody::Copied(_)), is_copy);
            prop_assert_eq!(body_of(cut.body, count), Some(Told { body: body.clone(), members, is_copy }));
            let row = row_of(&record, Some(&known), false);
            prop_assert_eq!((row.client, row.position, row.range), (known.client, 9, range));
            let is_raw = blocks.iter().all(|block| !block.0.is_packed());
            let of_mirror = members == 0 && (zero || is_raw && blocks.iter().all(|block| block.2 == 0));
            prop_assert_eq!(matches!(row.body, PendingBody::Spots { .. }), !zero && !is_raw);
            prop_assert_eq!(matches!(row.body, PendingBody::Data { .. } | PendingBody::Zero { .. }), of_mirror);
            prop_assert!(zero || body_of(row.body.clone(), count + 1).is_none());
            prop_assert_eq!(body_of(row.body, count), Some(Told { body, members, is_copy: false }));
        }
    }
}
