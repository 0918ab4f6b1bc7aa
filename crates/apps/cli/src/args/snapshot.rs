//! Arguments of `cairn snapshot`.

use clap::{Args, Subcommand};

use crate::units::seconds;

/// Snapshots of disks.
#[derive(Debug, Subcommand)]
pub enum Snapshot {
    /// The snapshots of a disk, the oldest first
    List {
        /// The disk, by name or id
        disk: String,
    },
    /// Take a snapshot: of several disks at one moment, or of none of them
    ///
    /// It has every change that was answered before. Guests wait for some milliseconds, and nothing is copied. A file system in use is
    /// as after a power cut then: sync or freeze it first where that matters. It is read as DISK@NAME, at every door.
    Create {
        /// Its name
        name: String,
        /// The disks, by name or id
        #[arg(required = true, value_name = "DISK")]
        disks: Vec<String>,
        /// Lock it: for so long nobody deletes it, nor its disks (30m, 2h, 30d); nobody can take that back
        #[arg(long, value_name = "TIME", value_parser = seconds)]
        locked_for: Option<u64>,
    },
    /// Lock a snapshot: nobody deletes it, nor its disk, before that time is over
    ///
    /// A lock can be made longer, and never shorter; it ends by itself.
    Lock {
        /// DISK@NAME
        snapshot: String,
        /// How long from now: 30m, 2h, 30d
        #[arg(long = "for", value_name = "TIME", value_parser = seconds)]
        for_s: u64,
        /// Do not ask
        #[arg(long, short)]
        yes: bool,
    },
    /// Snapshots that the cluster takes and deletes by itself
    #[command(subcommand)]
    Schedule(Schedule),
    /// What changed between two snapshots of a disk, or what one of them holds: extents in bytes, for backups
    Changes {
        /// The later snapshot: DISK@NAME
        snapshot: String,
        /// The earlier one, by its own name [default: all that the later one holds]
        #[arg(long, value_name = "NAME")]
        since: Option<String>,
    },
    /// Have a disk go back to a snapshot; refused while a guest has the disk open
    ///
    /// What changed since is written back, so it takes as long as writing that. Guests wait until it is done. All snapshots stay, also
    /// later ones. What the disk has now is kept as a snapshot before-rollback-SECONDS, unless --discard is given.
    Rollback {
        /// DISK@NAME
        snapshot: String,
        /// Do not ask
        #[arg(long, short)]
        yes: bool,
        /// Do not keep what the disk has now
        #[arg(long)]
        discard: bool,
        /// Go back although guests have the disk open: what they keep in memory no longer fits it
        #[arg(long)]
        force: bool,
        /// Return when it is done
        #[arg(long)]
        wait: bool,
    },
    /// Delete a snapshot; its space comes back afterwards. Refused while it is locked
    Delete {
        /// DISK@NAME
        snapshot: String,
        /// Do not ask
        #[arg(long, short)]
        yes: bool,
    },
}

/// Schedules of snapshots.
#[derive(Debug, Subcommand)]
pub enum Schedule {
    /// All schedules
    List,
    /// One schedule: its rules, the disks that it matches now, its last run, what it missed, its next run
    Show {
        /// Name
        schedule: String,
    },
    /// Make a schedule
    ///
    /// Runs are at full multiples of the time between them, in UTC: with 1h at each full hour. A snapshot is called by the schedule and its run,
    /// NAME-20261129T100000Z. A run that was missed is told and counted; of several only the newest is made up for. What one of the four --keep options keeps
    /// stays: hours, days and weeks are those in which there is a snapshot. What was taken by hand is never deleted.
    Create(ScheduleCreate),
    /// Change a schedule; what is left out stays
    Edit(ScheduleEdit),
    /// Let a schedule rest; what is due meanwhile is not missed
    Pause {
        /// Name
        schedule: String,
    },
    /// Have a schedule go on with its next run
    Resume {
        /// Name
        schedule: String,
    },
    /// Delete a schedule; its snapshots stay
    Delete {
        /// Name
        schedule: String,
        /// Do not ask
        #[arg(long, short)]
        yes: bool,
    },
}

/// A new schedule.
#[derive(Debug, Args)]
pub struct ScheduleCreate {
    /// Its name
    pub name: String,
    /// Of disks with these names: * stands for any characters, ? for one; several with commas, or the option once more
    #[arg(long, required = true, value_name = "PATTERN", value_delimiter = ',')]
    pub disks: Vec<String>,
    /// Time between two runs, at least 10s: 30m, 1h, 1d
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    pub every: u64,
    /// Keep the newest N of each disk
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub keep_last: u32,
    /// Keep the newest of each of N hours
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub keep_hourly: u32,
    /// Keep the newest of each of N days
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub keep_daily: u32,
    /// Keep the newest of each of N weeks
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub keep_weekly: u32,
    /// Lock each: for so long nobody deletes it, nor its disk; nobody can take that back
    #[arg(long, value_name = "TIME", value_parser = seconds, default_value = "0")]
    pub locked_for: u64,
    /// Only tell what it would come to
    #[arg(long)]
    pub dry_run: bool,
}

/// What is to be changed of a schedule.
#[derive(Debug, Args)]
pub struct ScheduleEdit {
    /// Name
    pub schedule: String,
    /// Of disks with these names
    #[arg(long, value_name = "PATTERN", value_delimiter = ',')]
    pub disks: Vec<String>,
    /// Time between two runs
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    pub every: Option<u64>,
    /// Keep the newest N of each disk
    #[arg(long, value_name = "N")]
    pub keep_last: Option<u32>,
    /// Keep the newest of each of N hours
    #[arg(long, value_name = "N")]
    pub keep_hourly: Option<u32>,
    /// Keep the newest of each of N days
    #[arg(long, value_name = "N")]
    pub keep_daily: Option<u32>,
    /// Keep the newest of each of N weeks
    #[arg(long, value_name = "N")]
    pub keep_weekly: Option<u32>,
    /// Lock those that are taken from now on for so long; those that are locked stay so
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    pub locked_for: Option<u64>,
    /// Only tell what it would come to
    #[arg(long)]
    pub dry_run: bool,
}
