//! What stands in a report, and that every file of results gives one.

mod data;

use cairn_report::{Run, compare, csv, html, markdown};
use cairn_study::{ArmMedia, Cell, Checks, Latency, Manifest, Results, Sample, Side, Step};
use proptest::prelude::*;

/// The cells of the row of a Markdown table that begins with these words.
fn row(text: &str, begins: &str) -> Vec<String> {
    let is_it = |line: &&str| line.trim_start_matches('|').trim_start().starts_with(begins) && line.starts_with('|');
    let line = text.lines().find(is_it).unwrap_or_else(|| panic!("no row {begins:?} in\n{text}"));
    line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect()
}

/// The part of a report below a heading, up to the next.
fn part<'a>(text: &'a str, heading: &str) -> &'a str {
    let begin = text.find(heading).unwrap_or_else(|| panic!("no {heading:?} in\n{text}"));
    let rest = &text[begin + heading.len()..];
    &rest[..rest.find("\n## ").unwrap_or(rest.len())]
}

fn pictures(html: &str) -> Vec<&str> {
    html.split("<svg class=\"plot\"").skip(1).map(|rest| rest.split("</figure>").next().unwrap()).collect()
}

#[test]
fn what_intel_printed_in_2014_comes_out_right() {
    let (manifest, results) = data::iometer_qos(1.0, true);
    let text = markdown(&manifest, &results);
    let printed = part(&text, "## As others printed it");
    let emerging = row(printed, "existing | emerging");
    assert_eq!(emerging, ["existing", "emerging", "64", "11,500", "17,000", "1.48x", "+47.8 %", "+67 %"]);
    let flash = row(printed, "emerging | all-flash");
    assert_eq!(flash[5..], ["2.32x", "+132.4 %", "+232 %"]);
    let both = row(printed, "existing | all-flash");
    assert_eq!(both[5..], ["3.43x", "+243.5 %", "more than 3x"]);
    assert!(printed.contains("never compared"));
}

#[test]
fn what_the_optane_paper_printed_comes_out_right() {
    for (study, gain) in [
        ("optane-mixed", ["1.42x", "-29 %", "-29.6 %", "1.35x", "1.052"]),
        ("optane-seqwrite", ["1.83x", "-45 %", "-45.4 %", "1.72x", "1.064"]),
    ] {
        let results = Results { study: study.into(), ..Results::default() };
        let text = markdown(&Manifest::default(), &results);
        assert_eq!(row(part(&text, "gains of the faster cache"), study)[1..], gain);
    }
}

#[test]
fn table_1_says_iops_and_what_latency_they_imply() {
    let (manifest, mut results) = data::iometer_qos(1.0, true);
    for (cell, iops) in results.cells.iter_mut().zip([1000.0, 1000.0, 1600.0]) {
        cell.total.iops = iops;
    }
    let text = markdown(&manifest, &results);
    let first = row(part(&text, "## Table 1"), "vms-4 ");
    // 4 outstanding at 1,200 a second are 3.333 ms; three values with one 50 % off have a CV of 28.9 %.
    assert_eq!(first[1..8], ["3", "1,200", "1,000", "1,600", "28.9 %", "CV", "300"]);
    assert_eq!(first[10..], ["", ""], "the first row has nothing before it");
    assert!(row(part(&text, "## Table 1"), "vms-8 ")[11].starts_with('+'));
    assert_eq!(row(part(&text, "latency of all requests"), "vms-4 ")[1], "3.333");
}

#[test]
fn shares_are_counted_at_edges_and_bounded_elsewhere() {
    let (manifest, results) = data::iometer_qos(1.0, true);
    let text = markdown(&manifest, &results);
    let four = row(part(&text, "Table 2, all-flash"), "4 VMs");
    let within: u64 = results.cells[..3].iter().map(|cell| cell.total.iometer[..5].iter().sum::<u64>()).sum();
    let all: u64 = results.cells[..3].iter().map(|cell| cell.total.requests).sum();
    assert_eq!(four[2], format!("{:.2}", within as f64 / all as f64 * 100.0));
    let eight = row(part(&text, "Table 2, all-flash"), "8 VMs");
    assert!(eight[2].contains("(-"), "more virtual machines, less in time: {eight:?}");
    assert!(text.contains("<= 30 ms (%)"));

    // Times x10: 10, 20, 50 and 100 ms are edges, 300 ms is none.
    let (manifest, results) = data::iometer_qos(10.0, false);
    let text = markdown(&manifest, &results);
    let head = row(part(&text, "Table 2, all-flash"), "configuration");
    assert_eq!(head[2..], ["<= 10 ms (%)", "<= 20 ms (%)", "<= 50 ms (%)", "<= 100 ms (%)", "<= 300 ms (%)"]);
    assert!(text.contains("x10, as the media's times are"));
}

#[test]
fn a_threshold_that_is_no_edge_has_a_range() {
    let (manifest, results) = data::iometer_qos(3.0, false);
    let text = markdown(&manifest, &results);
    let sixteen = row(part(&text, "Table 2, all-flash"), "16 VMs");
    assert!(sixteen[2].contains(".."), "3 ms is no edge of IOMeter: {sixteen:?}");
    assert!(!sixteen[6].contains(".."), "all is within 90 ms: {sixteen:?}");
}

#[test]
fn the_sweet_spot_is_the_fastest_that_keeps_99_of_100() {
    let (manifest, results) = data::iometer_qos(1.0, true);
    let text = markdown(&manifest, &results);
    let levels = part(&text, "Table 3, all-flash");
    assert_eq!(row(levels, "<= 30 ms")[1], "64 VMs");
    assert_eq!(row(levels, "<= 1 ms")[1..], ["none", "no configuration keeps it", "n/a", "n/a"]);
}

#[test]
fn differences_of_arms_check_themselves() {
    let (manifest, results) = data::optane_mixed(true);
    let text = markdown(&manifest, &results);
    let oio = row(part(&text, "optane beside nvme-nand."), "oio-128");
    let number = |cell: &String| cell.trim_end_matches([' ', '%', 'x']).parse::<f64>().unwrap();
    assert!((number(&oio[8]) - number(&oio[9])).abs() < 1.0, "a closed loop obeys Little's law: {oio:?}");
    let watts = row(part(&text, "for each watt.**"), "oio-128");
    assert!((number(&watts[6]) - 842.0 / 800.0).abs() < 0.002, "power ratio: {watts:?}");
    assert!(watts[1] == "declared" && !oio.iter().chain(&watts).any(|cell| cell == "n/a"));

    let (manifest, mut results) = data::optane_mixed(false);
    let text = markdown(&manifest, &results);
    assert_eq!(row(part(&text, "for each watt.**"), "oio-128")[1..], ["n/a"; 6]);
    assert!(text.contains("Requests a second for each watt by arm: n/a, as it was not measured."));
    // A meter that shows 0 W shows nothing.
    let nothing = Some(cairn_study::Power { watts: 0.0, source: "meter".into() });
    results.cells.iter_mut().for_each(|cell| cell.power = nothing.clone());
    assert_eq!(row(part(&markdown(&manifest, &results), "for each watt.**"), "oio-32")[1..], ["n/a"; 6]);
}

#[test]
fn plateaus_are_where_the_buffer_is_full() {
    let (manifest, results) = data::optane_seqwrite();
    let text = markdown(&manifest, &results);
    let number = |cell: &String| cell.replace([',', 'x'], "").parse::<f64>().unwrap();
    let of = |id: &str| row(part(&text, "## Write buffer"), id).iter().skip(2).map(number).collect::<Vec<_>>();
    let (slow, fast) = (of("nvme-nand/bs-1m-oio-8"), of("optane/bs-1m-oio-8"));
    for (row, speed) in [(&slow, 180.0), (&fast, 300.0)] {
        assert!((row[0] / speed - 1.0).abs() < 0.05 && (row[4] / 90.0 - 1.0).abs() < 0.1, "{row:?}");
        assert!((row[1] / row[0] - 1.048_576).abs() < 0.001, "MB/s beside MiB/s: {row:?}");
        assert!((row[7] - 1.0).abs() < 0.1, "behind the knee it is as fast as destage: {row:?}");
    }
    assert_eq!(
        pictures(&html(&manifest, &results)).len(),
        6 * 2 + 2,
        "no power; no axis on which sizes and outstanding requests have one place"
    );
}

#[test]
fn a_death_is_told_with_its_times() {
    let (manifest, results) = data::resilience();
    let text = markdown(&manifest, &results);
    let death = row(part(&text, "## Resilience: what a death cost"), "cairn/rate");
    assert_eq!(death[2..6], ["20.0", "32.0", "24.0", "12.0"]);
    assert_eq!(death[6], "3.00");
    assert_eq!(death[7], "100.0 %");
    assert_eq!(death[9..], ["0", "12,345", "0"]);
    let page = html(&manifest, &results);
    for mark in ["kill host-2", "restart host-2", "healthy again"] {
        assert_eq!(page.matches(&format!(">{mark}</text>")).count(), 2, "{mark} stands in both pictures");
    }
}

#[test]
fn what_ended_early_says_so_first() {
    let (manifest, mut results) = data::iometer_qos(1.0, true);
    results.ended_early = Some("the target went away".into());
    results.cells.truncate(4);
    results.cells[3].checks.broken = Some("read: connection reset".into());
    let text = markdown(&manifest, &results);
    let head = text.split("\n## ").next().unwrap();
    assert!(head.contains("Incomplete: the study ended early (the target went away)"), "{head}");
    assert!(head.contains("1 of 4 repeats broke; they count in no mean"), "{head}");
    assert_eq!(row(part(&text, "## Table 1"), "vms-8")[1..3], ["0 of 1", "n/a"]);
    assert!(html(&manifest, &results).contains("class=\"warning\""));
}

#[test]
fn every_picture_carries_its_stamp_and_units() {
    for (manifest, results) in
        [data::iometer_qos(10.0, false), data::optane_mixed(true), data::optane_seqwrite(), data::resilience()]
    {
        let page = html(&manifest, &results);
        assert!(!page.contains("<script") && !page.contains("http-equiv"), "no script");
        let links = page.replace("http://www.w3.org/2000/svg", "");
        assert!(!links.contains("http://") && !links.contains("https://"), "no network");
        for picture in pictures(&page) {
            assert!(picture.contains("class=\"stamp\""), "{picture}");
            let titles =
                picture.split("class=\"axis-title\"").skip(1).map(|rest| rest.split("</text>").next().unwrap());
            assert!(titles.clone().count() >= 2);
            assert!(titles.clone().all(|title| title.ends_with(')')), "a unit in parentheses: {picture}");
        }
    }
    let (manifest, results) = data::iometer_qos(10.0, false);
    let page = html(&manifest, &results);
    for title in ["full range", "0 to 20 ms (2 ms x10)", "0 to 300 ms (30 ms x10)"] {
        assert_eq!(page.matches(&format!("within a time, {title}</title>")).count(), 2, "{title}");
    }
    assert!(page.contains("modelled media, times x10</text>"));
}

#[test]
fn csv_has_units_in_its_names_and_a_row_for_each_repeat() {
    let (manifest, mut results) = data::iometer_qos(10.0, false);
    results.cells[0].checks.doubts = vec!["one, \"two\"".into()];
    let text = csv(&manifest, &results);
    let lines: Vec<&str> = text.split("\r\n").collect();
    assert_eq!(lines[0], include_str!("csv-header.txt").trim_end());
    assert_eq!(lines.len(), 1 + 30 + 1);
    assert!(lines[1].contains("\"one, \"\"two\"\"\""));
    assert!(
        lines[2]
            .starts_with("iometer-qos,quick,7,nvme-nand,sata-ssd,10,all-flash,all-flash/vms-4,2,4,4,4096,70,100,4,,")
    );
    let columns = lines[0].split(',').count();
    assert!(lines[2..31].iter().all(|line| line.split(',').count() == columns));
}

#[test]
fn runs_are_compared_after_their_loads() {
    let (manifest, results) = data::optane_mixed(false);
    let run = |name, manifest, results| Run { name, manifest, results };
    let same = compare(&[run("a", &manifest, &results), run("b", &manifest, &results)]);
    assert!(same.contains("Same load: yes"), "{same}");
    assert_eq!(row(&same, "optane/oio-64")[3..5], ["1.00x", "0.0 %"]);

    let (mut other, mut faster) = (manifest.clone(), results.clone());
    other.seed = 8;
    other.parameters.insert("measure".into(), "4 s".into());
    faster.cells.iter_mut().for_each(|cell| cell.total.iops *= 2.0);
    let told = compare(&[run("a", &manifest, &results), run("b", &other, &faster)]);
    assert_eq!(row(&told, "seed"), ["seed", "7", "8"]);
    assert_eq!(row(&told, "measure"), ["measure", "8 s", "4 s"]);
    assert_eq!(row(&told, "optane/oio-64")[3..5], ["2.00x", "+100.0 %"]);
    assert_eq!(row(&told, "optane/oio-64")[13], "apart");
    assert_eq!(compare(&[]), "Nothing to compare.\n");
}

#[test]
fn the_same_input_gives_the_same_bytes() {
    let (manifest, results) = data::optane_seqwrite();
    assert_eq!(html(&manifest, &results), html(&manifest, &results));
}

fn any_number() -> impl Strategy<Value = f64> {
    prop_oneof![Just(0.0), Just(-1.0), Just(1e300), Just(f64::NAN), Just(f64::INFINITY), 0.0..1e6]
}

fn any_side() -> impl Strategy<Value = Side> {
    let bins = prop::collection::vec((0u64..1 << 40, 0u64..1000), 0..4);
    let iometer = prop::collection::vec(0u64..1000, 0..23);
    (0u64..10_000, any_number(), any::<bool>(), bins, iometer).prop_map(|(requests, value, has, bins, iometer)| Side {
        requests,
        bytes: requests,
        iops: value,
        bytes_per_s: value,
        latency: has.then(|| Latency { mean_ns: value, max_ns: requests, ..Latency::default() }),
        iometer,
        bins,
    })
}

fn any_cell() -> impl Strategy<Value = Cell> {
    let id = prop_oneof![Just("a/vms-4".to_owned()), Just("b/oio-8".to_owned()), Just(String::new()), ".{0,9}"];
    let sample = (0u64..5000, 0u64..100, any::<u64>()).prop_map(|(until_ms, requests, bytes)| Sample {
        until_ms,
        requests,
        written_bytes: bytes,
        read_bytes: bytes,
        failed: bytes,
        ..Sample::default()
    });
    let samples = prop::collection::vec(sample, 0..12);
    (id, any_side(), any_number(), samples, any::<bool>(), 0u32..100).prop_map(
        |(id, side, value, samples, broken, vms)| {
            let mut cell = Cell { repeat: vms, reads: side.clone(), total: side, samples, ..Cell::default() };
            cell.params.arm = id.split('/').next().unwrap_or_default().into();
            cell.id = id;
            (cell.params.vms, cell.params.outstanding) = (vms, vms / 2);
            cell.params.rate_per_s = broken.then_some(value);
            cell.checks =
                Checks { harness_cpu: value, broken: broken.then(|| "it < broke |".into()), ..Checks::default() };
            cell
        },
    )
}

const STUDIES: [&str; 6] = ["iometer-qos", "optane-mixed", "optane-seqwrite", "resilience", "", "another"];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Whatever the file says, there is a report, and no number in it that is none.
    #[test]
    fn every_file_gives_a_report(
        cells in prop::collection::vec(any_cell(), 0..7),
        study in 0usize..STUDIES.len(),
        dilation in any_number(),
        began_ms in any::<u64>(),
    ) {
        let media = ArmMedia { arm: "a".into(), cache: "optane".into(), capacity: "b".into(), dilation, data_strips: 0, saves: false };
        let action = cairn_study::Action::Kill { host: "<h>".into() };
        let step = Step { arm: "a".into(), action, began_ms, ended_ms: 5, phases: Vec::new(), before: None, after: None };
        let manifest = Manifest { media: vec![media], steps: vec![step], ..Manifest::default() };
        let results = Results { study: STUDIES[study].into(), cells, ..Results::default() };
        let page = html(&manifest, &results);
        for text in [&page, &markdown(&manifest, &results), &csv(&manifest, &results)] {
            let wrong = ["NaN", "inf,", "inf ", "inf\""].iter().find(|wrong| text.contains(**wrong));
            prop_assert!(wrong.is_none(), "{wrong:?} in {text}");
        }
        let run = Run { name: "a", manifest: &manifest, results: &results };
        compare(&[run, run]);
    }
}
