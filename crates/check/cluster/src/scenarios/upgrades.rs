//! The story of an upgrade: one host at a time, back again, to the end; then an older host is turned away.

use std::time::Duration;

use cairn_api::{ApiError, ApiResult, LocalManagement, v1};

use super::{Scenario, Stage};
use crate::{
    release::Release::{self, Current, Previous},
    shape::Shape,
};

/// All of them.
pub fn all() -> Vec<Scenario> {
    let made_by_previous = |shape: Shape| Shape { release: Previous, ..shape };
    vec![Scenario::new(
        "P6. an upgrade, one host at a time",
        (
            "hosts of two releases work together until the upgrade is finished, which is refused in words while one is old or away; \
                 from then on an old one is turned away in words, and guests go on all the time",
            "a cluster of the previous release under load: its hosts are stopped or killed, and start as the next release; two go back \
                 and come again; the upgrade is finished while one host does not reach the directory; one goes back all the same",
        ),
        (made_by_previous(Shape::plain(4).crowded()), 4),
        one_by_one,
    )]
}

/// The longest wait of a guest at a host that is not replaced: a lease, and what the take-over may cost beyond it.
const STALL_MAX: Duration = Duration::from_millis(4000);

impl Stage {
    /// The host stops, or is killed, and starts as this release.
    async fn replace(&self, n: usize, release: Release) -> Result<(), String> {
        let guests = self.guests[0].clone();
        guests.aside.set(Some(n));
        guests.longest.set(Duration::ZERO);
        let how = if self.below(2) == 0 { "stopped" } else { "killed" };
        self.say(format!("h{n} is {how}, and starts as {release:?}"));
        if how == "stopped"
            && let Some(node) = self.cluster.node(n)
        {
            let _ = self.cluster.run_on(n, Duration::from_secs(20), async move { node.stop().await }).await;
        }
        self.host(n).kill();
        self.ms(100 + self.below(1500)).await;
        self.cluster.members[n].set_release(release);
        self.start(n);
        self.ms(3000).await;
        let longest = guests.longest.get();
        guests.aside.set(None);
        self.note(format!("a host {how}"), longest);
        if longest > STALL_MAX {
            return Err(format!("P6: with a host {how} a guest waited for {longest:?}, more than {STALL_MAX:?}"));
        }
        Ok(())
    }

    async fn finish(&self, at: usize, dry_run: bool) -> ApiResult<v1::Upgrade> {
        let request = v1::UpgradeFinish { dry_run };
        self.cluster.manage(at, async move |node| node.cluster_upgrade_finish(request).await).await
    }

    /// Finishing is refused, with all of these words.
    async fn not_finished(&self, at: usize, words: &[String]) -> Result<(), String> {
        for dry_run in [true, false] {
            match self.finish(at, dry_run).await.as_ref().map_err(ApiError::to_string) {
                Ok(upgrade) => return Err(format!("the upgrade is finished too early: {upgrade:?}")),
                Err(text) => {
                    if let Some(word) = words.iter().find(|word| !text.contains(*word)) {
                        return Err(format!("P7: finishing is refused without a word of {word:?}: {text}"));
                    }
                }
            }
        }
        Ok(())
    }

    /// Nobody was turned away so far.
    fn nobody_refused(&self) -> Result<(), String> {
        match self.cluster.world.refusals().first() {
            Some(why) => Err(format!("before the upgrade is finished: {why}")),
            None => Ok(()),
        }
    }

    fn levels(&self) -> Vec<u32> {
        (0..self.hosts()).filter_map(|n| self.cluster.node(n)).map(|node| node.level().0).collect()
    }
}

fn is_old(n: usize) -> String {
    format!("host h{n} runs 0.3.0, which speaks protocols 12 to 13 and not 14: upgrade it")
}

async fn one_by_one(stage: Stage) -> Result<(), String> {
    stage.ms(1000).await;
    let hosts = stage.hosts();
    let first = stage.any();
    let order: Vec<usize> = (0..hosts).map(|n| (first + n) % hosts).collect();
    for (done, n) in order.iter().enumerate() {
        stage.replace(*n, Current).await?;
        stage.healthy().await?;
        stage.goes_on(20, 2000).await?;
        let old: Vec<String> = order[done + 1..].iter().copied().map(is_old).collect();
        if !old.is_empty() {
            stage.not_finished(first, &old).await?;
        }
        // Halfway two go back: nothing that they do not read was sent or written.
        if done == 1 {
            stage.replace(*n, Previous).await?;
            stage.replace(first, Previous).await?;
            stage.healthy().await?;
            stage.replace(first, Current).await?;
            stage.replace(*n, Current).await?;
            stage.healthy().await?;
        }
        stage.nobody_refused()?;
    }
    // All are new, and one is away.
    let last = order[hosts - 1];
    stage.host(last).kill();
    stage.ms(3000).await;
    stage
        .not_finished(first, &[format!("host h{last} does not answer; it ran {} last", Current.build().version)])
        .await?;
    stage.start(last);
    stage.healthy().await?;
    finished(&stage, first, last).await?;
    turned_away(&stage, order[1]).await?;
    stage.rest(false).await
}

/// It is finished; a host that does not reach the directory hears of it from the others.
async fn finished(stage: &Stage, at: usize, shut_off: usize) -> Result<(), String> {
    let preview = stage.finish(at, true).await.map_err(|e| e.to_string())?;
    if (preview.level, preview.level_next, preview.obstacles.len()) != (13, 14, 0) || stage.levels() != [13; 4] {
        return Err(format!("a preview is no finish: {preview:?}, levels {:?}", stage.levels()));
    }
    stage.say(format!("h{shut_off} does not reach the directory"));
    stage.cluster.members[shut_off].gate.set_shut(true);
    let done = stage.finish(at, false).await.map_err(|e| e.to_string())?;
    if (done.level, done.level_next) != (14, 14) || !done.features.iter().all(|feature| feature.on) {
        return Err(format!("the upgrade is not finished: {done:?}"));
    }
    stage.ms(1000).await;
    if stage.levels() != [14; 4] {
        return Err(format!("after a heartbeat not all hosts know that the upgrade is finished: {:?}", stage.levels()));
    }
    // Once more is no error; and it outlives a start without the directory.
    stage.finish(at, false).await.map_err(|e| e.to_string())?;
    stage.cluster.members[shut_off].gate.set_shut(false);
    stage.ms(2000).await;
    stage.nobody_refused()?;
    stage.cluster.members.iter().for_each(|member| member.gate.set_shut(true));
    stage.replace(shut_off, Current).await?;
    if stage.levels() != [14; 4] {
        return Err(format!("a start without the directory does not know the level: {:?}", stage.levels()));
    }
    stage.cluster.members.iter().for_each(|member| member.gate.set_shut(false));
    stage.ms(2000).await;
    stage.healthy().await
}

/// An older release is refused by all others, in words, and its guests' disks go on without it.
async fn turned_away(stage: &Stage, old: usize) -> Result<(), String> {
    stage.replace(old, Previous).await?;
    stage.ms(3000).await;
    let words = format!(
        "host h{old} runs 0.3.0, which speaks protocols 12 to 13; this cluster was upgraded to 14 and no longer does: start 0.4.0 or later"
    );
    if !stage.cluster.world.refusals().contains(&words) {
        return Err(format!("P7: an old host is not turned away in words: {:?}", stage.cluster.world.refusals()));
    }
    if stage.cluster.node(old).is_none_or(|node| !node.peers_up().is_empty()) {
        return Err("an old host is connected".into());
    }
    stage.goes_on(20, 2000).await?;
    stage.replace(old, Current).await?;
    stage.healthy().await
}
