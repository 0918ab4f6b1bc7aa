//! Sums and products of whole blocks, written so that the compiler makes vector code of them without being told of a processor.
//!
//! The loops over bytes have a length known beforehand, and those over columns within are unrolled: there is one for each number of
//! columns. P and Q of four are so made at 37 GB/s (baseline x86-64, in cache). Written with iterators over columns they are no
//! vector code, and made at 1.6 GB/s: `cargo bench -p cairn-parity` after every change.
//!
//! A product with any factor takes eight steps, one for each bit of the data: 5 GB/s. A table of 256 products makes 2 GB/s, as
//! nothing looks up 16 bytes at once. Most factors are powers of two, and those take a doubling for each power: 5 to 27 GB/s.
//!
//! Not here    which strips there are, and what is made from which (row.rs)

use cairn_types::BLOCK_BYTES;

use crate::field::{Factor, doubled};

/// Bytes of a block, as a length.
pub(crate) const BLOCK: usize = BLOCK_BYTES as usize;
/// A block. Its length is known when the loops over it are compiled.
pub(crate) type Block = [u8; BLOCK];
/// What stands for a column of zeroes between others.
pub(crate) static ZERO_BLOCK: Block = [0; BLOCK];

/// The blocks of a strip.
///
/// # Panics
/// On a part of a block at the end.
pub(crate) fn blocks(bytes: &[u8]) -> &[Block] {
    let (blocks, rest) = bytes.as_chunks();
    assert!(rest.is_empty(), "{} bytes are no whole blocks of {BLOCK_BYTES}", bytes.len());
    blocks
}

/// The blocks of a strip that is to be written.
///
/// # Panics
/// On a part of a block at the end.
pub(crate) fn blocks_mut(bytes: &mut [u8]) -> &mut [Block] {
    let length = bytes.len();
    let (blocks, rest) = bytes.as_chunks_mut();
    assert!(rest.is_empty(), "{length} bytes are no whole blocks of {BLOCK_BYTES}");
    blocks
}

/// `into ^= from`: a difference of data is added to P, or old data to new, which gives the difference.
///
/// # Panics
/// If they are not equally long, or not whole blocks.
pub fn xor_into(into: &mut [u8], from: &[u8]) {
    mul_into(into, from, Factor::ONE);
}

/// `into ^= factor * from`: a difference of data is added to parity.
///
/// # Panics
/// If they are not equally long, or not whole blocks.
pub fn mul_into(into: &mut [u8], from: &[u8], factor: Factor) {
    assert_eq!(into.len(), from.len(), "a product is added to as many bytes");
    blocks_mut(into).iter_mut().zip(blocks(from)).for_each(|(into, from)| add_product(into, from, factor));
}

/// `into ^= from`.
pub(crate) fn add(into: &mut Block, from: &Block) {
    add_doubled::<0>(into, from);
}

/// `into ^= factor * from`.
pub(crate) fn add_product(into: &mut Block, from: &Block, factor: Factor) {
    // Those of columns in Q.
    match factor.get() {
        0x01 => add_doubled::<0>(into, from),
        0x02 => add_doubled::<1>(into, from),
        0x04 => add_doubled::<2>(into, from),
        0x08 => add_doubled::<3>(into, from),
        0x10 => add_doubled::<4>(into, from),
        0x20 => add_doubled::<5>(into, from),
        0x40 => add_doubled::<6>(into, from),
        0x80 => add_doubled::<7>(into, from),
        _ => {
            let products = products(factor);
            into.iter_mut().zip(from).for_each(|(into, from)| *into ^= product(*from, &products));
        }
    }
}

/// `block = factor * block`.
pub(crate) fn scale(block: &mut Block, factor: Factor) {
    if factor == Factor::ONE {
        return;
    }
    let products = products(factor);
    for byte in block {
        *byte = product(*byte, &products);
    }
}

/// `into ^= 2^POWER * from`.
#[inline(never)]
fn add_doubled<const POWER: usize>(into: &mut Block, from: &Block) {
    for (into, from) in into.iter_mut().zip(from) {
        let mut product = *from;
        for _ in 0..POWER {
            product = doubled(product);
        }
        *into ^= product;
    }
}

/// The products of a factor with 2^7, 2^6, .. 2^0.
fn products(factor: Factor) -> [u8; 8] {
    let mut products = [0; 8];
    let mut product = factor.get();
    for to in products.iter_mut().rev() {
        *to = product;
        product = doubled(product);
    }
    products
}

/// The product of an element with the factor of `products`: the sum of those where the element has a bit.
#[inline(always)]
fn product(element: u8, products: &[u8; 8]) -> u8 {
    let mut sum = 0;
    for (bit, product) in products.iter().enumerate() {
        sum ^= ((element << bit) as i8 >> 7) as u8 & product;
    }
    sum
}

/// `to` becomes the sum of these blocks, of at most eight.
pub(crate) fn xor(parts: &[&Block], to: &mut Block) {
    match *parts {
        [] => to.fill(0),
        [a] => to.copy_from_slice(a),
        [a, b] => xor_of([a, b], to),
        [a, b, c] => xor_of([a, b, c], to),
        [a, b, c, d] => xor_of([a, b, c, d], to),
        [a, b, c, d, e] => xor_of([a, b, c, d, e], to),
        [a, b, c, d, e, f] => xor_of([a, b, c, d, e, f], to),
        [a, b, c, d, e, f, g] => xor_of([a, b, c, d, e, f, g], to),
        [a, b, c, d, e, f, g, h] => xor_of([a, b, c, d, e, f, g, h], to),
        _ => unreachable!("{} columns in a row", parts.len()),
    }
}

/// `p` and `q` become those of the columns 0, 1, .. in order, of at most eight. Columns after them are zeroes.
pub(crate) fn p_and_q(columns: &[&Block], p: &mut Block, q: &mut Block) {
    match *columns {
        [] => {
            p.fill(0);
            q.fill(0);
        }
        [a] => {
            p.copy_from_slice(a);
            q.copy_from_slice(a);
        }
        [a, b] => p_and_q_of([a, b], p, q),
        [a, b, c] => p_and_q_of([a, b, c], p, q),
        [a, b, c, d] => p_and_q_of([a, b, c, d], p, q),
        [a, b, c, d, e] => p_and_q_of([a, b, c, d, e], p, q),
        [a, b, c, d, e, f] => p_and_q_of([a, b, c, d, e, f], p, q),
        [a, b, c, d, e, f, g] => p_and_q_of([a, b, c, d, e, f, g], p, q),
        [a, b, c, d, e, f, g, h] => p_and_q_of([a, b, c, d, e, f, g, h], p, q),
        _ => unreachable!("{} columns in a row", columns.len()),
    }
}

#[inline(never)]
#[allow(clippy::needless_range_loop, reason = "over iterators it is no vector code")]
fn xor_of<const K: usize>(parts: [&Block; K], to: &mut Block) {
    for at in 0..BLOCK {
        let mut sum = parts[0][at];
        for number in 1..K {
            sum ^= parts[number][at];
        }
        to[at] = sum;
    }
}

/// Horner's rule from the last column: each step doubles what is there and adds the next one before.
#[inline(never)]
#[allow(clippy::needless_range_loop, reason = "over iterators it is no vector code")]
fn p_and_q_of<const K: usize>(columns: [&Block; K], p: &mut Block, q: &mut Block) {
    for at in 0..BLOCK {
        let mut sum = columns[K - 1][at];
        let mut weighted = sum;
        for number in (0..K - 1).rev() {
            sum ^= columns[number][at];
            weighted = doubled(weighted) ^ columns[number][at];
        }
        p[at] = sum;
        q[at] = weighted;
    }
}
