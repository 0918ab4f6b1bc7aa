//! The daemon as a person meets it: a wrong configuration is one error with place, cause and remedy, and exit code 2.

use std::process::{Command, Output};

use cairnd::{
    config::{self, Config},
    flags::Flags,
    plan::{DirectoryPlan, Plan},
};
use clap::Parser as _;

fn cairnd(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_cairnd")).args(arguments).output().unwrap()
}

fn refused(text: &str) -> String {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("c.toml");
    std::fs::write(&path, text).unwrap();
    let output = cairnd(&["--check-config", "--config", path.to_str().unwrap()]);
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{text:?}: {error}");
    assert_eq!(error.lines().count(), 1, "one error, one line: {error}");
    error.trim().replace(path.to_str().unwrap(), "c.toml")
}

#[test]
fn an_unknown_key_is_named_with_its_line_and_the_known_ones() {
    let error = refused("[cluster]\nname = \"a\"\nlese_ms = 5\n");
    assert!(error.contains("c.toml, line 3 (lese_ms = 5): unknown key `lese_ms`"), "{error}");
    assert!(error.contains("Known keys here: `name`, `lease_ms`, `repair_delay_s`"), "{error}");
    let error = refused("[clustre]\nname = \"a\"\n");
    assert!(error.contains("line 1") && error.contains("`clustre`") && error.contains("`cluster`"), "{error}");
}

#[test]
fn each_wrong_value_names_its_key_and_what_to_write() {
    #[rustfmt::skip]
    let cases = [
        ("[tuning]\nread_cache = \"10 bananas\"", "line 2 (read_cache = \"10 bananas\")", "unit of size"),
        ("[tuning]\nread_cache = -5", "line 2", "negative"),
        ("[tuning]\nlog_memory = \"1MiB\"", "tuning.log_memory", "at least 4194304"),
        ("[tuning]\nread_cache = true", "line 2", "a size such as"),
        ("[tuning]\ncongestion_low_percent = 90", "tuning.congestion_low_percent", "the low mark below"),
        ("[tuning]\ncongestion_high_percent = 99", "congestion_high_percent", "to 95"),
        ("[tuning]\ncongestion_low_percent = 20\ncongestion_high_percent = 40", "congestion_low_percent", "from 50"),
        ("[cluster]\nlease_ms = 10", "configuration key cluster", "1000 to 60000"),
        ("[cluster]\nlease_ms = \"2 s\"", "line 2", "u64"),
        ("[host]\nname = \"a b\"", "host.name", "letters"),
        ("[tuning]\nbusy_poll_us = 1001", "tuning.busy_poll_us", "at most 1000"),
        ("[host]\nshards = 9", "host.shards", "1 to 8"),
        ("[host]\nshards = 0", "host.shards", "1 to 8"),
        ("[listen]\npeers = \"10.0.0.1\"", "listen.peers", "10.0.0.1:9600"),
        ("[listen]\napi = \"0.0.0.0:9610\"", "listen.api", "api_trusted_network"),
        ("[directory]\nkind = \"zookeeper\"", "line 2", "`embedded`"),
        ("[directory]\nkind = \"etcd\"", "directory", "members"),
        ("[directory]\nendpoints = [\"http://x:2379\"]", "directory.kind", "etcd"),
        ("[directory]\nkind = \"etcd\"\nendpoints = [\"http://x:2379\"]", "listen.advertise", "tells other hosts no address"),
        ("[[disk_group]]\ncapacity = [\"/dev/sda\"]", "line 1", "missing key `cache`"),
        ("[[disk_group]]\ncache = \"/dev/a\"\ncapacity = []", "disk_group.capacity", "1 to 7"),
        ("[[disk_group]]\ncache = \"/dev/a\"\ncapacity = [\"/dev/a\"]", "disk_group", "named twice"),
        ("[[disk_group]]\ncache = \"/a\"\ncapacity = [\"/b\"]\ncache_medium = \"tape\"", "cache_medium", "hdd10k, sata-ssd"),
        ("[[disk_group]]\ncache = \"/a\"\ncapacity = [\"/b\"]\ncapacity_medium = \"optane\"\nmedium_dilation = 0.1", "optane", "dilation"),
        ("[listen]\nsocket_group = \"nobodys-group\"", "listen.socket_group", "no group \"nobodys-group\""),
        ("[log]\nformat = \"xml\"", "line 2", "`json`"),
        ("name = ", "line 1", ""),
        ("[cluster]\nname = \"a\"\nname = \"b\"", "line 3", "duplicate"),
    ];
    for (text, place, words) in cases {
        let error = refused(text);
        assert!(error.contains(place) && error.contains(words), "{text:?} gave: {error}");
    }
}

#[test]
fn a_file_that_is_not_there_is_a_usage_error() {
    let output = cairnd(&["--config", "/nonexistent/c.toml"]);
    assert_eq!(output.status.code(), Some(2));
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("/nonexistent/c.toml") && error.contains("--config"), "{error}");
    assert_eq!(cairnd(&["--embedded-hosts", "99"]).status.code(), Some(2));
    assert_eq!(cairnd(&["--nonsense"]).status.code(), Some(2));
}

#[test]
fn the_printed_configuration_reads_back_as_itself() {
    let mut config = Config::parse(
        "[tuning]\nread_cache = 1610612736\n[[disk_group]]\ncache = \"/c\"\ncapacity = [\"/d\"]\ncache_size = \"1.5GiB\"",
        "test",
    )
    .unwrap();
    config.host.name = "host-1".into();
    let config = config.check().unwrap();
    let printed = config::print(&config);
    assert_eq!(Config::parse(&printed, "printed").unwrap(), config, "{printed}");
    assert!(printed.contains("read_cache = \"1536MiB\""), "{printed}");
    for line in printed.lines().filter(|l| l.contains(" = ") && !l.starts_with('#')) {
        let in_list = ["cache =", "capacity =", "cache_size ="].iter().any(|key| line.starts_with(key));
        assert!(in_list || line.contains(" # "), "a key without a note: {line}");
    }
}

/// `cargo run -p cairnd -- --print-config --config /dev/null --host-name NAME` shows the same with this machine's names.
#[test]
fn the_packaged_configuration_is_the_default_one() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../packaging/cairnd.toml");
    let packaged = std::fs::read_to_string(path).expect("packaging/cairnd.toml is committed");
    assert_eq!(Config::parse(&packaged, "packaged").unwrap(), Config::default());
    assert!(
        packaged == config::print(&Config::default()),
        "packaging/cairnd.toml is out of date: it is to be\n{}",
        config::print(&Config::default())
    );
}

#[test]
fn flags_stand_over_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("c.toml");
    std::fs::write(&path, "[host]\nname = \"a\"\n[log]\nlevel = \"debug\"\n").unwrap();
    let flags =
        Flags::parse_from(["cairnd", "--config", path.to_str().unwrap(), "--host-name", "b", "--listen-nbd", ""]);
    let config = flags.effective_config().unwrap();
    assert_eq!(config.host.name, "b");
    assert_eq!(config.host.fault_domain, "b");
    assert_eq!(config.log.level, "debug");
    let plan = Plan::new(&config, &flags).unwrap();
    assert_eq!((plan.hosts.len(), plan.hosts[0].nbd), (1, None));
}

#[test]
fn embedded_hosts_have_everything_of_their_own() {
    let flags =
        Flags::parse_from(["cairnd", "--embedded-hosts", "4", "--data-dir", "/tmp/x", "--embedded-capacity", "1G"]);
    let plan = Plan::new(&flags.effective_config().unwrap(), &flags).unwrap();
    let names: Vec<&str> = plan.hosts.iter().map(|host| host.name.as_str()).collect();
    assert_eq!(names, ["host-1", "host-2", "host-3", "host-4"]);
    assert_eq!(plan.hosts[3].nbd, Some("127.0.0.4:10809".parse().unwrap()));
    assert_eq!(plan.hosts[3].data_dir.to_str(), Some("/tmp/x/host-4"));
    assert_eq!(plan.hosts[0].disk_groups[0].capacity_size, Some(config::Size(1 << 30)));
    assert_eq!(plan.api.socket.unwrap().to_str(), Some("/tmp/x/api.sock"));
    assert!(plan.hosts.iter().all(|host| host.peers.is_none()));
    assert_eq!(plan.directory, DirectoryPlan::Embedded { path: "/tmp/x/directory.redb".into() });
}

#[test]
fn media_are_of_files_by_name_or_as_described() {
    let text = "[medium.slow]\nreads = { access_us = [[0.0, 500.5], [1.0, 900]], lanes = 2, mb_per_s = 80, following_us = 0 }\n\
                writes = { access_us = [[0.0, 1], [1.0, 1]], lanes = 1, mb_per_s = 80 }\none_arm = true\n\
                [[disk_group]]\ncache = \"/a\"\ncapacity = [\"/b\", \"/c\"]\ncache_medium = \"optane\"\n\
                capacity_medium = \"slow\"\nmedium_dilation = 20.0\n";
    let config = config::Config::parse(text, "m.toml").unwrap().check().unwrap();
    let plan = Plan::new(&config, &Flags::parse_from(["cairnd"])).unwrap();
    let stamps: Vec<_> = plan.hosts[0].media.iter().map(|(path, m)| (path.to_str().unwrap(), m.stamp())).collect();
    let slow = "modelled slow, times x20".to_owned();
    assert_eq!(stamps, [("/a", "modelled optane, times x20".into()), ("/b", slow.clone()), ("/c", slow)]);
    let reads = &plan.hosts[0].media[1].1.reads;
    assert_eq!((reads.access[0].1, reads.following_ns, reads.bytes_per_s), (500_500, Some(0), 80_000_000));
    assert_eq!(config::Config::parse(&config::print(&config), "printed").unwrap(), config);
}

#[test]
fn a_member_of_etcd_knows_itself() {
    let text = "[host]\nname = \"h2\"\n[listen]\npeers = \"10.0.0.2:9600\"\n[directory]\nkind = \"etcd\"\nmembers = [\n\
        { host = \"h1\", peer_url = \"http://10.0.0.1:2380\", client_url = \"http://10.0.0.1:2379\" },\n\
        { host = \"h2\", peer_url = \"http://10.0.0.2:2380\", client_url = \"http://10.0.0.2:2379\" },\n\
        { host = \"h3\", peer_url = \"http://10.0.0.3:2380\", client_url = \"http://10.0.0.3:2379\" }]\n";
    let config = Config::parse(text, "test").unwrap().check().unwrap();
    let plan = Plan::new(&config, &Flags::parse_from(["cairnd"])).unwrap();
    let DirectoryPlan::Etcd { endpoints, run_member, .. } = plan.directory else { panic!("etcd") };
    assert_eq!((endpoints.len(), run_member), (3, Some(1)));
    assert_eq!(plan.hosts[0].advertise, Some("10.0.0.2:9600".parse().unwrap()));
}

/// Goal: a host that runs no member because its name changed is not content with that. Method: a data directory with a member's data
/// and another name; an empty name, and a member at this host's address.
#[test]
fn a_host_whose_name_is_no_members_any_more_is_told() {
    let members = "[listen]\npeers = \"10.0.0.2:9600\"\n[directory]\nkind = \"etcd\"\nmembers = [\n\
        { host = \"h2\", client_url = \"http://10.0.0.2:2379\", peer_url = \"http://10.0.0.2:2380\" } ]\n";
    let error = refused(&format!("[host]\nname = \"\"\n{members}"));
    assert!(error.contains("host.name") && error.contains("\"h2\""), "{error}");
    let dir = tempfile::tempdir().unwrap();
    let other = format!("[host]\nname = \"h7\"\ndata_dir = {:?}\n{members}", dir.path());
    let file = dir.path().join("c.toml");
    std::fs::write(&file, &other).unwrap();
    let check = || cairnd(&["--check-config", "--config", file.to_str().unwrap()]).status.code();
    assert_eq!(check(), Some(0), "a host without a member is right");
    std::fs::create_dir_all(dir.path().join("etcd/member")).unwrap();
    let error = refused(&other);
    assert!(error.contains("this host ran a member") && error.contains("h2"), "{error}");
}
