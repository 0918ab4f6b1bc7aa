//! The files of a run, written anew after every step.

use std::{
    collections::BTreeMap,
    fs::{self, File, TryLockError},
    path::{Path, PathBuf},
};

use cairn_study::{ArmMedia, Cell, Manifest, Results, SCHEMA, Scale, Step};
use serde::Serialize;

use super::machine;
use crate::report::{self, ReportError};

/// Says that a run is not over; replaced by why it ended, or taken away at its end.
const UNDER_WAY: &str = "it was interrupted, or is still under way";

/// The folder of a run's own hosts, in the run's folder.
pub const CLUSTER: &str = "cluster";

/// The manifest of a run that begins on this machine.
pub(super) fn manifest_of(
    (study, scale): (&str, Scale),
    seed: u64,
    media: Vec<ArmMedia>,
    parameters: BTreeMap<String, String>,
) -> Manifest {
    Manifest {
        study: study.into(),
        scale: scale.to_string(),
        version: env!("CARGO_PKG_VERSION").into(),
        seed,
        machine: machine::facts(),
        media,
        parameters,
        ..Manifest::default()
    }
}

/// Manifest and results in their folder.
pub struct Record {
    folder: PathBuf,
    /// What was done.
    pub manifest: Manifest,
    /// What was measured.
    pub results: Results,
    /// Held by who writes to the folder.
    _lock: Option<File>,
}

impl Record {
    /// Begins a run in `folder`, which must not hold one.
    ///
    /// # Errors
    /// It does, or it cannot be written to.
    pub fn begin(folder: &Path, manifest: Manifest, caption: String) -> Result<Self, String> {
        if folder.join("manifest.json").exists() {
            return Err(format!(
                "{} holds a run already: go on with it by --resume, or take another --dir",
                folder.display()
            ));
        }
        // A run's own hosts have their files there, and it is emptied for each of them.
        if folder.join(CLUSTER).exists() {
            return Err(format!("{} is there and no run made it: take another --dir", folder.join(CLUSTER).display()));
        }
        fs::create_dir_all(folder).map_err(|e| format!("cannot make {}: {e}", folder.display()))?;
        let lock = lock(folder)?;
        let results = Results {
            schema: SCHEMA,
            study: manifest.study.clone(),
            scale: manifest.scale.clone(),
            caption,
            ..Results::default()
        };
        let manifest = Manifest { schema: SCHEMA, ..manifest };
        let mut record = Self { folder: folder.to_owned(), manifest, results, _lock: Some(lock) };
        record.end(Some(UNDER_WAY.into()))?;
        Ok(record)
    }

    /// Reads the run that `folder` holds.
    ///
    /// # Errors
    /// It holds none, or one of a later version.
    pub fn read(folder: &Path) -> Result<Self, ReportError> {
        let (manifest, results) = report::read(folder)?;
        Ok(Self { folder: folder.to_owned(), manifest, results, _lock: None })
    }

    /// Reads the run that `folder` holds, to go on with it; nothing is written yet.
    ///
    /// # Errors
    /// As [`Record::read`]; or it is still under way.
    pub fn resume(folder: &Path) -> Result<Self, String> {
        let read = || Self::read(folder).map_err(|e| e.to_string());
        read()?;
        // Read again: what was there before may have been written to until now.
        let lock = lock(folder)?;
        Ok(Self { _lock: Some(lock), ..read()? })
    }

    /// The run is under way again.
    ///
    /// # Errors
    /// It cannot be written down.
    pub fn go_on(&mut self) -> Result<(), String> {
        self.end(Some(UNDER_WAY.into()))
    }

    /// Where it is.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// One more thing was done.
    ///
    /// # Errors
    /// It cannot be written down: it is forgotten, so that what is there and why it ended may still be.
    pub fn step(&mut self, step: Step) -> Result<(), String> {
        self.manifest.steps.push(step);
        let saved = self.save();
        if saved.is_err() {
            self.manifest.steps.pop();
        }
        saved
    }

    /// One more thing was done, which measured something.
    ///
    /// # Errors
    /// As [`Record::step`].
    pub fn measured(&mut self, step: Step, cell: Cell) -> Result<(), String> {
        self.results.cells.push(cell);
        let saved = self.step(step);
        if saved.is_err() {
            self.results.cells.pop();
        }
        saved
    }

    /// The run is over: early, and why, or at its end.
    ///
    /// # Errors
    /// It cannot be written down.
    pub fn end(&mut self, early: Option<String>) -> Result<(), String> {
        self.manifest.ended_early.clone_from(&early);
        self.results.ended_early = early;
        self.save()
    }

    /// The run is over, as `outcome` says. One in which nothing was done is taken away, so that the next may begin in its folder.
    ///
    /// # Errors
    /// Those of the run, or it cannot be written down.
    pub fn finish(mut self, outcome: Result<(), String>) -> Result<Self, String> {
        if let Err(why) = &outcome
            && self.manifest.steps.is_empty()
        {
            let why = why.clone();
            self.withdraw();
            return Err(why);
        }
        let ended = self.end(outcome.as_ref().err().cloned());
        outcome.and(ended).map(|()| self)
    }

    /// Takes a run away in which nothing was done, so that the next one may begin in its folder.
    fn withdraw(self) {
        for file in ["results.json", "manifest.json"] {
            let _ = fs::remove_file(self.folder.join(file));
        }
        // Not where it holds anything else.
        let _ = fs::remove_dir(&self.folder);
    }

    /// Results before the manifest: a step that stands there has its cell.
    fn save(&self) -> Result<(), String> {
        write(&self.folder.join("results.json"), &self.results)?;
        write(&self.folder.join("manifest.json"), &self.manifest)
    }
}

/// One run at a time; it ends with its process.
fn lock(folder: &Path) -> Result<File, String> {
    let open = File::open(folder).map_err(|e| format!("cannot open {}: {e}", folder.display()))?;
    match open.try_lock() {
        Ok(()) => Ok(open),
        Err(TryLockError::WouldBlock) => Err(format!("the run in {} is still under way", folder.display())),
        Err(TryLockError::Error(e)) => Err(format!("cannot lock {}: {e}", folder.display())),
    }
}

/// A new file in the place of the old one, whole at any moment.
fn write(path: &Path, what: &impl Serialize) -> Result<(), String> {
    let draft = path.with_extension("new");
    let text = serde_json::to_vec_pretty(what).map_err(|e| e.to_string())?;
    let written = fs::write(&draft, text).and_then(|()| fs::rename(&draft, path));
    written.map_err(|e| {
        let _ = fs::remove_file(&draft);
        format!("cannot write {}: {e}", path.display())
    })
}
