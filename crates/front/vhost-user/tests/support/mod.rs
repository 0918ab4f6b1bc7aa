//! A server on a disk in memory, and a machine that drives it.

pub mod driver;

use std::{
    future::ready,
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use bytes::Bytes;
use cairn_vhost_user::{Options, serve};
use cairn_volume::{Exports, Extent, ObjectId, Volume, VolumeError, VolumeInfo};
use tokio::{sync::oneshot, task::LocalSet, time::sleep};

pub const DISK: &str = "disk-1";
pub const DISK_BYTES: u64 = 1 << 20;

/// A disk in memory, which other threads may look at.
#[derive(Clone)]
pub struct Ram {
    pub bytes: Arc<Mutex<Vec<u8>>>,
    /// The name that it has now.
    pub name: Arc<Mutex<String>>,
    /// It takes no change.
    pub read_only: bool,
    /// It is not opened while this is set.
    pub shut: Arc<AtomicBool>,
    /// Writes wait while this is set.
    pub held: Arc<AtomicBool>,
    /// Offsets of the writes, zeroes and trims that reached it, in order.
    pub begun: Arc<Mutex<Vec<u64>>>,
}

impl Default for Ram {
    fn default() -> Self {
        let bytes = Arc::new(Mutex::new(vec![0; DISK_BYTES as usize]));
        let name = Arc::new(Mutex::new(DISK.to_owned()));
        Self { bytes, name, read_only: false, shut: Arc::default(), held: Arc::default(), begun: Arc::default() }
    }
}

impl Ram {
    fn fill(&self, offset: u64, len: u64, byte: u8) {
        self.begun.lock().unwrap().push(offset);
        self.bytes.lock().unwrap()[offset as usize..(offset + len) as usize].fill(byte);
    }
}

impl Volume for Ram {
    fn info(&self) -> VolumeInfo {
        VolumeInfo {
            id: ObjectId(1),
            name: DISK.into(),
            size_bytes: DISK_BYTES,
            alignment: None,
            read_only: self.read_only,
            description: String::new(),
        }
    }
    fn read(&self, offset: u64, len_bytes: u32) -> impl Future<Output = Result<Vec<Bytes>, VolumeError>> + 'static {
        let range = offset as usize..offset as usize + len_bytes as usize;
        let pieces = self.bytes.lock().unwrap()[range].chunks(4096).map(Bytes::copy_from_slice).collect();
        async move { Ok(pieces) }
    }
    fn write(&self, offset: u64, data: Bytes) -> impl Future<Output = Result<(), VolumeError>> + 'static {
        let ram = self.clone();
        async move {
            ram.begun.lock().unwrap().push(offset);
            while ram.held.load(Ordering::Acquire) {
                sleep(Duration::from_millis(1)).await;
            }
            ram.bytes.lock().unwrap()[offset as usize..offset as usize + data.len()].copy_from_slice(&data);
            Ok(())
        }
    }
    fn write_zeroes(&self, offset: u64, len: u64, _: bool) -> impl Future<Output = Result<(), VolumeError>> + 'static {
        self.fill(offset, len, 0);
        async { Ok(()) }
    }
    fn trim(&self, offset: u64, len: u64) -> impl Future<Output = Result<(), VolumeError>> + 'static {
        self.fill(offset, len, 0);
        async { Ok(()) }
    }
    fn flush(&self) -> impl Future<Output = Result<(), VolumeError>> + 'static {
        ready(Ok(()))
    }
    fn block_status(&self, _: u64, _: u64) -> impl Future<Output = Result<Vec<Extent>, VolumeError>> + 'static {
        ready(Err(VolumeError::Invalid("virtio has no such request".into())))
    }
    fn cache(&self, _: u64, _: u64) -> impl Future<Output = Result<(), VolumeError>> + 'static {
        ready(Err(VolumeError::Invalid("virtio has no such request".into())))
    }
}

/// One disk.
#[derive(Clone)]
struct One(Ram);

impl Exports for One {
    type Volume = Ram;
    fn list(&self) -> impl Future<Output = Vec<String>> + 'static {
        ready(vec![self.0.name.lock().unwrap().clone()])
    }
    fn is_read_only(&self, _: &str) -> bool {
        self.0.read_only
    }
    fn open(&self, _: &str) -> impl Future<Output = Result<Option<Ram>, VolumeError>> + 'static {
        let ram = self.0.clone();
        async move {
            while ram.shut.load(Ordering::Acquire) {
                sleep(Duration::from_millis(1)).await;
            }
            Ok(Some(ram))
        }
    }
}

/// A server on a thread of its own.
pub struct Served {
    end: Option<oneshot::Sender<bool>>,
    thread: Option<JoinHandle<()>>,
}

impl Served {
    pub fn start(folder: &Path, ram: &Ram) -> Self {
        let (folder, ram) = (folder.to_owned(), ram.clone());
        let (end, ended) = oneshot::channel();
        let thread = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            LocalSet::new().block_on(&runtime, async move {
                let server = serve(&folder, One(ram), Options::default()).unwrap();
                if ended.await.unwrap() {
                    server.stop().await;
                }
            });
        });
        Self { end: Some(end), thread: Some(thread) }
    }

    /// Stops it in order.
    pub fn stop(mut self) {
        self.end(true);
    }

    /// Its tasks are dropped where they stand.
    pub fn kill(mut self) {
        self.end(false);
    }

    fn end(&mut self, in_order: bool) {
        let _ = self.end.take().unwrap().send(in_order);
        self.thread.take().unwrap().join().unwrap();
    }
}
