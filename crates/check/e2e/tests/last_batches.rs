//! A flipped bit in the last batches of one copy's log, when all hosts die at once: no acknowledged write is lost.

use std::{thread, time::Instant};

use cairn_e2e::{
    ends::{Ends, Trials},
    tools::{Turn, seed},
};

/// Clusters at once: they wait more than they work.
const CLUSTERS: u64 = 4;
/// Trials, where `CAIRN_E2E_TRIALS` asks for no other number.
const TRIALS: u64 = 40;

/// Goal: P2, P4. Method: real daemons on files; writes of a guest that are acknowledged; kill -9 of all hosts up to 150 ms later; any bit of
/// the last two batches of one copy's log is flipped; all of the disk is read and compared after the start.
#[test]
fn a_flipped_bit_of_the_last_batches_loses_nothing() {
    let _turn = Turn::take();
    let trials = std::env::var("CAIRN_E2E_TRIALS").map_or(TRIALS, |n| n.parse().expect("a number"));
    let (seed, begin) = (seed(), Instant::now());
    let clusters = (0..CLUSTERS).map(|n| {
        let count = trials / CLUSTERS + u64::from(n < trials % CLUSTERS);
        // Each on a cluster of its own: a flipped block that nobody has read yet is a fault that waits for the next one.
        let trial = move |k: u64| Ends::start(n, seed + k * CLUSTERS)?.trials(1);
        thread::spawn(move || {
            let mut all = Trials::default();
            (0..count).try_for_each(|k| trial(k).map(|one| all.add(one)))?;
            Ok::<Trials, String>(all)
        })
    });
    let mut all = Trials::default();
    let mut failed = Vec::new();
    for cluster in clusters.collect::<Vec<_>>() {
        match cluster.join().expect("trials do not panic") {
            Ok(trials) => all.add(trials),
            Err(words) => failed.push(words),
        }
    }
    println!(
        "seed {seed}: {} trials in {} s, {} acknowledged writes, {} logs told to be damaged, first bytes after at most {} ms, {} lost",
        all.trials,
        begin.elapsed().as_secs(),
        all.written,
        all.told,
        all.longest.as_millis(),
        all.lost.len()
    );
    assert!(all.lost.is_empty() && failed.is_empty(), "{:?} {failed:?}", all.lost);
    assert_eq!(all.trials, trials);
    assert!(all.told * 4 > all.trials, "most flipped bits should be found when the log is read");
}
