//! Stories of owners: who may serve a disk, from when on, and until when.

use std::time::Duration;

use cairn_faults::Moment;

use super::{Scenario, Stage};
use crate::{plan::REPAIR_DELAY_MS, shape::Shape};

/// All of them.
pub fn all() -> Vec<Scenario> {
    [two_at_once(), too_early(), too_long()].into_iter().flatten().collect()
}

/// Who is owner.
fn two_at_once() -> Vec<Scenario> {
    let read_everywhere = |hosts| Shape::plain(hosts).read_everywhere();
    let crowded = |hosts| Shape::plain(hosts).crowded();
    vec![
        Scenario::new(
            "1. a half-accepted configuration elects its own owner",
            (
                "only one side of a partition ever serves, whichever record it has",
                "the owner replaces a dead copy while its link to the witness is cut, and dies; the old copy comes back, and the new \
                 one is on the other side",
            ),
            (read_everywhere(4), 4),
            half_accepted,
        ),
        Scenario::new(
            "8. a take-over races an append in flight",
            (
                "a write that waits for its group commit is in the window that the new owner sees, or refused",
                "the disk moves from host to host every 100 ms while all log devices are slow",
            ),
            (crowded(3), 16),
            take_over_races_appends,
        ),
        Scenario::new(
            "9. two seizers, one number; a reused sequence number",
            (
                "no epoch has two owners, and what the dead owner numbered is not taken for what the new one does",
                "owners die with writes in flight to one copy; the hosts that are left are cut from each other and all try",
            ),
            (read_everywhere(4), 4),
            two_seizers,
        ),
        Scenario::new(
            "10. a delayed write of the same epoch lands after a rejoin",
            (
                "the old session's writes are refused",
                "the way from the owner to a copy is cut for 0.3 to 3 s again and again: what stalled arrives late, or never",
            ),
            (crowded(3), 4),
            delayed_writes,
        ),
    ]
}

/// From when on, and until when.
fn too_early() -> Vec<Scenario> {
    let read_everywhere = |hosts| Shape::plain(hosts).read_everywhere();
    vec![
        Scenario::new(
            "11. serving too early",
            (
                "a stale copy and a witness are a majority, and do not serve",
                "one copy is away until it is recorded absent; the other dies before it is back",
            ),
            (read_everywhere(3), 4),
            serving_too_early,
        ),
        Scenario::new(
            "13. all peers stand still",
            (
                "whoever is left does not spend epochs on what cannot be had, and serves soon after they go on",
                "all hosts but one are paused for 20 s under load, and go on",
            ),
            (Shape::plain(3).crowded(), 4),
            peers_stand_still,
        ),
        Scenario::new(
            "11. a cold start in any order",
            (
                "nobody serves old bytes, and all is well soon",
                "all hosts lose power and start up to 4 s apart, four times",
            ),
            (read_everywhere(3), 3),
            cold_start,
        ),
        Scenario::new(
            "13. a lapsed session, a late heartbeat, a wedged process",
            (
                "whoever lost its lease gets no session back by a message that is late",
                "links of the owner are slower than a lease, one way and then the other; then its processor is somebody else's",
            ),
            (read_everywhere(3), 3),
            late_heartbeats,
        ),
        Scenario::new(
            "14. grantors restart just after granting",
            (
                "a host that starts grants nothing that the one before it may have granted otherwise",
                "the owner is cut off; those that granted it its lease die at once and start within 100 ms; a fourth host, that knows \
                 the owner is gone, takes over at once; clocks run at both ends of their bound",
            ),
            (read_everywhere(4), 6),
            grantors_restart,
        ),
    ]
}

/// What it may answer, and how late.
fn too_long() -> Vec<Scenario> {
    let read_everywhere = |hosts| Shape::plain(hosts).read_everywhere();
    let crowded = |hosts| Shape::plain(hosts).crowded();
    vec![
        Scenario::new(
            "14. the owner is cut off, and read",
            (
                "it answers no read when its lease has ended, also from its own copy",
                "the owner is cut off for 3 to 8 s, and read there all the time",
            ),
            (read_everywhere(3), 4),
            owner_cut_off,
        ),
        Scenario::new(
            "14. the owner pauses between its check and its answer",
            (
                "a read that waited through the pause is not answered from what was true before it",
                "the owner stands still for 2.5 to 10 s under reads, and somebody else takes over",
            ),
            (read_everywhere(3), 4),
            owner_pauses,
        ),
        Scenario::new(
            "P6. one failure stalls nobody for long",
            (
                "a process of a copy that died: under 1 s; a silent copy or a lost owner: under a lease (2 s), a notice and a take-over",
                "each kind of failure eight times, one at a time; the longest wait of any guest at a host that did not fail",
            ),
            (crowded(4), 2),
            one_failure_stalls,
        ),
        Scenario::new(
            "15. a retry is carried out twice",
            (
                "a request that is repeated at the next owner is done once, and nothing newer is overwritten by it",
                "the disk is handed round under load, connections are reset, and answers get lost",
            ),
            (crowded(3), 3),
            handed_round,
        ),
        Scenario::new(
            "15. an answer for the process before",
            (
                "who asks anew after a start gets no answer that was meant for the process before it",
                "the way to a copy is cut, so that requests wait at the owner; the third host, where guests are, is started anew meanwhile, \
                 and asks for other blocks; then the copy is recorded absent, and all is answered that waited",
            ),
            (Shape::plain(3).small().read_everywhere(), 16),
            process_before,
        ),
        Scenario::new(
            "15. a retry after very many requests of others",
            (
                "what a client that is cut off waits for is remembered, however much others do until it can ask again",
                "the answers of the owner to one host are cut for up to 4 s, ten times, while the guests of the others make more changes \
                 than copies have room to remember",
            ),
            (crowded(3), 4),
            answers_cut,
        ),
    ]
}

async fn half_accepted(stage: Stage) -> Result<(), String> {
    stage.ms(1000).await;
    let (copies, witnesses) = stage.copies_and_witnesses().await?;
    let (owner, old, witness) = (copies[0], copies[1], witnesses[0]);
    stage.attach(owner).await?;
    stage.crash(old);
    // The replacement begins after the repair delay, and the witness hears nothing of it.
    stage.ms(REPAIR_DELAY_MS - 500 + stage.below(500)).await;
    stage.cut(owner, witness);
    stage.ms(500 + stage.below(3000)).await;
    let new = (0..4).find(|n| ![owner, old, witness].contains(n)).expect("a fourth host");
    stage.crash(owner);
    stage.start(old);
    for one in [old, witness] {
        stage.cut(new, one);
    }
    stage.ms(3000).await;
    stage.start(owner);
    stage.ms(4000).await;
    stage.heal_links();
    stage.ms(2000).await;
    stage.rest(false).await
}

pub(super) async fn take_over_races_appends(stage: Stage) -> Result<(), String> {
    stage.ms(500).await;
    for n in 0..stage.hosts() {
        let name = Shape::device_name(0, None);
        stage.host(n).disk(&name).inject(cairn_sim::Fault::Slow { times: 40 });
    }
    for round in 0..40 {
        // Refused where somebody else is at it just then.
        let _ = stage.attach(round % stage.hosts()).await;
        stage.ms(stage.below(200)).await;
    }
    stage.rest(false).await
}

async fn two_seizers(stage: Stage) -> Result<(), String> {
    for _ in 0..4 {
        stage.ms(1500).await;
        let owner = stage.any();
        stage.attach(owner).await?;
        stage.ms(100 + stage.below(500)).await;
        let other = (owner + 1 + stage.below(3) as usize) % 4;
        // One copy gets what the other does not.
        stage.cluster.world.cut_one_way(stage.host(owner).id(), stage.host(other).id());
        stage.ms(stage.below(100)).await;
        stage.crash(owner);
        let left: Vec<usize> = (0..4).filter(|n| *n != owner).collect();
        stage.cut(left[0], left[1]);
        stage.ms(2500 + stage.below(3000)).await;
        stage.start(owner);
        stage.heal_links();
        stage.healthy().await?;
    }
    stage.rest(false).await
}

async fn delayed_writes(stage: Stage) -> Result<(), String> {
    stage.ms(500).await;
    for _ in 0..10 {
        let (copies, _) = stage.copies_and_witnesses().await?;
        let (from, to) = (stage.host(copies[0]).id(), stage.host(copies[1]).id());
        stage.cluster.world.cut_one_way(from, to);
        stage.ms(300 + stage.below(2700)).await;
        stage.cluster.world.heal(from, to);
        stage.ms(stage.below(1500)).await;
    }
    stage.rest(false).await
}

async fn process_before(stage: Stage) -> Result<(), String> {
    stage.ms(1000).await;
    for _ in 0..6 {
        let (copies, witnesses) = stage.copies_and_witnesses().await?;
        stage.attach(copies[0]).await?;
        stage.ms(200).await;
        stage.cut(copies[0], copies[1]);
        stage.ms(100 + stage.below(900)).await;
        for _ in 0..3 {
            stage.say(format!("h{} is started anew", witnesses[0]));
            stage.host(witnesses[0]).restart();
            stage.ms(100 + stage.below(200)).await;
        }
        // The copy falls silent, and is recorded absent.
        stage.ms(3000).await;
        stage.heal_links();
        stage.ms(2000).await;
    }
    stage.rest(false).await
}

async fn serving_too_early(stage: Stage) -> Result<(), String> {
    stage.ms(1000).await;
    let (copies, _) = stage.copies_and_witnesses().await?;
    let (active, stale) = (copies[0], copies[1]);
    stage.attach(active).await?;
    stage.isolate(stale);
    stage.told(Moment::Absent, 8000).await?;
    stage.goes_on(20, 2000).await?;
    stage.crash(active);
    stage.heal_links();
    stage.ms(500).await;
    let before = stage.acked();
    stage.ms(8000).await;
    if stage.acked() != before {
        return Err("P2: a stale copy and a witness took writes".into());
    }
    stage.start(active);
    stage.ms(2000).await;
    stage.rest(false).await
}

pub(super) async fn cold_start(stage: Stage) -> Result<(), String> {
    for _ in 0..4 {
        stage.ms(1500).await;
        (0..stage.hosts()).for_each(|n| stage.crash(n));
        let first = stage.any();
        for n in 0..stage.hosts() {
            stage.ms(stage.below(4000)).await;
            stage.start((first + n) % stage.hosts());
        }
        stage.healthy().await?;
    }
    stage.rest(false).await
}

async fn late_heartbeats(stage: Stage) -> Result<(), String> {
    for round in 0..4 {
        stage.ms(1500).await;
        let owner = stage.any();
        stage.attach(owner).await?;
        let slower = Duration::from_millis(1200 + stage.below(1800));
        stage.say(format!("links of h{owner} are slower by {slower:?}"));
        for other in (0..stage.hosts()).filter(|n| *n != owner) {
            let (a, b) = (stage.host(owner).id(), stage.host(other).id());
            match round % 2 {
                0 => stage.cluster.world.slow_link(a, b, slower),
                _ => stage.cluster.world.slow_link(b, a, slower),
            }
        }
        stage.ms(6000).await;
        stage.cluster.heal_everything();
        stage.say(format!("h{owner} gets no processor"));
        stage.host(owner).set_slow_steps(Duration::from_millis(2));
        stage.ms(4000).await;
        stage.cluster.heal_everything();
        stage.healthy().await?;
    }
    stage.rest(false).await
}

async fn grantors_restart(stage: Stage) -> Result<(), String> {
    use cairn_faults::CLOCK_PPM_MAX;
    let ppm = CLOCK_PPM_MAX as i64;
    for _ in 0..4 {
        stage.ms(1500).await;
        let members = stage.hosts_of(0).await?;
        let (owner, fourth) = (members[0], (0..4).find(|n| !members.contains(n)).expect("a host without a component"));
        stage.attach(owner).await?;
        for n in 0..stage.hosts() {
            stage.host(n).set_clock_rate_ppm(if n == owner { -ppm } else { ppm });
        }
        stage.ms(600 + stage.below(500)).await;
        stage.isolate(owner);
        let grantors = || members.iter().filter(|n| **n != owner);
        grantors().for_each(|n| stage.host(*n).kill());
        stage.cluster.world.half_open(stage.host(fourth).id(), stage.host(owner).id());
        for n in grantors() {
            stage.ms(stage.below(50)).await;
            stage.start(*n);
        }
        stage.ms(4000).await;
        stage.heal_links();
        stage.healthy().await?;
    }
    stage.rest(false).await
}

async fn owner_cut_off(stage: Stage) -> Result<(), String> {
    for _ in 0..4 {
        stage.ms(1500).await;
        let owner = stage.any();
        stage.attach(owner).await?;
        stage.ms(stage.below(300)).await;
        stage.isolate(owner);
        stage.ms(3000 + stage.below(5000)).await;
        stage.heal_links();
        stage.ms(500).await;
        stage.healthy().await?;
    }
    stage.rest(false).await
}

async fn owner_pauses(stage: Stage) -> Result<(), String> {
    for _ in 0..4 {
        stage.ms(1500).await;
        let owner = stage.any();
        stage.attach(owner).await?;
        stage.ms(stage.below(300)).await;
        stage.say(format!("h{owner} stands still"));
        stage.host(owner).pause();
        stage.ms(2500 + stage.below(7500)).await;
        stage.host(owner).resume();
        stage.ms(500).await;
        stage.healthy().await?;
    }
    stage.rest(false).await
}

pub(super) async fn handed_round(stage: Stage) -> Result<(), String> {
    for round in 0..25 {
        stage.ms(stage.below(400)).await;
        // Refused where a reset connection had to carry it.
        let _ = stage.attach(round % stage.hosts()).await;
        let (a, b) = (round % stage.hosts(), (round + 1) % stage.hosts());
        stage.ms(stage.below(20)).await;
        stage.cluster.world.disconnect(stage.host(a).id(), stage.host(b).id());
    }
    stage.rest(false).await
}

async fn answers_cut(stage: Stage) -> Result<(), String> {
    let (copies, witnesses) = stage.copies_and_witnesses().await?;
    let (owner, client) = (copies[0], witnesses[0]);
    stage.guests[0].start_at(owner, 8, 6);
    for _ in 0..10 {
        stage.attach(owner).await?;
        stage.ms(200 + stage.below(200)).await;
        let before = stage.acked();
        stage.cluster.world.cut_one_way(stage.host(owner).id(), stage.host(client).id());
        stage.ms(1500 + stage.below(2500)).await;
        stage.count("changes of others while one host is told nothing", stage.acked() - before);
        stage.heal_links();
        stage.ms(500).await;
    }
    stage.rest(false).await
}

/// A process that died is noticed at once.
const STALL_OF_A_DEAD_COPY: Duration = Duration::from_millis(1000);
/// The lease, and what the take-over may cost beyond it.
const STALL_OF_SILENCE: Duration = Duration::from_millis(4000);

pub(super) async fn one_failure_stalls(stage: Stage) -> Result<(), String> {
    let guests = stage.guests[0].clone();
    for round in 0..48 {
        stage.ms(500).await;
        stage.healthy().await?;
        let (copies, _) = stage.copies_and_witnesses().await?;
        let kind = round % 6;
        let (owner, other) = (copies[0], copies[1]);
        // Another host may be at it: then this round is without that, and once more.
        if stage.attach(owner).await.is_err() {
            continue;
        }
        stage.ms(200 + stage.below(600)).await;
        let (victim, bound) = match kind {
            0 => (other, STALL_OF_A_DEAD_COPY),
            1 | 2 => (other, STALL_OF_SILENCE),
            _ => (owner, STALL_OF_SILENCE),
        };
        guests.aside.set(Some(victim));
        guests.longest.set(Duration::ZERO);
        match kind {
            0 | 3 => stage.host(victim).kill(),
            1 | 4 => stage.crash(victim),
            2 => stage.isolate(victim),
            _ => stage.host(victim).pause(),
        }
        // Those that wait count only when they are answered.
        stage.ms(6000).await;
        let longest = guests.longest.get();
        let what = ["killed", "without power", "cut off", "killed", "without power", "paused"][kind as usize];
        let whose = if victim == owner { "the owner's host" } else { "a copy's host" };
        stage.say(format!("longest wait with {whose} {what}: {longest:?}"));
        stage.note(format!("{whose} {what}"), longest);
        if longest > bound {
            return Err(format!("P6: with {whose} {what} a guest waited for {longest:?}, more than {bound:?}"));
        }
        stage.cluster.heal_everything();
    }
    guests.aside.set(None);
    stage.rest(false).await
}

/// Epochs that 20 s may cost: a try a second, those at first, and what each of the others tries when they go on.
const EPOCHS_MAX: u64 = 60;

async fn peers_stand_still(stage: Stage) -> Result<(), String> {
    stage.ms(1000).await;
    let left = stage.any();
    let before = stage.cluster.epoch_max();
    let others = || (0..stage.hosts()).filter(|n| *n != left);
    others().for_each(|n| stage.host(n).pause());
    stage.ms(20_000).await;
    others().for_each(|n| stage.host(n).resume());
    stage.ms(4000).await;
    stage.goes_on(20, 2000).await?;
    stage.guests[0].stop().await;
    stage.attach(left).await?;
    let epochs = stage.cluster.epoch_max() - before;
    stage.count("epochs in 20 s", epochs);
    if epochs > EPOCHS_MAX {
        return Err(format!("P6: {epochs} epochs were spent on what could not be had"));
    }
    stage.rest(false).await
}
