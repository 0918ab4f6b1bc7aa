//! A client of vhost-user block devices: the virtual machine's monitor, the guest and its driver in one, without a guest.
//!
//! Promises    requests of one turn are shown to the server together
//!             whoever waits when the connection ends is told why
//! Assumes     a device has one front end at a time: who wants several streams on it shares one client
//! Not here    several queues, indirect descriptors, live migration, reconnecting: loads need reads, writes, flushes and trims
//! Source      the vhost-user protocol (QEMU, docs/interop/vhost-user.rst); virtio 1.2, 5.2 block device

mod driver;
mod handshake;
mod memory;
mod queue;
mod ring;

use std::{net::Shutdown, os::unix::net::UnixStream, path::Path, rc::Rc, time::Duration};

use bytes::{BufMut, Bytes, BytesMut};
use cairn_env::Env;
use cairn_env_linux::LinuxEnv;
use futures::{
    channel::oneshot,
    future::{Either, select},
};

use crate::command::Command;
use driver::Device;
pub(crate) use driver::Driver;
use handshake::{Opened, Refusal, Traits, Trims, shake};
use queue::{Answer, Asked, SECTOR_BYTES};

/// Sizes of a ring, as long as a server refuses them: 341 requests at once, or 85.
const RING_SIZES: [u16; 2] = [1024, 256];

/// How long a server may take for the handshake. It has nothing to do meanwhile but to answer.
const HANDSHAKE_MAX: Duration = Duration::from_secs(5);

/// A connection. Cheap to clone; it ends with the last one.
#[derive(Clone)]
pub(crate) struct VhostUserClient {
    device: Rc<Device>,
    trims: Option<Trims>,
    pub(crate) size_bytes: u64,
    /// Requests begin and end at multiples of this.
    pub(crate) block_bytes: u32,
    /// Of a read or a write.
    pub(crate) request_bytes_max: u32,
    pub(crate) read_only: bool,
    pub(crate) can_flush: bool,
    pub(crate) can_trim: bool,
}

impl VhostUserClient {
    /// Connects, and agrees on everything. `driver` drives all clients of a thread.
    pub(crate) async fn connect(env: &LinuxEnv, driver: &Driver, socket: &Path) -> Result<Self, String> {
        let mut sizes = RING_SIZES.into_iter().peekable();
        loop {
            let size = sizes.next().expect("the last one is not tried again");
            match open(env, driver, socket, size).await {
                Ok((opened, stream)) => return Self::begin(env, driver, opened, stream),
                Err(refusal) if refusal.may_be_the_ring && sizes.peek().is_some() => {}
                Err(refusal) => return Err(refusal.why),
            }
        }
    }

    fn begin(env: &LinuxEnv, driver: &Driver, opened: Opened, socket: UnixStream) -> Result<Self, String> {
        let Opened { traits, queue, kick } = opened;
        let device = driver.drive(env, queue, kick, socket).map_err(|error| format!("cannot connect: {error}"))?;
        let Traits { size_bytes, block_bytes, request_bytes_max, read_only, can_flush, trims } = traits;
        let can_trim = trims.is_some();
        Ok(Self { device, trims, size_bytes, block_bytes, request_bytes_max, read_only, can_flush, can_trim })
    }

    /// One request; what is read is thrown away.
    pub(crate) async fn request(
        &self,
        command: Command,
        offset: u64,
        len_bytes: u32,
        data: Bytes,
    ) -> Result<(), String> {
        self.ask(command, offset, len_bytes, data, false).await.map(drop)
    }

    /// Reads, and shows what was read.
    pub(crate) async fn read(&self, offset: u64, len_bytes: u32) -> Answer {
        self.ask(Command::Read, offset, len_bytes, Bytes::new(), true).await
    }

    async fn ask(&self, command: Command, offset: u64, len_bytes: u32, data: Bytes, keep: bool) -> Answer {
        if !(offset | u64::from(len_bytes)).is_multiple_of(SECTOR_BYTES) {
            return Err(format!("requests here begin and end at multiples of {SECTOR_BYTES} bytes"));
        }
        if matches!(command, Command::Read | Command::Write) && len_bytes > self.request_bytes_max {
            return Err(format!("requests here have at most {} bytes", self.request_bytes_max));
        }
        let data = match command {
            Command::Trim => ranges(self.trims, offset, len_bytes)?,
            _ => data,
        };
        let read_bytes = if command == Command::Read { len_bytes } else { 0 };
        let (answer, answered) = oneshot::channel();
        self.device.ask(Asked { command, offset, read_bytes, data, keep, answer });
        answered.await.unwrap_or_else(|_| Err("the connection is gone".into()))
    }
}

/// Connects and shakes hands, in bounded time.
async fn open(env: &LinuxEnv, driver: &Driver, path: &Path, ring_size: u16) -> Result<(Opened, UnixStream), Refusal> {
    let told = |error: std::io::Error| format!("cannot connect: {error}");
    let stream = tokio::net::UnixStream::connect(path).await.map_err(told)?.into_std().map_err(told)?;
    stream.set_nonblocking(false).map_err(told)?;
    let bell = driver.bell(env).and_then(|bell| bell.try_clone()).map_err(told)?;
    let theirs = stream.try_clone().map_err(told)?;
    let shaking = env.run_blocking(move || shake(theirs, &bell, ring_size));
    match select(shaking, env.sleep(HANDSHAKE_MAX)).await {
        Either::Left((shaken, _)) => Ok((shaken?, stream)),
        Either::Right(((), shaking)) => {
            // The thread waits for the server: this ends it.
            let _ = stream.shutdown(Shutdown::Both);
            let _ = shaking.await;
            let seconds = HANDSHAKE_MAX.as_secs();
            Err(format!(
                "the server did not answer within {seconds} s: a device has one front end at a time, and another one may have it"
            )
            .into())
        }
    }
}

/// What is to be trimmed, as a device reads it: of each range the first sector, the number of sectors, and no flags.
fn ranges(trims: Option<Trims>, offset: u64, len_bytes: u32) -> Result<Bytes, String> {
    let trims = trims.ok_or("the device takes no trim")?;
    let (mut sector, mut left) = (offset / SECTOR_BYTES, len_bytes / SECTOR_BYTES as u32);
    if left.div_ceil(trims.sectors_max) > trims.ranges_max {
        let most = u64::from(trims.sectors_max) * u64::from(trims.ranges_max) * SECTOR_BYTES;
        return Err(format!("the device trims at most {most} bytes at once"));
    }
    let mut ranges = BytesMut::new();
    while left > 0 {
        let sectors = left.min(trims.sectors_max);
        ranges.put_u64_le(sector);
        ranges.put_u32_le(sectors);
        ranges.put_u32_le(0);
        sector += u64::from(sectors);
        left -= sectors;
    }
    Ok(ranges.freeze())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_trim_has_several_ranges() {
        let trims = |sectors_max, ranges_max| Some(Trims { sectors_max, ranges_max });
        let one = ranges(trims(16, 1), 512, 8192).unwrap();
        assert_eq!(one[..], [1, 0, 0, 0, 0, 0, 0, 0, 16, 0, 0, 0, 0, 0, 0, 0]);
        let two = ranges(trims(16, 2), 1024, 8192 + 512).unwrap();
        assert_eq!(two.len(), 32);
        assert_eq!(two[16..], [18, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0]);
        assert!(ranges(trims(16, 2), 0, 3 * 8192).unwrap_err().contains("at most 16384 bytes"));
        assert!(ranges(trims(u32::MAX, u32::MAX), 0, u32::MAX).is_ok());
        assert!(ranges(None, 0, 512).is_err());
    }
}
