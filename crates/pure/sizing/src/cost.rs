//! What a cluster costs over some years: items, support in per cent of what it supports, energy, and the total over
//! whatever was measured.
//!
//! Promises    L1  cents are whole and add up; a support line is rounded once, however many rates it has
//!             L2  where an offer states a support line and its rates give another, both totals are told and the difference
//! Not here    discounting of later payments, taxes, exchange rates, staff, floor space; the reading of files (`apps/cli`)
//! Source      IOmark-VM-HC report VM-HC-170711-a, table 8: items, three years of support, total, price per VM

use std::collections::BTreeMap;

use serde::Serialize;

use crate::{endurance::DAYS_PER_YEAR, error::SizingError, exact::Exact, money::Money};

/// What an item costs, before its discount.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Price {
    /// One of them.
    Unit(Money),
    /// All of them.
    Extended(Money),
}

/// A line of a price list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// What it is.
    pub name: String,
    /// What support and sums go by: "servers", "software".
    pub category: String,
    /// How many.
    pub quantity: u64,
    /// For how much.
    pub price: Price,
    /// Per cent off.
    pub discount_percent: Exact,
}

/// Per cent a year of what the items of a category cost, less their discounts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SupportRate {
    /// The category.
    pub category: String,
    /// Per cent a year.
    pub percent_per_year: Exact,
}

/// A line of support: one or more rates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SupportLine {
    /// What it is.
    pub name: String,
    /// Its rates.
    pub rates: Vec<SupportRate>,
    /// What the offer says it costs over the years, where it says so.
    pub stated: Option<Money>,
}

/// Electric power.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Energy {
    /// Watts, day and night.
    pub watts: Exact,
    /// Price of a kWh, in units of the currency.
    pub price_per_kwh: Exact,
}

/// An offer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PriceList {
    /// What it is called.
    pub name: String,
    /// Its currency, as told.
    pub currency: String,
    /// Years of support and energy.
    pub years: Exact,
    /// What is bought.
    pub items: Vec<Item>,
    /// What is paid a year in per cent of that.
    pub support: Vec<SupportLine>,
    /// What it draws.
    pub energy: Option<Energy>,
}

/// What the cluster does, as measured or as planned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Measured {
    /// Virtual machines.
    pub vms: Option<Exact>,
    /// Desktops.
    pub desktops: Option<Exact>,
    /// I/Os per second.
    pub iops: Option<Exact>,
    /// TB (decimal) that guests can use.
    pub usable_tb: Option<Exact>,
    /// Watts.
    pub watts: Option<Exact>,
}

/// One item, worked out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CostLine {
    /// What it is.
    pub name: String,
    /// Its category.
    pub category: String,
    /// How many.
    pub quantity: u64,
    /// For how much, all together, less the discount.
    pub extended: Money,
}

/// One line of support, worked out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SupportCost {
    /// What it is.
    pub name: String,
    /// Its rates in words.
    pub rates: String,
    /// What they give over the years.
    pub computed: Money,
    /// What the offer states.
    pub stated: Option<Money>,
    /// Stated less computed, where that is not 0.
    pub slip: Option<Money>,
}

/// The total for one of something.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PerUnit {
    /// One of what.
    pub unit: &'static str,
    /// How many there are.
    pub count: Exact,
    /// Of the total with stated support lines.
    pub stated: Exact,
    /// Of the total with computed support lines.
    pub computed: Exact,
}

/// An offer worked out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Cost {
    /// What it is called.
    pub name: String,
    /// Its currency.
    pub currency: String,
    /// Years of support and energy.
    pub years: Exact,
    /// The items.
    pub items: Vec<CostLine>,
    /// Sum of the items of each category.
    pub by_category: BTreeMap<String, Money>,
    /// The support.
    pub support: Vec<SupportCost>,
    /// kWh over the years.
    pub energy_kwh: Option<Exact>,
    /// What they cost.
    pub energy: Option<Money>,
    /// The total, support lines as stated where they are.
    pub total_stated: Money,
    /// The total, all support lines as computed.
    pub total_computed: Money,
    /// Stated less computed.
    pub slip: Money,
    /// The total over what was measured.
    pub per: Vec<PerUnit>,
    /// Watts for a thousand I/Os per second.
    pub watts_per_1000_iops: Option<Exact>,
}

impl PriceList {
    /// Works the offer out: sum of the items, plus support, plus energy; over each thing measured.
    ///
    /// Support: rate per cent x years x items of its category less discount. Source: table 8's notes: software 24 % a year
    /// x 3 of 59,920.00 = 43,142.40; hardware (10 % servers + 5 % media) x 3 = 28,067.81, where the table prints 28,097.81.
    ///
    /// # Errors
    /// Values out of range; a rate of a category that no item has.
    pub fn cost(&self, measured: &Measured) -> Result<Cost, SizingError> {
        let years = self.years.positive("the number of years")?;
        let items = self.items.iter().map(Item::cost).collect::<Result<Vec<_>, _>>()?;
        if items.is_empty() {
            return Err(SizingError::missing("the price list has no items", "name at least one item with its price"));
        }
        let mut by_category = BTreeMap::<String, Money>::new();
        for item in &items {
            let sum = by_category.entry(item.category.clone()).or_default();
            *sum = sum.plus(item.extended)?;
        }
        let support = self.support.iter().map(|line| line.cost(&by_category, years)).collect::<Result<Vec<_>, _>>()?;
        let (energy_kwh, energy) = match &self.energy {
            Some(energy) => (Some(energy.kwh(years)?), Some(energy.cost(years)?)),
            None => (None, None),
        };
        let mut total_computed = energy.unwrap_or_default();
        for item in &items {
            total_computed = total_computed.plus(item.extended)?;
        }
        let mut total_stated = total_computed;
        for line in &support {
            total_computed = total_computed.plus(line.computed)?;
            total_stated = total_stated.plus(line.stated.unwrap_or(line.computed))?;
        }
        Ok(Cost {
            name: self.name.clone(),
            currency: self.currency.clone(),
            years,
            items,
            by_category,
            support,
            energy_kwh,
            energy,
            total_stated,
            total_computed,
            slip: total_stated.minus(total_computed)?,
            per: measured.per(total_stated, total_computed)?,
            watts_per_1000_iops: measured.watts_per_1000_iops()?,
        })
    }
}

impl Item {
    /// Quantity x unit price, or the extended price; less the discount, rounded to the cent.
    fn cost(&self) -> Result<CostLine, SizingError> {
        let listed = match self.price {
            Price::Extended(all) => all.exact()?,
            Price::Unit(one) => one.exact()?.times(Exact::whole(self.quantity))?,
        };
        if listed.is_negative() {
            return Err(SizingError::value(
                format!("the price of {:?} is below 0", self.name),
                "write what comes off as discount_percent of the item",
            ));
        }
        let off = self.discount_percent.percent(&format!("the discount of {:?}", self.name))?;
        let extended = Money::rounded(listed.times(Exact::HUNDRED.minus(off)?.of_hundred()?)?)?;
        Ok(CostLine { name: self.name.clone(), category: self.category.clone(), quantity: self.quantity, extended })
    }
}

impl SupportLine {
    fn cost(&self, by_category: &BTreeMap<String, Money>, years: Exact) -> Result<SupportCost, SizingError> {
        let mut sum = Exact::ZERO;
        for rate in &self.rates {
            let Some(base) = by_category.get(&rate.category) else {
                let known: Vec<&str> = by_category.keys().map(String::as_str).collect();
                return Err(SizingError::missing(
                    format!("{:?} is a rate of the category {:?}, and no item has that", self.name, rate.category),
                    format!("name one of: {}", known.join(", ")),
                ));
            };
            let percent = rate.percent_per_year.percent(&format!("the rate of {:?}", self.name))?;
            sum = sum.plus(base.exact()?.times(percent.of_hundred()?)?.times(years)?)?;
        }
        let computed = Money::rounded(sum)?;
        let slip = match self.stated {
            Some(stated) => Some(stated.minus(computed)?).filter(|slip| slip.cents() != 0),
            None => None,
        };
        let rates = self.rates.iter().map(|r| format!("{} % a year of {}", r.percent_per_year.short(3), r.category));
        let rates = rates.collect::<Vec<_>>().join(" + ");
        Ok(SupportCost { name: self.name.clone(), rates, computed, stated: self.stated, slip })
    }
}

impl Energy {
    /// kWh over the years: watts x 8,760 h x years / 1,000.
    fn kwh(&self, years: Exact) -> Result<Exact, SizingError> {
        let hours = Exact::whole(DAYS_PER_YEAR * 24).times(years)?;
        self.watts.positive("the power in watts")?.times(hours)?.over(Exact::whole(1000))
    }

    fn cost(&self, years: Exact) -> Result<Money, SizingError> {
        if self.price_per_kwh.is_negative() {
            return Err(SizingError::value("the price of a kWh is below 0", "give 0 or more"));
        }
        Money::rounded(self.kwh(years)?.times(self.price_per_kwh)?)
    }
}

impl Measured {
    fn per(&self, stated: Money, computed: Money) -> Result<Vec<PerUnit>, SizingError> {
        let counts = [
            ("VM", self.vms),
            ("desktop", self.desktops),
            ("IOPS", self.iops),
            ("usable TB", self.usable_tb),
            ("watt", self.watts),
        ];
        let counted = counts.into_iter().filter_map(|(unit, count)| Some((unit, count?)));
        counted
            .map(|(unit, count)| {
                let count = count.positive(&format!("the count for {unit:?}"))?;
                let of = |total: Money| total.exact()?.over(count);
                Ok(PerUnit { unit, count, stated: of(stated)?, computed: of(computed)? })
            })
            .collect()
    }

    fn watts_per_1000_iops(&self) -> Result<Option<Exact>, SizingError> {
        let (Some(watts), Some(iops)) = (self.watts, self.iops) else {
            return Ok(None);
        };
        watts.times(Exact::whole(1000))?.over(iops.positive("the number of IOPS")?).map(Some)
    }
}
