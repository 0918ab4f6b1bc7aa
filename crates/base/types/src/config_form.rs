//! The encoding of an object's configuration: one that every release reads as long as the disk has one layout and neither snapshots nor parents.
//!
//! Promises    a disk of one layout is encoded as every release wrote it, one with spans as 0.3.0 did; older ones refuse what they do not know
//!             what is encoded is decoded to the same
//! Not here    what it means (`config`, `addresses`)

use std::fmt;

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{Error, MapAccess, SeqAccess, Visitor, value::MapAccessDeserializer},
    ser::SerializeStruct,
};

use crate::{Addresses, Ancestry, Layout, Member, ObjectConfig, ObjectId, OpId, Past, Policy, Redundancy};

/// A layout as it is encoded: bytes of a chunk, stripes, bytes of a strip, redundancy.
type LayoutForm = (u64, u32, u32, u32);

/// Stands where a layout has its redundancy: the addresses follow at the end. No redundancy has this number.
const SPANS_CODE: u32 = u32::MAX;

/// The same; behind the addresses is what is kept of the disk's past. So it is of each disk that has a past, also of one layout.
const PAST_CODE: u32 = u32::MAX - 1;

/// The same of each disk that was made of a snapshot: behind the addresses are its past, if it has one, and where it came from.
const ANCESTRY_CODE: u32 = u32::MAX - 2;

/// The same of each disk that ever went back to a snapshot: behind the addresses are its past, where it came from if it came from one, and the number of
/// the request.
const BACK_CODE: u32 = u32::MAX - 3;

/// What is encoded, in order. The last four only where the layout says so.
const FIELDS: [&str; 13] = [
    "object",
    "name",
    "size_bytes",
    "policy",
    "policy_name",
    "layout",
    "members",
    "decided",
    "deleted",
    "addresses",
    "past",
    "ancestry",
    "back_number",
];

impl Serialize for ObjectConfig {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let back_number = self.past.as_ref().map_or(0, |past| past.back_number);
        let code = match (&self.ancestry, &self.past) {
            _ if back_number != 0 => BACK_CODE,
            (Some(_), _) => ANCESTRY_CODE,
            (None, Some(_)) => PAST_CODE,
            (None, None) => SPANS_CODE,
        };
        let plain = self.addresses.plain().filter(|_| code == SPANS_CODE);
        let left_out = match code {
            BACK_CODE => 0,
            ANCESTRY_CODE => 1,
            PAST_CODE => 2,
            _ => 3 + usize::from(plain.is_some()),
        };
        let mut form = serializer.serialize_struct("ObjectConfig", FIELDS.len() - left_out)?;
        form.serialize_field("object", &self.object)?;
        form.serialize_field("name", &self.name)?;
        form.serialize_field("size_bytes", &self.size_bytes)?;
        form.serialize_field("policy", &self.policy)?;
        form.serialize_field("policy_name", &self.policy_name)?;
        match &plain {
            Some(layout) => form.serialize_field("layout", layout)?,
            None => form.serialize_field::<LayoutForm>("layout", &(0, 0, 0, code))?,
        }
        form.serialize_field("members", &self.members)?;
        form.serialize_field("decided", &self.decided)?;
        form.serialize_field("deleted", &self.deleted)?;
        if plain.is_none() {
            form.serialize_field("addresses", &self.addresses)?;
        }
        match (&self.ancestry, &self.past) {
            (ancestry, past) if back_number != 0 => {
                form.serialize_field("past", past)?;
                form.serialize_field("ancestry", ancestry)?;
                form.serialize_field("back_number", &back_number)?;
            }
            (Some(ancestry), past) => {
                form.serialize_field("past", past)?;
                form.serialize_field("ancestry", ancestry)?;
            }
            (None, Some(past)) => form.serialize_field("past", past)?,
            (None, None) => {}
        }
        form.end()
    }
}

impl<'de> Deserialize<'de> for ObjectConfig {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_struct("ObjectConfig", &FIELDS, ConfigVisitor)
    }
}

struct ConfigVisitor;

impl<'de> Visitor<'de> for ConfigVisitor {
    type Value = ObjectConfig;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the configuration of an object")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<ObjectConfig, A::Error> {
        let mut at = 0;
        let (object, name) = (next(&mut seq, &mut at)?, next(&mut seq, &mut at)?);
        let size_bytes = next(&mut seq, &mut at)?;
        let (policy, policy_name) = (next(&mut seq, &mut at)?, next(&mut seq, &mut at)?);
        let layout: LayoutForm = next(&mut seq, &mut at)?;
        let (members, decided) = (next(&mut seq, &mut at)?, next(&mut seq, &mut at)?);
        let deleted = next(&mut seq, &mut at)?;
        let addresses = match layout {
            (_, _, _, SPANS_CODE | PAST_CODE | ANCESTRY_CODE | BACK_CODE) => next::<Addresses, A>(&mut seq, &mut at)?,
            (chunk_bytes, stripe_width, strip_bytes, code) => {
                let redundancy = Redundancy::try_from(code).map_err(A::Error::custom)?;
                Layout { chunk_bytes, stripe_width, strip_bytes, redundancy }.into()
            }
        };
        let mut past = match layout {
            (_, _, _, PAST_CODE) => Some(next::<Past, A>(&mut seq, &mut at)?),
            (_, _, _, ANCESTRY_CODE | BACK_CODE) => next::<Option<Past>, A>(&mut seq, &mut at)?,
            _ => None,
        };
        let ancestry = match layout {
            (_, _, _, ANCESTRY_CODE) => Some(next::<Ancestry, A>(&mut seq, &mut at)?),
            (_, _, _, BACK_CODE) => next::<Option<Ancestry>, A>(&mut seq, &mut at)?,
            _ => None,
        };
        if let (_, _, _, BACK_CODE) = layout {
            let number = next(&mut seq, &mut at)?;
            past.iter_mut().for_each(|past| past.back_number = number);
        }
        #[rustfmt::skip]
        let config =
            ObjectConfig { object, name, size_bytes, policy, policy_name, addresses, members, decided, deleted, past, ancestry };
        checked(config).map_err(A::Error::custom)
    }

    /// As JSON has it: by names.
    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<ObjectConfig, A::Error> {
        let told = Named::deserialize(MapAccessDeserializer::new(map))?;
        let addresses = match (told.addresses, told.layout) {
            (Some(addresses), _) => addresses,
            (None, NamedLayout::Named(layout)) => layout.into(),
            (None, NamedLayout::Listed(..)) => return Err(A::Error::missing_field("addresses")),
        };
        let Named {
            object,
            name,
            size_bytes,
            policy,
            policy_name,
            members,
            decided,
            deleted,
            mut past,
            ancestry,
            back_number,
            ..
        } = told;
        past.iter_mut().for_each(|past| past.back_number = back_number);
        #[rustfmt::skip]
        let config =
            ObjectConfig { object, name, size_bytes, policy, policy_name, addresses, members, decided, deleted, past, ancestry };
        checked(config).map_err(A::Error::custom)
    }
}

/// The fields by their names.
#[derive(Deserialize)]
struct Named {
    object: ObjectId,
    name: String,
    size_bytes: u64,
    policy: Policy,
    policy_name: String,
    layout: NamedLayout,
    members: Vec<Member>,
    decided: OpId,
    deleted: bool,
    #[serde(default)]
    addresses: Option<Addresses>,
    #[serde(default)]
    past: Option<Past>,
    #[serde(default)]
    ancestry: Option<Ancestry>,
    #[serde(default)]
    back_number: u64,
}

/// A layout, or what stands in its place.
#[derive(Deserialize)]
#[serde(untagged)]
enum NamedLayout {
    Named(Layout),
    #[allow(dead_code, reason = "what it says stands in the addresses")]
    Listed(u64, u32, u32, u32),
}

/// A configuration that can be so.
fn checked(config: ObjectConfig) -> Result<ObjectConfig, &'static str> {
    if !config.addresses.is_sound(config.size_bytes) {
        return Err("spans that are not those of a disk of this size");
    }
    if config.past.as_ref().is_some_and(|past| !past.is_sound()) {
        return Err("snapshots that no disk has: out of order, there twice, or too many");
    }
    if config.ancestry.as_ref().is_some_and(|ancestry| !ancestry.is_sound()) {
        return Err("parents that no disk has: there twice, or too many");
    }
    Ok(config)
}

/// The next field, of which `at` is the number.
fn next<'de, T: Deserialize<'de>, A: SeqAccess<'de>>(seq: &mut A, at: &mut usize) -> Result<T, A::Error> {
    let found = seq.next_element()?;
    *at += 1;
    found.ok_or_else(|| A::Error::invalid_length(*at - 1, &"more of an object's configuration"))
}

#[cfg(test)]
mod tests {
    use crate::{
        Epoch, HostId, Incarnation, Moving, OpId, Policy, SNAPSHOTS_MAX, Snapshot, SnapshotId, Span, encode_onto,
    };

    use super::*;

    fn layout(redundancy: Redundancy) -> Layout {
        Layout { redundancy, stripe_width: 1, strip_bytes: 1 << 20, chunk_bytes: 1 << 30 }
    }

    fn config(addresses: Addresses) -> ObjectConfig {
        ObjectConfig {
            object: crate::ObjectId(11),
            name: "vm-1".into(),
            size_bytes: 3 << 30,
            policy: Policy::default(),
            policy_name: "default".into(),
            addresses,
            members: Vec::new(),
            decided: OpId::ZERO,
            deleted: false,
            past: None,
            ancestry: None,
        }
    }

    fn snapshot(n: u64) -> Snapshot {
        let epoch = Epoch { number: 5, host: HostId(u128::MAX), incarnation: Incarnation(3) };
        let cut = OpId { epoch, seq: n };
        Snapshot {
            id: SnapshotId(u64::MAX - n),
            name: crate::scheduled_name("s", n),
            created_unix_ms: 1 << 41,
            size_bytes: 1 << 40,
            cut,
            pinned: n.is_multiple_of(2),
            locked_until_unix_ms: 1 << 41,
            slot_unix_s: n.is_multiple_of(2).then_some(1 << 31),
        }
    }

    /// Goal: a disk with snapshots comes back, whatever its addresses; no release before takes it for a disk without; and records stay small.
    /// Method: as many snapshots as there may be; orders and names that cannot be.
    #[test]
    fn a_disk_with_snapshots_comes_back() {
        let plain = Addresses::from(layout(Redundancy::Mirror { copies: 2 }));
        let all: Vec<Snapshot> = (0..SNAPSHOTS_MAX as u64).map(snapshot).collect();
        for snapshots in [vec![], vec![snapshot(1)], all] {
            let count = snapshots.len();
            let ours = ObjectConfig { past: Some(Past { snapshots, ..Past::default() }), ..config(plain.clone()) };
            let bytes = encode_onto(Vec::new(), &ours);
            assert_eq!(postcard::from_bytes::<ObjectConfig>(&bytes), Ok(ours));
            let without = encode_onto(Vec::new(), &config(plain.clone()));
            assert!(
                bytes.len() <= without.len() + 20 + 88 * count,
                "{} bytes for {count}",
                bytes.len() - without.len()
            );
        }
        let of_no_schedule = Snapshot { name: "s".into(), slot_unix_s: Some(1), ..snapshot(1) };
        let refused = [
            vec![snapshot(2), snapshot(1)],
            vec![snapshot(1), Snapshot { cut: snapshot(2).cut, ..snapshot(1) }],
            vec![of_no_schedule],
        ];
        for snapshots in refused {
            let bad = ObjectConfig { past: Some(Past { snapshots, ..Past::default() }), ..config(plain.clone()) };
            assert!(postcard::from_bytes::<ObjectConfig>(&encode_onto(Vec::new(), &bad)).is_err());
        }
    }

    /// Goal: a clone comes back, with snapshots and without, and a disk that went back to one; parents that cannot be are refused. Method: all, and cut short.
    #[test]
    fn a_clone_comes_back() {
        let plain = Addresses::from(layout(Redundancy::Mirror { copies: 2 }));
        let parent =
            |n: u64| crate::Parent { object: crate::ObjectId(9), snapshot: SnapshotId(n), size_bytes: 1 << 40 };
        let of = |parents: Vec<crate::Parent>, past| {
            let ancestry = Some(Ancestry { parents, flattens: false });
            ObjectConfig { past, ancestry, ..config(plain.clone()) }
        };
        let with = |back_number| Some(Past { snapshots: vec![snapshot(1)], back_number, ..Past::default() });
        let clones = [None, with(0), with(u64::MAX)].map(|past| of(vec![parent(1), parent(2)], past));
        let went_back = ObjectConfig { past: with(7), ..config(plain.clone()) };
        for ours in clones.into_iter().chain([went_back]) {
            let bytes = encode_onto(Vec::new(), &(&ours, 7u8));
            assert_eq!(postcard::from_bytes::<(ObjectConfig, u8)>(&bytes), Ok((ours, 7)));
            assert!((0..bytes.len()).all(|cut| postcard::from_bytes::<(ObjectConfig, u8)>(&bytes[..cut]).is_err()));
        }
        for bad in [vec![parent(1), parent(1)], (0..5).map(parent).collect()] {
            assert!(postcard::from_bytes::<ObjectConfig>(&encode_onto(Vec::new(), &of(bad, None))).is_err());
        }
    }

    /// Goal: a disk of one layout keeps the bytes that 0.2.0 wrote. Method: the same fields as a tuple, in its order.
    #[test]
    fn a_disk_of_one_layout_is_encoded_as_ever() {
        let mirror = layout(Redundancy::Mirror { copies: 2 });
        let ours = config(mirror.into());
        let before = (
            (ours.object, &ours.name, ours.size_bytes, &ours.policy, &ours.policy_name),
            (mirror.chunk_bytes, mirror.stripe_width, mirror.strip_bytes, 2u32),
            (&ours.members, ours.decided, ours.deleted),
        );
        let bytes = encode_onto(Vec::new(), &ours);
        assert_eq!(bytes, encode_onto(Vec::new(), &before));
        // What follows in the same message is its own.
        let two = encode_onto(encode_onto(Vec::new(), &ours), &7u8);
        assert_eq!(postcard::from_bytes::<(ObjectConfig, u8)>(&two), Ok((ours, 7)));
    }

    /// Goal: the record of a disk of many spans stays small. Method: the longest span that there can be.
    #[test]
    fn a_span_takes_few_bytes() {
        let rows = Redundancy::Parity { data: 8, parity: 2, strip_blocks: Redundancy::STRIP_BLOCKS_MAX };
        let layout = Layout { redundancy: rows, stripe_width: 12, strip_bytes: u32::MAX, chunk_bytes: 1 << 39 };
        let first_block = crate::OBJECT_BYTES_MAX / u64::from(crate::BLOCK_BYTES);
        let span = Span { first_block, first_set: 1 << 20, layout, was: Some(layout), generation: 1 << 13 };
        assert!(encode_onto(Vec::new(), &span).len() <= 45);
    }

    /// Goal: what has spans comes back, and no release before takes it for a layout. Method: a disk with two and a third one on its way.
    #[test]
    fn a_disk_of_several_layouts_comes_back() {
        let rows = layout(Redundancy::Parity { data: 3, parity: 1, strip_blocks: 16 });
        let mirror = layout(Redundancy::Mirror { copies: 2 });
        let plain = Addresses::from(mirror);
        let chunk = (1 << 30) / 4096;
        let begun = plain.begun(
            Moving {
                to: Span { first_block: 0, first_set: 3, layout: rows, was: Some(mirror), generation: 1 },
                end_block: chunk,
            },
            4,
        );
        let done = begun.moved(3 * chunk).expect("it was begun");
        assert_eq!(done.spans().iter().map(|s| (s.first_block, s.first_set)).collect::<Vec<_>>(), [(0, 3), (chunk, 1)]);
        assert_eq!((done.redundancy(3), done.redundancy(2)), (rows.redundancy, mirror.redundancy));
        for addresses in [begun, done] {
            let ours = config(addresses);
            let bytes = encode_onto(Vec::new(), &(&ours, 7u8));
            assert_eq!(postcard::from_bytes::<(ObjectConfig, u8)>(&bytes), Ok((ours, 7)));
            assert!((0..bytes.len()).all(|cut| postcard::from_bytes::<(ObjectConfig, u8)>(&bytes[..cut]).is_err()));
        }
    }

    /// Goal: addresses past the end of a disk are refused, and not counted with. Method: those of a larger disk.
    #[test]
    fn spans_of_a_larger_disk_are_refused() {
        let mirror = layout(Redundancy::Mirror { copies: 2 });
        let chunk = (1 << 30) / 4096;
        let to = Span { first_block: chunk, first_set: 3, layout: mirror, was: Some(mirror), generation: 1 };
        let begun = Addresses::from(mirror).begun(Moving { to, end_block: 2 * chunk }, 1);
        let done = begun.moved(3 * chunk).expect("it was begun");
        for addresses in [begun, done] {
            let comes_back = |size_bytes| {
                let bytes = encode_onto(Vec::new(), &ObjectConfig { size_bytes, ..config(addresses.clone()) });
                postcard::from_bytes::<ObjectConfig>(&bytes).is_ok()
            };
            assert!(comes_back(3 << 30) && !comes_back(1 << 30), "{addresses:?}");
        }
    }
}
