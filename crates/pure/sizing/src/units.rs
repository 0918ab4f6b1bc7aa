//! What a KB, a MB, a GB and a TB are: by the book, or as one paper has them.

use serde::Serialize;

use crate::exact::Exact;

/// A system of units. Block sizes are always bytes: 4K is 4,096 of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Default)]
#[serde(rename_all = "kebab-case")]
pub enum Units {
    /// 1 KB = 1,000 bytes, 1 MB = 1,000 KB, 1 GB = 1,000 MB, 1 TB = 1,000 GB: as drives are sold.
    #[default]
    Si,
    /// 1 KB = 1,024 bytes, 1 MB = 1,024 KB, 1 GB = 1,024 MB, and 1 TB = 1,000 GB: the only reading under which the
    /// Optane white paper of 2023 gives its own numbers (948 MB/s; decimal would be 925.9). A choice to reproduce, not
    /// one to follow.
    Paper,
}

impl Units {
    /// Bytes of a MB.
    pub const fn mb_bytes(self) -> Exact {
        match self {
            Self::Si => Exact::whole(1_000_000),
            Self::Paper => Exact::whole(1_048_576),
        }
    }

    /// MB of a GB.
    pub const fn gb_mb(self) -> Exact {
        match self {
            Self::Si => Exact::whole(1000),
            Self::Paper => Exact::whole(1024),
        }
    }

    /// MB of a TB; a TB is 1,000 GB in both.
    pub const fn tb_mb(self) -> Exact {
        match self {
            Self::Si => Exact::whole(1_000_000),
            Self::Paper => Exact::whole(1_024_000),
        }
    }

    /// The system in words.
    pub const fn describe(self) -> &'static str {
        match self {
            Self::Si => "si: 1 MB = 1,000,000 bytes, 1 GB = 1,000 MB, 1 TB = 1,000 GB",
            Self::Paper => "paper: 1 MB = 1,048,576 bytes, 1 GB = 1,024 MB, 1 TB = 1,000 GB",
        }
    }
}
