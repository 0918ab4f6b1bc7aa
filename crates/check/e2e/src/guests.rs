//! Clients that share the blocks of a disk: each has a connection of its own, through a host of its own, and all write over each
//! other. What they ask and are told goes into a history.
//!
//! Promises    values are unique; a request whose connection breaks is of unknown fate, and its client goes on, often elsewhere
//! Method      half of all requests go to few hot blocks, so that they overlap; some connections are impatient, as a guest is
//!             that gives up before its host does; some wait for ever, as QEMU does: those find what hangs
//! Not here    whether answers are right (`history`)

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use crate::{
    Cluster, NbdClient, NbdError, Outcome, Target,
    history::{Answer, Kind, Over, Recorder, Request},
    pattern::mix,
    tally::HANGS_AFTER,
};

/// Blocks at the disk's beginning that half of all requests go to.
const HOT_BLOCKS: u64 = 48;
/// Sectors of a block.
const BLOCK: u64 = 8;
const SECTOR: u64 = 512;
/// More than a hang.
const FOR_EVER: Duration = HANGS_AFTER.saturating_add(Duration::from_secs(5));

/// A stream of numbers from a seed.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// The stream of this seed.
    pub fn new(seed: u64) -> Self {
        Self(mix(seed))
    }

    /// The next number, below this.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = mix(self.0);
        self.0 % bound
    }
}

/// A host's NBD server, as a client knows it.
#[derive(Debug, Clone)]
pub struct Way {
    host: u8,
    over: Over,
    target: Target,
}

/// Both ways to each host: the unix socket, which is there while the host is cut off, and TCP, which is not.
pub fn ways(cluster: &Cluster) -> Vec<Way> {
    let of = |over, target: fn(&crate::Host) -> Target| {
        cluster.hosts().iter().map(move |host| Way { host: host.number, over, target: target(host) })
    };
    of(Over::Unix, |host| Target::Unix(host.nbd_socket()))
        .chain(of(Over::Tcp, |host| Target::Tcp(host.nbd_address())))
        .collect()
}

/// Clients at work.
#[derive(Debug)]
pub struct Guests {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Guests {
    /// Starts `count` clients of `export`, spread over the ways; up to `pause_max` lies between the requests of each.
    pub fn start(
        recorder: &Arc<Recorder>,
        ways: &[Way],
        export: &str,
        count: u64,
        pause_max: Duration,
        seed: u64,
    ) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let threads = (0..count).map(|number| {
            let mut guest = Guest {
                number,
                recorder: recorder.clone(),
                ways: ways.to_vec(),
                export: export.to_owned(),
                at: number as usize % ways.len(),
                random: Random::new(seed ^ (number + 1) << 32),
                pause_max,
                stop: stop.clone(),
            };
            thread::spawn(move || guest.run())
        });
        Self { threads: threads.collect(), stop }
    }

    /// Ends them, after their last requests.
    ///
    /// # Errors
    /// When one panicked.
    pub fn stop(self) -> Outcome<()> {
        self.stop.store(true, Ordering::Relaxed);
        self.threads.into_iter().try_for_each(|thread| thread.join().map_err(|_| "a client panicked".into()))
    }
}

/// Reads the whole disk through each way, as part of the history.
///
/// # Errors
/// Where it cannot be read.
pub fn read_everywhere(recorder: &Recorder, ways: &[Way], export: &str) -> Outcome<()> {
    const SECTORS_A_READ: u64 = 2048;
    for (n, way) in ways.iter().enumerate() {
        let cannot = |e: NbdError| format!("h{} over {:?}: the disk cannot be read: {e}", way.host, way.over);
        let mut client = NbdClient::connect(&way.target, export, FOR_EVER).map_err(cannot)?;
        for first in (0..recorder.sectors).step_by(SECTORS_A_READ as usize) {
            let count = SECTORS_A_READ.min(recorder.sectors - first);
            ask(recorder, &mut client, request(1000 + n as u64, way, Kind::Read, first, count)).map_err(cannot)?;
        }
    }
    Ok(())
}

fn request(client: u64, way: &Way, kind: Kind, first: u64, count: u64) -> Request {
    Request { client, host: way.host, over: way.over, kind, first, count, version: 0 }
}

/// Sends a request and waits for its end; both are recorded.
fn ask(recorder: &Recorder, client: &mut NbdClient, what: Request) -> Result<(), NbdError> {
    let begun = recorder.begin(what);
    let (offset, bytes) = (begun.what.first * SECTOR, begun.what.count * SECTOR);
    let mut data = Vec::new();
    let outcome = match begun.what.kind {
        Kind::Read => {
            data.resize(bytes as usize, 0);
            client.read(offset, &mut data)
        }
        Kind::Write => client.write(offset, &begun.what.bytes()),
        Kind::Zeroes => client.write_zeroes(offset, bytes as u32),
    };
    match (&outcome, begun.what.kind) {
        (Ok(()), Kind::Read) => recorder.end_read(begun, &data),
        (Ok(()), _) => recorder.end(begun, Answer::Done),
        (Err(NbdError::Refused(code)), _) => recorder.end(begun, Answer::Refused(*code)),
        (Err(NbdError::Gone(words)), _) => recorder.end(begun, Answer::Unknown(words.clone())),
    }
    outcome
}

struct Guest {
    number: u64,
    recorder: Arc<Recorder>,
    ways: Vec<Way>,
    export: String,
    at: usize,
    random: Random,
    pause_max: Duration,
    stop: Arc<AtomicBool>,
}

impl Guest {
    fn run(&mut self) {
        let mut client = None;
        while !self.stop.load(Ordering::Relaxed) {
            let pause = self.random.below(self.pause_max.as_micros() as u64 + 1);
            thread::sleep(Duration::from_micros(pause));
            let Some(open) = client.as_mut() else {
                let (target, patience) = (self.ways[self.at].target.clone(), self.patience());
                client = NbdClient::connect(&target, &self.export, patience).ok();
                if client.is_none() {
                    self.go_elsewhere();
                    thread::sleep(Duration::from_millis(50));
                }
                continue;
            };
            let what = self.draw();
            let outcome = ask(&self.recorder, open, what);
            // After an error, by choice of the client; now and then without a reason.
            if outcome.is_err() || self.random.below(300) == 0 {
                client = None;
                if self.random.below(2) == 0 {
                    self.go_elsewhere();
                }
            }
        }
    }

    fn go_elsewhere(&mut self) {
        self.at = self.random.below(self.ways.len() as u64) as usize;
    }

    /// How long this connection waits for an answer.
    fn patience(&mut self) -> Duration {
        match self.random.below(20) {
            0 => Duration::from_millis(2 + self.random.below(10)),
            1..=4 => Duration::from_millis(500),
            5..=9 => Duration::from_secs(3),
            _ => FOR_EVER,
        }
    }

    fn draw(&mut self) -> Request {
        let kind = match self.random.below(10) {
            0..=3 => Kind::Read,
            4 => Kind::Zeroes,
            _ => Kind::Write,
        };
        let (first, count) = self.place();
        request(self.number, &self.ways[self.at], kind, first, count)
    }

    /// A run of sectors: mostly whole blocks, some with odd edges.
    fn place(&mut self) -> (u64, u64) {
        let all = self.recorder.sectors;
        let blocks = match self.random.below(20) {
            0 => 1 + self.random.below(64),
            1..=3 => 1 + self.random.below(9),
            _ => 1,
        };
        let span = if self.random.below(2) == 0 { HOT_BLOCKS } else { all / BLOCK };
        let (mut first, mut count) = (self.random.below(span) * BLOCK, blocks * BLOCK);
        if self.random.below(4) == 0 {
            first += self.random.below(BLOCK);
            count = 1 + self.random.below(count);
        }
        (first, count.min(all - first))
    }
}
