//! Components whose blocks agree with others in their fingerprints alone: no equal ones are looked for, for a while.
//!
//! Why         fingerprints are no hash to trust: a guest can make blocks that agree, and each costs a read
//! Not here    comparing (`find_twins.rs`)

use std::collections::BTreeMap;

use cairn_types::{ComponentId, Time};

/// Comparisons of a component that are counted together, and of how many of them one may fail.
const COMPARED: u32 = 1024;
const FAILED_OF: u32 = 8;
/// How long nothing is looked up then.
const REST_NS: u64 = 60_000_000_000;
/// Components of which that is known, before it is forgotten of all.
const KNOWN_MAX: usize = 4096;

#[derive(Debug, Default)]
struct Doubt {
    compared: u32,
    failed: u32,
    until: Option<Time>,
}

/// What is known of all components.
#[derive(Debug, Default)]
pub(crate) struct Doubts(BTreeMap<ComponentId, Doubt>);

impl Doubts {
    /// Whether nothing is looked up for its blocks now.
    pub fn rests(&self, component: ComponentId, now: Time) -> bool {
        self.0.get(&component).and_then(|doubt| doubt.until).is_some_and(|until| now < until)
    }
    /// A block of it was compared.
    pub fn compared(&mut self, component: ComponentId, is_equal: bool, now: Time) {
        if self.0.len() >= KNOWN_MAX && !self.0.contains_key(&component) {
            self.0.clear();
        }
        let doubt = self.0.entry(component).or_default();
        doubt.compared += 1;
        doubt.failed += u32::from(!is_equal);
        if doubt.failed > COMPARED / FAILED_OF {
            *doubt = Doubt { until: Some(Time(now.0 + REST_NS)), ..Doubt::default() };
        } else if doubt.compared >= COMPARED {
            *doubt = Doubt::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a component whose blocks only seem to be equal is left alone for a minute, others are not. Method: one in nine fails, then one in seven.
    #[test]
    fn who_makes_blocks_that_agree_is_left_alone() {
        let (mut doubts, id, now) = (Doubts::default(), ComponentId(1), Time(5));
        (0..4096).for_each(|n| doubts.compared(id, n % 9 != 0, now));
        assert!(!doubts.rests(id, now));
        (0..1024).for_each(|n| doubts.compared(id, n % 7 != 0, now));
        assert!(doubts.rests(id, now) && doubts.rests(id, Time(REST_NS)) && !doubts.rests(ComponentId(2), now));
        assert!(!doubts.rests(id, Time(REST_NS + 5)));
    }
}
