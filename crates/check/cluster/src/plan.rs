//! What happens in a run, as data: drawn from the seed before the run begins, so that any part of it can be left out.
//!
//! Promises    one seed, one plan; a plan with events taken out is a plan
//!             the faults of a plan overlap within what the disks' policies survive, so that every promise must hold
//! Not here    how a fault is made to happen (`inject`)
//!
//! A run has one menu. *Turmoil* loses no data and knows no limit: hosts and links fail in any number at once. *Damage*
//! spoils devices, which costs copies: one host is the victim of all of it, and the others stay up. *Loss* takes a host
//! away until it is replaced, and then another one. *Owner* draws several things that belong together, and meet the owner of a
//! disk at a bad moment. *Beyond* spoils more than the disks' policies survive: then nothing is asked but that no byte is wrong.

use cairn_faults::{Event, What};
use cairn_sim::Rng;
use serde::{Deserialize, Serialize};

pub use crate::menu::Menu;
pub use crate::shape::REPAIR_DELAY_MS;
use crate::{
    draw,
    shape::{Needs, Shape},
};

/// A run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// Chance of everything that the plan does not say: delays, contents of requests.
    pub seed: u64,
    /// What it draws from.
    pub menu: Menu,
    /// The cluster.
    pub shape: Shape,
    /// By beginning.
    pub events: Vec<Event>,
    /// The guests go on for so long after the last event has ended.
    pub tail_ms: u64,
    /// Then they stop before anything is healed: what the faults have left is not written over.
    pub quiet: bool,
}

impl Plan {
    /// The plan of a seed.
    pub fn of(seed: u64) -> Self {
        let mut rng = Rng::new(seed ^ 0x706c_616e);
        let menu = match rng.below(20) {
            0..=2 => Menu::Single,
            3..=6 => Menu::Damage,
            7 => Menu::Loss,
            8..=13 => Menu::Owner,
            14 => Menu::Beyond,
            _ => Menu::Turmoil,
        };
        let needs = Self::needs(&mut rng, menu);
        let mut shape = Shape::draw(&mut rng, needs);
        // Of a generator of its own: what else a seed is stays as it was.
        let mut chunks = Rng::new(seed ^ 0x6368_756e);
        let small_chunks = chunks.one_in(3);
        if small_chunks {
            shape = shape.of_small_chunks(chunks.between(1, 2));
        }
        shape.draw_rows(&mut Rng::new(seed ^ 0x726f_7773), needs);
        let mut events = draw::events(&mut rng, &shape, menu);
        if small_chunks && menu != Menu::Single {
            let ends_ms = events.iter().map(|event| event.at_ms + event.for_ms).max().unwrap_or(0);
            events.extend(draw::growths(&mut chunks, &shape, ends_ms));
        }
        // From numbers of its own: all else of the plan is what it is without.
        events.extend(draw::wrong_clock(&mut Rng::new(seed ^ 0x0063_6c6f_636b), shape.hosts));
        events.extend(draw::full_directory(&mut Rng::new(seed ^ 0x6675_6c6c), shape.hosts));
        let ends_ms = events.iter().map(|event| event.at_ms + event.for_ms).max().unwrap_or(0);
        events.extend(draw::only_source(&mut Rng::new(seed ^ 0x6f6e_6c79), &shape, menu, ends_ms));
        let mut moves = Rng::new(seed ^ 0x6d6f_7665);
        events.extend(draw::maintenance(&mut moves, &shape, menu, ends_ms));
        events.extend(draw::changes(&mut Rng::new(seed ^ 0x6368_616e_6765), &shape, menu, ends_ms));
        events.extend(draw::layouts(&mut Rng::new(seed ^ 0x6c61_796f_7574), &shape, menu, needs.spare_host, ends_ms));
        let spoils = events.iter().any(|event| event.what.spoils());
        events.extend(draw::snapshots(&mut Rng::new(seed ^ 0x736e_6170), &shape, (menu, spoils), ends_ms));
        events.extend(draw::schedule(&mut Rng::new(seed ^ 0x7363_6865_6475), &shape, (menu, &events), ends_ms));
        events.extend(draw::scrubs(&mut Rng::new(seed ^ 0x0073_6372_7562), shape.hosts, ends_ms));
        let compression = |host, group, stays| What::Compression { host, group, stays };
        events.extend(draw::choices(&mut Rng::new(seed ^ 0x7061_636b), &shape, ends_ms, compression));
        let deduplication = |host, group, stays| What::Deduplication { host, group, stays };
        events.extend(draw::choices(&mut Rng::new(seed ^ 0x6465_6475_7065), &shape, ends_ms, deduplication));
        let rewrite = |host, group, stays| What::Rewrite { host, group, stays };
        events.extend(draw::choices(&mut Rng::new(seed ^ 0x616e_6577), &shape, ends_ms, rewrite));
        events.extend(draw::membership(&mut Rng::new(seed ^ 0x676f_6e65), &shape, menu, ends_ms));
        events.sort_by_key(|event| event.at_ms);
        let quiet = rng.one_in(2);
        let tail_ms = if quiet { rng.between(0, 200) } else { rng.between(500, 6000) };
        Self { seed, menu, shape, events, tail_ms, quiet }
    }

    fn needs(rng: &mut Rng, menu: Menu) -> Needs {
        let needs = Needs { ftt_min: 1, spare_host: false, readers: false, requests_per_s_max: 500 };
        match menu {
            Menu::Turmoil => Needs { ftt_min: u8::from(!rng.one_in(6)), readers: rng.one_in(4), ..needs },
            Menu::Single => Needs { ftt_min: u8::from(!rng.one_in(6)), requests_per_s_max: 200, ..needs },
            Menu::Owner => Needs { ftt_min: u8::from(!rng.one_in(8)), readers: true, ..needs },
            Menu::Damage | Menu::Beyond => Needs { spare_host: true, ..needs },
            Menu::Loss => Needs { spare_host: true, requests_per_s_max: 120, ..needs },
        }
    }

    /// When the last event has ended.
    pub fn ends_ms(&self) -> u64 {
        self.events.iter().map(|event| event.at_ms + event.for_ms).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_seed_is_a_plan_and_survives_being_written_down() {
        for seed in 0..200 {
            let plan = Plan::of(seed);
            assert_eq!(plan, Plan::of(seed));
            let text = serde_json::to_string(&plan).expect("a plan is plain data");
            assert_eq!(plan, serde_json::from_str(&text).expect("what was written"));
        }
    }

    #[test]
    fn all_kinds_come_up() {
        let kinds = |plan: Plan| plan.events.iter().map(|e| e.what.kind_among(plan.shape.hosts)).collect::<Vec<_>>();
        let drawn: BTreeSet<&str> = (0..400).flat_map(|seed| kinds(Plan::of(seed))).collect();
        assert_eq!(drawn, What::KINDS.into_iter().collect());
    }
}
