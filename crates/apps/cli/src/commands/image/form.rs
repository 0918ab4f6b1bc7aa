//! Forms of image files: what their names say, and whether what is found in them fits.

use std::path::Path;

use crate::{args::ImageFormat, fail::Fail};

impl ImageFormat {
    /// What qemu-img calls it; of an OVA, the disk inside.
    pub fn qemu_name(self) -> &'static str {
        match self {
            Self::Raw => "raw",
            Self::Qcow2 => "qcow2",
            Self::Vmdk | Self::Ova => "vmdk",
            Self::Vdi => "vdi",
            Self::Vhdx => "vhdx",
        }
    }

    /// What people call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ova => "ova",
            other => other.qemu_name(),
        }
    }

    /// What a file's name says.
    pub fn by_ending(file: &Path) -> Option<Self> {
        let ending = file.extension()?.to_str()?.to_lowercase();
        Some(match ending.as_str() {
            "raw" | "img" => Self::Raw,
            "qcow2" => Self::Qcow2,
            "vmdk" => Self::Vmdk,
            "vdi" => Self::Vdi,
            "vhdx" => Self::Vhdx,
            "ova" => Self::Ova,
            _ => return None,
        })
    }
}

/// Endings of packed files: what is in them is no disk.
const PACKED: [&str; 6] = ["gz", "xz", "zst", "bz2", "zip", "lz4"];

/// Whether what was found in a file may be taken for its content, where nobody has said what it is.
///
/// A guest writes what it likes into its disk, also the head of another format that names files of this machine as its
/// backing: so a file that is named as raw is not read as anything else. And a damaged file looks raw.
pub fn check_found(file: &Path, found: &str) -> Result<(), Fail> {
    let ending = file.extension().and_then(|ending| ending.to_str()).unwrap_or_default().to_lowercase();
    let shown = file.display();
    if PACKED.contains(&ending.as_str()) {
        return Err(Fail::refused(format!("{shown} is packed"))
            .remedy("unpack it first, or into a pipe: zcat FILE.gz | cairn disk import - --name NAME --size SIZE"));
    }
    match ImageFormat::by_ending(file) {
        Some(named) if named.qemu_name() != found => Err(Fail::refused(format!(
            "{shown} is named as {}, and what is in it looks like {found}: it may be damaged, or not what it is named as",
            named.name()
        ))
        .remedy(format!("look into it; to read it as what it looks like, add --format {found}"))),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_contents_have_to_fit() {
        let fits = |file: &str, found: &str| check_found(Path::new(file), found).is_ok();
        assert!(fits("a.qcow2", "qcow2") && fits("a.IMG", "raw") && fits("a", "raw") && fits("a.backup", "qcow2"));
        assert!(!fits("a.img", "qcow2"), "a guest may have written it");
        assert!(!fits("a.qcow2", "raw"), "it is damaged");
        assert!(!fits("a.vmdk.gz", "raw"));
        assert_eq!(ImageFormat::by_ending(Path::new("b/a.Ova")), Some(ImageFormat::Ova));
        assert_eq!(ImageFormat::by_ending(Path::new("a")), None);
    }
}
