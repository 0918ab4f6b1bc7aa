//! Numbers of published reports that do not follow from the other numbers beside them, and what would.
//!
//! Method: the printed number is shown to be wrong by the same functions that users have.

use cairn_sizing::{Comparison, Exact, latency_change_percent};

fn of(text: &str) -> Exact {
    Exact::parse(text).unwrap()
}

fn compared(before: &str, after: &str) -> Comparison {
    Comparison::of(of(before), of(after)).unwrap()
}

#[test]
fn intel_2014_prints_ratios_as_changes() {
    let v3 = compared("11500", "17000");
    assert_eq!((v3.ratio.decimal(3), v3.change_percent.decimal(1)), ("1.478".into(), "47.8".into()), "printed +67 %");
    assert_eq!(v3.inverse_ratio.decimal(2), "0.68", "what was printed is near this, the other way round");
    let flash = compared("17000", "39500");
    assert_eq!(
        (flash.ratio.decimal(2), flash.change_percent.decimal(0)),
        ("2.32".into(), "132".into()),
        "printed +232 %"
    );
    assert_eq!(compared("11500", "39500").ratio.decimal(2), "3.43", "printed: more than 3x");
}

#[test]
fn intel_2014_has_16_tb_of_16_disks_of_1_2_tb() {
    let bytes = 16 * 1_200_000_000_000u64;
    let in_units = |unit: u64| Exact::whole(bytes).over(Exact::whole(unit)).unwrap().decimal(1);
    assert_eq!((in_units(1_000_000_000_000), in_units(1 << 40)), ("19.2".into(), "17.5".into()));
}

#[test]
fn micron_changes_that_do_not_fit_equal_outstanding_io() {
    let latency = |iops_ratio: &str| latency_change_percent(of(iops_ratio)).unwrap().decimal(0);
    // 0 % reads, cache test: -23 % IOPS beside +50 % latency. -23 % gives +30 %; +50 % needs -33 %.
    assert_eq!((latency("0.77"), latency("0.667")), ("30".into(), "50".into()));
    // 70 % reads, capacity test: -12 % IOPS beside +27 % latency. -12 % gives +14 %; +27 % needs -21 %.
    assert_eq!((latency("0.88"), latency("0.79")), ("14".into(), "27".into()));
}

#[test]
fn micron_cache_share_leaves_copies_out() {
    // "29 % fits in cache": 1.2 TB of 4.096 TB a host before copies; two copies are twice that.
    let share = |data: &str| of("120").over(of(data)).unwrap().decimal(1);
    assert_eq!((share("4.096"), share("8.192")), ("29.3".into(), "14.6".into()));
}

#[test]
fn optane_2023_multiplies_hosts_by_hosts() {
    // "32 VMs x 8 nodes x 4 disks = 128": it is 4 nodes x 8 VMs x 4 disks.
    assert_eq!((32 * 8 * 4, 4 * 8 * 4), (1024, 128));
}

#[test]
fn iomark_2017_has_305_gb_of_304() {
    let set = [80, 14, 80, 10, 45, 10, 10, 10];
    assert_eq!((set.iter().sum::<u32>(), set.iter().sum::<u32>() + 15 + 30), (259, 304));
}
