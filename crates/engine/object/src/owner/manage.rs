//! What administrators ask of an owned object, and what it tells of itself.

use std::rc::Rc;

use cairn_env::Env;
use cairn_geometry::Area;
use cairn_owner::{State, check_delete_disk, check_unpinned};
use cairn_types::{ComponentId, ComponentOp, ComponentState, Member, ObjectConfig, Time};
use cairn_wire::{ObjectStatus, OwnerCommand, Request, ResyncStatus};
use futures::channel::oneshot;

use crate::{
    local_store::LocalStore,
    owner::{
        Ended, OpError, Owned,
        command::Queued,
        resync::Progress,
        snapshots::{NOT_ACCEPTED, Wanted},
    },
};

impl<E: Env, S: LocalStore> Owned<E, S> {
    /// The state now.
    pub fn status(&self) -> ObjectStatus {
        let config = (*self.config()).clone();
        let admitting = self.admitting.borrow().iter().copied().collect();
        let absent_ms = self.absences.borrow().all_ms(self.context.env.now());
        let (epoch, csn, resyncs) = (self.epoch(), self.csn().0, self.resync_status());
        let unreadable_blocks = self.unreadable.borrow().blocks.len() as u64;
        ObjectStatus { epoch, csn, resyncs, config, absent_ms, unreadable_blocks, admitting }
    }

    /// The resyncs under way.
    pub fn resync_status(&self) -> Vec<ResyncStatus> {
        let now = self.context.env.now();
        let name = self.config().name.clone();
        let resyncs = self.resyncs.borrow();
        let one = |(component, p): (&ComponentId, &Progress)| ResyncStatus {
            object: self.id,
            name: name.clone(),
            component: *component,
            host: p.host,
            full: p.full,
            bytes_total: p.bytes_total,
            bytes_left: p.bytes_total.saturating_sub(p.bytes_done),
            blocks_unreadable: p.blocks_unreadable,
            elapsed_ms: now.since(p.started).as_millis() as u64,
        };
        resyncs
            .iter()
            .map(one)
            .chain(self.conversion_status())
            .chain(self.rollback_status())
            .chain(self.flatten_status())
            .collect()
    }

    /// The members of what goes over to another layout, each with its part of what is to be copied.
    fn conversion_status(&self) -> Vec<ResyncStatus> {
        let Some(converting) = self.converting() else { return Vec::new() };
        let (config, area) = (self.config(), converting.area());
        let of = |member: &Member| {
            let set = member.set().filter(|set| area.sets().contains(set))?;
            let bytes_total = area.component_bytes(set);
            Some(self.part_status(member, [bytes_total, converting.left_of(bytes_total)], converting.started, true))
        };
        config.members.iter().filter_map(of).collect()
    }

    /// The members of a disk that goes back to a snapshot, each with its part of what is looked through.
    fn rollback_status(&self) -> Vec<ResyncStatus> {
        let Some(going) = self.going_back.get() else { return Vec::new() };
        let config = self.config();
        let areas: Vec<Area> = Area::all(&config.addresses, config.size_bytes).collect();
        let sets = areas.iter().flat_map(|area| area.sets().map(|set| area.component_blocks(set)));
        let all = sets.sum::<u64>().max(1);
        let of = |member: &Member| {
            let set = member.set().filter(|set| config.addresses.serves(*set) && member.state.in_sync())?;
            let bytes_total = Area::of_set(&config, set)?.component_bytes(set);
            Some(self.part_status(
                member,
                [bytes_total, left_of(bytes_total, going.blocks_done, all)],
                going.started,
                false,
            ))
        };
        config.members.iter().filter_map(of).collect()
    }

    /// A member's part of work on the whole disk: its bytes, and those that are left.
    pub(super) fn part_status(
        &self,
        member: &Member,
        [bytes_total, bytes_left]: [u64; 2],
        started: Time,
        full: bool,
    ) -> ResyncStatus {
        ResyncStatus {
            object: self.id,
            name: self.name(),
            component: member.component,
            host: member.host,
            full,
            bytes_total,
            bytes_left,
            blocks_unreadable: 0,
            elapsed_ms: self.context.env.now().since(started).as_millis() as u64,
        }
    }

    /// Carries out a command; none where this owner ended before it came to it: the next one is to be asked. `Status` is answered by
    /// [`Self::status`], and `Repair` not by the keeper (`repair`).
    pub async fn command(self: &Rc<Self>, command: OwnerCommand) -> Option<Result<(), String>> {
        if self.state.borrow().ended().is_some() {
            return None;
        }
        let (sender, receiver) = oneshot::channel();
        self.commands.borrow_mut().push(Queued::Command(command, sender));
        self.work.notify();
        receiver.await.ok()
    }

    /// Drains and gives the object up, so that another host may seize it at once.
    pub async fn give_up(self: &Rc<Self>) {
        self.drain(false).await;
        self.finish_owner(Ended::GivenUp);
    }

    /// Waits while the object drains: whoever comes then goes to the next owner. An error when it ended.
    pub(crate) async fn not_draining(&self) -> Result<(), OpError> {
        if !self.state.borrow().is_draining() {
            return Ok(());
        }
        self.progressed
            .until(|| {
                let state = self.state.borrow();
                match state.ended() {
                    Some(ended) => Some(Err(OpError::Ended(ended.clone()))),
                    None => (!state.is_draining()).then_some(Ok(())),
                }
            })
            .await
    }

    fn stop_draining(&self) {
        self.state.borrow_mut().drain(false);
        self.progressed.notify();
    }

    /// Lets nothing new begin and waits until everything is decided. The keeper itself records failures on the way:
    /// operations wait for that, and nobody else does it.
    async fn drain(self: &Rc<Self>, by_keeper: bool) {
        self.state.borrow_mut().drain(true);
        loop {
            let failed = self
                .progressed_or_failed(|state| {
                    if state.ended().is_some() || state.settled() == state.last() {
                        return Some(false);
                    }
                    (by_keeper && state.has_failures()).then_some(true)
                })
                .await;
            if !failed {
                break;
            }
            self.record_failures().await;
        }
        let (settled, links) = {
            let state = self.state.borrow();
            (state.settled(), state.links())
        };
        let told = links.iter().map(|leg| {
            let request = Request::Change { to: leg.link.target, op: ComponentOp::Settle { upto: settled } };
            self.context.request(leg.link.host, leg.link.target.disk_group, request, None)
        });
        futures::future::join_all(told.collect::<Vec<_>>()).await;
    }

    pub(crate) async fn carry_out_commands(self: &Rc<Self>) {
        let queued = std::mem::take(&mut *self.commands.borrow_mut());
        for one in queued {
            match one {
                Queued::Activate(component, session) => self.propose_active(component, session).await,
                Queued::WentBack(to) => self.went_back(to).await,
                Queued::Flattened => self.flattened().await,
                Queued::Command(command, answer) => {
                    let result = match command {
                        OwnerCommand::Status | OwnerCommand::Repair { .. } => Ok(()),
                        OwnerCommand::Grow { size_bytes } => self.grow(size_bytes).await,
                        OwnerCommand::Limit { iops_limit, bandwidth_limit_bytes_per_s } => {
                            self.limit(iops_limit, bandwidth_limit_bytes_per_s).await
                        }
                        OwnerCommand::Delete => self.delete().await,
                        OwnerCommand::Degrade { component } => self.degrade_now(component).await,
                        OwnerCommand::Policy { name, policy } => self.set_policy(name, policy).await,
                        OwnerCommand::Move { component, to } => self.ask_to_move(component, to),
                        OwnerCommand::TakeSnapshot { id, name, created_unix_ms, held, locked_for_ms, slot_unix_s } => {
                            let wanted = Wanted { id, name, created_unix_ms, held, locked_for_ms, slot_unix_s };
                            self.take_snapshot(wanted).await
                        }
                        OwnerCommand::Hold { number, for_ms } => self.hold(number, for_ms).await,
                        OwnerCommand::RollBack { id, number } => self.roll_back(id, number).await,
                        OwnerCommand::DeleteSnapshot { id } => self.delete_snapshot(id).await,
                        OwnerCommand::PinSnapshot { id, pinned } => self.pin_snapshot(id, pinned).await,
                        OwnerCommand::Flatten => self.flatten().await,
                        OwnerCommand::Rename { name } => self.rename(name).await,
                        OwnerCommand::LockSnapshot { id, for_ms } => self.lock_snapshot(id, for_ms).await,
                    };
                    let _ = answer.send(result);
                }
            }
        }
    }

    async fn grow(self: &Rc<Self>, size_bytes: u64) -> Result<(), String> {
        let config = self.config();
        if size_bytes < config.size_bytes {
            return Err(format!(
                "the disk has {} bytes and cannot shrink to {size_bytes}: copy it to a smaller one",
                config.size_bytes
            ));
        }
        cairn_geometry::check_size(size_bytes).map_err(|e| e.to_string())?;
        if config.addresses.moving().is_some() {
            // What is on its way ends where the disk does; it begins again once that is elsewhere.
            self.conversion_failed();
            self.give_up_conversion().await;
            if self.config().addresses.moving().is_some() {
                return Err(
                    "a part of the disk is going over to another layout and could not be held back; ask again".into()
                );
            }
        }
        let config = self.config();
        let addresses = cairn_geometry::grown(&config.addresses, config.size_bytes, size_bytes);
        let sets = |addresses, size_bytes| cairn_geometry::sets(addresses, size_bytes).count();
        if sets(&addresses, size_bytes) != sets(&config.addresses, config.size_bytes) {
            let placer = self.context.placer.borrow().clone().ok_or("this host cannot place components yet")?;
            let change = placer.extend(&config, size_bytes)?;
            self.resize_components(&config, &config.policy, size_bytes).await?;
            return self.change_members(change, (addresses, size_bytes)).await;
        }
        self.resize_components(&config, &config.policy, size_bytes).await?;
        let mut next = (*self.config()).clone();
        next.size_bytes = size_bytes;
        match self.change(next).await {
            true => Ok(()),
            false => Err("the new size was not accepted by a majority; ask again".into()),
        }
    }

    /// Waits for a state; failures wake too, by way of `work`.
    pub(super) async fn progressed_or_failed<T>(&self, ready: impl Fn(&State) -> Option<T>) -> T {
        loop {
            if let Some(value) = ready(&self.state.borrow()) {
                return value;
            }
            futures::future::select(self.progressed.wait(), self.work.wait()).await;
        }
    }

    async fn delete(self: &Rc<Self>) -> Result<(), String> {
        let config = self.config();
        check_unpinned(&config)
            .and_then(|()| check_delete_disk(&config, self.context.day_unix_ms()))
            .map_err(|why| why.to_string())?;
        self.drain(true).await;
        let mut next = (*self.config()).clone();
        next.deleted = true;
        if !self.change(next).await {
            self.stop_draining();
            return Err("the tombstone was not accepted by a majority; ask again".into());
        }
        let config = self.config();
        self.finish_owner(Ended::Deleted);
        for member in &config.members {
            let request = Request::DeleteComponent {
                disk_group: member.disk_group,
                component: member.component,
                object: self.id,
            };
            // A host that is away removes its part when it comes back and learns of the tombstone.
            drop(self.context.request(member.host, member.disk_group, request, None));
        }
        Ok(())
    }

    /// The record has the name that the disk has in the directory.
    async fn rename(self: &Rc<Self>, name: String) -> Result<(), String> {
        let next = ObjectConfig { name, ..(*self.config()).clone() };
        if next == *self.config() || self.change(next).await {
            return Ok(());
        }
        Err(NOT_ACCEPTED.into())
    }

    async fn degrade_now(self: &Rc<Self>, component: ComponentId) -> Result<(), String> {
        let mut next = (*self.config()).clone();
        let member = next.member_mut(component).ok_or("the object has no such component")?;
        if member.state.in_sync() {
            return Err("the component is in sync: it is moved, not replaced".into());
        }
        member.state = ComponentState::Degraded;
        match self.change(next).await {
            true => Ok(()),
            false => Err("the change was not accepted by a majority; ask again".into()),
        }
    }
}

/// What is left of so many bytes when so many of all blocks are done.
pub(super) fn left_of(bytes_total: u64, done: u64, all: u64) -> u64 {
    let all = all.max(1);
    (u128::from(bytes_total) * u128::from(all.saturating_sub(done)) / u128::from(all)) as u64
}
