//! Models of storage media under files: what a request would have taken on a drive that is not there.
//!
//! Promises    a request on a modelled file is over when the model says so, or when the real file was slower; never earlier
//!             one seed and one order of requests give the same times
//! Assumes     the file under it is faster than the model, if need be by dilation (every modelled time times a factor)
//! Not here    what no model tells: garbage collection, wear, reordering of queued requests by a disk's arm
//! Source      numbers of the presets: see `presets`

mod drive;
mod model;
mod presets;

pub(crate) use drive::{Drive, Timers};
pub(crate) use model::{Access, Pending};
pub use model::{Medium, MediumError, Service};
