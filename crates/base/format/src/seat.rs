//! The record of an object's seat: what it promised and accepted. The store keeps it as opaque bytes.

use cairn_types::{SeatRecord, encode_onto};

/// Version of the encoding, its first byte.
const SEAT_VERSION: u8 = 3;

/// Encodes a record.
pub fn encode_seat_record(record: &SeatRecord) -> Vec<u8> {
    encode_onto(vec![SEAT_VERSION], record)
}

/// Decodes a record; none where the bytes are not one.
pub fn decode_seat_record(bytes: &[u8]) -> Option<SeatRecord> {
    match bytes.split_first() {
        Some((&SEAT_VERSION, rest)) => postcard::from_bytes(rest).ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use cairn_types::{
        Accepted, Csn, Epoch, HostId, Incarnation, Layout, ObjectConfig, ObjectId, OpId, Policy, Redundancy,
    };

    use super::*;

    fn record(accepted: Option<Accepted>) -> SeatRecord {
        let promised = Epoch { number: 300, host: HostId(7), incarnation: Incarnation(2) };
        SeatRecord { object: ObjectId(0x0B), promised, accepted }
    }

    /// Goal: records that are on devices read back. Method: bytes that are fixed; what was accepted is `postcard`'s, as the rest.
    #[test]
    fn the_bytes_of_a_record_are_fixed() {
        // An id is 16 bytes, the lowest first.
        let (object, host) = (11u128.to_le_bytes(), 7u128.to_le_bytes());
        let fixed = [&[3][..], &object, &[0xAC, 2], &host, &[2, 0]].concat();
        assert_eq!(encode_seat_record(&record(None)), fixed);
        let config = ObjectConfig {
            object: ObjectId(0x0B),
            name: "d".into(),
            size_bytes: 1 << 20,
            policy: Policy::default(),
            policy_name: "p".into(),
            addresses: Layout {
                chunk_bytes: 1 << 30,
                stripe_width: 1,
                strip_bytes: 1 << 20,
                redundancy: Redundancy::Mirror { copies: 2 },
            }
            .into(),
            members: Vec::new(),
            decided: OpId::ZERO,
            deleted: false,
            past: None,
            ancestry: None,
        };
        let (epoch, csn) = (record(None).promised, Csn(3));
        let record = record(Some(Accepted { epoch, csn, base: None, config }));
        let bytes = encode_seat_record(&record);
        assert_eq!(bytes, postcard::to_extend(&record, vec![3]).unwrap());
        assert_eq!(decode_seat_record(&bytes), Some(record));
        assert!((0..bytes.len()).all(|cut| decode_seat_record(&bytes[..cut]).is_none()));
    }

    #[test]
    fn another_version_is_not_read() {
        let mut bytes = encode_seat_record(&record(None));
        bytes[0] = 1;
        assert_eq!(decode_seat_record(&bytes), None);
    }
}
