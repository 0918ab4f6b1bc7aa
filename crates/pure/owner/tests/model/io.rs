//! Reads and writes of the random runs: which one is drawn, and what an owner reads to carry it out.

use std::collections::BTreeMap;

use cairn_geometry::RowRole;
use cairn_owner::{Leg, PartWrite};
use cairn_types::OpId;

use super::{
    BLOCKS, Canary, Place,
    explore::{image, strip},
    letter_of_component,
    owner::Phase,
    rows::decode,
    seat::SeatNode,
    serving::{Encode, Serving},
    world::{Block, Fetched, World},
};

impl World {
    /// Begins a write, or to read the row that its parity is made of.
    pub(super) fn write(&mut self, owner: usize) -> Result<(), String> {
        let Some(rows) = self.owners[owner].serving().and_then(Serving::rows) else {
            return self.act(owner, |o, out| {
                o.start_write(out);
            });
        };
        let row = self.rng.next() % BLOCKS;
        let column = self.rng.below(rows.data() as usize + 1) as u32;
        let place = Place::of_row(rows, row, (column < rows.data()).then_some(column));
        let canary = self.canary;
        if let Phase::Serving(serving) = &mut self.owners[owner].phase
            && serving.part_write(&place) == Some(PartWrite::Encode)
        {
            let lock = if canary == Canary::RowNotLocked { place } else { place.whole() };
            if !serving.locked(&lock) {
                serving.encodes.insert(row, Encode { place, strips: BTreeMap::new() });
            }
            return Ok(());
        }
        self.act(owner, |o, out| {
            o.start_at(place, None, out);
        })
    }

    /// Reads one more member of a row that is made anew, or writes it when enough are read.
    pub(super) fn encode(&mut self, owner: usize) -> Result<(), String> {
        let Some(serving) = self.owners[owner].serving() else {
            return Ok(());
        };
        let (rows, known) = (serving.rows().expect("it has rows"), serving.encodes.keys().copied().collect::<Vec<_>>());
        let row = self.rng.pick(&known).expect("there is one");
        let Encode { place, mut strips } = serving.encodes[&row].clone();
        let copies = serving.state.readable_copies(0);
        let left: Vec<u32> = copies.into_iter().filter(|index| !strips.contains_key(index)).collect();
        let index = self.rng.pick(&left);
        let reached = |s: &&SeatNode| !self.cut.contains(&(owner, s.letter));
        let seats: Vec<&SeatNode> = self.seats.iter().collect();
        let leg = serving.state.readable(0).into_iter().find(|leg| Some(leg.link.copy) == index);
        let is_reached = leg.is_some_and(|leg| reached(&self.seat(letter_of_component(leg.component))));
        if let Some(index) = index.filter(|_| is_reached)
            && let Some(read) = strip(serving, &seats, row, index)
        {
            strips.insert(index, read);
        }
        let enough = strips.len() >= rows.data() as usize && self.rng.one_in(2);
        let stops = self.rng.one_in(8);
        let Phase::Serving(serving) = &mut self.owners[owner].phase else { unreachable!("it serves") };
        if !enough {
            match stops {
                true => drop(serving.encodes.remove(&row)),
                false => serving.encodes.get_mut(&row).expect("it is there").strips = strips,
            }
            return Ok(());
        }
        serving.encodes.remove(&row);
        let columns = decode(rows, row, &strips)?;
        self.counts.encoded += 1;
        self.say(|| format!("owner {owner} makes parity of row {row} from {columns:?}"));
        self.act(owner, |o, out| {
            o.start_at(place, Some(columns), out);
        })
    }

    pub(super) fn fetch(&mut self, owner: usize) -> Result<(), String> {
        let row = self.rng.next() % BLOCKS;
        let Some(serving) = self.owners[owner].serving() else {
            return Ok(());
        };
        let Some(rows) = serving.rows() else {
            let legs = serving.state.readable(0);
            return self.fetch_from(owner, (row, 0), &legs, Place::block(row));
        };
        let column = self.rng.below(rows.data() as usize) as u32;
        let place = Place::of_row(rows, row, Some(column));
        let data = rows.member(row, RowRole::Column(column));
        let legs: Vec<Leg> = serving.state.readable(0).into_iter().filter(|leg| leg.link.copy == data).collect();
        if !legs.is_empty() && !self.rng.one_in(3) {
            return self.fetch_from(owner, (row, column), &legs, place);
        }
        if serving.locked(&place.whole()) {
            return Ok(());
        }
        let here = self.seats.iter().filter(|s| !self.cut.contains(&(owner, s.letter)));
        let answers = serving.state.readable(0).iter().all(|leg| {
            let letter = letter_of_component(leg.component);
            leg.link.copy == data || here.clone().any(|s| s.letter == letter)
        });
        let seats: Vec<&SeatNode> = self.seats.iter().collect();
        let Some(columns) = image(serving, &seats, row, Some(data))?.filter(|_| answers) else {
            return Ok(());
        };
        let (epoch, value) = (serving.state.epoch(), columns[column as usize]);
        self.counts.degraded += 1;
        self.fetched(owner, epoch, (row, column), value, "the others");
        Ok(())
    }

    /// Reads one of these members.
    fn fetch_from(&mut self, owner: usize, block: Block, legs: &[Leg], place: Place) -> Result<(), String> {
        let Some(serving) = self.owners[owner].serving() else {
            return Ok(());
        };
        let (Some(leg), false) = (self.rng.pick(legs), serving.locked(&place)) else {
            return Ok(());
        };
        let (epoch, letter) = (serving.state.epoch(), letter_of_component(leg.component));
        let seat = &self.seats[self.place(letter)];
        let admitted = seat.admitted == Some((epoch, leg.link.target.session));
        if !admitted || self.cut.contains(&(owner, letter)) {
            return Ok(());
        }
        let value = seat.read(block.0);
        self.fetched(owner, epoch, block, value, &letter.to_string());
        Ok(())
    }

    fn fetched(&mut self, owner: usize, epoch: cairn_types::Epoch, block: Block, value: OpId, from: &str) {
        let at = |m: &BTreeMap<Block, OpId>| m.get(&block).copied().unwrap_or(OpId::ZERO);
        let floor = at(&self.shown).max(at(&self.acked));
        self.say(|| format!("owner {owner} reads {value:?} of {block:?} from {from}"));
        self.fetched.push(Fetched { owner, epoch, block, value, floor });
    }
}
