//! Every scripted misfortune, told for a few seeds, with a table at the end.

use cairn_cluster::scenarios::{OBJECTS, all};

#[test]
fn every_scenario_holds() {
    let (all, next) = (all(OBJECTS), std::sync::atomic::AtomicUsize::new(0));
    let failed = std::sync::Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some(scenario) = all.get(next.fetch_add(1, std::sync::atomic::Ordering::Relaxed)) {
                    match scenario.tell_all(false) {
                        Ok(told) => eprintln!("{} ({} seeds): {told}", scenario.name, scenario.seeds),
                        Err((seed, failure)) => failed
                            .lock()
                            .expect("nobody panics with it")
                            .push(format!("{}, seed {seed}: {}\n{}", scenario.name, failure.what, failure.log)),
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().expect("nobody panics with it");
    // Runs keep the words of panics for themselves: said before.
    eprintln!("{}", failed.join("\n"));
    assert!(failed.is_empty(), "{} of {} do not hold", failed.len(), all.len());
}
