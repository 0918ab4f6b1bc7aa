//! A connected unix socket under the reactor of its shard.
//!
//! Promises    the reactor is told of room to write only while a write waits for it
//! Why         a unix socket has room each time the client reads an answer: a registration for both directions woke the shard
//!             once more for every request, for nothing

use std::{
    io::{self, IoSlice},
    os::fd::OwnedFd,
    pin::Pin,
    task::{Context, Poll, ready},
};

use rustix::{
    io::Errno,
    net::{RecvFlags, SendAncillaryBuffer, SendFlags, Shutdown, recv, sendmsg, shutdown},
};
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf, unix::AsyncFd};

pub(crate) struct UnixStream {
    socket: AsyncFd<OwnedFd>,
    /// A second descriptor, while a write waits for room.
    full: Option<AsyncFd<OwnedFd>>,
}

impl UnixStream {
    /// Takes over an accepted stream that does not block. Must be called in the runtime of its thread.
    pub fn adopt(socket: OwnedFd) -> io::Result<Self> {
        Ok(Self { socket: register(socket, Interest::READABLE)?, full: None })
    }

    /// The socket, for another thread.
    pub fn into_fd(self) -> OwnedFd {
        self.socket.into_inner()
    }
}

#[allow(unsafe_code)]
fn register(socket: OwnedFd, interest: Interest) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: the `AsyncFd` owns the descriptor, which stays open and the same for as long as it lives.
    unsafe { AsyncFd::register_with_interest(socket, interest) }.map_err(|error| error.into_parts().1)
}

impl AsyncRead for UnixStream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        loop {
            let mut ready = ready!(self.socket.poll_read_ready(cx))?;
            let wanted = buf.remaining();
            match recv(self.socket.get_ref(), buf.initialize_unfilled(), RecvFlags::empty()) {
                Ok((count, _)) => {
                    // Less than there was room for is all that there was; the end and errors are flagged apart.
                    if count < wanted {
                        ready.clear_ready();
                    }
                    buf.advance(count);
                    return Poll::Ready(Ok(()));
                }
                Err(Errno::AGAIN) => ready.clear_ready(),
                Err(Errno::INTR) => {}
                Err(error) => return Poll::Ready(Err(error.into())),
            }
        }
    }
}

impl AsyncWrite for UnixStream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(buf)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        loop {
            let full = match &this.full {
                Some(full) => Some(ready!(full.poll_write_ready(cx))?),
                None => None,
            };
            match sendmsg(this.socket.get_ref(), slices, &mut SendAncillaryBuffer::default(), SendFlags::NOSIGNAL) {
                Ok(count) => {
                    this.full = None;
                    return Poll::Ready(Ok(count));
                }
                Err(Errno::AGAIN) => match full {
                    Some(mut full) => full.clear_ready(),
                    None => this.full = Some(register(this.socket.get_ref().try_clone()?, Interest::WRITABLE)?),
                },
                Err(Errno::INTR) => {}
                Err(error) => return Poll::Ready(Err(error.into())),
            }
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(shutdown(self.socket.get_ref(), Shutdown::Write).map_err(io::Error::from))
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[test]
    fn a_slow_reader_gets_every_byte_and_the_end() {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(slow_reader());
    }

    async fn slow_reader() {
        let (near, far) = tokio::net::UnixStream::pair().unwrap();
        let (mut near, mut far) = (UnixStream::adopt(near.into_std().unwrap().into()).unwrap(), far);
        let sent: Vec<u8> = (0..4_000_000u32).map(|i| (i / 7) as u8).collect();
        let expected = sent.clone();
        let writer = async move {
            near.write_all(&sent).await.unwrap();
            assert!(near.full.is_none(), "nothing waits for room any more");
            near.shutdown().await.unwrap();
            let mut answer = [0; 4];
            near.read_exact(&mut answer).await.unwrap();
            assert_eq!(near.read(&mut [0; 8]).await.unwrap(), 0, "the other side has left");
            answer
        };
        let reader = async move {
            let (mut got, mut piece) = (Vec::new(), vec![0; 50_000]);
            loop {
                tokio::time::sleep(std::time::Duration::from_millis(1)).await;
                match far.read(&mut piece).await.unwrap() {
                    0 => break,
                    count => got.extend_from_slice(&piece[..count]),
                }
            }
            far.write_all(b"done").await.unwrap();
            got
        };
        let (answer, got) = futures::join!(writer, reader);
        assert!(got == expected, "what was read is not what was written");
        assert_eq!(&answer, b"done");
    }
}
