//! Rules of `iometer-qos`.

use super::{LITTLE_OFF_MAX, each, list, mean_iops, verdict};
use crate::{Cell, Manifest, Results, Verdict};

pub(crate) fn rules(manifest: &Manifest, results: &Results) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    let tests = list(manifest, "tests");
    if tests.contains(&"vms-4") && tests.contains(&"vms-64") {
        // Only an arm whose reads do not wait for an arm of a disk can grow with the machines.
        let flash = manifest.media.iter().filter(|arm| arm.capacity != "hdd10k");
        for arm in flash {
            let at = |vms: u32| mean_iops(results, &format!("{}/vms-{vms}", arm.arm));
            if let (Some(few), Some(many)) = (at(4), at(64)) {
                let ratio = many / few.max(1e-9);
                let because = format!("{}: {many:.0} / {few:.0} = {ratio:.1}", arm.arm);
                verdicts.push(verdict("64 machines reach at least 8 times the rate of 4", ratio >= 8.0, because));
            }
        }
    }
    let one_each = |cell: &&Cell| {
        let asked = f64::from(cell.params.vms);
        cell.checks.outstanding.is_none_or(|outstanding| (outstanding / asked - 1.0).abs() > LITTLE_OFF_MAX)
    };
    let wrong = results.cells.iter().filter(one_each).map(|cell| format!("{}, repeat {}", cell.id, cell.repeat));
    verdicts.push(each("one request outstanding for each machine", "in every run".into(), wrong.collect()));
    verdicts
}
