//! Who runs the members of the directory: told, and changed while the cluster runs.
//!
//! Promises    a change is refused, in words, where the members that answer would be no majority of those that are left, where another is
//!             under way, and where the cluster does not run its directory itself
//!             the first change enters the members as etcd lists them: what a host's configuration says may be older
//! Assumes     hosts follow the list by themselves (`directory-etcd::keeper`): an answer tells what is wanted, not what is done
//! Not here    what is done, and in which order

use std::net::SocketAddr;

use cairn_api::{ApiError, ApiResult, v1};
use cairn_directory::{
    DirectoryError, DirectoryMember, DirectoryMembers, Health, ListedMember, MEMBERS_MAX, Name, TheCluster,
};
use cairn_env::Env;
use cairn_types::HostId;
use v1::DirectoryMemberState as State;

use crate::{manage::directory_error, node::Node};

/// Ports of a member's URLs, for the other members and for clients, where no member has others.
const PORTS: (u16, u16) = (2380, 2379);

/// A member as the list and etcd have it together.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Seen {
    /// None: the cluster knows no such host.
    host: Option<HostId>,
    name: String,
    peer_url: String,
    client_url: String,
    state: State,
    problem: Option<String>,
    db_bytes: u64,
}

impl Seen {
    fn serves(&self) -> bool {
        matches!(self.state, State::Leads | State::Follows)
    }
}

/// Why a change cannot be, and what to do about it.
type Obstacle = (String, String);

impl<E: Env> Node<E> {
    pub(crate) async fn cluster_members(&self) -> ApiResult<v1::DirectoryMembers> {
        let health = self.inner.registry.health().await;
        let seen = self.members_seen(&health);
        Ok(self.show_members(&health, seen))
    }

    pub(crate) async fn cluster_members_change(
        &self,
        request: v1::DirectoryMembersChange,
    ) -> ApiResult<v1::DirectoryMembers> {
        let health = self.inner.registry.health().await;
        self.refuse_other_directory(&health)?;
        self.can_change_members()?;
        let seen = self.members_seen(&health);
        if seen.is_empty() {
            let why = health.problem.unwrap_or_else(|| "no member tells who they are".into());
            return Err(ApiError::unavailable(format!("the directory is away: {why}"))
                .remedy("Start most of its members, then give the command again"));
        }
        let removed = request.remove.as_ref().map(|name| self.find_member(&seen, name)).transpose()?;
        let added = match &request.add {
            Some(add) => Some(self.new_member(&seen, add, removed)?),
            None => None,
        };
        if let Err((why, remedy)) = judge(&seen, removed, added.as_ref().map(|added| added.name.as_str())) {
            return Err(ApiError::refused(why).remedy(remedy));
        }
        let wanted = self.wanted_after(&seen, removed, added.as_ref())?;
        if !request.dry_run {
            self.want_members(&seen, &wanted).await?;
        }
        let mut next = seen;
        if let Some(removed) = removed {
            next[removed].state = State::Leaves;
        }
        next.extend(added);
        Ok(self.show_members(&health, next))
    }

    /// The member of the directory that a server runs, or is to run, if any: what people are told of it.
    pub(crate) async fn member_at(&self, server: HostId) -> Option<String> {
        if !self.inner.outside.runs_directory() {
            return None;
        }
        let listed = self.inner.copy.borrow().directory_members();
        let at = match listed {
            Some(listed) => listed.members.iter().any(|member| member.host == server),
            None => {
                let health = self.inner.registry.health().await;
                self.members_seen(&health).iter().any(|seen| seen.host == Some(server))
            }
        };
        at.then(|| self.host_name(server))
    }

    fn refuse_other_directory(&self, health: &Health) -> ApiResult<()> {
        match (health.kind, self.inner.outside.runs_directory()) {
            (_, true) => Ok(()),
            ("embedded", false) => Err(ApiError::refused("the directory is a file of this process: it has no members")
                .remedy("A cluster of several hosts keeps its directory in etcd: `cairn cluster init`")),
            (_, false) => Err(ApiError::refused(
                "the directory is an etcd that somebody else runs (directory.endpoints of the configuration)",
            )
            .remedy("Change its members there, and endpoints in the configuration of each host")),
        }
    }

    /// Hosts of earlier releases would not follow the list.
    fn can_change_members(&self) -> ApiResult<()> {
        self.can_move().map_err(|error| ApiError {
            message: "changing the directory's members needs an upgrade that is finished".into(),
            ..error
        })
    }

    /// Whoever is wanted, and whoever etcd has beside them. Empty: neither the list nor etcd tells.
    fn members_seen(&self, health: &Health) -> Vec<Seen> {
        let wanted = self.inner.copy.borrow().directory_members().unwrap_or_default().members;
        let is_new = wanted.is_empty();
        let mut seen: Vec<Seen> = wanted.iter().map(|member| self.wanted_seen(health, member)).collect();
        let is_other = |listed: &&ListedMember| !wanted.iter().any(|m| listed.peer_urls.contains(&m.peer_url));
        let mut others: Vec<Seen> =
            health.listed.iter().filter(is_other).map(|l| self.listed_beside(health, l)).collect();
        if !is_new {
            others.iter_mut().for_each(|other| other.state = State::Leaves);
        }
        // etcd has them by their ids, which say nothing to people.
        others.sort_by(|a, b| a.name.cmp(&b.name));
        seen.extend(others);
        seen
    }

    fn wanted_seen(&self, health: &Health, member: &DirectoryMember) -> Seen {
        let listed = health.listed.iter().find(|listed| listed.peer_urls.contains(&member.peer_url));
        // Where nobody lists members, those that do not answer have not just been added.
        let is_in = health.listed.is_empty() || listed.is_some_and(|listed| !listed.client_urls.is_empty());
        let host = self.servers().iter().any(|server| server.id == member.host).then_some(member.host);
        let name = host.map_or_else(|| member.name.to_string(), |host| self.host_name(host));
        Seen { host, name, ..seen_at(health, (&member.peer_url, &member.client_url), is_in) }
    }

    /// A member that etcd has and the list has not.
    fn listed_beside(&self, health: &Health, listed: &ListedMember) -> Seen {
        let first = |urls: &[String]| urls.first().cloned().unwrap_or_default();
        let (peer_url, client_url) = (first(&listed.peer_urls), first(&listed.client_urls));
        let host = self.host_of_member(&listed.name, &client_url);
        let name = host.map_or_else(|| listed.name.clone(), |host| self.host_name(host));
        Seen { host, name, ..seen_at(health, (&peer_url, &client_url), true) }
    }

    /// The host of a member that no list names: members of the configuration have their hosts' names.
    fn host_of_member(&self, name: &str, client_url: &str) -> Option<HostId> {
        let servers = self.servers();
        let by_name = servers.iter().find(|server| server.entry.name.as_str() == name);
        let address = address_of(client_url);
        let at = |address: SocketAddr| servers.iter().find(|server| server.entry.peer_address.ip() == address.ip());
        by_name.or_else(|| address.and_then(at)).map(|server| server.id)
    }

    fn find_member(&self, seen: &[Seen], text: &str) -> ApiResult<usize> {
        let is = |seen: &Seen| seen.name == text || seen.host.is_some_and(|host| host.to_string() == text);
        // Of two with one name, the one whose host is gone.
        let mut found: Vec<usize> =
            (0..seen.len()).filter(|n| is(&seen[*n]) && seen[*n].state != State::Leaves).collect();
        found.sort_by_key(|n| seen[*n].host.is_some());
        found.first().copied().ok_or_else(|| {
            let names: Vec<&str> = seen.iter().map(|seen| seen.name.as_str()).collect();
            ApiError::not_found(format!("host {text:?} runs no member of the directory"))
                .remedy(format!("These do: {}", names.join(", ")))
        })
    }

    fn new_member(&self, seen: &[Seen], add: &v1::DirectoryMemberAdd, removed: Option<usize>) -> ApiResult<Seen> {
        let host = self.find_host(&add.host)?;
        let name = self.host_name(host);
        let stays = |(n, seen): (usize, &Seen)| Some(n) != removed && seen.host == Some(host);
        if seen.iter().enumerate().any(stays) {
            return Err(ApiError::refused(format!("host {name} runs a member of the directory already")));
        }
        let server = self.servers().into_iter().find(|server| server.id == host);
        let server = server.ok_or_else(|| ApiError::not_found(format!("there is no host {:?}", add.host)))?;
        if !server.shards.iter().all(|shard| self.inner.rpc.is_up(*shard)) {
            return Err(ApiError::refused(format!("host {name} does not answer"))
                .remedy("Start its daemon first, or name another host"));
        }
        let port = |url: fn(&Seen) -> &str, port: u16| {
            seen.iter().find_map(|seen| address_of(url(seen))).map_or(port, |address| address.port())
        };
        let ports = (port(|seen| &seen.peer_url, PORTS.0), port(|seen| &seen.client_url, PORTS.1));
        let at = |port: u16| format!("http://{}", SocketAddr::new(server.entry.peer_address.ip(), port));
        Ok(Seen {
            host: Some(host),
            name,
            peer_url: add.peer_url.clone().unwrap_or_else(|| at(ports.0)),
            client_url: add.client_url.clone().unwrap_or_else(|| at(ports.1)),
            state: State::Joins,
            problem: None,
            db_bytes: 0,
        })
    }

    fn wanted_after(&self, seen: &[Seen], removed: Option<usize>, added: Option<&Seen>) -> ApiResult<DirectoryMembers> {
        let known = self.inner.copy.borrow().directory_members().unwrap_or_default();
        let entry = |seen: &Seen| {
            let kept = known.members.iter().find(|member| member.peer_url == seen.peer_url);
            if let Some(kept) = kept {
                return Ok(kept.clone());
            }
            let Some(host) = seen.host else {
                return Err(ApiError::refused(format!(
                    "member {} of the directory is at no host of the cluster",
                    seen.name
                ))
                .remedy("Start that host's daemon, or remove this member first"));
            };
            let name = Name::new(seen.name.as_str()).map_err(|error| ApiError::invalid(error.to_string()))?;
            let (peer_url, client_url) = (seen.peer_url.clone(), seen.client_url.clone());
            Ok(DirectoryMember { host, name, peer_url, client_url })
        };
        let stay = seen.iter().enumerate().filter(|(n, seen)| Some(*n) != removed && seen.state != State::Leaves);
        let members = stay.map(|(_, seen)| seen).chain(added).map(entry).collect::<ApiResult<Vec<_>>>()?;
        Ok(DirectoryMembers { members })
    }

    async fn want_members(&self, seen: &[Seen], wanted: &DirectoryMembers) -> ApiResult<()> {
        let judged: Vec<&str> =
            seen.iter().filter(|seen| seen.state != State::Leaves).map(|seen| seen.peer_url.as_str()).collect();
        let update = self.inner.registry.update::<DirectoryMembers>(&TheCluster, |known| {
            let same =
                known.is_none_or(|known| known.members.iter().map(|m| m.peer_url.as_str()).eq(judged.iter().copied()));
            match same {
                true => Ok(Some(wanted.clone())),
                false => {
                    Err(DirectoryError::Refused("the directory's members were changed meanwhile: look again".into()))
                }
            }
        });
        update.await.map_err(directory_error)?;
        self.until_known(|node| node.inner.copy.borrow().directory_members().as_ref() == Some(wanted)).await;
        Ok(())
    }

    fn show_members(&self, health: &Health, seen: Vec<Seen>) -> v1::DirectoryMembers {
        let up = |host: HostId| self.shards_of(host).iter().all(|shard| self.inner.rpc.is_up(*shard));
        let stay = seen.iter().filter(|seen| seen.state != State::Leaves).count();
        let moves = |seen: &Seen| matches!(seen.state, State::Joins | State::Leaves);
        let settled = !health.listed.is_empty() && !seen.iter().any(moves);
        let runs_here = self.inner.outside.runs_directory();
        let one = |seen: Seen| v1::DirectoryMember {
            host_up: seen.host.is_some_and(up),
            host: seen.name,
            peer_url: seen.peer_url,
            client_url: seen.client_url,
            state: seen.state,
            problem: seen.problem,
            db_bytes: seen.db_bytes,
        };
        v1::DirectoryMembers {
            kind: health.kind.to_owned(),
            own: runs_here,
            endpoints: health.members.iter().map(|member| member.endpoint.clone()).collect(),
            members: if runs_here { seen.into_iter().map(one).collect() } else { Vec::new() },
            notes: note(stay).filter(|_| runs_here).into_iter().collect(),
            settled,
        }
    }
}

/// What is seen at a member's URLs. `is_in`: etcd has it, and it has run.
fn seen_at(health: &Health, (peer_url, client_url): (&str, &str), is_in: bool) -> Seen {
    let told = health.members.iter().find(|told| told.endpoint == client_url);
    let problem = told.map_or(Some("this host does not ask it yet".to_owned()), |told| told.problem.clone());
    let state = match (told, &problem) {
        (Some(told), None) if told.learner => State::Joins,
        (Some(told), None) if told.leader => State::Leads,
        (Some(_), None) => State::Follows,
        _ if is_in => State::Away,
        _ => State::Joins,
    };
    Seen {
        host: None,
        name: String::new(),
        peer_url: peer_url.to_owned(),
        client_url: client_url.to_owned(),
        state,
        problem,
        db_bytes: told.map_or(0, |told| told.db_bytes),
    }
}

fn address_of(url: &str) -> Option<SocketAddr> {
    url.strip_prefix("http://")?.trim_end_matches('/').parse().ok()
}

/// Whether the members can be changed so.
fn judge(seen: &[Seen], removed: Option<usize>, added: Option<&str>) -> Result<(), Obstacle> {
    const WAIT: &str = "Wait until `cairn cluster members` shows it done, or take that change back";
    let others = || seen.iter().enumerate().filter(|(n, _)| Some(*n) != removed).map(|(_, seen)| seen);
    let goes = removed.map(|n| &seen[n]);
    let refuse = |why: String, remedy: &str| Err((why, remedy.to_owned()));
    if let Some(pending) = others().find(|seen| matches!(seen.state, State::Joins | State::Leaves)) {
        let how = if pending.state == State::Joins { "joins" } else { "leaves" };
        return refuse(format!("another change is under way: the member at {} {how}", pending.name), WAIT);
    }
    let (stay, serve) = (others().count(), others().filter(|seen| seen.serves()).count());
    if stay == 0 {
        return refuse(
            "the directory would have no member".into(),
            "Add another host's first: `cairn cluster members add`",
        );
    }
    if stay + usize::from(added.is_some()) > MEMBERS_MAX {
        let why = format!("the directory would have {} members, {MEMBERS_MAX} are the most", stay + 1);
        return refuse(why, "Replace one: `cairn cluster members replace`");
    }
    let costs_vote = goes.is_none_or(|goes| goes.state != State::Joins);
    if costs_vote && serve < stay / 2 + 1 {
        let away = away(others());
        let why =
            format!("of the {stay} members that would be left {serve} answer, too few to decide anything ({away})");
        return refuse(why, "Start the hosts of the members that do not answer, or remove one of those first");
    }
    // etcd takes in no member while one is away. One that goes first may be.
    if added.is_some() && serve < stay {
        let why = format!("etcd takes in no member while one is away: {}", away(others()));
        return refuse(why, "Start that host's daemon, or replace its member: `cairn cluster members replace`");
    }
    Ok(())
}

fn away<'a>(seen: impl Iterator<Item = &'a Seen>) -> String {
    let away: Vec<String> =
        seen.filter(|seen| !seen.serves()).map(|seen| format!("{} does not answer", seen.name)).collect();
    away.join(", ")
}

/// What is to be said of so many members.
fn note(count: usize) -> Option<String> {
    (count > 0 && count.is_multiple_of(2)).then(|| {
        let less = count - 1;
        format!("{count} members survive the loss of no more than {less} do, and cost more: add one or remove one")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(name: &str, state: State) -> Seen {
        Seen {
            host: Some(HostId(1)),
            name: name.into(),
            peer_url: format!("http://{name}:2380"),
            client_url: format!("http://{name}:2379"),
            state,
            problem: None,
            db_bytes: 0,
        }
    }

    fn all(states: &[State]) -> Vec<Seen> {
        states.iter().zip(["h1", "h2", "h3", "h4", "h5"]).map(|(state, name)| seen(name, *state)).collect()
    }

    const L: State = State::Leads;
    const F: State = State::Follows;
    const AWAY: State = State::Away;

    /// Goal: nothing is begun that etcd would refuse, or that costs the majority. Method: each state of three, and the edges.
    #[test]
    fn a_change_that_cannot_be_is_refused_in_words() {
        for (states, removed, added, refused) in [
            (&[L, F, F][..], None, true, None),
            (&[L, F, F][..], Some(0), false, None),
            (&[L, F, F][..], Some(0), true, None),
            (&[L, F, AWAY][..], Some(2), true, None),
            (&[L, F, AWAY][..], Some(2), false, None),
            (&[L, F, AWAY][..], Some(1), false, Some("of the 2 members that would be left 1 answer")),
            (&[L, F, AWAY][..], None, true, Some("h3 does not answer")),
            (&[L, F, AWAY][..], Some(1), true, Some("too few to decide")),
            (&[L, F, F, F, AWAY][..], Some(1), true, Some("etcd takes in no member")),
            (&[L, F, F, F, AWAY][..], Some(1), false, None),
            (&[L, F, F, F, F][..], None, true, Some("6 members, 5 are the most")),
            (&[L, F, F, F, F][..], Some(4), true, None),
            (&[L][..], Some(0), false, Some("no member")),
            (&[L][..], Some(0), true, Some("no member")),
            (&[L, F][..], Some(1), false, None),
            (&[L, F, State::Joins][..], None, true, Some("another change is under way: the member at h3 joins")),
            (&[L, F, State::Joins][..], Some(2), false, None),
            (&[L, F, State::Leaves][..], Some(1), false, Some("h3 leaves")),
        ] {
            let judged = judge(&all(states), removed, added.then_some("new"));
            match (refused, judged) {
                (None, judged) => assert_eq!(judged, Ok(()), "{states:?} {removed:?} {added}"),
                (Some(words), judged) => {
                    let (why, remedy) = judged.expect_err(words);
                    assert!(why.contains(words) && !remedy.is_empty(), "{why}");
                }
            }
        }
    }

    #[test]
    fn an_even_number_is_told_as_no_gain() {
        assert_eq!([1, 3, 5].map(note), [None, None, None]);
        assert!(note(4).is_some_and(|text| text.contains("than 3 do")));
    }
}
