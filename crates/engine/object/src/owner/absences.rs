//! For how long components of an object have been absent, as its owner counts: by its own running clock.
//!
//! Promises    the repair delay never depends on a clock of the day, nor on another host's clock
//! Assumes     a takeover begins the count again: a delay is lengthened by what the owner before had counted, never shortened

use std::{collections::BTreeMap, time::Duration};

use cairn_types::{ComponentId, ComponentState, ObjectConfig, Time};

/// When each absent component was first seen so.
#[derive(Debug, Default)]
pub(crate) struct Absences {
    since: BTreeMap<ComponentId, Time>,
}

impl Absences {
    /// Takes in the configuration that holds now.
    pub(crate) fn look(&mut self, config: &ObjectConfig, now: Time) {
        let is_absent = |state: ComponentState| matches!(state, ComponentState::Absent { .. });
        self.since.retain(|component, _| config.member(*component).is_some_and(|m| is_absent(m.state)));
        for member in config.members.iter().filter(|m| is_absent(m.state)) {
            self.since.entry(member.component).or_insert(now);
        }
    }

    /// For how long; zero for what is not absent.
    pub(crate) fn lasted(&self, component: ComponentId, now: Time) -> Duration {
        self.since.get(&component).map_or(Duration::ZERO, |since| now.since(*since))
    }

    /// All of them, in milliseconds.
    pub(crate) fn all_ms(&self, now: Time) -> Vec<(ComponentId, u64)> {
        self.since.iter().map(|(component, since)| (*component, now.since(*since).as_millis() as u64)).collect()
    }
}
