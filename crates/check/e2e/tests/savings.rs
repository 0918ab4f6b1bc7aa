//! Disk groups that hold more than they are long, as they pack and store equal blocks once: full, with media that go bad, and with a device that fails
//! while shared items are moved. No byte is wrong, and nothing stops.

use std::{
    collections::BTreeMap,
    fs::{File, OpenOptions},
    os::unix::fs::FileExt as _,
    time::{Duration, Instant},
};

use cairn_e2e::{
    Cluster, NbdClient, NbdError, Outcome, Shape,
    guests::Random,
    pattern::{self, SECTOR},
    scene::{DISK, play, roles, targets},
    wait::check,
    wait_until,
};
use serde_json::Value;

const MIB: u64 = 1 << 20;
const BLOCK: usize = 4096;
const BLOCKS_PER_MIB: u64 = MIB / BLOCK as u64;
const ENOSPC: u32 = 28;
/// A device that fails, and a copy that is filled again, are over by then.
const HEALTHY_WITHIN: Duration = Duration::from_secs(120);
/// A pass over all that is stored is over by then, and all of it repaired.
const SCRUBBED_WITHIN: Duration = Duration::from_secs(120);

/// What a block may hold: of two, where a request was refused in its midst.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Held {
    /// All of it packs.
    Text(u32),
    /// Nothing of it does.
    Noise(u32),
    Zeroes,
}

impl Held {
    fn bytes(self) -> Vec<u8> {
        let mut data = vec![0; BLOCK];
        match self {
            Self::Zeroes => {}
            Self::Text(tag) => data.chunks_exact_mut(4).for_each(|word| word.copy_from_slice(&tag.to_le_bytes())),
            Self::Noise(tag) => {
                let sectors = (0u64..).zip(data.chunks_mut(SECTOR));
                sectors.for_each(|(n, sector)| pattern::fill(sector, 7, u64::from(tag) * 8 + n, 1));
            }
        }
        data
    }
}

/// A disk as its guest knows it, block by block.
struct Guest {
    disk: String,
    client: NbdClient,
    blocks: Vec<[Held; 2]>,
}

impl Guest {
    fn new(cluster: &Cluster, disk: &str, mib: u64, host: u8) -> Outcome<Self> {
        cluster.create_disk(disk, mib, host)?;
        let blocks = vec![[Held::Zeroes; 2]; (mib * BLOCKS_PER_MIB) as usize];
        Ok(Self { disk: disk.into(), client: connect(cluster, disk, host)?, blocks })
    }
    /// False where there was no space for all of it.
    fn write(&mut self, first: u64, held: &[Held]) -> Outcome<bool> {
        let data: Vec<u8> = held.iter().flat_map(|held| held.bytes()).collect();
        let blocks = &mut self.blocks[first as usize..first as usize + held.len()];
        match self.client.write(first * BLOCK as u64, &data) {
            Ok(()) => {
                blocks.iter_mut().zip(held).for_each(|(block, held)| *block = [*held; 2]);
                Ok(true)
            }
            Err(NbdError::Refused(ENOSPC)) => {
                // Of a request in several pieces some may have been carried out.
                blocks.iter_mut().zip(held).for_each(|(block, held)| block[1] = *held);
                Ok(false)
            }
            Err(error) => Err(format!("write {} at block {first}: {error}", self.disk)),
        }
    }
    /// Writes a MiB after the other until there is no space. How many were written.
    fn write_until_full(&mut self, mib: std::ops::Range<u64>, held: impl Fn(u64) -> Held) -> Outcome<u64> {
        for at in mib.clone() {
            let first = at * BLOCKS_PER_MIB;
            let some: Vec<Held> = (first..first + BLOCKS_PER_MIB).map(&held).collect();
            if !self.write(first, &some)? {
                return Ok(at - mib.start);
            }
        }
        Ok(mib.end - mib.start)
    }
    fn trim(&mut self, mib: std::ops::Range<u64>) -> Outcome<()> {
        for at in mib {
            let trimmed = self.client.trim(at * MIB, MIB as u32);
            trimmed.map_err(|error| format!("trim {} at {at} MiB: {error}", self.disk))?;
            let blocks = &mut self.blocks[(at * BLOCKS_PER_MIB) as usize..((at + 1) * BLOCKS_PER_MIB) as usize];
            blocks.fill([Held::Zeroes; 2]);
        }
        Ok(())
    }
    /// Reads all of it at a host.
    fn verify(&self, cluster: &Cluster, host: u8) -> Outcome<()> {
        let mut client = connect(cluster, &self.disk, host)?;
        let mut data = vec![0; MIB as usize];
        for (at, some) in (0u64..).zip(self.blocks.chunks(BLOCKS_PER_MIB as usize)) {
            client.read(at * MIB, &mut data).map_err(|e| format!("read {} at {at} MiB: {e}", self.disk))?;
            for (n, (page, may)) in data.chunks(BLOCK).zip(some).enumerate() {
                check(may.iter().any(|held| page == held.bytes()), || {
                    format!("{} at h{host}: block {n} at {at} MiB is not {may:?}", self.disk)
                })?;
            }
        }
        cluster.say(format!("{} is as it was written, at h{host}", self.disk));
        Ok(())
    }
}

fn connect(cluster: &Cluster, disk: &str, host: u8) -> Outcome<NbdClient> {
    NbdClient::connect(&targets(cluster, &[host])[0], disk, Duration::from_secs(20)).map_err(|e| e.to_string())
}

/// Chooses something of all disk groups.
fn choose(cluster: &Cluster, option: &str) -> Outcome<()> {
    let api = cluster.host(1).api();
    for group in api.call(&["disk-group", "list"])?.as_array().ok_or("a list")? {
        api.call(&["disk-group", "set", group["id"].as_str().ok_or("an id")?, option, "on"])?;
    }
    Ok(())
}

/// No disk group has stopped.
fn all_mounted(cluster: &Cluster) -> Outcome<()> {
    let groups = cluster.host(1).api().call(&["disk-group", "list"])?;
    let all = groups.as_array().ok_or("a list")?.iter().all(|group| group["state"] == "mounted");
    check(all, || groups.to_string())
}

/// The sum of a counter of disk groups.
fn counted(cluster: &Cluster, name: &str) -> Outcome<u64> {
    fn sum(value: &Value, name: &str) -> u64 {
        match value {
            Value::Object(fields) => fields
                .iter()
                .map(|(key, value)| if key == name { value.as_u64().unwrap_or(0) } else { sum(value, name) })
                .sum(),
            Value::Array(all) => all.iter().map(|value| sum(value, name)).sum(),
            _ => 0,
        }
    }
    Ok(sum(&cluster.host(1).api().call(&["counters"])?, name))
}

/// The file of the host's capacity device.
fn capacity_file(cluster: &Cluster, host: u8) -> Outcome<File> {
    let path = cluster.host(host).folder.join("capacity-1.img");
    OpenOptions::new().read(true).write(true).open(&path).map_err(|e| format!("{}: {e}", path.display()))
}

/// Goal: on full disk groups that live on what packing saves, overwrites that do not pack are written or refused, no block is anything else than before or
/// after, a copy that was away comes back, and what is trimmed is room again. Method: text until there is no space; a part is trimmed; noise over text until
/// there is no space; a host is killed; all is trimmed, and noise written.
#[test]
fn text_is_written_over_by_noise_on_full_disk_groups() {
    let shape = Shape { capacity_mib: 256, hosts: 3, hosts_with_disks: 3, ..Shape::default() };
    play("savings-full", &shape, |cluster| {
        const SIZE: u64 = 768;
        choose(cluster, "--compression")?;
        let mut guest = Guest::new(cluster, DISK, SIZE, 1)?;
        let fitted = guest.write_until_full(0..SIZE, |block| Held::Text(block as u32 | 1 << 31))?;
        cluster.say(format!("{fitted} MiB of text fit devices of {} MiB", shape.capacity_mib));
        check(fitted > shape.capacity_mib * 3 / 2, || "packing saves too little".into())?;
        guest.trim(fitted * 3 / 4..fitted)?;
        let over = guest.write_until_full(0..fitted * 3 / 4, |block| Held::Noise(block as u32))?;
        cluster.say(format!("{over} MiB are written over by noise until there is no space"));
        check(over > 8 && over < fitted * 3 / 4, || "the devices were not full".into())?;
        all_mounted(cluster)?;
        let told = cluster.host(1).api().command(&["health"]).output().map_err(|e| e.to_string())?;
        let told = String::from_utf8_lossy(&told.stdout).into_owned();
        check(told.contains("without compression"), || told.clone())?;
        let other = *cluster.replicas(1, DISK)?.iter().find(|n| **n != 1).ok_or("one copy only")?;
        cluster.kill(other)?;
        let more = guest.write_until_full(0..4, |block| Held::Text(block as u32))?;
        cluster.restart(other)?;
        cluster.wait_healthy(1, DISK, HEALTHY_WITHIN)?;
        cluster.say(format!("{more} MiB more while h{other} was away; its copy is back"));
        guest.verify(cluster, other)?;
        guest.trim(0..SIZE)?;
        let again = guest.write_until_full(0..SIZE, |block| Held::Noise(block as u32 | 1 << 30))?;
        check(again * 10 > shape.capacity_mib * 6, || format!("{again} MiB fit after all was trimmed"))?;
        guest.verify(cluster, 1)?;
        all_mounted(cluster)
    });
}

/// Goal: what stands there is written anew as it is chosen, on real devices, also where a host dies meanwhile; it takes less then, and no byte is wrong.
/// Method: text and noise, each block twice, on disk groups as they are made; both are switched on, and all is written anew while a host is killed.
#[test]
fn what_stands_there_is_written_anew() {
    play("savings-anew", &Shape { hosts: 3, hosts_with_disks: 3, ..Shape::default() }, |cluster| {
        const SIZE: u64 = 96;
        let half = SIZE * BLOCKS_PER_MIB / 2;
        let held = |block: u64| match block % half {
            tag if tag % 2 == 0 => Held::Text(tag as u32 | 1 << 31),
            tag => Held::Noise(tag as u32),
        };
        let mut guest = Guest::new(cluster, DISK, SIZE, 1)?;
        guest.write_until_full(0..SIZE, held)?;
        let api = cluster.host(1).api();
        api.call(&["cache", "clear", "--wait", "20"])?;
        let stored = || {
            let told = api.call(&["cluster", "capacity"])?;
            told["space"]["stored_bytes"].as_u64().ok_or_else(|| told.to_string())
        };
        let before = stored()?;
        ["--compression", "--dedupe", "--rewrite"].iter().try_for_each(|option| choose(cluster, option))?;
        let other = *cluster.replicas(1, DISK)?.iter().find(|n| **n != 1).ok_or("one copy only")?;
        cluster.kill(other)?;
        cluster.restart(other)?;
        cluster.wait_healthy(1, DISK, HEALTHY_WITHIN)?;
        wait_until("all is written anew", HEALTHY_WITHIN, || {
            let groups = api.call(&["disk-group", "list"])?;
            let all = groups.as_array().ok_or("a list")?.iter().all(|group| group["rewriting"].is_null());
            check(all, || groups.to_string())
        })?;
        let after = stored()?;
        cluster.say(format!("{} MiB before, {} MiB since", before / MIB, after / MIB));
        check(after < before / 2, || format!("{before} bytes were stored, and {after} are"))?;
        guest.verify(cluster, 1)?;
        guest.verify(cluster, other)?;
        all_mounted(cluster)
    });
}

/// Blocks that there are of each content.
const ALIKE: u64 = 16;
/// Items that go bad.
const BAD: usize = 60;

/// Goal: what many blocks refer to goes bad at one copy: each is repaired from the other, nothing new refers to it, no byte is wrong. Method: on disk groups
/// that store equal blocks once each content is written several times; bits of some are flipped while the host is down; the same contents are written to
/// another disk; a scrub of all; both are read at that host.
#[test]
fn items_that_many_refer_to_go_bad_and_are_repaired() {
    play("savings-bad", &Shape { hosts: 3, hosts_with_disks: 3, ..Shape::default() }, |cluster| {
        const SIZE: u64 = 64;
        choose(cluster, "--dedupe")?;
        let contents = SIZE * BLOCKS_PER_MIB / ALIKE;
        let held = |block: u64| Held::Noise((block % contents) as u32);
        let mut guest = Guest::new(cluster, DISK, SIZE, 1)?;
        guest.write_until_full(0..SIZE, held)?;
        let api = cluster.host(1).api();
        api.call(&["cache", "clear", "--wait", "20"])?;
        let equal = counted(cluster, "dedupe_hit_blocks")? + counted(cluster, "dedupe_twin_blocks")?;
        cluster.say(format!("{equal} of {} blocks of two copies were equal to others", 2 * SIZE * BLOCKS_PER_MIB));
        check(equal > 2 * SIZE * BLOCKS_PER_MIB / 2, || "most should be".into())?;

        let other = *cluster.replicas(1, DISK)?.iter().find(|n| **n != 1).ok_or("one copy only")?;
        cluster.stop(other)?;
        let bad = flip_bits(cluster, other, (0..contents).map(|n| held(n).bytes()))?;
        cluster.restart(other)?;
        cluster.wait_healthy(1, DISK, HEALTHY_WITHIN)?;
        check(bad == BAD, || format!("only {bad} blocks were found on the device of h{other}"))?;
        let mut second = Guest::new(cluster, "vm-2", SIZE / 2, other)?;
        second.write_until_full(0..SIZE / 2, held)?;
        api.call(&["cache", "clear", "--wait", "20"])?;
        api.call(&["scrub", "start"])?;
        let mut repaired = 0;
        wait_until("the cluster is scrubbed", SCRUBBED_WITHIN, || {
            let told = api.call(&["scrub", "status"])?;
            let scrubs = told.as_array().ok_or("a list")?;
            let over = |scrub: &Value| {
                let is = scrub["state"] == "waiting" && scrub["scrubbed_unix_ms"].is_u64();
                is && scrub["bad_blocks"] == 0 && scrub["unrepairable_blocks"] == 0
            };
            repaired = scrubs.iter().filter_map(|scrub| scrub["repaired_blocks"].as_u64()).sum();
            check(scrubs.iter().all(over) && repaired > 0, || told.to_string())
        })?;
        cluster.say(format!("{repaired} blocks were repaired that referred to {bad} items"));
        check(repaired >= bad as u64 * 2, || "each item should have several".into())?;
        for host in [other, 1] {
            guest.verify(cluster, host)?;
            second.verify(cluster, host)?;
        }
        all_mounted(cluster)
    });
}

/// Flips a bit of blocks on the host's device that hold one of these, [`BAD`] of them spread over it. How many.
fn flip_bits(cluster: &Cluster, host: u8, contents: impl Iterator<Item = Vec<u8>>) -> Outcome<usize> {
    let known: BTreeMap<Vec<u8>, ()> = contents.map(|content| (content, ())).collect();
    let file = capacity_file(cluster, host)?;
    let len = file.metadata().map_err(|e| e.to_string())?.len();
    let (mut found, mut data) = (Vec::new(), vec![0; MIB as usize]);
    for from in (MIB..len / MIB * MIB).step_by(MIB as usize) {
        file.read_exact_at(&mut data, from).map_err(|e| e.to_string())?;
        let pages = (0u64..).zip(data.chunks(BLOCK)).filter(|(_, page)| known.contains_key(*page));
        found.extend(pages.map(|(n, page)| (from + n * BLOCK as u64, page.to_vec())));
    }
    let step = (found.len() / BAD).max(1);
    let mut flipped = 0;
    for (n, (offset, mut page)) in found.into_iter().step_by(step).take(BAD).enumerate() {
        page[n * 37 % BLOCK] ^= 1 << (n % 8);
        file.write_all_at(&page, offset).map_err(|e| e.to_string())?;
        flipped += 1;
    }
    file.sync_all().map_err(|e| e.to_string())?;
    Ok(flipped)
}

/// Goal: a device that fails while the cleaner moves shared items takes what is on it and nothing else: no guest has an error, no byte is wrong, and the device
/// is replaced. Method: contents of a pool are written over each other at random until shared items were moved; the file of one copy's device loses all that
/// it holds; writes go on; the device is replaced by a blank one under load, and all is read at that host.
#[test]
fn a_device_fails_while_shared_items_are_moved() {
    let shape = Shape { capacity_mib: 256, ..Shape::default() };
    play("savings-fails", &shape, |cluster| {
        const SIZE: u64 = 320;
        const POOL: u64 = 40_000;
        choose(cluster, "--dedupe")?;
        let mut guest = Guest::new(cluster, DISK, SIZE, 1)?;
        let mut draw = Random::new(0x5a);
        let mut some = |guest: &mut Guest, rounds: u64| -> Outcome<u64> {
            let mut refused = 0;
            for _ in 0..rounds {
                let first = draw.below(SIZE * BLOCKS_PER_MIB - 64);
                // Runs of the pool, as images have them, and lone blocks.
                let (of, count) = (draw.below(POOL), 1 + draw.below(64));
                let held: Vec<Held> = (of..of + count).map(|tag| Held::Noise((tag % POOL) as u32)).collect();
                refused += u64::from(!guest.write(first, &held)?);
            }
            Ok(refused)
        };
        let began = Instant::now();
        let (mut moved, mut refused) = (0, 0);
        while moved < 500 {
            refused += some(&mut guest, 500)?;
            moved = counted(cluster, "dedupe_moved_items")?;
            let late = || format!("{moved} shared items were moved in {:?}, {refused} writes refused", began.elapsed());
            check(began.elapsed() < Duration::from_secs(150), late)?;
        }
        cluster.say(format!(
            "{moved} shared items were moved after {:.0?}, {refused} writes had no space",
            began.elapsed()
        ));
        let (host, _) = roles(cluster, 1)?;
        let file = capacity_file(cluster, host)?;
        let len = file.metadata().map_err(|e| e.to_string())?.len();
        file.set_len(MIB).map_err(|e| e.to_string())?;
        refused += some(&mut guest, 1000)?;
        guest.verify(cluster, 1)?;
        let folder = &cluster.host(host).folder;
        let [old, new] = ["capacity-1.img", "new.img"].map(|name| folder.join(name).display().to_string());
        File::create(&new).and_then(|file| file.set_len(len)).map_err(|e| e.to_string())?;
        let api = cluster.host(1).api();
        let groups = api.call(&["disk-group", "list"])?;
        let name = cluster.host(host).name();
        let group = groups.as_array().into_iter().flatten().find(|group| group["host_name"] == name.as_str());
        let id = group.and_then(|group| group["id"].as_str()).ok_or("no disk group")?;
        api.call(&["disk-group", "replace-device", id, "--device", &old, "--with", &new, "--force", "--yes"])?;
        refused += some(&mut guest, 1000)?;
        cluster.wait_healthy(1, DISK, HEALTHY_WITHIN)?;
        cluster.say(format!("the device of h{host} was replaced; {refused} writes had no space"));
        guest.verify(cluster, host)?;
        guest.verify(cluster, 1)?;
        all_mounted(cluster)
    });
}
