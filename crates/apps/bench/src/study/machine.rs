//! Facts of this machine for the manifest, as the kernel tells them.

use std::fs;

use cairn_study::Machine;

/// What /proc says; empty and 0 for what it does not.
pub(crate) fn facts() -> Machine {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let field = |text: &str, name: &str| {
        let line = text.lines().find(|line| line.starts_with(name))?.split_once(':')?.1.trim();
        Some(line.to_owned())
    };
    let (processors, memory) = (read("/proc/cpuinfo"), read("/proc/meminfo"));
    let kib = field(&memory, "MemTotal").and_then(|text| text.split_whitespace().next()?.parse::<u64>().ok());
    Machine {
        kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
        processor: field(&processors, "model name").unwrap_or_default(),
        processors: std::thread::available_parallelism().map_or(0, |count| count.get() as u32),
        memory_bytes: kib.unwrap_or_default() * 1024,
    }
}
