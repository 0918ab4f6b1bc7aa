//! Every scripted misfortune, told for a few seeds, with a table at the end.

use cairn_cluster::scenarios::{Scenario, all};

/// Seeds of stories begin here.
const FIRST_SEED: u64 = 1000;

/// How a story ended: seeds that held and seconds that passed in the simulated world, or what was broken.
fn tell(scenario: &Scenario) -> Result<f64, String> {
    let mut simulated_s = 0.0;
    for seed in FIRST_SEED..FIRST_SEED + scenario.seeds {
        let told = scenario.tell(seed, false);
        simulated_s += told.map_err(|f| format!("seed {seed}: {}\n{}", f.what, f.log))?.as_secs_f64();
    }
    Ok(simulated_s)
}

#[test]
fn every_scenario_holds() {
    let (all, next) = (all(), std::sync::atomic::AtomicUsize::new(0));
    let failed = std::sync::Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some(scenario) = all.get(next.fetch_add(1, std::sync::atomic::Ordering::Relaxed)) {
                    match tell(scenario) {
                        Ok(s) => eprintln!("holds  {} ({} seeds, {s:.0} s simulated)", scenario.name, scenario.seeds),
                        Err(why) => failed.lock().expect("nobody panics with it").push(format!("{scenario:?}: {why}")),
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().expect("nobody panics with it");
    assert!(failed.is_empty(), "{} of {} do not hold:\n{}", failed.len(), all.len(), failed.join("\n"));
}
