//! `sim debug`: a run that stops where one wants to look.
//!
//! Promises    looking changes nothing: the run is the one that `sim run` makes of the seed
//! Not here    commands that act on the cluster: those are plans (`sim show --json`, edited, `sim replay --plan`)

use std::{io::BufRead, process::ExitCode, time::Duration};

use cairn_cluster::{
    cluster::Cluster,
    plan::Plan,
    run::{Failure, run_watched},
};
use cairn_types::{OpId, REGION_BLOCKS};

const HELP: &str = "\
s, step [N]          N steps of the world (a poll, a timer), 1 without N
n, next [N]          until N more lines are told
u, until SECONDS     until this time of the world
b, break TEXT        stop at every line that contains TEXT: a host, an event, a fault; without TEXT lists them
d, delete TEXT       no more
c, continue          until a breakpoint, or the end
h, host N            what host N owns, holds and has in its logs
k, block BLOCK       what every copy of every disk knows of this block
w, watch BLOCK       tell what guests do with this block, from now on
l, log [N]           the newest lines, 20 without N
q, quit              end the run here";

/// Until when the world runs before it stops again.
enum Stop {
    Now,
    Steps(u64),
    Lines(u64),
    At(Duration),
    Never,
}

struct Debugger {
    cluster: Cluster,
    stop: Stop,
    breaks: Vec<String>,
    told: u64,
}

/// Runs a plan under the debugger; commands come from the standard input.
pub fn debug(plan: &Plan) -> ExitCode {
    println!("stopped where the guests begin; `help` tells the commands");
    let result = run_watched(plan, |cluster| {
        let (told, own) = (cluster.log.count(), cluster.clone());
        let mut debugger = Debugger { cluster: own, stop: Stop::Now, breaks: Vec::new(), told };
        cluster.world.set_watcher(move || debugger.look());
    });
    match result {
        Ok(outcome) => {
            println!("no violation: {outcome:?}");
            ExitCode::SUCCESS
        }
        Err(Failure { what, log }) => {
            log.lines().rev().take(20).collect::<Vec<_>>().iter().rev().for_each(|line| println!("{line}"));
            println!("FAILED: {what}");
            ExitCode::from(1)
        }
    }
}

impl Debugger {
    /// Called before every step.
    fn look(&mut self) {
        let (log, world) = (&self.cluster.log, &self.cluster.world);
        let lines = log.count();
        let fresh = if lines > self.told { log.newest((lines - self.told) as usize) } else { Vec::new() };
        self.told = lines;
        fresh.iter().for_each(|line| println!("{line}"));
        let hit = fresh.iter().any(|line| self.breaks.iter().any(|text| line.contains(text.as_str())));
        let due = match self.stop {
            Stop::Now => true,
            Stop::Steps(at) => world.steps() >= at,
            Stop::Lines(at) => lines >= at,
            Stop::At(at) => world.now() >= at,
            Stop::Never => false,
        };
        if due || hit {
            self.prompt();
        }
    }

    fn prompt(&mut self) {
        let (now, steps) = (self.cluster.world.now(), self.cluster.world.steps());
        println!("-- {:.6} s, step {steps}", now.as_secs_f64());
        loop {
            let mut line = String::new();
            match std::io::stdin().lock().read_line(&mut line) {
                // Nobody says anything any more.
                Ok(0) | Err(_) => {
                    self.stop = Stop::Never;
                    self.breaks.clear();
                    return;
                }
                Ok(_) => {}
            }
            let (word, rest) = line.trim().split_once(' ').unwrap_or((line.trim(), ""));
            if let Some(stop) = self.go(word, rest.trim()) {
                self.stop = stop;
                return;
            }
            self.show(word, rest.trim());
        }
    }

    /// Commands that let the world go on.
    fn go(&self, word: &str, rest: &str) -> Option<Stop> {
        let (world, count) = (&self.cluster.world, rest.parse().unwrap_or(1));
        match word {
            "s" | "step" => Some(Stop::Steps(world.steps() + count)),
            "n" | "next" | "" => Some(Stop::Lines(self.cluster.log.count() + count)),
            "c" | "continue" => Some(Stop::Never),
            "u" | "until" => Some(Stop::At(Duration::try_from_secs_f64(rest.parse().ok()?).ok()?)),
            _ => None,
        }
    }

    /// Commands that look.
    fn show(&mut self, word: &str, rest: &str) {
        match (word, rest) {
            ("b" | "break", "") => println!("{:?}", self.breaks),
            ("b" | "break", text) => self.breaks.push(text.to_owned()),
            ("d" | "delete", text) => self.breaks.retain(|one| one != text),
            ("l" | "log", n) => {
                self.cluster.log.newest(n.parse().unwrap_or(20)).iter().for_each(|line| println!("{line}"));
            }
            ("h" | "host", n) => match n.trim_start_matches('h').parse::<usize>() {
                Ok(n) if n < self.cluster.members.len() => self.host(n),
                _ => println!("there is no host {n:?}"),
            },
            ("k" | "block", block) => match block.parse() {
                Ok(block) => self.block(block),
                Err(_) => println!("{block:?} is no block"),
            },
            ("w" | "watch", block) => match block.parse() {
                Ok(block) => self.cluster.watched.set(Some(block)),
                Err(_) => println!("{block:?} is no block"),
            },
            ("q" | "quit", _) => std::process::exit(0),
            _ => println!("{HELP}"),
        }
    }

    fn host(&self, n: usize) {
        let host = &self.cluster.members[n].host;
        println!("h{n}: id {}, process {}, up {}", host.id(), host.incarnation().0, host.is_up());
        let Some(node) = self.cluster.node(n) else { return println!("  not started") };
        for owned in node.objects().all_owned() {
            let status = owned.status();
            println!(
                "  owns {} {:?}, epoch {}, csn {}",
                status.config.name, status.config.object, status.epoch.number, status.csn
            );
            for member in &status.config.members {
                println!("    {:?} on host {}: {:?}", member.component, member.host, member.state);
            }
        }
        for store in node.stores() {
            let group = store.group();
            println!("  disk group {:?}, log {:?}", group.id(), group.log_health());
            for info in group.components() {
                let (settled, window) = (group.settled(info.id), group.window(info.id).len());
                println!("    {:?} of {:?}: settled {settled:?}, {window} operations above", info.id, info.object);
            }
            for (object, bytes) in group.records() {
                match cairn_format::decode_seat_record(&bytes) {
                    Some(record) => println!("    seat of {object:?}: {record:?}"),
                    None => println!("    seat of {object:?}: a record that cannot be read"),
                }
            }
        }
    }

    fn block(&self, block: u64) {
        for n in 0..self.cluster.members.len() {
            let Some(node) = self.cluster.node(n) else { continue };
            for store in node.stores() {
                let group = store.group();
                for info in group.components().iter().filter(|c| c.size_blocks > block) {
                    let region = block / u64::from(REGION_BLOCKS);
                    let changed = group.regions_after(info.id, OpId::ZERO);
                    let last = changed.iter().find(|(r, _)| u64::from(*r) == region).map(|(_, op)| *op);
                    let above: Vec<_> = group
                        .window(info.id)
                        .into_iter()
                        .filter(|u| u.range.first <= block && block < u.range.first + u64::from(u.range.count))
                        .map(|u| u.op)
                        .collect();
                    println!(
                        "  h{n} {:?} of {:?}: region last changed by {last:?}, not settled {above:?}",
                        info.id, info.object
                    );
                }
            }
        }
        println!("  blocks are those of the copies; `watch {block}` tells what guests do with it from now on");
    }
}
