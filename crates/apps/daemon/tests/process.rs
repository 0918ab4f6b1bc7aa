//! The daemon as a process: ready, answering, alone on its data directory, stopped by a signal, counted at each start.

use std::{
    io::{Read as _, Write as _},
    os::unix::net::{UnixDatagram, UnixStream},
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use serde_json::Value;

/// A start makes and fills files, on a machine that may be busy.
const START_WAIT: Duration = Duration::from_secs(60);

/// A daemon that dies with its test.
struct Daemon(Child);

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn command(dir: &Path) -> Command {
    let mut command = command_listening(dir);
    command.args(["--listen-api", "", "--listen-nbd", ""]);
    command
}

/// The same, listening where it does unless it is told otherwise.
fn command_listening(dir: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cairnd"));
    command.args(["--embedded-hosts", "3", "--embedded-cache", "64MiB", "--embedded-capacity", "128MiB"]);
    command.arg("--data-dir").arg(dir);
    command
}

/// Starts a daemon and waits until it says that it is ready; hands back what it says to the service manager.
fn start(dir: &Path) -> (Daemon, UnixDatagram) {
    start_as(dir, command(dir))
}

fn start_as(dir: &Path, mut command: Command) -> (Daemon, UnixDatagram) {
    let socket = dir.with_extension("notify");
    let _ = std::fs::remove_file(&socket);
    let notify = UnixDatagram::bind(&socket).unwrap();
    notify.set_read_timeout(Some(START_WAIT)).unwrap();
    let log = std::fs::File::create(dir.with_extension("log")).unwrap();
    let child = command.env("NOTIFY_SOCKET", &socket).stderr(log).spawn().unwrap();
    let daemon = Daemon(child);
    let said = hear(&notify, dir);
    assert!(said.starts_with("READY=1"), "{said}");
    (daemon, notify)
}

fn hear(notify: &UnixDatagram, dir: &Path) -> String {
    let mut said = [0; 4096];
    let len = notify.recv(&mut said).unwrap_or_else(|error| {
        let log = std::fs::read_to_string(dir.with_extension("log")).unwrap_or_default();
        panic!("the daemon says nothing ({error}); its log:\n{log}")
    });
    String::from_utf8_lossy(&said[..len]).into_owned()
}

fn get(dir: &Path, path: &str) -> Value {
    let mut stream = UnixStream::connect(dir.join("api.sock")).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200"), "{path}: {answer}");
    serde_json::from_str(body).unwrap()
}

/// Asks it to stop and waits for its exit code.
fn stop(mut daemon: Daemon) -> i32 {
    let pid = daemon.0.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    let begun = Instant::now();
    loop {
        if let Some(status) = daemon.0.try_wait().unwrap() {
            return status.code().expect("it ends by itself");
        }
        assert!(begun.elapsed() < Duration::from_secs(30), "it does not stop");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_life_of_a_daemon() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("data");
    let (daemon, notify) = start(&dir);
    let cluster = get(&dir, "/api/v1/cluster");
    assert_eq!((&cluster["hosts_total"], &cluster["disk_groups"]), (&3.into(), &3.into()), "{cluster}");
    let incarnation = |dir: &Path| get(dir, "/api/v1/hosts/host-1")["incarnation"].clone();
    assert_eq!(incarnation(&dir), 1);

    // A second one on the same directory is refused, and does the first no harm.
    let second = command(&dir).stdout(Stdio::null()).output().unwrap();
    let error = String::from_utf8(second.stderr).unwrap();
    assert_eq!(second.status.code(), Some(1), "{error}");
    assert!(error.contains("in use by another cairnd"), "{error}");
    assert_eq!(get(&dir, "/api/v1/cluster")["id"], cluster["id"]);

    assert_eq!(stop(daemon), 0);
    assert_eq!(hear(&notify, &dir).trim(), "STOPPING=1");
    assert!(!dir.join("api.sock").exists());

    // The same cluster comes back, counted once more.
    let (daemon, _notify) = start(&dir);
    assert_eq!(get(&dir, "/api/v1/cluster")["id"], cluster["id"]);
    assert_eq!(incarnation(&dir), 2);
    assert_eq!(stop(daemon), 0);
}

/// Goal: a host that waits for the directory says so. Method: its etcd is at a port where nobody listens.
#[test]
fn a_start_without_a_directory_says_what_it_waits_for() {
    let dir = tempfile::tempdir().unwrap();
    let free = || std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (etcd, peers) = (free(), free());
    let config = format!(
        "[host]\nname = \"a\"\ndata_dir = {:?}\n[listen]\npeers = \"{peers}\"\napi = \"\"\nnbd = \"\"\napi_socket = \"\"\n\
         nbd_socket = \"\"\n[directory]\nkind = \"etcd\"\nendpoints = [\"http://{etcd}\"]\n",
        dir.path()
    );
    let (file, log) = (dir.path().join("c.toml"), dir.path().join("log"));
    std::fs::write(&file, config).unwrap();
    let begun = Instant::now();
    let out = std::fs::File::create(&log).unwrap();
    let child = Command::new(env!("CARGO_BIN_EXE_cairnd")).arg("--config").arg(&file).stderr(out).spawn().unwrap();
    let daemon = Daemon(child);
    let said = || std::fs::read_to_string(&log).unwrap();
    while !said().contains("waits for the directory at") {
        assert!(begun.elapsed() < Duration::from_secs(15), "nothing is said: {}", said());
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(said().contains(&etcd.to_string()), "{}", said());
    drop(daemon);
}

/// Goal: a second cluster on the machine is told once which flags it needs. Method: the very command line again, then with those flags.
#[test]
fn a_second_cluster_reads_once_which_flags_it_needs() {
    let dir = tempfile::tempdir().unwrap();
    const ADDRESSES: [&str; 4] = ["--listen-api", "127.83.0.1:9610", "--listen-nbd", "127.83.0.1:10809"];
    let with = |name: &str, flags: &[&str]| {
        let mut command = command_listening(&dir.path().join(name));
        command.args(flags);
        command
    };
    let first = start_as(&dir.path().join("a"), with("a", &ADDRESSES));
    let refused = with("a", &ADDRESSES).output().unwrap();
    let words = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(1), "{words}");
    for wanted in [
        "127.83.0.1:9610",
        "127.83.0.1:10809",
        "--listen-api 127.83.0.1:",
        "--listen-nbd 127.83.0.1:",
        "--data-dir DIR",
    ] {
        assert!(words.contains(wanted), "without {wanted}: {words}");
    }
    let advice = words.split_once("start this one with ").unwrap().1.trim();
    let flags: Vec<&str> = advice.strip_suffix(" --data-dir DIR").unwrap().split(' ').collect();
    let refused = with("b", &ADDRESSES).output().unwrap();
    let words = String::from_utf8(refused.stderr).unwrap();
    assert!(!words.contains("--data-dir") && !dir.path().join("b").exists(), "something was made: {words}");
    let second = start_as(&dir.path().join("b"), with("b", &flags));
    assert_eq!(get(&dir.path().join("b"), "/api/v1/cluster")["hosts_up"], 3);
    assert_eq!(stop(second.0), 0);
    assert_eq!(stop(first.0), 0);
}

/// Goal: guests' sockets belong to the group that is configured, and a group that cannot reach them is an error. Method: with a group
/// of every Debian; once with the vhost-user folder where nobody else passes.
#[test]
fn sockets_of_guests_belong_to_their_group() {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
    let dir = tempfile::tempdir().unwrap();
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let config = dir.path().join("cairnd.toml");
    std::fs::write(&config, "[listen]\nsocket_group = \"users\"\n").unwrap();
    let (data, vhost) = (dir.path().join("a"), dir.path().join("vhost"));
    let with = |vhost: &Path| {
        let mut command = command(&data);
        command.arg("--config").arg(&config).arg("--vhost-user-dir").arg(vhost);
        command
    };
    let daemon = start_as(&data, with(&vhost));
    let users = group("users");
    let is = |path: &Path| {
        let meta = std::fs::metadata(path).unwrap();
        (meta.gid(), meta.mode() & 0o777)
    };
    assert_eq!(is(&data.join("host-1/nbd.sock")), (users, 0o660));
    assert_eq!(is(&vhost.join("host-1")), (users, 0o750));
    let disk = r#"{"name":"vm-1","size_bytes":1048576}"#;
    post(&data, "/api/v1/disks", disk);
    let socket = vhost.join("host-1/vm-1.sock");
    let begun = Instant::now();
    while !socket.exists() {
        assert!(begun.elapsed() < START_WAIT, "no socket for the disk");
        std::thread::sleep(Duration::from_millis(20));
    }
    // Its group and mode follow at once.
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(is(&socket), (users, 0o660));
    assert_ne!(is(&data.join("api.sock")).0, users, "the API is not for guests");
    assert_eq!(stop(daemon.0), 0);

    let hidden = dir.path().join("hidden");
    std::fs::create_dir(&hidden).unwrap();
    std::fs::set_permissions(&hidden, std::fs::Permissions::from_mode(0o700)).unwrap();
    let refused = with(&hidden.join("vhost")).output().unwrap();
    let words = String::from_utf8(refused.stderr).unwrap();
    assert!(words.contains("listen.socket_group cannot reach") && words.contains("has mode 700"), "{words}");
}

fn group(name: &str) -> u32 {
    let groups = std::fs::read_to_string("/etc/group").unwrap();
    let line = groups.lines().find(|line| line.split(':').next() == Some(name)).unwrap();
    line.split(':').nth(2).unwrap().parse().unwrap()
}

fn post(dir: &Path, path: &str, body: &str) {
    let mut stream = UnixStream::connect(dir.join("api.sock")).unwrap();
    let head = format!("POST {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\n");
    write!(stream, "{head}Content-Length: {}\r\n\r\n{body}", body.len()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 201"), "{path}: {answer}");
}
