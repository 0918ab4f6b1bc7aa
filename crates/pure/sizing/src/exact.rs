//! Exact numbers: fractions of two whole numbers, from what a person typed to what is printed.
//!
//! Promises    L1  the four operations are exact, or refuse a result of more than 36 digits
//!             L2  rounding happens in [`Exact::decimal`], [`Exact::round`] and the like, and nowhere else
//! Why no crate: `rust_decimal` rounds 4/3; of `num-rational` four operations would be used, and reading, printing and limits
//! would still stand here.
//! Why so: a table that is rounded on the way prints 50,785 where the formula gives 50,568 (`optane.rs`); a float
//! prints 302.07999999999998.

use std::cmp::Ordering;

use serde::{Serialize, Serializer};

use crate::error::SizingError;

/// Numerator and denominator stay below this: ten times either still fits in 128 bits, which long division needs.
const MAGNITUDE_MAX: i128 = 10i128.pow(36);
/// Digits of a number that a person types, at most: the products of two such still fit.
const DIGITS_MAX: usize = 18;
/// Places after the point in JSON.
const JSON_PLACES: u32 = 6;

/// A fraction in lowest terms; below is positive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exact {
    above: i128,
    below: i128,
}

impl Exact {
    /// 0.
    pub const ZERO: Self = Self { above: 0, below: 1 };
    /// 1.
    pub const ONE: Self = Self { above: 1, below: 1 };
    /// 100: of per cent.
    pub const HUNDRED: Self = Self { above: 100, below: 1 };

    /// A whole number.
    pub const fn whole(number: u64) -> Self {
        Self { above: number as i128, below: 1 }
    }

    /// `above` / `below`.
    ///
    /// # Errors
    /// When `below` is 0, or either has more than 36 digits in lowest terms.
    pub fn fraction(above: i128, below: i128) -> Result<Self, SizingError> {
        if below == 0 {
            return Err(SizingError::value("a division by 0", "give a number other than 0 where something is divided"));
        }
        let (above, below) = match below < 0 {
            true => (above.checked_neg(), below.checked_neg()),
            false => (Some(above), Some(below)),
        };
        let (Some(above), Some(below)) = (above, below) else {
            return Err(SizingError::too_large());
        };
        let common = common_divisor(above.unsigned_abs(), below.unsigned_abs());
        // The divisor of a positive i128 fits in one.
        let common = i128::try_from(common).map_err(|_| SizingError::too_large())?;
        let (above, below) = (above / common, below / common);
        if above.unsigned_abs() >= MAGNITUDE_MAX.unsigned_abs() || below >= MAGNITUDE_MAX {
            return Err(SizingError::too_large());
        }
        Ok(Self { above, below })
    }

    /// Reads "1600", "0.7", "-29.6". No exponents, no thousands separators: `1,600` is 1600 here and 1.6 there.
    ///
    /// # Errors
    /// What is not such a number, or has more than 18 digits.
    pub fn parse(text: &str) -> Result<Self, SizingError> {
        let typed = text.trim();
        let (sign, digits) = match typed.strip_prefix('-') {
            Some(rest) => (-1, rest),
            None => (1, typed),
        };
        let (whole, parts) = digits.split_once('.').unwrap_or((digits, ""));
        let all = [whole, parts].concat();
        let numeric = !whole.is_empty() && all.bytes().all(|b| b.is_ascii_digit());
        if !numeric || (parts.is_empty() && digits.contains('.')) {
            return Err(SizingError::value(
                format!("{text:?} is no number"),
                "write digits and a point, without thousands separators: 1600, 0.7",
            ));
        }
        if all.len() > DIGITS_MAX {
            return Err(SizingError::value(
                format!("{text:?} has more than {DIGITS_MAX} digits"),
                "write fewer digits: no data sheet knows more",
            ));
        }
        let above: i128 = all.parse().map_err(|_| SizingError::too_large())?;
        Self::fraction(sign * above, 10i128.pow(parts.len() as u32))
    }

    /// The sum.
    ///
    /// # Errors
    /// More than 36 digits.
    pub fn plus(self, other: Self) -> Result<Self, SizingError> {
        let common = common_divisor(self.below.unsigned_abs(), other.below.unsigned_abs()) as i128;
        let sum = || {
            let left = self.above.checked_mul(other.below / common)?;
            let right = other.above.checked_mul(self.below / common)?;
            Some((left.checked_add(right)?, self.below.checked_mul(other.below / common)?))
        };
        let (above, below) = sum().ok_or_else(SizingError::too_large)?;
        Self::fraction(above, below)
    }

    /// The difference.
    ///
    /// # Errors
    /// More than 36 digits.
    pub fn minus(self, other: Self) -> Result<Self, SizingError> {
        self.plus(Self { above: -other.above, below: other.below })
    }

    /// The product.
    ///
    /// # Errors
    /// More than 36 digits.
    pub fn times(self, other: Self) -> Result<Self, SizingError> {
        // Shortened crosswise first: what is left after that is the result, so only a result that is too large fails.
        let one = common_divisor(self.above.unsigned_abs(), other.below.unsigned_abs()) as i128;
        let two = common_divisor(other.above.unsigned_abs(), self.below.unsigned_abs()) as i128;
        let above = (self.above / one).checked_mul(other.above / two);
        let below = (self.below / two).checked_mul(other.below / one);
        let (Some(above), Some(below)) = (above, below) else {
            return Err(SizingError::too_large());
        };
        Self::fraction(above, below)
    }

    /// The quotient.
    ///
    /// # Errors
    /// `other` is 0, or more than 36 digits.
    pub fn over(self, other: Self) -> Result<Self, SizingError> {
        self.times(Self::fraction(other.below, other.above)?)
    }

    /// Below 0, 0 or above.
    pub const fn is_negative(self) -> bool {
        self.above < 0
    }

    /// Whether it is 0.
    pub const fn is_zero(self) -> bool {
        self.above == 0
    }

    /// The greatest whole number that is not greater.
    pub const fn floor(self) -> i128 {
        self.above.div_euclid(self.below)
    }

    /// The least whole number that is not less.
    pub const fn ceil(self) -> i128 {
        -((-self.above).div_euclid(self.below))
    }

    /// The nearest whole number, halves away from zero.
    pub const fn round(self) -> i128 {
        let half = (self.above.unsigned_abs() * 2 + self.below.unsigned_abs()) / (self.below.unsigned_abs() * 2);
        if self.above < 0 { -(half as i128) } else { half as i128 }
    }

    /// As text with `places` after the point (at most 9), rounded half away from zero, thousands told apart by commas.
    pub fn decimal(self, places: u32) -> String {
        let (sign, whole, parts) = self.digits(places);
        let mut text = String::new();
        for (at, digit) in whole.chars().enumerate() {
            if at > 0 && (whole.len() - at).is_multiple_of(3) {
                text.push(',');
            }
            text.push(digit);
        }
        match parts.is_empty() {
            true => format!("{sign}{text}"),
            false => format!("{sign}{text}.{parts}"),
        }
    }

    /// As short as it is exact, with at most `places` after the point: "2", "1.5", "1.333".
    pub fn short(self, places: u32) -> String {
        let text = self.decimal(places);
        match text.contains('.') {
            true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
            false => text,
        }
    }

    /// Sign, digits before and digits after the point, rounded half away from zero.
    fn digits(self, places: u32) -> (&'static str, String, String) {
        let places = places.min(9) as usize;
        let below = self.below.unsigned_abs();
        let (mut whole, mut rest) = (self.above.unsigned_abs() / below, self.above.unsigned_abs() % below);
        let mut parts = 0u128;
        for _ in 0..places {
            parts = parts * 10 + rest * 10 / below;
            rest = rest * 10 % below;
        }
        if rest * 2 >= below {
            parts += 1;
        }
        let full = 10u128.pow(places as u32);
        if parts >= full {
            (whole, parts) = (whole + 1, parts - full);
        }
        let sign = if self.above < 0 && (whole, parts) != (0, 0) { "-" } else { "" };
        let parts = if places == 0 { String::new() } else { format!("{parts:0places$}") };
        (sign, whole.to_string(), parts)
    }

    /// Refuses what is not above 0.
    ///
    /// # Errors
    /// 0 or less; `what` begins the sentence.
    pub fn positive(self, what: &str) -> Result<Self, SizingError> {
        match self.above > 0 {
            true => Ok(self),
            false => {
                Err(SizingError::value(format!("{what} is {}", self.short(6)), "give a number above 0".to_owned()))
            }
        }
    }

    /// Refuses what is not a share from 0 to 100 per cent.
    ///
    /// # Errors
    /// Less than 0 or more than 100; `what` begins the sentence.
    pub fn percent(self, what: &str) -> Result<Self, SizingError> {
        match self >= Self::ZERO && self <= Self::HUNDRED {
            true => Ok(self),
            false => Err(SizingError::value(format!("{what} is {} %", self.short(6)), "give 0 to 100 per cent")),
        }
    }

    /// This many per cent of one.
    ///
    /// # Errors
    /// More than 36 digits.
    pub fn of_hundred(self) -> Result<Self, SizingError> {
        self.over(Self::HUNDRED)
    }
}

impl PartialOrd for Exact {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Exact {
    /// Whole part first, then the reciprocals of what is left, the other way round: nothing is multiplied.
    fn cmp(&self, other: &Self) -> Ordering {
        let (mut one, mut two) = (*self, *other);
        let mut turned = false;
        loop {
            let (whole_one, whole_two) = (one.floor(), two.floor());
            let (rest_one, rest_two) = (one.above.rem_euclid(one.below), two.above.rem_euclid(two.below));
            let found = whole_one.cmp(&whole_two).then_with(|| match (rest_one, rest_two) {
                (0, 0) => Ordering::Equal,
                (0, _) => Ordering::Less,
                (_, 0) => Ordering::Greater,
                _ => Ordering::Equal,
            });
            if found.is_ne() || rest_one == 0 {
                return if turned { found.reverse() } else { found };
            }
            (one, two) = (Self { above: one.below, below: rest_one }, Self { above: two.below, below: rest_two });
            turned = !turned;
        }
    }
}

impl Serialize for Exact {
    /// A number, rounded to six places.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (sign, whole, parts) = self.digits(JSON_PLACES);
        let number: f64 = format!("{sign}{whole}.{parts}").parse().map_err(serde::ser::Error::custom)?;
        serializer.serialize_f64(number)
    }
}

/// The greatest common divisor; 1 where both are 0.
fn common_divisor(one: u128, two: u128) -> u128 {
    let (mut one, mut two) = (one, two);
    while two != 0 {
        (one, two) = (two, one % two);
    }
    one.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Exact {
        Exact::parse(text).unwrap()
    }

    #[test]
    fn what_is_typed_comes_back() {
        for text in ["0", "1.6", "-29.6", "8,600".replace(',', "").as_str(), "0.05", "123456789012.345678"] {
            assert_eq!(of(text).short(9).replace(',', ""), text, "{text}");
        }
        for text in ["", "-", ".5", "5.", "1,6", "1e3", "1.2.3", "+1", "ten", "--1", "0x10", "1234567890123456789"] {
            assert!(Exact::parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn rounding_is_half_away_from_zero() {
        let cases = [("2.5", 0, "3"), ("-2.5", 0, "-3"), ("0.995", 2, "1.00"), ("-0.004", 2, "0.00")];
        for (number, places, text) in cases {
            assert_eq!(of(number).decimal(places), text);
        }
        assert_eq!((of("-2.5").round(), of("-2.5").floor(), of("-2.5").ceil()), (-3, -3, -2));
        assert_eq!((of("2.4").round(), of("2.4").floor(), of("2.4").ceil()), (2, 2, 3));
        assert_eq!(of("1234567.891").decimal(1), "1,234,567.9");
    }

    #[test]
    fn too_much_is_refused_and_not_wrapped() {
        let large = Exact::fraction(MAGNITUDE_MAX - 1, 1).unwrap();
        assert!(large.times(of("2")).is_err() && large.plus(Exact::ONE).is_err());
        assert!(Exact::fraction(1, 0).is_err() && Exact::ONE.over(Exact::ZERO).is_err());
        assert!(Exact::fraction(i128::MIN, i128::MIN).is_err() && Exact::fraction(i128::MIN, 1).is_err());
        assert_eq!(large.over(large), Ok(Exact::ONE));
        assert_eq!(large.decimal(9).len(), 36 + 11 + 10);
    }
}
