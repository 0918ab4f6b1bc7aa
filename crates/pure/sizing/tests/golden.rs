//! The numbers that published reports print, each row named by its report: what the formulas give, as printed.
//!
//! Method: one table per report. A number of a report that is wrong stands in `errata.rs` instead.

use cairn_sizing::{
    BUFFER_CAPS_GB, Capacity, Comparison, Drive, Exact, Measured, Money, PaperRow, Pool, Price, PriceList, Protection,
    Rating, SupportLine, Units, Workload, cache_bytes, day_mb_per_s, dwpd, gb_per_day, iomark_list, iomark_measured,
    latency_change_percent, life, life_mb_per_s, mb_per_s, mean_latency_ms, power_ratio, read_share_percent,
    reduction_of_data, tbw, trapped_gb,
};

type Gives = Result<Exact, cairn_sizing::SizingError>;

fn of(text: &str) -> Exact {
    Exact::parse(text).unwrap()
}

/// Row, what the formula gives, places, as text.
fn all(report: &str, rows: Vec<(&str, Gives, u32, &str)>) {
    for (row, gives, places, text) in rows {
        assert_eq!(gives.unwrap().decimal(places), text, "{report}: {row}");
    }
}

/// A 32 KiB load of two copies.
fn load(read_percent: u64) -> Workload {
    Workload { read_percent: Exact::whole(read_percent), ..Workload::paper() }
}

#[test]
fn optane_2023_table_1_in_the_papers_units() {
    let years = of("5");
    let paper = Units::Paper;
    let nand = life_mb_per_s(of("8600"), years, paper).unwrap();
    let optane = life_mb_per_s(of("146000"), years, paper).unwrap();
    let rounded_ratio = of("3000").times(of("948")).unwrap().over(of("56"));
    all(
        "Optane white paper 2023, table 1",
        vec![
            ("3 DWPD of 1.6 TB, nominal", tbw(of("3"), of("1600"), years), 0, "8,760"),
            ("8,600 TBW of the data sheet", dwpd(of("8600"), of("1600"), years), 3, "2.945"),
            ("100 DWPD of 800 GB", tbw(of("100"), of("800"), years), 0, "146,000"),
            ("56 MB/s", Ok(nand), 0, "56"),
            ("56 MB/s, before rounding", Ok(nand), 2, "55.85"),
            ("56 MB/s, of the nominal 3 DWPD", life_mb_per_s(of("8760"), years, paper), 1, "56.9"),
            ("948 MB/s", Ok(optane), 0, "948"),
            ("948 MB/s, before rounding", Ok(optane), 2, "948.15"),
            ("3,000 IOPS, of 56 MB/s", load(70).iops(of("56"), paper), 0, "2,987"),
            ("3,000 IOPS, of 56 MB/s", load(70).iops(of("56"), paper), 1, "2,986.7"),
            ("3,000 IOPS, unrounded", load(70).iops(nand, paper), 0, "2,979"),
            ("50,785 IOPS, by the formula", load(70).iops(optane, paper), 0, "50,568"),
            ("50,785 IOPS, of 948 MB/s", load(70).iops(of("948"), paper), 0, "50,560"),
            ("50,785 IOPS, as 3,000 x 948 / 56", rounded_ratio.clone(), 1, "50,785.7"),
            ("write IOPS of 50,568", load(70).writes_of(of("50568")), 1, "15,170.4"),
        ],
    );
    assert_eq!(rounded_ratio.unwrap().floor(), 50_785);
}

#[test]
fn optane_2023_footnote_10_in_the_papers_units() {
    let paper = Units::Paper;
    let nand = day_mb_per_s(of("2400"), paper).unwrap();
    all(
        "Optane white paper 2023, footnote 10",
        vec![
            ("2,400 GB a day", gb_per_day(of("3"), of("800")), 0, "2,400"),
            ("28.4 MB/s", Ok(nand), 1, "28.4"),
            ("450 write IOPS", load(0).iops(nand, paper), 0, "455"),
            ("40,000 GB a day", gb_per_day(of("100"), of("400")), 0, "40,000"),
            ("470 MB/s", day_mb_per_s(of("40000"), paper), 0, "474"),
            ("16x", of("40000").over(of("2400")), 1, "16.7"),
            ("GB for GB", of("100").over(of("3")), 1, "33.3"),
        ],
    );
}

/// The tables as users see them: printed, in the paper's units, in decimal ones.
#[test]
fn optane_2023_as_shown() {
    let shown = |rows: Vec<PaperRow>| -> Vec<[String; 3]> {
        let cell = |row: &PaperRow, number: Exact| number.decimal(row.places);
        rows.iter()
            .map(|row| [row.printed.into(), cell(row, row.paper), row.si.map_or("-".into(), |si| cell(row, si))])
            .collect()
    };
    let table_1 = [
        ["8,600", "8,760", "8,760"],
        ["146,000", "146,000", "146,000"],
        ["56", "55.85", "54.54"],
        ["948", "948.15", "925.93"],
        ["3,000", "2,986.7", "-"],
        ["-", "2,978.7", "2,774.1"],
        ["50,785", "50,567.9", "47,095.0"],
        ["50,785", "50,785.7", "-"],
    ];
    assert_eq!(shown(cairn_sizing::table_1().unwrap()), table_1);
    let footnote_10 = [
        ["2,400", "2,400", "2,400"],
        ["28.4", "28.44", "27.78"],
        ["450", "455.1", "423.9"],
        ["40,000", "40,000", "40,000"],
        ["470", "474.07", "462.96"],
        ["16x", "16.67", "16.67"],
    ];
    assert_eq!(shown(cairn_sizing::footnote_10().unwrap()), footnote_10);
}

#[test]
fn optane_2023_in_si_units() {
    let (years, si) = (of("5"), Units::Si);
    all(
        "Optane white paper 2023, in decimal units",
        vec![
            ("56 MB/s", life_mb_per_s(of("8600"), years, si), 1, "54.5"),
            ("56 MB/s, nominal", life_mb_per_s(of("8760"), years, si), 1, "55.6"),
            ("948 MB/s", life_mb_per_s(of("146000"), years, si), 1, "925.9"),
            ("28.4 MB/s", day_mb_per_s(of("2400"), si), 1, "27.8"),
            ("470 MB/s", day_mb_per_s(of("40000"), si), 1, "463.0"),
        ],
    );
}

#[test]
fn optane_2023_self_checks() {
    all(
        "Optane white paper 2023, A/B table",
        vec![
            ("+42 % IOPS, -29 % latency", latency_change_percent(of("1.42")), 1, "-29.6"),
            ("+83 % IOPS, -45 % latency", latency_change_percent(of("1.83")), 1, "-45.4"),
            ("+42 % IOPS, +35 % a watt", power_ratio(of("1.42"), of("1.35")), 3, "1.052"),
            ("+83 % IOPS, +72 % a watt", power_ratio(of("1.83"), of("1.72")), 3, "1.064"),
        ],
    );
}

#[test]
fn trapped_capacity() {
    assert_eq!(BUFFER_CAPS_GB, [600, 1200, 1600]);
    let trapped = |drive: &str, cap: u64| trapped_gb(of(drive), Exact::whole(cap));
    all(
        "Optane white paper 2023 and Micron vSAN 6.7",
        vec![
            ("1.6 TB before vSAN 8", trapped("1600", 600), 0, "1,000"),
            ("1.6 TB in vSAN 8: 0.4 TB", trapped("1600", 1200), 0, "400"),
            ("1.6 TB, large write buffer", trapped("1600", 1600), 0, "0"),
            ("800 GB in vSAN 8", trapped("800", 1200), 0, "0"),
            ("Micron: 960 GB, 600 used", trapped("960", 600), 0, "360"),
        ],
    );
}

#[test]
fn micron_drives() {
    all(
        "Micron vSAN 6.7, endurance of its drives over 5 years",
        vec![
            ("5100 MAX 960 GB, 8.8 PB", dwpd(of("8800"), of("960"), of("5")), 2, "5.02"),
            ("5200 ECO 3.84 TB, 6.4 PB", dwpd(of("6400"), of("3840"), of("5")), 2, "0.91"),
        ],
    );
}

#[test]
fn a_drive_under_a_load() {
    let drive = Drive { name: "n".into(), capacity_gb: of("1600"), rating: Rating::Tbw(of("8600")) };
    let told = life(&drive, &load(70), of("5"), Units::Paper, Some(of("6000"))).unwrap();
    assert_eq!(told.iops.decimal(0), "2,979");
    assert_eq!(told.lasts_years.unwrap().decimal(2), "2.48");
    assert_eq!(told.sufficient, Some(false));
    let four = Workload { cache_drives: 4, ..load(70) };
    let told = life(&drive, &four, of("5"), Units::Paper, Some(of("6000"))).unwrap();
    assert_eq!((told.iops.decimal(0).as_str(), told.sufficient), ("11,915", Some(true)));
}

#[test]
fn iomark_2017_price() {
    let cost = iomark_list().cost(&iomark_measured()).unwrap();
    assert_eq!(cost.total_stated, Money::of_cents(24_166_357), "total");
    assert_eq!(cost.total_computed, Money::of_cents(24_163_357), "total with the line recomputed");
    assert_eq!(cost.slip, Money::of_cents(3000), "the slip");
    let [hardware, software] = &cost.support[..] else { panic!("two lines of support") };
    assert_eq!(hardware.computed, Money::of_cents(2_806_781), "3 years x (10 % of servers + 5 % of media)");
    assert_eq!(hardware.slip, Some(Money::of_cents(3000)));
    assert_eq!((software.computed, software.slip), (Money::of_cents(4_314_240), None), "24 % x 3 of 59,920, exact");
    assert_eq!(cost.by_category["software"], Money::of_cents(5_992_000));
    let [per_vm] = &cost.per[..] else { panic!("per VM only") };
    assert_eq!((per_vm.stated.decimal(2), per_vm.computed.decimal(2)), ("302.08".into(), "302.04".into()));
}

#[test]
fn iomark_2017_other_numbers() {
    let tib = of("32000000000000").over(Exact::whole(1 << 40));
    let clock = of("64.8").over(of("48.4"));
    all(
        "IOmark-VM-HC VM-HC-170711-a",
        vec![
            ("reads among I/Os", read_share_percent(of("3.67"), of("1.53"), of("3.90")), 1, "9.7"),
            ("29.1 TiB of 16 x 2 TB", tib, 1, "29.1"),
            ("CPU, 24 x 2.7 over 22 x 2.2: +34 %", clock, 2, "1.34"),
            ("375 GB caches: all of it is buffer", trapped_gb(of("375"), of("600")), 0, "0"),
        ],
    );
}

const TB: u64 = 1_000_000_000_000;

fn in_tb(bytes: u64) -> String {
    Exact::whole(bytes).over(Exact::whole(TB)).unwrap().decimal(2)
}

#[test]
fn multipliers_and_host_minima() {
    let table = [
        ("FTT 0", Protection::mirror(0).unwrap(), "1", 1),
        ("FTT 1", Protection::mirror(1).unwrap(), "2", 3),
        ("FTT 2", Protection::mirror(2).unwrap(), "3", 5),
        ("FTT 3", Protection::mirror(3).unwrap(), "4", 7),
        ("RAID-5, printed 1.33", Protection::RAID5, "1.333", 4),
        ("RAID-6", Protection::RAID6, "1.5", 6),
    ];
    for (row, protection, multiplier, hosts) in table {
        assert_eq!(protection.multiplier().unwrap().short(3), multiplier, "Micron vSAN 6.7: {row}");
        assert_eq!(protection.hosts_min(), hosts, "{row}");
        assert!(
            protection.check_hosts(u64::from(hosts)).is_ok() && protection.check_hosts(u64::from(hosts) - 1).is_err()
        );
    }
    assert_eq!(Protection::ALL.map(|p| p.hosts_min()), table.map(|row| row.3));
}

#[test]
fn micron_capacity() {
    let logical = 16_384_000_000_000;
    let raw = |protection| in_tb(Pool::of(protection).raw(logical).unwrap().raw_bytes);
    assert_eq!(raw(Protection::mirror(1).unwrap()), "32.77");
    assert_eq!(raw(Protection::RAID5), "21.85");
    assert_eq!(raw(Protection::RAID6), "24.58");
    // 16 machines of 8 disks of 128 GB.
    assert_eq!(16 * 8 * 128_000_000_000, logical);
}

#[test]
fn intel_2014_capacity() {
    let raw = 16 * 800_000_000_000;
    let pool = Pool::of(Protection::mirror(1).unwrap());
    let Capacity { raw_bytes, usable_bytes } = pool.usable(raw).unwrap();
    assert_eq!((in_tb(raw_bytes), in_tb(usable_bytes)), ("12.80".into(), "6.40".into()));
    // 64 machines of 7.5 GB in two copies are 30 % of four caches of 800 GB.
    let written = pool.raw(64 * 7_500_000_000).unwrap().raw_bytes;
    assert_eq!((written, written * 10), (960_000_000_000, 4 * 800_000_000_000 * 3));
}

#[test]
fn cache_is_a_tenth_of_what_is_written_before_copies() {
    assert_eq!(cache_bytes(20 * TB, of("10")), Ok(2 * TB));
    assert_eq!(cache_bytes(1, of("10")), Ok(1), "rounded up");
}

#[test]
fn micron_self_checks() {
    let latency = |iops: &str| mean_latency_ms(512, of(iops));
    let node = of("486099").over(of("4")).unwrap();
    let before_dedupe = Protection::RAID5.multiplier().unwrap();
    all(
        "Micron vSAN 6.7",
        vec![
            ("512 at 486,099", latency("486099"), 2, "1.05"),
            ("512 at 121K, printed 4.23", latency("121000"), 2, "4.23"),
            ("512 at 412,792", latency("412792"), 2, "1.24"),
            ("512 at 410,082", latency("410082"), 2, "1.25"),
            ("121.5K a node", Ok(node), 0, "121,525"),
            ("+143 % over 50K", Comparison::of(of("50000"), node).map(|c| c.change_percent), 0, "143"),
            ("about 2 GB/s", mb_per_s(of("486099"), 4096), 0, "1,991"),
            ("appendix C: 28.58 / 3.48", reduction_of_data(of("28.58"), of("3.48"), of("1")), 2, "8.21"),
            ("appendix C: 8.21 / 1.33", reduction_of_data(of("8.21"), of("1"), of("1.33")), 2, "6.17"),
            ("appendix C: 2.56 / 1.33", reduction_of_data(of("2.56"), of("1"), of("1.33")), 2, "1.92"),
            ("appendix C, 4/3 for 1.33", reduction_of_data(of("28.58"), of("3.48"), before_dedupe), 2, "6.16"),
        ],
    );
}

/// One model behind appendix C: before = V + 6.735 TB, after = V / 46.3 + 3.009 TB, V = logical x 4/3. Fitted on three of
/// its numbers; these come out again.
#[test]
fn micron_appendix_c_model() {
    let model = |logical: &str| {
        let data = of(logical).times(Protection::RAID5.multiplier().unwrap()).unwrap();
        let before = data.plus(of("6.735")).unwrap();
        let after = data.over(of("46.3")).unwrap().plus(of("3.009")).unwrap();
        (before.decimal(2), after.decimal(2), before.over(after).unwrap().decimal(2))
    };
    assert_eq!(model("16.384"), ("28.58".into(), "3.48".into(), "8.21".into()), "capacity test");
    assert_eq!(model("0.768"), ("7.76".into(), "3.03".into(), "2.56".into()), "cache test");
}

#[test]
fn prices_by_unit_discounts_and_energy() {
    let mut list = iomark_list();
    // 8 caches at 1,520.00 are the list's 12,160.00.
    list.items[3].quantity = 8;
    list.items[3].price = Price::Unit(Money::of_cents(152_000));
    assert_eq!(list.cost(&Measured::default()).unwrap().total_stated, Money::of_cents(24_166_357));
    // Support goes by what was paid: 10 % off the software, 10 % off its support.
    list.items[1].discount_percent = of("10");
    list.items[2].discount_percent = of("10");
    list.support = vec![SupportLine { stated: None, ..list.support[1].clone() }];
    let cost = list.cost(&Measured::default()).unwrap();
    assert_eq!(cost.support[0].computed, Money::of_cents(4_314_240 / 10 * 9));
    list.energy = Some(cairn_sizing::Energy { watts: of("2000"), price_per_kwh: of("0.15") });
    let measured = Measured { iops: Some(of("500000")), watts: Some(of("2000")), ..Measured::default() };
    let cost = PriceList { years: Exact::ONE, ..list }.cost(&measured).unwrap();
    assert_eq!((cost.energy_kwh, cost.energy), (Some(of("17520")), Some(Money::of_cents(262_800))));
    assert_eq!(cost.watts_per_1000_iops, Some(of("4")));
}
