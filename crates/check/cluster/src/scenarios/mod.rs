//! Scripted misfortunes: each tells one story that a careless design would not survive, with the guests and checks of random runs.
//!
//! Promises    a story run twice with one seed is the same run; each has its goal and its method on top
//! Not here    what is told of undo, replay and the log alone: `store_crash` (`cairn-sim`), `register` (`cairn-owner`)

mod bad_marks;
mod caches;
mod canaries;
mod clones;
mod conversions;
mod devices;
mod differences;
mod forgets;
mod growth;
mod idle;
mod large;
mod latencies;
mod membership;
mod moves;
mod of_snapshots;
mod owners;
mod packing;
mod placements;
mod policies;
mod refusals;
mod resyncs;
mod rows;
mod rows_space;
mod schedules;
mod scrubs;
mod servers;
mod slow;
mod snapshots;
mod space;
mod stage;
mod upgrades;
mod what_if;

use std::{collections::BTreeMap, fmt, future::Future, time::Duration};

pub use canaries::{OF_STORE, that_catches};
use futures::{FutureExt as _, future::LocalBoxFuture};
pub use stage::Stage;

use crate::{
    run::{End, Failure, caught},
    shape::Shape,
};

/// Seeds of stories begin here.
const FIRST_SEED: u64 = 1000;

/// A story.
pub struct Scenario {
    /// What it is called.
    pub name: &'static str,
    /// What must hold.
    pub goal: &'static str,
    /// How it is brought about.
    pub method: &'static str,
    /// Seeds that it is told for.
    pub seeds: u64,
    shape: Shape,
    story: Box<dyn Fn(Stage) -> LocalBoxFuture<'static, Result<(), String>> + Send + Sync>,
}

/// What a story that holds has to say.
#[derive(Debug, Clone, Default)]
pub struct Told {
    /// How long it took in the simulated world.
    pub lasted: Duration,
    /// The longest wait, by what was the cause.
    pub longest: BTreeMap<String, Duration>,
    /// The most that was counted, by what, in the order in which it was counted first.
    pub most: Vec<(String, u64)>,
}

impl Told {
    /// Takes in how long something took.
    pub fn lasted(&mut self, kind: String, took: Duration) {
        let longest = self.longest.entry(kind).or_default();
        *longest = took.max(*longest);
    }

    /// Takes in how much there was of something.
    pub fn counted(&mut self, kind: String, count: u64) {
        match self.most.iter_mut().find(|(of, _)| *of == kind) {
            Some((_, most)) => *most = count.max(*most),
            None => self.most.push((kind, count)),
        }
    }

    /// Adds another seed's.
    pub fn add(&mut self, other: Self) {
        self.lasted += other.lasted;
        other.longest.into_iter().for_each(|(kind, took)| self.lasted(kind, took));
        other.most.into_iter().for_each(|(kind, count)| self.counted(kind, count));
    }
}

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "holds")?;
        for (n, (kind, took)) in self.longest.iter().enumerate() {
            let before = if n == 0 { "; longest wait with " } else { ", " };
            write!(f, "{before}{kind} {} ms", took.as_millis())?;
        }
        for (kind, count) in &self.most {
            write!(f, "; {count} {kind}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.name)
    }
}

impl Scenario {
    fn new<F: Future<Output = Result<(), String>> + 'static>(
        name: &'static str,
        (goal, method): (&'static str, &'static str),
        (shape, seeds): (Shape, u64),
        story: impl Fn(Stage) -> F + Send + Sync + 'static,
    ) -> Self {
        Self { name, goal, method, seeds, shape, story: Box::new(move |stage| story(stage).boxed_local()) }
    }

    /// Tells it for all its seeds.
    ///
    /// # Errors
    /// The seed, what was broken, and what happened last.
    pub fn tell_all(&self, print: bool) -> Result<Told, (u64, Failure)> {
        let mut sum = Told::default();
        for seed in FIRST_SEED..FIRST_SEED + self.seeds {
            sum.add(self.tell(seed, print).map_err(|failure| (seed, failure))?);
        }
        Ok(sum)
    }

    /// Tells it once.
    ///
    /// # Errors
    /// What was broken, with what happened last.
    pub fn tell(&self, seed: u64, print: bool) -> Result<Told, Failure> {
        caught(|log| {
            let stage = Stage::new(seed, &self.shape, print);
            log.replace(Some(stage.cluster.log.clone()));
            let _end = End(stage.cluster.clone());
            let (cluster, guests, measured) = (stage.cluster.clone(), stage.guests.clone(), stage.measured.clone());
            let result = cluster.world.block_on((self.story)(stage));
            let seen = guests.iter().flat_map(|g| g.failures.borrow().clone()).chain(cluster.violations()).next();
            seen.map_or(Ok(()), Err)?;
            result?;
            Ok(Told { lasted: cluster.world.now(), ..measured.take() })
        })
    }
}

/// How many disks a story of many disks has, where nobody asks for more.
pub const OBJECTS: usize = 1000;

/// All of them, in the order of the design's list of ways to go wrong. `objects`: disks in a story of many.
pub fn all(objects: usize) -> Vec<Scenario> {
    let lists = [
        owners::all(),
        packing::all(),
        refusals::all(),
        placements::all(),
        resyncs::all(),
        idle::all(),
        moves::all(),
        devices::all(),
        policies::all(),
        conversions::all(),
        what_if::all(),
        scrubs::all(),
        bad_marks::all(),
        differences::all(),
        rows::all(),
        rows_space::all(),
        slow::all(),
        membership::all(),
        clones::all(),
        snapshots::all(),
        of_snapshots::all(),
        schedules::all(),
        servers::all(),
        forgets::all(),
        growth::all(),
        space::all(),
        caches::all(),
        latencies::all(),
        upgrades::all(),
        large::all(objects),
    ];
    lists.into_iter().flatten().collect()
}
