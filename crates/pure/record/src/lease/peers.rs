//! The owner's side: heartbeats sent, sessions told, objects confirmed; until when it may serve.

use std::{collections::BTreeMap, time::Duration};

use cairn_types::{DiskGroupId, Epoch, HostId, ObjectConfig, ObjectId, Seat, Time};
use cairn_votes::votes_needed;
use cairn_wire::{HeartbeatAnswer, Listed, PeerSession};

use super::owner_part;

/// What is known of one grantor.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
struct Peer {
    session: PeerSession,
    /// Number of the last heartbeat sent.
    sent: u64,
    /// Sent and not answered, ascending.
    pending: BTreeMap<u64, Time>,
    /// The last answered one: its number and when it was sent.
    answered: Option<(u64, Time)>,
    /// The last one with a list that is still right, none where there is no such.
    list: Option<u64>,
    /// That one was answered in the session that it was sent in: the peer has the list.
    list_told: bool,
}

/// A confirmation of one seat.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Confirmed {
    /// The session that it was asked for in.
    session: PeerSession,
    sent_at: Time,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Owned {
    epoch: Epoch,
    /// Per peer, the first heartbeat that lists the object.
    listed_from: BTreeMap<HostId, u64>,
    seats: BTreeMap<Seat, Option<Confirmed>>,
}

/// A confirmation on its way: what its answer has to be matched with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PendingConfirm {
    /// Whom it goes to.
    pub seat: Seat,
    /// Of which object.
    pub object: ObjectId,
    /// The owner's epoch.
    pub epoch: Epoch,
    session: PeerSession,
    sent_at: Time,
}

/// What this process knows to be granted by its peers, itself included where it has seats.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PeerLeases {
    lease: Duration,
    /// No heartbeat of this process has this number or a lower one.
    before_first: u64,
    peers: BTreeMap<HostId, Peer>,
    owned: BTreeMap<ObjectId, Owned>,
}

/// Heartbeats that may be unanswered before older ones are forgotten; 16 at 500 ms is four leases of silence.
const PENDING_MAX: usize = 16;

impl PeerLeases {
    /// Nothing is held. Heartbeats are numbered from above `before_first`: so far from those of the process before that an answer
    /// which comes late, and was meant for that one, answers none of them.
    pub fn new(lease: Duration, before_first: u64) -> Self {
        Self { lease, before_first, peers: BTreeMap::new(), owned: BTreeMap::new() }
    }

    /// The next heartbeat to `peer`: its number, its session and the objects to list, which is all of them or a word that they are
    /// those that the peer has. Send it with the clock at `now`.
    pub fn heartbeat(&mut self, peer: HostId, now: Time) -> (u64, PeerSession, Listed) {
        let before_first = self.before_first;
        let state = self.peers.entry(peer).or_insert_with(|| Peer { sent: before_first, ..Peer::default() });
        state.sent += 1;
        state.pending.insert(state.sent, now);
        while state.pending.len() > PENDING_MAX {
            state.pending.pop_first();
        }
        let number = state.sent;
        let session = state.session;
        if let Some(list) = state.list.filter(|_| state.list_told) {
            return (number, session, Listed::AsIn(list));
        }
        (state.list, state.list_told) = (Some(number), false);
        let mut listed = Vec::new();
        for (object, owned) in &mut self.owned {
            // Once listed, always listed: a host that left and came back would else count a lease that it dropped.
            if owned.listed_from.contains_key(&peer) || owned.seats.keys().any(|s| s.host == peer) {
                owned.listed_from.entry(peer).or_insert(number);
                listed.push((*object, owned.epoch));
            }
        }
        (number, session, Listed::All(listed))
    }

    /// A heartbeat was answered. True: a new session began; everything is to be confirmed anew ([`Self::due`]).
    pub fn on_heartbeat_answer(&mut self, peer: HostId, answer: &HeartbeatAnswer) -> bool {
        let Some(state) = self.peers.get_mut(&peer) else {
            return false;
        };
        let Some(sent_at) = state.pending.remove(&answer.number) else {
            return false;
        };
        // Overtaken: a later one has been answered, perhaps in a later session.
        if state.answered.is_some_and(|(number, _)| number >= answer.number) {
            return false;
        }
        state.answered = Some((answer.number, sent_at));
        let new = state.session != answer.session;
        state.session = answer.session;
        if new {
            // What came in the old session is forgotten there.
            state.list = None;
        }
        if state.list == Some(answer.number) {
            state.list_told = true;
        }
        new
    }

    /// From now on the object is listed; call it before the first Seize is sent. `seats` are all that have votes.
    ///
    /// After a change of the configuration: again, with the new seats.
    pub fn own(&mut self, object: ObjectId, epoch: Epoch, seats: &[Seat]) {
        let fresh = || Owned { epoch, listed_from: BTreeMap::new(), seats: BTreeMap::new() };
        let owned = self.owned.entry(object).or_insert_with(fresh);
        if owned.epoch != epoch {
            owned.listed_from.keys().for_each(|host| lists_anew(&mut self.peers, *host));
            *owned = fresh();
        }
        for seat in seats.iter().filter(|seat| !owned.listed_from.contains_key(&seat.host)) {
            lists_anew(&mut self.peers, seat.host);
        }
        owned.seats.retain(|seat, _| seats.contains(seat));
        for seat in seats {
            owned.seats.entry(*seat).or_default();
        }
    }

    /// Confirmations to send now: where there is a session and the seat has not confirmed in it. Hand a granted one
    /// to [`Self::on_confirmed`] with the value returned here.
    pub fn due(&self, object: ObjectId, now: Time) -> Vec<PendingConfirm> {
        let Some(owned) = self.owned.get(&object) else {
            return Vec::new();
        };
        let due = owned.seats.iter().filter_map(|(seat, confirmed)| {
            let session = self.peers.get(&seat.host)?.session;
            let fresh = confirmed.as_ref().is_some_and(|c| c.session == session);
            let confirm = PendingConfirm { seat: *seat, object, epoch: owned.epoch, session, sent_at: now };
            (session != PeerSession::default() && !fresh).then_some(confirm)
        });
        due.collect()
    }

    /// The seat granted what was asked.
    pub fn on_confirmed(&mut self, asked: PendingConfirm) {
        let Some(owned) = self.owned.get_mut(&asked.object).filter(|o| o.epoch == asked.epoch) else {
            return;
        };
        let Some(slot) = owned.seats.get_mut(&asked.seat) else {
            return;
        };
        let newer = slot.as_ref().is_none_or(|c| c.sent_at < asked.sent_at);
        if newer {
            *slot = Some(Confirmed { session: asked.session, sent_at: asked.sent_at });
        }
    }

    /// Gives the object up, after it is served no longer. Returns the seats to send a release to.
    pub fn abandon(&mut self, object: ObjectId, epoch: Epoch) -> Vec<(HostId, DiskGroupId)> {
        match self.owned.get(&object) {
            Some(owned) if owned.epoch == epoch => {
                let owned = self.owned.remove(&object).expect("just seen");
                owned.listed_from.keys().for_each(|host| lists_anew(&mut self.peers, *host));
                owned.seats.into_keys().map(|s| (s.host, s.disk_group)).collect()
            }
            _ => Vec::new(),
        }
    }

    /// The seats that the object is owned with; none when it is not listed.
    pub fn seats(&self, object: ObjectId) -> Vec<Seat> {
        self.owned.get(&object).map(|o| o.seats.keys().copied().collect()).unwrap_or_default()
    }

    /// Objects that are listed, with their epochs.
    pub fn owned(&self) -> impl Iterator<Item = (ObjectId, Epoch)> {
        self.owned.iter().map(|(object, owned)| (*object, owned.epoch))
    }

    /// Until when the owner of `epoch` holds leases from more than half of the votes of `config`, the one in force.
    ///
    /// The moment stays true whatever happens later, so it may be kept until the next event; none: not held.
    pub fn held_until(&self, object: ObjectId, epoch: Epoch, config: &ObjectConfig) -> Option<Time> {
        let owned = self.owned.get(&object).filter(|o| o.epoch == epoch)?;
        let mut ends: Vec<(Time, u32)> =
            owned.seats.keys().map(|seat| (self.seat_until(owned, *seat), config.votes_at(*seat))).collect();
        ends.sort_unstable_by(|a, b| b.cmp(a));
        let mut votes = 0;
        for (until, more) in ends {
            votes += more;
            if votes >= votes_needed(config) {
                return (until > Time::default()).then_some(until);
            }
        }
        None
    }

    /// Whether the owner may answer now.
    pub fn holds(&self, object: ObjectId, epoch: Epoch, config: &ObjectConfig, now: Time) -> bool {
        self.held_until(object, epoch, config).is_some_and(|until| now < until)
    }

    fn seat_until(&self, owned: &Owned, seat: Seat) -> Time {
        let Some(Some(confirmed)) = owned.seats.get(&seat) else {
            return Time::default();
        };
        let mut from = confirmed.sent_at;
        let listed_from = owned.listed_from.get(&seat.host);
        if let Some(peer) = self.peers.get(&seat.host)
            && peer.session == confirmed.session
            && let (Some((number, sent_at)), Some(listed_from)) = (peer.answered, listed_from)
            && number >= *listed_from
        {
            from = from.max(sent_at);
        }
        from + owner_part(self.lease)
    }
}

/// What is listed to the peer has changed.
fn lists_anew(peers: &mut BTreeMap<HostId, Peer>, host: HostId) {
    if let Some(peer) = peers.get_mut(&host) {
        peer.list = None;
    }
}
