//! Keeps the members of the directory as they are wanted, on each host for its own part.
//!
//! Promises    the directory's client follows the members, without a restart
//!             what a look finds is acted upon once; a failure is told once, and tried again
//!             the data of a member that was removed is moved aside, never deleted: the folder beside it, with `.removed`
//! Assumes     the node tells what its watch brings; what is acted upon is read anew, as of now
//! Not here    what is to be done (`change`), keeping one member running (`supervise`)

use std::{
    fs, io,
    path::PathBuf,
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{self, RecvTimeoutError},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use cairn_directory::{DirectoryError, DirectoryMember, DirectoryMembers, Name, Registry, TheCluster};
use cairn_types::HostId;
use futures::future::join_all;
use tokio::runtime::Handle;

use crate::{
    EtcdDirectory,
    change::{Change, Data, OwnStep, Seen, is_done, next_change, own_step},
    cluster::{self, Listed},
    endpoints::Endpoints,
    supervise::{Member, MemberPlace},
};

/// Between two looks while something is to be done; and where that has waited for long, or all is done.
const LOOK_EVERY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(10));
/// After a change was wanted or made, looks follow each other quickly for so long.
const BUSY_FOR: Duration = Duration::from_secs(120);
/// Between two looks of a host that has nothing to do but wait until it is told.
const IDLE: Duration = Duration::from_secs(3600);
/// The file in a member's data that notes its id.
const ID_FILE: &str = "member/cairn-member-id";

/// What a keeper begins with.
#[derive(Debug)]
pub struct KeeperConfig {
    /// This host; of a server, its first shard.
    pub host: HostId,
    /// Its name.
    pub name: Name,
    /// Where it runs a member, if it does.
    pub place: MemberPlace,
    /// The directory.
    pub directory: Arc<EtcdDirectory>,
    /// Who is wanted, as this host heard last.
    pub wanted: Option<DirectoryMembers>,
    /// The member that runs here already.
    pub member: Option<Member>,
}

/// Tells a keeper what the directory says. Cheap to clone.
#[derive(Debug, Clone)]
pub struct MembersTold {
    tell: mpsc::Sender<Event>,
    last: Arc<Mutex<Option<DirectoryMembers>>>,
}

impl MembersTold {
    /// These are wanted. Once more is no news.
    pub fn told(&self, wanted: &DirectoryMembers) {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if last.as_ref() != Some(wanted) {
            *last = Some(wanted.clone());
            // Nobody listens where the daemon is stopping.
            let _ = self.tell.send(Event::Wanted(wanted.clone()));
        }
    }
}

#[derive(Debug)]
enum Event {
    Wanted(DirectoryMembers),
    End,
}

/// The keeper. Dropping it stops the member that it runs.
#[derive(Debug)]
pub struct Keeper {
    told: MembersTold,
    thread: Option<JoinHandle<()>>,
}

impl Keeper {
    /// Begins, on a thread of its own.
    ///
    /// # Errors
    /// The system refuses a thread.
    pub fn start(config: KeeperConfig) -> io::Result<Self> {
        let (tell, events) = mpsc::channel();
        let told = MembersTold { tell, last: Arc::new(Mutex::new(config.wanted.clone())) };
        let (runtime, endpoints, prefix) = config.directory.parts();
        let (said, busy_since) = (String::new(), Instant::now());
        let keeping = Keeping { config, runtime, endpoints, prefix, said, busy_since };
        let thread = thread::Builder::new().name("etcd-members".into()).spawn(move || keeping.run(&events))?;
        Ok(Self { told, thread: Some(thread) })
    }

    /// Who is to be told what the directory says.
    pub fn told(&self) -> MembersTold {
        self.told.clone()
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        let _ = self.told.tell.send(Event::End);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Keeping {
    config: KeeperConfig,
    runtime: Handle,
    endpoints: Arc<Endpoints>,
    prefix: String,
    /// What was said last.
    said: String,
    /// When a change was wanted or made last.
    busy_since: Instant,
}

impl Keeping {
    fn run(mut self, events: &mpsc::Receiver<Event>) {
        let mut pause = if self.config.wanted.is_some() { Duration::ZERO } else { IDLE };
        loop {
            match events.recv_timeout(pause) {
                Ok(Event::Wanted(wanted)) => {
                    tracing::info!(members = names(&wanted), "these hosts are to run the members of the directory");
                    self.config.wanted = Some(wanted);
                    self.busy_since = Instant::now();
                }
                Ok(Event::End) | Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) => {}
            }
            pause = match (self.look(), &self.config.member) {
                (false, _) if self.busy_since.elapsed() < BUSY_FOR => LOOK_EVERY.0,
                (false, _) => LOOK_EVERY.1,
                (true, Some(_)) => LOOK_EVERY.1,
                (true, None) => IDLE,
            };
        }
    }

    /// Looks, and does what is to be done next. False: there is more to do.
    fn look(&mut self) -> bool {
        let found = self.runtime.block_on(cluster::look(&self.endpoints, &self.prefix));
        let listed = match found {
            Ok((told, listed)) => {
                self.config.wanted = told;
                Some(listed)
            }
            Err(error) => {
                self.say(format!("the members of the directory cannot be looked at: {error}"));
                None
            }
        };
        let Some(wanted) = self.config.wanted.clone() else { return true };
        self.follow(&wanted, listed.as_deref().unwrap_or_default());
        let own = wanted.of(self.config.host, self.config.name.as_str()).cloned();
        let runs_at = self.config.member.as_ref().map(|member| member.peer_url().to_owned());
        let step = own_step(own.as_ref(), runs_at.as_deref(), self.data(), listed.as_deref());
        match step {
            OwnStep::Nothing => {}
            OwnStep::Start => self.start(own.as_ref().expect("only a wanted member is started"), &wanted),
            OwnStep::SetAside => self.set_aside(),
        }
        let Some(listed) = listed else { return false };
        let seen = self.seen(&listed, runs_at.as_deref());
        if let Some(own) = &own {
            self.correct(own);
        }
        let change = next_change(&wanted, &seen, own.as_ref().map(|own| own.peer_url.as_str()));
        step == OwnStep::Nothing && self.carry_out(&change) && is_done(&wanted, &listed)
    }

    /// The directory is asked at those that are wanted, and at those that leave as long as they are there.
    fn follow(&self, wanted: &DirectoryMembers, listed: &[Listed]) {
        let mut urls = wanted.client_urls();
        for url in listed.iter().flat_map(|listed| &listed.client_urls) {
            if !urls.contains(url) {
                urls.push(url.clone());
            }
        }
        if let Err(error) = self.endpoints.follow(&urls) {
            tracing::warn!("the directory's client cannot follow its members: {error}");
        }
    }

    fn data(&self) -> Data {
        let folder = &self.config.place.data_dir;
        match fs::read_to_string(folder.join(ID_FILE)) {
            Ok(text) => u64::from_str_radix(text.trim(), 16).map_or(Data::Unknown, Data::Of),
            Err(_) if folder.join("member").is_dir() => Data::Unknown,
            Err(_) => Data::None,
        }
    }

    fn start(&mut self, own: &DirectoryMember, wanted: &DirectoryMembers) {
        match Member::start(self.config.place.member(own, wanted)) {
            Ok(member) => {
                tracing::info!(url = own.peer_url, "this host runs a member of the directory from now on");
                self.config.member = Some(member);
            }
            Err(error) => self.say(format!("this host is to run a member of the directory, and cannot: {error}")),
        }
    }

    fn set_aside(&mut self) {
        drop(self.config.member.take());
        let folder = &self.config.place.data_dir;
        let aside = PathBuf::from(format!("{}.removed", folder.display()));
        let moved = || -> io::Result<()> {
            if aside.exists() {
                fs::remove_dir_all(&aside)?;
            }
            if folder.exists() { fs::rename(folder, &aside) } else { Ok(()) }
        };
        let told = match moved() {
            Ok(()) => format!("this host's member of the directory was removed: what it had is in {}", aside.display()),
            Err(error) => format!("the data of a removed member cannot be moved to {}: {error}", aside.display()),
        };
        self.say(told);
    }

    /// What each member says of itself. The id of the own one is noted: by it, its data are known for those of a removed one later.
    fn seen(&self, listed: &[Listed], runs_at: Option<&str>) -> Vec<Seen> {
        let ask = |listed: Listed| async move {
            let status = match listed.client_urls.first() {
                Some(url) => cluster::status(&self.endpoints, url).await.ok(),
                None => None,
            };
            (listed, status)
        };
        let asked = self.runtime.block_on(join_all(listed.iter().cloned().map(ask)));
        let seen = asked.into_iter().map(|(listed, status)| {
            let id = status.as_ref().map(cluster::id_of);
            if id == Some(listed.id) && runs_at.is_some_and(|url| listed.is_at(url)) {
                self.note_id(listed.id);
            }
            let leads = status.as_ref().is_some_and(cluster::leads);
            Seen { answers: status.is_some_and(|status| status.leader() != 0), leads, listed }
        });
        seen.collect()
    }

    fn note_id(&self, id: u64) {
        if self.data() == Data::Unknown {
            let written = fs::write(self.config.place.data_dir.join(ID_FILE), format!("{id:x}\n"));
            if let Err(error) = written {
                tracing::warn!("the id of this host's member of the directory cannot be noted: {error}");
            }
        }
    }

    /// A host has another name, or was installed anew: the list says so.
    fn correct(&mut self, own: &DirectoryMember) {
        let (host, name) = (self.config.host, self.config.name.clone());
        if (own.host, &own.name) == (host, &name) {
            return;
        }
        let registry = Registry::new(self.config.directory.clone());
        let update = registry.update::<DirectoryMembers>(&TheCluster, |known| {
            Ok(known.and_then(|known| {
                let mut next = known.clone();
                let own = next.members.iter_mut().find(|member| member.peer_url == own.peer_url)?;
                (own.host, own.name) = (host, name.clone());
                (next != *known).then_some(next)
            }))
        });
        if let Err(error) = self.runtime.block_on(update) {
            self.say(format!("the directory's list of members has this host otherwise, and keeps it: {error}"));
        }
    }

    /// True where nothing is left to be asked for.
    fn carry_out(&mut self, change: &Change) -> bool {
        let endpoints = self.endpoints.clone();
        let asked: (String, Result<(), DirectoryError>) = match change {
            Change::Nothing => return true,
            Change::Wait(why) => {
                self.say(format!("a change of the directory's members waits: {why}"));
                return false;
            }
            Change::Add(url) => (format!("add {url}"), self.runtime.block_on(cluster::add(&endpoints, url, true))),
            Change::Promote(id) => {
                (format!("give {id:x} its vote"), self.runtime.block_on(cluster::promote(&endpoints, *id)))
            }
            Change::MoveLeader { at, to } => {
                (format!("have {at} hand over"), self.runtime.block_on(cluster::move_leader(&endpoints, at, *to)))
            }
            Change::Remove(id) => (format!("remove {id:x}"), self.runtime.block_on(cluster::remove(&endpoints, *id))),
        };
        match asked {
            (act, Ok(())) => {
                self.busy_since = Instant::now();
                tracing::info!(act, "the directory's members are changed");
            }
            (act, Err(error)) => match as_usual(&error) {
                Some(why) => tracing::debug!(act, "a change of the directory's members waits: {why}"),
                None => self.say(format!("the directory's members: {act}: {error}")),
            },
        }
        false
    }

    /// A sentence for the log, unless it was the last one.
    fn say(&mut self, text: String) {
        if self.said != text {
            tracing::warn!("{text}");
            self.said = text;
        }
    }
}

/// What etcd refuses for some seconds, while all is well.
fn as_usual(error: &DirectoryError) -> Option<&'static str> {
    let text = error.to_string();
    let known = [
        ("unhealthy cluster", "until all members have been connected for five seconds"),
        ("in sync with leader", "until the newcomer has caught up"),
    ];
    known.into_iter().find(|(words, _)| text.contains(words)).map(|(_, why)| why)
}

fn names(wanted: &DirectoryMembers) -> String {
    let names: Vec<&str> = wanted.members.iter().map(|member| member.name.as_str()).collect();
    names.join(", ")
}
