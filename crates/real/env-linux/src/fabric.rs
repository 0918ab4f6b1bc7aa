//! Hosts of one process, joined without sockets: the embedded cluster of the demo and of tests.
//!
//! Promises    F1  messages between two hosts arrive in order, or both get a `PeerDown`
//!             F2  a host that is killed is gone at once: the others get `PeerDown { process_gone: true }`
//!             F3  one live host per id
//!             F4  a host that hears of another can send to it from then on
//! Not here    delays, cuts, losses: that is the simulator's

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, RwLock,
        atomic::{AtomicU64, Ordering},
    },
};

use cairn_env::NetEvent;
use cairn_types::HostId;

use crate::host::HostShared;

pub(crate) type Members = Arc<BTreeMap<HostId, Arc<HostShared>>>;

#[derive(Default)]
struct Inner {
    /// Held while membership changes, so that ups and downs reach every host in one order.
    change: Mutex<()>,
    members: RwLock<Members>,
    version: AtomicU64,
}

/// A registry of the hosts of this process. Cheap to clone; all clones are the same fabric.
#[derive(Clone, Default)]
pub struct Fabric(Arc<Inner>);

impl Fabric {
    /// A fabric without hosts.
    pub fn new() -> Self {
        Self::default()
    }

    /// The hosts that are up, in order of id.
    pub fn hosts(&self) -> Vec<HostId> {
        self.members().keys().copied().collect()
    }

    /// The host of that id, if it is up.
    pub(crate) fn host(&self, host: HostId) -> Option<Arc<HostShared>> {
        self.members().get(&host).cloned()
    }

    fn members(&self) -> Members {
        self.0.members.read().expect("nothing panics here").clone()
    }

    /// Grows with every change of membership.
    pub(crate) fn version(&self) -> u64 {
        self.0.version.load(Ordering::Acquire)
    }

    /// Version first: a change in between makes the caller look again, never keep a stale view.
    pub(crate) fn snapshot(&self) -> (u64, Members) {
        (self.version(), self.members())
    }

    fn replace(&self, members: BTreeMap<HostId, Arc<HostShared>>) {
        *self.0.members.write().expect("nothing panics here") = Arc::new(members);
        self.0.version.fetch_add(1, Ordering::Release);
    }

    /// Adds a host; false where a live one has its id.
    pub(crate) fn join(&self, host: &Arc<HostShared>) -> bool {
        let _change = self.0.change.lock().expect("nothing panics here");
        let mut members = BTreeMap::clone(&self.members());
        if members.contains_key(&host.host) {
            return false;
        }
        let others = self.members();
        for other in others.values() {
            host.inbox.push_always(up(other));
        }
        members.insert(host.host, host.clone());
        self.replace(members);
        // After it is a member: a host answers to the news at once, from its own thread.
        for other in others.values() {
            other.inbox.push_always(up(host));
        }
        true
    }

    /// Removes a host; the others learn that its process is gone.
    pub(crate) fn leave(&self, host: &Arc<HostShared>) {
        let _change = self.0.change.lock().expect("nothing panics here");
        let mut members = BTreeMap::clone(&self.members());
        if !members.get(&host.host).is_some_and(|member| Arc::ptr_eq(member, host)) {
            return;
        }
        members.remove(&host.host);
        self.replace(members);
        for other in self.members().values() {
            other.inbox.push_always(NetEvent::PeerDown { host: host.host, process_gone: true });
        }
    }

    /// A message between the two was dropped: both sides hear that the link broke, and that it is up again.
    pub(crate) fn broke(&self, a: &Arc<HostShared>, b: &Arc<HostShared>) {
        let _change = self.0.change.lock().expect("nothing panics here");
        let members = self.members();
        let is_member = |host: &Arc<HostShared>| members.get(&host.host).is_some_and(|m| Arc::ptr_eq(m, host));
        // One of them ended meanwhile: the other knows already, and must not hear that it is up.
        if !(is_member(a) && is_member(b)) {
            return;
        }
        for (one, other) in [(a, b), (b, a)] {
            one.inbox.push_always(NetEvent::PeerDown { host: other.host, process_gone: false });
            one.inbox.push_always(up(other));
        }
    }
}

fn up(host: &HostShared) -> NetEvent {
    NetEvent::PeerUp { host: host.host, incarnation: host.incarnation, build: host.build.clone(), level: host.level() }
}
