//! What members are worth to their disk: which go first where there are too many.
//!
//! Not here    how many there are to be (`policy_change`, `conversion`)

use std::{cmp::Reverse, collections::BTreeSet};

use cairn_types::{Canary, ComponentId, ComponentState, Member, Role};

use crate::picture::{ClusterPicture, FaultDomain};

/// What a copy is worth to its disk: more is better. In sync counts most, so the copies that stay are in sync as far as any are.
pub(crate) fn worth(picture: &ClusterPicture, member: &Member) -> (u8, bool, bool, u64, Reverse<ComponentId>) {
    let state = match member.state {
        _ if Canary::WrongCopyGoes.sings() => 0,
        ComponentState::Active => 3,
        ComponentState::Resyncing { .. } => 2,
        ComponentState::Absent { .. } => 1,
        ComponentState::Degraded => 0,
    };
    let host = picture.host(member.host);
    let group = host.and_then(|host| host.disk_groups.iter().find(|group| group.disk_group == member.disk_group));
    let up = host.is_some_and(|host| host.up) && group.is_some_and(|group| group.up);
    let free_bytes = group.map_or(0, |group| group.free_bytes);
    (state, up, picture.leaves(member.seat()).is_none(), free_bytes, Reverse(member.component))
}

/// Leaves witnesses only where the data alone lie in fewer than `needed` fault domains.
pub(crate) fn drop_witnesses(picture: &ClusterPicture, members: &mut Vec<Member>, needed: usize) {
    let domain_of = |m: &Member| picture.domain_of(m.host);
    let is_witness = |m: &&Member| m.role == Role::Witness;
    let mut domains: BTreeSet<FaultDomain> = members.iter().filter(|m| !is_witness(m)).map(domain_of).collect();
    let mut witnesses: Vec<&Member> = members.iter().filter(is_witness).collect();
    witnesses.sort_by_key(|m| Reverse(worth(picture, m)));
    let mut stay = BTreeSet::new();
    for witness in witnesses {
        if domains.len() < needed && domains.insert(domain_of(witness)) {
            stay.insert(witness.component);
        }
    }
    members.retain(|m| m.role != Role::Witness || stay.contains(&m.component));
}
