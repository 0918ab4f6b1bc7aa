//! Large reads through hosts that do not own the disk: answers never break the links between hosts.

use std::{fs, process::Command, time::Duration};

use cairn_e2e::{
    Cluster, Load, Outcome, Shape,
    process::Process,
    scene::{DISK, fill, play, targets},
    tools::program,
    wait::check,
};

/// Of each host: four connections with 32 reads of 4 MiB outstanding at each, which is 512 MiB.
const CONNECTIONS: usize = 4;
const SECONDS: &str = "8";

/// Goal: whatever guests ask for at once, the owner's host never has more waiting for a peer than a link takes. Method: two hosts
/// that do not own the disk forward 1 GiB of outstanding reads; no link breaks, and no copy is recorded absent.
#[test]
fn large_reads_break_no_link() {
    let shape = Shape { hosts: 3, hosts_with_disks: 3, etcd_members: 1, ..Shape::default() };
    play("large_reads", &shape, |cluster| {
        cluster.create_disk(DISK, 512, 1)?;
        fill(cluster, 1, 1, 511)?;
        // A guest of its own keeps the disk where it is.
        let guest = Load::start(targets(cluster, &[1]), DISK, 1, 1, Duration::from_millis(5), 1);
        load(cluster, &[2, 3])?;
        guest.stop()?.verify(&targets(cluster, &[1]))?.clean()?;
        let broken: Vec<String> = (1..=3).flat_map(|n| lines(cluster, n)).collect();
        check(broken.is_empty(), || format!("{} lines, such as: {}", broken.len(), broken[0]))?;
        let shown = cluster.host(1).api().call(&["disk", "show", DISK])?;
        check(shown["health"] == "healthy", || format!("the disk: {shown}"))
    });
}

/// Lines of a host's log that tell of a broken link, or of a component that left those in sync.
fn lines(cluster: &Cluster, host: u8) -> Vec<String> {
    let text = fs::read_to_string(&cluster.host(host).log).unwrap_or_default();
    let tells =
        |line: &&str| ["connection lost", "absent", "waited for the peer"].iter().any(|words| line.contains(words));
    text.lines().filter(tells).map(|line| format!("h{host}: {line}")).collect()
}

/// Reads through each of these hosts at once, over [`CONNECTIONS`] each.
fn load(cluster: &Cluster, hosts: &[u8]) -> Outcome<()> {
    let mut loads = Vec::new();
    for (host, number) in hosts.iter().flat_map(|host| (0..CONNECTIONS).map(move |number| (host, number))) {
        let uri = targets(cluster, &[*host])[0].uri(DISK);
        let mut command = Command::new(program("cairn"));
        command.args(["bench", "load", "--block", "4m", "--outstanding", "32", "--ramp", "0", "--style", "json"]);
        command.args(["--time", SECONDS, &uri]);
        loads.push(Process::start(&command, &cluster.logs.join(format!("load-{host}-{number}.json")))?);
    }
    loads.into_iter().try_for_each(Process::finish)
}
