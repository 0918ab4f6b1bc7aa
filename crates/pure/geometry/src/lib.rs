//! Object layout arithmetic: which component holds which block of a virtual disk.
//!
//! An object is a concat of chunks; each chunk is spread over `stripe_width` stripes, strip by strip; the blocks of one
//! (chunk, stripe) are a *replica set*. Components of a mirror hold the same bytes at the same addresses. Those of a set with parity hold
//! *rows*: a strip each, of data or of parity.
//!
//! Promises    G1  every block of an object has one address (set, block), and no two blocks share one
//!             G2  a set's addresses are 0..set_blocks without a gap
//!             G3  growing a disk changes no address                         (all three: tests/oracle.rs)
//!             G4  a row has one strip at every member, and its data are contiguous in the disk
//!             G5  the units of a request hang on layout and range only      (both: tests/rows.rs)
//! Assumes     the layout passed [`check_layout`]; a record from outside is checked when it is decoded
//! Not here    which host holds a component (placement); what parity is computed to (parity); how many members answer (votes)
//! Source      vSAN: components of at most 255 GB, 1 MB strips (design and sizing guide); left-symmetric parity: Linux md
#![forbid(unsafe_code)]

mod area;
mod around;
mod plan;
mod rows;
mod split;

pub use area::{Area, by_area, grown, moving_at, serves, sets};
pub use around::{rows_around, rows_in_object};
pub use plan::{
    LayoutError, STRIP_BYTES, check_layout, check_size, chunks, component_blocks, component_bytes, layout_around,
    layout_of, plan_layout, plan_layout_of, replica_sets, set_blocks, set_of, stripe_of,
};
pub use rows::{RowRole, Rows, StripPart, Unit, Units};
pub use split::{Piece, Pieces, split, to_object};
