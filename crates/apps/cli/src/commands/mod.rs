//! One file per noun. Each verb is one request and one way to print its answer.

mod bench;
mod cache;
mod capacity;
mod clone;
mod cluster;
mod completions;
mod counters;
mod disk;
mod disk_group;
mod health;
mod host;
mod image;
mod inspect;
mod latency;
mod leaving;
mod libvirt;
mod maintenance;
mod manual;
mod members;
mod new_hosts;
mod policy;
mod reference;
mod resync;
mod schedule;
mod scrub;
mod session;
mod snapshot;
mod suggest;
mod top;
mod upgrade;
mod usage;
mod watch;
mod what_if;
mod words;

use std::time::Duration;

use crate::{
    args::{Args, Noun},
    client::Client,
    fail::Fail,
    output::Format,
};

/// What every command gets.
pub struct Context {
    /// The API.
    pub client: Client,
    /// The form of the data on stdout.
    pub format: Format,
}

/// Carries out a command line.
pub async fn run(args: Args) -> Result<(), Fail> {
    let context = Context { client: Client::new(args.api, Duration::from_secs(args.timeout)), format: args.output };
    match args.noun {
        Noun::Cluster(verb) => cluster::run(&context, verb).await,
        Noun::Host(verb) => host::run(&context, verb).await,
        Noun::DiskGroup(verb) => disk_group::run(&context, verb).await,
        Noun::Disk(verb) => disk::run(&context, verb).await,
        Noun::Snapshot(verb) => snapshot::run(&context, verb).await,
        Noun::Session(verb) => session::run(&context, verb).await,
        Noun::Policy(verb) => policy::run(&context, verb).await,
        Noun::Health { verb } => health::run(&context, verb).await,
        Noun::WhatIf(verb) => what_if::run(&context, verb).await,
        Noun::Resync(verb) => resync::run(&context, verb).await,
        Noun::Scrub(verb) => scrub::run(&context, verb).await,
        Noun::Counters(what) => counters::run(&context, &what).await,
        Noun::Top(what) => top::run(&context, &what).await,
        Noun::Cache(verb) => cache::run(&context, verb).await,
        Noun::Inspect(what) => inspect::run(&context, &what),
        Noun::Bench(verb) => bench::run(&context, *verb),
        Noun::Completions { shell } => completions::completions(shell),
        Noun::Reference => reference::print(),
        Noun::Manual { folder } => manual::write(&folder),
        Noun::Version => completions::version(&context),
    }
}
