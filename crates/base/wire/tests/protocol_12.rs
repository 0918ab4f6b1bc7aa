//! What protocol 12 said stays as it was: one message of every kind, as release 0.2.0 encoded it.
//!
//! The bytes in `protocol-12.txt` were written by that release from the same examples. A line that no longer fits is a change of what
//! exists, and hosts of that release would not read it: add a new variant instead, with a level (`docs/internals/upgrades.md`).

use std::collections::BTreeMap;

use cairn_api::{ApiError, v1};
use cairn_types::*;
use cairn_wire::*;

fn epoch() -> Epoch {
    Epoch { number: 300, host: HostId(2), incarnation: Incarnation(3) }
}

fn op(seq: u64) -> OpId {
    OpId { epoch: epoch(), seq }
}

fn target() -> Target {
    Target { disk_group: DiskGroupId(7), component: ComponentId(8), epoch: epoch(), session: SessionId(9) }
}

fn config() -> ObjectConfig {
    let member = |n: u128, role, state| Member {
        component: ComponentId(n),
        host: HostId(n),
        disk_group: DiskGroupId(n),
        votes: 1,
        role,
        state,
    };
    ObjectConfig {
        object: ObjectId(5),
        name: "vm-1".into(),
        size_bytes: 1 << 30,
        policy: Policy::default(),
        policy_name: "default".into(),
        addresses: Layout {
            chunk_bytes: 1 << 30,
            stripe_width: 1,
            strip_bytes: 1 << 20,
            redundancy: Redundancy::Mirror { copies: 2 },
        }
        .into(),
        members: vec![
            member(1, Role::Data { set: 0, copy: 0 }, ComponentState::Active),
            member(2, Role::Data { set: 0, copy: 1 }, ComponentState::Absent { stale_since: op(4) }),
            member(3, Role::Witness, ComponentState::Degraded),
        ],
        decided: op(6),
        deleted: false,
        past: None,
        ancestry: None,
    }
}

fn accepted() -> Accepted {
    Accepted { epoch: epoch(), csn: Csn(11), base: Some(Box::new(config())), config: config() }
}

fn client() -> ClientTag {
    ClientTag { session: 12, number: 13 }
}

fn status() -> ObjectStatus {
    ObjectStatus {
        epoch: epoch(),
        config: config(),
        csn: 11,
        resyncs: vec![resync()],
        absent_ms: vec![(ComponentId(2), 1000)],
        unreadable_blocks: 1,
        admitting: vec![ComponentId(4)],
    }
}

fn resync() -> ResyncStatus {
    ResyncStatus {
        object: ObjectId(5),
        name: "vm-1".into(),
        component: ComponentId(2),
        host: HostId(2),
        full: true,
        bytes_total: 100,
        bytes_left: 50,
        blocks_unreadable: 0,
        elapsed_ms: 10,
    }
}

fn range() -> BlockRange {
    BlockRange::new(16, 4)
}

fn heartbeat(owned: Listed) -> Heartbeat {
    let group = DiskGroupSummary {
        disk_group: DiskGroupId(7),
        open_count: 2,
        durable_position: 4096,
        devices: vec![DeviceRoom { total_bytes: 100, free_bytes: 50, growth_bytes: 10 }],
        components: 3,
        witnesses: 1,
        healthy: true,
        failed_devices: 0,
    };
    Heartbeat {
        number: 70,
        session: PeerSession(71),
        remembered: vec![(DiskGroupId(7), 2, 4096)],
        summary: HostSummary { unix_ms: 1000, disk_groups: vec![group], resync_bytes_per_s_max: Some(5) },
        owned,
    }
}

fn ops() -> Vec<(&'static str, ComponentOp)> {
    let apply = |blocks| ComponentOp::Apply { op: op(20), settled: op(19), client: client(), blocks };
    let runs = vec![Run::Data { crcs: vec![1, 2].into() }, Run::Hole { blocks: 3 }];
    vec![
        ("write", apply(BlockOp::Write { first_block: 16, crcs: vec![1, 2, 3].into() })),
        ("zero", apply(BlockOp::Zero { range: range(), keep_allocated: true })),
        ("copy", apply(BlockOp::Copy { first_block: 16, runs })),
        ("undo", ComponentOp::Undo { ops: vec![op(20), op(19)] }),
        ("settle", ComponentOp::Settle { upto: op(19) }),
        ("remember", ComponentOp::Remember { clients: vec![(client(), op(20))] }),
        ("resize", ComponentOp::Resize { size_blocks: 100, reserved_blocks: 50 }),
    ]
}

fn requests() -> Vec<(&'static str, Request)> {
    let (disk_group, object, component, epoch) = (DiskGroupId(7), ObjectId(5), ComponentId(8), epoch());
    let to = target();
    let guest = |request| Request::Guest { object, request };
    let manage = |command| Request::Manage { object, command };
    let host = |command| Request::ManageHost { command };
    let create = v1::DiskGroupCreate {
        host: Some("h1".into()),
        cache: "/dev/a".into(),
        capacity: vec!["/dev/b".into()],
        files: None,
        overwrite: false,
    };
    vec![
        ("read", Request::Read { to, range: range(), by: ReadBy::Resync }),
        ("regions", Request::Regions { to, after: op(1) }),
        ("allocated", Request::Allocated { to, range: range() }),
        ("was-done", Request::WasDone { to, client: client() }),
        ("clients", Request::Clients { to }),
        ("seize", Request::Seize { disk_group, object, epoch, only: vec![component], overrule: true }),
        ("accept", Request::Accept { disk_group, accepted: Box::new(accepted()) }),
        ("tell", Request::Tell { disk_group, component, accepted: Box::new(accepted()) }),
        ("confirm", Request::Confirm { disk_group, object, epoch }),
        (
            "create-component",
            Request::CreateComponent { disk_group, component, object, size_blocks: 10, reserved_blocks: 1 },
        ),
        ("delete-component", Request::DeleteComponent { disk_group, component, object }),
        ("who-has", Request::WhoHas { object }),
        ("guest-read", guest(GuestRequest::Read { offset: 512, len_bytes: 4096 })),
        ("guest-write", guest(GuestRequest::Write { offset: 512, crc: 7, client: client(), retry: true })),
        (
            "guest-zero",
            guest(GuestRequest::Zero {
                offset: 512,
                len_bytes: 4096,
                keep_allocated: true,
                client: client(),
                retry: false,
            }),
        ),
        ("guest-status", guest(GuestRequest::Status { offset: 512, len_bytes: 4096 })),
        ("hand-over", Request::HandOver { object, force: true }),
        ("attach", Request::Attach { object }),
        ("manage-status", manage(OwnerCommand::Status)),
        ("manage-grow", manage(OwnerCommand::Grow { size_bytes: 1 << 31 })),
        ("manage-limit", manage(OwnerCommand::Limit { iops_limit: Some(1), bandwidth_limit_bytes_per_s: None })),
        ("manage-delete", manage(OwnerCommand::Delete)),
        ("manage-degrade", manage(OwnerCommand::Degrade { component })),
        ("host-create-group", host(HostCommand::CreateGroup(Api(create)))),
        ("host-remove-group", host(HostCommand::RemoveGroup(disk_group))),
        ("host-groups", host(HostCommand::Groups)),
        ("host-resyncs", host(HostCommand::Resyncs)),
        ("host-owned", host(HostCommand::Owned)),
        ("host-owned-count", host(HostCommand::OwnedCount)),
        ("host-resync-limit", host(HostCommand::ResyncLimit(5))),
        ("host-counters", host(HostCommand::Counters)),
        ("host-sessions", host(HostCommand::Sessions { only: Some(object) })),
        ("host-latencies", host(HostCommand::Latencies { only: None })),
        ("host-clear-caches", host(HostCommand::ClearCaches { only: None, wait_ms: 5 })),
    ]
}

fn answers() -> Vec<(&'static str, Answer)> {
    let component = ComponentAnswer {
        component: ComponentId(8),
        present: true,
        lost: false,
        session: SessionId(9),
        settled: op(19),
        last_written: op(18),
        last_written_with: Vec::new(),
        window: Vec::new(),
        log_damaged: false,
    };
    let promised = SeizeAnswer::Promised { accepted: Some(Box::new(accepted())), components: vec![component] };
    let managed = |answer| Answer::Managed(Box::new(answer));
    vec![
        ("done", Answer::Done),
        ("data", Answer::Data { runs: vec![Run::Data { crcs: vec![1].into() }, Run::Hole { blocks: 3 }] }),
        ("regions", Answer::Regions(vec![(3, op(2))])),
        ("allocated", Answer::Allocated(vec![AllocatedPiece { range: range(), allocated: true }])),
        ("was-done", Answer::WasDone(true)),
        ("clients", Answer::Clients(vec![(client(), op(20))])),
        ("promised", Answer::Seize(promised)),
        ("promisee", Answer::Seize(SeizeAnswer::Promisee { promised: epoch() })),
        ("lease-held", Answer::Seize(SeizeAnswer::LeaseHeld { by: epoch(), for_ms: 2000 })),
        ("no-seat", Answer::Seize(SeizeAnswer::NoSeat)),
        (
            "record",
            Answer::Record {
                promised: epoch(),
                accepted: Some(Box::new(accepted())),
                disk_groups: vec![DiskGroupId(7)],
                owner: Some(HostId(2)),
            },
        ),
        ("status", Answer::Status(Box::new(status()))),
        ("managed-created", managed(HostAnswer::Created(DiskGroupId(7)))),
        ("managed-done", managed(HostAnswer::Done)),
        ("managed-groups", managed(HostAnswer::Groups(Api(Vec::new())))),
        ("managed-resyncs", managed(HostAnswer::Resyncs(vec![resync()]))),
        ("managed-owned", managed(HostAnswer::Owned(vec![status()]))),
        ("managed-owned-count", managed(HostAnswer::OwnedCount(3))),
        ("managed-sessions", managed(HostAnswer::Sessions(Api(Vec::new())))),
        ("managed-cleared", managed(HostAnswer::Cleared(Api(Vec::new())))),
        ("managed-refused", managed(HostAnswer::Refused(Api(ApiError::refused("no").remedy("wait"))))),
    ]
}

fn refusals() -> Vec<(&'static str, Refusal)> {
    vec![
        ("fenced", Refusal::Fenced { promised: epoch() }),
        ("stale", Refusal::Stale { csn: Csn(11) }),
        ("session", Refusal::Session),
        ("no-space", Refusal::NoSpace),
        ("bad-blocks", Refusal::BadBlocks(vec![range()])),
        ("media", Refusal::Media("gone".into())),
        ("not-found", Refusal::NotFound),
        ("not-owner", Refusal::NotOwner(Some(HostId(2)))),
        ("invalid", Refusal::Invalid("no".into())),
        ("inaccessible", Refusal::Inaccessible("waits".into())),
        ("lost", Refusal::Lost),
    ]
}

fn examples() -> BTreeMap<String, Message> {
    let id = 300;
    let mut all = BTreeMap::new();
    let mut add = |group: &str, name: &str, message| {
        assert!(all.insert(format!("{group}/{name}"), message).is_none(), "{group}/{name} is there twice");
    };
    for (name, op) in ops() {
        add("change", name, Message::Request { id, request: Request::Change { to: target(), op } });
    }
    for (name, request) in requests() {
        add("request", name, Message::Request { id, request });
    }
    for (name, answer) in answers() {
        add("answer", name, Message::Answer { id, answer: Ok(answer) });
    }
    for (name, refusal) in refusals() {
        add("refusal", name, Message::Answer { id, answer: Err(refusal) });
    }
    add("message", "done", Message::Done { ids: vec![1, 300] });
    add("message", "heartbeat", Message::Heartbeat(heartbeat(Listed::All(vec![(ObjectId(5), epoch())]))));
    add("message", "heartbeat-as-in", Message::Heartbeat(heartbeat(Listed::AsIn(69))));
    let answer = HeartbeatAnswer { number: 70, session: PeerSession(71), grantor: (HostId(2), Incarnation(3)) };
    add("message", "heartbeat-answer", Message::HeartbeatAnswer(answer));
    add("message", "settled", Message::Settled { to: target(), upto: op(19) });
    add("message", "release", Message::Release { disk_group: DiskGroupId(7), object: ObjectId(5), epoch: epoch() });
    all
}

/// Lines of name and bytes. With `CAIRN_PRINT_MESSAGES` set the test prints those of this build.
#[test]
fn what_protocol_12_says_is_what_release_0_2_0_said() {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let examples = examples();
    if std::env::var_os("CAIRN_PRINT_MESSAGES").is_some() {
        examples.iter().for_each(|(name, message)| println!("{name} {}", hex(&encode(message))));
    }
    let kept: BTreeMap<&str, &str> =
        include_str!("protocol-12.txt").lines().filter_map(|line| line.split_once(' ')).collect();
    for (name, message) in &examples {
        assert_eq!(kept.get(name.as_str()), Some(&hex(&encode(message)).as_str()), "{name}");
    }
    assert_eq!(kept.len(), examples.len(), "a message that release 0.2.0 sends has no example any more");
    for (name, bytes) in kept {
        let bytes: Vec<u8> =
            (0..bytes.len()).step_by(2).map(|at| u8::from_str_radix(&bytes[at..at + 2], 16).unwrap()).collect();
        assert_eq!(decode(&bytes).as_ref(), Ok(&examples[name]), "{name}");
    }
}
