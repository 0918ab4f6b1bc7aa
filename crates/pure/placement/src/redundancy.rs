//! The shape of a new disk: what its policy asks for, as wide as its cluster allows.
//!
//! Promises    the width hangs on the fault domains that there are, up or not: a host in maintenance does not decide it for good
//! Not here    what a layout comes to (geometry), where its components go (task.rs)

use std::collections::BTreeSet;

use cairn_geometry::layout_of;
use cairn_types::{FaultToleranceMethod, Layout, Policy, Redundancy};

use crate::{picture::ClusterPicture, refusal::Asked};

/// Blocks of a strip of narrow rows: 64 KiB. A request of 32 KiB lies in one strip mostly, one of 1 MiB has whole rows.
const STRIP_BLOCKS: u16 = 16;
/// Of rows with more than [`NARROW_MAX`] strips of data: 32 KiB, so that a row is 256 KiB at most.
const STRIP_BLOCKS_WIDE: u16 = 8;
/// Strips of data in a narrow row, at most.
const NARROW_MAX: u8 = 4;

/// The layout of a new disk.
///
/// # Panics
/// On a policy that [`Policy::check_bounds`] refuses: the caller let a bad request through.
pub fn layout_for(picture: &ClusterPicture, policy: &Policy, chunk_bytes_max: u64) -> Layout {
    let redundancy = match policy.ftm {
        FaultToleranceMethod::Mirror => Redundancy::Mirror { copies: policy.copies() },
        FaultToleranceMethod::ErasureCoding { data_strips: 0 } => widest(picture, policy.ftt),
        FaultToleranceMethod::ErasureCoding { data_strips } => rows(data_strips, policy.ftt),
    };
    layout_of(redundancy, policy.stripe_width, chunk_bytes_max)
}

/// The wider one of the two usual widths that has a fault domain for each strip; the narrower one where neither has.
fn widest(picture: &ClusterPicture, ftt: u8) -> Redundancy {
    let domains: BTreeSet<_> = picture.hosts.iter().map(|host| host.domain()).collect();
    let (narrow, wide) = (rows(ftt + 1, ftt), rows(ftt + 2, ftt));
    match (Asked { redundancy: wide, ftt }).domains() <= domains.len() {
        true => wide,
        false => narrow,
    }
}

fn rows(data: u8, parity: u8) -> Redundancy {
    Redundancy::Parity { data, parity, strip_blocks: if data > NARROW_MAX { STRIP_BLOCKS_WIDE } else { STRIP_BLOCKS } }
}
