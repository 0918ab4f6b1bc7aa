//! A watch on etcd as a stream: grouped by transaction, honest about gaps, never silently dead.
//!
//! Promises    a server that stopped answering (stopped process, cut network, no leader) ends the watch within
//!             2 x [`QUIET_MS`]; what was compacted away, or belongs to another life of the server, is a gap
//! Source      etcd does not reconnect watches and the client neither: `Follower` in `cairn-directory` does

use std::time::Duration;

use cairn_directory::{Change, Changes, DirectoryError, Revision, Watch, WatchItem};
use etcd_client::{EventType, WatchOptions, WatchResponse, WatchStream};
use futures::{SinkExt as _, StreamExt as _, channel::mpsc, stream};
use tokio::time::{Instant, interval_at, timeout};

use crate::{
    calls::{our_key, stored},
    endpoints::{ATTEMPT_MS_MAX, Endpoints, words},
};

/// Ms without an event after which the server is asked whether it is there.
const QUIET_MS: u64 = 3000;
/// Items between the reading task and a slow reader; past it the task waits, and etcd with it.
const QUEUE_ITEMS: usize = 64;
/// Bytes of one message: etcd puts many transactions into one when a watch catches up.
const MESSAGE_BYTES_MAX: usize = 256 << 20;

type Item = Result<WatchItem, DirectoryError>;

/// Begins a watch of everything below `prefix` after `after`.
pub(crate) async fn open(endpoints: &Endpoints, prefix: String, after: Revision) -> Result<Watch, DirectoryError> {
    let mut cause = String::new();
    for url in endpoints.in_turn() {
        let begun = timeout(Duration::from_millis(ATTEMPT_MS_MAX), begin(endpoints, &url, &prefix, after)).await;
        match begun {
            Ok(Ok(None)) => return Ok(stream::iter([Ok(WatchItem::Gap)]).boxed()),
            Ok(Ok(Some(watch))) => {
                let (sender, receiver) = mpsc::channel(QUEUE_ITEMS);
                tokio::spawn(pump(watch, prefix, after, sender));
                return Ok(receiver.boxed());
            }
            Ok(Err(error)) => cause = format!("{url}: {}", words(&error)),
            Err(_) => {
                cause = format!("{url}: no answer within {ATTEMPT_MS_MAX} ms");
            }
        }
        endpoints.failed(&url);
    }
    Err(DirectoryError::away(cause))
}

/// Asks one member for a watch and waits until it stands; none when it cannot go back that far.
async fn begin(
    endpoints: &Endpoints,
    url: &str,
    prefix: &str,
    after: Revision,
) -> Result<Option<WatchStream>, etcd_client::Error> {
    let client = endpoints.client(url).await?;
    let options = WatchOptions::new().with_prefix().with_start_revision(after.0 as i64 + 1);
    let mut watch =
        client.watch_client().max_decoding_message_size(MESSAGE_BYTES_MAX).watch(prefix, Some(options)).await?;
    let Some(first) = watch.message().await? else {
        return Err(etcd_client::Error::WatchError("the server closed the watch".into()));
    };
    // A server whose history is shorter than what we saw was restored from a backup.
    let now = first.header().map_or(0, |h| h.revision());
    if first.compact_revision() > 0 || (now as u64) < after.0 {
        return Ok(None);
    }
    if first.canceled() {
        return Err(etcd_client::Error::WatchError(first.cancel_reason().to_owned()));
    }
    Ok(Some(watch))
}

/// Passes on what the server says until it ends, falls silent, or nobody listens.
async fn pump(mut watch: WatchStream, prefix: String, after: Revision, mut to: mpsc::Sender<Item>) {
    let quiet = Duration::from_millis(QUIET_MS);
    let mut tick = interval_at(Instant::now() + quiet, quiet);
    let mut asked = false;
    let mut heard = false;
    loop {
        let items = tokio::select! {
            message = watch.message() => {
                heard = true;
                match message {
                    Ok(Some(response)) => translate(&response, &prefix, after),
                    Ok(None) => vec![Err(DirectoryError::away("etcd closed the watch"))],
                    Err(error) => vec![Err(DirectoryError::away(words(&error)))],
                }
            }
            _ = tick.tick() => {
                if asked && !heard {
                    vec![Err(DirectoryError::away(format!("etcd was silent for {} ms", 2 * QUIET_MS)))]
                } else if to.is_closed() {
                    return;
                } else {
                    asked = watch.request_progress().await.is_ok();
                    heard = false;
                    Vec::new()
                }
            }
        };
        for item in items {
            let last = !matches!(item, Ok(WatchItem::Changes(_)) | Ok(WatchItem::Confirmed));
            if to.send(item).await.is_err() || last {
                return;
            }
        }
    }
}

/// The items in one message of the server. Its progress carries no revision that we trust: in 3.4 it may overtake
/// events on their way.
fn translate(response: &WatchResponse, prefix: &str, after: Revision) -> Vec<Item> {
    if response.compact_revision() > 0 {
        return vec![Ok(WatchItem::Gap)];
    }
    if response.canceled() {
        return vec![Err(DirectoryError::away(format!("etcd cancelled the watch: {}", response.cancel_reason())))];
    }
    if response.events().is_empty() {
        return vec![Ok(WatchItem::Confirmed)];
    }
    let mut transactions: Vec<Changes> = Vec::new();
    for event in response.events() {
        let Some(kv) = event.kv() else { continue };
        let revision = Revision(kv.mod_revision() as u64);
        let Some(key) = our_key(prefix, kv.key()).filter(|_| revision > after) else {
            continue;
        };
        let now = match event.event_type() {
            EventType::Put => Some(stored(kv)),
            EventType::Delete => None,
        };
        // A message holds whole transactions, in order: all changes of one stand together.
        match transactions.last_mut().filter(|t| t.revision == revision) {
            Some(transaction) => transaction.changes.push(Change { key, now }),
            None => transactions.push(Changes { revision, changes: vec![Change { key, now }] }),
        }
    }
    transactions
        .into_iter()
        .map(|mut t| {
            t.changes.sort_unstable_by(|a, b| a.key.cmp(&b.key));
            Ok(WatchItem::Changes(t))
        })
        .collect()
}
