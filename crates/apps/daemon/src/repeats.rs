//! Events that repeat: the first few of a kind are written, the rest is counted, and the count is written.
//!
//! Promises    at most [`LINES_MAX`] lines of a kind within [`WINDOW`], then one that says how many more there were
//!             memory for [`KINDS_MAX`] kinds; what comes beyond that is told apart by its place in the code alone
//!             debug and trace are never held back: who turns them on wants every line
//! Assumes     somebody calls [`Limit::tell_due`] now and then, else the count waits for the next event of its kind
//!
//! It stands in front of the log itself, so that no place in the code has to think of it. A kind is the place in the code and
//! the fields in [`ABOUT`]: a thousand blocks of one disk are one kind, a thousand disks that change their owner are not.

use std::{
    collections::HashMap,
    fmt::{self, Write as _},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use tracing::{
    Event, Level, Metadata, Subscriber,
    callsite::Identifier,
    field::{Field, Visit},
};
use tracing_subscriber::layer::{Context, Filter};

/// Lines of one kind within a window. Enough to see a pattern, and a page of the log holds several kinds.
pub const LINES_MAX: u64 = 10;
/// How long lines are counted together: the count comes no later than this.
pub const WINDOW: Duration = Duration::from_secs(60);
/// Kinds that are remembered at once: a thousand disks may change their owner within a window, and each has its lines.
pub const KINDS_MAX: usize = 4096;
/// Fields that say of what an event is, and so belong to its kind.
const ABOUT: [&str; 6] = ["host", "disk", "component", "peer", "member", "ring"];
/// Where the counts come from: they are not counted themselves.
const TARGET: &str = "cairn_log_repeats";

type Kind = (Identifier, String);

struct Seen {
    began: Instant,
    count: u64,
    level: Level,
    /// Of the first that was held back.
    words: String,
}

/// What was held back of one kind.
struct More {
    level: Level,
    count: u64,
    about: String,
    words: String,
}

/// In front of a layer that writes. Clones share what they have seen.
#[derive(Clone, Default)]
pub struct Limit(Arc<Mutex<HashMap<Kind, Seen>>>);

impl Limit {
    fn kinds(&self) -> MutexGuard<'_, HashMap<Kind, Seen>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether this event is written.
    fn admits(&self, event: &Event<'_>, now: Instant) -> bool {
        let about = Metadata::callsite(event.metadata());
        let mut words = Words::default();
        event.record(&mut words);
        let mut kinds = self.kinds();
        let mut kind = (about, words.about);
        if kinds.len() >= KINDS_MAX && !kinds.contains_key(&kind) {
            kind.1.clear();
        }
        let level = *event.metadata().level();
        let seen = kinds.entry(kind).or_insert_with(|| Seen { began: now, count: 0, level, words: String::new() });
        if now.duration_since(seen.began) >= WINDOW && seen.count <= LINES_MAX {
            (seen.began, seen.count) = (now, 0);
        }
        seen.count += 1;
        if seen.count == LINES_MAX + 1 {
            seen.words = words.message;
        }
        seen.count <= LINES_MAX
    }

    /// Writes how many more there were of each kind whose window is over.
    pub fn tell_due(&self, now: Instant) {
        let mut due = Vec::new();
        self.kinds().retain(|(_, about), seen| {
            if now.duration_since(seen.began) < WINDOW {
                return true;
            }
            if seen.count > LINES_MAX {
                let (about, words) = (about.clone(), std::mem::take(&mut seen.words));
                due.push(More { level: seen.level, count: seen.count - LINES_MAX, about, words });
            }
            false
        });
        // Without the lock: each is an event by itself.
        for more in due {
            more.tell();
        }
    }
}

impl More {
    fn tell(&self) {
        let Self { count, about, words, .. } = self;
        let text = format!("and {count} more in {} s:{about} {words}", WINDOW.as_secs());
        match self.level {
            Level::ERROR => tracing::error!(target: TARGET, "{text}"),
            Level::WARN => tracing::warn!(target: TARGET, "{text}"),
            _ => tracing::info!(target: TARGET, "{text}"),
        }
    }
}

impl<S: Subscriber> Filter<S> for Limit {
    fn enabled(&self, _: &Metadata<'_>, _: &Context<'_, S>) -> bool {
        true
    }

    fn event_enabled(&self, event: &Event<'_>, _: &Context<'_, S>) -> bool {
        let of = event.metadata();
        *of.level() > Level::INFO || of.target() == TARGET || self.admits(event, Instant::now())
    }
}

/// What is read of an event.
#[derive(Default)]
struct Words {
    /// " disk=vm-1 component=..."
    about: String,
    message: String,
}

impl Visit for Words {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            let _ = write!(self.message, "{value:?}");
        } else if ABOUT.contains(&field.name()) {
            let _ = write!(self.about, " {}={value:?}", field.name());
        }
    }
}
