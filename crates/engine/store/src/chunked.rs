//! Items by number in pieces of a fixed size.
//!
//! Why         a vector of millions is copied as a whole when it grows: of a long log's records that held the thread for a second

/// Items of a piece.
const ITEMS: usize = 4096;

/// A vector that never moves what it has.
#[derive(Debug)]
pub(crate) struct Chunked<T> {
    /// All full but the last.
    chunks: Vec<Vec<T>>,
}

impl<T> Default for Chunked<T> {
    fn default() -> Self {
        Self { chunks: Vec::new() }
    }
}

impl<T> Chunked<T> {
    pub fn len(&self) -> usize {
        self.chunks.last().map_or(0, |last| (self.chunks.len() - 1) * ITEMS + last.len())
    }
    pub fn push(&mut self, item: T) {
        if self.chunks.last().is_none_or(|last| last.len() == ITEMS) {
            // The first one grows as it is used: most groups of a test, or of a witness, need no more.
            self.chunks.push(if self.chunks.is_empty() { Vec::new() } else { Vec::with_capacity(ITEMS) });
        }
        self.chunks.last_mut().expect("just seen").push(item);
    }
    pub fn get(&self, number: usize) -> Option<&T> {
        self.chunks.get(number / ITEMS)?.get(number % ITEMS)
    }
    pub fn get_mut(&mut self, number: usize) -> Option<&mut T> {
        self.chunks.get_mut(number / ITEMS)?.get_mut(number % ITEMS)
    }
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.chunks.iter().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_where_their_numbers_say() {
        let mut chunked = Chunked::default();
        for number in 0..3 * ITEMS + 5 {
            assert_eq!(chunked.len(), number);
            chunked.push(number);
        }
        *chunked.get_mut(ITEMS).expect("it was put") = 7;
        assert_eq!(
            (chunked.get(ITEMS), chunked.get(ITEMS - 1), chunked.get(3 * ITEMS + 5)),
            (Some(&7), Some(&(ITEMS - 1)), None)
        );
        assert!(chunked.iter().enumerate().all(|(number, item)| *item == number || number == ITEMS));
    }
}
