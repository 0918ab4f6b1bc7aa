//! The capacity tier of the disk group: its devices, the room on each, and what counts rounds and what they write.
//!
//! Promises    a device that failed stays so, and has no room
//! Not here    segments of one device (`segments.rs`), what components are charged (`components.rs`), who writes (`destage.rs`,
//!             `bypass.rs`), what is moved (`clean.rs`)

use cairn_format::CapacityRegions;

use crate::segments::Segments;

/// Who wants room that there is only because blocks are packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum By {
    /// A guest.
    Guest,
    /// A copy: what comes is what the component's other copies hold packed already, and takes no more here once it is destaged.
    Copy,
}

/// What guests may not have of that room, so that a copy that was away on a full device can be filled, a piece after the other: a part of the
/// device, two pieces of 1 MiB at least where it is not tiny, and 128 MiB at most.
const SPARE_PART: u64 = 32;
const SPARE_PART_MAX: u64 = 8;
const SPARE_BLOCKS_MIN: u64 = 512;
const SPARE_BLOCKS_MAX: u64 = 1 << 15;
/// Where equal blocks are stored once a log's worth more, at most so much of the device: a copy that was away may not find what it found before, as hooks are
/// not there yet after a start.
const SPARE_PART_SHARED_MAX: u64 = 4;

/// All capacity devices, those that are missing as well.
#[derive(Debug)]
pub(crate) struct Tier {
    devices: Vec<Segments>,
    /// Counts destage and cleaning rounds: the clock of segment ages.
    round: u64,
    /// Counts what is written to capacity devices and waits for its transaction, or its record: rounds, cleanings, copies.
    tickets: u64,
    /// The metadata has no room for blocks that it does not know yet.
    pub metadata_is_full: bool,
    /// Blocks may be packed: what fits the devices only so is admitted as well.
    pub has_packed: bool,
    /// Equal blocks may be stored once.
    pub has_shared: bool,
    /// Blocks that the log has room for.
    pub log_blocks: u64,
    /// Pages of the log in use: as many blocks may be on their way to any device.
    pub log_pages: u64,
}

impl Tier {
    /// Of devices with these regions; none for one that is missing or dead.
    pub fn new(devices: &[Option<CapacityRegions>]) -> Self {
        let segments = |(index, regions): (usize, &Option<CapacityRegions>)| {
            let blank = CapacityRegions { segments_offset: 0, segment_count: 0, segment_bytes: 4 << 20, log_id: 0 };
            let mut segments = Segments::new(index as u8, regions.as_ref().unwrap_or(&blank));
            segments.failed = regions.is_none();
            segments
        };
        Self {
            devices: devices.iter().enumerate().map(segments).collect(),
            round: 1,
            tickets: 0,
            metadata_is_full: false,
            has_packed: false,
            has_shared: false,
            log_blocks: 0,
            log_pages: 0,
        }
    }

    /// A device more, with the next number.
    pub fn push(&mut self, segments: Segments) {
        assert_eq!(segments.device as usize, self.devices.len(), "devices have their numbers in order");
        self.devices.push(segments);
    }
    /// Blocks that the devices have, those of their segments' headers among them.
    pub fn blocks(&self) -> u64 {
        self.devices.iter().map(|segments| segments.count() * u64::from(segments.segment_pages)).sum()
    }
    pub fn len(&self) -> usize {
        self.devices.len()
    }
    /// All devices, in their order.
    pub fn devices(&self) -> &[Segments] {
        &self.devices
    }
    pub fn devices_mut(&mut self) -> &mut [Segments] {
        &mut self.devices
    }
    /// One that is known to be there.
    pub fn of(&self, device: u8) -> &Segments {
        &self.devices[device as usize]
    }
    pub fn of_mut(&mut self, device: u8) -> &mut Segments {
        &mut self.devices[device as usize]
    }
    /// One that a record or a row names.
    pub fn get_mut(&mut self, device: u8) -> Option<&mut Segments> {
        self.devices.get_mut(device as usize)
    }

    /// The device is gone. False when that was known.
    pub fn fail(&mut self, device: u8, why: &cairn_env::DiskError) -> bool {
        let segments = self.of_mut(device);
        if std::mem::replace(&mut segments.failed, true) {
            return false;
        }
        segments.failure = Some(why.clone());
        true
    }

    /// Blocks that a device may still get.
    pub fn room(&self, device: u8) -> u64 {
        self.raw_room(device).max(self.packed_room(device, By::Guest))
    }
    /// The same at 4 KiB each, beside all that components have at 4 KiB each.
    pub fn raw_room(&self, device: u8) -> u64 {
        let segments = self.of(device);
        if segments.failed { 0 } else { segments.limit().saturating_sub(segments.charged) }
    }
    /// The same once destage has taken out what trims and deletes gave up.
    pub fn room_to_come(&self, device: u8) -> u64 {
        let segments = self.of(device);
        if segments.failed { 0 } else { segments.limit().saturating_sub(segments.used) }
    }

    /// Whether all that components have fits a device at 4 KiB a block, with so many more.
    pub fn fits_raw(&self, device: u8, more: u64) -> bool {
        let segments = self.of(device);
        !segments.failed && segments.charged + more <= segments.limit()
    }
    /// Blocks that a device may still get where what it has fits it only packed: none of them may pack, nor what is buffered.
    pub fn packed_room(&self, device: u8, by: By) -> u64 {
        let segments = self.of(device);
        let buffered = segments.queued_data + self.log_pages + segments.held_blocks_from(0);
        self.packed_room_to_come(device, by).saturating_sub(buffered)
    }
    /// The same once all that is admitted and buffered was destaged, and took nothing.
    pub fn packed_room_to_come(&self, device: u8, by: By) -> u64 {
        let segments = self.of(device);
        if segments.failed || !self.has_packed {
            return 0;
        }
        let limit = segments.packed_limit();
        let spare = match by {
            By::Copy => 0,
            By::Guest => {
                let spare = (limit / SPARE_PART).clamp(SPARE_BLOCKS_MIN, SPARE_BLOCKS_MAX).min(limit / SPARE_PART_MAX);
                let shared = if self.has_shared { self.log_blocks.min(limit / SPARE_PART_SHARED_MAX) } else { 0 };
                spare + shared
            }
        };
        limit.saturating_sub(segments.stored_pages() + segments.reserved + spare)
    }

    pub fn round(&self) -> u64 {
        self.round
    }
    pub fn next_round(&mut self) {
        self.round += 1;
    }
    /// A row of the metadata was written in this round.
    pub fn load_round(&mut self, round: u64) {
        self.round = self.round.max(round);
    }
    /// The next number of what is written to capacity devices before its transaction.
    pub fn take_ticket(&mut self) -> u64 {
        self.tickets += 1;
        self.tickets
    }
    /// What was written with the ticket waits for nothing any more.
    pub fn round_over(&mut self, ticket: u64) {
        self.devices.iter_mut().for_each(|segments| segments.round_over(ticket));
    }
    /// The log has left everything below this segment of it behind.
    pub fn let_go_below(&mut self, log_segment: u64) {
        self.devices.iter_mut().for_each(|segments| segments.let_go_below(log_segment));
    }
}
