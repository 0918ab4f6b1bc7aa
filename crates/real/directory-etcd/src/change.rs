//! From the members that etcd has to those that are wanted: what is done next, and by whom.
//!
//! Promises    etcd's list is changed by one host, the first of the wanted whose member works; two that take themselves for it do no
//!             harm: etcd refuses what is done already, and what would cost it its majority
//!             a newcomer has no vote until it has caught up, so that a slow one, or one that never starts, endangers nothing
//!             a dead member goes before another comes: etcd takes none in while one is away. One that works goes when all others are in
//!             whoever is killed at any step leaves a list from which the next look goes on
//! Assumes     members are known by their peer URLs
//! Not here    asking and acting (`keeper`); who may be wanted (`cairn-node`)

use cairn_directory::{DirectoryMember, DirectoryMembers};

use crate::cluster::Listed;

/// A member that etcd has, and what was seen of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) listed: Listed,
    /// It answers at one of its client URLs.
    pub(crate) answers: bool,
    pub(crate) leads: bool,
}

/// What etcd is asked for next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Change {
    /// All is as wanted, or it is another host's turn.
    Nothing,
    /// Nothing can be done yet.
    Wait(String),
    /// Without a vote.
    Add(String),
    /// Gives it its vote.
    Promote(u64),
    /// The leader, reached there, hands over to this member.
    MoveLeader {
        at: String,
        to: u64,
    },
    Remove(u64),
}

/// Whether etcd has what is wanted.
pub(crate) fn is_done(wanted: &DirectoryMembers, listed: &[Listed]) -> bool {
    let is_in =
        |member: &DirectoryMember| listed.iter().any(|listed| listed.is_at(&member.peer_url) && !listed.learner);
    listed.len() == wanted.members.len() && wanted.members.iter().all(is_in)
}

/// The next change, for the host whose member is at the peer URL `own`.
pub(crate) fn next_change(wanted: &DirectoryMembers, seen: &[Seen], own: Option<&str>) -> Change {
    let at = |member: &DirectoryMember| seen.iter().find(|seen| seen.listed.is_at(&member.peer_url));
    let is_wanted = |seen: &Seen| wanted.members.iter().any(|member| seen.listed.is_at(&member.peer_url));
    let works = |seen: &&Seen| seen.answers && !seen.listed.learner;
    let first = wanted.members.iter().find_map(|member| at(member).filter(works).map(|seen| (member, seen)));
    let Some((_, first)) = first.filter(|(member, _)| Some(member.peer_url.as_str()) == own) else {
        return Change::Nothing;
    };
    let costs_nothing = |seen: &&Seen| !is_wanted(seen) && (seen.listed.learner || !seen.answers);
    if let Some(seen) = seen.iter().find(costs_nothing) {
        return Change::Remove(seen.listed.id);
    }
    if let Some(learner) = seen.iter().find(|seen| seen.listed.learner) {
        return match learner.answers {
            true => Change::Promote(learner.listed.id),
            false => Change::Wait(format!("the member at {} has yet to start", learner.listed.peer_urls.join(", "))),
        };
    }
    if let Some(missing) = wanted.members.iter().find(|member| at(member).is_none()) {
        let away = seen.iter().find(|seen| !seen.answers);
        return match away {
            None => Change::Add(missing.peer_url.clone()),
            Some(away) => Change::Wait(format!(
                "etcd takes in no member while {} does not answer",
                away.listed.peer_urls.join(", ")
            )),
        };
    }
    let Some(leaves) = seen.iter().find(|seen| !is_wanted(seen)) else { return Change::Nothing };
    let (stay, answer) = (wanted.members.len(), seen.iter().filter(|seen| is_wanted(seen) && seen.answers).count());
    match leaves.listed.client_urls.first().filter(|_| leaves.leads) {
        _ if answer < stay / 2 + 1 => Change::Wait("too few of those that stay answer".into()),
        Some(at) => Change::MoveLeader { at: at.clone(), to: first.listed.id },
        None => Change::Remove(leaves.listed.id),
    }
}

/// The data of a member on this host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Data {
    None,
    /// Of a member whose id was not noted yet.
    Unknown,
    Of(u64),
}

/// What this host does about its own member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OwnStep {
    Nothing,
    Start,
    /// It is stopped, and its data moved aside: they are of no use to any member.
    SetAside,
}

/// The next step of a host that shall run `wanted`, runs a member at the peer URL `runs_at`, and has `data`. `listed` are etcd's members
/// as of now; none: nobody answers.
pub(crate) fn own_step(
    wanted: Option<&DirectoryMember>,
    runs_at: Option<&str>,
    data: Data,
    listed: Option<&[Listed]>,
) -> OwnStep {
    let Some(listed) = listed else {
        // Where all hosts were off, members with data begin without anybody's word.
        let begins = wanted.is_some() && runs_at.is_none() && data != Data::None;
        return if begins { OwnStep::Start } else { OwnStep::Nothing };
    };
    let is_at = |url: &str| listed.iter().any(|listed| listed.is_at(url));
    let useless = match (data, wanted, runs_at) {
        (Data::Of(id), ..) => listed.iter().all(|listed| listed.id != id),
        (Data::Unknown, None, Some(url)) => !is_at(url),
        // It waits to begin, and shall not any more.
        (Data::None, None, Some(_)) => true,
        (Data::None | Data::Unknown, ..) => false,
    };
    match wanted {
        _ if useless => OwnStep::SetAside,
        // Without data it begins once it is listed: it is added without a vote, by whoever changes the list.
        Some(own) if runs_at.is_none() && (data != Data::None || is_at(&own.peer_url)) => OwnStep::Start,
        _ => OwnStep::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use cairn_directory::Name;
    use cairn_types::HostId;

    use super::*;

    fn url(n: u64) -> String {
        format!("http://10.0.0.{n}:2380")
    }

    fn member(n: u64) -> DirectoryMember {
        let name = Name::new(format!("h{n}")).unwrap();
        let client_url = format!("http://10.0.0.{n}:2379");
        DirectoryMember { host: HostId(u128::from(n)), name, peer_url: url(n), client_url }
    }

    fn wanted(of: &[u64]) -> DirectoryMembers {
        DirectoryMembers { members: of.iter().map(|n| member(*n)).collect() }
    }

    /// A voter that works; its id is its number.
    fn voter(n: u64) -> Seen {
        let client_urls = vec![member(n).client_url];
        let listed = Listed { id: n, name: format!("h{n}"), peer_urls: vec![url(n)], client_urls, learner: false };
        Seen { listed, answers: true, leads: false }
    }

    fn learner(n: u64, answers: bool) -> Seen {
        let mut seen = voter(n);
        seen.listed.learner = true;
        Seen { answers, ..seen }
    }

    fn away(n: u64) -> Seen {
        Seen { answers: false, ..voter(n) }
    }

    fn next(of: &[u64], seen: &[Seen]) -> Change {
        next_change(&wanted(of), seen, Some(&url(1)))
    }

    #[test]
    fn a_newcomer_has_its_vote_last() {
        let three = || vec![voter(1), voter(2), voter(3)];
        let with = |seen: Seen| [three(), vec![seen]].concat();
        assert_eq!(next(&[1, 2, 3], &three()), Change::Nothing);
        assert_eq!(next(&[1, 2, 3, 4], &three()), Change::Add(url(4)));
        assert!(matches!(next(&[1, 2, 3, 4], &[voter(1), voter(2), away(3)]), Change::Wait(_)), "etcd would refuse");
        assert!(matches!(next(&[1, 2, 3, 4], &with(learner(4, false))), Change::Wait(_)), "it has not started");
        assert_eq!(next(&[1, 2, 3, 4], &with(learner(4, true))), Change::Promote(4));
        assert_eq!(next(&[1, 2, 3, 4, 5], &with(learner(4, true))), Change::Promote(4), "one at a time");
        assert_eq!(next(&[1, 2, 3, 4, 5], &with(voter(4))), Change::Add(url(5)));
        assert_eq!(next(&[1, 2, 3], &with(learner(4, false))), Change::Remove(4), "wanted no more before it began");
    }

    #[test]
    fn a_dead_member_goes_before_another_comes() {
        let seen = [voter(1), voter(2), away(3)];
        assert_eq!(next(&[1, 2, 4], &seen), Change::Remove(3));
        assert_eq!(next(&[1, 2, 4], &seen[..2]), Change::Add(url(4)));
    }

    #[test]
    fn one_that_works_goes_when_the_others_are_in() {
        let leads = || Seen { leads: true, ..voter(3) };
        let seen = |last: &[Seen]| [vec![voter(1), voter(2), leads()], last.to_vec()].concat();
        assert_eq!(next(&[1, 2, 4], &seen(&[])), Change::Add(url(4)));
        assert_eq!(next(&[1, 2, 4], &seen(&[learner(4, true)])), Change::Promote(4));
        let at = member(3).client_url;
        assert_eq!(next(&[1, 2, 4], &seen(&[voter(4)])), Change::MoveLeader { at, to: 1 });
        assert_eq!(next(&[1, 2, 4], &[voter(1), voter(2), voter(3), voter(4)]), Change::Remove(3));
        assert_eq!(next(&[1], &[voter(1), voter(2)]), Change::Remove(2));
        // Of two that stay one is away: the third is needed still.
        assert!(matches!(next(&[1, 2], &[voter(1), away(2), voter(3)]), Change::Wait(_)));
        assert_eq!(
            next(&[1, 2, 3], &[voter(1), voter(2), away(3), voter(4)]),
            Change::Remove(4),
            "two of three answer"
        );
    }

    #[test]
    fn one_host_changes_the_list() {
        let change = |seen: &[Seen], own: Option<u64>| next_change(&wanted(&[1, 2, 3]), seen, own.map(url).as_deref());
        let seen = [voter(1), voter(2)];
        assert_eq!(change(&seen, Some(2)), Change::Nothing, "the first works");
        assert_eq!(change(&seen, None), Change::Nothing);
        let seen = [away(1), voter(2), voter(4)];
        assert_eq!(change(&seen, Some(1)), Change::Nothing);
        assert!(matches!(change(&seen, Some(2)), Change::Wait(_)), "it is the second's turn");
        let seen = [learner(1, true), voter(2), voter(3)];
        assert_eq!(change(&seen, Some(2)), Change::Promote(1), "no vote, no say");
    }

    #[test]
    fn done_is_when_etcd_has_those_and_no_others() {
        let listed = |seen: &[Seen]| seen.iter().map(|seen| seen.listed.clone()).collect::<Vec<_>>();
        let done = |seen: &[Seen]| is_done(&wanted(&[1, 2]), &listed(seen));
        assert!(done(&[voter(1), away(2)]));
        assert!(!done(&[voter(1)]) && !done(&[voter(1), learner(2, true)]) && !done(&[voter(1), voter(2), voter(3)]));
    }

    #[test]
    fn a_host_runs_what_it_is_wanted_for() {
        let own = member(4);
        let listed: Vec<Listed> = [1, 2, 3].map(|n| voter(n).listed).to_vec();
        let with = |seen: Seen| [listed.clone(), vec![seen.listed]].concat();
        let runs = Some("http://10.0.0.4:2380");
        let (in_it, not) = (with(learner(4, false)), Some(listed.as_slice()));
        let in_it = Some(in_it.as_slice());
        for (wanted, runs_at, data, listed, step, why) in [
            (Some(&own), None, Data::None, not, OwnStep::Nothing, "it is added first"),
            (Some(&own), None, Data::None, in_it, OwnStep::Start, "it was added"),
            (Some(&own), None, Data::Of(4), in_it, OwnStep::Start, "its daemon was away"),
            (Some(&own), runs, Data::Of(4), in_it, OwnStep::Nothing, "it runs"),
            (Some(&own), runs, Data::None, in_it, OwnStep::Nothing, "it begins"),
            (Some(&own), None, Data::Of(9), in_it, OwnStep::SetAside, "removed and added while it was away"),
            (Some(&own), None, Data::Of(4), None, OwnStep::Start, "all hosts were off"),
            (Some(&own), None, Data::None, None, OwnStep::Nothing, "nobody can add it"),
            (None, runs, Data::Of(4), in_it, OwnStep::Nothing, "it counts until it is removed"),
            (None, runs, Data::Of(4), not, OwnStep::SetAside, "it was removed"),
            (None, None, Data::Of(4), not, OwnStep::SetAside, "it was removed while its daemon was away"),
            (None, runs, Data::Unknown, in_it, OwnStep::Nothing, "an earlier build noted no id"),
            (None, runs, Data::Unknown, not, OwnStep::SetAside, "an earlier build noted no id"),
            (None, runs, Data::None, not, OwnStep::SetAside, "it waited to begin"),
            (None, runs, Data::Of(4), None, OwnStep::Nothing, "nobody says that it was removed"),
            (None, None, Data::None, not, OwnStep::Nothing, "most hosts"),
        ] {
            assert_eq!(own_step(wanted, runs_at, data, listed), step, "{why}");
        }
    }
}
