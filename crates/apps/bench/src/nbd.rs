//! A client of NBD with many requests under way on one connection.
//!
//! Promises    requests leave in the order in which they were made, those of one turn in one write
//!             whoever waits when the connection ends is told why
//! Not here    structured replies, TLS, block status: loads need reads, writes, flushes and trims
//! Source      the NBD protocol, doc/proto.md: fixed newstyle, NBD_OPT_GO, simple replies

use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    rc::Rc,
};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use cairn_env::Env;
use cairn_env_linux::LinuxEnv;
use futures::StreamExt;
use futures::channel::{mpsc, oneshot};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpStream, UnixStream},
};

use crate::{address::Address, command::Command};

const OPTION_MAGIC: u64 = 0x4948_4156_454F_5054;
const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
const REQUEST_MAGIC: u32 = 0x2560_9513;
const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
const OPT_GO: u32 = 7;
const REP_ACK: u32 = 1;
const REP_INFO: u32 = 3;
const INFO_EXPORT: u16 = 0;
const FLAG_READ_ONLY: u16 = 1 << 1;
const FLAG_SEND_FLUSH: u16 = 1 << 2;
const FLAG_SEND_TRIM: u16 = 1 << 5;
const FIXED_NEWSTYLE_NO_ZEROES: u32 = 3;
const OPTION_BYTES_MAX: u32 = 1 << 16;
const READ_BUFFER: usize = 256 << 10;

/// On the wire.
fn number(command: Command) -> u16 {
    match command {
        Command::Read => 0,
        Command::Write => 1,
        Command::Flush => 3,
        Command::Trim => 4,
    }
}

/// What was read, where it is asked for.
type Answer = Result<Bytes, String>;

struct Waiting {
    /// Bytes that follow a good answer.
    read_bytes: u32,
    /// Whether somebody wants to see them.
    keep: bool,
    answer: oneshot::Sender<Answer>,
}

/// Data that is still to come, and who is answered then.
struct Coming {
    left: usize,
    kept: Option<BytesMut>,
    answer: oneshot::Sender<Answer>,
}

#[derive(Default)]
struct Shared {
    waiting: RefCell<BTreeMap<u64, Waiting>>,
    /// Why the connection ended.
    ended: RefCell<Option<String>>,
}

impl Shared {
    fn end(&self, why: &str) {
        self.ended.borrow_mut().get_or_insert_with(|| why.to_owned());
        for (_, waiting) in std::mem::take(&mut *self.waiting.borrow_mut()) {
            let _ = waiting.answer.send(Err(why.to_owned()));
        }
    }
}

/// A connection. Cheap to clone; it ends with the last one.
#[derive(Clone)]
pub(crate) struct NbdClient {
    shared: Rc<Shared>,
    queue: mpsc::UnboundedSender<(u64, Command, u64, u32, Bytes)>,
    next_cookie: Rc<Cell<u64>>,
    pub(crate) size_bytes: u64,
    pub(crate) read_only: bool,
    pub(crate) can_flush: bool,
    pub(crate) can_trim: bool,
}

impl NbdClient {
    /// Connects and chooses the export.
    pub(crate) async fn connect(env: &LinuxEnv, address: &Address) -> Result<Self, String> {
        let told = |error: std::io::Error| format!("cannot connect: {error}");
        match address {
            Address::NbdUnix { socket, export } => {
                let stream = UnixStream::connect(socket).await.map_err(told)?;
                Self::negotiate(env, stream.into_split(), export).await
            }
            Address::NbdTcp { host, port, export } => {
                let stream = TcpStream::connect((host.as_str(), *port)).await.map_err(told)?;
                stream.set_nodelay(true).map_err(told)?;
                Self::negotiate(env, stream.into_split(), export).await
            }
            Address::VhostUser { .. } | Address::Path(_) => Err("not an NBD export".into()),
        }
    }

    async fn negotiate<R, W>(env: &LinuxEnv, (mut from, mut to): (R, W), export: &str) -> Result<Self, String>
    where
        R: AsyncRead + Unpin + 'static,
        W: AsyncWrite + Unpin + 'static,
    {
        let told = |error: std::io::Error| format!("the server ended the negotiation: {error}");
        let mut hello = [0; 18];
        from.read_exact(&mut hello).await.map_err(told)?;
        if &hello[..8] != b"NBDMAGIC" {
            return Err("what answers is no NBD server".into());
        }
        let mut option = BytesMut::new();
        option.put_u32(FIXED_NEWSTYLE_NO_ZEROES);
        option.put_u64(OPTION_MAGIC);
        option.put_u32(OPT_GO);
        option.put_u32(export.len() as u32 + 6);
        option.put_u32(export.len() as u32);
        option.put_slice(export.as_bytes());
        option.put_u16(0);
        to.write_all(&option).await.map_err(told)?;
        let mut known = None;
        loop {
            let mut head = [0; 20];
            from.read_exact(&mut head).await.map_err(told)?;
            let mut head = &head[..];
            let (magic, _option, kind, len) = (head.get_u64(), head.get_u32(), head.get_u32(), head.get_u32());
            if magic != OPTION_REPLY_MAGIC || len > OPTION_BYTES_MAX {
                return Err("the server's negotiation is not NBD's".into());
            }
            let mut body = vec![0; len as usize];
            from.read_exact(&mut body).await.map_err(told)?;
            let mut body = &body[..];
            match kind {
                REP_ACK => break,
                REP_INFO if body.len() >= 12 && body.get_u16() == INFO_EXPORT => {
                    known = Some((body.get_u64(), body.get_u16()));
                }
                REP_INFO => {}
                code => {
                    let words = String::from_utf8_lossy(body);
                    return Err(format!("the server has no export {export:?} for us (code {code:#x}) {words}"));
                }
            }
        }
        let (size_bytes, flags) = known.ok_or("the server did not tell the export's size")?;
        let shared = Rc::new(Shared::default());
        let (queue, requests) = mpsc::unbounded();
        env.spawn(write_requests(to, requests, shared.clone()));
        env.spawn(read_answers(from, shared.clone()));
        let has = |flag: u16| flags & flag != 0;
        let (read_only, can_flush, can_trim) = (has(FLAG_READ_ONLY), has(FLAG_SEND_FLUSH), has(FLAG_SEND_TRIM));
        Ok(Self { shared, queue, next_cookie: Rc::default(), size_bytes, read_only, can_flush, can_trim })
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
        if let Some(why) = &*self.shared.ended.borrow() {
            return Err(why.clone());
        }
        let cookie = self.next_cookie.replace(self.next_cookie.get() + 1);
        let (answer, answered) = oneshot::channel();
        let read_bytes = if command == Command::Read { len_bytes } else { 0 };
        self.shared.waiting.borrow_mut().insert(cookie, Waiting { read_bytes, keep, answer });
        let _ = self.queue.unbounded_send((cookie, command, offset, len_bytes, data));
        answered.await.unwrap_or_else(|_| Err("the connection is gone".into()))
    }
}

async fn write_requests(
    mut to: impl AsyncWrite + Unpin,
    mut requests: mpsc::UnboundedReceiver<(u64, Command, u64, u32, Bytes)>,
    shared: Rc<Shared>,
) {
    let mut buffer = BytesMut::new();
    while let Some(first) = requests.next().await {
        let mut next = Some(first);
        while let Some((cookie, command, offset, len_bytes, data)) = next {
            buffer.put_u32(REQUEST_MAGIC);
            buffer.put_u16(0);
            buffer.put_u16(number(command));
            buffer.put_u64(cookie);
            buffer.put_u64(offset);
            buffer.put_u32(len_bytes);
            buffer.put_slice(&data);
            next = if buffer.len() < READ_BUFFER { requests.try_recv().ok() } else { None };
        }
        if let Err(error) = to.write_all(&buffer).await {
            return shared.end(&format!("the server takes no requests any more: {error}"));
        }
        buffer.clear();
    }
}

async fn read_answers(mut from: impl AsyncRead + Unpin, shared: Rc<Shared>) {
    let why = match read_until_end(&mut from, &shared).await {
        Ok(()) => "the server ended the connection".to_owned(),
        Err(why) => why,
    };
    shared.end(&why);
}

/// The protocol's errors are numbered as Linux' own.
fn error_words(code: u32) -> String {
    let error = i32::try_from(code).map(std::io::Error::from_raw_os_error);
    format!("the server answered: {}", error.map_or_else(|_| format!("error {code}"), |error| error.to_string()))
}

async fn read_until_end(from: &mut (impl AsyncRead + Unpin), shared: &Shared) -> Result<(), String> {
    let mut buffer = BytesMut::with_capacity(READ_BUFFER);
    let told = |error: std::io::Error| format!("the connection broke: {error}");
    let mut data: Option<Coming> = None;
    loop {
        if let Some(coming) = &mut data {
            let here = coming.left.min(buffer.len());
            match &mut coming.kept {
                Some(kept) => kept.unsplit(buffer.split_to(here)),
                None => buffer.advance(here),
            }
            coming.left -= here;
        }
        if let Some(done) = data.take_if(|coming| coming.left == 0) {
            let _ = done.answer.send(Ok(done.kept.unwrap_or_default().freeze()));
        }
        if data.is_none() && buffer.len() >= 16 {
            let (magic, error, cookie) = (buffer.get_u32(), buffer.get_u32(), buffer.get_u64());
            let waiting = shared.waiting.borrow_mut().remove(&cookie);
            let waiting = waiting.filter(|_| magic == SIMPLE_REPLY_MAGIC).ok_or("an answer out of the protocol")?;
            match error {
                0 => {
                    let kept = waiting.keep.then(BytesMut::new);
                    data = Some(Coming { left: waiting.read_bytes as usize, kept, answer: waiting.answer });
                }
                code => drop(waiting.answer.send(Err(error_words(code)))),
            }
            continue;
        }
        if from.read_buf(&mut buffer).await.map_err(told)? == 0 {
            return Ok(());
        }
        if buffer.capacity() - buffer.len() < 4096 {
            buffer.reserve(READ_BUFFER);
        }
    }
}
