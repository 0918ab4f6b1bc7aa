//! The object record: what the seats of an object hold and vote on.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::{
    Addresses, Ancestry, BLOCK_BYTES, ComponentId, Csn, DiskGroupId, Epoch, HostId, ObjectId, OpId, Parent, Past,
    Policy, Redundancy,
};

/// Which replica set of an object: chunk x stripe width + stripe.
pub type ReplicaSetIndex = u32;

/// The shape of an object: a concat of chunks, each spread over stripes.
///
/// Blocks of one (chunk, stripe) form a *replica set*: the components that hold the same bytes, or rows of strips with their parity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layout {
    /// Bytes of every chunk but the last, at most 255 GiB, a multiple of strip x width.
    pub chunk_bytes: u64,
    /// Replica sets side by side in one chunk, 1..=12.
    pub stripe_width: u32,
    /// Bytes that go to one replica set before the next: 1 MiB, or the least number of whole parity rows above that.
    pub strip_bytes: u32,
    /// What the members of a replica set hold for each other.
    pub redundancy: Redundancy,
}

/// What an object knows of one component.
///
/// Active -> Absent | Degraded; Absent -> Resyncing | Degraded; Resyncing -> Active | Absent | Degraded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ComponentState {
    /// In sync: every acknowledged write needs it, reads may use it.
    Active,
    /// Unreachable, may come back. Past the repair delay it is replaced.
    Absent {
        /// Every operation up to this one is decided on it.
        stale_since: OpId,
    },
    /// Being filled: takes new writes, serves no reads.
    Resyncing {
        /// Every operation up to this one is decided on it; kept until it is active.
        stale_since: OpId,
    },
    /// Lost for good: its device said so, or an administrator did.
    Degraded,
}

impl ComponentState {
    /// Whether reads may use the component and acknowledgements need it.
    pub fn in_sync(self) -> bool {
        matches!(self, Self::Active)
    }
    /// Whether new writes are sent to it.
    pub fn takes_writes(self) -> bool {
        matches!(self, Self::Active | Self::Resyncing { .. })
    }
}

/// What a component is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Role {
    /// One copy of one replica set.
    Data {
        /// Which replica set.
        set: ReplicaSetIndex,
        /// Its index among them, 0..[`Redundancy::members`]. Components of one index share fault domains where they can.
        copy: u32,
    },
    /// No data: holds the record and votes.
    Witness,
}

/// One component of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// Its id, never reused.
    pub component: ComponentId,
    /// The host that it lives on.
    pub host: HostId,
    /// The disk group that it lives on.
    pub disk_group: DiskGroupId,
    /// Votes, 0 or more.
    pub votes: u32,
    /// Data or witness.
    pub role: Role,
    /// In sync or not. A witness is Active or Absent; its state bears on nothing but repair.
    pub state: ComponentState,
}

/// The configuration of an object: the value that the register holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectConfig {
    /// The object.
    pub object: ObjectId,
    /// The name that administrators gave it; the directory's catalogue can be rebuilt from this.
    pub name: String,
    /// Bytes of the address space, a multiple of 512.
    pub size_bytes: u64,
    /// What it asks for.
    pub policy: Policy,
    /// The name of the policy that it was created with, for people.
    pub policy_name: String,
    /// Where its blocks are.
    pub addresses: Addresses,
    /// Every component.
    pub members: Vec<Member>,
    /// Every operation up to this one is decided on stable media of all in-sync components.
    pub decided: OpId,
    /// A tombstone: the object is gone, its components may be removed.
    pub deleted: bool,
    /// Its snapshots; none where it never had any.
    pub past: Option<Past>,
    /// Where it came from; none where it was not made of a snapshot.
    pub ancestry: Option<Ancestry>,
}

/// The place of one object's record: one per (object, disk group).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Seat {
    /// The host.
    pub host: HostId,
    /// The disk group.
    pub disk_group: DiskGroupId,
}

impl Member {
    /// The seat that carries this member's votes.
    pub fn seat(&self) -> Seat {
        Seat { host: self.host, disk_group: self.disk_group }
    }
    /// The replica set that it holds, if it holds data.
    pub fn set(&self) -> Option<ReplicaSetIndex> {
        match self.role {
            Role::Data { set, .. } => Some(set),
            Role::Witness => None,
        }
    }
    /// Its index in its replica set, if it holds data. A member that is being moved and its twin have the same one.
    pub fn copy(&self) -> Option<u32> {
        match self.role {
            Role::Data { copy, .. } => Some(copy),
            Role::Witness => None,
        }
    }
}

impl ObjectConfig {
    /// The seats of the object, each once, in order.
    pub fn seats(&self) -> Vec<Seat> {
        let mut seats: Vec<Seat> = self.members.iter().map(Member::seat).collect();
        seats.sort_unstable();
        seats.dedup();
        seats
    }
    /// Votes of the components at `seat`.
    pub fn votes_at(&self, seat: Seat) -> u32 {
        self.members.iter().filter(|m| m.seat() == seat).map(|m| m.votes).sum()
    }
    /// All votes.
    pub fn votes_total(&self) -> u32 {
        self.members.iter().map(|m| m.votes).sum()
    }
    /// The members that hold replica set `set`, in order of copy.
    pub fn replica_set(&self, set: ReplicaSetIndex) -> impl Iterator<Item = &Member> {
        self.members.iter().filter(move |m| m.set() == Some(set))
    }
    /// Whether those members of a set that `stay` hold every byte of it: in sync, each index counted once. A set that is on its way to take the
    /// place of others serves nothing, and needs nobody.
    pub fn is_held_by(&self, set: ReplicaSetIndex, stay: impl Fn(&Member) -> bool) -> bool {
        if !self.addresses.serves(set) {
            return true;
        }
        let held = self.replica_set(set).filter(|m| m.state.in_sync() && stay(m));
        let indexes: BTreeSet<u32> = held.filter_map(Member::copy).collect();
        indexes.len() >= self.needed(set) as usize
    }
    /// The member with this component id.
    pub fn member(&self, component: ComponentId) -> Option<&Member> {
        self.members.iter().find(|m| m.component == component)
    }
    /// The same, to be changed.
    pub fn member_mut(&mut self, component: ComponentId) -> Option<&mut Member> {
        self.members.iter_mut().find(|m| m.component == component)
    }
    /// The member that holds the same set and copy as this one, which is being moved.
    pub fn twin_of(&self, component: ComponentId) -> Option<&Member> {
        let role = self.member(component).filter(|m| m.set().is_some())?.role;
        self.members.iter().find(|m| m.role == role && m.component != component)
    }
    /// Members that hold the same set and copy, the one that is to go first.
    pub fn twins(&self) -> Vec<[Member; 2]> {
        let mut first: BTreeMap<(ReplicaSetIndex, u32), Member> = BTreeMap::new();
        let mut pairs = Vec::new();
        for member in &self.members {
            let Role::Data { set, copy } = member.role else { continue };
            match first.get(&(set, copy)) {
                Some(old) => pairs.push([*old, *member]),
                None => {
                    first.insert((set, copy), *member);
                }
            }
        }
        pairs
    }
    /// Distinct indexes in sync that give every byte of a set.
    pub fn needed(&self, set: ReplicaSetIndex) -> u32 {
        self.addresses.redundancy(set).needed()
    }
    /// Members of a replica set that the policy asks for: as many as give every byte, and one for each failure to tolerate.
    pub fn members_asked(&self, set: ReplicaSetIndex) -> u32 {
        self.needed(set) + u32::from(self.policy.ftt)
    }
    /// The snapshots that have what none of its copies has allocated, the nearest first.
    pub fn parents(&self) -> &[Parent] {
        self.ancestry.as_ref().map_or(&[], |ancestry| &ancestry.parents)
    }
    /// Whole blocks of the address space, the last one perhaps partly used.
    pub fn size_blocks(&self) -> u64 {
        self.size_bytes.div_ceil(u64::from(BLOCK_BYTES))
    }
}

/// The last configuration that a seat accepted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Accepted {
    /// The epoch under which it was accepted.
    pub epoch: Epoch,
    /// Its number; grows with every change.
    pub csn: Csn,
    /// The effective configuration that an *open* change replaces; none when *closed*.
    pub base: Option<Box<ObjectConfig>>,
    /// The configuration.
    pub config: ObjectConfig,
}

/// Bytes of an encoded [`SeatRecord`], at most: what the header of a log batch has room for.
pub const RECORD_BYTES_MAX: usize = 256 << 10;

/// What one seat holds durably of one object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeatRecord {
    /// The object.
    pub object: ObjectId,
    /// The newest epoch promised; older ones are refused.
    pub promised: Epoch,
    /// The last accepted configuration; none while the object is nascent (csn 0).
    pub accepted: Option<Accepted>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Layout, Redundancy};

    fn layout(redundancy: Redundancy) -> Layout {
        Layout { redundancy, stripe_width: 1, strip_bytes: 1 << 20, chunk_bytes: 1 << 30 }
    }

    fn member(copy: u32, state: ComponentState) -> Member {
        let id = u64::from(copy) + 1;
        Member {
            component: ComponentId(id.into()),
            host: HostId(id.into()),
            disk_group: DiskGroupId(id.into()),
            role: Role::Data { set: 0, copy },
            votes: 1,
            state,
        }
    }

    #[test]
    fn rows_are_held_by_as_many_members_as_they_have_columns() {
        let away = ComponentState::Absent { stale_since: OpId::ZERO };
        let mut config = ObjectConfig {
            object: ObjectId(1),
            name: "vm-1".into(),
            size_bytes: 1 << 20,
            policy: Policy::default(),
            policy_name: "rows".into(),
            addresses: layout(Redundancy::Parity { data: 2, parity: 1, strip_blocks: 16 }).into(),
            members: vec![
                member(0, ComponentState::Active),
                member(1, ComponentState::Active),
                member(2, ComponentState::Active),
            ],
            decided: OpId::ZERO,
            deleted: false,
            past: None,
            ancestry: None,
        };
        let without = |config: &ObjectConfig, copy| config.is_held_by(0, |m| m.copy() != Some(copy));
        assert!(without(&config, 0) && without(&config, 2));
        config.members[1].state = away;
        assert!(config.is_held_by(0, |_| true) && without(&config, 1) && !without(&config, 0));
        // A second one with the index of the first is no other.
        config.members.push(member(0, ComponentState::Active));
        assert!(!without(&config, 2));
        config.addresses = layout(Redundancy::Mirror { copies: 3 }).into();
        assert!(without(&config, 0));
    }
}
