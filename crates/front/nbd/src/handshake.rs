//! The negotiation: from the greeting to a chosen disk.
//!
//! Promises    every option is answered; the loop ends within the caller's timeout and [`OPTIONS_MAX`] options
//! Not here    what options look like (`option`)
//! Source      "NBD protocol", section "Newstyle negotiation"

use std::{io, mem};

use cairn_volume::{Exports, Volume, VolumeError, VolumeInfo};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::{
    contexts::{Context, meant, needs_moments},
    option::{
        ClientOption, MetaQuery, NotNbd, OPTION_BYTES_MAX, OPTION_HEAD_BYTES, OPTION_SKIP_BYTES_MAX, Refusal,
        parse_head, parse_option, put_context, put_export_info, put_reply, put_server,
    },
    request::Terms,
    wire::{FLAG_FIXED_NEWSTYLE, FLAG_NO_ZEROES, MAGIC, OPTION_MAGIC, STRING_BYTES_MAX, opt, rep, transmission_flags},
};

/// Options of one negotiation, at most: clients send about ten; `nbdinfo --list` a few per disk.
const OPTIONS_MAX: u32 = 4096;

/// The negotiation's end where it leads to a disk.
pub(crate) struct Chosen<V> {
    pub(crate) volume: V,
    pub(crate) terms: Terms,
    /// What block status requests are told of.
    pub(crate) contexts: Vec<Context>,
}

/// What the negotiation leads to.
pub(crate) enum Outcome<V> {
    /// A disk to be served here.
    Chosen(Chosen<V>),
    /// The client is to be served by that shard, which goes on from here.
    Moves(usize, Handover),
}

/// What was agreed on so far: what an option sets stands here, and moves with the client.
#[derive(Debug, Default)]
struct Agreed {
    no_zeroes: bool,
    structured: bool,
    /// Metadata contexts that were selected, and the name of the disk for which: they hold for that one only.
    contexts: Vec<Context>,
    contexts_for: String,
}

impl Agreed {
    /// What the client is told of what that disk takes.
    fn flags(&self, info: &VolumeInfo) -> u16 {
        transmission_flags(self.structured, info.read_only)
    }

    /// What it means for requests to that disk. `info` is what the client was told: a disk that grows meanwhile is seen on the next
    /// connection.
    fn chosen<V>(&mut self, volume: V, info: &VolumeInfo, name: &str) -> Chosen<V> {
        let contexts = match self.contexts_for == name {
            true => mem::take(&mut self.contexts),
            false => Vec::new(),
        };
        let terms = Terms {
            size_bytes: info.size_bytes,
            read_only: info.read_only,
            structured: self.structured,
            contexts: contexts.len(),
        };
        Chosen { volume, terms, contexts }
    }
}

/// What another shard needs to go on: what was agreed on, and the option with which the client chose its disk, unanswered.
#[derive(Debug)]
pub(crate) struct Handover {
    agreed: Agreed,
    code: u32,
    option: ClientOption,
}

/// Why a connection ended before a disk was chosen.
#[derive(Debug)]
pub(crate) enum Ended {
    /// The client said goodbye, or just left.
    ByClient,
    /// It does not speak the protocol, or asks for what can only be answered by closing.
    Refused(&'static str),
}

impl From<io::Error> for Ended {
    fn from(_: io::Error) -> Self {
        Self::ByClient
    }
}

impl From<NotNbd> for Ended {
    fn from(NotNbd(text): NotNbd) -> Self {
        Self::Refused(text)
    }
}

struct Negotiation<'a, E, S> {
    stream: &'a mut S,
    exports: &'a E,
    out: Vec<u8>,
    agreed: Agreed,
    /// Whether the client may be moved to another shard.
    movable: bool,
}

/// Negotiates with one client, which may be moved to another shard where that is `movable`.
pub(crate) async fn negotiate<E: Exports, S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut S,
    exports: &E,
    movable: bool,
) -> Result<Outcome<E::Volume>, Ended> {
    let mut greeting = [MAGIC, OPTION_MAGIC].concat();
    let server_flags = (FLAG_FIXED_NEWSTYLE | FLAG_NO_ZEROES) as u16;
    greeting.extend_from_slice(&server_flags.to_be_bytes());
    stream.write_all(&greeting).await?;
    let client_flags = stream.read_u32().await?;
    if client_flags & !(FLAG_FIXED_NEWSTYLE | FLAG_NO_ZEROES) != 0 {
        return Err(Ended::Refused("the client sets unknown handshake flags"));
    }
    let agreed = Agreed { no_zeroes: client_flags & FLAG_NO_ZEROES != 0, ..Agreed::default() };
    Negotiation { stream, exports, out: Vec::new(), agreed, movable }.finish().await
}

/// Goes on where another shard has left off: this one serves what the client chose, unless it cannot be opened.
pub(crate) async fn go_on<E: Exports, S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut S,
    exports: &E,
    handover: Handover,
) -> Result<Outcome<E::Volume>, Ended> {
    let Handover { agreed, code, option } = handover;
    let mut negotiation = Negotiation { stream, exports, out: Vec::new(), agreed, movable: false };
    let chosen = negotiation.answer(code, option).await;
    negotiation.send().await?;
    match chosen? {
        Some(outcome) => Ok(outcome),
        None => negotiation.finish().await,
    }
}

impl<E: Exports, S: AsyncRead + AsyncWrite + Unpin> Negotiation<'_, E, S> {
    async fn finish(&mut self) -> Result<Outcome<E::Volume>, Ended> {
        for _ in 0..OPTIONS_MAX {
            let outcome = self.answer_one().await;
            self.send().await?;
            if let Some(outcome) = outcome? {
                return Ok(outcome);
            }
        }
        Err(Ended::Refused("the negotiation has too many options"))
    }

    async fn send(&mut self) -> Result<(), Ended> {
        if !self.out.is_empty() {
            let out = mem::take(&mut self.out);
            self.stream.write_all(&out).await?;
        }
        Ok(())
    }

    async fn answer_one(&mut self) -> Result<Option<Outcome<E::Volume>>, Ended> {
        let mut head = [0; OPTION_HEAD_BYTES];
        self.stream.read_exact(&mut head).await?;
        let head = parse_head(&head)?;
        if head.code == opt::SET_META_CONTEXT {
            // Whatever comes of it, it replaces what was selected before.
            self.agreed.contexts.clear();
        }
        if head.len_bytes > OPTION_BYTES_MAX {
            self.skip_data(head.code, head.len_bytes).await?;
            return Ok(None);
        }
        let mut data = vec![0; head.len_bytes as usize];
        self.stream.read_exact(&mut data).await?;
        let option = match parse_option(head.code, &data) {
            Ok(option) => option,
            // EXPORT_NAME has no way to say no but to close.
            Err(refusal) if head.code == opt::EXPORT_NAME => {
                return Err(Ended::Refused(refusal.text));
            }
            Err(Refusal { code, text }) => {
                self.refuse(head.code, code, text);
                return Ok(None);
            }
        };
        if self.movable
            && let Some(name) = chosen_name(&option)
            && let Some(shard) = self.exports.shard_to_serve(name).await
        {
            let agreed = mem::take(&mut self.agreed);
            return Ok(Some(Outcome::Moves(shard, Handover { agreed, code: head.code, option })));
        }
        self.answer(head.code, option).await
    }

    async fn skip_data(&mut self, code: u32, len_bytes: u32) -> Result<(), Ended> {
        if code == opt::EXPORT_NAME || len_bytes > OPTION_SKIP_BYTES_MAX {
            return Err(Ended::Refused("an option has too much data"));
        }
        let mut left = (&mut *self.stream).take(u64::from(len_bytes));
        let skipped = tokio::io::copy(&mut left, &mut tokio::io::sink()).await?;
        if skipped < u64::from(len_bytes) {
            return Err(Ended::ByClient);
        }
        self.refuse(code, rep::ERR_TOO_BIG, "the option has too much data");
        Ok(())
    }

    async fn answer(&mut self, code: u32, option: ClientOption) -> Result<Option<Outcome<E::Volume>>, Ended> {
        match option {
            ClientOption::ExportName(name) => {
                let opened = self.open(&name).await;
                let volume = opened.map_err(|_| Ended::Refused("the disk cannot be opened"))?;
                return Ok(Some(Outcome::Chosen(self.export_name(volume, &name))));
            }
            ClientOption::Abort => {
                put_reply(&mut self.out, code, rep::ACK, &[]);
                // The client may close without reading it.
                let _ = self.stream.write_all(&self.out).await;
                return Err(Ended::ByClient);
            }
            ClientOption::List => {
                for name in self.exports.list().await {
                    if name.len() <= STRING_BYTES_MAX {
                        put_server(&mut self.out, &name);
                    }
                }
                put_reply(&mut self.out, code, rep::ACK, &[]);
            }
            ClientOption::StartTls => {
                self.refuse(code, rep::ERR_POLICY, "this server does not encrypt");
            }
            ClientOption::Info(query) | ClientOption::Go(query) => match self.open(&query.name).await {
                Err((error, text)) => self.refuse(code, error, &text),
                Ok(volume) => {
                    let info = volume.info();
                    let flags = self.agreed.flags(&info);
                    put_export_info(&mut self.out, code, &query.wants, &info, flags);
                    put_reply(&mut self.out, code, rep::ACK, &[]);
                    if code == opt::GO {
                        return Ok(Some(Outcome::Chosen(self.agreed.chosen(volume, &info, &query.name))));
                    }
                }
            },
            ClientOption::StructuredReply => {
                self.agreed.structured = true;
                put_reply(&mut self.out, code, rep::ACK, &[]);
            }
            ClientOption::ListMetaContext(query) => {
                self.contexts(code, &query, true).await;
                put_reply(&mut self.out, code, rep::ACK, &[]);
            }
            ClientOption::SetMetaContext(query) => self.set_meta_context(code, query).await,
        }
        Ok(None)
    }

    async fn set_meta_context(&mut self, code: u32, query: MetaQuery) {
        if !self.agreed.structured {
            let text = "metadata contexts need structured replies";
            return self.refuse(code, rep::ERR_INVALID, text);
        }
        self.agreed.contexts = self.contexts(code, &query, false).await;
        self.agreed.contexts_for = query.name;
        put_reply(&mut self.out, code, rep::ACK, &[]);
    }

    /// Tells the contexts that are meant.
    async fn contexts(&mut self, code: u32, query: &MetaQuery, listing: bool) -> Vec<Context> {
        let moments = match needs_moments(query) {
            true => self.exports.earlier_moments(&query.name).await,
            false => Vec::new(),
        };
        let contexts = meant(query, moments, listing);
        for context in &contexts {
            put_context(&mut self.out, code, context.id, &context.kind.name());
        }
        contexts
    }

    /// The disk of that name; the only one for the empty name. Else the kind of error and its reason.
    async fn open(&self, name: &str) -> Result<E::Volume, (u32, String)> {
        let only;
        let name = if name.is_empty() {
            let mut names = self.exports.list().await;
            if names.len() != 1 {
                let text = format!("there are {} disks: say which by its name", names.len());
                return Err((rep::ERR_UNKNOWN, text));
            }
            only = names.remove(0);
            &only
        } else {
            name
        };
        match self.exports.open(name).await {
            Ok(Some(volume)) => Ok(volume),
            Ok(None) => Err((rep::ERR_UNKNOWN, format!("there is no disk {name:?}"))),
            Err(VolumeError::Shutdown(text)) => Err((rep::ERR_SHUTDOWN, text)),
            Err(error) => Err((rep::ERR_POLICY, error.to_string())),
        }
    }

    fn export_name(&mut self, volume: E::Volume, name: &str) -> Chosen<E::Volume> {
        let info = volume.info();
        self.out.extend_from_slice(&info.size_bytes.to_be_bytes());
        self.out.extend_from_slice(&self.agreed.flags(&info).to_be_bytes());
        if !self.agreed.no_zeroes {
            self.out.extend_from_slice(&[0; 124]);
        }
        self.agreed.chosen(volume, &info, name)
    }

    fn refuse(&mut self, code: u32, error: u32, text: &str) {
        // Messages are strings of the protocol: bounded.
        let cut = text.floor_char_boundary(STRING_BYTES_MAX);
        put_reply(&mut self.out, code, error, &text.as_bytes()[..cut]);
    }
}

/// The disk that the client asks for, if it does. Without a name it means the only one, which is served anywhere.
fn chosen_name(option: &ClientOption) -> Option<&str> {
    let name = match option {
        ClientOption::ExportName(name) => name,
        // To be told of a disk is to open it.
        ClientOption::Info(query) | ClientOption::Go(query) => &query.name,
        _ => return None,
    };
    Some(name.as_str()).filter(|name| !name.is_empty())
}
