//! How a host learns of an object: its newest record, and who owns it.
//!
//! Not here    what is done with it (`serve`, `snapshot_reader`, `parents`)

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use cairn_env::Env;
use cairn_types::{Accepted, Canary, HostId, Member, ObjectId};
use cairn_wire::{Answer, Refusal, Request};
use futures::future::join_all;

use crate::{context::Context, local_store::LocalStore};

/// What hosts know of an object.
#[derive(Default)]
struct Found {
    /// The newest record.
    best: Option<Accepted>,
    promised_max: u64,
    owners: BTreeMap<HostId, u32>,
    /// Hosts with a record of it.
    hosts: BTreeSet<HostId>,
}

impl Found {
    fn take<P>(&mut self, host: HostId, answer: Result<(Answer, P), Refusal>) {
        let Ok((Answer::Record { accepted, owner, promised, .. }, _)) = answer else { return };
        self.promised_max = self.promised_max.max(promised.number);
        if let Some(owner) = owner {
            *self.owners.entry(owner).or_default() += 1;
        }
        let Some(accepted) = accepted else { return };
        self.hosts.insert(host);
        let newer = |a: &Accepted| self.best.as_ref().is_none_or(|b| (b.epoch, b.csn) < (a.epoch, a.csn));
        if newer(&accepted) || Canary::ChangeDropped.sings() {
            self.best = Some(*accepted);
        }
    }

    /// Whether those that have a record are more than half of the votes of the newest one: nobody can have gone on without them.
    fn is_of_a_majority(&self) -> bool {
        let holds = |m: &Member| self.hosts.contains(&m.host);
        self.best.as_ref().is_some_and(|best| cairn_votes::has_majority_by(&best.config, holds))
    }
}

impl<E: Env, S: LocalStore> Context<E, S> {
    /// The highest record of an object that this host or any of `hints` has, and who is said to own it now. Where those are too few to
    /// know, all hosts that answer are asked.
    pub(crate) async fn look_up(&self, object: ObjectId, hints: &[HostId]) -> Option<(Accepted, Option<HostId>)> {
        let me = self.env.host();
        let mut found = Found::default();
        let own = Request::WhoHas { object };
        let own = self.seats.serve(me, self.env.incarnation(), own, Bytes::new());
        let others = |host: &HostId| *host != me && self.rpc.is_up(*host);
        let hinted: BTreeSet<HostId> = hints.iter().copied().filter(others).collect();
        self.ask_who_has(object, &hinted, &mut found).await;
        found.take(me, own.await);
        if !found.is_of_a_majority() {
            // Its components may all have moved since the hint was written, and who was away may have what it had then.
            let all = self.rpc.peers_up().into_keys().filter(others);
            self.ask_who_has(object, &all.filter(|host| !hinted.contains(host)).collect(), &mut found).await;
        }
        let owner = found.owners.into_iter().max_by_key(|(_, n)| *n).map(|(host, _)| host);
        self.note_epoch(object, found.promised_max);
        found.best.map(|accepted| (accepted, owner))
    }

    async fn ask_who_has(&self, object: ObjectId, hosts: &BTreeSet<HostId>, found: &mut Found) {
        let rpc = &self.rpc;
        let ask = |host: &HostId| {
            let (host, asked) = (*host, rpc.call(*host, Request::WhoHas { object }, Vec::new()));
            async move { (host, asked.await) }
        };
        for (host, answer) in join_all(hosts.iter().map(ask)).await {
            found.take(host, answer);
        }
    }
}
