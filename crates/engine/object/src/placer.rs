//! Where components go: what an owner asks of the room that knows the cluster.

use std::collections::BTreeMap;

use cairn_types::{ComponentId, HostId, Member, ObjectConfig};

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

/// Components that administrators want elsewhere, and to which of these hosts; to any where none is named.
pub type AskedToMove = BTreeMap<ComponentId, Vec<HostId>>;

/// Finds places for components. `node` answers from the cluster picture.
pub trait Placer {
    /// Where the replacement of `lost` goes, or why there is no place.
    fn replace(&self, config: &ObjectConfig, lost: ComponentId) -> Result<MemberChange, String>;
    /// What an object lacks of its policy, as it was made by force or its policy became stricter, or what it has too much of.
    fn meet_policy(&self, config: &ObjectConfig) -> PolicyStep;
    /// The next step of what is to be moved, as its hosts are being emptied or as it was `asked` for; a move is begun only where it
    /// `may_begin` now.
    fn next_move(&self, config: &ObjectConfig, asked: &AskedToMove, may_begin: bool) -> NextMove;
    /// What an object needs to grow.
    fn extend(&self, config: &ObjectConfig, size_bytes: u64) -> Result<MemberChange, String>;
    /// Whether the host was forgotten: what it holds is away for good, however short it has been.
    fn is_forgotten(&self, host: HostId) -> bool;
    /// Whether so many hosts vanished that it must be the network: then nothing is rebuilt.
    fn many_hosts_gone(&self) -> bool;
}
