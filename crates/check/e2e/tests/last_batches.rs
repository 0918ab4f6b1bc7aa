//! A flipped bit in the last batches of one copy's log, when all hosts die at once: no acknowledged write is lost.

use std::{
    sync::{Arc, Mutex},
    thread,
    time::Instant,
};

use cairn_e2e::{
    ends::{Ends, Trials},
    tools::{Turn, seed},
};

/// Clusters at once: they wait more than they work.
const CLUSTERS: u64 = 4;
/// Trials, where `CAIRN_E2E_TRIALS` asks for no other number.
const TRIALS: u64 = 40;
/// How many trials there are between two lines that tell how far it is.
const LINE_EVERY: u64 = 100;

/// Goal: P2, P4. Method: real daemons on files; writes of a guest that are acknowledged; kill -9 of all hosts up to 150 ms later; any bit of
/// the last two batches of one copy's log is flipped; all of the disk is read and compared after the start.
#[test]
fn a_flipped_bit_of_the_last_batches_loses_nothing() {
    let _turn = Turn::take();
    let trials = std::env::var("CAIRN_E2E_TRIALS").map_or(TRIALS, |n| n.parse().expect("a number"));
    let (seed, begin) = (seed(), Instant::now());
    let all = Arc::new(Mutex::new(Trials::default()));
    let line = move |all: &Trials| {
        println!(
            "seed {seed}: {} trials in {} s, {} acknowledged writes, {} logs told to be damaged, first bytes after at most {} ms, \
             {} lost",
            all.trials,
            begin.elapsed().as_secs(),
            all.written,
            all.told,
            all.longest.as_millis(),
            all.lost.len()
        );
    };
    let clusters = (0..CLUSTERS).map(|n| {
        let count = trials / CLUSTERS + u64::from(n < trials % CLUSTERS);
        let all = all.clone();
        // Each on a cluster of its own: a flipped block that nobody has read yet is a fault that waits for the next one.
        let trial = move |k: u64| Ends::start(n, seed + k * CLUSTERS)?.trials(1);
        thread::spawn(move || {
            (0..count).try_for_each(|k| {
                let one = trial(k)?;
                let mut all = all.lock().expect("nobody panics with it");
                all.add(one);
                if all.trials % LINE_EVERY == 0 {
                    line(&all);
                }
                Ok::<(), String>(())
            })
        })
    });
    let ended = clusters.collect::<Vec<_>>().into_iter().map(|cluster| cluster.join().expect("trials do not panic"));
    let failed: Vec<String> = ended.filter_map(Result::err).collect();
    let all = all.lock().expect("nobody panics with it").clone();
    line(&all);
    assert!(all.lost.is_empty() && failed.is_empty(), "{:?} {failed:?}", all.lost);
    assert_eq!(all.trials, trials);
    assert!(all.told * 4 > all.trials, "most flipped bits should be found when the log is read");
}
