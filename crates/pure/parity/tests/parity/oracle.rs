//! Parity as a person would make it: byte by byte, over tables of logarithms that were written for this alone.
//!
//! Not here    anything of the crate

/// Bytes of a block.
pub const BLOCK: usize = 4096;

/// Logarithms to the base 2 of 1..=255, and back.
pub struct Field {
    log: [usize; 256],
    antilog: [u8; 255],
}

impl Field {
    /// Made by counting up.
    pub fn new() -> Self {
        let mut field = Self { log: [usize::MAX; 256], antilog: [0; 255] };
        let mut element = 1u16;
        for exponent in 0..255 {
            assert_eq!(field.log[usize::from(element)], usize::MAX, "2 is a generator: nothing comes twice");
            field.log[usize::from(element)] = exponent;
            field.antilog[exponent] = element as u8;
            element *= 2;
            if element >= 0x100 {
                element -= 0x100;
                element ^= 0x1d;
            }
        }
        field
    }

    /// The product of two elements.
    pub fn product(&self, a: u8, b: u8) -> u8 {
        match (a, b) {
            (0, _) | (_, 0) => 0,
            _ => self.antilog[(self.log[usize::from(a)] + self.log[usize::from(b)]) % 255],
        }
    }

    /// 2 to the power of `exponent`.
    pub fn power_of_two(&self, exponent: usize) -> u8 {
        self.antilog[exponent % 255]
    }

    /// Parity strip `parity` of these columns.
    pub fn parity(&self, columns: &[Vec<u8>], parity: usize) -> Vec<u8> {
        let term = |(number, column): (usize, &Vec<u8>), at: usize| {
            self.product(self.power_of_two(number * parity), column[at])
        };
        let byte = |at| columns.iter().enumerate().fold(0, |sum, column| sum ^ term(column, at));
        (0..columns[0].len()).map(byte).collect()
    }
}

/// Bytes of `blocks` blocks that look like chance, as a function of the seed (xorshift, Marsaglia 2003).
pub fn bytes(seed: u64, blocks: usize) -> Vec<u8> {
    let mut word = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        word ^= word << 13;
        word ^= word >> 7;
        word ^= word << 17;
        word
    };
    // The first words of near seeds look alike.
    (0..8).for_each(|_| _ = next());
    (0..blocks * BLOCK / 8).flat_map(|_| next().to_le_bytes()).collect()
}
