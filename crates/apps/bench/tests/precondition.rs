//! `cairn-bench precondition` against real servers (nbdkit) and a real file: every byte is written, nothing unasked.

mod support;

use std::{
    fs,
    path::Path,
    process::{Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

use support::Server;

fn precondition(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cairn-bench"));
    command.arg("precondition").args(words).stderr(Stdio::piped()).stdout(Stdio::piped());
    command
}

/// Exit code, stdout, stderr.
fn told(output: Output) -> (i32, String, String) {
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

fn run(words: &[&str]) -> (i32, String, String) {
    told(precondition(words).output().unwrap())
}

/// What a server of a file serves; the file is one of zeroes at first.
fn serve(file: &Path, bytes: u64) -> Server {
    fs::File::create(file).unwrap().set_len(bytes).unwrap();
    Server::start(&["file", file.to_str().unwrap()])
}

/// Blocks of 512 bytes that hold nothing but zeroes.
fn zero_blocks(file: &Path) -> usize {
    fs::read(file).unwrap().chunks(512).filter(|block| block.iter().all(|byte| *byte == 0)).count()
}

#[test]
fn every_byte_is_written_whatever_the_size() {
    let dir = tempfile::tempdir().unwrap();
    let (even, odd) = (dir.path().join("even"), dir.path().join("odd"));
    // More than a piece, and a size that neither requests nor blocks of 4 KiB divide.
    let (even_bytes, odd_bytes) = (65 << 20, (3 << 20) + 128 * 1024 + 1536);
    let servers = [serve(&even, even_bytes), serve(&odd, odd_bytes)];
    let (code, out, err) = run(&[&servers[0].uri(), &servers[1].uri(), "--destructive"]);
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    assert!(out.contains(&format!("{} bytes in ", 2 * (even_bytes + odd_bytes))), "{out}");
    assert!(out.starts_with("2 targets, 2 writes of every byte: ") && out.contains(" MiB/s, "), "{out}");
    assert_eq!((zero_blocks(&even), zero_blocks(&odd)), (0, 0));
    let first = fs::read(&odd).unwrap();
    assert_eq!(first.len() as u64, odd_bytes, "and not one more");
    let mut blocks: Vec<&[u8]> = first.chunks_exact(4096).collect();
    let others = fs::read(&even).unwrap();
    blocks.extend(others.chunks_exact(4096));
    let count = blocks.len();
    blocks.sort_unstable();
    blocks.dedup();
    assert_eq!(blocks.len(), count, "no two blocks are alike, of both targets");

    let (code, _, _) = run(&[&servers[1].uri(), "--destructive", "--passes", "1", "--block", "4k", "--seed", "7"]);
    assert_eq!(code, 0);
    let again = fs::read(&odd).unwrap();
    assert!(first.chunks(512).zip(again.chunks(512)).all(|(old, new)| old != new), "every block was written again");
}

#[test]
fn duplicates_are_written_where_they_are_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("disk");
    let server = serve(&file, 8 << 20);
    let (code, _, err) = run(&[
        &server.uri(),
        "--destructive",
        "--passes",
        "1",
        "--dedupe",
        "4",
        "--dedupe-sets",
        "5",
        "--compress",
        "2",
    ]);
    assert_eq!(code, 0, "{err}");
    assert_eq!(zero_blocks(&file), 0);
    let data = fs::read(&file).unwrap();
    let mut blocks: Vec<&[u8]> = data.chunks_exact(4096).collect();
    let count = blocks.len() as f64;
    blocks.sort_unstable();
    blocks.dedup();
    let share = blocks.len() as f64 / count;
    assert!((0.2..0.3).contains(&share), "{share} of the blocks are different ones");
}

#[test]
fn files_are_written_in_full_too() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let file = dir.path().join("disk");
    fs::File::create(&file).unwrap().set_len((1 << 20) + 4096).unwrap();
    let (code, out, err) = run(&[file.to_str().unwrap(), "--destructive", "--passes", "3", "-b", "64k"]);
    if err.contains("has no direct I/O") {
        return;
    }
    assert_eq!(code, 0, "{err}");
    assert!(out.starts_with("1 target, 3 writes of every byte: 3158016 bytes in "), "{out}");
    assert_eq!(zero_blocks(&file), 0);
}

#[test]
fn what_cannot_be_is_refused_and_nothing_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("disk");
    let server = serve(&file, 1 << 20);
    for (words, code, expected) in [
        (&[][..], 1, "--destructive"),
        (&["--destructive", "--block", "1000"], 2, "multiple of 512"),
        (&["--destructive", "--block", "0"], 2, "multiple of 512"),
        (&["--destructive", "--passes", "0"], 2, "passes"),
        (&["--destructive", "--dedupe", "0.5"], 2, "deduplication ratio"),
        (&["--destructive", "nbd+unix:///?socket=/nowhere/at/all"], 3, "cannot connect"),
    ] {
        let uri = server.uri();
        let (got, out, err) = run(&[&[uri.as_str()], words].concat());
        assert_eq!((got, out.as_str()), (code, ""), "{words:?}: {err}");
        assert!(err.contains(expected) && err.starts_with("error: "), "{words:?}: {err}");
    }
    assert_eq!(zero_blocks(&file), 2048, "a target that is in order is not written while another one is not");
    let odd = dir.path().join("odd");
    let uneven = serve(&odd, 1000);
    let (code, _, err) = run(&[&uneven.uri(), "--destructive"]);
    assert!(code == 3 && err.contains("1000 bytes") && err.contains("multiple of 512"), "{err}");
}

#[test]
fn a_target_that_breaks_is_one_error() {
    let mut server = Server::start(&["--filter=delay", "memory", "64M", "wdelay=50ms"]);
    let running = precondition(&[&server.uri(), "--destructive"]).spawn().unwrap();
    thread::sleep(Duration::from_millis(700));
    let killed = Instant::now();
    server.kill();
    let (code, out, err) = told(running.wait_with_output().unwrap());
    assert!(killed.elapsed() < Duration::from_secs(20), "it ends with its target");
    assert_eq!((code, out.as_str()), (1, ""), "{err}");
    assert!(err.lines().count() == 1 && err.contains(&server.uri()) && err.contains("write of 131072 bytes"), "{err}");
}
