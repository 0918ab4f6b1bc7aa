//! The shape of an object: how many chunks, replica sets, and blocks in each component.
//!
//! Promises    the chunk size does not depend on the disk's size, so a disk that grows keeps its addresses (G3)
//! Not here    addresses (split.rs)

use std::fmt;

use cairn_types::{
    BLOCK_BYTES, CHUNK_BYTES_MAX, FaultToleranceMethod, Layout, OBJECT_BYTES_MAX, Policy, Redundancy, ReplicaSetIndex,
    SECTOR_BYTES, format_bytes,
};

use crate::rows::Rows;

/// Bytes that go to one stripe before the next.
///
/// 1 MiB is one region: a guest write of usual size stays within one component, and a region of a component is
/// one run of the object, so resync reads and writes runs.
pub const STRIP_BYTES: u32 = 1 << 20;
const _: () = assert!(STRIP_BYTES == cairn_types::REGION_BYTES);

/// Why a layout or a size is refused, in words for a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LayoutError(pub String);

impl fmt::Display for LayoutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for LayoutError {}

/// Checks the size of a virtual disk: a whole number of 512-byte sectors, 1 sector to 62 TiB.
///
/// # Errors
/// The size is refused; the text says the bound. Ask for another size.
pub fn check_size(size_bytes: u64) -> Result<(), LayoutError> {
    if size_bytes == 0 {
        return Err(LayoutError("a disk of 0 bytes holds nothing: give a size of at least 512 bytes".into()));
    }
    if !size_bytes.is_multiple_of(u64::from(SECTOR_BYTES)) {
        return Err(LayoutError(format!(
            "{size_bytes} bytes is not a whole number of {SECTOR_BYTES}-byte sectors: the next size is {} bytes",
            size_bytes.saturating_add(u64::from(SECTOR_BYTES)) / u64::from(SECTOR_BYTES) * u64::from(SECTOR_BYTES)
        )));
    }
    if size_bytes > OBJECT_BYTES_MAX {
        return Err(LayoutError(format!(
            "a disk of {} is over the limit: the most is {}",
            format_bytes(size_bytes),
            format_bytes(OBJECT_BYTES_MAX)
        )));
    }
    Ok(())
}

/// Checks a layout that comes from outside (a record, a message, a person).
///
/// # Errors
/// The layout breaks a rule that the arithmetic here rests on; the text says which.
pub fn check_layout(layout: &Layout) -> Result<(), LayoutError> {
    let refuse = |text: String| Err(LayoutError(text));
    if !(1..=12).contains(&layout.stripe_width) {
        return refuse(format!("stripe width {} is not 1..=12", layout.stripe_width));
    }
    match layout.redundancy {
        Redundancy::Mirror { copies } if !(1..=4).contains(&copies) => {
            return refuse(format!("{copies} copies is not 1..=4"));
        }
        Redundancy::Parity { data, parity, strip_blocks } => {
            if !Redundancy::DATA_STRIPS.contains(&data) || !Redundancy::PARITY_STRIPS.contains(&parity) {
                return refuse(format!("rows of {data} strips of data and {parity} of parity are not 2..=8 and 1..=2"));
            }
            if strip_blocks == 0 || strip_blocks > Redundancy::STRIP_BLOCKS_MAX {
                return refuse(format!(
                    "parity strips of {strip_blocks} blocks are not 1..={}",
                    Redundancy::STRIP_BLOCKS_MAX
                ));
            }
            let row = u32::from(data) * u32::from(strip_blocks) * BLOCK_BYTES;
            if !layout.strip_bytes.is_multiple_of(row) {
                return refuse(format!(
                    "strips of {} bytes are not whole parity rows of {row} bytes",
                    layout.strip_bytes
                ));
            }
        }
        Redundancy::Mirror { .. } => {}
    }
    if layout.strip_bytes == 0 || !layout.strip_bytes.is_multiple_of(BLOCK_BYTES) {
        return refuse(format!("strips of {} bytes are not whole blocks", layout.strip_bytes));
    }
    // One that takes the place of a longest chunk of another layout is rounded up to whole rows.
    if layout.chunk_bytes == 0 || layout.chunk_bytes >= CHUNK_BYTES_MAX + row_bytes(layout) {
        return refuse(format!(
            "chunks of {} bytes are not 1 byte to {}",
            layout.chunk_bytes,
            format_bytes(CHUNK_BYTES_MAX)
        ));
    }
    if !layout.chunk_bytes.is_multiple_of(row_bytes(layout)) {
        return refuse(format!(
            "chunks of {} bytes are not whole rows of {} strips of {} bytes",
            layout.chunk_bytes, layout.stripe_width, layout.strip_bytes
        ));
    }
    Ok(())
}

/// The layout of a new mirror.
///
/// Chunks are as long as they may be (255 GiB, rounded down to whole rows) whatever the size: a small disk is the
/// beginning of one chunk, and growth fills that chunk before it adds another.
///
/// # Panics
/// On a policy that [`Policy::check_bounds`] or a size that [`check_size`] refuses: the caller let a bad request through.
pub fn plan_layout(policy: &Policy, size_bytes: u64) -> Layout {
    plan_layout_of(policy, size_bytes, CHUNK_BYTES_MAX)
}

/// [`plan_layout`] with chunks of at most `chunk_bytes_max` bytes, but of one row at least.
///
/// # Panics
/// As [`plan_layout`].
pub fn plan_layout_of(policy: &Policy, size_bytes: u64, chunk_bytes_max: u64) -> Layout {
    assert!(policy.check_bounds().is_ok() && policy.ftm == FaultToleranceMethod::Mirror, "{policy:?}");
    assert!(check_size(size_bytes).is_ok(), "{size_bytes}");
    layout_of(Redundancy::Mirror { copies: policy.copies() }, policy.stripe_width, chunk_bytes_max)
}

/// A layout with this redundancy and stripe width, in chunks of at most `chunk_bytes_max` bytes, but of one strip a stripe at least.
///
/// # Panics
/// On values that [`check_layout`] refuses: the caller let a bad request through.
pub fn layout_of(redundancy: Redundancy, stripe_width: u8, chunk_bytes_max: u64) -> Layout {
    let strip_bytes = strip_bytes_of(redundancy);
    let row = u64::from(strip_bytes) * u64::from(stripe_width);
    let chunk_bytes = (chunk_bytes_max.min(CHUNK_BYTES_MAX) / row * row).max(row);
    let layout = Layout { chunk_bytes, stripe_width: stripe_width.into(), strip_bytes, redundancy };
    assert_eq!(check_layout(&layout), Ok(()));
    layout
}

/// A layout of which one chunk takes `bytes`, at most a chunk of another layout: as long as that one's, in whole rows.
///
/// # Panics
/// As [`layout_of`].
pub fn layout_around(redundancy: Redundancy, stripe_width: u8, bytes: u64, chunk_bytes_max: u64) -> Layout {
    let strip_bytes = strip_bytes_of(redundancy);
    let row = u64::from(strip_bytes) * u64::from(stripe_width);
    // Longer by less than a row where its last row does not fit.
    let chunk_bytes = (chunk_bytes_max.min(CHUNK_BYTES_MAX) / row * row).max(bytes.next_multiple_of(row));
    let layout = Layout { chunk_bytes, stripe_width: stripe_width.into(), strip_bytes, redundancy };
    assert_eq!(check_layout(&layout), Ok(()));
    layout
}

fn strip_bytes_of(redundancy: Redundancy) -> u32 {
    match Rows::of(redundancy) {
        None => STRIP_BYTES,
        // A parity row never crosses from one stripe to the next: it is contiguous in the disk.
        Some(rows) => STRIP_BYTES.next_multiple_of(rows.row_blocks() as u32 * BLOCK_BYTES),
    }
}

/// Chunks of a disk of `size_bytes`; at least 1.
pub fn chunks(layout: &Layout, size_bytes: u64) -> u32 {
    size_bytes.div_ceil(layout.chunk_bytes).max(1) as u32
}

/// Replica sets of a disk of `size_bytes`: chunks x stripe width. Sets are numbered from 0 without a gap.
pub fn replica_sets(layout: &Layout, size_bytes: u64) -> u32 {
    chunks(layout, size_bytes) * layout.stripe_width
}

/// The replica set of one stripe of one chunk.
pub fn set_of(layout: &Layout, chunk: u32, stripe: u32) -> ReplicaSetIndex {
    assert!(stripe < layout.stripe_width);
    chunk * layout.stripe_width + stripe
}

/// The (chunk, stripe) of a replica set.
pub fn stripe_of(layout: &Layout, set: ReplicaSetIndex) -> (u32, u32) {
    (set / layout.stripe_width, set % layout.stripe_width)
}

/// Blocks of every component of replica set `set` of a disk of `size_bytes`; 0 for a stripe that the disk does not
/// reach, and for a set past its last.
///
/// Components of a set are equally long. With parity they end with a whole row: columns past the disk's end are zeroes for ever.
pub fn component_blocks(layout: &Layout, size_bytes: u64, set: ReplicaSetIndex) -> u64 {
    let blocks = set_blocks(layout, size_bytes, set);
    Rows::of(layout.redundancy).map_or(blocks, |rows| rows.rows(blocks) * rows.strip_blocks())
}

/// Blocks of the disk that replica set `set` holds: its addresses go from 0 to there. Those of a mirror are the components' too.
pub fn set_blocks(layout: &Layout, size_bytes: u64, set: ReplicaSetIndex) -> u64 {
    let (chunk, stripe) = stripe_of(layout, set);
    let shape = Shape::of(layout);
    let blocks = size_bytes.div_ceil(u64::from(BLOCK_BYTES));
    let in_chunk = blocks.saturating_sub(u64::from(chunk) * shape.chunk_blocks).min(shape.chunk_blocks);
    let rows = in_chunk / shape.row_blocks;
    let rest = in_chunk % shape.row_blocks;
    // Of the last, partly filled row this stripe has what is left after the stripes before it.
    let last = rest.saturating_sub(u64::from(stripe) * shape.strip_blocks).min(shape.strip_blocks);
    rows * shape.strip_blocks + last
}

/// Bytes of every component of replica set `set`: [`component_blocks`] in bytes.
pub fn component_bytes(layout: &Layout, size_bytes: u64, set: ReplicaSetIndex) -> u64 {
    component_blocks(layout, size_bytes, set) * u64::from(BLOCK_BYTES)
}

/// Bytes of a row: one strip of every stripe.
fn row_bytes(layout: &Layout) -> u64 {
    u64::from(layout.strip_bytes) * u64::from(layout.stripe_width)
}

/// A layout in blocks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) chunk_blocks: u64,
    pub(crate) row_blocks: u64,
    pub(crate) strip_blocks: u64,
    pub(crate) width: u32,
}

impl Shape {
    pub(crate) fn of(layout: &Layout) -> Self {
        let block = u64::from(BLOCK_BYTES);
        Self {
            chunk_blocks: layout.chunk_bytes / block,
            row_blocks: row_bytes(layout) / block,
            strip_blocks: u64::from(layout.strip_bytes) / block,
            width: layout.stripe_width,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_out_of_bounds_are_refused_with_the_bound() {
        assert!(check_size(512).is_ok());
        assert!(check_size(OBJECT_BYTES_MAX).is_ok());
        for (size, says) in
            [(0, "at least 512"), (1000, "1024 bytes"), (u64::MAX, "sectors"), (OBJECT_BYTES_MAX + 512, "62 TiB")]
        {
            let text = check_size(size).unwrap_err().to_string();
            assert!(text.contains(says), "{size}: {text}");
        }
    }

    #[test]
    fn every_policy_gives_a_layout_that_passes_its_check() {
        for stripe_width in 1..=12 {
            for ftt in 0..=3 {
                let policy = Policy { ftt, stripe_width, ..Policy::default() };
                let layout = plan_layout(&policy, 10 << 30);
                assert_eq!(check_layout(&layout), Ok(()));
                assert_eq!(layout.redundancy, Redundancy::Mirror { copies: u32::from(ftt) + 1 });
                assert_eq!(chunks(&layout, 10 << 30), 1);
                assert_eq!(layout, plan_layout(&policy, OBJECT_BYTES_MAX));
            }
        }
    }

    #[test]
    fn the_largest_disk_has_249_chunks() {
        let layout = plan_layout(&Policy::default(), OBJECT_BYTES_MAX);
        assert_eq!(chunks(&layout, OBJECT_BYTES_MAX), 249);
        assert_eq!(component_bytes(&layout, OBJECT_BYTES_MAX, 0), 255 << 30);
        assert_eq!(component_bytes(&layout, OBJECT_BYTES_MAX, 248), OBJECT_BYTES_MAX - 248 * (255 << 30));
        assert_eq!(component_blocks(&layout, OBJECT_BYTES_MAX, 249), 0);
    }

    #[test]
    fn layouts_that_break_the_arithmetic_are_refused() {
        let good = plan_layout(&Policy::default(), 512);
        let bad = [
            Layout { stripe_width: 0, ..good },
            Layout { stripe_width: 13, ..good },
            Layout { redundancy: Redundancy::Mirror { copies: 0 }, ..good },
            Layout { redundancy: Redundancy::Mirror { copies: 5 }, ..good },
            Layout { strip_bytes: 0, ..good },
            Layout { strip_bytes: 4095, ..good },
            Layout { chunk_bytes: 0, ..good },
            Layout { chunk_bytes: good.chunk_bytes + (1 << 20), ..good },
            Layout { chunk_bytes: 4096, ..good },
        ];
        let rows = |data, parity, strip_blocks| Redundancy::Parity { data, parity, strip_blocks };
        let good = layout_of(rows(3, 1, 16), 2, CHUNK_BYTES_MAX);
        assert_eq!((good.strip_bytes, good.chunk_bytes % (192 << 10)), (1152 << 10, 0));
        let bad_rows = [rows(1, 1, 16), rows(9, 1, 16), rows(3, 0, 16), rows(3, 3, 16), rows(3, 1, 0), rows(4, 1, 16)];
        let bad_rows = bad_rows.map(|redundancy| Layout { redundancy, ..good });
        for layout in bad.into_iter().chain(bad_rows).chain([Layout { strip_bytes: 1 << 20, ..good }]) {
            assert!(check_layout(&layout).is_err(), "{layout:?}");
        }
    }
}
