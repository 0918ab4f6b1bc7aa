//! The list of management calls, once: both traits and the daemon's bridge are made from it.

/// Hands the list of calls to the macro `$with`, as `docs fn name(argument: Type, ...) -> Answer;` items.
///
/// One list, because two traits and a bridge written by hand drift apart one call at a time.
/// `disk`, `host`, `policy` arguments are a name or an id; `disk_group` is an id. Types are paths from the crate root.
#[macro_export]
macro_rules! management_calls {
    ($with:path) => {
        $with! {
            /// The cluster as a whole.
            fn cluster_status() -> $crate::v1::ClusterStatus;
            /// The settings that hold for all hosts.
            fn cluster_settings() -> $crate::v1::ClusterSettings;
            /// Changes the settings that the patch names; answers with all of them.
            fn cluster_settings_set(patch: $crate::v1::ClusterSettingsPatch) -> $crate::v1::ClusterSettings;

            /// Every host that the cluster knows, by name.
            fn host_list() -> Vec<$crate::v1::Host>;
            /// One host.
            fn host_show(host: String) -> $crate::v1::Host;
            /// Enters or leaves maintenance.
            fn host_maintenance(host: String, request: $crate::v1::HostMaintenance) -> $crate::v1::Host;

            /// Every disk group, by host.
            fn disk_group_list() -> Vec<$crate::v1::DiskGroup>;
            /// One disk group.
            fn disk_group_show(disk_group: cairn_types::DiskGroupId) -> $crate::v1::DiskGroup;
            /// Claims devices (or makes files) and opens a disk group on them.
            fn disk_group_create(request: $crate::v1::DiskGroupCreate) -> $crate::v1::DiskGroup;
            /// Gives up a disk group; refused while it holds components.
            fn disk_group_remove(disk_group: cairn_types::DiskGroupId) -> ();

            /// Every virtual disk, by name.
            fn disk_list() -> Vec<$crate::v1::DiskSummary>;
            /// One virtual disk with its components.
            fn disk_show(disk: String) -> $crate::v1::Disk;
            /// Makes a virtual disk. Returns when it can be opened; space is taken when it is written.
            fn disk_create(request: $crate::v1::DiskCreate) -> $crate::v1::Disk;
            /// Deletes a virtual disk. Returns when the deletion is decided; space comes back afterwards.
            fn disk_delete(disk: String) -> ();
            /// Grows a virtual disk.
            fn disk_resize(disk: String, request: $crate::v1::DiskResize) -> $crate::v1::Disk;
            /// Makes a host the owner of a disk (hand-over), so that a guest there has no extra hop.
            fn disk_attach(disk: String, request: $crate::v1::DiskAttach) -> $crate::v1::Disk;
            /// What every seat of a disk holds: for the curious and the unlucky. Its shape may change.
            fn disk_record(disk: String) -> $crate::v1::ObjectRecord;

            /// Every policy, by name; `default` is always there.
            fn policy_list() -> Vec<$crate::v1::Policy>;
            /// One policy.
            fn policy_show(policy: String) -> $crate::v1::Policy;
            /// Adds a policy.
            fn policy_create(request: $crate::v1::PolicyCreate) -> $crate::v1::Policy;
            /// Deletes a policy; disks keep the rules that they were made with. `default` stays.
            fn policy_delete(policy: String) -> ();

            /// The named checks, worst first.
            fn health() -> $crate::v1::Health;

            /// Every resync that runs or waits.
            fn resync_list() -> Vec<$crate::v1::Resync>;
            /// How fast resync may go.
            fn resync_settings() -> $crate::v1::ResyncSettings;
            /// Changes how fast resync may go.
            fn resync_settings_set(request: $crate::v1::ResyncSettings) -> $crate::v1::ResyncSettings;

            /// Counters and gauges of all hosts that answer: of guests, and of every disk group.
            fn counters() -> $crate::v1::Counters;
            /// How long each stage of a disk's reads and writes took, at all hosts that answer.
            fn disk_latencies(disk: String) -> $crate::v1::Latencies;
            /// An overview of the same for the disks with the most requests.
            fn latencies() -> $crate::v1::Latencies;
            /// Destages the write buffers and empties the read caches; returns when that is done, or the time is over.
            fn caches_clear(request: $crate::v1::CacheClear) -> $crate::v1::CachesCleared;
            /// Counters of this host in the text format of Prometheus.
            fn metrics() -> String;
        }
    };
}
