//! Things under way by number, where numbers follow one another: calls without an answer, operations that have not ended.
//!
//! Promises    adding, finding and taking one away look at one place; whatever is listed is listed by number
//! Memory      a place for each number from the first that is still there: one that stays for ten seconds beside 50,000 others a second
//!             keeps half a million places, until it goes
//! Why         a tree of numbers took a tenth of what the owner's processor does for a write

use std::collections::{BTreeMap, VecDeque};

use serde::{Serialize, Serializer};

/// Things by number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Numbered<T> {
    /// The number of the first place, which is not empty unless there is none.
    first: u64,
    places: VecDeque<Option<T>>,
    count: usize,
}

impl<T> Numbered<T> {
    /// Nothing yet; the first one will have the number `first`.
    pub fn from(first: u64) -> Self {
        Self { first, places: VecDeque::new(), count: 0 }
    }

    /// Adds the next one and tells its number.
    pub fn push(&mut self, thing: T) -> u64 {
        self.places.push_back(Some(thing));
        self.count += 1;
        self.next() - 1
    }

    /// The number that the next one will have.
    pub fn next(&self) -> u64 {
        self.first + self.places.len() as u64
    }

    /// The first one's number.
    pub fn first(&self) -> Option<u64> {
        (!self.is_empty()).then_some(self.first)
    }

    fn place(&self, number: u64) -> Option<usize> {
        usize::try_from(number.checked_sub(self.first)?).ok()
    }

    /// The one of this number, if it is there.
    pub fn get(&self, number: u64) -> Option<&T> {
        self.places.get(self.place(number)?)?.as_ref()
    }

    /// Takes it away, if it is there.
    pub fn remove(&mut self, number: u64) -> Option<T> {
        let place = self.place(number)?;
        let taken = self.places.get_mut(place)?.take()?;
        self.count -= 1;
        while self.places.front().is_some_and(Option::is_none) {
            self.places.pop_front();
            self.first += 1;
        }
        Some(taken)
    }

    /// All that are there.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &T)> {
        let numbers = self.first..;
        numbers.zip(&self.places).filter_map(|(number, place)| Some((number, place.as_ref()?)))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
}

/// The next number and what is there: two that are written alike do alike.
impl<T: Serialize> Serialize for Numbered<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (self.next(), self.iter().collect::<BTreeMap<_, _>>()).serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Goal: it is a map whose keys follow one another. Method: any order of adding and taking away, beside a tree.
        #[test]
        fn it_is_a_map_of_numbers(steps in proptest::collection::vec(proptest::option::of(0u64..40), 0..200), first in 0u64..3) {
            let (mut numbered, mut tree) = (Numbered::from(first), BTreeMap::new());
            for step in steps {
                match step {
                    None => {
                        let number = numbered.next();
                        prop_assert_eq!(numbered.push(number * 7), number);
                        tree.insert(number, number * 7);
                    }
                    Some(number) => prop_assert_eq!(numbered.remove(number), tree.remove(&number)),
                }
                prop_assert_eq!(numbered.iter().map(|(n, v)| (n, *v)).collect::<BTreeMap<_, _>>(), tree.clone());
                prop_assert_eq!((numbered.len(), numbered.is_empty()), (tree.len(), tree.is_empty()));
                prop_assert_eq!(numbered.first(), tree.keys().next().copied());
                prop_assert_eq!((0..60).map(|n| numbered.get(n)).collect::<Vec<_>>(), (0..60).map(|n| tree.get(&n)).collect::<Vec<_>>());
            }
        }
    }
}
