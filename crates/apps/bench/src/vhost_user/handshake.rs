//! The beginning of a connection: what the device is and can do, and where its ring lies. It blocks.
//!
//! Promises    what is agreed on is what we use, and nothing else
//! Assumes     who calls it ends the socket where the server takes too long: every read here waits for as long as it takes
//! Source      the vhost-user protocol (QEMU, docs/interop/vhost-user.rst); virtio 1.2, 5.2.4 for the device's configuration

use std::{os::unix::net::UnixStream, result};

use vhost::{
    VhostBackend,
    vhost_user::{
        Frontend, VhostUserFrontend, VhostUserProtocolFeatures as Protocol, VhostUserVirtioFeatures,
        message::{VhostUserConfigFlags, VhostUserHeaderFlag},
    },
};
use virtio_bindings::{
    virtio_blk::{
        VIRTIO_BLK_F_BLK_SIZE, VIRTIO_BLK_F_DISCARD, VIRTIO_BLK_F_FLUSH, VIRTIO_BLK_F_RO, VIRTIO_BLK_F_SIZE_MAX,
    },
    virtio_config::VIRTIO_F_VERSION_1,
    virtio_ring::VIRTIO_RING_F_EVENT_IDX,
};
use vmm_sys_util::eventfd::EventFd;

use super::{
    driver::event,
    queue::{Queue, REQUEST_BYTES_MAX, SECTOR_BYTES},
};

const VERSION_1: u64 = 1 << VIRTIO_F_VERSION_1;
const EVENT_IDX: u64 = 1 << VIRTIO_RING_F_EVENT_IDX;
const PROTOCOL_FEATURES: u64 = VhostUserVirtioFeatures::PROTOCOL_FEATURES.bits();
const SIZE_MAX: u64 = 1 << VIRTIO_BLK_F_SIZE_MAX;
const RO: u64 = 1 << VIRTIO_BLK_F_RO;
const BLK_SIZE: u64 = 1 << VIRTIO_BLK_F_BLK_SIZE;
const FLUSH: u64 = 1 << VIRTIO_BLK_F_FLUSH;
const DISCARD: u64 = 1 << VIRTIO_BLK_F_DISCARD;
/// All that we know how to use.
const KNOWN: u64 = VERSION_1 | EVENT_IDX | PROTOCOL_FEATURES | SIZE_MAX | RO | BLK_SIZE | FLUSH | DISCARD;

/// The one queue that is used. A device with more is as fast with one: one thread drives it.
const QUEUE: usize = 0;

/// A device's blocks have at most as many bytes as the largest page of a guest.
const BLOCK_BYTES_MAX: u32 = 64 << 10;

/// What a device trims.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Trims {
    /// Sectors of a range, and ranges of a request, at most.
    pub(super) sectors_max: u32,
    pub(super) ranges_max: u32,
}

/// What a device is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Traits {
    pub(super) size_bytes: u64,
    pub(super) block_bytes: u32,
    pub(super) request_bytes_max: u32,
    pub(super) read_only: bool,
    pub(super) can_flush: bool,
    pub(super) trims: Option<Trims>,
}

/// A device that may be asked.
pub(super) struct Opened {
    pub(super) traits: Traits,
    pub(super) queue: Queue,
    pub(super) kick: EventFd,
}

/// Why not.
pub(super) struct Refusal {
    pub(super) why: String,
    /// Whether a smaller ring may do: the server took all that came before it.
    pub(super) may_be_the_ring: bool,
}

impl From<String> for Refusal {
    fn from(why: String) -> Self {
        Self { why, may_be_the_ring: false }
    }
}

type Result<T> = result::Result<T, String>;

/// Agrees with the server on a device with a ring of that size, whose answers ring `bell`.
pub(super) fn shake(socket: UnixStream, bell: &EventFd, ring_size: u16) -> result::Result<Opened, Refusal> {
    let mut server = Frontend::from_stream(socket, QUEUE as u64 + 1);
    let (traits, features) = agree(&mut server)?;
    let no_memory = |error: std::io::Error| format!("the system gives no memory to share: {error}");
    let queue = Queue::new(ring_size, features & EVENT_IDX != 0).map_err(no_memory)?;
    let kick = event().map_err(|error| format!("the system gives no event descriptor: {error}"))?;
    server.set_mem_table(&[queue.memory().info()]).map_err(at("the memory that is shared with it"))?;
    let started = start(&mut server, &queue, &kick, bell);
    started.map_err(|why| Refusal { why, may_be_the_ring: true })?;
    Ok(Opened { traits, queue, kick })
}

/// At which step it ended.
fn at(step: &str) -> impl FnOnce(vhost::Error) -> String {
    move |error| format!("the server ended the handshake, at {step}: {error}")
}

/// What the device is, and the features that it is told we use.
fn agree(server: &mut Frontend) -> Result<(Traits, u64)> {
    server.set_owner().map_err(at("its beginning"))?;
    let offered = server.get_features().map_err(at("the features"))?;
    if offered & (VERSION_1 | PROTOCOL_FEATURES) != VERSION_1 | PROTOCOL_FEATURES {
        return Err(format!(
            "the server's device is older than virtio 1.0 and vhost-user's own features ({offered:#x})"
        ));
    }
    let protocol = server.get_protocol_features().map_err(at("the protocol's features"))?;
    if !protocol.contains(Protocol::CONFIG) {
        return Err("the server does not tell what its device is: it may be no block device".into());
    }
    let protocol = protocol & (Protocol::CONFIG | Protocol::REPLY_ACK | Protocol::MQ);
    server.set_protocol_features(protocol).map_err(at("the protocol's features"))?;
    if protocol.contains(Protocol::REPLY_ACK) {
        server.set_hdr_flags(VhostUserHeaderFlag::NEED_REPLY);
    }
    let features = offered & KNOWN;
    let len_bytes = config_bytes(features);
    let told = server.get_config(0, len_bytes as u32, VhostUserConfigFlags::empty(), &vec![0; len_bytes]);
    let (_, config) = told.map_err(at("the device's configuration"))?;
    server.set_features(features).map_err(at("the features"))?;
    Ok((traits(features, &config)?, features))
}

fn start(server: &mut Frontend, queue: &Queue, kick: &EventFd, bell: &EventFd) -> Result<()> {
    let ring = queue.ring();
    server.set_vring_num(QUEUE, ring.size()).map_err(at("a ring of that size"))?;
    server.set_vring_base(QUEUE, 0).map_err(at("where the ring begins"))?;
    server.set_vring_addr(QUEUE, &ring.config(queue.memory())).map_err(at("where the ring lies"))?;
    server.set_vring_call(QUEUE, bell).map_err(at("what it rings"))?;
    server.set_vring_kick(QUEUE, kick).map_err(at("what kicks it"))?;
    server.set_vring_enable(QUEUE, true).map_err(at("the start of the ring"))
}

/// Bytes of the configuration that these features give a meaning to. A server may have no more than those.
fn config_bytes(features: u64) -> usize {
    match features {
        features if features & DISCARD != 0 => 48,
        features if features & BLK_SIZE != 0 => 24,
        features if features & SIZE_MAX != 0 => 12,
        _ => 8,
    }
}

/// Reads a configuration of as many bytes as these features have.
fn traits(features: u64, config: &[u8]) -> Result<Traits> {
    let has = |feature: u64| features & feature != 0;
    let u32_at = |at: usize| u32::from_le_bytes(config[at..at + 4].try_into().expect("four bytes"));
    let sectors = u64::from_le_bytes(config[..8].try_into().expect("eight bytes"));
    let size_bytes = sectors.checked_mul(SECTOR_BYTES).ok_or("the server's device has more bytes than can be told")?;
    let block_bytes = if has(BLK_SIZE) { u32_at(20) } else { SECTOR_BYTES as u32 };
    if !block_bytes.is_power_of_two() || u64::from(block_bytes) < SECTOR_BYTES || block_bytes > BLOCK_BYTES_MAX {
        return Err(format!("the server's device has blocks of {block_bytes} bytes"));
    }
    let size_max = if has(SIZE_MAX) { u32_at(8) } else { 0 };
    let trims = has(DISCARD).then(|| Trims { sectors_max: u32_at(36), ranges_max: u32_at(40) });
    Ok(Traits {
        size_bytes,
        block_bytes,
        request_bytes_max: if size_max == 0 { REQUEST_BYTES_MAX } else { size_max.min(REQUEST_BYTES_MAX) },
        read_only: has(RO),
        can_flush: has(FLUSH),
        trims: trims.filter(|trims| trims.sectors_max > 0 && trims.ranges_max > 0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A configuration with every field set.
    fn config() -> [u8; 48] {
        let mut config = [0; 48];
        let mut put = |at: usize, bytes: &[u8]| config[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &2048u64.to_le_bytes());
        put(8, &65536u32.to_le_bytes());
        put(20, &4096u32.to_le_bytes());
        put(36, &8192u32.to_le_bytes());
        put(40, &2u32.to_le_bytes());
        config
    }

    #[test]
    fn only_what_was_agreed_on_has_a_meaning() {
        let bare = Traits {
            size_bytes: 1 << 20,
            block_bytes: 512,
            request_bytes_max: REQUEST_BYTES_MAX,
            read_only: false,
            can_flush: false,
            trims: None,
        };
        let cases = [
            (0, bare),
            (RO | FLUSH, Traits { read_only: true, can_flush: true, ..bare }),
            (SIZE_MAX, Traits { request_bytes_max: 65536, ..bare }),
            (BLK_SIZE, Traits { block_bytes: 4096, ..bare }),
            (DISCARD, Traits { trims: Some(Trims { sectors_max: 8192, ranges_max: 2 }), ..bare }),
        ];
        for (features, expected) in cases {
            assert_eq!(traits(features, &config()[..config_bytes(features)]), Ok(expected), "{features:#x}");
        }
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let mut config = config();
        config[20] = 1;
        assert!(traits(BLK_SIZE, &config).unwrap_err().contains("4097"));
        config[..8].fill(0xff);
        assert!(traits(0, &config).is_err());
        config[..8].fill(0);
        config[36..40].fill(0);
        assert_eq!(traits(DISCARD, &config).unwrap().trims, None);
    }
}
