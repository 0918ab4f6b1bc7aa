//! Fills the log of a group that nobody uses with writes whose data are left out: for measuring how a long log is opened.
//!
//! Promises    what is opened afterwards is a log as guests' small writes leave it, each block of which reads as zeroes
//! Assumes     the log's device is a file of which nothing was written yet: the data that are left out are holes there
//! Not here    the block map (`fill.rs`)

use cairn_env::{Disk, DiskError, Durability, Env, PageBuf};
use cairn_format::{LogRecord, encode_batch, zero_block_crc};
use cairn_types::{BLOCK_BYTES, ClientTag, ComponentId, Epoch, HostId, Incarnation, OpId};

use crate::{
    disk_group::{DiskGroup, Inner},
    error::{StoreError, StoreErrorKind},
    ring::Class,
    shuffle::mixed,
};

/// Writes in flight.
const WRITES: usize = 32;

/// What the log is filled with.
#[derive(Debug, Clone, Copy)]
pub struct LogFill {
    /// Writes of one batch: as many guests' requests as came while the batch before was written.
    pub writes_per_batch: u32,
    /// Blocks of a write.
    pub blocks_per_write: u32,
    /// One seed is one row of places.
    pub seed: u64,
}

/// What was written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LogFilled {
    /// Batches.
    pub batches: u64,
    /// Writes.
    pub writes: u64,
    /// Blocks of 4 KiB.
    pub blocks: u64,
    /// Bytes of the log that they take, data included.
    pub log_bytes: u64,
}

impl<E: Env> DiskGroup<E> {
    /// Fills the log as far as guests may, with writes anywhere in the component. The group must be left as it is then, not used and not
    /// closed: what was written takes effect when it is opened again.
    ///
    /// # Errors
    /// [`StoreErrorKind::Refused`] where somebody writes, or the component is not there; [`StoreErrorKind::Media`].
    pub async fn fill_log(
        &self,
        component: ComponentId,
        fill: LogFill,
        mut progress: impl FnMut(u64),
    ) -> Result<LogFilled, StoreError> {
        let inner = self.inner();
        let refuse = |text: &str| StoreError::new(StoreErrorKind::Refused, text.to_string());
        let size_blocks = self.component(component).map(|info| info.size_blocks);
        let size_blocks = size_blocks.ok_or_else(|| refuse("the component is not in this group: name one that is"))?;
        self.drain().await?;
        if inner.state.borrow().log.ring.used() > 0 {
            return Err(refuse("the log is in use: somebody writes"));
        }
        let places = size_blocks / u64::from(fill.blocks_per_write.max(1));
        if fill.writes_per_batch == 0 || places == 0 {
            return Err(refuse(
                "a batch has at least one write, and a write has at least one block and fits the component",
            ));
        }
        let mut filler = Filler { component, fill, places, writes: 0, settled: self.settled(component) };
        let mut filled = LogFilled::default();
        let mut writes = Vec::new();
        while let Some((write, bytes, last)) = filler.next(inner) {
            writes.push(write);
            filled.batches += 1;
            filled.log_bytes += bytes;
            if writes.len() == WRITES || last {
                for written in futures::future::join_all(writes.drain(..)).await {
                    written.map_err(|e| StoreError::media("fill the log", &e))?;
                }
                progress(filled.log_bytes);
            }
        }
        if filled.batches == 0 {
            return Err(refuse("a batch of so many writes and blocks does not fit a segment of the log: take fewer"));
        }
        filled.writes = filled.batches * u64::from(fill.writes_per_batch);
        filled.blocks = filled.writes * u64::from(fill.blocks_per_write);
        inner.cache.flush().await.map_err(|e| StoreError::media("fill the log", &e))?;
        Ok(filled)
    }
}

/// Makes one batch after the other.
struct Filler {
    component: ComponentId,
    fill: LogFill,
    /// Of a write, in the component.
    places: u64,
    writes: u64,
    settled: OpId,
}

impl Filler {
    /// The write of the next batch, its bytes in the log, and whether it is the last one; none when guests may write no more.
    fn next<'a, E: Env>(
        &mut self,
        inner: &'a Inner<E>,
    ) -> Option<(impl Future<Output = Result<(), DiskError>> + use<'a, E>, u64, bool)> {
        let mut state = inner.state.borrow_mut();
        let records: Vec<LogRecord> = (0..self.fill.writes_per_batch).map(|_| self.write()).collect();
        let block = u64::from(BLOCK_BYTES);
        let data_bytes = u64::from(self.fill.writes_per_batch) * u64::from(self.fill.blocks_per_write) * block;
        let bound = records.iter().map(crate::queue::record_bytes_bound).sum::<u64>().next_multiple_of(block)
            + block
            + data_bytes;
        let ring = &mut state.log.ring;
        if bound > ring.segment_bytes() || !ring.has_room(bound, Class::Normal) {
            return None;
        }
        let position = ring.place(bound);
        let header = state.log.header(position, inner.open_count);
        let (header, bytes) = encode_batch(header, &records);
        state.log.ring.begin(&header);
        state.log.ring.written(&header);
        let offset = state.log.ring.device_offset(position);
        let last = !state.log.ring.has_room(bound, Class::Normal);
        let mut parts = vec![PageBuf::copy_of(&bytes).freeze()];
        if last {
            // No later header says of these that they are durable: they are looked at.
            parts.push(PageBuf::zeroed(data_bytes as usize).freeze());
        }
        Some((inner.cache.write(offset, parts, Durability::Buffered), header.end() - header.position, last))
    }

    fn write(&mut self) -> LogRecord {
        self.writes += 1;
        let place = mixed(self.fill.seed, self.writes) % self.places;
        let first_block = place * u64::from(self.fill.blocks_per_write);
        let settled = self.settled;
        let epoch = Epoch { number: settled.epoch.number.max(1), host: HostId(1), incarnation: Incarnation(1) };
        self.settled = OpId { epoch: settled.epoch.max(epoch), seq: settled.seq + 1 };
        LogRecord::Write {
            component: self.component,
            op: self.settled,
            settled,
            client: ClientTag::default(),
            first_block,
            crcs: std::iter::repeat_n(zero_block_crc(), self.fill.blocks_per_write as usize).collect(),
        }
    }
}
