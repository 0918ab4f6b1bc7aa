//! What checks found while nobody asked: one host looks now and then, and writes what begins and ends.
//!
//! Promises    a cluster in which nothing changes writes nothing; what is muted is written all the same
//! Assumes     hosts that are cut off from each other may look at once: each writes only what the directory does not have yet
//! Not here    when a time begins and ends (`cairn_directory::HealthHistoryEntry`)

use std::time::Duration;

use cairn_api::{ApiResult, v1};
use cairn_directory::{DirectoryError, Found, HealthHistoryEntry, names::Name};
use cairn_env::Env;
use cairn_types::Feature;

use super::CHECKS;
use crate::node::Node;

/// How often the host that looks does. Each look asks every host once.
const LOOK_EVERY: Duration = Duration::from_secs(60);

impl<E: Env> Node<E> {
    /// Looks for as long as the node lives, where it is this host's turn.
    pub(crate) async fn watch_health(&self) {
        while !self.inner.stopping.get() {
            self.inner.env.sleep(LOOK_EVERY).await;
            if self.level().has(Feature::Moves) && self.looks_for_all() {
                // Where the directory is away, the next look tells.
                let _ = self.note_health().await;
            }
        }
    }

    /// The first of the hosts that answer looks, and runs schedules: the first shard of it.
    pub(crate) fn looks_for_all(&self) -> bool {
        let servers = self.servers().into_iter();
        let up = servers.filter(|server| server.shards.iter().all(|shard| self.inner.rpc.is_up(*shard)));
        self.why_dismissed().is_none() && up.map(|server| server.id).min() == Some(self.me())
    }

    async fn note_health(&self) -> Result<(), DirectoryError> {
        let now = self.inner.env.unix_ms();
        for check in self.check_health().await.checks {
            let found = match check.severity {
                v1::Severity::Ok => None,
                v1::Severity::Warning => Some((Found::Warning, check.text.as_str())),
                v1::Severity::Error => Some((Found::Error, check.text.as_str())),
            };
            let name = key_of(&check.name);
            // The local copy tells in nearly all looks that there is nothing to write.
            if self.history_of(&name).after(found, now).is_some() {
                let update = self.inner.registry.update::<HealthHistoryEntry>(&name, |known| {
                    Ok(known.cloned().unwrap_or_default().after(found, now))
                });
                update.await?;
            }
        }
        Ok(())
    }

    fn history_of(&self, check: &Name) -> HealthHistoryEntry {
        self.inner.copy.borrow().get::<HealthHistoryEntry>(check).unwrap_or_default()
    }

    pub(crate) async fn health_history(&self) -> ApiResult<v1::HealthHistory> {
        let mut events = Vec::new();
        for check in CHECKS {
            events.extend(self.history_of(&key_of(check.name)).events.into_iter().map(|event| v1::HealthEvent {
                check: check.name.into(),
                severity: match event.found {
                    Found::Warning => v1::Severity::Warning,
                    Found::Error => v1::Severity::Error,
                },
                text: event.text,
                began_unix_ms: event.began_unix_ms,
                ended_unix_ms: event.ended_unix_ms,
            }));
        }
        events.sort_by(|a, b| (b.began_unix_ms, &a.check).cmp(&(a.began_unix_ms, &b.check)));
        Ok(v1::HealthHistory { events })
    }
}

fn key_of(check: &str) -> Name {
    Name::new(check).expect("checks are named as keys are")
}
