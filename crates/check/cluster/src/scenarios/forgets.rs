//! Stories of a seat that forgets what it promised, while whoever it promised it to, and whoever it no longer knows, go on.

use super::{Scenario, Stage};
use crate::shape::Shape;

/// All of them.
pub fn all() -> Vec<Scenario> {
    vec![Scenario::new(
        "12. a witness forgets whom it promised, and meets the older owner",
        (
            "an owner that was superseded without knowing gets neither the vote nor a lease of a seat that forgot it",
            "the owner and its copy are cut off, and the other copy goes on with the witness; the witness's host comes back with an image \
             of its devices from before, and reaches the older owner only",
        ),
        (Shape::plain(4), 24),
        witness_meets_the_older_owner,
    )]
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
