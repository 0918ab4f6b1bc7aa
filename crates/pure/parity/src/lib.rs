//! Arithmetic of erasure coding: parity of a row of strips, and what is missing of it from what is there.
//!
//! A row has `k` strips of data, its columns, and one or two of parity. P is the XOR of the columns. Q is their sum in GF(256) with
//! the factors 2^0, 2^1, .. 2^(k-1). So any `k` strips of a row give all others.
//!
//! Promises    E1  any `k` of a row's strips give the others, for `k` 2..=8 and one or two of parity      (tests/parity/rows.rs)
//!             E2  P and Q are, byte for byte, those of Linux RAID-6            (tests/parity/rows.rs: golden, of ISA-L)
//!             E3  a difference added to P, and with its column's factor to Q, gives the parity of the new data
//!                                                                                                   (tests/parity/differences.rs)
//!             E4  an error has changed no buffer
//!             E5  the row check after any changes of columns is that of the row as it is          (tests/parity/differences.rs)
//! Assumes     strips are whole blocks, and those of one call are equally long: anything else is the caller's bug and panics
//! Not here    which member holds which strip (`geometry`); whether a block is the one that was written (its CRC, at whoever
//!             read it): from a wrong strip a wrong one is made
//! Source      H. P. Anvin, The mathematics of RAID-6: polynomial 0x11d, generator 2, and how two columns come back
#![forbid(unsafe_code)]

mod checksum;
mod field;
mod kernels;
mod row;

pub use checksum::{crc_of_difference, crc_of_p, row_check, row_check_after};
pub use field::{Factor, factor};
pub use kernels::{mul_into, xor_into};
pub use row::{Strip, StripState, TooFewStrips, decode, encode};
