//! `cairn disk export` and `cairn disk import`: the way out of Cairn and in, by the tools of the field.
//!
//! Promises    an image is whole under its name, or nothing is left of it; so is a disk
//!             what was written is read once more and compared, unless it went to standard output
//! Not here    formats of images (qemu-img's), what changed between snapshots (the NBD server tells it)

mod door;
mod export;
mod form;
mod import;
mod ova;
mod partial;
mod pipe;
mod stamp;
mod tool;

pub use export::run as export;
pub use import::run as import;
