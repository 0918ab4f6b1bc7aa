//! Money: whole cents.
//!
//! Promises    sums are exact; a share of a sum is rounded once, to the cent, half away from zero

use std::fmt;

use serde::{Serialize, Serializer};

use crate::{error::SizingError, exact::Exact};

/// An amount in cents of some currency.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Money {
    cents: i64,
}

impl Money {
    /// This many cents.
    pub const fn of_cents(cents: i64) -> Self {
        Self { cents }
    }

    /// The cents.
    pub const fn cents(self) -> i64 {
        self.cents
    }

    /// Reads "3495", "76615.36", "76,615.36". Commas may only stand before groups of three digits.
    ///
    /// # Errors
    /// What is no such amount, or has parts of a cent.
    pub fn parse(text: &str) -> Result<Self, SizingError> {
        let refuse = || {
            SizingError::value(
                format!("{text:?} is no amount of money"),
                "write units and cents, as 76615.36 or 76,615.36, without a currency sign",
            )
        };
        let typed = text.trim();
        let whole = typed.split('.').next().unwrap_or_default().trim_start_matches('-');
        let mut groups = whole.split(',');
        let first = groups.next().unwrap_or_default();
        let grouped = whole.contains(',');
        if (grouped && !(1..=3).contains(&first.len())) || groups.any(|group| group.len() != 3) {
            return Err(refuse());
        }
        let after = typed.split_once('.').map_or("", |(_, parts)| parts);
        if after.contains(',') {
            return Err(refuse());
        }
        let amount = Exact::parse(&typed.replace(',', "")).map_err(|_| refuse())?;
        let cents = amount.times(Exact::HUNDRED)?;
        if cents.floor() != cents.ceil() {
            return Err(SizingError::value(
                format!("{text:?} has parts of a cent"),
                "round it to cents as the offer does, or give the extended price instead of the unit price",
            ));
        }
        Self::rounded(amount)
    }

    /// An exact amount, rounded to the cent, half away from zero.
    ///
    /// # Errors
    /// More cents than 63 bits hold.
    pub fn rounded(amount: Exact) -> Result<Self, SizingError> {
        let cents = amount.times(Exact::HUNDRED)?.round();
        i64::try_from(cents).map(Self::of_cents).map_err(|_| SizingError::too_large())
    }

    /// The amount as a number of units of the currency.
    ///
    /// # Errors
    /// None: every amount of cents is such a number.
    pub fn exact(self) -> Result<Exact, SizingError> {
        Exact::fraction(i128::from(self.cents), 100)
    }

    /// The sum.
    ///
    /// # Errors
    /// More cents than 63 bits hold.
    pub fn plus(self, other: Self) -> Result<Self, SizingError> {
        self.cents.checked_add(other.cents).map(Self::of_cents).ok_or_else(SizingError::too_large)
    }

    /// The difference.
    ///
    /// # Errors
    /// More cents than 63 bits hold.
    pub fn minus(self, other: Self) -> Result<Self, SizingError> {
        self.cents.checked_sub(other.cents).map(Self::of_cents).ok_or_else(SizingError::too_large)
    }
}

impl fmt::Display for Money {
    /// "241,663.57".
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // 19 digits of cents are far below what an Exact holds.
        match self.exact() {
            Ok(amount) => f.write_str(&amount.decimal(2)),
            Err(_) => write!(f, "{} cents", self.cents),
        }
    }
}

impl Serialize for Money {
    /// A text with two places and no commas: "241663.57". A number would be a float in many readers.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.to_string().replace(',', ""))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_read_exactly_or_refused() {
        let cases = [("3495", 349_500), ("76,615.36", 7_661_536), ("0.1", 10), ("-30.00", -3000), ("1.230", 123)];
        for (text, cents) in cases {
            assert_eq!(Money::parse(text).map(Money::cents), Ok(cents), "{text}");
        }
        for text in ["", "$5", "1,23", "1,2345", ",123", "1.234,5", "1.005", "12,345,67", "1e3"] {
            assert!(Money::parse(text).is_err(), "{text}");
        }
        assert_eq!(Money::of_cents(24_166_357).to_string(), "241,663.57");
        assert_eq!(Money::of_cents(-5).to_string(), "-0.05");
    }
}
