//! Configurations of hosts that are new: the first ones of a cluster, and one that joins.
//!
//! Promises    what is written passes `cairnd --check-config`
//!             no file is replaced, unless somebody says so; then the former one is kept
//! Not here    starting anything, and what is left out of the file: the daemon's defaults

use std::{
    collections::BTreeSet,
    fs,
    io::Write as _,
    net::SocketAddr,
    path::{Path, PathBuf},
};

use cairn_api::v1::{DirectoryMemberState, DirectoryMembers, check_name};
use serde::Serialize;

use super::Context;
use crate::{
    args::{Devices, Init, Join},
    fail::Fail,
    output::{self, Format},
};

/// Ports of a member of the directory: for the other members, and for hosts.
const MEMBER_PORTS: (u16, u16) = (2380, 2379);

/// The port of NBD.
const NBD_PORT: u16 = 10809;

/// One host's configuration.
struct Configuration<'a> {
    cluster: &'a str,
    host: &'a str,
    address: SocketAddr,
    directory: Directory,
    devices: &'a Devices,
}

/// How a host reaches the directory.
enum Directory {
    /// Members that the cluster runs: host, URL for members, URL for hosts.
    Members(Vec<(String, String, String)>),
    /// URLs of an etcd that somebody else runs.
    Endpoints(Vec<String>),
}

impl Configuration<'_> {
    fn text(&self) -> String {
        let quoted = |text: &str| toml::Value::String(text.to_owned()).to_string();
        let list = |texts: Vec<String>| texts.join(", ");
        let directory = match &self.directory {
            Directory::Members(members) => {
                let one = |(host, peer, client): &(String, String, String)| {
                    let (host, peer, client) = (quoted(host), quoted(peer), quoted(client));
                    format!("    {{ host = {host}, peer_url = {peer}, client_url = {client} }},\n")
                };
                format!("members = [\n{}]", members.iter().map(one).collect::<String>())
            }
            Directory::Endpoints(urls) => {
                format!("endpoints = [{}]", list(urls.iter().map(|url| quoted(url)).collect()))
            }
        };
        let path = |path: &PathBuf| quoted(&path.display().to_string());
        let disk_group = match &self.devices.cache {
            None => {
                "# No disk group yet: `cairn host devices` shows what is free, `cairn disk-group create` makes one.\n"
                    .to_owned()
            }
            Some(cache) => {
                let capacity = list(self.devices.capacity.iter().map(path).collect());
                format!("[[disk_group]]\ncache = {}\ncapacity = [{capacity}]\n", path(cache))
            }
        };
        format!(
            "# Host {host} of cluster {cluster}. `cairnd --print-config` shows every key with its default.\n\n\
             [cluster]\nname = {cluster_quoted}\n\n[host]\nname = {host_quoted}\n\n[listen]\npeers = \"{address}\"\n\
             # Guests on other machines: only where the network is trusted.\n# nbd = \"{nbd}\"\n\n\
             # Where the directory was when this was written. Once the host has joined, it follows the changes of that.\n\
             [directory]\nkind = \"etcd\"\n{directory}\n\n{disk_group}",
            host = self.host,
            cluster = self.cluster,
            cluster_quoted = quoted(self.cluster),
            host_quoted = quoted(self.host),
            address = self.address,
            nbd = SocketAddr::new(self.address.ip(), NBD_PORT),
        )
    }
}

/// What was written, for programs.
#[derive(Serialize)]
struct Written {
    files: Vec<PathBuf>,
    /// The hosts with a member of the directory.
    members: Vec<String>,
}

/// Writes the configurations of the first hosts.
pub fn init(format: Format, init: &Init) -> Result<(), Fail> {
    named("cluster", &init.name)?;
    let (mut names, mut addresses) = (BTreeSet::new(), BTreeSet::new());
    for (name, address) in &init.hosts {
        named("host", name)?;
        if !names.insert(name) || !addresses.insert(address) {
            return Err(Fail::usage(format!("host {name} or its address {address} is named twice")));
        }
    }
    let count = match init.hosts.len() {
        0..=2 => 1,
        3..=4 => 3,
        _ => 5,
    };
    let member = |(host, address): &(String, SocketAddr)| {
        let at = |port: u16| format!("http://{}", SocketAddr::new(address.ip(), port));
        (host.clone(), at(MEMBER_PORTS.0), at(MEMBER_PORTS.1))
    };
    let members: Vec<_> = init.hosts[..count].iter().map(member).collect();
    let ips: BTreeSet<_> = init.hosts[..count].iter().map(|(_, address)| address.ip()).collect();
    if ips.len() < count {
        return Err(Fail::usage("two hosts that run members of the directory have the same address")
            .remedy("Each needs an address of its own: failures would take both"));
    }
    let file = |host: &str| init.out.join(host).join("cairnd.toml");
    let files: Vec<PathBuf> = init.hosts.iter().map(|(host, _)| file(host)).collect();
    // All or nothing.
    if let Some(there) = files.iter().find(|file| file.exists()) {
        return Err(Fail::refused(format!("{} is there already: nothing was written", there.display()))
            .remedy("Name another folder with --out, or move it away"));
    }
    for ((host, address), file) in init.hosts.iter().zip(&files) {
        let directory = Directory::Members(members.clone());
        let (cluster, devices) = (init.name.as_str(), &init.devices);
        write(file, &Configuration { cluster, host, address: *address, directory, devices }.text())?;
    }
    let written = Written { files, members: members.into_iter().map(|(host, ..)| host).collect() };
    output::show(format, &written, next_steps)
}

fn next_steps(written: &Written) -> String {
    let files: Vec<String> = written.files.iter().map(|file| format!("{}\n", file.display())).collect();
    let few = match written.files.len() {
        0..=2 => {
            "\nWith fewer than three hosts a disk has no second copy, and the directory one member: hosts can join later.\n"
        }
        _ => "",
    };
    format!(
        "{}\nNext, on each host:\n  1. install cairn, and etcd-server on {} (its own service is not needed: systemctl disable --now etcd)\n  \
         2. copy its file to /etc/cairn/cairnd.toml, and look at it: cairnd --check-config --config /etc/cairn/cairnd.toml\n  \
         3. systemctl enable --now cairnd\nThen: cairn cluster status\n{few}",
        files.concat(),
        written.members.join(", ")
    )
}

/// What was written for a host that joins, for programs.
#[derive(Serialize)]
struct Joining {
    /// None: nothing was.
    file: Option<PathBuf>,
    text: String,
}

/// Writes the configuration of a host that joins.
pub async fn join(context: &Context, join: &Join) -> Result<(), Fail> {
    named("host", &join.name)?;
    let client = &context.client;
    let (status, members) = (client.cluster_status().await?, client.cluster_members().await?);
    let hosts = client.host_list().await?;
    if let Some(known) = hosts.iter().find(|host| host.name == join.name) {
        return Err(Fail::refused(format!("the cluster has a host {} already, at {}", known.name, known.address))
            .remedy("Choose another name; if that host is gone for good, `cairn host forget` it first"));
    }
    if let Some(known) = hosts.iter().find(|host| host.address == join.address.to_string()) {
        return Err(Fail::refused(format!("host {} of the cluster has the address {}", known.name, known.address))
            .remedy("Give the new host an address of its own"));
    }
    let directory = reached(&members)?;
    let configuration = Configuration {
        cluster: &status.name,
        host: &join.name,
        address: join.address,
        directory,
        devices: &join.devices,
    };
    let text = configuration.text();
    if join.dry_run {
        return output::show(context.format, &Joining { file: None, text }, |joining| joining.text.clone());
    }
    let file = &join.config;
    if file.exists() {
        if !join.overwrite {
            return Err(Fail::refused(format!("{} is there already", file.display())).remedy(
                "Look at it; --overwrite keeps it as .old and writes the new one, --config names another place",
            ));
        }
        let old = PathBuf::from(format!("{}.old", file.display()));
        fs::rename(file, &old)
            .map_err(|error| Fail::refused(format!("cannot move {} aside: {error}", file.display())))?;
    }
    write(file, &text)?;
    output::show(context.format, &Joining { file: Some(file.clone()), text }, |_| {
        let file = file.display();
        format!(
            "{file} is written for host {} of cluster {}.\nNext, on that host: systemctl enable --now cairnd\nThen: cairn host list",
            join.name, status.name
        )
    })
}

/// How a host reaches the directory that a host of the cluster describes so.
fn reached(members: &DirectoryMembers) -> Result<Directory, Fail> {
    match (members.kind.as_str(), members.own) {
        ("embedded", _) => {
            Err(Fail::refused("this cluster runs in one process, with its directory in a file: no host can join it")
                .remedy("Make a cluster of several hosts: `cairn cluster init`"))
        }
        (_, false) => Ok(Directory::Endpoints(members.endpoints.clone())),
        (_, true) => {
            let stay = members.members.iter().filter(|member| member.state != DirectoryMemberState::Leaves);
            let stay: Vec<_> = stay.map(|m| (m.host.clone(), m.peer_url.clone(), m.client_url.clone())).collect();
            match [1, 3, 5].contains(&stay.len()) {
                true => Ok(Directory::Members(stay)),
                false => {
                    Err(Fail::refused(format!("the directory has {} members, on the way to 1, 3 or 5", stay.len()))
                        .remedy("End that change first: `cairn cluster members`"))
                }
            }
        }
    }
}

fn named(what: &str, name: &str) -> Result<(), Fail> {
    check_name(what, name).map_err(|error| Fail::usage(error.to_string()))
}

/// A new file; one that is there is never written over.
fn write(file: &Path, text: &str) -> Result<(), Fail> {
    let written = || -> std::io::Result<()> {
        if let Some(folder) = file.parent() {
            fs::create_dir_all(folder)?;
        }
        let mut new = fs::File::create_new(file)?;
        new.write_all(text.as_bytes())?;
        new.sync_all()
    };
    written().map_err(|error| Fail::refused(format!("cannot write {}: {error}", file.display())))
}
