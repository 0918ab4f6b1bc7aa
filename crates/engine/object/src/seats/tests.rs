//! What a seat takes, with a disk group that only counts what it is asked to write down.

use std::{cell::Cell, future::ready, rc::Rc};

use cairn_types::{
    BlockRange, Change, ClientTag, ComponentState, Contents, Csn, Layout, Member, ObjectConfig, OpId, Policy,
    RegionIndex, Role, UnsettledOp,
};
use cairn_wire::{AllocatedPiece, DiskGroupSummary};

use super::*;

#[derive(Clone)]
struct Counting {
    most: usize,
    appended: Rc<Cell<usize>>,
}

impl LocalStore for Counting {
    fn disk_group(&self) -> DiskGroupId {
        DiskGroupId(1)
    }
    fn append(&self, _: Change) -> impl Future<Output = Result<(), Refusal>> + 'static {
        self.appended.set(self.appended.get() + 1);
        ready(Ok(()))
    }
    fn refuse_waiting(&self, _: ComponentId) {}
    fn refuse_copies(&self, _: ComponentId) {}
    fn read(&self, _: ComponentId, _: BlockRange) -> impl Future<Output = Result<Contents, Refusal>> + 'static {
        ready(Err(Refusal::NotFound))
    }
    fn allocated(
        &self,
        _: ComponentId,
        _: BlockRange,
    ) -> impl Future<Output = Result<Vec<AllocatedPiece>, Refusal>> + 'static {
        ready(Err(Refusal::NotFound))
    }
    fn component(&self, _: ComponentId) -> Option<LocalComponent> {
        None
    }
    fn components_of(&self, _: ObjectId) -> Vec<LocalComponent> {
        Vec::new()
    }
    fn record_bytes_max(&self) -> usize {
        self.most
    }
    fn records(&self) -> Vec<(ObjectId, Bytes)> {
        Vec::new()
    }
    fn settled(&self, _: ComponentId) -> OpId {
        OpId::ZERO
    }
    fn last_written(&self, _: ComponentId) -> OpId {
        OpId::ZERO
    }
    fn window(&self, _: ComponentId) -> Vec<UnsettledOp> {
        Vec::new()
    }
    fn regions_after(&self, _: ComponentId, _: OpId) -> Vec<(RegionIndex, OpId)> {
        Vec::new()
    }
    fn was_done(&self, _: ComponentId, _: ClientTag) -> bool {
        false
    }
    fn recent_clients(&self, _: ComponentId) -> Vec<(ClientTag, OpId)> {
        Vec::new()
    }
    fn log_damaged(&self) -> bool {
        false
    }
    fn summary(&self) -> DiskGroupSummary {
        DiskGroupSummary {
            disk_group: DiskGroupId(1),
            open_count: 1,
            durable_position: 0,
            devices: Vec::new(),
            components: 0,
            witnesses: 0,
            healthy: true,
            failed_devices: 0,
        }
    }
}

fn accepted(csn: u64, members: u128) -> Accepted {
    let member = |n: u128| Member {
        component: ComponentId(n << 64),
        host: HostId(n << 64),
        disk_group: DiskGroupId(n << 64),
        votes: 1,
        role: Role::Witness,
        state: ComponentState::Active,
    };
    let config = ObjectConfig {
        object: ObjectId(1),
        name: "d".into(),
        size_bytes: 4096,
        policy: Policy::default(),
        policy_name: "default".into(),
        layout: Layout { chunk_bytes: 1 << 20, stripe_width: 1, strip_bytes: 1 << 20, copies: 2 },
        members: (1..=members).map(member).collect(),
        decided: OpId::ZERO,
        deleted: false,
    };
    Accepted { epoch: Epoch { number: 1, ..Epoch::default() }, csn: Csn(csn), base: None, config }
}

/// Goal: what a disk group refuses to write down, its seat has not taken either. Method: a record of more members than there is room for.
#[test]
fn a_record_that_is_too_large_changes_nothing() {
    let first = accepted(1, 3);
    let store = Counting { most: record_bytes(&first) + 100, appended: Rc::default() };
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
