//! Guests: tasks that write and read a disk through some host, and check every byte that comes back.
//!
//! All write and read everywhere, over each other. A guest whose host dies goes on at another.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeSet,
    rc::Rc,
    time::Duration,
};

use bytes::Bytes;
use cairn_env::Env as _;
use cairn_volume::{Volume, VolumeError};
use futures::future::{Either, select};

use crate::{
    cluster::{Client, Cluster, Lost, STUCK_AFTER},
    model::{Model, SECTOR, UNLIKE},
    shape::Shape,
};

/// Blocks at a disk's beginning that half of all requests go to.
const HOT_BLOCKS: u64 = 48;
/// One in so many changes is given up by its guest, within so many microseconds, unless a story says otherwise.
const GIVES_UP: (u64, u64) = (40, 3000);

/// The guests of one disk.
#[derive(Clone)]
pub struct Guests {
    cluster: Cluster,
    number: usize,
    disk: String,
    /// What it may hold.
    pub model: Rc<RefCell<Model>>,
    stop: Rc<Cell<bool>>,
    running: Rc<Cell<u32>>,
    /// What no guest may ever see, and one saw.
    pub failures: Rc<RefCell<Vec<String>>>,
    /// Requests that came to an end.
    pub done: Rc<Cell<u64>>,
    /// Those that ended with an error.
    pub errors: Rc<Cell<u64>>,
    /// Requests that their guest gave up.
    pub dropped: Rc<Cell<u64>>,
    /// One in so many changes is given up by its guest, within so many microseconds.
    pub gives_up: Rc<Cell<(u64, u64)>>,
    /// The longest that a guest waited for an answer, but at the host that is left aside.
    pub longest: Rc<Cell<Duration>>,
    /// Whether a media error is a failure where the model knows of no spoiled block.
    pub media_errors_judged: Rc<Cell<bool>>,
    /// The host whose guests do not count for [`Self::longest`]: it is the one that fails.
    pub aside: Rc<Cell<Option<usize>>>,
}

/// Whether this says that no copy can give the bytes.
fn is_media_error(error: &VolumeError) -> bool {
    matches!(error, VolumeError::Io(text) if text.contains("bad on every reachable copy"))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Act {
    Read,
    Write,
    /// Some of them keep their space.
    Zero,
    Trim,
}

impl Guests {
    /// The guests of the shape's disk `number`; none works yet.
    pub fn new(cluster: &Cluster, number: usize) -> Self {
        let size_bytes = cluster.sizes.borrow()[number].bytes;
        let id = (7 + number as u64) | if cluster.shape.alike { 0 } else { UNLIKE };
        let model = Rc::new(RefCell::new(Model::new(id, size_bytes)));
        cluster.models.borrow_mut().insert(number, model.clone());
        Self {
            cluster: cluster.clone(),
            number,
            disk: Shape::disk_name(number),
            model,
            media_errors_judged: Rc::default(),
            stop: Rc::default(),
            running: Rc::default(),
            failures: Rc::default(),
            done: Rc::default(),
            errors: Rc::default(),
            dropped: Rc::default(),
            gives_up: Rc::new(Cell::new(GIVES_UP)),
            longest: Rc::default(),
            aside: Rc::default(),
        }
    }

    /// The same guests, to whom the cluster is this.
    pub fn of(&self, cluster: &Cluster) -> Self {
        Self { cluster: cluster.clone(), ..self.clone() }
    }

    /// The disk's name.
    pub fn disk(&self) -> &str {
        &self.disk
    }

    /// Starts `count` guests.
    pub fn start(&self, count: u64, pause_max_ms: u64) {
        for number in 0..count {
            let home = (self.number + number as usize) % self.cluster.members.len();
            self.start_at(home, 1, pause_max_ms);
        }
    }

    /// Starts `count` guests at this host.
    pub fn start_at(&self, home: usize, count: u64, pause_max_ms: u64) {
        for _ in 0..count {
            self.running.set(self.running.get() + 1);
            let guests = self.clone();
            self.cluster.world.spawn(async move {
                guests.run(home, pause_max_ms).await;
                guests.running.set(guests.running.get() - 1);
            });
        }
    }

    /// Starts one at each of the first `count` hosts that only reads, and stays there.
    pub fn start_readers(&self, count: usize, pause_max_ms: u64) {
        (0..count).for_each(|at| self.start_reader(at, pause_max_ms));
    }

    /// Starts one that only reads, at this host.
    pub fn start_reader(&self, at: usize, pause_max_ms: u64) {
        self.running.set(self.running.get() + 1);
        let guests = self.clone();
        self.cluster.world.spawn(async move {
            guests.read_on(at, pause_max_ms).await;
            guests.running.set(guests.running.get() - 1);
        });
    }

    async fn read_on(&self, at: usize, pause_max_ms: u64) {
        while !self.stop.get() {
            let pause = Duration::from_micros(self.below(pause_max_ms * 1000 + 1));
            self.cluster.world.sleep(pause).await;
            let Some(client) = self.cluster.client(at, &self.disk).await else {
                self.cluster.world.sleep(Duration::from_millis(50)).await;
                continue;
            };
            let (first, count) = self.choose();
            // A process that dies takes the read with it; the next one goes to the next process.
            let _ = self.read(at, &client, first, count).await;
            self.done.set(self.done.get() + 1);
        }
    }

    /// Lets none begin another request.
    pub fn stop_soon(&self) {
        self.stop.set(true);
    }

    /// Stops them and waits for their last requests.
    pub async fn stop(&self) {
        self.stop.set(true);
        while self.running.get() > 0 {
            self.cluster.world.sleep(Duration::from_millis(20)).await;
        }
    }

    fn fail(&self, text: String) {
        self.cluster.log.add(format!("FAILURE: {text}"));
        if self.failures.borrow().is_empty() {
            let (cluster, watched) = (self.cluster.clone(), self.cluster.watched.get());
            self.cluster.world.spawn(async move { crate::rest::tell_block(&cluster, watched).await });
        }
        self.failures.borrow_mut().push(text);
        self.stop.set(true);
    }

    /// Logs what happens to the watched block.
    fn watch(&self, first: u64, count: u64, what: impl FnOnce() -> String) {
        if self.cluster.watched.get().is_some_and(|b| first < b * 8 + 8 && b * 8 < first + count) {
            self.cluster.log.add(format!("sectors {first}+{count}: {}", what()));
        }
    }

    fn below(&self, bound: u64) -> u64 {
        self.cluster.world.random_below(bound)
    }

    async fn run(&self, home: usize, pause_max_ms: u64) {
        let mut at = home;
        while !self.stop.get() {
            let pause = Duration::from_micros(self.below(pause_max_ms * 1000 + 1));
            self.cluster.world.sleep(pause).await;
            if self.is_growing() && self.below(2) == 0 {
                self.try_new_part(at).await;
                continue;
            }
            match self.cluster.client(at, &self.disk).await {
                Some(client) => {
                    if self.once(at, &client).await == Err(Lost::Crashed) {
                        at = self.below(self.cluster.members.len() as u64) as usize;
                    }
                }
                None => {
                    at = self.below(self.cluster.members.len() as u64) as usize;
                    self.cluster.world.sleep(Duration::from_millis(50)).await;
                }
            }
        }
    }

    /// Whether the disk is to be larger than it was last said to be.
    fn is_growing(&self) -> bool {
        let sizes = self.cluster.sizes.borrow();
        let size = &sizes[self.number];
        size.asked.iter().any(|asked| *asked > size.bytes)
    }

    /// Opens the disk as somebody who has just come. Where it is larger than anybody was told, writes to what is new of it.
    pub async fn try_new_part(&self, at: usize) {
        let Some(node) = self.cluster.node(at) else { return };
        let name = self.disk.clone();
        let opened = self.cluster.run_on(at, STUCK_AFTER, async move { node.open_disk(&name).await }).await;
        let Ok(Ok(Some(client))) = opened else { return };
        let (told, size) = (self.cluster.sizes.borrow()[self.number].bytes, client.info().size_bytes);
        if size <= told {
            return;
        }
        self.model.borrow_mut().grow(size);
        let (old, all) = (told / SECTOR, size / SECTOR);
        let first = old + self.below(all - old);
        let count = (1 + self.below(128)).min(all - first);
        self.cluster
            .log
            .add(format!("h{at} opens {} with {size} bytes, and writes sectors {first}+{count}", self.disk));
        if self.change(at, &client, first, count, Act::Write).await == Ok(true) {
            let sizes = &mut self.cluster.sizes.borrow_mut()[self.number];
            sizes.bytes = sizes.bytes.max((first + count) * SECTOR);
        }
    }

    /// Sectors that the disk is known to have.
    fn known_sectors(&self) -> u64 {
        let size_bytes = self.cluster.sizes.borrow()[self.number].bytes;
        self.model.borrow_mut().grow(size_bytes);
        size_bytes / SECTOR
    }

    /// A run of sectors: mostly whole blocks, some with odd edges.
    fn choose(&self) -> (u64, u64) {
        let all = self.known_sectors();
        let blocks = match self.below(20) {
            0 => 1 + self.below(64),
            1..=3 => 1 + self.below(9),
            _ => 1,
        };
        // Few hot blocks make overlaps, a few strangers the rest.
        let span = all.div_ceil(8);
        let block = if self.below(2) == 0 { self.below(span.min(HOT_BLOCKS)) } else { self.below(span) };
        let (mut first, mut count) = (block * 8, blocks * 8);
        if self.below(4) == 0 {
            let skip = self.below(8);
            first += skip;
            count = 1 + self.below(count);
        }
        first = first.min(all - 1);
        (first, count.min(all - first))
    }

    async fn once(&self, at: usize, client: &Client) -> Result<(), Lost> {
        let act = match self.below(10) {
            0..=3 => Act::Read,
            4 => Act::Zero,
            _ => Act::Write,
        };
        let (first, count) = self.choose();
        let began = self.cluster.world.now();
        let result = match act {
            Act::Read => self.read(at, client, first, count).await,
            _ => self.change(at, client, first, count, act).await.map(drop),
        };
        self.cluster.check_owners();
        if self.aside.get() != Some(at) {
            self.longest.set(self.longest.get().max(self.cluster.world.now() - began));
        }
        self.done.set(self.done.get() + 1);
        result
    }

    /// Whether it was acknowledged.
    async fn change(&self, at: usize, client: &Client, first: u64, count: u64, act: Act) -> Result<bool, Lost> {
        let zero = act != Act::Write;
        let version = self.model.borrow_mut().begin(first, count, zero);
        self.watch(first, count, || format!("h{at} begins {version} zero {zero}"));
        let data = Bytes::from(self.model.borrow().bytes(first, count, version));
        let (client, offset, keep) = (client.clone(), first * SECTOR, self.below(2) == 0 && act != Act::Trim);
        // A front end that stops drops its requests where they are.
        let (one_in, within_us) = self.gives_up.get();
        let patience = match self.below(one_in) {
            0 => Duration::from_micros(self.below(within_us)),
            _ => STUCK_AFTER * 2,
        };
        let host = &self.cluster.members[at].host;
        let (process, env) = (host.incarnation(), host.env());
        let ran = self
            .cluster
            .run_on(at, STUCK_AFTER, async move {
                let change = async {
                    match zero {
                        true => client.write_zeroes(offset, count * SECTOR, keep).await,
                        false => client.write(offset, data).await,
                    }
                };
                match select(std::pin::pin!(change), env.sleep(patience)).await {
                    Either::Left((result, _)) => Some(result),
                    Either::Right(_) => None,
                }
            })
            .await;
        if matches!(ran, Ok(None)) {
            self.model.borrow_mut().unknown(first, count, version);
            self.dropped.set(self.dropped.get() + 1);
            return Ok(false);
        }
        let ran = ran.map(|result| result.expect("the dropped ones have left"));
        match &ran {
            Ok(Ok(())) => {
                // An answer of a process that has died meanwhile was not delivered; here it was.
                self.model.borrow_mut().acked(first, count, version);
                self.watch(first, count, || format!("h{at} is told {version} is done"));
            }
            other => {
                self.model.borrow_mut().unknown(first, count, version);
                if other.as_ref().is_ok_and(|result| result.as_ref().is_err_and(is_media_error)) {
                    self.judge_refusal(at, self.model.borrow().change_was_refused(first, count, version));
                }
                self.note(
                    at,
                    process.0,
                    &format!("change of sectors {first}+{count} to {version}"),
                    other.as_ref().map(|r| r.as_ref().err()),
                );
            }
        }
        ran.map(|result| result.is_ok())
    }

    /// What the model says of a media error.
    fn judge_refusal(&self, at: usize, refused: Result<(), String>) {
        match refused {
            Err(why) if self.media_errors_judged.get() => self.fail(format!("P5: media error at h{at}: {why}")),
            _ => {}
        }
    }

    fn note(&self, at: usize, process: u64, what: &str, how: Result<Option<&VolumeError>, &Lost>) {
        let host = &self.cluster.members[at].host;
        match how {
            Ok(error) => {
                if let Some(VolumeError::Abandoned(_)) = error {
                    self.cluster.forget_client(at, &self.disk);
                }
                self.errors.set(self.errors.get() + 1);
                self.cluster.log.add(format!("guest at h{at}: {what} failed: {error:?}"));
            }
            Err(Lost::TimedOut) if host.is_up() && host.incarnation().0 == process => {
                self.fail(format!("stuck: {what} at h{at} has no answer after {STUCK_AFTER:?}"));
            }
            Err(_) => {}
        }
    }

    async fn read(&self, at: usize, client: &Client, first: u64, count: u64) -> Result<(), Lost> {
        let reading = self.model.borrow_mut().begin_read(first, count);
        let (client, process) = (client.clone(), self.cluster.members[at].host.incarnation().0);
        let read = client.read(first * SECTOR, (count * SECTOR) as u32);
        let ran = self.cluster.run_on(at, STUCK_AFTER, read).await;
        let data = ran.as_ref().ok().and_then(|read| read.as_ref().ok()).map(|parts| parts.concat());
        let len = data.as_ref().map_or(count * SECTOR, |data| data.len() as u64);
        if len != count * SECTOR {
            self.fail(format!("read of {count} sectors at h{at} returned {len} bytes"));
        } else if let Err(why) = self.model.borrow_mut().end_read(&reading, data.as_deref()) {
            self.fail(format!("wrong bytes at h{at}: {why}"));
        }
        if ran.as_ref().is_ok_and(|read| read.as_ref().is_err_and(is_media_error)) {
            self.judge_refusal(at, self.model.borrow().read_was_refused(&reading));
        }
        if data.is_none() {
            let how = ran.as_ref().map(|read| read.as_ref().err());
            self.note(at, process, &format!("read of sectors {first}+{count}"), how);
        }
        ran.map(drop)
    }

    /// Reads the whole disk at every host, and asks only that no byte is wrong: what is lost may say so.
    pub async fn verify_what_is_left(&self) -> Result<(), String> {
        let all = self.known_sectors();
        for at in 0..self.cluster.members.len() {
            let Some(client) = self.cluster.client(at, &self.disk).await else { continue };
            for first in (0..all).step_by(512) {
                let _ = self.read(at, &client, first, (all - first).min(512)).await;
            }
        }
        self.first_failure()
    }

    /// Reads the whole disk at every host, what it grew by included.
    pub async fn verify_everywhere(&self) -> Result<(), String> {
        let all = self.known_sectors();
        for at in 0..self.cluster.members.len() {
            self.read_all(at, all).await?;
        }
        self.first_failure()
    }

    /// Reads the whole disk at one host.
    pub async fn verify_at(&self, at: usize) -> Result<(), String> {
        let all = self.known_sectors();
        self.read_all(at, all).await?;
        self.first_failure()
    }

    /// A session of its own: one from before a host stood still is refused what it asks.
    async fn connect_anew(&self, at: usize) -> Result<Client, String> {
        self.cluster.forget_client(at, &self.disk);
        self.cluster.client(at, &self.disk).await.ok_or_else(|| format!("h{at} does not open the disk"))
    }

    async fn read_all(&self, at: usize, all: u64) -> Result<(), String> {
        let client = self.connect_anew(at).await?;
        for first in (0..all).step_by(2048) {
            let (count, before) = ((all - first).min(2048), self.errors.get());
            let read = self.read(at, &client, first, count).await;
            if read.is_err() || self.errors.get() > before {
                let why = read.err().map_or("an error is its answer".to_owned(), |lost| format!("{lost:?}"));
                return Err(format!("h{at} cannot read sectors {first}+{count}: {why}"));
            }
        }
        Ok(())
    }

    /// Writes a block of each MiB over. Which.
    pub async fn touch_each_region(&self, at: usize) -> Result<BTreeSet<u64>, String> {
        let (end, mut touched) = (self.known_sectors(), BTreeSet::new());
        let client = self.connect_anew(at).await?;
        for region in (0..end).step_by(2048) {
            let first = if region + 2048 <= end { region + 1600 } else { region };
            // A guest may give up just this one.
            for _ in 0..10 {
                let written = self.change(at, &client, first, (end - first).min(8), Act::Write).await;
                if written.map_err(|lost| format!("h{at} does not write: {lost:?}"))? {
                    touched.insert(first / 8);
                    break;
                }
            }
        }
        Ok(touched)
    }

    /// Writes the whole disk, or trims it.
    pub async fn change_all(&self, at: usize, trim: bool) -> Result<(), String> {
        self.change_from(at, 0, trim).await
    }

    /// Writes the disk from a sector on, or trims it.
    pub async fn change_from(&self, at: usize, from_sector: u64, trim: bool) -> Result<(), String> {
        let (end, client) = (self.known_sectors(), self.connect_anew(at).await?);
        let act = if trim { Act::Trim } else { Act::Write };
        for first in (from_sector..end).step_by(512) {
            let changed = self.change(at, &client, first, (end - first).min(512), act).await;
            changed.map_err(|lost| format!("h{at} does not change it: {lost:?}"))?;
        }
        Ok(())
    }

    /// Writes a block over. False: its guest gave up.
    pub async fn write_block(&self, at: usize, block: u64) -> Result<bool, String> {
        let (end, client) = (self.known_sectors(), self.connect_anew(at).await?);
        let written = self.change(at, &client, block * 8, (end - block * 8).min(8), Act::Write).await;
        written.map_err(|lost| format!("h{at} does not write: {lost:?}"))
    }

    /// Blocks that no copy can give: reading them is refused.
    pub async fn refused(&self, at: usize) -> Result<BTreeSet<u64>, String> {
        let (end, mut bad) = (self.known_sectors(), BTreeSet::new());
        let client = self.connect_anew(at).await?;
        for first in (0..end).step_by(512) {
            let last = (first + 512).min(end);
            if !self.can_read(at, &client, first, last - first).await? {
                for block in (first..last).step_by(8) {
                    if !self.can_read(at, &client, block, (last - block).min(8)).await? {
                        bad.insert(block / 8);
                    }
                }
            }
        }
        Ok(bad)
    }

    /// Writes over every block that no copy can give, or trims it; with `all`, every one that was spoiled. How many these were.
    pub async fn restore(&self, at: usize, all: bool) -> Result<u64, String> {
        let (end, client) = (self.known_sectors(), self.connect_anew(at).await?);
        let mut bad: Vec<u64> = self.refused(at).await?.into_iter().map(|block| block * 8).collect();
        if all {
            bad.extend(self.model.borrow().spoiled_now().iter().map(|block| block * 8));
            bad.sort_unstable();
            bad.dedup();
        }
        for block in &bad {
            let act = if block / 8 % 2 == 0 { Act::Write } else { Act::Trim };
            let changed = self.change_surely(at, &client, (*block, (end - block).min(8)), act).await;
            changed.map_err(|why| format!("P5: h{at} cannot restore sectors {block}..: {why}"))?;
        }
        Ok(bad.len() as u64)
    }

    /// Whether these can be read: all of them, or the answer is an error.
    async fn can_read(&self, at: usize, client: &Client, first: u64, count: u64) -> Result<bool, String> {
        let before = self.errors.get();
        let read = self.read(at, client, first, count).await;
        read.map_err(|lost| format!("h{at} does not read sectors {first}+{count}: {lost:?}"))?;
        Ok(self.errors.get() == before)
    }

    /// Writes the disk from its beginning, or from its end, until the first error or all of it. How many sectors have data now.
    pub async fn fill(&self, at: usize, from_end: bool) -> Result<u64, String> {
        self.fill_by(512, at, from_end).await
    }

    /// The same with so many sectors at once.
    pub async fn fill_by(&self, sectors: u64, at: usize, from_end: bool) -> Result<u64, String> {
        let all = self.model.borrow().len_sectors();
        let client = self.connect_anew(at).await?;
        for done in (0..all).step_by(sectors as usize) {
            let (before, count) = (self.errors.get(), (all - done).min(sectors));
            let first = if from_end { all - done - count } else { done };
            let written = self.change(at, &client, first, count, Act::Write).await;
            written.map_err(|lost| format!("h{at} does not write: {lost:?}"))?;
            if self.errors.get() > before {
                return Ok(done);
            }
        }
        Ok(all)
    }

    /// Trims the whole disk.
    pub async fn trim_all(&self, at: usize) -> Result<(), String> {
        self.trim_all_but(at, 0).await
    }

    /// Trims the disk but so many sectors at either end.
    pub async fn trim_all_but(&self, at: usize, edge: u64) -> Result<(), String> {
        let all = self.known_sectors();
        let client = self.connect_anew(at).await?;
        let changed = self.change_surely(at, &client, (edge, all - 2 * edge), Act::Trim).await;
        changed.map_err(|why| format!("h{at} does not trim the disk: {why}"))
    }

    /// A change that is begun anew as often as the guest gives up on it.
    async fn change_surely(
        &self,
        at: usize,
        client: &Client,
        (first, count): (u64, u64),
        act: Act,
    ) -> Result<(), String> {
        loop {
            let before = self.errors.get();
            let changed = self.change(at, client, first, count, act).await;
            match changed {
                Ok(true) => return Ok(()),
                Ok(false) if self.errors.get() == before => {}
                other => return Err(format!("{other:?}")),
            }
        }
    }

    fn first_failure(&self) -> Result<(), String> {
        match self.failures.borrow().first() {
            Some(failure) => Err(failure.clone()),
            None => Ok(()),
        }
    }
}
