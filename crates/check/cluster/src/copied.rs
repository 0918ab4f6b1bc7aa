//! What a clone of a run may hold, sector by sector.

use std::{cell::RefCell, collections::BTreeMap, rc::Rc};

use crate::model::{Found, SECTOR};

/// What a sector of a clone may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Held {
    OfSnapshot(Found),
    Zeroes,
    Own(u64),
}

/// A sector of a clone.
#[derive(Debug, Clone)]
struct Sector {
    may: Vec<Held>,
    /// A write of it was not answered: it may still come.
    open: bool,
}

/// A clone and what it may hold.
#[derive(Clone)]
pub struct Copied {
    writer: u64,
    parent: u64,
    version: u64,
    sectors: Vec<Sector>,
}

impl Copied {
    /// One of a snapshot that held this, of a disk whose number is `parent`.
    pub(crate) fn of(held: &[Found], parent: u64, writer: u64) -> Self {
        let sector = |found: &Found| Sector { may: vec![Held::OfSnapshot(*found)], open: false };
        Self { writer, parent, version: 0, sectors: held.iter().map(sector).collect() }
    }

    /// Whose its guest's bytes are.
    pub(crate) fn writer(&self) -> u64 {
        self.writer
    }

    /// The number of its parent's disk.
    pub(crate) fn parent(&self) -> u64 {
        self.parent
    }

    /// How many it has.
    pub(crate) fn sectors(&self) -> u64 {
        self.sectors.len() as u64
    }

    /// A number for a change.
    pub(crate) fn next_version(&mut self) -> u64 {
        self.version += 1;
        self.version
    }

    pub(crate) fn begin(&mut self, first: u64, count: u64, held: Held) {
        for sector in &mut self.sectors[first as usize..(first + count) as usize] {
            sector.may.push(held);
        }
    }

    pub(crate) fn end(&mut self, first: u64, count: u64, held: Held, done: bool) {
        for sector in &mut self.sectors[first as usize..(first + count) as usize] {
            sector.open |= !done;
            if !sector.open {
                sector.may = vec![held];
            }
        }
    }

    pub(crate) fn check(&self, first: u64, read: &[u8]) -> Result<(), String> {
        for (at, found) in (first..).zip(read.chunks(SECTOR as usize)) {
            let (theirs, own) = (Found::of(self.parent, at, found), Found::of(self.writer, at, found));
            let is = |held: &Held| match *held {
                Held::OfSnapshot(held) => held == theirs,
                Held::Zeroes => own == Found::Zeroes,
                Held::Own(version) => own == Found::Version(version),
            };
            let may = &self.sectors[at as usize].may;
            if !may.iter().any(is) {
                return Err(format!(
                    "sector {at} (block {}) has {theirs:?} of its parent or {own:?} of its own, and may have {may:?}",
                    at / 8
                ));
            }
        }
        Ok(())
    }
}

/// Clones that a run has made, by name.
pub type Clones = RefCell<BTreeMap<String, Rc<RefCell<Copied>>>>;
