//! What holds for any numbers: round trips, proportions, and that nothing panics.

use cairn_sizing::{
    Cluster, Comparison, Drive, Exact, Latency, Media, Money, Pool, Protection, Rating, SizingErrorKind, Units,
    Workload, cache_bytes, days_left, dwpd, easy_run, hosts_lost, latency_change_percent, life, mirror_hosts_min, tbw,
};
use cairn_types::{FaultToleranceMethod, Policy};
use proptest::prelude::*;

fn number() -> impl Strategy<Value = Exact> {
    (1u64..1_000_000_000, 0u32..5).prop_map(|(n, places)| Exact::fraction(i128::from(n), 10i128.pow(places)).unwrap())
}

fn any_number() -> impl Strategy<Value = Exact> {
    (any::<i64>(), 1i64..=i64::MAX).prop_map(|(n, d)| Exact::fraction(n.into(), d.into()).unwrap())
}

fn protection() -> impl Strategy<Value = Protection> {
    proptest::sample::select(Protection::ALL.to_vec())
}

fn units() -> impl Strategy<Value = Units> {
    proptest::sample::select(vec![Units::Si, Units::Paper])
}

proptest! {
    #[test]
    fn tbw_and_dwpd_are_inverse(rate in number(), gb in number(), years in number()) {
        let total = tbw(rate, gb, years).unwrap();
        prop_assert_eq!(dwpd(total, gb, years).unwrap(), rate);
    }

    #[test]
    fn half_the_copies_are_twice_the_iops(mb in number(), copies in 1u64..100, drives in 1u64..64, units in units()) {
        let load = Workload { copies: Exact::whole(copies), cache_drives: drives, ..Workload::paper() };
        let twice = Workload { copies: Exact::whole(2 * copies), ..load };
        let amplified = Workload { write_amplification: Exact::whole(2), ..load };
        let drives_twice = Workload { cache_drives: 2 * drives, ..twice };
        let iops = load.iops(mb, units).unwrap();
        prop_assert_eq!(iops, twice.iops(mb, units).unwrap().times(Exact::whole(2)).unwrap());
        prop_assert_eq!(amplified.iops(mb, units), twice.iops(mb, units));
        prop_assert_eq!(iops, drives_twice.iops(mb, units).unwrap());
    }

    #[test]
    fn the_load_that_a_drive_stands_wears_it_out_just_then(gb in 1u64..100_000, years in 1u64..20, units in units()) {
        let drive = Drive { name: String::new(), capacity_gb: Exact::whole(gb), rating: Rating::Dwpd(Exact::ONE) };
        let years = Exact::whole(years);
        let load = Workload::paper();
        let iops = life(&drive, &load, years, units, None).unwrap().iops;
        let told = life(&drive, &load, years, units, Some(iops)).unwrap();
        prop_assert_eq!((told.lasts_years, told.sufficient), (Some(years), Some(true)));
    }

    #[test]
    fn days_left_and_days_gone_are_the_whole_life(total in 1u64..1_000_000, share in 1u64..=100, days in 1u64..3650) {
        let written = Exact::fraction(i128::from(total * share), 100).unwrap();
        let left = days_left(Exact::whole(total), written, Exact::whole(days)).unwrap().unwrap();
        let all = left.plus(Exact::whole(days)).unwrap();
        prop_assert_eq!(all.times(Exact::whole(share)).unwrap(), Exact::whole(days * 100));
    }

    #[test]
    fn usable_of_raw_is_what_was_asked(
        bytes in 0u64..1 << 55, protection in protection(), slack in 0u64..90, reduction in 10u64..200,
    ) {
        let reduction = Exact::fraction(i128::from(reduction), 10).unwrap();
        let pool = Pool { protection, slack_percent: Exact::whole(slack), reduction };
        let raw = pool.raw(bytes).unwrap().raw_bytes;
        let usable = pool.usable(raw).unwrap().usable_bytes;
        prop_assert!(usable >= bytes);
        // One raw byte holds at most `reduction` bytes of guests.
        prop_assert!(i128::from(usable - bytes) <= reduction.ceil());
        // And what is told to be usable fits.
        let fits = pool.usable(bytes).and_then(|told| pool.raw(told.usable_bytes)).unwrap();
        prop_assert!(fits.raw_bytes <= bytes);
        let plain = Pool::of(protection);
        let raw = plain.raw(bytes).unwrap().raw_bytes;
        prop_assert!(plain.usable(raw).unwrap().usable_bytes - bytes <= 1);
    }

    #[test]
    fn a_lost_host_leaves_as_much_in_use(
        protection in protection(), extra in 0u64..60, raw in 1u64..1 << 45, share in 0u64..=100, lost in 1u64..4,
    ) {
        let hosts = u64::from(protection.hosts_min()) + extra;
        let used = (u128::from(raw) * u128::from(hosts) * u128::from(share) / 100) as u64;
        let told = hosts_lost(protection, hosts, raw, used, lost);
        prop_assume!(lost < hosts);
        let told = told.unwrap();
        prop_assert_eq!(told.data_available, lost <= u64::from(protection.ftt()));
        prop_assert_eq!(told.full_after_percent.is_some() && told.rebuild_bytes.is_some(), told.data_available);
        if let Some(after) = told.full_after_percent {
            let hundred = Exact::whole(used).times(Exact::HUNDRED).unwrap();
            prop_assert_eq!(after.times(Exact::whole(told.raw_bytes)).unwrap(), hundred);
            prop_assert!(after >= told.full_before_percent);
        }
        prop_assert_eq!(told.room, used <= told.used_max_bytes);
        prop_assert_eq!(told.rebuilds, told.room && extra >= lost && lost <= u64::from(protection.ftt()));
    }

    #[test]
    fn ratio_and_change_say_the_same(before in number(), after in number()) {
        let told = Comparison::of(before, after).unwrap();
        prop_assert_eq!(told.ratio.times(before).unwrap(), after);
        prop_assert_eq!(told.change_percent.is_negative(), after < before);
        prop_assert_eq!(told.ratio.times(told.inverse_ratio).unwrap(), Exact::ONE);
        // Latency changes by the inverse: both factors together are 1.
        let latency = latency_change_percent(told.ratio).unwrap().of_hundred().unwrap().plus(Exact::ONE).unwrap();
        prop_assert_eq!(latency, told.inverse_ratio);
    }

    #[test]
    fn money_is_read_as_it_is_written(cents in any::<i64>()) {
        let money = Money::of_cents(cents);
        prop_assert_eq!(Money::parse(&money.to_string()).map_or(money, |read| read), money);
        if cents.unsigned_abs() < 1_000_000_000_000_000 {
            prop_assert_eq!(Money::parse(&money.to_string()), Ok(money));
        }
        prop_assert_eq!(Money::rounded(money.exact().unwrap()), Ok(money));
    }

    #[test]
    fn order_is_that_of_the_difference(one in any_number(), two in any_number()) {
        if let Ok(difference) = one.minus(two) {
            let expected = if difference.is_zero() { 0 } else if difference.is_negative() { -1 } else { 1 };
            prop_assert_eq!(one.cmp(&two) as i32, expected);
        }
        prop_assert_eq!(one.cmp(&two), two.cmp(&one).reverse());
    }

    #[test]
    fn rounding_is_off_by_half_at_most(number in any_number(), places in 0u32..9) {
        let text = number.decimal(places).replace(',', "");
        prop_assume!(text.len() <= 19);
        let off = Exact::parse(&text).unwrap().minus(number);
        if let Ok(off) = off {
            let half = Exact::fraction(1, 2 * 10i128.pow(places)).unwrap();
            prop_assert!(off <= half && off >= Exact::ZERO.minus(half).unwrap());
        }
    }

    #[test]
    fn nothing_panics_on_any_numbers(
        a in any_number(), b in any_number(), c in any_number(), n in any::<u64>(), m in any::<u64>(), k in any::<u64>(),
        protection in protection(), text in "[-0-9.,e ]{0,24}",
    ) {
        let _ = (Exact::parse(&text), Money::parse(&text), a.decimal(9), a.short(3), a.floor(), a.ceil(), a.round());
        let load = Workload { block_bytes: n, read_percent: a, copies: b, write_amplification: c, cache_drives: m };
        let drive = Drive { name: String::new(), capacity_gb: b, rating: Rating::Dwpd(a) };
        let _ = life(&drive, &load, c, Units::Paper, Some(b));
        let _ = life(&drive, &Workload::paper(), c, Units::Si, Some(a));
        let _ = (days_left(a, b, c), Comparison::of(a, b), cache_bytes(n, a));
        let pool = Pool { protection, slack_percent: a, reduction: b };
        let _ = (pool.raw(n), pool.usable(n), Pool::of(protection).raw(n));
        let _ = (hosts_lost(protection, n, m, k, 1), hosts_lost(protection, n % 64, m, k, n % 8));
        let cluster = Cluster {
            disk_groups: n % 20_000, cache_bytes: m, capacity_bytes: m.max(k), free_bytes: k,
            media: if n % 2 == 0 { Media::AllFlash } else { Media::Hybrid }, protection, checksums: n % 3 == 0,
            latency: if n % 5 == 0 { Latency::Target } else { Latency::Max },
        };
        if let Ok(run) = easy_run(&cluster) {
            prop_assert_eq!(run.data_gb, run.vms * run.disks_per_vm * run.disk_gb);
        }
    }
}

/// The copies that the product makes and those that are reckoned with.
#[test]
fn a_policy_costs_as_many_copies_as_it_has() {
    for ftt in 0..=3 {
        let policy = Policy { ftt, ..Policy::default() };
        let protection = Protection::of(&policy).unwrap();
        assert_eq!(protection.multiplier().unwrap(), Exact::whole(u64::from(policy.copies())));
        assert_eq!((protection.hosts_min(), protection.ftt()), (mirror_hosts_min(ftt), ftt));
    }
    let rows = |ftt, data_strips| {
        let ftm = FaultToleranceMethod::ErasureCoding { data_strips };
        Protection::of(&Policy { ftt, ftm, ..Policy::default() })
    };
    let coded = |ftt| rows(ftt, 0);
    let hosts = |ftt, data_strips| rows(ftt, data_strips).unwrap().hosts_min();
    assert_eq!([hosts(1, 2), hosts(1, 3), hosts(2, 2), hosts(2, 3), hosts(2, 4), hosts(2, 8)], [3, 4, 5, 5, 6, 10]);
    assert_eq!(rows(2, 3).unwrap().describe(), "RAID-6, 3+2 (FTT=2)");
    assert!(rows(1, 9).is_err() && rows(1, 1).is_err());
    assert_eq!((coded(1), coded(2)), (Ok(Protection::RAID5), Ok(Protection::RAID6)));
    assert_eq!(coded(3).map_err(|e| e.kind), Err(SizingErrorKind::Value));
    assert!(Protection::of(&Policy { ftt: 9, ..Policy::default() }).is_err());
}

#[test]
fn a_lost_host_is_rebuilt_up_to_the_last_byte() {
    let told = |used| hosts_lost(Protection::Mirror { ftt: 1 }, 4, 30, used, 1).unwrap();
    assert_eq!((told(90).rebuilds, told(90).full_after_percent), (true, Some(Exact::HUNDRED)));
    assert_eq!((told(91).rebuilds, told(91).room, told(91).used_max_bytes), (false, false, 90));
    assert_eq!(told(91).rebuild_bytes, Some(23), "a quarter of 91, rounded up");
}

#[test]
fn refusals_name_the_value_and_the_way_out() {
    let few = Protection::RAID6.check_hosts(5).unwrap_err();
    assert_eq!(few.to_string(), "RAID-6, 4+2 (FTT=2) needs 6 hosts, there are 5");
    assert_eq!(few.remedy, "add hosts, or choose a mirror with FTT=2");
    let reads = Workload { read_percent: Exact::HUNDRED, ..Workload::paper() }.bytes_per_io().unwrap_err();
    assert_eq!(reads.to_string(), "a load of reads only wears no drive");
    assert_eq!(days_left(Exact::ONE, Exact::ZERO, Exact::ONE), Ok(None));
    assert_eq!(days_left(Exact::ONE, Exact::whole(2), Exact::ONE), Ok(Some(Exact::ZERO)));
}
