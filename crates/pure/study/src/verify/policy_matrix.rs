//! Rules of `policy-matrix`.

use super::{list, mean_iops, verdict};
use crate::{ArmMedia, Manifest, Results, Verdict};

pub(crate) fn rules(manifest: &Manifest, results: &Results) -> Vec<Verdict> {
    let [first, second] = &manifest.media[..] else { return Vec::new() };
    let on_the_same = |arm: &ArmMedia| (arm.cache.clone(), arm.capacity.clone(), arm.dilation.to_bits());
    let only_policy = on_the_same(first) == on_the_same(second) && first.data_strips != second.data_strips;
    let rows = |arm: &ArmMedia| format!("{}: {} strips of data in a row", arm.arm, arm.data_strips);
    let mut verdicts =
        vec![verdict("arms differ in the policy only", only_policy, format!("{}; {}", rows(first), rows(second)))];
    verdicts.extend(manifest.media.iter().filter_map(|arm| reads_are_faster(manifest, results, &arm.arm)));
    verdicts
}

/// A write goes to two hosts at least, a read to one: in the cache, where no medium of the capacity tier is asked.
fn reads_are_faster(manifest: &Manifest, results: &Results, arm: &str) -> Option<Verdict> {
    let of =
        |test: &str| list(manifest, "tests").contains(&test).then(|| mean_iops(results, &format!("{arm}/{test}")))?;
    let (writes, reads) = (of("cache-read-0")?, of("cache-read-100")?);
    let because = format!("{arm}: {reads:.0} reads a second in the cache, {writes:.0} writes");
    Some(verdict("reads of the cache are faster than writes", reads > writes, because))
}
