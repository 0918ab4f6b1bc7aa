//! How fast the kernels are on this machine, 4 KiB at a time from the nearest cache: `cargo bench -p cairn-parity`.
//!
//! Of many rounds the fastest one counts: what else the machine does only ever makes one slower. GB/s are of what is named: the
//! data that goes in, or for what comes back the strips that come back.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "it measures time")]

use std::{hint::black_box, time::Instant};

use cairn_format::crc32c;
use cairn_parity::{Factor, Strip, StripState, decode, encode, factor, mul_into, xor_into};

const BLOCK: usize = 4096;
/// Rounds, and calls in each: 0.2 ms of the slowest one, which is less than a slice of the scheduler.
const ROUNDS: usize = 2000;
const CALLS: usize = 100;

fn measure(name: &str, bytes: usize, mut call: impl FnMut()) {
    let round = |_| {
        let start = Instant::now();
        (0..CALLS).for_each(|_| call());
        start.elapsed().as_secs_f64() / CALLS as f64
    };
    let seconds = (0..ROUNDS).map(round).fold(f64::INFINITY, f64::min);
    println!("{name:36} {:7.0} ns {:7.1} GB/s", seconds * 1e9, bytes as f64 / seconds / 1e9);
}

fn block(seed: usize) -> Vec<u8> {
    (0..BLOCK).map(|at| ((at * (2 * seed + 3)) ^ (at >> 5) ^ (seed * 0x5b)) as u8).collect()
}

fn encodes(k: usize) {
    let columns: Vec<Vec<u8>> = (0..k).map(block).collect();
    let strips: Vec<Strip<'_>> = columns.iter().map(|column| Strip::Bytes(column)).collect();
    let (mut p, mut q) = (block(8), block(9));
    measure(&format!("encode {k}+1, of data"), k * BLOCK, || encode(black_box(&strips), black_box(&mut [&mut p[..]])));
    measure(&format!("encode {k}+2, of data"), k * BLOCK, || {
        encode(black_box(&strips), black_box(&mut [&mut p[..], &mut q[..]]));
    });
}

/// Takes the strips of `lost` away and wants them all.
fn decodes(name: &str, k: usize, m: usize, lost: &[usize]) {
    let row: Vec<Vec<u8>> = (0..k + m).map(block).collect();
    let mut to: Vec<Vec<u8>> = (0..k + m).map(block).collect();
    let mut states = Vec::new();
    for (number, to) in to.iter_mut().enumerate() {
        states.push(match lost.contains(&number) {
            true => StripState::Wanted(to),
            false => StripState::Given(Strip::Bytes(&row[number])),
        });
    }
    let (columns, parity) = states.split_at_mut(k);
    measure(&format!("decode {k}+{m}, {name}, of those"), lost.len() * BLOCK, || {
        decode(black_box(&mut *columns), black_box(&mut *parity)).expect("as many as are needed");
    });
}

fn main() {
    (2..=8).for_each(encodes);
    let (from, mut to) = (block(1), block(2));
    measure("xor_into", BLOCK, || xor_into(black_box(&mut to), black_box(&from)));
    for column in 1..8 {
        let factor = factor(column, 1);
        let name = format!("mul_into, factor 2^{column}");
        measure(&name, BLOCK, || mul_into(black_box(&mut to), black_box(&from), black_box(factor)));
    }
    let any = Factor::new(0x8e).expect("not zero");
    measure("mul_into, any other factor", BLOCK, || mul_into(black_box(&mut to), black_box(&from), black_box(any)));
    decodes("one column", 3, 1, &[1]);
    decodes("one column", 4, 2, &[1]);
    decodes("two columns", 4, 2, &[1, 2]);
    decodes("two columns", 8, 2, &[6, 7]);
    decodes("a column and P", 4, 2, &[1, 4]);
    decodes("a column and Q", 4, 2, &[1, 5]);
    decodes("P and Q", 4, 2, &[4, 5]);
    measure("crc32c, beside these", BLOCK, || _ = black_box(crc32c(black_box(&from))));
}
