//! Raw bytes through standard output, by nbdcopy, and through standard input, in pieces by qemu-img.
//!
//! Promises    what passes is counted; from a pipe zeroes are holes of the disk, and each piece is compared before it is forgotten
//!
//! nbdcopy writes out every zero that comes through a pipe, and qemu-img reads none. So what comes is put into files of a
//! bounded size, one after the other: while one of them is imported the next one is filled.

use std::{
    fs::{self, File},
    io::{self, Read, Seek as _, SeekFrom, Write},
    path::{Path, PathBuf},
    process::Stdio,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

use serde_json::json;
use tokio::sync::mpsc;

use super::{door::Door, tool::Tool};
use crate::{fail::Fail, progress};

/// Bytes that are read or written at once.
const STEP_BYTES: usize = 1 << 20;
/// Between two looks at how many have passed.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// Of standard input that is a file at a time. Two are there: in the folder for temporary files there has to be room for twice as much.
const PIECE_BYTES: u64 = 256 << 20;
/// What is looked at to be a hole or not: a block of a disk.
const BLOCK_BYTES: usize = 4096;

/// Writes an export to standard output.
///
/// # Errors
/// What nbdcopy said, or whoever reads has ended.
pub async fn out(nbdcopy: &Tool, door: &Door, export: &str, size_bytes: u64) -> Result<(), Fail> {
    let act = "write the disk to standard output";
    let (mut reader, writer) = io::pipe().map_err(|error| Fail::refused(format!("cannot make a pipe: {error}")))?;
    let mut command = nbdcopy.command(["--", &door.uri(export), "-"]);
    command.stdout(Stdio::from(writer));
    let passed = Arc::new(AtomicU64::new(0));
    let count = passed.clone();
    // Who reads there may have stopped: so a thread, for which nobody waits where this is interrupted.
    let through = thread::spawn(move || {
        let (mut step, mut to) = (vec![0; STEP_BYTES], io::stdout());
        loop {
            match reader.read(&mut step)? {
                0 => return to.flush(),
                n => to.write_all(&step[..n]).map(|()| count.fetch_add(n as u64, Relaxed))?,
            };
        }
    });
    let bar = progress::copy_bar("exported", size_bytes);
    let ran = {
        let ran = nbdcopy.run(&mut command, None);
        tokio::pin!(ran);
        loop {
            match tokio::time::timeout(LOOK_EVERY, &mut ran).await {
                Ok(ran) => break ran?,
                Err(_) => bar.set_position(passed.load(Relaxed)),
            }
        }
    };
    // It has the other end of the pipe as well.
    drop(command);
    while !through.is_finished() {
        tokio::time::sleep(LOOK_EVERY / 20).await;
    }
    bar.finish_and_clear();
    match through.join() {
        // Nobody reads any more: then nbdcopy failed for that.
        Ok(Err(error)) => Err(Fail::refused(format!("cannot {act}: {error}"))),
        _ if !ran.status.success() => Err(nbdcopy.failed(act, &ran)),
        Ok(Ok(())) => Ok(()),
        Err(_) => Err(Fail::refused(format!("cannot {act}: the thread that writes is gone"))),
    }
}

/// A part of what comes through standard input.
struct Piece {
    file: PathBuf,
    offset: u64,
    len_bytes: u64,
}

/// Reads standard input to its end into a disk that reads as zeroes. Tells how many bytes came.
///
/// # Errors
/// They cannot be read, are more than the disk has, or what qemu-img said.
pub async fn into(qemu_img: &Tool, door: &Door, disk: &str, size_bytes: u64, compare: bool) -> Result<u64, Fail> {
    let folder =
        tempfile::tempdir().map_err(|error| Fail::refused(format!("cannot make a temporary folder: {error}")))?;
    let (pieces, mut next) = mpsc::channel(1);
    let at = folder.path().to_owned();
    // As above; its files go with their folder.
    thread::spawn(move || cut(&mut io::stdin().lock(), &at, size_bytes, &pieces));
    let bar = progress::copy_bar("imported", size_bytes);
    let mut done = 0;
    while let Some(piece) = next.recv().await {
        let Piece { file, offset, len_bytes } = piece?;
        let source = format!("json:{}", json!({ "driver": "raw", "file": { "driver": "file", "filename": file } }));
        let target = format!("{},offset={offset},size={len_bytes}", door.options(disk));
        let words = ["convert", "-n", "--target-is-zero", "--target-image-opts", &source, &target];
        qemu_img.done(&format!("import into disk {disk}"), words, None).await?;
        if compare {
            let node = json!({ "driver": "raw", "offset": offset, "size": len_bytes, "file": door.node(disk) });
            let what = format!("what came through standard input from byte {offset} on and disk {disk}");
            qemu_img.compare([&source, &format!("json:{node}")], &what, None).await?;
        }
        let _ = fs::remove_file(file);
        done = offset + len_bytes;
        bar.set_position(done);
    }
    bar.finish_and_clear();
    Ok(done)
}

/// Cuts what comes into files, and tells of each; the last thing that it tells may be why it went no further.
fn cut(from: &mut impl Read, folder: &Path, size_bytes: u64, pieces: &mpsc::Sender<Result<Piece, Fail>>) {
    let mut offset = 0;
    loop {
        let file = folder.join(format!("{offset}.raw"));
        let piece = match fill(from, &file) {
            Ok(0) => return,
            Ok(len_bytes) if offset + len_bytes > size_bytes => {
                let text = format!("standard input has more than the {size_bytes} bytes of the disk");
                Err(Fail::refused(text).remedy("tell its size with --size"))
            }
            Ok(len_bytes) => Ok(Piece { file, offset, len_bytes }),
            Err(error) => Err(Fail::refused(format!("cannot keep what comes through standard input: {error}"))
                .remedy("see to it that there is room, or name another folder with TMPDIR")),
        };
        let ended = piece.as_ref().map_or(true, |piece| piece.len_bytes < PIECE_BYTES);
        offset += PIECE_BYTES;
        if pieces.blocking_send(piece).is_err() || ended {
            return;
        }
    }
}

/// A file of what comes next, in whole sectors, with holes in the place of zeroes. Tells its length.
fn fill(from: &mut impl Read, path: &Path) -> io::Result<u64> {
    let mut file = File::create(path)?;
    let (mut len_bytes, mut step) = (0, Vec::with_capacity(STEP_BYTES));
    while len_bytes < PIECE_BYTES {
        step.clear();
        if from.take(STEP_BYTES as u64).read_to_end(&mut step)? == 0 {
            break;
        }
        for block in step.chunks(BLOCK_BYTES) {
            match block.iter().all(|byte| *byte == 0) {
                true => file.seek(SeekFrom::Current(block.len() as i64)).map(drop)?,
                false => file.write_all(block)?,
            }
        }
        len_bytes += step.len() as u64;
    }
    file.set_len(len_bytes.next_multiple_of(u64::from(cairn_types::SECTOR_BYTES)))?;
    Ok(file.metadata()?.len())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    /// Goal: what comes is in the pieces, in order, zeroes as holes. Method: bytes of one and a half pieces, half of them zeroes.
    #[test]
    fn what_comes_is_cut_into_pieces_with_holes() {
        let folder = tempfile::tempdir().unwrap();
        let len = PIECE_BYTES + PIECE_BYTES / 8 + 100;
        let byte = |at: u64| if (at >> 23).is_multiple_of(2) { 0 } else { (at >> 12) as u8 | 1 };
        let mut came = vec![0; len as usize];
        for (block, bytes) in came.chunks_mut(BLOCK_BYTES).enumerate() {
            bytes.fill(byte((block * BLOCK_BYTES) as u64));
        }
        let (pieces, mut told) = mpsc::channel(8);
        cut(&mut &came[..], folder.path(), 1 << 40, &pieces);
        drop(pieces);
        let mut at = 0;
        while let Some(piece) = told.blocking_recv() {
            let piece = piece.unwrap();
            let bytes = fs::read(&piece.file).unwrap();
            let end = came.len().min(at + bytes.len());
            assert_eq!((piece.offset, piece.len_bytes), (at as u64, bytes.len() as u64));
            assert!(bytes[..end - at] == came[at..end] && bytes[end - at..].iter().all(|byte| *byte == 0));
            assert!(fs::metadata(&piece.file).unwrap().blocks() * 512 < piece.len_bytes * 3 / 4, "holes are holes");
            at += bytes.len();
        }
        assert_eq!(at as u64, len.next_multiple_of(512));
        let (pieces, mut told) = mpsc::channel(8);
        cut(&mut &came[..], folder.path(), PIECE_BYTES, &pieces);
        assert!(told.blocking_recv().unwrap().is_ok());
        assert!(told.blocking_recv().unwrap().is_err(), "more than the disk has");
    }
}
