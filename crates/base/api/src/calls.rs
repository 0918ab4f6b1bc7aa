//! The list of management calls, once.
//!
//! Promises    both traits, the bridge, the HTTP routes, their OpenAPI description and the command line's client are made
//!             from it: a new call is one entry here, its types and its handler in `node`
//! Not here    what the calls do (`node`), how they look on a terminal (the command line)

/// Hands the list of calls to the macro `$with`, as items of this form:
///
/// `docs METHOD "PATH" STATUS WHO "SECTION" fn name[argument in the path: Type](body: Type) -> Answer;`
///
/// `STATUS` is that of success; 204 has no answer. `WHO` is a [`crate::Access`] in lower case. The argument in the path has
/// the name that the path gives it. A body implements [`crate::Request`]; that of a `get` or `delete` travels as the query, and is
/// flat. An answer that is a bare `String` is sent as text.
/// `disk`, `host`, `policy` arguments are a name or an id; `disk_group` is an id. Types are paths from the crate root.
#[macro_export]
macro_rules! management_calls {
    ($with:path) => {
        $with! {
            /// The cluster as a whole.
            get "/api/v1/cluster" 200 viewer "cluster"
            fn cluster_status[]() -> $crate::v1::ClusterStatus;
            /// Where the bytes of all devices are: what disks, clones and snapshots have, what that takes, and what is beside it.
            get "/api/v1/cluster/capacity" 200 viewer "cluster"
            fn cluster_capacity[]() -> $crate::v1::ClusterCapacity;
            /// The settings that hold for all hosts.
            get "/api/v1/cluster/settings" 200 viewer "cluster"
            fn cluster_settings[]() -> $crate::v1::ClusterSettings;
            /// Changes the settings that the patch names; what is left out stays. Answers with all of them.
            patch "/api/v1/cluster/settings" 200 admin "cluster"
            fn cluster_settings_set[](patch: $crate::v1::ClusterSettingsPatch) -> $crate::v1::ClusterSettings;
            /// For a while, what is lost is not replaced: for work on the network or on several hosts. Ends by itself, or with 0 seconds.
            post "/api/v1/cluster/pause-repair" 200 operator "cluster"
            fn cluster_pause_repair[](request: $crate::v1::RepairPause) -> $crate::v1::ClusterSettings;

            /// What every host runs, what the cluster uses, and what finishing the upgrade would switch on.
            get "/api/v1/cluster/upgrade" 200 viewer "cluster"
            fn cluster_upgrade[]() -> $crate::v1::Upgrade;
            /// Finishes an upgrade: switches on what all hosts have. Older releases are refused from then on, and nothing goes back.
            post "/api/v1/cluster/upgrade/finish" 200 admin "cluster"
            fn cluster_upgrade_finish[](request: $crate::v1::UpgradeFinish) -> $crate::v1::Upgrade;

            /// The hosts that run the members of the directory, and how each member is.
            get "/api/v1/cluster/members" 200 viewer "cluster"
            fn cluster_members[]() -> $crate::v1::DirectoryMembers;
            /// Has another host run a member of the directory, one no more, or one in the place of another. Returns when that is entered:
            /// hosts follow afterwards, so look until it is settled.
            post "/api/v1/cluster/members" 200 admin "cluster"
            fn cluster_members_change[](request: $crate::v1::DirectoryMembersChange) -> $crate::v1::DirectoryMembers;

            /// Every host that the cluster knows, by name.
            get "/api/v1/hosts" 200 viewer "host"
            fn host_list[]() -> Vec<$crate::v1::Host>;
            /// One host.
            get "/api/v1/hosts/{host}" 200 viewer "host"
            fn host_show[host: String]() -> $crate::v1::Host;
            /// Every block device of a host: whether it is free, what uses it, or why it cannot be used.
            get "/api/v1/hosts/{host}/devices" 200 viewer "host"
            fn host_devices[host: String]() -> Vec<$crate::v1::HostDevice>;
            /// Lights the locate LED of a block device, or puts it out, by `ledctl` at its host. What is lit is known to the enclosure alone:
            /// nothing here keeps it.
            post "/api/v1/hosts/{host}/devices/locate" 200 operator "host"
            fn host_locate[host: String](request: $crate::v1::DeviceLocate) -> $crate::v1::DeviceLocated;
            /// Whether a host is in maintenance, and what has to be moved away before it is.
            get "/api/v1/hosts/{host}/maintenance" 200 viewer "host"
            fn host_maintenance_show[host: String]() -> $crate::v1::Maintenance;
            /// Enters or leaves maintenance, or tells what would come of it. Returns at once: components are moved afterwards.
            post "/api/v1/hosts/{host}/maintenance" 200 operator "host"
            fn host_maintenance[host: String](request: $crate::v1::HostMaintenance) -> $crate::v1::Maintenance;
            /// Takes a host that is empty out of the cluster, with its disk groups; refused while a disk has anything there. Tells
            /// what stands in the way, or what was removed.
            delete "/api/v1/hosts/{host}" 200 admin "host"
            fn host_remove[host: String](how: $crate::v1::HostRemove) -> $crate::v1::HostRemoval;
            /// Gives up a host that is dead, or tells what would be lost with it; refused while it is alive. What it held is
            /// rebuilt elsewhere at once.
            post "/api/v1/hosts/{host}/forget" 200 admin "host"
            fn host_forget[host: String](request: $crate::v1::HostForget) -> $crate::v1::HostLoss;
            /// Takes a host that was removed or forgotten in again, when it starts next.
            post "/api/v1/hosts/{host}/readmit" 204 admin "host"
            fn host_readmit[host: String]() -> ();

            /// Every disk group, by host.
            get "/api/v1/disk-groups" 200 viewer "disk-group"
            fn disk_group_list[]() -> Vec<$crate::v1::DiskGroup>;
            /// One disk group.
            get "/api/v1/disk-groups/{disk_group}" 200 viewer "disk-group"
            fn disk_group_show[disk_group: cairn_types::DiskGroupId]() -> $crate::v1::DiskGroup;
            /// Claims devices (or makes files) and opens a disk group on them.
            post "/api/v1/disk-groups" 201 admin "disk-group"
            fn disk_group_create[](request: $crate::v1::DiskGroupCreate) -> $crate::v1::DiskGroup;
            /// Whether a disk group is being emptied, and what is left there.
            get "/api/v1/disk-groups/{disk_group}/drain" 200 viewer "disk-group"
            fn disk_group_drain_show[disk_group: cairn_types::DiskGroupId]() -> $crate::v1::Maintenance;
            /// Moves everything away from a disk group, stops that, or tells what would come of it. Returns at once.
            post "/api/v1/disk-groups/{disk_group}/drain" 200 admin "disk-group"
            fn disk_group_drain[disk_group: cairn_types::DiskGroupId](request: $crate::v1::DiskGroupDrain) -> $crate::v1::Maintenance;
            /// Adds a capacity device to a disk group in use, or tells what would come of it.
            post "/api/v1/disk-groups/{disk_group}/devices" 200 admin "disk-group"
            fn disk_group_add_capacity[disk_group: cairn_types::DiskGroupId](request: $crate::v1::DiskGroupAddCapacity) -> $crate::v1::DeviceChange;
            /// Puts a device in the place of one that is dead or is to go, or tells what would come of it. What is on that is lost; refused
            /// where that is a disk's only good copy, unless forced.
            post "/api/v1/disk-groups/{disk_group}/devices/replace" 200 admin "disk-group"
            fn disk_group_replace_device[disk_group: cairn_types::DiskGroupId](request: $crate::v1::DiskGroupReplaceDevice) -> $crate::v1::DeviceChange;
            /// Chooses anew what can be chosen of a disk group in use; what is left out stays.
            patch "/api/v1/disk-groups/{disk_group}" 200 admin "disk-group"
            fn disk_group_set[disk_group: cairn_types::DiskGroupId](settings: $crate::v1::DiskGroupSettings) -> $crate::v1::DiskGroup;
            /// Gives up a disk group; refused while it holds components.
            delete "/api/v1/disk-groups/{disk_group}" 204 admin "disk-group"
            fn disk_group_remove[disk_group: cairn_types::DiskGroupId]() -> ();

            /// Every virtual disk, by name.
            get "/api/v1/disks" 200 viewer "disk"
            fn disk_list[]() -> Vec<$crate::v1::DiskSummary>;
            /// One virtual disk with its components.
            get "/api/v1/disks/{disk}" 200 viewer "disk"
            fn disk_show[disk: String]() -> $crate::v1::Disk;
            /// Makes a virtual disk. Returns when it can be opened; space is taken when it is written, save what its policy
            /// reserves.
            post "/api/v1/disks" 201 operator "disk"
            fn disk_create[](request: $crate::v1::DiskCreate) -> $crate::v1::Disk;
            /// Deletes a virtual disk; refused while a session has it open, unless forced. Returns when the deletion is decided;
            /// space comes back afterwards.
            delete "/api/v1/disks/{disk}" 204 operator "disk"
            fn disk_delete[disk: String](how: $crate::v1::DiskDelete) -> ();
            /// What a disk takes: now, for each of its snapshots, and set aside. What it keeps of its past is looked through for that.
            get "/api/v1/disks/{disk}/usage" 200 viewer "disk"
            fn disk_usage[disk: String]() -> $crate::v1::DiskUsage;
            /// Gives a virtual disk another name; refused while a session has it open, unless forced.
            post "/api/v1/disks/{disk}/rename" 200 operator "disk"
            fn disk_rename[disk: String](request: $crate::v1::DiskRename) -> $crate::v1::Disk;
            /// Grows a virtual disk.
            post "/api/v1/disks/{disk}/resize" 200 operator "disk"
            fn disk_resize[disk: String](request: $crate::v1::DiskResize) -> $crate::v1::Disk;
            /// Changes how much guests may do with a disk, at once; what is left out stays.
            patch "/api/v1/disks/{disk}" 200 operator "disk"
            fn disk_set[disk: String](limits: $crate::v1::DiskLimits) -> $crate::v1::Disk;
            /// Sets another policy for a disk in use, or tells what would come of it. Returns at once: copies come and go afterwards.
            put "/api/v1/disks/{disk}/policy" 200 operator "disk"
            fn disk_policy_set[disk: String](request: $crate::v1::DiskPolicySet) -> $crate::v1::DiskChange;
            /// Moves a disk's components away from a host, or tells what would come of it. Returns at once.
            post "/api/v1/disks/{disk}/move" 200 operator "disk"
            fn disk_move[disk: String](request: $crate::v1::DiskMove) -> $crate::v1::DiskChange;
            /// Makes a host the owner of a disk (hand-over), so that a guest there has no extra hop.
            post "/api/v1/disks/{disk}/attach" 200 operator "disk"
            fn disk_attach[disk: String](request: $crate::v1::DiskAttach) -> $crate::v1::Disk;
            /// What every seat of a disk holds. For debugging: the shape of `config` may change.
            get "/api/v1/disks/{disk}/record" 200 viewer "disk"
            fn disk_record[disk: String]() -> $crate::v1::ObjectRecord;

            /// The snapshots of a disk, the oldest first.
            get "/api/v1/disks/{disk}/snapshots" 200 viewer "snapshot"
            fn snapshot_list[disk: String]() -> Vec<$crate::v1::Snapshot>;
            /// What changed of a disk between two of its snapshots, or what one of them holds: for backups.
            get "/api/v1/disks/{disk}/changes" 200 viewer "snapshot"
            fn disk_changes[disk: String](between: $crate::v1::ChangesBetween) -> $crate::v1::Changes;
            /// Takes a snapshot of disks, all at one moment, or of none of them. Guests wait for some milliseconds.
            post "/api/v1/snapshots" 201 operator "snapshot"
            fn snapshot_create[](request: $crate::v1::SnapshotCreate) -> Vec<$crate::v1::Snapshot>;
            /// Has a disk go back to a snapshot, DISK@NAME; refused while a session has the disk open, unless forced. What it has now is kept
            /// as another snapshot, unless that is not wanted. Returns when it has begun: guests wait until it is done.
            post "/api/v1/snapshots/{snapshot}/rollback" 200 operator "snapshot"
            fn snapshot_rollback[snapshot: String](how: $crate::v1::SnapshotRollback) -> $crate::v1::Rollback;
            /// Makes a disk of a snapshot, DISK@NAME, at once: it has of its own only what is written to it, and needs the snapshot until it is
            /// flattened.
            post "/api/v1/snapshots/{snapshot}/clone" 201 operator "snapshot"
            fn disk_clone[snapshot: String](request: $crate::v1::DiskClone) -> $crate::v1::Disk;
            /// Copies what a clone has of its parents, so that it needs them no more. Returns when it has begun; guests go on.
            post "/api/v1/disks/{disk}/flatten" 200 operator "snapshot"
            fn disk_flatten[disk: String]() -> $crate::v1::Disk;
            /// Locks a snapshot, DISK@NAME: until then nobody deletes it, nor its disk. A lock is made longer, and never shorter.
            post "/api/v1/snapshots/{snapshot}/lock" 200 operator "snapshot"
            fn snapshot_lock[snapshot: String](request: $crate::v1::SnapshotLock) -> $crate::v1::Snapshot;
            /// Deletes a snapshot, DISK@NAME; refused while it is locked or has clones. Returns when it is decided; space comes back afterwards.
            delete "/api/v1/snapshots/{snapshot}" 204 operator "snapshot"
            fn snapshot_delete[snapshot: String]() -> ();

            /// Every schedule of snapshots, by name.
            get "/api/v1/snapshot-schedules" 200 viewer "snapshot"
            fn snapshot_schedule_list[]() -> Vec<$crate::v1::SnapshotSchedule>;
            /// One schedule: its rules, the disks that it matches now, its last run and its next one.
            get "/api/v1/snapshot-schedules/{schedule}" 200 viewer "snapshot"
            fn snapshot_schedule_show[schedule: String]() -> $crate::v1::SnapshotSchedule;
            /// Makes a schedule, or tells what it would come to. It runs for the first time when the next run is due.
            post "/api/v1/snapshot-schedules" 201 operator "snapshot"
            fn snapshot_schedule_create[](request: $crate::v1::ScheduleCreate) -> $crate::v1::SnapshotSchedule;
            /// Gives a schedule other rules, or tells what they would come to. What was taken stays locked as long as it was.
            put "/api/v1/snapshot-schedules/{schedule}" 200 operator "snapshot"
            fn snapshot_schedule_edit[schedule: String](request: $crate::v1::ScheduleEdit) -> $crate::v1::SnapshotSchedule;
            /// Pauses a schedule, or has it go on with its next run. What is due meanwhile is not missed.
            post "/api/v1/snapshot-schedules/{schedule}/pause" 200 operator "snapshot"
            fn snapshot_schedule_pause[schedule: String](request: $crate::v1::SchedulePause) -> $crate::v1::SnapshotSchedule;
            /// Deletes a schedule. Its snapshots stay.
            delete "/api/v1/snapshot-schedules/{schedule}" 204 operator "snapshot"
            fn snapshot_schedule_delete[schedule: String]() -> ();

            /// Who has which disk open, through which host and front end, and since when.
            get "/api/v1/sessions" 200 viewer "disk"
            fn session_list[]() -> $crate::v1::Sessions;

            /// Every policy, by name; `default` is always there.
            get "/api/v1/policies" 200 viewer "policy"
            fn policy_list[]() -> Vec<$crate::v1::Policy>;
            /// One policy.
            get "/api/v1/policies/{policy}" 200 viewer "policy"
            fn policy_show[policy: String]() -> $crate::v1::Policy;
            /// Adds a policy.
            post "/api/v1/policies" 201 admin "policy"
            fn policy_create[](request: $crate::v1::PolicyCreate) -> $crate::v1::Policy;
            /// Gives a policy other rules, and all disks that have it, or tells what would come of it. Returns at once: copies come and go
            /// afterwards.
            put "/api/v1/policies/{policy}" 200 admin "policy"
            fn policy_edit[policy: String](request: $crate::v1::PolicyEdit) -> $crate::v1::PolicyChange;
            /// Deletes a policy; disks keep the rules that they were made with. `default` stays.
            delete "/api/v1/policies/{policy}" 204 admin "policy"
            fn policy_delete[policy: String]() -> ();

            /// What would become of the disks if a host, a disk group or a capacity device were lost for good. Changes nothing.
            get "/api/v1/what-if/lost" 200 viewer "what-if"
            fn what_if_lost[](lost: $crate::v1::WhatIfLost) -> $crate::v1::WhatIf;

            /// What would become of the cluster if hosts, or a capacity device, were added: room, disks that get what they lack, moves.
            get "/api/v1/what-if/growth" 200 viewer "what-if"
            fn what_if_growth[](growth: $crate::v1::WhatIfGrowth) -> $crate::v1::Growth;

            /// The named checks, worst first.
            get "/api/v1/health" 200 viewer "health"
            fn health[]() -> $crate::v1::Health;

            /// What checks found so far, and when it ended.
            get "/api/v1/health/history" 200 viewer "health"
            fn health_history[]() -> $crate::v1::HealthHistory;

            /// Mutes a check for a time, with a reason, or ends that. Answers with all checks.
            post "/api/v1/health/mute" 200 operator "health"
            fn health_mute[](request: $crate::v1::HealthMute) -> $crate::v1::Health;

            /// Every resync that runs or waits.
            get "/api/v1/resyncs" 200 viewer "resync"
            fn resync_list[]() -> Vec<$crate::v1::Resync>;
            /// How fast resync may go.
            get "/api/v1/resyncs/settings" 200 viewer "resync"
            fn resync_settings[]() -> $crate::v1::ResyncSettings;
            /// Changes how fast resync may go.
            put "/api/v1/resyncs/settings" 200 operator "resync"
            fn resync_settings_set[](request: $crate::v1::ResyncSettings) -> $crate::v1::ResyncSettings;

            /// How far the scrub of every disk group is, and what it has found.
            get "/api/v1/scrubs" 200 viewer "scrub"
            fn scrub_list[]() -> Vec<$crate::v1::Scrub>;
            /// Starts, pauses or resumes scrubs. Returns at once, with how far those are.
            post "/api/v1/scrubs" 200 operator "scrub"
            fn scrub[](request: $crate::v1::ScrubChange) -> Vec<$crate::v1::Scrub>;

            /// Counters and gauges of all hosts that answer: of guests, and of every disk group.
            get "/api/v1/counters" 200 viewer "measure"
            fn counters[]() -> $crate::v1::Counters;
            /// How long each stage of a disk's reads and writes took, at every host that took part and answers.
            get "/api/v1/disks/{disk}/latencies" 200 viewer "measure"
            fn disk_latencies[disk: String]() -> $crate::v1::Latencies;
            /// An overview of the latencies of all disks: of each host those with the most requests, without bins but for whole
            /// requests.
            get "/api/v1/latencies" 200 viewer "measure"
            fn latencies[]() -> $crate::v1::Latencies;
            /// Destages the write buffers, then empties the read caches. Answers when that is done or the time is over: look
            /// at `clear`.
            post "/api/v1/caches/clear" 200 operator "measure"
            fn caches_clear[](request: $crate::v1::CacheClear) -> $crate::v1::CachesCleared;
            /// Counters of this server in the text format of Prometheus.
            get "/metrics" 200 viewer "health"
            fn metrics[]() -> String;
        }
    };
}

/// Who may make a call. Each may do what those before may.
///
/// There is no authentication yet: whoever reaches the API may do everything. The list already says what a role will need.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Access {
    /// Looks, and changes nothing.
    Viewer,
    /// Runs the cluster from day to day: disks, hosts at rest, the pace of resync.
    Operator,
    /// Changes what the cluster consists of, and its rules.
    Admin,
}

impl Access {
    /// In a word.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Operator => "operator",
            Self::Admin => "admin",
        }
    }
}

/// One management call, without its types.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Call {
    /// As the functions are called.
    pub name: &'static str,
    /// Of HTTP, in lower case.
    pub method: &'static str,
    /// With `{name}` where its argument stands.
    pub path: &'static str,
    /// The HTTP status of success.
    pub status: u16,
    /// Who may make it.
    pub access: Access,
}

macro_rules! access {
    (viewer) => {
        Access::Viewer
    };
    (operator) => {
        Access::Operator
    };
    (admin) => {
        Access::Admin
    };
}

macro_rules! table {
    ($($(#[$doc:meta])* $method:ident $path:literal $status:literal $who:ident $section:literal
        fn $name:ident[$($place:ident: $place_type:ty)?]($($body:ident: $body_type:ty)?) -> $answer:ty;)*) => {
        /// Every management call, in the order of the list.
        pub const CALLS: &[Call] = &[$(Call {
            name: stringify!($name),
            method: stringify!($method),
            path: $path,
            status: $status,
            access: access!($who),
        },)*];

        // Each body is one that is checked before a shard is asked.
        $($(const _: fn(&$body_type) -> crate::ApiResult<()> = <$body_type as crate::Request>::validate;)?)*
    };
}

management_calls!(table);

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_call_has_one_name_and_one_place_and_looking_is_for_viewers() {
        let names: BTreeSet<&str> = CALLS.iter().map(|call| call.name).collect();
        let places: BTreeSet<(&str, &str)> = CALLS.iter().map(|call| (call.method, call.path)).collect();
        assert_eq!((names.len(), places.len()), (CALLS.len(), CALLS.len()));
        for call in CALLS {
            assert_eq!(call.method == "get", call.access == Access::Viewer, "{}", call.name);
            assert!(call.path.starts_with("/api/v1/") || call.name == "metrics", "{}", call.path);
        }
    }
}
