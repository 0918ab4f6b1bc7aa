//! What a health check found so far: when each time began and ended.
//!
//! Promises    of a check that finds the same again and again, one entry a time is written, and none while nothing changes
//!             the newest [`EVENTS_MAX`] are kept: the directory does not grow with the years
//! Not here    the checks and who looks (engine/node)

use serde::{Deserialize, Serialize};

use crate::{entries::Entry, key::Kind, names::Name};

/// Times that are kept of a check.
pub const EVENTS_MAX: usize = 32;
/// What is found again within that time has not ended: the same fault that comes and goes is one time.
const AGAIN_WITHIN_MS: u64 = 10 * 60_000;
/// Bytes of the words that are kept of a time.
const TEXT_BYTES_MAX: usize = 400;

/// How bad a finding was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Found {
    /// It works, and somebody should look.
    Warning,
    /// Something does not work, or is about to be lost.
    Error,
}

/// A time during which a check found something.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HealthEvent {
    /// When it was seen first, by the clock of the host that looked, in ms since 1970.
    pub began_unix_ms: u64,
    /// When it was seen no more; none: it is so still.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_unix_ms: Option<u64>,
    /// How bad it was at worst.
    pub found: Found,
    /// What was found when it was worst.
    pub text: String,
}

/// All times of a check, the oldest first.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct HealthHistoryEntry {
    /// They.
    pub events: Vec<HealthEvent>,
}

impl Entry for HealthHistoryEntry {
    const KIND: Kind = Kind::HealthHistory;
    type Id = Name;
}

impl HealthHistoryEntry {
    /// The history once a check has said this; none where it says nothing new. `found`: none where all is well.
    pub fn after(&self, found: Option<(Found, &str)>, now_unix_ms: u64) -> Option<Self> {
        let mut next = self.clone();
        let recent = next
            .events
            .last_mut()
            .filter(|last| last.ended_unix_ms.is_none_or(|ended| now_unix_ms.saturating_sub(ended) < AGAIN_WITHIN_MS));
        match (found, recent) {
            (None, Some(last)) if last.ended_unix_ms.is_none() => last.ended_unix_ms = Some(now_unix_ms),
            (None, _) => return None,
            (Some((found, text)), Some(last)) => {
                let worse = found > last.found;
                if !worse && last.ended_unix_ms.is_none() {
                    return None;
                }
                last.ended_unix_ms = None;
                if worse {
                    (last.found, last.text) = (found, short(text));
                }
            }
            (Some((found, text)), None) => {
                next.events.push(HealthEvent {
                    began_unix_ms: now_unix_ms,
                    ended_unix_ms: None,
                    found,
                    text: short(text),
                });
                let too_many = next.events.len().saturating_sub(EVENTS_MAX);
                next.events.drain(..too_many);
            }
        }
        Some(next)
    }
}

fn short(text: &str) -> String {
    match text.char_indices().map(|(at, _)| at).find(|at| *at > TEXT_BYTES_MAX) {
        Some(end) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: u64 = 60_000;

    /// Goal: a time begins, grows worse, ends, and what flickers is one time. Method: a look a minute.
    #[test]
    fn times_begin_and_end() {
        let mut all = HealthHistoryEntry::default();
        let mut look = |minute: u64, found: Option<(Found, &str)>| {
            let next = all.after(found, minute * MINUTE);
            let told = next.is_some();
            all = next.unwrap_or_else(|| all.clone());
            (told, all.clone())
        };
        assert!(!look(0, None).0, "all is well");
        assert!(look(1, Some((Found::Warning, "a"))).0);
        assert!(!look(2, Some((Found::Warning, "a and b"))).0, "no worse than before");
        assert!(look(3, Some((Found::Error, "b"))).0);
        assert!(!look(4, Some((Found::Warning, "a"))).0, "the worst is kept");
        assert!(look(5, None).0);
        assert!(!look(6, None).0);
        let (_, seen) = look(9, Some((Found::Warning, "a")));
        assert_eq!(seen.events.len(), 1, "it came again: {seen:?}");
        assert_eq!(seen.events[0].ended_unix_ms, None);
        look(10, None);
        let (_, seen) = look(21, Some((Found::Warning, "c")));
        let told: Vec<_> = seen.events.iter().map(|e| (e.text.as_str(), e.found, e.ended_unix_ms)).collect();
        assert_eq!(told, [("b", Found::Error, Some(10 * MINUTE)), ("c", Found::Warning, None)]);
    }

    #[test]
    fn it_does_not_grow_for_ever() {
        let mut all = HealthHistoryEntry::default();
        for n in 0..100 {
            all = all.after(Some((Found::Warning, &"x".repeat(5000))), n * 60 * MINUTE).unwrap();
            all = all.after(None, n * 60 * MINUTE + MINUTE).unwrap();
        }
        assert_eq!(all.events.len(), EVENTS_MAX);
        assert!(serde_json::to_vec(&all).unwrap().len() < 20_000);
    }
}
