//! A connected TCP socket under the reactor of its host.
//!
//! Promises    reads and writes never block; readiness is given back after a short transfer, which saves the call that
//!             would only have said "nothing more"

use std::{
    io::{self, IoSlice, IoSliceMut},
    net::TcpStream,
    os::fd::OwnedFd,
    task::{Context, Poll, ready},
    time::Duration,
};

use rustix::{
    io::Errno,
    net::{SendAncillaryBuffer, SendFlags, sendmsg, sockopt},
};
use tokio::io::{Interest, unix::AsyncFd};

/// How long sent bytes may stay unacknowledged before the connection counts as broken.
///
/// Leases (2 s) detect silence; this only makes way for a fresh connection soon after a cut has healed, because TCP's own
/// pauses between retransmissions double up to minutes.
const UNACKNOWLEDGED_MAX: Duration = Duration::from_secs(3);
/// Silence after which the kernel probes, so that the side that only reads finds a dead peer.
const KEEPALIVE_AFTER: Duration = Duration::from_secs(5);

pub(crate) struct Socket(AsyncFd<OwnedFd>);

impl Socket {
    /// Takes over a connected stream. Must be called on the host's thread.
    pub fn adopt(stream: TcpStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        sockopt::set_tcp_user_timeout(&stream, UNACKNOWLEDGED_MAX.as_millis() as u32)?;
        sockopt::set_socket_keepalive(&stream, true)?;
        sockopt::set_tcp_keepidle(&stream, KEEPALIVE_AFTER)?;
        sockopt::set_tcp_keepintvl(&stream, Duration::from_secs(1))?;
        let fd = OwnedFd::from(stream);
        let interest = Interest::READABLE | Interest::WRITABLE;
        // SAFETY: the `AsyncFd` owns the descriptor, which stays open and the same for as long as it lives.
        let watched = unsafe { AsyncFd::register_with_interest(fd, interest) };
        Ok(Self(watched.map_err(|error| error.into_parts().1)?))
    }

    /// Gives the stream back, for another thread's reactor.
    pub fn release(self) -> TcpStream {
        self.0.into_inner().into()
    }

    /// Reads into `slices`; 0 is the end.
    pub fn poll_read(&self, cx: &mut Context<'_>, slices: &mut [IoSliceMut<'_>]) -> Poll<io::Result<usize>> {
        let wanted: usize = slices.iter().map(|s| s.len()).sum();
        loop {
            let mut ready = ready!(self.0.poll_read_ready(cx))?;
            match rustix::io::readv(self.0.get_ref(), slices) {
                Ok(count) => {
                    // The end and errors are flagged apart and stay readable.
                    if count < wanted {
                        ready.clear_ready();
                    }
                    return Poll::Ready(Ok(count));
                }
                Err(Errno::AGAIN) => ready.clear_ready(),
                Err(Errno::INTR) => {}
                Err(error) => return Poll::Ready(Err(error.into())),
            }
        }
    }

    /// Writes some of `slices`.
    pub fn poll_write(&self, cx: &mut Context<'_>, slices: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        loop {
            let mut ready = ready!(self.0.poll_write_ready(cx))?;
            let mut no_control = SendAncillaryBuffer::default();
            let sent = sendmsg(self.0.get_ref(), slices, &mut no_control, SendFlags::NOSIGNAL);
            match sent {
                Ok(count) => return Poll::Ready(Ok(count)),
                Err(Errno::AGAIN) => ready.clear_ready(),
                Err(Errno::INTR) => {}
                Err(error) => return Poll::Ready(Err(error.into())),
            }
        }
    }

    pub async fn read_exact(&self, mut into: &mut [u8]) -> io::Result<()> {
        while !into.is_empty() {
            let count = std::future::poll_fn(|cx| self.poll_read(cx, &mut [IoSliceMut::new(into)])).await?;
            if count == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            into = &mut into[count..];
        }
        Ok(())
    }

    pub async fn write_all(&self, mut from: &[u8]) -> io::Result<()> {
        while !from.is_empty() {
            let count = std::future::poll_fn(|cx| self.poll_write(cx, &[IoSlice::new(from)])).await?;
            from = &from[count..];
        }
        Ok(())
    }
}
