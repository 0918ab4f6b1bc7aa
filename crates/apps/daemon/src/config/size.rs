//! A size in the configuration: "10GiB", or a number of bytes.

use std::fmt;

use cairn_types::{format_bytes, parse_bytes};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// Bytes, read as people write them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Size(pub u64);

impl fmt::Debug for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&format_bytes(self.0))
    }
}

impl fmt::Display for Size {
    /// Exact: in the largest binary unit that divides it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [&str; 5] = ["", "KiB", "MiB", "GiB", "TiB"];
        let unit =
            (0..UNITS.len()).rev().find(|unit| self.0 != 0 && self.0.is_multiple_of(1 << (10 * unit))).unwrap_or(0);
        write!(f, "{}{}", self.0 >> (10 * unit), UNITS[unit])
    }
}

impl std::str::FromStr for Size {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        parse_bytes(text).map(Self)
    }
}

impl Serialize for Size {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Size;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a size such as \"10GiB\", or a number of bytes")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Size, E> {
                parse_bytes(text).map(Size).map_err(E::custom)
            }
            fn visit_i64<E: de::Error>(self, value: i64) -> Result<Size, E> {
                u64::try_from(value).map(Size).map_err(|_| E::custom(format!("{value} is not a size: it is negative")))
            }
            fn visit_u64<E: de::Error>(self, value: u64) -> Result<Size, E> {
                Ok(Size(value))
            }
        }
        d.deserialize_any(Visitor)
    }
}
