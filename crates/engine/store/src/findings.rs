//! What a scrub has found, and how far it is: plain data.
//!
//! Promises    a block that was found bad is listed until it reads right, or its component goes; each is counted once as found,
//!             and once as what became of it
//!             a block that copies differ in, where nothing tells which is right, is listed until it is changed or compared again
//!             what is durable of it is one row, of some 20 bytes for each stretch of bad blocks
//! Memory      40 bytes a bad block, of [`LISTED_MAX`] at most; more are counted, and the next pass finds them again
//! Not here    reading and comparing (`scrub.rs`)

use std::collections::{BTreeMap, BTreeSet};

use cairn_format::rows::{BadRange, ScrubRow};
use cairn_types::{BlockRange, ComponentId};

/// Bad blocks that are listed, at most: 64 MiB of a disk group. A device with more is to be replaced, and says so long before.
const LISTED_MAX: usize = 16_384;

/// How far the scrub of a disk group is, and what it has found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ScrubState {
    /// The pass that is under way, or was the last; 0: there was none.
    pub pass: u64,
    /// It is under way.
    pub is_running: bool,
    /// Somebody asked for it: it goes as fast as guests allow.
    pub at_once: bool,
    /// It goes on when somebody says so.
    pub is_paused: bool,
    /// When it began, in ms since 1970.
    pub begun_unix_ms: u64,
    /// When the last pass that came to its end did, in ms since 1970; 0: none did.
    pub ended_unix_ms: u64,
    /// Blocks that the pass has compared.
    pub compared_blocks: u64,
    /// Blocks that there are to compare now.
    pub total_blocks: u64,
    /// Blocks that were found bad, of all passes.
    pub found_blocks: u64,
    /// Of these, blocks that are whole again.
    pub repaired_blocks: u64,
    /// Of these, blocks whose component was deleted, or lost as a whole.
    pub gone_blocks: u64,
    /// Of these, blocks that are bad now.
    pub bad_blocks: u64,
    /// Of those, blocks that no other copy has, as their owner said.
    pub no_copy_blocks: u64,
    /// Of those that are bad and listed, blocks whose owner is to be asked.
    pub awaiting_blocks: u64,
    /// Blocks that other copies hold otherwise, each sound by itself, without anything that tells which is right.
    pub undecided_blocks: u64,
}

/// The same in memory.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    row: ScrubRow,
    /// Whether no other copy has the block.
    bad: BTreeMap<(ComponentId, u64), bool>,
    /// Blocks that other copies hold otherwise: until they are changed, or compared again. Not in the row: their owner tells of them anew
    /// with its next pass.
    undecided: BTreeSet<(ComponentId, u64)>,
    /// Blocks that found no place in the list in this pass.
    unlisted: u64,
    /// The row on the device says something else.
    is_dirty: bool,
}

impl Findings {
    /// Takes the row from the metadata.
    pub fn load(&mut self, mut row: ScrubRow) {
        let listed = std::mem::take(&mut row.bad);
        for (component, ranges) in listed {
            for BadRange { range, no_copy } in ranges {
                // Whatever a made-up row says of ends and lengths.
                let room = LISTED_MAX.saturating_sub(self.bad.len());
                let end = range.first.saturating_add(u64::from(range.count).min(room as u64));
                self.bad.extend((range.first..end).map(|block| ((component, block), no_copy)));
            }
        }
        self.row = row;
    }

    /// The row, where it is another than the one on the device.
    pub fn take_row(&mut self) -> Option<ScrubRow> {
        if !std::mem::take(&mut self.is_dirty) {
            return None;
        }
        let mut bad: Vec<(ComponentId, Vec<BadRange>)> = Vec::new();
        for (component, found) in self.ranges() {
            match bad.last_mut().filter(|(last, _)| *last == component) {
                Some((_, ranges)) => ranges.push(found),
                None => bad.push((component, vec![found])),
            }
        }
        Some(ScrubRow { form: ScrubRow::FORM, bad, ..self.row.clone() })
    }

    /// Whether the row on the device says something else.
    pub fn is_dirty(&self) -> bool {
        self.is_dirty
    }

    /// How it stands; what there is to compare is for others to say.
    pub fn state(&self) -> ScrubState {
        let row = &self.row;
        let no_copy_blocks = self.bad.values().filter(|no_copy| **no_copy).count() as u64;
        ScrubState {
            pass: row.pass,
            is_running: row.is_running,
            at_once: row.at_once,
            is_paused: row.is_paused,
            begun_unix_ms: row.begun_unix_ms,
            ended_unix_ms: row.ended_unix_ms,
            compared_blocks: row.compared_blocks,
            total_blocks: 0,
            found_blocks: row.found_blocks,
            repaired_blocks: row.repaired_blocks,
            gone_blocks: row.gone_blocks,
            bad_blocks: self.bad.len() as u64 + self.unlisted,
            no_copy_blocks,
            awaiting_blocks: self.bad.len() as u64 - no_copy_blocks,
            undecided_blocks: self.undecided.len() as u64,
        }
    }

    /// A pass begins, or the one that is under way goes on `at_once`.
    pub fn begin(&mut self, at_once: bool, unix_ms: u64) {
        self.is_dirty = true;
        self.row.at_once |= at_once;
        self.row.is_paused = false;
        if self.row.is_running {
            return;
        }
        // They are found again, and counted then.
        self.row.found_blocks -= std::mem::take(&mut self.unlisted);
        // A copy that was away may be back.
        self.bad.values_mut().for_each(|no_copy| *no_copy = false);
        let next = (ComponentId(0), 0);
        let row = &mut self.row;
        (row.pass, row.is_running, row.begun_unix_ms, row.next) = (row.pass + 1, true, unix_ms, next);
        (row.at_once, row.compared_blocks) = (at_once, 0);
    }

    /// The pass rests, or goes on.
    pub fn pause(&mut self, pauses: bool) {
        self.is_dirty |= self.row.is_paused != pauses;
        self.row.is_paused = pauses;
    }

    /// Where it goes on.
    pub fn next(&self) -> (ComponentId, u64) {
        self.row.next
    }

    /// Everything before `next` is done.
    pub fn came_to(&mut self, next: (ComponentId, u64)) {
        self.is_dirty |= self.row.next != next;
        self.row.next = next;
    }

    /// So many blocks were compared.
    pub fn compared(&mut self, blocks: u64) {
        self.is_dirty |= blocks > 0;
        self.row.compared_blocks += blocks;
    }

    /// The pass came to its end.
    pub fn end(&mut self, unix_ms: u64) {
        (self.row.is_running, self.row.at_once, self.row.ended_unix_ms) = (false, false, unix_ms);
        self.is_dirty = true;
    }

    /// A block is bad. False where that was known.
    pub fn found(&mut self, component: ComponentId, block: u64) -> bool {
        if self.bad.contains_key(&(component, block)) {
            return false;
        }
        self.is_dirty = true;
        self.row.found_blocks += 1;
        if self.bad.len() < LISTED_MAX {
            self.bad.insert((component, block), false);
        } else {
            self.unlisted += 1;
        }
        true
    }

    /// Blocks of a component were changed: into marks, or into something that is to be read before it is believed.
    pub fn changed(&mut self, component: ComponentId, range: BlockRange, into_marks: bool) {
        self.compares(component, range);
        if into_marks {
            return self.marked(component, range);
        }
        if self.bad.is_empty() {
            return;
        }
        for (_, no_copy) in self.bad.range_mut((component, range.first)..(component, range.end())) {
            self.is_dirty |= *no_copy;
            *no_copy = false;
        }
    }

    /// These are compared with other copies anew.
    pub fn compares(&mut self, component: ComponentId, range: BlockRange) {
        // Each write comes here: what it costs is the blocks that are listed, as a rule none.
        let (from, to) = ((component, range.first), (component, range.end()));
        while let Some(&known) = self.undecided.range(from..to).next() {
            self.undecided.remove(&known);
        }
    }

    /// What came of it: blocks of which the component held an earlier state than others, and was repaired; and blocks that differ, where
    /// nothing tells which is right.
    pub fn differed(&mut self, component: ComponentId, repaired: &[BlockRange], undecided: &[BlockRange]) {
        for block in repaired.iter().flat_map(|range| range.first..range.end()) {
            // What is listed as bad is counted when it is read again.
            if !self.bad.contains_key(&(component, block)) {
                self.is_dirty = true;
                self.row.found_blocks += 1;
                self.row.repaired_blocks += 1;
            }
        }
        for block in undecided.iter().flat_map(|range| range.first..range.end()) {
            if self.undecided.len() < LISTED_MAX {
                self.undecided.insert((component, block));
            }
        }
    }

    /// Stretches of blocks that nothing decides, ascending.
    pub fn undecided(&self) -> Vec<(ComponentId, BlockRange)> {
        let mut all: Vec<(ComponentId, BlockRange)> = Vec::new();
        for &(component, block) in &self.undecided {
            match all.last_mut() {
                Some((of, range)) if *of == component && range.end() == block => range.count += 1,
                _ => all.push((component, BlockRange::new(block, 1))),
            }
        }
        all
    }

    /// The owner asked every copy in sync for these: none has them.
    pub fn marked(&mut self, component: ComponentId, range: BlockRange) {
        for block in range.first..range.end() {
            self.found(component, block);
        }
        self.no_copy(component, range);
    }

    /// Its owner found no other copy that has these.
    pub fn no_copy(&mut self, component: ComponentId, range: BlockRange) {
        for (_, no_copy) in self.bad.range_mut((component, range.first)..(component, range.end())) {
            self.is_dirty |= !*no_copy;
            *no_copy = true;
        }
    }

    /// A block that was bad reads right. False where nobody knew that it was bad.
    pub fn whole(&mut self, component: ComponentId, block: u64) -> bool {
        let known = self.bad.remove(&(component, block)).is_some();
        self.is_dirty |= known;
        self.row.repaired_blocks += u64::from(known);
        known
    }

    /// The component is not here any more, or lost as a whole.
    pub fn gone(&mut self, component: ComponentId) {
        let before = self.bad.len();
        self.bad.retain(|(of, _), _| *of != component);
        self.undecided.retain(|(of, _)| *of != component);
        let went = (before - self.bad.len()) as u64;
        self.is_dirty |= went > 0;
        self.row.gone_blocks += went;
    }

    /// Whether anything of the component is bad that no owner has tried to repair in vain.
    pub fn waits(&self, component: ComponentId) -> bool {
        self.bad.range((component, 0)..=(component, u64::MAX)).any(|(_, no_copy)| !no_copy)
    }

    /// Stretches of bad blocks, ascending.
    pub fn ranges(&self) -> Vec<(ComponentId, BadRange)> {
        let mut all: Vec<(ComponentId, BadRange)> = Vec::new();
        for (&(component, block), &no_copy) in &self.bad {
            match all.last_mut() {
                Some((of, BadRange { range, no_copy: last }))
                    if *of == component && *last == no_copy && range.end() == block =>
                {
                    range.count += 1;
                }
                _ => all.push((component, BadRange { range: BlockRange::new(block, 1), no_copy })),
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: ComponentId = ComponentId(1);
    const B: ComponentId = ComponentId(2);

    /// Goal: nothing that was found is lost or counted twice. Method: blocks are found, repaired, tried in vain and deleted; the row is
    /// written and read between any two steps.
    #[test]
    fn what_is_found_is_found_repaired_gone_or_bad() {
        let mut findings = Findings::default();
        let over = |findings: &mut Findings| {
            if let Some(row) = findings.take_row() {
                let bytes = cairn_format::rows::encode(&row);
                let mut again = Findings::default();
                again.load(ScrubRow::decode(&bytes).expect("what was written"));
                assert_eq!((again.state(), again.ranges()), (findings.state(), findings.ranges()));
                *findings = again;
            }
            let state = findings.state();
            assert_eq!(state.found_blocks, state.repaired_blocks + state.gone_blocks + state.bad_blocks);
        };
        findings.begin(false, 5);
        for block in [3, 4, 5, 9] {
            assert!(findings.found(A, block) && !findings.found(A, block));
            over(&mut findings);
        }
        assert!(findings.found(B, 4));
        findings.no_copy(A, BlockRange::new(4, 2));
        over(&mut findings);
        let of_a = [(3, 1, false), (4, 2, true), (9, 1, false)];
        let listed: Vec<_> = findings.ranges().into_iter().filter(|(of, _)| *of == A).collect();
        let found = |(first, count, no_copy)| (A, BadRange { range: BlockRange::new(first, count), no_copy });
        assert_eq!(listed, of_a.map(found));
        assert!(findings.whole(A, 3) && !findings.whole(A, 3));
        findings.gone(B);
        over(&mut findings);
        assert!(findings.waits(A) && !findings.waits(B));
        assert!(findings.whole(A, 9));
        assert!(!findings.waits(A), "the owner has tried the rest");
        findings.end(9);
        findings.begin(true, 10);
        over(&mut findings);
        assert!(findings.waits(A), "a new pass tries again");
        let state = findings.state();
        assert_eq!((state.pass, state.found_blocks, state.repaired_blocks, state.gone_blocks), (2, 5, 2, 1));
    }

    /// Goal: what copies differ in is counted or listed, and nobody lists it longer than it is so. Method: an owner tells of both kinds;
    /// then blocks are written, compared again, and deleted.
    #[test]
    fn what_copies_differ_in_is_counted_or_listed() {
        let mut findings = Findings::default();
        findings.differed(A, &[BlockRange::new(3, 2)], &[BlockRange::new(10, 3), BlockRange::new(20, 1)]);
        findings.differed(B, &[], &[BlockRange::new(10, 1)]);
        let state = findings.state();
        assert_eq!((state.found_blocks, state.repaired_blocks, state.bad_blocks, state.undecided_blocks), (2, 2, 0, 5));
        findings.changed(A, BlockRange::new(11, 1), false);
        let listed = [(A, BlockRange::new(10, 1)), (A, BlockRange::new(12, 1)), (A, BlockRange::new(20, 1))];
        assert_eq!(findings.undecided()[..3], listed);
        findings.compares(A, BlockRange::new(0, 20));
        assert_eq!(findings.undecided(), [listed[2], (B, BlockRange::new(10, 1))]);
        findings.gone(A);
        assert_eq!(findings.undecided(), [(B, BlockRange::new(10, 1))]);
        assert!(!findings.waits(B), "no owner can repair that");
    }

    #[test]
    fn more_than_a_list_holds_is_counted() {
        let mut findings = Findings::default();
        findings.begin(false, 1);
        (0..LISTED_MAX as u64 + 10).for_each(|block| assert!(findings.found(A, block)));
        assert_eq!(findings.state().bad_blocks, LISTED_MAX as u64 + 10);
        let row = findings.take_row().expect("it changed");
        assert_eq!(row.bad.len(), 1);
        findings.end(2);
        findings.begin(false, 3);
        assert_eq!((findings.state().found_blocks, findings.state().bad_blocks), (16_384, 16_384));
    }

    #[test]
    fn a_row_of_another_form_is_passed_by() {
        let row = ScrubRow { form: ScrubRow::FORM, pass: 3, ..ScrubRow::default() };
        let mut bytes = cairn_format::rows::encode(&row);
        assert_eq!(ScrubRow::decode(&bytes), Some(row));
        bytes[0] = 2;
        assert_eq!(ScrubRow::decode(&bytes), None);
        assert_eq!(ScrubRow::decode(&[]), None);
    }
}
