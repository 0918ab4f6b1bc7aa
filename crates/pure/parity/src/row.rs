//! A row of strips: its parity, and what is missing of it.
//!
//! All goes block by block, so that what one step leaves is in the nearest cache for the next.
//!
//! Promises    E1, E2, E4 (lib.rs)
//! Not here    loops over bytes (kernels.rs)

use cairn_types::Redundancy;

use crate::{
    field::{COLUMNS_MAX, PARITY_MAX, factor, sum_of},
    kernels::{BLOCK, Block, ZERO_BLOCK, add, add_product, blocks, blocks_mut, p_and_q, scale, xor},
};

/// Strips of data in a row, at least: with one, parity is a copy.
const COLUMNS_MIN: usize = *Redundancy::DATA_STRIPS.start() as usize;

/// What one member has of a row, or of some positions of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strip<'a> {
    /// These bytes.
    Bytes(&'a [u8]),
    /// Zeroes: a hole, or a column past the end of the disk. It costs nothing to add.
    Zeroes,
}

/// What the caller of [`decode`] has of a strip, or wants.
#[derive(Debug, PartialEq, Eq)]
pub enum StripState<'a> {
    /// It is there. The caller has compared it with its CRC.
    Given(Strip<'a>),
    /// It is not there, and nobody asks for it.
    Missing,
    /// It is not there and is to be written here.
    Wanted(&'a mut [u8]),
}

/// Less of a row is there than its data is: nothing was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("only {there} strips of a row can be read and {needed} are needed: {} more must come back", .needed - .there)]
pub struct TooFewStrips {
    /// Strips that were given, of data and parity.
    pub there: usize,
    /// Strips that any other is made from: as many as the row has columns.
    pub needed: usize,
}

/// Writes the parity of these columns: P, or P and Q.
///
/// # Panics
/// If no row has so many columns or parities, if they are not equally long, or not whole blocks.
pub fn encode(columns: &[Strip<'_>], parity: &mut [&mut [u8]]) {
    assert_shape(columns.len(), parity.len());
    assert_equal_lengths(columns.iter().filter_map(length_of).chain(parity.iter().map(|p| p.len())));
    let mut data = Columns::default();
    for (to, strip) in data.0.iter_mut().zip(columns) {
        *to = blocks_of(*strip);
    }
    match parity {
        [p] => blocks_mut(p).iter_mut().enumerate().for_each(|(at, p)| data.xor(at, p)),
        [p, q] => {
            let both = blocks_mut(p).iter_mut().zip(blocks_mut(q));
            both.enumerate().for_each(|(at, (p, q))| data.p_and_q(at, p, q));
        }
        _ => unreachable!("the shape was checked"),
    }
}

/// Writes the strips of a row that are wanted from those that are given: any `columns.len()` of them do.
///
/// Fails, with nothing written, where fewer are given.
///
/// # Panics
/// If no row has so many columns or parities, if strips are not equally long, or not whole blocks.
pub fn decode(columns: &mut [StripState<'_>], parity: &mut [StripState<'_>]) -> Result<(), TooFewStrips> {
    assert_shape(columns.len(), parity.len());
    let all = || columns.iter().chain(parity.iter());
    assert_equal_lengths(all().filter_map(|strip| match strip {
        StripState::Given(strip) => length_of(strip),
        StripState::Missing => None,
        StripState::Wanted(to) => Some(to.len()),
    }));
    let there = all().filter(|strip| matches!(strip, StripState::Given(_))).count();
    if there < columns.len() {
        return Err(TooFewStrips { there, needed: columns.len() });
    }
    if all().any(|strip| matches!(strip, StripState::Wanted(_))) {
        Loss::of(columns, parity).make_good();
    }
    Ok(())
}

fn assert_shape(columns: usize, parity: usize) {
    assert!((COLUMNS_MIN..=COLUMNS_MAX).contains(&columns), "a row of {columns} columns");
    assert!((1..=PARITY_MAX).contains(&parity), "a row of {parity} strips of parity");
}

fn assert_equal_lengths(mut lengths: impl Iterator<Item = usize>) {
    if let Some(first) = lengths.next() {
        lengths.for_each(|length| assert_eq!(length, first, "strips of a row are equally long"));
    }
}

fn length_of(strip: &Strip<'_>) -> Option<usize> {
    match strip {
        Strip::Bytes(bytes) => Some(bytes.len()),
        Strip::Zeroes => None,
    }
}

fn blocks_of(strip: Strip<'_>) -> Option<&[Block]> {
    match strip {
        Strip::Bytes(bytes) => Some(blocks(bytes)),
        Strip::Zeroes => None,
    }
}

/// Columns by number; none where it is zeroes, or not there and left out of the sum.
#[derive(Default)]
struct Columns<'a>([Option<&'a [Block]>; COLUMNS_MAX]);

impl Columns<'_> {
    /// P of block `at`.
    fn xor(&self, at: usize, p: &mut Block) {
        let mut parts = [&ZERO_BLOCK; COLUMNS_MAX];
        let mut count = 0;
        for column in self.0.iter().flatten() {
            parts[count] = &column[at];
            count += 1;
        }
        xor(&parts[..count], p);
    }

    /// P and Q of block `at`.
    fn p_and_q(&self, at: usize, p: &mut Block, q: &mut Block) {
        let mut columns = [&ZERO_BLOCK; COLUMNS_MAX];
        let mut count = 0;
        for (number, column) in self.0.iter().enumerate() {
            if let Some(column) = column {
                columns[number] = &column[at];
                count = number + 1;
            }
        }
        p_and_q(&columns[..count], p, q);
    }
}

/// How what is missing of a row comes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// One strip, as the sum of what is there: P, or a column in whose place P stands. Q may be missing too, but nobody wants it.
    Sum,
    /// A first and a second strip together.
    Two(Two),
}

/// Two strips that come back together, the first one named first. One of them may not be wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Two {
    /// P and Q: P comes with Q.
    PAndQ,
    /// A column and P, by Q.
    ColumnAndP(u32),
    /// A column, by P, and Q.
    ColumnAndQ(u32),
    /// Two columns, by P and Q.
    Columns(u32, u32),
}

/// A row of which no more is missing than it has parity.
struct Loss<'a> {
    data: Columns<'a>,
    /// None where it is zeroes, or not there: then the way does not ask for it.
    p: Option<&'a [Block]>,
    q: Option<&'a [Block]>,
    way: Way,
    /// Where the strips of the way go; none for one that is not wanted.
    to: [Option<&'a mut [Block]>; 2],
}

impl<'a> Loss<'a> {
    fn of(columns: &'a mut [StripState<'_>], parity: &'a mut [StripState<'_>]) -> Self {
        let mut data = Columns::default();
        let (mut lost, mut count) = ([None, None], 0);
        for (number, strip) in columns.iter_mut().enumerate() {
            match Side::of(strip) {
                Side::There(blocks) => data.0[number] = blocks,
                Side::Lost(to) => {
                    lost[count] = Some((number, to));
                    count += 1;
                }
            }
        }
        let p_is_there = matches!(parity[0], StripState::Given(_));
        let q_is_wanted = matches!(parity.get(1), Some(StripState::Wanted(_)));
        let mut parity = parity.iter_mut().map(|strip| match Side::of(strip) {
            Side::There(blocks) => (blocks, None),
            Side::Lost(to) => (None, to),
        });
        let (p, p_to) = parity.next().unwrap_or_default();
        let (q, q_to) = parity.next().unwrap_or_default();
        let (way, to) = match lost {
            [None, _] if q_is_wanted => (Way::Two(Two::PAndQ), [p_to, q_to]),
            [None, _] => (Way::Sum, [p_to, None]),
            [Some((x, x_to)), None] if !p_is_there => (Way::Two(Two::ColumnAndP(x as u32)), [x_to, p_to]),
            [Some((x, x_to)), None] if q_is_wanted => (Way::Two(Two::ColumnAndQ(x as u32)), [x_to, q_to]),
            [Some((x, x_to)), None] => {
                data.0[x] = p;
                (Way::Sum, [x_to, None])
            }
            [Some((x, x_to)), Some((y, y_to))] => (Way::Two(Two::Columns(x as u32, y as u32)), [x_to, y_to]),
        };
        Self { data, p, q, way, to }
    }

    fn make_good(mut self) {
        let [mut first_to, mut second_to] = std::mem::take(&mut self.to);
        match self.way {
            Way::Sum => first_to.into_iter().flatten().enumerate().for_each(|(at, to)| self.data.xor(at, to)),
            Way::Two(two) => {
                // For the one that is not wanted, block by block.
                let mut spare = [[0; BLOCK]; 2];
                let count = first_to.as_ref().or(second_to.as_ref()).map_or(0, |to| to.len());
                for at in 0..count {
                    let [first, second] = &mut spare;
                    let first = first_to.as_mut().map_or(first, |to| &mut to[at]);
                    let second = second_to.as_mut().map_or(second, |to| &mut to[at]);
                    self.make_two(two, at, first, second);
                }
            }
        }
    }

    /// Block `at` of both.
    ///
    /// With x and y for the columns that are missing, fx and fy for their factors, and P' and Q' for P and Q plus what the other
    /// columns put there: P' = x + y and Q' = fx * x + fy * y. So Q' + fx * P' = (fx + fy) * y, and x = P' + y.
    fn make_two(&self, two: Two, at: usize, first: &mut Block, second: &mut Block) {
        let add_strip = |to: &mut Block, strip: Option<&[Block]>| strip.into_iter().for_each(|s| add(to, &s[at]));
        match two {
            Two::PAndQ => self.data.p_and_q(at, first, second),
            Two::ColumnAndP(x) => {
                self.data.p_and_q(at, second, first);
                add_strip(first, self.q);
                scale(first, factor(x, 1).inverse());
                add(second, first);
            }
            Two::ColumnAndQ(x) => {
                self.data.p_and_q(at, first, second);
                add_strip(first, self.p);
                add_product(second, first, factor(x, 1));
            }
            Two::Columns(x, y) => {
                self.data.p_and_q(at, first, second);
                add_strip(first, self.p);
                add_strip(second, self.q);
                add_product(second, first, factor(x, 1));
                scale(second, sum_of(factor(x, 1), factor(y, 1)).inverse());
                add(first, second);
            }
        }
    }
}

/// A strip as [`Loss`] looks at it.
enum Side<'a> {
    /// It is there, or is zeroes.
    There(Option<&'a [Block]>),
    /// It is not, and goes here if it is wanted.
    Lost(Option<&'a mut [Block]>),
}

impl<'a> Side<'a> {
    fn of(strip: &'a mut StripState<'_>) -> Self {
        match strip {
            StripState::Given(strip) => Self::There(blocks_of(*strip)),
            StripState::Missing => Self::Lost(None),
            StripState::Wanted(to) => Self::Lost(Some(blocks_mut(to))),
        }
    }
}
