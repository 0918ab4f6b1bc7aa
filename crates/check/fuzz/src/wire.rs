//! What another host may send: frames, and messages in them.
//!
//! Promises    what decodes encodes to bytes that decode to the same; a length that lies costs no more than
//!             [`HELD_BYTES_MAX`] beside a multiple of what arrived

use cairn_env_linux::frames_in;
use cairn_format::crc32c;
use cairn_wire::{decode, encode};

use crate::{input::Input, memory::most_held};

/// Memory that lengths may be believed with before their contents are there: serde takes at most 1 MiB for a list whose
/// length it was told, and lists nest four deep at most.
const HELD_BYTES_MAX: usize = 4 << 20;
/// Memory for each byte that arrived: an empty list of 24 bytes is one byte on the wire, a hole of two bytes takes 32, and a
/// list that grows doubles.
const HELD_BYTES_PER_BYTE: usize = 128;
const FRAME_HEADER_BYTES: usize = 64;

/// The first byte chooses: a message's body, or a stream of frames.
pub fn target(data: &[u8]) {
    let mut input = Input::new(data);
    match input.below(3) {
        0 => message(input.rest()),
        1 => frames(input.clone().u16(), input.bytes(data.len()).get(2..).unwrap_or_default()),
        _ => {
            let read_bytes = input.u16();
            frames(read_bytes, &sealed(input.rest()));
        }
    }
}

fn message(body: &[u8]) {
    let (decoded, most) = most_held(|| decode(body));
    assert!(
        most <= HELD_BYTES_MAX + HELD_BYTES_PER_BYTE * body.len(),
        "{} bytes made the decoder take {most}",
        body.len()
    );
    let Ok(message) = decoded else { return };
    let again = encode(&message);
    // Numbers have longer encodings than their own, so the bytes may differ; the shortest is never longer.
    assert!(again.len() <= body.len());
    assert_eq!(decode(&again).as_ref(), Ok(&message));
}

fn frames(read_bytes: u16, stream: &[u8]) {
    let read_bytes = usize::from(read_bytes % 4096) + FRAME_HEADER_BYTES + 1;
    let Ok(frames) = frames_in(stream, read_bytes) else { return };
    let bytes: usize = frames.iter().map(|(body, payload)| FRAME_HEADER_BYTES + body.len() + payload.len()).sum();
    assert!(bytes <= stream.len(), "{bytes} bytes of frames in {}", stream.len());
    let at_once = frames_in(stream, stream.len() + FRAME_HEADER_BYTES + 1);
    assert_eq!(at_once.as_ref(), Ok(&frames), "frames depend on how their bytes arrive");
    for (body, _) in frames {
        message(&body);
    }
}

/// The stream with the checksums of its headers and bodies put right, one frame after the other.
fn sealed(stream: &[u8]) -> Vec<u8> {
    let mut stream = stream.to_vec();
    let mut at = 0;
    while let Some(header) = stream.get(at..at + FRAME_HEADER_BYTES) {
        let word = |at: usize| u32::from_le_bytes(header[at..at + 4].try_into().expect("four bytes")) as usize;
        let (body_bytes, payload_bytes) = (word(24), word(28));
        let body_at = at + FRAME_HEADER_BYTES;
        if let Some(body) = stream.get(body_at..body_at.saturating_add(body_bytes)) {
            let crc = crc32c(body);
            stream[at + 32..at + 36].copy_from_slice(&crc.to_le_bytes());
        }
        stream[at..at + 4].copy_from_slice(b"CRNf");
        let crc = crc32c(&stream[at..at + 60]);
        stream[at + 60..at + 64].copy_from_slice(&crc.to_le_bytes());
        at = body_at.saturating_add(body_bytes).saturating_add(payload_bytes);
    }
    stream
}
