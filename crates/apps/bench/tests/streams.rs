//! Streams of one job: each counts for itself, all together are the result, and one path serves several.

mod support;

use std::{fs, time::Duration};

use cairn_bench::{
    job::{Job, StreamJob},
    run,
};
use cairn_workload::{Addresses, Content, Kind, Pace, Spec};
use support::Server;
use tempfile::TempDir;

fn stream(target: &str, kinds: &[Kind]) -> StreamJob {
    let spec = Spec { kinds: kinds.to_vec(), addresses: Addresses::Uniform, span_begin: 0, span_bytes: 0, seed: 1 };
    StreamJob::new(target.parse().unwrap(), spec, Content::random(1, 0))
}

fn job(streams: Vec<StreamJob>) -> Job {
    let (ramp, measure) = (Duration::from_millis(200), Duration::from_secs(2));
    Job { streams, ramp, measure, destructive: true, ..Job::nothing() }
}

#[test]
fn each_stream_has_its_own_load_and_all_add_up() {
    let server = Server::start(&["--filter=delay", "memory", "64M", "rdelay=5ms", "wdelay=5ms"]);
    let closed = StreamJob { outstanding: 4, ..stream(&server.uri(), &[Kind::new(4096, 100, 100)]) };
    let even = Pace::Rate { per_s: 50.0 };
    let rate = StreamJob { pace: even, outstanding: 8, ..stream(&server.uri(), &[Kind::new(8192, 0, 0)]) };
    let job = job(vec![closed, rate]);
    let measured = run::run(&job).unwrap();
    assert!(measured.broken.is_none(), "{:?}", measured.doubts(&job));
    let [reads, writes] = &measured.streams[..] else { panic!("two streams") };
    assert_eq!((reads.writes.bytes, writes.reads.bytes), (0, 0));
    assert_eq!((measured.reads.bytes, measured.writes.bytes), (reads.reads.bytes, writes.writes.bytes));
    assert_eq!(writes.writes.bytes, writes.writes.latency.count() * 8192);
    assert!((95..=105).contains(&writes.writes.latency.count()), "50 a second for 2 s");
    let little = measured.little(&job).unwrap();
    assert!((3.8..4.2).contains(&little.outstanding), "of the closed loop alone: {little:?}");
    let of_seconds = measured.seconds.iter().map(|s| (s.reads.requests, s.writes.requests));
    let sum = of_seconds.fold((0, 0), |sum, s| (sum.0 + s.0, sum.1 + s.1));
    assert_eq!(sum, (measured.reads.latency.count(), measured.writes.latency.count()));
}

/// A path is locked while it is open: two streams share it. One ends when it has moved its bytes, and the run with the last.
#[test]
fn streams_share_a_path_and_end_with_their_bytes() {
    let dir = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = dir.path().join("target");
    fs::write(&path, vec![0; 8 << 20]).unwrap();
    let path = path.to_str().unwrap();
    let half = |part| StreamJob {
        part: Some(part),
        spans_max: Some(1.0),
        outstanding: 4,
        ..stream(path, &[Kind::new(65536, 0, 0)])
    };
    let mut job = job(vec![half((0.0, 50.0)), half((50.0, 100.0))]);
    (job.ramp, job.measure) = (Duration::ZERO, Duration::from_secs(60));
    let measured = run::run(&job).unwrap();
    assert!(measured.broken.is_none());
    assert!(measured.measured < Duration::from_secs(50), "{:?}", measured.measured);
    let bytes: Vec<u64> = measured.streams.iter().map(|s| s.writes.bytes).collect();
    assert_eq!(bytes, [4 << 20, 4 << 20]);
    let written = fs::read(path).unwrap();
    assert!(written.chunks(4096).all(|unit| unit.iter().any(|b| *b != 0)), "all of it was written");
}

#[test]
fn a_load_of_several_kinds() {
    let server = Server::start(&["memory", "64M"]);
    let kinds = [Kind { weight: 3, ..Kind::new(4096, 100, 100) }, Kind::new(65536, 0, 100)];
    let job = job(vec![StreamJob { outstanding: 8, ..stream(&server.uri(), &kinds) }]);
    let measured = run::run(&job).unwrap();
    let (reads, writes) = (measured.reads.latency.count(), measured.writes.latency.count());
    assert_eq!((measured.reads.bytes, measured.writes.bytes), (reads * 4096, writes * 65536));
    let share = reads as f64 / (reads + writes) as f64;
    assert!((0.7..0.8).contains(&share), "{share} of the requests are of the first kind");
}

/// The last request of a slow rate ends long before the measured time: which is as long as ever.
#[test]
fn a_slow_rate_is_measured_to_the_end() {
    let server = Server::start(&["memory", "1M"]);
    let slow = StreamJob { pace: Pace::Rate { per_s: 2.0 }, ..stream(&server.uri(), &[Kind::new(4096, 100, 100)]) };
    let job = job(vec![slow]);
    let measured = run::run(&job).unwrap();
    assert_eq!(measured.measured, job.measure);
    assert!((measured.per_s(&measured.reads) - 2.0).abs() < 0.6, "{}", measured.per_s(&measured.reads));
}
