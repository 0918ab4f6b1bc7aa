//! Clearing the caches of disk groups, here and at other hosts.
//!
//! Promises    told to be clear only where all groups were in one and the same round: none has filled up behind the others
//! Not here    what is destaged and when a group is clear (`store`)

use std::{collections::BTreeMap, time::Duration};

use cairn_api::{ApiError, ApiResult, Request as _, v1};
use cairn_env::Env;
use cairn_object::LocalStore;
use cairn_store::StoreError;
use cairn_types::{DiskGroupId, HostId, format_bytes};
use cairn_wire::{Api, HostAnswer, HostCommand};
use futures::future::join_all;

use crate::{adapter::GroupStore, node::Node};

/// How long a host works on one round, at most. A call between hosts is given up after 10 s; progress is seen in between.
const ROUND: Duration = Duration::from_secs(2);

/// No round begins with less time than this: it would only show what guests wrote since the one before.
const ROUND_MIN: Duration = Duration::from_millis(100);

/// What there is of every group that is meant.
type Found = BTreeMap<DiskGroupId, v1::DiskGroupCache>;

impl<E: Env> Node<E> {
    pub(crate) async fn caches_clear(&self, request: v1::CacheClear) -> ApiResult<v1::CachesCleared> {
        request.validate()?;
        let hosts = self.hosts_to_ask(request.host.as_ref(), request.disk_group)?;
        let env = &self.inner.env;
        let begin = env.now();
        let end = begin + Duration::from_secs(request.wait_s);
        let mut found = Found::new();
        loop {
            let wait = ROUND.min(end.since(env.now()));
            self.clear_round(&hosts, request.disk_group, wait, &mut found).await;
            let under_way = found.values().any(|group| group.state == v1::CacheState::NotDrained);
            if !under_way || env.now() + ROUND_MIN >= end {
                break;
            }
        }
        let mut groups: Vec<v1::DiskGroupCache> = found.into_values().collect();
        if groups.is_empty() {
            return Err(ApiError::refused("there are no disk groups there").remedy("See `cairn disk-group list`"));
        }
        groups.sort_by(|a, b| (&a.host_name, a.id).cmp(&(&b.host_name, b.id)));
        let elapsed_ms = env.now().since(begin).as_millis() as u64;
        Ok(v1::CachesCleared::judge(groups, request.disk_group.is_some(), elapsed_ms))
    }

    /// One round at all hosts at once: `found` becomes what they say now, with what they did added up.
    async fn clear_round(&self, hosts: &[HostId], only: Option<DiskGroupId>, wait: Duration, found: &mut Found) {
        let wait_ms = wait.as_millis() as u64;
        let asked = hosts.iter().map(|host| self.on_host(*host, HostCommand::ClearCaches { only, wait_ms }));
        for (host, answer) in hosts.iter().zip(join_all(asked).await) {
            let groups = match answer {
                Ok(HostAnswer::Cleared(Api(groups))) => groups,
                Ok(_) => self.silent_groups(*host, only, "its host answered something else"),
                Err(error) => self.silent_groups(*host, only, &error.message),
            };
            for mut group in groups {
                if let Some(before) = found.get(&group.id) {
                    group.destaged_bytes += before.destaged_bytes;
                    group.read_cache_bytes += before.read_cache_bytes;
                }
                found.insert(group.id, group);
            }
        }
    }

    fn silent_groups(&self, host: HostId, only: Option<DiskGroupId>, why: &str) -> Vec<v1::DiskGroupCache> {
        let entries = self.inner.copy.borrow().disk_groups();
        let meant = entries.iter().filter(|(id, entry)| entry.host == host && only.is_none_or(|only| only == *id));
        meant.map(|(id, _)| self.group_cache(*id, host, v1::CacheState::Unreachable, Some(why.to_owned()))).collect()
    }

    fn group_cache(
        &self,
        id: DiskGroupId,
        host: HostId,
        state: v1::CacheState,
        reason: Option<String>,
    ) -> v1::DiskGroupCache {
        v1::DiskGroupCache {
            id,
            host: self.server_of(host),
            host_name: self.server_name(host),
            state,
            reason,
            log_bytes: 0,
            dirty_bytes: 0,
            destaged_bytes: 0,
            read_cache_bytes: 0,
        }
    }

    /// This host's part of a round.
    pub(crate) async fn clear_here(&self, only: Option<DiskGroupId>, wait_ms: u64) -> Vec<v1::DiskGroupCache> {
        let wait = Duration::from_millis(wait_ms).min(ROUND);
        let meant = |id: DiskGroupId| only.is_none_or(|only| only == id);
        let stores = self.inner.seats.stores().into_iter().filter(|store| meant(store.disk_group()));
        let cleared = stores.map(|store| async move {
            let cleared = store.group().clear_caches(wait).await;
            self.judge_group(&store, cleared)
        });
        let mut groups = join_all(cleared).await;
        if only.is_none() {
            self.inner.objects.forget_parents();
        }
        for (id, closed) in self.inner.closed_groups.borrow().iter().filter(|(id, _)| meant(**id)) {
            groups.push(self.group_cache(*id, self.me(), v1::CacheState::Failed, Some(closed.reason())));
        }
        groups
    }

    fn judge_group(
        &self,
        store: &GroupStore<E>,
        cleared: Result<cairn_store::Cleared, StoreError>,
    ) -> v1::DiskGroupCache {
        let (id, host) = (store.disk_group(), self.me());
        let told = match cleared {
            Ok(told) => told,
            Err(error) => {
                let stats = store.group().stats();
                let failed = self.group_cache(id, host, v1::CacheState::Failed, Some(error.to_string()));
                return v1::DiskGroupCache { log_bytes: stats.log_bytes, dirty_bytes: stats.log_used_bytes, ..failed };
            }
        };
        let state = if told.clear { v1::CacheState::Clear } else { v1::CacheState::NotDrained };
        let reason = (!told.clear).then(|| {
            let (dirty, log) = (format_bytes(told.dirty_bytes), format_bytes(told.log_bytes));
            format!("{dirty} of {log} are not destaged")
        });
        v1::DiskGroupCache {
            log_bytes: told.log_bytes,
            dirty_bytes: told.dirty_bytes,
            destaged_bytes: told.destaged_bytes,
            read_cache_bytes: told.read_cache_bytes,
            ..self.group_cache(id, host, state, reason)
        }
    }
}
