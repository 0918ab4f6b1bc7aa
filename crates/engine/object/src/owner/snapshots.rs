//! Taking and deleting snapshots of an owned disk: the keeper's part.
//!
//! Promises    N1  a snapshot has every change that was answered before it was asked for, none that was begun after it was there, and of those
//!                 between either all or nothing
//!             N2  what the record names all copies in sync have; what it does not name goes
//!             N3  guests wait while it is cut, as long as the slowest copy takes, a lease at most; reads go on
//! Assumes     one keeper: nothing changes the record meanwhile
//! Not here    what the record says (`cairn-owner`), what copies keep (`store`), how a copy comes to have it (`history`)
//!
//! Components first, then the record. An owner that dies between the two leaves cuts that no record names. The next one tells all components
//! the list of the record.

use std::{pin::pin, rc::Rc, time::Duration};

use cairn_env::Env;
use cairn_owner::{Ended, State};
use cairn_types::{BlockRange, Canary, ComponentOp, Feature, Snapshot, SnapshotId};
use cairn_wire::{Refusal, Request};
use futures::future::{Either, join_all, select};

use crate::{local_store::LocalStore, locks::Guard, owner::Owned};

/// Changes that are held for a snapshot of several disks.
pub(super) struct Held {
    number: u64,
    guards: Vec<Guard>,
}

/// A snapshot that is asked for.
pub(super) struct Wanted {
    pub(super) id: SnapshotId,
    pub(super) name: String,
    pub(super) created_unix_ms: u64,
    /// Changes must have been held with this number since before.
    pub(super) held: Option<u64>,
    /// 0: it is not locked.
    pub(super) locked_for_ms: u64,
    /// The run of a schedule that it is of.
    pub(super) slot_unix_s: Option<u64>,
}

const OWNER_CHANGED: &str = "the disk's owner changed meanwhile: ask again";

/// What a majority that does not answer leaves to do.
pub(super) const NOT_ACCEPTED: &str = "the change was not accepted by a majority; ask again";

impl<E: Env, S: LocalStore> Owned<E, S> {
    /// Takes a snapshot. One with this id is not taken again, nor one of the same run of a schedule.
    pub(super) async fn take_snapshot(self: &Rc<Self>, wanted: Wanted) -> Result<(), String> {
        self.snapshots_are_on()?;
        let Wanted { id, name, created_unix_ms, held, locked_for_ms, slot_unix_s } = wanted;
        if self.config().past.as_ref().is_some_and(|past| past.snapshot(id).is_some())
            || slot_unix_s.is_some_and(|slot| self.state.borrow().has_of_run(&name, slot))
        {
            return Ok(());
        }
        self.state.borrow().check_take(&name).map_err(|why| why.to_string())?;
        if self.config().past.is_none() {
            let next = self.state.borrow().config_with_past();
            if !self.change(next).await {
                return Err(NOT_ACCEPTED.into());
            }
        }
        let held = match held {
            Some(number) => {
                self.take_held(number).ok_or("its changes could not be held until the other disks were ready")?
            }
            None => self.hold_still().await.ok_or(OWNER_CHANGED)?,
        };
        let (cut, size_bytes) = {
            let state = self.state.borrow();
            assert_eq!(state.settled(), state.last(), "nothing is under way while a snapshot is cut");
            (state.settled(), state.config().size_bytes)
        };
        // Until the record is there, what is cut goes again.
        self.unlevelled.set(true);
        let list = self.state.borrow_mut().cuts(Some((id, cut))).expect("the disk has a past");
        self.cut(&list).await?;
        let locked_until_unix_ms = self.locked_until_unix_ms(locked_for_ms);
        let snapshot = Snapshot { id, name, created_unix_ms, size_bytes, cut, locked_until_unix_ms, slot_unix_s };
        let next = self.state.borrow().config_with_snapshot(snapshot);
        if !self.change(next).await {
            return Err(NOT_ACCEPTED.into());
        }
        self.unlevelled.set(false);
        drop(held);
        Ok(())
    }

    fn snapshots_are_on(&self) -> Result<(), String> {
        match self.context.level.get().has(Feature::Snapshots) {
            true => Ok(()),
            false => Err("snapshots need an upgrade that is finished".into()),
        }
    }

    /// Holds changes until a snapshot was taken with this number; for no time: lets them go on.
    pub(super) async fn hold(self: &Rc<Self>, number: u64, for_ms: u32) -> Result<(), String> {
        if for_ms == 0 {
            drop(self.take_held(number));
            return Ok(());
        }
        self.snapshots_are_on()?;
        if self.going_back.get().is_some() {
            return Err(cairn_owner::NotTaken::GoesBack.to_string());
        }
        if self.held.borrow().is_some() {
            return Err("its changes are held for another snapshot: ask again".into());
        }
        if self.config().past.is_none() {
            // Before, as guests wait from then on.
            let next = self.state.borrow().config_with_past();
            if !self.change(next).await {
                return Err(NOT_ACCEPTED.into());
            }
        }
        let guards = self.hold_still().await.ok_or(OWNER_CHANGED)?;
        *self.held.borrow_mut() = Some(Held { number, guards });
        let owned = self.clone();
        self.context.env.spawn(async move {
            owned.context.env.sleep(Duration::from_millis(u64::from(for_ms))).await;
            drop(owned.take_held(number));
        });
        Ok(())
    }

    fn take_held(&self, number: u64) -> Option<Vec<Guard>> {
        let held = self.held.borrow_mut().take_if(|held| held.number == number)?;
        Some(held.guards)
    }

    /// Deletes a snapshot: it is gone when the record says so, its space comes back by and by.
    pub(super) async fn delete_snapshot(self: &Rc<Self>, id: SnapshotId) -> Result<(), String> {
        if self.config().past.as_ref().is_none_or(|past| past.snapshot(id).is_none()) {
            return Ok(());
        }
        let now = self.context.day_unix_ms();
        self.state.borrow().check_delete(id, now).map_err(|why| why.to_string())?;
        let next = self.state.borrow().config_without_snapshot(id);
        if !self.change(next).await {
            return Err(NOT_ACCEPTED.into());
        }
        self.unlevelled.set(true);
        self.level_cuts().await;
        Ok(())
    }

    /// Locks a snapshot, for so long from now; one that is locked for longer stays so.
    pub(super) async fn lock_snapshot(self: &Rc<Self>, id: SnapshotId, for_ms: u64) -> Result<(), String> {
        self.snapshots_are_on()?;
        if self.config().past.as_ref().is_none_or(|past| past.snapshot(id).is_none()) {
            return Err("the disk has no such snapshot any more".into());
        }
        let until_unix_ms = self.locked_until_unix_ms(for_ms);
        let next = self.state.borrow().config_with_lock(id, until_unix_ms);
        let Some(next) = next else { return Ok(()) };
        if self.change(next).await { Ok(()) } else { Err(NOT_ACCEPTED.into()) }
    }

    /// When a lock of so long ends that begins now; 0: there is none. Where nobody else tells the time of the day, this host's clock does.
    fn locked_until_unix_ms(&self, for_ms: u64) -> u64 {
        let now = || self.context.day_unix_ms().unwrap_or_else(|| self.context.env.unix_ms());
        if for_ms == 0 { 0 } else { now().saturating_add(for_ms) }
    }

    /// N2: tells all components the list of the record, where they may have another one. Those that do not answer are told again.
    pub(super) async fn level_cuts(self: &Rc<Self>) {
        if !self.unlevelled.get() || self.state.borrow().ended().is_some() {
            return;
        }
        let list = self.state.borrow_mut().cuts(None);
        let Some(list) = list else { return self.unlevelled.set(false) };
        let asked = self.ask_all(&list).await;
        self.unlevelled.set(asked.iter().any(|(_, answer)| answer.is_err()));
    }

    /// Lets no change begin, and waits until all that have begun are decided; failures are recorded on the way. None: the owner ended.
    pub(super) async fn hold_still(self: &Rc<Self>) -> Option<Vec<Guard>> {
        let held = {
            // Changes have the lock of their blocks from before they begin until they are acknowledged.
            let mut all = pin!(self.lock_all());
            loop {
                match select(&mut all, pin!(self.failure_or_end())).await {
                    Either::Left((held, _)) => break held,
                    Either::Right(_) => self.record_or_end().await?,
                }
            }
        };
        // Those of copies that are being filled come after that.
        let decided = |state: &State| match state.ended().is_some() || state.has_failures() {
            true => Some(false),
            false => (state.settled() == state.last()).then_some(true),
        };
        while !self.progressed_or_failed(decided).await {
            self.record_or_end().await?;
        }
        Some(held)
    }

    async fn failure_or_end(&self) {
        let look = |state: &State| (state.ended().is_some() || state.has_failures()).then_some(());
        self.progressed_or_failed(look).await;
    }

    async fn record_or_end(self: &Rc<Self>) -> Option<()> {
        if self.state.borrow().ended().is_none() {
            self.record_failures().await;
        }
        self.state.borrow().ended().is_none().then_some(())
    }

    /// All blocks, for as long as nothing is to change; ascending, as everybody locks.
    async fn lock_all(&self) -> Vec<Guard> {
        let blocks = self.config().size_blocks();
        let mut held = Vec::new();
        let mut first = 0;
        while first < blocks {
            let count = u32::try_from(blocks - first).unwrap_or(u32::MAX);
            held.push(self.locks.lock(BlockRange::new(first, count), false).await);
            first += u64::from(count);
        }
        held
    }

    /// Has all components that take writes make a cut. Those that do not are recorded absent, before the record names it.
    ///
    /// # Errors
    /// A component refuses it and is sound, or the owner ended.
    async fn cut(self: &Rc<Self>, list: &ComponentOp) -> Result<(), String> {
        let mut refused = None;
        for (leg, answer) in self.ask_all(list).await {
            match answer {
                Ok(()) => {}
                Err(Refusal::Fenced { promised }) => self.finish_owner(Ended::Fenced(promised)),
                Err(Refusal::NoSpace) => refused = Some("a disk group that holds this disk is full".to_owned()),
                Err(Refusal::Invalid(why)) => refused = Some(why),
                Err(_) => self.state.borrow_mut().fail(leg.component, false),
            }
        }
        self.work.notify();
        if let Some(why) = refused {
            return Err(format!("a component cannot be cut: {why}"));
        }
        while self.state.borrow().has_failures() {
            self.record_or_end().await.ok_or("too few copies were cut: ask again")?;
        }
        match self.state.borrow().ended() {
            Some(_) => Err(OWNER_CHANGED.into()),
            None => Ok(()),
        }
    }

    /// Asks all that take writes. Sent before this returns to its caller's task.
    async fn ask_all(&self, op: &ComponentOp) -> Vec<(cairn_owner::Leg, Result<(), Refusal>)> {
        let mut links = self.state.borrow().links();
        if Canary::CutMissed.sings() {
            links.pop();
        }
        let asked = links.into_iter().map(|leg| {
            let request = Request::Change { to: leg.link.target, op: op.clone() };
            let answer = self.context.request(leg.link.host, leg.link.target.disk_group, request, None);
            async move { (leg, answer.await.map(drop)) }
        });
        join_all(asked.collect::<Vec<_>>()).await
    }
}
