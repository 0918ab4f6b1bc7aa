//! Block devices of a machine as its system tells them: facts, and no judgement.

/// One block device. What the system does not tell is none, or empty.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BlockDevice {
    /// What it is called now, `/dev/sdb`: another device may have the name after the next start.
    pub path: String,
    /// Its links in `/dev/disk/by-id`, as whole paths, ascending.
    pub ids: Vec<String>,
    /// Its size.
    pub len_bytes: u64,
    /// What its maker calls it.
    pub model: Option<String>,
    /// Its maker's number for it.
    pub serial: Option<String>,
    /// Whether it has moving parts.
    pub rotates: Option<bool>,
    /// Whether the system refuses writes to it.
    pub is_read_only: bool,
    /// Its partitions, by what they are called now.
    pub partitions: Vec<String>,
    /// Who has it, or a partition of it: mounts, swap, other devices, in words.
    pub users: Vec<String>,
    /// As it measures it itself, in degrees Celsius.
    pub temperature_c: Option<i32>,
    /// How much of its life it has used up, as it says itself; above 100 where it lives longer than its maker promised.
    pub wear_percent: Option<u8>,
}

/// Why the locate LED of a device was neither lit nor put out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LocateError {
    /// The program that speaks with enclosures is not on this machine.
    NoProgram,
    /// Only root may do it, and this process is not root.
    NotRoot,
    /// No enclosure or controller that the program knows has the device.
    NoEnclosure,
    /// The program did not end within so many seconds.
    Silent {
        /// How long it was waited for.
        waited_s: u64,
    },
    /// Something else: what the program said.
    Other(String),
}
