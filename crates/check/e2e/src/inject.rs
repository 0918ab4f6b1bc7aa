//! Makes faults happen to real processes: draws which, in what order and how long, begins them, ends them.
//!
//! Promises    a plan is data, drawn from its seed before anything starts; one fault at a time, one host at a time
//!             every eight cycles have each kind that lasts, and one of those that are over at once
//! Method      kill: SIGKILL of all in the host's namespace; pause: SIGSTOP and SIGCONT; isolation: another bridge; cuts: frames
//!             to nobody; resets: `ss --kill`
//! Not here    what cannot be done to processes from outside: devices that lie, clocks, power (`cairn-cluster` does)

use std::time::Duration;

use cairn_faults::What;
use rustix::process::Signal;

use crate::{Cluster, Outcome, guests::Random, wait_until};

/// Retries of a call that a busy cluster refuses.
const CALL_LIMIT: Duration = Duration::from_secs(30);

/// One fault of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cycle {
    /// Time between the end of the one before, once all hosts see each other, and this one's beginning.
    pub rest_ms: u64,
    /// The disk is handed over to the host that it happens to first: the owner is the one to hit.
    pub owner_first: bool,
    /// What happens.
    pub what: What,
    /// For how long.
    pub for_ms: u64,
}

/// Draws so many cycles among so many hosts: decks of eight, each of a mixed order.
pub fn draw(seed: u64, cycles: usize, hosts: usize) -> Vec<Cycle> {
    let mut random = Random::new(seed);
    let mut plan = Vec::new();
    while plan.len() < cycles {
        let deck = plan.len() / DECK;
        let mut kinds: Vec<usize> = (0..DECK).collect();
        while let Some(last) = kinds.len().checked_sub(1) {
            let kind = kinds.swap_remove(random.below(last as u64 + 1) as usize);
            plan.push(Cycle {
                rest_ms: 300 + random.below(1200),
                owner_first: random.below(2) == 0,
                what: of_kind(kind, deck, &mut random, hosts),
                for_ms: length(&mut random),
            });
        }
    }
    plan.truncate(cycles);
    plan
}

/// Faults of a deck.
const DECK: usize = 8;

fn of_kind(kind: usize, deck: usize, random: &mut Random, hosts: usize) -> What {
    let host = random.below(hosts as u64) as usize;
    let other = (host + 1 + random.below(hosts as u64 - 1) as usize) % hosts;
    match kind {
        0 | 1 => What::Kill { host },
        2 | 3 => What::Pause { host },
        4 => What::Isolate { host },
        5 => What::Cut { a: host, b: other },
        6 => What::CutOneWay { from: host, to: other },
        _ => match deck % 3 {
            0 => What::HandOver { disk: 0, host },
            1 => What::Disconnect { a: host, b: other },
            _ => What::HalfOpen { knows: host, other },
        },
    }
}

/// Below a lease (2 s) as often as above.
fn length(random: &mut Random) -> u64 {
    match random.below(2) {
        0 => 200 + random.below(1700),
        _ => 2100 + random.below(3900),
    }
}

/// Hosts are counted from 0 in plans, from 1 here.
fn n(host: usize) -> u8 {
    host as u8 + 1
}

/// Hands the disk over to the host that a cycle is to hit as its owner.
///
/// # Errors
/// When no host takes it.
pub fn prepare(cluster: &Cluster, cycle: &Cycle, disk: &str) -> Outcome<()> {
    let host = match cycle.what {
        What::Kill { host } | What::Pause { host } | What::Isolate { host } => host,
        What::Cut { a, .. } | What::Disconnect { a, .. } => a,
        What::CutOneWay { from, .. } => from,
        What::HalfOpen { knows, .. } => knows,
        _ => return Ok(()),
    };
    // Nobody may own it now, when its owner died before any guest asked for it: then the host takes it like any other.
    if !cycle.owner_first || cluster.owner(n(host), disk) == Ok(n(host)) {
        return Ok(());
    }
    cluster.say(format!("   the disk is handed over to h{}", n(host)));
    hand_over(cluster, host, disk)
}

fn hand_over(cluster: &Cluster, host: usize, disk: &str) -> Outcome<()> {
    wait_until("the disk is attached elsewhere", CALL_LIMIT, || {
        let host = cluster.host(n(host));
        host.api().call(&["disk", "attach", disk, "--host", &host.name()]).map(drop)
    })
}

/// Lets a fault begin. `disk` is the one that hand-overs mean.
///
/// # Errors
/// When it cannot be made to happen: what the tool said.
pub fn begin(cluster: &mut Cluster, what: &What, disk: &str) -> Outcome<()> {
    match *what {
        What::Kill { host } => cluster.kill(n(host)),
        What::Pause { host } => cluster.host(n(host)).signal(&cluster.network, Signal::STOP),
        What::Isolate { host } => cluster.network.cut(&[n(host)]),
        What::Cut { a, b } => {
            cluster.network.cut_way(n(a), n(b))?;
            cluster.network.cut_way(n(b), n(a))
        }
        What::CutOneWay { from, to } => cluster.network.cut_way(n(from), n(to)),
        What::Disconnect { a, b } => cluster.network.reset(n(a), n(b)),
        What::HalfOpen { knows, other } => {
            cluster.network.cut_way(n(knows), n(other))?;
            cluster.network.reset(n(knows), n(other))?;
            cluster.network.heal_way(n(knows), n(other))
        }
        What::HandOver { host, .. } => hand_over(cluster, host, disk),
        ref other => Err(format!("{} does not happen to processes", other.kind())),
    }
}

/// Ends what [`begin`] began, and waits until all hosts run and see each other.
///
/// # Errors
/// When it cannot be ended, or a host does not come back.
pub fn end(cluster: &mut Cluster, what: &What) -> Outcome<()> {
    match *what {
        What::Pause { host } => cluster.host(n(host)).signal(&cluster.network, Signal::CONT)?,
        What::Isolate { .. } => cluster.network.heal()?,
        What::Cut { a, b } => {
            cluster.network.heal_way(n(a), n(b))?;
            cluster.network.heal_way(n(b), n(a))?;
        }
        What::CutOneWay { from, to } => cluster.network.heal_way(n(from), n(to))?,
        _ => {}
    }
    cluster.start_all()
}

/// Whether it lasts: others are over as soon as they have happened.
pub fn lasts(what: &What) -> bool {
    !matches!(what, What::Disconnect { .. } | What::HalfOpen { .. } | What::HandOver { .. })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_plan_is_its_seeds_and_has_every_kind() {
        assert_eq!(draw(7, 24, 4), draw(7, 24, 4));
        assert_ne!(draw(7, 24, 4), draw(8, 24, 4));
        let kinds: BTreeSet<_> = draw(1, 24, 4).iter().map(|cycle| cycle.what.kind()).collect();
        assert_eq!(kinds.len(), 8, "{kinds:?}");
        assert_eq!(draw(1, 5, 3).len(), 5);
    }
}
