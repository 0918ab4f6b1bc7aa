//! Stories of servers with several shards.

use super::{Scenario, Stage};
use crate::{plan::REPAIR_DELAY_MS, shape::Shape};

/// Shards of the first server; each of the others has one.
const SHARDS: usize = 4;
/// How long rebuilding may take once it begins: disks are small.
const REBUILD_WITHIN_MS: u64 = 15_000;

/// All of them.
pub fn all() -> Vec<Scenario> {
    let disk = Shape::plain(SHARDS + 3).disks[0].clone();
    let shape =
        Shape { servers: vec![SHARDS, 1, 1, 1], disks: vec![disk; 4], pause_max_ms: 200, ..Shape::plain(SHARDS + 3) };
    vec![Scenario::new(
        "a server with most of the shards dies",
        (
            "no disk loses access, and all are rebuilt: one server is gone, however many hosts to the protocol it was",
            "four servers, the first with four shards, each other with one; all four lose power at once, and are back 15 s after the repair delay",
        ),
        (shape, 4),
        most_shards_die,
    )]
}

async fn most_shards_die(stage: Stage) -> Result<(), String> {
    stage.ms(1000).await;
    let server = 0..SHARDS;
    let disks = stage.guests.len();
    let mut held = 0;
    for disk in 0..disks {
        let there = stage.hosts_of(disk).await?.iter().filter(|host| server.contains(host)).count();
        held += there;
        if there > 1 {
            return Err(format!("disk {disk} has {there} components at one server"));
        }
    }
    if held == 0 {
        return Err("the server holds nothing".into());
    }
    stage.count("components at the server", held as u64);
    server.clone().for_each(|shard| stage.crash(shard));
    stage.ms(REPAIR_DELAY_MS + REBUILD_WITHIN_MS).await;
    for disk in 0..disks {
        let config = stage.config(disk).await?;
        let left = stage.hosts_of(disk).await?.iter().filter(|host| server.contains(host)).count();
        let whole = config.members.iter().all(|member| member.state.in_sync());
        if left > 0 || !whole {
            return Err(format!("disk {disk} is not rebuilt: {:?}", config.members));
        }
    }
    server.for_each(|shard| stage.start(shard));
    stage.ms(3000).await;
    stage.rest(false).await
}
