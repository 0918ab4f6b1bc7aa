//! How much of a device is looked at.

/// What to look at beside the superblocks.
#[derive(Debug, Clone, Copy)]
pub struct Depth {
    /// Keep a line per batch or run.
    pub all: bool,
    /// Read every block and compare it with its checksum.
    pub verify: bool,
}
