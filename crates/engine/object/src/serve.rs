//! What this host does with each message that arrives, and how it learns where an object is.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use bytes::Bytes;
use cairn_env::Env;
use cairn_types::{Accepted, BLOCK_BYTES, Canary, HostId, Incarnation, Member, ObjectId, Run};
use cairn_wire::{Answer, GuestRequest, Message, ObjectStatus, OwnerCommand, Refusal, Request, block_crc};
use futures::future::{LocalBoxFuture, join_all, ready};

use crate::{
    arrived::{Changed, compare, compare_request},
    local_store::LocalStore,
    objects::Objects,
    owner::{Ended, OpError, Origin, SeizeError},
    seats::Served,
    serving::Asked,
    stages::IoKind,
};

/// How soon seats that have not heard of a hand-over are asked again.
const RELEASED_WITHIN: Duration = Duration::from_millis(100);

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

impl<E: Env, S: LocalStore> Objects<E, S> {
    /// Takes a message. What must keep its order (appends to the log) happens before this returns.
    pub fn on_message(&self, from: HostId, incarnation: Incarnation, message: Message, payload: Bytes) {
        match message {
            Message::Answer { id, answer } => self.context().rpc.on_answer(from, id, answer, payload),
            Message::Done { ids } => {
                ids.into_iter().for_each(|id| self.context().rpc.on_answer(from, id, Ok(Answer::Done), Bytes::new()));
            }
            Message::Request { id, request } => self.on_request(from, incarnation, id, request, payload),
            Message::Settled { to, upto } => self.context().seats.on_settled(to, upto),
            Message::Release { disk_group, object, epoch } => {
                self.context().leases.on_release((from, incarnation), disk_group, object, epoch);
            }
            // What the facts say is the node's affair.
            Message::Heartbeat(heartbeat) | Message::HeartbeatWith(heartbeat, _) => {
                self.doubt(&self.context().leases.on_heartbeat(from, incarnation, heartbeat));
            }
            Message::HeartbeatAnswer(answer) => {
                if self.context().leases.on_heartbeat_answer(from, incarnation, answer) {
                    self.wake();
                }
            }
        }
    }

    fn on_request(&self, from: HostId, incarnation: Incarnation, id: u64, request: Request, payload: Bytes) {
        let objects = self.clone();
        let began = self.context().seat_is_asked(&request);
        let served: LocalBoxFuture<'static, Served> = match request {
            Request::Guest { object, request } => {
                Box::pin(async move { objects.serve_guest(from, object, request, payload).await })
            }
            Request::HandOver { object, force } => Box::pin(async move {
                let handed = objects.hand_over(object, force).await;
                handed.map(|()| (Answer::Done, Vec::new()))
            }),
            Request::Attach { object } => Box::pin(async move {
                let attached = objects.attach(object, &[], true).await.map_err(Refusal::Inaccessible);
                attached.map(|()| (Answer::Done, Vec::new()))
            }),
            Request::Manage { object, command } => Box::pin(async move {
                let status = objects.serve_command(object, command).await?;
                Ok((Answer::Status(Box::new(status)), Vec::new()))
            }),
            request => match compare_request(&request, &payload) {
                Ok(()) => self.context().seats.serve(from, incarnation, request, payload),
                // As if it had not arrived: whoever asked does without this copy, and fills it again.
                Err(Changed) => {
                    self.context().tell_changed(from);
                    Box::pin(ready(Err(Refusal::Lost)))
                }
            },
        };
        self.carry_out(Asked { from, id, began, served });
    }

    fn not_owner(&self, object: ObjectId) -> Refusal {
        let seats = self.context().seats.highest(object).map(|(_, at)| at).unwrap_or_default();
        let holder = seats.iter().find_map(|dg| self.context().leases.holder(*dg, object));
        Refusal::NotOwner(holder.map(|epoch| epoch.host).filter(|host| *host != self.context().env.host()))
    }

    async fn serve_guest(&self, from: HostId, object: ObjectId, request: GuestRequest, payload: Bytes) -> Served {
        let Some(owned) = self.owned(object) else {
            return Err(self.not_owner(object));
        };
        let began = self.context().env.now();
        let kind = match request {
            GuestRequest::Read { .. } => Some(IoKind::Read),
            GuestRequest::Write { .. } => Some(IoKind::Write),
            _ => None,
        };
        let served = match request {
            GuestRequest::Read { offset, len_bytes } => {
                owned.guest_read(offset, len_bytes, began).await.map(with_checksums)
            }
            GuestRequest::Write { offset, crc, client, retry } => {
                if compare([&crc], [&payload[..]]).is_err() {
                    self.context().tell_changed(from);
                    return Err(Refusal::Lost);
                }
                let _try = owned.forwarded.begin(client).await;
                let origin = Origin { client, retry, began: Some(began) };
                owned.guest_write(offset, payload, origin).await.map(|()| (Answer::Done, Vec::new()))
            }
            GuestRequest::Zero { offset, len_bytes, keep_allocated, client, retry } => {
                let _try = owned.forwarded.begin(client).await;
                let origin = Origin { client, retry, began: None };
                let zeroed = owned.guest_zero(offset, len_bytes, keep_allocated, origin).await;
                zeroed.map(|()| (Answer::Done, Vec::new()))
            }
            GuestRequest::Status { offset, len_bytes } => {
                owned.guest_status(offset, len_bytes).await.map(|pieces| (Answer::Allocated(pieces), Vec::new()))
            }
        };
        if served.is_ok() {
            // Guests of other hosts count here, too: it is this owner's resyncs that they wait for.
            let now = self.context().env.now();
            self.context().throttle.borrow_mut().on_guest(now, now.since(began));
        }
        if let (Some(kind), Ok(_)) = (kind, &served) {
            owned.served(kind, began);
        }
        served.map_err(|error| match error {
            OpError::Ended(Ended::Inaccessible(text)) => Refusal::Inaccessible(text),
            OpError::Ended(_) => self.not_owner(object),
            OpError::NoSpace => Refusal::NoSpace,
            OpError::Unreadable(lost) => Refusal::Media(lost.to_string()),
            OpError::Io(text) => Refusal::Media(text),
            OpError::NeedsRows | OpError::Elsewhere => Refusal::Inaccessible("it was to be begun again".into()),
        })
    }

    async fn serve_command(&self, object: ObjectId, command: OwnerCommand) -> Result<ObjectStatus, Refusal> {
        let Some(owned) = self.owned(object) else {
            return Err(self.not_owner(object));
        };
        match command {
            OwnerCommand::Status => {}
            OwnerCommand::Repair { component, ranges } => {
                owned.repair_found(component, ranges).await.map_err(Refusal::Inaccessible)?;
            }
            command => {
                owned.command(command).await.ok_or_else(|| self.not_owner(object))?.map_err(Refusal::Invalid)?;
            }
        }
        Ok(owned.status())
    }

    /// The highest record of an object that this host or any of `hints` has, and who is said to own it now. Where those are too few to
    /// know, all hosts that answer are asked.
    pub async fn look_up(&self, object: ObjectId, hints: &[HostId]) -> Option<(Accepted, Option<HostId>)> {
        let context = self.context();
        let me = context.env.host();
        let mut found = Found::default();
        let own = Request::WhoHas { object };
        let own = context.seats.serve(me, context.env.incarnation(), own, Bytes::new());
        let others = |host: &HostId| *host != me && context.rpc.is_up(*host);
        let hinted: BTreeSet<HostId> = hints.iter().copied().filter(others).collect();
        self.ask_who_has(object, &hinted, &mut found).await;
        found.take(me, own.await);
        if !found.is_of_a_majority() {
            // Its components may all have moved since the hint was written, and who was away may have what it had then.
            let all = context.rpc.peers_up().into_keys().filter(others);
            self.ask_who_has(object, &all.filter(|host| !hinted.contains(host)).collect(), &mut found).await;
        }
        let owner = found.owners.into_iter().max_by_key(|(_, n)| *n).map(|(host, _)| host);
        context.note_epoch(object, found.promised_max);
        found.best.map(|accepted| (accepted, owner))
    }

    async fn ask_who_has(&self, object: ObjectId, hosts: &BTreeSet<HostId>, found: &mut Found) {
        let rpc = &self.context().rpc;
        let ask = |host: &HostId| {
            let (host, asked) = (*host, rpc.call(*host, Request::WhoHas { object }, Vec::new()));
            async move { (host, asked.await) }
        };
        for (host, answer) in join_all(hosts.iter().map(ask)).await {
            found.take(host, answer);
        }
    }

    /// Gives the object up, unless a front end of this host has it open and `force` is off.
    async fn hand_over(&self, object: ObjectId, force: bool) -> Result<(), Refusal> {
        if !force && self.front_ends(object) > 0 {
            return Err(Refusal::Invalid("a front end of the owner's host has the disk open".into()));
        }
        if let Some(owned) = self.owned(object) {
            owned.give_up().await;
        }
        Ok(())
    }

    /// Makes this host the owner: asks the present one to hand over, then seizes. Without `force` a host whose front
    /// end has the object open keeps it, and this host forwards.
    ///
    /// # Errors
    /// Why the object cannot be owned here now, in words.
    pub async fn attach(&self, object: ObjectId, hints: &[HostId], force: bool) -> Result<(), String> {
        if self.owned(object).is_some() {
            return Ok(());
        }
        let Some((known, owner)) = self.look_up(object, hints).await else {
            return Err("no host that answers has the disk's record".into());
        };
        let owner = owner.filter(|o| *o != self.context().env.host() && self.context().rpc.is_up(*o));
        if let Some(owner) = owner {
            let request = Request::HandOver { object, force };
            if let Err(refusal) = self.context().rpc.call(owner, request, Vec::new()).await {
                return Err(format!("the owner does not hand over: {refusal:?}"));
            }
        }
        let env = &self.context().env;
        let until = env.now() + self.context().leases.lease();
        loop {
            match self.take_over(&known).await {
                // It has given the disk up, or was this host's process before; a seat hears of that a little later, or when the
                // lease has ended.
                Err(SeizeError::LeaseHeld { by, .. })
                    if (Some(by.host) == owner || by.host == env.host()) && env.now() < until =>
                {
                    env.sleep(RELEASED_WITHIN).await;
                }
                taken => return taken.map_err(|error| error.to_string()),
            }
        }
    }

    /// Sends a command to the owner; here or elsewhere.
    pub async fn command(
        &self,
        owner: HostId,
        object: ObjectId,
        command: OwnerCommand,
    ) -> Result<ObjectStatus, Refusal> {
        if self.owned(object).is_some() {
            return self.serve_command(object, command).await;
        }
        match self.context().rpc.call(owner, Request::Manage { object, command }, Vec::new()).await?.0 {
            Answer::Status(status) => Ok(*status),
            _ => Err(Refusal::Invalid("not an answer to a command".into())),
        }
    }
}

/// Bytes of a read with a checksum per 4 KiB of the answer, so that the front end's host can check them.
fn with_checksums(parts: Vec<Bytes>) -> (Answer, Vec<Bytes>) {
    let step = BLOCK_BYTES as usize;
    let even = parts.iter().rev().skip(1).all(|p| p.len().is_multiple_of(step));
    let parts = match even {
        true => parts,
        false => vec![Bytes::from(parts.concat())],
    };
    let crcs = parts.iter().flat_map(|part| part.chunks(step).map(block_crc)).collect();
    (Answer::Data { runs: vec![Run::Data { crcs }] }, parts)
}
