//! What a disk lacks of its policy as its members lie today: for health checks and after a change of fault domains.
//!
//! Not here    whether the members are reachable or in sync (their state says so)

use std::collections::{BTreeMap, BTreeSet};

use cairn_geometry::sets;
use cairn_types::{ObjectConfig, Redundancy, ReplicaSetIndex, Role};
use cairn_votes::{Untolerated, tolerates};

use crate::{
    picture::{ClusterPicture, FaultDomain},
    refusal::{Asked, count},
};

/// Whether its members are on fewer hosts than its policy needs fault domains: then a witness or a copy is missing, whatever the cluster is.
/// Looks at the disk alone, so it can be asked of each at any time.
pub fn lacks_hosts(config: &ObjectConfig) -> bool {
    let hosts: BTreeSet<_> = config.members.iter().map(|m| m.host).collect();
    hosts.len() < Asked::most(&config.addresses, config.policy.ftt).domains()
}

/// One sentence for each rule of the policy that the disk's members do not meet; none where it complies.
pub fn compliance(picture: &ClusterPicture, config: &ObjectConfig) -> Vec<String> {
    let mut lacks = Vec::new();
    let asked = Asked::most(&config.addresses, config.policy.ftt);
    let (mut few, mut shared) = (0, 0);
    let sets: Vec<_> = sets(&config.addresses, config.size_bytes).collect();
    let mut domains: BTreeMap<ReplicaSetIndex, (BTreeSet<u32>, BTreeSet<FaultDomain>)> = BTreeMap::new();
    for member in &config.members {
        // One that is being moved is held twice and counts once.
        let Role::Data { set, copy } = member.role else { continue };
        let (held, of) = domains.entry(set).or_default();
        held.insert(copy);
        of.insert(picture.domain_of(member.host));
    }
    for set in &sets {
        let (held, of) = domains.get(set).map_or((0, 0), |(held, of)| (held.len(), of.len()));
        few += usize::from(held < config.members_asked(*set) as usize);
        shared += usize::from(of < held);
    }
    if few > 0 {
        let what = match asked.redundancy {
            Redundancy::Mirror { .. } => "copies",
            Redundancy::Parity { .. } => "members",
        };
        lacks.push(format!("{} has fewer than {} {what}", part(few, sets.len()), asked.members()));
    }
    if shared > 0 {
        lacks.push(format!("{} has copies in one fault domain", part(shared, sets.len())));
    }
    let ftt = config.policy.ftt;
    let worst = tolerates(&config.members, &config.addresses, |h| picture.domain_of(h), u32::from(ftt));
    if let Err(Untolerated::Votes { left, needed }) = worst {
        lacks.push(format!(
            "{} asks that {} leave a majority: at worst {left} of {} votes are left, {needed} are needed",
            asked.words(),
            count(usize::from(ftt), "lost fault domain"),
            config.votes_total()
        ));
    }
    lacks
}

/// "the disk" or "3 of its 12 parts".
fn part(some: usize, all: usize) -> String {
    if some == all { "the disk".into() } else { format!("a part of the disk ({some} of {all})") }
}
