//! Page-aligned buffers, pooled per thread, that become [`Bytes`] without a copy.

use std::cell::RefCell;

use bytes::Bytes;
use cairn_types::BLOCK_BYTES;
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

/// Alignment of every [`PageBuf`], in bytes: what O_DIRECT asks for on any device.
pub const BUFFER_ALIGN: usize = 4096;

/// Pages that one thread keeps for reuse, at most: 48 MiB.
///
/// Napkin: a destage round reads 32 MiB of the log, guests have some MiB in flight beside it. A fresh page costs a fault
/// (~0.25 us/KiB here; 13 % of all CPU under random writes before rounds were pooled), a pooled one nothing.
const POOL_PAGES_MAX: usize = 12288;
/// Buffers over this many pages are not pooled: 4 MiB, a log segment.
const POOL_BUFFER_PAGES_MAX: usize = 1024;

/// Pages that a buffer of `count` is given: sizes are rounded by at most an eighth, so that one fits the next's use.
const fn class(count: usize) -> usize {
    if count <= 16 { count } else { count.next_multiple_of(count.next_power_of_two() / 16) }
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C, align(4096))]
struct Page([u8; BLOCK_BYTES as usize]);

#[derive(Default)]
struct Pool {
    by_pages: Vec<Vec<Vec<Page>>>,
    pages: usize,
}

thread_local! {
    static POOL: RefCell<Pool> = RefCell::default();
}

/// A 4 KiB aligned, growable-by-none buffer. `freeze` turns it into shared [`Bytes`].
pub struct PageBuf {
    pages: Vec<Page>,
    len: usize,
}

impl PageBuf {
    /// A buffer of `len` bytes whose contents are unspecified (zero, or of an earlier use).
    pub fn dirty(len: usize) -> Self {
        let count = class(len.div_ceil(BUFFER_ALIGN));
        let pooled = POOL
            .try_with(|pool| {
                let mut pool = pool.borrow_mut();
                let pages = pool.by_pages.get_mut(count)?.pop()?;
                pool.pages -= count;
                Some(pages)
            })
            .ok()
            .flatten();
        let pages = pooled.unwrap_or_else(|| Page::new_vec_zeroed(count).expect("memory for a buffer"));
        Self { pages, len }
    }

    /// A buffer of `len` zero bytes.
    pub fn zeroed(len: usize) -> Self {
        let mut buf = Self::dirty(len);
        buf.fill(0);
        buf
    }

    /// A buffer with a copy of `data`.
    pub fn copy_of(data: &[u8]) -> Self {
        let mut buf = Self::dirty(data.len());
        buf.copy_from_slice(data);
        buf
    }

    /// Shortens the buffer to `len` bytes.
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    /// The buffer as shared bytes, without a copy; its pages return to the pool of the thread that drops the last one.
    pub fn freeze(self) -> Bytes {
        Bytes::from_owner(self)
    }
}

impl std::ops::Deref for PageBuf {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.pages.as_bytes()[..self.len]
    }
}

impl std::ops::DerefMut for PageBuf {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.pages.as_mut_bytes()[..self.len]
    }
}

impl AsRef<[u8]> for PageBuf {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl Drop for PageBuf {
    fn drop(&mut self) {
        let pages = std::mem::take(&mut self.pages);
        let count = pages.len();
        if count == 0 || count > POOL_BUFFER_PAGES_MAX {
            return;
        }
        // A thread that is ending has no pool any more: then the pages are just freed.
        let _ = POOL.try_with(|pool| {
            let mut pool = pool.borrow_mut();
            if pool.pages + count <= POOL_PAGES_MAX {
                if pool.by_pages.len() <= count {
                    pool.by_pages.resize_with(count + 1, Vec::new);
                }
                pool.by_pages[count].push(pages);
                pool.pages += count;
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_aligned_and_reused() {
        let mut buf = PageBuf::zeroed(5000);
        assert_eq!(buf.as_ptr() as usize % BUFFER_ALIGN, 0);
        buf[4999] = 7;
        let bytes = buf.freeze();
        assert_eq!((bytes.len(), bytes[4999]), (5000, 7));
        let at = bytes.as_ptr() as usize;
        drop(bytes);
        assert_eq!(PageBuf::dirty(8192).as_ptr() as usize, at);
    }

    #[test]
    fn sizes_are_rounded_by_an_eighth_at_most() {
        for count in 1..3000 {
            let given = class(count);
            assert!(given >= count && given <= count + count / 8, "{count} pages get {given}");
            assert_eq!(class(given), given, "a class is its own");
        }
        assert_eq!(class(1024), 1024);
    }
}
