//! Our contract in etcd's words: reads, listings in pages, guarded transactions.
//!
//! Promises    a listing is of one revision, however many pages it takes
//!             a transaction whose answer was lost is tried again, and recognised when the first try had done it

use cairn_directory::{DirectoryError, Key, Listing, Op, Revision, Scope, Stored, Txn, VALUE_BYTES_MAX, decide};
use etcd_client::{
    Compare, CompareOp, Error, GetOptions, GetResponse, KeyValue, KvClient, Txn as EtcdTxn, TxnOp, TxnOpResponse,
    TxnResponse,
};

use crate::endpoints::{Endpoints, etcd_client_code::OUT_OF_RANGE};

/// Entries per page of a listing. With the largest values a page is 50 MiB, with usual ones 60 KiB.
const PAGE_ENTRIES: i64 = 200;
/// Bytes of one answer: a page of the largest values and room for keys.
const ANSWER_BYTES_MAX: usize = (PAGE_ENTRIES as usize + 1) * (VALUE_BYTES_MAX + 4096);
/// Listings begun anew because what they read was compacted meanwhile.
const LIST_TRIES_MAX: u32 = 3;

fn revision(of: i64) -> Revision {
    Revision(u64::try_from(of).unwrap_or(0))
}

pub(crate) fn stored(kv: &KeyValue) -> Stored {
    Stored { revision: revision(kv.mod_revision()), value: kv.value().to_vec() }
}

/// The key of ours at etcd's key `raw`; none when it is of a kind that this release does not know.
pub(crate) fn our_key(prefix: &str, raw: &[u8]) -> Option<Key> {
    let path = std::str::from_utf8(raw).ok()?.strip_prefix(prefix)?;
    Key::parse(path).ok()
}

fn header_revision(answer: &GetResponse) -> Revision {
    revision(answer.header().map_or(0, |h| h.revision()))
}

fn kv_client(client: &etcd_client::Client) -> KvClient {
    client.kv_client().max_decoding_message_size(ANSWER_BYTES_MAX)
}

pub(crate) async fn get(endpoints: &Endpoints, prefix: &str, key: &Key) -> Result<Option<Stored>, DirectoryError> {
    let path = format!("{prefix}{key}");
    let (answer, _) = endpoints
        .call(|client| {
            let (mut kv, path) = (kv_client(&client), path.clone());
            async move { kv.get(path, None).await }
        })
        .await;
    let answer = answer.map_err(|e| e.into_error(false))?;
    Ok(answer.kvs().first().map(stored))
}

pub(crate) async fn list(endpoints: &Endpoints, prefix: &str, scope: Scope) -> Result<Listing, DirectoryError> {
    let start = format!("{prefix}{}", scope.prefix());
    let end = end_of(&start);
    let mut tries = 0;
    'anew: loop {
        tries += 1;
        let mut listing = Listing::default();
        let mut from = start.clone().into_bytes();
        loop {
            let at = listing.revision;
            let (answer, _) = endpoints
                .call(|client| {
                    let (mut kv, from, end) = (kv_client(&client), from.clone(), end.clone());
                    let options = GetOptions::new().with_range(end).with_limit(PAGE_ENTRIES).with_revision(at.0 as i64);
                    async move { kv.get(from, Some(options)).await }
                })
                .await;
            let answer = match answer {
                Ok(answer) => answer,
                Err(crate::endpoints::Failed::Refused(error)) if is_compacted(&error) && tries < LIST_TRIES_MAX => {
                    continue 'anew;
                }
                Err(failed) => return Err(failed.into_error(false)),
            };
            if at == Revision(0) {
                listing.revision = header_revision(&answer);
            }
            for kv in answer.kvs() {
                if let Some(key) = our_key(prefix, kv.key()) {
                    listing.entries.push((key, stored(kv)));
                }
            }
            let Some(last) = answer.kvs().last().filter(|_| answer.more()) else {
                return Ok(listing);
            };
            from = last.key().to_vec();
            from.push(0);
        }
    }
}

/// The first key after all that begin with `prefix`; ours end in '/', so the last byte can be raised.
fn end_of(prefix: &str) -> Vec<u8> {
    let mut end = prefix.as_bytes().to_vec();
    let last = end.last_mut().expect("a prefix is not empty");
    *last += 1;
    end
}

fn is_compacted(error: &Error) -> bool {
    matches!(error, Error::GRpcStatus(s) if s.code() as i32 == OUT_OF_RANGE)
}

/// `txn` as etcd takes it: all guards; the writes; and else, a read of each key to tell which was in the way.
fn to_etcd(prefix: &str, txn: &Txn) -> EtcdTxn {
    let path = |op: &Op| format!("{prefix}{}", op.key());
    let guards: Vec<Compare> = txn
        .ops
        .iter()
        .map(|op| {
            // A key that is not there has revision 0.
            let expected = op.expected().map_or(0, |r| r.0 as i64);
            Compare::mod_revision(path(op), CompareOp::Equal, expected)
        })
        .collect();
    let writes: Vec<TxnOp> = txn
        .ops
        .iter()
        .filter_map(|op| match op {
            Op::Create { value, .. } | Op::Replace { value, .. } => Some(TxnOp::put(path(op), value.clone(), None)),
            Op::Delete { .. } => Some(TxnOp::delete(path(op), None)),
            Op::Check { .. } => None,
        })
        .collect();
    let reads: Vec<TxnOp> = txn.ops.iter().map(|op| TxnOp::get(path(op), None)).collect();
    EtcdTxn::new().when(guards).and_then(writes).or_else(reads)
}

pub(crate) async fn commit(endpoints: &Endpoints, prefix: &str, txn: &Txn) -> Result<Revision, DirectoryError> {
    txn.validate()?;
    let request = to_etcd(prefix, txn);
    let (answer, lost) = endpoints
        .call(|client| {
            let (mut kv, request) = (kv_client(&client), request.clone());
            async move { kv.txn(request).await }
        })
        .await;
    let answer = answer.map_err(|e| e.into_error(lost))?;
    let at = revision(answer.header().map_or(0, |h| h.revision()));
    if answer.succeeded() {
        return Ok(at);
    }
    let found = found_by(&answer);
    if lost && let Some(done) = done_before(txn, &found, at) {
        return Ok(done);
    }
    let revision_of = |key: &Key| {
        let position = txn.ops.iter().position(|op| op.key() == key)?;
        found.get(position)?.as_ref().map(|s| s.revision)
    };
    match decide(txn, revision_of) {
        Err(conflict) => Err(conflict),
        Ok(()) => Err(DirectoryError::away("etcd refused a transaction whose guards hold")),
    }
}

/// What the refused transaction found at each of its keys.
fn found_by(answer: &TxnResponse) -> Vec<Option<Stored>> {
    answer
        .op_responses()
        .iter()
        .map(|response| match response {
            TxnOpResponse::Get(get) => get.kvs().first().map(stored),
            _ => None,
        })
        .collect()
}

/// Whether what is there now is what `txn` leaves, written by one transaction: then an earlier try of it took effect
/// and only its answer was lost.
fn done_before(txn: &Txn, found: &[Option<Stored>], now: Revision) -> Option<Revision> {
    let mut written: Option<Revision> = None;
    for (op, found) in txn.ops.iter().zip(found) {
        match (op, op.value(), found) {
            (Op::Check { .. }, _, _) => {}
            (_, Some(value), Some(found)) if found.value == value => {
                if written.is_some_and(|w| w != found.revision) {
                    return None;
                }
                // What it expected to replace can look the same; only a newer one is this transaction's.
                if op.expected() == Some(found.revision) {
                    return None;
                }
                written = Some(found.revision);
            }
            (_, None, None) => {}
            _ => return None,
        }
    }
    let deletes = txn.ops.iter().any(|op| matches!(op, Op::Delete { .. }));
    written.or_else(|| deletes.then_some(now))
}

#[cfg(test)]
mod tests {
    use super::*;
    use cairn_directory::{Kind, Name};

    fn key(name: &str) -> Key {
        Key::new(Kind::Task, &Name::new(name).unwrap())
    }
    fn at(revision: u64, value: &str) -> Option<Stored> {
        Some(Stored { revision: Revision(revision), value: value.into() })
    }

    #[test]
    fn a_lost_answer_is_told_from_someone_elses_change() {
        let now = Revision(9);
        let two = Txn::new().create(key("a"), b"1".to_vec()).replace(key("b"), Revision(3), b"2".to_vec());
        let done = |found: &[Option<Stored>]| done_before(&two, found, now);
        assert_eq!(done(&[at(7, "1"), at(7, "2")]), Some(Revision(7)));
        assert_eq!(done(&[at(7, "1"), at(8, "2")]), None, "two transactions");
        assert_eq!(done(&[at(7, "x"), at(7, "2")]), None, "another value");
        assert_eq!(done(&[None, at(7, "2")]), None, "half");
        assert_eq!(done(&[at(3, "1"), at(3, "2")]), None, "what it was to replace");
        let delete = Txn::new().delete(key("a"), Revision(3));
        assert_eq!(done_before(&delete, &[None], now), Some(now));
        assert_eq!(done_before(&delete, &[at(4, "1")], now), None);
        let check = Txn::new().check(key("a"), Some(Revision(3)));
        assert_eq!(done_before(&check, &[None], now), None);
    }

    #[test]
    fn keys_of_others_are_left_alone() {
        let prefix = "/cairn/x/";
        assert_eq!(our_key(prefix, b"/cairn/x/tasks/a"), Some(key("a")));
        assert_eq!(our_key(prefix, b"/cairn/y/tasks/a"), None);
        assert_eq!(our_key(prefix, b"/cairn/x/later/a"), None);
        assert_eq!(our_key(prefix, b"/cairn/x/\xff"), None);
        assert_eq!(end_of("/cairn/x/"), b"/cairn/x0");
    }
}
