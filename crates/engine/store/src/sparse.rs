//! A table by small numbers of which most may be missing: two looks lead to a value, however many there are.
//!
//! Why         a tree over the 16,320 groups of a component of 255 GiB is four looks deep, each at another place of memory; bits and marks
//!             are looked at with every write
//! Memory      8 bytes for each 64 numbers up to the highest, and 64 values for each 64 of which one is there

use std::ops::Range;

/// Numbers that stand together.
const CHUNK: usize = 64;

#[derive(Debug, Clone)]
struct Chunk<T> {
    values: [Option<T>; CHUNK],
    count: usize,
}

/// Values by number.
#[derive(Debug, Clone)]
pub(crate) struct Sparse<T> {
    chunks: Vec<Option<Box<Chunk<T>>>>,
}

impl<T> Default for Sparse<T> {
    fn default() -> Self {
        Self { chunks: Vec::new() }
    }
}

fn place(number: u32) -> (usize, usize) {
    (number as usize / CHUNK, number as usize % CHUNK)
}

impl<T> Sparse<T> {
    pub fn get(&self, number: u32) -> Option<&T> {
        let (chunk, at) = place(number);
        self.chunks.get(chunk)?.as_ref()?.values[at].as_ref()
    }

    /// The value, made where there is none.
    pub fn get_or_insert_with(&mut self, number: u32, make: impl FnOnce() -> T) -> &mut T {
        let (chunk, at) = place(number);
        if self.chunks.len() <= chunk {
            self.chunks.resize_with(chunk + 1, || None);
        }
        let chunk = self.chunks[chunk]
            .get_or_insert_with(|| Box::new(Chunk { values: std::array::from_fn(|_| None), count: 0 }));
        if chunk.values[at].is_none() {
            chunk.count += 1;
        }
        chunk.values[at].get_or_insert_with(make)
    }

    pub fn remove(&mut self, number: u32) {
        let (chunk, at) = place(number);
        let Some(place) = self.chunks.get_mut(chunk) else { return };
        let Some(known) = place else { return };
        if known.values[at].take().is_some() {
            known.count -= 1;
            if known.count == 0 {
                *place = None;
            }
        }
    }

    /// Those of these numbers that are there, ascending.
    pub fn range(&self, numbers: Range<u32>) -> impl Iterator<Item = (u32, &T)> {
        let to = (numbers.end as usize).div_ceil(CHUNK).min(self.chunks.len());
        let chunks = (numbers.start as usize / CHUNK..to).filter_map(|at| Some((at, self.chunks[at].as_ref()?)));
        chunks.flat_map(move |(at, chunk)| {
            let first = (at * CHUNK) as u32;
            let own = numbers.start.max(first) - first..numbers.end.min(first + CHUNK as u32) - first;
            own.filter_map(move |at| Some((first + at, chunk.values[at as usize].as_ref()?)))
        })
    }

    /// All, ascending.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.range(0..u32::MAX)
    }

    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.chunks.iter_mut().flatten().flat_map(|chunk| chunk.values.iter_mut().flatten())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_agrees_with_a_map(steps in proptest::collection::vec((0u32..400, any::<bool>()), 1..200), ask in (0u32..500, 0u32..500)) {
            let (mut sparse, mut map) = (Sparse::default(), BTreeMap::new());
            for (step, (number, put)) in steps.into_iter().enumerate() {
                match put {
                    true => {
                        let known = *map.entry(number).or_insert(step);
                        prop_assert_eq!(*sparse.get_or_insert_with(number, || step), known);
                    }
                    false => {
                        sparse.remove(number);
                        map.remove(&number);
                    }
                }
            }
            (0..400).try_for_each(|number| { prop_assert_eq!(sparse.get(number), map.get(&number)); Ok(()) })?;
            let asked = ask.0.min(ask.1)..ask.0.max(ask.1);
            let found: Vec<_> = sparse.range(asked.clone()).map(|(number, value)| (number, *value)).collect();
            prop_assert_eq!(found, map.range(asked).map(|(number, value)| (*number, *value)).collect::<Vec<_>>());
            prop_assert_eq!(sparse.iter().count(), map.len());
            prop_assert_eq!(sparse.values_mut().count(), map.len());
        }
    }
}
