//! What nobody else looks after: components of objects that have no owner, or that went on without this host.
//!
//! Promises    a component is removed only on a tombstone or a closed config without it; never because the directory
//!             or a peer does not know it                                                            (scenario 24)
//!             what an owner has replaced, or made and never named, goes when that owner says so
//!             a disk without an owner that lacks redundancy is seized by a host that has a copy, to repair it
//! Not here    how much of what is held a round looks at (`walk`): at rest that does not grow with it

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use cairn_directory::{CatalogueEntry, ComponentPlace, CreateIntent, DiskGroupEntry, DiskState};
use cairn_env::Env;
use cairn_object::{AskedToMove, LocalStore};
use cairn_placement::Copies;
use cairn_types::{Accepted, Canary, ComponentId, ComponentState, DiskGroupId, HostId, Member, ObjectId, SeatRecord};
use cairn_wire::{ObjectStatus, OwnerCommand, Refusal, Request};

use crate::{
    node::Node,
    walk::{Over, Walk},
};

/// How often seats are looked at.
const RECONCILE_EVERY: Duration = Duration::from_secs(2);
/// Nascent components without an intent are kept this long: the intent may be on its way.
const NASCENT_KEEP: Duration = Duration::from_secs(60);
/// A deletion that has not come to its end by then was left by the host that began it.
const DELETION_LEFT: Duration = Duration::from_secs(10);
/// What was seen unfinished is remembered this long; then the count begins again.
const SEEN_KEEP: Duration = Duration::from_secs(600);

impl<E: Env> Node<E> {
    pub(crate) async fn reconcile(&self) {
        let inner = &self.inner;
        let (mut walk, mut named) = (Walk::default(), None);
        while !inner.stopping.get() {
            let jitter = Duration::from_millis(inner.env.random_u64() % 1000);
            inner.env.sleep(RECONCILE_EVERY + jitter).await;
            for store in inner.seats.stores() {
                let group = store.group();
                let damaged = !matches!(group.log_health(), cairn_store::LogHealth::Sound);
                if damaged && inner.seats.all_refilled(group.id()) {
                    // Otherwise the next opening would distrust copies that are whole again.
                    let _ = group.accept_damage().await;
                }
            }
            self.hand_over().await;
            self.reconcile_catalogue().await;
            self.follow_names(&mut named).await;
            let most = walk.begin_round(inner.objects.changes(), inner.env.now(), inner.leases.lease());
            self.reconcile_unseated(&mut walk, most).await;
            for ((disk_group, _), record) in self.seats_that_want_a_look(&mut walk, most) {
                match self.owner_of(disk_group, record.object) {
                    None => self.reconcile_seat(disk_group, record).await,
                    Some(owner) => self.reconcile_held_seat(disk_group, record, owner).await,
                }
            }
        }
    }

    /// Of the seats that it is the turn of, and of those that wanted a look in the last round. At rest there are none: to look costs no
    /// memory, and little time.
    fn seats_that_want_a_look(&self, walk: &mut Walk, most: usize) -> BTreeMap<(DiskGroupId, ObjectId), SeatRecord> {
        let seats = &self.inner.seats;
        let mut found = BTreeMap::new();
        for (disk_group, object) in std::mem::take(&mut walk.wanting) {
            let record = seats.record(disk_group, object).filter(|record| self.wants_a_look(disk_group, record));
            found.extend(record.map(|record| ((disk_group, object), record)));
        }
        for disk_group in seats.stores().iter().map(LocalStore::disk_group) {
            let after = walk.after(disk_group, Over::Seats);
            let wanted = |record: &SeatRecord| self.wants_a_look(disk_group, record);
            let (records, last) = seats.records_after(disk_group, after, most, wanted);
            walk.came_to(disk_group, Over::Seats, last);
            found.extend(records.into_iter().map(|record| ((disk_group, record.object), record)));
        }
        walk.wanting = found.keys().copied().collect();
        found
    }

    /// Who holds the object, as this host knows it.
    pub(crate) fn owner_of(&self, disk_group: DiskGroupId, object: ObjectId) -> Option<HostId> {
        let own = self.inner.objects.owned(object).map(|_| self.me());
        own.or_else(|| self.inner.leases.holder(disk_group, object).map(|epoch| epoch.host))
    }

    /// Whether a seat is other than it was when it was found to be current.
    fn wants_a_look(&self, disk_group: DiskGroupId, record: &SeatRecord) -> bool {
        let Some(own) = &record.accepted else { return true };
        if !self.is_reconciled(disk_group, record.object) {
            return true;
        }
        match self.owner_of(disk_group, record.object) {
            // A component may have come since: made by an owner that named none here, and did not come to that.
            None => self.is_ailing(disk_group, own) || !self.unnamed(disk_group, own).is_empty(),
            // An open record at rest is one whose end this seat has not heard of: it may have been left out.
            Some(_) => own.base.is_some() || !self.unnamed(disk_group, own).is_empty(),
        }
    }

    /// Components here that the record of their object does not name.
    fn unnamed(&self, disk_group: DiskGroupId, own: &Accepted) -> Vec<ComponentId> {
        let configs = || std::iter::once(&own.config).chain(own.base.as_deref());
        let named = |c: &ComponentId| configs().any(|config| config.member(*c).is_some());
        self.components_here(disk_group, own.config.object).into_iter().filter(|c| !named(c)).collect()
    }

    fn components_here(&self, disk_group: DiskGroupId, object: ObjectId) -> Vec<ComponentId> {
        let Some(store) = self.inner.seats.store(disk_group) else { return Vec::new() };
        LocalStore::components_of(&store, object).into_iter().map(|c| c.component).collect()
    }

    /// A seat that no owner holds: is it current, is it still wanted, does its object need repair?
    async fn reconcile_seat(&self, disk_group: DiskGroupId, record: SeatRecord) {
        let inner = &self.inner;
        let object = record.object;
        let Some(own) = &record.accepted else { return self.reconcile_nascent(disk_group, object).await };
        let ailing = self.is_ailing(disk_group, own);
        let mut hosts: Vec<_> = own.config.members.iter().map(|m| m.host).collect();
        hosts.dedup();
        let changes = inner.peer_changes.get();
        let Some((known, owner)) = inner.objects.look_up(object, &hosts).await else { return };
        if self.remove_if_gone(disk_group, &record, &known, owner).await {
            return;
        }
        // Whoever asked too few knows nothing: just after a start only this host's own record answers.
        let answers = |m: &Member| m.host == self.me() || inner.rpc.is_up(m.host);
        if !cairn_votes::has_majority_by(&known.config, answers) {
            return;
        }
        if owner.is_none()
            && (ailing || needs_repair(&known))
            && !known.config.deleted
            && !self.leaves_it_to_others(&known)
        {
            // Failing is usual: another host was first. It is tried again.
            let _ = inner.objects.take_over(&known).await;
            return;
        }
        if changes == inner.peer_changes.get() {
            inner.reconciled.borrow_mut().insert((disk_group, object), false);
        }
    }

    /// A host in maintenance, or on its way there, takes nothing over that another one can.
    fn leaves_it_to_others(&self, known: &Accepted) -> bool {
        let stays = |m: &Member| self.inner.rpc.is_up(m.host) && !self.intent_for(m.host).maintenance;
        let other = |m: &&Member| m.host != self.me() && m.state.in_sync() && stays(m);
        self.intent_for(self.me()).maintenance && known.config.members.iter().any(|m| other(&m))
    }

    /// Whether an object that nobody owns lacks redundancy: by its record, or as something of it is lost here, bad here, forgotten here, or
    /// away for long; or has something to be moved, or too few or too many copies for its policy.
    fn is_ailing(&self, disk_group: DiskGroupId, own: &Accepted) -> bool {
        let inner = &self.inner;
        let lost = || {
            let store = inner.seats.store(disk_group);
            store.is_some_and(|s| {
                let object = own.config.object;
                s.group().awaits_repair(object) || LocalStore::components_of(&s, object).iter().any(|c| c.lost)
            })
        };
        let forgets = || inner.seats.forgets(disk_group, own.config.object);
        needs_repair(own)
            || lost()
            || forgets()
            || own.config.members.iter().any(|m| inner.objects.is_long_away(m.seat()))
            || self.moves_of(&own.config, &AskedToMove::new()).is_some()
            || cairn_placement::copies(&own.config) != Copies::Right
    }

    /// Whether the seat was found to be current since a peer last came or went; by this host's own record only while it owns the object.
    fn is_reconciled(&self, disk_group: DiskGroupId, object: ObjectId) -> bool {
        let found = self.inner.reconciled.borrow().get(&(disk_group, object)).copied();
        found.is_some_and(|owned| !owned || self.inner.objects.owned(object).is_some())
    }

    /// A seat that an owner holds: is it still one of the object's, and are its components? Some may have been replaced while
    /// this host was away, or made by an owner that died before it could name them; only the owner knows those from the
    /// ones that it is about to name.
    async fn reconcile_held_seat(&self, disk_group: DiskGroupId, record: SeatRecord, owner: HostId) {
        let inner = &self.inner;
        let object = record.object;
        // A seat without a record was made for components that an owner admitted, and nobody has named yet.
        let unnamed = match &record.accepted {
            Some(accepted) => self.unnamed(disk_group, accepted),
            None => self.components_here(disk_group, object),
        };
        let changes = inner.peer_changes.get();
        let Some(status) = self.ask_owner(object, owner).await else { return };
        if inner.seats.record(disk_group, object).as_ref() != Some(&record) {
            // Something has come meanwhile: what was asked is old.
            return;
        }
        let newer = |accepted: &Accepted| (status.epoch, status.csn) > (accepted.epoch, accepted.csn.0);
        if record.accepted.as_ref().is_some_and(newer) {
            // The object went on without this seat. Its owner may be the same; or a later one, whose number of the record may be the
            // same, where this seat alone had accepted what the owner before it did not bring to its end.
            let hosts: Vec<_> = status.config.members.iter().map(|m| m.host).collect();
            if let Some((known, _)) = inner.objects.look_up(object, &hosts).await {
                let unwanted: Vec<_> = unnamed.into_iter().filter(|c| !status.wants(*c)).collect();
                self.go_on_here(disk_group, &known, &status, &unwanted).await;
            }
            return;
        }
        if status.epoch < record.promised {
            // Not the owner that this seat has promised itself to: what it does not know may be its successor's.
            return;
        }
        for component in unnamed.into_iter().filter(|c| !status.wants(*c)) {
            self.delete_here(disk_group, component, object).await;
        }
        if status.config.members.iter().all(|m| m.disk_group != disk_group) {
            let _ = inner.seats.forget(disk_group, object).await;
        }
        if changes == inner.peer_changes.get() {
            inner.reconciled.borrow_mut().insert((disk_group, object), owner == self.me());
        }
    }

    /// The object as its owner sees it: `holder`, to which the seat's lease still stands, or whoever has taken it over without
    /// a need for this seat.
    async fn ask_owner(&self, object: ObjectId, holder: HostId) -> Option<ObjectStatus> {
        let objects = &self.inner.objects;
        if let Ok(status) = objects.command(holder, object, OwnerCommand::Status).await {
            return Some(status);
        }
        let (_, owner) = objects.look_up(object, &[]).await?;
        objects.command(owner?, object, OwnerCommand::Status).await.ok()
    }

    /// Gives a seat the record that the object has without it. It refuses where it has promised more than the owner has, to a host that
    /// did not become owner; if that record is in effect and leaves the seat out, the seat goes nevertheless. So do the `unwanted`: what the
    /// owner has made here and will not name.
    async fn go_on_here(
        &self,
        disk_group: DiskGroupId,
        known: &Accepted,
        status: &ObjectStatus,
        unwanted: &[ComponentId],
    ) {
        let in_effect = (known.epoch, known.csn.0) == (status.epoch, status.csn);
        if self.accept_here(disk_group, known).await.is_err() && in_effect {
            // Refused once more where it is not left out.
            let _ = self.inner.seats.leave(disk_group, known, unwanted).await;
        }
    }

    /// Gives the seat a record that others have accepted: it accepts it like from the owner that proposed it, or refuses it.
    async fn accept_here(&self, disk_group: DiskGroupId, known: &Accepted) -> Result<(), Refusal> {
        let inner = &self.inner;
        let accept = Request::Accept { disk_group, accepted: Box::new(known.clone()) };
        inner.seats.serve(self.me(), inner.env.incarnation(), accept, Default::default()).await.map(drop)
    }

    /// The seat checks the right to.
    async fn delete_here(&self, disk_group: DiskGroupId, component: ComponentId, object: ObjectId) {
        if Canary::ReplacedKept.sings() {
            return;
        }
        let inner = &self.inner;
        let delete = Request::DeleteComponent { disk_group, component, object };
        let _ = inner.seats.serve(self.me(), inner.env.incarnation(), delete, Default::default()).await;
    }

    /// True: what this seat held goes, now or once its owner has been heard; there is nothing else to do for it in this round.
    async fn remove_if_gone(
        &self,
        disk_group: DiskGroupId,
        record: &SeatRecord,
        known: &Accepted,
        owner: Option<HostId>,
    ) -> bool {
        let Some(store) = self.inner.seats.store(disk_group) else { return true };
        let named = |component: ComponentId| known.config.member(component).is_some();
        let is_gone = |component: ComponentId| known.config.deleted || (known.base.is_none() && !named(component));
        let mut here = LocalStore::components_of(&store, record.object);
        let all = here.len();
        here.retain(|component| is_gone(component.component));
        // An owner may be about to name what it has just made here. If it does not answer, it is asked once more later.
        if let Some(owner) = owner.filter(|_| !here.is_empty() && !known.config.deleted) {
            let Some(status) = self.ask_owner(record.object, owner).await else { return true };
            here.retain(|component| !status.wants(component.component));
        }
        let (gone, nothing_stays) = (!here.is_empty(), here.len() == all);
        let here: Vec<ComponentId> = here.into_iter().map(|c| c.component).collect();
        for component in &here {
            // The seat has to see the record that allows the removal.
            if self.accept_here(disk_group, known).await.is_err() {
                if let Some(owner) = owner
                    && let Some(status) = self.ask_owner(record.object, owner).await
                {
                    let unwanted: Vec<_> = here.iter().copied().filter(|c| !status.wants(*c)).collect();
                    self.go_on_here(disk_group, known, &status, &unwanted).await;
                }
                continue;
            }
            self.delete_here(disk_group, *component, record.object).await;
        }
        if gone && nothing_stays && !known.config.deleted {
            let _ = self.inner.seats.forget(disk_group, record.object).await;
        }
        gone
    }

    /// For how long this host has seen that an object is unfinished: by its own running clock, as clocks of the day may be wrong.
    fn seen_for(&self, object: ObjectId) -> Duration {
        let now = self.inner.env.now();
        now.since(*self.inner.unfinished_since.borrow_mut().entry(object).or_insert(now))
    }

    /// Disks that the catalogue has half made or half deleted. At rest there are none, and that is seen without a look at each.
    async fn reconcile_catalogue(&self) {
        let inner = &self.inner;
        let now = inner.env.now();
        inner.unfinished_since.borrow_mut().retain(|_, since| now.since(*since) < SEEN_KEEP);
        let revision = inner.copy.borrow().revision();
        if revision.is_some() && revision == inner.catalogue_finished.get() {
            return;
        }
        let mut unfinished = inner.copy.borrow().list::<CatalogueEntry>();
        if revision.is_some() {
            let known: BTreeSet<ObjectId> = unfinished.iter().map(|(object, _)| *object).collect();
            inner.objects.forget_unknown(|object| known.contains(&object));
        }
        unfinished.retain(|(_, entry)| entry.state != DiskState::Ready);
        if unfinished.is_empty() {
            inner.catalogue_finished.set(revision);
        }
        self.reconcile_tombstones(&unfinished).await;
        self.reconcile_creations(&unfinished).await;
        self.reconcile_deletions(&unfinished).await;
    }

    /// Disks whose deletion the catalogue has on record: what this host has of them goes, and the catalogue is told. The
    /// tombstone goes with the last confirmation.
    async fn reconcile_tombstones(&self, entries: &[(ObjectId, CatalogueEntry)]) {
        let inner = &self.inner;
        for (object, entry) in entries {
            let DiskState::Deleted { unconfirmed } = &entry.state else { continue };
            inner.objects.end_deleted(*object);
            let mut removed = Vec::new();
            for place in unconfirmed.iter().filter(|place| place.host == self.me()) {
                if inner.seats.bury(place.disk_group, *object).await.is_ok() {
                    removed.push(*place);
                }
            }
            if !removed.is_empty() {
                // Once more with the next round when the directory is away.
                let _ = inner.registry.confirm_removed(*object, &removed).await;
            }
        }
    }

    /// Disks whose deletion was begun and left: one of them a round, any, so that none waits for another. One host does it.
    async fn reconcile_deletions(&self, entries: &[(ObjectId, CatalogueEntry)]) {
        let begun = entries.iter().filter(|(_, entry)| entry.state == DiskState::Deleting);
        let left: Vec<_> = begun.filter(|(object, _)| self.seen_for(*object) >= DELETION_LEFT).collect();
        if left.is_empty() {
            return;
        }
        let (object, entry) = left[(self.inner.env.random_u64() % left.len() as u64) as usize];
        let answers = |host: &&HostId| **host == self.me() || self.inner.rpc.is_up(**host);
        let first = entry.hint_hosts.iter().find(answers).copied();
        let mut all = self.peers_up();
        all.push(self.me());
        if first.or(all.into_iter().min()) == Some(self.me()) {
            // Once more with a later round when it cannot be done now.
            let _ = self.go_on_deleting(*object, &entry.hint_hosts).await;
        }
    }

    /// Disks whose creator did not come to the end in its time: one that was taken into use is ready, and another one is undone.
    async fn reconcile_creations(&self, entries: &[(ObjectId, CatalogueEntry)]) {
        let inner = &self.inner;
        let creating = entries.iter().filter(|(_, entry)| entry.state == DiskState::Creating);
        for object in creating.map(|(object, _)| *object) {
            let Ok(Some(intent)) = inner.registry.get::<CreateIntent>(&object).await else { continue };
            if self.seen_for(object) < Duration::from_millis(intent.entry.lasts_ms) {
                continue;
            }
            let mut hosts: Vec<_> = intent.entry.components.iter().map(|place| place.host).collect();
            hosts.dedup();
            let changes = inner.peer_changes.get();
            match inner.objects.look_up(object, &hosts).await {
                Some((known, _)) if known.config.deleted => {
                    let _ = inner.registry.mark_deleted(object, &intent.entry.components).await;
                }
                Some((known, owner)) => {
                    // A majority has accepted it, or does so now; where neither is possible, it is tried again.
                    if owner.is_some() || inner.objects.take_over(&known).await.is_ok() {
                        let _ = inner.registry.finish_create(object).await;
                    }
                }
                None => {
                    // A disk group that is not open yet may hold the record.
                    let mut all_answer = true;
                    for place in &intent.entry.components {
                        all_answer &= self.is_open(place) || self.is_gone(place).await;
                    }
                    if all_answer && changes == inner.peer_changes.get() {
                        let _ = inner.registry.abandon_create(object).await;
                    }
                }
            }
        }
    }

    /// Whether a disk group is none any more: its host is gone, or was removed and may be there again with another one.
    async fn is_gone(&self, place: &ComponentPlace) -> bool {
        let inner = &self.inner;
        inner.gone.has(place.host) || matches!(inner.registry.get::<DiskGroupEntry>(&place.disk_group).await, Ok(None))
    }

    /// Whether the process that a host runs now has told that it has this disk group open.
    fn is_open(&self, place: &ComponentPlace) -> bool {
        if place.host == self.me() {
            return self.inner.seats.store(place.disk_group).is_some();
        }
        let Some(incarnation) = self.inner.rpc.peers_up().get(&place.host).copied() else { return false };
        let peers = self.inner.leases.peers();
        let told = peers.get(&place.host).filter(|peer| peer.incarnation == incarnation);
        told.is_some_and(|peer| peer.summary.disk_groups.iter().any(|group| group.disk_group == place.disk_group))
    }

    /// Components whose object has no seat here: made, and then nobody came to admit them.
    async fn reconcile_unseated(&self, walk: &mut Walk, most: usize) {
        let inner = &self.inner;
        for store in inner.seats.stores() {
            let disk_group = store.group().id();
            let (objects, more) = store.group().objects_after(walk.after(disk_group, Over::Objects), most);
            walk.came_to(disk_group, Over::Objects, objects.last().copied().filter(|_| more));
            for object in objects {
                if !inner.seats.has_seat(disk_group, object) && !inner.seats.is_unreadable(disk_group, object) {
                    self.reconcile_nascent(disk_group, object).await;
                }
            }
        }
    }

    /// Components of a creation, or of a replacement, that never came to its end.
    async fn reconcile_nascent(&self, disk_group: DiskGroupId, object: ObjectId) {
        let inner = &self.inner;
        let Ok(intent) = inner.registry.get::<CreateIntent>(&object).await else { return };
        let seen_for = self.seen_for(object);
        if intent.is_some_and(|i| seen_for < Duration::from_millis(i.entry.lasts_ms) + NASCENT_KEEP) {
            return;
        }
        let Some(store) = inner.seats.store(disk_group) else { return };
        let here = LocalStore::components_of(&store, object);
        let wanted = match inner.objects.look_up(object, &[]).await {
            None => None,
            // The object is there, and went on without them, or its owner is about to name them.
            Some((_, Some(owner))) => match inner.objects.command(owner, object, OwnerCommand::Status).await {
                Ok(status) => Some(status),
                Err(_) => return,
            },
            Some((_, None)) => return,
        };
        let unwanted = |c: &ComponentId| wanted.as_ref().is_none_or(|status| !status.wants(*c));
        for component in here.into_iter().map(|c| c.component).filter(unwanted) {
            self.delete_here(disk_group, component, object).await;
        }
        let _ = inner.seats.forget(disk_group, object).await;
    }
}

fn needs_repair(known: &Accepted) -> bool {
    let goes_back = known.config.past.as_ref().is_some_and(|past| past.goes_back_to.is_some());
    // A clone that is to become flat has no guest that would wake its owner.
    let flattens = known.config.ancestry.as_ref().is_some_and(|ancestry| ancestry.flattens);
    known.base.is_some()
        || goes_back
        || flattens
        || known.config.members.iter().any(|m| m.state != ComponentState::Active)
}
