//! The etcd member that a host of the cluster runs: started, watched, restarted, stopped with its daemon.
//!
//! Promises    a member that exits is started again, after 0.2 s at first and 10 s at most
//!             it never outlives the daemon, whatever ends the daemon: the kernel kills it with the supervising thread
//!             an etcd that is not installed, or that does not stay up, is said in words with the end of its log
//! Assumes     etcd's own files are crash-safe: it is killed without ceremony
//! Not here    who runs a member (`keeper`; before there is a list in the directory, the daemon's configuration); how a member
//!             without data begins (`rejoin`)

use std::{
    env,
    fs::{self, File, OpenOptions},
    io::{self, Read as _, Seek as _, SeekFrom},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        Arc, Mutex, MutexGuard,
        mpsc::{self, RecvTimeoutError},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

pub use crate::member::{MemberConfig, MemberPlace};
use crate::rejoin::{self, Begin};

/// Transactions whose history etcd keeps for watches; older ones are compacted every five minutes.
const HISTORY_REVISIONS: u64 = 10_000;
/// Bytes of etcd's store, at most (its own default). A cluster of 10 000 disks with its history uses some 100 MiB.
const QUOTA_BYTES: u64 = 2 << 30;
/// Log entries between snapshots: etcd keeps as many in memory.
const SNAPSHOT_ENTRIES: u64 = 10_000;
/// Bytes of the log file at which it is set aside when the member starts.
const LOG_BYTES_MAX: u64 = 16 << 20;
/// Bytes from the end of the log that a failure quotes.
const LOG_TAIL_BYTES: u64 = 2048;
/// First and longest pause before a restart.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(10));
/// A member that ran this long was well: the next restart is quick again.
const WELL_AFTER: Duration = Duration::from_secs(30);
/// How often the supervisor looks whether the member lives.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// How the member is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MemberState {
    /// It runs as process `pid` (whether it serves, `EtcdDirectory::health` tells).
    Running {
        /// Its process.
        pid: u32,
    },
    /// It ended and will be started again.
    Waiting {
        /// How it ended and the end of its log.
        why: String,
    },
    /// It was stopped.
    Stopped,
}

/// Why a member cannot be supervised.
#[derive(Debug, thiserror::Error)]
pub enum SuperviseError {
    /// No etcd on this host.
    #[error(
        "etcd is not installed (looked for {looked_for}): install the package etcd-server (Debian, Ubuntu: \
         apt-get install etcd-server), or give the URLs of an etcd that runs elsewhere"
    )]
    NotInstalled {
        /// Where it was looked for.
        looked_for: String,
    },
    /// The configuration cannot work.
    #[error("{0}")]
    Refused(String),
    /// The operating system refused something.
    #[error("{act}")]
    System {
        /// What was attempted.
        act: String,
        /// Why.
        #[source]
        cause: io::Error,
    },
}

/// A supervised member. Dropping it stops the member.
pub struct Member {
    peer_url: String,
    status: Arc<Mutex<Status>>,
    stop: mpsc::Sender<()>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Status {
    state: MemberState,
    restarts: u64,
}

impl std::fmt::Debug for Member {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Member({:?})", self.state())
    }
}

fn locked(status: &Mutex<Status>) -> MutexGuard<'_, Status> {
    status.lock().expect("no holder of this lock can panic")
}

/// The etcd program: `given`, or where programs usually are.
///
/// # Errors
/// `NotInstalled`, with the package's name.
pub fn find_etcd(given: Option<&Path>) -> Result<PathBuf, SuperviseError> {
    let places: Vec<PathBuf> = match given {
        Some(path) => vec![path.to_owned()],
        None => env::split_paths(&env::var_os("PATH").unwrap_or_default())
            .chain(["/usr/bin", "/usr/sbin", "/usr/local/bin"].map(PathBuf::from))
            .map(|folder| folder.join("etcd"))
            .collect(),
    };
    places.iter().find(|path| path.is_file()).cloned().ok_or_else(|| SuperviseError::NotInstalled {
        looked_for: match given {
            Some(path) => path.display().to_string(),
            None => "etcd in PATH, /usr/bin, /usr/sbin, /usr/local/bin".into(),
        },
    })
}

impl Member {
    /// Starts the member and a thread that keeps it running.
    ///
    /// # Errors
    /// `NotInstalled`, `Refused`, or `System` when folders or the first process cannot be made.
    pub fn start(config: MemberConfig) -> Result<Self, SuperviseError> {
        let program = find_etcd(config.program.as_deref())?;
        check(&config)?;
        let made = prepare_folders(&config);
        made.map_err(|(path, cause)| SuperviseError::System {
            act: format!("make the folder {}", path.display()),
            cause,
        })?;
        let status = Arc::new(Mutex::new(Status { state: MemberState::Stopped, restarts: 0 }));
        let (stop, stopped) = mpsc::channel();
        let (started, first) = mpsc::channel();
        let peer_url = config.peer_url.clone();
        let supervisor = Supervisor { config, program, status: status.clone() };
        let thread = thread::Builder::new()
            .name("etcd-supervisor".into())
            .spawn(move || supervisor.run(&stopped, &started))
            .map_err(|cause| SuperviseError::System { act: "start a thread".into(), cause })?;
        let member = Self { peer_url, status, stop, thread: Some(thread) };
        match first.recv() {
            Ok(Ok(())) => Ok(member),
            Ok(Err(cause)) => Err(SuperviseError::System { act: "start etcd".into(), cause }),
            Err(_) => Err(SuperviseError::Refused("the supervising thread ended at once".into())),
        }
    }

    /// Where the other members reach it.
    pub fn peer_url(&self) -> &str {
        &self.peer_url
    }

    /// How the member is.
    pub fn state(&self) -> MemberState {
        locked(&self.status).state.clone()
    }

    /// How often it was started again.
    pub fn restarts(&self) -> u64 {
        locked(&self.status).restarts
    }

    /// Stops the member and waits until it is gone.
    pub fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        // An error means that the thread has ended, and the member with it.
        let _ = self.stop.send(());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.end();
    }
}

fn check(config: &MemberConfig) -> Result<(), SuperviseError> {
    let refuse = |text: String| Err(SuperviseError::Refused(text));
    for url in [&config.client_url, &config.peer_url] {
        if !url.starts_with("http://") {
            return refuse(format!("{url:?} is not a URL for etcd: write http://host:port"));
        }
    }
    let own = (config.name.clone(), config.peer_url.clone());
    if !config.initial_cluster.contains(&own) {
        return refuse(format!(
            "the members of the directory do not name this one: add {}={}",
            config.name, config.peer_url
        ));
    }
    if let Some((name, _)) =
        config.initial_cluster.iter().find(|(name, _)| name.is_empty() || name.contains([',', '=']))
    {
        return refuse(format!("{name:?} is not a name for an etcd member"));
    }
    Ok(())
}

fn prepare_folders(config: &MemberConfig) -> Result<(), (PathBuf, io::Error)> {
    use std::os::unix::fs::DirBuilderExt as _;
    let make = |path: &Path| {
        let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
        made.map_err(|e| (path.to_owned(), e))
    };
    make(&config.data_dir)?;
    match config.log_file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => make(folder),
        _ => Ok(()),
    }
}

/// What etcd 3.4 is told.
fn arguments(config: &MemberConfig, begin: &Begin) -> Vec<String> {
    let (state, members) = match begin {
        Begin::AsConfigured => ("new", &config.initial_cluster),
        Begin::Existing(members) => ("existing", members),
    };
    let members: Vec<String> = members.iter().map(|(name, url)| format!("{name}={url}")).collect();
    let data_dir = config.data_dir.display();
    vec![
        format!("--name={}", config.name),
        format!("--data-dir={data_dir}"),
        format!("--listen-client-urls={}", config.client_url),
        format!("--advertise-client-urls={}", config.client_url),
        format!("--listen-peer-urls={}", config.peer_url),
        format!("--initial-advertise-peer-urls={}", config.peer_url),
        format!("--initial-cluster={}", members.join(",")),
        format!("--initial-cluster-token=cairn-{}", config.cluster),
        format!("--initial-cluster-state={state}"),
        "--auto-compaction-mode=revision".into(),
        format!("--auto-compaction-retention={HISTORY_REVISIONS}"),
        format!("--quota-backend-bytes={QUOTA_BYTES}"),
        format!("--snapshot-count={SNAPSHOT_ENTRIES}"),
        "--logger=zap".into(),
        "--log-outputs=stderr".into(),
    ]
}

struct Supervisor {
    config: MemberConfig,
    program: PathBuf,
    status: Arc<Mutex<Status>>,
}

impl Supervisor {
    /// Keeps the member running until told to stop. All its processes are children of this thread.
    fn run(&self, stop: &mpsc::Receiver<()>, started: &mpsc::Sender<io::Result<()>>) {
        let mut pause = BACKOFF.0;
        let mut first = true;
        loop {
            let begun = Instant::now();
            let spawned = match self.begin() {
                Ok(begin) => self.spawn(&begin),
                // What it waits for is no fault of this host: it is told, and tried again.
                Err(why) => {
                    let _ = started.send(Ok(()));
                    first = false;
                    Err(io::Error::other(why))
                }
            };
            let why = match spawned {
                Ok(mut child) => {
                    self.set(MemberState::Running { pid: child.id() });
                    let _ = started.send(Ok(()));
                    first = false;
                    let Some(exit) = wait(&mut child, stop) else {
                        self.set(MemberState::Stopped);
                        return;
                    };
                    format!("etcd ended ({exit}): {}", self.log_tail())
                }
                Err(error) if first => {
                    let _ = started.send(Err(error));
                    return;
                }
                Err(error) => format!("etcd does not start: {error}"),
            };
            if begun.elapsed() >= WELL_AFTER {
                pause = BACKOFF.0;
            }
            tracing::warn!(member = self.config.name, pause_ms = pause.as_millis() as u64, "{why}");
            self.set(MemberState::Waiting { why });
            if stop.recv_timeout(pause) != Err(RecvTimeoutError::Timeout) {
                self.set(MemberState::Stopped);
                return;
            }
            pause = (pause * 2).min(BACKOFF.1);
            locked(&self.status).restarts += 1;
        }
    }

    fn set(&self, state: MemberState) {
        locked(&self.status).state = state;
    }

    /// How it begins. A member that has its data needs nobody's word.
    fn begin(&self) -> Result<Begin, String> {
        if self.config.data_dir.join("member").is_dir() {
            return Ok(Begin::AsConfigured);
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| format!("no runtime to ask the other members with: {error}"))?;
        runtime.block_on(rejoin::begin(&self.config))
    }

    fn spawn(&self, begin: &Begin) -> io::Result<Child> {
        let log = self.open_log()?;
        let mut command = Command::new(&self.program);
        command
            .args(arguments(&self.config, begin))
            // Its settings come from us alone: ETCD_* of the daemon's environment would override them silently.
            .env_clear()
            .env("PATH", env::var_os("PATH").unwrap_or_default())
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log);
        die_with_this_thread(&mut command);
        command.spawn()
    }

    /// The log, set aside first when it has grown: etcd 3.4 does not rotate it.
    fn open_log(&self) -> io::Result<File> {
        let path = &self.config.log_file;
        if fs::metadata(path).is_ok_and(|m| m.len() > LOG_BYTES_MAX) {
            let mut old = path.as_os_str().to_owned();
            old.push(".1");
            fs::rename(path, old)?;
        }
        OpenOptions::new().create(true).append(true).open(path)
    }

    /// The last lines of the log that tell of trouble, or its end.
    fn log_tail(&self) -> String {
        let read = || -> io::Result<String> {
            let mut file = File::open(&self.config.log_file)?;
            let length = file.metadata()?.len();
            file.seek(SeekFrom::Start(length.saturating_sub(LOG_TAIL_BYTES)))?;
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes)?;
            Ok(String::from_utf8_lossy(&bytes).into_owned())
        };
        let text = read().unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        let bad = lines.iter().rev().find(|l| l.contains("\"level\":\"fatal\"") || l.contains("\"level\":\"error\""));
        let last = bad.or(lines.last()).copied().unwrap_or("its log is empty");
        format!("{last} (log: {})", self.config.log_file.display())
    }
}

/// Waits for the end of `child` (its exit), or kills it when told to stop (none).
fn wait(child: &mut Child, stop: &mpsc::Receiver<()>) -> Option<String> {
    loop {
        match child.try_wait() {
            Ok(Some(exit)) => return Some(exit.to_string()),
            Ok(None) => {}
            Err(error) => return Some(format!("it cannot be waited for: {error}")),
        }
        if stop.recv_timeout(LOOK_EVERY) != Err(RecvTimeoutError::Timeout) {
            // Both can only fail when it is gone already.
            let _ = child.kill();
            let _ = child.wait();
            return None;
        }
    }
}

/// Has the kernel kill the child when the thread that spawns it ends, however it ends.
#[allow(unsafe_code)]
fn die_with_this_thread(command: &mut Command) {
    use std::os::unix::process::CommandExt as _;
    let parent = rustix::process::getpid();
    let in_child = move || {
        rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
        // The daemon may have died between the fork and the line above; then nobody would kill us.
        if rustix::process::getppid() != Some(parent) {
            return Err(io::Error::from(io::ErrorKind::BrokenPipe));
        }
        Ok(())
    };
    // SAFETY: between fork and exec the closure makes two system calls (prctl, getppid) and, in the failure path,
    // builds an error from a kind, which does not allocate; it takes no lock and touches no memory of other threads.
    unsafe {
        command.pre_exec(in_child);
    }
}

#[cfg(test)]
mod tests {
    use cairn_types::ClusterId;

    use super::*;

    fn config(folder: &Path) -> MemberConfig {
        MemberConfig {
            cluster: ClusterId(7),
            name: "a".into(),
            data_dir: folder.join("data"),
            log_file: folder.join("etcd.log"),
            client_url: "http://127.0.0.1:1".into(),
            peer_url: "http://127.0.0.1:2".into(),
            initial_cluster: vec![("a".into(), "http://127.0.0.1:2".into())],
            others: Vec::new(),
            joined: false,
            learner: false,
            program: None,
        }
    }

    #[test]
    fn a_missing_etcd_is_named_with_its_package() {
        let folder = tempfile::tempdir().unwrap();
        let mut config = config(folder.path());
        config.program = Some(folder.path().join("etcd"));
        let error = Member::start(config).unwrap_err().to_string();
        assert!(error.contains("etcd-server"), "{error}");
    }

    #[test]
    fn a_member_that_is_not_among_the_members_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let mut config = config(folder.path());
        config.initial_cluster = vec![("b".into(), "http://127.0.0.1:2".into())];
        let error = Member::start(config).unwrap_err().to_string();
        assert!(error.contains("add a=http://127.0.0.1:2"), "{error}");
    }

    /// A program that ends at once is started again, ever more slowly, and its last words are told.
    #[test]
    fn a_member_that_does_not_stay_up_is_restarted_with_backoff() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("etcd");
        fs::write(&program, "#!/bin/sh\necho '{\"level\":\"fatal\",\"msg\":\"bind: address in use\"}' >&2\nexit 3\n")
            .unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let mut config = config(folder.path());
        config.program = Some(program);
        let member = Member::start(config).unwrap();
        thread::sleep(Duration::from_millis(1500));
        let restarts = member.restarts();
        assert!((1..=3).contains(&restarts), "{restarts} restarts");
        let MemberState::Waiting { why } = member.state() else {
            panic!("{member:?}");
        };
        assert!(why.contains("address in use"), "{why}");
        member.stop();
    }
}
