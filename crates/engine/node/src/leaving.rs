//! A host in maintenance hands its disks over before it is stopped: nobody waits for its leases then.
//!
//! Promises    a disk that guests of this host use stays here: elsewhere each of their requests would take a hop more
//! Not here    moving what the host holds (object/owner/moves.rs); what is handed over at a stop (object)

use std::collections::BTreeSet;

use cairn_env::Env;
use cairn_types::{HostId, Member, ObjectConfig, ObjectId};
use cairn_wire::Request;
use futures::future::join_all;

use crate::node::Node;

/// Disks that are handed over in one round: each takes some messages, and guests elsewhere wait for them.
const HANDED_OVER_MAX: usize = 16;

impl<E: Env> Node<E> {
    /// One round; nothing where this host is in use.
    pub(crate) async fn hand_over(&self) {
        if !self.intent_for(self.me()).maintenance {
            return;
        }
        let used: BTreeSet<ObjectId> =
            self.inner.outside.sessions().into_iter().map(|session| session.disk_id).collect();
        let owned = self.inner.objects.all_owned();
        // One whose component is being moved goes when it has moved: the move goes on without a pause.
        let at_rest = owned.iter().filter(|owned| owned.config().twins().is_empty() && !used.contains(&owned.id()));
        let goes = at_rest.filter_map(|owned| Some((owned.id(), self.next_owner(&owned.config())?)));
        let attach = |(object, to)| self.inner.rpc.call(to, Request::Attach { object }, Vec::new());
        // Where that one does not take it now, the next round tries again.
        join_all(goes.take(HANDED_OVER_MAX).map(attach).collect::<Vec<_>>()).await;
    }

    /// A host that has a copy and stays in use. Not one in maintenance: none of the shards of a server that is, this one among them.
    pub(crate) fn next_owner(&self, config: &ObjectConfig) -> Option<HostId> {
        let stays = |m: &&Member| m.host != self.me() && !self.intent_for(m.host).maintenance;
        let copies = config.members.iter().filter(|m| m.set().is_some() && m.state.in_sync());
        copies.filter(stays).map(|m| m.host).find(|host| self.inner.rpc.is_up(*host))
    }
}
