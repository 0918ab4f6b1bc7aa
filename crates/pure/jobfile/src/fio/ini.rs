//! A job file as sections of `option=value`.
//!
//! Promises    `[global]` holds for the jobs below it, and for those above it too only where it stands above them
//! Source      fio's manual, "Job file format"

use std::collections::BTreeMap;

use crate::error::FileError;

/// One option of a job.
#[derive(Debug, Clone)]
pub(super) struct Item {
    pub(super) line: usize,
    pub(super) key: String,
    /// Empty where the option stands alone.
    pub(super) value: String,
}

impl Item {
    pub(super) fn error(&self, why: impl Into<String>) -> FileError {
        FileError::new(self.line, &self.key, why)
    }
}

/// A job, with what `[global]` gives it before its own.
#[derive(Debug, Clone)]
pub(super) struct Section {
    pub(super) name: String,
    pub(super) line: usize,
    pub(super) items: Vec<Item>,
}

/// All jobs of a file. `${NAME}` is what stands for it in `variables`.
pub(super) fn jobs(text: &str, variables: &BTreeMap<String, String>) -> Result<Vec<Section>, FileError> {
    let (mut global, mut jobs): (Vec<Item>, Vec<Section>) = (Vec::new(), Vec::new());
    // None before the first section; then whether it is a global one.
    let mut in_global = None;
    for (number, line) in text.lines().enumerate() {
        let number = number + 1;
        let line = line.trim_start_matches('\u{feff}').trim();
        if line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            in_global = Some(name == "global");
            if name != "global" {
                jobs.push(Section { name: name.to_owned(), line: number, items: global.clone() });
            }
            continue;
        }
        let item = item(number, line, variables)?;
        match (in_global, jobs.last_mut()) {
            (Some(true), _) => global.push(item),
            (Some(false), Some(job)) => job.items.push(item),
            _ => return Err(item.error("stands before the first section: begin with [global] or [NAME]")),
        }
    }
    Ok(jobs)
}

fn item(line: usize, text: &str, variables: &BTreeMap<String, String>) -> Result<Item, FileError> {
    if text.starts_with("include ") {
        return Err(FileError::new(line, "include", "other files are not read: put their lines here"));
    }
    let (key, value) = text.split_once('=').unwrap_or((text, ""));
    let mut item = Item { line, key: key.trim().to_owned(), value: String::new() };
    let mut rest = value.trim();
    while let Some((before, after)) = rest.split_once("${") {
        let (name, left) = after.split_once('}').ok_or_else(|| item.error("${ without a }"))?;
        let told = variables.get(name).ok_or_else(|| {
            item.error(format!(
                "${{{name}}} stands for nothing: give it a value on the command line (--set NAME=VALUE)"
            ))
        })?;
        item.value.push_str(before);
        item.value.push_str(told);
        rest = left;
    }
    item.value.push_str(rest);
    Ok(item)
}
