//! What protocol 13 said beside protocol 12 stays as it was: one message of every kind, as release 0.3.0 encoded it.
//!
//! The bytes in `protocol-13.txt` were written by that release from the same examples, as those of protocol 12 by the release before.

use std::collections::BTreeMap;

use cairn_types::*;
use cairn_wire::*;

fn epoch() -> Epoch {
    Epoch { number: 300, host: HostId(2), incarnation: Incarnation(3) }
}

fn op(seq: u64) -> OpId {
    OpId { epoch: epoch(), seq }
}

fn to() -> Target {
    Target { disk_group: DiskGroupId(7), component: ComponentId(8), epoch: epoch(), session: SessionId(9) }
}

fn range() -> BlockRange {
    BlockRange::new(16, 4)
}

fn client() -> ClientTag {
    ClientTag { session: 12, number: 13 }
}

/// A disk of which one part has gone over to another layout, and another one is on its way.
fn config() -> ObjectConfig {
    let mirror = Layout {
        chunk_bytes: 1 << 30,
        stripe_width: 1,
        strip_bytes: 1 << 20,
        redundancy: Redundancy::Mirror { copies: 2 },
    };
    let rows = Layout { redundancy: Redundancy::Parity { data: 3, parity: 1, strip_blocks: 16 }, ..mirror };
    let chunk = (1 << 30) / u64::from(BLOCK_BYTES);
    let moving = |first_block, first_set| Moving {
        to: Span { first_block, first_set, layout: rows, was: Some(mirror), generation: 1 },
        end_block: first_block + chunk,
    };
    let one = Addresses::from(mirror).begun(moving(0, 3), 4).moved(3 * chunk).expect("it was begun");
    ObjectConfig {
        object: ObjectId(5),
        name: "vm-1".into(),
        size_bytes: 3 << 30,
        policy: Policy::default(),
        policy_name: "default".into(),
        addresses: one.begun(moving(chunk, 4), 5),
        members: Vec::new(),
        decided: op(6),
        deleted: false,
        past: None,
        ancestry: None,
    }
}

fn requests() -> Vec<(&'static str, Request)> {
    let to = to();
    let apply = |blocks| ComponentOp::Apply { op: op(20), settled: op(19), client: client(), blocks };
    let crcs = || Crcs::from_slice(&[1, 2, 3]);
    let runs = vec![Run::Data { crcs: crcs() }, Run::Parity { crcs: crcs(), row_checks: crcs() }];
    let rows = BlockOp::Rows { members: 5, first_block: 16, runs };
    let difference = Difference { members: 5, first_block: 16, column: 1, factor: 2, old: crcs(), new: crcs() };
    let manage = |command| Request::Manage { object: ObjectId(5), command };
    let host = |command| Request::ManageHost { command };
    let (disk_group, component) = (DiskGroupId(7), ComponentId(8));
    vec![
        ("read-marks", Request::Read { to, range: range(), by: ReadBy::Marks }),
        ("rows", Request::Change { to, op: apply(rows.clone()) }),
        (
            "zero-rows",
            Request::Change { to, op: apply(BlockOp::ZeroRows { members: 5, range: range(), keep_allocated: true }) },
        ),
        ("difference", Request::Change { to, op: apply(BlockOp::Difference(Box::new(difference))) }),
        (
            "copy-marks",
            Request::Change { to, op: apply(BlockOp::Copy { first_block: 16, runs: vec![Run::Bad { crcs: crcs() }] }) },
        ),
        ("exchange", Request::Exchange { to, op: apply(rows) }),
        ("verify-digests", Request::Verify { to, range: range(), by: VerifyBy::Digests }),
        ("verify-blocks", Request::Verify { to, range: range(), by: VerifyBy::Blocks }),
        ("compared", Request::Compared { to, repaired: vec![range()], undecided: vec![range()] }),
        ("manage-policy", manage(OwnerCommand::Policy { name: "gold".into(), policy: Policy::default() })),
        ("manage-move", manage(OwnerCommand::Move { component, to: vec![HostId(2)] })),
        ("manage-repair", manage(OwnerCommand::Repair { component, ranges: vec![range()] })),
        ("host-usage", host(HostCommand::Usage { only: Some(ObjectId(5)) })),
        ("host-hears", host(HostCommand::Hears)),
        ("host-devices", host(HostCommand::Devices)),
        ("host-on-device", host(HostCommand::OnDevice { disk_group, device: DeviceId(6) })),
        ("host-copy-rate", host(HostCommand::CopyRate)),
        ("host-scrub", host(HostCommand::Scrub { only: Some(disk_group), verb: None })),
    ]
}

fn answers() -> Vec<(&'static str, Answer)> {
    let crcs = || Crcs::from_slice(&[1, 2]);
    let managed = |answer| Answer::Managed(Box::new(answer));
    let states = vec![
        BlockState::Zeroes { op: None },
        BlockState::Zeroes { op: Some(op(4)) },
        BlockState::Data { crc: 5, op: op(4) },
        BlockState::Lost { crc: 6 },
    ];
    let component = ComponentAnswer {
        component: ComponentId(8),
        present: true,
        lost: false,
        session: SessionId(9),
        settled: op(19),
        last_written: op(18),
        last_written_with: vec![op(17), OpId::ZERO],
        window: vec![UnsettledOp { op: op(20), range: range(), client: client(), members: 5 }],
        log_damaged: false,
    };
    let accepted = Accepted { epoch: epoch(), csn: Csn(11), base: None, config: config() };
    let promised = SeizeAnswer::Promised { accepted: Some(Box::new(accepted)), components: vec![component] };
    vec![
        ("parity", Answer::Data { runs: vec![Run::Parity { crcs: crcs(), row_checks: crcs() }] }),
        ("marks", Answer::Data { runs: vec![Run::Bad { crcs: crcs() }] }),
        ("digests", Answer::Verified(Verified::Digests(vec![7, u64::MAX]))),
        ("blocks", Answer::Verified(Verified::Blocks(BlockStates { touched: op(4), blocks: states }))),
        ("promised-of-rows", Answer::Seize(promised)),
        ("managed-usage", managed(HostAnswer::Usage(vec![(ComponentId(8), 4096)]))),
        ("managed-hears", managed(HostAnswer::Hears(vec![HostId(2)]))),
        ("managed-devices", managed(HostAnswer::Devices(Api(Vec::new())))),
        ("managed-on-device", managed(HostAnswer::OnDevice { components: vec![ComponentId(8)], room: Some(1) })),
        ("managed-copy-rate", managed(HostAnswer::CopyRate(Some(5)))),
        ("managed-scrubs", managed(HostAnswer::Scrubs(Api(Vec::new())))),
    ]
}

fn examples() -> BTreeMap<String, Message> {
    let id = 300;
    let asked =
        requests().into_iter().map(|(name, request)| (format!("request/{name}"), Message::Request { id, request }));
    let told = answers()
        .into_iter()
        .map(|(name, answer)| (format!("answer/{name}"), Message::Answer { id, answer: Ok(answer) }));
    let heartbeat = Heartbeat {
        number: 70,
        session: PeerSession(71),
        remembered: Vec::new(),
        summary: HostSummary { unix_ms: 1000, disk_groups: Vec::new(), resync_bytes_per_s_max: None },
        owned: Listed::AsIn(69),
    };
    let facts = Message::HeartbeatWith(heartbeat, Facts::of_level(Level(13)));
    asked.chain(told).chain([("message/heartbeat-with".into(), facts)]).collect()
}

/// Lines of name and bytes. With `CAIRN_PRINT_MESSAGES` set the test prints those of this build.
#[test]
fn what_protocol_13_says_is_what_release_0_3_0_said() {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let examples = examples();
    if std::env::var_os("CAIRN_PRINT_MESSAGES").is_some() {
        examples.iter().for_each(|(name, message)| println!("{name} {}", hex(&encode(message))));
    }
    let kept: BTreeMap<&str, &str> =
        include_str!("protocol-13.txt").lines().filter_map(|line| line.split_once(' ')).collect();
    assert!(kept.keys().copied().eq(examples.keys().map(String::as_str)), "what 0.3.0 sends has an example each");
    for (name, message) in &examples {
        assert_eq!(kept[name.as_str()], hex(&encode(message)), "{name}");
        assert_eq!(decode(&encode(message)).as_ref(), Ok(message), "{name}");
        assert!(message.since() <= Level(13), "{name}");
    }
}
