//! The register, exhaustively: every schedule of small clusters with two contending owners.
//!
//! Each line states a cluster and what its owners may do; every state is checked for I2 (one chain of configurations),
//! I3 and I4 (acknowledged operations are on every active component), I5 (equal after settling; of rows: any k of n give the same, computed).
//! Careless variants must be caught. The head of `model/explore.rs` tells what "every schedule" means.

#![allow(clippy::disallowed_methods, clippy::disallowed_types)] // the test measures

mod model;

use model::{
    Canary, Object,
    explore::{Explorer, Found, Setup},
};

const MIRROR: Setup = Setup {
    object: Object::mirror("A1 B1 w1"),
    columns: &[],
    spare: "",
    writes: [0, 0],
    seizes: [0, 1],
    replace: None,
    rejoins: 0,
    dies: false,
    restarts: 0,
    canary: Canary::None,
};

fn run(name: &str, setup: Setup, states_max: usize) -> Found {
    let started = std::time::Instant::now();
    let found = Explorer::new(setup).run(states_max);
    println!(
        "{name}: {} states{}, {} steps, {} wins, {} acknowledgements, {} failed seizures, {:.1?}{}",
        found.states,
        if found.complete { " (all)" } else { "" },
        found.steps,
        found.won,
        found.acked,
        found.failed,
        started.elapsed(),
        found.wrong.as_deref().map(|w| format!("; caught: {w}")).unwrap_or_default()
    );
    found
}

/// Every state is visited and right.
fn right(name: &str, setup: Setup) {
    let found = run(name, setup, 10_000_000);
    assert_eq!(found.wrong, None, "{name}");
    assert!(found.complete, "{name}: the bounds of the model are too wide");
    assert!(found.won > 0, "{name} did nothing");
}

#[test]
fn a_writing_owner_and_a_seizer() {
    right("mirror, 1 write, 1 seizure", Setup { writes: [1, 0], ..MIRROR });
    right("the owner dies with 2 writes on their way, 1 seizure", Setup { writes: [2, 0], dies: true, ..MIRROR });
}

#[test]
fn a_writing_owner_a_seizer_and_a_restart() {
    right("mirror, 1 write, 1 seizure, 1 restart", Setup { writes: [1, 0], restarts: 1, ..MIRROR });
}

#[test]
fn a_copy_comes_back_and_somebody_seizes() {
    let stale = Setup { object: Object::mirror("A1 B1- w1"), rejoins: 1, ..MIRROR };
    right("stale copy, 1 rejoin, 1 seizure", stale.clone());
    right("the same with 1 write", Setup { writes: [1, 0], ..stale });
}

#[test]
fn a_copy_is_replaced_and_somebody_seizes() {
    let moving = Setup { spare: "D1", replace: Some(('B', 'D')), ..MIRROR };
    right("mirror, B replaced by D, 1 seizure", moving);
}

#[test]
fn two_seizers_and_what_a_dead_owner_left() {
    let contending = Setup { writes: [1, 0], seizes: [1, 1], dies: true, ..MIRROR };
    right("the owner dies with 1 write on its way, 2 seizers", contending);
}

const THREE: Setup = Setup { object: Object::mirror("A1 B1 D1 w1"), ..MIRROR };

#[test]
fn three_copies_and_a_witness() {
    right("3 copies, 1 seizure", THREE);
    right("3 copies, the owner dies with 2 writes on their way", Setup { writes: [2, 0], dies: true, ..THREE });
    right("3 copies, 1 write, 1 seizure", Setup { writes: [1, 0], ..THREE });
}

#[test]
fn three_copies_and_two_seizers() {
    let contending = Setup { writes: [1, 0], seizes: [1, 1], dies: true, ..THREE };
    right("3 copies, the owner dies with 1 write on its way, 2 seizers", contending);
}

/// Rows of 2+1: columns 0 and 1 of row 0 on A and B, parity on C.
const ROWS: Setup = Setup { object: Object::of_rows("A1 B1 C1", 2, 1), columns: &[Some(0)], ..MIRROR };

#[test]
fn rows_in_sync() {
    right("2+1, 1 write of a column, 1 seizure", Setup { writes: [1, 0], ..ROWS });
    right("2+1, 1 whole row, 1 seizure", Setup { writes: [1, 0], columns: &[None], ..ROWS });
    right("2+1, a column twice, 1 seizure", Setup { writes: [2, 0], ..ROWS });
    right("2+1, 1 write by each owner, 1 seizure", Setup { writes: [1, 1], ..ROWS });
    right("2+1, 1 write, 1 seizure, 1 restart", Setup { writes: [1, 0], restarts: 1, ..ROWS });
}

#[test]
fn rows_that_two_write_to() {
    right("2+1, both columns, 1 seizure", Setup { writes: [2, 0], columns: &[Some(0), Some(1)], ..ROWS });
    right("2+1, a column, then all, 1 seizure", Setup { writes: [2, 0], columns: &[Some(0), None], ..ROWS });
}

#[test]
fn rows_with_two_seizers() {
    right("2+1, 1 write, 2 seizers", Setup { writes: [1, 0], seizes: [1, 1], ..ROWS });
}

#[test]
fn rows_with_a_member_absent() {
    let data = Setup { object: Object::of_rows("A1- B1 C1", 2, 1), ..ROWS };
    let parity = Setup { object: Object::of_rows("A1 B1 C1-", 2, 1), ..ROWS };
    right("2+1 without column 0, 1 write of it, 1 seizure", Setup { writes: [1, 0], ..data.clone() });
    right("2+1 without parity, 1 write, 1 seizure", Setup { writes: [1, 0], ..parity.clone() });
    right("2+1 without column 0, 1 rejoin, 1 seizure", Setup { rejoins: 1, ..data.clone() });
    right("2+1 without parity, 1 rejoin, 1 seizure", Setup { rejoins: 1, ..parity.clone() });
    right("2+1 without column 0, 1 write of it, 1 rejoin, 1 seizure", Setup { writes: [1, 0], rejoins: 1, ..data });
    right("2+1 without parity, 1 write, 1 rejoin, 1 seizure", Setup { writes: [1, 0], rejoins: 1, ..parity });
}

#[test]
fn a_member_of_rows_is_replaced() {
    right("2+1, A replaced by D, 1 seizure", Setup { spare: "D1", replace: Some(('A', 'D')), ..ROWS });
}

/// Goal: leaving out states that differ in names only leaves out nothing else. Method: visit them all, and count how many
/// are left without names.
#[test]
fn the_names_of_equal_copies_do_not_matter() {
    let writing = Setup { writes: [1, 0], ..MIRROR };
    let dies = Setup { writes: [1, 0], dies: true, ..THREE };
    for setup in [writing, THREE, dies] {
        let all = Explorer::new(setup.clone()).every_name().run(4_000_000);
        let one = Explorer::new(setup.clone()).run(4_000_000);
        println!("{}: {} states, {} without names", setup.object.picture, all.states, one.states);
        assert!(all.complete && one.complete && one.states < all.states);
        assert_eq!(all.classes, one.states);
    }
}

#[test]
fn careless_variants_are_caught() {
    let writing = Setup { writes: [1, 0], ..MIRROR };
    let stale = Setup { object: Object::mirror("A1 B1- w1"), rejoins: 1, ..writing.clone() };
    let moving = Setup { spare: "D1", replace: Some(('B', 'D')), ..MIRROR };
    for (name, setup) in [
        ("a change by majority of the new members", Setup { canary: Canary::NotJoint, ..moving }),
        ("no promise", Setup { canary: Canary::NoPromise, ..writing.clone() }),
        ("acknowledged before recorded absent", Setup { canary: Canary::AckBeforeAbsent, ..writing.clone() }),
        ("no undo", Setup { canary: Canary::NoUndo, ..writing }),
        ("active without resync", Setup { canary: Canary::NoResync, ..stale.clone() }),
        ("active without a barrier", Setup { canary: Canary::NoBarrier, ..stale.clone() }),
        ("served too early", Setup { canary: Canary::ServeTooEarly, ..stale }),
    ] {
        assert!(run(name, setup, 600_000).wrong.is_some(), "{name} was not caught");
    }
}
