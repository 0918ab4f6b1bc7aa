//! `cairn-bench report` and `compare`: folders of results, read and told.
//!
//! Promises    a folder without both files, a file that is no such JSON and one of a later version are refused with one sentence,
//!             before anything is written
//!             a report is written beside its file and then put in its place: a full device leaves the one before
//! Not here    what a report says (`cairn-report`)

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use cairn_report::{Run, compare, csv, html, markdown};
use cairn_study::{Manifest, Results, SCHEMA};
use serde::de::DeserializeOwned;
use thiserror::Error;

/// Why there is no report.
#[derive(Debug, Error)]
pub enum ReportError {
    /// Not a folder of results.
    #[error("{}: no folder of results: cannot read {}: {why}", folder.display(), file)]
    Read {
        /// The folder.
        folder: PathBuf,
        /// What a folder of results has.
        file: &'static str,
        /// What the system said.
        why: io::Error,
    },
    /// It was written by something else, or cut off.
    #[error("{} is not as a study writes it: {why}", path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: serde_json::Error,
    },
    /// A later program wrote it.
    #[error("{} has version {found}, and this program reads up to {SCHEMA}: take the program that wrote it", path.display())]
    Later {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u32,
    },
    /// The folder cannot be written.
    #[error("cannot write {}: {why}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system said.
        why: io::Error,
    },
}

const MANIFEST: &str = "manifest.json";
const RESULTS: &str = "results.json";

/// What a study left in a folder.
///
/// # Errors
/// [`ReportError::Read`], [`ReportError::Json`] and [`ReportError::Later`]: it is no such folder.
pub fn read(folder: &Path) -> Result<(Manifest, Results), ReportError> {
    let manifest: Manifest = read_file(folder, MANIFEST)?;
    let results: Results = read_file(folder, RESULTS)?;
    for (file, found) in [(MANIFEST, manifest.schema), (RESULTS, results.schema)] {
        if found > SCHEMA {
            return Err(ReportError::Later { path: folder.join(file), found });
        }
    }
    Ok((manifest, results))
}

fn read_file<T: DeserializeOwned>(folder: &Path, file: &'static str) -> Result<T, ReportError> {
    let path = folder.join(file);
    let bytes = fs::read(&path).map_err(|why| ReportError::Read { folder: folder.to_owned(), file, why })?;
    serde_json::from_slice(&bytes).map_err(|why| ReportError::Json { path, why })
}

/// Writes `report.md`, `report.html` and `results.csv` of a folder anew; returns where they are.
///
/// # Errors
/// As [`read`]; [`ReportError::Write`]: the folder cannot be written.
pub fn write(folder: &Path) -> Result<Vec<PathBuf>, ReportError> {
    let (manifest, results) = read(folder)?;
    let files = [
        ("report.md", markdown(&manifest, &results)),
        ("report.html", html(&manifest, &results)),
        ("results.csv", csv(&manifest, &results)),
    ];
    files.into_iter().map(|(name, text)| replace(&folder.join(name), &text)).collect()
}

fn replace(path: &Path, text: &str) -> Result<PathBuf, ReportError> {
    let new = path.with_extension("new");
    let written = fs::write(&new, text).and_then(|()| fs::rename(&new, path));
    written.map(|()| path.to_owned()).map_err(|why| {
        let _ = fs::remove_file(&new);
        ReportError::Write { path: path.to_owned(), why }
    })
}

/// The folders beside each other, the first as what others are compared with.
///
/// # Errors
/// As [`read`], of any of them.
pub fn beside(folders: &[PathBuf]) -> Result<String, ReportError> {
    let read: Vec<(String, Manifest, Results)> = folders
        .iter()
        .map(|folder| read(folder).map(|(manifest, results)| (folder.display().to_string(), manifest, results)))
        .collect::<Result<_, _>>()?;
    let runs: Vec<Run<'_>> = read.iter().map(|(name, manifest, results)| Run { name, manifest, results }).collect();
    Ok(compare(&runs))
}
