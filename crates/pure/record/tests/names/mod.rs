//! How a small cluster is written down in tests: a seat, with its one component, is a letter; a configuration is a line of words.
#![allow(dead_code)] // each test binary uses its part

use std::time::Duration;

use cairn_types::{
    Accepted, ComponentId, ComponentState, Csn, DiskGroupId, Epoch, HostId, Incarnation, Layout, Member, ObjectConfig,
    ObjectId, OpId, Policy, Redundancy, Role, Seat,
};

/// The object of every model.
pub const OBJECT: ObjectId = ObjectId(1);

/// Duration of a lease in the model.
pub const LEASE: Duration = Duration::from_millis(2000);

/// Host, disk group and component of a seat's letter.
pub fn id_of(letter: char) -> u128 {
    u128::from(u32::from(letter))
}

/// The seat of a letter.
pub fn seat_of(letter: char) -> Seat {
    Seat { host: HostId(id_of(letter)), disk_group: DiskGroupId(id_of(letter)) }
}

/// The letter of a seat.
pub fn letter_of(seat: Seat) -> char {
    char::from_u32(seat.host.0 as u32).expect("made of a letter")
}

/// An epoch of the owner number `owner`.
pub fn epoch(number: u64, owner: usize) -> Epoch {
    Epoch { number, host: HostId(1 + owner as u128), incarnation: Incarnation(1) }
}

/// "A1 B1- D1~ w1": letter = host, disk group and component; digit = votes; capital = data of set 0, small = witness;
/// `-` absent since the beginning, `~` resyncing since the beginning.
pub fn config_of(picture: &str) -> ObjectConfig {
    ObjectConfig {
        object: OBJECT,
        name: String::new(),
        size_bytes: 1 << 20,
        policy: Policy::default(),
        policy_name: String::new(),
        addresses: Layout {
            chunk_bytes: 1 << 20,
            stripe_width: 1,
            strip_bytes: 1 << 20,
            redundancy: Redundancy::Mirror { copies: 2 },
        }
        .into(),
        members: picture.split_whitespace().map(member_of).collect(),
        decided: OpId::ZERO,
        deleted: false,
        past: None,
        ancestry: None,
    }
}

/// The same with rows: so many strips of data and of parity, each of one block. Capitals are members of the set in the order that they
/// are written in.
pub fn config_of_rows(picture: &str, data: u8, parity: u8) -> ObjectConfig {
    let mut config = config_of(picture);
    config.addresses =
        Layout { redundancy: Redundancy::Parity { data, parity, strip_blocks: 1 }, ..config.addresses.last().layout }
            .into();
    let members = config.members.iter_mut().filter(|m| m.set().is_some());
    for (copy, member) in members.enumerate() {
        member.role = Role::Data { set: 0, copy: copy as u32 };
    }
    config
}

/// One word of the picture.
pub fn member_of(word: &str) -> Member {
    let letters: Vec<char> = word.chars().collect();
    let state = match letters.get(2) {
        None => ComponentState::Active,
        Some('-') => ComponentState::Absent { stale_since: OpId::ZERO },
        Some('~') => ComponentState::Resyncing { stale_since: OpId::ZERO },
        Some(other) => panic!("{other} is no state"),
    };
    let seat = seat_of(letters[0]);
    let data = letters[0].is_uppercase();
    Member {
        component: ComponentId(id_of(letters[0])),
        host: seat.host,
        disk_group: seat.disk_group,
        votes: letters[1].to_digit(10).expect("votes"),
        role: if data { Role::Data { set: 0, copy: letters[0] as u32 } } else { Role::Witness },
        state,
    }
}

/// The picture of a configuration.
pub fn picture_of(config: &ObjectConfig) -> String {
    let word = |m: &Member| {
        let state = match m.state {
            ComponentState::Active => "",
            ComponentState::Absent { .. } => "-",
            ComponentState::Resyncing { .. } => "~",
            ComponentState::Degraded => "x",
        };
        format!("{}{}{state}", letter_of(m.seat()), m.votes)
    };
    config.members.iter().map(word).collect::<Vec<_>>().join(" ")
}

/// A closed record of `config`.
pub fn closed(epoch: Epoch, csn: u64, config: ObjectConfig) -> Accepted {
    Accepted { epoch, csn: Csn(csn), base: None, config }
}
