//! Which options of fio there are, and what becomes of each.
//!
//! Promises    every option of fio 3.33 is here: taken, told in a note, or refused with a reason        (tests/files.rs)
//! Not here    values (`job`)
//! Source      `fio --cmdhelp=all`, and `--enghelp` of libaio and io_uring; fio's HOWTO

use std::collections::BTreeMap;

use super::ini::{Item, Section};
use crate::{
    error::{FileError, suggestion},
    keyword::{
        Table,
        Use::{Noted, Refused, Taken},
    },
    plan::Note,
};

/// Other names of the same.
const ALIASES: &[(&str, &str)] = &[
    ("blockalign", "ba"),
    ("blocksize", "bs"),
    ("blocksize_unaligned", "bs_unaligned"),
    ("blocksize_range", "bsrange"),
    ("disable_bw", "disable_bw_measurement"),
    ("fill_fs", "fill_device"),
    ("io_limit", "io_size"),
    ("iodepth_batch_submit", "iodepth_batch"),
    ("iodepth_batch_complete", "iodepth_batch_complete_min"),
    ("iomem", "mem"),
    ("nr_files", "nrfiles"),
    ("fileoffset", "offset"),
    ("ratecycle", "rate_cycle"),
    ("ratemin", "rate_min"),
    ("timeout", "runtime"),
    ("readwrite", "rw"),
    ("ss", "steadystate"),
    ("ss_dur", "steadystate_duration"),
    ("ss_ramp", "steadystate_ramp_time"),
    ("wait_for_previous", "stonewall"),
];

const OWN_RESULTS: &str = "the results have every second, every stream and all percentiles";
const OWN_CONTENT: &str = "each block that is written is made anew, from one seed";
const OWN_PROCESS: &str = "one thread drives all targets here";
const NO_FILES: &str = "targets are there before, and stay";
const NO_COMMANDS: &str = "commands are not started from a job file: run them before and after";
const NO_REPLAY: &str = "cairn bench replay takes I/O logs";
const NO_SEARCH: &str = "depths are not searched for: give iodepth=";
const NO_TRIMS: &str = "no trims are sent";
const NO_ZONES: &str = "there are no zones";

/// The options, by the names that they have here.
pub(super) const OPTIONS: Table = &[
    ("allow_file_create", Noted(NO_FILES)),
    ("allow_mounted_write", Noted(NO_FILES)),
    ("allrandrepeat", Noted(OWN_CONTENT)),
    ("atomic", Noted("there is no page cache between")),
    ("ba", Refused("requests begin at multiples of their own size: leave it out")),
    ("block_error_percentiles", Noted(OWN_RESULTS)),
    ("bs", Taken),
    ("bs_unaligned", Refused("sizes are multiples of 512")),
    ("bsrange", Taken),
    ("bssplit", Taken),
    ("buffer_compress_chunk", Noted("compressible and random bytes share units of 4 KiB")),
    ("buffer_compress_percentage", Taken),
    (
        "buffer_pattern",
        Refused("what is written is random, with dedupe_percentage and buffer_compress_percentage as asked"),
    ),
    ("buffered", Taken),
    ("bwavgtime", Noted(OWN_RESULTS)),
    ("cgroup", Noted(OWN_PROCESS)),
    ("cgroup_nodelete", Noted(OWN_PROCESS)),
    ("cgroup_weight", Noted(OWN_PROCESS)),
    ("clat_percentiles", Noted(OWN_RESULTS)),
    ("clocksource", Noted(OWN_PROCESS)),
    ("cmd_type", Refused("commands are for a character device of the drive: name the block device")),
    ("cmdprio", Noted(OWN_PROCESS)),
    ("cmdprio_bssplit", Noted(OWN_PROCESS)),
    ("cmdprio_class", Noted(OWN_PROCESS)),
    ("cmdprio_percentage", Noted(OWN_PROCESS)),
    ("continue_on_error", Taken),
    ("cpumask", Noted(OWN_PROCESS)),
    ("cpus_allowed", Noted(OWN_PROCESS)),
    ("cpus_allowed_policy", Noted(OWN_PROCESS)),
    ("create_fsync", Noted(NO_FILES)),
    ("create_on_open", Noted(NO_FILES)),
    ("create_only", Refused("nothing would be run")),
    ("create_serialize", Noted(NO_FILES)),
    ("dedupe_global", Noted("duplicates are drawn from one set for all jobs")),
    ("dedupe_mode", Taken),
    ("dedupe_percentage", Taken),
    ("dedupe_working_set_percentage", Taken),
    ("description", Noted("it is for people")),
    ("direct", Taken),
    ("directory", Refused("name the target itself in filename=")),
    ("disable_bw_measurement", Noted(OWN_RESULTS)),
    ("disable_clat", Noted(OWN_RESULTS)),
    ("disable_lat", Noted(OWN_RESULTS)),
    ("disable_slat", Noted(OWN_RESULTS)),
    ("disk_util", Noted(OWN_RESULTS)),
    ("do_verify", Noted("verify= is what counts, and only 0 is taken")),
    ("end_fsync", Noted("writes to paths are durable each")),
    ("error_dump", Noted("a run ends at its first error")),
    ("exec_postrun", Refused(NO_COMMANDS)),
    ("exec_prerun", Refused(NO_COMMANDS)),
    ("exit_what", Noted("a run has one measured time for all its jobs")),
    ("exitall", Noted("a run has one measured time for all its jobs")),
    ("exitall_on_error", Noted("a run ends at its first error")),
    ("experimental_verify", Noted("verify= is what counts, and only 0 is taken")),
    ("fadvise_hint", Noted("there is no page cache between")),
    ("fallocate", Noted(NO_FILES)),
    ("fdatasync", Taken),
    ("file_append", Refused("name where it begins with offset=")),
    ("file_service_type", Noted("each job has one file")),
    ("filename", Taken),
    ("filename_format", Refused("name the target itself in filename=")),
    ("filesize", Refused("say how much with size= or io_size=")),
    ("fill_device", Refused("say how much with size= or io_size=")),
    ("fixedbufs", Noted(OWN_PROCESS)),
    ("flow", Refused("jobs are equals: give each a rate with rate_iops=")),
    ("flow_id", Refused("jobs are equals: give each a rate with rate_iops=")),
    ("flow_sleep", Refused("jobs are equals: give each a rate with rate_iops=")),
    ("force_async", Noted(OWN_PROCESS)),
    ("fsync", Taken),
    ("fsync_on_close", Noted("writes to paths are durable each")),
    ("gid", Noted(OWN_PROCESS)),
    ("group_reporting", Noted("the results have the sum and every stream")),
    ("gtod_cpu", Noted(OWN_PROCESS)),
    ("gtod_reduce", Noted("latencies are always measured")),
    ("hipri", Noted(OWN_PROCESS)),
    ("hugepage-size", Noted(OWN_PROCESS)),
    ("ignore_error", Noted("a run ends at its first error")),
    ("ignore_zone_limits", Refused(NO_ZONES)),
    ("invalidate", Noted("there is no page cache between")),
    ("io_size", Taken),
    ("io_submit_mode", Taken),
    ("iodepth", Taken),
    ("iodepth_batch", Noted("the next request is given away as soon as there is room for it")),
    ("iodepth_batch_complete_max", Noted("the next request is given away as soon as there is room for it")),
    ("iodepth_batch_complete_min", Noted("the next request is given away as soon as there is room for it")),
    ("iodepth_low", Noted("the next request is given away as soon as there is room for it")),
    ("ioengine", Taken),
    ("iopsavgtime", Noted(OWN_RESULTS)),
    ("ioscheduler", Noted("the device keeps the scheduler that it has")),
    ("job_max_open_zones", Refused(NO_ZONES)),
    ("kb_base", Taken),
    ("lat_percentiles", Noted(OWN_RESULTS)),
    ("latency_percentile", Refused(NO_SEARCH)),
    ("latency_run", Refused(NO_SEARCH)),
    ("latency_target", Refused(NO_SEARCH)),
    ("latency_window", Refused(NO_SEARCH)),
    ("lockfile", Noted(NO_FILES)),
    ("lockmem", Noted(OWN_PROCESS)),
    ("log_alternate_epoch", Noted(OWN_RESULTS)),
    ("log_alternate_epoch_clock_id", Noted(OWN_RESULTS)),
    ("log_avg_msec", Noted(OWN_RESULTS)),
    ("log_compression", Noted(OWN_RESULTS)),
    ("log_compression_cpus", Noted(OWN_RESULTS)),
    ("log_entries", Noted(OWN_RESULTS)),
    ("log_hist_coarseness", Noted(OWN_RESULTS)),
    ("log_hist_msec", Noted(OWN_RESULTS)),
    ("log_max_value", Noted(OWN_RESULTS)),
    ("log_offset", Noted(OWN_RESULTS)),
    ("log_prio", Noted(OWN_RESULTS)),
    ("log_store_compressed", Noted(OWN_RESULTS)),
    ("log_unix_epoch", Noted(OWN_RESULTS)),
    ("loops", Taken),
    ("max_latency", Noted("long latencies are in the results; a run does not end at one")),
    ("max_open_zones", Refused(NO_ZONES)),
    ("mem", Noted(OWN_PROCESS)),
    ("merge_blktrace_file", Refused(NO_REPLAY)),
    ("merge_blktrace_iters", Refused(NO_REPLAY)),
    ("merge_blktrace_scalars", Refused(NO_REPLAY)),
    ("name", Taken),
    ("new_group", Noted("the results have the sum and every stream")),
    ("nice", Noted(OWN_PROCESS)),
    ("nonvectored", Noted(OWN_PROCESS)),
    ("norandommap", Taken),
    ("nowait", Noted(OWN_PROCESS)),
    ("nrfiles", Taken),
    ("numa_cpu_nodes", Noted(OWN_PROCESS)),
    ("numa_mem_policy", Noted(OWN_PROCESS)),
    ("number_ios", Refused("say how much with size= or io_size=")),
    ("numjobs", Taken),
    ("offset", Taken),
    ("offset_align", Refused("requests begin at multiples of their own size: leave it out")),
    ("offset_increment", Taken),
    ("opendir", Refused("name the target itself in filename=")),
    ("openfiles", Noted(NO_FILES)),
    ("overwrite", Noted(NO_FILES)),
    ("per_job_logs", Noted(OWN_RESULTS)),
    ("percentage_random", Taken),
    ("percentile_list", Noted(OWN_RESULTS)),
    ("pre_read", Refused("read the span once with a run of its own before")),
    ("prio", Noted(OWN_PROCESS)),
    ("prioclass", Noted(OWN_PROCESS)),
    ("profile", Refused("write out what the profile stands for")),
    ("ramp_time", Taken),
    ("random_distribution", Taken),
    ("random_generator", Noted(OWN_CONTENT)),
    ("randrepeat", Noted(OWN_CONTENT)),
    ("randseed", Noted(OWN_CONTENT)),
    ("rate", Taken),
    ("rate_cycle", Noted("a rate is kept request by request")),
    ("rate_ignore_thinktime", Noted("a rate is kept request by request")),
    ("rate_iops", Taken),
    ("rate_iops_min", Refused("a rate that was not kept is told with the results")),
    ("rate_min", Refused("a rate that was not kept is told with the results")),
    ("rate_process", Taken),
    ("read_beyond_wp", Refused(NO_ZONES)),
    ("read_iolog", Refused(NO_REPLAY)),
    ("read_iolog_chunked", Refused(NO_REPLAY)),
    ("refill_buffers", Noted(OWN_CONTENT)),
    ("registerfiles", Noted(OWN_PROCESS)),
    ("replay_align", Refused(NO_REPLAY)),
    ("replay_no_stall", Refused(NO_REPLAY)),
    ("replay_redirect", Refused(NO_REPLAY)),
    ("replay_scale", Refused(NO_REPLAY)),
    ("replay_skip", Refused(NO_REPLAY)),
    ("replay_time_scale", Refused(NO_REPLAY)),
    ("runtime", Taken),
    ("rw", Taken),
    ("rw_sequencer", Taken),
    ("rwmixread", Taken),
    ("rwmixwrite", Taken),
    ("scramble_buffers", Noted(OWN_CONTENT)),
    ("serialize_overlap", Noted("requests of one target may overlap; a block is one of them, whole")),
    ("significant_figures", Noted(OWN_RESULTS)),
    ("size", Taken),
    ("slat_percentiles", Noted(OWN_RESULTS)),
    ("sqthread_poll", Noted(OWN_PROCESS)),
    ("sqthread_poll_cpu", Noted(OWN_PROCESS)),
    ("startdelay", Taken),
    ("stats", Noted(OWN_RESULTS)),
    ("steadystate", Refused("runs end with their time")),
    ("steadystate_duration", Refused("runs end with their time")),
    ("steadystate_ramp_time", Refused("runs end with their time")),
    ("stonewall", Taken),
    ("sync", Taken),
    ("sync_file_range", Noted("there is no page cache between")),
    ("thinktime", Taken),
    ("thinktime_blocks", Noted("thinktime= is what counts, and only 0 is taken")),
    ("thinktime_blocks_type", Noted("thinktime= is what counts, and only 0 is taken")),
    ("thinktime_iotime", Noted("thinktime= is what counts, and only 0 is taken")),
    ("thinktime_spin", Noted("thinktime= is what counts, and only 0 is taken")),
    ("thread", Noted(OWN_PROCESS)),
    ("time_based", Taken),
    ("trim_backlog", Refused(NO_TRIMS)),
    ("trim_backlog_batch", Refused(NO_TRIMS)),
    ("trim_percentage", Refused(NO_TRIMS)),
    ("trim_verify_zero", Refused(NO_TRIMS)),
    ("uid", Noted(OWN_PROCESS)),
    ("uncached", Noted("there is no page cache between")),
    ("unified_rw_reporting", Noted(OWN_RESULTS)),
    ("unique_filename", Noted(NO_FILES)),
    ("unit_base", Noted(OWN_RESULTS)),
    ("unlink", Noted(NO_FILES)),
    ("unlink_each_loop", Noted(NO_FILES)),
    ("uri", Taken),
    ("userspace_reap", Noted(OWN_PROCESS)),
    ("verify", Taken),
    ("verify_async", Noted("verify= is what counts, and only 0 is taken")),
    ("verify_backlog", Noted("verify= is what counts, and only 0 is taken")),
    ("verify_backlog_batch", Noted("verify= is what counts, and only 0 is taken")),
    ("verify_dump", Noted("verify= is what counts, and only 0 is taken")),
    ("verify_fatal", Noted("verify= is what counts, and only 0 is taken")),
    ("verify_interval", Noted("verify= is what counts, and only 0 is taken")),
    ("verify_offset", Noted("verify= is what counts, and only 0 is taken")),
    ("verify_only", Refused("what is read is not checked in a job: cairn bench load --verify does")),
    ("verify_pattern", Noted("verify= is what counts, and only 0 is taken")),
    ("verify_state_load", Noted("verify= is what counts, and only 0 is taken")),
    ("verify_state_save", Noted("verify= is what counts, and only 0 is taken")),
    ("wait_for", Refused("put stonewall between the jobs")),
    ("write_barrier", Refused("there are no barriers: every write to a path is durable when it ends")),
    ("write_bw_log", Noted(OWN_RESULTS)),
    ("write_hint", Noted("no hints go to the device")),
    ("write_hist_log", Noted(OWN_RESULTS)),
    ("write_iolog", Noted(OWN_RESULTS)),
    ("write_iops_log", Noted(OWN_RESULTS)),
    ("write_lat_log", Noted(OWN_RESULTS)),
    ("zero_buffers", Taken),
    ("zone_reset_frequency", Refused(NO_ZONES)),
    ("zone_reset_threshold", Refused(NO_ZONES)),
    ("zonecapacity", Refused(NO_ZONES)),
    ("zonemode", Taken),
    ("zonerange", Refused(NO_ZONES)),
    ("zonesize", Refused(NO_ZONES)),
    ("zoneskip", Refused(NO_ZONES)),
];

/// Whether an option of this name, or one that it is another name of, is in the table.
pub(super) fn is_known(name: &str) -> bool {
    OPTIONS.iter().any(|(key, _)| *key == own_name(name))
}

fn own_name(name: &str) -> &str {
    ALIASES.iter().find(|(other, _)| *other == name).map_or(name, |(_, key)| key)
}

/// The options of a job by name, the last of each.
pub(super) struct Options<'a> {
    by_key: BTreeMap<&'static str, &'a Item>,
}

impl<'a> Options<'a> {
    /// # Errors
    /// An option that fio does not have, or that is not done here.
    pub(super) fn new(job: &'a Section, notes: &mut Vec<Note>) -> Result<Self, FileError> {
        let mut by_key = BTreeMap::new();
        for item in &job.items {
            let key = own_name(&item.key);
            let Some((key, used)) = OPTIONS.iter().find(|(known, _)| *known == key) else {
                let names: Vec<&str> = OPTIONS.iter().map(|(known, _)| *known).collect();
                return Err(item.error(format!("is no option of fio{}", suggestion(key, &names))));
            };
            match used {
                Taken => drop(by_key.insert(*key, item)),
                Noted(why) => {
                    let note = Note { line: item.line, text: format!("{key} is not used: {why}") };
                    if !notes.contains(&note) {
                        notes.push(note);
                    }
                }
                Refused(why) => return Err(item.error(format!("is not done here: {why}"))),
            }
        }
        Ok(Self { by_key })
    }

    pub(super) fn get(&self, key: &str) -> Option<&'a Item> {
        self.by_key.get(key).copied()
    }

    /// The value of an option as `read` takes it, or `otherwise`.
    pub(super) fn read<T>(
        &self,
        key: &str,
        otherwise: T,
        read: impl Fn(&str) -> Result<T, String>,
    ) -> Result<T, FileError> {
        let Some(item) = self.get(key) else { return Ok(otherwise) };
        read(&item.value).map_err(|why| item.error(why))
    }

    /// An option that is on where it stands alone, and off with 0.
    pub(super) fn is_on(&self, key: &str) -> Result<bool, FileError> {
        self.read(key, false, |text| match text {
            "" | "1" => Ok(true),
            "0" => Ok(false),
            other => Err(format!("{other:?}: take 0 or 1")),
        })
    }
}
