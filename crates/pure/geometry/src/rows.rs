//! Rows of a set with parity: which member holds which strip, and into which parts a request falls.
//!
//! Strip `t` of a set is column `t mod k` of row `t / k`, on member `t mod n`; the row's parity is on the members after its last column.
//! So strips in order go round all members, and so does parity. Everything of a row is at the same blocks of its components.
//!
//! Promises    G4, G5 (lib.rs)
//! Assumes     the layout passed `check_layout`
//! Not here    stripes and chunks (split.rs): an address here is one within a replica set

use std::ops::Range;

use cairn_types::{BlockRange, Redundancy};

/// What a member holds of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RowRole {
    /// Data: column 0..k.
    Column(u32),
    /// Parity: 0 is P, 1 is Q.
    Parity(u32),
}

/// A run of blocks within one strip of data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StripPart {
    /// Which row.
    pub row: u64,
    /// Which column of it.
    pub column: u32,
    /// The member that holds the strip.
    pub member: u32,
    /// Where in that member's component; the row's parity of these blocks is there too, at other members.
    pub range: BlockRange,
    /// Where in the set: the first block.
    pub set_first: u64,
}

/// A part of a request that is one operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unit {
    /// All blocks of these rows: parity follows from what is written alone.
    Whole {
        /// Which rows.
        rows: Range<u64>,
    },
    /// A part of one strip.
    Part(StripPart),
}

/// The rows of a set with parity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rows {
    data: u32,
    parity: u32,
    strip_blocks: u64,
}

impl Rows {
    /// None for a mirror, which has none.
    pub fn of(redundancy: Redundancy) -> Option<Self> {
        match redundancy {
            Redundancy::Mirror { .. } => None,
            Redundancy::Parity { data, parity, strip_blocks } => {
                Some(Self { data: data.into(), parity: parity.into(), strip_blocks: strip_blocks.into() })
            }
        }
    }

    /// Strips of data in a row: k.
    pub fn data(&self) -> u32 {
        self.data
    }

    /// Strips of parity in a row: m.
    pub fn parity(&self) -> u32 {
        self.parity
    }

    /// Members of the set: n = k + m.
    pub fn members(&self) -> u32 {
        self.data + self.parity
    }

    /// Blocks of a strip.
    pub fn strip_blocks(&self) -> u64 {
        self.strip_blocks
    }

    /// Blocks of the set in a row.
    pub fn row_blocks(&self) -> u64 {
        self.strip_blocks * u64::from(self.data)
    }

    /// Rows of a set of this many blocks, the last one perhaps with less data than the others.
    pub fn rows(&self, set_blocks: u64) -> u64 {
        set_blocks.div_ceil(self.row_blocks())
    }

    /// What member `member` holds of a row.
    pub fn role(&self, row: u64, member: u32) -> RowRole {
        let n = u64::from(self.members());
        let place = (u64::from(member) + n - self.first_member(row)) % n;
        match place < u64::from(self.data) {
            true => RowRole::Column(place as u32),
            false => RowRole::Parity(place as u32 - self.data),
        }
    }

    /// The member that holds this of a row.
    pub fn member(&self, row: u64, role: RowRole) -> u32 {
        let place = match role {
            RowRole::Column(column) => column,
            RowRole::Parity(parity) => self.data + parity,
        };
        ((self.first_member(row) + u64::from(place)) % u64::from(self.members())) as u32
    }

    /// The member of column 0.
    fn first_member(&self, row: u64) -> u64 {
        let n = u64::from(self.members());
        row % n * u64::from(self.data) % n
    }

    /// The row's blocks in the set: what a lock of the row covers.
    pub fn row_range(&self, row: u64) -> BlockRange {
        BlockRange::new(row * self.row_blocks(), self.row_blocks() as u32)
    }

    /// The row's blocks in each of its components.
    pub fn strip_range(&self, row: u64) -> BlockRange {
        BlockRange::new(row * self.strip_blocks, self.strip_blocks as u32)
    }

    /// The rows that these blocks of a component belong to.
    pub fn rows_of(&self, component: BlockRange) -> Range<u64> {
        match component.count {
            0 => 0..0,
            _ => component.first / self.strip_blocks..(component.end() - 1) / self.strip_blocks + 1,
        }
    }

    /// Blocks of one row's components, at the column's member, as blocks of the set.
    pub fn in_set(&self, row: u64, column: u32, component: BlockRange) -> BlockRange {
        let first = row * self.row_blocks() + u64::from(column) * self.strip_blocks;
        BlockRange::new(first + component.first - row * self.strip_blocks, component.count)
    }

    /// A run that begins at `set_block` and ends with its strip, or with `end` where that is before.
    fn part(&self, set_block: u64, end: u64) -> StripPart {
        let (strip, in_strip) = (set_block / self.strip_blocks, set_block % self.strip_blocks);
        let (row, column) = (strip / u64::from(self.data), (strip % u64::from(self.data)) as u32);
        let count = (self.strip_blocks - in_strip).min(end - set_block) as u32;
        StripPart {
            row,
            column,
            member: self.member(row, RowRole::Column(column)),
            range: BlockRange::new(row * self.strip_blocks + in_strip, count),
            set_first: set_block,
        }
    }

    /// The strips that hold these blocks of the set, in order.
    pub fn parts(&self, range: BlockRange) -> impl Iterator<Item = StripPart> {
        let (rows, mut next) = (*self, range.first);
        std::iter::from_fn(move || {
            let part = (next < range.end()).then(|| rows.part(next, range.end()))?;
            next += u64::from(part.range.count);
            Some(part)
        })
    }

    /// The operations of a write to these blocks of the set, in order: whole rows together, as many as fit `op_blocks_max`
    /// blocks of data but one at least; else a strip's part each.
    ///
    /// They hang on nothing but layout and range, so that whoever repeats a request names the same parts (ADR 0002).
    pub fn units(&self, range: BlockRange, op_blocks_max: u64) -> Units {
        let rows_max = (op_blocks_max / self.row_blocks()).max(1);
        Units { rows: *self, next: range.first, end: range.end(), rows_max }
    }

    /// The members that such an operation concerns, whatever their state: a bit for each index.
    pub fn relevant(&self, unit: &Unit) -> u16 {
        match unit {
            Unit::Whole { .. } => (1 << self.members()) - 1,
            Unit::Part(part) => {
                let parities = (0..self.parity).map(|j| self.member(part.row, RowRole::Parity(j)));
                parities.fold(1 << part.member, |mask, member| mask | 1 << member)
            }
        }
    }
}

/// The units of one request, in order.
#[derive(Debug, Clone)]
pub struct Units {
    rows: Rows,
    next: u64,
    end: u64,
    rows_max: u64,
}

impl Iterator for Units {
    type Item = Unit;

    fn next(&mut self) -> Option<Unit> {
        if self.next >= self.end {
            return None;
        }
        let row_blocks = self.rows.row_blocks();
        let whole = (self.end - self.next) / row_blocks;
        if self.next.is_multiple_of(row_blocks) && whole > 0 {
            let (row, count) = (self.next / row_blocks, whole.min(self.rows_max));
            self.next += count * row_blocks;
            return Some(Unit::Whole { rows: row..row + count });
        }
        let part = self.rows.part(self.next, self.end);
        self.next += u64::from(part.range.count);
        Some(Unit::Part(part))
    }
}
