//! `cairn bench calc easy-run`.

use cairn_sizing::{Cluster, EasyRun as Run, Exact, Latency, Media, Protection, easy_run};
use cairn_types::format_bytes;
use serde::Serialize;

use super::both;
use crate::{
    args::{EasyRun, MediaName},
    commands::Context,
    fail::Fail,
    output,
    units::duration,
};

/// The cluster and what loads it.
#[derive(Debug, Serialize)]
struct Report {
    hosts: u64,
    disk_groups: u64,
    cache_bytes: u64,
    capacity_bytes: u64,
    free_bytes: u64,
    media: Media,
    protection: String,
    checksums: bool,
    #[serde(flatten)]
    run: Run,
}

/// Works out and prints.
pub fn run(context: &Context, what: &EasyRun) -> Result<(), Fail> {
    let disk_groups = what.hosts * what.groups_per_host;
    let too_large = || Fail::usage("the hosts together hold more than 16 EiB").remedy("look at the units of the sizes");
    let capacity_bytes = what.capacity_per_group.checked_mul(disk_groups).ok_or_else(too_large)?;
    let protection = Protection::from(what.protection);
    protection.check_hosts(what.hosts)?;
    let cluster = Cluster {
        disk_groups,
        cache_bytes: what.cache,
        capacity_bytes,
        free_bytes: what.free.unwrap_or(capacity_bytes),
        media: match what.media {
            MediaName::AllFlash => Media::AllFlash,
            MediaName::Hybrid => Media::Hybrid,
        },
        protection,
        checksums: !what.no_checksum,
        latency: if what.latency_target { Latency::Target } else { Latency::Max },
    };
    let report = Report {
        hosts: what.hosts,
        disk_groups,
        cache_bytes: cluster.cache_bytes,
        capacity_bytes,
        free_bytes: cluster.free_bytes,
        media: cluster.media,
        protection: protection.describe(),
        checksums: cluster.checksums,
        run: easy_run(&cluster)?,
    };
    output::show(context.format, &report, show)
}

fn show(report: &Report) -> String {
    let run = &report.run;
    let media = match report.media {
        Media::AllFlash => "all-flash",
        Media::Hybrid => "hybrid",
    };
    let halved = match run.halved {
        0 => String::new(),
        times => format!(", halved {times} times to leave a fifth of the capacity free"),
    };
    let gb = |number: u64| Exact::whole(number).decimal(0);
    let mut text = output::pairs([
        (
            "cluster",
            format!("{} hosts, {} disk groups, {media}, {}", report.hosts, report.disk_groups, report.protection),
        ),
        ("cache devices", both(report.cache_bytes)),
        ("capacity", format!("{}, {} free", both(report.capacity_bytes), both(report.free_bytes))),
        ("cache counted", format!("{} GB{halved}", gb(run.cache_gb))),
        ("machines", format!("{} ({} a host)", run.vms, per_host(run.vms, report.hosts))),
        ("disks", format!("{} a machine, {} in all", run.disks_per_vm, run.vms * run.disks_per_vm)),
        ("size of a disk", format!("{} GB", gb(run.disk_gb))),
        ("data", format!("{} GB before copies", gb(run.data_gb))),
        ("times", format!("{} of warm-up, {} of measuring", duration(run.warm_up_s), duration(run.run_s))),
    ]);
    text += "\n\n";
    text += &output::table(
        &["profile", "block", "reads", "random", "threads a disk", "outstanding", "HCIBench's file name"],
        run.profiles.iter().map(|profile| {
            vec![
                profile.name.to_owned(),
                format_bytes(profile.block_bytes),
                format!("{} %", profile.read_percent),
                format!("{} %", profile.random_percent),
                profile.threads_per_disk.to_string(),
                gb(profile.outstanding),
                format!(
                    "fio-{}vmdk-100ws-{}k-{}rdpct-{}randompct-{}threads",
                    run.disks_per_vm,
                    profile.block_bytes >> 10,
                    profile.read_percent,
                    profile.random_percent,
                    profile.threads_per_disk
                ),
            ]
        }),
    );
    text
}

fn per_host(vms: u64, hosts: u64) -> String {
    Exact::whole(vms).over(Exact::whole(hosts)).map_or_else(|_| "-".into(), |n| n.short(1))
}
