//! What a seat takes, with a disk group that only counts what it is asked to write down.

use std::rc::Rc;

use super::*;
use crate::local_store::counting::{Counting, accepted};

fn counting() -> Counting {
    Counting { most: 1 << 20, appended: Rc::default(), record: None, components: Vec::new() }
}

fn group_of(store: &Counting, seat: SeatRecord) -> Group<Counting> {
    Group {
        store: store.clone(),
        unreadable: BTreeSet::new(),
        seats: BTreeMap::from([(ObjectId(1), seat)]),
        admitted: BTreeMap::new(),
        refilled: BTreeSet::new(),
        vouched: Vouched::default(),
        in_sync: BTreeSet::new(),
        turns: rows::Turns::default(),
    }
}

/// Goal: a seat goes on a closed record above what it accepted that leaves it out, whatever it has promised, and on nothing less.
/// Method: the disk group is the first of three members of an open record of a growth; the next owner's closed record has the two
/// others; then each condition alone is taken away.
#[test]
fn a_seat_that_is_left_out_goes_whatever_it_promised() {
    let of = |members: std::ops::Range<usize>, number: u64, csn: u64| {
        let mut record = accepted(csn, 3);
        record.epoch.number = number;
        record.config.members = record.config.members[members].to_vec();
        record.config.members.iter_mut().for_each(|m| m.disk_group = DiskGroupId(m.component.0 >> 64));
        record
    };
    let grown = Accepted { base: Some(Box::new(of(1..3, 1, 1).config)), ..of(0..3, 1, 2) };
    let here = grown.config.members[0].component;
    let promised = Epoch { number: 9, ..Epoch::default() };
    let seat = SeatRecord { object: ObjectId(1), promised, accepted: Some(grown.clone()) };
    let store = Counting { components: vec![here], ..counting() };
    let next = of(1..3, 2, 2);

    let mut group = group_of(&store, seat.clone());
    assert!(group.take(next.clone(), cairn_record::learn).is_err(), "it has promised more");
    assert!(group.is_left_out(&next));
    let open = Accepted { base: Some(Box::new(next.config.clone())), ..next.clone() };
    assert!(!group.is_left_out(&open), "a change is open");
    assert!(!group.is_left_out(&of(1..3, 1, 2)), "what is not above what the seat accepted");
    assert!(!group.is_left_out(&of(0..3, 2, 2)), "the seat is a member");
    let newcomer = ComponentId(77);
    let admitting = Counting { components: vec![here, newcomer], ..counting() };
    assert!(!group_of(&admitting, seat.clone()).is_left_out(&next), "a component that may be about to be named");
    let unasked = SeatRecord { accepted: None, ..seat };
    assert!(!group_of(&store, unasked).is_left_out(&next), "no record names what is here");

    assert!(futures::FutureExt::now_or_never(group.remove_all(ObjectId(1))).expect("counts only").is_ok());
    assert!(group.seats.is_empty());
    assert_eq!(store.appended.get(), 2, "its component and its record");
}

/// Goal: what a disk group refuses to write down, its seat has not taken either. Method: a record of more members than there is room for.
#[test]
fn a_record_that_is_too_large_changes_nothing() {
    let first = accepted(1, 3);
    let store = Counting { most: record_bytes(&first) + 100, ..counting() };
    let mut group = group_of(&store, SeatRecord { object: ObjectId(1), promised: first.epoch, accepted: None });
    assert!(group.take(first.clone(), cairn_record::accept).is_ok());
    let refused = group.take(accepted(2, 30), cairn_record::accept);
    assert!(matches!(refused, Err(Refusal::Invalid(why)) if why.contains("a record of")));
    assert_eq!(group.seats[&ObjectId(1)].accepted, Some(first));
    assert_eq!(store.appended.get(), 1);
    assert!(group.take(accepted(2, 4), cairn_record::accept).is_ok(), "the number was not used up");
}
