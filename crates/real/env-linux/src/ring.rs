//! The io_uring of one thread.
//!
//! Promises    R1  the memory of a request belongs to the ring until its completion: dropping a future frees nothing
//!             R2  requests of one scheduler turn enter the kernel together, eight at a time
//!             R3  the ring ends only when nothing is in flight, or leaks what the kernel still holds
//! Assumes     used by the thread that made it, and by no other (SINGLE_ISSUER)
//! Not here    DEFER_TASKRUN: with it completions show up only inside `io_uring_enter`, and epoll would not wake us

use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    fs::File,
    future::Future,
    io,
    mem::ManuallyDrop,
    os::fd::{AsRawFd, RawFd},
    pin::Pin,
    rc::{Rc, Weak},
    sync::Arc,
    task::{Context, Poll, Waker},
};

use io_uring::{IoUring, opcode, squeue, types};
use tokio::io::{Interest, unix::AsyncFd};

use crate::{
    executor::IoMode,
    io::{Answer, InFlightGuard, Request},
    threads::SLICES_MAX,
};

/// Submission slots. Napkin: a host drives at most six devices at a queue depth of 64; more wait in `backlog`.
const ENTRIES: u32 = 512;
/// Requests in the kernel at once, at most: the completion ring has this many slots, so that it cannot overflow.
const IN_KERNEL_MAX: usize = 2 * ENTRIES as usize;

/// Requests that enter the kernel together, at most: the device begins with the first ones while the others are still prepared. With
/// all of a turn at once, device and thread took turns (random reads at QD32: 33,000 a second; with 2 to 16, 50,000).
const TOGETHER_MAX: usize = 8;

/// `RWF_DSYNC` of `<linux/fs.h>`: the write is on stable media before it completes.
const RWF_DSYNC: i32 = 0x2;

/// The ring's descriptor as the reactor sees it; owned by `IoUring`.
struct RingFd(RawFd);

impl AsRawFd for RingFd {
    fn as_raw_fd(&self) -> RawFd {
        self.0
    }
}

/// What the kernel may touch until the completion arrives.
struct Held {
    request: Request,
    /// The I/O vector of a write, in memory that does not move.
    slices: Box<[libc_iovec]>,
    file: Arc<File>,
    _guard: InFlightGuard,
}

/// `struct iovec`, as the kernel reads it.
#[allow(non_camel_case_types)]
#[repr(C)]
struct libc_iovec {
    base: *const u8,
    len: usize,
}

enum Slot {
    /// Free; the next free one.
    Free(usize),
    /// In the backlog or the kernel; the future waits, or was dropped (`None` and `abandoned`).
    Busy { held: Held, waker: Option<Waker>, abandoned: bool },
    /// Answered and not yet taken.
    Done(Answer),
}

struct State {
    uring: IoUring,
    slots: Vec<Slot>,
    free: usize,
    /// Slots whose request found the submission queue full.
    backlog: VecDeque<usize>,
    /// In the submission queue or the kernel.
    in_kernel: usize,
    /// In the submission queue, not yet given to the kernel.
    unsubmitted: usize,
}

/// The ring of one executor.
pub(crate) struct Ring {
    /// Taken when the ring ends: the reactor must forget the descriptor before it is closed.
    readiness: Option<AsyncFd<RingFd>>,
    state: RefCell<ManuallyDrop<State>>,
    mode: IoMode,
    busy: Cell<usize>,
}

const NO_SLOT: usize = usize::MAX;

impl Ring {
    /// A ring with the best flags that this kernel takes. Must be called in the runtime of its thread.
    pub fn open() -> io::Result<Self> {
        let full = IoUring::builder()
            .setup_clamp()
            .setup_submit_all()
            .setup_coop_taskrun()
            .setup_single_issuer()
            .build(ENTRIES);
        let (uring, mode) = match full {
            Ok(uring) => (uring, IoMode::Ring),
            // Kernels before 6.0 know neither flag; the ring works without, with an interrupt per completion.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                (IoUring::builder().build(ENTRIES)?, IoMode::RingPlain)
            }
            Err(error) => return Err(error),
        };
        let fd = RingFd(uring.as_raw_fd());
        // SAFETY: the descriptor is open until `uring` is dropped, and `Drop for Ring` takes the registration back first.
        let readiness =
            unsafe { AsyncFd::register_with_interest(fd, Interest::READABLE) }.map_err(|error| error.into_parts().1)?;
        let state =
            State { uring, slots: Vec::new(), free: NO_SLOT, backlog: VecDeque::new(), in_kernel: 0, unsubmitted: 0 };
        Ok(Self { readiness: Some(readiness), state: RefCell::new(ManuallyDrop::new(state)), mode, busy: Cell::new(0) })
    }

    pub fn mode(&self) -> IoMode {
        self.mode
    }

    /// Whether no request is under way.
    pub fn is_idle(&self) -> bool {
        self.busy.get() == 0
    }

    /// Carries out one request; it enters the kernel at the end of this turn of the executor, or before.
    pub fn run(
        ring: &Rc<Self>,
        file: Arc<File>,
        request: Request,
        guard: InFlightGuard,
    ) -> impl Future<Output = Answer> + use<> {
        let key = ring.start(file, request, guard);
        Waiting { ring: ring.clone(), key, taken: false }
    }

    fn start(&self, file: Arc<File>, request: Request, guard: InFlightGuard) -> usize {
        let slices = match &request {
            Request::Write { parts, .. } if parts.len() > 1 => {
                parts.iter().take(SLICES_MAX).map(|p| libc_iovec { base: p.as_ptr(), len: p.len() }).collect()
            }
            _ => Box::default(),
        };
        let slot = Slot::Busy { held: Held { request, slices, file, _guard: guard }, waker: None, abandoned: false };
        let mut state = self.state.borrow_mut();
        let key = state.place(slot);
        state.backlog.push_back(key);
        self.busy.set(self.busy.get() + 1);
        let waits = state.backlog.len();
        drop(state);
        if waits >= TOGETHER_MAX {
            self.submit();
        }
        key
    }

    /// Gives everything that was queued to the kernel: one system call, where there is anything.
    pub fn submit(&self) {
        let mut state = self.state.borrow_mut();
        state.fill();
        while state.unsubmitted > 0 {
            match state.uring.submit() {
                Ok(0) => break,
                Ok(count) => state.unsubmitted -= count.min(state.unsubmitted),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // EAGAIN, EBUSY: the kernel is short of memory or completions wait to be taken; the next turn tries again.
                Err(_) => break,
            }
            state.fill();
        }
    }

    /// Whether requests wait for the next [`Self::submit`] (they did not fit, or the kernel asked to come back).
    pub fn wants_submit(&self) -> bool {
        let state = self.state.borrow();
        state.unsubmitted > 0 || (!state.backlog.is_empty() && state.in_kernel < IN_KERNEL_MAX)
    }

    /// Takes completions and wakes who waits for them; true if there were any. Asks to be polled again when more arrive.
    pub fn poll_completions(self: &Rc<Self>, cx: &mut Context<'_>) -> bool {
        TAKER.with_borrow_mut(|taker| match taker {
            Some((ring, waker)) if ring.as_ptr() == Rc::as_ptr(self) => waker.clone_from(cx.waker()),
            _ => *taker = Some((Rc::downgrade(self), cx.waker().clone())),
        });
        while let Some(readiness) = &self.readiness {
            match readiness.poll_read_ready(cx) {
                // Cleared before the queue is read: the other order would lose a completion that comes between the two.
                Poll::Ready(Ok(mut guard)) => guard.clear_ready(),
                Poll::Ready(Err(_)) | Poll::Pending => break,
            }
        }
        self.take_completions()
    }

    /// Takes the completions that are there; true if there was one.
    pub fn take_completions(&self) -> bool {
        let mut any = false;
        loop {
            let mut state = self.state.borrow_mut();
            let Some(entry) = state.uring.completion().next() else {
                return any;
            };
            any = true;
            let woken = state.complete(entry.user_data() as usize, entry.result());
            self.busy.set(self.busy.get() - 1);
            drop(state);
            // Outside the borrow: a waker may run anything, and buffers go back to their pool.
            match woken {
                Woken::Waker(waker) => waker.wake(),
                Woken::Nobody(held) => drop(held),
            }
        }
    }
}

thread_local! {
    /// The ring of this thread, and who takes its completions.
    static TAKER: RefCell<Option<(Weak<Ring>, Waker)>> = const { RefCell::new(None) };
}

/// Wakes who takes this thread's completions, if there are any. To be called when the thread has waited.
///
/// A completion interrupts `epoll_wait`, which then tells of nothing: only with the next call it would tell that the ring is readable.
pub(crate) fn wake_taker() {
    TAKER.with_borrow(|taker| {
        if let Some((ring, waker)) = taker
            && let Some(ring) = ring.upgrade()
            && !ring.state.borrow_mut().uring.completion().is_empty()
        {
            waker.wake_by_ref();
        }
    });
}

enum Woken {
    Waker(Waker),
    Nobody(Option<Box<Held>>),
}

impl State {
    fn place(&mut self, slot: Slot) -> usize {
        if self.free == NO_SLOT {
            self.slots.push(slot);
            return self.slots.len() - 1;
        }
        let key = self.free;
        let Slot::Free(next) = std::mem::replace(&mut self.slots[key], slot) else {
            panic!("the list of free ring slots names a used one");
        };
        self.free = next;
        key
    }

    fn release(&mut self, key: usize) -> Slot {
        let free = self.free;
        self.free = key;
        std::mem::replace(&mut self.slots[key], Slot::Free(free))
    }

    /// Moves requests from the backlog to the submission queue.
    fn fill(&mut self) {
        while self.in_kernel < IN_KERNEL_MAX {
            let Some(&key) = self.backlog.front() else {
                return;
            };
            let Slot::Busy { held, .. } = &mut self.slots[key] else {
                panic!("a queued ring slot is not busy");
            };
            let entry = entry(held).user_data(key as u64);
            // SAFETY: what the entry points to (file, buffer, I/O vector) is owned by slot `key`, in memory that
            // does not move with it, and is given up only in `complete`, after the kernel's completion (R1).
            if unsafe { self.uring.submission().push(&entry) }.is_err() {
                return;
            }
            self.backlog.pop_front();
            self.in_kernel += 1;
            self.unsubmitted += 1;
        }
    }

    fn complete(&mut self, key: usize, result: i32) -> Woken {
        self.in_kernel -= 1;
        let Slot::Busy { held, waker, abandoned } = self.release(key) else {
            panic!("a completion for a ring slot that is not busy");
        };
        if abandoned {
            return Woken::Nobody(Some(Box::new(held)));
        }
        let result = usize::try_from(result).map_err(|_| io::Error::from_raw_os_error(-result));
        let answer = Answer { result, request: held.request };
        // The slot just released is the head of the free list: take it back for the answer.
        let again = self.place(Slot::Done(answer));
        assert_eq!(again, key, "the ring slot just freed is the next one used");
        waker.map_or(Woken::Nobody(None), Woken::Waker)
    }
}

fn entry(held: &mut Held) -> squeue::Entry {
    let fd = types::Fd(held.file.as_raw_fd());
    match &mut held.request {
        Request::Read { offset, buf, filled } => {
            let into = &mut buf[*filled..];
            opcode::Read::new(fd, into.as_mut_ptr(), into.len() as u32).offset(*offset + *filled as u64).build()
        }
        Request::Write { offset, parts, durable } => {
            let flags = if *durable { RWF_DSYNC } else { 0 };
            match parts.as_slice() {
                [one] => opcode::Write::new(fd, one.as_ptr(), one.len() as u32).offset(*offset).rw_flags(flags).build(),
                _ => opcode::Writev::new(fd, held.slices.as_ptr().cast(), held.slices.len() as u32)
                    .offset(*offset)
                    .rw_flags(flags)
                    .build(),
            }
        }
        Request::Flush => opcode::Fsync::new(fd).flags(types::FsyncFlags::DATASYNC).build(),
    }
}

/// Waits for one completion.
struct Waiting {
    ring: Rc<Ring>,
    key: usize,
    taken: bool,
}

impl Future for Waiting {
    type Output = Answer;
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Answer> {
        let this = &mut *self;
        let mut state = this.ring.state.borrow_mut();
        if let Slot::Busy { waker, .. } = &mut state.slots[this.key] {
            match waker {
                Some(old) => old.clone_from(cx.waker()),
                None => *waker = Some(cx.waker().clone()),
            }
            return Poll::Pending;
        }
        let Slot::Done(answer) = state.release(this.key) else {
            panic!("a ring slot was freed under its future");
        };
        this.taken = true;
        Poll::Ready(answer)
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if self.taken {
            return;
        }
        let mut state = self.ring.state.borrow_mut();
        if let Slot::Busy { abandoned, waker, .. } = &mut state.slots[self.key] {
            *abandoned = true;
            *waker = None;
            return;
        }
        let done = state.release(self.key);
        drop(state);
        drop(done);
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        self.readiness = None;
        // Wait for what is under way; a device that does not answer for ever must not free memory under the kernel.
        for _ in 0..RING_DRAIN_ROUNDS_MAX {
            self.submit();
            self.take_completions();
            if self.is_idle() {
                // SAFETY: dropped here once, and never used again: `self` is being dropped.
                unsafe { ManuallyDrop::drop(self.state.get_mut()) };
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        tracing::warn!(
            requests = self.busy.get(),
            "devices did not answer while a thread ended: their buffers are leaked"
        );
    }
}

/// Milliseconds that a ring waits for its last requests before it leaks their memory.
const RING_DRAIN_ROUNDS_MAX: u32 = 5000;
