//! Object layout arithmetic: which component holds which block of a virtual disk.
//!
//! An object is a concat of chunks; each chunk is spread over `stripe_width` stripes, strip by strip; the blocks of one
//! (chunk, stripe) are a *replica set*, kept by `copies` components that hold the same bytes at the same addresses.
//!
//! Promises    G1  every block of an object has one address (set, block), and no two blocks share one
//!             G2  a set's addresses are 0..component_blocks without a gap
//!             G3  growing a disk changes no address                         (all three: tests/oracle.rs)
//! Assumes     the layout passed [`check_layout`]; a record from outside is checked when it is decoded
//! Not here    which host holds a component (placement); parity rows; how many copies answer (votes)
//! Source      vSAN: components of at most 255 GB, 1 MB strips (design and sizing guide)
#![forbid(unsafe_code)]

mod plan;
mod split;

pub use plan::{
    LayoutError, STRIP_BYTES, check_layout, check_size, chunks, component_blocks, component_bytes, plan_layout,
    plan_layout_of, replica_sets, set_of, stripe_of,
};
pub use split::{Piece, Pieces, split, to_object};
