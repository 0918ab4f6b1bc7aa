//! The messages: requests with a number, answers that repeat it, and what is sent without one.

use cairn_types::{
    Accepted, BlockRange, BlockStates, ClientTag, ComponentId, ComponentOp, Csn, DiskGroupId, Epoch, Feature, HostId,
    Level, ObjectId, OpId, RegionIndex, Run, SnapshotId,
};
use serde::{Deserialize, Serialize};

use crate::{
    AllocatedPiece, Facts, GuestRequest, Heartbeat, HeartbeatAnswer, HostAnswer, HostCommand, ObjectStatus,
    OwnerCommand, SeizeAnswer, Target,
};

/// A message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Message {
    /// Asks; answered once with the same number.
    Request {
        /// Unique among the sender's requests of one incarnation.
        id: u64,
        /// What is asked.
        request: Request,
    },
    /// Answers a request.
    Answer {
        /// Of the request.
        id: u64,
        /// The answer or a refusal.
        answer: Result<Answer, Refusal>,
    },
    /// Answers requests with [`Answer::Done`]: those of one group commit, as a rule.
    Done {
        /// Of the requests.
        ids: Vec<u64>,
    },
    /// A heartbeat.
    Heartbeat(Heartbeat),
    /// The answer to one.
    HeartbeatAnswer(HeartbeatAnswer),
    /// The owner settled operations while nothing else was to be sent.
    Settled {
        /// The component.
        to: Target,
        /// Every operation up to this one is decided.
        upto: OpId,
    },
    /// The owner gives the object up: its lease at this seat ends.
    Release {
        /// The seat's disk group.
        disk_group: DiskGroupId,
        /// The object.
        object: ObjectId,
        /// The epoch that ends.
        epoch: Epoch,
    },
    /// A heartbeat with facts ([`Feature::HeartbeatFacts`]).
    HeartbeatWith(Heartbeat, Facts),
}

impl Message {
    /// The level from which it may be sent: hosts of older builds do not read it.
    pub fn since(&self) -> Level {
        match self {
            Self::HeartbeatWith(..) => Feature::HeartbeatFacts.since(),
            Self::Request { request: Request::Read { by: ReadBy::Marks, .. }, .. } => Feature::BadMarks.since(),
            Self::Request { request: Request::Change { op, .. }, .. } if op.has_marks() => Feature::BadMarks.since(),
            Self::Request { request: Request::Change { op, .. } | Request::Exchange { op, .. }, .. }
                if op.has_rows() =>
            {
                Feature::ErasureCoding.since()
            }
            Self::Answer { answer: Ok(Answer::Data { runs }), .. } if runs.iter().any(Run::is_parity) => {
                Feature::ErasureCoding.since()
            }
            Self::Answer { answer: Ok(Answer::Data { runs }), .. } if runs.iter().any(Run::is_bad) => {
                Feature::BadMarks.since()
            }
            Self::Request { request: Request::Change { op, .. }, .. } if op.has_cuts() => Feature::Snapshots.since(),
            Self::Request {
                request:
                    Request::View { .. } | Request::ReadAt { .. } | Request::History { .. } | Request::FillHistory { .. },
                ..
            }
            | Self::Answer { answer: Ok(Answer::Changed(_)), .. } => Feature::Snapshots.since(),
            Self::Request { request: Request::Manage { command, .. }, .. } if command.is_of_snapshots() => {
                Feature::Snapshots.since()
            }
            Self::Request { request: Request::ManageHost { command }, .. } => {
                command.needs().map_or(Level::FIRST, Feature::since)
            }
            Self::Request { request: Request::Verify { .. } | Request::Compared { .. }, .. }
            | Self::Answer { answer: Ok(Answer::Verified(_)), .. } => Feature::CompareCopies.since(),
            Self::Request { .. }
            | Self::Answer { .. }
            | Self::Done { .. }
            | Self::Heartbeat(_)
            | Self::HeartbeatAnswer(_)
            | Self::Settled { .. }
            | Self::Release { .. } => Level::FIRST,
        }
    }
}

/// Who waits for a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReadBy {
    /// A guest.
    Guest,
    /// A resync: no guest waits for it.
    Resync,
    /// A resync, of blocks that no copy in sync could give: what cannot be read is answered as marks. Sent from [`Feature::BadMarks`] on.
    Marks,
}

/// What a copy is to tell of its blocks, to be compared with other copies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum VerifyBy {
    /// A digest of each region that the range touches: of those blocks of it that the range has.
    Digests,
    /// Each block, of one region at most.
    Blocks,
}

/// What a copy tells of its blocks. Another form, such as vectors of checksums, is another variant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Verified {
    /// By region, ascending ([`cairn_types::RegionDigest`]).
    Digests(Vec<u64>),
    /// By block.
    Blocks(BlockStates),
}

/// What is asked of a component's view at a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ViewAsk {
    /// Its blocks.
    Read,
    /// Which of them were allocated.
    Allocated,
    /// Which of them may differ from those at a later snapshot.
    ChangedUpTo(SnapshotId),
}

/// What may be asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {
    /// Do this to a component; the payload has the blocks of the operation.
    Change {
        /// The component.
        to: Target,
        /// What.
        op: ComponentOp,
    },
    /// Read blocks of a component.
    Read {
        /// The component.
        to: Target,
        /// Component-relative.
        range: BlockRange,
        /// Who waits for it.
        by: ReadBy,
    },
    /// Which regions were touched after an operation.
    Regions {
        /// The component.
        to: Target,
        /// After this one.
        after: OpId,
    },
    /// Which blocks are allocated.
    Allocated {
        /// The component.
        to: Target,
        /// Component-relative.
        range: BlockRange,
    },
    /// Whether a front-end request was carried out on these blocks.
    WasDone {
        /// The component.
        to: Target,
        /// The request.
        client: ClientTag,
    },
    /// Which front-end requests the component remembers.
    Clients {
        /// The component.
        to: Target,
    },
    /// Promise a newer epoch, and tell what is there.
    Seize {
        /// The seat's disk group.
        disk_group: DiskGroupId,
        /// The object.
        object: ObjectId,
        /// The seizer's epoch.
        epoch: Epoch,
        /// The components to admit anew; none means all. Those not named keep their session.
        only: Vec<ComponentId>,
        /// A majority has promised the sender already: another owner's lease here guards nothing any more.
        overrule: bool,
    },
    /// Accept a configuration.
    Accept {
        /// The seat's disk group.
        disk_group: DiskGroupId,
        /// Epoch, csn, base and config.
        accepted: Box<Accepted>,
    },
    /// Take a closed configuration that was decided without the seat since it promised the sender's epoch: what its log has forgotten
    /// matters no more, and it counts again.
    Tell {
        /// The seat's disk group.
        disk_group: DiskGroupId,
        /// The component that has all it needs: a witness, or a copy that was filled anew.
        component: ComponentId,
        /// Epoch, csn and config.
        accepted: Box<Accepted>,
    },
    /// Confirm a lease in the present session.
    Confirm {
        /// The seat's disk group.
        disk_group: DiskGroupId,
        /// The object.
        object: ObjectId,
        /// The owner's epoch.
        epoch: Epoch,
    },
    /// Make a component, nascent.
    CreateComponent {
        /// Where.
        disk_group: DiskGroupId,
        /// Its id.
        component: ComponentId,
        /// Its object.
        object: ObjectId,
        /// Blocks, 0 for a witness.
        size_blocks: u64,
        /// Blocks set aside for it.
        reserved_blocks: u64,
    },
    /// Remove a component, and the object's record when it was its last here. The seat checks the right to.
    DeleteComponent {
        /// Where.
        disk_group: DiskGroupId,
        /// Which.
        component: ComponentId,
        /// Its object.
        object: ObjectId,
    },
    /// The highest record that the host has of an object, over its disk groups.
    WhoHas {
        /// The object.
        object: ObjectId,
    },
    /// A guest's request to the owner.
    Guest {
        /// The object.
        object: ObjectId,
        /// What.
        request: GuestRequest,
    },
    /// Give the object up, so that the sender may seize it at once (attach, live migration).
    HandOver {
        /// The object.
        object: ObjectId,
        /// Also while a front end of the owner's host has it open.
        force: bool,
    },
    /// Become owner of the object: an administrator attaches it to the receiver's host.
    Attach {
        /// The object.
        object: ObjectId,
    },
    /// Management work for one host.
    ManageHost {
        /// The command.
        command: HostCommand,
    },
    /// An owner's management work.
    Manage {
        /// The object.
        object: ObjectId,
        /// The command.
        command: OwnerCommand,
    },
    /// What the copy holds, by index and map: no block is read. Sent from [`Feature::CompareCopies`] on.
    Verify {
        /// The component.
        to: Target,
        /// Component-relative.
        range: BlockRange,
        /// In which form.
        by: VerifyBy,
    },
    /// What the owner found as it compared the copies of these blocks. Sent from [`Feature::CompareCopies`] on.
    Compared {
        /// The component.
        to: Target,
        /// Here it held an earlier state, and was repaired.
        repaired: Vec<BlockRange>,
        /// Here copies differ, and nothing tells which of them is right.
        undecided: Vec<BlockRange>,
    },
    /// As [`Self::Change`], and tell what was in its blocks before: the answer has that as [`Answer::Data`]. Sent from
    /// [`Feature::ErasureCoding`] on.
    Exchange {
        /// The component.
        to: Target,
        /// What.
        op: ComponentOp,
    },
    /// Look at what a component held at a snapshot. Nobody's epoch is asked for, as that does not change: the seat answers where its own record
    /// says that the component has it. Sent from [`Feature::Snapshots`] on, as all that follow.
    View {
        /// The seat's disk group.
        disk_group: DiskGroupId,
        /// The component.
        component: ComponentId,
        /// Which snapshot.
        snapshot: SnapshotId,
        /// Component-relative.
        range: BlockRange,
        /// What of it.
        ask: ViewAsk,
    },
    /// Read what a component held at a snapshot, for a copy that is filled.
    ReadAt {
        /// The component.
        to: Target,
        /// Which snapshot.
        snapshot: SnapshotId,
        /// Component-relative.
        range: BlockRange,
        /// Whether what cannot be read is answered as marks.
        marks: bool,
    },
    /// Which blocks may have changed from each of these snapshots to the next, and from the last to now.
    History {
        /// The component.
        to: Target,
        /// Which, in the order of their cuts.
        snapshots: Vec<SnapshotId>,
        /// Component-relative.
        range: BlockRange,
    },
    /// Take over what another copy held at a snapshot; the payload has the blocks.
    FillHistory {
        /// The component.
        to: Target,
        /// Which snapshot.
        snapshot: SnapshotId,
        /// The first block.
        first_block: u64,
        /// What the source held from there on.
        runs: Vec<Run>,
    },
}

/// What is answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    /// Done, and durable where the request writes.
    Done,
    /// Blocks, or a guest's bytes, in the payload.
    Data {
        /// In order.
        runs: Vec<Run>,
    },
    /// Regions with the highest operation that touched each.
    Regions(Vec<(RegionIndex, OpId)>),
    /// Allocation, in order.
    Allocated(Vec<AllocatedPiece>),
    /// Whether it was carried out.
    WasDone(bool),
    /// Requests that were, each with its operation, oldest first.
    Clients(Vec<(ClientTag, OpId)>),
    /// To Seize.
    Seize(SeizeAnswer),
    /// To WhoHas.
    Record {
        /// The newest epoch promised by any of the host's seats.
        promised: Epoch,
        /// The highest accepted record.
        accepted: Option<Box<Accepted>>,
        /// The host's seats of this object that hold a component.
        disk_groups: Vec<DiskGroupId>,
        /// The owner that the host knows to hold a lease now.
        owner: Option<HostId>,
    },
    /// To ManageHost.
    Managed(Box<HostAnswer>),
    /// To Manage: the object after the command.
    Status(Box<ObjectStatus>),
    /// To Verify.
    Verified(Verified),
    /// To History, for each snapshot; to a view, one list: blocks that may have changed, ascending.
    Changed(Vec<Vec<BlockRange>>),
}

/// Why a request was not carried out. It left no trace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Refusal {
    /// A newer epoch was promised: the sender is no longer the owner.
    Fenced {
        /// Which.
        promised: Epoch,
    },
    /// A higher configuration was accepted under the same epoch.
    Stale {
        /// Which.
        csn: Csn,
    },
    /// The component was admitted anew since: the sender must seize again.
    Session,
    /// No room on the device.
    NoSpace,
    /// These blocks cannot be read (bad checksum or medium): read another copy, then write them anew.
    BadBlocks(Vec<BlockRange>),
    /// The disk group or its device takes no requests until it is reopened or replaced.
    Media(String),
    /// Nothing of that id here.
    NotFound,
    /// Not the owner; perhaps this host is.
    NotOwner(Option<HostId>),
    /// A request that makes no sense here.
    Invalid(String),
    /// The object cannot be served now; tells what it waits for.
    Inaccessible(String),
    /// Asked and not answered: the connection ended or the peer fell silent. Never sent; made by the sender's side.
    Lost,
}

#[cfg(test)]
mod tests {
    use cairn_types::{BlockState, Epoch, KeptBlocks, SessionId};

    use cairn_api::v1;

    use super::*;
    use crate::{Api, ComponentSpace};

    /// Goal: hosts of the release before are never asked to compare. Method: each message of it has the level of the feature, and reads back.
    #[test]
    fn what_compares_copies_has_a_level_and_reads_back() {
        let to = Target {
            disk_group: DiskGroupId(1),
            component: ComponentId(2),
            epoch: Epoch::default(),
            session: SessionId::default(),
        };
        let op = OpId { epoch: Epoch { number: 3, ..Epoch::default() }, seq: 4 };
        let range = BlockRange::new(256, 512);
        let blocks = vec![
            BlockState::Zeroes { op: None },
            BlockState::Zeroes { op: Some(op) },
            BlockState::Data { crc: 5, op },
            BlockState::Lost { crc: 6 },
        ];
        let verified = |verified| Message::Answer { id: 1, answer: Ok(Answer::Verified(verified)) };
        let request = |request| Message::Request { id: 1, request };
        let messages = [
            request(Request::Verify { to, range, by: VerifyBy::Digests }),
            request(Request::Verify { to, range, by: VerifyBy::Blocks }),
            request(Request::Compared { to, repaired: vec![range], undecided: Vec::new() }),
            verified(Verified::Digests(vec![7, u64::MAX])),
            verified(Verified::Blocks(BlockStates { touched: op, blocks })),
        ];
        for message in messages {
            assert_eq!(message.since(), Feature::CompareCopies.since(), "{message:?}");
            assert_eq!(crate::decode(&crate::encode(&message)).as_ref(), Ok(&message));
        }
    }

    /// Goal: hosts of the release before are never asked for snapshots. Method: each message of them has the level of the feature, and reads
    /// back.
    #[test]
    fn what_is_of_snapshots_has_a_level_and_reads_back() {
        let (disk_group, component, snapshot) = (DiskGroupId(1), ComponentId(2), SnapshotId(u64::MAX));
        let to = Target { disk_group, component, epoch: Epoch::default(), session: SessionId::default() };
        let range = BlockRange::new(1 << 30, 512);
        let cuts = ComponentOp::Cuts { at: OpId::ZERO, settled: OpId::ZERO, cuts: vec![(snapshot, OpId::ZERO)] };
        let command = |command| Request::Manage { object: ObjectId(3), command };
        let requests = [
            Request::Change { to, op: cuts },
            Request::View { disk_group, component, snapshot, range, ask: ViewAsk::ChangedUpTo(SnapshotId(1)) },
            Request::ReadAt { to, snapshot, range, marks: true },
            Request::History { to, snapshots: vec![snapshot], range },
            Request::FillHistory { to, snapshot, first_block: 7, runs: vec![Run::Hole { blocks: 3 }] },
            command(OwnerCommand::TakeSnapshot {
                id: snapshot,
                name: "a".into(),
                created_unix_ms: 1,
                held: Some(2),
                locked_for_ms: 3,
                slot_unix_s: Some(4),
            }),
            command(OwnerCommand::LockSnapshot { id: snapshot, for_ms: 5 }),
            command(OwnerCommand::Hold { number: 2, for_ms: 2000 }),
            command(OwnerCommand::RollBack { id: snapshot, number: 1 }),
            command(OwnerCommand::DeleteSnapshot { id: snapshot }),
            command(OwnerCommand::Rename { name: "vm-2".into() }),
            Request::ManageHost { command: HostCommand::Space { disk_group, component, from_block: 1 << 26 } },
        ];
        let asked = requests.map(|request| Message::Request { id: 1, request });
        let told = Message::Answer { id: 1, answer: Ok(Answer::Changed(vec![vec![range], Vec::new()])) };
        for message in asked.into_iter().chain([told]) {
            assert_eq!(message.since(), Feature::Snapshots.since(), "{message:?}");
            assert_eq!(crate::decode(&crate::encode(&message)).as_ref(), Ok(&message));
        }
        let settings =
            Api(v1::DiskGroupSettings { compression: Some(true), deduplication: Some(false), rewrite: None });
        let set = Request::ManageHost { command: HostCommand::SetGroup { disk_group, settings } };
        let message = Message::Request { id: 1, request: set };
        assert_eq!(message.since(), Feature::Compression.since());
        assert_eq!(crate::decode(&crate::encode(&message)).as_ref(), Ok(&message));
        let kept = KeptBlocks { needed: 5, by_one: [(snapshot, 3)].into(), unneeded: 1 };
        let space = ComponentSpace { head_blocks: 1 << 26, reserved_blocks: 0, kept, next_block: Some(7) };
        let message = Message::Answer { id: 1, answer: Ok(Answer::Managed(Box::new(HostAnswer::Space(space)))) };
        assert_eq!(crate::decode(&crate::encode(&message)).as_ref(), Ok(&message));
    }
}
