//! Rules of `policy-matrix`.

use super::{list, mean_iops, verdict};
use crate::{Action, ArmMedia, Manifest, Results, Verdict};

pub(crate) fn rules(manifest: &Manifest, results: &Results) -> Vec<Verdict> {
    let Some(first) = manifest.media.first() else { return Vec::new() };
    let media = |arm: &ArmMedia| (arm.cache.clone(), arm.capacity.clone(), arm.dilation.to_bits());
    let policy = |arm: &ArmMedia| (arm.data_strips, arm.saves);
    let same_media = manifest.media.iter().all(|arm| media(arm) == media(first));
    let each_other = manifest.media.windows(2).all(|two| policy(&two[0]) != policy(&two[1]));
    let told = |arm: &ArmMedia| {
        let saves = if arm.saves { ", disk groups that pack and store equal blocks once" } else { "" };
        format!("{}: {} strips of data in a row{saves}", arm.arm, arm.data_strips)
    };
    let arms: Vec<String> = manifest.media.iter().map(told).collect();
    let mut verdicts =
        vec![verdict("arms differ in the policy or in what disk groups do", same_media && each_other, arms.join("; "))];
    verdicts.extend(manifest.media.iter().filter_map(|arm| reads_are_faster(manifest, results, &arm.arm)));
    verdicts.extend(manifest.media.iter().filter_map(|arm| takes_what_it_says(manifest, arm)));
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

/// Blocks take what they are long, or, where disk groups save, less than a quarter: of ten equal ones one is stored, and a tenth of it is noise.
fn takes_what_it_says(manifest: &Manifest, arm: &ArmMedia) -> Option<Verdict> {
    let of_arm = manifest.steps.iter().filter(|step| step.arm == arm.arm);
    let (before, after) = of_arm
        .filter_map(|step| match step.action {
            Action::Space { before_bytes, after_bytes, .. } => Some((before_bytes, after_bytes)),
            _ => None,
        })
        .next_back()?;
    let because = format!("{}: {before} bytes are held in {after} bytes of blocks", arm.arm);
    // Overwritten blocks are held twice until that is settled.
    let holds = if arm.saves { after * 4 < before } else { (after..=after + after / 100).contains(&before) };
    Some(verdict("blocks take what their disk groups say", holds && before > 0, because))
}
