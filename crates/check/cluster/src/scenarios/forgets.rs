//! Stories of what forgets without knowing it: a seat what it promised, while whoever it promised it to, and whoever it no longer knows, go
//! on; a copy what it acknowledged.

use super::{Scenario, Stage};
use crate::shape::Shape;

/// All of them.
pub fn all() -> Vec<Scenario> {
    vec![witness_forgets(), young_image(), flipped_end()]
}

fn witness_forgets() -> Scenario {
    Scenario::new(
        "12. a witness forgets whom it promised, and meets the older owner",
        (
            "an owner that was superseded without knowing gets neither the vote nor a lease of a seat that forgot it",
            "the owner and its copy are cut off, and the other copy goes on with the witness; the witness's host comes back with an image \
             of its devices from before, and reaches the older owner only",
        ),
        (Shape::plain(4), 24),
        witness_meets_the_older_owner,
    )
}

fn young_image() -> Scenario {
    Scenario::new(
        "3. a young image of the owner's host",
        (
            "a copy that lacks what it acknowledged is not in sync, although no host remembers a later position of its log",
            "ten times the owner's host loses power less than a heartbeat after an image of its devices, which are what it starts with: \
             at once, or when the others have recorded it absent",
        ),
        (Shape::plain(3).small().read_everywhere(), 8),
        image_of_the_owner,
    )
}

fn flipped_end() -> Scenario {
    Scenario::new(
        "3. a flipped bit at the end of one log, when all hosts lose power",
        (
            "what was acknowledged stands on the other copy, the disk is served, and the copy with the damaged log is filled again",
            "ten times all hosts lose power at once; a bit of the last two batches of one copy's log, or of the witness's, is flipped; they \
             start one after the other",
        ),
        (Shape::plain(3).small().read_everywhere(), 12),
        flips_at_the_end,
    )
}

async fn flips_at_the_end(stage: Stage) -> Result<(), String> {
    stage.ms(1000).await;
    for _ in 0..10 {
        stage.ms(100 + stage.below(900)).await;
        let hosts = stage.hosts_of(0).await?;
        let victim = hosts[stage.below(hosts.len() as u64) as usize];
        (0..stage.hosts()).for_each(|n| stage.crash(n));
        stage.flip_end(victim);
        for n in 0..stage.hosts() {
            stage.start(n);
            stage.ms([0, 300][stage.below(2) as usize]).await;
        }
        stage.ms(3000).await;
        stage.healthy().await?;
    }
    stage.rest(true).await
}

async fn image_of_the_owner(stage: Stage) -> Result<(), String> {
    stage.ms(1000).await;
    for _ in 0..10 {
        let (copies, _) = stage.copies_and_witnesses().await?;
        let owner = copies[stage.below(2) as usize];
        stage.attach(owner).await?;
        stage.ms(200 + stage.below(600)).await;
        let image = stage.image(owner);
        stage.ms(20 + stage.below(460)).await;
        stage.crash(owner);
        stage.put_in_place(owner, image);
        stage.ms([0, 5000][stage.below(2) as usize]).await;
        stage.start(owner);
        stage.ms(3000).await;
        stage.healthy().await?;
    }
    stage.rest(false).await
}

async fn witness_meets_the_older_owner(stage: Stage) -> Result<(), String> {
    stage.ms(1000).await;
    let (copies, witnesses) = stage.copies_and_witnesses().await?;
    let (older, newer, witness) = (copies[0], copies[1], witnesses[0]);
    stage.attach(older).await?;
    let image = stage.image(witness);
    // What the witness takes after the image the others remember: it will know that it forgets.
    stage.attach(newer).await?;
    stage.attach(older).await?;
    stage.ms(1100).await;
    stage.isolate(older);
    // Those that hold a lease for the older owner wait until it has ended.
    stage.ms(2200 + stage.below(300)).await;
    stage.attach(newer).await?;
    stage.ms(100 + stage.below(600)).await;
    (0..4).filter(|n| *n != witness && *n != older).for_each(|n| stage.cut(witness, n));
    stage.crash(witness);
    stage.put_in_place(witness, image);
    stage.say("the witness and the older owner find each other");
    stage.cluster.world.heal(stage.host(witness).id(), stage.host(older).id());
    stage.start(witness);
    stage.ms(500 + stage.below(4000)).await;
    stage.rest(false).await
}
