//! A small NBD client of our own: it tells when each answer came, and reconnects elsewhere, which fio does not.
//!
//! Not here    structured replies, block status: interop tests use the real tools for them
//! Source      the NBD protocol, doc/proto.md: fixed newstyle, NBD_OPT_GO, simple replies

use std::{
    fmt,
    io::{Read, Write},
    net::{Shutdown, SocketAddr, TcpStream},
    os::unix::net::UnixStream,
    path::PathBuf,
    time::Duration,
};

const OPTION_MAGIC: u64 = 0x4948_4156_454F_5054;
const REQUEST_MAGIC: u32 = 0x2560_9513;
const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
const OPT_GO: u32 = 7;
const REP_ACK: u32 = 1;
const REP_INFO: u32 = 3;

/// Where an NBD server listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// A unix socket.
    Unix(PathBuf),
    /// TCP.
    Tcp(SocketAddr),
}

/// Why a request has no good answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NbdError {
    /// The connection is gone, or the server is silent: connect again, perhaps elsewhere.
    Gone(String),
    /// The server answered with this error number.
    Refused(u32),
}

impl fmt::Display for NbdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gone(words) => write!(f, "connection gone: {words}"),
            Self::Refused(code) => write!(f, "the server answered error {code}"),
        }
    }
}

impl From<std::io::Error> for NbdError {
    fn from(error: std::io::Error) -> Self {
        Self::Gone(error.to_string())
    }
}

impl Target {
    /// The URI of an export there, as libnbd, fio and QEMU take it.
    pub fn uri(&self, export: &str) -> String {
        match self {
            Self::Unix(path) => format!("nbd+unix:///{export}?socket={}", path.display()),
            Self::Tcp(address) => format!("nbd://{address}/{export}"),
        }
    }
}

trait Stream: Read + Write + Send {
    fn hang_up(&self) -> std::io::Result<HangUp>;
}

impl Stream for UnixStream {
    fn hang_up(&self) -> std::io::Result<HangUp> {
        Ok(HangUp::Unix(self.try_clone()?))
    }
}

impl Stream for TcpStream {
    fn hang_up(&self) -> std::io::Result<HangUp> {
        Ok(HangUp::Tcp(self.try_clone()?))
    }
}

/// Ends a connection from another thread.
#[derive(Debug)]
pub enum HangUp {
    /// Of a unix socket.
    Unix(UnixStream),
    /// Of TCP.
    Tcp(TcpStream),
}

impl HangUp {
    /// Ends it: what waits for an answer learns that the connection is gone.
    pub fn now(&self) {
        let _ = match self {
            Self::Unix(stream) => stream.shutdown(Shutdown::Both),
            Self::Tcp(stream) => stream.shutdown(Shutdown::Both),
        };
    }
}

/// One connection, one request at a time.
pub struct NbdClient {
    stream: Box<dyn Stream>,
    /// Bytes of the disk.
    pub size: u64,
    cookie: u64,
}

impl NbdClient {
    /// Connects to `export`; no answer within `patience` counts as gone, now and later.
    ///
    /// # Errors
    /// When the server cannot be reached or does not have the export.
    pub fn connect(target: &Target, export: &str, patience: Duration) -> Result<Self, NbdError> {
        let stream: Box<dyn Stream> = match target {
            Target::Unix(path) => {
                let stream = UnixStream::connect(path)?;
                stream.set_read_timeout(Some(patience))?;
                stream.set_write_timeout(Some(patience))?;
                Box::new(stream)
            }
            Target::Tcp(address) => {
                let stream = TcpStream::connect_timeout(address, patience.min(Duration::from_secs(1)))?;
                stream.set_read_timeout(Some(patience))?;
                stream.set_write_timeout(Some(patience))?;
                stream.set_nodelay(true)?;
                Box::new(stream)
            }
        };
        let mut client = Self { stream, size: 0, cookie: 0 };
        client.negotiate(export)?;
        Ok(client)
    }

    fn negotiate(&mut self, export: &str) -> Result<(), NbdError> {
        let hello: [u8; 18] = self.take()?;
        if &hello[..8] != b"NBDMAGIC" {
            return Err(NbdError::Gone("no NBD server".into()));
        }
        self.stream.write_all(&3_u32.to_be_bytes())?;
        let mut option = Vec::new();
        option.extend(OPTION_MAGIC.to_be_bytes());
        option.extend(OPT_GO.to_be_bytes());
        option.extend((export.len() as u32 + 6).to_be_bytes());
        option.extend((export.len() as u32).to_be_bytes());
        option.extend(export.as_bytes());
        option.extend(0_u16.to_be_bytes());
        self.stream.write_all(&option)?;
        loop {
            let head: [u8; 20] = self.take()?;
            let word = |at: usize| u32::from_be_bytes(head[at..at + 4].try_into().expect("four bytes"));
            let mut body = vec![0; word(16).min(1 << 16) as usize];
            self.stream.read_exact(&mut body)?;
            match word(12) {
                REP_ACK => return Ok(()),
                REP_INFO if body.len() >= 12 && body[..2] == [0, 0] => {
                    self.size = u64::from_be_bytes(body[2..10].try_into().expect("eight bytes"));
                }
                REP_INFO => {}
                code => {
                    return Err(NbdError::Gone(format!(
                        "export {export} refused: {code:#x} {}",
                        String::from_utf8_lossy(&body)
                    )));
                }
            }
        }
    }

    /// What ends this connection from another thread.
    ///
    /// # Errors
    /// When the system has no descriptor left.
    pub fn hang_up(&self) -> std::io::Result<HangUp> {
        self.stream.hang_up()
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], NbdError> {
        let mut bytes = [0; N];
        self.stream.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    fn request(&mut self, command: u16, offset: u64, bytes: u32, data: &[u8]) -> Result<(), NbdError> {
        self.cookie += 1;
        let mut head = Vec::with_capacity(28 + data.len());
        head.extend(REQUEST_MAGIC.to_be_bytes());
        head.extend(0_u16.to_be_bytes());
        head.extend(command.to_be_bytes());
        head.extend(self.cookie.to_be_bytes());
        head.extend(offset.to_be_bytes());
        head.extend(bytes.to_be_bytes());
        head.extend(data);
        self.stream.write_all(&head)?;
        let reply: [u8; 16] = self.take()?;
        let magic = u32::from_be_bytes(reply[..4].try_into().expect("four bytes"));
        let cookie = u64::from_be_bytes(reply[8..].try_into().expect("eight bytes"));
        if magic != SIMPLE_REPLY_MAGIC || cookie != self.cookie {
            return Err(NbdError::Gone("a reply out of the protocol".into()));
        }
        match u32::from_be_bytes(reply[4..8].try_into().expect("four bytes")) {
            0 => Ok(()),
            code => Err(NbdError::Refused(code)),
        }
    }

    /// Reads into all of `data`.
    ///
    /// # Errors
    /// See [`NbdError`].
    pub fn read(&mut self, offset: u64, data: &mut [u8]) -> Result<(), NbdError> {
        self.request(0, offset, data.len() as u32, &[])?;
        self.stream.read_exact(data)?;
        Ok(())
    }

    /// Writes all of `data`.
    ///
    /// # Errors
    /// See [`NbdError`].
    pub fn write(&mut self, offset: u64, data: &[u8]) -> Result<(), NbdError> {
        self.request(1, offset, data.len() as u32, data)
    }

    /// Flushes.
    ///
    /// # Errors
    /// See [`NbdError`].
    pub fn flush(&mut self) -> Result<(), NbdError> {
        self.request(3, 0, 0, &[])
    }

    /// Trims.
    ///
    /// # Errors
    /// See [`NbdError`].
    pub fn trim(&mut self, offset: u64, bytes: u32) -> Result<(), NbdError> {
        self.request(4, offset, bytes, &[])
    }

    /// Writes zeroes, holes allowed.
    ///
    /// # Errors
    /// See [`NbdError`].
    pub fn write_zeroes(&mut self, offset: u64, bytes: u32) -> Result<(), NbdError> {
        self.request(6, offset, bytes, &[])
    }
}
