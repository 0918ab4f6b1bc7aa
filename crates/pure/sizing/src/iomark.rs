//! The price list that the calculator shows where it is given none: a published one, with its slip.
//!
//! Source      IOmark-VM-HC report VM-HC-170711-a (July 2017), table 8: four hosts, 800 VMs, three years. Which line is
//!             which follows from the report's own rates: 10 % of the first and 5 % of the two of media, and 24 % of the
//!             two of software, give its two lines of support

use crate::{
    cost::{Item, Measured, Price, PriceList, SupportLine, SupportRate},
    exact::Exact,
    money::Money,
};

/// Table 8, line by line, as printed.
pub fn iomark_list() -> PriceList {
    let item = |name: &str, category: &str, cents: i64| Item {
        name: name.into(),
        category: category.into(),
        quantity: 1,
        price: Price::Extended(Money::of_cents(cents)),
        discount_percent: Exact::ZERO,
    };
    let rate = |category: &str, percent: u64| SupportRate {
        category: category.into(),
        percent_per_year: Exact::whole(percent),
    };
    PriceList {
        name: "IOmark-VM-HC report VM-HC-170711-a, table 8".into(),
        currency: "USD".into(),
        years: Exact::whole(3),
        items: vec![
            item("line 1", "servers", 7_661_536),
            item("line 2", "software", 2_796_000),
            item("line 3", "software", 3_196_000),
            item("line 4", "media", 1_216_000),
            item("line 5", "media", 2_172_800),
        ],
        support: vec![
            SupportLine {
                name: "line 6: hardware support".into(),
                rates: vec![rate("servers", 10), rate("media", 5)],
                stated: Some(Money::of_cents(2_809_781)),
            },
            SupportLine {
                name: "line 7: software support".into(),
                rates: vec![rate("software", 24)],
                stated: Some(Money::of_cents(4_314_240)),
            },
        ],
        energy: None,
    }
}

/// What the report measured on it: 100 sets of 8.
pub fn iomark_measured() -> Measured {
    Measured { vms: Some(Exact::whole(800)), ..Measured::default() }
}
