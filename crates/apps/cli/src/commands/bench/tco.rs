//! `cairn bench calc tco`.

use cairn_sizing::{Cost, Energy, Measured, Money, PriceList, iomark_list, iomark_measured};
use serde::Serialize;

use super::price_file;
use crate::{args::Tco, commands::Context, fail::Fail, output};

/// The cost, and what is to be known with it.
#[derive(Debug, Serialize)]
struct Report {
    #[serde(flatten)]
    cost: Cost,
    notes: Vec<String>,
}

/// Works out and prints.
pub fn run(context: &Context, what: &Tco) -> Result<(), Fail> {
    let (mut list, file_measured) = match &what.file {
        Some(path) => price_file::read(path)?,
        None => (iomark_list(), iomark_measured()),
    };
    let measured = Measured {
        vms: what.vms.or(file_measured.vms),
        desktops: what.desktops.or(file_measured.desktops),
        iops: what.iops.or(file_measured.iops),
        usable_tb: what.usable_tb.or(file_measured.usable_tb),
        watts: what.watts.or(file_measured.watts),
    };
    let mut notes = adjust(&mut list, what, &measured)?;
    let cost = list.cost(&measured)?;
    notes.extend(slips(&cost));
    output::show(context.format, &Report { cost, notes }, show)
}

/// Years and energy as the flags have them; what that leaves out, in words.
fn adjust(list: &mut PriceList, what: &Tco, measured: &Measured) -> Result<Vec<String>, Fail> {
    let mut notes = Vec::new();
    if let Some(years) = what.years.filter(|years| *years != list.years) {
        for line in list.support.iter_mut() {
            if line.stated.take().is_some() {
                let stated_for = list.years.short(3);
                notes.push(format!("{:?} was stated for {stated_for} years: its rates are taken instead", line.name));
            }
        }
        list.years = years;
    }
    let watts = measured.watts.or(list.energy.map(|energy| energy.watts));
    let price_per_kwh = what.kwh_price.or(list.energy.map(|energy| energy.price_per_kwh));
    list.energy = match (watts, price_per_kwh) {
        (Some(watts), Some(price_per_kwh)) => Some(Energy { watts, price_per_kwh }),
        (None, Some(_)) => {
            return Err(Fail::usage("a kWh has a price, and nothing says how many are drawn").remedy("add --watts"));
        }
        (_, None) => None,
    };
    Ok(notes)
}

/// What an offer states otherwise than its own rates give.
fn slips(cost: &Cost) -> Vec<String> {
    let slipped = cost.support.iter().filter_map(|line| Some((line, line.stated?, line.slip?)));
    slipped
        .map(|(line, stated, slip)| {
            format!("{:?} is stated as {stated}; its rates give {}: a difference of {slip}", line.name, line.computed)
        })
        .collect()
}

fn show(report: &Report) -> String {
    let cost = &report.cost;
    let mut text = output::pairs([
        ("price list", cost.name.clone()),
        ("years", cost.years.short(3)),
        ("currency", cost.currency.clone()),
    ]);
    text += "\n\n";
    text += &lines(cost);
    if !cost.per.is_empty() {
        text += "\n\n";
        text += &per(cost);
    }
    if let Some(watts) = cost.watts_per_1000_iops {
        text += &format!("\n\n{} W for 1,000 IOPS", watts.short(3));
    }
    for note in &report.notes {
        text += &format!("\n\nNOTE: {note}");
    }
    text
}

/// Whether two totals are to be told.
fn differ(cost: &Cost) -> bool {
    cost.support.iter().any(|line| line.slip.is_some())
}

fn lines(cost: &Cost) -> String {
    let line = |name: &str, category: &str, quantity: String, stated: Money, computed: Money| {
        let mut row = vec![name.to_owned(), category.to_owned(), quantity, stated.to_string()];
        if differ(cost) {
            row.push(computed.to_string());
        }
        row
    };
    let mut rows: Vec<_> =
        cost.items.iter().map(|i| line(&i.name, &i.category, i.quantity.to_string(), i.extended, i.extended)).collect();
    rows.extend(
        cost.support.iter().map(|s| line(&s.name, &s.rates, String::new(), s.stated.unwrap_or(s.computed), s.computed)),
    );
    if let (Some(kwh), Some(energy)) = (cost.energy_kwh, cost.energy) {
        rows.push(line("energy", &format!("{} kWh", kwh.decimal(0)), String::new(), energy, energy));
    }
    rows.push(line("total", "", String::new(), cost.total_stated, cost.total_computed));
    let mut head = vec!["line", "category or rate", "quantity", "price"];
    if differ(cost) {
        head[3] = "as stated";
        head.push("recomputed");
    }
    output::table(&head, rows)
}

fn per(cost: &Cost) -> String {
    let mut head = vec!["for one", "of", "price"];
    if differ(cost) {
        head[2] = "as stated";
        head.push("recomputed");
    }
    output::table(
        &head,
        cost.per.iter().map(|per| {
            let mut row = vec![per.unit.to_owned(), per.count.short(3), per.stated.decimal(places(per.unit))];
            if differ(cost) {
                row.push(per.computed.decimal(places(per.unit)));
            }
            row
        }),
    )
}

/// An IOPS costs parts of a cent.
fn places(unit: &str) -> u32 {
    if unit == "IOPS" { 4 } else { 2 }
}
