//! fio's I/O logs, versions 2 and 3: requests in the order in which they were made, and when.
//!
//! Promises    a line that is not understood is an error that names it; nothing is left out in silence
//!             any bytes are a log or an error, never a panic                                          (tests/iolog.rs)
//!             a log costs 24 bytes a request, in steps of 1.5 MiB, and the names of its files
//! Assumes     times of version 3 and waits of version 2 are microseconds, as fio 3.33 writes them
//! Source      fio's HOWTO, "Trace file format v2" and "v3"
//! Not here    reading files, targets (`bench`); what was written: logs do not have it

use std::{collections::BTreeMap, fmt};

use crate::{error::FileError, error::suggestion, number::whole};

/// What a request does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Act {
    /// Reads.
    Read,
    /// Writes.
    Write,
    /// Gives space back.
    Trim,
    /// fsync.
    Sync,
    /// fdatasync.
    Datasync,
}

impl Act {
    /// All of them, in the order of [`Log::counts`].
    pub const ALL: [Self; 5] = [Self::Read, Self::Write, Self::Trim, Self::Sync, Self::Datasync];

    /// As logs write it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Trim => "trim",
            Self::Sync => "sync",
            Self::Datasync => "datasync",
        }
    }

    /// Whether data may be lost.
    pub const fn destroys(self) -> bool {
        matches!(self, Self::Write | Self::Trim)
    }

    /// Whether it asks for what was written to be stable, and names no bytes.
    pub const fn flushes(self) -> bool {
        matches!(self, Self::Sync | Self::Datasync)
    }
}

impl fmt::Display for Act {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One request of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timed {
    /// When it began, in microseconds since the log's first request did. Never before the request in front of it.
    pub due_us: u64,
    /// From this byte on; 0 for a flush.
    pub offset: u64,
    /// So many bytes; 0 for a flush.
    pub len_bytes: u32,
    /// Which of [`Log::files`].
    pub file: u16,
    /// What it does.
    pub act: Act,
}

const _: () = assert!(size_of::<Timed>() == 24); // what docs/bench/replay.md says

/// A file of a log: what it asks a target to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogFile {
    /// Its name there.
    pub name: String,
    /// Requests of it.
    pub requests: u64,
    /// Reads and writes among them.
    pub data_requests: u64,
    /// Bytes that its target must have, and the line that asks for the last of them.
    pub end: (u64, usize),
    /// The largest power of two that all its requests begin and end at multiples of, and the line that made it so.
    pub grain: (u64, usize),
    /// The first line that trims, and the first that flushes.
    pub needs: (Option<usize>, Option<usize>),
    /// The first line that writes or trims.
    pub destroys: Option<usize>,
}

/// Requests that lie together in memory: 1.5 MiB.
const BLOCK_REQUESTS: usize = 1 << 16;
/// Names of files in one log, at most.
const FILES_MAX: usize = u16::MAX as usize;
/// Ten million seconds: no log is longer.
const TIME_US_MAX: u64 = 10_000_000_000_000;
/// Bytes of a read or a write.
const DATA_BYTES_MAX: u64 = 32 << 20;

/// A whole log.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Log {
    /// Its version: 2 or 3.
    pub version: u32,
    /// In order of appearance; those without a request are left out.
    pub files: Vec<LogFile>,
    /// Requests of each kind, in the order of [`Act::ALL`].
    pub counts: [u64; 5],
    /// Requests whose time was before that of the line in front of them: they are due with that one.
    pub back_in_time: u64,
    /// The order of all requests.
    pub order: Order,
    /// Never moved as the log grows.
    blocks: Vec<Vec<Timed>>,
}

impl Log {
    /// In the log's order.
    pub fn requests(&self) -> impl Iterator<Item = &Timed> {
        self.blocks.iter().flatten()
    }

    /// How many.
    pub fn len(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// From the first request's begin to the last one's, in microseconds.
    pub fn time_us(&self) -> u64 {
        self.blocks.last().and_then(|block| block.last()).map_or(0, |last| last.due_us)
    }

    /// Whether data may be lost.
    pub fn destroys(&self) -> bool {
        self.files.iter().any(|file| file.destroys.is_some())
    }

    fn push(&mut self, timed: Timed) {
        if self.blocks.last().is_none_or(|block| block.len() == BLOCK_REQUESTS) {
            // The first one grows, so that a short log is short in memory.
            let room = if self.blocks.is_empty() { 0 } else { BLOCK_REQUESTS };
            self.blocks.push(Vec::with_capacity(room));
        }
        self.order.add(&timed);
        self.counts[timed.act as usize] += 1;
        if let Some(block) = self.blocks.last_mut() {
            block.push(timed);
        }
    }
}

/// A number for an order of requests: file, kind, offset and length of each, one after the other (FNV-1a, 64 bits). Times do not
/// change it. Good against mistakes, not against malice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Order(u64);

impl Default for Order {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Order {
    /// The next request.
    pub fn add(&mut self, timed: &Timed) {
        let words = [u64::from(timed.file) << 8 | timed.act as u64, timed.offset, u64::from(timed.len_bytes)];
        for byte in words.into_iter().flat_map(u64::to_le_bytes) {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// A log that is being read, line by line.
#[derive(Debug, Default)]
pub struct Reader {
    log: Log,
    line: usize,
    numbers: BTreeMap<String, u16>,
    /// Version 2: the sum of all waits. Version 3: the latest time. In microseconds.
    now_us: u64,
    /// When the first request began.
    first_us: Option<u64>,
}

/// Words of a line after a time, if it has one.
const ACTIONS: [&str; 9] = ["add", "open", "close", "read", "write", "trim", "sync", "datasync", "wait"];

impl Reader {
    /// The next line, without its end.
    ///
    /// # Errors
    /// It is not understood; the log is of no use then.
    pub fn line(&mut self, text: &str) -> Result<(), FileError> {
        self.line += 1;
        let wrong = |(keyword, why): (String, String)| FileError::new(self.line, keyword, why);
        if self.log.version == 0 {
            self.log.version = version(text).map_err(wrong)?;
            return Ok(());
        }
        let words = words(text).map_err(wrong)?;
        let line = self.line;
        self.take(&words).map_err(|why| {
            let timed = words.first().is_some_and(|word| self.log.version == 3 && whole(word).is_ok());
            let at = usize::from(timed) + 1;
            let keyword = words.get(at).or(words.first()).copied().unwrap_or("iolog");
            FileError::new(line, short(keyword), why)
        })
    }

    /// The log, when all lines were read.
    ///
    /// # Errors
    /// There is nothing in it.
    pub fn finish(mut self) -> Result<Log, FileError> {
        if self.log.version == 0 {
            return Err(FileError::new(0, "iolog", "an empty file: the first line says \"fio version 3 iolog\""));
        }
        if self.log.is_empty() {
            return Err(FileError::new(0, "iolog", "no request in it"));
        }
        // Names that are only added and opened, or only waited with, need no target.
        let mut numbers = Vec::with_capacity(self.log.files.len());
        let mut kept = 0;
        for file in &self.log.files {
            numbers.push(kept);
            kept += u16::from(file.requests > 0);
        }
        if usize::from(kept) < self.log.files.len() {
            self.log.files.retain(|file| file.requests > 0);
            self.log.order = Order::default();
            for timed in self.log.blocks.iter_mut().flatten() {
                timed.file = numbers[usize::from(timed.file)];
                self.log.order.add(timed);
            }
        }
        Ok(self.log)
    }

    fn take(&mut self, words: &[&str]) -> Result<(), String> {
        let words = match (self.log.version, words) {
            (_, []) => return Ok(()),
            (3, [time, rest @ ..]) => {
                let time = whole(time).map_err(|why| format!("{why}: a line begins with its time in microseconds"))?;
                self.at(time)?;
                rest
            }
            (_, all) => all,
        };
        let [name, action, numbers @ ..] = words else {
            return Err("a file's name and an action are missing".into());
        };
        let number = |at: usize, what: &str| match numbers.get(at) {
            Some(text) => whole(text),
            None => Err(format!("{what} is missing")),
        };
        let act = Act::ALL.into_iter().find(|act| act.name() == *action);
        match (act, *action) {
            (Some(act), _) if act.flushes() => self.request(name, act, 0, 0),
            (Some(act), _) if numbers.len() == 2 => self.request(name, act, number(0, "")?, number(1, "")?),
            (Some(_), _) => Err("takes an offset and a length, and nothing behind them".into()),
            (None, "add" | "open" | "close") => self.file(name).map(drop),
            (None, "wait") if self.log.version == 3 => Err("version 3 has times instead of waits".into()),
            (None, "wait") => self.at(self.now_us.saturating_add(number(0, "the time to wait, in microseconds,")?)),
            (None, word) => Err(format!("no action that is known{}", suggestion(&short(word), &ACTIONS))),
        }
    }

    /// What follows begins at `us`.
    fn at(&mut self, us: u64) -> Result<(), String> {
        if us > TIME_US_MAX {
            return Err(format!("{us} microseconds are more than ten million seconds"));
        }
        self.log.back_in_time += u64::from(us < self.now_us);
        self.now_us = self.now_us.max(us);
        Ok(())
    }

    fn file(&mut self, name: &str) -> Result<u16, String> {
        if let Some(number) = self.numbers.get(name) {
            return Ok(*number);
        }
        let number = self.log.files.len();
        if number >= FILES_MAX {
            return Err(format!("more than {FILES_MAX} files"));
        }
        self.numbers.insert(name.to_owned(), number as u16);
        self.log.files.push(LogFile {
            name: name.to_owned(),
            requests: 0,
            data_requests: 0,
            end: (0, 0),
            grain: (1 << 63, 0),
            needs: (None, None),
            destroys: None,
        });
        Ok(number as u16)
    }

    fn request(&mut self, name: &str, act: Act, offset: u64, len_bytes: u64) -> Result<(), String> {
        let max = if act == Act::Trim { u32::MAX.into() } else { DATA_BYTES_MAX };
        if !act.flushes() && !(1..=max).contains(&len_bytes) {
            return Err(format!("a request of {len_bytes} bytes: take 1 to {max}"));
        }
        let (number, line) = (self.file(name)?, self.line);
        let file = &mut self.log.files[usize::from(number)];
        file.requests += 1;
        if act.flushes() {
            file.needs.1.get_or_insert(line);
        } else {
            file.data_requests += u64::from(act != Act::Trim);
            let grain = 1 << (offset | len_bytes).trailing_zeros();
            if grain < file.grain.0 {
                file.grain = (grain, line);
            }
            // Both are 2^53 at most.
            if offset + len_bytes > file.end.0 {
                file.end = (offset + len_bytes, line);
            }
        }
        if act == Act::Trim {
            file.needs.0.get_or_insert(line);
        }
        if act.destroys() {
            file.destroys.get_or_insert(line);
        }
        let due_us = self.now_us - *self.first_us.get_or_insert(self.now_us);
        self.log.push(Timed { due_us, offset, len_bytes: len_bytes as u32, file: number, act });
        Ok(())
    }
}

/// A log that is there as one text.
///
/// # Errors
/// As [`Reader::line`] and [`Reader::finish`].
pub fn parse(text: &str) -> Result<Log, FileError> {
    let mut reader = Reader::default();
    text.lines().try_for_each(|line| reader.line(line))?;
    reader.finish()
}

/// Of the first line.
fn version(text: &str) -> Result<u32, (String, String)> {
    let words: Vec<&str> = text.trim_start_matches('\u{feff}').split_ascii_whitespace().take(5).collect();
    match words[..] {
        ["fio", "version", "2", "iolog"] => Ok(2),
        ["fio", "version", "3", "iolog"] => Ok(3),
        ["fio", "version", other, "iolog"] => {
            Err(("version".into(), format!("{}: versions 2 and 3 are read here", short(other))))
        }
        _ => {
            let why =
                "no log of fio: its first line says \"fio version 3 iolog\" (of a blktrace, blkparse and fio make one)";
            Err(("iolog".into(), why.into()))
        }
    }
}

/// At most a time, a name, an action and two numbers.
fn words(text: &str) -> Result<Vec<&str>, (String, String)> {
    let words: Vec<&str> = text.split_ascii_whitespace().take(6).collect();
    match words.len() {
        6.. => Err((short(words[5]), "more words than a line has; names have no blanks".into())),
        _ => Ok(words),
    }
}

/// So much of a word as an error shows.
fn short(word: &str) -> String {
    word.chars().take(40).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn short_of(log: &Log) -> Vec<(u64, u16, Act, u64, u32)> {
        log.requests().map(|t| (t.due_us, t.file, t.act, t.offset, t.len_bytes)).collect()
    }

    #[test]
    fn version_3_has_times() {
        let log = parse(
            "fio version 3 iolog\n5 unused add\n7 a add\n7 b add\n8 a open\n100 b write 4096 8192\n\
             150 a read 512 1024\n160 b sync 4096 0\n155 a trim 0 1048576\n200 a datasync\n210 a close\n",
        );
        let log = log.unwrap();
        let expected = [
            (0, 1, Act::Write, 4096, 8192),
            (50, 0, Act::Read, 512, 1024),
            (60, 1, Act::Sync, 0, 0),
            (60, 0, Act::Trim, 0, 1 << 20),
            (100, 0, Act::Datasync, 0, 0),
        ];
        assert_eq!(short_of(&log), expected);
        assert_eq!((log.time_us(), log.back_in_time, log.counts, log.len()), (100, 1, [1, 1, 1, 1, 1], 5));
        let [a, b] = &log.files[..] else { panic!("{:?}", log.files) };
        assert_eq!((a.name.as_str(), a.end, a.grain, a.needs), ("a", (1 << 20, 9), (512, 7), (Some(9), Some(10))));
        assert_eq!((b.name.as_str(), b.end, b.grain, b.destroys), ("b", (12288, 6), (4096, 6), Some(6)));
        assert!(log.destroys());
    }

    #[test]
    fn version_2_has_waits() {
        let log = parse(
            "fio version 2 iolog\r\n/dev/a add\r\n/dev/a open\r\n- wait 500 0\n/dev/a read 0 512\n/dev/a wait 250\n\
             /dev/a read 512 512\n/dev/a read 1024 512\n\n/dev/a wait 1\n/dev/a read 0 512\n",
        );
        let log = log.unwrap();
        assert_eq!(log.requests().map(|t| t.due_us).collect::<Vec<_>>(), [0, 250, 250, 251]);
        assert_eq!(log.files.iter().map(|f| f.name.as_str()).collect::<Vec<_>>(), ["/dev/a"]);
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        for (text, told) in [
            ("", "iolog: an empty file"),
            ("hello", "line 1: iolog: no log of fio"),
            ("fio version 1 iolog", "line 1: version: 1: versions 2 and 3"),
            ("fio version 3 iolog\n0 a add", "iolog: no request in it"),
            (
                "fio version 3 iolog\na read 0 512",
                "line 2: read: \"a\" is no whole number: a line begins with its time",
            ),
            ("fio version 3 iolog\n0 a raed 0 512", "line 2: raed: no action that is known (did you mean read?)"),
            ("fio version 3 iolog\n0 a wait 5", "line 2: wait: version 3 has times"),
            ("fio version 3 iolog\n0 a read 0", "line 2: read: takes an offset and a length"),
            ("fio version 3 iolog\n0 a read 0 0", "line 2: read: a request of 0 bytes"),
            (
                "fio version 3 iolog\n0 a write 0 67108864",
                "line 2: write: a request of 67108864 bytes: take 1 to 33554432",
            ),
            ("fio version 3 iolog\n0 a trim 0 4294967296", "line 2: trim: a request of 4294967296 bytes"),
            ("fio version 3 iolog\n0 a b read 0 512", "line 2: 512: more words"),
            ("fio version 3 iolog\n0 a sync_file_range 0 512", "line 2: sync_file_range: no action"),
            ("fio version 3 iolog\n99999999999999 a read 0 512", "ten million seconds"),
            ("fio version 2 iolog\na wait", "line 2: wait: the time to wait"),
            ("fio version 2 iolog\na", "line 2: a: a file's name and an action"),
        ] {
            let why = parse(text).unwrap_err().to_string();
            assert!(why.contains(told), "{text:?}: {why}");
        }
    }

    #[test]
    fn an_order_is_that_of_kinds_places_and_files_and_not_of_times() {
        let order = |lines: &str| parse(&format!("fio version 3 iolog\n{lines}")).unwrap().order;
        let one = order("0 a read 0 512\n5 b write 512 512");
        assert_eq!(one, order("7 c read 0 512\n900 d write 512 512"));
        for other in [
            "0 b write 512 512\n5 a read 0 512",
            "0 a read 0 512\n5 a write 512 512",
            "0 a read 0 512\n5 b read 512 512",
            "0 a read 512 512\n5 b write 512 512",
            "0 a read 0 1024\n5 b write 512 512",
        ] {
            assert_ne!(one, order(other), "{other}");
        }
        assert_eq!(one, order("0 unused add\n0 a read 0 512\n5 b write 512 512"), "who has no request has no number");
    }
}
