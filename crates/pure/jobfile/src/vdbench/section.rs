//! Parts of a parameter file.

/// Parts of a file, in the order in which they must come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Section {
    General,
    Hd,
    Sd,
    Wd,
    Rd,
}

impl Section {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::General => "general",
            Self::Hd => "hd",
            Self::Sd => "sd",
            Self::Wd => "wd",
            Self::Rd => "rd",
        }
    }

    pub(super) fn that_begins_with(key: &str) -> Option<Self> {
        [Self::Hd, Self::Sd, Self::Wd, Self::Rd].into_iter().find(|section| section.name() == key)
    }
}
