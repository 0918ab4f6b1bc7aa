//! The keeper of one owned object: the only task that changes its configuration, one change at a time.
//!
//! It records failures first (writes wait for that), then brings returned components back, then repairs, then does
//! what administrators ask. In between it renews leases that a new session asks for, and sends `settled` when idle. It also
//! looks after copies that nobody uses: a copy that is written to shows by itself that it is gone.
//!
//! An idle object needs no polling. This table lists what wakes the keeper.
//!
//! | what | woken by |
//! |---|---|
//! | failures, commands, activations, doubted seats | `work`, by whoever notes them |
//! | a component that is away for long | `Objects`, when a disk group comes to be so (`Objects::tick`), or the network is mended |
//! | leases to be confirmed | `Objects`, when a session begins or a peer comes; then again and again until they are |
//! | seats to be told what was decided without them | `Objects`, when the peer comes that did not answer |
//! | `settled` to be told | the first operation that ends, after 5 s; then every 100 ms until it is |
//! | components that come back, or are to be filled again | `Objects`, when a peer comes; then again and again, ever less often |
//! | cuts that components have and the record does not | whoever leaves them; then again and again, ever less often |
//! | components to be replaced | again and again, ever less often, no later than an object at rest is looked at |
//! | copies that its policy asks for, or asks for no more | when the policy is set; then when an object at rest is looked at |
//! | parts to be laid out anew | when the policy is set; then again and again, ever less often, and when all of a part is filled |
//! | components to be moved | `Objects`, when what administrators want of hosts changes; then again and again, ever less often |
//!
//! Components to be replaced have no signal on purpose. All that a dead host held falls due within seconds. It is replaced at
//! the pace of those looks: each picture of the cluster then has the new components of the ones before in it.

use std::{future::pending, pin::pin, rc::Rc, time::Duration};

use cairn_env::Env;
use cairn_geometry::Area;
use cairn_owner::{Admitted, FailureFirst, Leg, RepairRules, Returned};
use cairn_record::Rejoin;
use cairn_types::{
    Accepted, Addresses, Canary, ComponentId, ComponentOp, ComponentState, Member, ObjectConfig, Seat, SessionId, Time,
};
use cairn_wire::{Answer, Message, Refusal, Request, SeizeAnswer, Target};
use futures::future::{Either, join_all, select};

use crate::{
    event::ObjectEvent,
    local_store::LocalStore,
    owner::{
        Ended, Owned, looks,
        policy::reserved_blocks,
        takeover::{ChangeError, change_config, only_known},
    },
    placer::MemberChange,
};

/// How long after the last write `settled` is told by itself, while the keeper looks for that.
const SETTLE_IDLE: Duration = Duration::from_millis(100);
/// How long after the first write since it was told the keeper begins to look for that, at the latest. Not at once: each telling is a
/// record in the log of every copy, and a guest that writes once a second would cost twice the batches.
const SETTLE_LATEST: Duration = Duration::from_secs(5);
/// Components that a look tries to replace, at most, until one can be. Each is a search through the cluster, some 100 microseconds of the
/// thread; those that it did not come to are the next look's.
const REPAIRS_TRIED_MAX: usize = 8;
/// How soon the keeper looks again at an object that is not healthy, after something changed; ever later while nothing does.
const UNHEALTHY_TICK: Duration = Duration::from_millis(250);

impl<E: Env, S: LocalStore> Owned<E, S> {
    pub(crate) async fn keep(self: Rc<Self>) {
        // Components that were resyncing under the last owner begin again.
        for component in self.resyncing() {
            self.start_resync(component);
        }
        let mut since = self.context.env.now();
        while self.state.borrow().ended().is_none() {
            let woken = select(self.work.wait(), self.context.changed.wait());
            let (began, csn) = (self.context.env.now(), self.csn());
            self.keep_once().await;
            if self.state.borrow().ended().is_some() {
                return;
            }
            if self.csn() != csn {
                since = began;
            }
            let pause = self.context.env.sleep_until(self.next_look(since));
            let unsettled = pin!(self.unsettled());
            if let Either::Left((Either::Left(_), _)) = select(select(woken, unsettled), pause).await {
                since = self.context.env.now();
            }
        }
    }

    /// Resolves when operations that have ended are to be told as settled, at an object that is not looked at for that anyway.
    async fn unsettled(&self) {
        if self.state.borrow().wrote() {
            return pending().await;
        }
        let _ = self.progressed.wait().await;
        self.context.env.sleep(SETTLE_LATEST).await;
    }

    /// `since`: when the object changed last, or something that it waits for did.
    fn next_look(&self, since: Time) -> Time {
        let (now, owned) = (self.context.env.now(), self.all.borrow().len());
        let quiet = looks::next_quiet(now, self.id, owned);
        self.pause(now.since(since)).map_or(quiet, |pause| quiet.min(now + pause))
    }

    /// None: the object is at rest.
    fn pause(&self, lasted: Duration) -> Option<Duration> {
        let (context, state) = (&self.context, self.state.borrow());
        if state.has_failures() || !self.commands.borrow().is_empty() {
            return Some(Duration::from_millis(20));
        }
        if state.wrote() {
            return Some(SETTLE_IDLE);
        }
        let ails = |m: &Member| !m.state.in_sync() || self.context.is_long_away(m.seat());
        let waits = self.move_waits.get() || self.policy_waits.get() || self.conversion_waits.get();
        let waits = waits || self.unlevelled.get();
        if waits || state.config().members.iter().any(ails) || !self.doubted.borrow().is_empty() {
            return Some(looks::again_after(UNHEALTHY_TICK, lasted));
        }
        // Not confirmed for now: once more well before the lease ends. A seat that is away is asked when it comes.
        let asked = context.leases.due(self.id).iter().any(|asked| context.rpc.is_up(asked.seat.host));
        asked.then(|| looks::again_after(context.leases.heartbeat_every(), lasted))
    }

    async fn keep_once(self: &Rc<Self>) {
        self.note_long_away();
        if self.state.borrow().has_failures() {
            self.record_failures().await;
            return;
        }
        self.renew_leases().await;
        self.tell_untold().await;
        self.look_after_idle().await;
        self.level_cuts().await;
        self.carry_out_commands().await;
        self.give_up_conversion().await;
        self.readmit_returned().await;
        self.repair_lost().await;
        self.meet_policy().await;
        self.go_on_moving().await;
        self.go_on_converting().await;
        self.tell_settled();
    }

    /// Records failed components absent or degraded; writes that wait for it go on.
    pub(crate) async fn record_failures(self: &Rc<Self>) {
        let next = self.state.borrow().failures_to_record();
        match next {
            Err(why) => self.finish_owner(why),
            Ok(next) => {
                if self.change(next).await {
                    self.progressed.notify();
                }
            }
        }
    }

    /// Brings a configuration into effect. False: not now, or the owner ended.
    pub(crate) async fn change(self: &Rc<Self>, next: ObjectConfig) -> bool {
        self.change_admitting(next, &Admitted::new()).await
    }

    /// The same for one in which components take writes that took none before: their sessions are `admitted`.
    pub(super) async fn change_admitting(self: &Rc<Self>, next: ObjectConfig, admitted: &Admitted) -> bool {
        let (base, csn, epoch) = {
            let state = self.state.borrow();
            (state.config().clone(), state.csn(), state.epoch())
        };
        let effective = |config: ObjectConfig, csn| {
            self.tell_changes(&base, &config);
            let seats = config.seats();
            let nobody = Admitted::new();
            let admitted = if Canary::LegMissing.sings() { &nobody } else { admitted };
            self.state.borrow_mut().adopt(config, csn, admitted);
            self.context.leases.own(self.id, epoch, &seats);
            self.progressed.notify();
        };
        match change_config(&self.context, epoch, csn, &base, next, effective).await {
            Ok(csn) => {
                self.state.borrow_mut().closed(csn);
                true
            }
            Err(ChangeError::Superseded(promised)) => {
                self.finish_owner(Ended::Fenced(promised));
                false
            }
            Err(ChangeError::Illegal(_)) => false,
            Err(ChangeError::InDoubt(text)) => {
                // Some seats accepted, too few: whether it takes effect is open until a new owner decides. Nothing
                // may be acknowledged on either assumption, so this ownership ends here.
                self.finish_owner(Ended::Inaccessible(text));
                false
            }
        }
    }

    fn tell_changes(&self, base: &ObjectConfig, next: &ObjectConfig) {
        for member in &next.members {
            if base.member(member.component).map(|m| m.state) == Some(member.state) {
                continue;
            }
            let now = match member.state {
                ComponentState::Active => "active",
                ComponentState::Absent { .. } => "absent",
                ComponentState::Degraded => "degraded",
                ComponentState::Resyncing { .. } => "resyncing",
            };
            self.context.tell(ObjectEvent::Component {
                object: self.id,
                name: next.name.clone(),
                component: member.component,
                host: member.host,
                now: now.into(),
            });
        }
    }

    /// Confirms the object at every seat whose session is new.
    async fn renew_leases(self: &Rc<Self>) {
        let epoch = self.epoch();
        let leases = &self.context.leases;
        let due = leases.due(self.id);
        let up = due.into_iter().filter(|asked| self.context.rpc.is_up(asked.seat.host));
        let confirms = up.map(|asked| {
            let request = Request::Confirm { disk_group: asked.seat.disk_group, object: self.id, epoch };
            let reply = self.context.request(asked.seat.host, asked.seat.disk_group, request, None);
            async move { (asked, reply.await) }
        });
        for (asked, reply) in join_all(confirms.collect::<Vec<_>>()).await {
            match reply {
                Ok(_) => {
                    leases.on_confirmed(asked);
                    self.progressed.notify();
                    self.doubted.borrow_mut().insert(asked.seat);
                }
                Err(Refusal::Fenced { promised }) if promised > epoch => self.finish_owner(Ended::Fenced(promised)),
                // The seat was away when we seized, or came back from a restart: it promises and learns the record.
                Err(Refusal::Fenced { .. }) => {
                    self.distrust(asked.seat);
                    self.bring_up(asked.seat).await;
                }
                // The disk group is open and has no seat of ours: its devices are older than that, or new.
                Err(Refusal::NotFound) => self.seat_gone(asked.seat),
                Err(_) => {}
            }
        }
    }

    /// What the seat holds is to be asked whether it is still there.
    pub(crate) fn doubt(&self, seat: Seat) {
        self.doubted.borrow_mut().insert(seat);
        self.work.notify();
    }

    /// Copies at doubted seats: one that is at rest would count as in sync unseen, whatever its devices came back with or lost.
    async fn look_after_idle(self: &Rc<Self>) {
        let doubted = std::mem::take(&mut *self.doubted.borrow_mut());
        for seat in doubted.into_iter().filter(|_| !Canary::RestUnseen.sings()) {
            if !self.context.rpc.is_up(seat.host) || !self.look_after(seat).await {
                self.doubted.borrow_mut().insert(seat);
            }
        }
    }

    /// False: it is not known yet.
    async fn look_after(self: &Rc<Self>, seat: Seat) -> bool {
        let config = self.config();
        for member in config.members.iter().filter(|m| m.seat() == seat && m.set().is_some() && m.state.in_sync()) {
            let (link, upto) = {
                let state = self.state.borrow();
                let link = state.link_of(member.component).filter(|_| !state.has_failed(member.component));
                (link, state.settled())
            };
            let Some(link) = link else { continue };
            let settle = Request::Change { to: link.target, op: ComponentOp::Settle { upto } };
            match self.context.request(seat.host, seat.disk_group, settle, None).await {
                Ok(_) => {}
                Err(Refusal::Session) => self.admit_again(*member, link.target.session).await,
                Err(Refusal::NotFound) => self.not_there(member.component),
                Err(Refusal::Fenced { promised }) => self.finish_owner(Ended::Fenced(promised)),
                Err(_) => return false,
            }
        }
        true
    }

    /// What is away for long is recorded absent though nobody has missed it; never the last copy that answers.
    fn note_long_away(&self) {
        let mut state = self.state.borrow_mut();
        let away = state.long_away(|seat| self.context.is_long_away(seat));
        if away.is_empty() || Canary::RestUnseen.sings() || !self.context.leases.holds(state.config(), state.epoch()) {
            return;
        }
        for member in &away {
            state.miss(member, |leg| self.answers(leg));
        }
    }

    fn answers(&self, leg: &Leg) -> bool {
        let (host, disk_group) = (leg.link.host, leg.link.target.disk_group);
        self.context.rpc.is_up(host) && !self.context.is_long_away(Seat { host, disk_group })
    }

    fn seat_gone(&self, seat: Seat) {
        let config = self.config();
        let gone = config.members.iter().filter(|m| m.seat() == seat && m.state.takes_writes());
        gone.for_each(|member| self.not_there(member.component));
    }

    /// Its absence is recorded; when it is to be readmitted, and is not there, it is degraded, and replaced.
    fn not_there(&self, component: ComponentId) {
        self.state.borrow_mut().fail(component, false);
        self.work.notify();
    }

    /// A copy in sync whose host started anew: it stays in sync where it is at rest and has what it acknowledged.
    async fn admit_again(self: &Rc<Self>, member: Member, session: SessionId) {
        let (host, disk_group, component) = (member.host, member.disk_group, member.component);
        let seize =
            Request::Seize { disk_group, object: self.id, epoch: self.epoch(), only: vec![component], overrule: true };
        let components = match self.context.request(host, disk_group, seize, None).await {
            Ok((Answer::Seize(SeizeAnswer::Promised { components, .. }), _)) => components,
            Ok((Answer::Seize(SeizeAnswer::Promisee { promised }), _)) => {
                return self.finish_owner(Ended::Fenced(promised));
            }
            // Not now: its absence is recorded, and it is readmitted as what was away is.
            _ => Vec::new(),
        };
        let answer = components.into_iter().find(|answer| answer.component == component);
        if self.state.borrow_mut().on_started_anew(&member, session, answer.as_ref()) {
            self.work.notify();
        }
    }

    /// A seat with copies in sync has promised our epoch. One that says otherwise has forgotten it, or may have: what its copies held may be
    /// gone too, and they are filled anew, never the last that answers.
    fn distrust(&self, seat: Seat) {
        let config = self.config();
        let copies = config.members.iter().filter(|m| m.seat() == seat && m.set().is_some() && m.state.in_sync());
        let untold = self.untold.borrow();
        for member in copies.filter(|m| !untold.contains(&m.component)) {
            if self.state.borrow_mut().miss(member, |leg| self.answers(leg)) {
                self.work.notify();
            }
        }
    }

    /// A seat that has not promised our epoch yet does so, and is told the record: one that may have forgotten what it promised only once
    /// the others have decided one since, so that no other owner can have done so with its word.
    async fn bring_up(self: &Rc<Self>, seat: Seat) {
        let (config, csn, epoch) = (self.config(), self.csn(), self.epoch());
        let only = only_known(&config, seat);
        if only.is_empty() {
            return;
        }
        let (object, disk_group) = (self.id, seat.disk_group);
        let seize = Request::Seize { disk_group, object, epoch, only, overrule: true };
        let reply = self.context.request(seat.host, disk_group, seize, None).await;
        let components = match reply {
            Ok((Answer::Seize(SeizeAnswer::Promised { components, .. }), _)) => components,
            Ok((Answer::Seize(SeizeAnswer::Promisee { promised }), _)) if promised > epoch => {
                return self.finish_owner(Ended::Fenced(promised));
            }
            _ => return,
        };
        let forgetful = self.state.borrow().forgetful_witnesses(&components);
        if forgetful.is_empty() {
            let accepted = Box::new(Accepted { epoch, csn, base: None, config: (*config).clone() });
            let _ = self.context.request(seat.host, disk_group, Request::Accept { disk_group, accepted }, None).await;
        } else if self.change((*config).clone()).await {
            self.untold.borrow_mut().extend(forgetful);
            self.tell_untold().await;
        }
    }

    /// Tells seats that had no vote what has been decided without them since they promised; again where no answer comes.
    pub(super) async fn tell_untold(&self) {
        let untold = self.untold.borrow().clone();
        let (config, csn, epoch) = (self.config(), self.csn(), self.epoch());
        for component in untold {
            let member = config.member(component).filter(|m| m.state.in_sync());
            let told = match member {
                Some(member) if self.context.rpc.is_up(member.host) => {
                    let accepted = Box::new(Accepted { epoch, csn, base: None, config: (*config).clone() });
                    let tell = Request::Tell { disk_group: member.disk_group, component, accepted };
                    self.context.request(member.host, member.disk_group, tell, None).await
                }
                Some(_) => Err(Refusal::Lost),
                // It is found again when it is admitted again.
                None => Err(Refusal::NotFound),
            };
            // One that has started anew since has to promise again, and is found by that.
            if told != Err(Refusal::Lost) {
                self.untold.borrow_mut().remove(&component);
            }
        }
    }

    /// Members that were absent and whose host answers again: admitted, undone above what is decided, resynced.
    async fn readmit_returned(self: &Rc<Self>) {
        let config = self.config();
        for member in &config.members {
            let asked_back = self.state.borrow().is_asked_back(member, self.context.env.now());
            if asked_back && self.context.rpc.is_up(member.host) {
                self.readmit(*member).await;
            }
        }
    }

    async fn readmit(self: &Rc<Self>, member: Member) {
        let epoch = self.epoch();
        let request = Request::Seize {
            disk_group: member.disk_group,
            object: self.id,
            epoch,
            only: vec![member.component],
            overrule: true,
        };
        let reply = self.context.request(member.host, member.disk_group, request, None).await;
        let answer = match reply {
            Ok((Answer::Seize(answer), _)) => Some(answer),
            _ => None,
        };
        let component = member.component;
        let returned = self.state.borrow_mut().on_returned(&member, answer);
        match returned {
            Returned::No => {}
            Returned::Fenced(promised) => self.finish_owner(Ended::Fenced(promised)),
            Returned::Degrade => {
                self.change_state(component, ComponentState::Degraded).await;
            }
            Returned::Witness { forgetful } => {
                if self.change_state(component, ComponentState::Active).await && forgetful {
                    self.untold.borrow_mut().insert(component);
                    self.tell_untold().await;
                }
            }
            Returned::Fill { rejoin, session } => {
                let next = self.state.borrow().config_with(component, rejoin.state);
                if self.take_back(member, session, rejoin).await
                    && self.change_admitting(next, &Admitted::from([(component, session)])).await
                {
                    self.start_resync(component);
                }
            }
        }
    }

    async fn change_state(self: &Rc<Self>, component: ComponentId, state: ComponentState) -> bool {
        let next = self.state.borrow().config_with(component, state);
        self.change(next).await
    }

    /// Undoes on a returned component what is not known to be decided; its regions are copied again in any case.
    async fn take_back(&self, member: Member, session: SessionId, rejoin: Rejoin) -> bool {
        let (disk_group, component) = (member.disk_group, member.component);
        let to = Target { disk_group, component, epoch: self.epoch(), session };
        let ComponentState::Resyncing { stale_since } = rejoin.state else {
            return false;
        };
        let blocks_of = |set| Some(self.area_of(set)?.component_blocks(set));
        let Some(size_blocks) = member.set().and_then(blocks_of) else { return false };
        let reserved_blocks = self.reserved_blocks(size_blocks);
        let mut ops = vec![
            ComponentOp::Undo { ops: rejoin.undo },
            ComponentOp::Settle { upto: stale_since },
            ComponentOp::Resize { size_blocks, reserved_blocks },
        ];
        // Before the first change flows to it: what that replaces is history there, too.
        let list = self.state.borrow_mut().cuts(None);
        ops.extend(list.filter(|_| !Canary::ListNotLevelled.sings()));
        let ask = |op| self.context.request(member.host, member.disk_group, Request::Change { to, op }, None);
        let asked: Vec<_> = ops.into_iter().map(ask).collect();
        let mut good = true;
        for reply in asked {
            good &= reply.await.is_ok();
        }
        good
    }

    /// Blocks to set aside for a component of this size, by the policy.
    pub(crate) fn reserved_blocks(&self, blocks: u64) -> u64 {
        reserved_blocks(&self.state.borrow().config().policy, blocks)
    }

    /// Replaces what was absent for longer than the repair delay; at once what is degraded, or on a host that was forgotten.
    ///
    /// A forgotten host that comes back cannot serve what it held, nor undo this. Its seats' votes count in the record that they are
    /// in: the replacement is a joint change, so majorities of the old and the new members without it have accepted that it is out (I2).
    /// Its components are stale in that record from the moment their absence was recorded (I4), before the first write without them
    /// was acknowledged. What it still holds is an orphan, which goes by the closed record that does not name it (`node`, reconcile).
    async fn repair_lost(self: &Rc<Self>) {
        let context = &self.context;
        let Some(placer) = context.placer.borrow().clone() else {
            return;
        };
        let now = context.env.now();
        self.absences.borrow_mut().look(&self.config(), now);
        let delay = context.options.borrow().repair_delay;
        let paused = context.options.borrow().repair_paused_until.is_some_and(|until| now < until);
        let many_hosts_gone = placer.many_hosts_gone();
        let rules = RepairRules { now, delay, only_forgotten: many_hosts_gone || paused };
        let is_forgotten = |host| placer.is_forgotten(host);
        let due = self.state.borrow().to_be_replaced(&self.absences.borrow(), rules, is_forgotten);
        if due.is_empty() {
            return;
        }
        // One that cannot be placed keeps no other from it.
        for lost in looks::in_turn(due, self.repaired_last.get()).into_iter().take(REPAIRS_TRIED_MAX) {
            if self.state.borrow().ended().is_some() {
                return;
            }
            self.repaired_last.set(Some(lost));
            let config = self.config();
            let Ok(change) = placer.replace(&config, lost) else { continue };
            if self.change_members(change, (config.addresses.clone(), config.size_bytes)).await.is_ok() {
                return;
            }
        }
    }

    /// Makes the new components, admits them, and brings the new membership into effect (a joint change). What is
    /// gone is removed after the close.
    pub(crate) async fn change_members(
        self: &Rc<Self>,
        change: MemberChange,
        shape: (Addresses, u64),
    ) -> Result<(), String> {
        let carried = self.admitting_new(change, shape.clone(), async |change, admitted| {
            self.change_members_admitting(change, (shape, admitted)).await
        });
        carried.await?
    }

    /// Makes the new components of a change and admits them; then carries it out.
    pub(super) async fn admitting_new<T>(
        self: &Rc<Self>,
        change: MemberChange,
        shape: (Addresses, u64),
        carry_out: impl AsyncFnOnce(MemberChange, Admitted) -> T,
    ) -> Result<T, String> {
        let added = change.added.clone();
        self.admitting.borrow_mut().extend(&added);
        let carried = async {
            let mut admitted = Admitted::new();
            for member in change.members.iter().filter(|m| change.added.contains(&m.component)) {
                admitted.insert(member.component, self.admit_new(member, &shape).await?);
            }
            Ok(carry_out(change, admitted).await)
        };
        let carried = carried.await;
        // What was made in vain is wanted no longer: its host finds out and removes it.
        self.admitting.borrow_mut().retain(|component| !added.contains(component));
        carried
    }

    async fn change_members_admitting(
        self: &Rc<Self>,
        change: MemberChange,
        (shape, admitted): ((Addresses, u64), Admitted),
    ) -> Result<(), String> {
        let before = self.config();
        let next = self.state.borrow().config_of_members(&change.members, &change.removed, shape);
        let next = next.map_err(|FailureFirst| "a component failed meanwhile: that is recorded first")?;
        if !self.change_admitting(next, &admitted).await {
            return Err("the new members were not accepted by a majority; it is tried again".into());
        }
        // A witness has no link, what is in sync nothing to be filled with.
        let serves = |component: &ComponentId| {
            let state = self.state.borrow();
            let set = state.config().member(*component).and_then(Member::set);
            set.is_none_or(|set| state.config().addresses.serves(set))
        };
        admitted.into_keys().filter(serves).for_each(|component| self.start_resync(component));
        self.remove_gone(&before, &change.removed);
        Ok(())
    }

    /// Has components removed that a change has let go.
    pub(super) fn remove_gone(&self, before: &ObjectConfig, removed: &[ComponentId]) {
        for gone in before.members.iter().filter(|m| removed.contains(&m.component)) {
            let (disk_group, component) = (gone.disk_group, gone.component);
            let delete = Request::DeleteComponent { disk_group, component, object: self.id };
            // When its host is away the component is removed when that host learns of the closed config, or asks.
            drop(self.context.request(gone.host, gone.disk_group, delete, None));
        }
    }

    async fn admit_new(
        &self,
        member: &Member,
        (addresses, size_bytes): &(Addresses, u64),
    ) -> Result<cairn_types::SessionId, String> {
        let area = |set| Area::of_set_at(addresses, *size_bytes, set).expect("a set of the disk as it is then");
        let blocks = member.set().map_or(0, |set| area(set).component_blocks(set));
        let (object, epoch, disk_group, component) = (self.id, self.epoch(), member.disk_group, member.component);
        let reserved_blocks = self.reserved_blocks(blocks);
        let create = Request::CreateComponent { disk_group, component, object, size_blocks: blocks, reserved_blocks };
        let made = self.context.request(member.host, disk_group, create, None).await;
        made.map_err(|refusal| format!("a component cannot be made: {refusal:?}"))?;
        let seize = Request::Seize { disk_group, object, epoch, only: vec![component], overrule: true };
        let reply = self.context.request(member.host, disk_group, seize, None).await;
        let Ok((Answer::Seize(SeizeAnswer::Promised { components, .. }), _)) = reply else {
            return Err("a new component does not admit its owner".into());
        };
        let answer = components.into_iter().find(|c| c.component == component);
        let session = answer.map(|a| a.session).ok_or("a new component is not there")?;
        let list = member.set().and_then(|_| self.state.borrow_mut().cuts(None));
        if let Some(op) = list {
            let to = Target { disk_group, component, epoch, session };
            let told = self.context.request(member.host, disk_group, Request::Change { to, op }, None).await;
            told.map_err(|refusal| format!("a new component does not take the list of snapshots: {refusal:?}"))?;
        }
        Ok(session)
    }

    fn tell_settled(&self) {
        let (settled, links) = {
            let mut state = self.state.borrow_mut();
            let Some(settled) = state.settled_to_tell() else { return };
            (settled, state.links())
        };
        for leg in links {
            let (to, host) = (leg.link.target, leg.link.host);
            if host == self.context.env.host() && self.context.seats.has(to.disk_group) {
                self.context.seats.on_settled(to, settled);
            } else {
                self.context.rpc.send(host, &Message::Settled { to, upto: settled }, Vec::new());
            }
        }
    }

    fn resyncing(&self) -> Vec<cairn_types::ComponentId> {
        let state = self.state.borrow();
        let addresses = &state.config().addresses;
        let resyncing = state.config().members.iter().filter(|m| matches!(m.state, ComponentState::Resyncing { .. }));
        let resyncing = resyncing.filter(|m| m.set().is_none_or(|set| addresses.serves(set)));
        resyncing.map(|m| m.component).collect()
    }
}
