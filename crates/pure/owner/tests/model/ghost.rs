//! What nobody in the cluster knows, and what must be true of it.

use std::collections::{BTreeMap, BTreeSet};

use cairn_geometry::Rows;
use cairn_types::{Accepted, Csn, Epoch, ObjectConfig, OpId};
use cairn_votes::has_majority_by;
use serde::Serialize;

use super::{
    BLOCKS, Place, letter_of, picture_of,
    rows::{Strip, decode, rows_of},
    seat::SeatNode,
};

/// A record and who ever accepted it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Proposed {
    record: Accepted,
    by: BTreeSet<char>,
    effective: bool,
}

/// The history of the register and of acknowledgements.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Default)]
pub struct Ghost {
    proposed: BTreeMap<(Epoch, Csn), Proposed>,
    pub acked: BTreeMap<OpId, Place>,
}

impl Ghost {
    /// The history begins with `record`, accepted by all.
    pub fn new(record: &Accepted) -> Self {
        let by = record.config.members.iter().map(|m| letter_of(m.seat())).collect();
        let first = Proposed { record: record.clone(), by, effective: true };
        Self { proposed: BTreeMap::from([((record.epoch, record.csn), first)]), acked: BTreeMap::new() }
    }

    /// A seat accepted a record. I2: one record per number, and effective ones form a chain.
    pub fn on_accepted(&mut self, seat: char, record: &Accepted) -> Result<(), String> {
        let key = (record.epoch, record.csn);
        let fresh = || Proposed { record: record.clone(), by: BTreeSet::new(), effective: false };
        let proposed = self.proposed.entry(key).or_insert_with(fresh);
        if proposed.record != *record {
            return Err(format!("two records of number {key:?}"));
        }
        proposed.by.insert(seat);
        if !proposed.effective && proposed.decided() {
            proposed.effective = true;
        }
        self.chain()
    }

    /// Power cut short what the seat wrote last: it has the record `left`, and nobody has heard that it accepted `torn`.
    pub fn on_torn(&mut self, seat: char, torn: Option<(Epoch, Csn)>, left: Option<(Epoch, Csn)>) {
        for (_, proposed) in self.proposed.iter_mut().filter(|(key, _)| Some(**key) > left && Some(**key) <= torn) {
            proposed.by.remove(&seat);
            proposed.effective &= proposed.decided();
        }
    }

    fn chain(&self) -> Result<(), String> {
        let mut before: Option<&Proposed> = None;
        for next in self.proposed.values().filter(|p| p.effective) {
            if let Some(before) = before
                && !next.accepted_by_majority_of(&before.record.config)
            {
                let (a, b) = (picture_of(&before.record.config), picture_of(&next.record.config));
                return Err(format!("I2: {b} follows {a} without its majority ({:?})", next.by));
            }
            before = Some(next);
        }
        Ok(())
    }

    /// The last effective configuration.
    pub fn effective(&self) -> &ObjectConfig {
        let last = self.proposed.values().rev().find(|p| p.effective);
        &last.expect("the history begins with one").record.config
    }

    /// I3 and I4: every active component of the effective configuration holds every acknowledged operation.
    pub fn check_acked<'a>(&self, seat: impl Fn(char) -> &'a SeatNode) -> Result<(), String> {
        for member in &self.effective().members {
            let (Some(index), true) = (member.copy(), member.state.in_sync()) else { continue };
            let seat = seat(letter_of(member.seat()));
            // A fault of its own: settling and reading must do without it.
            if seat.component.damaged || seat.component.young {
                continue;
            }
            let lacks = |(op, place): &(&OpId, &Place)| place.concerns(index) && !seat.component.holds(**op, place);
            if let Some((op, _)) = self.acked.iter().find(lacks) {
                return Err(format!(
                    "I3: acknowledged {op:?} is not on {} of {}",
                    seat.letter,
                    picture_of(self.effective())
                ));
            }
        }
        Ok(())
    }

    /// I5: when an owner has won, active components hold the same of all older epochs; every row comes to the same from any k of them.
    pub fn check_equal<'a>(
        &self,
        epoch: Epoch,
        config: &ObjectConfig,
        seat: impl Fn(char) -> &'a SeatNode,
    ) -> Result<(), String> {
        if let Some(rows) = rows_of(config) {
            return (0..BLOCKS).try_for_each(|row| self.check_row(epoch, config, &seat, (rows, row)));
        }
        let active = config.members.iter().filter(|m| m.set().is_some() && m.state.in_sync());
        let active = active.filter(|m| !seat(letter_of(m.seat())).component.damaged);
        let older = |l: char| seat(l).component.ops.keys().filter(|op| op.epoch < epoch).copied().collect::<Vec<_>>();
        let held: Vec<(char, Vec<OpId>)> = active.map(|m| letter_of(m.seat())).map(|l| (l, older(l))).collect();
        match held.windows(2).find(|pair| pair[0].1 != pair[1].1) {
            Some(pair) => Err(format!("I5: after settling {:?} and {:?} differ", pair[0], pair[1])),
            None => Ok(()),
        }
    }

    /// I5' of one row: any k members in sync give the same, and that is not older than what was acknowledged.
    fn check_row<'a>(
        &self,
        epoch: Epoch,
        config: &ObjectConfig,
        seat: &impl Fn(char) -> &'a SeatNode,
        (rows, row): (Rows, u64),
    ) -> Result<(), String> {
        let mut strips: Vec<(u32, Strip)> = Vec::new();
        let below = Some(OpId { epoch, seq: 0 });
        for member in config.members.iter().filter(|m| m.state.in_sync()) {
            let (Some(index), seat) = (member.copy(), seat(letter_of(member.seat()))) else { continue };
            if !seat.component.damaged && !seat.component.young {
                strips.push((index, seat.component.strip(rows, row, index, below)));
            }
        }
        let mut found: Option<Vec<OpId>> = None;
        for mask in 0..1u32 << strips.len() {
            if mask.count_ones() != rows.data() {
                continue;
            }
            let some = strips.iter().enumerate().filter(|(n, _)| mask >> n & 1 == 1).map(|(_, strip)| strip.clone());
            let columns = decode(rows, row, &some.collect()).map_err(|wrong| format!("I5': {wrong}"))?;
            if found.as_ref().is_some_and(|found| *found != columns) {
                return Err(format!("I5': row {row} is {found:?} or {columns:?} of {strips:?}"));
            }
            found = Some(columns);
        }
        let Some(columns) = found else { return Ok(()) };
        for (column, op) in (0..).zip(&columns) {
            let wrote = |(_, place): &(&OpId, &Place)| place.row == row && place.column.is_none_or(|c| c == column);
            if let Some((acked, _)) = self.acked.iter().rev().filter(|(op, _)| op.epoch < epoch).find(wrote)
                && acked > op
            {
                return Err(format!("I3: column {column} of row {row} is {op:?}, and {acked:?} was acknowledged"));
            }
        }
        Ok(())
    }
}

impl Proposed {
    fn decided(&self) -> bool {
        let base = self.record.base.as_deref();
        self.accepted_by_majority_of(&self.record.config) && base.is_none_or(|b| self.accepted_by_majority_of(b))
    }

    fn accepted_by_majority_of(&self, config: &ObjectConfig) -> bool {
        has_majority_by(config, |m| self.by.contains(&letter_of(m.seat())))
    }
}
