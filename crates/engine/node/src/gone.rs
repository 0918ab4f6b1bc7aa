//! Hosts that were removed or forgotten, as this host knows it; it may be one of them.
//!
//! Promises    G1  nothing that a gone host says is heard, and nobody calls it: it counts nowhere, from the moment that this host knows
//!             G2  a host that is gone itself serves nothing, changes nothing, and says why; no start of it takes it in again
//! Assumes     safety needs neither: a host that does not know yet is like one on the other side of a cut. What a gone host still has
//!             is fenced by epochs and sessions, and its components by the records, which went on without it
//! Not here    who may go (`manage::membership`), the entries (`directory`), rebuilding what a forgotten one held (`object`);
//!             what is heard of whom (`gone_hosts`)

use std::collections::BTreeMap;

use cairn_api::{ApiError, ApiResult};
use cairn_directory::GoneHostEntry;
use cairn_env::Env;
use cairn_types::HostId;

use crate::node::Node;

impl<E: Env> Node<E> {
    /// Resolves, with the reason, when this host was removed or forgotten: it is to [`Node::leave`].
    pub async fn dismissed(&self) -> String {
        self.inner.gone.last_word.heard().await
    }

    /// Serves nothing any more and talks to nobody; calls that change nothing are answered still.
    pub async fn leave(&self) {
        self.stop().await;
        self.inner.gone.left.set(true);
        let why = self.why_dismissed().unwrap_or_default();
        for (host, _) in self.inner.copy.borrow().hosts() {
            self.inner.leases.on_peer_down(host);
            self.inner.outside.disconnect(host, &why);
        }
    }

    /// Why this host is no part of the cluster any more; none: it is.
    pub fn why_dismissed(&self) -> Option<String> {
        self.inner.gone.dismissed.get().cloned()
    }

    /// What a gone host decides is decided without the others: it does not hear them, and would take all of them for dead.
    pub(crate) fn refuse_if_dismissed(&self) -> ApiResult<()> {
        match self.why_dismissed() {
            None => Ok(()),
            Some(why) => Err(ApiError::refused(why).remedy("Ask a host of the cluster")),
        }
    }

    /// This host is gone: told once.
    pub(crate) fn dismiss(&self, gone: &GoneHostEntry) {
        let (gone_as, me) = (gone.how.name(), self.me());
        let why = format!(
            "this host was {gone_as} and is no part of the cluster any more: it serves nothing. `cairn host readmit {me}`, given at a \
             host of the cluster, takes it in again when its daemon is started after that"
        );
        if self.inner.gone.dismissed.set(why.clone()).is_ok() {
            self.inner.outside.warn(why.clone());
            self.inner.gone.last_word.tell(&why);
        }
    }

    /// Hosts may have gone, or been taken in again: those are cut off, these are heard.
    pub(crate) fn apply_gone(&self) {
        let inner = &self.inner;
        let now: BTreeMap<HostId, GoneHostEntry> = inner.copy.borrow().list::<GoneHostEntry>().into_iter().collect();
        let before = inner.gone.known.replace(now.clone());
        if before == now {
            return;
        }
        if let Some(gone) = now.get(&self.me()) {
            self.dismiss(gone);
        }
        for (host, gone) in now.iter().filter(|(host, _)| **host != self.me() && !before.contains_key(host)) {
            inner.builds.borrow_mut().remove(host);
            inner.leases.on_peer_down(*host);
            let why = format!(
                "host {} was {} and is no part of this cluster any more: `cairn host readmit {host}` takes it in again",
                gone.name,
                gone.how.name()
            );
            inner.outside.disconnect(*host, &why);
        }
        for host in before.keys().filter(|host| !now.contains_key(host)) {
            let kept_out = inner.gone.kept_out.borrow_mut().remove(host);
            kept_out.into_iter().for_each(|event| self.on_net(event));
        }
        self.peers_changed();
        inner.objects.wake();
        inner.objects.wake_in_turn();
    }
}
