//! The HTTP layer over a real socket: every kind of error has its status and stays JSON; both doors open and close.

mod support;

use std::{
    net::TcpStream,
    os::unix::{fs::PermissionsExt as _, net::UnixStream},
};

use serde_json::{Value, json};
use support::TestServer;

/// Status and body of one request, written by hand: the bytes on the wire are what is tested.
fn ask(server: &TestServer, method: &str, path: &str, body: &str) -> (u16, String) {
    let stream = TcpStream::connect(server.address()).unwrap();
    exchange(stream, method, path, body)
}

fn exchange(mut stream: impl std::io::Read + std::io::Write, method: &str, path: &str, body: &str) -> (u16, String) {
    let kind = if body.is_empty() { "" } else { "Content-Type: application/json\r\n" };
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{kind}Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head[9..12].parse().unwrap(), body.to_owned())
}

fn ask_json(server: &TestServer, method: &str, path: &str, body: Value) -> (u16, Value) {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let (status, text) = ask(server, method, path, &body);
    let value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{method} {path}: {error} in {text:?}"));
    (status, value)
}

#[test]
fn every_kind_of_error_has_its_status_and_says_what_and_why() {
    let server = TestServer::start(None);
    let small = json!({"name": "a", "size_bytes": 1048576});
    assert_eq!(ask_json(&server, "POST", "/api/v1/disks", small.clone()).0, 201);
    let gold = json!({"name": "gold", "rules": {"ftt": 2}});
    assert_eq!(ask_json(&server, "POST", "/api/v1/policies", gold).0, 201);
    #[rustfmt::skip]
    let cases = [
        ("GET", "/api/v1/disks/nope", Value::Null, 404, "not-found", "no disk nope"),
        ("GET", "/api/v1/disks/nope/latencies", Value::Null, 404, "not-found", "no disk nope"),
        ("POST", "/api/v1/disks", small, 409, "conflict", "a disk a already"),
        ("POST", "/api/v1/disks", json!({"name": "b", "size_bytes": 1048576, "policy": "gold"}), 422, "refused", "5 fault domains"),
        ("POST", "/api/v1/disks", json!({"name": "b", "size_bytes": 1}), 400, "invalid", "sectors"),
        ("POST", "/api/v1/disks", json!({"name": "b", "size_bytes": u64::MAX}), 400, "invalid", "62 TiB"),
        ("POST", "/api/v1/disks", json!({"name": "../b", "size_bytes": 512}), 400, "invalid", "cannot be the name"),
        ("POST", "/api/v1/disks", json!({"name": "b"}), 400, "invalid", "size_bytes"),
        ("POST", "/api/v1/disks", json!({"name": "b", "size_bytes": 512, "polcy": "x"}), 400, "invalid", "polcy"),
        ("POST", "/api/v1/disks", json!({"name": "b", "size_bytes": -1}), 400, "invalid", "size_bytes"),
        ("POST", "/api/v1/policies", json!({"name": "ec", "rules": {"ftt": 3, "ftm": "erasure-coding"}}), 422, "refused", "erasure coding"),
        ("PATCH", "/api/v1/cluster/settings", json!({"lease_ms": 5}), 400, "invalid", "lease_ms"),
        ("DELETE", "/api/v1/disks/wounded", Value::Null, 409, "conflict", "in use: nbd at host-1 from 10.0.0.9:50000"),
        ("DELETE", "/api/v1/disks/wounded?force=perhaps", Value::Null, 400, "invalid", "force"),
        ("DELETE", "/api/v1/disks/wounded?froce=true", Value::Null, 400, "invalid", "froce"),
        ("GET", "/api/v1/disk-groups/xyz", Value::Null, 400, "invalid", "hexadecimal"),
        ("POST", "/api/v1/disk-groups", json!({"host": "host-4", "cache": "/a", "capacity": ["/b"]}), 503, "unavailable", "host-4"),
        ("POST", "/api/v1/hosts/host-1/maintenance", json!({"enter": true, "mode": "full-evacuation"}), 422, "refused", "cannot be emptied"),
        ("POST", "/api/v1/hosts/host-1/maintenance", json!({"enter": true, "mode": "some"}), 400, "invalid", "some"),
        ("POST", "/api/v1/caches/clear", json!({"wait_s": 0}), 400, "invalid", "wait_s"),
        ("POST", "/api/v1/caches/clear", json!({"host": "host-1", "disk_group": "0".repeat(32)}), 400, "invalid", "one of them"),
        ("POST", "/api/v1/caches/clear", json!({"host": "host-9"}), 404, "not-found", "host-9"),
        ("GET", "/nothing", Value::Null, 404, "not-found", "/nothing"),
        ("PUT", "/api/v1/disks", json!({}), 400, "invalid", "PUT"),
    ];
    for (method, path, body, status, kind, words) in cases {
        let (got, error) = ask_json(&server, method, path, body);
        assert_eq!((got, &error["kind"]), (status, &json!(kind)), "{method} {path}: {error}");
        let message = error["message"].as_str().unwrap();
        assert!(message.contains(words), "{method} {path}: {message}");
    }
    assert_eq!(ask(&server, "DELETE", "/api/v1/disks/wounded?force=true", ""), (204, String::new()));
    assert_eq!(ask(&server, "GET", "/api/v1/disks/wounded", "").0, 404);
}

#[test]
fn broken_bodies_are_answered_in_json() {
    let server = TestServer::start(None);
    for body in ["{", "[]", "null", "\u{1}", "{\"name\": \"a\", \"size_bytes\": 1e400}"] {
        let (status, text) = ask(&server, "POST", "/api/v1/disks", body);
        let error: Value = serde_json::from_str(&text).unwrap();
        assert_eq!((status, &error["kind"]), (400, &json!("invalid")), "{body:?}: {text}");
    }
    let (status, text) = ask(&server, "POST", "/api/v1/disks", &" ".repeat(70_000));
    assert_eq!(status, 400, "{text}");
}

#[test]
fn what_was_made_is_shown_changed_and_deleted() {
    let server = TestServer::start(None);
    let disk = json!({"name": "vm-1", "size_bytes": 20u64 << 30, "host": "host-1"});
    let (status, made) = ask_json(&server, "POST", "/api/v1/disks", disk);
    assert_eq!((status, &made["name"]), (201, &json!("vm-1")));
    let (_, shown) = ask_json(&server, "GET", "/api/v1/disks/vm-1", Value::Null);
    assert_eq!(shown, made);
    let by_id = format!("/api/v1/disks/{}", made["id"].as_str().unwrap());
    let (_, grown) = ask_json(&server, "POST", &format!("{by_id}/resize"), json!({"size_bytes": 30u64 << 30}));
    assert_eq!(grown["size_bytes"], json!(30u64 << 30));
    let (_, attached) = ask_json(&server, "POST", &format!("{by_id}/attach"), json!({"host": "host-2"}));
    assert_eq!(attached["owner"], json!("host-2"));
    let (_, record) = ask_json(&server, "GET", &format!("{by_id}/record"), Value::Null);
    assert_eq!(record["seats"].as_array().unwrap().len(), 3);
    assert_eq!(ask(&server, "DELETE", &by_id, "").0, 204);
    assert_eq!(ask(&server, "GET", &by_id, "").0, 404);
}

#[test]
fn caches_are_clear_or_their_groups_say_why_not() {
    let server = TestServer::start(None);
    let (status, all) = ask_json(&server, "POST", "/api/v1/caches/clear", json!({}));
    assert_eq!((status, &all["clear"]), (200, &json!(false)), "{all}");
    let states: Vec<&Value> = all["disk_groups"].as_array().unwrap().iter().map(|group| &group["state"]).collect();
    assert_eq!(states, ["clear", "clear", "clear", "unreachable"]);
    let (_, one) = ask_json(&server, "POST", "/api/v1/caches/clear", json!({"host": "host-2"}));
    assert_eq!((&one["clear"], one["disk_groups"].as_array().unwrap().len()), (&json!(true), 1));
    let (_, counters) = ask_json(&server, "GET", "/api/v1/counters", Value::Null);
    let group = &counters["hosts"][0]["disk_groups"][0];
    assert_eq!((&group["open_count"], &counters["hosts_silent"][0]), (&json!(1), &json!("host-4")));
    assert!(group["counters"]["log_write_bytes"].is_u64() && group["gauges"]["congestion"].is_u64(), "{group}");
}

#[test]
fn every_read_route_answers() {
    let server = TestServer::start(None);
    for path in [
        "/api/v1/cluster",
        "/api/v1/cluster/settings",
        "/api/v1/hosts",
        "/api/v1/hosts/host-2",
        "/api/v1/disk-groups",
        "/api/v1/disks",
        "/api/v1/sessions",
        "/api/v1/policies",
        "/api/v1/policies/default",
        "/api/v1/health",
        "/api/v1/resyncs",
        "/api/v1/resyncs/settings",
        "/api/v1/counters",
        "/api/v1/latencies",
        "/api/v1/disks/wounded/latencies",
        "/openapi.json",
    ] {
        let (status, _) = ask_json(&server, "GET", path, Value::Null);
        assert_eq!(status, 200, "{path}");
    }
    let (status, text) = ask(&server, "GET", "/metrics", "");
    assert_eq!(status, 200);
    assert!(text.contains("cairn_hosts_up 3"), "{text}");
}

/// Goal: every call of the list is served where the list says. Method: each with a name that nothing has and an empty body; an
/// answer of the route itself (no such path, no such method) fails.
#[test]
fn every_call_of_the_list_has_its_route() {
    let server = TestServer::start(None);
    for call in cairn_api::CALLS {
        let path = match call.path.split_once('{') {
            Some((before, rest)) => format!("{before}nothing{}", rest.split_once('}').unwrap().1),
            None => call.path.to_owned(),
        };
        let method = call.method.to_uppercase();
        let body = if ["get", "delete"].contains(&call.method) { "" } else { "{}" };
        let (status, text) = ask(&server, &method, &path, body);
        assert!(status < 500, "{}: {status} {text}", call.name);
        assert!(!text.contains("there is nothing at") && !text.contains("is not possible on"), "{}: {text}", call.name);
    }
}

#[test]
fn the_unix_socket_is_private_replaces_a_stale_one_and_goes_away() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run/api.sock");
    std::fs::create_dir(dir.path().join("run")).unwrap();
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    assert!(path.exists(), "a killed process leaves its socket behind");
    let server = TestServer::start(Some(path.clone()));
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o660);
    let (status, _) = exchange(UnixStream::connect(&path).unwrap(), "GET", "/api/v1/cluster", "");
    assert_eq!(status, 200);
    drop(server);
    assert!(!path.exists());
}

#[test]
fn a_socket_in_use_or_a_plain_file_is_not_replaced() {
    use cairnd::{bridge::bridge, http::ApiServer, plan::ApiPlan};
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("api.sock");
    let start = || {
        let (bridge, _end) = bridge::<support::memory::MemoryCluster>();
        let plan = ApiPlan { tcp: None, socket: Some(path.clone()) };
        ApiServer::start(&plan, std::sync::Arc::new(bridge)).map(|_| ())
    };
    let _listening = std::os::unix::net::UnixListener::bind(&path).unwrap();
    assert!(start().unwrap_err().to_string().contains("another process"));
    std::fs::remove_file(&path).unwrap();
    std::fs::write(&path, "precious").unwrap();
    assert!(start().unwrap_err().to_string().contains("no socket"));
    assert_eq!(std::fs::read(&path).unwrap(), b"precious");
}

#[test]
fn a_shard_that_is_gone_is_503() {
    use cairnd::{bridge::bridge, http::ApiServer, plan::ApiPlan};
    let (bridge, end) = bridge::<support::memory::MemoryCluster>();
    drop(end);
    let plan = ApiPlan { tcp: Some("127.0.0.1:0".parse().unwrap()), socket: None };
    let server = ApiServer::start(&plan, std::sync::Arc::new(bridge)).unwrap();
    let stream = TcpStream::connect(server.tcp.unwrap()).unwrap();
    assert_eq!(exchange(stream, "GET", "/api/v1/cluster", "").0, 503);
}
