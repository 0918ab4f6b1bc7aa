//! What clients asked of a disk and were told, in order: recorded as it happens, written down, and judged.
//!
//! Promises    a request's beginning is recorded before it leaves, its end after its answer has come: with that, the order of the
//!             lines is what the model needs for its clock, and no true history is refused
//!             a line is in the file before the next event happens, so that a run which is ended from outside leaves its history
//!             the verdict needs nothing but the file: [`judge`] may be asked again, years later
//! Method      the model of the simulator (`cairn_cluster::model`): many writers of each sector, writes of unknown fate included;
//!             they may happen late, but not later than a guest is told to wait
//! Assumes     a client whose request had no answer leaves: it closes the connection
//! Not here    who asks (`guests`); what goes wrong meanwhile (`inject`)

use std::{
    collections::{BTreeMap, VecDeque},
    fs::File,
    io::{BufRead as _, BufReader, LineWriter, Write as _},
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use cairn_cluster::model::{Found, Model, Reading, SECTOR, bytes};

pub use crate::event::{Answer, Event, Kind, Line, Over, Request};
use crate::{Outcome, tally::Tally};

/// So long after its client has left, a request without an answer has happened, or never will: two leases, which is what a guest
/// is told to wait for where its leaving cannot be seen (README), and a second of a loaded machine.
const OVER_AFTER_US: u64 = 5_000_000;

/// Goes into every sector's bytes.
const DISK_NUMBER: u64 = 7;

/// A request under way, as its client holds it.
#[derive(Debug)]
pub struct Begun {
    number: u64,
    /// What it is.
    pub what: Request,
}

/// Records a history, and judges it as it grows: the first violation is known at once.
#[derive(Debug)]
pub struct Recorder {
    /// Where it is written.
    pub path: PathBuf,
    /// Sectors of the disk.
    pub sectors: u64,
    begun: Instant,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    file: LineWriter<File>,
    judge: Judge,
    requests: u64,
    versions: u64,
}

impl Recorder {
    /// A history of a new disk of so many bytes, written to `path`.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn new(path: PathBuf, size_bytes: u64, seed: u64) -> Outcome<Self> {
        let file = File::create(&path).map_err(|e| format!("cannot write {}: {e}", path.display()))?;
        let inner = Inner { file: LineWriter::new(file), judge: Judge::default(), requests: 0, versions: 0 };
        let sectors = size_bytes / SECTOR;
        let recorder = Self { path, sectors, begun: Instant::now(), inner: Mutex::new(inner) };
        recorder.note(Event::Disk { sectors, seed });
        Ok(recorder)
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        // A thread that panicked has failed its test already; the others' history is still worth having.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records what is not a request.
    pub fn note(&self, event: Event) {
        self.inner().add(self.begun, event);
    }

    /// Records a request that is about to leave, and numbers its version.
    pub fn begin(&self, mut what: Request) -> Begun {
        let mut inner = self.inner();
        if what.kind != Kind::Read {
            inner.versions += 1;
            what.version = inner.versions;
        }
        inner.requests += 1;
        let number = inner.requests;
        inner.add(self.begun, Event::Begin { request: number, what: what.clone() });
        Begun { number, what }
    }

    /// Records its end.
    pub fn end(&self, begun: Begun, answer: Answer) {
        self.inner().add(self.begun, Event::End { request: begun.number, answer });
    }

    /// Records the end of a read that found these bytes.
    pub fn end_read(&self, begun: Begun, data: &[u8]) {
        let first = begun.what.first;
        let sectors = data.chunks(SECTOR as usize).zip(first..).map(|(bytes, n)| Found::of(DISK_NUMBER, n, bytes));
        let mut runs: Vec<(Found, u64)> = Vec::new();
        for found in sectors {
            match runs.last_mut() {
                Some((last, count)) if *last == found => *count += 1,
                _ => runs.push((found, 1)),
            }
        }
        self.end(begun, Answer::Found(runs));
    }

    /// The first violation so far.
    pub fn violation(&self) -> Option<String> {
        self.inner().judge.violations.first().cloned()
    }
}

impl Request {
    /// What a write writes.
    pub fn bytes(&self) -> Vec<u8> {
        bytes(DISK_NUMBER, self.first, self.count, self.version)
    }
}

impl Inner {
    fn add(&mut self, begun: Instant, event: Event) {
        let line = Line { at_us: begun.elapsed().as_micros() as u64, event };
        let mut text = serde_json::to_string(&line).expect("events are plain data");
        text.push('\n');
        self.file.write_all(text.as_bytes()).expect("the file of the history can be written");
        self.judge.hear(&line);
    }
}

/// What is being judged.
#[derive(Debug, Default)]
pub struct Judge {
    model: Option<Model>,
    open: BTreeMap<u64, Open>,
    /// Changes that were left behind, and when they are over.
    left: VecDeque<(u64, Request)>,
    /// What no linearizable disk would have answered.
    pub violations: Vec<String>,
    /// What there was of each kind.
    pub tally: Tally,
}

#[derive(Debug)]
struct Open {
    what: Request,
    /// Of a read.
    reading: Option<Reading>,
}

impl Judge {
    /// Hears the next line.
    pub fn hear(&mut self, line: &Line) {
        self.tally.hear(line);
        while let (Some(model), Some((_, what))) =
            (self.model.as_mut(), self.left.pop_front_if(|(over_us, _)| *over_us <= line.at_us))
        {
            model.over(what.first, what.count, what.version);
        }
        if let Err(why) = self.weigh(line) {
            self.violations.push(format!("at {:.6} s: {why}", line.at_us as f64 / 1e6));
        }
    }

    fn weigh(&mut self, Line { at_us, event }: &Line) -> Outcome<()> {
        if let Event::Disk { sectors, .. } = event {
            self.model = Some(Model::new(DISK_NUMBER, sectors * SECTOR));
            return Ok(());
        }
        let model = self.model.as_mut().ok_or("no history: it does not begin with its disk")?;
        match event {
            Event::Begin { request, what } => {
                let reading = match what.kind {
                    Kind::Read => Some(model.begin_read(what.first, what.count)),
                    kind => {
                        let version = model.begin(what.first, what.count, kind == Kind::Zeroes);
                        if version != what.version {
                            return Err(format!("change {version} says that it is {}", what.version));
                        }
                        None
                    }
                };
                self.open.insert(*request, Open { what: what.clone(), reading });
                Ok(())
            }
            Event::End { request, answer } => {
                let open = self.open.remove(request).ok_or_else(|| format!("request {request} ends twice"))?;
                if open.reading.is_none() && *answer != Answer::Done {
                    self.left.push_back((at_us + OVER_AFTER_US, open.what.clone()));
                }
                end(model, &open, answer).map_err(|why| {
                    let Request { client, host, over, .. } = &open.what;
                    format!("request {request} of client {client} at h{host} over {over:?}: {why}")
                })
            }
            Event::Disk { .. } | Event::Fault { .. } | Event::Healed | Event::Healthy => Ok(()),
        }
    }
}

fn end(model: &mut Model, Open { what, reading }: &Open, answer: &Answer) -> Outcome<()> {
    let Request { first, count, version, .. } = *what;
    match (answer, reading) {
        (Answer::Unknown(_) | Answer::Refused(_), None) => model.unknown(first, count, version),
        (Answer::Done, None) => model.acked(first, count, version),
        (Answer::Unknown(_) | Answer::Refused(_), Some(reading)) => return model.end_read(reading, None),
        (Answer::Found(runs), Some(reading)) => {
            let found = runs.iter().flat_map(|(found, count)| (0..*count).map(|_| *found)).collect::<Vec<_>>();
            if found.len() as u64 != count {
                return Err(format!("a read of {count} sectors returned {}", found.len()));
            }
            return model.end_read_found(reading, Some(&found));
        }
        (answer, _) => return Err(format!("a {:?} was answered {answer:?}", what.kind)),
    }
    Ok(())
}

/// The lines of a written history.
///
/// # Errors
/// What cannot be read.
pub fn read(path: &Path) -> Outcome<Vec<Line>> {
    let file = File::open(path).map_err(|e| format!("cannot read {}: {e}", path.display()))?;
    let lines = BufReader::new(file).lines().enumerate().map(|(n, text)| {
        let text = text.map_err(|e| e.to_string())?;
        serde_json::from_str(&text).map_err(|e| format!("line {} of {}: {e}", n + 1, path.display()))
    });
    lines.collect()
}

/// Judges a history: replays it through the model.
pub fn judge<'a>(lines: impl IntoIterator<Item = &'a Line>) -> Judge {
    let mut judge = Judge::default();
    lines.into_iter().for_each(|line| judge.hear(line));
    judge
}

/// Acknowledged writes of a sector behind which the first of them is certainly over: more than clients that could still be at it.
const WRITES_OVER: usize = 32;

/// Spoils a history as a disk would that gives back what was overwritten: the last read of a sector that was written often
/// returns its first acknowledged write. The judge must object. False where no sector was written often and read then.
pub fn put_in_a_stale_read(lines: &mut [Line]) -> bool {
    let mut acked: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    let mut begun: BTreeMap<u64, &Request> = BTreeMap::new();
    let mut stale: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
    let mut last = None;
    for (n, line) in lines.iter().enumerate() {
        match &line.event {
            Event::Begin { request, what } => {
                begun.insert(*request, what);
                let over =
                    |s: u64| acked.get(&s).filter(|all| all.len() > WRITES_OVER).map(|all| (s - what.first, all[0]));
                if let Some(found) = (what.first..what.first + what.count).find_map(over) {
                    stale.insert(*request, found);
                }
            }
            Event::End { request, answer: Answer::Done } if begun[request].kind == Kind::Write => {
                let what = begun[request];
                (what.first..what.first + what.count).for_each(|s| acked.entry(s).or_default().push(what.version));
            }
            Event::End { request, answer: Answer::Found(_) } if stale.contains_key(request) => {
                last = Some((n, *request))
            }
            _ => {}
        }
    }
    let Some((at, request)) = last else { return false };
    let (index, version) = stale[&request];
    if let Event::End { answer: Answer::Found(runs), .. } = &mut lines[at].event {
        let mut found: Vec<_> = runs.iter().flat_map(|(found, count)| (0..*count).map(|_| (*found, 1))).collect();
        found[index as usize].0 = Found::Version(version);
        *runs = found;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One client after the other, each with one sector: `(kind, answer)`.
    fn history(requests: &[(Kind, Answer)]) -> Vec<Line> {
        let mut lines = vec![Event::Disk { sectors: 8, seed: 0 }];
        let mut versions = 0;
        for (n, (kind, answer)) in requests.iter().enumerate() {
            versions += u64::from(*kind != Kind::Read);
            let version = if *kind == Kind::Read { 0 } else { versions };
            let (request, client, host, over) = (n as u64 + 1, n as u64 % 3, 1, Over::Unix);
            let what = Request { client, host, over, kind: *kind, first: 3, count: 1, version };
            lines.push(Event::Begin { request, what });
            lines.push(Event::End { request, answer: answer.clone() });
        }
        lines.into_iter().enumerate().map(|(n, event)| Line { at_us: n as u64, event }).collect()
    }

    fn found(what: Found) -> (Kind, Answer) {
        (Kind::Read, Answer::Found(vec![(what, 1)]))
    }

    #[test]
    fn what_nobody_may_have_read_is_found() {
        let (write, zero) = ((Kind::Write, Answer::Done), (Kind::Zeroes, Answer::Done));
        let lost = (Kind::Write, Answer::Unknown("gone".into()));
        let version = |n| found(Found::Version(n));
        let cases = [
            ("the last write", vec![write.clone(), write.clone(), version(2)], true),
            ("the write before", vec![write.clone(), write.clone(), version(1)], false),
            ("what was there at first", vec![write.clone(), found(Found::Zeroes)], false),
            ("zeroes that were written", vec![write.clone(), zero.clone(), found(Found::Zeroes)], true),
            ("what was zeroed", vec![write.clone(), zero, version(1)], false),
            ("a write without an answer, late", vec![lost.clone(), write.clone(), version(2), version(1)], true),
            ("and then not any more", vec![lost.clone(), write.clone(), version(1), version(2)], false),
            ("and then again", vec![write.clone(), lost, version(2), version(1)], false),
            ("bytes from elsewhere", vec![write, found(Found::Strange { sector: 4, version: 1 })], false),
        ];
        for (name, requests, fine) in cases {
            let violations = judge(&history(&requests)).violations;
            assert_eq!(violations.is_empty(), fine, "{name}: {violations:?}");
        }
    }

    #[test]
    fn a_write_that_was_left_behind_comes_late_but_not_for_ever() {
        let lost = (Kind::Write, Answer::Unknown("gone".into()));
        let requests = [lost, (Kind::Write, Answer::Done), found(Found::Version(1))];
        for (seconds, fine) in [(4, true), (6, false)] {
            let mut lines = history(&requests);
            lines[3..].iter_mut().for_each(|line| line.at_us += seconds * 1_000_000);
            assert_eq!(judge(&lines).violations.is_empty(), fine, "{seconds} s");
        }
    }

    #[test]
    fn a_stale_read_put_into_a_good_history_is_found() {
        let writes = (1..=40).flat_map(|n| [(Kind::Write, Answer::Done), found(Found::Version(n))]);
        let mut lines = history(&writes.collect::<Vec<_>>());
        assert!(judge(&lines).violations.is_empty());
        assert!(put_in_a_stale_read(&mut lines), "a sector was written often");
        let violations = judge(&lines).violations;
        assert!(violations.len() == 1 && violations[0].contains("version 1; writes:"), "{violations:?}");
    }

    #[test]
    fn a_history_is_the_same_when_it_is_read_again() {
        let folder = std::env::temp_dir().join(format!("cairn-history-{}", std::process::id()));
        let recorder = Recorder::new(folder.clone(), 1 << 20, 9).expect("a file");
        let ask = |kind, count| Request { client: 1, host: 2, over: Over::Tcp, kind, first: 1, count, version: 0 };
        let write = recorder.begin(ask(Kind::Write, 2));
        let data = write.what.bytes();
        recorder.end(write, Answer::Done);
        recorder.note(Event::Fault { what: cairn_faults::What::Cut { a: 0, b: 1 }, for_ms: 300 });
        let read = recorder.begin(ask(Kind::Read, 3));
        recorder.end_read(read, &[data.clone(), vec![0; 512]].concat());
        let read = recorder.begin(ask(Kind::Read, 2));
        recorder.end_read(read, &[&data[512..], &data[..512]].concat());
        let lines = self::read(&folder).expect("what was written");
        std::fs::remove_file(&folder).expect("it was there");
        assert!(
            lines[5].event
                == Event::End { request: 2, answer: Answer::Found(vec![(Found::Version(1), 2), (Found::Zeroes, 1)]) }
        );
        let violations = judge(&lines).violations;
        assert_eq!(violations, recorder.inner().judge.violations);
        assert!(violations.len() == 1 && violations[0].contains("sector 2 version 1"), "{violations:?}");
    }
}
