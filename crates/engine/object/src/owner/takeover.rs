//! Becoming owner, and changing a configuration: carries out what `record`'s state machines ask for.
//!
//! No decision is made here. Each effect becomes requests, each answer an input; every request ends (`rpc`), so a
//! seizure does too.

use std::{collections::VecDeque, fmt, future::Future, rc::Rc, time::Duration};

use cairn_env::Env;
use cairn_record::{AcceptRefused, ChangeEffect, ConfigChange, Seizure, SeizureEffect, SeizureFailure};
use cairn_types::{Accepted, ComponentId, ComponentOp, Csn, Epoch, ObjectConfig, Seat};
use cairn_wire::{Answer, Refusal, Request, SeizeAnswer, Target};
use futures::{
    FutureExt, StreamExt,
    future::{Either, LocalBoxFuture, select},
    stream::FuturesUnordered,
};

use crate::{
    context::{Context, PartsReply},
    local_store::LocalStore,
    seats::record_bytes,
};

pub(crate) use cairn_record::Won;

#[cfg(test)]
mod tests;

/// How long a seizure waits for a seat that is connected and silent, once nothing else happens.
const SEIZE_SILENCE: Duration = Duration::from_millis(1000);
/// How often laggards of a config change are asked again.
const CHANGE_RETRY: Duration = Duration::from_millis(50);

/// Why an object could not be seized.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SeizeError {
    /// Somebody else is at it.
    Superseded(Epoch),
    /// Another owner's lease stands.
    LeaseHeld {
        /// Its epoch.
        by: Epoch,
        /// For at most this long.
        for_ms: u64,
    },
    /// Votes or copies are missing; says which.
    Inaccessible(String),
    /// The object is deleted.
    Deleted,
}

impl fmt::Display for SeizeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Superseded(epoch) => {
                write!(f, "host {} is taking the disk over (epoch {})", epoch.host, epoch.number)
            }
            Self::LeaseHeld { by, for_ms } => {
                write!(f, "host {} holds the disk's lease for up to {for_ms} ms", by.host)
            }
            Self::Inaccessible(text) => f.write_str(text),
            Self::Deleted => f.write_str("the disk was deleted"),
        }
    }
}

impl std::error::Error for SeizeError {}

impl From<SeizureFailure> for SeizeError {
    fn from(failure: SeizureFailure) -> Self {
        match failure {
            SeizureFailure::Superseded(epoch) => Self::Superseded(epoch),
            SeizureFailure::LeaseHeld { by, for_ms } => Self::LeaseHeld { by, for_ms },
            SeizureFailure::NoQuorum(why) => Self::Inaccessible(why.to_string()),
            SeizureFailure::Deleted => Self::Deleted,
        }
    }
}

/// What happened to a request of a seizure.
enum Input {
    Seized(Seat, PartsReply),
    Accepted(Seat, Csn, PartsReply),
    Undone(ComponentId, PartsReply),
}

type Inputs = FuturesUnordered<LocalBoxFuture<'static, Input>>;

/// Takes ownership, starting from the highest record known.
pub(crate) async fn seize<E: Env, S: LocalStore>(
    context: &Rc<Context<E, S>>,
    known: &Accepted,
) -> Result<Won, SeizeError> {
    let object = known.config.object;
    wait_for_start(context, known)?;
    context.note_epoch(object, known.epoch.number);
    let epoch = context.next_epoch(object);
    context.leases.own(object, epoch, &seats_of(known));
    let (mut seizure, effects) = Seizure::start(epoch, known.clone());
    let mut effects = VecDeque::from(effects);
    let mut inputs: Inputs = FuturesUnordered::new();
    loop {
        while let Some(effect) = effects.pop_front() {
            match effect {
                SeizureEffect::Won(won) => {
                    context.leases.own(object, epoch, &won.config.seats());
                    return Ok(*won);
                }
                SeizureEffect::Failed(failure) => {
                    context.leases.release(object, epoch);
                    if let SeizureFailure::Superseded(newer) = &failure {
                        context.note_epoch(object, newer.number);
                    }
                    return Err(failure.into());
                }
                effect => ask(context, object, epoch, effect, &inputs),
            }
        }
        let input = next_input(context, &mut inputs).await;
        effects.extend(match input {
            Some(input) => feed(&mut seizure, input),
            None => seizure.on_timeout(),
        });
        // A timeout that moved nothing and a seizure that asks nothing would wait for ever.
        if effects.is_empty() && inputs.is_empty() && !seizure.ended() {
            effects.extend(seizure.on_timeout());
            assert!(!effects.is_empty() || seizure.ended(), "a seizure that waits has asked");
        }
    }
}

/// After a start nobody is recorded absent for a grace time: hosts that start together need a moment to meet. One that was met
/// and fell silent is gone as at any other time.
fn wait_for_start<E: Env, S: LocalStore>(context: &Rc<Context<E, S>>, known: &Accepted) -> Result<(), SeizeError> {
    if !context.is_starting() {
        return Ok(());
    }
    let needed = known.config.members.iter().filter(|m| m.set().is_some() && m.state.takes_writes());
    match needed.into_iter().find(|m| !context.rpc.is_up(m.host) && !context.leases.was_met(m.host)) {
        Some(away) => Err(SeizeError::Inaccessible(format!("waiting for host {} after a start", away.host))),
        None => Ok(()),
    }
}

fn seats_of(known: &Accepted) -> Vec<Seat> {
    let mut seats = known.config.seats();
    seats.extend(known.base.iter().flat_map(|b| b.seats()));
    seats.sort_unstable();
    seats.dedup();
    seats
}

async fn next_input<E: Env, S: LocalStore>(context: &Rc<Context<E, S>>, inputs: &mut Inputs) -> Option<Input> {
    if inputs.is_empty() {
        return None;
    }
    match select(inputs.next(), context.env.sleep(SEIZE_SILENCE)).await {
        Either::Left((input, _)) => input,
        Either::Right(_) => None,
    }
}

fn ask<E: Env, S: LocalStore>(
    context: &Rc<Context<E, S>>,
    object: cairn_types::ObjectId,
    epoch: Epoch,
    effect: SeizureEffect,
    inputs: &Inputs,
) {
    match effect {
        SeizureEffect::Seize { seats, overrule_lease } => {
            for seat in seats {
                let (disk_group, only) = (seat.disk_group, Vec::new());
                let request = Request::Seize { disk_group, object, epoch, only, overrule: overrule_lease };
                let reply = context.request(seat.host, disk_group, request, None);
                inputs.push(reply.map(move |r| Input::Seized(seat, r)).boxed_local());
            }
        }
        SeizureEffect::Accept { seats, record } => {
            for seat in seats {
                let (disk_group, csn) = (seat.disk_group, record.csn);
                let request = Request::Accept { disk_group, accepted: record.clone() };
                let reply = context.request(seat.host, disk_group, request, None);
                inputs.push(reply.map(move |r| Input::Accepted(seat, csn, r)).boxed_local());
            }
        }
        SeizureEffect::Undo { seat, component, session, ops } => {
            let to = Target { disk_group: seat.disk_group, component, epoch, session };
            let undo = Request::Change { to, op: ComponentOp::Undo { ops } };
            let reply = context.request(seat.host, seat.disk_group, undo, None);
            inputs.push(reply.map(move |r| Input::Undone(component, r)).boxed_local());
        }
        SeizureEffect::Won(_) | SeizureEffect::Failed(_) => unreachable!("handled by the caller"),
    }
}

fn feed(seizure: &mut Seizure, input: Input) -> Vec<SeizureEffect> {
    match input {
        Input::Seized(seat, Ok((Answer::Seize(answer), _))) => seizure.on_seize_answer(seat, answer),
        Input::Seized(seat, _) => seizure.on_unreachable(seat),
        Input::Accepted(seat, csn, reply) => match accept_answer(reply) {
            Some(answer) => seizure.on_accept_answer(seat, csn, answer),
            None => seizure.on_unreachable(seat),
        },
        Input::Undone(component, reply) => {
            let done = reply.map(|_| ()).map_err(|refusal| match refusal {
                Refusal::Fenced { promised } => Some(promised),
                _ => None,
            });
            seizure.on_undo_answer(component, done)
        }
    }
}

/// Asks a seat for its vote; first, where it was away when the object was seized, for its promise. Sent before this returns.
fn offer<E: Env, S: LocalStore>(
    context: &Rc<Context<E, S>>,
    epoch: Epoch,
    seat: Seat,
    record: Box<Accepted>,
) -> impl Future<Output = PartsReply> + use<E, S> {
    let disk_group = seat.disk_group;
    let ask = |record| context.request(seat.host, disk_group, Request::Accept { disk_group, accepted: record }, None);
    let (asked, context) = (ask(record.clone()), context.clone());
    async move {
        match asked.await {
            Err(Refusal::Fenced { promised }) if promised < epoch => {}
            reply => return reply,
        }
        let only = only_known(&record.config, seat);
        if only.is_empty() {
            return Err(Refusal::Session);
        }
        let object = record.config.object;
        let seize = Request::Seize { disk_group, object, epoch, only, overrule: true };
        match context.request(seat.host, disk_group, seize, None).await {
            Ok((Answer::Seize(SeizeAnswer::Promised { .. }), _)) => {
                let accept = Request::Accept { disk_group, accepted: record };
                context.request(seat.host, disk_group, accept, None).await
            }
            Ok((Answer::Seize(SeizeAnswer::Promisee { promised }), _)) => Err(Refusal::Fenced { promised }),
            _ => Err(Refusal::Session),
        }
    }
}

/// Components at the seat that a promise may admit anew: those that take writes have promised already, or are recorded absent and
/// readmitted one by one.
pub(super) fn only_known(config: &ObjectConfig, seat: Seat) -> Vec<ComponentId> {
    let at_seat = config.members.iter().filter(|m| m.seat() == seat && (!m.state.takes_writes() || m.set().is_none()));
    at_seat.map(|m| m.component).collect()
}

/// A seat's answer to Accept; none when it gave none.
fn accept_answer(reply: PartsReply) -> Option<Result<(), AcceptRefused>> {
    match reply {
        Ok(_) => Some(Ok(())),
        Err(Refusal::Fenced { promised }) => Some(Err(AcceptRefused::Promised(promised))),
        Err(Refusal::Stale { csn }) => Some(Err(AcceptRefused::Csn(csn))),
        Err(_) => None,
    }
}

/// Why a configuration did not come into effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ChangeError {
    /// A newer epoch was promised.
    Superseded(Epoch),
    /// It breaks a rule; nothing was sent.
    Illegal(String),
    /// Some seats may have accepted it, too few answered within a lease.
    InDoubt(String),
}

/// Replaces the effective configuration; `effective` is called when the new one is in force. Returns its closed number.
pub(crate) async fn change_config<E: Env, S: LocalStore>(
    context: &Rc<Context<E, S>>,
    epoch: Epoch,
    csn: Csn,
    base: &ObjectConfig,
    target: ObjectConfig,
    effective: impl Fn(ObjectConfig, Csn),
) -> Result<Csn, ChangeError> {
    let object = base.object;
    let mut listed = base.seats();
    listed.extend(target.seats());
    context.leases.own(object, epoch, &listed);
    let (mut change, effects) = match ConfigChange::propose(epoch, csn, base, target) {
        Ok(begun) => begun,
        Err(illegal) => return Err(ChangeError::Illegal(illegal.to_string())),
    };
    // Asked of seats that all refuse it, it would end the owner in doubt, again and again.
    let (bytes, most) = (record_bytes(change.record()), context.record_bytes_max());
    if bytes > most {
        return Err(ChangeError::Illegal(format!(
            "the record of the change has {bytes} bytes, and disk groups take {most}"
        )));
    }
    let (env, began) = (&context.env, context.env.now());
    let mut effects = VecDeque::from(effects);
    let mut inputs: FuturesUnordered<LocalBoxFuture<'static, (Seat, Csn, PartsReply)>> = FuturesUnordered::new();
    loop {
        while let Some(effect) = effects.pop_front() {
            match effect {
                ChangeEffect::Accept { seats, record } => {
                    for seat in seats {
                        let csn = record.csn;
                        let reply = offer(context, epoch, seat, record.clone());
                        inputs.push(reply.map(move |r| (seat, csn, r)).boxed_local());
                    }
                }
                ChangeEffect::Effective(config) => effective(*config, change.record().csn),
                ChangeEffect::Closed { csn } => {
                    // The rest learn of it too: their answers are not waited for.
                    env.spawn(async move { while inputs.next().await.is_some() {} });
                    return Ok(csn);
                }
                ChangeEffect::Superseded(promised) => {
                    return Err(ChangeError::Superseded(promised));
                }
            }
        }
        if inputs.is_empty() {
            if env.now().since(began) > context.leases.lease() {
                return Err(ChangeError::InDoubt("too few seats answer to record a change".into()));
            }
            env.sleep(CHANGE_RETRY).await;
            effects.extend(change.on_timeout());
            continue;
        }
        let waited = select(inputs.next(), env.sleep(context.leases.lease())).await;
        match waited {
            Either::Left((Some((seat, csn, reply)), _)) => {
                if let Some(answer) = accept_answer(reply) {
                    effects.extend(change.on_accept_answer(seat, csn, answer));
                }
            }
            Either::Left((None, _)) => {}
            Either::Right(_) => {
                return Err(ChangeError::InDoubt("too few seats answer to record a change".into()));
            }
        }
    }
}
