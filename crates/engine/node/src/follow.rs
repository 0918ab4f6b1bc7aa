//! The local copy of the directory: followed while it is there, used while it is not.

use std::{pin::pin, time::Duration};

use cairn_directory::{ClusterSettings, Followed, Follower, GoneHostEntry, HostIntent, RepairPause, TheCluster};
use cairn_env::Env;
use cairn_types::{Feature, Time};
use futures::future::{Either, select};

use crate::node::Node;

/// How long the next save of the local copy waits, for each entry that the last one had; and at most.
///
/// A save writes all entries, some microseconds each. One with every change would make a thousand new disks cost a million
/// entries at every host; so it takes a small part of a processor's time, and ten disks are saved as fast as ever.
const SAVE_PAUSE_PER_ENTRY: Duration = Duration::from_micros(200);
const SAVE_PAUSE_MAX: Duration = Duration::from_secs(1);

/// When the local copy was saved, and whether it is to be saved again.
struct Saving {
    not_before: Time,
    wanted: bool,
}

impl<E: Env> Node<E> {
    /// Enters this host and follows what changes, for as long as the node lives.
    pub(crate) async fn follow_directory(&self) {
        let inner = &self.inner;
        let mut registered = false;
        let mut follower = Follower::new(inner.registry.directory().clone());
        let mut saving = Saving { not_before: inner.env.now(), wanted: false };
        while !inner.stopping.get() {
            if !registered {
                match inner.registry.register_host(self.me(), &inner.options.entry).await {
                    Ok(()) => registered = true,
                    Err(error) => {
                        if let Ok(Some(gone)) = inner.registry.get::<GoneHostEntry>(&self.me()).await {
                            self.dismiss(&gone.entry);
                            return;
                        }
                        self.directory_is(error.is_unavailable().then_some(false));
                        inner.outside.warn(format!("this host cannot be entered in the directory: {error}"));
                        inner.env.sleep(Duration::from_secs(1)).await;
                        continue;
                    }
                }
            }
            let told = self.next(&mut follower, &mut saving).await;
            let now = inner.env.unix_ms();
            let changed = inner.copy.borrow_mut().apply(&told, now);
            if changed {
                saving.wanted = true;
                self.apply_level();
                self.apply_settings();
                self.apply_intents();
                self.apply_gone();
                self.apply_members();
                self.connect_peers();
            }
            match &told {
                Followed::Away { .. } => {
                    self.directory_is(Some(false));
                    self.save_if_wanted(&mut saving);
                    inner.env.sleep(Duration::from_millis(500)).await;
                }
                _ => self.directory_is(Some(true)),
            }
        }
    }

    /// What the directory tells next; the local copy is saved when it is time.
    async fn next(&self, follower: &mut Follower, saving: &mut Saving) -> Followed {
        let env = &self.inner.env;
        if saving.wanted && env.now() < saving.not_before {
            let waited = env.sleep_until(saving.not_before);
            if let Either::Left((told, _)) = select(pin!(follower.next()), waited).await {
                return told;
            }
        }
        self.save_if_wanted(saving);
        follower.next().await
    }

    fn save_if_wanted(&self, saving: &mut Saving) {
        if !std::mem::take(&mut saving.wanted) {
            return;
        }
        self.save_copy();
        let entries = self.inner.copy.borrow().entries_count() as u32;
        saving.not_before = self.inner.env.now() + (SAVE_PAUSE_PER_ENTRY * entries).min(SAVE_PAUSE_MAX);
    }

    /// Saves the directory as this host knows it.
    pub(crate) fn save_copy(&self) {
        let json = self.inner.copy.borrow().to_json();
        self.inner.outside.save_local_copy(json);
    }

    fn directory_is(&self, up: Option<bool>) {
        if let Some(up) = up
            && self.inner.directory_up.replace(up) != up
            && !up
        {
            self.inner.outside.warn("the directory is away: disks go on, management waits".into());
        }
    }

    /// Settings that may change at run time.
    pub(crate) fn apply_settings(&self) {
        let Some(settings) = self.settings() else { return };
        let mut options = self.inner.objects.options();
        options.repair_delay = Duration::from_millis(settings.repair_delay_ms);
        options.repair_paused_until = settings.repair_paused.map(|pause| self.paused_until(pause));
        // Earlier releases tell it each other by message.
        if self.level().has(Feature::Moves) {
            // The limit is a server's.
            let shards = self.inner.options.shards.len().max(1) as u64;
            options.resync_bytes_per_s_max = settings.resync_bytes_per_s_max.div_ceil(shards);
        }
        self.inner.objects.set_options(options);
    }

    /// When a pause of repair ends by this host's own clock. It is reckoned once for each pause: a clock of the day that is set meanwhile
    /// changes nothing.
    fn paused_until(&self, pause: RepairPause) -> Time {
        if let Some((of, until)) = self.inner.repair_pause.get()
            && of == pause.until_unix_ms
        {
            return until;
        }
        let env = &self.inner.env;
        let left_ms = pause.until_unix_ms.saturating_sub(env.unix_ms()).min(pause.for_ms);
        let until = env.now() + Duration::from_millis(left_ms);
        self.inner.repair_pause.set(Some((pause.until_unix_ms, until)));
        until
    }

    /// What administrators want of hosts, or which disk groups are slow, may have changed: disks look whether something of them is to be moved.
    pub(crate) fn apply_intents(&self) {
        let mut now = self.inner.copy.borrow().list::<HostIntent>();
        now.retain(|(_, intent)| *intent != HostIntent::default());
        // A slow disk group is emptied as one that an administrator wants to be empty.
        for slow in self.slow_marks().groups {
            let server = self.server_of(slow.host);
            match now.iter_mut().find(|(host, _)| *host == server) {
                Some((_, intent)) if intent.draining.contains(&slow.disk_group) => {}
                Some((_, intent)) => intent.draining.push(slow.disk_group),
                None => {
                    let intent = HostIntent { draining: vec![slow.disk_group], ..HostIntent::default() };
                    now.push((server, intent));
                }
            }
        }
        if *self.inner.intents.borrow() != now {
            *self.inner.intents.borrow_mut() = now;
            self.inner.objects.wake_in_turn();
        }
    }

    /// Who shall run members of the directory may have changed.
    pub(crate) fn apply_members(&self) {
        let wanted = self.inner.copy.borrow().directory_members();
        if let Some(wanted) = wanted {
            self.inner.outside.members_wanted(&wanted);
        }
    }

    /// The cluster's settings as last known.
    pub(crate) fn settings(&self) -> Option<ClusterSettings> {
        self.inner.copy.borrow().get::<ClusterSettings>(&TheCluster)
    }

    /// Dials every host that the local copy knows.
    pub(crate) fn connect_peers(&self) {
        let hosts = self.inner.copy.borrow().hosts();
        for (host, entry) in hosts {
            if host != self.me() {
                self.inner.outside.connect(host, entry.name.as_str(), entry.peer_address);
            }
        }
    }
}
