//! The program against a real API server in front of a cluster in memory: what it prints, where, and how it ends.

#[path = "../../daemon/tests/support/mod.rs"]
mod support;

use std::process::{Command, Stdio};

use support::TestServer;

/// Exit code, stdout, stderr.
struct Ran(i32, String, String);

fn cairn_at(api: &str, arguments: &str) -> Ran {
    let output = Command::new(env!("CARGO_BIN_EXE_cairn"))
        .args(arguments.split_whitespace())
        .env("CAIRN_API", api)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    Ran(
        output.status.code().unwrap(),
        String::from_utf8(output.stdout).unwrap(),
        String::from_utf8(output.stderr).unwrap(),
    )
}

fn cairn(server: &TestServer, arguments: &str) -> Ran {
    cairn_at(&server.address(), arguments)
}

/// Everything of one run, with the port that changes from run to run left out.
fn transcript(server: &TestServer, arguments: &str) -> String {
    let Ran(code, out, err) = cairn(server, arguments);
    let text = format!("$ cairn {arguments}\n{out}[stderr]\n{err}[exit {code}]\n");
    text.replace(&server.address(), "127.0.0.1:PORT")
}

#[test]
fn tables_for_people() {
    let server = TestServer::start(None);
    let lines = [
        "cluster status",
        "cluster settings",
        "cluster settings --rebuild-reserve-hosts 1 --rebalance-points 20",
        "cluster pause-repair --for 90m",
        "cluster resume-repair",
        "cluster members",
        "cluster upgrade status",
        "cluster upgrade finish --dry-run",
        "cluster upgrade finish --yes",
        "host list",
        "host show host-1",
        "host devices",
        "host devices host-2",
        "host locate /dev/nvme0n1 --host host-2",
        "host locate wwn-0x5000c500a0b1c2d3 --off",
        "host locate /dev/sda --host host-2",
        "host locate /dev/sdz --host host-2",
        "host maintenance show host-1",
        "host maintenance enter host-1 --mode full-evacuation --dry-run",
        "host maintenance enter host-1",
        "host maintenance leave host-1",
        "disk-group drain 00000010 --dry-run",
        "disk-group drain 00000010",
        "disk-group drain 00000010 --stop",
        "disk-group add-capacity 00000010 --device /dev/sdb --dry-run",
        "disk-group replace-device 00000010 --device /dev/sda --with /dev/sdb --dry-run",
        "disk-group replace-device 00000010 --device /dev/sda --with /dev/sdb",
        "disk-group list",
        "disk-group set 00000020 --compression on",
        "disk-group set 00000020 --dedupe on --compression off",
        "disk-group show 00000020",
        "cluster capacity",
        "disk list",
        "disk show wounded",
        "disk record wounded",
        "session list",
        "policy list",
        "policy show default",
        "policy suggest",
        "health",
        "health mute hosts-up --for 2d --reason work-on-host-4",
        "health unmute hosts-up",
        "health history --check hosts-up",
        "what-if host-loss host-2",
        "what-if device-loss 00000010 --device /dev/sda",
        "what-if maintenance host-1 --mode full-evacuation",
        "what-if policy wounded default",
        "what-if grow --hosts 2 --devices 4 --device-size 1TiB",
        "what-if grow --disk-group 00000010 --device-size 200GiB",
        "resync list",
        "resync settings",
        "scrub status",
        "scrub start 00000010",
        "scrub pause --host host-1",
        "scrub resume",
        "counters",
        "disk latency wounded --since-start",
        "disk latency wounded --seconds 1",
        "cache clear --host host-1",
        "cache clear --disk-group 00000020 --wait 5",
    ];
    let all: Vec<String> = lines.iter().map(|line| transcript(&server, line)).collect();
    insta::assert_snapshot!("tables", all.join("\n"));
}

#[test]
fn a_life_of_a_disk() {
    let server = TestServer::start(None);
    let lines = [
        "disk create vm-1 --size 20G --host host-1",
        "disk resize vm-1 --size 1.5T",
        "disk resize vm-1 --size 1G",
        "disk attach vm-1 --host host-2",
        "policy create single --ftt 0",
        "policy create gold --ftt 2",
        "disk set-policy vm-1 single --dry-run",
        "disk set-policy vm-1 gold --dry-run",
        "disk set-policy vm-1 gold",
        "disk set-policy vm-1 single",
        "policy edit single --ftt 1 --iops-limit 500 --dry-run",
        "policy edit single --ftt 1 --iops-limit 500",
        "policy edit single --ftt 1 --iops-limit 500 --yes",
        "policy edit single --data-strips 3",
        "policy edit gold --ftm erasure-coding --data-strips 3",
        "policy edit none --ftt 1",
        "disk move vm-1 --from host-1 --to host-3 --dry-run",
        "disk move vm-1 --from host-1",
        "disk move vm-1 --from host-4",
        "disk watch vm-1",
        "disk usage vm-1",
        "snapshot create nightly vm-1",
        "snapshot create weekly vm-1",
        "disk usage vm-1",
        "disk usage wounded",
        "snapshot delete vm-1@nightly",
        "snapshot delete vm-1@nightly --dry-run",
        "snapshot delete vm-1@nobody --dry-run",
        "snapshot delete vm-1@nightly --yes",
        "disk rename vm-1 wounded",
        "disk rename vm-1 a/b",
        "disk rename wounded hurt",
        "disk rename vm-1 web",
        "disk usage web",
        "disk rename web vm-1",
        "disk delete vm-1",
        "disk delete vm-1 --yes",
        "disk delete wounded --yes",
        "disk delete wounded --force",
        "disk delete wounded --force --yes",
        "disk show vm-1",
    ];
    let all: Vec<String> = lines.iter().map(|line| transcript(&server, line)).collect();
    insta::assert_snapshot!("life_of_a_disk", all.join("\n"));
}

#[test]
fn snapshots_are_locked_and_scheduled() {
    let server = TestServer::start(None);
    let lines = [
        "disk create web-1 --size 20G",
        "snapshot create before web-1 --locked-for 30d",
        "snapshot delete web-1@before --yes",
        "snapshot create after web-1",
        "snapshot lock web-1@after --for 1h",
        "snapshot lock web-1@after --for 1h --yes",
        "snapshot lock web-1@after --for 0s --yes",
        "snapshot list web-1",
        "snapshot schedule create hourly --disks web-1,web-2 --every 1h --keep-last 24 --keep-daily 7 --dry-run",
        "snapshot schedule list",
        "snapshot schedule create hourly --disks web-1,web-2 --every 1h --keep-last 24 --keep-daily 7",
        "snapshot schedule create hourly --disks web-1 --every 1d --keep-last 1",
        "snapshot schedule create often --disks web-1 --every 1s --keep-last 1",
        "snapshot schedule create none --disks web-1 --every 1h",
        "snapshot schedule create many --disks web-1 --every 10m --keep-last 1 --locked-for 7d",
        "snapshot schedule create bad --disks web/1 --every 1h --keep-last 1",
        "snapshot schedule edit hourly --keep-weekly 4 --locked-for 12h --dry-run",
        "snapshot schedule edit hourly --keep-weekly 4 --locked-for 12h",
        "snapshot schedule edit nobody --every 1h",
        "snapshot schedule pause hourly",
        "snapshot schedule list",
        "snapshot schedule resume hourly",
        "snapshot schedule show hourly",
        "snapshot schedule delete hourly",
        "snapshot schedule delete hourly --yes",
        "snapshot schedule show hourly",
    ];
    let all: Vec<String> = lines.iter().map(|line| transcript(&server, line)).collect();
    insta::assert_snapshot!("schedules", all.join("\n"));
}

#[test]
fn hosts_leave() {
    let server = TestServer::start(None);
    let lines = [
        "host remove host-2 --dry-run",
        "host remove host-2",
        "host remove host-2 --yes",
        "host forget host-2 --dry-run",
        "host forget host-2 --yes",
        "host forget host-4 --dry-run",
        "host forget host-4 --yes",
        "host forget host-4 --yes --force",
        "host list",
        "host readmit host-4",
    ];
    let all: Vec<String> = lines.iter().map(|line| transcript(&server, line)).collect();
    insta::assert_snapshot!("hosts_leave", all.join("\n"));
}

#[test]
fn members_of_the_directory_are_changed() {
    let server = TestServer::start(None);
    let lines = [
        "cluster members add host-3 --dry-run",
        "cluster members add host-3",
        "cluster members remove host-2",
        "cluster members remove host-2 --yes",
        "cluster members remove host-3 --yes",
        "cluster members replace host-4 host-3 --wait",
        "cluster members replace host-2 host-4",
        "cluster members add host-3 --peer-url 10.0.0.3:2380",
    ];
    let all: Vec<String> = lines.iter().map(|line| transcript(&server, line)).collect();
    insta::assert_snapshot!("members", all.join("\n"));
}

/// What `cairnd --check-config` says of a file.
fn checked(file: &std::path::Path) -> Result<cairnd::config::Config, String> {
    cairnd::config::Config::read(file).and_then(cairnd::config::Config::check).map_err(|error| error.0)
}

/// Goal: the daemon takes what is written for each host, and nothing is written over. Method: one to six hosts; each file is checked as
/// the daemon does.
#[test]
fn a_new_cluster_has_configurations_that_work() {
    let server = TestServer::start(None);
    let folder = tempfile::tempdir().unwrap();
    let hosts: Vec<String> = (1..=6).map(|n| format!("--host h{n}=10.0.0.{n}")).collect();
    for (count, members) in [(1, 1), (2, 1), (3, 3), (4, 3), (5, 5), (6, 5)] {
        let out = folder.path().join(count.to_string());
        let hosts = hosts[..count].join(" ");
        let line =
            format!("cluster init --name prod {hosts} --cache /dev/a --capacity /dev/b /dev/c --out {}", out.display());
        let Ran(code, told, err) = cairn(&server, &line);
        assert_eq!(code, 0, "{err}");
        assert!(told.contains("systemctl enable --now cairnd"), "{told}");
        for n in 1..=count {
            let config = checked(&out.join(format!("h{n}/cairnd.toml"))).unwrap();
            assert_eq!((config.cluster.name.as_str(), config.host.name), ("prod", format!("h{n}")));
            assert_eq!((config.directory.members.len(), config.disk_group.len()), (members, 1));
        }
        let Ran(code, _, err) = cairn(&server, &line);
        assert!(code == 1 && err.contains("is there already"), "{err}");
    }
    let Ran(code, _, err) = cairn(&server, "cluster init --name prod --host a=10.0.0.1 --host a=10.0.0.2");
    assert!(code == 2 && err.contains("named twice"), "{err}");
    let Ran(code, _, err) = cairn(&server, "cluster init --name prod --host a/b=10.0.0.1");
    assert!(code == 2 && err.contains("a/b"), "{err}");
}

/// Goal: a host that joins gets a file that the daemon takes, and one that cannot join is told why. Method: the cluster in memory.
#[test]
fn a_host_that_joins_has_a_configuration_that_works() {
    let server = TestServer::start(None);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("cairnd.toml");
    let join = |name: &str, address: &str, more: &str| {
        cairn(&server, &format!("host join --name {name} --address {address} --config {} {more}", file.display()))
    };
    for (name, address, why) in
        [("host-2", "10.0.0.9", "has a host host-2 already"), ("host-5", "10.0.0.2", "host host-2 of the cluster has")]
    {
        let Ran(code, _, err) = join(name, address, "");
        assert!(code == 1 && err.contains(why), "{err}");
    }
    let Ran(code, dry, _) = join("host-5", "10.0.0.5", "--dry-run");
    assert!(code == 0 && dry.contains("[directory]") && !file.exists(), "{dry}");
    let Ran(code, told, err) = join("host-5", "10.0.0.5", "");
    assert!(code == 0 && told.contains("systemctl enable --now cairnd"), "{told}{err}");
    assert_eq!(std::fs::read_to_string(&file).unwrap().trim_end(), dry.trim_end());
    let config = checked(&file).unwrap();
    assert_eq!((config.cluster.name.as_str(), config.listen.peers.as_str()), ("memory", "10.0.0.5:9600"));
    let hosts: Vec<&str> = config.directory.members.iter().map(|member| member.host.as_str()).collect();
    assert_eq!(hosts, ["host-1", "host-2", "host-4"]);
    let Ran(code, _, err) = join("host-5", "10.0.0.5", "");
    assert!(code == 1 && err.contains("--overwrite"), "{err}");
    let Ran(code, ..) = join("host-5", "10.0.0.6", "--overwrite --cache /dev/a --capacity /dev/b");
    assert_eq!((code, checked(&file).unwrap().listen.peers.as_str()), (0, "10.0.0.6:9600"));
    assert!(folder.path().join("cairnd.toml.old").exists());
}

/// Both doors, and what is said where there is none. That libvirt takes what is printed is for the tests of real processes.
#[test]
fn libvirt_is_told_of_a_disk() {
    let server = TestServer::start(None);
    let lines = [
        "disk xml wounded",
        "disk xml wounded --nbd --host host-2 --target vdb",
        "disk xml wounded --vhost-user",
        "disk xml wounded --host host-3",
        "disk xml wounded --vhost-user --host host-2",
        "disk xml wounded --nbd --vhost-user",
        "disk xml nothing",
    ];
    let all: Vec<String> = lines.iter().map(|line| transcript(&server, line)).collect();
    insta::assert_snapshot!("libvirt", all.join("\n"));
}

#[test]
fn refusals_say_cause_and_remedy() {
    let server = TestServer::start(None);
    let lines = [
        "policy create gold --ftt 2",
        "disk create big --size 1G --policy gold",
        "disk create wounded --size 1G",
        "disk create big --size 63T",
        "disk create a/b --size 1G",
        "policy create bad --ftt 9",
        "policy create ec --ftm erasure-coding --ftt 3",
        "policy delete default",
        "host maintenance enter host-2 --mode full-evacuation",
        "host maintenance enter host-2 --mode some",
        "disk-group set 00000010 --compression maybe",
        "disk-group set fff --compression on",
        "disk-group remove 00000010 --yes",
        "disk-group remove 000 --yes",
        "disk-group remove fff --yes",
        "disk-group create --host host-4 --cache /dev/a --capacity /dev/b",
        "disk-group create --cache /dev/a --capacity /dev/b --overwrite",
        "cluster settings --repair-delay-s 9999999",
        "cluster settings --rebalance-points 3",
        "cluster pause-repair --for 2d",
        "cluster pause-repair --for soon",
        "health mute nothing --for 1h --reason x",
        "health mute hosts-up --for 100d --reason x",
        "cache clear",
        "cache clear --host host-9",
        "counters --since /nonexistent.json",
        "disk latency nothing",
        "disk latency wounded --seconds 1 --since-start",
    ];
    let all: Vec<String> = lines.iter().map(|line| transcript(&server, line)).collect();
    insta::assert_snapshot!("refusals", all.join("\n"));
}

/// Goal: what cannot be exported or imported is refused in words before anything is begun. Method: each mistake; in the folder, and in the
/// cluster in memory, nothing is new afterwards.
#[test]
fn images_that_cannot_be_are_refused() {
    let server = TestServer::start(None);
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).display().to_string();
    for (name, bytes) in [("a.img", "raw"), ("a.qcow2", "torn"), ("a.img.gz", "packed"), ("a.ova", "no archive")] {
        std::fs::write(file(name), bytes.repeat(1000)).unwrap();
    }
    for words in ["disk create vm-1 --size 1G", "snapshot create a vm-1", "snapshot create b vm-1"] {
        assert_eq!(cairn(&server, words).0, 0, "{words}");
    }
    let before = cairn(&server, "disk list").1;
    let lines = [
        format!("disk export vm-1@a {}", file("new")),
        format!("disk export vm-1@c {}", file("new.img")),
        format!("disk export nobody@a {}", file("new.img")),
        "disk export vm-1@a - --format qcow2".into(),
        format!("disk export vm-1@a {} --since b --backing {}", file("new.qcow2"), file("a.img")),
        format!("disk export vm-1@b {} --since a --backing {}", file("new.vmdk"), file("a.img")),
        format!("disk export vm-1@b {} --since a --backing {}", file("new.qcow2"), file("a.img")),
        format!("disk export vm-1@b {} --since a", file("new.qcow2")),
        format!("disk import {}", file("none.img")),
        format!("disk import {}", file("a.qcow2")),
        format!("disk import {}", file("a.img.gz")),
        format!("disk import {}", file("a.ova")),
        format!("disk import {} --size 1K", file("a.img")),
        format!("disk import {} --member x", file("a.img")),
        "disk import -".into(),
        "disk import - --format vmdk".into(),
    ];
    let all: Vec<String> = lines.iter().map(|line| transcript(&server, line)).collect();
    let all = all.join("\n").replace(&folder.path().display().to_string(), "FOLDER");
    insta::assert_snapshot!("images_refused", all);
    assert_eq!(cairn(&server, "disk list").1, before);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 4);
    let no_tools = Command::new(env!("CARGO_BIN_EXE_cairn"))
        .args(["disk", "import", &file("a.img")])
        .env("CAIRN_API", server.address())
        .env("PATH", folder.path())
        .output()
        .unwrap();
    let said = String::from_utf8(no_tools.stderr).unwrap();
    assert_eq!(no_tools.status.code(), Some(1));
    assert!(said.contains("qemu-img is not installed") && said.contains("apt-get install qemu-utils"), "{said}");
}

#[test]
fn json_is_what_the_api_says() {
    let server = TestServer::start(None);
    for line in [
        "cluster status",
        "cluster settings",
        "host list",
        "host show host-1",
        "disk-group list",
        "disk list",
        "disk show wounded",
        "disk record wounded",
        "policy list",
        "health",
        "resync list",
        "counters",
        "counters --seconds 1",
        "disk latency wounded --since-start",
        "disk latency wounded --seconds 1",
        "cache clear --host host-1",
        "disk create j --size 1G",
        "disk resize j --size 2G",
        "version",
    ] {
        let Ran(_, out, err) = cairn(&server, &format!("{line} --output json"));
        let value: serde_json::Value = serde_json::from_str(&out).unwrap_or_else(|e| panic!("{line}: {e}: {out}"));
        assert!(value.is_object() || value.is_array(), "{line}");
        assert_eq!(err, "", "{line}");
    }
    let Ran(code, out, err) = cairn(&server, "disk delete j --yes -o json");
    assert_eq!((code, out.as_str(), err.as_str()), (0, "", ""));
    let Ran(_, out, _) = cairn(&server, "disk show wounded -o json");
    insta::assert_snapshot!("disk_json", out);
}

#[test]
fn exit_codes_tell_refused_from_usage_from_unreachable() {
    let server = TestServer::start(None);
    let cases = [
        ("disk list", 0),
        ("disk show nothing", 1),
        ("disk latency nothing", 1),
        ("disk latency wounded --seconds 0", 2),
        ("disk latency", 2),
        ("top --once --seconds 1", 0),
        ("top --once --seconds 0", 2),
        ("top --rows 0", 2),
        ("top vm-1", 2),
        ("health", 1),
        ("", 2),
        ("disk", 2),
        ("disk lst", 2),
        ("cache clear", 1),
        ("cache clear --host host-2", 0),
        ("cache clear --host host-2 --disk-group 00000020", 2),
        ("cache clear --wait 0", 2),
        ("counters --since a --seconds 1", 2),
        ("counters --since /nonexistent.json", 2),
        ("disk create x", 2),
        ("disk create x --size ten", 2),
        ("disk create x --size 10X", 2),
        ("disk-group create --cache a --capacity b c d e f g h i", 2),
        ("--api https://x cluster status", 2),
        ("--api http://127.0.0.1:1 cluster status", 3),
        ("--api unix:/nonexistent.sock cluster status", 3),
        ("disk-group create --host host-4 --cache a --capacity b", 3),
    ];
    for (line, code) in cases {
        let Ran(got, out, err) = cairn(&server, line);
        assert_eq!(got, code, "cairn {line}: {err}");
        assert!(code == 0 || !err.is_empty() || line == "health", "cairn {line} says why");
        assert!([0, 1].contains(&code) || out.is_empty(), "cairn {line} keeps stdout for data: {out}");
    }
}

#[test]
fn counters_since_a_file_are_what_was_added() {
    let server = TestServer::start(None);
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("before.json");
    let Ran(_, before, _) = cairn(&server, "counters -o json");
    std::fs::write(&file, &before).unwrap();
    let Ran(code, out, err) = cairn(&server, &format!("counters --since {} -o json", file.display()));
    assert_eq!(code, 0, "{err}");
    let numbers = |text: &str| {
        let all: serde_json::Value = serde_json::from_str(text).unwrap();
        let host = &all["hosts"][0];
        let group = &host["disk_groups"][0];
        [&host["guests"]["write_bytes"], &group["counters"]["log_write_bytes"], &group["gauges"]["log_used_bytes"]]
            .map(|number| number.as_u64().unwrap())
    };
    let (then, added) = (numbers(&before), numbers(&out));
    assert!(then.iter().all(|number| *number > 0));
    assert_eq!(added, [0, 0, then[2]], "gauges stay those of now");
    std::fs::write(&file, "{}").unwrap();
    assert_eq!(cairn(&server, &format!("counters --since {}", file.display())).0, 2, "a file that is no snapshot");
}

/// Goal: one interval is one line of JSON, and the table has the same. The cluster in memory had 2000 reads and 1000 writes more
/// with each look.
#[test]
fn top_names_the_busiest_disk_and_its_slowest_stage() {
    let server = TestServer::start(None);
    let Ran(code, out, err) = cairn(&server, "top --once --seconds 1 -o json");
    assert_eq!((code, err.as_str(), out.lines().count()), (0, "", 1));
    let told: serde_json::Value = serde_json::from_str(&out).unwrap();
    let disk = &told["disks"][0];
    let requests = |of: &str| disk[of]["per_s"].as_f64().unwrap() * told["seconds"].as_f64().unwrap();
    assert_eq!((requests("reads").round(), requests("writes").round()), (2000.0, 1000.0));
    assert_eq!((&disk["name"], &disk["writes"]["mean_us"]), (&"wounded".into(), &1200.0.into()));
    assert_eq!((&disk["slowest"]["stage"], &disk["slowest"]["host"]), (&"log-device".into(), &"host-2".into()));
    assert_eq!(told["hosts"].as_array().unwrap().len(), 3);
    assert_eq!(told["hosts"][0]["disk_groups"][0]["gauges"]["congestion"], 0);
    assert_eq!(told["hosts_silent"][0], "host-4");

    let Ran(code, out, _) = cairn(&server, "top --once --seconds 1");
    assert_eq!(code, 0);
    let row: Vec<&str> = out.lines().find(|line| line.starts_with("wounded")).unwrap().split_whitespace().collect();
    assert_eq!(row[3..8], ["0.0", "160", "160", "1200", "1200"]);
    assert_eq!(row[8..].join(" "), "log device of host-2 (disk group 00000020), 75 % of writes");
    assert!(out.contains("not answering, and missing here: host-4"), "{out}");
}

#[test]
fn nobody_there_says_so_and_what_to_try() {
    let Ran(code, _, err) = cairn_at("http://127.0.0.1:1", "cluster status");
    assert_eq!(code, 3);
    assert!(err.contains("cannot reach the management API at http://127.0.0.1:1"), "{err}");
    assert!(err.contains("--api or CAIRN_API"), "{err}");
}

#[test]
fn somebody_else_there_is_not_taken_for_a_cluster() {
    use std::io::{Read as _, Write as _};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let answers = [
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        "HTTP/1.1 418 Teapot\r\nContent-Length: 0\r\n\r\n",
        "SSH-2.0-x\r\n",
        "",
    ];
    let other = std::thread::spawn(move || {
        for answer in answers {
            let (mut stream, _) = listener.accept().unwrap();
            let _ = stream.read(&mut [0; 4096]).unwrap();
            stream.write_all(answer.as_bytes()).unwrap();
        }
    });
    for answer in answers {
        let Ran(code, _, err) = cairn_at(&address, "cluster status");
        assert_eq!(code, 3, "{answer:?}: {err}");
        assert!(err.starts_with("error: ") && err.contains("try: "), "{err}");
    }
    other.join().unwrap();
}

#[test]
fn a_silent_server_is_given_up_on() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let Ran(code, _, err) = cairn_at(&address, "--timeout 1 disk list");
    assert_eq!(code, 3);
    assert!(err.contains("did not answer within 1 s") && err.contains("may still be done"), "{err}");
}

#[test]
fn the_unix_socket_answers_too() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("api.sock");
    let _server = TestServer::start(Some(socket.clone()));
    let Ran(code, out, err) = cairn_at(&format!("unix:{}", socket.display()), "host list");
    assert_eq!(code, 0, "{err}");
    assert!(out.contains("host-4"), "{out}");
}

#[test]
fn the_page_of_all_commands_is_what_the_program_prints() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/operating/commands.md");
    let committed = std::fs::read_to_string(path).expect("docs/operating/commands.md is committed");
    let Ran(code, printed, err) = cairn_at("http://127.0.0.1:1", "reference");
    assert_eq!((code, err.as_str()), (0, ""));
    assert!(
        committed == printed,
        "docs/operating/commands.md is out of date: cargo run --release -p cairn-cli -- reference > docs/operating/commands.md"
    );
}

#[test]
fn completions_need_no_cluster() {
    for shell in ["bash", "zsh", "fish"] {
        let Ran(code, out, _) = cairn_at("http://127.0.0.1:1", &format!("completions {shell}"));
        assert_eq!(code, 0);
        assert!(out.contains("disk-group"), "{shell}");
    }
}

#[test]
fn help_names_every_noun() {
    let Ran(code, out, _) = cairn_at("http://127.0.0.1:1", "--help");
    assert_eq!(code, 0);
    insta::assert_snapshot!("help", out);
}

/// The version, and behind it the commit where there is one: other bytes in every build, so in no snapshot.
#[test]
fn the_release_is_told() {
    let Ran(code, flag, _) = cairn_at("http://127.0.0.1:1", "--version");
    let Ran(_, noun, _) = cairn_at("http://127.0.0.1:1", "version");
    assert_eq!((code, &flag), (0, &noun));
    let number = format!("cairn {}", env!("CARGO_PKG_VERSION"));
    let rest = flag.trim_end().strip_prefix(&number).unwrap_or_else(|| panic!("{flag:?} is not {number}"));
    let commit = rest.strip_prefix(" (").and_then(|rest| rest.strip_suffix(')')).map(|c| c.trim_end_matches("-dirty"));
    let hash = |commit: &str| commit.len() >= 12 && commit.bytes().all(|b| b.is_ascii_hexdigit());
    assert!(rest.is_empty() || commit.is_some_and(hash), "{flag:?}");
}

/// Each command of the page of commands has a man page, but for those that `cairn-bench` carries out.
#[test]
fn every_command_has_a_man_page() {
    let folder = tempfile::tempdir().expect("a folder");
    let Ran(code, _, err) = cairn_at("http://127.0.0.1:1", &format!("manual {}", folder.path().display()));
    assert_eq!(code, 0, "{err}");
    let Ran(_, page, _) = cairn_at("http://127.0.0.1:1", "reference");
    let mut seen = 0;
    for row in page.lines().filter_map(|line| line.strip_prefix("| `cairn ")) {
        let words = row.split([' ', '`']).take_while(|w| w.starts_with(|c: char| c.is_ascii_lowercase()));
        let name = format!("cairn-{}", words.collect::<Vec<_>>().join("-"));
        let elsewhere = name.starts_with("cairn-bench-") && !name.starts_with("cairn-bench-calc-");
        assert_eq!(folder.path().join(format!("{name}.1")).exists(), !elsewhere, "{name}");
        seen += 1;
    }
    assert!(seen > 30, "{seen} commands");
}
