//! Rows in the model: what an operation leaves on a member, what a chain of such pieces comes to, and a row from k of its members.
//!
//! Every operation has a value of its own in each column: eight bytes that nothing else comes to. What a member stores is computed from
//! these as the product does: a difference is added to the parity that is there, with its column's factor, and a missing column is solved
//! for. Beside it stands of which operations parity ought to be: what is computed must agree.

use std::collections::BTreeMap;

use cairn_geometry::{RowRole, Rows};
use cairn_types::{ObjectConfig, OpId};
use serde::Serialize;

/// What an operation writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Place {
    /// The block of a mirror, or the row.
    pub row: u64,
    /// The column of the row; none: the whole row, or the block of a mirror.
    pub column: Option<u32>,
    /// The members that it concerns, a bit for each index; 0: all.
    pub members: u16,
}

impl Place {
    /// A block of a mirror.
    pub fn block(block: u64) -> Self {
        Self { row: block, column: None, members: 0 }
    }

    /// A column of a row, or the row.
    pub fn of_row(rows: Rows, row: u64, column: Option<u32>) -> Self {
        let parity = (0..rows.parity()).map(|j| rows.member(row, RowRole::Parity(j)));
        let data = |c| rows.member(row, RowRole::Column(c));
        let members = match column {
            Some(column) => parity.fold(1 << data(column), |mask, member| mask | 1 << member),
            None => (1 << rows.members()) - 1,
        };
        Self { row, column, members }
    }

    /// Whether it concerns the member with this index.
    pub fn concerns(&self, index: u32) -> bool {
        self.members == 0 || self.members >> index & 1 == 1
    }

    /// Whether a lock of the one keeps the other out.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.row == other.row && (self.column.is_none() || other.column.is_none() || self.column == other.column)
    }

    /// The whole row that it is in.
    pub fn whole(&self) -> Self {
        Self { column: None, ..*self }
    }
}

/// What an operation leaves on a member.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub enum Piece {
    /// The data of this operation.
    Data(OpId),
    /// Parity.
    Parity(Parity),
    /// What stood in a column, to be replaced by the operation itself: the member of this parity makes that of it.
    Difference { column: u32, old: OpId, parity: u32, columns: u32 },
}

/// A block of parity, with its row check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Parity {
    /// Of each column, the operation whose data it ought to be of.
    of: Vec<OpId>,
    bytes: u64,
    row_check: u64,
}

impl Parity {
    /// Of a row.
    pub fn of(columns: &[OpId], parity: u32) -> Self {
        Self { of: columns.to_vec(), bytes: parity_of(columns, parity), row_check: row_check(columns) }
    }

    /// After a column's data were replaced.
    pub fn after(&self, parity: u32, column: u32, (old, new): (OpId, OpId)) -> Self {
        let (was, is) = (word(old, column), word(new, column));
        let mut of = self.of.clone();
        of[column as usize] = new;
        Self {
            of,
            bytes: self.bytes ^ times(factor(column, parity), was ^ is),
            row_check: self.row_check.wrapping_sub(mixed(old, column)).wrapping_add(mixed(new, column)),
        }
    }
}

/// An operation that a component holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Held {
    pub place: Place,
    pub piece: Piece,
    /// It brought what others hold: all that was decided before it is in it.
    pub copied: bool,
}

/// What a member has of a row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub enum Strip {
    Data(OpId),
    Parity(Parity),
}

/// The rows of an object that has them.
pub fn rows_of(config: &ObjectConfig) -> Option<Rows> {
    Rows::of(config.addresses.redundancy(0))
}

/// The data of an operation in a column.
fn word(op: OpId, column: u32) -> u64 {
    if op == OpId::ZERO {
        return 0;
    }
    let mut z = op.epoch.number << 48 ^ (op.epoch.host.0 as u64) << 40 ^ op.seq << 8 ^ u64::from(column);
    z = z.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Each byte times the factor.
fn times(factor: u8, word: u64) -> u64 {
    let (mut sum, mut power) = (0, word);
    for bit in 0..8 {
        if factor >> bit & 1 == 1 {
            sum ^= power;
        }
        let falls_out = power >> 7 & 0x0101_0101_0101_0101;
        power = (power << 1 & 0xfefe_fefe_fefe_fefe) ^ (falls_out * 0x1d);
    }
    sum
}

fn inverse(factor: u8) -> u8 {
    (1..=255).find(|other| times(factor, u64::from(*other)) == 1).expect("not zero")
}

fn factor(column: u32, parity: u32) -> u8 {
    cairn_parity::factor(column, parity).get()
}

/// What a column's data add to the row check; zeroes add nothing.
fn mixed(op: OpId, column: u32) -> u64 {
    word(op, column).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(17)
}

fn row_check(columns: &[OpId]) -> u64 {
    (0..).zip(columns).fold(0, |sum, (column, op)| mixed(*op, column).wrapping_add(sum))
}

fn parity_of(columns: &[OpId], parity: u32) -> u64 {
    let words = columns.iter().enumerate().map(|(c, op)| times(factor(c as u32, parity), word(*op, c as u32)));
    words.fold(0, |sum, word| sum ^ word)
}

/// The data of the newest of these operations, which are of one row, oldest first.
pub fn data<'a>(chain: impl Iterator<Item = &'a Held>) -> OpId {
    let data = chain.filter_map(|held| if let Piece::Data(op) = held.piece { Some(op) } else { None });
    data.last().unwrap_or(OpId::ZERO)
}

/// The parity of the newest of these operations, which are of one row, oldest first; of zeroes where there is none.
pub fn parity<'a>(chain: impl Iterator<Item = &'a Held>, columns: u32, parity: u32) -> Parity {
    let found = chain.filter_map(|held| if let Piece::Parity(parity) = &held.piece { Some(parity) } else { None });
    found.last().cloned().unwrap_or_else(|| Parity::of(&vec![OpId::ZERO; columns as usize], parity))
}

/// The operation in each column of a row, from k strips at least, all of which must agree.
///
/// # Errors
/// They do not.
pub fn decode(rows: Rows, row: u64, strips: &BTreeMap<u32, Strip>) -> Result<Vec<OpId>, String> {
    let k = rows.data();
    assert!(strips.len() >= k as usize, "k strips give a row");
    let mut columns: Vec<Option<OpId>> = vec![None; k as usize];
    let mut parities = Vec::new();
    for (index, strip) in strips {
        match (rows.role(row, *index), strip) {
            (RowRole::Column(column), Strip::Data(op)) => columns[column as usize] = Some(*op),
            (RowRole::Parity(parity), Strip::Parity(told)) => parities.push((parity, told)),
            (role, strip) => panic!("{strip:?} as {role:?}"),
        }
    }
    let missing: Vec<u32> = (0..k).filter(|c| columns[*c as usize].is_none()).collect();
    let solved = solve(&missing, &columns, &parities);
    for (column, bytes) in missing.iter().zip(solved) {
        let ought = parities[0].1.of[*column as usize];
        if word(ought, *column) != bytes {
            return Err(format!("row {row}: column {column} comes to other bytes than those of {ought:?}: {strips:?}"));
        }
        columns[*column as usize] = Some(ought);
    }
    let columns: Vec<OpId> = columns.into_iter().flatten().collect();
    let fits = |told: &Parity, parity| {
        told.row_check == row_check(&columns) && told.bytes == parity_of(&columns, parity) && told.of == columns
    };
    match parities.iter().find(|(parity, told)| !fits(told, *parity)) {
        Some((parity, _)) => Err(format!("row {row}: parity {parity} is not of {columns:?}: {strips:?}")),
        None => Ok(columns),
    }
}

/// The bytes of the missing columns, by as many of the parities: Gauss and Jordan.
fn solve(missing: &[u32], columns: &[Option<OpId>], parities: &[(u32, &Parity)]) -> Vec<u64> {
    let mut equations: Vec<(Vec<u8>, u64)> = Vec::new();
    for (parity, told) in parities.iter().take(missing.len()) {
        let known = columns.iter().enumerate().filter_map(|(c, op)| Some((c as u32, (*op)?)));
        let rest = known.fold(told.bytes, |sum, (c, op)| sum ^ times(factor(c, *parity), word(op, c)));
        equations.push((missing.iter().map(|c| factor(*c, *parity)).collect(), rest));
    }
    for pivot in 0..missing.len() {
        let at = (pivot..missing.len()).find(|at| equations[*at].0[pivot] != 0).expect("any k strips give a row");
        equations.swap(pivot, at);
        scale(&mut equations[pivot], pivot);
        let (by, of) = equations[pivot].clone();
        for (other, (factors, value)) in equations.iter_mut().enumerate().filter(|(other, _)| *other != pivot) {
            let times_by = factors[pivot];
            debug_assert!(other != pivot);
            factors.iter_mut().zip(&by).for_each(|(f, b)| *f ^= times(times_by, u64::from(*b)) as u8);
            *value ^= times(times_by, of);
        }
    }
    equations.into_iter().map(|(_, value)| value).collect()
}

/// Makes the factor at `pivot` one.
fn scale((factors, value): &mut (Vec<u8>, u64), pivot: usize) {
    let by = inverse(factors[pivot]);
    factors.iter_mut().for_each(|f| *f = times(by, u64::from(*f)) as u8);
    *value = times(by, *value);
}

/// What the member with this index gets of an operation on whole rows, or of one that makes parity anew: `columns` is the row after it.
pub fn absolute(rows: Rows, row: u64, index: u32, columns: &[OpId]) -> Piece {
    match rows.role(row, index) {
        RowRole::Column(column) => Piece::Data(columns[column as usize]),
        RowRole::Parity(parity) => Piece::Parity(Parity::of(columns, parity)),
    }
}
