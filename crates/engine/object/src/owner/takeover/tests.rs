//! What an owner asks of seats, with a disk group that only counts what it is asked to write down.

use std::cell::Cell;

use cairn_sim::World;
use cairn_types::{DiskGroupId, ObjectId, SeatRecord};

use super::*;
use crate::{
    leases::{LeaseOptions, Leases},
    local_store::counting::{Counting, accepted},
    options::ObjectOptions,
    rpc::Rpc,
    seats::Seats,
};

/// What came of a change from three members to so many, on a disk group that takes records of `most` bytes; with it how
/// often something came into effect, and how often the disk group was asked to write something down.
fn grown_to(members: u128, most: usize) -> (Result<Csn, ChangeError>, u32, usize) {
    let world = World::new(1);
    let host = world.add_host("h1");
    let env = host.env();
    let of = |members| {
        let mut record = accepted(1, members);
        record.config.members.iter_mut().for_each(|member| {
            (member.host, member.disk_group) = (env.host(), DiskGroupId(1));
        });
        record
    };
    let (base, target) = (of(3), of(members).config);
    let seat = SeatRecord { object: ObjectId(1), promised: base.epoch, accepted: Some(base.clone()) };
    let store = Counting { most, appended: Rc::default(), record: Some(seat), components: Vec::new() };
    let rpc = Rpc::new(env.clone());
    let leases = Leases::new(env.clone(), rpc.clone(), LeaseOptions::default());
    let seats = Seats::new(env.clone(), leases.clone());
    seats.add_disk_group(store.clone());
    let context = Context::new(env, rpc, seats, leases, ObjectOptions::default());
    let ran = host.run(async move {
        let effective = Cell::new(0);
        let count = |_, _| effective.set(effective.get() + 1);
        let changed = change_config(&context, base.epoch, base.csn, &base.config, target, count).await;
        (changed, effective.get())
    });
    let (changed, effective) = ran.expect("nothing crashes here");
    (changed, effective, store.appended.get())
}

/// Goal: a change that no seat could write down is refused before one is asked: asked in vain, the owner would end in
/// doubt. Method: members are added, on a disk group with room for what was and for what shall be, and not for both in
/// one record, as it is in the midst of the change; then with room for both.
#[test]
fn a_change_whose_record_is_too_large_asks_no_seat() {
    let (before, after) = (record_bytes(&accepted(1, 3)), record_bytes(&accepted(2, 9)));
    let (changed, effective, appended) = grown_to(9, after + before / 2);
    assert!(
        matches!(&changed, Err(ChangeError::Illegal(why)) if why.contains("the record of the change has")),
        "{changed:?}"
    );
    assert_eq!((effective, appended), (0, 0));
    assert_eq!(grown_to(9, after + before), (Ok(Csn(3)), 1, 2), "an open record, and a closed one");
}
