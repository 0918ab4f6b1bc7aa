//! `cairn bench calc compare`.

use cairn_sizing::{Comparison, Exact, SizingError, latency_change_percent, power_ratio};
use serde::Serialize;

use super::signed_percent;
use crate::{args::Compare, commands::Context, fail::Fail, output};

/// Comparisons that reports print: label, before, after, ratio of IOPS per watt, as printed. IOPS unless the label says so.
const PUBLISHED: [(&str, &str, &str, Option<&str>, &str); 4] = [
    ("Intel 2014, E5 v2 to v3 hosts", "11500", "17000", None, "+67 %"),
    ("Intel 2014, hybrid to all-flash", "17000", "39500", None, "+232 %"),
    ("Optane 2023, mixed (ratio only)", "1", "1.42", Some("1.35"), "latency -29 %"),
    ("Optane 2023, writes (ratio only)", "1", "1.83", Some("1.72"), "latency -45 %"),
];

/// One comparison.
#[derive(Debug, Serialize)]
struct Row {
    label: String,
    #[serde(flatten)]
    comparison: Comparison,
    /// At equal outstanding I/O.
    latency_change_percent: Exact,
    /// Where a ratio of IOPS per watt is known.
    power_ratio: Option<Exact>,
    /// What a report says.
    printed: Option<&'static str>,
}

/// Works out and prints.
pub fn run(context: &Context, what: &Compare) -> Result<(), Fail> {
    let rows = match (what.before, what.after) {
        (Some(before), Some(after)) => vec![row(String::new(), before, after, what.per_watt, None)?],
        _ => published()?,
    };
    output::show(context.format, &rows, |rows| show(rows))
}

fn published() -> Result<Vec<Row>, SizingError> {
    PUBLISHED
        .iter()
        .map(|(label, before, after, per_watt, printed)| {
            let per_watt = per_watt.map(Exact::parse).transpose()?;
            row((*label).to_owned(), Exact::parse(before)?, Exact::parse(after)?, per_watt, Some(printed))
        })
        .collect()
}

fn row(
    label: String,
    before: Exact,
    after: Exact,
    per_watt: Option<Exact>,
    printed: Option<&'static str>,
) -> Result<Row, SizingError> {
    let comparison = Comparison::of(before, after)?;
    Ok(Row {
        label,
        comparison,
        latency_change_percent: latency_change_percent(comparison.ratio)?,
        power_ratio: per_watt.map(|ratio| power_ratio(comparison.ratio, ratio)).transpose()?,
        printed,
    })
}

fn show(rows: &[Row]) -> String {
    let labelled = rows.iter().any(|row| row.printed.is_some());
    let mut head =
        vec!["before", "after", "ratio", "change", "the other way", "latency at equal outstanding I/O", "power"];
    if labelled {
        head.insert(0, "comparison");
        head.push("printed");
    }
    output::table(
        &head,
        rows.iter().map(|row| {
            let comparison = &row.comparison;
            let mut cells = vec![
                comparison.before.short(6),
                comparison.after.short(6),
                comparison.ratio.decimal(3),
                signed_percent(comparison.change_percent),
                comparison.inverse_ratio.decimal(3),
                signed_percent(row.latency_change_percent),
                row.power_ratio.map_or("-".into(), |ratio| format!("x {}", ratio.decimal(3))),
            ];
            if labelled {
                cells.insert(0, row.label.clone());
                cells.push(row.printed.unwrap_or_default().to_owned());
            }
            cells
        }),
    )
}
