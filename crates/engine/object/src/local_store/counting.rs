//! A disk group for tests that only counts what it is asked to write down, and records for it.

use std::{cell::Cell, future::ready, rc::Rc};

use bytes::Bytes;
use cairn_types::{
    Accepted, BlockRange, BlockStates, Change, ClientTag, ComponentId, ComponentState, Contents, Csn, DiskGroupId,
    Epoch, HostId, Layout, Member, ObjectConfig, ObjectId, OpId, Policy, Redundancy, RegionIndex, Role, SeatRecord,
    UnsettledOp,
};
use cairn_wire::{AllocatedPiece, DiskGroupSummary, Refusal};

use super::{LocalComponent, LocalStore};

/// One that takes records of `most` bytes, and counts what it was asked to write down.
#[derive(Clone)]
pub(crate) struct Counting {
    pub(crate) most: usize,
    pub(crate) appended: Rc<Cell<usize>>,
    /// What it holds when it is opened.
    pub(crate) record: Option<SeatRecord>,
    /// Components of the object.
    pub(crate) components: Vec<ComponentId>,
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
    fn read_marked(&self, _: ComponentId, _: BlockRange) -> impl Future<Output = Result<Contents, Refusal>> + 'static {
        ready(Err(Refusal::NotFound))
    }
    fn digests(&self, _: ComponentId, _: BlockRange) -> impl Future<Output = Result<Vec<u64>, Refusal>> + 'static {
        ready(Err(Refusal::NotFound))
    }
    fn block_states(
        &self,
        _: ComponentId,
        _: BlockRange,
    ) -> impl Future<Output = Result<BlockStates, Refusal>> + 'static {
        ready(Err(Refusal::NotFound))
    }
    fn compared(&self, _: ComponentId, _: &[BlockRange], _: &[BlockRange]) {}
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
    fn components_of(&self, object: ObjectId) -> Vec<LocalComponent> {
        let of = |c: &ComponentId| LocalComponent { component: *c, object, size_blocks: 0, lost: false };
        self.components.iter().map(of).collect()
    }
    fn record_bytes_max(&self) -> usize {
        self.most
    }
    fn records(&self) -> Vec<(ObjectId, Bytes)> {
        let of = |record: &SeatRecord| (record.object, cairn_format::encode_seat_record(record).into());
        self.record.iter().map(of).collect()
    }
    fn settled(&self, _: ComponentId) -> OpId {
        OpId::ZERO
    }
    fn last_written(&self, _: ComponentId) -> OpId {
        OpId::ZERO
    }
    fn last_written_with(&self, _: ComponentId) -> Vec<OpId> {
        Vec::new()
    }
    fn is_late(&self, _: ComponentId, _: OpId, _: BlockRange) -> bool {
        false
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

/// A closed record with so many members, all of them witnesses.
pub(crate) fn accepted(csn: u64, members: u128) -> Accepted {
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
        addresses: Layout {
            chunk_bytes: 1 << 20,
            stripe_width: 1,
            strip_bytes: 1 << 20,
            redundancy: Redundancy::Mirror { copies: 2 },
        }
        .into(),
        members: (1..=members).map(member).collect(),
        decided: OpId::ZERO,
        deleted: false,
        past: None,
        ancestry: None,
    };
    Accepted { epoch: Epoch { number: 1, ..Epoch::default() }, csn: Csn(csn), base: None, config }
}
