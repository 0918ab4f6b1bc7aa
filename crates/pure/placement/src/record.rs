//! How many components a disk may have: its record must fit a seat, also in the midst of a change and of a failure.
//!
//! Promises    a disk that passes has room for a record with two configurations, in which all copies but one of each set
//!             are away (tests/record.rs)
//! Not here    how a record is kept (engine/object, engine/store)

use cairn_geometry::{Area, chunks, sets};
use cairn_types::{
    Addresses, ComponentId, ComponentState, Csn, DiskGroupId, Epoch, HostId, Incarnation, Member, ObjectConfig,
    ObjectId, OpId, Policy, RECORD_BYTES_MAX, Redundancy, Role, SeatRecord, encode_onto, format_bytes,
};

use crate::refusal::{Asked, Refusal, RefusalKind};

/// Members of a disk that are being moved at a time, at most (`moves.rs`, M4).
const TWINS_MAX: u64 = 1;
/// Bytes of a name, at most: what the directory takes.
const NAME_BYTES_MAX: usize = 128;

/// Refuses a disk whose record would not fit.
///
/// # Errors
/// A refusal with the largest size that would do.
pub fn check_record(policy: &Policy, addresses: &Addresses, size_bytes: u64) -> Result<(), Refusal> {
    let most = RECORD_BYTES_MAX as u64;
    let bytes = record_bytes_max(policy, addresses, size_bytes);
    if bytes <= most {
        return Ok(());
    }
    let layout = addresses.last().layout;
    let all = chunks(&layout, size_bytes);
    let alone = Addresses::from(layout);
    let fits = |chunks: &u32| record_bytes_max(policy, &alone, u64::from(*chunks) * layout.chunk_bytes) <= most;
    // Every layout has room for one chunk: 12 stripes of 4 copies are 48 components.
    let largest = (1..all).rev().find(fits).unwrap_or(1);
    let members = Asked { redundancy: layout.redundancy, ftt: policy.ftt }.members();
    let what = match layout.redundancy {
        Redundancy::Mirror { .. } => "copies",
        Redundancy::Parity { .. } => "members of a row",
    };
    Err(Refusal {
        kind: RefusalKind::Size,
        text: format!(
            "a disk of {} with {} stripes and {members} {what} has {} components, more than its record of {} can name: \
             with this policy a disk has at most {} GiB. Make it smaller, or choose a narrower stripe",
            format_bytes(size_bytes),
            layout.stripe_width,
            sets(addresses, size_bytes).count() * members,
            format_bytes(most),
            // Rounded down: who asks for what is told here is not refused again.
            (u64::from(largest) * layout.chunk_bytes) >> 30,
        ),
    })
}

/// Bytes that the record of such a disk takes, at most.
fn record_bytes_max(policy: &Policy, addresses: &Addresses, size_bytes: u64) -> u64 {
    let moving = addresses.moving().map(|moving| Area::new(moving.to, moving.end_block).sets());
    let all: Vec<_> = sets(addresses, size_bytes).chain(moving.into_iter().flatten()).collect();
    let sets = all.len() as u64;
    let witnesses = u64::from(cairn_sizing::mirror_hosts_min(policy.ftt));
    let epoch = Epoch { number: u64::MAX, host: HostId(u128::MAX), incarnation: Incarnation(u64::MAX) };
    let op = OpId { epoch, seq: u64::MAX };
    let member = |state| {
        let last = all.iter().copied().max().unwrap_or(0);
        let role = Role::Data { set: last + 1, copy: addresses.redundancy(last).members() };
        let (host, disk_group) = (HostId(u128::MAX), DiskGroupId(u128::MAX));
        let member = Member { component: ComponentId(u128::MAX), host, disk_group, votes: 1 << 10, role, state };
        encode_onto(Vec::new(), &member).len() as u64
    };
    let away = member(ComponentState::Absent { stale_since: op });
    // As many of each set are in sync as it needs: no change may leave less.
    let in_sync: u64 = all.iter().map(|set| u64::from(addresses.redundancy(*set).needed())).sum();
    let members =
        in_sync * member(ComponentState::Active) + (sets * u64::from(policy.ftt) + witnesses + TWINS_MAX) * away;
    let name = "n".repeat(NAME_BYTES_MAX);
    let config = ObjectConfig {
        object: ObjectId(u128::MAX),
        name: name.clone(),
        size_bytes: u64::MAX,
        policy: policy.clone(),
        policy_name: name,
        addresses: addresses.clone(),
        members: Vec::new(),
        decided: op,
        deleted: true,
        past: None,
        ancestry: None,
    };
    let record = SeatRecord { object: ObjectId(u128::MAX), promised: epoch, accepted: None };
    let around = encode_onto(Vec::new(), &(record, epoch, Csn(u64::MAX))).len() as u64;
    let config = encode_onto(Vec::new(), &config).len() as u64 + members;
    // The version, what says that there is a base, and the lengths of two lists.
    around + 2 * (config + 16)
}
