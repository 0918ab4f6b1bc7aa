//! Which record counts, and which seats have to agree to it.

use std::collections::BTreeSet;

use cairn_types::{Accepted, Member, ObjectConfig, Seat};
use cairn_votes::{Inaccessible, accessible, has_majority, has_majority_by};

/// The configurations of which a majority is needed: of an open record both.
pub(crate) fn voters(record: &Accepted) -> impl Iterator<Item = &ObjectConfig> {
    std::iter::once(&record.config).chain(record.base.as_deref())
}

/// Every seat of the record, each once, in order.
pub(crate) fn seats(record: &Accepted) -> Vec<Seat> {
    let all: BTreeSet<Seat> = voters(record).flat_map(|c| c.members.iter().map(Member::seat)).collect();
    all.into_iter().collect()
}

/// Whether `present` seats are majorities of all configurations that the record needs.
pub(crate) fn decided_by(record: &Accepted, present: &BTreeSet<Seat>) -> bool {
    voters(record).all(|c| has_majority(c, present))
}

/// The same with a judgement per member: a promise of a seat counts for what it proved to hold.
pub(crate) fn decided_by_members(record: &Accepted, votes: impl Fn(&Member) -> bool) -> bool {
    voters(record).all(|c| has_majority_by(c, &votes))
}

/// Why the record cannot be decided by `present` seats.
pub(crate) fn waits_for(record: &Accepted, present: &BTreeSet<Seat>, usable: impl Fn(&Member) -> bool) -> Inaccessible {
    let judged = accessible(&record.config, present, usable);
    let base = record.base.as_deref().map(|b| accessible(b, present, |_| true));
    match (judged, base) {
        (Err(why), _) if why.lacks_votes() => why,
        (_, Some(Err(why))) if why.lacks_votes() => why,
        (Err(why), _) => why,
        (Ok(()), _) => Inaccessible::default(),
    }
}

/// Whether `a` is a newer record than `b`.
pub(crate) fn newer(a: &Accepted, b: &Accepted) -> bool {
    (a.epoch, a.csn) > (b.epoch, b.csn)
}

#[cfg(test)]
pub(crate) mod tests {
    use cairn_types::{
        ComponentId, ComponentState, DiskGroupId, HostId, Layout, Member, ObjectConfig, ObjectId, OpId, Policy,
        Redundancy, Role,
    };

    /// "A1 B1- D1~ w1": letter = host, disk group and component; digit = votes; capital = data of set 0,
    /// small = witness; `-` absent since the beginning, `~` resyncing since the beginning.
    pub(crate) fn config_of(picture: &str) -> ObjectConfig {
        let members: Vec<Member> = picture.split_whitespace().map(member_of).collect();
        ObjectConfig {
            object: ObjectId(1),
            name: String::new(),
            size_bytes: 1 << 20,
            policy: Policy::default(),
            policy_name: String::new(),
            addresses: Layout {
                chunk_bytes: 1 << 20,
                stripe_width: 1,
                strip_bytes: 1 << 20,
                redundancy: Redundancy::Mirror { copies: 2 },
            }
            .into(),
            members,
            decided: OpId::ZERO,
            deleted: false,
            past: None,
            ancestry: None,
        }
    }

    fn member_of(word: &str) -> Member {
        let letters: Vec<char> = word.chars().collect();
        let id = u128::from(u32::from(letters[0]));
        let state = match letters.get(2) {
            None => ComponentState::Active,
            Some('-') => ComponentState::Absent { stale_since: OpId::ZERO },
            Some('~') => ComponentState::Resyncing { stale_since: OpId::ZERO },
            Some(other) => panic!("{other} is no state"),
        };
        Member {
            component: ComponentId(id),
            host: HostId(id),
            disk_group: DiskGroupId(id),
            votes: letters[1].to_digit(10).expect("votes"),
            role: if letters[0].is_uppercase() { Role::Data { set: 0, copy: id as u32 } } else { Role::Witness },
            state,
        }
    }
}
