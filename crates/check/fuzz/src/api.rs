//! HTTP requests to the management API of a real host in the simulator: router, bodies, validation, and the work itself.
//!
//! Promises    every request is answered; no answer is a fault of the server (500); every body is JSON, but for metrics
//! Assumes     one host with one disk group, made anew for every input: the same input meets the same cluster
//!
//! An input is lines, each `METHOD PATH BODY`.

use std::{rc::Rc, sync::Arc};

use axum::{body::Body, http::Request};
use cairn_cluster::{cluster::Cluster, shape::Shape};
use cairnd::{bridge::bridge, http::router};
use http_body_util::BodyExt;
use tower::ServiceExt;

/// Requests of one input.
const REQUESTS_MAX: usize = 8;
/// A run of the world that takes more steps than this does not end.
const STEPS_MAX: u64 = 20_000_000;

/// Sends the requests, one after the other.
pub fn target(data: &[u8]) {
    let lines: Vec<&[u8]> =
        data.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).take(REQUESTS_MAX).collect();
    let requests: Vec<_> = lines.into_iter().filter_map(request).collect();
    if requests.is_empty() {
        return;
    }
    let shape = Shape {
        capacity_devices: 1,
        capacity_bytes: 256 << 20,
        log_segments: 4,
        destage_percent: 50,
        idle_destage_ms: 0,
        disks: Vec::new(),
        pause_max_ms: 0,
        ..Shape::plain(1)
    };
    let cluster = Cluster::new(1, &shape, false);
    cluster.world.set_steps_max(STEPS_MAX);
    let node = cluster.node(0).expect("a host that has started");
    let (bridge, end) = bridge();
    let router = router(Arc::new(bridge));
    cluster.world.spawn(end.serve(Rc::new(node)));
    cluster.world.block_on(async move {
        for (name, request) in requests {
            let metrics = request.uri().path() == "/metrics";
            let Ok(response) = router.clone().oneshot(request).await;
            let status = response.status().as_u16();
            let body = response.into_body().collect().await.expect("a body in memory").to_bytes();
            assert_ne!(status, 500, "{name}: {}", String::from_utf8_lossy(&body));
            let is_json = serde_json::from_slice::<serde_json::Value>(&body).is_ok();
            assert!(is_json || metrics || body.is_empty(), "{name}: {status} {}", String::from_utf8_lossy(&body));
        }
    });
    cluster.world.end();
}

/// A line as a request; none where not even an HTTP parser would let it through.
fn request(line: &[u8]) -> Option<(String, Request<Body>)> {
    let mut parts = line.splitn(3, |byte| *byte == b' ');
    let (method, path) = (parts.next()?, parts.next()?);
    let body = parts.next().unwrap_or_default().to_vec();
    let mut request = Request::builder().method(method).uri(path);
    if !body.is_empty() {
        request = request.header("content-type", "application/json");
    }
    let name = String::from_utf8_lossy(line).into_owned();
    Some((name, request.body(Body::from(body)).ok()?))
}
