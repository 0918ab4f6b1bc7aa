//! Arguments of `cairn snapshot`.

use clap::Subcommand;

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
    },
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
    /// Delete a snapshot; its space comes back afterwards
    ///
    /// The question tells how much that is. What another snapshot keeps as well stays until that is deleted too.
    Delete {
        /// DISK@NAME
        snapshot: String,
        /// Do not ask, nor look how much comes back
        #[arg(long, short)]
        yes: bool,
        /// Only tell how much would come back
        #[arg(long, conflicts_with = "yes")]
        dry_run: bool,
    },
}
