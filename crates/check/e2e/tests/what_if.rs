//! What is told before a host or a device is lost is what becomes of the disks when it is. The commands are those of the operator's page.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use cairn_e2e::{
    Cluster, Outcome, Shape, page,
    scene::{DISK, fill, play, roles},
    wait::{check, wait_until},
};
use serde_json::Value;

const PAGE: &str = include_str!("../../../../docs/operating/what-if.md");
/// What the page calls the host.
const CALLED: &str = "host-2";
const FILLED_MIB: u64 = 192;

/// Goal: what a host's loss comes to is told before, and comes: the disks that lose redundancy, the one that is lost, the bytes that are
/// rebuilt. Method: disks of one copy and of two; the page's commands; then the host is killed, and what is so is compared with what was told.
#[test]
fn a_host_is_lost_as_it_was_told() {
    let shape = Shape { hosts: 5, hosts_with_disks: 5, repair_delay_s: 4, ..Shape::default() };
    play("what-if", &shape, |cluster| {
        let api = cluster.host(1).api();
        api.call(&["policy", "create", "single", "--ftt", "0"])?;
        cluster.create_disk(DISK, 256, 1)?;
        fill(cluster, 1, 0, FILLED_MIB)?;
        let (host, _) = roles(cluster, 1)?;
        let name = cluster.host(host).name();
        // One disk of one copy there, another one that is to be spared.
        let (_, spare) = roles(cluster, 1)?;
        let single = |disk: &str, at: &str| {
            api.call(&["disk", "create", disk, "--size", "16MiB", "--policy", "single", "--host", at]).map(drop)
        };
        single("lost", &name)?;
        single("spared", &cluster.host(spare).name())?;
        carry_out_the_page(cluster, &name)?;
        let told = api.call(&["what-if", "host-loss", &name])?;
        cluster.say(format!("what if {name} were lost: {told}"));
        let lost = names(&told, "lost");
        check(lost == BTreeSet::from(["lost".to_owned()]), || format!("{told}"))?;
        check(names(&told, "reduced").contains(DISK), || format!("{told}"))?;
        cluster.kill(host)?;
        let begun = Instant::now();
        wait_until("the disk is rebuilt", Duration::from_secs(60), || {
            let copies = cluster.replicas(1, DISK)?;
            let healthy = cluster.disk(1, DISK)?["health"] == "healthy";
            check(healthy && !copies.contains(&host), || format!("{copies:?}"))
        })?;
        cluster
            .say(format!("rebuilt after {:.1} s, the repair delay of 4 s among them", begun.elapsed().as_secs_f64()));
        let disks = api.call(&["disk", "list"])?;
        let gone: BTreeSet<String> = disks
            .as_array()
            .into_iter()
            .flatten()
            .filter(|disk| disk["health"] == "inaccessible")
            .filter_map(|disk| disk["name"].as_str().map(str::to_owned))
            .collect();
        check(gone == lost, || format!("told {lost:?}, lost {gone:?}"))?;
        let held = cluster.disk(1, DISK)?["allocated_bytes"].as_u64().unwrap_or(0) / 2;
        let rebuilt = told["rebuilt_bytes"].as_u64().unwrap_or(0);
        check(rebuilt.abs_diff(held) * 20 <= held, || format!("told {rebuilt} bytes, a copy has {held}"))
    });
}

fn names(told: &Value, what: &str) -> BTreeSet<String> {
    told[what].as_array().into_iter().flatten().filter_map(|name| name.as_str().map(str::to_owned)).collect()
}

/// Each command of the page's code blocks, said of this host and its disk group.
fn carry_out_the_page(cluster: &Cluster, host: &str) -> Outcome<()> {
    let api = cluster.host(1).api();
    let groups = api.call(&["disk-group", "list"])?;
    let groups = groups.as_array().cloned().unwrap_or_default();
    let group = groups.iter().find(|group| group["host_name"] == host).ok_or("no disk group")?;
    let (id, device) =
        (group["id"].as_str().unwrap_or_default(), group["devices"][0]["path"].as_str().unwrap_or_default());
    let commands = page::commands(PAGE);
    check(commands.len() == 9, || format!("the page has other commands than this test knows: {commands:?}"))?;
    for command in commands {
        let words: Vec<&str> = command
            .split_whitespace()
            .skip(1)
            .map(|word| match word {
                CALLED => host,
                "GROUP" => id,
                "DEVICE" => device,
                word => word,
            })
            .collect();
        let answer = api.call(&words)?;
        let fits = match words.as_slice() {
            ["what-if", "host-loss" | "device-loss", ..] => {
                names(&answer, "reduced").contains(DISK) && answer["not_rebuilt"] == serde_json::json!([])
            }
            ["what-if", "maintenance", ..] => answer["components_left"].as_u64() >= Some(1) && answer["state"] == "out",
            ["what-if", "policy", ..] => answer["begun"] == false,
            ["what-if", "grow", ..] => answer["hosts_after"] == 6 && answer["still_lacking"] == serde_json::json!([]),
            ["cluster", "settings", ..] => answer["rebuild_reserve_hosts"] == 1,
            ["cluster", "pause-repair", ..] => answer["repair_paused_s"] == 7200,
            ["cluster", "resume-repair"] => answer["repair_paused_s"] == 0,
            _ => return Err(format!("nobody here knows {words:?}")),
        };
        check(fits, || format!("{command}: {answer}"))?;
    }
    Ok(())
}
