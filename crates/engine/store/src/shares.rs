//! Shared items of a capacity device: how many references each has, and where it stands.
//!
//! Promises    an item is plain, with one reference, or shared, with as many as its count says, all of them by its name (D1)
//!             a name leads to one place (D2); names of a use of a segment outlive it
//! Assumes     one transaction at a time; what it changes is here when it is durable
//! Memory      8 bytes an item, some 60 more where it was moved, and [`SHARED_BYTES_MAX`] a disk group: then no more become shared
//! Not here    what transactions change (`share_changes.rs`), which blocks are equal (`find_twins.rs`), who turns references into names (`hits.rs`)
//!
//! What a transaction changed stands behind its changes. A home's row is written when it holds up the changes, and goes when nothing of it is
//! shared any more.

use std::collections::{BTreeMap, BTreeSet};

use cairn_format::{
    NAME_GENERATIONS,
    shared_rows::{HomeRow, SharedItem},
};

use crate::leaf::Spot;

/// What shared items of a group may take in memory: 32 million that stand where they stood first, 128 GiB of them.
pub(crate) const SHARED_BYTES_MAX: u64 = 256 << 20;
const ITEM_BYTES: u64 = 8;
/// Of an item that was moved, more.
const MOVED_BYTES: u64 = 64;
/// Rows of homes that one transaction writes at least, those first that lack the oldest changes, and at most.
const HOMES_MIN: usize = 4;
const HOMES_MAX: usize = 256;

/// A use of a segment: its number, the lowest bits of its generation.
pub(crate) type Home = (u32, u32);

/// Above the bits of a place: references.
const COUNT_SHIFT: u32 = 48;
const PLACE_MASK: u64 = (1 << COUNT_SHIFT) - 1;

/// Items whose home is one use of a segment.
#[derive(Debug, Default)]
struct OfHome {
    /// Bits of homes with counts above them, ascending by home.
    items: Vec<u64>,
    /// Where those stand that were moved, by home.
    moved: BTreeMap<Spot, Spot>,
    /// The oldest transaction that changed what the row lacks.
    since: Option<u64>,
}

impl OfHome {
    fn search(&self, home: Spot) -> Result<usize, usize> {
        self.items.binary_search_by_key(&home.bits(), |item| item & PLACE_MASK)
    }
    fn item(&self, bits: u64) -> SharedItem {
        let home = Spot::of_bits(bits & PLACE_MASK).expect("it was put here");
        SharedItem { home, count: (bits >> COUNT_SHIFT) as u8, at: self.moved.get(&home).copied().unwrap_or(home) }
    }
    fn bytes(&self) -> u64 {
        self.items.len() as u64 * ITEM_BYTES + self.moved.len() as u64 * MOVED_BYTES
    }
}

/// The shared items of a device.
#[derive(Debug, Default)]
pub(crate) struct Shares {
    homes: BTreeMap<Home, OfHome>,
    /// Homes whose rows lack something, by the oldest transaction of that.
    queue: BTreeSet<(u64, Home)>,
    items: u64,
    references: u64,
    bytes: u64,
}

impl Shares {
    pub fn get(&self, home: Home, name: Spot) -> Option<SharedItem> {
        let of = self.homes.get(&home)?;
        of.search(name.home()).ok().map(|at| of.item(of.items[at]))
    }
    /// Whether names of such a use of a segment are given.
    pub fn has_home(&self, segment: u32, generation: u64) -> bool {
        self.homes.get(&(segment, (generation % NAME_GENERATIONS) as u32)).is_some_and(|of| !of.items.is_empty())
    }
    /// All names, with what they are of.
    pub fn all(&self) -> impl Iterator<Item = (Spot, SharedItem)> {
        let names = |(home, of): (&Home, &OfHome)| {
            let generation = u64::from(home.1);
            of.items
                .iter()
                .map(|bits| of.item(*bits))
                .map(move |item| (item.home.shared(generation), item))
                .collect::<Vec<_>>()
        };
        self.homes.iter().flat_map(names)
    }
    /// Items, and references to them.
    pub fn counts(&self) -> (u64, u64) {
        (self.items, self.references)
    }
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Transaction `number` says so of an item; of one without references, that it is none.
    pub fn put(&mut self, home: Home, item: SharedItem, number: u64) {
        let of = self.homes.entry(home).or_default();
        let before = of.bytes();
        if let Ok(at) = of.search(item.home) {
            let count = of.item(of.items[at]).count;
            (self.items, self.references) = (self.items - 1, self.references - u64::from(count));
            of.items.remove(at);
            of.moved.remove(&item.home);
        }
        if item.count > 0 {
            let at = of.search(item.home).expect_err("it was taken out");
            of.items.insert(at, item.home.bits() | u64::from(item.count) << COUNT_SHIFT);
            if item.at != item.home {
                of.moved.insert(item.home, item.at);
            }
            (self.items, self.references) = (self.items + 1, self.references + u64::from(item.count));
        }
        self.bytes = self.bytes + of.bytes() - before;
        if of.since.is_none() {
            of.since = Some(number);
            self.queue.insert((number, home));
        }
    }

    /// Rows of homes without which changes from before `limit` could not go, and some of the others that come next: each tells up to transaction
    /// `told`. Home by home; none where nothing is left of it.
    pub fn take_rows(&mut self, limit: u64, told: u64) -> Vec<(Home, Option<Vec<u8>>)> {
        let late = self.queue.iter().take(HOMES_MAX).take_while(|(since, _)| *since < limit).count();
        // What this transaction changes is not here yet: it waits for the next turn.
        let due: Vec<(u64, Home)> = self.queue.iter().take(late.max(HOMES_MIN)).copied().collect();
        let mut rows = Vec::with_capacity(due.len());
        for (since, home) in due {
            self.queue.remove(&(since, home));
            let of = self.homes.get_mut(&home).expect("what is queued is there");
            of.since = None;
            if of.items.is_empty() {
                self.homes.remove(&home);
                rows.push((home, None));
                continue;
            }
            let items = of.items.iter().map(|bits| of.item(*bits)).collect();
            rows.push((home, Some(HomeRow { number: told, items }.encode())));
        }
        rows
    }
    /// Rows tell all that transactions before this one changed.
    pub fn told(&self) -> u64 {
        self.queue.first().map_or(u64::MAX, |(since, _)| *since)
    }

    /// What must hold: sums and queue agree with a recount.
    pub fn check(&self) -> Result<(), String> {
        let (mut items, mut references, mut bytes, mut queued) = (0, 0, 0, 0);
        for (home, of) in &self.homes {
            let all: Vec<SharedItem> = of.items.iter().map(|bits| of.item(*bits)).collect();
            if !all.is_sorted_by(|a, b| a.home.end() <= b.home.sector()) || all.iter().any(|item| item.count == 0) {
                return Err(format!("shared items of home {home:?} are out of order, or have no references"));
            }
            let moved = all.iter().filter(|item| item.at != item.home).count();
            let sound = of.since.is_none_or(|since| self.queue.contains(&(since, *home))) && moved == of.moved.len();
            if !sound || all.is_empty() && of.since.is_none() {
                return Err(format!("home {home:?} is not queued, or knows places of none"));
            }
            (items, references) =
                (items + all.len() as u64, references + all.iter().map(|i| u64::from(i.count)).sum::<u64>());
            (bytes, queued) = (bytes + of.bytes(), queued + usize::from(of.since.is_some()));
        }
        let known = (self.items, self.references, self.bytes, self.queue.len());
        let counted = (items, references, bytes, queued);
        (known == counted).then_some(()).ok_or_else(|| format!("{known:?} of shared items, {counted:?} counted"))
    }
}

impl Shares {
    /// All that was put of a home stands in its row.
    pub fn told_by_row(&mut self, home: Home) {
        if let Some(since) = self.homes.get_mut(&home).and_then(|of| of.since.take()) {
            self.queue.remove(&(since, home));
        }
    }
}
