//! A larger cluster under random schedules: leases and clocks, cuts, pauses, restarts, damage, replacements, resync.

use std::{collections::BTreeMap, time::Duration};

use cairn_record::{Grants, left_out};
use cairn_types::{ComponentId, OpId, Time};

use super::{
    Canary, LEASE, Object, Place, closed, epoch,
    explore::resync,
    ghost::Ghost,
    id_of, letter_of,
    message::{Body, Msg},
    owner::{Event, Out, OwnerNode, Phase},
    picture_of,
    seat::{SeatNode, Seen},
    seat_of,
    serving::Serving,
};

/// A small generator: SplitMix64.
#[derive(Debug, Clone)]
pub struct Rng(pub u64);

impl Rng {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }
    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
    pub fn pick<T: Clone>(&mut self, from: &[T]) -> Option<T> {
        if from.is_empty() { None } else { Some(from[self.below(from.len())].clone()) }
    }
}

/// A read whose data have arrived and that is not answered yet.
#[derive(Debug, Clone)]
pub(super) struct Fetched {
    pub(super) owner: usize,
    pub(super) epoch: cairn_types::Epoch,
    pub(super) block: Block,
    pub(super) value: OpId,
    pub(super) floor: OpId,
}

/// A block of a mirror, or a row and a column of it.
pub(super) type Block = (u64, u32);

/// The blocks that an operation writes, of rows of `columns`.
fn blocks_of(place: Place, columns: u32) -> impl Iterator<Item = Block> {
    let columns = place.column.map_or(0..columns, |column| column..column + 1);
    columns.map(move |column| (place.row, column))
}

/// What a run did.
#[derive(Debug, Clone, Copy, Default)]
pub struct Counts {
    pub steps: usize,
    pub won: usize,
    pub acked: usize,
    pub reads: usize,
    /// Reads of a column that were answered by the others.
    pub degraded: usize,
    /// Writes for which parity was made anew.
    pub encoded: usize,
    pub changes: usize,
    pub activated: usize,
    /// Seats that were left out and went, and those of them that had promised more than the owner that they heard it from.
    pub left: usize,
    pub left_ahead: usize,
}

/// The cluster.
pub struct World {
    pub rng: Rng,
    /// Steps in which power goes everywhere, and what it takes.
    power_cuts: Vec<usize>,
    power: Rng,
    /// Chance of seats that are left out and go.
    leaving: Rng,
    pub canary: Canary,
    pub owners: Vec<OwnerNode>,
    pub seats: Vec<SeatNode>,
    pub net: Vec<Msg>,
    /// Messages on a long way, and the step in which they arrive.
    late: Vec<(usize, Msg)>,
    pub ghost: Ghost,
    pub counts: Counts,
    /// Real time, in microseconds.
    now_us: u64,
    /// Rates of the clocks of owners and seats, parts in a thousand of real time; and what they show at the start.
    clocks: Vec<(u64, u64)>,
    /// Cut pairs (owner, seat).
    pub(super) cut: Vec<(usize, char)>,
    paused: Vec<bool>,
    pub(super) fetched: Vec<Fetched>,
    /// Per block, what an answered read has shown.
    pub(super) shown: BTreeMap<Block, OpId>,
    /// What was acknowledged last.
    pub(super) acked: BTreeMap<Block, OpId>,
    damage_left: bool,
    pub trace: Option<Vec<String>>,
}

impl World {
    /// A cluster at rest: nobody owns the object.
    pub fn new(seed: u64, canary: Canary, object: Object, spare: &str, owners: usize) -> Self {
        let mut rng = Rng(seed);
        let first = closed(epoch(1, 9), 1, object.config());
        let word = |w: &str| w.chars().next().expect("a letter");
        let mut seats: Vec<SeatNode> = Vec::new();
        for w in object.picture.split_whitespace() {
            seats.push(SeatNode::new(word(w), canary, Some(first.clone())));
        }
        for w in spare.split_whitespace() {
            seats.push(SeatNode::new(word(w), canary, None));
        }
        let mut clocks = Vec::new();
        for _ in 0..owners + seats.len() {
            clocks.push((995_000 + rng.next() % 10_001, rng.next() % 1_000_000));
        }
        // Chance of their own: in every other run power stays.
        let mut power = Rng(seed ^ 0x0070_6f77_6572);
        let cuts = [0, 0, 1, 2][power.below(4)];
        let power_cuts = (0..cuts).map(|_| 20 + power.below(220)).collect();
        let mut world = Self {
            power,
            power_cuts,
            leaving: Rng(seed ^ 0x006c_6561_7665),
            owners: (0..owners).map(|n| OwnerNode::new(n, canary, first.clone(), Some(LEASE))).collect(),
            ghost: Ghost::new(&first),
            net: Vec::new(),
            late: Vec::new(),
            counts: Counts::default(),
            now_us: 10_000_000,
            clocks,
            cut: Vec::new(),
            paused: vec![false; owners],
            fetched: Vec::new(),
            shown: BTreeMap::new(),
            acked: BTreeMap::new(),
            damage_left: true,
            trace: None,
            rng,
            canary,
            seats,
        };
        for place in 0..world.seats.len() {
            // Started long ago.
            world.seats[place].grants = Some(Grants::new(Time(0), LEASE, 1 << 10));
        }
        world
    }

    pub(super) fn say(&mut self, text: impl FnOnce() -> String) {
        if let Some(trace) = &mut self.trace {
            let now = self.now_us / 1000;
            trace.push(format!("{now} ms {}", text()));
        }
    }

    fn clock(&self, place: usize) -> Time {
        let (rate, offset) = self.clocks[place];
        Time((self.now_us + offset) * rate / 1000)
    }

    pub fn owner_clock(&self, owner: usize) -> Time {
        self.clock(owner)
    }

    fn seat_clock(&self, place: usize) -> Time {
        self.clock(self.owners.len() + place)
    }

    pub(super) fn place(&self, letter: char) -> usize {
        self.seats.iter().position(|s| s.letter == letter).expect("a seat")
    }

    /// One random step. An error names the invariant that does not hold.
    pub fn step(&mut self) -> Result<(), String> {
        self.counts.steps += 1;
        if self.power_cuts.contains(&self.counts.steps) {
            return self.lose_power();
        }
        if let Some(place) = self.late.iter().position(|(due, _)| *due <= self.counts.steps) {
            let (_, msg) = self.late.swap_remove(place);
            self.net.insert(0, msg);
        }
        if self.leaving.one_in(4) {
            self.leave()?;
        }
        match self.rng.below(100) {
            0..62 => self.deliver_any(),
            62..65 => {
                let passed = self.rng.next() % 500_000;
                self.now_us += passed;
                self.heartbeats()
            }
            65..91 => {
                let owner = self.rng.below(self.owners.len());
                if self.paused[owner] { Ok(()) } else { self.owner_acts(owner) }
            }
            91..95 | 97 => self.answer_read(),
            95 => {
                if !self.cut.is_empty() && !self.rng.one_in(3) {
                    self.cut.remove(0);
                } else {
                    let cut = (self.rng.below(self.owners.len()), self.seats[self.rng.below(self.seats.len())].letter);
                    self.say(|| format!("cut {cut:?}"));
                    self.cut.push(cut);
                }
                Ok(())
            }
            96 => {
                let owner = self.rng.below(self.owners.len());
                let pause = !self.paused.contains(&true) && self.rng.one_in(3);
                self.paused.fill(false);
                self.paused[owner] = pause;
                self.say(|| format!("owner {owner} paused or goes on"));
                Ok(())
            }
            98 => {
                let nobody = self.paused.contains(&true) || self.owners.iter().all(|o| o.serving().is_none());
                self.now_us += if nobody || self.rng.one_in(12) { self.rng.next() % 4_000_000 } else { 0 };
                Ok(())
            }
            _ => {
                if self.rng.one_in(2) {
                    self.restart()
                } else {
                    Ok(())
                }
            }
        }
    }

    /// Power goes everywhere: owners and messages are gone, and batches of logs that nobody knows to be durable. One log may have
    /// a flipped bit, whether its last batch was torn or not.
    fn lose_power(&mut self) -> Result<(), String> {
        self.say(|| "power goes everywhere".into());
        self.net.clear();
        self.late.clear();
        self.fetched.clear();
        for owner in 0..self.owners.len() {
            self.act(owner, |o, out| o.end(out))?;
        }
        self.net.clear();
        for place in 0..self.seats.len() {
            let now = self.seat_clock(place);
            loop {
                let letter = self.seats[place].letter;
                let torn = self.seats[place].accepted();
                if !self.power.one_in(2) || !self.seats[place].tear() {
                    break;
                }
                self.ghost.on_torn(letter, torn, self.seats[place].accepted());
                self.say(|| format!("the log of {letter} ends in a torn batch"));
            }
            self.seats[place].restart(now, LEASE);
        }
        if self.damage_left && self.power.one_in(2) {
            let (place, behind) = (self.power.below(self.seats.len()), self.power.below(2));
            if self.seats[place].flip(behind) {
                self.damage_left = false;
                let letter = self.seats[place].letter;
                self.say(|| format!("a bit of one of the last batches of {letter} is flipped"));
            }
        }
        self.check()
    }

    /// A seat that a closed record in effect leaves out goes, with all that it has promised: it hears of it from the record's owner, who may
    /// have been superseded.
    fn leave(&mut self) -> Result<(), String> {
        let owner = self.leaving.below(self.owners.len());
        let Some(serving) = self.owners[owner].serving().filter(|serving| serving.change.is_none()) else {
            return Ok(());
        };
        let state = &serving.state;
        let decided = closed(state.epoch(), state.csn().0, (**state.config()).clone());
        // Mostly one that has promised more than that owner has: there are few.
        let any = self.leaving.one_in(5);
        let goes = |seat: &&mut SeatNode| {
            if !any && seat.promised() <= decided.epoch {
                return false;
            }
            let accepted = seat.record.as_ref().and_then(|record| record.accepted.as_ref());
            let here = std::iter::once(ComponentId(id_of(seat.letter)));
            accepted.is_some_and(|own| left_out(own, &decided, seat_of(seat.letter).disk_group, here))
        };
        let Some(seat) = self.seats.iter_mut().find(goes) else { return Ok(()) };
        let (letter, ahead) = (seat.letter, seat.promised() > decided.epoch);
        seat.leave();
        self.counts.left += 1;
        self.counts.left_ahead += usize::from(ahead);
        self.say(|| format!("{letter} goes: {} leaves it out", picture_of(&decided.config)));
        self.check()
    }

    fn restart(&mut self) -> Result<(), String> {
        let place = self.rng.below(self.seats.len());
        let now = self.seat_clock(place);
        let seat = &mut self.seats[place];
        seat.restart(now, LEASE);
        let letter = seat.letter;
        let mut damaged = false;
        if self.damage_left && self.rng.one_in(4) && self.seats[place].record.is_some() {
            // Bad sectors: operations are gone, perhaps a record with them, and the log says that it is damaged.
            self.damage_left = false;
            damaged = true;
            if self.rng.one_in(2)
                && let Some(older) = self.seats[place].older.take()
            {
                self.seats[place].record = Some(older);
            }
            self.seats[place].last.clear();
            let component = &mut self.seats[place].component;
            component.damaged = true;
            if let Some((gone, _)) = component.ops.pop_last() {
                component.window.remove(&gone);
            }
        }
        self.say(|| format!("seat {letter} restarts{}", if damaged { ", damaged" } else { "" }));
        self.check()
    }

    fn deliver_any(&mut self) -> Result<(), String> {
        if self.net.is_empty() {
            return Ok(());
        }
        // Mostly in order, sometimes far out of it.
        let among = if self.rng.one_in(6) { self.net.len() } else { self.net.len().min(3) };
        let place = self.rng.below(among);
        if self.rng.one_in(30) {
            self.net.remove(place);
            return Ok(());
        }
        if self.rng.one_in(if is_write(&self.net[place].body) { 12 } else { 60 }) {
            // Stuck somewhere, to arrive when everybody has forgotten it.
            let due = self.counts.steps + 20 + self.rng.below(150);
            self.late.push((due, self.net.remove(place)));
            return Ok(());
        }
        let twice = self.rng.one_in(30);
        let msg = if twice { self.net[place].clone() } else { self.net.remove(place) };
        self.deliver(msg)
    }

    /// Delivers a message, if its way is free and its receiver runs.
    pub fn deliver(&mut self, msg: Msg) -> Result<(), String> {
        let Msg { owner, seat, body } = msg;
        if self.cut.contains(&(owner, seat)) {
            return Ok(());
        }
        self.say(|| format!("{owner}-{seat} {body:?}"));
        if body.is_request() {
            let place = self.place(seat);
            let now = self.seat_clock(place);
            let (answer, seen) = self.seats[place].handle(owner, &body, now);
            if let Some(body) = answer {
                self.net.push(Msg { owner, seat, body });
            }
            if let Some(Seen::Accepted(record)) = seen {
                self.counts.changes += 1;
                self.ghost.on_accepted(seat, &record)?;
            }
        } else if self.paused[owner] {
            self.net.push(Msg { owner, seat, body });
        } else {
            let now = self.owner_clock(owner);
            let mut out = Out::default();
            let place = self.place(seat);
            self.seats[place].heard(&body);
            self.owners[owner].handle(seat, &body, now, &mut out);
            self.out(owner, out)?;
        }
        self.check()
    }

    fn check(&self) -> Result<(), String> {
        let seats = &self.seats;
        self.ghost.check_acked(|l| seats.iter().find(|s| s.letter == l).expect("a seat"))
    }

    fn out(&mut self, owner: usize, out: Out) -> Result<(), String> {
        self.net.extend(out.send);
        for event in out.events {
            self.say(|| format!("owner {owner}: {event:?}"));
            match event {
                Event::Acked(op, place) => {
                    self.counts.acked += 1;
                    self.ghost.acked.insert(op, place);
                    let columns = self.owners[owner].serving().and_then(Serving::rows).map_or(1, |rows| rows.data());
                    for block in blocks_of(place, columns) {
                        let acked = self.acked.entry(block).or_default();
                        *acked = (*acked).max(op);
                    }
                }
                Event::Won(epoch, config) => {
                    self.counts.won += 1;
                    let seats = &self.seats;
                    let find = |l: char| seats.iter().find(|s| s.letter == l).expect("a seat");
                    self.ghost.check_equal(epoch, &config, find)?;
                    let now = self.owner_clock(owner);
                    let mut out = Out::default();
                    self.owners[owner].confirm(now, &mut out);
                    self.net.extend(out.send);
                }
                Event::Failed(_) => {}
            }
        }
        // R1: two owners may never both be allowed to answer.
        let serving = (0..self.owners.len()).filter(|o| self.owners[*o].may_answer(self.owner_clock(*o)));
        let serving: Vec<usize> = serving.collect();
        if serving.len() > 1 {
            return Err(format!("R1: owners {serving:?} both hold leases"));
        }
        Ok(())
    }

    pub(super) fn act(&mut self, owner: usize, act: impl FnOnce(&mut OwnerNode, &mut Out)) -> Result<(), String> {
        let mut out = Out::default();
        act(&mut self.owners[owner], &mut out);
        self.out(owner, out)?;
        self.check()
    }

    fn heartbeats(&mut self) -> Result<(), String> {
        for owner in 0..self.owners.len() {
            if self.paused[owner] || self.owners[owner].epoch().is_none() {
                continue;
            }
            let now = self.owner_clock(owner);
            let leases = self.owners[owner].leases.as_ref().expect("a model with time");
            for seat in leases.seats(super::OBJECT) {
                self.act(owner, |o, out| o.heartbeat(letter_of(seat), now, out))?;
            }
            if self.rng.one_in(2) {
                self.act(owner, |o, out| o.resend(now, out))?;
            }
        }
        Ok(())
    }

    /// Something that an owner may do of itself.
    fn owner_acts(&mut self, owner: usize) -> Result<(), String> {
        if matches!(self.owners[owner].phase, Phase::Idle | Phase::Ended) {
            // Impatient when nobody serves, curious otherwise.
            let odds = if self.owners.iter().any(|o| o.serving().is_some()) { 12 } else { 3 };
            return if self.rng.one_in(odds) { self.seize(owner) } else { Ok(()) };
        }
        let waiting = self.owners[owner].waiting_for();
        let patience = if self.owners[owner].serving().is_some() { 12 } else { 5 };
        if !waiting.is_empty() && self.rng.one_in(patience) {
            let seat = self.rng.pick(&waiting).expect("not empty");
            self.say(|| format!("owner {owner} waits for {seat} no longer"));
            return self.act(owner, |o, out| o.on_unreachable(seat, out));
        }
        if self.owners[owner].serving().is_none() {
            return Ok(());
        }
        let reads_rows = self.owners[owner].serving().is_some_and(|serving| !serving.encodes.is_empty());
        if reads_rows && self.rng.one_in(2) {
            return self.encode(owner);
        }
        match self.rng.below(17) {
            16 => self.bring_up(owner),
            0..5 => self.write(owner),
            5..7 => self.fetch(owner),
            7..10 => self.fill(owner),
            10..13 => self.come_back(owner),
            13 if self.rng.one_in(8) => {
                self.owners[owner].forget_coming();
                Ok(())
            }
            14 if self.rng.one_in(6) => self.replace(owner),
            15 if self.rng.one_in(3) => self.act(owner, |o, out| o.end(out)),
            _ => Ok(()),
        }
    }

    /// Asks some seats for the highest record as a hint, then seizes.
    pub fn seize(&mut self, owner: usize) -> Result<(), String> {
        for _ in 0..self.seats.len() {
            let place = self.rng.below(self.seats.len());
            if self.cut.contains(&(owner, self.seats[place].letter)) {
                continue;
            }
            let accepted = self.seats[place].record.as_ref().and_then(|r| r.accepted.as_ref());
            let known = &self.owners[owner].known;
            if let Some(accepted) = accepted.filter(|a| (a.epoch, a.csn) > (known.epoch, known.csn)) {
                self.owners[owner].known = accepted.clone();
            }
        }
        self.say(|| format!("owner {owner} seizes"));
        self.act(owner, |o, out| o.start_seize(out))
    }

    fn answer_read(&mut self) -> Result<(), String> {
        if self.fetched.is_empty() {
            return Ok(());
        }
        let place = self.rng.below(self.fetched.len());
        let read = self.fetched.swap_remove(place);
        let owner = &self.owners[read.owner];
        if owner.epoch() != Some(read.epoch) || !owner.may_answer(self.owner_clock(read.owner)) {
            return Ok(());
        }
        self.counts.reads += 1;
        self.say(|| format!("read answered: {read:?}"));
        if read.value < read.floor {
            return Err(format!("P3: a read returned {:?} after {:?}", read.value, read.floor));
        }
        let shown = self.shown.entry(read.block).or_default();
        *shown = (*shown).max(read.value);
        Ok(())
    }

    fn fill(&mut self, owner: usize) -> Result<(), String> {
        let Some(serving) = self.owners[owner].serving() else {
            return Ok(());
        };
        let filling: Vec<char> = serving.filling.keys().copied().collect();
        let Some(letter) = self.rng.pick(&filling) else {
            return Ok(());
        };
        if self.cut.contains(&(owner, letter)) {
            return Ok(());
        }
        if !serving.filling[&letter].filled && self.canary != Canary::NoResync {
            let copied = {
                let seats: Vec<&SeatNode> = self.seats.iter().collect();
                resync(&mut self.owners[owner], &seats, letter)?
            };
            let Some(target) = copied else { return Ok(()) };
            let place = self.place(letter);
            self.seats[place].become_filled(target);
            self.say(|| format!("owner {owner} filled {letter}"));
            self.check()?;
            if self.owners[owner].serving().is_some_and(|serving| serving.rows().is_some()) {
                // What is written before the barrier reaches it as it comes.
                return Ok(());
            }
        }
        let mut proposed = false;
        self.act(owner, |o, out| proposed = o.start_activation(letter, out))?;
        self.counts.activated += usize::from(proposed);
        Ok(())
    }

    /// A witness without a promise to this owner, or which was restarted.
    fn bring_up(&mut self, owner: usize) -> Result<(), String> {
        let epoch = self.owners[owner].epoch();
        let strange =
            |s: &&SeatNode| s.letter.is_lowercase() && (s.component.damaged || s.admitted.map(|(e, _)| e) != epoch);
        let letters: Vec<char> = self.seats.iter().filter(strange).map(|s| s.letter).collect();
        let Some(letter) = self.rng.pick(&letters).filter(|l| !self.cut.contains(&(owner, *l))) else {
            return Ok(());
        };
        self.act(owner, |o, out| o.bring_up(letter, out))
    }

    fn come_back(&mut self, owner: usize) -> Result<(), String> {
        let Some(serving) = self.owners[owner].serving() else {
            return Ok(());
        };
        let away = |m: &&cairn_types::Member| matches!(m.state, cairn_types::ComponentState::Absent { .. });
        let away: Vec<char> = serving.state.config().members.iter().filter(away).map(|m| letter_of(m.seat())).collect();
        let Some(letter) = self.rng.pick(&away) else {
            return Ok(());
        };
        self.act(owner, |o, out| {
            o.start_coming(letter, None, out);
        })
    }

    /// Replaces a data component by one of the seats that the configuration does not name.
    fn replace(&mut self, owner: usize) -> Result<(), String> {
        let Some(serving) = self.owners[owner].serving() else {
            return Ok(());
        };
        let named: Vec<char> = serving.state.config().members.iter().map(|m| letter_of(m.seat())).collect();
        let data: Vec<char> = named.iter().copied().filter(|l| l.is_uppercase()).collect();
        // Only a seat that never was a member: ids are not used again.
        let fresh = self.seats.iter().filter(|s| s.record.as_ref().is_some_and(|r| r.accepted.is_none()));
        let fresh: Vec<char> = fresh.map(|s| s.letter).filter(|l| !named.contains(l)).collect();
        let (Some(old), Some(new)) = (self.rng.pick(&data), self.rng.pick(&fresh)) else {
            return Ok(());
        };
        self.say(|| format!("owner {owner} replaces {old} by {new}"));
        self.act(owner, |o, out| {
            o.start_coming(new, Some(old), out);
        })
    }

    /// Owner 0 begins to serve before anything happens.
    pub fn begin(&mut self) -> Result<(), String> {
        self.seize(0)?;
        self.heartbeats()?;
        for _ in 0..200 {
            if !self.net.is_empty() {
                let msg = self.net.remove(0);
                self.deliver(msg)?;
            }
        }
        assert!(self.owners[0].may_answer(self.owner_clock(0)), "nothing hindered it");
        Ok(())
    }

    /// Delivers, in order, every message that fits, and what follows from it, until none does.
    pub fn deliver_all(&mut self, fits: impl Fn(&Msg) -> bool) {
        while let Some(place) = self.net.iter().position(&fits) {
            let msg = self.net.remove(place);
            self.deliver(msg).expect("an invariant");
        }
    }

    /// Lets an owner do something.
    pub fn lets(&mut self, owner: usize, act: impl FnOnce(&mut OwnerNode, &mut Out)) {
        self.act(owner, act).expect("an invariant");
    }

    /// The owner dies: nothing that it sent arrives any more, unless it has.
    pub fn dies(&mut self, owner: usize) {
        self.owners[owner].phase = Phase::Ended;
        self.net.retain(|m| m.owner != owner);
    }

    /// Time passes without heartbeats.
    pub fn pass(&mut self, time: Duration) {
        self.now_us += time.as_micros() as u64;
    }

    /// The owner reaches these seats only.
    pub fn reach(&mut self, owner: usize, letters: &str) {
        self.cut.retain(|(o, _)| *o != owner);
        let beyond = self.seats.iter().map(|s| s.letter).filter(|l| !letters.contains(*l));
        self.cut.extend(beyond.map(|l| (owner, l)));
    }

    pub fn seat(&self, letter: char) -> &SeatNode {
        &self.seats[self.place(letter)]
    }

    pub fn seat_mut(&mut self, letter: char) -> &mut SeatNode {
        let place = self.place(letter);
        &mut self.seats[place]
    }

    /// Copies what is stale to a component that is being filled.
    pub fn copy_to(&mut self, owner: usize, letter: char) {
        let seats: Vec<&SeatNode> = self.seats.iter().collect();
        let target = resync(&mut self.owners[owner], &seats, letter).expect("a row's members agree");
        let target = target.expect("a copy is possible");
        self.seat_mut(letter).become_filled(target);
    }

    /// Everything works again: some owner must come to serve. False: nobody does.
    pub fn heal(&mut self) -> Result<bool, String> {
        self.cut.clear();
        self.paused.fill(false);
        for round in 0..60 {
            self.now_us += 300_000;
            self.heartbeats()?;
            for _ in 0..400 {
                if self.net.is_empty() {
                    break;
                }
                let msg = self.net.remove(0);
                self.deliver(msg)?;
            }
            let serves = (0..self.owners.len()).any(|o| self.owners[o].may_answer(self.owner_clock(o)));
            if serves {
                return Ok(true);
            }
            let owner = round % self.owners.len();
            if self.owners.iter().all(|o| o.serving().is_none()) {
                match self.owners[owner].phase {
                    Phase::Idle | Phase::Ended => self.seize(owner)?,
                    _ => {
                        for seat in self.owners[owner].waiting_for() {
                            self.act(owner, |o, out| o.on_unreachable(seat, out))?;
                        }
                    }
                }
            }
        }
        Ok(false)
    }
}

/// The body of a message, for scenarios that look for one.
pub fn is_write(body: &Body) -> bool {
    matches!(body, Body::Write { .. })
}
