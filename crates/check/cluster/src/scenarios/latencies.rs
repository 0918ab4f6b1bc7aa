//! The story of latencies: in virtual time processors take nothing, so that the stages of a request must add up to it.

use std::time::Duration;

use cairn_api::{
    LocalManagement,
    v1::{Explained, IoOperation, IoStage, Latencies},
};
use cairn_sim::{Fault, SimDisk};

use super::{Scenario, Stage};
use crate::shape::Shape;

/// All of them.
pub fn all() -> Vec<Scenario> {
    vec![Scenario::new(
        "M10. time goes where it is made to go",
        (
            "the stages of reads and writes add up to the whole requests; the slowest stage is the one that was made slow, at the \
             host where it is",
            "latencies are asked for under load; then the log device of the copy that is not the owner's is slow, then the link \
             between the two",
        ),
        (Shape { idle_destage_ms: 0, destage_percent: 50, ..Shape::plain(4) }, 4),
        goes_where_it_is_made_to_go,
    )]
}

/// The latencies of the first disk, as any host tells them.
async fn latencies(stage: &Stage) -> Result<Latencies, String> {
    let told =
        stage.cluster.manage(stage.any(), async move |node| node.disk_latencies(Shape::disk_name(0)).await).await;
    let told = told.map_err(|error| error.to_string())?;
    match told.hosts_silent.is_empty() {
        true => Ok(told),
        false => Err(format!("{:?} do not answer", told.hosts_silent)),
    }
}

fn explain(latencies: &Latencies, operation: IoOperation) -> Result<Explained, String> {
    let disk = latencies.hosts.iter().flat_map(|host| &host.disks).map(|disk| disk.disk).next();
    let explained = disk.and_then(|disk| latencies.explain(disk, operation));
    explained.ok_or_else(|| format!("no {operation:?} was answered: {latencies:?}"))
}

/// What was measured of writes within so many milliseconds from now.
async fn writes_within(stage: &Stage, ms: u64) -> Result<Explained, String> {
    let before = latencies(stage).await?;
    stage.ms(ms).await;
    explain(&latencies(stage).await?.since(&before), IoOperation::Write)
}

async fn goes_where_it_is_made_to_go(stage: Stage) -> Result<(), String> {
    stage.ms(4000).await;
    let told = latencies(&stage).await?;
    for operation in [IoOperation::Read, IoOperation::Write] {
        adds_up(&explain(&told, operation)?)?;
    }
    let (copies, _) = stage.copies_and_witnesses().await?;
    let (owner, other) = (copies[0], copies[1]);
    stage.attach(owner).await?;
    let (owner_name, other_name) = (stage.host(owner).name(), stage.host(other).name());

    stage.say(format!("h{other}: its log device is slow"));
    log_device(&stage, other).inject(Fault::Slow { times: 400 });
    let told = writes_within(&stage, 4000).await?;
    let log = [IoStage::LogDevice, IoStage::LogQueue];
    expect(&told, |stage, host, _| log.contains(&stage) && host == other_name)?;
    log_device(&stage, other).inject(Fault::Slow { times: 1 });

    stage.say(format!("the link between h{owner} and h{other} is slow"));
    let slow_link = |ms| {
        let (a, b) = (stage.host(owner).id(), stage.host(other).id());
        for (from, to) in [(a, b), (b, a)] {
            stage.cluster.world.slow_link(from, to, Duration::from_millis(ms));
        }
    };
    slow_link(20);
    stage.ms(1000).await;
    let told = writes_within(&stage, 4000).await?;
    let ends = [owner_name, other_name];
    expect(&told, |stage, host, to| {
        stage == IoStage::Network && ends.contains(&host) && to.is_some_and(|to| ends.contains(&to))
    })?;
    slow_link(0);
    stage.goes_on(20, 5000).await?;
    stage.rest(false).await
}

fn log_device(stage: &Stage, host: usize) -> SimDisk {
    stage.host(host).disk(&Shape::device_name(0, None))
}

/// Nothing is left for processors, which take no time here; a few requests are under way.
fn adds_up(told: &Explained) -> Result<(), String> {
    let whole: f64 = told.stages.iter().filter(|s| s.depth == 0).filter_map(|s| s.share).sum();
    let parts: f64 = told.stages.iter().filter(|s| s.depth == 1).filter_map(|s| s.share).sum();
    let rest: f64 = told.stages.iter().filter(|s| s.stage == IoStage::Processors).filter_map(|s| s.share).sum();
    match (whole - 1.0).abs() < 0.01 && (parts - 1.0).abs() < 0.05 && rest < 0.05 && told.requests > 50 {
        true => Ok(()),
        false => Err(format!("{parts} of the time is told, {rest} is left for processors: {told:?}")),
    }
}

fn expect(told: &Explained, is_it: impl Fn(IoStage, &str, Option<&str>) -> bool) -> Result<(), String> {
    let slowest = told.slowest().ok_or("no stage is the slowest")?;
    match is_it(slowest.stage, &slowest.host, slowest.to_host.as_deref()) {
        true => Ok(()),
        false => Err(format!("{slowest:?} is not what was made slow: {told:?}")),
    }
}
