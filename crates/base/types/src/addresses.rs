//! The addresses of a disk: one span with one layout, or several after some of it went over to another.
//!
//! Promises    the numbers of replica sets are never used again: what is told of a set is told of one set for ever
//!             a disk of one span that never was another is encoded as its layout alone, as every release wrote it
//! Not here    which block lies where in a span (`geometry`); who must answer (`votes`)
//! Source      DAOS and vSAN keep one layout an object; a volume of btrfs has one a block group, which is what a span is

use serde::{Deserialize, Serialize};

use crate::{BLOCK_BYTES, Layout, Redundancy, ReplicaSetIndex};

/// A part of a disk with one layout: from its first block to the next span, or to the disk's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Span {
    /// Its first block of the disk.
    pub first_block: u64,
    /// Its first replica set; the others follow without a gap.
    pub first_set: ReplicaSetIndex,
    /// Its shape. Chunks are counted from its first block.
    pub layout: Layout,
    /// The one before, of which this span was a chunk: requests of that time are repeated in its parts.
    pub was: Option<Layout>,
    /// How often it went over to another layout.
    pub generation: u32,
}

/// A part of a disk that is on its way to another layout. It serves nothing: guests' data are where the spans say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moving {
    /// What it becomes: from the same first block on.
    pub to: Span,
    /// The block of the disk after its last.
    pub end_block: u64,
}

/// Where the blocks of a disk are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Addresses {
    /// In the order of the disk, the first one from block 0 on; never empty.
    spans: Vec<Span>,
    moving: Option<Moving>,
    /// Sets that were ever used, at most; 0 where those of the spans are all that there were.
    sets_ever: ReplicaSetIndex,
}

impl From<Layout> for Addresses {
    fn from(layout: Layout) -> Self {
        Self {
            spans: vec![Span { first_block: 0, first_set: 0, layout, was: None, generation: 0 }],
            moving: None,
            sets_ever: 0,
        }
    }
}

impl Addresses {
    /// The spans, in the order of the disk.
    pub fn spans(&self) -> &[Span] {
        &self.spans
    }

    /// What is on its way to another layout.
    pub fn moving(&self) -> Option<&Moving> {
        self.moving.as_ref()
    }

    /// The layout of the disk's end: what growth goes on with.
    pub fn last(&self) -> &Span {
        self.spans.last().expect("a disk has a span")
    }

    /// The only layout of a disk that never was another's in part.
    pub fn plain(&self) -> Option<Layout> {
        let first = self.spans[0];
        let plain = self.spans.len() == 1 && first.first_set == 0 && self.moving.is_none() && self.sets_ever == 0;
        plain.then_some(first.layout)
    }

    /// The span that this block is in, and where the next one begins.
    pub fn span_at(&self, block: u64) -> (&Span, Option<u64>) {
        let after = self.spans.partition_point(|span| span.first_block <= block);
        (&self.spans[after - 1], self.spans.get(after).map(|next| next.first_block))
    }

    /// The span that a set is of: of those that serve, or what is moving. Sets of one span follow each other, and no other's are between.
    pub fn span_of(&self, set: ReplicaSetIndex) -> &Span {
        let all = self.spans.iter().chain(self.moving.iter().map(|moving| &moving.to));
        let found = all.filter(|span| span.first_set <= set).max_by_key(|span| span.first_set);
        found.unwrap_or(&self.spans[0])
    }

    /// Sets that were ever used, as far as that is more than the spans have; 0 where nothing was ever moved.
    pub fn sets_ever(&self) -> ReplicaSetIndex {
        self.sets_ever
    }

    /// The same with something on its way, which has so many sets.
    ///
    /// # Panics
    /// Something is on its way already.
    pub fn begun(&self, moving: Moving, sets: u32) -> Self {
        assert!(self.moving.is_none(), "one part of a disk is moved at a time");
        Self { spans: self.spans.clone(), moving: Some(moving), sets_ever: moving.to.first_set + sets }
    }

    /// The same with a span behind the others, which has so many sets.
    pub fn with_span(&self, span: Span, sets: u32) -> Self {
        let mut grown = self.clone();
        grown.spans.push(span);
        grown.sets_ever = span.first_set + sets;
        grown
    }

    /// The same with nothing on its way: what was begun is given up.
    pub fn given_up(&self) -> Self {
        Self { moving: None, ..self.clone() }
    }

    /// The same once what is moving has taken the place of what was there. None: nothing is moving.
    ///
    /// Of the span that it was in, what lies before and behind stays what it is.
    pub fn moved(&self, disk_end_block: u64) -> Option<Self> {
        let Moving { to, end_block } = self.moving?;
        let (_, next) = self.span_at(to.first_block);
        let mut spans: Vec<Span> =
            self.spans.iter().filter(|span| span.first_block < to.first_block).copied().collect();
        spans.push(to);
        if end_block < next.unwrap_or(disk_end_block) {
            let (old, _) = self.span_at(to.first_block);
            let chunks = (end_block - old.first_block) / (old.layout.chunk_bytes / u64::from(BLOCK_BYTES));
            let first_set = old.first_set + chunks as u32 * old.layout.stripe_width;
            spans.push(Span { first_block: end_block, first_set, ..*old });
        }
        spans.extend(self.spans.iter().filter(|span| span.first_block >= end_block));
        Some(Self { spans, moving: None, sets_ever: self.sets_ever })
    }

    /// Whether the spans cover a disk of so many bytes in order, and what is moving is a part of one: one from outside is looked at once.
    pub(crate) fn is_sound(&self, size_bytes: u64) -> bool {
        let end_block = size_bytes.div_ceil(u64::from(BLOCK_BYTES));
        let blocks = || self.spans.iter().map(|span| span.first_block);
        let begins = blocks().next() == Some(0) && blocks().skip(1).all(|block| block < end_block);
        begins && blocks().zip(blocks().skip(1)).all(|(one, next)| one < next) && self.moving_is_sound(end_block)
    }

    fn moving_is_sound(&self, disk_end_block: u64) -> bool {
        self.moving.is_none_or(|Moving { to, end_block }| {
            let (_, next) = self.span_at(to.first_block);
            to.first_block < end_block && end_block <= next.unwrap_or(disk_end_block)
        })
    }

    /// What the members of a set hold for each other.
    pub fn redundancy(&self, set: ReplicaSetIndex) -> Redundancy {
        self.span_of(set).layout.redundancy
    }

    /// The chunk that a set is a stripe of, by its first set.
    pub fn chunk_of(&self, set: ReplicaSetIndex) -> ReplicaSetIndex {
        let Span { first_set, layout, .. } = *self.span_of(set);
        set - (set - first_set) % layout.stripe_width
    }

    /// Whether guests' data are at this set: it is no part of what is moving.
    pub fn serves(&self, set: ReplicaSetIndex) -> bool {
        self.moving.is_none_or(|moving| self.span_of(set).first_set != moving.to.first_set)
    }
}
