//! Where components go: what an owner asks of the room that knows the cluster.

use cairn_types::{ComponentId, Member, ObjectConfig};

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

/// Finds places for components. `node` answers from the cluster picture.
pub trait Placer {
    /// Where the replacement of `lost` goes, or why there is no place.
    fn replace(&self, config: &ObjectConfig, lost: ComponentId) -> Result<MemberChange, String>;
    /// What an object lacks of its policy, as it was made by force or its policy became stricter; none where it lacks nothing.
    fn complete(&self, config: &ObjectConfig) -> Result<Option<MemberChange>, String>;
    /// What an object needs to grow.
    fn extend(&self, config: &ObjectConfig, size_bytes: u64) -> Result<MemberChange, String>;
    /// Whether so many hosts vanished that it must be the network: then nothing is rebuilt.
    fn many_hosts_gone(&self) -> bool;
}
