//! Where components go, who is gone, and what time it is: what an owner asks of the room that knows the cluster.

use std::collections::BTreeMap;

use cairn_types::{Addresses, ComponentId, HostId, Member, ObjectConfig};

/// A new set of members for an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberChange {
    /// All members of the new configuration.
    pub members: Vec<Member>,
    /// Those that are new.
    pub added: Vec<ComponentId>,
    /// Those that are gone.
    pub removed: Vec<ComponentId>,
}

/// What an object's moves ask for next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NextMove {
    /// Nothing is to be moved.
    Nothing,
    /// Something is, and waits: for a twin to be filled, for room, for its turn.
    Waits,
    /// A component gets a twin, or a witness another place.
    Begin(MemberChange),
    /// One of two that hold the same goes.
    End(MemberChange),
}

/// What a policy asks for next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PolicyStep {
    /// Nothing, or nothing that can be done now.
    Nothing,
    /// Copies, and what they need.
    Add(MemberChange),
    /// Copies, and what only they needed, are asked for no more.
    Drop(MemberChange),
}

/// New members for a part of a disk that goes over to another layout, and where the blocks of the disk are then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Converted {
    /// The members.
    pub change: MemberChange,
    /// The addresses.
    pub addresses: Addresses,
}

/// Components that administrators want elsewhere, and to which of these hosts; to any where none is named.
pub type AskedToMove = BTreeMap<ComponentId, Vec<HostId>>;

/// Finds places for components, and tells of other hosts. `node` answers from the cluster picture.
pub trait Placer {
    /// Where the replacement of `lost` goes, or why there is no place.
    fn replace(&self, config: &ObjectConfig, lost: ComponentId) -> Result<MemberChange, String>;
    /// What an object lacks of its policy, as it was made by force or its policy became stricter, or what it has too much of.
    fn meet_policy(&self, config: &ObjectConfig) -> PolicyStep;
    /// The next step of what is to be moved, as its hosts are being emptied or as it was `asked` for; a move is begun only where it
    /// `may_begin` now.
    fn next_move(&self, config: &ObjectConfig, asked: &AskedToMove, may_begin: bool) -> NextMove;
    /// Begins with the first part of an object that is not laid out as its policy asks. None: there is none.
    fn begin_conversion(&self, config: &ObjectConfig) -> Result<Option<Converted>, String>;
    /// What is under way takes the place of what was there. None: nothing is.
    fn end_conversion(&self, config: &ObjectConfig) -> Result<Option<Converted>, String>;
    /// What is under way is given up. None: nothing is.
    fn give_up_conversion(&self, config: &ObjectConfig) -> Option<Converted>;
    /// Whether all members of what is under way have been filled since it began.
    fn is_whole(&self, config: &ObjectConfig) -> bool;
    /// What an object needs to grow.
    fn extend(&self, config: &ObjectConfig, size_bytes: u64) -> Result<MemberChange, String>;
    /// Whether the host was forgotten: what it holds is away for good, however short it has been.
    fn is_forgotten(&self, host: HostId) -> bool;
    /// The time of the day in milliseconds since 1970, as most hosts have it: a clock that is set wrong on this one ends no lock. None: half of the hosts
    /// or fewer answer.
    fn day_unix_ms(&self) -> Option<u64>;
    /// Whether so many hosts vanished that it must be the network: then nothing is rebuilt.
    fn many_hosts_gone(&self) -> bool;
}
