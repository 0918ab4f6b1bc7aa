//! Stories of where components go: by the device that they fit on, and evenly by what they may become.

use cairn_api::{ApiErrorKind, ApiResult, v1};
use cairn_volume::{Volume as _, VolumeError};

use super::{Scenario, Stage};
use crate::{
    cluster::PATIENCE,
    shape::{DiskShape, REPAIR_DELAY_MS, Shape},
};

/// All of them.
pub fn all() -> Vec<Scenario> {
    vec![
        Scenario::new(
            "P7. no single device has room",
            (
                "a reserved component that fits a disk group and none of its devices is refused with the device's room; a thin disk goes on",
                "reserved disks take more than half of every capacity device; one more is asked for, of a size that two devices have together",
            ),
            (Shape { disks: Vec::new(), capacity_bytes: 200 * MIB, ..Shape::plain(4) }, 2),
            no_device_has_room,
        ),
        Scenario::new(
            "P7. thin disks fill a cluster evenly",
            (
                "disks that are made in one breath, and promise more than there is, spread over all hosts: nine tenths of the raw space are written before the first \"no space\"",
                "eight thin disks, each larger than half a device, made at one host as fast as it goes; all are written evenly until one refuses",
            ),
            (Shape { disks: Vec::new(), capacity_devices: 1, capacity_bytes: 160 * MIB, ..Shape::plain(4) }, 2),
            thin_disks_fill_evenly,
        ),
        Scenario::new(
            "P7. a disk group is known at once",
            (
                "a disk that is asked for in the same breath as a disk group is made finds its place there; on one that is just removed nothing is placed",
                "one of three hosts gives up its empty disk group and makes it again; after each, another host makes a disk at once",
            ),
            (Shape { disks: Vec::new(), ..Shape::plain(3) }, 2),
            group_is_known_at_once,
        ),
        Scenario::new(
            "P7. made by force, completed later",
            (
                "a disk that force provisioning made with one copy is told to have reduced redundancy and why, and gets its second copy and witness when hosts come",
                "two of four hosts are down when a disk is made by force; they come back",
            ),
            (Shape { disks: Vec::new(), ..Shape::plain(4) }, 3),
            made_by_force,
        ),
        Scenario::new(
            "P5. one of two lost members has no place",
            (
                "the other is replaced all the same, and the first one when there is room",
                "disks with full reservation take all that is left of the cluster; the hosts of a copy and of a witness die for good",
            ),
            (Shape { capacity_bytes: 100 * MIB, disks: vec![reserved_for_two()], ..Shape::plain(7) }, 2),
            one_has_no_place,
        ),
        Scenario::new(
            "P6. limits of a disk",
            (
                "guests get no more than the disk's limits, trims count, a new limit counts at once, and limits survive the owner",
                "one guest reads, writes and trims as fast as it may, under limits of I/Os and of bytes that change; the owner loses power",
            ),
            (Shape { disks: Vec::new(), ..Shape::plain(4) }, 2),
            limits,
        ),
    ]
}

const MIB: u64 = 1 << 20;

async fn policy(stage: &Stage, name: &str, rules: v1::PolicyRules) -> Result<(), String> {
    use cairn_api::LocalManagement as _;
    let request = v1::PolicyCreate { name: name.into(), rules };
    let made = stage.cluster.manage(0, async move |node| node.policy_create(request).await.map(drop)).await;
    made.map_err(|error| error.to_string())
}

async fn no_device_has_room(stage: Stage) -> Result<(), String> {
    stage.ms(2000).await;
    policy(&stage, "thick", v1::PolicyRules { reservation_percent: 100, ..v1::PolicyRules::default() }).await?;
    // Each takes more than half of a device: there are eight devices, so four mirrored disks fit.
    let thick = async |name: &str| -> ApiResult<()> {
        stage.cluster.extra_disks.borrow_mut().insert(name.to_owned());
        let made = stage.cluster.create_disk(0, name, 110 * MIB, Some("thick".into())).await.map(drop);
        stage.ms(1000).await;
        made
    };
    for n in 0..4 {
        thick(&format!("thick-{n}")).await.map_err(|error| format!("thick-{n}: {error}"))?;
    }
    match thick("thick-4").await {
        Ok(()) => return Err("a ninth component of 110 MiB found room on eight devices".into()),
        Err(error) if error.kind == ApiErrorKind::Refused && error.to_string().contains("free on one device") => {}
        Err(error) => return Err(format!("P7: {:?}: {error}", error.kind)),
    }
    stage.cluster.extra_disks.borrow_mut().insert("thin".to_owned());
    let thin = stage.cluster.create_disk(0, "thin", 110 * MIB, None).await;
    thin.map(drop).map_err(|error| format!("a thin disk finds no place: {error}"))?;
    stage.rest(false).await
}

async fn thin_disks_fill_evenly(stage: Stage) -> Result<(), String> {
    use cairn_api::LocalManagement as _;
    const DISKS: usize = 8;
    stage.ms(2000).await;
    for n in 0..DISKS {
        let name = Shape::disk_name(n);
        stage.cluster.extra_disks.borrow_mut().insert(name.clone());
        let made = stage.cluster.create_disk(0, &name, 120 * MIB, None).await;
        let notes = made.map_err(|error| format!("{name}: {error}"))?.notes.join("; ");
        // Two of them promise less than there is, and six more.
        if notes.contains("thin disks promise") != (n >= 5) && !(2..=5).contains(&n) {
            return Err(format!("P7: {name} is made with the notes {notes:?}"));
        }
    }
    for n in 0..DISKS {
        stage.say(format!("{} is on {:?}", Shape::disk_name(n), stage.hosts_of(n).await?));
    }
    let block = bytes::Bytes::from(vec![0x5A; MIB as usize]);
    let mut full = None;
    'fill: for offset in (0..120 * MIB).step_by(MIB as usize) {
        for disk in 0..DISKS {
            let name = Shape::disk_name(disk);
            let client = stage.cluster.client(0, &name).await.ok_or_else(|| format!("{name} does not open"))?;
            let written = stage.cluster.run_on(0, PATIENCE * 2, client.write(offset, block.clone())).await;
            match written.map_err(|lost| format!("{name}: {lost:?}"))? {
                Ok(()) => {}
                Err(VolumeError::NoSpace(_)) => {
                    full = Some(name);
                    break 'fill;
                }
                Err(error) => return Err(format!("{name}: {error}")),
            }
        }
    }
    let full = full.ok_or("eight disks of 120 MiB on two copies fit four devices of 160 MiB")?;
    // What other hosts tell of themselves is a heartbeat old.
    stage.ms(2000).await;
    let status = stage.cluster.manage(0, async |node| node.cluster_status().await).await;
    let capacity = status.map_err(|error| error.to_string())?.capacity;
    let percent = capacity.used_bytes * 100 / capacity.raw_bytes;
    stage.say(format!("{full} is refused when {percent} % are used"));
    stage.count("per cent of raw space used at the first refusal", percent);
    match percent {
        90.. => stage.rest(false).await,
        _ => Err(format!("P7: {full} has no space when {percent} % of the raw space are used")),
    }
}

async fn shown(stage: &Stage, at: usize, disk: &str) -> Result<v1::Disk, String> {
    use cairn_api::LocalManagement as _;
    let name = disk.to_owned();
    stage.cluster.manage(at, async move |node| node.disk_show(name).await).await.map_err(|error| error.to_string())
}

/// Three copies and two witnesses, all space set aside.
fn reserved_for_two() -> DiskShape {
    DiskShape {
        size_bytes: 20 * MIB,
        ftt: 2,
        data_strips: 0,
        reservation_percent: 100,
        stripe_width: 1,
        guests: 3,
        readers: 0,
    }
}

/// Disks of one copy take all space that is left, to the last 4 MiB.
async fn fill(stage: &Stage, at: usize) -> Result<(), String> {
    let rules = v1::PolicyRules { ftt: 0, reservation_percent: 100, ..v1::PolicyRules::default() };
    policy(stage, "filler", rules).await?;
    let (mut size_bytes, mut number) = (64 * MIB, 0);
    while size_bytes >= 4 * MIB {
        let name = format!("filler-{number}");
        number += 1;
        match stage.cluster.create_disk(at, &name, size_bytes, Some("filler".into())).await {
            Ok(_) => drop(stage.cluster.extra_disks.borrow_mut().insert(name)),
            // Refused by placement or, as others tell of what they have a heartbeat later, by a disk group.
            Err(error) => {
                stage.say(format!("{name} of {size_bytes} bytes: {error}"));
                size_bytes /= 2;
                stage.ms(1000).await;
            }
        }
    }
    Ok(())
}

async fn one_has_no_place(stage: Stage) -> Result<(), String> {
    stage.ms(1000).await;
    let (copies, witnesses) = stage.copies_and_witnesses().await?;
    let owner = copies[0];
    stage.attach(owner).await?;
    fill(&stage, owner).await?;
    let (copy, witness) = (copies[1], witnesses[0]);
    stage.crash(copy);
    stage.crash(witness);
    stage.ms(2 * REPAIR_DELAY_MS).await;
    let hosts = stage.hosts_of(0).await?;
    if !hosts.contains(&copy) {
        return Err(format!("h{copy}'s copy found a place on a full cluster: {hosts:?}"));
    }
    if hosts.contains(&witness) {
        return Err(format!("P5: the witness on h{witness} is not replaced, as the copy has no place: {hosts:?}"));
    }
    stage.goes_on(20, 3000).await?;
    let fillers: Vec<String> = stage.cluster.extra_disks.borrow().iter().cloned().collect();
    for name in fillers {
        // One whose only copy is on a host that is away goes later.
        let _ = stage.cluster.delete_disk(owner, &name).await;
    }
    stage.healthy_at(owner).await?;
    if stage.hosts_of(0).await?.contains(&copy) {
        return Err(format!("P5: healthy with a copy on h{copy}, which is down"));
    }
    stage.rest(false).await
}

async fn group_is_known_at_once(stage: Stage) -> Result<(), String> {
    use cairn_api::LocalManagement as _;
    // Longer than hosts that have just started wait for each other.
    stage.ms(12_000).await;
    let groups = stage.cluster.manage(1, async |node| node.disk_group_list().await).await;
    let groups = groups.map_err(|error| error.to_string())?;
    let group = groups.into_iter().find(|group| group.host_name == "h1").ok_or("h1 has no disk group")?;
    let removed = stage.cluster.manage(1, async move |node| node.disk_group_remove(group.id).await).await;
    removed.map_err(|error| error.to_string())?;
    let name = Shape::disk_name(0);
    match stage.cluster.create_disk(0, &name, 2 * MIB, None).await {
        Ok(_) => return Err("P7: a disk of three members is made on two hosts".into()),
        Err(error) if error.kind == ApiErrorKind::Refused && error.to_string().contains("h1 has no disk group") => {}
        Err(error) => return Err(format!("P7: after h1 gave up its disk group: {:?}: {error}", error.kind)),
    }
    // The time of a heartbeat is in no step with what comes next.
    stage.ms(stage.cluster.world.random_below(1000)).await;
    let request = Shape::plain(3).group_request(0);
    let made = stage.cluster.manage(1, async move |node| node.disk_group_create(request).await.map(drop)).await;
    made.map_err(|error| error.to_string())?;
    stage.cluster.extra_disks.borrow_mut().insert(name.clone());
    let made = stage.cluster.create_disk(0, &name, 2 * MIB, None).await;
    made.map_err(|error| format!("P7: after h1 made a disk group: {:?}: {error}", error.kind))?;
    stage.rest(false).await
}

async fn made_by_force(stage: Stage) -> Result<(), String> {
    stage.ms(2000).await;
    policy(&stage, "forced", v1::PolicyRules { force_provisioning: true, ..v1::PolicyRules::default() }).await?;
    stage.crash(2);
    stage.crash(3);
    stage.ms(6000).await;
    let name = Shape::disk_name(0);
    stage.cluster.extra_disks.borrow_mut().insert(name.clone());
    let made = stage.cluster.create_disk(0, &name, 2 * MIB, Some("forced".into())).await;
    let made = made.map_err(|error| format!("{name}: {error}"))?;
    let disk = shown(&stage, 0, &name).await?;
    let told = disk.summary.reasons.join("; ");
    if !made.notes.join("; ").contains("1 of its 2 copies") {
        return Err(format!("P7: whoever makes a disk by force is told {:?}", made.notes));
    }
    if disk.summary.health != v1::DiskHealth::ReducedRedundancy || !told.contains("fewer than 2 copies") {
        return Err(format!("P7: a disk of one copy is told to be {:?}: {told}", disk.summary.health));
    }
    let client = stage.cluster.client(0, &name).await.ok_or("the disk does not open")?;
    let block = bytes::Bytes::from(vec![0x5A; MIB as usize]);
    let written = stage.cluster.run_on(0, PATIENCE * 2, client.write(0, block)).await;
    written.map_err(|lost| format!("{lost:?}"))?.map_err(|error| error.to_string())?;
    stage.start(2);
    stage.start(3);
    for _ in 0..60 {
        stage.ms(500).await;
        let disk = shown(&stage, 0, &name).await?;
        if disk.summary.health == v1::DiskHealth::Healthy {
            let copies = disk.components.iter().filter(|c| matches!(c.role, v1::ComponentRole::Data { .. })).count();
            return match (copies, disk.components.len()) {
                (2, 3) => stage.rest(false).await,
                (copies, all) => Err(format!("P7: healthy with {copies} copies of {all} components")),
            };
        }
    }
    Err(format!("P7: not completed within 30 s: {:?}", shown(&stage, 0, &name).await?.summary.reasons))
}

/// Requests that one guest gets through in two seconds.
async fn in_two_seconds(stage: &Stage, at: usize, disk: &str, what: Kind) -> Result<u64, String> {
    let client = stage.cluster.client(at, disk).await.ok_or_else(|| format!("{disk} does not open"))?;
    let began = stage.cluster.world.now();
    let mut count = 0;
    while stage.cluster.world.now() - began < std::time::Duration::from_secs(2) {
        let client = client.clone();
        let request = async move {
            match what {
                Kind::Read => client.read(0, 64 << 10).await.map(drop),
                Kind::Write => client.write(0, bytes::Bytes::from(vec![0x5A; 64 << 10])).await,
                Kind::Trim => client.trim(MIB, MIB).await,
            }
        };
        let ran = stage.cluster.run_on(at, PATIENCE * 2, request).await;
        ran.map_err(|lost| format!("{lost:?}"))?.map_err(|error| error.to_string())?;
        count += 1;
    }
    Ok(count)
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    Read,
    Write,
    Trim,
}

async fn limits(stage: Stage) -> Result<(), String> {
    use cairn_api::LocalManagement as _;
    stage.ms(2000).await;
    let name = Shape::disk_name(0);
    stage.cluster.extra_disks.borrow_mut().insert(name.clone());
    stage.cluster.create_disk(0, &name, 4 * MIB, None).await.map_err(|error| error.to_string())?;
    let set = async |iops_limit, bandwidth_limit_bytes_per_s| {
        let (name, limits) = (Shape::disk_name(0), v1::DiskLimits { iops_limit, bandwidth_limit_bytes_per_s });
        let set = stage.cluster.manage(0, async move |node| node.disk_set(name, limits).await).await;
        set.map(drop).map_err(|error| error.to_string())
    };
    let expect = async |at: usize, what: Kind, within: std::ops::RangeInclusive<u64>| {
        let count = in_two_seconds(&stage, at, &Shape::disk_name(0), what).await?;
        stage.say(format!("{count} of {what:?} in 2 s"));
        match within.contains(&count) {
            true => Ok(()),
            false => Err(format!("P6: {count} of {what:?} in 2 s, not {within:?}")),
        }
    };
    // Without a limit: some hundreds of microseconds each.
    expect(0, Kind::Write, 400..=u64::MAX).await?;
    // 64 KiB are two I/Os; a trim is one, and moves no bytes. A tenth of a second may be caught up with.
    set(Some(100), None).await?;
    expect(0, Kind::Write, 95..=106).await?;
    expect(0, Kind::Read, 95..=106).await?;
    expect(0, Kind::Trim, 190..=211).await?;
    set(Some(0), Some(4 * MIB)).await?;
    expect(0, Kind::Write, 120..=136).await?;
    expect(0, Kind::Read, 120..=136).await?;
    let (copies, _) = stage.copies_and_witnesses().await?;
    stage.crash(copies[0]);
    stage.ms(8000).await;
    let at = copies[1];
    expect(at, Kind::Write, 120..=136).await?;
    stage.start(copies[0]);
    stage.ms(5000).await;
    // Under the first of these limits they would take 40 s.
    set(Some(1), Some(0)).await?;
    let client = stage.cluster.client(at, &name).await.ok_or("the disk does not open")?;
    let block = bytes::Bytes::from(vec![0x5A; 64 << 10]);
    let writes = (0..20).map(|_| stage.cluster.run_on(at, PATIENCE * 2, client.write(0, block.clone())));
    let (writes, began) = (futures::future::join_all(writes), stage.cluster.world.now());
    let raised = async {
        stage.ms(500).await;
        set(Some(1000), None).await
    };
    let (done, raised) = futures::future::join(writes, raised).await;
    raised?;
    for written in done {
        written.map_err(|lost| format!("{lost:?}"))?.map_err(|error| error.to_string())?;
    }
    let took = stage.cluster.world.now() - began;
    if took.as_millis() > 2000 {
        return Err(format!("P6: requests that waited when their limit was raised took {took:?}"));
    }
    set(Some(0), None).await?;
    expect(at, Kind::Write, 400..=u64::MAX).await?;
    stage.rest(false).await
}
