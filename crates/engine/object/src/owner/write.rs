//! One operation on one replica set: sent to every copy, acknowledged when all in-sync ones have it on stable media.
//!
//! Promises    W3  an operation that is given up is undone everywhere before the error is returned    (I9)
//!             members of rows each get a body of their own; what goes to parity as a difference goes out within the operation's own steps,
//!             so that it comes to its end though its asker goes away
//! Assumes     the caller got the exclusive range lock, which the operation holds until the ack
//! Not here    what an answer means, and when the operation may be acknowledged (`cairn-owner`: W1, W2); splitting guest
//!             requests (`guest`), recording failures (`keeper`)

use std::{
    future::{Future, poll_fn},
    pin::Pin,
    rc::Rc,
    task::{Context, Poll},
};

use bytes::Bytes;
use cairn_env::{Env, PageBuf};
use cairn_owner::{AnswerEffect, Answered, GivenUp, Leg, MemberMask, Outcome, Step, Verdict};
use cairn_types::{BlockOp, BlockRange, ClientTag, ComponentId, ComponentOp, Contents, OpId, ReplicaSetIndex, Run};
use cairn_wire::Request;
use futures::future::LocalBoxFuture;

use crate::{
    context::PartsReply,
    local_store::LocalStore,
    locks::Guard,
    owner::{Ended, Owned, rows::Follow, unreadable::Lost},
    stages::{CopyWatch, Watch},
    view::NotRead,
};

/// Operations on a mirror concern all members of their set.
pub(super) const OF_ALL: MemberMask = 0;

/// What an operation does to its blocks, and the bytes that it needs.
#[derive(Debug, Clone)]
pub(crate) struct Body {
    pub(crate) blocks: BlockOp,
    pub(crate) data: Bytes,
}

impl Body {
    /// Brings these blocks as their source holds them.
    pub(crate) fn copy(range: BlockRange, contents: Contents) -> Self {
        let Contents { runs, data } = contents;
        Self { blocks: BlockOp::Copy { first_block: range.first, runs }, data: joined(data) }
    }

    /// The same blocks as a copy brings them: stores put those where they stay, and hosts count them as work that yields to guests.
    pub(super) fn copied(self) -> Self {
        let blocks = match self.blocks {
            BlockOp::Write { first_block, crcs } => BlockOp::Copy { first_block, runs: vec![Run::Data { crcs }] },
            BlockOp::Rows { first_block, runs, .. } => BlockOp::Copy { first_block, runs },
            nothing @ (BlockOp::Zero { .. }
            | BlockOp::Copy { .. }
            | BlockOp::ZeroRows { .. }
            | BlockOp::Difference(_)) => nothing,
        };
        Self { blocks, ..self }
    }
}

/// What each member gets of an operation.
pub(super) enum Bodies {
    /// All the same: copies of a mirror.
    Same(Body),
    /// By index in the set: members of rows. None: it is not sent there.
    ByMember(Vec<Option<Body>>),
}

impl Bodies {
    fn of(&self, leg: &Leg) -> Option<&Body> {
        match self {
            Self::Same(body) => Some(body),
            Self::ByMember(bodies) => bodies.get(leg.link.copy as usize)?.as_ref(),
        }
    }
}

/// An operation that has begun: its number, what is settled, and who of those that it concerns takes writes.
pub(super) type Begun = (OpId, OpId, Rc<[Leg]>);

/// What each member is told of an operation beside its body.
#[derive(Debug, Clone, Copy)]
pub(super) struct Numbers {
    pub(super) op: OpId,
    pub(super) settled: OpId,
    pub(super) client: ClientTag,
}

/// What an operation holds until its ack: the lock of its blocks, and, of a part of a row, that of its positions, which other columns have
/// too.
pub(super) type Held = (Lock, Option<Guard>);

/// Who has an operation once it is acknowledged: members in sync of the set that it concerns. None: nobody has to.
pub(super) type HeldBy = Option<(ReplicaSetIndex, MemberMask)>;

/// An operation from what was sent to what comes of it.
pub(super) struct UnderWay<E: Env> {
    pub(super) numbers: Numbers,
    /// To whom it was sent.
    pub(super) legs: Rc<[Leg]>,
    pub(super) answers: Answers,
    pub(super) outcome: Outcome,
    held_by: HeldBy,
    watch: Option<CopyWatch<E>>,
    /// What goes out once a member of rows has told what was there.
    pub(super) follow: Option<Box<Follow>>,
}

impl From<BlockOp> for Body {
    /// Of what needs no bytes.
    fn from(blocks: BlockOp) -> Self {
        Self { blocks, data: Bytes::new() }
    }
}

/// All data in one aligned piece: for a region copy.
pub(super) fn joined(data: Vec<Bytes>) -> Bytes {
    if data.len() <= 1 {
        return data.into_iter().next().unwrap_or_default();
    }
    let mut all = PageBuf::dirty(data.iter().map(Bytes::len).sum());
    let mut at = 0;
    for part in &data {
        all[at..at + part.len()].copy_from_slice(part);
        at += part.len();
    }
    all.freeze()
}

/// Why an operation was not acknowledged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum OpError {
    /// The owner ended; whether the operation stands is for the next owner to decide.
    Ended(Ended),
    /// A device had no room; nothing of the operation is left.
    NoSpace,
    /// Blocks that no copy in sync can give. Another copy may have them.
    Unreadable(Lost),
    /// No copy that answers of a parent can give what a clone has of it. It is waited for. Never told to a guest.
    NotInherited(String),
    /// It needs the lock of its whole rows: nothing of it is left, and it is begun again under that. Never told to a guest.
    NeedsRows,
    /// Its blocks went over to another layout meanwhile: it is begun again there. Never told to a guest.
    Elsewhere,
    /// A request that the components refuse, or blocks that nobody has.
    Io(String),
}

/// The exclusive lock of an operation's blocks. The operation holds it until its ack: whoever asked for it may go away,
/// and a region copy that read in between would bring the old bytes to its target after the new ones.
pub(crate) type Lock = Rc<Guard>;

/// An operation under way: resolves when it may be acknowledged. It comes to its end even if whoever began it goes away.
///
/// Carried on by whoever waits for it, and by a task of its own only once nobody does: a task for each cost more than
/// the operation itself.
pub(crate) struct Operation<E: Env> {
    pub(crate) op: OpId,
    env: E,
    /// None once it resolved.
    steps: Option<LocalBoxFuture<'static, Result<(), OpError>>>,
}

impl<E: Env> Future for Operation<E> {
    type Output = Result<(), OpError>;
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let steps = self.steps.as_mut().expect("an operation resolves once");
        let outcome = std::task::ready!(steps.as_mut().poll(cx));
        self.steps = None;
        Poll::Ready(outcome)
    }
}

// Nothing in it is pinned: the steps are boxed.
impl<E: Env> Unpin for Operation<E> {}

impl<E: Env> Drop for Operation<E> {
    fn drop(&mut self) {
        if let Some(steps) = self.steps.take() {
            self.env.spawn(async move { drop(steps.await) });
        }
    }
}

/// Answers that an operation waits for: two or three, so that a look at each is cheaper than a queue of those that woke.
pub(super) struct Answers(Vec<(Leg, LocalBoxFuture<'static, PartsReply>)>);

impl Answers {
    /// One more to wait for.
    pub(super) fn push(&mut self, leg: Leg, answer: LocalBoxFuture<'static, PartsReply>) {
        self.0.push((leg, answer));
    }

    /// Those that are waited for.
    fn legs(&self) -> Rc<[Leg]> {
        self.0.iter().map(|(leg, _)| *leg).collect()
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Components whose answers are missing.
    fn missing(&self) -> impl Iterator<Item = ComponentId> {
        self.0.iter().map(|(leg, _)| leg.component)
    }

    /// The next one that is there; none once all were given.
    async fn next(&mut self) -> Option<(Leg, PartsReply)> {
        poll_fn(|cx| {
            for at in 0..self.0.len() {
                if let Poll::Ready(reply) = self.0[at].1.as_mut().poll(cx) {
                    return Poll::Ready(Some((self.0.swap_remove(at).0, reply)));
                }
            }
            if self.0.is_empty() { Poll::Ready(None) } else { Poll::Pending }
        })
        .await
    }
}

impl<E: Env, S: LocalStore> Owned<E, S> {
    /// Sends the operation to every copy of the set before it returns.
    pub(crate) fn start(
        self: &Rc<Self>,
        set: ReplicaSetIndex,
        client: ClientTag,
        body: Body,
        lock: Lock,
    ) -> Operation<E> {
        self.start_watched(set, client, body, lock, None)
    }

    /// The same for a guest's write whose stages are kept.
    pub(crate) fn start_watched(
        self: &Rc<Self>,
        set: ReplicaSetIndex,
        client: ClientTag,
        body: Body,
        lock: Lock,
        watch: Option<&Watch<E>>,
    ) -> Operation<E> {
        self.unreadable.borrow_mut().whole_again(set, body.blocks.range());
        let begun = self.state.borrow_mut().begin(set, OF_ALL);
        let waits = (self.must_hold(set, OF_ALL), watch.map(Watch::copies));
        self.send(begun, client, &Bodies::Same(body), (lock, None), waits)
    }

    /// Who must have an operation on these members once it is acknowledged. Nobody, where the set serves nothing yet: it may be given up
    /// meanwhile.
    pub(super) fn must_hold(&self, set: ReplicaSetIndex, members: MemberMask) -> HeldBy {
        cairn_geometry::serves(self.state.borrow().config(), set).then_some((set, members))
    }

    /// Sends a region to one component (resync); the set's other copies are the source.
    pub(crate) fn start_copy(
        self: &Rc<Self>,
        component: ComponentId,
        set: ReplicaSetIndex,
        body: Body,
        lock: Lock,
    ) -> Operation<E> {
        let (op, settled, legs) = self.state.borrow_mut().begin(set, OF_ALL);
        let legs = legs.iter().filter(|l| l.component == component).copied().collect();
        self.send((op, settled, legs), ClientTag::default(), &Bodies::Same(body), (lock, None), (None, None))
    }

    /// Sends an operation that has begun, to each member what is for it.
    pub(super) fn send(
        self: &Rc<Self>,
        (op, settled, legs): Begun,
        client: ClientTag,
        bodies: &Bodies,
        held: Held,
        (held_by, watch): (HeldBy, Option<CopyWatch<E>>),
    ) -> Operation<E> {
        let numbers = Numbers { op, settled, client };
        let ask = |leg: &Leg| Some((*leg, self.ask(leg, numbers, bodies.of(leg)?, false)));
        let answers = Answers(legs.iter().filter_map(ask).collect());
        let legs = match bodies {
            Bodies::Same(_) => legs,
            Bodies::ByMember(_) => answers.legs(),
        };
        let outcome = Outcome::default();
        self.carry(UnderWay { numbers, legs, answers, outcome, held_by, watch, follow: None }, held)
    }

    /// The same of a part of a row, of which `follow` goes to parity members. `from` tells what was there.
    pub(super) fn send_with_difference(
        self: &Rc<Self>,
        (numbers, legs): (Numbers, Rc<[Leg]>),
        body: &Body,
        (from, follow): (ComponentId, Follow),
        held: Held,
        (held_by, watch): (HeldBy, Option<CopyWatch<E>>),
    ) -> Operation<E> {
        let ask = |leg: &Leg| (*leg, self.ask(leg, numbers, body, leg.component == from));
        let answers = Answers(legs.iter().map(ask).collect());
        let (outcome, follow) = (Outcome::of_difference(), Some(Box::new(follow)));
        self.carry(UnderWay { numbers, legs, answers, outcome, held_by, watch, follow }, held)
    }

    /// Asks one member. Sent before this returns. `exchange`: it tells what was there.
    pub(super) fn ask(
        &self,
        leg: &Leg,
        Numbers { op, settled, client }: Numbers,
        body: &Body,
        exchange: bool,
    ) -> LocalBoxFuture<'static, PartsReply> {
        let (to, op) = (leg.link.target, ComponentOp::Apply { op, settled, client, blocks: body.blocks.clone() });
        let request = match exchange {
            true => Request::Exchange { to, op },
            false => Request::Change { to, op },
        };
        let payload = (!body.data.is_empty()).then(|| body.data.clone());
        self.context.request(leg.link.host, to.disk_group, request, payload)
    }

    fn carry(self: &Rc<Self>, way: UnderWay<E>, held: Held) -> Operation<E> {
        let (owned, op) = (self.clone(), way.numbers.op);
        let steps = Box::pin(async move { owned.finish(way, held).await });
        Operation { op, env: self.context.env.clone(), steps: Some(steps) }
    }

    /// From the answers to the acknowledgement.
    async fn finish(self: Rc<Self>, mut way: UnderWay<E>, held: Held) -> Result<(), OpError> {
        let op = way.numbers.op;
        let mut step = self.hear(&mut way).await;
        let UnderWay { legs, mut answers, mut outcome, held_by, watch, .. } = way;
        if step == Step::TakeBack {
            // The copies still unheard of may hold it: they are undone too.
            while let Some((leg, reply)) = answers.next().await {
                outcome.take(self.judge(op, leg, reply), leg.component);
            }
            let result = match self.undo(op, &legs).await {
                Err(ended) => Err(OpError::Ended(ended)),
                Ok(()) => Err(outcome.given_up().into()),
            };
            self.end_op(op);
            return result;
        }
        if step == Step::Record {
            let recorded =
                || Some(outcome.step(&self.state.borrow(), answers.missing())).filter(|s| *s != Step::Record);
            step = self.progressed.until(recorded).await;
        }
        if let Step::Ended(ended) = step {
            return Err(OpError::Ended(ended));
        }
        if let Some(watch) = watch.filter(|_| outcome.is_missed()) {
            watch.recorded();
        }
        if let Some(held_by) = held_by {
            let answered = |c| legs.iter().any(|leg| leg.component == c) && !answers.missing().any(|late| late == c);
            outcome.assert_held(&self.state.borrow(), held_by, answered);
        }
        drop(held);
        if answers.is_empty() {
            self.end_op(op);
        } else {
            let owned = self.clone();
            self.context.env.spawn(async move { owned.hear_late(op, answers).await });
        }
        Ok(())
    }

    /// Hears those that the acknowledgement waits for.
    async fn hear(&self, way: &mut UnderWay<E>) -> Step {
        // Fetched apart, here and below: a borrow in a condition would live through the body, and its awaits.
        let mut step = way.outcome.step(&self.state.borrow(), way.answers.missing());
        while step == Step::Hear {
            let Some((leg, reply)) = way.answers.next().await else {
                break;
            };
            if let Some(watch) = &mut way.watch {
                watch.answered((leg.link.host, leg.link.target.disk_group), leg.link.required);
            }
            let told = way.follow.as_ref().and_then(|follow| follow.told(&leg, &reply));
            way.outcome.take(self.judge(way.numbers.op, leg, reply), leg.component);
            if let Some(old) = told {
                self.on_old_data(way, old);
            }
            step = way.outcome.step(&self.state.borrow(), way.answers.missing());
        }
        if let Some(watch) = &way.watch {
            watch.all_answered();
        }
        step
    }

    /// Hears the copies that no acknowledgement waits for: resyncing ones confirm or are reported failed. Until then the
    /// operation keeps `settled` back, not the guest.
    async fn hear_late(&self, op: OpId, mut answers: Answers) {
        let mut late = Vec::new();
        while let Some((leg, reply)) = answers.next().await {
            let answered = answered(op, leg, reply);
            let (done, effect) = self.state.borrow_mut().on_late_answer(answered, || self.context.env.now());
            self.carry_out(effect);
            if !done {
                late.push(leg.component);
            }
        }
        if self.wait_recorded(&late).await.is_ok() {
            self.end_op(op);
        }
    }

    pub(crate) fn end_op(&self, op: OpId) {
        self.state.borrow_mut().end(op);
        self.progressed.notify();
    }

    /// What an answer means for the operation and for the component; failures are noted at once.
    fn judge(&self, op: OpId, leg: Leg, reply: PartsReply) -> Verdict {
        let (verdict, effect) = self.state.borrow_mut().on_answer(answered(op, leg, reply), || self.context.env.now());
        self.carry_out(effect);
        verdict
    }

    fn carry_out(&self, effect: Option<AnswerEffect>) {
        match effect {
            None => {}
            Some(AnswerEffect::Record) => self.work.notify(),
            Some(AnswerEffect::Fenced(promised)) => self.finish_owner(Ended::Fenced(promised)),
        }
    }

    /// Waits until none of the components takes writes any more in the effective config, or the owner ended.
    async fn wait_recorded(&self, components: &[ComponentId]) -> Result<(), Ended> {
        self.progressed.until(|| self.state.borrow().recorded(components)).await
    }

    /// Takes the operation back at every copy; one that cannot is recorded absent.
    async fn undo(&self, op: OpId, legs: &[Leg]) -> Result<(), Ended> {
        let asked: Vec<_> = legs
            .iter()
            .map(|leg| {
                let request = Request::Change { to: leg.link.target, op: ComponentOp::Undo { ops: vec![op] } };
                (*leg, self.context.request(leg.link.host, leg.link.target.disk_group, request, None))
            })
            .collect();
        let mut failed = Vec::new();
        for (leg, answer) in asked {
            let answer = answered(op, leg, answer.await);
            let (undone, effect) = self.state.borrow_mut().on_undo_answer(answer, || self.context.env.now());
            self.carry_out(effect);
            if !undone {
                failed.push(leg.component);
            }
        }
        self.wait_recorded(&failed).await
    }
}

fn answered(op: OpId, leg: Leg, reply: PartsReply) -> Answered {
    Answered { op, component: leg.component, session: leg.link.target.session, reply: reply.map(drop) }
}

impl OpError {
    /// Why it cannot be done now, for whoever waits with it in the background.
    pub(super) fn words(self) -> String {
        match self {
            Self::NoSpace => "a disk group that holds the disk is full".into(),
            Self::Unreadable(lost) => lost.to_string(),
            Self::Io(text) | Self::NotInherited(text) => text,
            Self::Ended(_) | Self::NeedsRows | Self::Elsewhere => "the disk is not served now".into(),
        }
    }
}

impl From<NotRead> for OpError {
    fn from(why: NotRead) -> Self {
        match why {
            NotRead::NoCopy(why) | NotRead::Bad(why) => Self::NotInherited(why),
            NotRead::Lost(why) => Self::Io(why),
        }
    }
}

impl From<GivenUp> for OpError {
    fn from(why: GivenUp) -> Self {
        match why {
            GivenUp::NoSpace => Self::NoSpace,
            GivenUp::Refused(text) => Self::Io(text),
            GivenUp::OldDataLost => Self::NeedsRows,
        }
    }
}
