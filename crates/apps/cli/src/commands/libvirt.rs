//! `cairn disk xml`: what libvirt is told of a disk.
//!
//! Promises    what is printed validates against libvirt 9's schema, and names a door that the host says it has
//! Not here    libvirt itself: nothing is asked of it, nothing defined

use std::fmt::Write as _;

use cairn_api::v1::{Disk, Host};
use serde::Serialize;

use super::Context;
use crate::{args::DiskXml, fail::Fail, output};

/// An element of a domain.
#[derive(Debug, Serialize)]
struct Printed {
    xml: String,
}

/// Prints the `<disk>` for a machine that reaches the disk through a host.
pub async fn run(context: &Context, wanted: DiskXml) -> Result<(), Fail> {
    let client = &context.client;
    let disk = client.disk_show(&wanted.disk).await?;
    let host = match &wanted.host {
        Some(host) => host.clone(),
        None => client.cluster_status().await?.answered_by,
    };
    let host = client.host_show(host).await?;
    let xml = match wanted.vhost_user && !wanted.nbd {
        true => vhost_user(&disk, &host, &wanted.target)?,
        false => nbd(&disk, &host, &wanted.target)?,
    };
    output::show(context.format, &Printed { xml }, |printed| printed.xml.trim_end().to_owned())
}

/// Error policies: without a delay for reconnection, which libvirt 9.0 does not know, QEMU fails what is asked while the host's
/// daemon is away. So the machine pauses, and `virsh resume` repeats the requests. Whatever is answered is durable: the page cache of
/// the machine's server (`cache`) has nothing to add.
fn nbd(disk: &Disk, host: &Host, target: &str) -> Result<String, Fail> {
    let mut doors = host.nbd_addresses.iter().filter_map(|address| door(address));
    // Over TCP QEMU needs no right to a socket's file.
    let first = doors.next().ok_or_else(|| {
        Fail::refused(format!("host {} serves no NBD", host.name))
            .remedy("Set listen.nbd or listen.nbd_socket there and start its daemon anew, or name another --host")
    })?;
    let mut xml = format!("<!-- disk {} through host {} -->\n", escaped(&disk.summary.name), escaped(&host.name));
    for other in doors {
        let _ = writeln!(xml, "<!-- or, for a machine on that server: {other} -->");
    }
    let (name, target) = (escaped(&disk.summary.name), escaped(target));
    let _ = writeln!(
        xml,
        "<disk type='network' device='disk'>\n  \
           <driver name='qemu' type='raw' cache='none' discard='unmap' error_policy='stop' rerror_policy='stop'/>\n  \
           <source protocol='nbd' name='{name}'>\n    \
             {first}\n  \
           </source>\n  \
           <target dev='{target}' bus='virtio'/>\n\
         </disk>"
    );
    Ok(xml)
}

/// libvirt's element for an address as a host tells it.
fn door(address: &str) -> Option<String> {
    if let Some((_, socket)) = address.split_once("?socket=") {
        return Some(format!("<host transport='unix' socket='{}'/>", escaped(socket)));
    }
    let (name, port) = address.strip_prefix("nbd://")?.rsplit_once(':')?;
    Some(format!("<host name='{}' port='{}'/>", escaped(name.trim_matches(['[', ']'])), escaped(port)))
}

/// Cache, I/O and discard are the back end's here: libvirt refuses them.
fn vhost_user(disk: &Disk, host: &Host, target: &str) -> Result<String, Fail> {
    let folder = host.vhost_user_dir.as_ref().ok_or_else(|| {
        Fail::refused(format!("host {} serves no vhost-user", host.name))
            .remedy("Set listen.vhost_user_dir there and start its daemon anew, or name another --host")
    })?;
    let (name, target) = (escaped(&disk.summary.name), escaped(target));
    let (folder, host) = (escaped(folder), escaped(&host.name));
    Ok(format!(
        "<!-- disk {name}, for a machine on host {host}, whose memory has to be shared. In its <domain>:\n     \
         <memoryBacking><source type='memfd'/><access mode='shared'/></memoryBacking> -->\n\
         <disk type='vhostuser' device='disk'>\n  \
           <driver name='qemu' type='raw'/>\n  \
           <source type='unix' path='{folder}/{name}.sock'>\n    \
             <reconnect enabled='yes' timeout='1'/>\n  \
           </source>\n  \
           <target dev='{target}' bus='virtio'/>\n\
         </disk>\n"
    ))
}

/// Text for an attribute or a comment.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '\'' => out += "&apos;",
            // Two of them would end a comment; as a reference they mean the same in an attribute.
            '-' if out.ends_with('-') => out += "&#45;",
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::{door, escaped};

    #[test]
    fn addresses_are_libvirts_elements() {
        assert_eq!(door("nbd://10.0.0.1:10809").unwrap(), "<host name='10.0.0.1' port='10809'/>");
        assert_eq!(door("nbd://[fd00::1]:10809").unwrap(), "<host name='fd00::1' port='10809'/>");
        let unix = door("nbd+unix:///?socket=/run/a'b/nbd.sock").unwrap();
        assert_eq!(unix, "<host transport='unix' socket='/run/a&apos;b/nbd.sock'/>");
        assert_eq!(door("iscsi://10.0.0.1"), None);
    }

    #[test]
    fn no_name_ends_a_comment() {
        assert_eq!(escaped("a-b--c<d>&"), "a-b-&#45;c&lt;d&gt;&amp;");
    }
}
