//! What others printed of the same load on other hardware: in a part of its own, with hollow marks, compared with nothing above.

use cairn_sizing::{Exact, latency_change_percent, power_ratio};

use super::picture;
use crate::{
    document::{Block, Section},
    number::{NOT_KNOWN, rate, ratio_and_change, signed_exact},
    plot::{Axis, Kind, LinePlot, Series},
    reference::{Reference, references_of},
    table::Table,
};

/// A part for the reports after which the study is built; none where there are none.
pub fn section(study: &str) -> Option<Section> {
    let mut blocks = Vec::new();
    for reference in references_of(study) {
        let other = "On other hardware, never compared with the numbers above, and part of no verdict.";
        blocks.push(Block::Text(format!("As printed in: {} ({}). {other}", reference.source, reference.load)));
        let mut hardware = Table::new("Hardware", 2, &["configuration", "devices"]);
        reference.hardware.iter().for_each(|row| hardware.row(row.clone()));
        blocks.push(Block::Table(hardware));
        if !reference.iops.is_empty() {
            blocks.push(picture(&plot(&reference)));
            blocks.push(Block::Table(comparisons(&reference)));
        }
        for printed in &reference.tables {
            blocks.push(Block::Table(Table {
                title: format!("As printed in {}: {}", reference.year, printed.title),
                note: String::new(),
                head: printed.head.clone(),
                words: printed.words,
                rows: printed.rows.clone(),
            }));
        }
        if reference.gains.iter().any(|gain| gain.study == study) {
            blocks.push(Block::Table(gains(&reference, study)));
        }
        if !reference.errata.is_empty() {
            let mut errata = Table::new("Errata", 2, &["printed", "by its own numbers"]);
            reference.errata.iter().for_each(|row| errata.row(row.clone()));
            blocks.push(Block::Table(errata));
        }
    }
    Section::of("As others printed it", blocks)
}

fn plot(reference: &Reference) -> LinePlot {
    let point = |name: &str| {
        let own = reference.iops.iter().filter(|iops| iops.configuration == name);
        own.map(|iops| (f64::from(iops.vms), iops.iops)).collect::<Vec<_>>()
    };
    let series = reference.hardware.iter().enumerate().map(|(style, [name, _])| Series {
        name: format!("{name} (as printed)"),
        points: point(name),
        style,
        kind: Kind::Hollow,
        on_right: false,
    });
    let most = reference.iops.iter().fold(0.0, |most: f64, iops| most.max(iops.iops));
    let vms = reference.iops.iter().map(|iops| iops.vms).max().unwrap_or(0);
    LinePlot {
        title: format!("As printed in {}: requests a second", reference.year),
        caption: format!("{}; other hardware, never compared", reference.source),
        x: Axis::from_zero("virtual machines (count)", vms.into()),
        left: Axis::from_zero("requests a second (1/s)", most),
        right: None,
        series: series.collect(),
        marks: Vec::new(),
    }
}

fn comparisons(reference: &Reference) -> Table {
    let head = ["before", "after", "VMs", "IOPS before", "IOPS after", "ratio", "change", "printed"];
    let mut table = Table::new(format!("As printed in {}, compared anew", reference.year), 2, &head);
    for compared in &reference.compared {
        let before = reference.iops_of(&compared.before, compared.vms);
        let after = reference.iops_of(&compared.after, compared.vms);
        let [ratio, change] = ratio_and_change(before, after);
        let names = [compared.before.clone(), compared.after.clone(), compared.vms.to_string()];
        table.row(names.into_iter().chain([rate(before), rate(after), ratio, change, compared.printed.clone()]));
    }
    table
}

fn gains(reference: &Reference, study: &str) -> Table {
    let head = ["study", "IOPS", "mean latency as printed", "by 1/ratio - 1", "IOPS per watt", "power ratio"];
    let mut table = Table::new(format!("As printed in {}: gains of the faster cache", reference.year), 1, &head);
    for gain in reference.gains.iter().filter(|gain| gain.study == study) {
        let (iops, per_watt) = (Exact::parse(&gain.iops).ok(), Exact::parse(&gain.iops_per_watt).ok());
        let expected = iops.and_then(|iops| latency_change_percent(iops).ok());
        let power = iops.zip(per_watt).and_then(|(iops, per_watt)| power_ratio(iops, per_watt).ok());
        let or_not = |text: Option<String>| text.unwrap_or_else(|| NOT_KNOWN.into());
        table.row([
            gain.study.clone(),
            format!("{}x", gain.iops),
            gain.latency_printed.clone(),
            or_not(expected.map(|percent| format!("{} %", signed_exact(percent, 1)))),
            format!("{}x", gain.iops_per_watt),
            or_not(power.map(|power| power.decimal(3))),
        ]);
    }
    table
}
