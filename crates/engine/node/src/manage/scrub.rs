//! What administrators ask of scrubs, here and at other hosts, and what is told of them.
//!
//! Promises    every disk group that the directory knows is told of, also those that nobody can ask
//! Not here    the scrubs themselves (`crate::scrub`)

use cairn_api::{ApiError, ApiResult, Request as _, v1};
use cairn_directory::{CatalogueEntry, DiskGroupEntry};
use cairn_env::Env;
use cairn_geometry::Area;
use cairn_object::LocalStore;
use cairn_store::{BadBlocks, ScrubState};
use cairn_types::{BLOCK_BYTES, DiskGroupId, Feature, HostId};
use cairn_wire::{Api, HostAnswer, HostCommand};
use futures::future::join_all;

use crate::{adapter::GroupStore, node::Node};

/// Findings of a disk group that are listed, at most: all are counted.
const FINDINGS_MAX: usize = 100;

impl<E: Env> Node<E> {
    pub(crate) async fn scrub_list(&self) -> ApiResult<Vec<v1::Scrub>> {
        let hosts = self.hosts_to_ask(None, None)?;
        Ok(self.ask_scrubs(hosts, None, None).await)
    }

    pub(crate) async fn scrub(&self, request: v1::ScrubChange) -> ApiResult<Vec<v1::Scrub>> {
        request.validate()?;
        let hosts = self.hosts_to_ask(request.host.as_ref(), request.disk_group)?;
        self.check_is_on(Feature::Scrub, "a scrub")?;
        let scrubs = self.ask_scrubs(hosts, request.disk_group, Some(request.verb)).await;
        let silent = |scrub: &v1::Scrub| scrub.state == v1::ScrubState::Unreachable;
        match scrubs.first() {
            None => Err(ApiError::refused("there are no disk groups there").remedy("See `cairn disk-group list`")),
            Some(first) if scrubs.iter().all(silent) => {
                let why = first.reason.clone().unwrap_or_default();
                Err(ApiError::unavailable(format!("no disk group of those can be asked: {why}"))
                    .remedy("See `cairn health`"))
            }
            Some(_) => Ok(scrubs),
        }
    }

    /// By host and disk group.
    async fn ask_scrubs(
        &self,
        hosts: Vec<HostId>,
        only: Option<DiskGroupId>,
        verb: Option<v1::ScrubVerb>,
    ) -> Vec<v1::Scrub> {
        let ask = |host: HostId| async move {
            if host != self.me() && !self.level().has(Feature::Scrub) {
                return Err(ApiError::refused("it may be of a release without scrubs"));
            }
            self.on_host(host, HostCommand::Scrub { only, verb: verb.map(Api) }).await
        };
        let mut all = Vec::new();
        for (host, answer) in hosts.iter().zip(join_all(hosts.iter().map(|host| ask(*host))).await) {
            let why = match answer {
                Ok(HostAnswer::Scrubs(Api(scrubs))) => {
                    all.extend(scrubs);
                    continue;
                }
                Ok(_) => "its host answered something else".into(),
                Err(error) => error.message,
            };
            let entries = self.inner.copy.borrow().list::<DiskGroupEntry>();
            let meant = entries.iter().filter(|(id, entry)| entry.host == *host && only.is_none_or(|only| only == *id));
            all.extend(meant.map(|(id, _)| self.unseen_scrub(*id, *host, why.clone())));
        }
        all.sort_by(|a, b| (&a.host_name, a.disk_group).cmp(&(&b.host_name, b.disk_group)));
        all
    }

    fn unseen_scrub(&self, disk_group: DiskGroupId, host: HostId, reason: String) -> v1::Scrub {
        v1::Scrub {
            disk_group,
            host: self.server_of(host),
            host_name: self.server_name(host),
            state: v1::ScrubState::Unreachable,
            reason: Some(reason),
            pass: 0,
            at_once: false,
            begun_unix_ms: None,
            scrubbed_unix_ms: None,
            done_bytes: 0,
            total_bytes: 0,
            bytes_per_s: 0,
            eta_s: None,
            found_blocks: 0,
            repaired_blocks: 0,
            gone_blocks: 0,
            bad_blocks: 0,
            unrepairable_blocks: 0,
            differing_blocks: 0,
            findings: Vec::new(),
        }
    }

    /// What was asked of this host.
    pub(crate) fn scrub_here(&self, only: Option<DiskGroupId>, verb: Option<v1::ScrubVerb>) -> Vec<v1::Scrub> {
        let meant = |id: DiskGroupId| only.is_none_or(|only| only == id);
        let stores: Vec<_> = self.inner.seats.stores().into_iter().filter(|store| meant(store.disk_group())).collect();
        for group in stores.iter().map(GroupStore::group) {
            match verb {
                None => {}
                Some(v1::ScrubVerb::Start) => group.scrub_begin(true),
                Some(v1::ScrubVerb::Pause) => group.scrub_pause(true),
                Some(v1::ScrubVerb::Resume) => group.scrub_pause(false),
            }
        }
        if verb.is_some() {
            self.look_after_scrubs();
        }
        let mut all: Vec<v1::Scrub> = stores.iter().map(|store| self.scrub_of(store)).collect();
        for (id, closed) in self.inner.closed_groups.borrow().iter().filter(|(id, _)| meant(**id)) {
            all.push(self.unseen_scrub(*id, self.me(), closed.reason()));
        }
        all
    }

    fn scrub_of(&self, store: &GroupStore<E>) -> v1::Scrub {
        let (scrub, block) = (store.group().scrub_state(), u64::from(BLOCK_BYTES));
        let mut bad = store.group().bad_blocks();
        bad.sort_by_key(|bad| !bad.no_copy);
        let bad = bad.into_iter().flat_map(|bad| self.scrub_findings(store, bad, false)).take(FINDINGS_MAX);
        let differing = store.group().undecided_blocks().into_iter();
        let differing = differing.flat_map(|one| self.scrub_findings(store, one, true)).take(FINDINGS_MAX);
        let stopped = store.group().is_stopped();
        let state = match scrub {
            _ if stopped => v1::ScrubState::Unreachable,
            ScrubState { is_paused: true, .. } => v1::ScrubState::Paused,
            ScrubState { is_running: true, .. } => v1::ScrubState::Running,
            _ => v1::ScrubState::Waiting,
        };
        let bytes_per_s = if state == v1::ScrubState::Running { self.scrub_rate(store.disk_group()) } else { 0 };
        // What guests write meanwhile may be compared as well, what they trim may not.
        let done_bytes = scrub.compared_blocks.min(scrub.total_blocks) * block;
        let left = scrub.total_blocks * block - done_bytes;
        let when = |unix_ms: u64| (unix_ms > 0).then_some(unix_ms);
        v1::Scrub {
            state,
            reason: stopped.then(|| "the disk group takes no writes".into()),
            pass: scrub.pass,
            at_once: scrub.at_once,
            begun_unix_ms: when(scrub.begun_unix_ms),
            scrubbed_unix_ms: when(scrub.ended_unix_ms),
            done_bytes,
            total_bytes: scrub.total_blocks * block,
            bytes_per_s,
            eta_s: (bytes_per_s > 0).then(|| left.div_ceil(bytes_per_s)),
            found_blocks: scrub.found_blocks,
            repaired_blocks: scrub.repaired_blocks,
            gone_blocks: scrub.gone_blocks,
            bad_blocks: scrub.bad_blocks,
            unrepairable_blocks: scrub.no_copy_blocks,
            differing_blocks: scrub.undecided_blocks,
            findings: bad.chain(differing).collect(),
            ..self.unseen_scrub(store.disk_group(), self.me(), String::new())
        }
    }

    /// Where blocks of a copy are on their disk that are bad, or that another copy holds otherwise.
    fn scrub_findings(&self, store: &GroupStore<E>, bad: BadBlocks, differs: bool) -> Vec<v1::ScrubFinding> {
        let block = u64::from(BLOCK_BYTES);
        let record = self.inner.seats.record(store.disk_group(), bad.object).and_then(|record| record.accepted);
        let entry = self.inner.copy.borrow().get::<CatalogueEntry>(&bad.object);
        let ranges = record.and_then(|known| {
            let member = known.config.member(bad.component)?;
            let (set, index) = (member.set()?, member.copy()?);
            let area = Area::of_set(&known.config, set)?;
            // Whoever has parity tells what does not fit it. What parity lacks is named where data cannot be read for that.
            Some(match differs {
                true => area.columns_in_object(set, bad.range),
                false => area.held_in_object(set, index, bad.range),
            })
        });
        // No record names it: it counts within the copy.
        let ranges = ranges.unwrap_or_else(|| vec![bad.range]);
        let finding = |range: cairn_types::BlockRange| v1::ScrubFinding {
            disk: bad.object,
            disk_name: entry.as_ref().map(|entry| entry.name.as_str().to_owned()),
            component: bad.component,
            offset_bytes: range.first * block,
            len_bytes: u64::from(range.count) * block,
            unrepairable: bad.no_copy,
            differs,
        };
        ranges.into_iter().map(finding).collect()
    }
}
