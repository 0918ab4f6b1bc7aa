//! Stories of disks that go over to another layout while guests read and write, and of all that happens to them meanwhile.

use cairn_api::v1::{PolicyRules, RulesMethod};
use cairn_types::ObjectConfig;

use super::{Scenario, Stage};
use crate::shape::Shape;

/// How long a disk may take to be laid out anew: in these clusters 45 s pass before the same part goes over again.
const MET_WITHIN_MS: u64 = 240_000;

/// All of them.
pub fn all() -> Vec<Scenario> {
    layouts().into_iter().chain(requests()).collect()
}

fn layouts() -> Vec<Scenario> {
    vec![
        Scenario::new(
            "27. a disk goes from copies to rows and back, under load",
            (
                "each layout is reached, guests go on, and every byte is right: parity, copies and what guests wrote",
                "mirror, 3+1, 4+2, mirror with two stripes, 2+1, mirror with FTT=3 (it needs witnesses that rows have not) and mirror again, under load; chunks of 8 MiB",
            ),
            (of_chunks(7), 2),
            there_and_back,
        ),
        Scenario::new(
            "27. the owner dies while a disk goes over to another layout",
            (
                "whatever it had begun: the next owner serves from one layout, begins again, and ends it",
                "mirror to 2+1, or 3+1 to mirror; the owner loses power at a moment that is drawn, from the first change to the last one and after it",
            ),
            (of_chunks(6), 10),
            owner_dies,
        ),
        Scenario::new(
            "27. hosts die while a disk goes over to another layout",
            (
                "of the old members or of the new ones: guests go on, and the disk gets there",
                "mirror to 3+1 and to mirror; a host that is not the owner loses power as something goes over, and is back 3 s later; three times",
            ),
            (of_chunks(6), 6),
            hosts_die,
        ),
        Scenario::new(
            "27. another layout is asked for no more",
            (
                "what was begun goes, nothing is left over, and the disk is whole; what went over before stays until it went back",
                "mirror to 3+1 with slow devices; as soon as something is on its way, or one part of three went over, mirror again, or 2+1",
            ),
            (of_chunks(5), 6),
            taken_back,
        ),
        Scenario::new(
            "27. requests are repeated while their blocks go over to another layout",
            (
                "each is carried out once in each block, whichever layout its tries met",
                "connections are reset and answers lost while a disk goes to 2+1 and back, at another owner each time",
            ),
            (of_chunks(5).crowded(), 3),
            repeated,
        ),
        Scenario::new(
            "27. a disk grows while it goes over to another layout",
            (
                "it grows, and goes on; what is new is as the policy asks in the end",
                "mirror to 3+1; it grows by an odd size, twice",
            ),
            (of_chunks(5), 4),
            grows,
        ),
    ]
}

/// Of what becomes of single requests, and of what nobody asks for.
fn requests() -> Vec<Scenario> {
    vec![
        Scenario::new(
            "27. a young image of the owner's host, from before its disk went over",
            (
                "a member that lacks what it was filled with is not in sync, although nobody writes to the disk and no host remembers a later position of its log",
                "mirror to 2+1 and back on three hosts, four times; an image of the owner's devices is taken as something is on its way; when it is done the host loses \
                 power, and starts from the image, at once or when the others have recorded it absent",
            ),
            (Shape::plain(3).small(), 6),
            young_image,
        ),
        Scenario::new(
            "27. front ends drop requests while a disk goes over to another layout",
            (
                "what was carried out of them is there after the change, too: nobody reads an older version after a newer one",
                "eight disks of 16 blocks go from mirror to 2+1, all owned by one host; devices are slow; of the changes of its guests every third is dropped in the midst",
            ),
            (eight_small(), 6),
            dropped,
        ),
        Scenario::new(
            "27. answers are lost just before a disk goes over to another layout",
            (
                "a request that was carried out before the change is not carried out again after it",
                "mirror to 2+1 and back on 7 hosts, 12 guests on 16 blocks; hosts without a part of it are cut off from the owner from the first change to after the last one",
            ),
            (Shape::plain(7).small().read_everywhere(), 12),
            answers_lost,
        ),
    ]
}

/// Disks of several chunks, so that a part is on its way while others are not.
fn of_chunks(hosts: usize) -> Shape {
    let mut shape = Shape::plain(hosts).read_everywhere();
    shape.chunk_bytes_max = 8 << 20;
    shape
}

fn eight_small() -> Shape {
    let mut shape = Shape::plain(4).small();
    (shape.disks[0].guests, shape.disks[0].readers) = (2, 1);
    shape.disks = vec![shape.disks[0].clone(); 8];
    shape
}

fn rows(data_strips: u8, ftt: u8) -> PolicyRules {
    PolicyRules { ftm: RulesMethod::ErasureCoding, data_strips, ftt, ..PolicyRules::default() }
}

fn mirror(ftt: u8, stripe_width: u8) -> PolicyRules {
    PolicyRules { ftt, stripe_width, ..PolicyRules::default() }
}

/// Whether all of it is laid out as its policy asks, and in sync.
pub(super) fn is_met(config: &ObjectConfig) -> bool {
    let fits = config.addresses.spans().iter().all(|span| config.policy.fits(&span.layout));
    fits && config.addresses.moving().is_none() && config.members.iter().all(|m| m.state.in_sync())
}

async fn until(stage: &Stage, what: &str, is: impl Fn(&ObjectConfig) -> bool) -> Result<ObjectConfig, String> {
    until_looked(stage, (what, 20), is).await
}

/// The same, looked for once in so many milliseconds.
async fn until_looked(
    stage: &Stage,
    (what, every_ms): (&str, u64),
    is: impl Fn(&ObjectConfig) -> bool,
) -> Result<ObjectConfig, String> {
    let mut last = String::new();
    for _ in 0..MET_WITHIN_MS / every_ms {
        match stage.config(0).await {
            Ok(config) if is(&config) => return Ok(config),
            Ok(config) => last = format!("{:?} {:?}", config.addresses, config.members),
            Err(error) => last = error,
        }
        stage.ms(every_ms).await;
    }
    Err(format!("not within {MET_WITHIN_MS} ms: {what}: {last}"))
}

async fn until_met(stage: &Stage) -> Result<ObjectConfig, String> {
    until(stage, "the disk is as its policy asks", is_met).await
}

async fn until_begun(stage: &Stage) -> Result<ObjectConfig, String> {
    until_begun_looked(stage, 20).await
}

async fn until_begun_looked(stage: &Stage, every_ms: u64) -> Result<ObjectConfig, String> {
    let begun = |config: &ObjectConfig| config.addresses.moving().is_some() || is_met(config);
    until_looked(stage, ("something goes over", every_ms), begun).await
}

async fn there_and_back(stage: Stage) -> Result<(), String> {
    stage.ms(1500).await;
    for (n, rules) in
        [rows(3, 1), rows(4, 2), mirror(1, 2), rows(2, 1), mirror(3, 1), mirror(1, 1)].into_iter().enumerate()
    {
        stage.cluster.set_rules(0, n, &format!("layout-{n}"), rules).await?;
        let config = until_met(&stage).await?;
        stage.say(format!("the disk is {:?}", config.addresses.last().layout.redundancy));
        stage.goes_on(5, 2000).await?;
        stage.healthy().await?;
    }
    stage.rest(false).await
}

async fn owner_dies(stage: Stage) -> Result<(), String> {
    stage.ms(1500).await;
    if stage.below(2) == 0 {
        stage.cluster.set_rules(0, 0, "first", rows(3, 1)).await?;
        until_met(&stage).await?;
    }
    let now = stage.config(0).await?;
    let to = if now.policy.ftm == cairn_types::FaultToleranceMethod::Mirror { rows(2, 1) } else { mirror(1, 1) };
    let owner = stage.hosts_of(0).await?[0];
    stage.attach(owner).await?;
    stage.cluster.set_rules(0, owner, "second", to).await?;
    until_begun(&stage).await?;
    match stage.below(3) {
        0 => stage.crash_at(owner, stage.below(300)),
        _ => {
            stage.ms(stage.below(400)).await;
            stage.crash(owner);
        }
    }
    stage.ms(3000).await;
    stage.crash(owner);
    stage.start(owner);
    until_met(&stage).await?;
    stage.healthy().await?;
    stage.goes_on(5, 4000).await?;
    stage.rest(false).await
}

async fn hosts_die(stage: Stage) -> Result<(), String> {
    stage.ms(1500).await;
    let owner = stage.hosts_of(0).await?[0];
    stage.attach(owner).await?;
    for (n, to) in [rows(3, 1), mirror(1, 1)].into_iter().enumerate() {
        stage.cluster.set_rules(0, owner, &format!("layout-{n}"), to).await?;
        for _ in 0..3 {
            let config = until_begun(&stage).await?;
            let others: Vec<usize> =
                config.members.iter().map(|m| stage.number(m.host)).filter(|host| *host != owner).collect();
            let dies = others[stage.below(others.len() as u64) as usize];
            stage.ms(stage.below(200)).await;
            stage.crash(dies);
            stage.ms(3000).await;
            stage.start(dies);
            stage.ms(1000).await;
        }
        until_met(&stage).await?;
        stage.healthy().await?;
        stage.goes_on(5, 4000).await?;
    }
    stage.rest(false).await
}

async fn taken_back(stage: Stage) -> Result<(), String> {
    stage.ms(1500).await;
    let owner = stage.hosts_of(0).await?[0];
    stage.attach(owner).await?;
    stage.slow_devices_but(owner);
    let parts = stage.below(2) as usize;
    stage.cluster.set_rules(0, owner, "rows", rows(3, 1)).await?;
    until(&stage, "something goes over", |config| {
        config.addresses.moving().is_some() && config.addresses.spans().len() > parts || is_met(config)
    })
    .await?;
    stage.ms(stage.below(300)).await;
    let to = if stage.below(3) == 0 { rows(2, 1) } else { mirror(1, 1) };
    stage.cluster.set_rules(0, owner, "other", to).await?;
    stage.devices_as_fast_as_ever();
    until_met(&stage).await?;
    stage.healthy().await?;
    stage.goes_on(5, 4000).await?;
    stage.rest(false).await
}

async fn repeated(stage: Stage) -> Result<(), String> {
    stage.ms(1500).await;
    for (n, to) in [rows(2, 1), mirror(1, 1)].into_iter().enumerate() {
        stage.attach(stage.any()).await?;
        stage.cluster.set_rules(0, 0, &format!("layout-{n}"), to).await?;
        for _ in 0..60 {
            if is_met(&stage.config(0).await?) {
                break;
            }
            let (one, other) = (stage.any(), stage.any());
            if one != other {
                stage.cut(one, other);
                stage.ms(stage.below(60)).await;
                stage.heal_links();
            }
            stage.ms(100 + stage.below(400)).await;
            if stage.below(20) == 0 {
                // The conversion begins again there.
                let _ = stage.attach(stage.any()).await;
            }
        }
        until_met(&stage).await?;
    }
    stage.healthy().await?;
    stage.goes_on(5, 4000).await?;
    stage.rest(false).await
}

async fn dropped(stage: Stage) -> Result<(), String> {
    stage.ms(1500).await;
    let owner = stage.any();
    for (disk, guests) in stage.guests.iter().enumerate() {
        stage.attach_disk(disk, owner).await?;
        guests.start_at(owner, 4, 12);
        guests.gives_up.set((3, 40_000));
    }
    stage.slow_devices_but(owner);
    for disk in 0..stage.guests.len() {
        stage.cluster.set_rules(disk, owner, &format!("rows-{disk}"), rows(2, 1)).await?;
    }
    for disk in 0..stage.guests.len() {
        for _ in 0..MET_WITHIN_MS / 20 {
            if is_met(&stage.config(disk).await?) {
                break;
            }
            stage.ms(20).await;
        }
    }
    stage.devices_as_fast_as_ever();
    stage.goes_on(5, 4000).await?;
    stage.healthy().await?;
    stage.rest(false).await
}

async fn young_image(stage: Stage) -> Result<(), String> {
    stage.ms(500).await;
    stage.guests[0].stop().await;
    for n in 0..8 {
        let owner = stage.copies_of(0).await?[0];
        stage.attach(owner).await?;
        // What it holds differs from round to round, and is at rest.
        stage.guests[0].fill(owner, false).await?;
        let to = if n % 2 == 0 { rows(2, 1) } else { mirror(1, 1) };
        stage.cluster.set_rules(0, owner, &format!("layout-{n}"), to).await?;
        until_begun_looked(&stage, 1).await?;
        stage.ms(stage.below(12)).await;
        let image = stage.image(owner);
        until_looked(&stage, ("the disk is as its policy asks", 1), is_met).await?;
        stage.ms(stage.below(100)).await;
        stage.crash(owner);
        stage.put_in_place(owner, image);
        stage.ms([0, 6000][stage.below(2) as usize]).await;
        stage.start(owner);
        stage.ms(3000).await;
        stage.healthy().await?;
        stage.guests[0].verify_everywhere().await?;
    }
    stage.rest(false).await
}

async fn answers_lost(stage: Stage) -> Result<(), String> {
    stage.ms(1500).await;
    for (n, to) in [rows(2, 1), mirror(1, 1)].into_iter().enumerate() {
        let owner = stage.hosts_of(0).await?[0];
        stage.attach(owner).await?;
        stage.cluster.set_rules(0, owner, &format!("layout-{n}"), to).await?;
        let config = until_begun_looked(&stage, 1).await?;
        let parts: Vec<usize> = config.members.iter().map(|m| stage.number(m.host)).collect();
        for far in (0..stage.hosts()).filter(|host| *host != owner && !parts.contains(host)) {
            stage.cut(owner, far);
        }
        until_met(&stage).await?;
        // Both ends have given their connection up by then, and asked nobody again.
        stage.ms(3100).await;
        stage.heal_links();
        stage.goes_on(5, 4000).await?;
    }
    stage.healthy().await?;
    stage.rest(false).await
}

async fn grows(stage: Stage) -> Result<(), String> {
    stage.ms(1500).await;
    let owner = stage.hosts_of(0).await?[0];
    stage.attach(owner).await?;
    stage.cluster.set_rules(0, owner, "rows", rows(3, 1)).await?;
    until_begun(&stage).await?;
    for _ in 0..2 {
        stage.ms(stage.below(300)).await;
        stage.cluster.grow_disk(0, owner, (5 << 20) + 512).await;
    }
    until_met(&stage).await?;
    stage.healthy().await?;
    stage.goes_on(5, 4000).await?;
    stage.rest(false).await
}
