//! A plain NBD client that sends exactly what a test tells it to.
//!
//! Promises    reads with a time limit, so that a server that does not answer fails the test instead of hanging it

use std::{
    io::{self, Read, Write},
    net::{SocketAddr, TcpStream},
    os::unix::net::UnixStream,
    path::Path,
    time::Duration,
};

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(20);

pub const GO: u32 = 7;
pub const READ: u16 = 0;
pub const WRITE: u16 = 1;
pub const DISC: u16 = 2;
pub const FLUSH: u16 = 3;
pub const TRIM: u16 = 4;
pub const CACHE: u16 = 5;
pub const WRITE_ZEROES: u16 = 6;
pub const BLOCK_STATUS: u16 = 7;
pub const EPERM: u32 = 1;
pub const EINVAL: u32 = 22;
pub const ENOSPC: u32 = 28;

/// Both kinds of sockets.
pub trait Socket: Read + Write + Send {}
impl Socket for UnixStream {}
impl Socket for TcpStream {}

/// One connection.
pub struct Client {
    pub socket: Box<dyn Socket>,
    pub structured: bool,
    pub size: u64,
    pub flags: u16,
    next_cookie: u64,
}

/// One answer, put together from its chunks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Answer {
    pub cookie: u64,
    pub error: u32,
    pub text: String,
    /// (offset, bytes) of data; holes as zeros.
    pub data: Vec<(u64, Vec<u8>)>,
    /// Bytes that came as holes.
    pub holes: u64,
    /// What `base:allocation` tells.
    pub extents: Vec<(u32, u32)>,
    /// What other contexts tell, by their numbers.
    pub told: Vec<(u32, Vec<(u32, u32)>)>,
    pub chunks: u32,
}

impl Client {
    pub fn unix(path: &Path) -> Self {
        let socket = UnixStream::connect(path).expect("connect to the unix socket");
        socket.set_read_timeout(Some(PATIENCE)).expect("a time limit");
        socket.set_write_timeout(Some(PATIENCE)).expect("a time limit");
        Self::over(Box::new(socket))
    }
    pub fn tcp(addr: SocketAddr) -> Self {
        let socket = TcpStream::connect(addr).expect("connect by TCP");
        socket.set_read_timeout(Some(PATIENCE)).expect("a time limit");
        socket.set_write_timeout(Some(PATIENCE)).expect("a time limit");
        socket.set_nodelay(true).expect("no delay");
        Self::over(Box::new(socket))
    }
    fn over(socket: Box<dyn Socket>) -> Self {
        Self { socket, structured: false, size: 0, flags: 0, next_cookie: 1 }
    }

    pub fn take<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        self.socket.read_exact(&mut bytes).expect("the server's answer");
        bytes
    }
    pub fn take_vec(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.socket.read_exact(&mut bytes).expect("the server's answer");
        bytes
    }
    pub fn u16(&mut self) -> u16 {
        u16::from_be_bytes(self.take())
    }
    pub fn u32(&mut self) -> u32 {
        u32::from_be_bytes(self.take())
    }
    pub fn u64(&mut self) -> u64 {
        u64::from_be_bytes(self.take())
    }
    /// Whether the server closes, whatever it says before.
    pub fn is_closed(&mut self) -> bool {
        let mut rest = Vec::new();
        match self.socket.read_to_end(&mut rest) {
            Ok(_) => true,
            Err(e) => e.kind() == io::ErrorKind::ConnectionReset,
        }
    }

    /// Reads the greeting and answers with these flags.
    pub fn greet(mut self, flags: u32) -> Self {
        assert_eq!(&self.take::<16>(), b"NBDMAGICIHAVEOPT");
        assert_eq!(self.u16(), 3, "fixed newstyle, no zeroes");
        self.socket.write_all(&flags.to_be_bytes()).expect("send flags");
        self
    }
    pub fn send_option(&mut self, code: u32, data: &[u8]) {
        let mut bytes = b"IHAVEOPT".to_vec();
        bytes.extend_from_slice(&code.to_be_bytes());
        bytes.extend_from_slice(&(data.len() as u32).to_be_bytes());
        bytes.extend_from_slice(data);
        self.socket.write_all(&bytes).expect("send an option");
    }
    pub fn option_reply(&mut self) -> (u32, u32, Vec<u8>) {
        assert_eq!(self.u64(), 0x0003_e889_0455_65a9);
        let (option, kind, len) = (self.u32(), self.u32(), self.u32());
        (option, kind, self.take_vec(len as usize))
    }
    /// Sends an option and reads its answers to the last one.
    pub fn option(&mut self, code: u32, data: &[u8]) -> Vec<(u32, Vec<u8>)> {
        self.send_option(code, data);
        let mut replies = Vec::new();
        loop {
            let (option, kind, data) = self.option_reply();
            assert_eq!(option, code);
            replies.push((kind, data));
            if kind == 1 || kind >= 0x8000_0000 {
                return replies;
            }
        }
    }

    /// Negotiates: chunks and block status if `structured`.
    pub fn go(self, name: &str, structured: bool) -> Self {
        let mut client = self.greet(3);
        if structured {
            assert_eq!(client.option(8, &[]), [(1, vec![])]);
            let replies = client.option(10, &meta_query(name, &[b"base:allocation"]));
            assert_eq!(replies.len(), 2);
            client.structured = true;
        }
        let replies = client.option(GO, &export_query(name, &[]));
        assert_eq!(replies.last().map(|r| r.0), Some(1), "{replies:?}");
        for (kind, data) in replies {
            if kind == 3 && data[..2] == [0, 0] {
                client.size = u64::from_be_bytes(data[2..10].try_into().expect("8 bytes"));
                client.flags = u16::from_be_bytes([data[10], data[11]]);
            }
        }
        client
    }

    /// Sends a request without its payload; returns its cookie.
    pub fn send(&mut self, command: u16, flags: u16, offset: u64, len: u32) -> u64 {
        let cookie = self.next_cookie;
        self.next_cookie += 1;
        let bytes = request(command, flags, cookie, offset, len);
        self.socket.write_all(&bytes).expect("send a request");
        cookie
    }
    pub fn send_write(&mut self, flags: u16, offset: u64, data: &[u8]) -> u64 {
        let cookie = self.send(WRITE, flags, offset, data.len() as u32);
        self.socket.write_all(data).expect("send a payload");
        cookie
    }
    /// Sends a request and reads its answer.
    pub fn ask(&mut self, command: u16, flags: u16, offset: u64, len: u32) -> Answer {
        let cookie = self.send(command, flags, offset, len);
        let answer = self.answer(if command == READ { len } else { 0 });
        assert_eq!(answer.cookie, cookie);
        answer
    }
    pub fn write(&mut self, offset: u64, data: &[u8]) -> Answer {
        let cookie = self.send_write(0, offset, data);
        let answer = self.answer(0);
        assert_eq!(answer.cookie, cookie);
        answer
    }
    pub fn read(&mut self, offset: u64, len: u32) -> Vec<u8> {
        let answer = self.ask(READ, 0, offset, len);
        assert_eq!(answer.error, 0, "{answer:?}");
        answer.bytes(offset, len)
    }

    /// Reads one answer; `read_len` is what a simple answer to a read carries. Only chunks of one answer may follow each other.
    pub fn answer(&mut self, read_len: u32) -> Answer {
        self.answer_of(|_| read_len)
    }
    /// The same, with the length looked up by cookie.
    pub fn answer_of(&mut self, read_len: impl Fn(u64) -> u32) -> Answer {
        let mut answer = Answer::default();
        loop {
            let magic = self.u32();
            if magic == 0x6744_6698 {
                assert!(!self.structured, "a simple answer among chunks");
                answer.error = self.u32();
                answer.cookie = self.u64();
                if answer.error == 0 {
                    let data = self.take_vec(read_len(answer.cookie) as usize);
                    answer.data.push((u64::MAX, data));
                }
                return answer;
            }
            assert_eq!(magic, 0x668e_33ef);
            let (flags, kind) = (self.u16(), self.u16());
            let (cookie, len) = (self.u64(), self.u32());
            assert!(answer.chunks == 0 || answer.cookie == cookie, "chunks of answers are mixed");
            answer.cookie = cookie;
            answer.chunks += 1;
            let body = self.take_vec(len as usize);
            answer.add_chunk(kind, &body);
            if flags & 1 != 0 {
                return answer;
            }
        }
    }
}

impl Answer {
    fn add_chunk(&mut self, kind: u16, body: &[u8]) {
        let u32_at = |at: usize| u32::from_be_bytes(body[at..at + 4].try_into().expect("4 bytes"));
        let offset = || u64::from_be_bytes(body[..8].try_into().expect("8 bytes"));
        match kind {
            0 => assert!(body.is_empty()),
            1 => self.data.push((offset(), body[8..].to_vec())),
            2 => {
                assert_eq!(body.len(), 12);
                self.data.push((offset(), vec![0; u32_at(8) as usize]));
                self.holes += u64::from(u32_at(8));
            }
            5 => {
                let extents = (4..body.len()).step_by(8).map(|at| (u32_at(at), u32_at(at + 4))).collect();
                match u32_at(0) {
                    1 => self.extents = extents,
                    other => self.told.push((other, extents)),
                }
            }
            0x8001 => {
                self.error = u32_at(0);
                self.text = String::from_utf8(body[6..].to_vec()).expect("UTF-8");
                assert_eq!(usize::from(u16::from_be_bytes([body[4], body[5]])), self.text.len());
            }
            _ => panic!("a chunk of kind {kind:#x}"),
        }
    }

    /// What was read; fails unless the chunks cover the range exactly.
    pub fn bytes(&self, offset: u64, len: u32) -> Vec<u8> {
        let mut all = Vec::new();
        for (at, data) in &self.data {
            assert!(*at == u64::MAX || *at == offset + all.len() as u64, "chunks out of order");
            all.extend_from_slice(data);
        }
        assert_eq!(all.len(), len as usize);
        all
    }
}

pub fn request(command: u16, flags: u16, cookie: u64, offset: u64, len: u32) -> Vec<u8> {
    let mut bytes = 0x2560_9513_u32.to_be_bytes().to_vec();
    bytes.extend_from_slice(&flags.to_be_bytes());
    bytes.extend_from_slice(&command.to_be_bytes());
    bytes.extend_from_slice(&cookie.to_be_bytes());
    bytes.extend_from_slice(&offset.to_be_bytes());
    bytes.extend_from_slice(&len.to_be_bytes());
    bytes
}

pub fn export_query(name: &str, wants: &[u16]) -> Vec<u8> {
    let mut data = (name.len() as u32).to_be_bytes().to_vec();
    data.extend_from_slice(name.as_bytes());
    data.extend_from_slice(&(wants.len() as u16).to_be_bytes());
    wants.iter().for_each(|w| data.extend_from_slice(&w.to_be_bytes()));
    data
}

pub fn meta_query(name: &str, queries: &[&[u8]]) -> Vec<u8> {
    let mut data = (name.len() as u32).to_be_bytes().to_vec();
    data.extend_from_slice(name.as_bytes());
    data.extend_from_slice(&(queries.len() as u32).to_be_bytes());
    for query in queries {
        data.extend_from_slice(&(query.len() as u32).to_be_bytes());
        data.extend_from_slice(query);
    }
    data
}
