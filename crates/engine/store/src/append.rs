//! The way of a change into the log: admission, queue, group commit, effect, acknowledgement.
//!
//! Promises    a refused operation leaves no trace (I9); an acknowledged one is on stable media (I3)
//!             operations of one class take effect in the order in which they were asked for, but large copies (`bypass.rs`)
//! Assumes     one writer task per disk group: its batches end in order, followers gather meanwhile
//!
//! When the log is full, writes wait for destage; small operations (undo, settle, trims, deletes, records) then
//! overtake them within a reserve, so that failover and freeing space never hang behind a full log.

use std::{
    collections::VecDeque,
    future::{Future, poll_fn},
    pin::pin,
    rc::Rc,
    task::{Context, Poll},
};

use bytes::Bytes;
use cairn_env::{Disk, DiskError, Durability, Env, LocalBoxFuture, PageBuf};
use cairn_format::{BatchHeader, LogPiece, LogRecord, Needs, encode_batch};
use cairn_types::{BLOCK_BYTES, Canary, Change, ComponentId, ComponentOp, Crcs, Time};
use futures::channel::oneshot;
use smallvec::SmallVec;

use crate::{
    bypass::placed_is_due,
    charge::{charge, uncharge},
    convert::Converted,
    disk_group::Inner,
    error::{StoreError, StoreErrorKind, refused},
    log::Log,
    queue::{Charge, Charged, Done, Queue, Queued, bytes_of, record_bytes_bound},
    read_cache::CACHED_READ_BLOCKS_MAX,
    ring::Class,
    segments::LOG,
    state::{Applied, At, State},
};

/// Bytes of one group commit, at most, unless one operation alone has more.
///
/// Napkin: 1 MiB takes about 1 ms on a SATA device: larger batches add latency, not throughput.
const BATCH_BYTES_MAX: u64 = 1 << 20;
/// Batches with the device at once. They end here in order: an operation is acknowledged when all before it in the log are on stable
/// media (docs/adr/0014).
///
/// The next one is begun once as many operations wait as the last one has, or 256 KiB: each batch costs wake-ups, system
/// calls and a flush, which large ones are worth.
const BATCHES_MAX: usize = 2;
/// Operations of a batch that room is made for at once.
const BATCH_EXPECTED: usize = 64;
/// Why what waits is refused.
const PROMISED_ANEW: &str = "the component was promised anew, to another owner or for another session";

/// Whether a record was queued: where its answer comes, or why it was refused.
type Waiting = Result<oneshot::Receiver<Result<(), StoreError>>, StoreError>;

/// One for each record of a change.
type Admitted = SmallVec<[Waiting; 1]>;

impl<E: Env> Inner<E> {
    /// Queues `change`; the answer comes when it is durable.
    pub(crate) fn append(self: &Rc<Self>, change: Change) -> impl Future<Output = Result<(), StoreError>> + use<E> {
        let needs = needs_of(&change);
        let admitted = self.state.borrow_mut().admit(change, self.env.now(), &self.tuning);
        if admitted.iter().any(Result::is_ok) && !self.has_needs(needs) {
            self.take_needs_for_queue(needs);
        }
        if !admitted.is_empty() {
            self.writer.raise();
        }
        if !self.state.borrow().admission.placing.nothing_waits() {
            self.placer.raise();
        }
        if admitted.iter().any(|one| matches!(one, Err(error) if error.kind == StoreErrorKind::NoSpace)) {
            // Space that trims and deletes gave up comes back with destage.
            self.state.borrow_mut().log.request_drain();
            self.destager.raise();
        }
        self.drain_for_room();
        async move {
            let closed = |_| StoreError::new(StoreErrorKind::Media, "the disk group was closed");
            for waiting in admitted {
                waiting?.await.map_err(closed)??;
            }
            Ok(())
        }
    }

    /// The writer task: runs until the group closes.
    pub(crate) async fn run_writer(self: Rc<Self>) {
        let mut under_way: VecDeque<Writing> = VecDeque::new();
        // Of a batch: nothing behind it in the log is acknowledged, as what stands there will not be found.
        let mut failed: Option<StoreError> = None;
        loop {
            match self.start_batches(&mut under_way) {
                Started::End => {
                    self.writer_ended.raise();
                    return;
                }
                Started::Full => {
                    self.state.borrow_mut().stages.on_full(self.env.now());
                    self.destager.raise();
                }
                Started::Enough => {}
            }
            let mut more = pin!(self.writer.wait());
            poll_fn(|cx| {
                // All of them, so that each is with the device; they end in order.
                under_way.iter_mut().for_each(|writing| writing.poll(cx));
                let first_is_done = under_way.front().is_some_and(|first| first.result.is_some());
                if first_is_done { Poll::Ready(()) } else { more.as_mut().poll(cx) }
            })
            .await;
            while let Some(done) = under_way.pop_front_if(|first| first.result.is_some()) {
                let result = done.result.expect("just seen");
                failed = failed.or_else(|| result.err().map(|e| StoreError::media("write the log", &e)));
                self.batch_done(done.batch, done.began, failed.clone());
            }
        }
    }

    /// Gives the device what it is to write now.
    fn start_batches(&self, under_way: &mut VecDeque<Writing>) -> Started {
        while under_way.len() < BATCHES_MAX {
            let next = {
                let State { log, admission, life, stages, .. } = &mut *self.state.borrow_mut();
                if let Some(last) = under_way.back() {
                    // A segment is left between batches.
                    if log.wants_close() || !admission.queue.is_worth_a_batch(last.batch.operations.len()) {
                        return Started::Enough;
                    }
                } else if log.close_if_wanted() {
                    self.destager.raise();
                }
                if admission.queue.is_empty() {
                    stages.on_empty();
                    if life.is_closing() && admission.placing.is_empty() { Next::End } else { Next::Empty }
                } else {
                    self.next_batch(log, &mut admission.queue)
                }
            };
            match next {
                Next::Batch(batch) => {
                    let durability =
                        if Canary::AckBeforeFlush.sings() { Durability::Buffered } else { Durability::Durable };
                    let write = self.cache.write(batch.device_offset, batch.parts.clone(), durability);
                    let began = self.env.now();
                    self.meters.log_write_began(batch.bytes(), began);
                    under_way.push_back(Writing { batch, began, write: Box::pin(write), result: None });
                }
                Next::Full => return Started::Full,
                Next::End if under_way.is_empty() => return Started::End,
                Next::End | Next::Empty | Next::Later => return Started::Enough,
            }
        }
        Started::Enough
    }

    /// Gathers the next batch of what waits.
    fn next_batch(&self, log: &mut Log, queue: &mut Queue) -> Next {
        let ring = &log.ring;
        let congested = ring.fill_permille() >= u64::from(self.tuning.congestion_high_percent) * 10;
        let fixed = cairn_format::BATCH_RECORDS_OFFSET as u64;
        let (mut chosen, mut header, mut data) = (Vec::with_capacity(queue.len().min(BATCH_EXPECTED)), fixed, 0u64);
        let mut only_reserve = congested;
        let mut position = 0;
        while let Some(next) = queue.peek(only_reserve) {
            let (new_header, new_data) = (header + next.header_bytes, data + next.data_bytes);
            let bytes = new_header.next_multiple_of(u64::from(BLOCK_BYTES)) + new_data;
            if !self.has_needs(next.needs) {
                // The superblock is to say so first, and is being written.
                if chosen.is_empty() {
                    return Next::Later;
                }
                break;
            }
            if chosen.is_empty() {
                position = ring.place(bytes);
                if ring.parts_from_one_in_flight(position) {
                    return Next::Later;
                }
                let entered = position % ring.segment_bytes() != 0
                    || !self.pins.held(LOG, ring.physical(ring.segment_of(position)));
                if !entered || !ring.has_room(bytes, next.class) {
                    if next.class == Class::Normal && entered {
                        only_reserve = true;
                        continue;
                    }
                    return Next::Full;
                }
            } else if bytes > BATCH_BYTES_MAX.min(ring.segment_bytes())
                || ring.place(bytes) != position
                || !ring.has_room(bytes, next.class)
            {
                break;
            }
            (header, data) = (new_header, new_data);
            let class = next.class;
            chosen.push(queue.pop(class).expect("just seen"));
        }
        if chosen.is_empty() {
            return Next::Full;
        }
        let bytes_max = header.next_multiple_of(u64::from(BLOCK_BYTES)) + data;
        Next::Batch(batch(log, chosen, position, bytes_max, self.open_count))
    }

    fn batch_done(self: &Rc<Self>, batch: Batch, began: Time, error: Option<StoreError>) {
        let written = self.env.now();
        self.meters.log_write_ended(batch.bytes(), began, written);
        let mut guard = self.state.borrow_mut();
        let state = &mut *guard;
        if let Some(error) = error {
            // A failed write is never retried: what is on the medium is unknown until it is read at the next opening.
            batch.operations.into_iter().for_each(|(_, done)| drop(done.send(Err(error.clone()))));
            state.stop(error);
            self.destager.raise();
            return;
        }
        state.log.written(&batch.header, written.0);
        state.counters.log_writes += 1;
        state.counters.log_write_bytes += batch.bytes();
        state.look_at_log();
        let fill = state.log.ring.fill_permille();
        let bytes = batch.header.end() - batch.header.position;
        let delay = state.log.acknowledge_after(written.0, bytes, &self.tuning);
        let mut data = batch.header.position + u64::from(batch.header.header_bytes);
        let mut parts = batch.parts[1..].iter();
        let mut later = Vec::new();
        let mut now = Vec::new();
        let (mut writes, mut placed) = (0, false);
        for (queued, done) in batch.operations {
            let at = At { position: batch.header.position, data };
            data += queued.data_bytes;
            uncharge(&mut state.components, &mut state.tier, queued.charged);
            crate::stats::count_operation(&mut state.counters, &queued.record, queued.data_bytes);
            if let LogRecord::Write { .. } | LogRecord::Rows { .. } = queued.record {
                state.stages.left_queue(queued.since, began);
                writes += 1;
            }
            let (bytes, row) = (next_part(&mut parts, queued.data_bytes), small_row_write(&queued.record));
            let result = outcome(state.apply(queued.record, at));
            if let (Some(bytes), Some((id, first_block, crcs)), true) = (bytes, row, result.is_ok()) {
                state.cache.keep_written(id, first_block, bytes, &crcs);
            }
            // What stands in the capacity tier already is in no need of destage.
            let waits = !delay.is_zero() && queued.class == Class::Normal && queued.ticket.is_none();
            let list = if waits { &mut later } else { &mut now };
            list.push((done, result));
            if let Some(ticket) = queued.ticket {
                state.placed_record_over(ticket);
                placed = true;
            }
        }
        state.stages.on_written(began, written, writes, delay);
        state.drain_for_room();
        let work = state.log.wants_destage() || placed && placed_is_due(&state.tier, &state.log, &self.tuning);
        drop(guard);
        if work || fill >= u64::from(self.tuning.destage_percent) * 10 {
            self.destager.raise();
        }
        let answer = |list: Vec<(Done, Result<(), StoreError>)>| {
            list.into_iter().for_each(|(done, result)| drop(done.send(result)));
        };
        answer(now);
        if !later.is_empty() {
            let env = self.env.clone();
            self.env.spawn(async move {
                env.sleep(delay).await;
                answer(later);
            });
        }
    }
}

/// What the superblock is to say before the records of a change are in the log.
fn needs_of(change: &Change) -> Needs {
    let Change::Component { op, .. } = change else { return Needs::NONE };
    let when = |is_so: bool, needs: Needs| if is_so { needs } else { Needs::NONE };
    let cuts = matches!(op, ComponentOp::Cuts { .. });
    when(op.has_marks(), Needs::BAD_MARKS).with(when(op.has_rows(), Needs::PARITY)).with(when(cuts, Needs::CUTS))
}

fn outcome(applied: Applied) -> Result<(), StoreError> {
    let fail = |kind, text: &str| Err(StoreError::new(kind, text));
    match applied {
        Applied::Done => Ok(()),
        Applied::Undone => fail(StoreErrorKind::Undone, "the operation was undone before it arrived"),
        Applied::NoComponent => fail(StoreErrorKind::NotFound, "the component is not in this disk group"),
        Applied::Settled => fail(StoreErrorKind::Refused, "the operation was settled before it could be undone"),
        Applied::Lost => fail(StoreErrorKind::Lost, "the component's capacity device failed"),
    }
}

/// What of a queued operation is needed after its write.
pub(crate) struct Written {
    since: Time,
    record: LogRecord,
    data_bytes: u64,
    class: Class,
    charged: Charged,
    ticket: Option<u64>,
}

/// One device write and who waits for it.
pub(crate) struct Batch {
    header: BatchHeader,
    device_offset: u64,
    parts: Vec<Bytes>,
    operations: Vec<(Written, Done)>,
}

impl Batch {
    fn bytes(&self) -> u64 {
        self.parts.iter().map(|part| part.len() as u64).sum()
    }
}

/// A batch on its way to the device.
struct Writing {
    batch: Batch,
    /// When it was given to the device.
    began: Time,
    write: LocalBoxFuture<'static, Result<(), DiskError>>,
    result: Option<Result<(), DiskError>>,
}

impl Writing {
    fn poll(&mut self, cx: &mut Context<'_>) {
        if self.result.is_none()
            && let Poll::Ready(result) = self.write.as_mut().poll(cx)
        {
            self.result = Some(result);
        }
    }
}

/// Why no further batch was started.
enum Started {
    /// The device has enough, or nothing waits.
    Enough,
    /// The log has no room.
    Full,
    /// The group closes, and nothing is on its way.
    End,
}

/// What the writer does next.
pub(crate) enum Next {
    Batch(Batch),
    /// Something waits, but the log has no room.
    Full,
    /// The next batch begins a segment, and waits for those that are on their way.
    Later,
    Empty,
    End,
}

impl State {
    /// Queues the records of a change; those that are refused leave the others in the queue.
    fn admit(&mut self, change: Change, since: Time, tuning: &crate::RunningOptions) -> Admitted {
        if let Err(error) = self.life.not_stopped().and_then(|()| self.life.not_closing()) {
            return Admitted::from_iter([Err(error)]);
        }
        self.converter().convert(change).into_iter().map(|converted| self.enqueue(converted?, since, tuning)).collect()
    }

    fn enqueue(&mut self, (record, data, class): Converted, since: Time, tuning: &crate::RunningOptions) -> Waiting {
        let (data_bytes, header_bytes) = (bytes_of(&data), record_bytes_bound(&record));
        let limit = self.log.ring.segment_bytes() / 2;
        if data_bytes + header_bytes.next_multiple_of(u64::from(BLOCK_BYTES)) > limit {
            return Err(refused(format!(
                "an operation of {data_bytes} bytes is too large for the log: send at most {}",
                limit / 2
            )));
        }
        let charged = match charge(&mut self.components, &mut self.tier, &record)? {
            Charge::Now(charged) => charged,
            Charge::Later => return Ok(self.wait_for_room(since, record, data, class)),
        };
        if let LogRecord::CreateComponent { component, object, size_blocks, reserved_blocks, device } = record {
            // At once, so that writes queued behind it find it.
            self.components.create(&mut self.tier, component, object, (size_blocks, reserved_blocks), device);
        }
        let (done, answer) = oneshot::channel();
        self.enter(Queued::new(since, record, data, class, charged, None, done), tuning);
        Ok(answer)
    }

    /// What is admitted takes its way: into the log, or past it.
    pub(crate) fn enter(&mut self, queued: Queued, tuning: &crate::RunningOptions) {
        let device = self.place_of(&queued.record, queued.data_bytes, tuning);
        self.admission.enter(queued, device);
    }

    /// Refuses the writes and copies of a component that wait for room in a full log.
    ///
    /// Records overtake them there, and a promise must not be followed by writes that came before it.
    pub(crate) fn refuse_waiting(&mut self, component: ComponentId) {
        self.refuse_copies(component);
        self.refuse_queued(|record| match record {
            LogRecord::Write { component: of, .. }
            | LogRecord::Copy { component: of, .. }
            | LogRecord::Rows { component: of, .. } => *of == component,
            _ => false,
        });
    }

    /// Refuses the copies of a component that go past the log and are not in it yet, and what waits for room on its device: what is
    /// asked for later would overtake them.
    pub(crate) fn refuse_copies(&mut self, component: ComponentId) {
        for placement in self.admission.placing.take_those_of(component) {
            uncharge(&mut self.components, &mut self.tier, placement.charged);
            let _ = placement.done.send(Err(refused(PROMISED_ANEW)));
        }
        self.refuse_queued(|record| matches!(record, LogRecord::Placed { component: of, .. } if *of == component));
        self.admission.refuse_short_of_room(|queued| queued.is_of(component), &refused(PROMISED_ANEW));
    }

    fn refuse_queued(&mut self, which: impl Fn(&LogRecord) -> bool) {
        for queued in self.admission.queue.take_normal(which) {
            uncharge(&mut self.components, &mut self.tier, queued.charged);
            queued.ticket.into_iter().for_each(|ticket| self.placed_record_over(ticket));
            let _ = queued.done.send(Err(refused(PROMISED_ANEW)));
        }
    }
}

/// The batch at `position`, where there is room for `bytes_max`.
/// The bytes of the next operation of a batch; none where it has none, or they are in several parts.
fn next_part<'a>(parts: &mut std::slice::Iter<'a, Bytes>, data_bytes: u64) -> Option<&'a Bytes> {
    let mut taken = 0;
    let mut only = None;
    while taken < data_bytes {
        let part = parts.next().expect("a batch has the bytes of its operations");
        taken += part.len() as u64;
        only = (part.len() as u64 == data_bytes).then_some(part);
    }
    only
}

/// Of a write to a part of a row that is worth to be kept in memory: where it begins, and the checksums of its blocks.
fn small_row_write(record: &LogRecord) -> Option<(ComponentId, u64, Crcs)> {
    let LogRecord::Rows { component, pieces, .. } = record else { return None };
    let [LogPiece::Data { first_block, crcs } | LogPiece::Parity { first_block, crcs, .. }] = &pieces[..] else {
        return None;
    };
    (crcs.len() <= CACHED_READ_BLOCKS_MAX as usize).then(|| (*component, *first_block, crcs.clone()))
}

fn batch(log: &mut Log, chosen: Vec<Queued>, position: u64, bytes_max: u64, open_count: u64) -> Batch {
    let header = log.header(position, open_count);
    let count = chosen.len();
    let (mut operations, mut records) = (Vec::with_capacity(count), Vec::with_capacity(count));
    let mut parts = Vec::with_capacity(1 + count);
    parts.push(Bytes::new());
    for queued in chosen {
        let Queued { since, record, data, data_bytes, class, charged, ticket, done, .. } = queued;
        parts.extend(data);
        records.push(record);
        operations.push((since, data_bytes, class, charged, ticket, done));
    }
    let (header, bytes) = encode_batch(header, &records);
    // The batch may turn out smaller than its bound, even small enough for the previous segment's tail. That tail stays unused.
    assert!(header.end() - position <= bytes_max, "the bound of a batch's size holds");
    log.ring.begin(&header);
    parts[0] = PageBuf::copy_of(&bytes).freeze();
    let operations = records
        .into_iter()
        .zip(operations)
        .map(|(record, (since, data_bytes, class, charged, ticket, done))| {
            (Written { since, record, data_bytes, class, charged, ticket }, done)
        })
        .collect();
    Batch { header, device_offset: log.ring.device_offset(position), parts, operations }
}
