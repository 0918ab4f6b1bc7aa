//! The object client: lets any host serve any disk. Finds the owner, or becomes it; repeats what got lost.
//!
//! Promises    C1  a request is answered once, or fails after the guest's patience with the reason
//!             C2  a repeated request carries its number, so that it is not carried out twice       (scenario 15)
//!             C3  a request is not begun, nor begun again, once its guest may have written newer data through another host:
//!                 after the guest left, after this process stood still, or after two leases where leaving may be missed
//! Not here    what the owner does with it (`owner`)

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    time::Duration,
};

use bytes::Bytes;
use cairn_env::Env;
use cairn_metrics::GuestCounters;
use cairn_types::{Accepted, BLOCK_BYTES, HostId, ObjectId, Run, Time};
use cairn_volume::{Extent, Guest, Volume, VolumeError, VolumeInfo};
use cairn_wire::{Answer, GuestRequest, Refusal, Request, block_crc};

use crate::{
    arrived::compare,
    bytes::extents,
    local_store::LocalStore,
    objects::Objects,
    owner::{Ended, OpError, Origin, Owned, SeizeError},
    session::{Named, Session},
    stages::{IoKind, StagesCell, Tries},
};

/// Leases that a request may wait for where a cut could hide that its guest has gone on elsewhere. Above one lease and a
/// takeover, which are part of a failure's ordinary course.
const LEASES_UNSEEN: u32 = 2;
/// Bytes of one zeroing that the owner is asked for, at most: a striped disk makes a part of each MiB.
const ZERO_BYTES_MAX: u64 = 1 << 30;

/// A disk, served by this host whoever owns it. Cheap to clone; clones are one front-end session.
pub struct DiskClient<E: Env, S: LocalStore> {
    inner: Rc<Inner<E, S>>,
}

struct Inner<E: Env, S: LocalStore> {
    objects: Objects<E, S>,
    object: ObjectId,
    info: VolumeInfo,
    session: Rc<RefCell<Session>>,
    /// The owner, as far as this client knows.
    owner: Cell<Option<HostId>>,
    /// Hosts to ask for the record when none of it is here.
    hints: RefCell<Vec<HostId>>,
    guest: RefCell<Option<Rc<dyn Guest>>>,
    /// Of all sessions of this host with the disk.
    counted: Rc<Cell<GuestCounters>>,
    /// How long its requests took at this host.
    stages: StagesCell,
    /// Standstills of this process before the session began.
    standstills: u64,
}

impl<E: Env, S: LocalStore> Clone for DiskClient<E, S> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone() }
    }
}

impl<E: Env, S: LocalStore> Drop for Inner<E, S> {
    fn drop(&mut self) {
        self.objects.guests().close(self.object);
    }
}

/// Why a try did not succeed.
enum Try {
    /// Nothing was tried: who the owner is has just become known. Go round at once.
    Again,
    /// Carried out perhaps, or not: repeat it with the same number.
    Repeat(String),
    /// It failed for good.
    Fail(VolumeError),
}

impl From<OpError> for Try {
    fn from(error: OpError) -> Self {
        match error {
            OpError::Ended(Ended::Deleted) => Self::Fail(VolumeError::Shutdown("the disk was deleted".into())),
            OpError::Ended(Ended::Inaccessible(text)) => Self::Repeat(text),
            OpError::Ended(ended) => Self::Repeat(format!("the owner changed ({ended:?})")),
            OpError::NoSpace => Self::Fail(VolumeError::NoSpace(
                "a disk group that holds this disk is full: add capacity, or delete or trim disks".into(),
            )),
            OpError::Unreadable(lost) => Self::Fail(VolumeError::Io(lost.to_string())),
            OpError::Io(text) => Self::Fail(VolumeError::Io(text)),
            OpError::NotInherited(text) => Self::Repeat(text),
            OpError::NeedsRows | OpError::Elsewhere => Self::Repeat("it was to be begun again".into()),
        }
    }
}

impl<E: Env, S: LocalStore> DiskClient<E, S> {
    /// A front end's session with a disk. `hints`: hosts that may know its record.
    pub fn new(objects: &Objects<E, S>, object: ObjectId, info: VolumeInfo, hints: Vec<HostId>) -> Self {
        let context = objects.context();
        let session = Rc::new(RefCell::new(Session::new(context.env.random_u64())));
        Self {
            inner: Rc::new(Inner {
                objects: objects.clone(),
                object,
                info,
                session,
                owner: Cell::new(None),
                hints: RefCell::new(hints),
                guest: RefCell::default(),
                stages: StagesCell::default(),
                counted: objects.guests().open(object),
                standstills: context.leases.standstills(),
            }),
        }
    }

    /// Counts a request that ended: with `change` where it was carried out.
    fn count<T>(
        &self,
        result: Result<T, VolumeError>,
        change: impl FnOnce(&mut GuestCounters),
    ) -> Result<T, VolumeError> {
        let mut counted = self.inner.counted.get();
        match &result {
            Ok(_) => change(&mut counted),
            Err(_) => counted.failed_requests += 1,
        }
        self.inner.counted.set(counted);
        result
    }

    async fn read_bytes(&self, offset: u64, len_bytes: u32) -> Result<Vec<Bytes>, VolumeError> {
        let remote = |_| GuestRequest::Read { offset, len_bytes };
        let local = async |owned: Rc<Owned<E, S>>, at: Tries| owned.guest_read(offset, len_bytes, at.last).await;
        self.request(Some(IoKind::Read), None, remote, local, |answer, data| checked(answer, data, len_bytes)).await
    }

    /// Whether a request that came at `began` may be begun, or begun again; else why not.
    fn check_wanted(&self, began: Time, again: bool) -> Result<(), VolumeError> {
        let inner = &self.inner;
        let leases = &inner.objects.context().leases;
        let abandoned = |text: String| Err(VolumeError::Abandoned(text));
        if leases.standstills() != inner.standstills {
            // Requests that waited in the socket meanwhile are as old as the session, however new they look here.
            return abandoned("this host stood still for so long that its guests may have gone on elsewhere".into());
        }
        if !again {
            return Ok(());
        }
        let waited = inner.objects.context().env.now().since(began);
        match inner.guest.borrow().as_deref() {
            Some(guest) if guest.has_left() => abandoned("its client has left".into()),
            Some(guest) if !guest.leaves_visibly() && waited > leases.lease() * LEASES_UNSEEN => {
                let seconds = waited.as_secs_f32();
                abandoned(format!(
                    "it could not be carried out for {seconds:.1} s, and its client may have left unseen"
                ))
            }
            _ => Ok(()),
        }
    }

    /// Zeroes bytes, some at a time: what copies remember of each request is bounded.
    async fn zero(&self, offset: u64, len_bytes: u64, keep_allocated: bool) -> Result<(), VolumeError> {
        let (mut from, end) = (offset, offset.saturating_add(len_bytes));
        loop {
            let len_bytes = (end - from).min(ZERO_BYTES_MAX - from % ZERO_BYTES_MAX);
            let named = Rc::new(self.name());
            let tag = named.tag;
            let remote = |retry| GuestRequest::Zero { offset: from, len_bytes, keep_allocated, client: tag, retry };
            let local = async |owned: Rc<Owned<E, S>>, at: Tries| {
                let origin = Origin { client: tag, retry: at.retry, began: None };
                let named = named.clone();
                let zero = async move |owned: Rc<Owned<E, S>>| {
                    let _named = named;
                    owned.guest_zero(from, len_bytes, keep_allocated, origin).await
                };
                owned.to_its_end(zero).await
            };
            self.request(None, None, remote, local, done).await?;
            from += len_bytes;
            if from == end {
                return Ok(());
            }
        }
    }

    fn name(&self) -> Named {
        Named::next(&self.inner.session, || self.inner.objects.context().env.random_u64())
    }

    async fn request<T>(
        &self,
        kind: Option<IoKind>,
        payload: Option<Bytes>,
        remote: impl Fn(bool) -> GuestRequest,
        local: impl AsyncFn(Rc<Owned<E, S>>, Tries) -> Result<T, OpError>,
        answer: impl Fn(Answer, Bytes) -> Option<T>,
    ) -> Result<T, VolumeError> {
        let inner = &self.inner;
        let (objects, context) = (&inner.objects, inner.objects.context());
        let (began, patience) = (context.env.now(), objects.options().guest_patience);
        let mut tries = 0u32;
        let mut again = false;
        let mut at = Tries { began, last: began, retry: false, forwarded: false };
        loop {
            let before = std::mem::replace(&mut again, true);
            self.check_wanted(began, before)?;
            let retry = tries > 0;
            let last = if before { context.env.now() } else { began };
            at = Tries { last, retry, forwarded: false, ..at };
            let outcome = if let Some(owned) = objects.owned(inner.object) {
                local(owned, at).await.map_err(Try::from)
            } else if let Some(owner) = inner.owner.get().filter(|o| context.rpc.is_up(*o) && *o != context.env.host())
            {
                at.forwarded = true;
                self.forward(owner, remote(retry), payload.clone(), began, &answer).await
            } else {
                self.find_owner().await.and(Err(Try::Again))
            };
            match outcome {
                Ok(value) => {
                    let now = context.env.now();
                    context.throttle.borrow_mut().on_guest(now, now.since(began));
                    if let Some(kind) = kind {
                        context.stages.answered((inner.object, &inner.stages), kind, at, now);
                    }
                    return Ok(value);
                }
                Err(Try::Fail(error)) => return Err(error),
                Err(Try::Again) => {}
                Err(Try::Repeat(why)) => {
                    tries += 1;
                    if context.env.now().since(began) > patience {
                        let after = patience.as_secs();
                        return Err(VolumeError::Io(format!("the disk was not accessible for {after} s: {why}")));
                    }
                    self.pause(tries).await;
                }
            }
        }
    }

    /// Short at first, then longer; with jitter, so that two hosts do not seize in step.
    async fn pause(&self, tries: u32) {
        let env = &self.inner.objects.context().env;
        let most_ms = (5u64 << tries.min(5)).min(100);
        let ms = most_ms / 2 + env.random_u64() % (most_ms / 2 + 1);
        let wait = env.sleep(Duration::from_millis(ms));
        futures::future::select(self.inner.objects.context().changed.wait(), wait).await;
    }

    async fn forward<T>(
        &self,
        owner: HostId,
        request: GuestRequest,
        payload: Option<Bytes>,
        began: Time,
        answer: &impl Fn(Answer, Bytes) -> Option<T>,
    ) -> Result<T, Try> {
        let object = self.inner.object;
        let payload_bytes = payload.as_ref().map_or(0, |p| p.len() as u64);
        let _place = match self.inner.objects.forwards().place(owner, &request, payload_bytes) {
            Ok(place) => place,
            Err(waiting) => {
                let place = waiting.await;
                self.check_wanted(began, true).map_err(Try::Fail)?;
                place
            }
        };
        let payload = payload.map(|p| vec![p]).unwrap_or_default();
        let request = Request::Guest { object, request };
        let reply = self.inner.objects.context().rpc.call(owner, request, payload).await;
        match reply {
            Ok((told, data)) => {
                let told = answer(told, data);
                if told.is_none() {
                    self.inner.objects.context().tell_changed(owner);
                }
                told.ok_or_else(|| Try::Repeat("the owner's answer arrived changed".into()))
            }
            Err(Refusal::NotOwner(other)) => {
                self.inner.owner.set(other.filter(|o| *o != owner));
                Err(Try::Repeat("the owner changed".into()))
            }
            Err(Refusal::NoSpace) => Err(OpError::NoSpace.into()),
            Err(Refusal::Media(text)) => Err(Try::Fail(VolumeError::Io(text))),
            Err(Refusal::Invalid(text)) => Err(Try::Fail(VolumeError::Invalid(text))),
            Err(Refusal::Inaccessible(text)) => {
                self.inner.owner.set(None);
                Err(Try::Repeat(text))
            }
            Err(_) => {
                self.inner.owner.set(None);
                Err(Try::Repeat("the owner's host does not answer".into()))
            }
        }
    }

    /// Learns who owns the object, or seizes it. `Ok`: try again at once.
    async fn find_owner(&self) -> Result<(), Try> {
        let inner = &self.inner;
        let (objects, context) = (&inner.objects, inner.objects.context());
        let hints = inner.hints.borrow().clone();
        let Some((known, owner)) = objects.look_up(inner.object, &hints).await else {
            return Err(Try::Repeat("no host that answers has the disk's record".into()));
        };
        if known.config.deleted {
            return Err(OpError::Ended(Ended::Deleted).into());
        }
        *inner.hints.borrow_mut() = known.config.members.iter().map(|m| m.host).collect();
        if let Some(owner) = owner.filter(|o| *o != context.env.host() && context.rpc.is_up(*o)) {
            inner.owner.set(Some(owner));
            return Ok(());
        }
        self.become_owner(&known).await
    }

    async fn become_owner(&self, known: &Accepted) -> Result<(), Try> {
        if let Some(why) = self.inner.objects.seizure_waits(self.inner.object) {
            return Err(Try::Repeat(why));
        }
        match self.inner.objects.take_over(known).await {
            Ok(()) => Ok(()),
            Err(SeizeError::Superseded(epoch)) | Err(SeizeError::LeaseHeld { by: epoch, .. }) => {
                let up = self.inner.objects.context().rpc.is_up(epoch.host);
                self.inner.owner.set(Some(epoch.host).filter(|_| up));
                Err(Try::Repeat(format!("host {} holds the lease", epoch.host)))
            }
            Err(SeizeError::Inaccessible(text)) => Err(Try::Repeat(text)),
            Err(SeizeError::Deleted) => Err(OpError::Ended(Ended::Deleted).into()),
        }
    }
}

impl<E: Env, S: LocalStore> Volume for DiskClient<E, S> {
    fn info(&self) -> VolumeInfo {
        self.inner.info.clone()
    }

    fn used_by(&self, guest: Rc<dyn Guest>) {
        *self.inner.guest.borrow_mut() = Some(guest);
    }

    fn read(&self, offset: u64, len_bytes: u32) -> impl Future<Output = Result<Vec<Bytes>, VolumeError>> + 'static {
        let client = self.clone();
        async move {
            let read = client.read_bytes(offset, len_bytes).await;
            client.count(read, |counters| {
                counters.read_requests += 1;
                counters.read_bytes += u64::from(len_bytes);
            })
        }
    }

    fn write(&self, offset: u64, data: Bytes) -> impl Future<Output = Result<(), VolumeError>> + 'static {
        let client = self.clone();
        async move {
            let named = Rc::new(client.name());
            let tag = named.tag;
            let crc = Cell::new(None);
            let remote = |retry| {
                let crc = crc.get().unwrap_or_else(|| block_crc(&data));
                GuestRequest::Write { offset, crc, client: tag, retry }
            };
            let local = async |owned: Rc<Owned<E, S>>, at: Tries| {
                let origin = Origin { client: tag, retry: at.retry, began: Some(at.last) };
                let (named, data) = (named.clone(), data.clone());
                let write = async move |owned: Rc<Owned<E, S>>| {
                    let _named = named;
                    owned.guest_write(offset, data, origin).await
                };
                owned.to_its_end(write).await
            };
            let written = client.request(Some(IoKind::Write), Some(data.clone()), remote, local, done).await;
            client.count(written, |counters| {
                counters.write_requests += 1;
                counters.write_bytes += data.len() as u64;
            })
        }
    }

    fn write_zeroes(
        &self,
        offset: u64,
        len_bytes: u64,
        keep_allocated: bool,
    ) -> impl Future<Output = Result<(), VolumeError>> + 'static {
        let client = self.clone();
        async move {
            let zeroed = client.zero(offset, len_bytes, keep_allocated).await;
            client.count(zeroed, |counters| {
                counters.zero_requests += 1;
                counters.zero_bytes += len_bytes;
            })
        }
    }

    fn trim(&self, offset: u64, len_bytes: u64) -> impl Future<Output = Result<(), VolumeError>> + 'static {
        self.write_zeroes(offset, len_bytes, false)
    }

    fn flush(&self) -> impl Future<Output = Result<(), VolumeError>> + 'static {
        // Nothing is acknowledged before it is durable on every in-sync copy, so there is nothing to wait for.
        std::future::ready(Ok(()))
    }

    fn block_status(
        &self,
        offset: u64,
        len_bytes: u64,
    ) -> impl Future<Output = Result<Vec<Extent>, VolumeError>> + 'static {
        let client = self.clone();
        async move {
            let remote = |_| GuestRequest::Status { offset, len_bytes };
            let local = async |owned: Rc<Owned<E, S>>, _| owned.guest_status(offset, len_bytes).await;
            let pieces = client
                .request(None, None, remote, local, |answer, _| match answer {
                    Answer::Allocated(pieces) => Some(pieces),
                    _ => None,
                })
                .await?;
            Ok(extents(&pieces, offset, len_bytes))
        }
    }

    fn cache(&self, offset: u64, len_bytes: u64) -> impl Future<Output = Result<(), VolumeError>> + 'static {
        let client = self.clone();
        async move {
            let mut at = offset;
            while at < offset + len_bytes {
                let len = (offset + len_bytes - at).min(1 << 20) as u32;
                client.read_bytes(at, len).await?;
                at += u64::from(len);
            }
            Ok(())
        }
    }
}

fn done(answer: Answer, _: Bytes) -> Option<()> {
    matches!(answer, Answer::Done).then_some(())
}

/// A forwarded read's bytes, if they arrived as the owner sent them.
fn checked(answer: Answer, data: Bytes, len_bytes: u32) -> Option<Vec<Bytes>> {
    let Answer::Data { runs } = answer else {
        return None;
    };
    let [Run::Data { crcs }] = runs.as_slice() else {
        return None;
    };
    let whole = data.len() == len_bytes as usize;
    let right = compare(crcs, data.chunks(BLOCK_BYTES as usize)).is_ok();
    (whole && right).then(|| vec![data])
}
