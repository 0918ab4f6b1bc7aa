//! The serving side: the seats and components of this host's disk groups, and who may do what to them.
//!
//! Promises    S1  a request of an epoch below the promise, or of another session, leaves no trace       (I1)
//!             S2  a promise is durable, and so is every earlier append of the object, before it is answered
//!             S3  a component is removed only on a tombstone, on a closed config without it, while nascent, or where a decided
//!                 closed config without it came after the record that names it
//!             S4  a seat that may have forgotten what it promised has no vote and grants no lease until it is told (docs/adr/0017)
//! Assumes     `LocalStore::append` enqueues in call order; so everything here that must not be reordered happens
//!             before the returned future is first polled
//! Not here    who becomes owner (`record`), the log (`store`), leases' arithmetic (`record::lease`)

use std::{
    cell::{Cell, RefCell},
    collections::{BTreeMap, BTreeSet},
    ops::Bound,
    rc::Rc,
};

use bytes::Bytes;
use cairn_env::Env;
use cairn_record::{AcceptRefused, BeforeSend, Vouched};
use cairn_types::{
    Accepted, Canary, Change, ComponentId, ComponentOp, Contents, DiskGroupId, Epoch, HostId, Incarnation, ObjectId,
    SeatRecord, SessionId,
};
use cairn_wire::{Answer, ComponentAnswer, ReadBy, Refusal, Request, SeizeAnswer, Target, Verified, VerifyBy};
use futures::future::{LocalBoxFuture, ready};

use crate::{
    leases::Leases,
    local_store::{LocalComponent, LocalStore},
};

mod history;
mod rows;
#[cfg(test)]
mod tests;

/// What a request is answered with.
pub type Served = Result<(Answer, Vec<Bytes>), Refusal>;

/// The seats of one host. Cheap to clone.
pub struct Seats<E: Env, S: LocalStore> {
    inner: Rc<Inner<E, S>>,
}

struct Inner<E: Env, S> {
    leases: Leases<E>,
    groups: RefCell<BTreeMap<DiskGroupId, Group<S>>>,
    next_session: Cell<u64>,
}

struct Group<S> {
    store: S,
    /// Objects whose records do not decode.
    unreadable: BTreeSet<ObjectId>,
    seats: BTreeMap<ObjectId, SeatRecord>,
    admitted: BTreeMap<ComponentId, Admission>,
    /// Components whose seat was told, since this group was opened, a record that was decided without it, witnesses or filled anew: a damaged
    /// log says nothing against them.
    refilled: BTreeSet<ComponentId>,
    /// What components have by records that were accepted here.
    vouched: Vouched,
    /// Components that are in sync, as far as the records here know: guests wait for what is written to them.
    in_sync: BTreeSet<ComponentId>,
    /// Members of rows: whose turn it is to change parity.
    turns: rows::Turns,
}

/// Who may write to a component: set by Seize, ended by the next promise.
struct Admission {
    epoch: Epoch,
    session: SessionId,
    /// The owner has asked something in this session: it knows what the component came back with.
    used: Cell<bool>,
}

/// What became of a Seize in its synchronous half.
enum Promise<S> {
    /// From here on older epochs are refused; it is answered when the promise is durable in this store.
    Made { durable: LocalBoxFuture<'static, Result<(), Refusal>>, store: S },
    /// Nothing is promised, and why is an answer to Seize.
    Answered(SeizeAnswer),
    /// The disk group is not open here, or cannot write the record down.
    Refused(Refusal),
}

impl<S: LocalStore> Group<S> {
    /// Components of the object whose records this group may have forgotten, with its promise: its log is damaged or an old one.
    fn forgets(&self, object: ObjectId) -> Vec<LocalComponent> {
        if !self.store.log_damaged() {
            return Vec::new();
        }
        let here = self.store.components_of(object).into_iter();
        here.filter(|c| !self.refilled.contains(&c.component)).collect()
    }

    /// Whether the proposal needs the vote of this seat: one that takes its components away does not.
    fn asks_for_a_vote(&self, proposal: &Accepted) -> bool {
        let here = self.store.components_of(proposal.config.object);
        !proposal.config.deleted && here.iter().any(|c| proposal.config.member(c.component).is_some())
    }

    /// Whether the seat has a vote on the proposal. Where it may have forgotten that it promised another, or what it accepted, it has none.
    fn has_a_vote(&self, proposal: &Accepted) -> bool {
        let named = |c: &LocalComponent| proposal.config.member(c.component).is_some();
        Canary::ForgetfulVotes.sings() || !self.forgets(proposal.config.object).iter().any(named)
    }
}

impl<E: Env, S: LocalStore> Clone for Seats<E, S> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone() }
    }
}

impl<E: Env, S: LocalStore> Seats<E, S> {
    /// No disk groups yet.
    pub fn new(env: E, leases: Leases<E>) -> Self {
        // Sessions of an earlier process must not be mistaken for ours: start at a random place.
        let first = env.random_u64() >> 1;
        Self { inner: Rc::new(Inner { leases, groups: RefCell::default(), next_session: Cell::new(first) }) }
    }

    /// Serves a disk group from now on; its records are read, nobody is admitted. Returns records that do not decode.
    pub fn add_disk_group(&self, store: S) -> Vec<ObjectId> {
        let mut bad = Vec::new();
        let mut seats = BTreeMap::new();
        for (object, bytes) in store.records() {
            match cairn_format::decode_seat_record(&bytes) {
                Some(record) if record.object == object => {
                    seats.insert(object, record);
                }
                _ => bad.push(object),
            }
        }
        let unreadable = bad.iter().copied().collect();
        let (admitted, refilled, in_sync) = (BTreeMap::new(), BTreeSet::new(), BTreeSet::new());
        let vouched = Vouched::default();
        let turns = rows::Turns::default();
        let mut group = Group { store: store.clone(), seats, unreadable, admitted, refilled, vouched, in_sync, turns };
        group.seats.keys().copied().collect::<Vec<_>>().into_iter().for_each(|object| group.note_in_sync(object));
        self.inner.groups.borrow_mut().insert(store.disk_group(), group);
        bad
    }

    /// Whether the object has a record here that cannot be read: its components are not without an owner, only without a word.
    pub fn is_unreadable(&self, disk_group: DiskGroupId, object: ObjectId) -> bool {
        self.inner.groups.borrow().get(&disk_group).is_some_and(|group| group.unreadable.contains(&object))
    }

    /// Whether a component is in sync, as far as its seat here knows.
    pub(crate) fn is_in_sync(&self, to: Target) -> bool {
        self.inner.groups.borrow().get(&to.disk_group).is_some_and(|group| group.in_sync.contains(&to.component))
    }

    /// Serves it no longer.
    pub fn remove_disk_group(&self, disk_group: DiskGroupId) {
        self.inner.groups.borrow_mut().remove(&disk_group);
    }

    /// Whether the disk group is served by this host.
    pub fn has(&self, disk_group: DiskGroupId) -> bool {
        self.inner.groups.borrow().contains_key(&disk_group)
    }

    /// Whether every seat of a disk group was told anew since it was opened, and its copies filled: what its log lost matters no more.
    pub fn all_refilled(&self, disk_group: DiskGroupId) -> bool {
        let groups = self.inner.groups.borrow();
        let Some(group) = groups.get(&disk_group) else { return false };
        let mut here = group.seats.keys().flat_map(|object| group.store.components_of(*object));
        here.all(|c| c.lost || group.refilled.contains(&c.component))
    }

    /// Whether what this seat promised and accepted may be forgotten: it has no vote until its owner has told it anew.
    pub fn forgets(&self, disk_group: DiskGroupId, object: ObjectId) -> bool {
        self.inner.groups.borrow().get(&disk_group).is_some_and(|group| !group.forgets(object).is_empty())
    }

    /// The store of a disk group.
    pub fn store(&self, disk_group: DiskGroupId) -> Option<S> {
        self.inner.groups.borrow().get(&disk_group).map(|g| g.store.clone())
    }

    /// All stores.
    pub fn stores(&self) -> Vec<S> {
        self.inner.groups.borrow().values().map(|g| g.store.clone()).collect()
    }

    /// The next seats of a disk group, ascending from the one after that of `after`, `most` of them at most: the records of those that
    /// are `wanted`, and the last seat that was looked at, none where the last of all was.
    pub fn records_after(
        &self,
        disk_group: DiskGroupId,
        after: Option<ObjectId>,
        most: usize,
        wanted: impl Fn(&SeatRecord) -> bool,
    ) -> (Vec<SeatRecord>, Option<ObjectId>) {
        let groups = self.inner.groups.borrow();
        let Some(group) = groups.get(&disk_group) else { return (Vec::new(), None) };
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let mut ahead = group.seats.range((from, Bound::Unbounded));
        let (mut found, mut last) = (Vec::new(), None);
        for (object, record) in ahead.by_ref().take(most) {
            last = Some(*object);
            if wanted(record) {
                found.push(record.clone());
            }
        }
        (found, last.filter(|_| ahead.next().is_some()))
    }

    /// The record of a seat.
    pub fn record(&self, disk_group: DiskGroupId, object: ObjectId) -> Option<SeatRecord> {
        self.inner.groups.borrow().get(&disk_group)?.seats.get(&object).cloned()
    }

    /// Whether a disk group has a seat of the object.
    pub fn has_seat(&self, disk_group: DiskGroupId, object: ObjectId) -> bool {
        self.inner.groups.borrow().get(&disk_group).is_some_and(|group| group.seats.contains_key(&object))
    }

    /// The highest record of an object here, and the disk groups that have a seat of it.
    pub fn highest(&self, object: ObjectId) -> Option<(SeatRecord, Vec<DiskGroupId>)> {
        let groups = self.inner.groups.borrow();
        let mut best: Option<SeatRecord> = None;
        let mut at = Vec::new();
        for (id, group) in groups.iter() {
            let Some(record) = group.seats.get(&object) else {
                continue;
            };
            at.push(*id);
            let key = |r: &SeatRecord| r.accepted.as_ref().map(|a| (a.epoch, a.csn));
            match &mut best {
                Some(b) => {
                    let promised = b.promised.max(record.promised);
                    if key(record) > key(b) {
                        *b = record.clone();
                    }
                    b.promised = promised;
                }
                None => best = Some(record.clone()),
            }
        }
        best.map(|b| (b, at))
    }

    /// Carries out `request`. What must keep its order happens before this returns.
    pub fn serve(
        &self,
        from: HostId,
        incarnation: Incarnation,
        request: Request,
        payload: Bytes,
    ) -> LocalBoxFuture<'static, Served> {
        match request {
            Request::Seize { disk_group, object, epoch, only, overrule } => {
                self.seize((from, incarnation), disk_group, object, epoch, &only, overrule)
            }
            Request::Accept { disk_group, accepted } => self.accept(disk_group, *accepted),
            Request::Tell { disk_group, component, accepted } => self.told(disk_group, component, *accepted),
            Request::Confirm { disk_group, object, epoch } => {
                ready(self.confirm(from, incarnation, disk_group, object, epoch)).boxed()
            }
            Request::CreateComponent { disk_group, component, object, size_blocks, reserved_blocks } => {
                let change = Change::CreateComponent { component, object, size_blocks, reserved_blocks };
                self.create(disk_group, object, component, change)
            }
            Request::DeleteComponent { disk_group, component, object } => self.delete(disk_group, component, object),
            Request::WhoHas { object } => self.who_has(object),
            Request::Change { to, op } => self.change(to, op, payload),
            Request::Exchange { to, op } => self.exchange(to, op, payload),
            request @ (Request::View { .. }
            | Request::ReadAt { .. }
            | Request::History { .. }
            | Request::FillHistory { .. }) => self.serve_history(request, payload),
            request => self.serve_component(request),
        }
    }

    /// Questions to one component.
    fn serve_component(&self, request: Request) -> LocalBoxFuture<'static, Served> {
        match request {
            Request::Read { to, range, by } => self.with_admitted(to, |store| {
                Box::pin(async move {
                    let Contents { runs, data } = match by {
                        ReadBy::Guest | ReadBy::Resync => store.read(to.component, range).await?,
                        ReadBy::Marks => store.read_marked(to.component, range).await?,
                    };
                    Ok((Answer::Data { runs }, data))
                })
            }),
            Request::Regions { to, after } => {
                self.with_admitted(to, |store| done(Answer::Regions(store.regions_after(to.component, after))))
            }
            Request::Allocated { to, range } => self.with_admitted(to, |store| {
                Box::pin(
                    async move { Ok((Answer::Allocated(store.allocated(to.component, range).await?), Vec::new())) },
                )
            }),
            Request::WasDone { to, client } => {
                self.with_admitted(to, |store| done(Answer::WasDone(store.was_done(to.component, client))))
            }
            Request::Verify { to, range, by } => self.with_admitted(to, |store| {
                Box::pin(async move {
                    let verified = match by {
                        VerifyBy::Digests => Verified::Digests(store.digests(to.component, range).await?),
                        VerifyBy::Blocks => Verified::Blocks(store.block_states(to.component, range).await?),
                    };
                    Ok((Answer::Verified(verified), Vec::new()))
                })
            }),
            Request::Compared { to, repaired, undecided } => self.with_admitted(to, |store| {
                store.compared(to.component, &repaired, &undecided);
                done(Answer::Done)
            }),
            Request::Clients { to } => {
                self.with_admitted(to, |store| done(Answer::Clients(store.recent_clients(to.component))))
            }
            _ => refuse(Refusal::Invalid("not a request to a seat".into())),
        }
    }

    /// The owner told that operations are decided; nobody waits for it.
    pub fn on_settled(&self, to: Target, upto: cairn_types::OpId) {
        if let Ok(store) = self.admitted(to) {
            drop(store.append(ComponentOp::Settle { upto }.on(to.component)));
        }
    }

    fn admitted(&self, to: Target) -> Result<S, Refusal> {
        let groups = self.inner.groups.borrow();
        let group = groups.get(&to.disk_group).ok_or_else(not_open)?;
        match group.admitted.get(&to.component) {
            Some(a) if a.epoch == to.epoch && a.session == to.session => {
                a.used.set(true);
                Ok(group.store.clone())
            }
            _ if Canary::EpochUnchecked.sings() => Ok(group.store.clone()),
            _ => Err(group.refusal(to)),
        }
    }

    fn with_admitted(
        &self,
        to: Target,
        serve: impl FnOnce(S) -> LocalBoxFuture<'static, Served>,
    ) -> LocalBoxFuture<'static, Served> {
        match self.admitted(to) {
            Ok(store) => serve(store),
            Err(refusal) => refuse(refusal),
        }
    }

    fn change(&self, to: Target, op: ComponentOp, data: Bytes) -> LocalBoxFuture<'static, Served> {
        if matches!(op, ComponentOp::Undo { .. }) && Canary::UndoForgotten.sings() {
            return done(Answer::Done);
        }
        if let Some(turns) = self.turns_for(to, &op) {
            return self.change_in_turn(to, op, data, &turns);
        }
        self.with_admitted(to, |store| {
            let durable = store.append(Change::Component { component: to.component, op, data });
            Box::pin(async move { durable.await.map(|()| (Answer::Done, Vec::new())) })
        })
    }

    fn seize(
        &self,
        from: (HostId, Incarnation),
        disk_group: DiskGroupId,
        object: ObjectId,
        epoch: Epoch,
        only: &[ComponentId],
        overrule: bool,
    ) -> LocalBoxFuture<'static, Served> {
        if (epoch.host, epoch.incarnation) != from {
            return refuse(Refusal::Invalid("a host seizes in its own name".into()));
        }
        let (durable, store) = match self.promise(disk_group, object, epoch, only, overrule) {
            Promise::Made { durable, store } => (durable, store),
            Promise::Answered(answer) => return done(Answer::Seize(answer)),
            Promise::Refused(refusal) => return refuse(refusal),
        };
        let seats = self.clone();
        Box::pin(async move {
            if !Canary::PromiseNotDurable.sings() {
                durable.await?;
            }
            Ok((Answer::Seize(seats.after_promise(&store, disk_group, object, epoch)), Vec::new()))
        })
    }

    /// The synchronous half of Seize: from here on older epochs are refused.
    fn promise(
        &self,
        disk_group: DiskGroupId,
        object: ObjectId,
        epoch: Epoch,
        only: &[ComponentId],
        overrule: bool,
    ) -> Promise<S> {
        let mut groups = self.inner.groups.borrow_mut();
        let Some(group) = groups.get_mut(&disk_group) else { return Promise::Refused(not_open()) };
        let known = group.seats.get(&object).cloned();
        if known.is_none() && group.store.components_of(object).is_empty() {
            return Promise::Answered(SeizeAnswer::NoSeat);
        }
        let mut record = known.unwrap_or(SeatRecord { object, promised: Epoch::default(), accepted: None });
        if epoch < record.promised {
            return Promise::Answered(SeizeAnswer::Promisee { promised: record.promised });
        }
        if let Err(held) = self.inner.leases.may_promise(disk_group, &record, epoch, overrule) {
            return Promise::Answered(held);
        }
        // Persisted even when nothing changed: the answer says that every earlier append is durable too.
        let _ = cairn_record::promise(&mut record, epoch);
        let bytes = encode_record(&record);
        if let Err(refusal) = too_large(&group.store, &bytes) {
            return Promise::Refused(refusal);
        }
        group.seats.insert(object, record);
        let all = only.is_empty() || group.admitted.is_empty();
        for component in group.store.components_of(object) {
            let same_epoch = group.admitted.get(&component.component).is_some_and(|a| a.epoch == epoch);
            if same_epoch && !all && !only.contains(&component.component) {
                continue;
            }
            match same_epoch {
                true => group.store.refuse_copies(component.component),
                false => group.store.refuse_waiting(component.component),
            }
            let session = SessionId(self.inner.next_session.replace(self.inner.next_session.get() + 1));
            group.admitted.insert(component.component, Admission { epoch, session, used: Cell::new(false) });
        }
        self.inner.leases.claim(disk_group, object, epoch);
        let durable = group.store.append(Change::Record { object, bytes }).boxed();
        Promise::Made { durable, store: group.store.clone() }
    }

    fn after_promise(&self, store: &S, disk_group: DiskGroupId, object: ObjectId, epoch: Epoch) -> SeizeAnswer {
        let groups = self.inner.groups.borrow();
        let Some((group, record)) = groups.get(&disk_group).and_then(|g| Some((g, g.seats.get(&object)?))) else {
            return SeizeAnswer::NoSeat;
        };
        if record.promised != epoch {
            return SeizeAnswer::Promisee { promised: record.promised };
        }
        let damaged = store.log_damaged();
        let components = store.components_of(object).into_iter().map(|c| ComponentAnswer {
            component: c.component,
            present: true,
            lost: c.lost,
            session: group.admitted.get(&c.component).map(|a| a.session).unwrap_or_default(),
            settled: store.settled(c.component).max(group.vouched.decided(c.component, record)),
            last_written: store.last_written(c.component),
            last_written_with: store.last_written_with(c.component),
            window: store.window(c.component),
            log_damaged: damaged && !group.refilled.contains(&c.component),
        });
        SeizeAnswer::Promised { accepted: record.accepted.clone().map(Box::new), components: components.collect() }
    }

    fn accept(&self, disk_group: DiskGroupId, proposal: Accepted) -> LocalBoxFuture<'static, Served> {
        let mut groups = self.inner.groups.borrow_mut();
        let Some(group) = groups.get_mut(&disk_group) else {
            return refuse(Refusal::NotFound);
        };
        let asked = group.asks_for_a_vote(&proposal);
        if asked && !group.has_a_vote(&proposal) {
            return refuse(Refusal::Session);
        }
        let taken = match asked {
            true => group.take(proposal, cairn_record::accept),
            false => group.take(proposal, cairn_record::learn),
        };
        taken.unwrap_or_else(refuse)
    }

    /// The owner that was promised in this opening has a majority without this seat, which has accepted the record since.
    fn told(
        &self,
        disk_group: DiskGroupId,
        component: ComponentId,
        record: Accepted,
    ) -> LocalBoxFuture<'static, Served> {
        let mut groups = self.inner.groups.borrow_mut();
        let Some(group) = groups.get_mut(&disk_group) else {
            return refuse(Refusal::NotFound);
        };
        let promised = group.admitted.get(&component).is_some_and(|a| a.epoch == record.epoch);
        let counts = record.config.member(component).is_some_and(|m| m.state.in_sync());
        if record.base.is_some() || !promised || !counts {
            return refuse(Refusal::Session);
        }
        let taken = group.take(record, cairn_record::accept);
        if taken.is_ok() {
            // Before it is durable: as with a promise, what the next process finds is all that it believes.
            group.refilled.insert(component);
        }
        taken.unwrap_or_else(refuse)
    }

    fn confirm(
        &self,
        from: HostId,
        incarnation: Incarnation,
        disk_group: DiskGroupId,
        object: ObjectId,
        epoch: Epoch,
    ) -> Served {
        let groups = self.inner.groups.borrow();
        let group = groups.get(&disk_group).ok_or_else(not_open)?;
        let record = group.seats.get(&object).ok_or(Refusal::NotFound)?;
        if record.promised != epoch || (epoch.host, epoch.incarnation) != (from, incarnation) {
            return Err(Refusal::Fenced { promised: record.promised });
        }
        // A seat that may have forgotten what it promised has no vote: its owner tells it the record, as to one that was away.
        if !group.forgets(object).is_empty() && !Canary::ForgetfulVotes.sings() {
            return Err(Refusal::Fenced { promised: Epoch::default() });
        }
        match self.inner.leases.confirm_grant(disk_group, object, epoch, record.promised) {
            true => Ok((Answer::Done, Vec::new())),
            false => Err(Refusal::Session),
        }
    }

    fn create(
        &self,
        disk_group: DiskGroupId,
        object: ObjectId,
        component: ComponentId,
        change: Change,
    ) -> LocalBoxFuture<'static, Served> {
        let mut groups = self.inner.groups.borrow_mut();
        let Some(group) = groups.get_mut(&disk_group) else {
            return refuse(Refusal::NotFound);
        };
        if group.store.components_of(object).iter().all(|c| c.component != component) {
            // A new one has nothing that a damaged log could have forgotten.
            group.refilled.insert(component);
        }
        let durable = group.store.append(change);
        Box::pin(async move { durable.await.map(|()| (Answer::Done, Vec::new())) })
    }

    /// S3: nascent, or deleted, or a closed config without it.
    fn delete(
        &self,
        disk_group: DiskGroupId,
        component: ComponentId,
        object: ObjectId,
    ) -> LocalBoxFuture<'static, Served> {
        let mut groups = self.inner.groups.borrow_mut();
        let Some(group) = groups.get_mut(&disk_group) else {
            return refuse(Refusal::NotFound);
        };
        if !group.store.components_of(object).iter().any(|c| c.component == component) {
            return done(Answer::Done);
        }
        let accepted = group.seats.get(&object).and_then(|r| r.accepted.as_ref());
        let may =
            accepted.is_none_or(|a| a.config.deleted || (a.base.is_none() && a.config.member(component).is_none()));
        if !may {
            return refuse(Refusal::Invalid("the object's record still names the component".into()));
        }
        group.forget_component(component);
        let durable = group.store.append(Change::DeleteComponent { component });
        Box::pin(async move { durable.await.map(|()| (Answer::Done, Vec::new())) })
    }

    /// Removes the record of an object that has no component here any more.
    pub fn forget(&self, disk_group: DiskGroupId, object: ObjectId) -> LocalBoxFuture<'static, Result<(), Refusal>> {
        let mut groups = self.inner.groups.borrow_mut();
        match groups.get_mut(&disk_group) {
            Some(group) if group.store.components_of(object).is_empty() => {
                group.seats.remove(&object);
                self.inner.leases.forget(disk_group, object);
                group.store.append(Change::Record { object, bytes: Bytes::new() }).boxed()
            }
            _ => ready(Err(Refusal::Invalid("the object still has a component here".into()))).boxed(),
        }
    }

    /// S3: removes all that a disk group holds of an object that the catalogue has a tombstone of. Its record may never have
    /// come here, and those who had it have forgotten it since.
    pub fn bury(&self, disk_group: DiskGroupId, object: ObjectId) -> LocalBoxFuture<'static, Result<(), Refusal>> {
        let mut groups = self.inner.groups.borrow_mut();
        let Some(group) = groups.get_mut(&disk_group) else {
            return ready(Err(Refusal::NotFound)).boxed();
        };
        let durable = group.remove_all(object);
        self.inner.leases.forget(disk_group, object);
        Box::pin(durable)
    }

    /// S3: removes all that a disk group holds of an object that went on without it. `decided` is a closed record that is in effect or was,
    /// above what the seat has accepted. It counts whatever the seat has promised: no owner after it can miss it, and what it leaves
    /// out, of what was named before it, nobody names again. `unwanted`: components here of which the owner of that record says that it is not
    /// about to name them.
    ///
    /// # Errors
    /// [`Refusal::Invalid`]: the record says nothing of that kind about what is here; nothing is removed.
    pub fn leave(
        &self,
        disk_group: DiskGroupId,
        decided: &Accepted,
        unwanted: &[ComponentId],
    ) -> LocalBoxFuture<'static, Result<(), Refusal>> {
        let object = decided.config.object;
        let mut groups = self.inner.groups.borrow_mut();
        let Some(group) = groups.get_mut(&disk_group) else {
            return ready(Err(Refusal::NotFound)).boxed();
        };
        if !group.is_left_out(decided, unwanted) {
            let why = "the record does not leave out what the disk group has of the object";
            return ready(Err(Refusal::Invalid(why.into()))).boxed();
        }
        let durable = group.remove_all(object);
        self.inner.leases.forget(disk_group, object);
        Box::pin(durable)
    }

    fn who_has(&self, object: ObjectId) -> LocalBoxFuture<'static, Served> {
        let Some((record, disk_groups)) = self.highest(object) else {
            return refuse(Refusal::NotFound);
        };
        let owner = disk_groups.iter().find_map(|dg| self.inner.leases.holder(*dg, object));
        done(Answer::Record {
            promised: record.promised,
            accepted: record.accepted.map(Box::new),
            disk_groups,
            owner: owner.map(|epoch| epoch.host),
        })
    }
}

impl<S: LocalStore> Group<S> {
    /// Whether the object went on without this disk group ([`cairn_record::left_out`]), and without the `unwanted` here.
    fn is_left_out(&self, decided: &Accepted, unwanted: &[ComponentId]) -> bool {
        let object = decided.config.object;
        let Some(own) = self.seats.get(&object).and_then(|record| record.accepted.as_ref()) else { return false };
        let here = self.store.components_of(object).into_iter().map(|c| c.component);
        let here = here.filter(|component| !unwanted.contains(component));
        cairn_record::left_out(own, decided, self.store.disk_group(), here)
    }

    fn forget_component(&mut self, component: ComponentId) {
        self.admitted.remove(&component);
        self.vouched.forget(component);
        self.in_sync.remove(&component);
        self.turns.forget(component);
    }

    /// Removes the object's components and its record; it is done once that is durable.
    fn remove_all(&mut self, object: ObjectId) -> impl Future<Output = Result<(), Refusal>> + 'static {
        let mut durable = Vec::new();
        for component in self.store.components_of(object).into_iter().map(|c| c.component) {
            self.forget_component(component);
            durable.push(self.store.append(Change::DeleteComponent { component }).boxed());
        }
        if self.seats.remove(&object).is_some() {
            durable.push(self.store.append(Change::Record { object, bytes: Bytes::new() }).boxed());
        }
        async move {
            for one in durable {
                one.await?;
            }
            Ok(())
        }
    }

    /// Makes the record the object's, if `by` finds that right.
    fn take(
        &mut self,
        proposal: Accepted,
        by: impl FnOnce(&mut SeatRecord, Accepted) -> Result<BeforeSend, AcceptRefused>,
    ) -> Result<LocalBoxFuture<'static, Served>, Refusal> {
        let object = proposal.config.object;
        let before = self.seats.get(&object).ok_or(Refusal::NotFound)?.clone();
        let mut record = before.clone();
        // Made durable whatever it says: the answer is also that what was taken before is.
        let _ = by(&mut record, proposal).map_err(|refused| match refused {
            AcceptRefused::Promised(promised) => Refusal::Fenced { promised },
            AcceptRefused::Csn(csn) => Refusal::Stale { csn },
        })?;
        let bytes = encode_record(&record);
        // Nothing is taken that this disk group cannot write down: who asks next would be told of it.
        too_large(&self.store, &bytes)?;
        for here in self.store.components_of(object).into_iter().map(|c| c.component) {
            let epoch = record.accepted.as_ref().map(|accepted| accepted.epoch);
            let used = self.admitted.get(&here).is_some_and(|a| Some(a.epoch) == epoch && a.used.get());
            self.vouched.accepted(here, used, &before, &record);
        }
        self.seats.insert(object, record);
        self.note_in_sync(object);
        let durable = self.store.append(Change::Record { object, bytes });
        Ok(Box::pin(async move { durable.await.map(|()| (Answer::Done, Vec::new())) }))
    }

    fn note_in_sync(&mut self, object: ObjectId) {
        let accepted = self.seats.get(&object).and_then(|record| record.accepted.as_ref());
        for here in self.store.components_of(object) {
            let member = accepted.and_then(|accepted| accepted.config.member(here.component));
            if member.is_some_and(|member| member.state.in_sync()) {
                self.in_sync.insert(here.component);
            } else {
                self.in_sync.remove(&here.component);
            }
        }
    }

    fn refusal(&self, to: Target) -> Refusal {
        let Some(component) = self.store.component(to.component) else {
            return Refusal::NotFound;
        };
        match self.seats.get(&component.object) {
            Some(record) if record.promised > to.epoch => Refusal::Fenced { promised: record.promised },
            _ => Refusal::Session,
        }
    }
}

trait Boxed<T>: Future<Output = T> + Sized + 'static {
    fn boxed(self) -> LocalBoxFuture<'static, T> {
        Box::pin(self)
    }
}
impl<T, F: Future<Output = T> + 'static> Boxed<T> for F {}

fn done(answer: Answer) -> LocalBoxFuture<'static, Served> {
    ready(Ok((answer, Vec::new()))).boxed()
}

/// A disk group that is not served here, or not yet: a component that may come back, never a lost one.
fn not_open() -> Refusal {
    Refusal::Media("the disk group is not open on this host".into())
}

fn refuse(refusal: Refusal) -> LocalBoxFuture<'static, Served> {
    ready(Err(refusal)).boxed()
}

fn too_large<S: LocalStore>(store: &S, bytes: &Bytes) -> Result<(), Refusal> {
    let most = store.record_bytes_max();
    match bytes.len() > most {
        true => Err(Refusal::Invalid(format!("a record of {} bytes; disk groups here take {most}", bytes.len()))),
        false => Ok(()),
    }
}

/// Bytes of the record of a seat that has accepted this.
pub(crate) fn record_bytes(accepted: &Accepted) -> usize {
    let (object, promised) = (accepted.config.object, accepted.epoch);
    encode_record(&SeatRecord { object, promised, accepted: Some(accepted.clone()) }).len()
}

fn encode_record(record: &SeatRecord) -> Bytes {
    cairn_format::encode_seat_record(record).into()
}
