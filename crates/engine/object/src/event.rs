//! What happened to objects, for the log and the time line of a host.

use cairn_types::{ComponentId, DiskGroupId, Epoch, HostId, ObjectId, ReplicaSetIndex};

/// What happened, for the log and the time line.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)] // the line of each variant tells what its fields are
pub enum ObjectEvent {
    /// This host became owner.
    Owned { object: ObjectId, name: String, epoch: Epoch },
    /// It is owner no longer.
    GivenUp { object: ObjectId, name: String, why: String },
    /// A component's state changed.
    Component { object: ObjectId, name: String, component: ComponentId, host: HostId, now: String },
    /// A part of a disk goes over to another layout: what is so now.
    Converted { object: ObjectId, name: String, blocks: u64, now: String },
    /// A resync ended.
    Resynced { object: ObjectId, name: String, component: ComponentId, bytes: u64 },
    /// All else is copied to a component that is being filled, and these blocks of its replica set no copy in sync can give: it waits
    /// until they are written, or a copy that has them is in sync. The first of them counts within the set.
    ResyncWaits {
        object: ObjectId,
        name: String,
        component: ComponentId,
        set: ReplicaSetIndex,
        first_block: u64,
        blocks: u64,
    },
    /// A component that is being filled took marks for these blocks, which no copy in sync could give: it is about to be in sync, and they
    /// are errors until they are written, or a copy comes back that has them.
    Marked { object: ObjectId, name: String, component: ComponentId, blocks: u64 },
    /// What a disk is about to do waits, as not all of it can be read or written now: it goes on when it can.
    Waits { object: ObjectId, name: String, doing: &'static str, why: String },
    /// A request was repeated that had been carried out before: its guest was answered, and nothing was done again.
    DoneBefore { object: ObjectId },
    /// A message of this host arrived with other blocks than it sent; it counts as lost.
    ArrivedChanged { from: HostId },
    /// Blocks that no copy could give: the guest gets an error. Once for each block.
    Unreadable { object: ObjectId, name: String, blocks: u64, copies: Vec<(HostId, DiskGroupId)> },
    /// Members of rows do not fit each other, though each block is sound by itself: nothing is made of these blocks. They are errors until they
    /// are written, or a member comes back that has them. Once for each block.
    RowDisagrees { object: ObjectId, name: String, blocks: u64, members: Vec<(HostId, DiskGroupId)> },
    /// A bad block was repaired from a good copy.
    Repaired { object: ObjectId, component: ComponentId, blocks: u32 },
    /// A copy held an earlier state of these blocks than another one, though each was sound by itself: it had lost what was written since. It
    /// was repaired.
    Older { object: ObjectId, name: String, component: ComponentId, copy: (HostId, DiskGroupId), blocks: u64 },
    /// Copies hold these blocks otherwise, each sound by itself, and nothing tells which is right: they stay as they are.
    Undecided { object: ObjectId, name: String, blocks: u64, copies: Vec<(HostId, DiskGroupId)> },
}
