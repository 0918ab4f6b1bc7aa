//! A spot: where a block of the capacity tier stands, in one number.
//!
//! Promises    a raw page is written as the slot that it always was; nothing else is taken for one
//! Not here    how spots are written where some are packed (`map_page.rs`, `map_rows.rs`, `history_page.rs`)
//!
//! | bits | what |
//! |---|---|
//! | 0..3 | sectors of 512 bytes less one, 0 to 5; or 7, a raw page |
//! | 3..41 | first sector of the device |
//! | 41..64 | 0: they are for items with several references |
//!
//! The highest numbers are no places on a device.

use cairn_types::BLOCK_BYTES;

/// Bytes of a sector: what packed blocks take is counted in these.
pub const SECTOR_BYTES: u32 = 512;
/// Sectors of a raw page.
pub const PAGE_SECTORS: u32 = BLOCK_BYTES / SECTOR_BYTES;
/// In the lowest bits of a raw page.
const RAW: u64 = 7;
/// Of the lowest bits.
const SIZE_BITS: u32 = 3;
/// Of a slot, within a spot.
pub(crate) const PAGE_SHIFT: u32 = SIZE_BITS + PAGE_SECTORS.trailing_zeros();
const PAGE_MASK: u64 = (1 << PAGE_SHIFT) - 1;
/// Sectors of a packed block, at most: above 3 KiB a read would unpack it for an eighth of its space.
pub const PACKED_SECTORS_MAX: u32 = 6;
/// Pages of a device are below it: 128 TiB.
const SLOTS_END: u64 = 1 << 35;
const SECTORS_END: u64 = SLOTS_END * PAGE_SECTORS as u64;
/// From here on a number is no place on a device but says something else.
const PLACES_END: u64 = u64::MAX - 15;

/// Where a block stands, or why it stands nowhere.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Spot(u64);

impl std::fmt::Debug for Spot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match *self {
            Self::NONE => f.write_str("no slot"),
            Self::ZERO => f.write_str("zeroes"),
            Self::HOLE => f.write_str("a hole"),
            Self::BAD => f.write_str("a mark"),
            spot if spot.is_packed() => write!(f, "sectors {}..{}", spot.sector(), spot.end()),
            spot => write!(f, "slot {}", spot.0 >> PAGE_SHIFT),
        }
    }
}

impl Spot {
    /// No block here.
    pub const NONE: Self = Self(u64::MAX);
    /// Zeroes that count as allocated.
    pub const ZERO: Self = Self(u64::MAX - 1);
    /// Nothing: of a kept entry, that the map did not hold the block.
    pub const HOLE: Self = Self(u64::MAX - 2);
    /// A mark: the bytes of the block are lost, its checksum is kept.
    pub const BAD: Self = Self(u64::MAX - 3);

    /// A page of its device, counted over the segments.
    ///
    /// # Panics
    /// When no device has so many.
    pub const fn raw(slot: u64) -> Self {
        assert!(slot < SLOTS_END, "a page of a device");
        Self(slot << PAGE_SHIFT | RAW)
    }

    /// What a stored slot says. None where no device has it.
    pub const fn of_slot(slot: u64) -> Option<Self> {
        match slot {
            0..SLOTS_END => Some(Self::raw(slot)),
            SLOTS_END..PLACES_END => None,
            _ => Some(Self(slot)),
        }
    }

    /// The other end of [`Self::of_slot`]: of a raw page its slot, of what is no place its number. None of all else.
    pub const fn slot(self) -> Option<u64> {
        match self.is_place() {
            true if self.is_raw() => Some(self.0 >> PAGE_SHIFT),
            true => None,
            false => Some(self.0),
        }
    }

    /// A packed block, in so many sectors. None where there are no such sectors.
    pub const fn packed(sector: u64, sectors: u32) -> Option<Self> {
        match sectors {
            1..=PACKED_SECTORS_MAX if sector < SECTORS_END => Some(Self(sector << SIZE_BITS | (sectors as u64 - 1))),
            _ => None,
        }
    }

    /// Its number.
    pub const fn bits(self) -> u64 {
        self.0
    }
    /// A place with this number. None where it is none.
    pub const fn of_bits(bits: u64) -> Option<Self> {
        let spot = Self(bits);
        let whole = if spot.is_raw() { bits & PAGE_MASK == RAW } else { spot.sectors() <= PACKED_SECTORS_MAX };
        if whole && spot.sector() < SECTORS_END { Some(spot) } else { None }
    }

    /// Whether it is a place on a device.
    pub const fn is_place(self) -> bool {
        self.0 < PLACES_END
    }
    /// Whether it is a place that holds the block as it is.
    pub const fn is_raw(self) -> bool {
        self.is_place() && self.0 & RAW == RAW
    }

    /// Whether it is a place that holds the block packed.
    pub const fn is_packed(self) -> bool {
        self.is_place() && self.0 & RAW != RAW
    }

    /// The first sector of a place.
    pub const fn sector(self) -> u64 {
        self.0 >> SIZE_BITS
    }
    /// Sectors of a place.
    pub const fn sectors(self) -> u32 {
        (self.0 & RAW) as u32 + 1
    }
    /// Sectors less one, as they stand in its number; 7 of a raw page.
    pub const fn size(self) -> u8 {
        (self.0 & RAW) as u8
    }
    /// The number of the page so many pages behind a raw one. It may be none.
    pub(crate) const fn page_after(self, pages: u64) -> u64 {
        self.0.saturating_add(pages << PAGE_SHIFT)
    }
    /// The sector behind a place.
    pub const fn end(self) -> u64 {
        self.sector() + self.sectors() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_spots_and_back() {
        for slot in [0, 1, 1000, SLOTS_END - 1, u64::MAX, u64::MAX - 3, PLACES_END] {
            let spot = Spot::of_slot(slot).expect("it is one");
            assert_eq!((spot.slot(), spot.is_place()), (Some(slot), slot < SLOTS_END));
        }
        assert!([SLOTS_END, PLACES_END - 1].into_iter().all(|slot| Spot::of_slot(slot).is_none()));
        let spot = Spot::raw(3);
        assert_eq!((spot.sector(), spot.sectors(), spot.end(), spot.is_raw()), (24, 8, 32, true));
        assert_eq!(Spot::of_slot(u64::MAX - 1), Some(Spot::ZERO));
    }

    #[test]
    fn a_number_is_one_spot_or_none() {
        let spot = Spot::packed(1000, 6).expect("it is one");
        assert_eq!((spot.sector(), spot.sectors(), spot.end(), spot.slot()), (1000, 6, 1006, None));
        assert!(spot.is_packed() && !spot.is_raw() && !Spot::raw(1).is_packed() && !Spot::ZERO.is_packed());
        assert!([0, 7, 8].into_iter().all(|sectors| Spot::packed(0, sectors).is_none()));
        for spot in [spot, Spot::raw(5), Spot::raw(SLOTS_END - 1), Spot::packed(SECTORS_END - 1, 1).expect("the last")]
        {
            assert_eq!(Spot::of_bits(spot.bits()), Some(spot));
        }
        // Seven sectors, a raw page between two, beyond all devices, shared, no place.
        for bits in [6, 1 << SIZE_BITS | RAW, SECTORS_END << SIZE_BITS, 1 << 61 | RAW, u64::MAX] {
            assert_eq!(Spot::of_bits(bits), None, "{bits:#x}");
        }
    }
}
