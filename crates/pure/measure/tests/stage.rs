//! L2 and L3 of the stages' bins, against sorted lists.

use cairn_measure::{Latencies, STAGE_BINS, StageBin};
use proptest::prelude::*;

fn recorded(all: &[u64]) -> Latencies {
    let mut latencies = Latencies::default();
    all.iter().for_each(|ns| latencies.record(*ns));
    latencies
}

fn latencies() -> impl Strategy<Value = Vec<u64>> {
    // As many of each length of number: a uniform draw would hardly ever be short. Up to 137 s, past the last bin.
    let one = (0u32..37, any::<u64>()).prop_map(|(bits, ns)| ns % (2 << bits));
    prop::collection::vec(one, 1..400)
}

/// Goal: no latency is without a bin, and none has two. Method: the ends of each bin, one after the other.
#[test]
fn bins_follow_one_another_and_are_narrow() {
    let mut next_us = 0;
    for number in 0..STAGE_BINS {
        let bin = recorded(&[next_us * 1000]).bins()[0];
        let StageBin { from_us, below_us, count } = bin;
        assert_eq!((from_us, count), (next_us, 1), "bin {number} begins where the last one ends");
        let last_ns = below_us * 1000 - 1;
        assert_eq!(recorded(&[last_ns]).bins(), [bin], "bin {number} holds {last_ns} ns");
        let width = below_us - from_us;
        assert!(width == 1 || width * 8 <= from_us, "bin {number} from {from_us} us is {width} us wide");
        next_us = below_us;
    }
    assert_eq!(next_us, 1 << 26, "67 s");
    for longer in [next_us * 1000, u64::MAX] {
        let told = recorded(&[longer]);
        assert_eq!((told.bins()[0].below_us, told.max_ns()), (next_us, longer), "what is longer is in the last bin");
    }
}

proptest! {
    /// Goal: a percentile is found to a bin, the mean and the longest exactly. Method: a sorted list of the same latencies.
    #[test]
    fn what_is_told_is_what_a_sorted_list_tells(mut all in latencies(), permille in 1u64..=1000) {
        let told = recorded(&all);
        all.sort_unstable();
        prop_assert_eq!(told.count(), all.len() as u64);
        prop_assert_eq!(told.sum_ns(), all.iter().sum::<u64>());
        prop_assert_eq!(told.max_ns(), *all.last().unwrap());
        let rank = (all.len() as u64 * permille).div_ceil(1000);
        let due = all[rank as usize - 1] / 1000;
        let mut seen = 0;
        let bins = told.bins();
        let bin = bins.iter().find(|bin| { seen += bin.count; seen >= rank }).unwrap();
        let open = bin.below_us == 1 << 26;
        prop_assert!(bin.from_us <= due && (due < bin.below_us || open), "{bin:?} is not that of {due} us");
    }

    /// Goal: parts that are added are the whole.
    #[test]
    fn parts_that_are_added_are_the_whole(all in latencies(), at in any::<prop::sample::Index>()) {
        let (one, other) = all.split_at(at.index(all.len()));
        let mut sum = recorded(one);
        sum.add(&recorded(other));
        prop_assert_eq!(sum, recorded(&all));
    }

    /// Goal: many at once are as many one by one.
    #[test]
    fn many_at_once_are_as_many_one_by_one(ns in 0u64..1 << 36, count in 0u32..50) {
        let mut at_once = Latencies::default();
        at_once.record_many(ns, count);
        prop_assert_eq!(at_once, recorded(&vec![ns; count as usize]));
    }
}

/// Goal: a bin that is full goes on. Method: more than four thousand million of one latency, added in two ways.
#[test]
fn a_full_bin_loses_nothing() {
    let mut told = Latencies::default();
    (0..3).for_each(|_| told.record_many(5_000, u32::MAX));
    told.record(5_000_000);
    let mut twice = told.clone();
    twice.add(&told);
    let most = 3 * u64::from(u32::MAX);
    let counts = |latencies: &Latencies| latencies.bins().iter().map(|bin| bin.count).collect::<Vec<_>>();
    assert_eq!((counts(&told), told.count()), (vec![most, 1], most + 1));
    assert_eq!((counts(&twice), twice.count()), (vec![2 * most, 2], 2 * most + 2));
    assert_eq!(twice.sum_ns(), 2 * (most * 5_000 + 5_000_000));
}
