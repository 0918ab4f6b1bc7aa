//! The guest's driver of all devices of a thread: one task that shows servers what was asked, and hands out what they answered.
//!
//! Promises    D1  requests of one turn are published together, and the server is kicked at most once for them
//!             D2  all devices ring the same bell: however many answers came, they are taken in one turn
//!             D3  whoever waits when a server ends the connection is told
//! Assumes     a bell that rings wakes who watches it, read or not: epoll, edge-triggered
//! Why         rings are looked at when the bell has rung, and not on the way: a server as fast as we are would be looked at again and
//!             again, and the reactor, which tells of other bells and of timers, not at all
//! Not here    what is in the rings (`queue`)

use std::{
    cell::{Cell, OnceCell, RefCell},
    future::poll_fn,
    io,
    net::Shutdown,
    os::unix::net::UnixStream,
    rc::{Rc, Weak},
    task::{Context, Poll, Waker},
};

use cairn_env::Env;
use cairn_env_linux::LinuxEnv;
use tokio::io::{Interest, unix::AsyncFd};
use vmm_sys_util::eventfd::{EFD_CLOEXEC, EFD_NONBLOCK, EventFd};

use super::queue::{Asked, Queue};

/// A bell, or a kick.
pub(super) fn event() -> io::Result<EventFd> {
    EventFd::new(EFD_NONBLOCK | EFD_CLOEXEC)
}

/// Drives the devices of one thread. Cheap to clone; it ends with the last one, devices included.
#[derive(Clone, Default)]
pub(crate) struct Driver(Rc<Inner>);

#[derive(Default)]
struct Inner {
    bell: OnceCell<AsyncFd<EventFd>>,
    devices: RefCell<Vec<Weak<Device>>>,
    /// Those with requests to publish.
    asked: RefCell<Vec<Weak<Device>>>,
    /// The task's, while it waits.
    waker: RefCell<Option<Waker>>,
}

impl Driver {
    /// What all devices ring. The first one that asks for it starts the task.
    pub(super) fn bell(&self, env: &LinuxEnv) -> io::Result<&EventFd> {
        if self.0.bell.get().is_none() {
            let bell = register(event()?)?;
            assert!(self.0.bell.set(bell).is_ok(), "there was none");
            let inner = Rc::downgrade(&self.0);
            env.spawn(poll_fn(move |cx| inner.upgrade().map_or(Poll::Ready(()), |inner| inner.turn(cx))));
        }
        Ok(self.0.bell.get().expect("just made").get_ref())
    }

    /// Drives a device whose handshake is over.
    pub(super) fn drive(
        &self,
        env: &LinuxEnv,
        queue: Queue,
        kick: EventFd,
        socket: UnixStream,
    ) -> io::Result<Rc<Device>> {
        socket.set_nonblocking(true)?;
        let watched = tokio::net::UnixStream::from_std(socket.try_clone()?)?;
        let driver = self.0.clone();
        let device = Rc::new(Device { queue: RefCell::new(queue), kick, socket, is_asked: Cell::new(false), driver });
        self.0.devices.borrow_mut().push(Rc::downgrade(&device));
        env.spawn(watch(watched, Rc::downgrade(&device)));
        Ok(device)
    }
}

#[allow(unsafe_code)]
fn register(bell: EventFd) -> io::Result<AsyncFd<EventFd>> {
    // SAFETY: the `AsyncFd` owns the descriptor, which stays open and the same for as long as it lives.
    unsafe { AsyncFd::register_with_interest(bell, Interest::READABLE) }.map_err(|error| error.into_parts().1)
}

impl Inner {
    /// Something is to be published: the task does it after whoever else has work in this turn.
    fn wake(&self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    fn turn(&self, cx: &mut Context<'_>) -> Poll<()> {
        // Whatever is asked for in this turn is published in it.
        self.waker.take();
        // Taken back before the rings are looked at: who rings after that look rings anew.
        let mut has_rung = false;
        loop {
            match self.bell.get().expect("the task has one").poll_read_ready(cx) {
                Poll::Ready(Ok(mut rung)) => rung.clear_ready(),
                Poll::Ready(Err(_)) => return Poll::Ready(()),
                Poll::Pending => break,
            }
            has_rung = true;
        }
        if has_rung {
            self.devices.borrow_mut().retain(|device| device.upgrade().is_some_and(|device| device.collect()));
        }
        loop {
            let next = self.asked.borrow_mut().pop();
            let Some(device) = next else { break };
            if let Some(device) = device.upgrade() {
                device.publish();
            }
        }
        self.waker.replace(Some(cx.waker().clone()));
        Poll::Pending
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.wake();
    }
}

/// A device that is driven. The connection ends with it.
pub(super) struct Device {
    queue: RefCell<Queue>,
    kick: EventFd,
    socket: UnixStream,
    /// Whether the driver knows of requests to publish.
    is_asked: Cell<bool>,
    driver: Rc<Inner>,
}

impl Device {
    /// Places the request, or has it wait; it is answered later in either case.
    pub(super) fn ask(self: &Rc<Self>, asked: Asked) {
        if let Some(why) = self.queue.borrow().ended() {
            let _ = asked.answer.send(Err(why.to_owned()));
            return;
        }
        if self.queue.borrow_mut().ask(asked) {
            self.is_to_publish();
        }
    }

    fn is_to_publish(self: &Rc<Self>) {
        if !self.is_asked.replace(true) {
            self.driver.asked.borrow_mut().push(Rc::downgrade(self));
            self.driver.wake();
        }
    }

    fn publish(self: &Rc<Self>) {
        self.is_asked.set(false);
        // It fails only where nobody has looked for 2^64 kicks.
        if self.queue.borrow_mut().publish() {
            let _ = self.kick.write(1);
        }
    }

    /// True, for as long as it is worth looking again.
    fn collect(self: &Rc<Self>) -> bool {
        let mut queue = self.queue.borrow_mut();
        if queue.collect() {
            self.is_to_publish();
        }
        queue.ended().is_none()
    }

    fn end(&self, why: &str) {
        self.queue.borrow_mut().end(why);
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // The other descriptor of the socket is still watched: this ends that, too.
        let _ = self.socket.shutdown(Shutdown::Both);
    }
}

/// D3. After the handshake a server has nothing to say.
async fn watch(socket: tokio::net::UnixStream, device: Weak<Device>) {
    let broke = |error: io::Error| format!("the connection broke: {error}");
    let why = loop {
        if let Err(error) = socket.readable().await {
            break broke(error);
        }
        match socket.try_read(&mut [0; 64]) {
            Ok(0) => break "the server ended the connection".to_owned(),
            Ok(_) => break "the server said what nobody had asked for".to_owned(),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => break broke(error),
        }
    };
    if let Some(device) = device.upgrade() {
        device.end(&why);
    }
}
