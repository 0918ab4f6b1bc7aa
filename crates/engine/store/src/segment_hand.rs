//! Goes round over the rows of segments of all capacity devices: some are written with each transaction.
//!
//! Promises    what rows are said to tell, every one of them tells: it was written since ([`SegmentHand::told`])
//! Not here    what a row has (`segments.rs`), what else a transaction writes (`changes.rs`)

/// Rows that each transaction writes.
const SEGMENT_ROWS: usize = 2;

/// The hand.
#[derive(Debug, Default)]
pub(crate) struct SegmentHand {
    next: (u8, u32),
    /// The transaction with which this turn began.
    began: Option<u64>,
    /// Rows tell all that transactions before this one changed.
    told: u64,
}

impl SegmentHand {
    /// Rows tell all that transactions before this one changed.
    pub fn told(&self) -> u64 {
        self.told
    }
    /// The rows that transaction `number` writes, of devices that have so many rows each.
    pub fn take(&mut self, rows_of: &[u32], number: u64) -> Vec<(u8, u32)> {
        let all: Vec<(u8, u32)> =
            (0u8..).zip(rows_of).flat_map(|(device, &rows)| (0..rows).map(move |row| (device, row))).collect();
        if all.is_empty() {
            self.told = number;
        }
        let mut taken = Vec::new();
        for _ in 0..SEGMENT_ROWS.min(all.len()) {
            let at = all.partition_point(|row| *row < self.next);
            if at == 0 && self.began.is_none() {
                self.began = Some(number);
            }
            taken.push(all[at % all.len()]);
            self.next = all.get(at + 1).copied().unwrap_or((u8::MAX, 0));
            if self.next.0 == u8::MAX {
                // Over: every row was written with the transaction of its beginning or a later one.
                self.next = (0, 0);
                self.told = self.began.take().unwrap_or(self.told);
            }
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// Goal: what rows of segments tell is told only once all were written since. Method: three devices, one without rows; after each turn
    /// the oldest row that stands is compared.
    #[test]
    fn the_hand_tells_what_all_rows_have() {
        for rows_of in [vec![1, 0, 1], vec![5, 0, 2], vec![1], vec![3]] {
            let mut hand = SegmentHand::default();
            let mut written: BTreeMap<(u8, u32), u64> = BTreeMap::new();
            let all = rows_of.iter().sum::<u32>() as usize;
            for number in 1..50 {
                written.extend(hand.take(&rows_of, number).into_iter().map(|row| (row, number)));
                let oldest = if written.len() == all { *written.values().min().unwrap() } else { 0 };
                assert!(hand.told <= oldest, "{rows_of:?} {number}: {} told, {oldest} is there", hand.told);
                assert!(number < 20 || hand.told + 12 > number, "{rows_of:?} {number}: {}", hand.told);
            }
        }
    }
}
