//! Every schedule of a small cluster: breadth-first over all states, each visited once.
//!
//! A request may be lost (never delivered), delayed and overtaken without bound. Its answer arrives at once, and no
//! schedule is lost by that:
//!
//! - An owner that handles an answer late does what another could do that handles it at once and sends its next messages late.
//! - An owner that never gets it does what another could do that stops waiting before its request arrives. It may stop at any
//!   time, for any seat, without a reason.
//!
//! Messages delivered twice are left to the random runs.
//!
//! Copies that are equal from the start have the same votes and state, and no part in a replacement. States that differ only in
//! the names of such copies count as one: renaming them turns each schedule into another one.
//!
//! What cannot matter any more is taken out of a state, so that states which differ in nothing else are one. That is a request
//! that its seat refuses for ever and whose refusal its owner ignores ([`Explorer::is_dead`]). It is a record that is told to a seat
//! which has it. And it is what an owner remembers only for a seizure that it will not begin.

#![allow(clippy::disallowed_types)] // hash maps of millions of entries, looked up and never walked

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque},
    rc::Rc,
};

use cairn_owner::PartWrite;
use cairn_types::{ComponentId, OpId, Time};
use serde::Serialize;

use super::{
    BLOCKS, Canary, Held, Object, Place,
    canonical::{Renaming, encode},
    closed, component_of, epoch,
    ghost::Ghost,
    message::{Body, Msg},
    owner::{Event, Out, OwnerNode, Phase},
    rows::{Strip, absolute, decode},
    seat::{SeatNode, Seen},
    serving::Serving,
};

/// What is explored.
#[derive(Debug, Clone)]
pub struct Setup {
    /// The object at the start; owner 0 serves it.
    pub object: Object,
    /// What operations write of row 0, in turn: a column, or all; of a mirror they write blocks in turn.
    pub columns: &'static [Option<u32>],
    /// Seats that are nascent, for replacements.
    pub spare: &'static str,
    /// Operations that each owner may begin.
    pub writes: [u8; 2],
    /// Seizures that each owner may begin.
    pub seizes: [u8; 2],
    /// Owner 0 may replace the first by the second.
    pub replace: Option<(char, char)>,
    /// Absent components that may be asked back.
    pub rejoins: u8,
    /// Owner 0 dies with its operations on their way; it may seize anew then.
    pub dies: bool,
    /// Restarts of seats.
    pub restarts: u8,
    /// The careless variant.
    pub canary: Canary,
}

/// A part of the state, known by a number.
struct Arena<T> {
    numbers: HashMap<Vec<u8>, u32>,
    parts: Vec<T>,
    /// What each part is under each renaming.
    renamed: Vec<Vec<u128>>,
    namings: Rc<[Renaming]>,
}

impl<T: Serialize> Arena<T> {
    fn new(namings: &Rc<[Renaming]>) -> Self {
        Self { numbers: HashMap::new(), parts: Vec::new(), renamed: Vec::new(), namings: namings.clone() }
    }

    fn number(&mut self, part: T) -> u32 {
        let bytes = postcard::to_extend(&part, Vec::with_capacity(256)).expect("encodable");
        *self.numbers.entry(bytes).or_insert_with(|| {
            self.renamed.push(self.namings.iter().map(|names| fingerprint(&encode(&part, names))).collect());
            self.parts.push(part);
            (self.parts.len() - 1) as u32
        })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Budget {
    writes: [u8; 2],
    seizes: [u8; 2],
    replace: bool,
    rejoins: u8,
    restarts: u8,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct State {
    owners: [u32; 2],
    seats: Vec<u32>,
    ghost: u32,
    net: Vec<u32>,
    budget: Budget,
}

/// What an owner's step led to.
#[derive(Clone)]
struct OwnerStep {
    owner: u32,
    send: Vec<u32>,
    events: Vec<Event>,
}

/// What was found.
#[derive(Debug)]
pub struct Found {
    pub states: usize,
    pub steps: usize,
    /// How often an owner won, an operation was acknowledged, a seizure failed: a model that does nothing proves nothing.
    pub won: usize,
    pub acked: usize,
    pub failed: usize,
    /// Whether every state was visited.
    pub complete: bool,
    /// States that are left when the names of equal copies do not count.
    pub classes: usize,
    /// The first violation.
    pub wrong: Option<String>,
}

/// Explores.
pub struct Explorer {
    setup: Setup,
    letters: Vec<char>,
    namings: Rc<[Renaming]>,
    /// Whether states that differ in names only are visited each.
    every_name: bool,
    owners: Arena<OwnerNode>,
    seats: Arena<SeatNode>,
    msgs: Arena<Msg>,
    ghosts: Arena<Ghost>,
    owner_memo: HashMap<(u32, u32), OwnerStep>,
    ghost_memo: HashMap<(u32, u32), u32>,
    seat_memo: HashMap<(u32, u32), (u32, Option<u32>, bool)>,
    last_time_memo: HashMap<u32, u32>,
    found: Found,
}

impl Explorer {
    pub fn new(setup: Setup) -> Self {
        let letters = |s: &str| s.split_whitespace().map(|w| w.chars().next().expect("a word")).collect::<Vec<_>>();
        let all = [letters(setup.object.picture), letters(setup.spare)].concat();
        let namings: Rc<[Renaming]> = namings(&setup).into();
        Self {
            setup,
            letters: all,
            every_name: false,
            owners: Arena::new(&namings),
            seats: Arena::new(&namings),
            msgs: Arena::new(&namings),
            ghosts: Arena::new(&namings),
            namings,
            owner_memo: HashMap::new(),
            ghost_memo: HashMap::new(),
            seat_memo: HashMap::new(),
            last_time_memo: HashMap::new(),
            found: Found { states: 0, steps: 0, won: 0, acked: 0, failed: 0, complete: false, classes: 0, wrong: None },
        }
    }

    /// Visits states that differ in names only each, and counts how many are left without names.
    pub fn every_name(mut self) -> Self {
        self.every_name = true;
        self
    }

    /// Owner 0 has won with everyone present, and nothing is in the network.
    fn first(&mut self) -> State {
        let canary = self.setup.canary;
        let before = closed(epoch(1, 0), 1, self.setup.object.config());
        let members = before.config.seats().len();
        let mut seats: Vec<SeatNode> = Vec::new();
        for (n, letter) in self.letters.iter().enumerate() {
            seats.push(SeatNode::new(*letter, canary, (n < members).then(|| before.clone())));
        }
        let mut ghost = Ghost::new(&before);
        let mut owner = OwnerNode::new(0, canary, before.clone(), None);
        let mut out = Out::default();
        owner.start_seize(&mut out);
        let mut queue: VecDeque<Msg> = out.send.into();
        while let Some(msg) = queue.pop_front() {
            let seat = seats.iter_mut().find(|s| s.letter == msg.seat).expect("a seat");
            let (answer, seen) = seat.handle(0, &msg.body, Time(0));
            if let Some(Seen::Accepted(record)) = seen {
                ghost.on_accepted(msg.seat, &record).expect("nobody contends");
            }
            let mut out = Out::default();
            owner.handle(msg.seat, &answer.expect("answers"), Time(0), &mut out);
            queue.extend(out.send);
        }
        assert!(owner.serving().is_some(), "the first owner serves");
        let mut budget = Budget {
            writes: self.setup.writes,
            seizes: self.setup.seizes,
            replace: self.setup.replace.is_some(),
            rejoins: self.setup.rejoins,
            restarts: self.setup.restarts,
        };
        let mut out = Out::default();
        if self.setup.dies {
            for _ in 0..std::mem::take(&mut budget.writes[0]) {
                let place = self.next_place(owner.serving().expect("it serves"));
                owner.start_at(place, None, &mut out).expect("it is not locked");
            }
            owner.end(&mut out);
        }
        let mut net: Vec<u32> = out.send.into_iter().map(|m| self.msgs.number(m)).collect();
        net.sort_unstable();
        let other = OwnerNode::new(1, canary, owner.known.clone(), None);
        State {
            owners: [self.owners.number(owner), self.owners.number(other)],
            seats: seats.into_iter().map(|s| self.seats.number(s)).collect(),
            ghost: self.ghosts.number(ghost),
            net,
            budget,
        }
    }

    /// Explores up to `states_max` states. A violation ends it.
    pub fn run(mut self, states_max: usize) -> Found {
        let first = self.first();
        let mut classes: HashSet<u128> = HashSet::from([self.nameless(&first)]);
        let mut named: HashSet<u128> = HashSet::from([fingerprint(&first)]);
        let mut queue = VecDeque::from([first]);
        let mut next = Vec::new();
        while let Some(state) = queue.pop_front() {
            self.found.states += 1;
            self.successors(&state, &mut next);
            self.found.steps += next.len();
            if self.found.wrong.is_some() {
                return self.found;
            }
            for state in next.drain(..) {
                let is_new = classes.insert(self.nameless(&state));
                let visit = if self.every_name { named.insert(fingerprint(&state)) } else { is_new };
                if visit {
                    queue.push_back(state);
                }
            }
            self.found.classes = classes.len();
            if self.found.states >= states_max {
                return self.found;
            }
        }
        self.found.complete = true;
        self.found
    }

    /// What is the same for all states that differ in the names of equal copies only: the least of what they are under each
    /// renaming.
    fn nameless(&self, state: &State) -> u128 {
        let budget = fingerprint(&state.budget);
        let under = |naming: usize| {
            let names = &self.namings[naming];
            // A sum, as the order of messages does not count; what stands at a place is told from what stands elsewhere.
            let mut sum = budget.wrapping_add(self.ghosts.renamed[state.ghost as usize][naming]);
            let mut add = |place: usize, part: u128| sum = sum.wrapping_add(at_place(place, part));
            for (letter, seat) in self.letters.iter().zip(&state.seats) {
                let new = names.iter().find(|(old, _)| old == letter).map_or(*letter, |(_, new)| *new);
                let place = self.letters.iter().position(|l| *l == new).expect("a seat");
                add(3 + place, self.seats.renamed[*seat as usize][naming]);
            }
            state.owners.iter().enumerate().for_each(|(n, o)| add(1 + n, self.owners.renamed[*o as usize][naming]));
            state.net.iter().for_each(|msg| add(0, self.msgs.renamed[*msg as usize][naming]));
            sum
        };
        (0..self.namings.len()).map(under).min().expect("no renaming is one, too")
    }

    fn successors(&mut self, state: &State, next: &mut Vec<State>) {
        for msg in state.net.clone() {
            self.deliver(state, msg, next);
        }
        for owner in 0..2 {
            self.owner_acts(state, owner, next);
        }
        if state.budget.restarts > 0 {
            for place in 0..state.seats.len() {
                let mut seat = self.seats.parts[state.seats[place] as usize].clone();
                seat.restart(Time(0), std::time::Duration::ZERO);
                let mut after = state.clone();
                after.budget.restarts -= 1;
                after.seats[place] = self.seats.number(seat);
                self.push(state, after, next);
            }
        }
    }

    fn next_place(&self, serving: &Serving) -> Place {
        let seq = serving.state.last().seq;
        match serving.rows() {
            None => Place::block((seq + 1) % BLOCKS),
            Some(rows) => Place::of_row(rows, 0, self.setup.columns[seq as usize % self.setup.columns.len()]),
        }
    }

    fn deliver(&mut self, state: &State, msg: u32, next: &mut Vec<State>) {
        let letter = self.msgs.parts[msg as usize].seat;
        let place = self.letters.iter().position(|l| *l == letter).expect("a seat");
        let key = (state.seats[place], msg);
        let (seat, answer, accepted) = match self.seat_memo.get(&key) {
            Some(known) => *known,
            None => {
                let Msg { owner, body, .. } = self.msgs.parts[msg as usize].clone();
                let mut seat = self.seats.parts[key.0 as usize].clone();
                let (answer, seen) = seat.handle(owner, &body, Time(0));
                let answer = answer.map(|body| self.msgs.number(Msg { owner, seat: letter, body }));
                let done = (self.seats.number(seat), answer, seen.is_some());
                self.seat_memo.insert(key, done);
                done
            }
        };
        let mut after = state.without(msg);
        after.seats[place] = seat;
        if accepted {
            after.ghost = self.accepted(state.ghost, msg);
        }
        if let Some(answer) = answer {
            let owner = self.msgs.parts[msg as usize].owner;
            let step = self.answer_step(state.owners[owner], answer);
            if step.owner != state.owners[owner] {
                return self.apply(&after, owner, step, state.budget, next);
            }
        }
        self.push(state, after, next);
    }

    fn accepted(&mut self, ghost: u32, msg: u32) -> u32 {
        if let Some(known) = self.ghost_memo.get(&(ghost, msg)) {
            return *known;
        }
        let Msg { seat, body, .. } = &self.msgs.parts[msg as usize];
        let (Body::Accept(record) | Body::Tell(record)) = body else { panic!("only records are accepted") };
        let mut next = self.ghosts.parts[ghost as usize].clone();
        if let Err(wrong) = next.on_accepted(*seat, record) {
            self.found.wrong = Some(wrong);
        }
        let next = self.ghosts.number(next);
        self.ghost_memo.insert((ghost, msg), next);
        next
    }

    fn answer_step(&mut self, owner: u32, msg: u32) -> OwnerStep {
        if let Some(known) = self.owner_memo.get(&(owner, msg)) {
            return known.clone();
        }
        let Msg { seat, body, .. } = self.msgs.parts[msg as usize].clone();
        let step = self.owner_step(owner, |o, out| o.handle(seat, &body, Time(0), out));
        self.owner_memo.insert((owner, msg), step.clone());
        step
    }

    fn owner_step(&mut self, owner: u32, act: impl FnOnce(&mut OwnerNode, &mut Out)) -> OwnerStep {
        let mut node = self.owners.parts[owner as usize].clone();
        let mut out = Out::default();
        act(&mut node, &mut out);
        let send = out.send.into_iter().map(|m| self.msgs.number(m)).collect();
        OwnerStep { owner: self.owners.number(node), send, events: out.events }
    }

    fn owner_acts(&mut self, state: &State, owner: usize, next: &mut Vec<State>) {
        let number = state.owners[owner];
        let node = self.owners.parts[number as usize].clone();
        let budget = state.budget;
        let idle = matches!(node.phase, Phase::Idle | Phase::Ended);
        if idle && budget.seizes[owner] > 0 {
            let mut budget = budget;
            budget.seizes[owner] -= 1;
            let step = self.owner_step(number, |o, out| o.start_seize(out));
            self.apply(state, owner, step, budget, next);
        }
        for seat in node.waiting_for() {
            let step = self.owner_step(number, |o, out| o.on_unreachable(seat, out));
            self.apply(state, owner, step, budget, next);
        }
        let Some(serving) = node.serving() else {
            return;
        };
        if budget.writes[owner] > 0 {
            let mut budget = budget;
            budget.writes[owner] -= 1;
            let place = self.next_place(serving);
            // All of the row is read at once.
            let row = match serving.part_write(&place) {
                Some(PartWrite::Encode) if !serving.locked(&place.whole()) => {
                    let seats: Vec<&SeatNode> = state.seats.iter().map(|s| &self.seats.parts[*s as usize]).collect();
                    self.found.wrong = self.found.wrong.take().or(image(serving, &seats, place.row, None).err());
                    image(serving, &seats, place.row, None).ok().flatten()
                }
                _ => None,
            };
            let step = self.owner_step(number, |o, out| {
                o.start_at(place, row, out);
            });
            self.apply(state, owner, step, budget, next);
        }
        if let (0, true, Some((old, new))) = (owner, budget.replace, self.setup.replace) {
            let budget = Budget { replace: false, ..budget };
            let step = self.owner_step(number, |o, out| {
                o.start_coming(new, Some(old), out);
            });
            self.apply(state, owner, step, budget, next);
        }
        if budget.rejoins > 0 {
            for letter in self.letters.clone() {
                let budget = Budget { rejoins: budget.rejoins - 1, ..budget };
                let step = self.owner_step(number, |o, out| {
                    o.start_coming(letter, None, out);
                });
                self.apply(state, owner, step, budget, next);
            }
        }
        for letter in serving.filling.keys().copied().collect::<Vec<_>>() {
            self.fill(state, owner, letter, next);
        }
    }

    /// Copies everything to a component that is being filled, in one step; in another one, proposes that it is active.
    fn fill(&mut self, state: &State, owner: usize, letter: char, next: &mut Vec<State>) {
        let number = state.owners[owner];
        let mut node = self.owners.parts[number as usize].clone();
        let mut after = state.clone();
        let mut out = Out::default();
        if node.serving().is_some_and(|serving| serving.filling[&letter].barrier.is_some()) {
            if !node.start_activation(letter, &mut out) {
                return;
            }
        } else {
            if self.setup.canary != Canary::NoResync {
                let seats: Vec<&SeatNode> = state.seats.iter().map(|s| &self.seats.parts[*s as usize]).collect();
                let place = self.letters.iter().position(|l| *l == letter).expect("a seat");
                let target = match resync(&mut node, &seats, letter) {
                    Ok(Some(target)) => target,
                    Ok(None) => return,
                    Err(wrong) => return self.found.wrong = Some(wrong),
                };
                after.seats[place] = self.seats.number(target);
            }
            node.begin_barrier(letter);
        }
        let send = out.send.into_iter().map(|m| self.msgs.number(m)).collect();
        let step = OwnerStep { owner: self.owners.number(node), send, events: out.events };
        self.apply(&after, owner, step, state.budget, next);
    }

    fn apply(&mut self, state: &State, owner: usize, step: OwnerStep, budget: Budget, next: &mut Vec<State>) {
        let mut after = state.clone();
        after.budget = budget;
        after.owners[owner] = step.owner;
        after.send(step.send);
        for event in step.events {
            match event {
                Event::Acked(op, place) => {
                    self.found.acked += 1;
                    let mut ghost = self.ghosts.parts[after.ghost as usize].clone();
                    ghost.acked.insert(op, place);
                    after.ghost = self.ghosts.number(ghost);
                }
                Event::Won(epoch, config) => {
                    self.found.won += 1;
                    let ghost = &self.ghosts.parts[after.ghost as usize];
                    if let Err(wrong) = ghost.check_equal(epoch, &config, |l| self.seat(&after, l)) {
                        self.found.wrong = Some(wrong);
                    }
                }
                Event::Failed(_) => self.found.failed += 1,
            }
        }
        self.push(state, after, next);
    }

    fn seat(&self, state: &State, letter: char) -> &SeatNode {
        let place = self.letters.iter().position(|l| *l == letter).expect("a seat");
        &self.seats.parts[state.seats[place] as usize]
    }

    fn push(&mut self, before: &State, mut after: State, next: &mut Vec<State>) {
        self.without_what_cannot_matter(&mut after);
        // Only a step of an owner can be none: a delivery takes the message away.
        if *before == after {
            return;
        }
        let ghost = &self.ghosts.parts[after.ghost as usize];
        if let Err(wrong) = ghost.check_acked(|l| self.seat(&after, l)) {
            self.found.wrong = Some(wrong);
        }
        next.push(after);
    }
}

impl Explorer {
    fn without_what_cannot_matter(&mut self, state: &mut State) {
        for owner in 0..2 {
            if state.budget.seizes[owner] == 0 {
                let number = state.owners[owner];
                state.owners[owner] = match self.last_time_memo.get(&number) {
                    Some(known) => *known,
                    None => {
                        let mut node = self.owners.parts[number as usize].clone();
                        node.seizes_no_more();
                        let bare = self.owners.number(node);
                        self.last_time_memo.insert(number, bare);
                        bare
                    }
                };
            }
        }
        let mut net = std::mem::take(&mut state.net);
        net.retain(|msg| !self.is_dead(state, *msg));
        state.net = net;
    }

    /// Whether a request is refused for ever, by a promise or because its session is over, and its owner has gone on: it
    /// compares the epoch of every answer with its own.
    fn is_dead(&self, state: &State, msg: u32) -> bool {
        let Msg { owner, seat, body } = &self.msgs.parts[msg as usize];
        let node = &self.owners.parts[state.owners[*owner] as usize];
        let Some((epoch, session)) = body.epoch_and_session() else {
            return false;
        };
        let seat = self.seat(state, *seat);
        // It is not answered, and here no seat forgets what it accepted.
        if let Body::Tell(record) = body
            && seat.accepted() >= Some((record.epoch, record.csn))
        {
            return true;
        }
        if node.epoch() == Some(epoch) {
            return false;
        }
        let promised = seat.promised() > epoch && self.setup.canary != Canary::NoPromise;
        let strict = !matches!(self.setup.canary, Canary::NoPromise | Canary::NoSession);
        promised || strict && session.is_some_and(|session| seat.admitted != Some((epoch, session)))
    }
}

impl State {
    fn without(&self, msg: u32) -> Self {
        let mut after = self.clone();
        after.net.retain(|m| *m != msg);
        after
    }

    fn send(&mut self, msgs: impl IntoIterator<Item = u32>) {
        for msg in msgs {
            if let Err(place) = self.net.binary_search(&msg) {
                self.net.insert(place, msg);
            }
        }
    }
}

/// The renamings of copies that are equal from the start, the one that renames nothing first.
fn namings(setup: &Setup) -> Vec<Renaming> {
    let moves = |letter: char| setup.replace.is_some_and(|(old, new)| letter == old || letter == new);
    let data = |word: &&str| word.starts_with(|l: char| l.is_uppercase() && !moves(l));
    if setup.object.rows.is_some() {
        // Each member has strips of its own.
        return vec![Renaming::new()];
    }
    let words: Vec<&str> = setup.object.picture.split_whitespace().filter(data).collect();
    let equal = words.iter().filter(|word| word[1..] == words[0][1..]);
    let letters: Vec<char> = equal.map(|word| word.chars().next().expect("a word")).collect();
    let mut orders: Vec<Vec<char>> = vec![Vec::new()];
    for _ in &letters {
        let longer = |order: &Vec<char>| {
            let rest: Vec<char> = letters.iter().copied().filter(|letter| !order.contains(letter)).collect();
            rest.into_iter().map(|letter| [order.as_slice(), &[letter]].concat()).collect::<Vec<_>>()
        };
        orders = orders.iter().flat_map(longer).collect();
    }
    orders.into_iter().map(|order| letters.iter().copied().zip(order).collect()).collect()
}

/// Tells equal parts at different places apart: a hash of both.
fn at_place(place: usize, part: u128) -> u128 {
    const ODD: u128 = 0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835;
    let mixed = (part ^ (place as u128).wrapping_mul(ODD)).wrapping_mul(ODD);
    (mixed ^ (mixed >> 64)).wrapping_mul(ODD)
}

/// Two hashes of 64 bits with different seeds: a collision among some million states is as good as impossible.
fn fingerprint(state: &impl std::hash::Hash) -> u128 {
    use std::hash::{DefaultHasher, Hasher};
    let mut one = DefaultHasher::new();
    state.hash(&mut one);
    let mut two = DefaultHasher::new();
    std::hash::Hash::hash(&0x9e37_79b9_u32, &mut two);
    state.hash(&mut two);
    u128::from(one.finish()) << 64 | u128::from(two.finish())
}

/// The members that are in sync, or are being filled, and answer in the session that they were admitted in.
fn usable<'a>(serving: &Serving, seats: &[&'a SeatNode], component: ComponentId) -> Option<&'a SeatNode> {
    let seat = seats.iter().find(|s| component_of(s.letter) == component).copied().expect("a seat");
    let link = serving.state.link_of(component)?;
    (seat.admitted == Some((serving.state.epoch(), link.target.session))).then_some(seat)
}

/// What one member holds of a row; none: it does not answer.
pub fn strip(serving: &Serving, seats: &[&SeatNode], row: u64, index: u32) -> Option<Strip> {
    let readable = serving.state.readable(0);
    let leg = readable.iter().find(|leg| leg.link.copy == index);
    let seat = leg.and_then(|leg| usable(serving, seats, leg.component));
    seat.map(|seat| seat.component.strip(serving.rows().expect("it has rows"), row, index, None))
}

/// A row by all members that answer but one; none: too few do.
///
/// # Errors
/// They disagree.
pub fn image(
    serving: &Serving,
    seats: &[&SeatNode],
    row: u64,
    without: Option<u32>,
) -> Result<Option<Vec<OpId>>, String> {
    let rows = serving.rows().expect("it has rows");
    let mut strips = BTreeMap::new();
    for index in (0..rows.members()).filter(|index| Some(*index) != without) {
        strips.extend(strip(serving, seats, row, index).map(|strip| (index, strip)));
    }
    let enough = strips.len() >= rows.data() as usize;
    enough.then(|| decode(rows, row, &strips)).transpose()
}

/// The target after a copy of what `node`, the owner, finds stale on it; none: not possible now.
///
/// # Errors
/// A row's members disagree.
pub fn resync(node: &mut OwnerNode, seats: &[&SeatNode], letter: char) -> Result<Option<SeatNode>, String> {
    let canary = node.canary;
    let Phase::Serving(serving) = &mut node.phase else {
        return Ok(None);
    };
    let Some(mut filled) = Target::of(serving, seats, letter) else {
        return Ok(None);
    };
    if let Some(rows) = serving.rows() {
        for row in &filled.stale {
            let Some(mut columns) = image(serving, seats, *row, None)? else { return Ok(None) };
            if canary == Canary::ColumnTakenForCopy {
                columns.rotate_left(1);
            }
            // A copy is an operation of its own: what was begun before is below it.
            let place = Place { row: *row, column: None, members: 1 << filled.index };
            let (op, _, _) = serving.state.begin(0, place.members);
            serving.state.end(op);
            let piece = absolute(rows, *row, filled.index, &columns);
            let sources = filled.sources.iter().map(|s| &s.component);
            filled.seat.copy_row(op, Held { place, piece, copied: true }, sources);
        }
    } else {
        let Some(source) = filled.sources.first() else { return Ok(None) };
        filled.stale.iter().for_each(|block| filled.seat.copy(*block, &source.component));
    }
    if let Some(filling) = serving.filling.get_mut(&letter) {
        filling.filled = true;
    }
    Ok(Some(filled.seat))
}

/// A member that is to be filled, and from what.
struct Target<'a> {
    seat: SeatNode,
    index: u32,
    sources: Vec<&'a SeatNode>,
    /// Blocks, or rows.
    stale: BTreeSet<u64>,
}

impl<'a> Target<'a> {
    /// None: not possible now.
    fn of(serving: &Serving, seats: &[&'a SeatNode], letter: char) -> Option<Self> {
        let (state, filling) = (&serving.state, serving.filling.get(&letter)?);
        let (set, stale_since) = state.being_filled(component_of(letter), filling.session)?;
        // What was begun before it took writes is in nobody's table for certain until it is decided.
        if !state.is_settled(filling.begun) {
            return None;
        }
        let seat = usable(serving, seats, component_of(letter))?.clone();
        let legs = state.readable(set);
        let sources: Option<Vec<&SeatNode>> = legs.iter().map(|leg| usable(serving, seats, leg.component)).collect();
        let sources = sources?;
        let mut stale: BTreeSet<u64> = BTreeSet::new();
        for touched in sources.iter().map(|s| &s.component.touched).chain([&seat.component.touched]) {
            stale.extend(touched.iter().filter(|(_, op)| **op > stale_since).map(|(block, _)| *block));
        }
        // A copy runs under the lock of the block, or of the row.
        if stale.iter().any(|block| serving.locked(&Place::block(*block))) {
            return None;
        }
        let index = state.link_of(component_of(letter))?.copy;
        Some(Self { seat, index, sources, stale })
    }
}
