//! What a seat takes, with a disk group that only counts what it is asked to write down.

use std::rc::Rc;

use super::*;
use crate::local_store::counting::{Counting, accepted};

/// Goal: what a disk group refuses to write down, its seat has not taken either. Method: a record of more members than there is room for.
#[test]
fn a_record_that_is_too_large_changes_nothing() {
    let first = accepted(1, 3);
    let store = Counting { most: record_bytes(&first) + 100, appended: Rc::default(), record: None };
    let seat = SeatRecord { object: ObjectId(1), promised: first.epoch, accepted: None };
    let mut group = Group {
        store: store.clone(),
        unreadable: BTreeSet::new(),
        seats: BTreeMap::from([(ObjectId(1), seat)]),
        admitted: BTreeMap::new(),
        refilled: BTreeSet::new(),
        in_sync: BTreeSet::new(),
    };
    assert!(group.take(first.clone(), cairn_record::accept).is_ok());
    let refused = group.take(accepted(2, 30), cairn_record::accept);
    assert!(matches!(refused, Err(Refusal::Invalid(why)) if why.contains("a record of")));
    assert_eq!(group.seats[&ObjectId(1)].accepted, Some(first));
    assert_eq!(store.appended.get(), 1);
    assert!(group.take(accepted(2, 4), cairn_record::accept).is_ok(), "the number was not used up");
}
