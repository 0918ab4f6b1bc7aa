//! What this host does with each message that arrives, and how it learns where an object is.

use std::time::Duration;

use bytes::Bytes;
use cairn_env::Env;
use cairn_types::{Accepted, BLOCK_BYTES, HostId, Incarnation, ObjectId, Run};
use cairn_wire::{Answer, GuestRequest, Message, ObjectStatus, OwnerCommand, Refusal, Request, block_crc};
use futures::future::{LocalBoxFuture, ready};

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
            OpError::NotInherited(text) => Refusal::Inaccessible(text),
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
        self.context().look_up(object, hints).await
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
