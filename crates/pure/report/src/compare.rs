//! Several folders of results beside each other: was it the same load, and what differs.
//!
//! Promises    C1  what differs in how the numbers came to be is told before any number
//!             C2  where the repeats of two runs overlap, the difference is told to lie within them

use cairn_study::{ArmMedia, Manifest, Params, Results};

use crate::{
    group::{Config, arms},
    number::{NOT_KNOWN, ms, rate, ratio_and_change},
    table::Table,
};

/// One folder of results.
#[derive(Debug, Clone, Copy)]
pub struct Run<'a> {
    /// What it is called: its folder.
    pub name: &'a str,
    /// How its numbers came to be.
    pub manifest: &'a Manifest,
    /// Its numbers.
    pub results: &'a Results,
}

/// The comparison, as Markdown that also reads well in a terminal. The first run is the one that others are compared with.
pub fn compare(runs: &[Run<'_>]) -> String {
    let Some((first, others)) = runs.split_first() else {
        return "Nothing to compare.\n".into();
    };
    let mut text = String::new();
    for run in runs {
        let ended = run.results.ended_early.as_ref().map_or_else(String::new, |why| format!(" INCOMPLETE: {why}"));
        text.push_str(&format!("{}: {}{ended}\n", run.name, run.results.caption));
    }
    for other in others {
        text.push('\n');
        text.push_str(&same_load(first, other));
        text.push('\n');
        text.push_str(&numbers(first, other).markdown());
    }
    text
}

/// What differs between how two runs were made, one row for each key.
fn same_load(first: &Run<'_>, other: &Run<'_>) -> String {
    let differences = differences(first, other);
    if differences.is_empty() {
        return "Same load: yes. Study, scale, seed, parameters, target, media and what each cell asked for are equal.\n".into();
    }
    let mut table = Table::new("Same load: NO", 3, &["what differs", first.name, other.name])
        .note("Whatever stands here may be the cause of a difference below.");
    differences.into_iter().for_each(|row| table.row(row));
    table.markdown()
}

fn differences(first: &Run<'_>, other: &Run<'_>) -> Vec<[String; 3]> {
    let (a, b) = (first.manifest, other.manifest);
    let mut rows = Vec::new();
    let mut differ = |name: &str, a: String, b: String| {
        if a != b {
            rows.push([name.to_owned(), a, b]);
        }
    };
    differ("study", a.study.clone(), b.study.clone());
    differ("scale", a.scale.clone(), b.scale.clone());
    differ("version", a.version.clone(), b.version.clone());
    differ("seed", a.seed.to_string(), b.seed.to_string());
    differ("machine", format!("{:?}", a.machine), format!("{:?}", b.machine));
    differ("target", a.target.description.clone(), b.target.description.clone());
    differ("policy", a.target.policy.clone(), b.target.policy.clone());
    differ("hosts", a.target.hosts.to_string(), b.target.hosts.to_string());
    differ("write buffer (bytes)", a.target.buffer_bytes.to_string(), b.target.buffer_bytes.to_string());
    differ("read cache (bytes)", a.target.read_cache_bytes.to_string(), b.target.read_cache_bytes.to_string());
    for name in a.parameters.keys().chain(b.parameters.keys().filter(|name| !a.parameters.contains_key(*name))) {
        let of = |manifest: &Manifest| manifest.parameters.get(name).map_or("not told", String::as_str).to_owned();
        differ(name, of(a), of(b));
    }
    let media = |manifest: &Manifest, arm: &str| {
        manifest.media.iter().find(|media| media.arm == arm).map_or("not told".into(), media_in_words)
    };
    let of_other = b.media.iter().filter(|media| a.media.iter().all(|own| own.arm != media.arm));
    for arm in a.media.iter().chain(of_other).map(|media| media.arm.as_str()) {
        differ(&format!("media of {arm}"), media(a, arm), media(b, arm));
    }
    cells(first, other, &mut differ);
    rows
}

fn media_in_words(media: &ArmMedia) -> String {
    format!("{} + {} x{}", media.cache, media.capacity, crate::number::short(media.dilation))
}

/// Cells that only one run has, or that asked for something else.
fn cells(first: &Run<'_>, other: &Run<'_>, differ: &mut impl FnMut(&str, String, String)) {
    let find = |run: &Run<'_>, id: &str| run.results.cells.iter().find(|cell| cell.id == id).map(|c| c.params.clone());
    let mut ids: Vec<&str> = Vec::new();
    for cell in first.results.cells.iter().chain(&other.results.cells) {
        if !ids.contains(&cell.id.as_str()) {
            ids.push(&cell.id);
        }
    }
    for id in ids {
        let words = |params: Option<Params>| params.map_or("not there".into(), |params| in_words(&params));
        differ(&format!("cell {id}"), words(find(first, id)), words(find(other, id)));
    }
}

fn in_words(params: &Params) -> String {
    let pace =
        params.rate_per_s.map_or_else(|| format!("{} outstanding", params.outstanding), |rate| format!("{rate}/s"));
    format!(
        "{} VMs, {} disks of {} bytes, {} bytes, {} % read, {} % random, {pace}",
        params.vms, params.disks, params.span_bytes, params.request_bytes, params.read_percent, params.random_percent
    )
}

fn numbers(first: &Run<'_>, other: &Run<'_>) -> Table {
    let head = [
        "configuration",
        "IOPS before",
        "IOPS after",
        "ratio",
        "change",
        "mean before (ms)",
        "mean after (ms)",
        "ratio",
        "change",
        "p99 before (ms)",
        "p99 after (ms)",
        "ratio",
        "change",
        "IOPS of repeats",
    ];
    let mut table = Table::new(format!("{} beside {}", other.name, first.name), 1, &head)
        .note(format!("Before: {}; after: {}.", first.name, other.name));
    let (before, after) = (arms(first.manifest, first.results), arms(other.manifest, other.results));
    let configs = after.iter().flat_map(|arm| &arm.configs);
    for config in before.iter().flat_map(|arm| &arm.configs) {
        if let Some(other) = configs.clone().find(|other| other.id == config.id) {
            table.row(row(config, other));
        }
    }
    if table.rows.is_empty() {
        // Two arms of one study each in a folder of its own: ids differ, what comes after the arm does not.
        for config in before.iter().flat_map(|arm| &arm.configs) {
            if let Some(other) = configs.clone().find(|other| other.short_id() == config.short_id()) {
                table.row(row(config, other));
            }
        }
    }
    table
}

fn row(before: &Config<'_>, after: &Config<'_>) -> Vec<String> {
    let iops = |config: &Config<'_>| config.iops().map(|iops| iops.mean);
    let p99 = |config: &Config<'_>| config.merged().and_then(|merged| merged.quantile_ns(cairn_measure::Quantile::P99));
    let [iops_ratio, iops_change] = ratio_and_change(iops(before), iops(after));
    let [mean_ratio, mean_change] = ratio_and_change(before.mean_ns(), after.mean_ns());
    let [p99_ratio, p99_change] = ratio_and_change(p99(before), p99(after));
    let apart = before.iops().zip(after.iops()).map(|(a, b)| match a.max < b.min || b.max < a.min {
        true => "apart",
        false => "overlap",
    });
    vec![
        before.id.to_owned(),
        rate(iops(before)),
        rate(iops(after)),
        iops_ratio,
        iops_change,
        ms(before.mean_ns()),
        ms(after.mean_ns()),
        mean_ratio,
        mean_change,
        ms(p99(before)),
        ms(p99(after)),
        p99_ratio,
        p99_change,
        apart.unwrap_or(NOT_KNOWN).into(),
    ]
}
