//! The grantor's side: whose heartbeats are answered, whose leases stand, whom a seat may promise.

use std::{collections::BTreeMap, time::Duration};

use cairn_types::{Canary, DiskGroupId, Epoch, HostId, Incarnation, ObjectId, SeatRecord, Time};
use cairn_wire::{Heartbeat, PeerSession, SeizeAnswer};

/// A seat of an object here.
type Key = (DiskGroupId, ObjectId);

/// A run of heartbeats of one process.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Session {
    incarnation: Incarnation,
    id: PeerSession,
    until: Time,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Grant {
    /// The owner.
    epoch: Epoch,
    until: Time,
    /// The session in which it was confirmed; none: a claim, which nothing renews.
    confirmed: Option<PeerSession>,
    /// The number of the last heartbeat that listed it.
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
        let known = self.sessions.get(&host).map(|s| (s.incarnation, s.until));
        let (id, until) = match known {
            Some((alive, _)) if alive > incarnation => return None,
            // The live session, whatever the heartbeat believes: it may not have heard of it yet.
            Some((alive, until)) if alive == incarnation && now < until => (self.sessions[&host].id, now + self.lease),
            _ => {
                self.end_leases(host, now);
                let id = PeerSession(self.next_session);
                self.next_session += 1;
                (id, now + self.lease)
            }
        };
        self.sessions.insert(host, Session { incarnation, id, until });
        if heartbeat.session == id {
            self.renew(from, heartbeat, id, now);
        }
        Some(id)
    }

    fn renew(&mut self, from: (HostId, Incarnation), heartbeat: &Heartbeat, id: PeerSession, now: Time) {
        let until = now + self.lease;
        // It comes sorted, which costs nothing then.
        let mut owned = heartbeat.owned.clone();
        owned.sort_unstable();
        self.grants.retain(|(_, object), grant| {
            if (grant.epoch.host, grant.epoch.incarnation) != from || grant.confirmed != Some(id) {
                return true;
            }
            // Also when it ran out meanwhile: nobody else was promised, or this would be his claim; and the owner
            // takes an answer in this session for a renewal.
            let listed = owned.binary_search(&(*object, grant.epoch)).is_ok();
            if listed {
                grant.listed = grant.listed.max(Some(heartbeat.number));
                grant.until = until;
            }
            // One that was overtaken on its way tells of a time before the object was listed.
            listed || grant.listed.is_none_or(|last| heartbeat.number <= last)
        });
    }

    /// A session lapsed or a newer process came: nothing renews its leases any more, and they stand until they run out. One
    /// confirmed just before still counts there; and the older process may live, where a machine was cloned.
    fn end_leases(&mut self, host: HostId, now: Time) {
        self.grants.retain(|_, g| g.epoch.host != host || now < g.until);
    }

    /// Whether the seat may promise `epoch`: no other process' lease or claim stands, of the same host or another.
    ///
    /// `record` is the seat's own. `overrule` is a seizer's word that a majority has promised him already.
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
        if let Some(grant) = self.standing(disk_group, record.object, now)
            && (grant.epoch.host, grant.epoch.incarnation) != (epoch.host, epoch.incarnation)
        {
            return held(grant.epoch, grant.until);
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
        let listed = listed.and_then(|g| g.listed);
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
        self.standing(disk_group, object, now).map(|g| g.epoch)
    }

    fn standing(&self, disk_group: DiskGroupId, object: ObjectId, now: Time) -> Option<&Grant> {
        self.grants.get(&(disk_group, object)).filter(|g| now < g.until)
    }
}
