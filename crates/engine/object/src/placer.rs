//! Where components go: what an owner asks of the room that knows the cluster.

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

/// Finds places for components. `node` answers from the cluster picture.
pub trait Placer {
    /// Where the replacement of `lost` goes, or why there is no place.
    fn replace(&self, config: &ObjectConfig, lost: ComponentId) -> Result<MemberChange, String>;
    /// What an object lacks of its policy, as it was made by force or its policy became stricter; none where it lacks nothing.
    fn complete(&self, config: &ObjectConfig) -> Result<Option<MemberChange>, String>;
    /// The next step of what is to be moved; a move is begun only where it `may_begin` now.
    fn next_move(&self, config: &ObjectConfig, may_begin: bool) -> NextMove;
    /// What an object needs to grow.
    fn extend(&self, config: &ObjectConfig, size_bytes: u64) -> Result<MemberChange, String>;
    /// Whether the host was forgotten: what it holds is away for good, however short it has been.
    fn is_forgotten(&self, host: HostId) -> bool;
    /// Whether so many hosts vanished that it must be the network: then nothing is rebuilt.
    fn many_hosts_gone(&self) -> bool;
}
