//! Stories of disks that nobody uses: what befalls them is found out all the same, and mended before they are needed.

use super::{Scenario, Stage};
use crate::shape::Shape;

/// All of them.
pub fn all() -> Vec<Scenario> {
    vec![
        Scenario::new(
            "3. an old image of a copy at rest",
            (
                "a copy that nobody writes to or reads is found out too, and filled before it is needed",
                "an image is taken; guests go on for at most 1.5 s and stop; at once the image is put in place, often before any other host could remember more; then the owner dies, and all is read from that copy",
            ),
            (Shape::plain(3), 8),
            old_image_at_rest,
        ),
        Scenario::new(
            "19. a capacity device dies under a disk at rest",
            (
                "the owner learns of it though nobody asks for that copy, and it is rebuilt before it is needed",
                "guests stop; at once the capacity devices under one copy, the owner's or the other, are gone, which their host finds out with the next destage, or within 10 s where there is nothing to destage; then the other copy's host dies",
            ),
            (Shape::plain(4), 8),
            device_dies,
        ),
        Scenario::new(
            "19. a capacity device dies under a disk with nothing to destage",
            (
                "the owner learns of it though nobody asks for that copy, and it is rebuilt before it is needed",
                "as above, where all was destaged before",
            ),
            (Shape::plain(4), 4),
            device_dies_after_destage,
        ),
        Scenario::new(
            "19. a host that never comes back, under a disk at rest",
            (
                "what it held, a copy or the witness, is replaced after the repair delay, whether the disk has an owner left or not",
                "guests stop; the host of the owner, of the other copy or of the witness dies for good; then a second one dies",
            ),
            (Shape::plain(4), 8),
            host_dies_for_good,
        ),
    ]
}

async fn old_image_at_rest(stage: Stage) -> Result<(), String> {
    stage.ms(1000).await;
    let (copies, _) = stage.copies_and_witnesses().await?;
    let (owner, other) = (copies[0], copies[1]);
    stage.attach(owner).await?;
    let image = stage.image(other);
    stage.ms(stage.below(1500)).await;
    stage.guests[0].stop().await;
    stage.crash(other);
    stage.put_in_place(other, image);
    stage.start(other);
    stage.ms(3000).await;
    stage.healthy().await?;
    stage.crash(owner);
    stage.ms(6000).await;
    stage.guests[0].verify_at(other).await?;
    stage.start(owner);
    stage.rest(false).await
}

async fn device_dies(stage: Stage) -> Result<(), String> {
    lose_device(stage, 0).await
}

async fn device_dies_after_destage(stage: Stage) -> Result<(), String> {
    lose_device(stage, 2000).await
}

/// The device dies so long after the last write.
async fn lose_device(stage: Stage, rest_ms: u64) -> Result<(), String> {
    stage.ms(1500).await;
    let (copies, _) = stage.copies_and_witnesses().await?;
    stage.attach(copies[0]).await?;
    let (lost, left) = if stage.below(2) == 0 { (copies[0], copies[1]) } else { (copies[1], copies[0]) };
    stage.guests[0].stop().await;
    stage.ms(rest_ms).await;
    stage.lose_capacity(lost);
    stage.ms(10_000).await;
    stage.healthy().await?;
    let (copies, _) = stage.copies_and_witnesses().await?;
    let new = copies.into_iter().find(|n| *n != lost && *n != left).ok_or("the lost copy counts as healthy")?;
    stage.crash(left);
    stage.ms(6000).await;
    stage.guests[0].verify_at(new).await?;
    stage.start(left);
    stage.capacity(lost).for_each(|disk| disk.bring_back());
    stage.host(lost).restart();
    stage.ms(3000).await;
    stage.rest(false).await
}

async fn host_dies_for_good(stage: Stage) -> Result<(), String> {
    stage.ms(1000).await;
    let (copies, witnesses) = stage.copies_and_witnesses().await?;
    stage.attach(copies[0]).await?;
    stage.guests[0].stop().await;
    let gone = [copies[0], copies[1], witnesses[0]][stage.below(3) as usize];
    stage.crash(gone);
    let left: Vec<usize> = (0..stage.hosts()).filter(|n| *n != gone).collect();
    stage.healthy_at(left[0]).await?;
    if stage.hosts_of(0).await?.contains(&gone) {
        return Err(format!("the disk counts as healthy with a part of it on h{gone}, which is dead"));
    }
    stage.crash(left[1]);
    stage.ms(6000).await;
    stage.guests[0].verify_at(left[0]).await?;
    stage.start(left[1]);
    stage.start(gone);
    stage.ms(3000).await;
    stage.rest(false).await
}
