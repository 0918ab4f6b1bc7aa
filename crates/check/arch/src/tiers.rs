//! Who may import whom, as data and one function.
//!
//! Promises    every edge that is not allowed is told, with the row that forbids it
//! Assumes     folders are the tiers: crates/<tier>/<room>
//! Not here    dev-dependencies: a test may use what it wants, as long as no product does

use std::collections::{BTreeMap, BTreeSet};

/// One crate of the workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Package {
    /// Its name.
    pub name: String,
    /// Its folder's tier: base, pure, engine, front, real, apps, check.
    pub tier: String,
    /// Its folder: types, store, ...
    pub room: String,
    /// What it depends on, by package name, dev-dependencies left out.
    pub dependencies: Vec<String>,
}

/// Tiers from below.
pub const TIERS: [&str; 7] = ["base", "pure", "engine", "front", "real", "apps", "check"];

/// Crates from outside that a tier may not name, and why.
///
/// The first three tiers run in the simulator, where one seed is one run.
const BANNED: [(&str, &[&str], &str); 11] = [
    ("tokio", &["base", "pure", "engine"], "the executor is env's"),
    ("io-uring", &["base", "pure", "engine", "front", "apps"], "devices are env-linux's"),
    ("etcd-client", &["base", "pure", "engine", "front", "apps"], "etcd is directory-etcd's"),
    ("rustix", &["base", "pure", "engine"], "the operating system is real's"),
    ("libc", &["base", "pure", "engine"], "the operating system is real's"),
    ("vm-memory", &["base", "pure", "engine", "real"], "a guest's memory is its front end's"),
    ("mio", &["base", "pure", "engine"], "sockets are real's"),
    ("axum", &["base", "pure", "engine", "front", "real"], "HTTP is the daemon's"),
    ("rand", &["base", "pure", "engine", "front", "real", "apps"], "random words come from Env"),
    ("getrandom", &["base", "pure", "engine"], "random words come from Env"),
    ("tracing", &["base", "pure"], "decisions are returned, not logged"),
];

/// What breaks the import rule, each as a sentence; none where all is well.
pub fn violations(packages: &[Package]) -> Vec<String> {
    let rooms: BTreeMap<&str, &Package> = packages.iter().map(|p| (p.name.as_str(), p)).collect();
    let mut found = Vec::new();
    for package in packages {
        if !TIERS.contains(&package.tier.as_str()) {
            found.push(format!("{}: {} is no tier", package.name, package.tier));
        }
        for dependency in &package.dependencies {
            let from = format!("{}/{} ({})", package.tier, package.room, package.name);
            match rooms.get(dependency.as_str()) {
                Some(to) => {
                    if let Err(why) = may_import(package, to) {
                        found.push(format!("{from} imports {}/{}: {why}", to.tier, to.room));
                    }
                }
                None => {
                    for (name, tiers, why) in BANNED {
                        if name == dependency && tiers.contains(&package.tier.as_str()) {
                            found.push(format!("{from} uses {name}: {why}"));
                        }
                    }
                }
            }
        }
    }
    found.extend(cycle(packages));
    found
}

/// Whether one room may import another.
fn may_import(from: &Package, to: &Package) -> Result<(), &'static str> {
    let (from_room, to_room) = (from.room.as_str(), to.room.as_str());
    let allowed = match (from.tier.as_str(), to.tier.as_str()) {
        ("check", _) => true,
        (_, "check") => return Err("nothing imports check"),
        // The quick start is the daemon's engine with hosts that it can kill: a shell around that library, no more.
        ("apps", "apps") if (from_room, to_room) == ("demo", "daemon") => true,
        (_, "apps") => return Err("nothing imports apps"),
        // The API's numbers are those that are declared; what it asks of one host goes on to others in its types.
        ("base", "base") => {
            (from_room != "types" && to_room == "types")
                || matches!((from_room, to_room), ("api", "metrics") | ("wire", "api"))
        }
        ("pure", "base") => true,
        ("pure", "pure") => {
            matches!(
                (from_room, to_room),
                ("placement", "votes" | "geometry" | "sizing")
                    | ("record", "votes")
                    | ("owner", "record" | "votes" | "geometry" | "parity")
                    | ("votes", "geometry")
                    | ("jobfile", "workload")
                    | ("study", "measure")
                    | ("report", "study" | "measure" | "sizing")
            )
        }
        ("engine", "base" | "pure") => true,
        ("engine", "engine") => from_room == "node" && matches!(to_room, "object" | "store" | "directory"),
        ("front", "base") => true,
        ("front", "front") => {
            matches!((from_room, to_room), ("iscsi" | "vhost-user", "scsi"))
        }
        ("real", "base") => true,
        // Who may be connected with whom is decided there, for simulated links as well.
        ("real", "pure") => to_room == "upgrade",
        ("real", "engine") => to_room == "directory",
        // What the CLI needs of a cluster is in the API; offline it reads devices through their format.
        ("apps", "base" | "pure") => true,
        ("apps", "engine" | "front" | "real") => {
            if matches!(from_room, "cli" | "dashboard") {
                return Err("if it needs this, the API lacks it");
            }
            true
        }
        _ => false,
    };
    allowed.then_some(()).ok_or("code imports downwards, and within a tier only along the arrows of ARCHITECTURE.md")
}

/// A cycle among product dependencies; cargo refuses those too, but names them worse.
fn cycle(packages: &[Package]) -> Option<String> {
    let edges: BTreeMap<&str, &[String]> =
        packages.iter().map(|p| (p.name.as_str(), p.dependencies.as_slice())).collect();
    // What depends on nothing that is left can go; what cannot go is in a cycle or above one.
    let mut left: BTreeSet<&str> = edges.keys().copied().collect();
    loop {
        let free: Vec<&str> =
            left.iter().filter(|p| !edges[**p].iter().any(|d| left.contains(d.as_str()))).copied().collect();
        if free.is_empty() {
            break;
        }
        left.retain(|p| !free.contains(p));
    }
    (!left.is_empty()).then(|| format!("imports go round among {left:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(tier: &str, room: &str, dependencies: &[&str]) -> Package {
        Package {
            name: room.into(),
            tier: tier.into(),
            room: room.into(),
            dependencies: dependencies.iter().map(|d| (*d).into()).collect(),
        }
    }

    /// A workspace in miniature in which `room` has the dependencies given.
    fn told(room: &str, dependencies: &[&str]) -> Vec<String> {
        let mut packages = vec![
            package("base", "types", &[]),
            package("base", "wire", &["types"]),
            package("base", "format", &[]),
            package("pure", "votes", &["types"]),
            package("pure", "record", &["votes"]),
            package("pure", "placement", &[]),
            package("engine", "store", &["format", "redb"]),
            package("engine", "object", &["wire", "record"]),
            package("engine", "directory", &["types"]),
            package("engine", "node", &["object", "store"]),
            package("front", "nbd", &["types", "tokio"]),
            package("real", "env-linux", &["types", "io-uring", "tokio"]),
            package("real", "directory-etcd", &["directory", "etcd-client"]),
            package("apps", "daemon", &["node", "nbd", "env-linux"]),
            package("apps", "cli", &["types"]),
            package("check", "sim", &["node"]),
        ];
        for p in packages.iter_mut().filter(|p| p.room == room) {
            p.dependencies = dependencies.iter().map(|d| (*d).into()).collect();
        }
        violations(&packages)
    }

    #[test]
    fn downwards_is_allowed() {
        assert_eq!(told("none", &[]), Vec::<String>::new());
        let fine: [(&str, &[&str]); 6] = [
            ("node", &["object", "store", "directory", "placement", "wire"]),
            ("placement", &["votes"]),
            ("directory-etcd", &["directory", "types", "tokio"]),
            ("sim", &["daemon", "store", "votes", "rand"]),
            ("daemon", &["directory-etcd", "node", "axum", "tokio"]),
            ("cli", &["format", "votes", "serde"]),
        ];
        for (room, dependencies) in fine {
            assert_eq!(told(room, dependencies), Vec::<String>::new(), "{room}");
        }
    }

    #[test]
    fn every_other_way_is_told() {
        let wrong: [(&str, &str); 21] = [
            ("types", "wire"),
            ("wire", "format"),
            ("types", "votes"),
            ("votes", "record"),
            ("record", "placement"),
            ("votes", "store"),
            ("store", "object"),
            ("object", "directory"),
            ("directory", "store"),
            ("object", "node"),
            ("nbd", "votes"),
            ("nbd", "store"),
            ("env-linux", "store"),
            ("env-linux", "nbd"),
            ("directory-etcd", "env-linux"),
            ("cli", "store"),
            ("node", "sim"),
            ("node", "daemon"),
            ("store", "tokio"),
            ("votes", "rand"),
            ("daemon", "etcd-client"),
        ];
        for (room, dependency) in wrong {
            let told = told(room, &[dependency]);
            assert!(told.iter().any(|t| t.contains(&format!("({room})"))), "{room} -> {dependency}: {told:?}");
        }
    }

    #[test]
    fn a_circle_is_told_as_such() {
        let packages = [package("base", "types", &["wire"]), package("base", "wire", &["types"])];
        assert!(violations(&packages).iter().any(|t| t.contains("go round")));
    }
}
