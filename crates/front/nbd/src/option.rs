//! Options of the negotiation: bytes to values and answers to bytes. No I/O.
//!
//! Promises    any bytes give a value or a refusal; nothing is allocated by a length that was not checked
//! Source      "NBD protocol", sections "Newstyle negotiation" and "Option types"

use crate::wire::{
    OPTION_MAGIC, OPTION_REPLY_MAGIC, PAYLOAD_BYTES_MAX, PREFERRED_BYTES, STRING_BYTES_MAX, info, opt, rep,
};
use cairn_types::SECTOR_BYTES;

/// Bytes of an option's head.
pub const OPTION_HEAD_BYTES: usize = 16;
/// Data of one option that is looked at, at most. A name, 16 contexts of full length: nobody sends more.
pub const OPTION_BYTES_MAX: u32 = 64 << 10;
/// Data of one option that is read and thrown away, so that it can be answered "too big". Past this the client is not sane.
pub const OPTION_SKIP_BYTES_MAX: u32 = 1 << 20;

/// The head of an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OptionHead {
    /// Which option.
    pub code: u32,
    /// Bytes of data that follow.
    pub len_bytes: u32,
}

/// A stream that does not speak the protocol: the connection is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotNbd(pub &'static str);

/// Reads the head of an option.
pub fn parse_head(bytes: &[u8; OPTION_HEAD_BYTES]) -> Result<OptionHead, NotNbd> {
    if bytes[..8] != OPTION_MAGIC {
        return Err(NotNbd("an option does not start with IHAVEOPT"));
    }
    let mut rest = Reader(&bytes[8..]);
    match (rest.u32(), rest.u32()) {
        (Some(code), Some(len_bytes)) => Ok(OptionHead { code, len_bytes }),
        _ => Err(NotNbd("an option without a head")),
    }
}

/// What a client asks for in the negotiation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClientOption {
    /// Open this disk and start, without a way to say no.
    ExportName(String),
    /// End politely.
    Abort,
    /// Names of all disks.
    List,
    /// Encrypt.
    StartTls,
    /// Tell about a disk.
    Info(ExportQuery),
    /// Open a disk and start.
    Go(ExportQuery),
    /// Answer in chunks from now on.
    StructuredReply,
    /// Which metadata contexts match.
    ListMetaContext(MetaQuery),
    /// Select metadata contexts.
    SetMetaContext(MetaQuery),
}

/// The data of INFO and GO.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExportQuery {
    /// The disk; empty is "the only one".
    pub name: String,
    /// Information that the client wants besides size and flags.
    pub wants: Vec<u16>,
}

/// The data of LIST_META_CONTEXT and SET_META_CONTEXT.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetaQuery {
    /// The disk.
    pub name: String,
    /// Contexts or, when listing, prefixes of contexts.
    pub queries: Vec<Vec<u8>>,
}

/// An option that is answered with an error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// One of `rep::ERR_*`.
    pub code: u32,
    /// For people.
    pub text: &'static str,
}

fn invalid(text: &'static str) -> Refusal {
    Refusal { code: rep::ERR_INVALID, text }
}

/// Reads an option's data.
pub fn parse_option(code: u32, data: &[u8]) -> Result<ClientOption, Refusal> {
    let mut reader = Reader(data);
    let option = match code {
        opt::EXPORT_NAME => {
            let name = reader.0;
            reader.0 = &[];
            ClientOption::ExportName(string(name)?)
        }
        // Clients may send a reason with ABORT; it changes nothing.
        opt::ABORT => return Ok(ClientOption::Abort),
        opt::LIST => ClientOption::List,
        opt::STARTTLS => ClientOption::StartTls,
        opt::INFO => ClientOption::Info(export_query(&mut reader)?),
        opt::GO => ClientOption::Go(export_query(&mut reader)?),
        opt::STRUCTURED_REPLY => ClientOption::StructuredReply,
        opt::LIST_META_CONTEXT => ClientOption::ListMetaContext(meta_query(&mut reader)?),
        opt::SET_META_CONTEXT => ClientOption::SetMetaContext(meta_query(&mut reader)?),
        _ => {
            return Err(Refusal { code: rep::ERR_UNSUP, text: "this server does not know the option" });
        }
    };
    if reader.0.is_empty() { Ok(option) } else { Err(invalid("the option has more data than it should")) }
}

fn string(bytes: &[u8]) -> Result<String, Refusal> {
    if bytes.len() > STRING_BYTES_MAX {
        return Err(invalid("a string is longer than 4096 bytes"));
    }
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.contains('\0') => Ok(text.to_owned()),
        _ => Err(invalid("a string is not UTF-8 text")),
    }
}

const CUT_SHORT: &str = "the option's data is cut short";

fn counted_string<'a>(reader: &mut Reader<'a>) -> Result<&'a [u8], Refusal> {
    let len = reader.u32().ok_or(invalid(CUT_SHORT))?;
    reader.take(len as usize).ok_or(invalid(CUT_SHORT))
}

fn export_query(reader: &mut Reader<'_>) -> Result<ExportQuery, Refusal> {
    let name = string(counted_string(reader)?)?;
    let count = reader.u16().ok_or(invalid(CUT_SHORT))?;
    let wants = (0..count).map(|_| reader.u16().ok_or(invalid(CUT_SHORT))).collect::<Result<_, _>>()?;
    Ok(ExportQuery { name, wants })
}

fn meta_query(reader: &mut Reader<'_>) -> Result<MetaQuery, Refusal> {
    let name = string(counted_string(reader)?)?;
    let count = reader.u32().ok_or(invalid(CUT_SHORT))?;
    // The iterator ends at the first missing query, so a huge count allocates nothing.
    let queries = (0..count).map(|_| counted_string(reader).map(<[u8]>::to_vec)).collect::<Result<_, _>>()?;
    Ok(MetaQuery { name, queries })
}

/// Appends an answer to an option.
pub fn put_reply(out: &mut Vec<u8>, option: u32, kind: u32, data: &[u8]) {
    out.extend_from_slice(&OPTION_REPLY_MAGIC.to_be_bytes());
    out.extend_from_slice(&option.to_be_bytes());
    out.extend_from_slice(&kind.to_be_bytes());
    out.extend_from_slice(&(data.len() as u32).to_be_bytes());
    out.extend_from_slice(data);
}

/// Appends one name of the list of disks.
pub fn put_server(out: &mut Vec<u8>, name: &str) {
    let mut data = (name.len() as u32).to_be_bytes().to_vec();
    data.extend_from_slice(name.as_bytes());
    put_reply(out, opt::LIST, rep::SERVER, &data);
}

/// Appends the answer that names a metadata context.
pub fn put_context(out: &mut Vec<u8>, option: u32, id: u32, name: &str) {
    let mut data = id.to_be_bytes().to_vec();
    data.extend_from_slice(name.as_bytes());
    put_reply(out, option, rep::META_CONTEXT, &data);
}

/// Appends what INFO and GO tell about a disk, without the final ACK.
///
/// The block size is told unasked: a client that ignored it would be refused odd sectors later.
pub fn put_export_info(
    out: &mut Vec<u8>,
    option: u32,
    wants: &[u16],
    volume: &cairn_volume::VolumeInfo,
    transmission_flags: u16,
) {
    let mut put = |kind: u16, body: &[&[u8]]| {
        let mut data = kind.to_be_bytes().to_vec();
        body.iter().for_each(|part| data.extend_from_slice(part));
        put_reply(out, option, rep::INFO, &data);
    };
    put(info::EXPORT, &[&volume.size_bytes.to_be_bytes(), &transmission_flags.to_be_bytes()]);
    put(
        info::BLOCK_SIZE,
        &[&SECTOR_BYTES.to_be_bytes(), &PREFERRED_BYTES.to_be_bytes(), &PAYLOAD_BYTES_MAX.to_be_bytes()],
    );
    if wants.contains(&info::NAME) {
        put(info::NAME, &[volume.name.as_bytes()]);
    }
    if wants.contains(&info::DESCRIPTION) && volume.description.len() <= STRING_BYTES_MAX {
        put(info::DESCRIPTION, &[volume.description.as_bytes()]);
    }
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(head)
    }
    fn u16(&mut self) -> Option<u16> {
        self.take(2)?.try_into().ok().map(u16::from_be_bytes)
    }
    fn u32(&mut self) -> Option<u32> {
        self.take(4)?.try_into().ok().map(u32::from_be_bytes)
    }
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;

    fn encode_export_query(name: &str, wants: &[u16]) -> Vec<u8> {
        let mut data = (name.len() as u32).to_be_bytes().to_vec();
        data.extend_from_slice(name.as_bytes());
        data.extend_from_slice(&(wants.len() as u16).to_be_bytes());
        wants.iter().for_each(|w| data.extend_from_slice(&w.to_be_bytes()));
        data
    }

    fn encode_meta_query(name: &str, queries: &[Vec<u8>]) -> Vec<u8> {
        let mut data = (name.len() as u32).to_be_bytes().to_vec();
        data.extend_from_slice(name.as_bytes());
        data.extend_from_slice(&(queries.len() as u32).to_be_bytes());
        for query in queries {
            data.extend_from_slice(&(query.len() as u32).to_be_bytes());
            data.extend_from_slice(query);
        }
        data
    }

    proptest! {
        #[test]
        fn any_bytes_are_an_option_or_refused(code in 0..14_u32, data in vec(any::<u8>(), 0..300)) {
            if let Err(refusal) = parse_option(code, &data) {
                prop_assert!([rep::ERR_UNSUP, rep::ERR_INVALID].contains(&refusal.code));
            }
        }

        #[test]
        fn queries_read_back_and_every_piece_of_one_is_refused(
            name in "[a-zA-Zäß0-9 ]{0,40}",
            wants in vec(any::<u16>(), 0..10),
            queries in vec(vec(any::<u8>(), 0..30), 0..6),
        ) {
            let data = encode_export_query(&name, &wants);
            let query = ExportQuery { name: name.clone(), wants };
            prop_assert_eq!(parse_option(opt::GO, &data), Ok(ClientOption::Go(query)));
            for cut in 0..data.len() {
                prop_assert!(parse_option(opt::INFO, &data[..cut]).is_err());
            }
            let data = encode_meta_query(&name, &queries);
            let query = MetaQuery { name, queries };
            prop_assert_eq!(parse_option(opt::SET_META_CONTEXT, &data), Ok(ClientOption::SetMetaContext(query)));
            for cut in 0..data.len() {
                prop_assert!(parse_option(opt::LIST_META_CONTEXT, &data[..cut]).is_err());
            }
        }

        #[test]
        fn heads_start_with_the_magic(bytes in any::<[u8; OPTION_HEAD_BYTES]>(), magic in any::<bool>()) {
            let mut bytes = bytes;
            if magic {
                bytes[..8].copy_from_slice(&OPTION_MAGIC);
            }
            prop_assert_eq!(parse_head(&bytes).is_ok(), bytes.starts_with(&OPTION_MAGIC));
        }
    }
}
