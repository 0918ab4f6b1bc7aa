//! J2: any bytes are an answer or an error.

use std::collections::BTreeMap;

use cairn_jobfile::{fio, hcibench, icf, vdbench};
use proptest::prelude::*;

fn all(text: &str) {
    let told = |plan: Result<cairn_jobfile::Plan, cairn_jobfile::FileError>| match plan {
        Ok(plan) => drop(plan.to_string()),
        Err(why) => drop(why.to_string()),
    };
    told(vdbench::parse(text, &BTreeMap::new(), &|_| Ok(text.to_owned())));
    told(fio::parse(text, &BTreeMap::new(), &|name| Ok(name.to_owned())));
    told(icf::parse(text, 3));
    told(hcibench::parse(text));
}

/// Words that the languages know, in any order, between any others.
const WORDS: [&str; 64] = [
    "sd=",
    "wd=",
    "rd=",
    "hd=",
    "sd1",
    "default",
    "lun=",
    "threads=",
    "xfersize=",
    "(",
    ")",
    ",",
    "4k",
    "50",
    "100",
    "(1-64,d)",
    "(1-9,0)",
    "range=",
    "seekpct=",
    "eof",
    "rdpct=",
    "iorate=",
    "max",
    "curve",
    "elapsed=",
    "warmup=",
    "interval=",
    "skew=",
    "forthreads=",
    "dedupratio=",
    "dedupunit=4k",
    "dedupsets=",
    "\n",
    "\n",
    "\n",
    " ",
    "\t",
    "*",
    "$x",
    "include=a",
    "[",
    "]",
    "[global]",
    "[a]",
    "bs=",
    "rw=randrw",
    "bssplit=",
    "4k/50:8k/50",
    "rate_iops=",
    "numjobs=",
    "size=",
    "%",
    "'Worker",
    "'Target",
    "'TEST SETUP",
    "'size,% of size",
    "4096,100,0,0,0,1,0,0",
    "-n",
    "-w",
    "99999999999999999999",
    "0",
    "\"",
    "=",
    "\u{feff}",
];

proptest! {
    #[test]
    fn any_text_is_answered(text in "\\PC{0,200}") {
        all(&text);
    }

    #[test]
    fn any_words_are_answered(words in prop::collection::vec(prop::sample::select(&WORDS[..]), 0..60)) {
        all(&words.concat());
    }

    /// A file that was right, with one line changed.
    #[test]
    fn files_with_a_wrong_line_are_answered(which in 0usize..3, at: prop::sample::Index, line in "\\PC{0,40}") {
        let text = [
            include_str!("files/loops.vdb"),
            include_str!("files/mixed.fio"),
            include_str!("files/server.icf"),
        ][which];
        let mut lines: Vec<&str> = text.lines().collect();
        let at = at.index(lines.len());
        lines[at] = &line;
        all(&lines.join("\n"));
    }
}
