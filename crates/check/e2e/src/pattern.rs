//! What a sector of a disk must hold: a function of the run's seed, its number, and how often it was written.

/// Bytes of a sector, the unit of the shadow model.
pub const SECTOR: usize = 512;

/// Fills one sector: version 0 is zeroes; any other carries its number and version in words, and noise after them.
pub fn fill(sector: &mut [u8], seed: u64, number: u64, version: u32) {
    if version == 0 {
        sector.fill(0);
        return;
    }
    let mut state = seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (u64::from(version) << 40);
    let (head, noise) = sector.split_at_mut(16);
    head[..8].copy_from_slice(&number.to_le_bytes());
    head[8..12].copy_from_slice(&version.to_le_bytes());
    head[12..].copy_from_slice(&(seed as u32).to_le_bytes());
    for word in noise.chunks_mut(8) {
        state = mix(state);
        word.copy_from_slice(&state.to_le_bytes()[..word.len()]);
    }
}

/// What a sector holds, in words for a failure.
pub fn name(sector: &[u8], seed: u64) -> String {
    if sector.iter().all(|byte| *byte == 0) {
        return "zeroes".into();
    }
    let number = u64::from_le_bytes(sector[..8].try_into().expect("eight bytes"));
    let version = u32::from_le_bytes(sector[8..12].try_into().expect("four bytes"));
    let mut want = vec![0; SECTOR];
    fill(&mut want, seed, number, version);
    if want == sector {
        return format!("sector {number} version {version}");
    }
    format!("no sector of this run (begins {:02x?})", &sector[..16])
}

/// One step of a generator of noise (splitmix64, Vigna).
pub fn mix(state: u64) -> u64 {
    let state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let a = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let b = (a ^ (a >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    b ^ (b >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sector_tells_where_it_belongs() {
        let mut sector = [0; SECTOR];
        fill(&mut sector, 7, 42, 3);
        assert_eq!(name(&sector, 7), "sector 42 version 3");
        sector[511] ^= 1;
        assert!(name(&sector, 7).contains("no sector"));
        fill(&mut sector, 7, 42, 0);
        assert_eq!(name(&sector, 7), "zeroes");
    }
}
