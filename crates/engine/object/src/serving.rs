//! Requests of other hosts that are being carried out: all in one task, which lives while there are any.
//!
//! Promises    while the host lives, every request is carried to its end and answered, in whatever order they end
//! Why         a task for each costs more than the set does; what one group commit made durable is answered in one message, as each
//!             message is encoded, framed, checked and taken from a queue at the other end
//! Not here    what is done for a request (`serve`), what becomes of the answer on its way (`rpc`)

use std::{
    cell::{Cell, RefCell},
    future::{Future, poll_fn},
    pin::Pin,
    rc::Rc,
    task::{self, Poll, Waker, ready},
};

use cairn_env::Env;
use cairn_types::{HostId, Time};
use cairn_wire::Answer;
use futures::{
    future::LocalBoxFuture,
    stream::{FuturesUnordered, StreamExt},
};

use crate::{context::Context, local_store::LocalStore, rpc::Rpc, seats::Served};

/// Requests that one message answers, at most.
const IDS_MAX: usize = 256;

/// One request, and where its answer goes.
pub(crate) struct Asked {
    pub(crate) from: HostId,
    pub(crate) id: u64,
    /// When it came, if a guest waits for a seat of this host.
    pub(crate) began: Option<Time>,
    pub(crate) served: LocalBoxFuture<'static, Served>,
}

impl Future for Asked {
    type Output = (HostId, u64, Option<Time>, Served);
    fn poll(mut self: Pin<&mut Self>, cx: &mut task::Context<'_>) -> Poll<Self::Output> {
        let served = ready!(self.served.as_mut().poll(cx));
        Poll::Ready((self.from, self.id, self.began, served))
    }
}

/// The requests under way of one host. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Serving(Rc<Inner>);

#[derive(Default)]
struct Inner {
    /// Those that the task has not taken yet.
    new: RefCell<Vec<Asked>>,
    /// There is a task.
    runs: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

impl Serving {
    /// Carries a request out and answers it.
    pub(crate) fn add<E: Env, S: LocalStore>(&self, context: &Rc<Context<E, S>>, asked: Asked) {
        self.0.new.borrow_mut().push(asked);
        if !self.0.runs.replace(true) {
            let (serving, run_in) = (self.clone(), context.clone());
            context.env.spawn(async move { serving.run(&run_in).await });
        } else if let Some(waker) = &*self.0.waker.borrow() {
            waker.wake_by_ref();
        }
    }

    async fn run<E: Env, S: LocalStore>(&self, context: &Context<E, S>) {
        let rpc = &context.rpc;
        let mut under_way = FuturesUnordered::new();
        let mut done = Done::default();
        poll_fn(|cx| {
            let known = self.0.waker.borrow().as_ref().is_some_and(|waker| waker.will_wake(cx.waker()));
            if !known {
                self.0.waker.replace(Some(cx.waker().clone()));
            }
            loop {
                under_way.extend(self.0.new.take());
                let next = under_way.poll_next_unpin(cx);
                if !matches!(next, Poll::Ready(Some(_))) {
                    done.send(rpc);
                }
                let next = ready!(next);
                if let Some((_, _, Some(began), Ok(_))) = &next {
                    context.seat_answers(*began);
                }
                match next {
                    Some((from, id, _, Ok((Answer::Done, _)))) => done.add(rpc, from, id),
                    Some((from, id, _, served)) => rpc.answer(from, id, served),
                    None if self.0.new.borrow().is_empty() => return Poll::Ready(()),
                    None => {}
                }
            }
        })
        .await;
        self.0.waker.replace(None);
        self.0.runs.set(false);
    }
}

/// Requests of one host that are carried out, and whose asker is to be told before this task rests.
#[derive(Default)]
struct Done {
    to: HostId,
    ids: Vec<u64>,
}

impl Done {
    fn add<E: Env>(&mut self, rpc: &Rpc<E>, to: HostId, id: u64) {
        if self.to != to || self.ids.len() == IDS_MAX {
            self.send(rpc);
        }
        self.to = to;
        self.ids.push(id);
    }

    fn send<E: Env>(&mut self, rpc: &Rpc<E>) {
        if !self.ids.is_empty() {
            rpc.answer_done(self.to, std::mem::take(&mut self.ids));
        }
    }
}
