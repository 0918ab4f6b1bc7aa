//! Who uses which disk: the sessions of all hosts' front ends.

use cairn_api::{ApiResult, v1};
use cairn_directory::CatalogueEntry;
use cairn_env::Env;
use cairn_types::ObjectId;
use cairn_wire::{Api, HostAnswer, HostCommand};

use crate::node::Node;

impl<E: Env> Node<E> {
    pub(crate) async fn session_list(&self) -> ApiResult<v1::Sessions> {
        Ok(self.sessions(None).await)
    }

    /// Of every host that answers: those of one disk, or all.
    pub(crate) async fn sessions(&self, only: Option<ObjectId>) -> v1::Sessions {
        let mut hosts = self.inner.copy.borrow().hosts();
        hosts.sort_by(|a, b| a.1.name.cmp(&b.1.name));
        let asked = hosts.iter().map(|(host, _)| self.on_host(*host, HostCommand::Sessions { only }));
        let mut all = v1::Sessions::default();
        for ((_, entry), answer) in hosts.iter().zip(futures::future::join_all(asked).await) {
            match answer {
                Ok(HostAnswer::Sessions(Api(sessions))) => all.sessions.extend(sessions),
                _ => all.hosts_silent.push(entry.name.as_str().to_owned()),
            }
        }
        all.sessions.sort_by(|a, b| (&a.disk, a.since_unix_ms).cmp(&(&b.disk, b.since_unix_ms)));
        all
    }

    /// Of this host.
    pub(crate) fn sessions_here(&self, only: Option<ObjectId>) -> Vec<v1::Session> {
        let one = |session: cairn_volume::Session| v1::Session {
            disk: self.name_now(session.disk_id, session.disk),
            host: self.server_of(self.me()),
            host_name: self.server_name(self.me()),
            front_end: session.front_end.to_owned(),
            peer: session.peer,
            since_unix_ms: session.since_unix_ms,
            requests: session.counters.requests,
            failed_requests: session.counters.failed_requests,
            read_bytes: session.counters.read_bytes,
            write_bytes: session.counters.write_bytes,
        };
        let open = self.inner.outside.sessions().into_iter();
        open.filter(|session| only.is_none_or(|only| only == session.disk_id)).map(one).collect()
    }

    /// The name that a disk has now, or its snapshot, which was opened as `opened`.
    fn name_now(&self, disk: ObjectId, opened: String) -> String {
        let Some(entry) = self.inner.copy.borrow().get::<CatalogueEntry>(&disk) else { return opened };
        match opened.split_once('@') {
            Some((_, snapshot)) => format!("{}@{snapshot}", entry.name.as_str()),
            None => entry.name.as_str().to_owned(),
        }
    }
}
