//! The register, exhaustively: every schedule of small clusters with two contending owners.
//!
//! Each line states a cluster and what its owners may do; every state is checked for I2 (one chain of configurations),
//! I3 and I4 (acknowledged operations are on every active component), I5 (equal after settling). Careless variants
//! must be caught.

mod model;

use model::{
    Canary,
    explore::{Explorer, Found, Setup},
};

const MIRROR: Setup = Setup {
    config: "A1 B1 w1",
    spare: "",
    writes: [1, 0],
    seizes: [0, 1],
    replace: None,
    rejoins: 0,
    restarts: 0,
    canary: Canary::None,
};

fn run(name: &str, setup: Setup, states_max: usize) -> Found {
    let started = std::time::Instant::now();
    let found = Explorer::new(setup).run(states_max);
    println!(
        "{name}: {} states, {} steps, {} wins, {} acknowledgements, {} failed seizures, {:.1?}{}",
        found.states,
        found.steps,
        found.won,
        found.acked,
        found.failed,
        started.elapsed(),
        found.wrong.as_deref().map(|w| format!("; caught: {w}")).unwrap_or_default()
    );
    found
}

fn right(name: &str, setup: Setup) {
    let found = run(name, setup, 1_000_000);
    assert_eq!(found.wrong, None, "{name}");
    assert!(found.won > 0 && found.acked > 0, "{name} did nothing");
}

#[test]
fn a_writer_and_a_seizer() {
    right("mirror, 1 write, 1 seizure", MIRROR);
}
