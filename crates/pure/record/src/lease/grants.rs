//! The grantor's side: whose heartbeats are answered, whose leases stand, whom a seat may promise.

use std::{collections::BTreeMap, time::Duration};

use cairn_types::{Canary, DiskGroupId, Epoch, HostId, Incarnation, ObjectId, SeatRecord, Time};
use cairn_wire::{Heartbeat, Listed, PeerSession, SeizeAnswer};

/// A seat of an object here.
type Key = (DiskGroupId, ObjectId);

/// A run of heartbeats of one process.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Session {
    incarnation: Incarnation,
    id: PeerSession,
    until: Time,
    /// The newest list that came in this session.
    list: Option<List>,
}

/// What an owner has listed, and until when later heartbeats have renewed all of it at once: a host may own ten thousand objects,
/// and at rest nothing is done for each.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct List {
    /// Of the heartbeat that brought it.
    number: u64,
    /// Sorted.
    objects: Vec<(ObjectId, Epoch)>,
    until: Time,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Grant {
    /// The owner.
    epoch: Epoch,
    until: Time,
    /// The session in which it was confirmed; none: a claim, which nothing renews.
    confirmed: Option<PeerSession>,
    /// The number of the last heartbeat with a list that has it.
    listed: Option<u64>,
}

/// What this process has granted to owners. Kept in memory: a restart refuses for one lease instead.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Grants {
    lease: Duration,
    started: Time,
    next_session: u64,
    sessions: BTreeMap<HostId, Session>,
    grants: BTreeMap<Key, Grant>,
}

impl Grants {
    /// Nothing is granted. `first_session` is random: sessions of an earlier process must not be mistaken for ours.
    pub fn new(started: Time, lease: Duration, first_session: u64) -> Self {
        let next_session = (first_session >> 1).max(1);
        Self { lease, started, next_session, sessions: BTreeMap::new(), grants: BTreeMap::new() }
    }

    /// A heartbeat of `from` came; returns the session to answer with, or none for a process that is dead: no answer.
    ///
    /// What the heartbeat lists is renewed, what it no longer lists is released.
    pub fn on_heartbeat(
        &mut self,
        from: (HostId, Incarnation),
        heartbeat: &Heartbeat,
        now: Time,
    ) -> Option<PeerSession> {
        let (host, incarnation) = from;
        let until = now + self.lease;
        let id = match self.sessions.get_mut(&host) {
            Some(alive) if alive.incarnation > incarnation => return None,
            // The live session, whatever the heartbeat believes: it may not have heard of it yet.
            Some(alive) if alive.incarnation == incarnation && now < alive.until && alive.knows(heartbeat) => {
                alive.until = until;
                alive.id
            }
            _ => {
                self.end_leases(host, now);
                let id = PeerSession(self.next_session);
                self.next_session += 1;
                self.sessions.insert(host, Session { incarnation, id, until, list: None });
                id
            }
        };
        if heartbeat.session == id {
            match &heartbeat.owned {
                Listed::All(owned) => self.renew((from, id), heartbeat.number, owned, now),
                Listed::AsIn(number) => {
                    let list = self.sessions.get_mut(&host).and_then(|session| session.list.as_mut());
                    if let Some(list) = list.filter(|list| list.number == *number) {
                        list.until = until;
                    }
                }
            }
        }
        Some(id)
    }

    fn renew(
        &mut self,
        (from, id): ((HostId, Incarnation), PeerSession),
        number: u64,
        owned: &[(ObjectId, Epoch)],
        now: Time,
    ) {
        let until = now + self.lease;
        // It comes sorted, which costs nothing then.
        let mut owned = owned.to_vec();
        owned.sort_unstable();
        self.grants.retain(|(_, object), grant| {
            if (grant.epoch.host, grant.epoch.incarnation) != from || grant.confirmed != Some(id) {
                return true;
            }
            // Also when it ran out meanwhile: nobody else was promised, or this would be its claim; and the owner
            // takes an answer in this session for a renewal.
            let listed = owned.binary_search(&(*object, grant.epoch)).is_ok();
            if listed {
                grant.listed = grant.listed.max(Some(number));
                grant.until = until;
            }
            // One that was overtaken on its way tells of a time before the object was listed.
            listed || grant.listed.is_none_or(|last| number <= last)
        });
        let session = self.sessions.get_mut(&from.0).expect("its heartbeat began or continued it");
        if session.list.as_ref().is_none_or(|list| list.number < number) {
            session.list = Some(List { number, objects: owned, until });
        }
    }

    /// A session lapsed or a newer process came: nothing renews its leases any more, and they stand until they run out. One
    /// confirmed just before still counts there; and the older process may live, where a machine was cloned.
    fn end_leases(&mut self, host: HostId, now: Time) {
        let session = self.sessions.get(&host);
        self.grants.retain(|_, grant| {
            if grant.epoch.host == host {
                // What the session renewed is kept of it.
                grant.until = grant.stands_until(session);
            }
            grant.epoch.host != host || now < grant.until
        });
    }

    /// Whether the seat may promise `epoch`: no other process' lease or claim stands, of the same host or another.
    ///
    /// `record` is the seat's own. `overrule` is a seizer's word that a majority has promised it already.
    ///
    /// # Errors
    /// [`SeizeAnswer::LeaseHeld`], to be sent as it is.
    pub fn may_promise(
        &self,
        disk_group: DiskGroupId,
        record: &SeatRecord,
        epoch: Epoch,
        overrule: bool,
        now: Time,
    ) -> Result<(), SeizeAnswer> {
        if overrule {
            return Ok(());
        }
        let held = |by: Epoch, until: Time| {
            // Rounded up: who asks again after this time finds it free.
            let for_ms = until.since(now).as_millis() as u64 + 1;
            Err(SeizeAnswer::LeaseHeld { by, for_ms })
        };
        if let Some((holder, until)) = self.standing(disk_group, record.object, now)
            && (holder.host, holder.incarnation) != (epoch.host, epoch.incarnation)
        {
            return held(holder, until);
        }
        // Whom the process before this one granted a lease is not known, but it was the recorded owner.
        let quiet_until = self.started + self.lease;
        if now < quiet_until
            && !Canary::NoGrace.sings()
            && record.promised != Epoch::default()
            && record.promised.host != epoch.host
        {
            return held(record.promised, quiet_until);
        }
        Ok(())
    }

    /// The seat promised `epoch`: a claim for one lease, in place of whatever stood.
    pub fn on_promised(&mut self, disk_group: DiskGroupId, object: ObjectId, epoch: Epoch, now: Time) {
        if self.grants.get(&(disk_group, object)).is_some_and(|g| g.epoch == epoch && g.confirmed.is_some()) {
            return;
        }
        let claim = Grant { epoch, until: now + self.lease, confirmed: None, listed: None };
        self.grants.insert((disk_group, object), claim);
    }

    /// The owner asks for a lease; the seat's promise is `promised`. True: granted, answer so.
    pub fn on_confirm(
        &mut self,
        disk_group: DiskGroupId,
        object: ObjectId,
        epoch: Epoch,
        promised: Epoch,
        now: Time,
    ) -> bool {
        let Some(session) = self.sessions.get(&epoch.host) else {
            return false;
        };
        if promised != epoch || session.incarnation != epoch.incarnation || now >= session.until {
            return false;
        }
        let until = now + self.lease;
        let confirmed = Some(session.id);
        let listed = self.grants.get(&(disk_group, object)).filter(|g| g.epoch == epoch && g.confirmed == confirmed);
        // What a list has is renewed with it from now on, though the list came before the lease.
        let in_list = session.list.as_ref().filter(|list| list.objects.binary_search(&(object, epoch)).is_ok());
        let listed = listed.and_then(|g| g.listed).max(in_list.map(|list| list.number));
        self.grants.insert((disk_group, object), Grant { epoch, until, confirmed, listed });
        true
    }

    /// The owner of `epoch` gave the object up.
    pub fn on_release(&mut self, disk_group: DiskGroupId, object: ObjectId, epoch: Epoch) {
        if self.grants.get(&(disk_group, object)).is_some_and(|g| g.epoch == epoch) {
            self.grants.remove(&(disk_group, object));
        }
    }

    /// The seat is gone.
    pub fn forget(&mut self, disk_group: DiskGroupId, object: ObjectId) {
        self.grants.remove(&(disk_group, object));
    }

    /// Who holds a lease or a claim of the seat now.
    pub fn holder(&self, disk_group: DiskGroupId, object: ObjectId, now: Time) -> Option<Epoch> {
        self.standing(disk_group, object, now).map(|(epoch, _)| epoch)
    }

    /// The lease or claim that stands, and until when.
    fn standing(&self, disk_group: DiskGroupId, object: ObjectId, now: Time) -> Option<(Epoch, Time)> {
        let grant = self.grants.get(&(disk_group, object))?;
        let until = grant.stands_until(self.sessions.get(&grant.epoch.host));
        (now < until).then_some((grant.epoch, until))
    }
}

impl Session {
    /// Whether it is known what the heartbeat lists, or need not be: the list has come, or a later one has overtaken it.
    fn knows(&self, heartbeat: &Heartbeat) -> bool {
        match &heartbeat.owned {
            Listed::AsIn(list) if heartbeat.session == self.id => {
                self.list.as_ref().is_some_and(|newest| newest.number == *list || newest.number > heartbeat.number)
            }
            _ => true,
        }
    }
}

impl Grant {
    /// `session`: that of the owner's host now.
    fn stands_until(&self, session: Option<&Session>) -> Time {
        let session = session.filter(|session| self.confirmed == Some(session.id));
        let list = session.and_then(|session| session.list.as_ref());
        list.filter(|list| self.listed == Some(list.number)).map_or(self.until, |list| self.until.max(list.until))
    }
}
