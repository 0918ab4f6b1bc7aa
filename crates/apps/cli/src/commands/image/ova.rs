//! OVA files: a tar archive with a description of a machine and its disks.
//!
//! Promises    a disk is read where it lies in the archive, and written so that it can be
//! Source      DSP0243, "Open Virtualization Format Specification", of the DMTF

use std::{
    fs::File,
    io::{self, Read as _, Seek as _, SeekFrom, Write as _},
    path::Path,
};

use indicatif::ProgressBar;
use tar::{Archive, Header};

use crate::fail::Fail;

/// A file in an archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Its name.
    pub name: String,
    /// Where its bytes begin in the archive.
    pub offset: u64,
    /// How many they are.
    pub len_bytes: u64,
}

/// The disk that is meant: by name, or the only one.
///
/// # Errors
/// It is no archive, there is no such disk, or several.
pub fn disk_of(archive: &Path, named: Option<&str>) -> Result<Member, Fail> {
    let shown = archive.display();
    let members = members(archive).map_err(|error| {
        Fail::refused(format!("{shown} cannot be read as an OVA, which is a tar archive: {error}"))
            .remedy("look into it with `tar -tvf`")
    })?;
    let list = |members: &[&Member]| members.iter().map(|member| member.name.as_str()).collect::<Vec<_>>().join(", ");
    let all: Vec<&Member> = members.iter().collect();
    if let Some(named) = named {
        let found = members.iter().find(|member| member.name == named).cloned();
        return found.ok_or_else(|| Fail::refused(format!("{shown} has no {named:?}; it has {}", list(&all))));
    }
    let is_disk = |member: &&Member| member.name.to_lowercase().ends_with(".vmdk");
    match members.iter().filter(is_disk).collect::<Vec<_>>()[..] {
        [one] => Ok(one.clone()),
        [] => {
            Err(Fail::refused(format!("{shown} has no VMDK; it has {}", list(&all)))
                .remedy("name its disk with --member"))
        }
        ref several => Err(Fail::refused(format!("{shown} has several disks: {}", list(several)))
            .remedy("name one with --member, and import each as a disk of its own")),
    }
}

fn members(archive: &Path) -> io::Result<Vec<Member>> {
    let mut archive = Archive::new(File::open(archive)?);
    let mut members = Vec::new();
    for entry in archive.entries_with_seek()? {
        let entry = entry?;
        if entry.header().entry_type().is_file() {
            let name = entry.path()?.to_string_lossy().into_owned();
            members.push(Member { name, offset: entry.raw_file_position(), len_bytes: entry.size() });
        }
    }
    Ok(members)
}

/// Bytes that are copied at once.
const PIECE_BYTES: usize = 1 << 20;
/// Archives are made of blocks of this size, and end with two that are zero.
const TAR_BLOCK_BYTES: u64 = 512;

/// Writes an archive with a machine that has this disk.
///
/// # Errors
/// What the file system said.
pub async fn write(to: &Path, vmdk: &Path, name: &str, size_bytes: u64, bar: &ProgressBar) -> io::Result<()> {
    let mut disk = File::open(vmdk)?;
    let len_bytes = disk.metadata()?.len();
    let disk_name = format!("{name}-disk1.vmdk");
    let description = description(name, &disk_name, len_bytes, size_bytes);
    let mut out = File::create(to)?;
    head(&mut out, &format!("{name}.ovf"), description.len() as u64)?;
    out.write_all(description.as_bytes())?;
    pad(&mut out)?;
    head(&mut out, &disk_name, len_bytes)?;
    let (mut piece, mut done) = (vec![0; PIECE_BYTES], 0);
    loop {
        let count = disk.read(&mut piece)?;
        if count == 0 {
            break;
        }
        out.write_all(&piece[..count])?;
        done += count as u64;
        bar.set_position(done * 10_000 / len_bytes.max(1));
        // An interruption is seen here.
        tokio::task::yield_now().await;
    }
    pad(&mut out)?;
    out.write_all(&[0; 2 * TAR_BLOCK_BYTES as usize])
}

fn head(out: &mut File, name: &str, len_bytes: u64) -> io::Result<()> {
    let mut header = Header::new_gnu();
    header.set_path(name)?;
    header.set_size(len_bytes);
    header.set_mode(0o644);
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    header.set_mtime(now.map_or(0, |now| now.as_secs()));
    header.set_cksum();
    out.write_all(header.as_bytes())
}

fn pad(out: &mut File) -> io::Result<()> {
    let missing = out.stream_position()?.next_multiple_of(TAR_BLOCK_BYTES) - out.stream_position()?;
    out.write_all(&[0; TAR_BLOCK_BYTES as usize][..missing as usize])?;
    out.seek(SeekFrom::End(0)).map(drop)
}

/// A machine of the least that a description has to have. Names of disks need no escapes.
fn description(name: &str, disk_name: &str, len_bytes: u64, size_bytes: u64) -> String {
    let schema = "http://schemas.dmtf.org/wbem/wscim/1/cim-schema/2/CIM_";
    let item = |id: u32, kind: u32, of: &str, more: &str| {
        format!(
            "      <Item>\n        <rasd:ElementName>{of}</rasd:ElementName>\n        \
             <rasd:InstanceID>{id}</rasd:InstanceID>\n{more}        \
             <rasd:ResourceType>{kind}</rasd:ResourceType>\n      </Item>\n"
        )
    };
    let field = |name: &str, value: &str| format!("        <rasd:{name}>{value}</rasd:{name}>\n");
    let cpu = item(1, 3, "1 virtual CPU", &field("VirtualQuantity", "1"));
    let memory = field("AllocationUnits", "byte * 2^20") + &field("VirtualQuantity", "1024");
    let memory = item(2, 4, "1024 MB of memory", &memory);
    let controller = item(3, 6, "SCSI controller 0", &(field("Address", "0") + &field("ResourceSubType", "lsilogic")));
    let drive = field("AddressOnParent", "0") + &field("HostResource", "ovf:/disk/vmdisk1") + &field("Parent", "3");
    let drive = item(4, 17, "Hard disk 1", &drive);
    format!(
        r#"<?xml version="1.0" encoding="UTF-8"?>
<Envelope xmlns="http://schemas.dmtf.org/ovf/envelope/1" xmlns:ovf="http://schemas.dmtf.org/ovf/envelope/1" xmlns:rasd="{schema}ResourceAllocationSettingData" xmlns:vssd="{schema}VirtualSystemSettingData">
  <References>
    <File ovf:href="{disk_name}" ovf:id="file1" ovf:size="{len_bytes}"/>
  </References>
  <DiskSection>
    <Info>Virtual disks</Info>
    <Disk ovf:capacity="{size_bytes}" ovf:capacityAllocationUnits="byte" ovf:diskId="vmdisk1" ovf:fileRef="file1" ovf:format="http://www.vmware.com/interfaces/specifications/vmdk.html#streamOptimized"/>
  </DiskSection>
  <VirtualSystem ovf:id="{name}">
    <Info>A virtual machine</Info>
    <Name>{name}</Name>
    <OperatingSystemSection ovf:id="1">
      <Info>The operating system of the guest</Info>
    </OperatingSystemSection>
    <VirtualHardwareSection>
      <Info>Virtual hardware</Info>
      <System>
        <vssd:ElementName>Virtual hardware</vssd:ElementName>
        <vssd:InstanceID>0</vssd:InstanceID>
        <vssd:VirtualSystemIdentifier>{name}</vssd:VirtualSystemIdentifier>
        <vssd:VirtualSystemType>vmx-11</vssd:VirtualSystemType>
      </System>
{cpu}{memory}{controller}{drive}    </VirtualHardwareSection>
  </VirtualSystem>
</Envelope>
"#
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(folder: &Path, name: &str, vmdk: &[u8]) -> std::path::PathBuf {
        let (disk, ova) = (folder.join("disk.vmdk"), folder.join(format!("{name}.ova")));
        std::fs::write(&disk, vmdk).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(write(&ova, &disk, name, 1 << 30, &ProgressBar::hidden())).unwrap();
        ova
    }

    /// Goal: what is written is an archive for others, and its disk is found where it lies. Method: the system's tar unpacks it.
    #[test]
    fn archives_are_read_by_tar_and_by_us() {
        let folder = tempfile::tempdir().unwrap();
        let vmdk: Vec<u8> = (0..3_000_000_u32).map(|n| (n % 251) as u8).collect();
        let ova = written(folder.path(), "vm-1", &vmdk);
        let disk = disk_of(&ova, None).unwrap();
        let bytes = std::fs::read(&ova).unwrap();
        assert_eq!(disk.name, "vm-1-disk1.vmdk");
        assert!(bytes[disk.offset as usize..][..disk.len_bytes as usize] == vmdk);
        let unpacked =
            std::process::Command::new("tar").arg("-xf").arg(&ova).current_dir(folder.path()).output().unwrap();
        assert!(unpacked.status.success() && unpacked.stderr.is_empty(), "{unpacked:?}");
        assert!(std::fs::read(folder.path().join("vm-1-disk1.vmdk")).unwrap() == vmdk);
        let text = std::fs::read_to_string(folder.path().join("vm-1.ovf")).unwrap();
        assert!(text.contains(r#"ovf:capacity="1073741824""#) && text.contains(r#"ovf:size="3000000""#));
    }

    #[test]
    fn the_disk_has_to_be_one_or_named() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["a.vmdk", "b.VMDK", "m.ovf"] {
            std::fs::write(folder.path().join(name), name).unwrap();
        }
        let ova = |members: &[&str]| {
            let path = folder.path().join("x.ova");
            let mut tar = std::process::Command::new("tar");
            tar.arg("-cf").arg(&path).args(members).current_dir(folder.path());
            assert!(tar.status().unwrap().success());
            path
        };
        assert_eq!(disk_of(&ova(&["m.ovf", "a.vmdk"]), None).unwrap().name, "a.vmdk");
        let two = ova(&["m.ovf", "a.vmdk", "b.VMDK"]);
        assert_eq!(disk_of(&two, Some("b.VMDK")).unwrap().name, "b.VMDK");
        for (file, named) in [(&two, None), (&two, Some("c.vmdk")), (&ova(&["m.ovf"]), None)] {
            assert!(disk_of(file, named).is_err(), "{named:?}");
        }
        std::fs::write(folder.path().join("no.ova"), [7; 2000]).unwrap();
        assert!(disk_of(&folder.path().join("no.ova"), None).is_err());
    }
}
