//! Deliberate bugs, to test the tests: with the feature `canaries` one of them can be switched on for a thread.
//!
//! Promises    without the feature every question is answered `false` at compile time: nothing of a bug is in what users run
//! Source      the canaries of TigerBeetle's simulator; mutation testing by hand, at the places where it hurts
//! Not here    who must catch them (`crates/check/cluster`)

/// A bug that the simulator must catch. Each is a mistake that an implementation of this design could well make.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Canary {
    /// The log is written without waiting for stable media.
    AckBeforeFlush,
    /// A metadata transaction refers to capacity segments that were not flushed.
    SegmentsNotFlushed,
    /// The last batch of the log is believed although its data is torn.
    TornTailBelieved,
    /// A last batch of the log with a flipped bit is taken for one that power cut short.
    TornBelievedOverSound,
    /// An operation that is not settled is folded into the map at destage.
    UnsettledFolded,
    /// Blocks are read without a look at their checksums.
    ChecksumUnread,
    /// A slot that lost its reference stays counted as in use.
    SlotNotFreed,
    /// A segment is free again while the transaction that left it is not durable.
    SegmentReusedEarly,
    /// A metadata transaction names pages of the block map that were not flushed.
    PagesNotFlushed,
    /// The place of a page of the block map is used again while the transaction that left it is not durable.
    PlaceReusedEarly,
    /// Changes of the block map are dropped while a shard that they touched was not folded.
    ChangesDroppedEarly,
    /// What earlier changes said of a shard that is gone counts.
    RangeForgotten,
    /// Slots that a record of the log names may be written over before destage has handed them to the map.
    PlacedNotHeld,
    /// Undo answers without doing anything.
    UndoForgotten,
    /// A write is acknowledged when the first copy has it.
    AckFirstCopy,
    /// A copy that missed a write is not recorded absent before the acknowledgement.
    AbsenceNotRecorded,
    /// A component takes I/O of any epoch and session.
    EpochUnchecked,
    /// Reads are answered without a lease.
    LeaseUnchecked,
    /// What is new of a disk that grows takes no writes, and acknowledges them.
    LegMissing,
    /// A read of a block that the copies in sync have lost fails at once, though another copy may come.
    CopyNotAwaited,
    /// A component that is being filled is read like one in sync.
    ResyncingRead,
    /// A delta resync leaves out one region.
    RegionForgotten,
    /// A component is active before operations begun meanwhile have reached it.
    NoBarrier,
    /// A snapshot counts as taken though one of the copies was not told.
    CutMissed,
    /// A copy that is filled is not brought what the disk held at its snapshots.
    HistoryForgotten,
    /// A copy that comes back is not told which snapshots there are.
    ListNotLevelled,
    /// A copy that is filled keeps the history that it made by itself of blocks that were out of date.
    StaleHistoryKept,
    /// What a snapshot needs is told by the operation of what is replaced: what a resync brought, which has a fresh number, is not kept.
    KeptByOperation,
    /// A snapshot does not learn that a block was a hole.
    HoleNotKept,
    /// A version in the log that a snapshot views is dropped when a newer one is settled.
    ViewedVersionDropped,
    /// When a snapshot goes, history goes that serves those before it.
    SweptTooMuch,
    /// Going back to a snapshot leaves out some of what changed.
    RollbackSkips,
    /// A request to go back that is repeated has the disk go back once more.
    BackTwice,
    /// What is packed is unpacked for good though guests were promised the room.
    UnpacksUnasked,
    /// A block that is repaired hides what its copies have not destaged of snapshots.
    RepairHidesHistory,
    /// What a guest trims of a clone shows what the parent has there.
    TrimShowsParent,
    /// A snapshot with clones can be deleted.
    PinForgotten,
    /// A clone that is flattened lets its parents go before all is copied.
    FlattenSkips,
    /// Half of the votes count as a majority.
    HalfIsMajority,
    /// After an owner's death whatever any copy holds stands where it is.
    NothingUndone,
    /// After an owner's death all that was not settled is undone.
    AllUndone,
    /// A request that is repeated is carried out again.
    RetryTwice,
    /// Copies remember outcomes whose clients have their answers, and have no room for the others.
    AnsweredKept,
    /// Overlapping operations do not wait for each other.
    NoRangeLock,
    /// A promise is answered before it is durable.
    PromiseNotDurable,
    /// What was replaced is not removed when its host comes back.
    ReplacedKept,
    /// A host that restarts grants its leases anew at once.
    NoGrace,
    /// A configuration change that a majority accepted is not taken up by the next owner.
    ChangeDropped,
    /// A seat whose log is damaged or of an earlier time counts towards the majority of a new owner.
    ForgetfulVotes,
    /// A copy in sync is believed that lacks a decided write which another one has.
    YoungImageBelieved,
    /// Who waits for a host's answer waits on when that host is gone.
    CallsNotGivenUp,
    /// Each process of a host numbers its calls from the beginning.
    NumbersReused,
    /// A host starts with nothing of the directory but what the directory tells it.
    LocalCopyIgnored,
    /// Copies that nobody uses count as they did when they were last used.
    RestUnseen,
    /// Blocks that changed on their way from another host are believed.
    ChangedBelieved,
    /// What cannot be placed is refused without a word of who is missing.
    RefusalUnexplained,
    /// A host takes the cluster for the highest level that it speaks itself.
    LevelRaisedAlone,
    /// What is moved goes before its twin is in sync.
    UnwantedIsSource,
    /// Of copies that are asked for no more one in sync goes, though another one is not.
    WrongCopyGoes,
    /// A scrub compares blocks with the checksums of the run that stands in their place, not with those of the map.
    ScrubTrustsHeaders,
    /// What a host says that was removed or forgotten is heard.
    GoneHeard,
    /// A mark of a block whose bytes are lost is read as zeroes.
    MarkForgotten,
    /// A slow disk group is emptied while another one is.
    SlowAllAtOnce,
    /// Digests by which copies are compared leave out what the blocks hold.
    DigestBlind,
    /// Of two copies that differ the earlier state is taken for the later one.
    OlderCopyWins,
    /// Operations on one position of a row do not wait for each other.
    PositionNotLocked,
    /// A part of a row is made from other members while others write to that row.
    RowNotLocked,
    /// A member of rows tells what it holds after a write, as what it held before.
    OldAfterNew,
    /// Trims of a part of a row leave its parity as it is.
    TrimKeepsParity,
    /// After an owner's death an operation on rows stands where any member in sync has it.
    ParityIgnored,
    /// What is made of a row is not compared with what its parity says of it.
    RowCheckUnread,
    /// Parity that is known not to fit its row is brought on by differences.
    UnlikeBroughtOn,
    /// What guests change in a part that goes over to another layout is not repeated there.
    ShadowForgotten,
    /// A guest's change that nobody waits for any more is not missed by a part that goes over to another layout.
    ShadowNotOwed,
    /// What a part that goes over to another layout was filled with is proven by nobody.
    CopiesProveNothing,
    /// A part goes over to another layout while guests' changes of it are under way.
    SwapEarly,
    /// A schedule's snapshots are called by when a host began the run, not by when that was due.
    ScheduleRunsTwice,
    /// An owner deletes a snapshot that is locked.
    LockIgnored,
    /// A disk group that packs takes what has no room as if all of it packed.
    RegimeIgnored,
    /// A request that is repeated after its blocks went over to another layout is not asked for by the parts that it had before.
    RetryByNewSplit,
    /// Blocks whose fingerprints agree are taken for equal.
    HitUncompared,
    /// A block refers to one that it was compared with, though that was given up, or its segment cleaned, meanwhile.
    HitUnpinned,
    /// A block that gets a second reference keeps its first one as it was.
    OwnerStaysPlain,
    /// Where the cleaner moved an item with several references is not kept.
    MovedForgotten,
    /// The count of an item stays as it was when one of its references goes.
    CountKept,
}

impl Canary {
    /// All of them.
    pub const ALL: [Self; 85] = [
        Self::AckBeforeFlush,
        Self::SegmentsNotFlushed,
        Self::TornTailBelieved,
        Self::TornBelievedOverSound,
        Self::UnsettledFolded,
        Self::ChecksumUnread,
        Self::SlotNotFreed,
        Self::SegmentReusedEarly,
        Self::PagesNotFlushed,
        Self::PlaceReusedEarly,
        Self::ChangesDroppedEarly,
        Self::RangeForgotten,
        Self::PlacedNotHeld,
        Self::UndoForgotten,
        Self::AckFirstCopy,
        Self::AbsenceNotRecorded,
        Self::EpochUnchecked,
        Self::LeaseUnchecked,
        Self::LegMissing,
        Self::CopyNotAwaited,
        Self::ResyncingRead,
        Self::RegionForgotten,
        Self::CutMissed,
        Self::HistoryForgotten,
        Self::RollbackSkips,
        Self::BackTwice,
        Self::UnpacksUnasked,
        Self::RepairHidesHistory,
        Self::RegimeIgnored,
        Self::TrimShowsParent,
        Self::PinForgotten,
        Self::FlattenSkips,
        Self::ListNotLevelled,
        Self::StaleHistoryKept,
        Self::KeptByOperation,
        Self::HoleNotKept,
        Self::ViewedVersionDropped,
        Self::SweptTooMuch,
        Self::NoBarrier,
        Self::HalfIsMajority,
        Self::NothingUndone,
        Self::AllUndone,
        Self::RetryTwice,
        Self::AnsweredKept,
        Self::NoRangeLock,
        Self::PromiseNotDurable,
        Self::ReplacedKept,
        Self::NoGrace,
        Self::ChangeDropped,
        Self::ForgetfulVotes,
        Self::YoungImageBelieved,
        Self::CallsNotGivenUp,
        Self::NumbersReused,
        Self::LocalCopyIgnored,
        Self::RestUnseen,
        Self::ChangedBelieved,
        Self::RefusalUnexplained,
        Self::LevelRaisedAlone,
        Self::UnwantedIsSource,
        Self::WrongCopyGoes,
        Self::ScrubTrustsHeaders,
        Self::GoneHeard,
        Self::MarkForgotten,
        Self::SlowAllAtOnce,
        Self::DigestBlind,
        Self::OlderCopyWins,
        Self::PositionNotLocked,
        Self::RowNotLocked,
        Self::OldAfterNew,
        Self::TrimKeepsParity,
        Self::ParityIgnored,
        Self::RowCheckUnread,
        Self::UnlikeBroughtOn,
        Self::ShadowForgotten,
        Self::ShadowNotOwed,
        Self::CopiesProveNothing,
        Self::SwapEarly,
        Self::ScheduleRunsTwice,
        Self::LockIgnored,
        Self::RetryByNewSplit,
        Self::HitUncompared,
        Self::HitUnpinned,
        Self::OwnerStaysPlain,
        Self::MovedForgotten,
        Self::CountKept,
    ];

    /// Whether this bug is to be made, here and now.
    #[cfg(not(feature = "canaries"))]
    #[inline(always)]
    pub const fn sings(self) -> bool {
        false
    }

    /// Whether this bug is to be made, here and now.
    #[cfg(feature = "canaries")]
    pub fn sings(self) -> bool {
        active::ACTIVE.get() == Some(self)
    }

    /// Switches one bug on for this thread, or all off.
    #[cfg(feature = "canaries")]
    pub fn set(canary: Option<Self>) {
        active::ACTIVE.set(canary);
    }
}

#[cfg(feature = "canaries")]
mod active {
    use std::cell::Cell;

    thread_local! {
        pub(super) static ACTIVE: Cell<Option<super::Canary>> = const { Cell::new(None) };
    }
}
