//! The story of what is refused: it says why, and leaves nothing behind (P7, I9).

use cairn_api::{ApiErrorKind, ApiResult, LocalManagement, v1};
use cairn_sim::Fault;
use cairn_types::format_bytes;
use cairn_volume::{Session, SessionCounters};

use super::{Scenario, Stage};
use crate::{
    bad_blocks::{Where, spoil_copies},
    rest,
    shape::Shape,
};

/// All of them.
pub fn all() -> Vec<Scenario> {
    vec![
        no_changes(),
        ailments(),
        unreadable(),
        promises(),
        full_file_system(),
        Scenario::new(
            "P7. what is refused says why",
            (
                "whoever is refused reads what is missing, where, and what to do; nothing of it is left behind, and guests go on",
                "a policy that needs more hosts than there are; two of four hosts down; more room than any device has; more components than a record can name; names that are \
             taken, unknown or no names; sizes that cannot be; a deletion of a disk that a session has open",
            ),
            (Shape::plain(4), 2),
            refusals,
        ),
    ]
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
        ("wide", v1::PolicyRules { stripe_width: 8, ..rules() }),
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
    let wide = create("wide", 62 << 40, Some("wide")).await;
    explained("a disk of 3984 components", wide, ApiErrorKind::Refused, &["3984 components", "at most", "GiB"])?;
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
    in_use(&stage, at).await?;
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

/// A disk that a session has open is deleted by force only. What is left of the session then is none with the next disk of that name.
async fn in_use(stage: &Stage, at: usize) -> Result<(), String> {
    const DISK: &str = "used";
    let elsewhere = (at + 1) % stage.hosts();
    let made = stage.cluster.create_disk(at, DISK, 1 << 20, None).await.map_err(|e| e.to_string())?;
    let session = Session {
        disk_id: made.summary.id,
        disk: DISK.into(),
        front_end: "nbd",
        peer: "10.0.0.9:50000".into(),
        since_unix_ms: 1,
        counters: SessionCounters::default(),
    };
    stage.cluster.tell_session(elsewhere, session);
    let show = async || stage.cluster.manage(at, async |node| node.disk_show(DISK.into()).await).await;
    let named = format!("nbd at h{elsewhere} from 10.0.0.9:50000");
    let refused = stage.cluster.delete_disk(at, DISK).await;
    explained("to delete a disk in use", refused, ApiErrorKind::Conflict, &[DISK, "in use", &named, "force"])?;
    let shown: Vec<String> =
        show().await.map_err(|e| e.to_string())?.sessions.iter().map(ToString::to_string).collect();
    if shown != [named] {
        return Err(format!("P7: a disk that was not deleted is shown with the sessions {shown:?}"));
    }
    let how = v1::DiskDelete { force: true };
    let forced = stage.cluster.manage(at, async move |node| node.disk_delete(DISK.into(), how).await).await;
    forced.map_err(|e| e.to_string())?;
    stage.cluster.create_disk(at, DISK, 1 << 20, None).await.map_err(|e| e.to_string())?;
    let left = show().await.map_err(|e| e.to_string())?.sessions;
    if !left.is_empty() {
        return Err(format!("the sessions of a deleted disk are those of the next of its name: {left:?}"));
    }
    stage.cluster.delete_disk(at, DISK).await.map_err(|e| e.to_string())
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

fn no_changes() -> Scenario {
    Scenario::new(
        "P7. a directory that takes no changes",
        (
            "a deletion that cannot be finished is not begun; one that was begun is told of, and finished when changes are taken again",
            "a disk in use is deleted while the directory refuses all changes; another one while it takes one more and then none",
        ),
        (Shape::plain(4), 2),
        full_directory,
    )
}

async fn full_directory(stage: Stage) -> Result<(), String> {
    stage.ms(1000).await;
    let at = stage.any();
    let (used, other) = (Shape::disk_name(0), "other");
    stage.cluster.create_disk(at, other, 1 << 20, None).await.map_err(|e| e.to_string())?;
    stage.say("the directory takes no changes");
    stage.cluster.members.iter().for_each(|member| member.way.take_changes(0));
    if stage.cluster.delete_disk(at, &used).await.is_ok() {
        return Err("a deletion is said to be done, and the directory takes no changes".into());
    }
    finds(&stage, at, "directory", "takes no changes").await?;
    stage.goes_on(20, 5000).await?;
    stage.say("one host's next change is taken, and then none");
    stage.cluster.members[at].way.take_changes(1);
    if stage.cluster.delete_disk(at, other).await.is_ok() {
        return Err("a deletion is said to be done, and its name is not free".into());
    }
    stage.ms(2000).await;
    finds(&stage, at, "deletions", other).await?;
    stage.say("the directory takes changes again");
    stage.cluster.members.iter().for_each(|member| member.way.heal());
    stage.ms(30_000).await;
    let listed = stage.cluster.manage(at, async |node| node.disk_list().await).await.map_err(|e| e.to_string())?;
    let names: Vec<&str> = listed.iter().map(|disk| disk.name.as_str()).collect();
    if names != [used.as_str()] {
        return Err(format!("after the deletion of {other:?} there are {names:?}"));
    }
    stage.goes_on(20, 5000).await?;
    stage.rest(false).await
}

fn ailments() -> Scenario {
    Scenario::new(
        "P7. health names what ails",
        (
            "what a guest or an administrator feels has a finding within 30 s, whichever host is asked",
            "a clock is an hour wrong; a host is down; then both hosts with a copy have each other's devices, so that no disk group opens",
        ),
        (Shape::plain(4), 2),
        health_names,
    )
}

fn unreadable() -> Scenario {
    Scenario::new(
        "P7. health names blocks that no copy can give",
        (
            "a disk with such blocks is named with their number, whichever host is asked, until they are written; nothing else is refused",
            "guests stop; some blocks cannot be read at both copies; a guest reads all; they are restored",
        ),
        (Shape::plain(4), 3),
        bad_on_both,
    )
}

async fn bad_on_both(stage: Stage) -> Result<(), String> {
    const BLOCKS: usize = 16;
    stage.ms(3000).await;
    stage.guests[0].stop().await;
    stage.ms(3000).await;
    let (copies, _) = stage.copies_and_witnesses().await?;
    stage.guests[0].media_errors_judged.set(true);
    let spoiled = spoil_copies(&stage.cluster, [copies[0], copies[1]], (BLOCKS, Where::Both));
    stage.guests[0].verify_what_is_left().await?;
    // Of some, what was spoiled is older than what the log has, or was trimmed since.
    let words = |count: u64| format!("disk {}: {count} blocks", Shape::disk_name(0));
    let mut told = BLOCKS as u64;
    while finds(&stage, copies[0], "unreadable-blocks", &words(told)).await.is_err() {
        told = told.checked_sub(1).ok_or("P7: no unreadable block is told")?;
    }
    for at in 0..stage.hosts() {
        finds(&stage, at, "unreadable-blocks", &words(told)).await?;
    }
    let restored = stage.guests[0].restore(copies[0], false).await?;
    stage.count("blocks that no copy could give", restored);
    if restored != told || told == 0 {
        return Err(format!("P7: {told} unreadable blocks are told, {restored} are; spoiled were {spoiled:?}"));
    }
    for at in 0..stage.hosts() {
        if finds(&stage, at, "unreadable-blocks", &Shape::disk_name(0)).await.is_ok() {
            return Err(format!("P7: h{at} names unreadable blocks that were written"));
        }
    }
    stage.rest(true).await
}

/// Of what disks may become.
fn promises() -> Scenario {
    Scenario::new(
        "P7. health names what thin disks may come to lack",
        (
            "that disks may become more than there is is told with both numbers, whichever host is asked, as long as it is so",
            "a thin disk of 1 TiB is made; a host loses power, and its space counts no more; it comes back; the disk is deleted",
        ),
        (Shape::plain(4), 2),
        promises_told,
    )
}

async fn promises_told(stage: Stage) -> Result<(), String> {
    const DISK: &str = "thin";
    stage.ms(1000).await;
    let at = stage.any();
    nothing_lacks(&stage).await?;
    let groups =
        stage.cluster.manage(at, async |node| node.disk_group_list().await).await.map_err(|e| e.to_string())?;
    let there_are = |without: &str| {
        let counted = groups.iter().filter(|group| group.host_name != without);
        format_bytes(counted.map(|group| group.capacity.raw_bytes).sum())
    };
    // Two copies, and some MiB of the other disk.
    let all = format!("may become 2.00 TiB, copies included, and there are {}: 2.00 TiB are missing", there_are(""));
    stage.cluster.create_disk(at, DISK, 1 << 40, None).await.map_err(|e| e.to_string())?;
    stage.ms(2000).await;
    for n in 0..stage.hosts() {
        finds(&stage, n, "overcommitment", &all).await?;
    }
    let down = (at + 1) % stage.hosts();
    stage.crash(down);
    stage.ms(5000).await;
    let less = format!("copies included, and there are {}", there_are(&format!("h{down}")));
    finds(&stage, at, "overcommitment", &less).await?;
    stage.start(down);
    stage.healthy().await?;
    finds(&stage, at, "overcommitment", &all).await?;
    stage.cluster.delete_disk(at, DISK).await.map_err(|e| e.to_string())?;
    stage.ms(2000).await;
    nothing_lacks(&stage).await?;
    stage.rest(false).await
}

/// No host finds that disks may become more than there is.
async fn nothing_lacks(stage: &Stage) -> Result<(), String> {
    for n in 0..stage.hosts() {
        if finds(stage, n, "overcommitment", "").await.is_ok() {
            return Err(format!("P7: h{n} finds that disks may become more than there is, and they may not"));
        }
    }
    Ok(())
}

/// Of files that find no room.
fn full_file_system() -> Scenario {
    Scenario::new(
        "P7. health tells a full file system from a failed device",
        (
            "a disk group whose cache file found no room is told so, one whose device failed is told that, whichever host is asked; a start heals both",
            "a write of the log of a host with a copy finds no room; the host is started anew; another one fails",
        ),
        (Shape::plain(4), 2),
        full_file_system_told,
    )
}

async fn full_file_system_told(stage: Stage) -> Result<(), String> {
    stage.ms(1000).await;
    let (copies, _) = stage.copies_and_witnesses().await?;
    let hurt = copies[stage.below(2) as usize];
    let no_room = format!("host h{hurt} takes no writes: the file system of its cache device has no room");
    let failed = format!("host h{hurt} does not work: ");
    for (fault, told, other) in [(Fault::NoSpaceNext, &no_room, &failed), (Fault::WriteErrorNext, &failed, &no_room)] {
        stage.say(format!("{fault:?} at h{hurt}"));
        stage.host(hurt).disk(&Shape::device_name(0, None)).inject(fault);
        stage.ms(3000).await;
        for n in 0..stage.hosts() {
            finds(&stage, n, "disk-groups", told).await?;
            if finds(&stage, n, "disk-groups", other).await.is_ok() {
                return Err(format!("P7: h{n} takes a full file system and a failed device for one another"));
            }
        }
        stage.host(hurt).kill();
        stage.start(hurt);
        stage.healthy().await?;
        for n in 0..stage.hosts() {
            if finds(&stage, n, "disk-groups", "").await.is_ok() {
                return Err(format!("P7: h{n} finds a disk group that does not work, and all do"));
            }
        }
    }
    stage.rest(false).await
}

/// A check has a finding that has these words.
async fn finds(stage: &Stage, at: usize, check: &str, words: &str) -> Result<(), String> {
    let health = stage.cluster.manage(at, async |node| node.health().await).await.map_err(|e| e.to_string())?;
    let found = health.checks.iter().find(|c| c.name == check).ok_or_else(|| format!("there is no check {check}"))?;
    match found.findings.iter().any(|finding| finding.cause.contains(words)) {
        true => Ok(()),
        false => Err(format!("P7: h{at} finds nothing of {words:?}: {found:?}")),
    }
}

async fn health_names(stage: Stage) -> Result<(), String> {
    stage.ms(1000).await;
    let (copies, _) = stage.copies_and_witnesses().await?;
    let others: Vec<usize> = (0..stage.hosts()).filter(|n| !copies.contains(n)).collect();
    let (at, wrong) = (others[0], others[1]);
    stage.host(wrong).set_wall_clock_off_ms(3_600_000);
    stage.crash(copies[0]);
    stage.ms(10_000).await;
    let down = format!("h{}", copies[0]);
    finds(&stage, at, "clocks", &format!("the clock of host h{wrong} is")).await?;
    finds(&stage, at, "hosts-up", &down).await?;
    finds(&stage, at, "disk-groups", &format!("of host {down} cannot be reached")).await?;
    finds(&stage, at, "disks", &Shape::disk_name(0)).await?;
    stage.crash(copies[1]);
    let images: Vec<_> = copies.iter().map(|n| stage.image(*n)).collect();
    stage.put_in_place(copies[0], images[1].clone());
    stage.put_in_place(copies[1], images[0].clone());
    copies.iter().for_each(|n| stage.start(*n));
    stage.ms(25_000).await;
    for n in &copies {
        finds(&stage, at, "disk-groups", &format!("of host h{n} does not work")).await?;
    }
    finds(&stage, at, "disks", &format!("disk {} is inaccessible", Shape::disk_name(0))).await?;
    copies.iter().for_each(|n| stage.crash(*n));
    for (n, image) in copies.iter().zip(images) {
        stage.put_in_place(*n, image);
    }
    copies.iter().for_each(|n| stage.start(*n));
    stage.healthy().await?;
    stage.rest(false).await
}
