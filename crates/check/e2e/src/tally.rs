//! What there was in a history: requests by kind and end, faults by kind, and how long clients stood still.
//!
//! Not here    whether the answers were right (`history`)

use std::{collections::BTreeMap, fmt, time::Duration};

use crate::event::{Answer, Event, Kind, Line};

/// A request without an answer for so long hangs: nothing that goes wrong lasts longer than 6 s, and a takeover some more.
pub const HANGS_AFTER: Duration = Duration::from_secs(40);

/// Counts and times of a history.
#[derive(Debug, Default)]
pub struct Tally {
    /// What the run was drawn from.
    pub seed: u64,
    /// By kind of request: answered, not answered.
    pub requests: BTreeMap<Kind, (u64, u64)>,
    /// Error numbers among what was not answered.
    pub refused: BTreeMap<u32, u64>,
    /// By kind of fault; `none` before the first.
    pub faults: BTreeMap<&'static str, Cycles>,
    /// Requests that hung: when they began, and what they were.
    pub hung: Vec<String>,
    /// The answered request that took longest.
    pub longest: Span,
    fault: Option<&'static str>,
    /// When the fault of now was over.
    healed: Option<u64>,
    last_answer: u64,
    /// Of each client.
    last_answers: BTreeMap<u64, u64>,
    open: BTreeMap<u64, (u64, Kind, u64)>,
}

/// A stretch of time.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span {
    /// Microseconds.
    pub us: u64,
    /// When it ended.
    pub end_us: u64,
}

/// Faults of one kind, and what clients saw from each one's beginning to the next one's.
#[derive(Debug, Default, Clone)]
pub struct Cycles {
    /// How many.
    pub count: u64,
    /// How long all lasted together.
    pub for_ms: u64,
    /// The longest time in which no client was answered.
    pub silence: Span,
    /// The longest time in which some client was not answered, wherever it went.
    pub client: Span,
    /// The longest time from a fault's end to full redundancy.
    pub healthy: Span,
}

impl Tally {
    /// Hears the next line.
    pub fn hear(&mut self, line: &Line) {
        let now = line.at_us;
        match &line.event {
            Event::Disk { seed, .. } => self.seed = *seed,
            Event::Begin { request, what } => {
                self.open.insert(*request, (now, what.kind, what.client));
                self.last_answers.entry(what.client).or_insert(now);
            }
            Event::End { request, answer } => self.end(now, *request, answer),
            Event::Fault { what, for_ms } => {
                self.fault = Some(what.kind());
                let cycles = self.cycles();
                (cycles.count, cycles.for_ms) = (cycles.count + 1, cycles.for_ms + for_ms);
            }
            Event::Healed => self.healed = Some(now),
            Event::Healthy => {
                if let Some(healed) = self.healed.take() {
                    let cycles = self.cycles();
                    cycles.healthy = cycles.healthy.max(Span { us: now - healed, end_us: now });
                }
            }
        }
    }

    fn cycles(&mut self) -> &mut Cycles {
        self.faults.entry(self.fault.unwrap_or("none")).or_default()
    }

    fn end(&mut self, now: u64, request: u64, answer: &Answer) {
        let Some((began, kind, client)) = self.open.remove(&request) else { return };
        let took = Span { us: now - began, end_us: now };
        if u128::from(took.us) >= HANGS_AFTER.as_micros() {
            self.hung.push(format!("{kind:?} {request} of client {client} at {} s: {answer:?}", began as f64 / 1e6));
        }
        let counts = self.requests.entry(kind).or_default();
        match answer {
            Answer::Done | Answer::Found(_) => counts.0 += 1,
            Answer::Refused(code) => {
                counts.1 += 1;
                *self.refused.entry(*code).or_default() += 1;
                return;
            }
            Answer::Unknown(_) => {
                counts.1 += 1;
                return;
            }
        }
        self.longest = self.longest.max(took);
        let silence = now - std::mem::replace(&mut self.last_answer, now);
        let alone = now - self.last_answers.insert(client, now).unwrap_or(now);
        let cycles = self.cycles();
        cycles.silence = cycles.silence.max(Span { us: silence, end_us: now });
        cycles.client = cycles.client.max(Span { us: alone, end_us: now });
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.2} s (at {:.0} s)", self.us as f64 / 1e6, self.end_us as f64 / 1e6)
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let faults = self.faults.iter().filter(|(_, c)| c.count > 0);
        let named = faults.clone().map(|(kind, c)| format!("{kind} {}", c.count)).collect::<Vec<_>>();
        let all: u64 = faults.clone().map(|(_, c)| c.count).sum();
        writeln!(f, "seed {}; {all} cycles: {}", self.seed, named.join(", "))?;
        let sum = self.requests.values().fold((0, 0), |all, one| (all.0 + one.0, all.1 + one.1));
        write!(f, "{} requests, {} without an answer:", sum.0 + sum.1, sum.1)?;
        for (kind, (answered, lost)) in &self.requests {
            write!(f, " {} {} + {lost}", format!("{kind:?}").to_lowercase(), answered)?;
        }
        let refused: u64 = self.refused.values().sum();
        writeln!(f, "\nlongest answered request {}; {} hung, {refused} error answers", self.longest, self.hung.len())?;
        writeln!(f, "| fault | cycles | mean length | longest silence of all | of one client | to full redundancy |")?;
        writeln!(f, "|---|---|---|---|---|---|")?;
        for (kind, c) in faults {
            let (mean, seconds) = (c.for_ms / c.count, |span: Span| span.us as f64 / 1e6);
            let (silence, client, healthy) = (seconds(c.silence), seconds(c.client), seconds(c.healthy));
            writeln!(f, "| {kind} | {} | {mean} ms | {silence:.2} s | {client:.2} s | {healthy:.2} s |", c.count)?;
        }
        Ok(())
    }
}
