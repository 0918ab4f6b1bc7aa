//! Identities by kind. Random, 128 bits, never reused; one kind cannot be passed for another.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

/// A text that is not 32 hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not an id: an id is 32 hexadecimal digits")]
pub struct ParseIdError(pub String);

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        pub struct $name(pub u128);

        impl $name {
            /// The id made of two random words. Zero means "none" and is never drawn.
            pub fn from_random(high: u64, low: u64) -> Self {
                Self((u128::from(high) << 64 | u128::from(low)).max(1))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:032x}", self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                // Eight digits tell ids apart in a log line; `Display` prints all.
                write!(f, "{}:{:08x}", stringify!($name), (self.0 >> 96) as u32)
            }
        }

        impl FromStr for $name {
            type Err = ParseIdError;
            fn from_str(text: &str) -> Result<Self, ParseIdError> {
                if text.len() != 32 || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
                    return Err(ParseIdError(text.to_owned()));
                }
                u128::from_str_radix(text, 16).map(Self).map_err(|_| ParseIdError(text.to_owned()))
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
                if s.is_human_readable() { s.collect_str(self) } else { self.0.to_le_bytes().serialize(s) }
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                if d.is_human_readable() {
                    String::deserialize(d)?.parse().map_err(D::Error::custom)
                } else {
                    <[u8; 16]>::deserialize(d).map(|b| Self(u128::from_le_bytes(b)))
                }
            }
        }
    )* };
}

ids! {
    /// One cluster.
    ClusterId,
    /// One server running the host daemon.
    HostId,
    /// One cache device with its capacity devices.
    DiskGroupId,
    /// One device of a disk group.
    DeviceId,
    /// One virtual disk.
    ObjectId,
    /// The part of an object that lives on one capacity device, or a witness.
    ComponentId,
}

/// Counts the starts of one host process. A higher one ends the leases of a lower one of the same host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Incarnation(pub u64);

/// One admission of a component by its owner; requests of another session are refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct SessionId(pub u64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_read_back_what_they_print() {
        let id = HostId::from_random(7, 9);
        assert_eq!(id.to_string().parse(), Ok(id));
        assert!("xyz".parse::<HostId>().is_err());
        assert!("+0000000000000000000000000000001".parse::<HostId>().is_err());
    }
}
