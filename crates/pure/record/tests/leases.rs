//! Leases, exhaustively: an owner that serves, a contender that collects promises, three seats, restarts, and time.
//!
//! Time goes in steps of half a lease. A heartbeat, a confirmation or a Seize may be handled in any later step, or
//! never, and in any order; its answer comes at once, which is when a lease lasts longest. Checked in every state, R1:
//! while the owner may answer, no majority has promised the contender. Clocks of different rates are in the scenarios
//! and in the random runs.

#![allow(clippy::disallowed_methods, clippy::disallowed_types)] // measures; visited states are looked up, never walked

mod names;

use std::{
    collections::{BTreeSet, HashSet, VecDeque},
    hash::{DefaultHasher, Hash, Hasher},
};

use cairn_record::{Grants, PeerLeases, PendingConfirm};
use cairn_types::{Epoch, Incarnation, ObjectConfig, SeatRecord, Time};
use cairn_votes::has_majority_by;
use cairn_wire::{Heartbeat, HeartbeatAnswer, HostSummary, Listed, PeerSession};
use names::{LEASE, OBJECT, config_of, epoch, letter_of, seat_of};

const LETTERS: [char; 3] = ['A', 'B', 'w'];

/// A careless variant of the design.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Canary {
    /// As designed.
    None,
    /// The grantor revives a lapsed session.
    ReviveSession,
    /// A restarted grantor promises at once.
    NoGrace,
    /// The owner does not look at its leases.
    NoLease,
}

/// What may still happen.
#[derive(Debug, Clone, Copy, Hash)]
struct Budget {
    steps: u8,
    heartbeats: [u8; 3],
    seizes: [u8; 3],
    restarts: u8,
    gives_up: bool,
}

/// To the seat of a place.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Msg {
    Heartbeat { place: usize, number: u64, session: PeerSession, owned: Listed },
    Confirm { place: usize, asked: PendingConfirm },
    Seize { place: usize },
}

#[derive(Debug, Clone, Hash)]
struct Seat {
    grants: Grants,
    promised: Epoch,
}

#[derive(Debug, Clone, Hash)]
struct State {
    owner: PeerLeases,
    seats: Vec<Seat>,
    /// Seats that promised the contender.
    promised: BTreeSet<char>,
    net: BTreeSet<Msg>,
    now: Time,
    budget: Budget,
}

struct Model {
    canary: Canary,
    config: ObjectConfig,
    owner: Epoch,
    contender: Epoch,
}

impl Model {
    /// The owner holds all leases.
    fn first(&self, budget: Budget) -> State {
        let now = Time(LEASE.as_nanos() as u64 * 10);
        let seat = |_| Seat { grants: Grants::new(Time(0), LEASE, 1 << 10), promised: self.owner };
        let mut owner = PeerLeases::new(LEASE, 0);
        owner.own(OBJECT, self.owner, &self.config.seats());
        let seats = LETTERS.map(seat).to_vec();
        let mut state = State { owner, seats, promised: BTreeSet::new(), net: BTreeSet::new(), now, budget };
        (0..3).for_each(|place| self.heartbeat(&mut state, place));
        while let Some(msg) = state.net.first().cloned() {
            self.deliver(&mut state, &msg);
        }
        assert!(self.holds(&state));
        state
    }

    fn holds(&self, state: &State) -> bool {
        state.owner.holds(OBJECT, self.owner, &self.config, state.now)
    }

    fn heartbeat(&self, state: &mut State, place: usize) {
        let host = seat_of(LETTERS[place]).host;
        let (number, session, owned) = state.owner.heartbeat(host, state.now);
        state.net.insert(Msg::Heartbeat { place, number, session, owned });
    }

    fn deliver(&self, state: &mut State, msg: &Msg) {
        state.net.remove(msg);
        let now = state.now;
        match msg {
            Msg::Heartbeat { place, number, session, owned } => {
                let seat = &mut state.seats[*place];
                let summary = HostSummary::default();
                let heartbeat = Heartbeat {
                    number: *number,
                    session: *session,
                    remembered: Vec::new(),
                    summary,
                    owned: owned.clone(),
                };
                let from = (self.owner.host, self.owner.incarnation);
                let Some(mut granted) = seat.grants.on_heartbeat(from, &heartbeat, now) else {
                    return;
                };
                if self.canary == Canary::ReviveSession && *session != PeerSession::default() {
                    granted = *session;
                }
                let host = seat_of(LETTERS[*place]).host;
                let answer = HeartbeatAnswer { number: *number, session: granted, grantor: (host, Incarnation(1)) };
                state.owner.on_heartbeat_answer(host, &answer);
                for asked in state.owner.due(OBJECT, now) {
                    let place = LETTERS.iter().position(|l| *l == letter_of(asked.seat)).expect("a seat");
                    state.net.insert(Msg::Confirm { place, asked });
                }
            }
            Msg::Confirm { place, asked } => {
                let group = seat_of(LETTERS[*place]).disk_group;
                let seat = &mut state.seats[*place];
                if seat.grants.on_confirm(group, OBJECT, asked.epoch, seat.promised, now) {
                    state.owner.on_confirmed(*asked);
                }
            }
            Msg::Seize { place } => {
                let group = seat_of(LETTERS[*place]).disk_group;
                let seat = &mut state.seats[*place];
                let record = SeatRecord { object: OBJECT, promised: seat.promised, accepted: None };
                if seat.grants.may_promise(group, &record, self.contender, false, now).is_ok() {
                    seat.promised = self.contender;
                    seat.grants.on_promised(group, OBJECT, self.contender, now);
                    state.promised.insert(LETTERS[*place]);
                }
            }
        }
    }

    fn successors(&self, state: &State, next: &mut Vec<State>) {
        let mut push = |change: &dyn Fn(&mut State)| {
            let mut after = state.clone();
            change(&mut after);
            next.push(after);
        };
        for msg in &state.net {
            push(&|s| self.deliver(s, msg));
        }
        if state.budget.steps > 0 {
            push(&|s| {
                s.budget.steps -= 1;
                s.now = s.now + LEASE / 2;
            });
        }
        for place in 0..3 {
            if state.budget.heartbeats[place] > 0 {
                push(&|s| {
                    s.budget.heartbeats[place] -= 1;
                    self.heartbeat(s, place);
                });
            }
            if state.budget.seizes[place] > 0 {
                push(&|s| {
                    s.budget.seizes[place] -= 1;
                    self.deliver(s, &Msg::Seize { place });
                });
            }
            if state.budget.restarts > 0 {
                push(&|s| {
                    s.budget.restarts -= 1;
                    let started = if self.canary == Canary::NoGrace { Time(0) } else { s.now };
                    s.seats[place].grants = Grants::new(started, LEASE, 1 << 20);
                });
            }
        }
        if state.budget.gives_up {
            push(&|s| {
                s.budget.gives_up = false;
                s.owner.abandon(OBJECT, self.owner);
            });
        }
    }

    /// R1.
    fn right(&self, state: &State) -> Result<(), String> {
        let majority = has_majority_by(&self.config, |m| state.promised.contains(&letter_of(m.seat())));
        let serves = self.holds(state) || self.canary == Canary::NoLease;
        if majority && serves {
            return Err(format!("{:?} promised the contender while the owner may answer", state.promised));
        }
        Ok(())
    }
}

struct Found {
    states: usize,
    complete: bool,
    taken: usize,
    wrong: Option<String>,
}

fn explore(name: &str, canary: Canary, budget: Budget, states_max: usize) -> Found {
    let started = std::time::Instant::now();
    let model = Model { canary, config: config_of("A1 B1 w1"), owner: epoch(1, 0), contender: epoch(2, 1) };
    let first = model.first(budget);
    let mut seen = HashSet::from([fingerprint(&first)]);
    let mut queue = VecDeque::from([first]);
    let mut next = Vec::new();
    let mut found = Found { states: 0, complete: false, taken: 0, wrong: None };
    while let Some(state) = queue.pop_front() {
        found.states += 1;
        found.taken += usize::from(state.promised.len() > 1);
        found.wrong = model.right(&state).err();
        if found.wrong.is_some() || found.states >= states_max {
            break;
        }
        model.successors(&state, &mut next);
        for state in next.drain(..) {
            if seen.insert(fingerprint(&state)) {
                queue.push_back(state);
            }
        }
    }
    found.complete = queue.is_empty() && found.wrong.is_none();
    println!(
        "{name}: {} states{}, the contender had a majority in {}, {:.1?}{}",
        found.states,
        if found.complete { " (all)" } else { "" },
        found.taken,
        started.elapsed(),
        found.wrong.as_deref().map(|w| format!("; caught: {w}")).unwrap_or_default()
    );
    found
}

fn fingerprint(state: &State) -> u128 {
    let half = |salt: u64| {
        let mut hasher = DefaultHasher::new();
        (salt, state).hash(&mut hasher);
        hasher.finish()
    };
    u128::from(half(1)) << 64 | u128::from(half(2))
}

const QUIET: Budget = Budget { steps: 4, heartbeats: [0; 3], seizes: [2; 3], restarts: 0, gives_up: false };

#[test]
fn no_majority_promises_while_the_owner_may_answer() {
    for (name, budget) in [
        ("a silent owner", QUIET),
        ("restarts", Budget { restarts: 2, ..QUIET }),
        ("heartbeats to two", Budget { heartbeats: [1, 1, 0], seizes: [1; 3], ..QUIET }),
        ("two heartbeats to one", Budget { heartbeats: [2, 0, 0], seizes: [1; 3], ..QUIET }),
        ("a heartbeat and a restart", Budget { heartbeats: [1, 0, 0], seizes: [1; 3], restarts: 1, ..QUIET }),
        ("it gives up", Budget { heartbeats: [1, 0, 0], seizes: [1; 3], gives_up: true, ..QUIET }),
        ("it gives up between heartbeats", Budget { heartbeats: [2, 0, 0], seizes: [1; 3], gives_up: true, ..QUIET }),
        ("heartbeats to all, so far", Budget { heartbeats: [2, 2, 1], seizes: [1; 3], ..QUIET }),
    ] {
        let found = explore(name, Canary::None, budget, 150_000);
        assert_eq!(found.wrong, None, "{name}");
        assert!(found.taken > 0, "{name}: the contender never got anywhere");
    }
}

#[test]
fn careless_leases_are_caught() {
    for (name, canary, budget) in [
        ("a lapsed session is revived", Canary::ReviveSession, Budget { heartbeats: [1, 1, 1], ..QUIET }),
        ("a restarted grantor promises at once", Canary::NoGrace, Budget { restarts: 2, ..QUIET }),
        ("leases are not looked at", Canary::NoLease, QUIET),
    ] {
        assert!(explore(name, canary, budget, 400_000).wrong.is_some(), "{name} was not caught");
    }
}
