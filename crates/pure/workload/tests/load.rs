//! L1 to L4.

use std::collections::{BTreeMap, BTreeSet};

use cairn_workload::{Addresses, Content, Direction, Kind, Pace, Requests, Schedule, Spec, SpecError, UNIT_BYTES};
use proptest::prelude::*;

fn spec() -> Spec {
    Spec {
        kinds: vec![Kind::new(4096, 70, 100)],
        addresses: Addresses::Uniform,
        span_begin: 0,
        span_bytes: 4096 * 1000,
        seed: 7,
    }
}

fn take(spec: Spec, count: usize) -> Vec<cairn_workload::Request> {
    Requests::new(spec, 0, 1).unwrap().take(count).collect()
}

fn addresses() -> impl Strategy<Value = Addresses> {
    let theta = (1u32..=30).prop_filter("not 1", |t| *t != 10).prop_map(|t| f64::from(t) / 10.0);
    prop_oneof![
        Just(Addresses::Uniform),
        theta.prop_map(|theta| Addresses::Zipf { theta }),
        (1u8..=99, 1u8..=99)
            .prop_map(|(requests_percent, area_percent)| Addresses::HotArea { requests_percent, area_percent }),
    ]
}

proptest! {
    #[test]
    fn requests_lie_within_their_span(
        addresses in addresses(),
        sectors in 1u32..64,
        begin in 0u64..1 << 30,
        places in 1u64..5000,
        random_percent in 0u8..=100,
        seed: u64,
    ) {
        let request_bytes = sectors * 512;
        let kinds = vec![Kind::new(request_bytes, 70, random_percent)];
        let span_begin = begin * 512;
        let span_bytes = places * u64::from(request_bytes) + u64::from(request_bytes) - 512;
        let spec = Spec { addresses, kinds, span_begin, span_bytes, seed };
        for worker in 0..3 {
            for request in Requests::new(spec.clone(), worker, 3).unwrap().take(200) {
                prop_assert_eq!(request.len_bytes, request_bytes);
                prop_assert!(request.offset >= span_begin);
                prop_assert!(request.offset + u64::from(request_bytes) <= span_begin + span_bytes);
                prop_assert_eq!((request.offset - span_begin) % u64::from(request_bytes), 0);
            }
        }
    }

    #[test]
    fn requests_of_many_kinds_lie_within_their_span(
        addresses in addresses(),
        kinds in prop::collection::vec((1u32..9, 1u32..64, 0u8..=100), 1..6),
        more_sectors in 0u64..500,
        seed: u64,
    ) {
        let kind = |(weight, sectors, random): (u32, u32, u8)| Kind { weight, ..Kind::new(sectors * 512, 50, random) };
        let kinds: Vec<Kind> = kinds.into_iter().map(kind).collect();
        let largest = kinds.iter().map(|kind| kind.request_bytes).max().unwrap();
        let span_bytes = u64::from(largest) + more_sectors * 512;
        let spec = Spec { kinds, addresses, span_begin: 512, span_bytes, seed };
        for request in Requests::new(spec.clone(), 0, 1).unwrap().take(300) {
            let len = u64::from(request.len_bytes);
            prop_assert!(spec.kinds.iter().any(|kind| kind.request_bytes == request.len_bytes));
            prop_assert!(request.offset >= 512 && request.offset + len <= 512 + span_bytes);
            prop_assert_eq!((request.offset - 512) % len, 0);
        }
    }

    #[test]
    fn content_is_told_again_piece_by_piece(
        offset in 0u64..100_000,
        len in 1usize..10_000,
        at in any::<prop::sample::Index>(),
        duplicate_share in 0.0f64..=1.0,
        random_share in 0.0f64..=1.0,
        seed: u64,
    ) {
        let content = Content { duplicate_share, random_share, duplicates: 3, ..Content::random(seed, 1) };
        let mut whole = vec![0; len];
        content.fill(offset, 5, &mut whole);
        let (one, other) = whole.split_at(at.index(len));
        prop_assert!(content.is(offset, 5, one) && content.is(offset + one.len() as u64, 5, other));
        prop_assert!(whole.chunks(16).all(|piece| piece.len() < 16 || piece.iter().any(|b| *b != 0)));
    }
}

#[test]
fn one_seed_is_one_load() {
    assert_eq!(take(spec(), 500), take(spec(), 500));
    assert_ne!(take(spec(), 500), take(Spec { seed: 8, ..spec() }, 500));
    // These very numbers, on every machine.
    let first: Vec<u64> = take(spec(), 4).iter().map(|r| r.offset / 4096).collect();
    assert_eq!(first, EXPECTED);
}

const EXPECTED: [u64; 4] = [653, 351, 292, 479];

#[test]
fn mixes_come_as_asked() {
    let many = take(spec(), 100_000);
    let reads = many.iter().filter(|r| r.direction == Direction::Read).count();
    assert!((69_500..70_500).contains(&reads), "{reads} reads of 100,000 at 70 %");
    let places: BTreeSet<u64> = many.iter().map(|r| r.offset).collect();
    assert_eq!(places.len(), 1000, "every place comes up");
    let follow = take(Spec { kinds: vec![Kind::new(4096, 70, 25)], ..spec() }, 100_000);
    let following = follow.windows(2).filter(|w| w[1].offset == (w[0].offset + 4096) % (4096 * 1000)).count();
    assert!((74_500..75_700).contains(&following), "{following} follow on of 100,000 at 75 %");
}

#[test]
fn kinds_come_as_often_as_they_weigh() {
    let kinds = vec![
        Kind { weight: 30, ..Kind::new(4096, 100, 100) },
        Kind { weight: 60, ..Kind::new(8192, 0, 100) },
        Kind { weight: 10, ..Kind::new(65536, 50, 0) },
    ];
    let many = take(Spec { kinds, ..spec() }, 100_000);
    let count = |len, direction| many.iter().filter(|r| r.len_bytes == len && r.direction == direction).count();
    assert_eq!((count(4096, Direction::Write), count(8192, Direction::Read)), (0, 0));
    assert!((29_500..30_500).contains(&count(4096, Direction::Read)));
    assert!((59_500..60_500).contains(&count(8192, Direction::Write)));
    assert!((4_700..5_300).contains(&count(65536, Direction::Read)));
    // Every place of a small request within the places of the largest comes up: 62 x 64 KiB.
    let small: BTreeSet<u64> = many.iter().filter(|r| r.len_bytes == 4096).map(|r| r.offset).collect();
    assert_eq!(small.len(), 62 * 16);
}

#[test]
fn sequences_go_round_and_workers_begin_apart() {
    let sequential = Spec { kinds: vec![Kind::new(4096, 70, 0)], ..spec() };
    let offsets: Vec<u64> = take(sequential.clone(), 1001).iter().map(|r| r.offset / 4096).collect();
    assert_eq!(offsets, (0..1000).chain([0]).collect::<Vec<_>>());
    let first = |worker| Requests::new(sequential.clone(), worker, 4).unwrap().next().unwrap();
    let begins = [0, 1, 2, 3].map(|worker| first(worker).offset / 4096);
    assert_eq!(begins, [0, 250, 500, 750]);
}

#[test]
fn hot_areas_are_as_hot_as_asked() {
    let hot = Addresses::HotArea { requests_percent: 95, area_percent: 5 };
    let many = take(Spec { addresses: hot, ..spec() }, 100_000);
    let within = many.iter().filter(|r| r.offset < 50 * 4096).count();
    assert!((94_700..95_300).contains(&within), "{within} of 100,000 at 95 %");
}

/// Counts of the hottest places against the exact distribution.
#[test]
fn zipf_is_zipf() {
    for theta in [0.5, 0.99, 1.1, 2.0] {
        let many = take(Spec { addresses: Addresses::Zipf { theta }, ..spec() }, 200_000);
        let mut counts: BTreeMap<u64, u32> = BTreeMap::new();
        many.iter().for_each(|r| *counts.entry(r.offset).or_default() += 1);
        let mut hottest: Vec<u32> = counts.into_values().collect();
        hottest.sort_unstable_by(|a, b| b.cmp(a));
        let sum: f64 = (1..=1000).map(|k| f64::from(k).powf(-theta)).sum();
        for (rank, k) in [(0, 1.0f64), (1, 2.0), (4, 5.0)] {
            let expected = 200_000.0 * k.powf(-theta) / sum;
            let off = f64::from(hottest[rank]) / expected - 1.0;
            assert!(off.abs() < 0.08, "theta {theta}: rank {rank} came {} times, not {expected:.0}", hottest[rank]);
        }
    }
}

#[test]
fn duplicates_and_random_bytes_are_as_many_as_asked() {
    let content = Content { duplicate_share: 0.5, duplicates: 10, random_share: 0.25, ..Content::random(3, 0) };
    let mut units: BTreeMap<Vec<u8>, u32> = BTreeMap::new();
    let mut unit = vec![0; UNIT_BYTES];
    for n in 0..4000 {
        content.fill(n * UNIT_BYTES as u64, 0, &mut unit);
        *units.entry(unit.clone()).or_default() += 1;
        let repeated = unit.rchunks(8).take_while(|piece| *piece == &unit[UNIT_BYTES - 8..]).count() * 8;
        assert_eq!(repeated, UNIT_BYTES * 3 / 4, "unit {n}");
    }
    let alike: u32 = units.values().filter(|n| **n > 1).sum();
    assert!((1900..2100).contains(&alike), "{alike} of 4,000 units are duplicates");
    assert_eq!(units.values().filter(|n| **n > 1).count(), 10);
    // Written again, a block of its own is another one; another disk has its own, and the same duplicates.
    let own = Content::random(3, 0);
    own.fill(0, 0, &mut unit);
    assert!(!own.is(0, 1, &unit) && !Content::random(3, 1).is(0, 0, &unit));
}

#[test]
fn a_rate_is_a_schedule() {
    let due = |worker| Schedule::new(Pace::Rate { per_s: 1000.0 }, 1, worker, 4).unwrap();
    let mut all: Vec<u64> = (0..4).flat_map(|worker| due(worker).take(250)).collect();
    all.sort_unstable();
    assert_eq!(all, (0..1000).map(|n| n * 1_000_000).collect::<Vec<u64>>());
    // An hour later it is still on time.
    assert_eq!(due(0).nth(900_000), Some(3_600_000_000_000));
    let mut poisson = Schedule::new(Pace::Poisson { per_s: 1000.0 }, 1, 0, 1).unwrap();
    let last = poisson.nth(99_999).unwrap() as f64 / 1e9;
    assert!((98.5..101.5).contains(&last), "100,000 requests at 1,000 a second took {last} s");
    assert!(Schedule::new(Pace::Closed, 1, 0, 1).is_none());
    assert!(Schedule::new(Pace::Rate { per_s: 0.0 }, 1, 0, 1).is_none());
}

#[test]
fn what_is_no_load_is_refused_in_words() {
    let zipf = |theta| Spec { addresses: Addresses::Zipf { theta }, ..spec() };
    let of_kinds = |kinds: &[Kind]| Spec { kinds: kinds.to_vec(), ..spec() };
    let refused = [
        of_kinds(&[]),
        of_kinds(&[Kind { weight: 0, ..Kind::new(4096, 70, 100) }]),
        of_kinds(&[Kind::new(4096, 70, 100), Kind::new(1000, 70, 100)]),
        of_kinds(&[Kind::new(0, 70, 100)]),
        of_kinds(&[Kind::new(4096, 101, 100)]),
        Spec { span_bytes: 4095, ..spec() },
        Spec { span_begin: 100, ..spec() },
        zipf(1.0),
        zipf(f64::NAN),
        Spec { addresses: Addresses::HotArea { requests_percent: 95, area_percent: 0 }, ..spec() },
    ];
    for spec in refused {
        let why: SpecError = spec.check().unwrap_err();
        assert!(!why.to_string().is_empty(), "{spec:?}");
        assert!(Requests::new(spec, 0, 1).is_err());
    }
}
