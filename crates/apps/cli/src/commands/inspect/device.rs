//! A device or file, read-only.

use std::{
    fs::File,
    io::{Seek as _, SeekFrom},
    os::unix::fs::FileExt as _,
    path::Path,
};

use crate::fail::Fail;

/// The open device.
pub struct Device {
    file: File,
    /// Its path, for people.
    pub path: String,
    /// Its size.
    pub size_bytes: u64,
}

impl Device {
    /// Opens `path` for reading.
    pub fn open(path: &Path) -> Result<Self, Fail> {
        let fail = |error: std::io::Error| Fail::refused(format!("cannot open {}: {error}", path.display()));
        let mut file = File::open(path).map_err(fail)?;
        // The end of a block device is found by seeking: its metadata says 0.
        let size_bytes = file.seek(SeekFrom::End(0)).map_err(fail)?;
        Ok(Self { file, path: path.display().to_string(), size_bytes })
    }

    /// `len` bytes at `offset`, or what the operating system says.
    pub fn read(&self, offset: u64, len: usize) -> Result<Vec<u8>, String> {
        let mut bytes = vec![0; len];
        self.file
            .read_exact_at(&mut bytes, offset)
            .map_err(|error| format!("cannot read {len} bytes at {offset}: {error}"))?;
        Ok(bytes)
    }
}
