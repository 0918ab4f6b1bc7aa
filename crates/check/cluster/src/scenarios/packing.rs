//! Stories of disk groups that pack what they destage.

use super::{Scenario, Stage, space::tight};
use crate::shape::Shape;

/// All of them.
pub fn all() -> Vec<Scenario> {
    vec![Scenario::new(
        "18. devices are full of packed blocks, and are written over by what does not pack",
        (
            "more is there than fits unpacked; what finds no room is refused, and no byte is wrong; what is trimmed is room again",
            "disk groups pack; a disk is written until there is no space, written over from its beginning, trimmed, and written again; a host loses power in between",
        ),
        (of_much_text(), 3),
        written_over,
    )]
}

/// Devices with room for 75 MiB, and a disk that never fits them.
fn of_much_text() -> Shape {
    let mut shape = tight();
    shape.disks[0].size_bytes = 192 << 20;
    shape
}

/// All disk groups of all hosts pack from now on.
pub(super) async fn pack(stage: &Stage) -> Result<(), String> {
    for host in 0..stage.hosts() {
        let id = stage.cluster.group_id(host, 0).ok_or_else(|| format!("h{host} has no disk group"))?;
        stage.cluster.set_compression(id, true).await;
        let group = stage.cluster.disk_group(id).await?;
        if group.compression != Some(true) {
            return Err(format!("h{host}: {:?} after it was to pack", group.compression));
        }
    }
    Ok(())
}

async fn written_over(stage: Stage) -> Result<(), String> {
    const FITS_UNPACKED_BYTES: u64 = 75 << 20;
    stage.ms(1000).await;
    pack(&stage).await?;
    let at = stage.any();
    stage.attach(at).await?;
    let guests = stage.guests[0].clone();
    guests.stop().await;
    let sectors = guests.fill(at, false).await?;
    stage.count("MiB that fitted", sectors >> 11);
    if sectors * 512 < FITS_UNPACKED_BYTES * 5 / 4 {
        return Err(format!("{sectors} sectors fitted: packing saved too little"));
    }
    guests.verify_at(at).await?;
    let over = guests.fill(at, false).await?;
    stage.count("MiB written over", over >> 11);
    guests.verify_at(at).await?;
    let other = (at + 1) % stage.hosts();
    stage.crash(other);
    stage.ms(1000).await;
    stage.start(other);
    stage.healthy().await?;
    guests.trim_all(at).await?;
    let again = guests.fill(at, false).await?;
    if again * 512 < FITS_UNPACKED_BYTES {
        return Err(format!("{again} sectors fit after all was trimmed"));
    }
    guests.verify_at(at).await?;
    stage.rest(false).await
}
