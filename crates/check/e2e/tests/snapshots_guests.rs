//! Snapshots of real guests' file systems, taken each second while hosts die: what a guest had synced is in each of them.

use std::{
    ops::Range,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU8, Ordering},
        mpsc::{self, Sender},
    },
    thread,
    time::{Duration, Instant},
};

use cairn_e2e::{
    Cluster, Door, Host, NbdClient, NbdError, Outcome, Shape, Target, TimeLine,
    cli::Api,
    guests::Random,
    scene::{has_version, targets, write_version},
    synced::{Console, FILE_SYSTEMS, FILES, Found, Look, Looker, Moment, Writer},
    tools::{load_time, seed},
    wait::{check, wait_until},
};

/// A guest under TCG on a busy machine boots in ten to sixty seconds.
const SLOW: Duration = Duration::from_secs(150);
/// Two of them look at snapshots of a minute side by side.
const LOOKED_WITHIN: Duration = Duration::from_secs(400);
/// A disk is what its file system is called. mkfs.xfs takes 300 MiB at least.
const FILE_SYSTEMS_MIB: [u64; 2] = [256, 320];
/// Behind the file system: what is changed after all snapshots, so that going back takes long enough to be met by a death.
const TAIL_MIB: u64 = 64;
/// A snapshot of which more is asked than it can have: who looks at it has to see that.
const PLANTED: &str = "planted";
const HOSTS: u8 = 4;
/// The policy of xfs's disk; that of ext4 is a mirror.
const ROWS: &str = "rows";
/// Between two snapshots.
const EACH: Duration = Duration::from_secs(1);
/// A host is away for so long: a lease, and then some.
const AWAY: Duration = Duration::from_secs(3);
/// The command that takes a snapshot is over by then, where nobody dies.
const TAKES: Duration = Duration::from_millis(20);
/// EPERM, as an NBD server says that an export is read-only.
const NOT_PERMITTED: u32 = 1;

/// Goal: a snapshot is what a power cut leaves: its file system is clean after a replay of its log, and has what was synced before. So is a
/// disk that goes back to one. Method: a guest writes to ext4 and to xfs and tells what it has synced; meanwhile snapshots of both disks are
/// taken each second, owners and copies are killed and come back; other guests look at each of them; both disks go back to one from the
/// middle, their owners are killed meanwhile, and guests look again. `CAIRN_E2E_SECONDS`: for how long snapshots are taken.
#[test]
fn what_guests_synced_is_in_each_snapshot() {
    let cluster = Cluster::start("snapshots_guests", &Shape { hosts: HOSTS, ..Shape::default() });
    let cluster = cluster.unwrap_or_else(|words| panic!("{words}"));
    cluster.run_within(load_time() + Duration::from_secs(600), scenario);
}

fn scenario(cluster: &mut Cluster) -> Outcome<()> {
    let mut doors = Vec::new();
    let rows = ["policy", "create", ROWS, "--ftm", "erasure-coding", "--data-strips", "2", "--ftt", "1"];
    cluster.host(1).api().call(&rows)?;
    for (n, (disk, owner)) in FILE_SYSTEMS.into_iter().zip(1..).enumerate() {
        cluster.create_disk_of(disk, sizes_mib()[n], owner, [None, Some(ROWS)][n])?;
        let through: Vec<u8> = (0..HOSTS).map(|n| (owner - 1 + n) % HOSTS + 1).collect();
        let socket = cluster.host(owner).sockets.join(format!("{disk}.sock"));
        doors.push(Door::open(&socket, targets(cluster, &through))?);
    }
    let at = |n: usize| (doors[n].socket.as_path(), FILE_SYSTEMS[n]);
    let (folder, logs) = places(cluster, "writes");
    let mut writer = Writer::boot([at(0), at(1)], FILE_SYSTEMS_MIB, &folder, &logs)?;
    writer.wait_said("made file systems", SLOW)?;
    cluster.say("the guest has made its file systems");
    for (n, disk) in FILE_SYSTEMS.into_iter().enumerate() {
        // Not before: mkfs.xfs clears the end of the device, too.
        write_version(cluster, 1, disk, tail(n), 1)?;
    }
    writer.wait_said("synced xfs 3", SLOW)?;
    let said = writer.console();
    let taken = take_while_hosts_die(cluster, &said)?;
    // Off as by the plug.
    drop(writer);
    let last = said.now();
    cluster
        .say(format!("the guest is off; it had synced {} files of ext4 and {} of xfs", last[0].synced, last[1].synced));
    taken.none_left_of_refused(cluster)?;
    read_only(cluster, &taken)?;
    looked_at(cluster, &said, &taken)?;
    gone_back(cluster, &said, &taken)
}

fn sizes_mib() -> [u64; 2] {
    FILE_SYSTEMS_MIB.map(|mib| mib + TAIL_MIB)
}

/// MiB of a disk behind its file system.
fn tail(n: usize) -> Range<u64> {
    FILE_SYSTEMS_MIB[n]..sizes_mib()[n]
}

/// Folder and logs of a guest.
fn places(cluster: &Cluster, guest: &str) -> (PathBuf, PathBuf) {
    (cluster.folder.join(guest), cluster.logs.join(guest))
}

/// A snapshot of both disks, or of one of them, and what it has to have.
#[derive(Debug, Clone)]
struct Snapshot {
    name: String,
    of: [Option<Moment>; 2],
}

impl Snapshot {
    fn look(&self, cluster: &Cluster, host: u8) -> Look {
        let export = |fs: &str| format!("{fs}@{}", self.name);
        let of = [0, 1].map(|n| self.of[n].map(|moment| (export(FILE_SYSTEMS[n]), moment)));
        Look { name: self.name.clone(), of, head: false, socket: cluster.host(host).nbd_socket() }
    }
}

/// A snapshot that there was not.
#[derive(Debug)]
struct Refused {
    name: String,
    words: String,
    /// Then nobody can say whether it is there.
    asked_host_died: bool,
}

/// What came of taking one each second.
#[derive(Debug, Default)]
struct Taken {
    snapshots: Vec<Snapshot>,
    /// How long the command took, of both disks and of one.
    both: Vec<Duration>,
    one: Vec<Duration>,
    refused: Vec<Refused>,
}

impl Taken {
    fn line(&self) -> String {
        let times = |of: &[Duration]| {
            let mut sorted = of.to_vec();
            sorted.sort();
            let ms = |time: Option<&Duration>| time.map_or(0, Duration::as_millis);
            format!("half of them in {} ms, the longest in {} ms", ms(sorted.get(sorted.len() / 2)), ms(sorted.last()))
        };
        let mut line = format!("{} snapshots of both disks, {}", self.both.len(), times(&self.both));
        if !self.one.is_empty() {
            line += &format!("; {} of one disk alone, {}", self.one.len(), times(&self.one));
        }
        for refused in &self.refused {
            line += &format!("; {} was refused: {}", refused.name, refused.words);
        }
        line
    }

    /// There is no snapshot of several disks that was refused; where the host that was asked died some may have it.
    fn none_left_of_refused(&self, cluster: &Cluster) -> Outcome<()> {
        let api = cluster.host(1).api();
        for (disk, Refused { name, asked_host_died, .. }) in
            FILE_SYSTEMS.into_iter().flat_map(|disk| self.refused.iter().map(move |refused| (disk, refused)))
        {
            let list = api.call(&["snapshot", "list", disk])?;
            if list.as_array().into_iter().flatten().any(|one| one["name"] == **name) {
                check(*asked_host_died, || format!("{disk} has {name}, which was refused"))?;
                api.call(&["snapshot", "delete", &format!("{disk}@{name}"), "--yes"])?;
            }
        }
        Ok(())
    }
}

/// What who kills hosts and who takes snapshots know of each other.
#[derive(Default)]
struct Both {
    /// A host that is away; 0: none.
    away: AtomicU8,
    stop: AtomicBool,
}

/// Who takes snapshots.
struct Operator {
    hosts: Vec<Api>,
    said: Console,
    both: Arc<Both>,
    /// Told each time before a snapshot is asked for.
    asked: Sender<()>,
    time: TimeLine,
    taken: Taken,
}

impl Operator {
    fn run(mut self) -> Taken {
        let (begin, mut due) = (Instant::now(), EACH);
        let mut hosts = (1..=HOSTS).cycle();
        for n in 1.. {
            if self.both.stop.load(Ordering::Relaxed) {
                break;
            }
            let mut next =
                || hosts.find(|host| *host != self.both.away.load(Ordering::Relaxed)).expect("it is a circle");
            let (host, other) = (next(), next());
            if !self.take(&format!("s-{n}"), host, [true, true]) {
                // One of them may have no owner now: alone each waits for it.
                self.take(&format!("s-{n}-alone"), other, [true, false]);
                self.take(&format!("s-{n}-alone"), other, [false, true]);
            }
            due = due.max(begin.elapsed());
            thread::sleep(due.saturating_sub(begin.elapsed()));
            due += EACH;
        }
        self.taken
    }

    /// One snapshot of these disks. What was said to be synced before has to be in it, what was not begun at its end must not be.
    fn take(&mut self, name: &str, host: u8, of: [bool; 2]) -> bool {
        let mut words = vec!["snapshot", "create", name];
        words.extend(FILE_SYSTEMS.into_iter().zip(of).filter_map(|(disk, is_of)| is_of.then_some(disk)));
        let (before, begin) = (self.said.now(), Instant::now());
        let _ = self.asked.send(());
        let answer = self.hosts[usize::from(host) - 1].ask(&words);
        let (took, after) = (begin.elapsed(), self.said.now());
        match answer {
            Ok(_) => {
                let moment = |n: usize| Moment { synced: before[n].synced, begun: after[n].begun };
                let of = [0, 1].map(|n| of[n].then(|| moment(n)));
                let times = if of.iter().all(Option::is_some) { &mut self.taken.both } else { &mut self.taken.one };
                times.push(took);
                self.taken.snapshots.push(Snapshot { name: name.to_owned(), of });
                true
            }
            Err(refused) => {
                let asked_host_died = self.both.away.load(Ordering::Relaxed) == host;
                let words = format!("{} (h{host}, after {} ms)", refused.words, took.as_millis());
                self.time.say(format!("{name} was refused: {words}"));
                self.taken.refused.push(Refused { name: name.to_owned(), words, asked_host_died });
                false
            }
        }
    }
}

/// In turns the owner of a disk and another member of the other one are killed, and come back.
fn take_while_hosts_die(cluster: &mut Cluster, said: &Console) -> Outcome<Taken> {
    let (both, (asked, asks)) = (Arc::new(Both::default()), mpsc::channel());
    let operator = Operator {
        hosts: cluster.hosts().iter().map(Host::api).collect(),
        said: said.clone(),
        both: both.clone(),
        asked,
        time: cluster.time.clone(),
        taken: Taken::default(),
    };
    let (seed, begin) = (seed(), Instant::now());
    cluster.say(format!("deaths are drawn from seed {seed}"));
    let operator = thread::spawn(move || operator.run());
    let (mut killed, mut random) = (Vec::new(), Random::new(seed));
    for (disk, is_owner) in [(0, true), (1, false), (1, true), (0, false)].into_iter().cycle() {
        thread::sleep(EACH);
        if begin.elapsed() + AWAY > load_time() {
            break;
        }
        let disk = FILE_SYSTEMS[disk];
        let owner = cluster.owner(1, disk)?;
        let other = cluster.replicas(1, disk)?.into_iter().find(|n| *n != owner).ok_or("no member beside the owner")?;
        let host = if is_owner { owner } else { other };
        killed.push(format!("h{host}, {disk}'s {}", if is_owner { "owner" } else { "other member" }));
        // Just when a snapshot is taken.
        asks.try_iter().for_each(drop);
        asks.recv_timeout(SLOW).map_err(|_| "no snapshot is asked for")?;
        thread::sleep(Duration::from_micros(random.below(TAKES.as_micros() as u64)));
        both.away.store(host, Ordering::Relaxed);
        cluster.kill(host)?;
        thread::sleep(AWAY);
        cluster.restart(host)?;
        both.away.store(0, Ordering::Relaxed);
        healthy(cluster)?;
    }
    thread::sleep(load_time().saturating_sub(begin.elapsed()));
    both.stop.store(true, Ordering::Relaxed);
    let taken = operator.join().map_err(|_| "who takes snapshots panicked")?;
    cluster.say(format!("in {} s: {}", begin.elapsed().as_secs(), taken.line()));
    cluster.say(format!("killed meanwhile: {}", killed.join("; ")));
    check(!killed.is_empty() && taken.both.len() > 4, || "too little came of it".into())?;
    Ok(taken)
}

fn healthy(cluster: &Cluster) -> Outcome<()> {
    FILE_SYSTEMS.into_iter().try_for_each(|disk| cluster.wait_healthy(1, disk, Duration::from_secs(60)))
}

/// The door of each snapshot refuses to write.
fn read_only(cluster: &Cluster, taken: &Taken) -> Outcome<()> {
    for (snapshot, host) in taken.snapshots.iter().zip((1..=HOSTS).cycle()) {
        for (export, _) in snapshot.look(cluster, host).of.into_iter().flatten() {
            let target = Target::Unix(cluster.host(host).nbd_socket());
            let client = NbdClient::connect(&target, &export, Duration::from_secs(20));
            let mut client = client.map_err(|e| format!("{export} at h{host}: {e}"))?;
            for answer in [client.write(0, &[1; 4096]), client.write_zeroes(4096, 4096)] {
                check(answer == Err(NbdError::Refused(NOT_PERMITTED)), || {
                    format!("{export} takes a write: {answer:?}")
                })?;
            }
        }
    }
    Ok(())
}

/// Two guests side by side look at all snapshots, each through another host than the one before.
fn looked_at(cluster: &Cluster, said: &Console, taken: &Taken) -> Outcome<()> {
    let begin = Instant::now();
    let looks = taken.snapshots.iter().zip((1..=HOSTS).cycle()).map(|(one, host)| one.look(cluster, host));
    let looks: Vec<Look> = looks.collect();
    let (one, other) = looks.split_at(looks.len() / 2);
    let lookers = [boot(cluster, said, "looks-1", one)?, boot(cluster, said, "looks-2", other)?];
    let mut files = 0;
    for (looker, looks) in lookers.into_iter().zip([one, other]) {
        files += judge(&looker.finish(LOOKED_WITHIN)?, looks)?;
    }
    cluster.say(format!(
        "in {} s guests looked at all: each file system is clean after a replay of its log, and {files} files that had to be there are right",
        begin.elapsed().as_secs()
    ));
    Ok(())
}

fn boot(cluster: &Cluster, said: &Console, name: &str, looks: &[Look]) -> Outcome<Looker> {
    let (folder, logs) = places(cluster, name);
    Looker::boot(looks, sizes_mib(), said, &folder, &logs)
}

/// All is clean and right, as far as it goes by the console; so many files are. What was planted is found.
fn judge(found: &Found, looks: &[Look]) -> Outcome<u64> {
    let (planted, bad): (Vec<_>, Vec<_>) = found.bad.iter().partition(|(name, _)| name == PLANTED);
    check(bad.is_empty(), || format!("{bad:?}"))?;
    let is_planted = looks.iter().any(|look| look.name == PLANTED);
    check(is_planted != planted.is_empty(), || "the guest that looks sees nothing".into())?;
    let sound = looks.iter().filter(|look| look.name != PLANTED);
    let moments: Vec<Moment> = sound.flat_map(|look| look.of.iter().flatten()).map(|(_, moment)| *moment).collect();
    let must: u64 = moments.iter().map(|one| one.synced.saturating_sub((one.begun + 1).saturating_sub(FILES))).sum();
    let enough = found.clean >= moments.len() as u64 && found.right >= must;
    check(enough, || format!("{found:?}, and {must} files had to be there"))?;
    Ok(found.right)
}

/// Both disks go back to a snapshot from the middle. It is there, and so are what they had before, and other snapshots.
fn gone_back(cluster: &mut Cluster, said: &Console, taken: &Taken) -> Outcome<()> {
    let of_both: Vec<&Snapshot> = taken.snapshots.iter().filter(|one| one.of.iter().all(Option::is_some)).collect();
    let (first, middle, last) = (of_both[0], of_both[of_both.len() / 2], of_both[of_both.len() - 1]);
    let mut kept = Vec::new();
    for (at, disk) in FILE_SYSTEMS.into_iter().enumerate() {
        write_version(cluster, 1, disk, tail(at), 2)?;
        kept.push(go_back(cluster, disk, &middle.name)?);
        has_version(cluster, 2, disk, tail(at), 1)?;
        has_version(cluster, 3, &format!("{disk}@{}", kept[at]), tail(at), 2)?;
    }
    let end = said.now();
    let of_kept = [0, 1].map(|n| Some((format!("{}@{}", FILE_SYSTEMS[n], kept[n]), end[n])));
    let of_heads = [0, 1].map(|n| middle.of[n].map(|moment| (FILE_SYSTEMS[n].to_owned(), moment)));
    let planted = Snapshot { of: last.of, ..first.clone() };
    let socket = |host: u8| cluster.host(host).nbd_socket();
    let looks = [
        Look { name: "gone-back".into(), of: of_heads, head: true, socket: socket(1) },
        Look { name: "kept".into(), of: of_kept, head: false, socket: socket(2) },
        last.look(cluster, 3),
        Look { name: PLANTED.into(), ..planted.look(cluster, 4) },
    ];
    let files = judge(&boot(cluster, said, "looks-back", &looks)?.finish(LOOKED_WITHIN)?, &looks)?;
    cluster.say(format!(
        "both disks went back to {}: clean, with what was synced before it and nothing later; what they had before is as whole, and so is {} ({files} files)",
        middle.name, last.name
    ));
    Ok(())
}

/// A disk goes back while its owner is killed; the name of what it had.
fn go_back(cluster: &mut Cluster, disk: &str, to: &str) -> Outcome<String> {
    wait_until("nobody has the disk open", Duration::from_secs(10), || {
        let sessions = cluster.disk(1, disk)?["sessions"].clone();
        check(sessions.as_array().is_some_and(Vec::is_empty), || sessions.to_string())
    })?;
    // A disk that nobody has open may have no owner.
    let owner = cluster.replicas(1, disk)?[0];
    let at = cluster.host(owner).name();
    cluster.host(owner).api().call(&["disk", "attach", disk, "--host", &at])?;
    let asked = owner % HOSTS + 1;
    let (api, snapshot, begin) = (cluster.host(asked).api(), format!("{disk}@{to}"), Instant::now());
    let call = thread::spawn(move || {
        let answer = api.call(&["snapshot", "rollback", &snapshot, "--yes", "--wait"]);
        (answer, begin.elapsed())
    });
    wait_until("the disk goes back", SLOW, || {
        let shown = cluster.disk(asked, disk)?["goes_back_to"].clone();
        check(!shown.is_null() || call.is_finished(), || shown.to_string())
    })?;
    let (killed, within) = (begin.elapsed(), !call.is_finished());
    cluster.kill(owner)?;
    let (answer, took) = call.join().map_err(|_| "the call panicked")?;
    let answer = answer?;
    cluster.say(format!(
        "{disk} has gone back to {to} after {} ms; its owner was killed {} ms after it was asked for, {}: {answer}",
        took.as_millis(),
        killed.as_millis(),
        if within { "meanwhile" } else { "when it had" }
    ));
    cluster.restart(owner)?;
    healthy(cluster)?;
    answer["kept"].as_str().map(str::to_owned).ok_or_else(|| format!("nothing was kept: {answer}"))
}
