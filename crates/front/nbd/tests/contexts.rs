//! Metadata contexts beside `base:allocation`: what changed since earlier moments of a disk, by the letter and as tools read it.

mod support;

use cairn_nbd::Options;
use serde_json::Value;
use support::{
    Served,
    client::{BLOCK_STATUS, Client, EINVAL, GO, READ, export_query, meta_query},
    serve, tool, try_tool,
};

const MIB: u64 = 1 << 20;
const BLOCK: u32 = 4096;
const REQ_ONE: u16 = 8;
const LIST: u32 = 9;
const SET: u32 = 10;
const ACK: u32 = 1;
const META_CONTEXT: u32 = 4;

/// A disk of 8 MiB that has changed since two moments: since "b" block 20 was written and block 30 trimmed, since "a" also blocks 10 and 11.
fn changed() -> Served {
    let served = serve(&[("disk", 8 * MIB)], Options::default());
    let mut c = Client::unix(&served.socket()).go("disk", true);
    c.write(0, &[1; 64 * BLOCK as usize]);
    served.disk("disk", |d| d.remember("a"));
    c.write(u64::from(10 * BLOCK), &[2; 2 * BLOCK as usize]);
    served.disk("disk", |d| d.remember("b"));
    c.write(u64::from(20 * BLOCK), &[3; BLOCK as usize]);
    c.ask(support::client::TRIM, 0, u64::from(30 * BLOCK), BLOCK);
    served
}

fn selected(served: &Served, queries: &[&[u8]]) -> (Client, Vec<(u32, Vec<u8>)>) {
    let mut c = Client::unix(&served.socket()).greet(3);
    assert_eq!(c.option(8, &[]), [(ACK, vec![])]);
    let told = c.option(SET, &meta_query("disk", queries));
    assert_eq!(c.option(GO, &export_query("disk", &[])).last().map(|reply| reply.0), Some(ACK));
    c.structured = true;
    (c, told)
}

fn context(id: u32, name: &str) -> (u32, Vec<u8>) {
    (META_CONTEXT, [&id.to_be_bytes(), name.as_bytes()].concat())
}

#[test]
fn each_context_is_told_in_a_chunk_of_its_own() {
    let served = changed();
    let mut c = Client::unix(&served.socket()).greet(3);
    let (a, b) = (context(2, "qemu:dirty-bitmap:a"), context(4, "qemu:dirty-bitmap:b"));
    let ack = (ACK, vec![]);
    for query in [&b"qemu:"[..], b"qemu:dirty-bitmap:"] {
        assert_eq!(c.option(LIST, &meta_query("disk", &[query])), [a.clone(), b.clone(), ack.clone()]);
    }
    assert_eq!(c.option(LIST, &meta_query("disk", &[])).len(), 6);
    assert_eq!(c.option(LIST, &meta_query("other", &[b"qemu:"])), std::slice::from_ref(&ack), "another disk's");
    let queries: [&[u8]; 4] =
        [b"base:allocation", b"qemu:dirty-bitmap:b", b"qemu:dirty-bitmap:c", b"cairn:changed-since:a"];
    let (mut c, told) = selected(&served, &queries);
    assert_eq!(told, [context(1, "base:allocation"), context(3, "cairn:changed-since:a"), b, ack]);
    let whole = c.ask(BLOCK_STATUS, 0, 0, 64 * BLOCK);
    let k = |blocks: u32| blocks * BLOCK;
    assert_eq!((whole.error, whole.chunks), (0, 3));
    assert_eq!(whole.extents, [(k(30), 0), (k(1), 3), (k(33), 0)]);
    let overlay = vec![(k(10), 1), (k(2), 0), (k(8), 1), (k(1), 0), (k(9), 1), (k(1), 3), (k(33), 1)];
    let dirty = vec![(k(20), 0), (k(1), 1), (k(9), 0), (k(1), 1), (k(33), 0)];
    assert_eq!(whole.told, [(3, overlay), (4, dirty)]);
    let one = c.ask(BLOCK_STATUS, REQ_ONE, u64::from(k(10)) + 512, k(30));
    assert_eq!(
        (one.extents, one.told),
        (vec![(k(20) - 512, 0)], vec![(3, vec![(k(2) - 512, 0)]), (4, vec![(k(10) - 512, 0)])])
    );
    assert_eq!(c.ask(READ, 0, 0, BLOCK).bytes(0, BLOCK), [1; BLOCK as usize]);
    // Alone, without base:allocation.
    let (mut c, told) = selected(&served, &[b"qemu:dirty-bitmap:a"]);
    assert_eq!(told, [a, (ACK, vec![])]);
    let dirty = c.ask(BLOCK_STATUS, 0, u64::from(k(10)), k(2));
    assert_eq!((dirty.extents, dirty.told), (vec![], vec![(2, vec![(k(2), 1)])]));
    let (mut c, _) = selected(&served, &[b"qemu:dirty-bitmap:", b"qemu:dirty-bitmap:c"]);
    assert_eq!(c.ask(BLOCK_STATUS, 0, 0, BLOCK).error, EINVAL, "none was selected");
    served.stop();
}

/// Goal: the tools that people have read the changes as they are. Method: nbdinfo lists and maps them; qemu-img maps them; qemu-img makes an
/// overlay of what changed, over a copy of the earlier moment, which then equals the disk and holds no more than what changed.
#[test]
fn tools_read_changes_and_make_an_overlay_of_them() {
    let served = changed();
    let uri = served.unix_uri("disk");
    let info: Value = serde_json::from_str(&tool("libnbd-bin", "nbdinfo", &["--json", &uri])).expect("JSON");
    let contexts = info["exports"][0]["contexts"].as_array().expect("a list").clone();
    for name in ["base:allocation", "qemu:dirty-bitmap:a", "qemu:dirty-bitmap:b", "cairn:changed-since:b"] {
        assert!(contexts.contains(&Value::from(name)), "{contexts:?}");
    }
    let map = tool("libnbd-bin", "nbdinfo", &["--map=qemu:dirty-bitmap:b", "--json", &uri]);
    let map: Value = serde_json::from_str(&map).expect("JSON");
    let number = |extent: &Value, name: &str| extent[name].as_u64().expect("a number");
    let dirty: Vec<_> = map
        .as_array()
        .expect("a list")
        .iter()
        .filter(|e| e["description"] == "dirty" && number(e, "type") == 1)
        .map(|e| (number(e, "offset") / 4096, number(e, "length") / 4096))
        .collect();
    assert_eq!(dirty, [(20, 1), (30, 1)]);
    let source = |context: &str| {
        let socket = served.socket();
        let server = format!("driver=nbd,server.type=unix,server.path={},export=disk", socket.display());
        format!("{server},x-dirty-bitmap={context}")
    };
    let map = ["map", "--output=json", "--image-opts", &source("qemu:dirty-bitmap:b")];
    let map: Value = serde_json::from_str(&tool("qemu-utils", "qemu-img", &map)).expect("JSON");
    let dirty: Vec<_> = map
        .as_array()
        .expect("a list")
        .iter()
        .filter(|e| e["data"] == false)
        .map(|e| (number(e, "start") / 4096, number(e, "length") / 4096))
        .collect();
    assert_eq!(dirty, [(20, 1), (30, 1)], "QEMU takes the flag of what is dirty for that of a hole");

    let (base, overlay) = (served.file("b.qcow2"), served.file("now.qcow2"));
    tool("qemu-utils", "qemu-img", &["convert", "-f", "raw", "-O", "qcow2", &uri, &base]);
    // As it was at "b": without what came after.
    let undo = ["-f", "qcow2", "-c", "write -q -P 1 80k 4k", "-c", "write -q -P 1 120k 4k", &base];
    tool("qemu-utils", "qemu-io", &undo);
    let from = source("cairn:changed-since:b");
    let make = ["convert", "--image-opts", "-O", "qcow2", "-o", "cluster_size=4k", "-B", &base, "-F", "qcow2"];
    tool("qemu-utils", "qemu-img", &[&make[..], &[&from, &overlay]].concat());
    tool("qemu-utils", "qemu-img", &["compare", "-f", "qcow2", "-F", "raw", &overlay, &uri]);
    let map = tool("qemu-utils", "qemu-img", &["map", "--output=json", "-f", "qcow2", &overlay]);
    let map: Value = serde_json::from_str(&map).expect("JSON");
    let own: Vec<_> = map
        .as_array()
        .expect("a list")
        .iter()
        .filter(|e| e["depth"] == 0)
        .map(|e| (number(e, "start") / 4096, number(e, "length") / 4096, e["zero"] == true))
        .collect();
    assert_eq!(own, [(20, 1, false), (30, 1, true)]);
    // What the overlay has itself is compared with what changed; a byte of it, or a block more, is seen.
    let alone = format!(
        "json:{{\"driver\":\"qcow2\",\"backing\":null,\"file\":{{\"driver\":\"file\",\"filename\":\"{overlay}\"}}}}"
    );
    let of_disk = format!(
        "json:{{\"driver\":\"raw\",\"file\":{{\"driver\":\"nbd\",\"server\":{{\"type\":\"unix\",\"path\":\"{}\"}},\
         \"export\":\"disk\",\"x-dirty-bitmap\":\"cairn:changed-since:b\"}}}}",
        served.socket().display()
    );
    let compare = || try_tool("qemu-utils", "qemu-img", &["compare", &alone, &of_disk]).status.code();
    assert_eq!(compare(), Some(0));
    for (wrong, right) in
        [("write -q -P 9 80k 1k", "write -q -P 3 80k 1k"), ("write -q -P 9 120k 1k", "write -q -P 0 120k 1k")]
    {
        tool("qemu-utils", "qemu-io", &["-f", "qcow2", "-c", wrong, &overlay]);
        assert_eq!(compare(), Some(1), "{wrong}");
        tool("qemu-utils", "qemu-io", &["-f", "qcow2", "-c", right, &overlay]);
        assert_eq!(compare(), Some(0), "{right}");
    }
    tool("qemu-utils", "qemu-io", &["-f", "qcow2", "-c", "write -q -P 1 40k 4k", &overlay]);
    assert_eq!(compare(), Some(1), "a block that did not change");
    served.stop();
}
