//! The addresses of one span of a disk: what the functions for one layout tell, counted from where the span begins.
//!
//! Promises    blocks are those of the disk and sets those of the disk; a span's own count stays within this file
//! Assumes     blocks and sets that are asked for are the span's own
//! Not here    the arithmetic of a layout (plan.rs, split.rs, around.rs)

use std::ops::Range;

use cairn_types::{
    Addresses, BLOCK_BYTES, BlockRange, ClientTag, Layout, Moving, ObjectConfig, Redundancy, ReplicaSetIndex, Span,
};

use crate::{
    Piece, RowRole, Rows, chunks, component_blocks, layout_around, replica_sets, rows_around, rows_in_object,
    set_blocks, split, to_object,
};

/// A span and where it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Area {
    span: Span,
    end_block: u64,
}

impl Area {
    /// Of this span, which ends before block `end_block` of the disk.
    pub fn new(span: Span, end_block: u64) -> Self {
        Self { span, end_block }
    }

    /// The areas of a disk of this many bytes, in order.
    pub fn all(addresses: &Addresses, size_bytes: u64) -> impl Iterator<Item = Self> + '_ {
        let spans = addresses.spans();
        let ends = spans.iter().skip(1).map(|next| next.first_block);
        let ends = ends.chain([size_bytes.div_ceil(u64::from(BLOCK_BYTES))]);
        spans.iter().zip(ends).map(|(span, end_block)| Self { span: *span, end_block })
    }

    /// Where a block of a disk is.
    pub fn at(config: &ObjectConfig, block: u64) -> Self {
        let (span, next) = config.addresses.span_at(block);
        Self { span: *span, end_block: next.unwrap_or_else(|| config.size_blocks()) }
    }

    /// The area that a set is of, one that is moving among them; none where the disk has no such set, or none any more.
    pub fn of_set(config: &ObjectConfig, set: ReplicaSetIndex) -> Option<Self> {
        Self::of_set_at(&config.addresses, config.size_bytes, set)
    }

    /// The same of a disk of another size.
    pub fn of_set_at(addresses: &Addresses, size_bytes: u64, set: ReplicaSetIndex) -> Option<Self> {
        let moving = addresses.moving().map(|moving| Self::new(moving.to, moving.end_block));
        Self::all(addresses, size_bytes).chain(moving).find(|area| area.sets().contains(&set))
    }

    /// Its layout.
    pub fn layout(&self) -> &Layout {
        &self.span.layout
    }

    /// What the members of its sets hold for each other.
    pub fn redundancy(&self) -> Redundancy {
        self.span.layout.redundancy
    }

    /// The same addresses as they were laid out before, with sets that are no more; none where nothing was.
    pub fn was(&self) -> Option<Self> {
        let layout = self.span.was?;
        let generation = self.span.generation.wrapping_sub(1);
        Some(Self { span: Span { layout, was: None, generation, ..self.span }, ..*self })
    }

    /// What a part of a request is named by that begins at this block of the disk. Parts of one block under two layouts, one after the other,
    /// hold different blocks: they have different names.
    pub fn part_name(&self, block: u64) -> u64 {
        // Half of the names that a request has: none is so long that it meets itself.
        let half = ClientTag::PARTS_MAX / 2;
        block ^ (u64::from(self.span.generation % 2) * half)
    }

    /// Its rows; none of mirrors.
    pub fn rows(&self) -> Option<Rows> {
        Rows::of(self.redundancy())
    }

    /// Its first block of the disk, and the one after its last.
    pub fn blocks(&self) -> Range<u64> {
        self.span.first_block..self.end_block
    }

    /// Its sets.
    pub fn sets(&self) -> Range<ReplicaSetIndex> {
        self.span.first_set..self.span.first_set + replica_sets(&self.span.layout, self.own_bytes())
    }

    /// Blocks of each component of a set.
    pub fn component_blocks(&self, set: ReplicaSetIndex) -> u64 {
        component_blocks(&self.span.layout, self.own_bytes(), set - self.span.first_set)
    }

    /// Bytes of each component of a set.
    pub fn component_bytes(&self, set: ReplicaSetIndex) -> u64 {
        self.component_blocks(set) * u64::from(BLOCK_BYTES)
    }

    /// Blocks of the disk that a set holds.
    pub fn set_blocks(&self, set: ReplicaSetIndex) -> u64 {
        set_blocks(&self.span.layout, self.own_bytes(), set - self.span.first_set)
    }

    /// The pieces of these blocks, in order.
    ///
    /// # Panics
    /// The blocks are not all of this area.
    pub fn split(&self, range: BlockRange) -> impl ExactSizeIterator<Item = Piece> + use<> {
        let Span { first_block, first_set, layout, .. } = self.span;
        let own = BlockRange::new(self.own(range.first), range.count);
        let pieces = split(&layout, self.own_bytes(), own);
        pieces.map(move |piece| Piece {
            set: first_set + piece.set,
            object_first: first_block + piece.object_first,
            ..piece
        })
    }

    /// The blocks of the disk that these blocks of a set are: the inverse of [`Self::split`].
    pub fn to_object(&self, set: ReplicaSetIndex, range: BlockRange) -> Vec<BlockRange> {
        let own = to_object(&self.span.layout, set - self.span.first_set, range);
        own.into_iter().map(|range| self.in_disk(range)).collect()
    }

    /// The blocks of the disk that stand in these blocks of a member's component; none where it has parity there.
    pub fn held_in_object(&self, set: ReplicaSetIndex, member: u32, component: BlockRange) -> Vec<BlockRange> {
        self.in_places(set, component, |rows, row| match rows.role(row, member) {
            RowRole::Column(column) => column..column + 1,
            RowRole::Parity(_) => 0..0,
        })
    }

    /// The blocks of the disk that stand in these blocks of any member's component: of rows, those of all columns.
    pub fn columns_in_object(&self, set: ReplicaSetIndex, component: BlockRange) -> Vec<BlockRange> {
        self.in_places(set, component, |rows, _| 0..rows.data())
    }

    /// What lies past the disk's end in its last row is left out.
    fn in_places(
        &self,
        set: ReplicaSetIndex,
        component: BlockRange,
        columns: impl Fn(&Rows, u64) -> Range<u32>,
    ) -> Vec<BlockRange> {
        let Some(rows) = self.rows() else { return self.to_object(set, component) };
        let own = BlockRange::new(0, self.set_blocks(set) as u32);
        let mut found = Vec::new();
        for row in rows.rows_of(component) {
            let some = rows.strip_range(row).intersection(component).expect("a row of these blocks");
            let in_set = columns(&rows, row).map(|column| rows.in_set(row, column, some));
            found.extend(
                in_set.filter_map(|range| range.intersection(own)).flat_map(|range| self.to_object(set, range)),
            );
        }
        found
    }

    /// The blocks of the disk in all rows that these blocks belong to. The last row may reach past the area's end.
    ///
    /// # Panics
    /// The range is empty or not of this area, or the area has no rows.
    pub fn rows_around(&self, range: BlockRange) -> BlockRange {
        let own = BlockRange::new(self.own(range.first), range.count);
        self.in_disk(rows_around(&self.span.layout, self.own_bytes(), own))
    }

    /// These blocks of each component of a set, as far as their rows are neighbours in the disk, each beside its rows' place in the disk.
    ///
    /// # Panics
    /// The area has no rows.
    pub fn rows_in_object(&self, set: ReplicaSetIndex, component: BlockRange) -> Vec<(BlockRange, BlockRange)> {
        let own = rows_in_object(&self.span.layout, set - self.span.first_set, component);
        own.into_iter().map(|(component, rows)| (component, self.in_disk(rows))).collect()
    }

    fn own(&self, block: u64) -> u64 {
        block.checked_sub(self.span.first_block).expect("a block of this area")
    }

    fn in_disk(&self, own: BlockRange) -> BlockRange {
        BlockRange::new(self.span.first_block + own.first, own.count)
    }

    fn own_bytes(&self) -> u64 {
        (self.end_block - self.span.first_block) * u64::from(BLOCK_BYTES)
    }
}

/// The addresses of a disk of `from` bytes once it has grown to `to`.
///
/// The last span goes on, as far as no other set has the numbers of its next ones. Otherwise a span of the same layout follows it.
/// What is on its way to another layout is left out: it would end in the midst of a span.
pub fn grown(addresses: &Addresses, from: u64, to: u64) -> Addresses {
    if from == to {
        return addresses.clone();
    }
    let addresses = &addresses.given_up();
    let last = Area::all(addresses, from).last().expect("a disk has a span");
    let larger = Area::all(addresses, to).last().expect("a disk has a span");
    if addresses.plain().is_some() || last.sets() == larger.sets() {
        return addresses.clone();
    }
    let chunks = u64::from(chunks(last.layout(), last.own_bytes()));
    let first_block = last.span.first_block + chunks * (last.layout().chunk_bytes / u64::from(BLOCK_BYTES));
    let span = Span { first_block, first_set: addresses.sets_ever(), was: None, ..last.span };
    let sets = Area::new(span, to.div_ceil(u64::from(BLOCK_BYTES))).sets();
    addresses.with_span(span, sets.len() as u32)
}

/// What becomes of the part of a disk that `block` is in once it has this layout: its sets have numbers that none ever had.
///
/// A part is a chunk of the layout that it has, so it is as long as its new chunk at most.
pub fn moving_at(config: &ObjectConfig, block: u64, redundancy: Redundancy, stripe_width: u8) -> (Moving, u32) {
    let area = Area::at(config, block);
    let chunk_blocks = area.layout().chunk_bytes / u64::from(BLOCK_BYTES);
    let first_block = block - (block - area.span.first_block) % chunk_blocks;
    let end_block = area.end_block.min(first_block + chunk_blocks);
    let bytes = (end_block - first_block) * u64::from(BLOCK_BYTES);
    let layout = layout_around(redundancy, stripe_width, bytes, area.layout().chunk_bytes);
    let used = sets(&config.addresses, config.size_bytes).max().map_or(0, |set| set + 1);
    let first_set = config.addresses.sets_ever().max(used);
    let was = Some(*area.layout());
    let to = Span { first_block, first_set, layout, was, generation: area.span.generation + 1 };
    (Moving { to, end_block }, Area::new(to, end_block).sets().len() as u32)
}

/// All sets of a disk that guests' data are at, in order of the disk.
pub fn sets(addresses: &Addresses, size_bytes: u64) -> impl Iterator<Item = ReplicaSetIndex> + '_ {
    Area::all(addresses, size_bytes).flat_map(|area| area.sets())
}

/// Whether guests' data are at this set: it is one of a span, and neither of what is moving nor of what was given up.
pub fn serves(config: &ObjectConfig, set: ReplicaSetIndex) -> bool {
    config.addresses.serves(set) && Area::of_set(config, set).is_some()
}

/// Blocks of the disk by the areas that they are in, in order.
pub fn by_area(config: &ObjectConfig, range: BlockRange) -> impl Iterator<Item = (Area, BlockRange)> + '_ {
    let mut next = range.first;
    std::iter::from_fn(move || {
        (next < range.end()).then(|| {
            let area = Area::at(config, next);
            let end = area.end_block.min(range.end());
            let part = BlockRange::new(next, (end - next) as u32);
            next = end;
            (area, part)
        })
    })
}
