//! Stories of devices that come and go while their disk group is in use.

use cairn_api::{
    LocalManagement as _,
    v1::{DiskGroup, DiskGroupAddCapacity, DiskGroupReplaceDevice},
};
use cairn_types::DiskGroupId;
use futures::future::join;

use super::{Scenario, Stage};
use crate::shape::Shape;

/// Tries of a command, half a second apart: refused while a copy is filled, or a host starts.
const TRIES: u32 = 120;

/// All of them.
pub fn all() -> Vec<Scenario> {
    vec![
        Scenario::new(
            "31. a capacity device is added, and power goes",
            (
                "the group has the device or it has not, and takes it when it is asked again; nothing of the disk is lost",
                "a device is added at the host of a copy under load, which loses power within three milliseconds; asked again until it is there",
            ),
            (Shape::plain(4).read_everywhere(), 8),
            added,
        ),
        Scenario::new(
            "31. a capacity device is replaced in use",
            (
                "what was on it is rebuilt, the rest stays, and the old device is nobody's, also after a loss of power",
                "a device of a copy's group, dead or alive, is replaced under load; half of the time the host loses power within three milliseconds",
            ),
            (Shape::plain(4).read_everywhere(), 8),
            replaced,
        ),
    ]
}

/// The disk group as another host shows it.
async fn group(stage: &Stage, host: usize, id: DiskGroupId) -> Result<DiskGroup, String> {
    let asked = (host + 1) % stage.hosts();
    let shown = stage.cluster.manage(asked, async move |node| node.disk_group_show(id).await).await;
    shown.map_err(|error| error.to_string())
}

async fn has(stage: &Stage, host: usize, id: DiskGroupId, path: &str) -> Result<bool, String> {
    Ok(group(stage, host, id).await?.devices.iter().any(|device| device.path == path))
}

/// A host of a copy that is not the owner, and its disk group.
async fn begin(stage: &Stage) -> Result<(usize, DiskGroupId), String> {
    stage.ms(1500).await;
    let (copies, _) = stage.copies_and_witnesses().await?;
    stage.attach(copies[1]).await?;
    let id = stage.cluster.group_id(copies[0], 0).ok_or("its disk group is closed")?;
    Ok((copies[0], id))
}

async fn loses_power(stage: &Stage, host: usize) {
    stage.ms(stage.below(4)).await;
    stage.crash(host);
}

async fn added(stage: Stage) -> Result<(), String> {
    let (host, id) = begin(&stage).await?;
    stage.host(host).add_disk("more", 100 << 20);
    let ask = async || {
        let request = DiskGroupAddCapacity { device: "more".into(), ..DiskGroupAddCapacity::default() };
        let asked = (host + 1) % stage.hosts();
        stage.cluster.manage(asked, async move |node| node.disk_group_add_capacity(id, request).await).await
    };
    let (first, ()) = join(ask(), loses_power(&stage, host)).await;
    stage.say(format!("the first answer: {first:?}"));
    stage.start(host);
    stage.ms(3000).await;
    let mut last = String::new();
    for _ in 0..TRIES {
        if has(&stage, host, id, "more").await? {
            stage.goes_on(5, 1000).await?;
            stage.crash(host);
            stage.start(host);
            stage.ms(3000).await;
            return match has(&stage, host, id, "more").await? {
                true => stage.rest(false).await,
                false => Err("the device was added, and is not there after a start".into()),
            };
        }
        if first.is_ok() {
            return Err("it was told that the device is there, and it is not".into());
        }
        last = format!("{:?}", ask().await);
        stage.ms(500).await;
    }
    Err(format!("the device is not added: {last}"))
}

async fn replaced(stage: Stage) -> Result<(), String> {
    let (host, id) = begin(&stage).await?;
    stage.host(host).add_disk("new", 200 << 20);
    let old = Shape::device_name(0, Some(stage.below(2) as usize));
    if stage.below(2) == 0 {
        stage.say(format!("{old} of h{host} dies"));
        stage.host(host).disk(&old).inject(cairn_sim::Fault::Gone);
        stage.ms(11_000).await;
    }
    let ask = async || {
        let request = DiskGroupReplaceDevice { device: old.clone(), with: "new".into(), ..Default::default() };
        let asked = (host + 1) % stage.hosts();
        stage.cluster.manage(asked, async move |node| node.disk_group_replace_device(id, request).await).await
    };
    if stage.below(2) == 0 {
        let _ = join(ask(), loses_power(&stage, host)).await;
        stage.start(host);
        stage.ms(3000).await;
    }
    let mut last = String::new();
    for _ in 0..TRIES {
        let (is_new, is_old) = (has(&stage, host, id, "new").await?, has(&stage, host, id, &old).await?);
        if is_new && !is_old {
            stage.goes_on(5, 2000).await?;
            stage.healthy().await?;
            stage.crash(host);
            stage.start(host);
            stage.ms(3000).await;
            return match (has(&stage, host, id, "new").await?, has(&stage, host, id, &old).await?) {
                (true, false) => stage.rest(false).await,
                other => Err(format!("after a start the new device and the old one are there: {other:?}")),
            };
        }
        if is_new {
            return Err(format!("{old} and the device in its place are both there"));
        }
        last = format!("{:?}", ask().await);
        stage.ms(500).await;
    }
    Err(format!("the device is not replaced: {last}"))
}
