//! `cairn bench calc endurance`.

use cairn_sizing::{
    Exact, Life, PaperRow, Rating, Units, Workload, days_left, footnote_10, life, optane_drives, table_1, tbw,
};
use cairn_types::format_bytes;
use serde::Serialize;

use crate::{args::Endurance, commands::Context, fail::Fail, output};

/// Everything that was worked out.
#[derive(Debug, Serialize)]
struct Report {
    units: Units,
    years: Exact,
    block_bytes: u64,
    read_percent: Exact,
    copies: Exact,
    write_amplification: Exact,
    cache_drives: u64,
    needed_iops: Option<Exact>,
    drives: Vec<Life>,
    /// Whether the drives are the paper's, since none was given.
    example: bool,
    /// Where counters were given.
    wear: Option<Wear>,
    /// What the paper prints, where its drives and its load are looked at.
    published: Option<Published>,
}

/// A drive by its counter.
#[derive(Debug, Serialize)]
struct Wear {
    written_tb: Exact,
    days: Exact,
    used_percent: Exact,
    /// None where nothing was written.
    days_left: Option<Exact>,
}

/// The paper's numbers.
#[derive(Debug, Serialize)]
struct Published {
    source: &'static str,
    table_1: Vec<PaperRow>,
    footnote_10: Vec<PaperRow>,
}

/// Works out and prints; exit code 1 where a drive does not last as long as asked.
pub fn run(context: &Context, what: &Endurance) -> Result<(), Fail> {
    let report = work_out(what)?;
    output::show(context.format, &report, show)?;
    match report.drives.iter().any(|drive| drive.sufficient == Some(false)) {
        true => Err(Fail::found_bad()),
        false => Ok(()),
    }
}

fn work_out(what: &Endurance) -> Result<Report, Fail> {
    let units = Units::from(what.units);
    let load = Workload {
        block_bytes: what.block,
        read_percent: what.read_percent,
        copies: what.copies,
        write_amplification: what.write_amplification,
        cache_drives: what.cache_drives,
    };
    let drives = match what.drives.is_empty() {
        true => optane_drives().to_vec(),
        false => what.drives.clone(),
    };
    let lives = drives.iter().map(|drive| life(drive, &load, what.years, units, what.iops));
    let as_published = what.drives.is_empty()
        && load == Workload::paper()
        && what.years == Exact::whole(5)
        && what.iops.is_none()
        && what.written_tb.is_none();
    Ok(Report {
        units,
        years: what.years,
        block_bytes: what.block,
        read_percent: what.read_percent,
        copies: what.copies,
        write_amplification: what.write_amplification,
        cache_drives: what.cache_drives,
        needed_iops: what.iops,
        drives: lives.collect::<Result<_, _>>()?,
        example: what.drives.is_empty(),
        wear: wear(what)?,
        published: match as_published {
            true => {
                Some(Published { source: "Optane white paper 2023", table_1: table_1()?, footnote_10: footnote_10()? })
            }
            false => None,
        },
    })
}

fn wear(what: &Endurance) -> Result<Option<Wear>, Fail> {
    let (Some(written_tb), Some(days)) = (what.written_tb, what.over_days) else {
        return Ok(None);
    };
    let [drive] = &what.drives[..] else {
        return Err(Fail::usage(format!("a counter belongs to one drive, and {} are given", what.drives.len()))
            .remedy("name the drive that the counter is of with one --drive"));
    };
    let rated = match drive.rating {
        Rating::Tbw(rated) => rated,
        Rating::Dwpd(rate) => tbw(rate, drive.capacity_gb, what.years)?,
    };
    Ok(Some(Wear {
        written_tb,
        days,
        days_left: days_left(rated, written_tb, days)?,
        used_percent: written_tb.over(rated)?.times(Exact::HUNDRED)?,
    }))
}

fn show(report: &Report) -> String {
    let example = "without --drive: the two drives of the Optane white paper 2023";
    let mut text = output::pairs([
        ("example", if report.example { example.to_owned() } else { String::new() }),
        ("units", report.units.describe().to_owned()),
        (
            "load",
            format!(
                "{} blocks, {} % reads, {} copies, write amplification {}, {} cache drive{}",
                format_bytes(report.block_bytes),
                report.read_percent.short(3),
                report.copies.short(3),
                report.write_amplification.short(3),
                report.cache_drives,
                if report.cache_drives == 1 { "" } else { "s" }
            ),
        ),
        ("years", report.years.short(3)),
        ("needed", report.needed_iops.map_or(String::new(), |iops| format!("{} IOPS", iops.short(3)))),
    ]);
    text += "\n\n";
    text += &lives(report);
    text += "\n\n";
    text += &trapped(report);
    if let Some(wear) = &report.wear {
        text += "\n\n";
        text += &show_wear(wear);
    }
    if let Some(published) = &report.published {
        for (title, rows) in [("table 1", &published.table_1), ("footnote 10", &published.footnote_10)] {
            text += &format!("\n\n{}, {title}\n", published.source);
            text += &printed(rows);
        }
    }
    text
}

fn lives(report: &Report) -> String {
    let mut head = vec!["drive", "capacity", "DWPD", "TBW", "GB a day", "MB/s", "IOPS", "write IOPS"];
    if report.needed_iops.is_some() {
        head.extend(["lasts", "verdict"]);
    }
    output::table(
        &head,
        report.drives.iter().map(|drive| {
            let mut row = vec![
                drive.drive.clone(),
                format!("{} GB", drive.capacity_gb.short(3)),
                drive.dwpd.short(3),
                drive.tbw.decimal(0),
                drive.gb_per_day.decimal(0),
                drive.mb_per_s.decimal(1),
                drive.iops.decimal(0),
                drive.write_iops.decimal(0),
            ];
            if let Some(years) = drive.lasts_years {
                row.push(format!("{} years", years.decimal(1)));
                row.push(if drive.sufficient == Some(true) { "sufficient" } else { "short" }.into());
            }
            row
        }),
    )
}

fn trapped(report: &Report) -> String {
    let caps = report.drives.first().map_or(&[][..], |drive| &drive.trapped);
    let caps: Vec<String> =
        caps.iter().map(|cap| format!("at most {} GB used", Exact::whole(cap.cap_gb).decimal(0))).collect();
    let mut head = vec!["trapped of"];
    head.extend(caps.iter().map(String::as_str));
    output::table(
        &head,
        report.drives.iter().map(|drive| {
            let trapped = drive.trapped.iter().map(|cap| format!("{} GB", cap.trapped_gb.short(3)));
            std::iter::once(drive.drive.clone()).chain(trapped).collect()
        }),
    )
}

fn show_wear(wear: &Wear) -> String {
    output::pairs([
        ("written", format!("{} TB", wear.written_tb.short(3))),
        ("in days", wear.days.short(3)),
        ("used up", format!("{} %", wear.used_percent.decimal(1))),
        (
            "days left",
            match wear.days_left {
                None => "nothing was written: there is no rate to go on".into(),
                Some(left) => format!("{} at that rate", left.decimal(0)),
            },
        ),
    ])
}

fn printed(rows: &[PaperRow]) -> String {
    output::table(
        &["number", "printed", "paper units", "si units", "formula", "note"],
        rows.iter().map(|row| {
            vec![
                row.what.to_owned(),
                row.printed.to_owned(),
                row.paper.decimal(row.places),
                row.si.map_or("-".into(), |number| number.decimal(row.places)),
                row.formula.to_owned(),
                row.note.to_owned(),
            ]
        }),
    )
}
