//! Numbers that can be checked by hand: repeats, Little's law, steadiness.

use cairn_measure::{little, spread, steadiness};

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() < 1e-9
}

#[test]
fn repeats() {
    let three = spread(&[90.0, 100.0, 110.0]).unwrap();
    assert_eq!((three.mean, three.min, three.max), (100.0, 90.0, 110.0));
    assert!(near(three.cv.unwrap(), 0.1));
    assert_eq!(spread(&[5.0]).unwrap().cv, None);
    assert_eq!(spread(&[]), None);
    assert_eq!(spread(&[0.0, 0.0]).unwrap().cv, None, "nothing was done: there is no variation to tell");
}

/// The mean latencies that the 2014 study's rates imply at queue depth 1: 64 workers at 11,500, 17,000 and 39,500 a second.
#[test]
fn littles_law() {
    for (rate, ms) in [(11_500.0, 5.565), (17_000.0, 3.765), (39_500.0, 1.620)] {
        let row = little(rate, ms * 1e6, 64).unwrap();
        assert!(row.holds() && row.off.abs() < 0.001, "{rate}: {row:?}");
    }
    // A tenth of the workers stood still.
    let row = little(57.6e3, 1e6, 64).unwrap();
    assert!(!row.holds() && near(row.outstanding, 57.6) && near(row.off, -0.1), "{row:?}");
    assert_eq!(little(0.0, 0.0, 0), None);
}

#[test]
fn steady_states() {
    let judged = |rounds: &[f64]| steadiness(rounds).unwrap();
    assert!(judged(&[100.0, 101.0, 99.0, 100.0, 100.0]).is_steady());
    // Only the last five count.
    assert!(judged(&[900.0, 500.0, 100.0, 101.0, 99.0, 100.0, 100.0]).is_steady());
    // A range of 20 %, and no slope.
    let edge = judged(&[90.0, 110.0, 100.0, 110.0, 90.0]);
    assert!(edge.is_steady() && near(edge.range, 0.2) && near(edge.rise, 0.0), "{edge:?}");
    assert!(!judged(&[89.0, 111.0, 100.0, 111.0, 89.0]).is_steady());
    // 3 a round are 12 % over five, within a range of 12 %.
    let falling = judged(&[106.0, 103.0, 100.0, 97.0, 94.0]);
    assert!(!falling.is_steady() && near(falling.rise, -0.12) && near(falling.range, 0.12), "{falling:?}");
    assert_eq!(steadiness(&[1.0; 4]), None);
    assert_eq!(steadiness(&[0.0; 5]), None);
}
