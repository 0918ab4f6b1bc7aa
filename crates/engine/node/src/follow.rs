//! The local copy of the directory: followed while it is there, used while it is not.

use std::time::Duration;

use cairn_directory::{ClusterSettings, Follower, HostEntry, TheCluster};
use cairn_env::Env;

use crate::node::Node;

impl<E: Env> Node<E> {
    /// Enters this host and follows what changes, for as long as the node lives.
    pub(crate) async fn follow_directory(&self) {
        let inner = &self.inner;
        let mut registered = false;
        let mut follower = Follower::new(inner.registry.directory().clone());
        while !inner.stopping.get() {
            if !registered {
                match inner.registry.register_host(self.me(), &inner.options.entry).await {
                    Ok(()) => registered = true,
                    Err(error) => {
                        self.directory_is(error.is_unavailable().then_some(false));
                        inner.outside.warn(format!("this host cannot be entered in the directory: {error}"));
                        inner.env.sleep(Duration::from_secs(1)).await;
                        continue;
                    }
                }
            }
            let told = follower.next().await;
            let now = inner.env.unix_ms();
            let changed = inner.copy.borrow_mut().apply(&told, now);
            match &told {
                cairn_directory::Followed::Away { .. } => {
                    self.directory_is(Some(false));
                    inner.env.sleep(Duration::from_millis(500)).await;
                }
                _ => self.directory_is(Some(true)),
            }
            if changed {
                let json = inner.copy.borrow().to_json();
                inner.outside.save_local_copy(json);
                self.apply_settings();
                self.connect_peers();
            }
        }
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
        if let Some(settings) = self.settings() {
            let mut options = self.inner.shard.options();
            options.repair_delay = Duration::from_millis(settings.repair_delay_ms);
            self.inner.shard.set_options(options);
        }
    }

    /// The cluster's settings as last known.
    pub(crate) fn settings(&self) -> Option<ClusterSettings> {
        self.inner.copy.borrow().get::<ClusterSettings>(&TheCluster)
    }

    /// Dials every host that the local copy knows.
    pub(crate) fn connect_peers(&self) {
        let hosts = self.inner.copy.borrow().list::<HostEntry>();
        for (host, entry) in hosts {
            if host != self.me() {
                self.inner.outside.connect(host, entry.peer_address);
            }
        }
    }
}
