//! Which options of fio there are, and what becomes of each.
//!
//! Promises    an option is taken, told in a note because it changes no number here, or refused with a reason
//! Not here    values (`job`)

use std::collections::BTreeMap;

use super::ini::{Item, Section};
use crate::{
    error::{FileError, suggestion},
    plan::Note,
};

/// What is read, by the name that it has here.
const TAKEN: [&str; 43] = [
    "bs",
    "bsrange",
    "bssplit",
    "buffer_compress_percentage",
    "continue_on_error",
    "dedupe_mode",
    "dedupe_percentage",
    "dedupe_working_set_percentage",
    "direct",
    "end_fsync",
    "fdatasync",
    "filename",
    "fsync",
    "io_size",
    "iodepth",
    "ioengine",
    "loops",
    "norandommap",
    "nrfiles",
    "numjobs",
    "offset",
    "offset_increment",
    "percentage_random",
    "ramp_time",
    "random_distribution",
    "rate",
    "rate_iops",
    "rate_process",
    "runtime",
    "rw",
    "rwmixread",
    "rwmixwrite",
    "size",
    "startdelay",
    "stonewall",
    "sync",
    "thinktime",
    "time_based",
    "uri",
    "verify",
    "wait_for_previous",
    "zero_buffers",
    "zonemode",
];

/// Other names of the same.
const ALIASES: [(&str, &str); 5] = [
    ("blocksize", "bs"),
    ("blocksize_range", "bsrange"),
    ("io_limit", "io_size"),
    ("readwrite", "rw"),
    ("timeout", "runtime"),
];

const OWN_RESULTS: &str = "the results have every second, every stream and all percentiles";
const OWN_CONTENT: &str = "each block that is written is made anew, from one seed";
const OWN_PROCESS: &str = "one thread drives all targets here";
const NO_FILES: &str = "targets are there before, and stay";

/// Options that change no number here, and what is done instead.
const NOTED: &[(&str, &str)] = &[
    ("allow_file_create", NO_FILES),
    ("allrandrepeat", OWN_CONTENT),
    ("buffer_compress_chunk", "compressible and random bytes share units of 4 KiB"),
    ("bwavgtime", OWN_RESULTS),
    ("clat_percentiles", OWN_RESULTS),
    ("create_on_open", NO_FILES),
    ("create_serialize", NO_FILES),
    ("dedupe_global", "duplicates are drawn from one set for all jobs"),
    ("description", "it is for people"),
    ("disable_bw_measurement", OWN_RESULTS),
    ("disable_clat", OWN_RESULTS),
    ("disable_lat", OWN_RESULTS),
    ("disable_slat", OWN_RESULTS),
    ("exitall", "a run has one measured time for all its jobs"),
    ("exitall_on_error", "a run ends at its first error"),
    ("fallocate", NO_FILES),
    ("file_service_type", "each job has one file"),
    ("fixedbufs", OWN_PROCESS),
    ("group_reporting", "the results have the sum and every stream"),
    ("gtod_reduce", "latencies are always measured"),
    ("hipri", OWN_PROCESS),
    ("invalidate", "there is no page cache between"),
    ("iopsavgtime", OWN_RESULTS),
    ("lat_percentiles", OWN_RESULTS),
    ("log_avg_msec", OWN_RESULTS),
    ("log_hist_msec", OWN_RESULTS),
    ("log_max_value", OWN_RESULTS),
    ("log_offset", OWN_RESULTS),
    ("log_unix_epoch", OWN_RESULTS),
    ("max_latency", "long latencies are in the results; a run does not end at one"),
    ("new_group", "the results have the sum and every stream"),
    ("overwrite", NO_FILES),
    ("per_job_logs", OWN_RESULTS),
    ("percentile_list", OWN_RESULTS),
    ("randrepeat", OWN_CONTENT),
    ("randseed", OWN_CONTENT),
    ("random_generator", OWN_CONTENT),
    ("refill_buffers", OWN_CONTENT),
    ("registerfiles", OWN_PROCESS),
    ("scramble_buffers", OWN_CONTENT),
    ("slat_percentiles", OWN_RESULTS),
    ("thread", OWN_PROCESS),
    ("unified_rw_reporting", OWN_RESULTS),
    ("unlink", NO_FILES),
    ("write_bw_log", OWN_RESULTS),
    ("write_hist_log", OWN_RESULTS),
    ("write_iops_log", OWN_RESULTS),
    ("write_lat_log", OWN_RESULTS),
];

/// Options whose reason to be refused is worth a sentence of its own; all others have "there is no such thing here".
const REFUSED: &[(&str, &str)] = &[
    ("buffer_pattern", "what is written is random, with dedupe_percentage and buffer_compress_percentage as asked"),
    ("directory", "name the target itself in filename="),
    ("filename_format", "name the target itself in filename="),
    ("latency_target", "depths are not searched for: give iodepth="),
    ("opendir", "name the target itself in filename="),
    ("rate_min", "a rate that was not kept is told with the results"),
    ("rate_iops_min", "a rate that was not kept is told with the results"),
    ("read_iolog", "traces are not replayed"),
    ("replay_redirect", "traces are not replayed"),
    ("steadystate", "runs end with their time"),
    ("steadystate_duration", "runs end with their time"),
    ("ss_dur", "runs end with their time"),
    ("ss", "runs end with their time"),
];

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
            let key = ALIASES.iter().find(|(other, _)| *other == item.key).map_or(item.key.as_str(), |(_, key)| key);
            if let Some(key) = TAKEN.iter().find(|taken| **taken == key) {
                by_key.insert(*key, item);
            } else if let Some((_, why)) = NOTED.iter().find(|(noted, _)| *noted == key) {
                let note = Note { line: item.line, text: format!("{key} is not used: {why}") };
                if !notes.contains(&note) {
                    notes.push(note);
                }
            } else if let Some((_, why)) = REFUSED.iter().find(|(refused, _)| *refused == key) {
                return Err(item.error(format!("is not done here: {why}")));
            } else {
                return Err(item.error(format!("is not done here{}", suggestion(key, &TAKEN))));
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
