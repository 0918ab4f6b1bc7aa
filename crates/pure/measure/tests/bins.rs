//! M1 to M3 against a slow oracle, and against what fio itself wrote.

use cairn_measure::{BINS, EDGES_US, Histogram, Quantile, bin_of, middle_ns, upper_ns};
use proptest::prelude::*;
use serde_json::Value;

fn histogram(latencies: &[u64]) -> Histogram {
    let mut all = Histogram::default();
    latencies.iter().for_each(|ns| all.record(*ns));
    all
}

fn latencies() -> impl Strategy<Value = Vec<u64>> {
    // As many of each length of number: a uniform draw would hardly ever be short.
    let one = (0u32..34, any::<u64>()).prop_map(|(bits, ns)| ns % (2 << bits));
    prop::collection::vec(one, 1..400)
}

#[test]
fn a_bin_is_narrow_and_the_next_one_follows() {
    let mut next = 0;
    for bin in 0..BINS {
        assert_eq!((bin_of(next), bin_of(upper_ns(bin))), (bin, bin), "bin {bin} begins where the last one ends");
        assert_eq!(bin_of(middle_ns(bin)), bin);
        let width = upper_ns(bin) - next + 1;
        assert!(width == 1 || width * 64 <= next, "bin {bin} from {next} ns is {width} ns wide");
        next = upper_ns(bin) + 1;
    }
    assert_eq!((bin_of(next), bin_of(u64::MAX)), (BINS - 1, BINS - 1), "what is longer is in the last bin");
}

proptest! {
    #[test]
    fn parts_that_are_added_are_the_whole(all in latencies(), at in any::<prop::sample::Index>()) {
        let (one, other) = all.split_at(at.index(all.len()));
        let mut sum = histogram(one);
        sum.add(&histogram(other));
        prop_assert_eq!(sum, histogram(&all));
    }

    #[test]
    fn a_quantile_is_that_of_the_sorted_latencies_to_a_bin(mut all in latencies(), millionths in 0u32..=1_000_000) {
        let found = histogram(&all).quantile_ns(Quantile::of_millionths(millionths).unwrap()).unwrap();
        all.sort_unstable();
        let rank = (all.len() as u128 * u128::from(millionths)).div_ceil(1_000_000).max(1) as usize;
        prop_assert_eq!(bin_of(found), bin_of(all[rank - 1]));
    }

    #[test]
    fn shares_at_edges_are_exact(all in latencies()) {
        let shares = histogram(&all).shares_at_edges().unwrap();
        for (edge_us, share) in EDGES_US.iter().zip(shares) {
            let within = all.iter().filter(|ns| **ns <= edge_us * 1000).count();
            prop_assert_eq!(share, within as f64 / all.len() as f64, "{} us", edge_us);
        }
    }

    #[test]
    fn a_curve_only_rises_and_ends_with_all(all in latencies()) {
        let curve = histogram(&all).curve();
        prop_assert!(curve.windows(2).all(|w| w[0].within_ns < w[1].within_ns && w[0].share < w[1].share));
        prop_assert_eq!(curve.last().unwrap().share, 1.0);
        prop_assert_eq!(curve.last().unwrap().within_ns, *all.iter().max().unwrap());
    }

    #[test]
    fn fios_bins_come_back(all in latencies()) {
        let bins = histogram(&all).fio_bins();
        prop_assert_eq!(Histogram::from_fio_bins(bins.clone()).unwrap().fio_bins(), bins);
    }
}

#[test]
fn nothing_has_no_number() {
    let none = Histogram::default();
    assert_eq!((none.mean_ns(), none.min_ns(), none.max_ns()), (None, None, None));
    assert_eq!((none.quantile_ns(Quantile::P50), none.shares_at_edges(), none.count()), (None, None, 0));
    assert!(none.curve().is_empty() && none.fio_bins().is_empty());
}

#[test]
fn a_key_that_fio_does_not_have_is_refused() {
    let refused = Histogram::from_fio_bins([(130, 1)]).unwrap_err();
    assert!(refused.to_string().contains("130 ns is not the middle"), "{refused}");
}

/// A run of fio 3.33 (`--output-format=json+`, psync, 70/30), its latencies only: all its bins are bins here, and its
/// percentiles are found from them.
#[test]
fn what_fio_wrote_is_read_as_fio_reads_it() {
    let run: Value = serde_json::from_str(include_str!("fio-3.33.json")).unwrap();
    for direction in ["read", "write"] {
        let told = &run[direction]["clat_ns"];
        let bins = told["bins"].as_object().unwrap();
        let bins = bins.iter().map(|(ns, count)| (ns.parse().unwrap(), count.as_u64().unwrap()));
        let all = Histogram::from_fio_bins(bins).unwrap();
        assert_eq!(all.count(), told["N"].as_u64().unwrap());
        let (mean, fios) = (all.mean_ns().unwrap(), told["mean"].as_f64().unwrap());
        assert!((mean / fios - 1.0).abs() < 1.0 / 128.0, "{direction}: a mean of {mean} ns, fio has {fios}");
        let percentiles = told["percentile"].as_object().unwrap();
        assert!(percentiles.len() > 10);
        for (percent, ns) in percentiles {
            let millionths = (percent.parse::<f64>().unwrap() * 10_000.0).round() as u32;
            let found = all.quantile_ns(Quantile::of_millionths(millionths).unwrap()).unwrap();
            assert_eq!(found, ns.as_u64().unwrap(), "{direction} {percent} %");
        }
    }
}
