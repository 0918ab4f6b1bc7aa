//! The metadata engine under power loss: redb on a region of a simulated disk.
//!
//! Goal: what was committed is there after any crash, and a commit is all or nothing. Method: crash at every
//! disk operation of a script of commits, in each phase, with several seeds of what is lost.

use std::{fmt, io, sync::Arc};

use cairn_env::{BlockingDisk, Disk, Env};
use cairn_sim::{CrashPhase, CrashPoint, Host, World};
use redb::{Database, Durability, ReadableDatabase, ReadableTable, StorageBackend, TableDefinition};

const TABLE: TableDefinition<u64, u64> = TableDefinition::new("t");
const COMMITS: u64 = 8;
const KEYS: u64 = 40;
/// Seeds of what is lost, per crash point.
const LOSSES: u64 = 4;
const REGION_BYTES: u64 = 8 << 20;
/// The length of the file that redb believes in: kept durably beside it, one sector.
const LEN_AT: u64 = REGION_BYTES;

struct Region(Arc<dyn BlockingDisk>);

impl fmt::Debug for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("region")
    }
}

fn other(error: cairn_env::DiskError) -> io::Error {
    io::Error::other(error)
}

impl StorageBackend for Region {
    fn len(&self) -> io::Result<u64> {
        let mut len = [0; 8];
        self.0.read_at(LEN_AT, &mut len).map_err(other)?;
        Ok(u64::from_le_bytes(len))
    }
    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.0.read_at(offset, out).map_err(other)
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        assert!(len <= REGION_BYTES);
        self.0.write_at(LEN_AT, &len.to_le_bytes()).map_err(other)?;
        self.0.sync().map_err(other)
    }
    fn sync_data(&self) -> io::Result<()> {
        self.0.sync().map_err(other)
    }
    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.write_at(offset, data).map_err(other)
    }
}

fn open(disk: Arc<dyn BlockingDisk>) -> Result<Database, redb::Error> {
    let mut builder = redb::Builder::new();
    builder.set_cache_size(1 << 20);
    Ok(builder.create_with_backend(Region(disk))?)
}

/// Commit `n` sets every key to `n`.
fn commit(database: &Database, n: u64) -> Result<(), redb::Error> {
    let mut transaction = database.begin_write()?;
    transaction.set_durability(Durability::Immediate)?;
    {
        let mut table = transaction.open_table(TABLE)?;
        for key in 0..KEYS {
            table.insert(key * 0x9e37, n)?;
        }
    }
    Ok(transaction.commit()?)
}

fn values(database: &Database) -> Result<Vec<u64>, redb::Error> {
    let transaction = database.begin_read()?;
    let table = match transaction.open_table(TABLE) {
        Err(redb::TableError::TableDoesNotExist(_)) => return Ok(vec![]),
        table => table?,
    };
    let values: Result<Vec<u64>, _> = table.iter()?.map(|e| e.map(|(_, v)| v.value())).collect();
    Ok(values?)
}

/// Runs the script until it ends or power goes; tells which commit was the last acknowledged one.
fn script(host: &Host) -> u64 {
    let (env, disk) = (host.env(), host.disk("cache"));
    let acked = std::rc::Rc::new(std::cell::Cell::new(0));
    let into = acked.clone();
    let _ = host.run(async move {
        let blocking = disk.blocking();
        let opening = env.run_blocking(move || open(blocking).map(Arc::new).ok());
        let Some(database) = opening.await else {
            return;
        };
        for n in 1..=COMMITS {
            let database = database.clone();
            if env.run_blocking(move || commit(&database, n)).await.is_err() {
                return;
            }
            into.set(n);
        }
    });
    acked.get()
}

fn world(seed: u64) -> (World, Host) {
    let world = World::new(seed);
    let host = world.add_host("a");
    host.add_disk("cache", REGION_BYTES + 4096);
    // A crash while the file is made may leave none ("magic number mismatch"): whoever formats a device writes its
    // superblock after this, and formats anew when it finds none.
    let disk = host.disk("cache").blocking();
    let made = host.run(async move { open(disk).map(drop).map_err(|e| e.to_string()) });
    assert_eq!(made, Ok(Ok(())));
    host.count_disk_operations_from_zero();
    (world, host)
}

fn crash_and_check(point: CrashPoint) {
    let (_world, host) = world(1);
    host.crash_at(point);
    let acked = script(&host);
    // The very last operations may be the clean close: no crash came then.
    host.no_planned_crash();
    host.crash(point.loss_seed);
    host.restart();
    let (env, disk) = (host.env(), host.disk("cache"));
    let held = host.run(async move {
        let blocking = disk.blocking();
        env.run_blocking(move || open(blocking).and_then(|database| values(&database))).await
    });
    let at = format!("{point:?}, {acked} acknowledged");
    let held = held.unwrap().unwrap_or_else(|e| panic!("{at}: {e}"));
    let first = held.first().copied().unwrap_or(0);
    assert!(held.iter().all(|v| *v == first), "{at}: half a commit: {held:?}");
    assert!(held.is_empty() || held.len() as u64 == KEYS, "{at}");
    assert!(first >= acked && first <= acked + 1, "{at}: holds {first}");
}

#[test]
fn a_commit_survives_power_loss_whole_or_not_at_all() {
    let (clean_world, host) = world(1);
    assert_eq!(script(&host), COMMITS);
    let operations = host.disk_operations();
    let again = world(1);
    assert_eq!(script(&again.1), COMMITS);
    assert_eq!(again.1.disk_operations(), operations);
    assert_eq!(again.0.trace_hash(), clean_world.trace_hash(), "one seed, one run");

    let mut points = 0;
    for operation in 1..=operations {
        for phase in [CrashPhase::Before, CrashPhase::During, CrashPhase::After] {
            for loss in 0..LOSSES {
                let loss_seed = (operation * 3 + phase as u64) * LOSSES + loss;
                crash_and_check(CrashPoint { operation, phase, loss_seed });
                points += 1;
            }
        }
    }
    println!("{points} crash points of {operations} disk operations");
    assert!(points > 800);
}
