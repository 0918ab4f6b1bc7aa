//! Numbers of few bytes: seven bits a byte, the lowest first, and signed ones folded so that small ones of either sign stay short.
//!
//! Source: the varints and ZigZag of Protocol Buffers' wire format.

/// Bytes of the longest.
pub(crate) const VARINT_BYTES_MAX: usize = 10;

pub(crate) fn put(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

/// Bytes that [`put`] writes.
pub(crate) fn len(value: u64) -> usize {
    (64 - (value | 1).leading_zeros() as usize).div_ceil(7)
}

/// Takes one off the front; none where there is no whole one, or one above 64 bits.
pub(crate) fn take(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for at in 0..VARINT_BYTES_MAX {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        if at == VARINT_BYTES_MAX - 1 && byte > 1 {
            return None;
        }
        value |= u64::from(byte & 0x7F) << (7 * at);
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

/// What is to be added to `from`, wrapping, to come to `to`.
pub(crate) fn put_step(bytes: &mut Vec<u8>, from: u64, to: u64) {
    let step = to.wrapping_sub(from) as i64;
    put(bytes, (step << 1 ^ step >> 63) as u64);
}

/// The other end of [`put_step`].
pub(crate) fn take_step(bytes: &mut &[u8], from: u64) -> Option<u64> {
    let folded = take(bytes)?;
    let step = (folded >> 1) as i64 ^ -((folded & 1) as i64);
    Some(from.wrapping_add(step as u64))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn numbers_and_steps_read_back(value in any::<u64>(), shift in 0u32..64, from in any::<u64>()) {
            let value = value >> shift;
            let mut bytes = Vec::new();
            put(&mut bytes, value);
            prop_assert_eq!(bytes.len(), len(value));
            put_step(&mut bytes, from, value);
            let mut rest = bytes.as_slice();
            prop_assert_eq!((take(&mut rest), take_step(&mut rest, from), rest.len()), (Some(value), Some(value), 0));
        }
    }

    #[test]
    fn what_is_cut_or_too_long_is_refused() {
        for bytes in [&[][..], &[0x80], &[0xFF; 9], &[0xFF; 10], &[0xFF; 11]] {
            let mut rest = bytes;
            assert_eq!(take(&mut rest), None);
        }
    }
}
