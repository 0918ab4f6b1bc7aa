//! Stories of disks that grow past a chunk while guests come.

use std::time::Duration;

use cairn_faults::Moment;
use cairn_sim::Fault;
use futures::future::join_all;

use super::{Scenario, Stage};
use crate::shape::Shape;

/// All of them.
pub fn all() -> Vec<Scenario> {
    vec![
        Scenario::new(
            "P2. a disk grows past a chunk, and guests come",
            (
                "what a guest writes to the new part of a disk is there, however early it came",
                "a disk grows by new chunks again and again, with slow logs; guests open it anew all the time, and write where it is new",
            ),
            (small(), 6),
            guests_come,
        ),
        Scenario::new(
            "P2. the owner dies as a disk grows past a chunk",
            (
                "what was written to the new part stands, or the disk has its old size",
                "the owner loses power some milliseconds into the growth, and others come to write where it is new",
            ),
            (small(), 6),
            owner_dies,
        ),
    ]
}

/// One disk of less than a chunk.
fn small() -> Shape {
    let mut shape = Shape::plain(4).of_small_chunks(1);
    for disk in &mut shape.disks {
        (disk.size_bytes, disk.guests) = (700 << 10, 2);
    }
    shape
}

const NEWCOMERS: usize = 2;
const GROWTH_BYTES: u64 = (1 << 20) + 4096;

/// Guests that come to each host and go again, until `enough` of all have come.
async fn newcomers(stage: &Stage, enough: usize) {
    let comers = (0..stage.hosts() * NEWCOMERS).map(|n| {
        let (stage, at) = (stage.clone(), n % stage.hosts());
        async move {
            for _ in 0..enough {
                stage.guests[0].try_new_part(at).await;
                stage.cluster.world.sleep(Duration::from_micros(200 + stage.below(2000))).await;
            }
        }
    });
    join_all(comers).await;
}

fn slow_logs(stage: &Stage, times: u32) {
    stage.say(format!("logs are {times} times slower"));
    for n in 0..stage.hosts() {
        stage.host(n).disk(&Shape::device_name(0, None)).inject(Fault::Slow { times });
    }
}

async fn guests_come(stage: Stage) -> Result<(), String> {
    stage.ms(1000).await;
    for _ in 0..6 {
        slow_logs(&stage, 100 + stage.below(600) as u32);
        let owner = stage.any();
        let grow = stage.cluster.grow_disk(0, owner, GROWTH_BYTES);
        futures::future::join(grow, newcomers(&stage, 60)).await;
        slow_logs(&stage, 1);
        stage.ms(300).await;
    }
    stage.count("bytes that the disk came to", stage.cluster.sizes.borrow()[0].bytes);
    stage.rest(false).await
}

async fn owner_dies(stage: Stage) -> Result<(), String> {
    stage.ms(1000).await;
    for _ in 0..4 {
        slow_logs(&stage, 100 + stage.below(600) as u32);
        let owner = stage.any();
        stage.attach(owner).await?;
        let death = async {
            stage.ms(5 + stage.below(250)).await;
            stage.crash(owner);
            let _ = stage.told(Moment::Owned, 8000).await;
        };
        let grow = stage.cluster.grow_disk(0, owner, GROWTH_BYTES);
        futures::future::join3(grow, newcomers(&stage, 60), death).await;
        stage.cluster.heal_everything();
        stage.healthy().await?;
    }
    stage.count("bytes that the disk came to", stage.cluster.sizes.borrow()[0].bytes);
    stage.rest(false).await
}
