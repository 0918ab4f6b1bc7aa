//! A spot: where a block of the capacity tier stands, in one number.
//!
//! Promises    a raw page is written as the slot that it always was; nothing else is taken for one
//! Not here    how spots are written where some are packed (`map_page.rs`, `map_rows.rs`, `history_page.rs`)
//!
//! | bits | what |
//! |---|---|
//! | 0..3 | sectors of 512 bytes less one, 0 to 5; or 7, a raw page |
//! | 3..41 | first sector of the device; of a shared spot, where the item stood first: its home |
//! | 41..61 | 0; of a shared spot, the lowest bits of the generation of its home segment |
//! | 61, 62..64 | 1: it is shared; 0 |
//!
//! A shared spot is the name of an item with several references: where that stands now is looked up (`store`). The highest numbers are no
//! places on a device.

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
/// Where a shared spot has the generation of its home.
const GENERATION_SHIFT: u32 = SIZE_BITS + 38;
/// Of a generation, what a shared spot has: a million uses of a segment.
pub const NAME_GENERATIONS: u64 = 1 << 20;
const SHARED: u64 = NAME_GENERATIONS << GENERATION_SHIFT;
/// Above all places.
const BITS_END: u64 = SHARED << 1;
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
            spot if spot.is_shared() => write!(f, "shared {:?} of use {}", spot.home(), spot.generation()),
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
    /// A place with this number, or a shared spot. None where it is none.
    pub const fn of_bits(bits: u64) -> Option<Self> {
        let of_home = if bits & SHARED != 0 { bits & ((1 << GENERATION_SHIFT) - 1) } else { bits };
        let whole = match of_home & RAW {
            RAW => of_home & PAGE_MASK == RAW,
            size => size < PACKED_SECTORS_MAX as u64,
        };
        if whole && bits < BITS_END && of_home >> SIZE_BITS < SECTORS_END { Some(Self(bits)) } else { None }
    }
    /// What is stored of a number with the size aside. None for raw pages, which are stored as slots.
    pub(crate) fn of_number(number: u64, size: u8) -> Option<Self> {
        let fits = number < BITS_END >> SIZE_BITS && u64::from(size) <= RAW;
        Self::of_bits(if fits { number << SIZE_BITS | u64::from(size) } else { u64::MAX }).filter(|spot| spot.is_wide())
    }

    /// The name of the item that stands in a place, in such a use of its segment.
    ///
    /// # Panics
    /// When it is no place.
    pub const fn shared(self, generation: u64) -> Self {
        assert!(self.is_place() && !self.is_shared(), "a place of a device");
        Self(self.0 | SHARED | (generation % NAME_GENERATIONS) << GENERATION_SHIFT)
    }
    /// Whether it is a name.
    pub const fn is_shared(self) -> bool {
        self.is_place() && self.0 & SHARED != 0
    }
    /// Of a name, where its item stood first; of all else itself.
    pub const fn home(self) -> Self {
        if self.is_shared() { Self(self.0 & ((1 << GENERATION_SHIFT) - 1)) } else { self }
    }
    /// Of a name, the lowest bits of the generation of its home segment.
    pub const fn generation(self) -> u32 {
        (self.0 >> GENERATION_SHIFT & (NAME_GENERATIONS - 1)) as u32
    }

    /// Whether it is a place on a device, or the name of an item that has one.
    pub const fn is_place(self) -> bool {
        self.0 < PLACES_END
    }
    /// Whether it is a place that holds the block as it is.
    pub const fn is_raw(self) -> bool {
        self.is_place() && !self.is_shared() && self.0 & RAW == RAW
    }

    /// Whether it is a place that holds the block packed.
    pub const fn is_packed(self) -> bool {
        self.is_place() && !self.is_shared() && self.0 & RAW != RAW
    }
    /// Whether it is stored with all of its number: packed, or shared.
    pub const fn is_wide(self) -> bool {
        self.is_place() && !self.is_raw()
    }

    /// The first sector of a place, of a name that of its home.
    pub const fn sector(self) -> u64 {
        self.home().0 >> SIZE_BITS
    }
    /// Its number without the size.
    pub(crate) const fn number(self) -> u64 {
        self.0 >> SIZE_BITS
    }
    /// The same of what stands back to back behind it.
    pub(crate) const fn number_behind(self) -> u64 {
        self.number() + self.sectors() as u64
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
        // Seven sectors, a raw page between two, beyond all devices, with a generation and not shared, beyond all that are shared, no place.
        let none = [6, 1 << SIZE_BITS | RAW, SECTORS_END << SIZE_BITS, SHARED >> 1 | RAW, BITS_END | RAW, u64::MAX];
        for bits in none {
            assert_eq!(Spot::of_bits(bits), None, "{bits:#x}");
        }
    }

    /// Goal: a name tells home and generation, and is taken for no place. Method: raw and packed ones, the last of all, numbers that are none.
    #[test]
    fn a_name_tells_its_home() {
        for home in [Spot::raw(5), Spot::raw(SLOTS_END - 1), Spot::packed(SECTORS_END - 1, 1).expect("it is one")] {
            let name = home.shared(7 + 3 * NAME_GENERATIONS);
            assert_eq!((name.home(), name.generation(), name.is_shared()), (home, 7, true));
            assert_eq!((name.sector(), name.sectors(), name.slot()), (home.sector(), home.sectors(), None));
            assert!(name.is_place() && name.is_wide() && !name.is_raw() && !name.is_packed());
            assert_eq!(Spot::of_bits(name.bits()), Some(name));
            assert_eq!(Spot::of_number(name.number(), name.size()), Some(name));
            assert!(!home.is_shared() && home.home() == home);
        }
        assert!(!Spot::ZERO.is_shared() && !Spot::NONE.is_shared());
        assert_eq!(Spot::of_number(Spot::raw(5).number(), 7), None);
        assert!([u64::MAX, BITS_END >> SIZE_BITS].into_iter().all(|number| Spot::of_number(number, 0).is_none()));
        assert_eq!(Spot::of_bits(SHARED | 6), None);
        assert_eq!(Spot::of_bits(SHARED | 1 << SIZE_BITS | RAW), None);
    }
}
