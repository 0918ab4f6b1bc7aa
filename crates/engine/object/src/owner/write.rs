//! One operation on one replica set: sent to every copy, acknowledged when all in-sync ones have it on stable media.
//!
//! Promises    W1  ack => every component in sync in the effective config holds the operation        (I3)
//!             W2  a component that missed it is recorded absent before the ack                       (I4)
//!             W3  an operation that is given up is undone everywhere before the error is returned    (I9)
//! Assumes     the caller got the exclusive range lock, which the operation holds until the ack
//! Not here    splitting guest requests (`guest`), recording failures (`keeper`)

use std::{
    future::{Future, poll_fn},
    pin::Pin,
    rc::Rc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use cairn_env::{Env, PageBuf};
use cairn_owner::Leg;
use cairn_types::{BlockOp, BlockRange, Canary, ClientTag, ComponentId, ComponentOp, Contents, OpId, ReplicaSetIndex};
use cairn_wire::{Refusal, Request};
use futures::future::LocalBoxFuture;

use crate::{
    context::PartsReply,
    local_store::LocalStore,
    locks::Guard,
    owner::{Ended, Owned, unreadable::Lost},
    stages::{CopyWatch, Watch},
};

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
}

impl From<BlockOp> for Body {
    /// Of what needs no bytes.
    fn from(blocks: BlockOp) -> Self {
        Self { blocks, data: Bytes::new() }
    }
}

/// All data in one aligned piece: for a region copy.
fn joined(data: Vec<Bytes>) -> Bytes {
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
struct Answers(Vec<(Leg, LocalBoxFuture<'static, PartsReply>)>);

impl Answers {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether an answer is missing of a component that `which` names.
    fn wait_for_any(&self, which: impl Fn(ComponentId) -> bool) -> bool {
        self.0.iter().any(|(leg, _)| which(leg.component))
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
        let begun = self.state.borrow_mut().begin(set);
        self.send(begun, client, body, lock, (Some(set), watch.map(Watch::copies)))
    }

    /// Sends a region to one component (resync); the set's other copies are the source.
    pub(crate) fn start_copy(
        self: &Rc<Self>,
        component: ComponentId,
        set: ReplicaSetIndex,
        body: Body,
        lock: Lock,
    ) -> Operation<E> {
        let (op, settled, legs) = self.state.borrow_mut().begin(set);
        let legs = legs.iter().filter(|l| l.component == component).copied().collect();
        self.send((op, settled, legs), ClientTag::default(), body, lock, (None, None))
    }

    fn send(
        self: &Rc<Self>,
        (op, settled, legs): (OpId, OpId, Rc<[Leg]>),
        client: ClientTag,
        body: Body,
        lock: Lock,
        (held_by, watch): (Option<ReplicaSetIndex>, Option<CopyWatch<E>>),
    ) -> Operation<E> {
        let Body { blocks, data } = body;
        let apply = ComponentOp::Apply { op, settled, client, blocks };
        let ask = |&leg: &Leg| {
            let request = Request::Change { to: leg.link.target, op: apply.clone() };
            let payload = (!data.is_empty()).then(|| data.clone());
            (leg, self.context.request(leg.link.host, leg.link.target.disk_group, request, payload))
        };
        let answers = Answers(legs.iter().map(ask).collect());
        let owned = self.clone();
        let steps = Box::pin(async move { owned.finish(op, legs, answers, lock, (held_by, watch)).await });
        Operation { op, env: self.context.env.clone(), steps: Some(steps) }
    }

    /// From the answers to the acknowledgement. `held_by`: the replica set whose copies in sync have the operation by then.
    async fn finish(
        self: Rc<Self>,
        op: OpId,
        legs: Rc<[Leg]>,
        mut answers: Answers,
        lock: Lock,
        (held_by, mut watch): (Option<ReplicaSetIndex>, Option<CopyWatch<E>>),
    ) -> Result<(), OpError> {
        let mut outcome = Outcome::default();
        while answers.wait_for_any(|c| self.state.borrow().requires(c)) {
            let Some((leg, reply)) = answers.next().await else {
                break;
            };
            if let Some(watch) = &mut watch {
                watch.answered((leg.link.host, leg.link.target.disk_group), leg.link.required);
            }
            outcome.take(self.judge(op, leg, reply), leg.component);
            if Canary::AckFirstCopy.sings() {
                break;
            }
        }
        if let Some(watch) = &watch {
            watch.all_answered();
        }
        if outcome.no_space || outcome.refused.is_some() {
            // The copies still unheard of may hold it: they are undone too.
            while let Some((leg, reply)) = answers.next().await {
                outcome.take(self.judge(op, leg, reply), leg.component);
            }
            let result = match self.undo(op, &legs).await {
                Err(ended) => Err(OpError::Ended(ended)),
                Ok(()) => Err(outcome.error()),
            };
            self.end_op(op);
            return result;
        }
        self.wait_recorded(&outcome.failed).await.map_err(OpError::Ended)?;
        if let Some(watch) = watch.filter(|_| !outcome.failed.is_empty()) {
            watch.recorded();
        }
        if let Some(set) = held_by {
            let answered = |c: ComponentId| !answers.wait_for_any(|late| late == c) && !outcome.failed.contains(&c);
            self.assert_held(set, |c| legs.iter().any(|leg| leg.component == c) && answered(c));
        }
        drop(lock);
        if answers.is_empty() {
            self.end_op(op);
        } else {
            let owned = self.clone();
            self.context.env.spawn(async move { owned.hear_late(op, answers).await });
        }
        Ok(())
    }

    /// W1, where the acknowledgement is given: one copy at least has the operation, and each that is in sync.
    fn assert_held(&self, set: ReplicaSetIndex, held: impl Fn(ComponentId) -> bool) {
        // These bugs are for those who look from outside.
        let hidden = [Canary::LegMissing, Canary::AckFirstCopy, Canary::AbsenceNotRecorded, Canary::NoBarrier];
        if hidden.into_iter().any(Canary::sings) {
            return;
        }
        let in_sync = self.state.borrow().in_sync(set);
        assert!(!in_sync.is_empty(), "replica set {set} has a copy in sync");
        assert!(in_sync.iter().all(|c| held(*c)), "what is acknowledged is on every copy in sync of replica set {set}");
    }

    /// Hears the copies that no acknowledgement waits for: resyncing ones confirm or are reported failed. Until then the
    /// operation keeps `settled` back, not the guest.
    async fn hear_late(&self, op: OpId, mut answers: Answers) {
        let mut late = Vec::new();
        while let Some((leg, reply)) = answers.next().await {
            if self.judge(op, leg, reply) != Verdict::Done {
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
        let link = self.state.borrow().link_of(leg.component);
        let same = link.is_some_and(|l| l.target.session == leg.link.target.session);
        match reply {
            Ok(_) => {
                self.state.borrow_mut().on_acked(leg.component, op);
                Verdict::Done
            }
            // Recorded absent since, perhaps admitted anew: it is not that admission that failed, and its resync
            // waits for the end of this operation and copies what it touched.
            Err(_) if !same && !matches!(reply, Err(Refusal::Fenced { .. })) => Verdict::Failed,
            // What is being filled and does not take it is no copy: neither the guest nor the resync may go on as if it were.
            Err(refusal @ (Refusal::NoSpace | Refusal::Invalid(_))) if !link.is_some_and(|l| l.required) => {
                if refusal == Refusal::NoSpace {
                    let until = self.context.env.now() + NO_SPACE_PAUSE;
                    self.state.borrow_mut().keep_out(leg.component, until);
                }
                self.note_failure(leg.component, false)
            }
            Err(Refusal::NoSpace) => Verdict::NoSpace,
            Err(Refusal::Fenced { promised }) => {
                self.finish_owner(Ended::Fenced(promised));
                Verdict::Failed
            }
            Err(Refusal::Invalid(text)) => Verdict::Refused(text),
            Err(Refusal::NotFound) => self.note_failure(leg.component, true),
            Err(_) => self.note_failure(leg.component, false),
        }
    }

    fn note_failure(&self, component: ComponentId, for_good: bool) -> Verdict {
        self.state.borrow_mut().fail(component, for_good);
        self.work.notify();
        Verdict::Failed
    }

    /// Waits until none of the components takes writes any more in the effective config, or the owner ended.
    pub(crate) async fn wait_recorded(&self, components: &[ComponentId]) -> Result<(), Ended> {
        // With no failure the ack is right even if the owner ended meanwhile: every in-sync copy has the operation
        // on stable media, so whoever settles finds it everywhere and keeps it.
        if components.is_empty() || Canary::AbsenceNotRecorded.sings() {
            return Ok(());
        }
        self.progressed
            .until(|| {
                let state = self.state.borrow();
                if let Some(ended) = state.ended() {
                    return Some(Err(ended.clone()));
                }
                components.iter().all(|c| !state.has_failed(*c)).then_some(Ok(()))
            })
            .await
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
            if self.judge(op, leg, answer.await) != Verdict::Done {
                self.note_failure(leg.component, false);
                failed.push(leg.component);
            }
        }
        self.wait_recorded(&failed).await
    }
}

/// How long a copy that could not be filled for want of space is left alone.
const NO_SPACE_PAUSE: Duration = Duration::from_secs(10);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Verdict {
    Done,
    Failed,
    NoSpace,
    Refused(String),
}

/// The answers to one operation so far.
#[derive(Default)]
struct Outcome {
    failed: Vec<ComponentId>,
    no_space: bool,
    refused: Option<String>,
}

impl Outcome {
    fn take(&mut self, verdict: Verdict, component: ComponentId) {
        match verdict {
            Verdict::Done => {}
            Verdict::Failed => self.failed.push(component),
            Verdict::NoSpace => self.no_space = true,
            Verdict::Refused(text) => self.refused = Some(text),
        }
    }

    fn error(&self) -> OpError {
        match &self.refused {
            Some(text) if !self.no_space => OpError::Io(text.clone()),
            _ => OpError::NoSpace,
        }
    }
}
