//! `cairn bench calc capacity`.

use cairn_sizing::{
    Capacity as Bytes, ContentReport, Exact, HostsLost, Pool, Protection, SizingError, cache_bytes, hosts_lost,
};
use serde::Serialize;

use super::{both, content, yes_no};
use crate::{args::Capacity, commands::Context, fail::Fail, output};

/// Where nothing is asked: the capacity test of the Micron reference architecture, 16 machines x 8 disks x 128 GB.
const EXAMPLE_USABLE_BYTES: u64 = 16_384_000_000_000;

/// Everything that was worked out.
#[derive(Debug, Serialize)]
struct Report {
    /// Whether the size is the example's, since none was given.
    example: bool,
    hosts: Option<u64>,
    slack_percent: Exact,
    reduction: Exact,
    /// Of --content.
    content: Option<ContentReport>,
    used_bytes: Option<u64>,
    cache_percent: Exact,
    /// That much of what guests have written.
    cache_bytes: Option<u64>,
    protections: Vec<Row>,
}

/// One protection.
#[derive(Debug, Serialize)]
struct Row {
    protection: String,
    multiplier: Exact,
    hosts_min: u16,
    #[serde(flatten)]
    bytes: Option<Bytes>,
    hosts_lost: Option<HostsLost>,
    /// Why there are no numbers, where the hosts or the room do not suffice.
    refused: Option<String>,
}

/// What is asked.
#[derive(Debug, Clone, Copy)]
enum Question {
    /// What can be used of so many raw bytes?
    Raw(u64),
    /// What do so many usable bytes take?
    Usable(u64),
}

/// Works out and prints.
pub fn run(context: &Context, what: &Capacity) -> Result<(), Fail> {
    let question = question(what)?;
    let content = content::looked_at(&what.content)?;
    let reduction = content.map_or(what.reduction, |content| content.packed);
    let protections = match what.protection {
        Some(name) => vec![Protection::from(name)],
        None => Protection::ALL.to_vec(),
    };
    let mut rows = Vec::new();
    for protection in protections {
        match row(what, (question, reduction), protection) {
            Ok(row) => rows.push(row),
            // Of several, the others may do.
            Err(error) if what.protection.is_none() && refusal(&error) => {
                rows.push(Row { refused: Some(error.text), ..bare(protection)? });
            }
            Err(error) => return Err(error.into()),
        }
    }
    let report = Report {
        example: [what.raw, what.raw_per_host, what.usable, what.used].iter().all(Option::is_none),
        hosts: what.hosts,
        slack_percent: what.slack,
        reduction,
        content,
        used_bytes: what.used,
        cache_percent: what.cache_percent,
        cache_bytes: what.used.map(|used| cache_bytes(used, what.cache_percent)).transpose()?,
        protections: rows,
    };
    output::show(context.format, &report, show)
}

fn question(what: &Capacity) -> Result<Question, Fail> {
    match (what.raw, what.raw_per_host, what.hosts, what.usable) {
        (Some(raw), ..) => Ok(Question::Raw(raw)),
        (None, Some(each), Some(hosts), _) => each.checked_mul(hosts).map(Question::Raw).ok_or_else(|| {
            Fail::usage("the hosts together hold more than 16 EiB").remedy("look at the unit of --raw-per-host")
        }),
        (None, _, _, Some(usable)) => Ok(Question::Usable(usable)),
        (None, ..) => Ok(Question::Usable(what.used.unwrap_or(EXAMPLE_USABLE_BYTES))),
    }
}

fn refusal(error: &SizingError) -> bool {
    error.kind == cairn_sizing::SizingErrorKind::Hosts
}

fn bare(protection: Protection) -> Result<Row, SizingError> {
    Ok(Row {
        protection: protection.describe(),
        multiplier: protection.multiplier()?,
        hosts_min: protection.hosts_min(),
        bytes: None,
        hosts_lost: None,
        refused: None,
    })
}

fn row(what: &Capacity, (question, reduction): (Question, Exact), protection: Protection) -> Result<Row, SizingError> {
    if let Some(hosts) = what.hosts {
        protection.check_hosts(hosts)?;
    }
    let pool = Pool { protection, slack_percent: what.slack, reduction };
    let bytes = match question {
        Question::Raw(raw) => pool.usable(raw)?,
        Question::Usable(usable) => pool.raw(usable)?,
    };
    let mut row = Row { bytes: Some(bytes), ..bare(protection)? };
    if let (Some(hosts), Some(used)) = (what.hosts, what.used) {
        // What is in use is in use: slack is a rule for planning, not something that is written.
        let used_raw = Pool { slack_percent: Exact::ZERO, ..pool }.raw(used)?.raw_bytes;
        let each = bytes.raw_bytes / hosts;
        match used_raw <= each.saturating_mul(hosts) {
            true => match hosts_lost(protection, hosts, each, used_raw, what.hosts_lost) {
                Ok(lost) => row.hosts_lost = Some(lost),
                // That question has no answer here; the first table has.
                Err(error) if refusal(&error) => row.refused = Some(error.text),
                Err(error) => return Err(error),
            },
            false => row.refused = Some(format!("{} in use do not fit", both(used_raw))),
        }
    }
    Ok(row)
}

fn show(report: &Report) -> String {
    let cache = report.cache_bytes.map_or(String::new(), |bytes| {
        format!("{} in all, {} % of what guests have written", both(bytes), report.cache_percent.short(3))
    });
    let example = "without sizes: the 16 x 8 x 128 GB of the Micron vSAN 6.7 reference architecture";
    let mut text = output::pairs([
        ("example", if report.example { example.to_owned() } else { String::new() }),
        ("hosts", report.hosts.map_or(String::new(), |hosts| hosts.to_string())),
        ("slack", format!("{} % of raw", report.slack_percent.short(3))),
        ("reduction", format!("{} : 1", report.reduction.short(3))),
        ("written by guests", report.used_bytes.map_or(String::new(), both)),
        ("cache", cache),
    ]);
    if let Some(content) = &report.content {
        text += "\n\n";
        text += &content::show(content);
    }
    text += "\n\n";
    text += &output::table(
        &["protection", "multiplier", "hosts at least", "raw", "usable"],
        report.protections.iter().map(|row| {
            let (raw, usable) = match (&row.bytes, &row.refused) {
                (Some(bytes), _) => (both(bytes.raw_bytes), both(bytes.usable_bytes)),
                (None, why) => ("-".into(), why.clone().unwrap_or_default()),
            };
            vec![row.protection.clone(), row.multiplier.short(3), row.hosts_min.to_string(), raw, usable]
        }),
    );
    if report.hosts.is_some() && report.used_bytes.is_some() {
        text += "\n\n";
        text += &show_lost(report);
    }
    text
}

fn show_lost(report: &Report) -> String {
    let percent = |number: Exact| format!("{} %", number.decimal(1));
    output::table(
        &["protection", "hosts lost", "data there", "full before", "to rebuild", "full after", "redundancy comes back"],
        report.protections.iter().map(|row| {
            let mut cells = vec![row.protection.clone()];
            match (&row.hosts_lost, &row.refused) {
                (Some(lost), _) => cells.extend([
                    lost.lost.to_string(),
                    yes_no(lost.data_available),
                    percent(lost.full_before_percent),
                    lost.rebuild_bytes.map_or("-".into(), both),
                    lost.full_after_percent.map_or("-".into(), percent),
                    comes_back(lost, row.hosts_min),
                ]),
                (None, why) => {
                    cells.extend(["-", "-", "-", "-", "-"].map(str::to_owned));
                    cells.push(why.clone().unwrap_or_default());
                }
            }
            cells
        }),
    )
}

fn comes_back(lost: &HostsLost, hosts_min: u16) -> String {
    match lost {
        HostsLost { rebuilds: true, .. } => "yes".into(),
        HostsLost { data_available: false, .. } => "no: it tolerates fewer".into(),
        HostsLost { hosts_suffice: false, .. } => format!("no: {} hosts left, it needs {hosts_min}", lost.left),
        _ => format!("no: at most {} may be in use for that", both(lost.used_max_bytes)),
    }
}
