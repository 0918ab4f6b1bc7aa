//! Clusters of real nodes in the simulated world: guests check every byte while hosts, links and the directory fail.
//!
//! Goal: P1..P3 and P5 hold, I/O never hangs, every resync ends, copies are equal at rest. Method: seeds choose what
//! happens; `CAIRN_SIM_SEED=n` runs one seed, `CAIRN_SIM_SEEDS=n` so many, `CAIRN_SIM_PRINT=1` tells as it goes.

mod check;
mod cluster;
mod faults;
mod guests;
mod model;
mod scenarios;

use std::{collections::BTreeMap, time::Duration};

use cairn_api::v1::PolicyRules;
use cluster::{Cluster, Log};
use faults::Menu;
use guests::Guests;

const DISK: &str = "vm-1";
/// Five regions and a bit: the last block is cut short.
const SIZE_BYTES: u64 = (5 << 20) + 3 * 512;
/// How long a healed cluster may take to be healthy.
const HEALTHY_WITHIN: Duration = Duration::from_secs(120);

/// Prints the log of a run that panics.
struct Tell {
    seed: u64,
    log: Log,
}

impl Drop for Tell {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("seed {} failed; what happened last:\n{}", self.seed, self.log.text());
        }
    }
}

struct Outcome {
    counts: BTreeMap<&'static str, u64>,
    requests: u64,
    dropped: u64,
    errors: u64,
    late: u64,
}

fn run(seed: u64, hosts: usize, menu: Menu, rules: Option<PolicyRules>) -> Outcome {
    let cluster = Cluster::new(seed, hosts, DISK, SIZE_BYTES, rules);
    let _tell = Tell { seed, log: cluster.log.clone() };
    let guests = Guests::new(&cluster, DISK, SIZE_BYTES);
    guests.start(4, 40);
    let (own, all) = (cluster.clone(), guests.clone());
    let result = cluster.world.block_on(async move {
        faults::inject(&own, menu).await;
        own.heal_everything();
        come_to_rest(&own, &all).await
    });
    let failures = guests.failures.borrow().clone();
    assert!(failures.is_empty(), "seed {seed} {menu:?}: {failures:?}");
    if let Err(why) = result {
        panic!("seed {seed} {menu:?}: {why}");
    }
    let counts = cluster.counts.borrow().clone();
    let late = guests.model.borrow().late;
    Outcome { counts, requests: guests.done.get(), dropped: guests.dropped.get(), errors: guests.errors.get(), late }
}

/// After the last fault: healthy in time, every byte right at every host, copies equal.
async fn come_to_rest(cluster: &Cluster, guests: &Guests) -> Result<(), String> {
    cluster.world.sleep(Duration::from_secs(1)).await;
    cluster.wait_healthy(DISK, HEALTHY_WITHIN).await?;
    guests.stop().await;
    cluster.wait_healthy(DISK, HEALTHY_WITHIN).await?;
    guests.verify_everywhere().await?;
    cluster.world.sleep(Duration::from_secs(2)).await;
    check::check_at_rest(cluster, DISK).await
}

fn seeds(default: u64) -> std::ops::Range<u64> {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    match number("CAIRN_SIM_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("CAIRN_SIM_SEEDS").unwrap_or(default),
    }
}

fn sweep(name: &str, count: u64, hosts: usize, menu: Menu, rules: Option<PolicyRules>) {
    let mut counts = BTreeMap::new();
    let (mut requests, mut dropped, mut errors, mut late, mut failed) = (0, 0, 0, 0, Vec::new());
    let began = std::time::Instant::now();
    let range = seeds(count);
    for seed in range.clone() {
        match std::panic::catch_unwind(|| run(seed, hosts, menu, rules.clone())) {
            Ok(outcome) => {
                model::add_counts(&mut counts, &outcome.counts);
                requests += outcome.requests;
                dropped += outcome.dropped;
                errors += outcome.errors;
                late += outcome.late;
            }
            Err(_) => failed.push(seed),
        }
    }
    let seconds = began.elapsed().as_secs_f64();
    eprintln!(
        "{name}: {} seeds in {seconds:.1} s, {requests} requests, {dropped} dropped, {errors} errors, {late} late values, faults {counts:?}, failed seeds {failed:?}",
        range.end - range.start
    );
    assert!(failed.is_empty(), "{name}: seeds {failed:?} failed");
}

#[test]
fn one_fault_after_the_other() {
    sweep("single", 15, 3, Menu::Single, None);
}

#[test]
fn many_faults_at_once() {
    sweep("wild", 40, 3, Menu::Wild, None);
}

#[test]
fn many_faults_at_once_on_four_hosts() {
    sweep("wild-4", 15, 4, Menu::Wild, None);
}

#[test]
fn a_lost_host_is_replaced_and_another_dies() {
    sweep("rebuild", 6, 4, Menu::Rebuild, None);
}

#[test]
fn many_faults_on_striped_copies() {
    let rules = PolicyRules { stripe_width: 2, ..PolicyRules::default() };
    sweep("wild-striped", 10, 3, Menu::Wild, Some(rules));
}

#[test]
fn many_faults_on_three_copies() {
    let rules = PolicyRules { ftt: 2, ..PolicyRules::default() };
    sweep("wild-ftt2", 8, 5, Menu::Wild, Some(rules));
}
