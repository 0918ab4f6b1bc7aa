//! The price list as a file: TOML or JSON.
//!
//! Promises    a wrong list is told with file and line, or with file and item; an unknown key is an error
//!             amounts are read as they are typed: 76615.36 is 7,661,536 cents and never a float's neighbour
//! Not here    what it adds up to (`cairn-sizing`)

use std::{fmt, fs, path::Path};

use cairn_sizing::{Energy, Exact, Item, Measured, Money, Price, PriceList, SupportLine, SupportRate};
use serde::{Deserialize, Deserializer, de};

use crate::fail::Fail;

/// The file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PriceFile {
    name: Option<String>,
    currency: Option<String>,
    years: Number,
    item: Vec<FileItem>,
    #[serde(default)]
    support: Vec<FileSupport>,
    #[serde(default)]
    measured: FileMeasured,
    energy: Option<FileEnergy>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileItem {
    name: String,
    category: String,
    #[serde(default = "one")]
    quantity: u64,
    unit: Option<Amount>,
    extended: Option<Amount>,
    discount_percent: Option<Number>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileSupport {
    name: String,
    rates: Vec<FileRate>,
    stated: Option<Amount>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileRate {
    category: String,
    percent_per_year: Number,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileMeasured {
    vms: Option<Number>,
    desktops: Option<Number>,
    iops: Option<Number>,
    usable_tb: Option<Number>,
    watts: Option<Number>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileEnergy {
    watts: Number,
    price_per_kwh: Number,
}

fn one() -> u64 {
    1
}

/// Reads the list at `path`.
pub fn read(path: &Path) -> Result<(PriceList, Measured), Fail> {
    let at = path.display();
    let text = fs::read_to_string(path).map_err(|error| {
        Fail::refused(format!("cannot read the price list {at}: {error}"))
            .remedy("name a TOML or JSON file, or none for the published example")
    })?;
    let file = match path.extension().is_some_and(|end| end.eq_ignore_ascii_case("json")) {
        true => serde_json::from_str(&text).map_err(|error| format!("{at}: {error}")),
        false => toml::from_str(&text).map_err(|error: toml::de::Error| {
            let line = error.span().map_or(1, |span| text[..span.start.min(text.len())].matches('\n').count() + 1);
            format!("{at}:{line}: {}", error.message().trim_end())
        }),
    };
    let file: PriceFile = file.map_err(|text| Fail::usage(text).remedy(REMEDY))?;
    list(file, path)
}

/// What a price list looks like, in one line.
const REMEDY: &str = "see docs/bench/calculators.md for a price list with all its keys";

fn list(file: PriceFile, path: &Path) -> Result<(PriceList, Measured), Fail> {
    let number = |number: Option<Number>| number.map(|n| n.0);
    let measured = Measured {
        vms: number(file.measured.vms),
        desktops: number(file.measured.desktops),
        iops: number(file.measured.iops),
        usable_tb: number(file.measured.usable_tb),
        watts: number(file.measured.watts),
    };
    let items = file.item.into_iter().enumerate().map(|(n, item)| item.into_item(n + 1, path));
    let list = PriceList {
        name: file.name.unwrap_or_else(|| path.display().to_string()),
        currency: file.currency.unwrap_or_default(),
        years: file.years.0,
        items: items.collect::<Result<_, _>>()?,
        support: file.support.into_iter().map(FileSupport::into_line).collect(),
        energy: file.energy.map(|e| Energy { watts: e.watts.0, price_per_kwh: e.price_per_kwh.0 }),
    };
    Ok((list, measured))
}

impl FileItem {
    fn into_item(self, at: usize, path: &Path) -> Result<Item, Fail> {
        let place = format!("{}: item {at}, {:?}", path.display(), self.name);
        let price = match (self.unit, self.extended) {
            (Some(one), None) => Price::Unit(one.0),
            (None, Some(all)) => Price::Extended(all.0),
            (given, _) => {
                let what = if given.is_some() { "has both unit and extended" } else { "has no price" };
                return Err(Fail::usage(format!("{place}, {what}"))
                    .remedy("give unit, the price of one, or extended, the price of all of them"));
            }
        };
        Ok(Item {
            name: self.name,
            category: self.category,
            quantity: self.quantity,
            price,
            discount_percent: self.discount_percent.map_or(Exact::ZERO, |percent| percent.0),
        })
    }
}

impl FileSupport {
    fn into_line(self) -> SupportLine {
        let rate = |r: FileRate| SupportRate { category: r.category, percent_per_year: r.percent_per_year.0 };
        SupportLine {
            name: self.name,
            rates: self.rates.into_iter().map(rate).collect(),
            stated: self.stated.map(|amount| amount.0),
        }
    }
}

/// An amount of money: 3495, 76615.36, "76,615.36".
#[derive(Debug)]
struct Amount(Money);

/// A number: 3, 0.15, "0.15".
#[derive(Debug)]
struct Number(Exact);

impl<'de> Deserialize<'de> for Amount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let typed = deserializer.deserialize_any(Typed)?;
        Money::parse(&typed).map(Self).map_err(|error| de::Error::custom(format!("{error}: {}", error.remedy)))
    }
}

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let typed = deserializer.deserialize_any(Typed)?;
        Exact::parse(&typed).map(Self).map_err(|error| de::Error::custom(format!("{error}: {}", error.remedy)))
    }
}

/// A number or a text, as the text that was typed.
struct Typed;

impl de::Visitor<'_> for Typed {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number, or a text with one")
    }
    fn visit_str<E: de::Error>(self, text: &str) -> Result<String, E> {
        Ok(text.to_owned())
    }
    fn visit_i64<E: de::Error>(self, number: i64) -> Result<String, E> {
        Ok(number.to_string())
    }
    fn visit_u64<E: de::Error>(self, number: u64) -> Result<String, E> {
        Ok(number.to_string())
    }
    /// The shortest text that reads back as the same float is what was typed, as long as that had 15 digits or fewer.
    fn visit_f64<E: de::Error>(self, number: f64) -> Result<String, E> {
        let text = number.to_string();
        match text.bytes().filter(u8::is_ascii_digit).count() {
            0..=15 => Ok(text),
            _ => Err(E::custom(format!("{text} has more than 15 digits: write it as a text, in quotes"))),
        }
    }
}
