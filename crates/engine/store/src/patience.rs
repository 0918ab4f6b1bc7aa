//! Which blocks are worth the try to be packed: noise mostly comes in rows.
//!
//! Not here    packing (`squeeze.rs`)

use std::collections::BTreeMap;

use cairn_types::ComponentId;

/// Blocks in a row that did not pack, from which on few are tried.
const MISSES: u32 = 32;
/// Of how many one is tried then: noise costs an eighth of what trying costs, 0.1 us a block.
const TRIED_OF: u32 = 8;
/// Components of which that is known, before those that are gone are forgotten.
const KNOWN_MAX: usize = 4096;

/// How many blocks in a row did not pack, by component.
pub(crate) type Misses = BTreeMap<ComponentId, u32>;

/// Whether a block is worth the try after so many that did not pack.
pub(crate) fn is_tried(misses: u32) -> bool {
    misses < MISSES || misses.is_multiple_of(TRIED_OF)
}

/// What was learned of all components.
#[derive(Debug, Default)]
pub(crate) struct Patience(Misses);

impl Patience {
    pub fn of(&self, components: impl Iterator<Item = ComponentId>) -> Misses {
        components.map(|id| (id, self.0.get(&id).copied().unwrap_or(0))).collect()
    }
    pub fn learn(&mut self, misses: Misses, is_here: impl Fn(ComponentId) -> bool) {
        self.0.extend(misses);
        if self.0.len() > KNOWN_MAX {
            self.0.retain(|id, _| is_here(*id));
        }
    }
}
