//! Disk groups that are not open: why, and the tries to open them, as long as this host runs.
//!
//! Promises    a disk group that did not open is tried again, first after a second and at last every ten
//!             without one of its capacity devices it is opened after [`OPEN_AGAIN_AFTER`]: only what was on that is lost
//!             a capacity device that comes later is taken back with its space; what was on it stays lost

use std::time::Duration;

use cairn_api::v1;
use cairn_env::Env;
use cairn_store::{DiskGroup, Expect, Occupant};
use cairn_types::{DiskGroupId, Time};

use super::devices::{Arranged, Seen, arrange};
use crate::{
    closed_group::{ClosedGroup, NotOpen, WhyClosed},
    node::Node,
    outside::{DeviceErrorKind, GroupPaths},
};

/// When a disk group is opened again within one try: a lock that is given up, a device that answers an error once.
const OPEN_AGAIN_AFTER: [Duration; 3] =
    [Duration::from_millis(100), Duration::from_millis(400), Duration::from_millis(1600)];
/// How long after the first try the next one is; it doubles up to the longest.
const RETRY_FIRST: Duration = Duration::from_secs(1);
/// The longest. A try opens some devices and reads a few blocks.
pub(super) const RETRY_MAX: Duration = Duration::from_secs(10);

/// Files are filled by each try to make them: those are seldom.
const FILES_RETRY_MAX: Duration = Duration::from_secs(300);

fn pause_after(tries: u32, makes_files: bool) -> Duration {
    let longest = if makes_files { FILES_RETRY_MAX } else { RETRY_MAX };
    RETRY_FIRST.saturating_mul(1 << tries.min(16)).min(longest)
}

impl<E: Env> Node<E> {
    /// Opens the disk groups that this host had when it last ran. Those that do not open are tried again.
    pub(crate) async fn open_groups(&self, groups: Vec<GroupPaths>) {
        let ids: Vec<DiskGroupId> = groups.iter().map(|paths| paths.disk_group).collect();
        for paths in groups {
            self.inner.closed_groups.borrow_mut().insert(paths.disk_group, ClosedGroup::untried(paths));
        }
        for id in ids {
            self.open_closed(id).await;
        }
        self.try_again();
    }

    /// One try to open a closed disk group, with some patience.
    async fn open_closed(&self, id: DiskGroupId) {
        let Some(paths) = self.inner.closed_groups.borrow().get(&id).map(|group| group.paths.clone()) else { return };
        let mut pauses = OPEN_AGAIN_AFTER.into_iter();
        let failed = loop {
            let pause = pauses.next();
            match self.open_group(&paths, pause.is_none()).await {
                // Given up meanwhile.
                Ok((_, group)) if !self.inner.closed_groups.borrow().contains_key(&id) => return group.close().await,
                Ok((present, group)) => {
                    self.serve_group(present.clone(), group.clone());
                    if present != paths {
                        self.note_names(present, group);
                    }
                    return;
                }
                Err(failed) => match pause {
                    Some(pause) if failed.may_pass() => self.inner.env.sleep(pause).await,
                    _ => break failed,
                },
            }
        };
        self.note_closed(paths, None, failed);
    }

    /// Remembers that a disk group is not open, and says so where that is news.
    pub(super) fn note_closed(&self, paths: GroupPaths, wanted: Option<v1::DiskGroupCreate>, failed: NotOpen) {
        let inner = &self.inner;
        let mut closed = inner.closed_groups.borrow_mut();
        let group = closed.entry(paths.disk_group).or_insert_with(|| ClosedGroup::untried(paths.clone()));
        let NotOpen { why, text } = failed;
        if group.text != text {
            let what = match &wanted {
                Some(wanted) => format!("the disk group on {} cannot be made", wanted.cache),
                None => format!("disk group {} does not open", paths.disk_group),
            };
            inner.outside.warn(format!("{what}: {text}; it is tried again"));
        }
        let makes_files = wanted.as_ref().is_some_and(|wanted| wanted.files.is_some());
        let next_try = inner.env.now() + pause_after(group.tries, makes_files);
        *group = ClosedGroup { paths, why, text, wanted, tries: group.tries.saturating_add(1), next_try };
    }

    /// Opens a disk group by what stands on its devices; the names that they have now. `without`: also where capacity devices
    /// are not there.
    pub(super) async fn open_group(
        &self,
        paths: &GroupPaths,
        without: bool,
    ) -> Result<(GroupPaths, DiskGroup<E>), NotOpen> {
        let (id, inner) = (paths.disk_group, &self.inner);
        let mut seen = self.look_at_all(paths.all()).await;
        let mut arranged = arrange(&seen, id);
        if arranged.as_ref().is_none_or(|found| !found.is_whole()) {
            seen.extend(self.look_at_others(&seen).await);
            arranged = arrange(&seen, id);
        }
        if arranged.as_ref().is_none_or(|found| !found.is_whole()) {
            seen.extend(self.look_everywhere(id, &seen).await);
            arranged = arrange(&seen, id);
        }
        let arranged = arranged.ok_or_else(|| no_cache(&seen, paths))?;
        let lacking = lacking(&seen, &arranged, id, without)?;
        // What is not used is given free before anything else is done.
        drop(seen);
        let before: Vec<String> = paths.all().cloned().collect();
        let mut present = arranged.paths(&before);
        present.asked = paths.asked.clone();
        let expect = Expect { cluster: inner.options.cluster, host: self.me(), disk_group: Some(id) };
        let capacity = arranged.capacity.into_iter().map(|found| found.map(|(_, disk)| disk)).collect();
        let cache = arranged.cache.1;
        let options = self.store_options();
        let group = DiskGroup::open_without(inner.env.clone(), cache, capacity, expect, &options).await?;
        if let Some(lacking) = lacking {
            inner.outside.warn(format!(
                "disk group {id} is open without a capacity device, and what was on that is lost: {lacking}"
            ));
        }
        let names = |paths: &GroupPaths| paths.all().cloned().collect::<Vec<_>>().join(", ");
        let (were, are) = (names(paths), names(&present));
        if were != are {
            inner
                .outside
                .warn(format!("disk group {id} opens: its devices were {were}, by their superblocks they are {are}"));
        }
        Ok((self.called_stably(present).await, group))
    }

    /// The same devices under the names that they have at every start.
    async fn called_stably(&self, paths: GroupPaths) -> GroupPaths {
        let stable = self.stable_paths(paths.all()).await;
        let asked = paths.all().filter(|path| !stable.contains(path) && !paths.asked.contains(path)).cloned();
        let asked = paths.asked.iter().cloned().chain(asked.collect::<Vec<_>>()).collect();
        GroupPaths { cache: stable[0].clone(), capacity: stable[1..].to_vec(), asked, ..paths }
    }

    /// Keeps new names of devices, here and in the directory, where they are hints.
    fn note_names(&self, paths: GroupPaths, group: DiskGroup<E>) {
        let node = self.clone();
        self.inner.env.spawn(async move {
            let kept = node.save_groups();
            let entered = node.enter_group(&paths, &group).await;
            if let Err(error) = kept.and(entered) {
                node.inner.outside.warn(format!("new names of devices cannot be kept: {error}"));
            }
        });
    }

    /// Devices under the names of other disk groups that are not open, those that the configuration asks for among them: names may be
    /// exchanged between them, and all be new where a data directory was moved.
    async fn look_at_others(&self, seen: &[Seen<E::Disk>]) -> Vec<Seen<E::Disk>> {
        let others: Vec<String> = {
            let closed = self.inner.closed_groups.borrow();
            let all = closed.values().flat_map(|group| group.paths.all());
            all.filter(|path| !seen.iter().any(|seen| seen.path == **path)).cloned().collect()
        };
        self.look_at_all(others.iter()).await
    }

    /// Starts the tries where there is anything to try, and nobody does.
    pub(super) fn try_again(&self) {
        if self.next_try().is_none() || self.inner.trying.replace(true) {
            return;
        }
        let node = self.clone();
        self.inner.env.spawn(async move {
            while let Some((id, at)) = node.next_try().filter(|_| !node.inner.stopping.get()) {
                node.inner.env.sleep_until(at).await;
                if node.inner.stopping.get() {
                    break;
                }
                node.try_once(id).await;
            }
            node.inner.trying.set(false);
        });
    }

    /// The disk group that is to be tried next, and when.
    fn next_try(&self) -> Option<(DiskGroupId, Time)> {
        let closed = self.inner.closed_groups.borrow();
        let closed = closed.iter().map(|(id, group)| (*id, group.next_try));
        let lacking = self.inner.lacking_groups.borrow();
        closed.chain(lacking.iter().map(|(id, at)| (*id, *at))).min_by_key(|(id, at)| (*at, *id))
    }

    async fn try_once(&self, id: DiskGroupId) {
        let wanted = self.inner.closed_groups.borrow().get(&id).map(|group| group.wanted.clone());
        match wanted {
            Some(None) => self.open_closed(id).await,
            Some(Some(wanted)) => self.have_wanted(id, wanted).await,
            None => self.reopen_with_returned(id).await,
        }
        if self.inner.seats.has(id) {
            // Its copies are here again: owners here look at once, others hear of it with the next heartbeat.
            self.peers_changed();
            self.inner.objects.wake();
        }
    }

    /// Looks for capacity devices that an open disk group was opened without; opens it again with them.
    async fn reopen_with_returned(&self, id: DiskGroupId) {
        let inner = &self.inner;
        let lacking = inner.seats.store(id).map(|store| store.group().missing()).unwrap_or_default();
        let paths = inner.groups.borrow().get(&id).cloned();
        let (Some(paths), false) = (paths, lacking.is_empty()) else {
            inner.lacking_groups.borrow_mut().remove(&id);
            return;
        };
        let mut back = false;
        for (path, device) in paths.all().zip(&paths.devices).filter(|(_, device)| lacking.contains(device)) {
            let seen = self.look_at(path).await;
            back |= seen.superblock().is_some_and(|found| found.device == *device && found.disk_group == id);
        }
        if !back {
            let elsewhere = self.look_everywhere(id, &[]).await;
            back = elsewhere.iter().filter_map(Seen::superblock).any(|found| lacking.contains(&found.device));
        }
        if !back {
            inner.lacking_groups.borrow_mut().insert(id, inner.env.now() + RETRY_MAX);
            return;
        }
        inner.outside.warn(format!("a capacity device of disk group {id} is back: the group is opened again with it"));
        let Some(store) = inner.seats.store(id) else { return };
        inner.lacking_groups.borrow_mut().remove(&id);
        inner.seats.remove_disk_group(id);
        inner.groups.borrow_mut().remove(&id);
        inner.closed_groups.borrow_mut().insert(id, ClosedGroup::untried(paths));
        store.group().close().await;
        // Its devices are free when the last handle is gone; requests under way have some.
        drop(store);
        self.open_closed(id).await;
    }
}

/// Why the cache device of a group is not among those seen.
fn no_cache<D>(seen: &[Seen<D>], paths: &GroupPaths) -> NotOpen {
    let cache = seen.iter().find(|seen| seen.path == paths.cache);
    let kind = cache.and_then(|seen| seen.found.as_ref().err()).map(|error| error.kind);
    // Its cache device may be under any of its names.
    let in_use = seen.iter().any(|seen| matches!(&seen.found, Err(error) if error.kind == DeviceErrorKind::InUse));
    let (why, remedy) = match (kind, cache.map(|seen| &seen.found)) {
        _ if in_use => (WhyClosed::InUse, "stop what uses it"),
        (Some(DeviceErrorKind::Gone), _) => {
            (WhyClosed::Gone, "connect it again; without its cache device the group is lost")
        }
        (Some(_), _) => (WhyClosed::Media, "see why the system refuses it"),
        (None, Some(Ok((_, Occupant::Newer(_))))) => (WhyClosed::Newer, "start that release, or a later one"),
        (None, Some(Ok((_, Occupant::Damaged(_) | Occupant::Unread(_))))) => {
            (WhyClosed::Damaged, "replace the device; its disk group is lost")
        }
        _ => (WhyClosed::Foreign, "give the right device; without its cache device the group is lost"),
    };
    let complaints: Vec<String> = match cache {
        Some(cache) if !in_use => vec![cache.complaint(paths.disk_group)],
        _ => seen.iter().filter(|seen| seen.found.is_err()).map(|seen| seen.complaint(paths.disk_group)).collect(),
    };
    NotOpen { why, text: format!("its cache device is not found, {}: {remedy}", complaints.join("; ")) }
}

/// What an open is to do without, in words; an error where it is not to be opened so.
fn lacking<D>(
    seen: &[Seen<D>],
    arranged: &Arranged<D>,
    id: DiskGroupId,
    without: bool,
) -> Result<Option<String>, NotOpen> {
    if arranged.is_whole() {
        return Ok(None);
    }
    let strays: Vec<&Seen<D>> = seen.iter().filter(|seen| !arranged.has(&seen.path)).collect();
    let kind = |seen: &&Seen<D>| seen.found.as_ref().err().map(|error| error.kind);
    let complaints: Vec<String> = strays.iter().map(|seen| seen.complaint(id)).collect();
    let text = format!("a capacity device is not found, {}", complaints.join("; "));
    if strays.iter().any(|seen| kind(seen) == Some(DeviceErrorKind::InUse)) {
        return Err(NotOpen { why: WhyClosed::InUse, text: format!("{text}: stop what uses it") });
    }
    // With all of them away it is rather a shelf or a cable than each device: nothing is given up for that.
    let none = arranged.capacity.iter().all(Option::is_none);
    let all_gone = none && strays.iter().all(|seen| kind(seen) == Some(DeviceErrorKind::Gone));
    if !without || all_gone {
        return Err(NotOpen { why: WhyClosed::Gone, text: format!("{text}: connect it again") });
    }
    Ok(Some(text))
}
