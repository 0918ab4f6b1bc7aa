//! The bytes of one input, taken from the front as numbers and choices.
//!
//! Promises    never fails: what is not there reads as zero, so that every input means something and a cut one means less
//! Source      the idea of `FuzzedDataProvider`; taken from the front, so that a mutation late in an input leaves its
//!             beginning as it was

/// The rest of an input.
#[derive(Debug, Clone)]
pub struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    /// All of `data`.
    pub fn new(data: &'a [u8]) -> Self {
        Self(data)
    }

    /// Whether nothing is left.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Up to `len` bytes.
    pub fn bytes(&mut self, len: usize) -> &'a [u8] {
        let (part, rest) = self.0.split_at(len.min(self.0.len()));
        self.0 = rest;
        part
    }

    /// Everything that is left.
    pub fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.0)
    }

    /// A number of `len` bytes, little-endian.
    fn number(&mut self, len: usize) -> u64 {
        self.bytes(len).iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
    }

    /// One byte.
    pub fn u8(&mut self) -> u8 {
        self.number(1) as u8
    }

    /// Two bytes.
    pub fn u16(&mut self) -> u16 {
        self.number(2) as u16
    }

    /// Four bytes.
    pub fn u32(&mut self) -> u32 {
        self.number(4) as u32
    }

    /// Eight bytes.
    pub fn u64(&mut self) -> u64 {
        self.number(8)
    }

    /// A number below `bound`, of one byte.
    pub fn below(&mut self, bound: u8) -> u8 {
        self.u8() % bound.max(1)
    }

    /// Yes or no.
    pub fn flag(&mut self) -> bool {
        self.u8() & 1 == 1
    }

    /// Mostly a number below `usual`; one time in eight any at all.
    pub fn mostly_below(&mut self, usual: u64) -> u64 {
        let choice = self.u8();
        if choice >= 224 { self.u64() } else { (u64::from(choice) * 256 + u64::from(self.u8())) % usual.max(1) }
    }
}
