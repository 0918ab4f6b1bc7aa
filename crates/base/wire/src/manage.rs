//! Management work between hosts: what an owner or a host is asked on an administrator's behalf, and what it answers.
//!
//! Promises    types of this protocol travel as the other messages do; types of the management API travel as its own JSON, so a field
//!             that the API gains needs no new version of the protocol
//! Not here    who may ask for it (`api`), the deeds themselves (`object`, `node`)

use cairn_api::{ApiError, v1};
use cairn_types::{
    BlockRange, ComponentId, DeviceId, DiskGroupId, Epoch, Feature, HostId, KeptBlocks, ObjectConfig, ObjectId, Policy,
    SnapshotId,
};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::DeserializeOwned};

/// A command to the owner of an object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum OwnerCommand {
    /// What is the object's state?
    Status,
    /// Grow to this size.
    Grow {
        /// Bytes, more than now.
        size_bytes: u64,
    },
    /// Change how much guests may do; what is none stays, 0 is no limit.
    Limit {
        /// I/Os per second.
        iops_limit: Option<u32>,
        /// Bytes per second.
        bandwidth_limit_bytes_per_s: Option<u64>,
    },
    /// Delete the object: a tombstone on a majority, then its components.
    Delete,
    /// Replace a component at once, without waiting for the repair delay.
    Degrade {
        /// Which.
        component: ComponentId,
    },
    /// Go over to another policy: the owner makes and lets go copies until it is met. Not before level 13.
    Policy {
        /// Its name, for people.
        name: String,
        /// What it asks for.
        policy: Policy,
    },
    /// Move a component elsewhere, whatever the hosts are wanted for. Not before level 13.
    Move {
        /// Which.
        component: ComponentId,
        /// To one of these hosts; wherever there is room, where none is named.
        to: Vec<HostId>,
    },
    /// These blocks of a copy in sync are bad on its medium: write them anew from another copy. Sent from `Feature::Scrub` on. It is
    /// answered when that was tried; whoever asked looks what came of it.
    Repair {
        /// The copy.
        component: ComponentId,
        /// Its bad blocks.
        ranges: Vec<BlockRange>,
    },
    /// Take a snapshot. Sent from `Feature::Snapshots` on, as all that follow.
    TakeSnapshot {
        /// Its id: one that was taken by it is not taken again.
        id: SnapshotId,
        /// Its name.
        name: String,
        /// When it was asked for, by the clock of the day.
        created_unix_ms: u64,
        /// Changes must have been held all the time since [`Self::Hold`] with this number: so it is of the same moment as those of other disks.
        held: Option<u64>,
        /// It is locked for so long, by the owner's clock of the day; 0: it is not.
        locked_for_ms: u64,
        /// The run of a schedule that takes it. One that was taken in that run by this name is not taken again, whatever its id.
        slot_unix_s: Option<u64>,
    },
    /// Let no change begin until a snapshot was taken with this number, for so long at most; answered when nothing is under way.
    Hold {
        /// Any number.
        number: u64,
        /// Guests wait no longer than this; 0 lets them go on.
        for_ms: u32,
    },
    /// Go back to what a snapshot has; guests wait meanwhile. Answered when it has begun. Another one than before may be named on the way.
    RollBack {
        /// Which.
        id: SnapshotId,
        /// Of the request, never 0: by one it goes back once, however often that is sent.
        number: u64,
    },
    /// Delete a snapshot. It is no error where there is none.
    DeleteSnapshot {
        /// Which.
        id: SnapshotId,
    },
    /// A snapshot is to have clones, or has none any more: while it is pinned it is not deleted.
    PinSnapshot {
        /// Which.
        id: SnapshotId,
        /// Whether it is.
        pinned: bool,
    },
    /// Copy what a clone has of its parents, so that it needs them no more. Answered when it has begun.
    Flatten,
    /// The directory has another name for the disk: the record takes it over, so that the directory can be rebuilt from it.
    Rename {
        /// It.
        name: String,
    },
    /// Lock a snapshot, or for longer than it is.
    LockSnapshot {
        /// Which.
        id: SnapshotId,
        /// For so long from now, by the owner's clock of the day.
        for_ms: u64,
    },
}

impl OwnerCommand {
    /// Whether only hosts with snapshots know it.
    pub fn is_of_snapshots(&self) -> bool {
        match self {
            Self::TakeSnapshot { .. }
            | Self::Hold { .. }
            | Self::RollBack { .. }
            | Self::DeleteSnapshot { .. }
            | Self::PinSnapshot { .. }
            | Self::Flatten
            | Self::Rename { .. }
            | Self::LockSnapshot { .. } => true,
            Self::Status
            | Self::Grow { .. }
            | Self::Limit { .. }
            | Self::Delete
            | Self::Degrade { .. }
            | Self::Policy { .. }
            | Self::Move { .. }
            | Self::Repair { .. } => false,
        }
    }
}

/// An object as its owner sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObjectStatus {
    /// Its epoch; the host in it is the owner.
    pub epoch: Epoch,
    /// The configuration in effect.
    pub config: ObjectConfig,
    /// Its number.
    pub csn: u64,
    /// Resyncs under way.
    pub resyncs: Vec<ResyncStatus>,
    /// For how long components have been absent, in milliseconds, as this owner counts.
    pub absent_ms: Vec<(ComponentId, u64)>,
    /// Blocks that no copy could give and that nobody has written since.
    pub unreadable_blocks: u64,
    /// Components that are being made, which the next configuration may name.
    pub admitting: Vec<ComponentId>,
}

impl ObjectStatus {
    /// Whether the object has, or may soon have, this component. What is not wanted is never named again.
    pub fn wants(&self, component: ComponentId) -> bool {
        self.config.member(component).is_some() || self.admitting.contains(&component)
    }
}

/// A resync as it stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResyncStatus {
    /// The object.
    pub object: ObjectId,
    /// Its name.
    pub name: String,
    /// The component that is filled.
    pub component: ComponentId,
    /// Where.
    pub host: HostId,
    /// Everything is copied: a new component, not one that comes back.
    pub full: bool,
    /// Bytes to copy in all.
    pub bytes_total: u64,
    /// Of that, still to copy.
    pub bytes_left: u64,
    /// Blocks that no copy in sync can give: it waits until they are written.
    pub blocks_unreadable: u64,
    /// Since it began.
    pub elapsed_ms: u64,
}

/// A command to a host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum HostCommand {
    /// Make a disk group of its devices.
    CreateGroup(Api<v1::DiskGroupCreate>),
    /// Give one of its disk groups up.
    RemoveGroup(DiskGroupId),
    /// Its disk groups.
    Groups,
    /// Resyncs of the objects that it owns.
    Resyncs,
    /// The objects that it owns.
    Owned,
    /// How many that are.
    OwnedCount,
    /// Resyncs may take so many bytes per second, at most; 0 is no limit.
    ResyncLimit(u64),
    /// Its counters.
    Counters,
    /// Who uses its disks.
    Sessions {
        /// Of this disk; of all where none is named.
        only: Option<ObjectId>,
    },
    /// How long requests took.
    Latencies {
        /// Of this disk; an overview of all where none is named.
        only: Option<ObjectId>,
    },
    /// Drop what is cached, once what is buffered has been destaged.
    ClearCaches {
        /// Of this disk group; of all where none is named.
        only: Option<DiskGroupId>,
        /// For destage, at most.
        wait_ms: u64,
    },
    /// Bytes that its components hold.
    Usage {
        /// Of this disk; of all where none is named.
        only: Option<ObjectId>,
    },
    /// Which hosts it hears. Not before level 13.
    Hears,
    /// The block devices of its machine.
    Devices,
    /// Which components lie on a capacity device of a disk group. Not before level 13.
    OnDevice {
        /// The disk group.
        disk_group: DiskGroupId,
        /// Which of its capacity devices.
        device: DeviceId,
    },
    /// How fast it has copied lately. Not before level 13.
    CopyRate,
    /// How far the scrubs of its disk groups are, once this was done to them. Sent from `Feature::Scrub` on.
    Scrub {
        /// Of this disk group; of all where none is named.
        only: Option<DiskGroupId>,
        /// None: nothing.
        verb: Option<Api<v1::ScrubVerb>>,
    },
    /// Add a device to one of its disk groups, or put one in the place of another.
    ChangeDevices {
        /// To which.
        disk_group: DiskGroupId,
        /// What is asked for.
        order: Api<v1::DeviceOrder>,
    },
    /// Light the locate LED of a device, or put it out. Not before level 13.
    Locate(Api<v1::DeviceLocate>),
    /// What a component takes. Its history is looked through, a part with each question. Sent from `Feature::Snapshots` on.
    Space {
        /// The disk group.
        disk_group: DiskGroupId,
        /// The component.
        component: ComponentId,
        /// Its history is told from here on: 0 at first, then what the answer before gave as its next.
        from_block: u64,
    },
    /// Choose anew what can be chosen of a disk group in use. Sent from `Feature::Compression` on.
    SetGroup {
        /// Which.
        disk_group: DiskGroupId,
        /// What is chosen.
        settings: Api<v1::DiskGroupSettings>,
    },
}

impl HostCommand {
    /// The feature without which no host knows it, unless its own documentation says so.
    pub fn needs(&self) -> Option<Feature> {
        match self {
            Self::Space { .. } => Some(Feature::Snapshots),
            Self::SetGroup { .. } => Some(Feature::Compression),
            Self::CreateGroup(_)
            | Self::RemoveGroup(_)
            | Self::Groups
            | Self::Resyncs
            | Self::Owned
            | Self::OwnedCount
            | Self::ResyncLimit(_)
            | Self::Counters
            | Self::Sessions { .. }
            | Self::Latencies { .. }
            | Self::ClearCaches { .. }
            | Self::Usage { .. }
            | Self::Hears
            | Self::Devices
            | Self::OnDevice { .. }
            | Self::CopyRate
            | Self::Scrub { .. }
            | Self::ChangeDevices { .. }
            | Self::Locate(_) => None,
        }
    }
}

/// What a host answers to a command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum HostAnswer {
    /// The new disk group.
    Created(DiskGroupId),
    /// It is done.
    Done,
    /// To `Groups`.
    Groups(Api<Vec<v1::DiskGroup>>),
    /// To `Resyncs`.
    Resyncs(Vec<ResyncStatus>),
    /// To `Owned`.
    Owned(Vec<ObjectStatus>),
    /// To `OwnedCount`.
    OwnedCount(u32),
    /// To `Counters`.
    Counters(Api<v1::HostCounters>),
    /// To `Sessions`.
    Sessions(Api<Vec<v1::Session>>),
    /// To `Latencies`.
    Latencies(Api<v1::HostLatencies>),
    /// To `ClearCaches`: what each disk group's caches hold now.
    Cleared(Api<Vec<v1::DiskGroupCache>>),
    /// It was not done.
    Refused(Api<ApiError>),
    /// To `Usage`: components with data, in no order.
    Usage(Vec<(ComponentId, u64)>),
    /// To `Hears`: those that it hears, in no order.
    Hears(Vec<HostId>),
    /// To `Devices`.
    Devices(Api<Vec<v1::HostDevice>>),
    /// To `OnDevice`.
    OnDevice {
        /// Components with data there, in no order.
        components: Vec<ComponentId>,
        /// Which of the rooms that the host tells of is the device's; none: it works no more.
        room: Option<u32>,
    },
    /// To `CopyRate`: bytes per second, all its resyncs together; none where it has not copied yet.
    CopyRate(Option<u64>),
    /// To `Scrub`.
    Scrubs(Api<Vec<v1::Scrub>>),
    /// To `ChangeDevices`.
    DevicesChanged(Api<v1::DeviceChange>),
    /// To `Locate`.
    Located(Api<v1::DeviceLocated>),
    /// To `Space`.
    Space(ComponentSpace),
}

/// What a component takes on its device.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ComponentSpace {
    /// Blocks that have data now.
    pub head_blocks: u64,
    /// Blocks set aside for it, with data or without.
    pub reserved_blocks: u64,
    /// Its history, in that part of its blocks which was looked at.
    pub kept: KeptBlocks,
    /// Where to go on; none: that was the last part.
    pub next_block: Option<u64>,
}

/// A value of the management API: it travels as the JSON that the API itself speaks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Api<T>(pub T);

impl<T: Serialize> Serialize for Api<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serde_json::to_string(&self.0).map_err(serde::ser::Error::custom)?.serialize(serializer)
    }
}

impl<'de, T: DeserializeOwned> Deserialize<'de> for Api<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let json = String::deserialize(deserializer)?;
        serde_json::from_str(&json).map(Self).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Answer, Message, Request, decode, encode};

    /// Goal: types of the API, whose fields may be left out, pass through an encoding that has no names. Method: one with fields left out,
    /// one with all; and an error without a remedy.
    #[test]
    fn types_of_the_api_read_back() {
        let create = |host: Option<&str>| v1::DiskGroupCreate {
            host: host.map(str::to_owned),
            cache: "/dev/nvme0n1".into(),
            capacity: vec!["/dev/sda".into()],
            files: None,
            overwrite: true,
        };
        for create in [create(None), create(Some("host-2"))] {
            let request = Request::ManageHost { command: HostCommand::CreateGroup(Api(create)) };
            let message = Message::Request { id: 7, request };
            assert_eq!(decode(&encode(&message)), Ok(message));
        }
        let refused = HostAnswer::Refused(Api(ApiError::refused("4 fault domains are needed, 3 are up")));
        let message = Message::Answer { id: 7, answer: Ok(Answer::Managed(Box::new(refused))) };
        assert_eq!(decode(&encode(&message)), Ok(message));
    }

    /// Goal: what a host of a later build adds to a type of the API is no end of the conversation. Method: a field nobody here knows.
    #[test]
    fn fields_that_are_not_known_are_passed_over() {
        let json = r#"{"kind":"refused","message":"no","since":3}"#;
        let bytes = postcard::to_allocvec(json).expect("a text encodes");
        let Api(error) = postcard::from_bytes::<Api<ApiError>>(&bytes).expect("it reads");
        assert_eq!(error, ApiError::refused("no"));
    }
}
