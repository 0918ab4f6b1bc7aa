//! Which of several copies holds the later state of a block, and where a pass over an object's copies goes on: plain functions.
//!
//! Promises    F1  a copy is older only if all operations that its block may be of are below all of the others'. What is overwritten by that
//!                 was written before what is kept
//!             F2  what most copies hold is not overwritten by what fewer hold
//!             F3  a pass comes to each part of an object once a period, wherever it begins
//! Assumes     what is compared was told while no write was under way
//!
//! Operations tell more of writes than of copies: what a resync brought has a number of its own time, whatever it brought. So F1 asks all
//! holders of a state, not the newest alone. A copy that was filled from one that had lost a write has its state and a high number. Beside its
//! source nothing is decided then (ADR 0035).

use std::{collections::BTreeMap, ops::Range, time::Duration};

use cairn_geometry::Area;
use cairn_types::{
    BlockRange, BlockState, BlockStates, Canary, ObjectConfig, OpId, REGION_BLOCKS, RegionIndex, ReplicaSetIndex,
};

/// Regions that are asked for together: 64 MiB, so 16,384 questions a TiB. Nothing is locked for them.
pub(super) const REGIONS_TOGETHER: u64 = 64;

/// What is to be done about a block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    /// All copies that can give it hold the same.
    Equal,
    /// This copy holds the later state; these an earlier one.
    Later { holder: usize, older: Vec<usize> },
    /// Copies differ, and nothing tells which is right.
    Undecided,
}

/// What one copy holds of a block: which bytes, and the operations that they may be of.
struct Held {
    copy: usize,
    /// None: zeroes.
    crc: Option<u32>,
    lowest: OpId,
    highest: OpId,
}

impl Held {
    /// None for what the copy cannot give: that is found and told otherwise.
    fn of(copy: usize, states: &BlockStates, at: usize) -> Option<Self> {
        let (crc, lowest, highest) = match *states.blocks.get(at)? {
            BlockState::Lost { .. } => return None,
            BlockState::Data { crc, op } => (Some(crc), op, op),
            BlockState::Zeroes { op: Some(op) } => (None, op, op),
            BlockState::Zeroes { op: None } => (None, OpId::ZERO, states.touched),
        };
        Some(Self { copy, crc, lowest, highest })
    }
}

/// Judges one block by what each copy says of it.
pub(super) fn judge(copies: &[BlockStates], at: usize) -> Verdict {
    let held: Vec<Held> = copies.iter().enumerate().filter_map(|(copy, states)| Held::of(copy, states, at)).collect();
    if held.windows(2).all(|two| two[0].crc == two[1].crc) {
        return Verdict::Equal;
    }
    let newest = match Canary::OlderCopyWins.sings() {
        true => held.iter().min_by_key(|one| one.highest),
        false => held.iter().max_by_key(|one| one.lowest),
    };
    let crc = newest.expect("there are two that differ").crc;
    let (later, older): (Vec<&Held>, Vec<&Held>) = held.iter().partition(|one| one.crc == crc);
    let lowest = later.iter().map(|one| one.lowest).min();
    let above = older.iter().all(|one| Some(one.highest) < lowest) || Canary::OlderCopyWins.sings();
    // What a copy cannot give may have been the latest of all.
    let all_told = held.len() == copies.len();
    match above && all_told && later.len() >= older.len() {
        true => Verdict::Later { holder: later[0].copy, older: older.iter().map(|one| one.copy).collect() },
        false => Verdict::Undecided,
    }
}

/// Blocks that copies differ in: neighbours with one verdict together, each stretch with its first block counted from `first`.
pub(super) fn differences(copies: &[BlockStates], range: BlockRange) -> Vec<(BlockRange, Verdict)> {
    let mut found: Vec<(BlockRange, Verdict)> = Vec::new();
    for at in 0..range.count {
        let (block, verdict) = (range.first + u64::from(at), judge(copies, at as usize));
        match found.last_mut() {
            _ if verdict == Verdict::Equal => {}
            Some((last, same)) if last.end() == block && *same == verdict => last.count += 1,
            _ => found.push((BlockRange::new(block, 1), verdict)),
        }
    }
    found
}

/// Which of the regions that were asked for are not the same on all copies.
pub(super) fn differing(asked: Range<RegionIndex>, digests: &[Vec<u64>]) -> Vec<RegionIndex> {
    let differs = |at: usize| digests.windows(2).any(|two| two[0].get(at) != two[1].get(at));
    (0..asked.len()).zip(asked).filter(|(at, _)| differs(*at)).map(|(_, region)| region).collect()
}

/// Parts of an object that are compared one after the other, `REGIONS_TOGETHER` each: those of a replica set behind those of the one before.
pub(super) struct Parts {
    /// By set: the first part of it, and its blocks.
    sets: BTreeMap<u64, (ReplicaSetIndex, u64)>,
    count: u64,
}

impl Parts {
    pub(super) fn of(config: &ObjectConfig) -> Self {
        Self::of_areas(Area::all(&config.addresses, config.size_bytes))
    }

    /// Blocks are those of a component, of mirrors and of rows.
    fn of_areas(areas: impl Iterator<Item = Area>) -> Self {
        let (mut sets, mut count) = (BTreeMap::new(), 0);
        for area in areas {
            for set in area.sets() {
                let blocks = area.component_blocks(set);
                sets.insert(count, (set, blocks));
                count += blocks.div_ceil(PART_BLOCKS);
            }
        }
        Self { sets, count }
    }

    /// Part `n`, counted around: the set, and its blocks within that. None: there is no part.
    pub(super) fn get(&self, n: u64) -> Option<(ReplicaSetIndex, BlockRange)> {
        let n = n.checked_rem(self.count)?;
        // A set without blocks has the number of the next one, and gave way to it.
        let (first, &(set, blocks)) = self.sets.range(..=n).next_back()?;
        let from = (n - first) * PART_BLOCKS;
        Some((set, BlockRange::new(from, (blocks - from).min(PART_BLOCKS) as u32)))
    }

    /// How long one part waits for the next, so that all of them take a period.
    pub(super) fn pause(&self, period: Duration) -> Duration {
        Duration::from_nanos((period.as_nanos() / u128::from(self.count.max(1))).min(u128::from(u64::MAX)) as u64)
    }
}

const PART_BLOCKS: u64 = REGIONS_TOGETHER * REGION_BLOCKS as u64;

/// A number that looks drawn, the same for the same seed: where a pass begins.
pub(super) fn mixed(seed: u64) -> u64 {
    let mut mixed = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ mixed >> 31
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use cairn_types::{Epoch, HostId, Incarnation, Layout, Redundancy};
    use proptest::prelude::*;

    use super::*;

    fn op(seq: u64) -> OpId {
        OpId { epoch: Epoch { number: 3, host: HostId(1), incarnation: Incarnation(1) }, seq }
    }

    fn data(crc: u32, seq: u64) -> BlockState {
        BlockState::Data { crc, op: op(seq) }
    }

    fn zero(seq: u64) -> BlockState {
        BlockState::Zeroes { op: Some(op(seq)) }
    }

    const HOLE: BlockState = BlockState::Zeroes { op: None };

    /// Copies of one block, each in a region that was touched by operation 15 last.
    fn judged(blocks: &[BlockState]) -> Verdict {
        let of = |block: &BlockState| BlockStates { touched: op(15), blocks: vec![*block] };
        judge(&blocks.iter().map(of).collect::<Vec<_>>(), 0)
    }

    fn later(holder: usize, older: &[usize]) -> Verdict {
        Verdict::Later { holder, older: older.to_vec() }
    }

    #[test]
    fn what_differs_is_decided_by_operations_or_not_at_all() {
        let lost = BlockState::Lost { crc: 9 };
        let table = [
            // A copy may have what another one has by another operation: a resync brought it.
            ("the same, brought by a resync", vec![data(1, 10), data(1, 20)], Verdict::Equal),
            ("a hole and zeroes", vec![HOLE, zero(7), HOLE], Verdict::Equal),
            ("one copy only can give it", vec![data(1, 10), lost], Verdict::Equal),
            ("no copy can", vec![lost, lost], Verdict::Equal),
            ("one cannot give it, and the others differ", vec![data(1, 10), lost, data(2, 12)], Verdict::Undecided),
            ("a lost write", vec![data(1, 10), data(2, 12)], later(1, &[0])),
            ("a lost write, the other way round", vec![data(2, 12), data(1, 10)], later(0, &[1])),
            ("lost zeroes", vec![data(1, 10), zero(12)], later(1, &[0])),
            ("one of three lost it", vec![data(2, 12), data(1, 10), data(2, 12)], later(0, &[1])),
            ("two of three lost it", vec![data(2, 12), data(1, 10), data(1, 10)], Verdict::Undecided),
            ("one operation, two contents", vec![data(1, 10), data(2, 10)], Verdict::Undecided),
            // The last one was filled from the first, which had lost operation 12.
            ("a copy of an older copy", vec![data(1, 10), data(2, 12), data(1, 14)], Verdict::Undecided),
            ("a copy of a later copy", vec![data(1, 10), data(2, 12), data(2, 14)], later(1, &[0])),
            // Was it trimmed since, or never written here?
            ("a hole, perhaps trimmed", vec![HOLE, data(1, 10)], Verdict::Undecided),
            ("a hole in a region that operation 16 never touched", vec![HOLE, data(1, 16)], later(1, &[0])),
            ("three contents", vec![data(1, 10), data(2, 11), data(3, 12)], Verdict::Undecided),
        ];
        for (what, blocks, verdict) in table {
            assert_eq!(judged(&blocks), verdict, "{what}");
        }
    }

    proptest! {
        /// F1, F2, and that the order of the copies decides nothing.
        #[test]
        fn the_earlier_state_never_wins(blocks in proptest::collection::vec((0u32..3, 1u64..20, 0u8..6), 2..5)) {
            let states: Vec<BlockState> = blocks
                .iter()
                .map(|(crc, seq, kind)| match kind {
                    0 => HOLE,
                    1 => zero(*seq),
                    2 => BlockState::Lost { crc: *crc },
                    _ => data(*crc, *seq),
                })
                .collect();
            let verdict = judged(&states);
            let reversed: Vec<BlockState> = states.iter().rev().copied().collect();
            let kind = |verdict: &Verdict| match verdict {
                Verdict::Equal => 0,
                Verdict::Later { older, .. } => 10 + older.len(),
                Verdict::Undecided => 1,
            };
            prop_assert_eq!(kind(&verdict), kind(&judged(&reversed)));
            if let Verdict::Later { holder, older } = verdict {
                let bounds = |at: usize| match states[at] {
                    BlockState::Data { op, .. } | BlockState::Zeroes { op: Some(op) } => (op, op),
                    BlockState::Zeroes { op: None } => (OpId::ZERO, op(15)),
                    BlockState::Lost { .. } => unreachable!("it holds nothing"),
                };
                older.iter().for_each(|at| assert!(bounds(*at).1 < bounds(holder).0));
                prop_assert!(older.len() * 2 <= states.len());
            }
        }
    }

    #[test]
    fn neighbours_with_one_verdict_are_one_stretch() {
        let copy = |blocks: &[BlockState]| BlockStates { touched: op(15), blocks: blocks.to_vec() };
        let one = copy(&[data(1, 1), data(1, 1), data(1, 1), data(5, 5), data(1, 9), HOLE]);
        let two = copy(&[data(1, 1), data(2, 3), data(3, 4), data(6, 5), data(2, 3), HOLE]);
        let found = differences(&[one, two], BlockRange::new(100, 6));
        let stretch = BlockRange::new;
        let expected = [
            (stretch(101, 2), later(1, &[0])),
            (stretch(103, 1), Verdict::Undecided),
            (stretch(104, 1), later(0, &[1])),
        ];
        assert_eq!(found, expected);
        assert_eq!(differing(7..10, &[vec![1, 2, 3], vec![1, 5, 3], vec![1, 5, 4]]), [8, 9]);
    }

    /// F3. Goal: a pass covers each block of each set once, also of striped and chunked disks. Method: all parts of disks of several forms,
    /// against a plain count.
    #[test]
    fn a_pass_covers_everything_once() {
        let mib = 1u64 << 20;
        for (size_mib, chunk_mib, stripe_width) in
            [(1, 1024, 1), (64, 1024, 1), (65, 1024, 1), (1000, 256, 1), (1000, 255, 3), (5, 1024, 4)]
        {
            let layout = Layout {
                chunk_bytes: chunk_mib * mib,
                stripe_width,
                strip_bytes: mib as u32,
                redundancy: Redundancy::Mirror { copies: 2 },
            };
            let parts = Parts::of_areas(Area::all(&layout.into(), size_mib * mib));
            let mut seen = BTreeSet::new();
            for n in 0..parts.count {
                let (set, range) = parts.get(n).expect("a part");
                assert!(range.count > 0 && u64::from(range.count) <= PART_BLOCKS);
                (range.first..range.end()).for_each(|block| assert!(seen.insert((set, block)), "twice"));
                assert_eq!(parts.get(n + 5 * parts.count), Some((set, range)));
            }
            assert_eq!(seen.len() as u64, size_mib * mib / 4096, "{size_mib} MiB");
            assert_eq!(parts.pause(Duration::from_secs(parts.count)), Duration::from_secs(1));
        }
    }

    /// Napkin of the documentation: a TiB in a day is 16,384 parts, one in 5.27 s.
    #[test]
    fn a_tebibyte_takes_few_questions() {
        let layout = Layout {
            chunk_bytes: 255 << 30,
            stripe_width: 1,
            strip_bytes: 1 << 20,
            redundancy: Redundancy::Mirror { copies: 2 },
        };
        let parts = Parts::of_areas(Area::all(&layout.into(), 1 << 40));
        assert_eq!(parts.count, 16_384);
        assert_eq!(parts.pause(Duration::from_secs(86_400)).as_millis(), 5_273);
    }

    /// Goal: owners that change often cover all the same. Method: each of 2,000 owners compares one part of 64 and goes.
    #[test]
    fn many_owners_begin_everywhere() {
        let begins: BTreeSet<u64> = (0..2_000u64).map(|epoch| mixed(epoch ^ 0x5EED) % 64).collect();
        assert_eq!(begins.len(), 64);
    }
}
