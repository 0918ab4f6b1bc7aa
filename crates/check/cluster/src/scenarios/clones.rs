//! Stories of two machines that say they are one host.

use super::{Scenario, Stage};
use crate::{guests::Guests, shape::Shape};

/// All of them.
pub fn all() -> Vec<Scenario> {
    vec![Scenario::new(
        "12. a cloned host image, while the host lives",
        (
            "the newer process ends the older one's leases, peers refuse the older one, and nobody reads a wrong byte at either",
            "a second machine starts with a host's id and an image of its devices, 1 to 3 s old; the older one goes on, is \
                 started once more while the newer lives, and is switched off; the newer stays. Where the older one was owner and has \
                 recorded the other copy absent, nobody serves the disk",
        ),
        (Shape::plain(4).read_everywhere(), 24),
        cloned_host,
    )]
}

/// The older process may go on by leases that it had, gives up what it could not renew for another lease, and a bit.
const OLDER_ENDS_WITHIN_MS: u64 = 5000;

async fn cloned_host(stage: Stage) -> Result<(), String> {
    stage.ms(1500).await;
    // Each part that a host may have in the disk: owner with a copy, a copy, the witness, nothing.
    let (copies, witnesses) = stage.copies_and_witnesses().await?;
    let none = (0..4).find(|n| !copies.contains(n) && !witnesses.contains(n)).expect("a host without a component");
    let n = [copies[0], copies[0], copies[1], witnesses[0], none][stage.below(5) as usize];
    stage.attach(if stage.below(3) == 0 { copies[1] } else { copies[0] }).await?;
    stage.ms(stage.below(500)).await;
    let older = stage.host(n).clone();
    stage.say(format!("h{n}: an image is taken"));
    let image = stage.cluster.image(n, stage.below(u64::MAX));
    // Peers have heard of a later position of the log: a younger image may lack what nobody misses (docs/fault-model.md).
    stage.ms(1000 + stage.below(2000)).await;
    stage.say(format!("a clone of h{n} starts"));
    let clone = stage.with_clone(n, image);
    clone.guests[0].start_reader(n, 40);
    clone.guests[0].start_at(n, 2, 40);
    stage.ms(OLDER_ENDS_WITHIN_MS).await;
    refused(&stage, n)?;
    known_by_all(&clone, n)?;
    if let Err(why) = clone.goes_on(20, 3000).await {
        return only_older_has_all(&clone, why).await;
    }

    stage.say(format!("the older h{n} starts once more"));
    older.restart();
    stage.ms(OLDER_ENDS_WITHIN_MS).await;
    refused(&stage, n)?;
    clone.goes_on(20, 3000).await?;
    known_by_all(&clone, n)?;

    stage.say(format!("the older h{n} is switched off"));
    older.crash(stage.below(u64::MAX));
    clone.rest(false).await
}

/// The older one was owner and lost its peers one by one: with the witness's vote it recorded the other copy absent, before it lost
/// that too. What it acknowledged then nobody else has, so nobody may serve the disk: it waits for a copy that nobody can believe.
async fn only_older_has_all(clone: &Stage, why: String) -> Result<(), String> {
    let config = clone.config(0).await?;
    if config.members.iter().all(|m| m.set().is_none() || m.state.in_sync()) {
        return Err(why);
    }
    clone.count("disk in a seed that nobody serves, as only the older one had all of it", 1);
    match clone.goes_on(1, 30_000).await {
        Ok(()) => Err("P2: a copy that lacks what was acknowledged took writes".into()),
        Err(_) => Ok(()),
    }
}

/// The older machine reaches nobody, and serves nothing.
fn refused(stage: &Stage, n: usize) -> Result<(), String> {
    let Some(node) = stage.cluster.node(n) else { return Ok(()) };
    let owned = node.objects().all_owned().len();
    match node.peers_up().len() {
        0 if owned == 0 => Ok(()),
        peers => Err(format!("I1: the older h{n} has {peers} peers and owns {owned} disks beside its clone")),
    }
}

/// All others talk with the clone.
fn known_by_all(clone: &Stage, n: usize) -> Result<(), String> {
    let id = clone.host(n).spoken_id();
    let others = (0..clone.hosts()).filter(|other| *other != n);
    match others
        .filter_map(|other| Some((other, clone.cluster.node(other)?)))
        .find(|(_, n)| !n.peers_up().contains(&id))
    {
        Some((other, _)) => Err(format!("h{other} does not talk with the clone of h{n}")),
        None => Ok(()),
    }
}

impl Stage {
    /// The stage with a clone in a host's place; guests go on at this one too.
    fn with_clone(&self, n: usize, image: Vec<(String, cairn_sim::Medium)>) -> Self {
        let cluster = self.cluster.with_clone(n, image);
        let guests = self.guests.iter().map(|guests| Guests::of(guests, &cluster)).collect();
        Self { cluster, guests, measured: self.measured.clone() }
    }
}
