//! Network namespaces on a bridge: one per host, with its own address, that can be cut and healed.
//!
//! Names carry the number of the test's process. So two runs never meet, and what a crashed run left is known by a process
//! that is no more.
//!
//!   test (root namespace) 10.77.N.254 ── bridge ceXb ── veth ceXv1 ══ eth0 10.77.N.1 in namespace cairn-e2e-X-1
//!                                                    ├─ veth ceXv2 ══ eth0 10.77.N.2 in namespace cairn-e2e-X-2
//!   cut: hosts move to a second bridge ceXc that nobody else is on
//!   cut of one direction: a host sends what is for another to a hardware address that nobody has

use std::{
    net::Ipv4Addr,
    path::Path,
    process::Command,
    sync::atomic::{AtomicU32, Ordering},
};

use rustix::process::Signal;

use crate::{
    Outcome,
    process::signal,
    tools::{run, tool},
};

const PREFIX: &str = "cairn-e2e-";
/// Where hosts listen for each other.
pub const PEER_PORT: u16 = 9600;

/// The network of one cluster.
#[derive(Debug)]
pub struct Network {
    id: String,
    subnet: u8,
    hosts: u8,
}

impl Network {
    /// Makes bridge and namespaces for `hosts` hosts; removes what dead runs left.
    ///
    /// # Errors
    /// What `ip` said.
    pub fn new(hosts: u8) -> Outcome<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        sweep();
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let pid = std::process::id();
        let routes = ip(&["route"])?;
        let subnet = (0..=250_u32)
            .map(|step| ((pid * 7 + count + step) % 251) as u8)
            .find(|subnet| !routes.contains(&format!("10.77.{subnet}.")))
            .ok_or("no free network 10.77.N.0/24")?;
        let network = Self { id: format!("{pid:x}{}", char::from(b'g' + (count % 20) as u8)), subnet, hosts };
        network.build()?;
        Ok(network)
    }

    fn build(&self) -> Outcome<()> {
        for bridge in [self.bridge(), self.far_bridge()] {
            ip(&["link", "add", &bridge, "type", "bridge"])?;
            ip(&["link", "set", &bridge, "up"])?;
        }
        let own = format!("{}/24", self.test_address());
        ip(&["addr", "add", &own, "dev", &self.bridge()])?;
        for n in 1..=self.hosts {
            let (ns, veth) = (self.namespace(n), self.veth(n));
            ip(&["netns", "add", &ns])?;
            ip(&["link", "add", &veth, "type", "veth", "peer", "name", "eth0", "netns", &ns])?;
            ip(&["link", "set", &veth, "master", &self.bridge(), "up"])?;
            ip(&["-n", &ns, "link", "set", "lo", "up"])?;
            ip(&["-n", &ns, "link", "set", "eth0", "up"])?;
            ip(&["-n", &ns, "addr", "add", &format!("{}/24", self.address(n)), "dev", "eth0"])?;
        }
        Ok(())
    }

    /// The run's id, part of all names.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The address of host `n`, counted from 1.
    pub fn address(&self, n: u8) -> Ipv4Addr {
        Ipv4Addr::new(10, 77, self.subnet, n)
    }

    /// The test's own address on the bridge.
    pub fn test_address(&self) -> Ipv4Addr {
        Ipv4Addr::new(10, 77, self.subnet, 254)
    }

    /// The namespace of host `n`.
    pub fn namespace(&self, n: u8) -> String {
        format!("{PREFIX}{}-{n}", self.id)
    }

    /// A command that runs in the namespace of host `n`.
    pub fn command(&self, n: u8, program: &Path) -> Command {
        let mut command = tool("ip");
        command.args(["netns", "exec", &self.namespace(n)]).arg(program);
        command
    }

    /// Cuts the hosts `far` (and only them, together) from the others and from the test.
    ///
    /// # Errors
    /// What `ip` said.
    pub fn cut(&self, far: &[u8]) -> Outcome<()> {
        far.iter().try_for_each(|n| ip(&["link", "set", &self.veth(*n), "master", &self.far_bridge()]).map(drop))
    }

    /// Joins all hosts again.
    ///
    /// # Errors
    /// What `ip` said.
    pub fn heal(&self) -> Outcome<()> {
        (1..=self.hosts).try_for_each(|n| ip(&["link", "set", &self.veth(n), "master", &self.bridge()]).map(drop))
    }

    /// Cuts the link from one host to another, in this direction: what is sent is lost without a word.
    ///
    /// # Errors
    /// What `ip` said.
    pub fn cut_way(&self, from: u8, to: u8) -> Outcome<()> {
        let (namespace, address) = (self.namespace(from), self.address(to).to_string());
        let nobody = ["lladdr", "02:00:00:00:00:01", "dev", "eth0", "nud", "permanent"];
        ip(&[&["-n", &namespace, "neigh", "replace", &address], nobody.as_slice()].concat()).map(drop)
    }

    /// Heals it.
    ///
    /// # Errors
    /// What `ip` said.
    pub fn heal_way(&self, from: u8, to: u8) -> Outcome<()> {
        ip(&["-n", &self.namespace(from), "neigh", "del", &self.address(to).to_string(), "dev", "eth0"]).map(drop)
    }

    /// Ends what is open between two hosts' peer ports, as host `a` sees it; `b` is told unless the link is cut.
    ///
    /// # Errors
    /// What `ss` said.
    pub fn reset(&self, a: u8, b: u8) -> Outcome<()> {
        let (there, port) = (self.address(b).to_string(), format!(":{PEER_PORT}"));
        let between = ["dst", &there, "and", "(", "sport", "=", &port, "or", "dport", "=", &port, ")"];
        run(self.command(a, Path::new("ss")).args(["--tcp", "--kill"]).args(between)).map(drop)
    }

    /// Processes in the namespace of host `n` with the name `name`, or all.
    ///
    /// # Errors
    /// What `ip` said.
    pub fn processes(&self, n: u8, name: Option<&str>) -> Outcome<Vec<u32>> {
        Ok(pids(&self.namespace(n))?
            .into_iter()
            .filter(|pid| name.is_none_or(|name| comm(*pid).as_deref() == Some(name)))
            .collect())
    }

    fn bridge(&self) -> String {
        format!("ce{}b", self.id)
    }

    fn far_bridge(&self) -> String {
        format!("ce{}c", self.id)
    }

    fn veth(&self, n: u8) -> String {
        format!("ce{}v{n}", self.id)
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for n in 1..=self.hosts {
            remove_namespace(&self.namespace(n));
        }
        for bridge in [self.bridge(), self.far_bridge()] {
            let _ = ip(&["link", "del", &bridge]);
        }
    }
}

fn ip(arguments: &[&str]) -> Outcome<String> {
    run(tool("ip").args(arguments))
}

fn pids(namespace: &str) -> Outcome<Vec<u32>> {
    let text = ip(&["netns", "pids", namespace])?;
    Ok(text.lines().filter_map(|line| line.trim().parse().ok()).collect())
}

fn comm(pid: u32) -> Option<String> {
    std::fs::read_to_string(format!("/proc/{pid}/comm")).ok().map(|name| name.trim().to_owned())
}

/// Ends what runs in a namespace of the harness, which nobody else has processes in, and removes it with its veth.
fn remove_namespace(namespace: &str) {
    for pid in pids(namespace).unwrap_or_default() {
        signal(pid, Signal::KILL);
    }
    let _ = ip(&["netns", "del", namespace]);
}

/// Removes namespaces and bridges of runs whose process is gone.
fn sweep() {
    let dead = |id: &str| {
        let pid = id.trim_end_matches(|c: char| !c.is_ascii_hexdigit());
        u32::from_str_radix(pid, 16).is_ok_and(|pid| !Path::new(&format!("/proc/{pid}")).exists())
    };
    let namespaces = ip(&["netns", "list"]).unwrap_or_default();
    for namespace in namespaces.lines().filter_map(|line| line.split_whitespace().next()) {
        let id = namespace.strip_prefix(PREFIX).and_then(|rest| rest.split('-').next());
        if id.is_some_and(dead) {
            remove_namespace(namespace);
        }
    }
    let bridges = ip(&["-br", "link", "show", "type", "bridge"]).unwrap_or_default();
    for bridge in bridges.lines().filter_map(|line| line.split_whitespace().next()) {
        let id = bridge.strip_prefix("ce").and_then(|rest| rest.strip_suffix(['b', 'c']));
        if id.is_some_and(dead) {
            let _ = ip(&["link", "del", bridge]);
        }
    }
}
