//! Identities by kind. Random, 128 bits, never reused; one kind cannot be passed for another.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

/// A text that is not 32 hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not an id: an id is 32 hexadecimal digits")]
pub struct ParseIdError(pub String);

/// An id as the encoder writes it: its 16 bytes, the lowest first.
///
/// A fraction is the only value of which `postcard` writes eight bytes as they are, in one go. As an array of bytes an id takes a call for
/// each, and the eight ids of a write's message took half of the time that its encoding took. Bits of fractions that are only
/// passed on stay what they are (the Rust reference, "f64", on NaN).
fn halves(id: u128) -> [f64; 2] {
    [f64::from_bits(id as u64), f64::from_bits((id >> 64) as u64)]
}

fn whole([low, high]: [f64; 2]) -> u128 {
    u128::from(high.to_bits()) << 64 | u128::from(low.to_bits())
}

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => { $(
        $(#[$doc])*
        // Aligned to 8 bytes: to 16, as a u128 is, an operation's number has 8 bytes of padding, and what holds ids is allocated by
        // the allocator's slow path (over 1 KiB) or wider than it need be.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        #[repr(C, packed(8))]
        pub struct $name(pub u128);

        impl $name {
            /// The id made of two random words. Zero means "none" and is never drawn.
            pub fn from_random(high: u64, low: u64) -> Self {
                Self((u128::from(high) << 64 | u128::from(low)).max(1))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:032x}", { self.0 })
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
                if s.is_human_readable() { s.collect_str(self) } else { halves(self.0).serialize(s) }
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                if d.is_human_readable() {
                    String::deserialize(d)?.parse().map_err(D::Error::custom)
                } else {
                    <[f64; 2]>::deserialize(d).map(|halves| Self(whole(halves)))
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

/// A snapshot of an object: random, never used again for that object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct SnapshotId(pub u64);

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

    /// Goal: an encoded id is its 16 bytes, whatever fractions its halves would be: quiet and signalling NaN, infinities, zeroes of both
    /// signs, subnormal ones.
    #[test]
    fn an_encoded_id_is_its_bytes() {
        let halves = [
            0,
            1,
            1 << 63,
            0x7ff0 << 48,
            0xfff0 << 48,
            0x7ff0 << 48 | 1,
            0xfff8 << 48 | 7,
            0x7fff << 48,
            u64::MAX,
            0x1234_5678_9abc_def0,
        ];
        for high in halves {
            for low in halves {
                let id = HostId(u128::from(high) << 64 | u128::from(low));
                let bytes = postcard::to_stdvec(&id).unwrap();
                assert_eq!(bytes, id.0.to_le_bytes());
                assert_eq!(postcard::from_bytes(&bytes), Ok(id));
            }
        }
    }
}
