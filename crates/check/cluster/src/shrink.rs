//! Takes away from a failing plan what its failure does not need.
//!
//! Promises    what comes out fails, and with the same kind of finding; every step leaves the plan smaller
//! Source      delta debugging: Zeller & Hildebrandt, TSE 2002, with its greedy last step only

use cairn_faults::What;

use crate::{
    plan::Plan,
    run::{Failure, run},
};

/// The part of a finding that a smaller plan must show again: its kind, without numbers.
fn kind(what: &str) -> String {
    let head = what.split(':').next().unwrap_or(what);
    head.chars().filter(|c| !c.is_ascii_digit()).collect()
}

/// Shrinks `plan`, which failed with `failure`. `tell` hears of each step that worked.
pub fn shrink(plan: &Plan, failure: &Failure, runs_max: usize, mut tell: impl FnMut(&Plan)) -> (Plan, Failure) {
    let (mut best, mut found) = (plan.clone(), failure.clone());
    let wanted = kind(&failure.what);
    let mut runs = 0;
    let mut again = true;
    while again {
        again = false;
        for smaller in candidates(&best) {
            runs += 1;
            if runs > runs_max {
                return (best, found);
            }
            if let Err(failure) = run(&smaller, false)
                && kind(&failure.what) == wanted
            {
                (best, found, again) = (smaller, failure, true);
                tell(&best);
                break;
            }
        }
    }
    (best, found)
}

/// Smaller plans, the boldest first.
fn candidates(plan: &Plan) -> Vec<Plan> {
    let mut list = Vec::new();
    let count = plan.events.len();
    let mut width = count / 2;
    while width > 0 {
        for from in (0..count).step_by(width) {
            let mut smaller = plan.clone();
            smaller.events.drain(from..(from + width).min(count));
            list.push(smaller);
        }
        width /= 2;
    }
    if plan.shape.disks.len() > 1 {
        for number in (0..plan.shape.disks.len()).rev() {
            let mut smaller = plan.clone();
            smaller.shape.disks.remove(number);
            // Events of disks keep their numbers, as far as those are left.
            let left = smaller.shape.disks.len();
            smaller.events.retain(|event| match event.what {
                What::HandOver { disk, .. } | What::Resize { disk, .. } => disk < left,
                _ => true,
            });
            list.push(smaller);
        }
    }
    for number in 0..plan.shape.disks.len() {
        if plan.shape.disks[number].guests > 1 {
            let mut smaller = plan.clone();
            smaller.shape.disks[number].guests -= 1;
            list.push(smaller);
        }
    }
    if plan.tail_ms > 500 {
        let mut smaller = plan.clone();
        smaller.tail_ms = 500;
        list.push(smaller);
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_candidate_is_smaller() {
        let size = |plan: &Plan| {
            let guests: u64 = plan.shape.disks.iter().map(|disk| disk.guests).sum();
            plan.events.len() as u64 + guests + plan.tail_ms
        };
        for seed in 0..50 {
            let plan = Plan::of(seed);
            assert!(candidates(&plan).iter().all(|smaller| size(smaller) < size(&plan)));
        }
    }

    #[test]
    fn findings_of_one_kind_are_told_by_their_head() {
        assert_eq!(kind("wrong bytes at h1: sector 3"), kind("wrong bytes at h2: sector 40"));
        assert_ne!(kind("not healthy after 120 s: h1"), kind("wrong bytes at h2: sector 40"));
    }
}
