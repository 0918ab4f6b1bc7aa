mod model;
use model::{Canary, explore::{Explorer, Setup}};
#[test]
fn probe() {
    let base = Setup { config: "A1 B1 w1", spare: "", writes: [0,0], seizes: [0,1], replace: None, rejoins: 0, restarts: 0, dies: false, canary: Canary::None };
    for (name, setup) in [
        ("replace", Setup { spare: "D1", replace: Some(('B','D')), ..base.clone() }),
        ("rejoin seize", Setup { config: "A1 B1- w1", rejoins: 1, ..base.clone() }),
        ("rejoin write seize", Setup { config: "A1 B1- w1", rejoins: 1, writes: [1,0], ..base.clone() }),
        ("3 seize", Setup { config: "A1 B1 D1 w1", ..base.clone() }),
        ("3 write", Setup { config: "A1 B1 D1 w1", writes: [1,0], seizes: [0,0], ..base.clone() }),
        ("3 write seize", Setup { config: "A1 B1 D1 w1", writes: [1,0], ..base.clone() }),
        ("two seizers", Setup { seizes: [1,1], writes: [1,0], dies: true, ..base.clone() }),
        ("AB only 2 writes", Setup { config: "A1 B1 w1", writes: [1,1], ..base.clone() }),
        ("3 dead seize", Setup { config: "A1 B1 D1 w1", writes: [1,0], dies: true, ..base.clone() }),("2 dead 2 seize", Setup { writes: [2,0], dies: true, ..base.clone() }),("write seize restart", Setup { restarts: 1, writes: [1,0], ..base.clone() }),
    ] {
        let t = std::time::Instant::now();
        println!("{name} {:?} {:?}", Explorer::new(setup).run(4_000_000), t.elapsed());
    }
}
