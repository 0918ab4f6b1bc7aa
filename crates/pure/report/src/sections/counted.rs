//! Amplification: from what guests wrote to what devices wrote.

use cairn_study::Counters;

use super::Source;
use crate::{
    document::{Block, Section},
    group::Config,
    number::{NOT_KNOWN, decimal, mib, percent},
    table::Table,
};

/// What the counters of the target say of each configuration, its repeats together.
pub fn section(source: &Source<'_>) -> Option<Section> {
    let writes = [
        "configuration",
        "guests wrote (MiB)",
        "into copies",
        "to logs",
        "destaged",
        "capacity: destage",
        "capacity: cleaning",
        "capacity: other",
    ];
    let mut written = Table::new("Writes: guests, copies, logs, capacity devices", 1, &writes).note(
        "As multiples of what guests wrote, of all repeats from the begin of the ramp to the end of the run; resync counts as copies. What is \
         still buffered at the end was not destaged yet.",
    );
    let reads =
        ["configuration", "guests read (MiB)", "from write buffers", "from the read cache", "from capacity devices"];
    let mut read = Table::new("Reads: where they were answered from", 1, &reads);
    for config in source.arms.iter().flat_map(|arm| &arm.configs) {
        if let Some(counted) = counted(config) {
            written.row(writes_of(config.id, &counted));
            read.row(reads_of(config.id, &counted));
        }
    }
    let tables = [written, read].into_iter().filter(|table| !table.rows.is_empty());
    Section::of("Amplification", tables.map(Block::Table).collect())
}

/// The sum over its repeats; none where one of them was not counted.
fn counted(config: &Config<'_>) -> Option<Counters> {
    let counted: Option<Vec<Counters>> = config.sound().map(|cell| cell.counted).collect();
    counted?.into_iter().reduce(|a, b| Counters {
        guest_written_bytes: a.guest_written_bytes.saturating_add(b.guest_written_bytes),
        guest_read_bytes: a.guest_read_bytes.saturating_add(b.guest_read_bytes),
        buffered_bytes: a.buffered_bytes.saturating_add(b.buffered_bytes),
        log_written_bytes: a.log_written_bytes.saturating_add(b.log_written_bytes),
        destaged_bytes: a.destaged_bytes.saturating_add(b.destaged_bytes),
        capacity_written_by_destage_bytes: a
            .capacity_written_by_destage_bytes
            .saturating_add(b.capacity_written_by_destage_bytes),
        capacity_written_by_cleaning_bytes: a
            .capacity_written_by_cleaning_bytes
            .saturating_add(b.capacity_written_by_cleaning_bytes),
        capacity_written_otherwise_bytes: a
            .capacity_written_otherwise_bytes
            .saturating_add(b.capacity_written_otherwise_bytes),
        read_from_buffer_bytes: a.read_from_buffer_bytes.saturating_add(b.read_from_buffer_bytes),
        read_from_cache_bytes: a.read_from_cache_bytes.saturating_add(b.read_from_cache_bytes),
        read_from_capacity_bytes: a.read_from_capacity_bytes.saturating_add(b.read_from_capacity_bytes),
        // Gauges are no sums, and stand in no table here.
        ..b
    })
}

fn writes_of(id: &str, counted: &Counters) -> Vec<String> {
    let guests = counted.guest_written_bytes;
    let times = |bytes: u64| match guests {
        0 => NOT_KNOWN.to_owned(),
        guests => format!("{}x", decimal(bytes as f64 / guests as f64, 2)),
    };
    vec![
        id.to_owned(),
        decimal(mib(guests as f64), 1),
        times(counted.buffered_bytes),
        times(counted.log_written_bytes),
        times(counted.destaged_bytes),
        times(counted.capacity_written_by_destage_bytes),
        times(counted.capacity_written_by_cleaning_bytes),
        times(counted.capacity_written_otherwise_bytes),
    ]
}

fn reads_of(id: &str, counted: &Counters) -> Vec<String> {
    let parts = [counted.read_from_buffer_bytes, counted.read_from_cache_bytes, counted.read_from_capacity_bytes];
    let all: f64 = parts.iter().map(|part| *part as f64).sum();
    let share = |part: u64| percent((all > 0.0).then(|| part as f64 / all), 1);
    let mut row = vec![id.to_owned(), decimal(mib(counted.guest_read_bytes as f64), 1)];
    row.extend(parts.map(share));
    row
}
