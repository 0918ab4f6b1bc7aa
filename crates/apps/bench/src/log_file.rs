//! `cairn bench replay`.
//!
//! Promises    a log is read line by line: what is kept of it is a record of 24 bytes a request
//!             nothing is sent before the whole log was read and every target looked at
//!             exit code 1 where the run broke, or did not keep the log's order

use std::{
    fs::File,
    io::{BufRead as _, BufReader, Read as _},
    path::Path,
    sync::Arc,
    time::Duration,
};

use cairn_bench::{
    job::RunError,
    output, plan,
    replay::{Replay, Replayed},
    run,
};
use cairn_jobfile::{
    NamedTarget,
    iolog::{Log, Reader},
};

use crate::{
    args::{self, Style},
    with_progress,
};

/// Bytes of a line, at most: a path has 4,096, beside it are four words.
const LINE_BYTES_MAX: u64 = 64 << 10;

fn read(path: &Path) -> Result<Log, String> {
    let told = |why: std::io::Error| format!("{}: cannot be read: {why}", path.display());
    let mut from = BufReader::new(File::open(path).map_err(told)?);
    let (mut reader, mut line, mut number) = (Reader::default(), Vec::new(), 0);
    loop {
        line.clear();
        number += 1;
        if from.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line).map_err(told)? == 0 {
            break;
        }
        if line.len() as u64 == LINE_BYTES_MAX {
            return Err(format!(
                "{}: line {number}: {LINE_BYTES_MAX} bytes or more: no log has such lines",
                path.display()
            ));
        }
        let text = String::from_utf8_lossy(&line);
        reader.line(text.trim_end()).map_err(|why| format!("{}: {why}", path.display()))?;
    }
    reader.finish().map_err(|why| format!("{}: {why}", path.display()))
}

/// Replays it; false where it broke.
pub fn run(told: &args::Replay) -> Result<bool, RunError> {
    let content = told.content.content().map_err(RunError::Job)?;
    let log = read(&told.log).map_err(RunError::Job)?;
    let name = |file: &cairn_jobfile::iolog::LogFile| NamedTarget { name: file.name.clone(), address: None };
    let names: Vec<NamedTarget> = log.files.iter().map(name).collect();
    let replay = Replay {
        targets: plan::addresses(&names, &told.maps, &told.targets).map_err(RunError::Job)?,
        log: Arc::new(log),
        faster: (!told.no_stall).then_some(told.time_scale),
        outstanding: told.outstanding,
        content,
        destructive: told.destructive,
    };
    let replayed = match replay.time() {
        Some(time) => with_progress(Duration::ZERO, time, || run::replay(&replay))?,
        None => run::replay(&replay)?,
    };
    println!("{}", shown(told.style, &replay, &replayed).trim_end());
    if told.style != Style::Table {
        replayed.doubts(&replay.log).iter().for_each(|doubt| eprintln!("! {doubt}"));
    }
    Ok(replayed.measured.broken.is_none() && replayed.is_in_order(&replay.log))
}

fn shown(style: Style, replay: &Replay, replayed: &Replayed) -> String {
    const NAME: &str = "replay";
    let (job, measured) = (&replayed.job, &replayed.measured);
    match style {
        Style::Table => output::replay_table(replay, replayed),
        Style::Json => format!("{:#}", output::replay_json(replay, replayed)),
        Style::Fio => format!("{:#}", output::fio_of([(job, measured)])),
        Style::Vdbench => output::vdbench::vdbench(NAME, job, measured, Duration::from_secs(1)),
        Style::Hcibench => output::hcibench::hcibench(NAME, measured),
        Style::Iometer => output::iometer::iometer(NAME, job, measured),
        Style::IometerBins => output::iometer::bins(measured),
    }
}
