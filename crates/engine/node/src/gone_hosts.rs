//! Who is gone, as this host knows it, and what of them is not heard.
//!
//! Not here    what a host does about it, and about being gone itself (`gone`)

use std::{
    cell::{Cell, OnceCell, RefCell},
    collections::BTreeMap,
};

use cairn_directory::{GoneHostEntry, LocalCopy, Registry};
use cairn_env::NetEvent;
use cairn_types::{Canary, HostId};

use crate::last_word::LastWord;

/// Who is gone.
#[derive(Default)]
pub(crate) struct GoneHosts {
    pub(crate) known: RefCell<BTreeMap<HostId, GoneHostEntry>>,
    /// Connections that came up with gone hosts: they count once such a host is taken in again.
    pub(crate) kept_out: RefCell<BTreeMap<HostId, NetEvent>>,
    /// This host is gone: why, in words.
    pub(crate) dismissed: OnceCell<String>,
    pub(crate) last_word: LastWord,
    /// This host has left: nothing that still arrives is for it.
    pub(crate) left: Cell<bool>,
}

impl GoneHosts {
    pub(crate) fn has(&self, host: HostId) -> bool {
        !Canary::GoneHeard.sings() && self.known.borrow().contains_key(&host)
    }

    pub(crate) fn all(&self) -> BTreeMap<HostId, GoneHostEntry> {
        self.known.borrow().clone()
    }

    /// What a gone host is called.
    pub(crate) fn name(&self, host: HostId) -> Option<String> {
        self.known.borrow().get(&host).map(|gone| format!("{} ({})", gone.name, gone.how.name()))
    }

    /// Passes on what the network brought, unless it is of a host that is gone.
    pub(crate) fn admit(&self, event: NetEvent) -> Option<NetEvent> {
        if self.left.get() {
            return None;
        }
        let mut kept_out = self.kept_out.borrow_mut();
        match &event {
            NetEvent::PeerUp { host, .. } if self.has(*host) => {
                kept_out.insert(*host, event);
                return None;
            }
            NetEvent::PeerDown { host, .. } => drop(kept_out.remove(host)),
            NetEvent::Message(message) if self.has(message.from) => return None,
            _ => {}
        }
        Some(event)
    }
}

/// Whether this host is gone, at its start: what the directory says, and the copy only while that does not answer.
pub(crate) async fn gone_at_start(me: HostId, copy: &mut LocalCopy, registry: &Registry) -> Option<GoneHostEntry> {
    let known = copy.get::<GoneHostEntry>(&me)?;
    match registry.get::<GoneHostEntry>(&me).await {
        Ok(None) => {
            copy.readmit(me);
            None
        }
        Ok(Some(found)) => Some(found.entry),
        Err(_) => Some(known),
    }
}
