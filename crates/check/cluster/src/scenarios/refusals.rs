//! The story of what is refused: it says why, and leaves nothing behind (P7, I9).

use cairn_api::{ApiErrorKind, ApiResult, LocalManagement, v1};

use super::{Scenario, Stage};
use crate::{rest, shape::Shape};

/// All of them.
pub fn all() -> Vec<Scenario> {
    vec![Scenario::new(
        "P7. what is refused says why",
        (
            "whoever is refused reads what is missing, where, and what to do; nothing of it is left behind, and guests go on",
            "a policy that needs more hosts than there are; two of four hosts down; more room than any device has; names that are \
             taken, unknown or no names; sizes that cannot be",
        ),
        (Shape::plain(4), 2),
        refusals,
    )]
}

/// The refusal, if it has all of these words.
fn explained<T>(what: &str, result: ApiResult<T>, kind: ApiErrorKind, words: &[&str]) -> Result<(), String> {
    let Err(error) = result else { return Err(format!("P7: {what} is not refused")) };
    let text = error.to_string();
    if error.kind != kind {
        return Err(format!("P7: {what} is refused as {:?}: {text}", error.kind));
    }
    match words.iter().find(|word| !text.contains(*word)) {
        Some(word) => Err(format!("P7: {what} is refused without a word of {word:?}: {text}")),
        None => Ok(()),
    }
}

async fn refusals(stage: Stage) -> Result<(), String> {
    stage.ms(1000).await;
    let at = stage.any();
    let rules = v1::PolicyRules::default;
    for (name, rules) in [
        ("ftt-2", v1::PolicyRules { ftt: 2, ..rules() }),
        ("thick", v1::PolicyRules { reservation_percent: 100, ..rules() }),
    ] {
        let request = v1::PolicyCreate { name: name.into(), rules };
        let made = stage.cluster.manage(at, async move |node| node.policy_create(request).await.map(drop)).await;
        made.map_err(|e| e.to_string())?;
    }
    let create = async |name: &str, bytes: u64, policy: Option<&str>| {
        stage.cluster.create_disk(at, name, bytes, policy.map(str::to_owned)).await
    };
    let few = create("five", 1 << 20, Some("ftt-2")).await;
    explained("FTT 2 on four hosts", few, ApiErrorKind::Refused, &["5 fault domains", "4 are up", "Add 1 host"])?;
    let large = create("large", 1 << 40, Some("thick")).await;
    explained(
        "a reservation of 1 TiB",
        large,
        ApiErrorKind::Refused,
        &["room for", "free on one device", "reserve less"],
    )?;
    let taken = create(&Shape::disk_name(0), 1 << 20, None).await;
    explained("a name that is taken", taken, ApiErrorKind::Conflict, &[&Shape::disk_name(0), "exists already"])?;
    let odd = create("odd", 1000, None).await;
    explained("a size of 1000 bytes", odd, ApiErrorKind::Invalid, &["1000", "512"])?;
    let nameless = create("a/b", 1 << 20, None).await;
    explained("a name with a slash", nameless, ApiErrorKind::Invalid, &["a/b"])?;
    let unknown = create("other", 1 << 20, Some("gold")).await;
    explained("an unknown policy", unknown, ApiErrorKind::NotFound, &["gold"])?;
    let gone = stage.cluster.delete_disk(at, "nothing").await;
    explained("to delete an unknown disk", gone, ApiErrorKind::NotFound, &["nothing"])?;
    let request = v1::DiskResize { size_bytes: 1 << 20 };
    let less = stage.cluster.manage(at, async move |node| node.disk_resize(Shape::disk_name(0), request).await).await;
    explained("to shrink a disk", less, ApiErrorKind::Refused, &["cannot shrink", "copy it to a smaller one"])?;
    two_hosts_down(&stage, at).await?;
    stage.goes_on(20, 5000).await?;
    stage.healthy().await?;
    stage.guests[0].stop().await;
    let config = stage.config(0).await?;
    rest::no_orphans(&stage.cluster, &[config], false).await?;
    let listed = stage.cluster.manage(at, async |node| node.disk_list().await).await.map_err(|e| e.to_string())?;
    match listed.len() {
        1 => stage.rest(false).await,
        n => Err(format!("I9: {n} disks are listed after all that was refused, not 1")),
    }
}

/// Who is missing is named.
async fn two_hosts_down(stage: &Stage, at: usize) -> Result<(), String> {
    let down: Vec<usize> = (0..stage.hosts()).filter(|n| *n != at).take(2).collect();
    down.iter().for_each(|n| stage.crash(*n));
    stage.ms(4000).await;
    let names: Vec<String> = down.iter().map(|n| format!("h{n} is down")).collect();
    let words: Vec<&str> =
        ["3 fault domains", "2 are up"].into_iter().chain(names.iter().map(String::as_str)).collect();
    let refused = stage.cluster.create_disk(at, "three", 1 << 20, None).await;
    explained("a mirror on two hosts", refused, ApiErrorKind::Refused, &words)?;
    down.iter().for_each(|n| stage.start(*n));
    Ok(())
}
