//! `cairn cluster capacity`, and the parts of a disk group's devices.

use cairn_api::v1::{ClusterCapacity, DiskGroupSpace};
use cairn_types::format_bytes;

use super::Context;
use crate::{fail::Fail, output, units::percent};

/// Shows where the bytes of all devices are.
pub async fn run(context: &Context) -> Result<(), Fail> {
    let told = context.client.cluster_capacity().await?;
    output::show(context.format, &told, show)
}

fn show(told: &ClusterCapacity) -> String {
    let head = output::pairs([
        ("disk groups", told.disk_groups.to_string()),
        ("provisioned", format!("{} (sizes of all disks, each once)", format_bytes(told.provisioned_bytes))),
        ("not counted", told.not_counted.join("\n")),
    ]);
    format!("{head}\n\n{}", parts(&told.space))
}

/// Where bytes are, one part a line. Those of capacity devices add up to their size, and so do those of what stands there before.
pub fn parts(space: &DiskGroupSpace) -> String {
    let held_bytes = space.held_bytes();
    let ratio = |hundredths: u64| format!("{}.{:02} : 1", hundredths / 100, hundredths % 100);
    let packed = |hundredths: u64| format!("{} ({})", format_bytes(space.stored_before_bytes), ratio(hundredths));
    let before_packing = space.saved_ratio_percent().map_or(String::new(), packed);
    let all = (held_bytes * 100).checked_div(space.stored_bytes).map_or(String::new(), ratio);
    let of = |bytes: u64| format!("{} ({})", format_bytes(bytes), percent(bytes, space.capacity_bytes));
    let used_of = |used: u64, bytes: u64| format!("{} of {}", format_bytes(used), format_bytes(bytes));
    let unless_zero = |bytes: u64| if bytes > 0 { format_bytes(bytes) } else { String::new() };
    output::pairs([
        ("held, 4 KiB a block", format_bytes(held_bytes)),
        ("- by disks", format_bytes(space.disks_bytes)),
        ("- by clones", unless_zero(space.clones_bytes)),
        ("- by snapshots", unless_zero(space.snapshots_bytes)),
        ("- by no known disk", unless_zero(space.unknown_bytes)),
        ("reserved, not written", unless_zero(space.promised_bytes)),
        ("capacity devices", format_bytes(space.capacity_bytes)),
        ("- blocks", of(space.stored_bytes)),
        ("- headers of blocks", of(space.headers_bytes)),
        ("- waits for the cleaner", of(space.dead_bytes)),
        ("- the cleaner's reserve", of(space.cleaner_reserve_bytes)),
        ("- free", of(space.free_bytes)),
        ("- superblocks, ends", of(space.outside_bytes)),
        ("blocks before packing", before_packing),
        ("held, of blocks", all),
        ("checksums, of the above", format_bytes(space.checksums_bytes)),
        ("write buffer in use", used_of(space.log_used_bytes, space.log_bytes)),
        ("metadata in use", used_of(space.metadata_used_bytes, space.metadata_bytes)),
    ])
}
