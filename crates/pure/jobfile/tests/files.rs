//! J1: files and the plans that they come to, word for word. `UPDATE_PLANS=1` writes the plans anew.
#![allow(clippy::disallowed_methods, reason = "golden files are files")]

use std::{collections::BTreeMap, fs, path::Path};

use cairn_jobfile::{FileError, Plan, fio, hcibench, icf, vdbench};
use cairn_workload::Pace;

fn file(name: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/files").join(name)).unwrap()
}

fn vdb(text: &str) -> Result<Plan, FileError> {
    let variables = BTreeMap::from([("disk".to_owned(), "/dev/vdb".to_owned())]);
    vdbench::parse(text, &variables, &|name| match name {
        "disks" => Ok("* disks\nsd=sd1,lun=$disk\n".to_owned()),
        "wrong" => Ok("\nsd=sd1,lum=x\n".to_owned()),
        "round" => Ok("include=round\n".to_owned()),
        other => Err(format!("cannot read {other}")),
    })
}

fn fio(text: &str) -> Result<Plan, FileError> {
    fio::parse(text, &BTreeMap::new(), &|name| match name {
        "common.inc" => Ok("ioengine=libaio\ndirect=1\nbs=8k\n".to_owned()),
        "wrong.inc" => Ok("bs=4k\ncolour=red\n".to_owned()),
        "section.inc" => Ok("[b]\nbs=4k\n".to_owned()),
        "round.inc" => Ok("include round.inc\n".to_owned()),
        other => Err(format!("cannot read {other}")),
    })
}

/// Compares a plan with `NAME.plan`.
fn is_golden(name: &str, plan: Result<Plan, FileError>) {
    let told = plan.unwrap_or_else(|why| panic!("{name}: {why}")).to_string();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/files").join(format!("{name}.plan"));
    if std::env::var_os("UPDATE_PLANS").is_some() {
        fs::write(&path, &told).unwrap();
    }
    let expected = fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(told, expected, "{name}");
}

#[test]
fn files_come_to_their_plans() {
    is_golden("s4.vdb", vdb(&file("s4.vdb")));
    is_golden("loops.vdb", vdb(&file("loops.vdb")));
    is_golden("mixed.fio", fio(&file("mixed.fio")));
    is_golden("server.icf", icf::parse(&file("server.icf"), 0));
    is_golden("name.hcibench", hcibench::parse("fio-8vmdk-100ws-4k-70rdpct-100randompct-4threads"));
    is_golden(
        "flags.hcibench",
        hcibench::parse("-n 2 -w 50 -t 4 -b 8k -r 30 -s 90 -e 60 -m 30 -i 5 -o 1000 -c 2 -d 4 -j 2"),
    );
}

const SD: &str = "sd=sd1,lun=/dev/vdb\n";
const WD: &str = "sd=sd1,lun=/dev/vdb\nwd=wd1,sd=sd1\n";

/// Each file is wrong in one place; the error has its line, its keyword, and a way out.
#[test]
fn what_vdbench_files_may_not_say_is_told_by_line() {
    for (text, line, expected) in [
        (format!("{WD}rd=r,wd=wd1,elapsed=10,ioratee=5\n"), 3, "did you mean iorate?"),
        (format!("{SD}wd=w,sd=sd1,xfresize=4k\n"), 2, "did you mean xfersize?"),
        (format!("{SD}wd=w,sd=sd1,colour=4k\n"), 2, "colour: is no keyword of wd="),
        (format!("{SD}wd=w,sd=sd2\n"), 2, "there is no sd=sd2"),
        (format!("{SD}wd=w\n"), 2, "has no sd="),
        (format!("{SD}sd=sd1,lun=x\n"), 2, "sd1 is defined twice"),
        (format!("{WD}sd=sd2,lun=x\n"), 3, "comes after wd="),
        (format!("{WD}rd=r,wd=wd1,elapsed=10,interval=3\n"), 3, "multiples of interval=3"),
        (format!("{WD}rd=r,wd=wd1,elapsed=1,interval=1\n"), 3, "two or more"),
        (format!("{WD}rd=r,wd=wd1, elapsed=10\n"), 3, "stands behind a blank"),
        (format!("{WD}rd=r,wd=wd1,distribution=uniform\n"), 3, "take exponential or deterministic"),
        (format!("{WD}rd=r,wd=wd1,iorate=fast\n"), 3, "no whole number"),
        (format!("{WD}rd=r,wd=wd1,iorate=(1-9,0)\n"), 3, "no range that goes up"),
        (format!("{WD}rd=r,wd=wd1,forthreads=(1-9999,1)\n"), 3, "more than"),
        (format!("{WD}rd=r,wd=wd1,for=3\n"), 3, "may be any of"),
        (format!("{WD}rd=r,wd=wd1,stopcurve=5\n"), 3, "is not done here"),
        (format!("{WD}rd=r,wd=wd1,iorate=max,curve=(1,2)\n"), 3, "goes with iorate=curve"),
        (format!("{WD}rd=r,wd=wd1,curve=(1,2)\n"), 3, "goes with iorate=curve"),
        (format!("{WD}rd=r,wd=wd1,iorate=5,foriorate=(1,2)\n"), 3, "are both told"),
        (WD.to_owned(), 0, "has no run"),
        (String::new(), 0, "has no run"),
        (format!("{SD}wd=w,sd=sd1,rhpct=50\n"), 2, "no hit area here"),
        (format!("{SD}wd=w,sd=sd1,seekpct=seqnz\n"), 2, "take seq"),
        (format!("{SD}wd=w,sd=sd1,xfersize=(4k,50,8k,40)\n"), 2, "add up to 90"),
        (format!("{SD}wd=w,sd=sd1,xfersize=1000\n"), 2, "multiple of 512"),
        (format!("{SD}wd=a,sd=sd1,skew=60\nwd=b,sd=sd1,skew=50\nrd=r,wd=*\n"), 4, "add up to 110"),
        ("sd=sd1,lun=x,openflags=o_append\n".into(), 1, "o_append is not done here"),
        ("sd=sd1,lun=x,range=(50,50)\n".into(), 1, "is nothing"),
        ("sd=sd1,lun=x,align=8k\nwd=w,sd=sd1\n".into(), 2, "multiples of their own size"),
        ("sd=sd1,lun=(x\n".into(), 1, "not closed"),
        ("sd=sd1,lun\n".into(), 1, "is no keyword=value"),
        ("sd=sd1,lun=$nothing\n".into(), 1, "--set NAME=VALUE"),
        ("dedupratio=2\nsd=sd1,lun=x\n".into(), 1, "needs dedupunit="),
        ("dedupratio=2,dedupunit=8k\nsd=sd1,lun=x\n".into(), 1, "dedupunit=4k"),
        ("dedupratio=40,dedupunit=4k\nsd=sd1,lun=x\n".into(), 1, "fewer dedupsets"),
        ("hd=h1,system=10.0.0.1\n".into(), 1, "one process drives all targets"),
        ("validate=yes\n".into(), 1, "is not checked here"),
        ("fsd=fsd1,anchor=/x\n".into(), 1, "file systems"),
        ("include=elsewhere\n".into(), 1, "cannot read elsewhere"),
        ("include=round\n".into(), 1, "8 deep"),
    ] {
        let why = vdb(&text).expect_err(&text);
        assert!(why.to_string().contains(expected), "{text}\n{why}");
        assert_eq!(why.line, line, "{text}\n{why}");
    }
    let why = vdb("include=wrong\n").unwrap_err().to_string();
    assert_eq!(why, "wrong: line 2: lum: is no keyword of sd= (did you mean lun?)");
}

#[test]
fn vdbench_files_have_more_than_one_way_to_say_it() {
    let included = vdb("include=disks\nwd=w,sd=*\nrd=r,wd=w\n").unwrap();
    assert_eq!(included.targets[0].address.as_deref(), Some("/dev/vdb"));
    assert_eq!(included.runs[0].streams[0].outstanding, 8, "eight threads where the file does not say");
    assert_eq!(
        (included.runs[0].ramp.as_secs(), included.runs[0].measure.as_secs()),
        (1, 29),
        "the first row is dropped"
    );
    // The general part may have several words on a line, with blanks between.
    let general =
        vdb("debug=86 dedupratio=10 dedupunit=4k compratio=10\nsd=s,lun=x\nwd=w,sd=s,rdpct=0\nrd=r,wd=w\n").unwrap();
    let stream = &general.runs[0].streams[0];
    assert!((stream.content.random_share - 0.1).abs() < 1e-9);
    // 10:1 with 5 % of sets: 5 % of the units are like no other, 95 % come from the sets.
    assert!((stream.content.duplicate_share - 0.95).abs() < 1e-9 && stream.duplicates_share == Some(0.05));
}

/// 10, 50, 70, 80, 90, 100 % of what the first run did, rounded up to hundreds.
#[test]
fn a_curve_follows_the_run_before_it() {
    let plan = vdb(&format!("{WD}rd=a,wd=wd1\nrd=r,wd=wd1,iorate=curve\n")).unwrap();
    let rates: Vec<Option<f64>> = plan.runs.iter().map(|run| run.rate(&[7.0, 1234.0])).collect();
    let expected = [200.0, 700.0, 900.0, 1000.0, 1200.0, 1300.0].map(Some);
    assert_eq!(rates, [vec![None, None], expected.to_vec()].concat());
}

#[test]
fn what_fio_files_may_not_say_is_told_by_line() {
    for (text, line, expected) in [
        ("[a]\nrw=randtrim\n", 2, "take read, write"),
        ("[a]\nrwmixred=70\n", 2, "did you mean rwmixread?"),
        ("[a]\ncolour=70\n", 2, "is no option of fio"),
        ("bs=4k\n[a]\n", 1, "before the first section"),
        ("[global]\nbs=4k\n", 0, "no job"),
        ("[a]\nioengine=rbd\n", 2, "take nbd"),
        ("[a]\ndirect=0\n", 2, "say direct=1"),
        ("[a]\nioengine=nbd\nuri=nbd://h/d\nfilename=/dev/a\n", 4, "nbd has uri="),
        ("[a]\nuri=nbd://h/d\n", 2, "does not go with ioengine=psync"),
        ("[a]\nfsync=1\n", 2, "durable"),
        ("[a]\nverify=crc32c\n", 2, "is not checked"),
        ("[a]\nfilename=/dev/a:/dev/b\n", 2, "a job of its own"),
        ("[a]\ntime_based\n", 1, "has no runtime="),
        ("[a]\nrw=randrw\nrwmixread=70\nrate_iops=100\n", 4, "not the mix"),
        ("[a]\nrate_iops=0\n", 2, "above 0"),
        ("[a]\nbssplit=4k/60:8k/60\n", 2, "add up to 120"),
        ("[a]\nrandom_distribution=pareto:0.2\n", 2, "take random or zipf"),
        ("[a]\nrandom_distribution=zipf:1\n", 2, "not 1 exactly"),
        ("[a]\nbs=1000\n", 2, "multiple of 512"),
        ("[a]\noffset=10%\nsize=1g\n", 1, "one in bytes and one in per cent"),
        ("[a]\nruntime=5\n[b]\nruntime=6\n", 3, "another runtime than a"),
        ("[a]\nrate_iops=5\n[b]\nrate_iops=5\nrate_process=poisson\n", 3, "another rate_process"),
        ("[a]\nbs=${BS}\n", 2, "--set NAME=VALUE"),
        ("[a]\npercentage_random=50\n", 2, "rw=randread"),
        ("[a]\nlatency_target=5ms\n", 2, "give iodepth="),
        ("[a]\nbuffered=1\n", 2, "say buffered=0"),
        ("[a]\ninclude elsewhere.inc\n", 2, "cannot read elsewhere.inc"),
        ("[a]\ninclude wrong.inc\n", 2, "wrong.inc: line 2: colour: is no option of fio"),
        ("[a]\ninclude section.inc\n", 1, "have no sections"),
        ("[a]\ninclude round.inc\n", 1, "8 deep"),
    ] {
        let why = fio(text).expect_err(text);
        assert!(why.to_string().contains(expected), "{text}\n{why}");
        assert_eq!(why.line, line, "{text}\n{why}");
    }
}

#[test]
fn what_other_files_may_not_say_is_told() {
    let icf = |from: &str, to: &str| icf::parse(&file("server.icf").replace(from, to), 0).unwrap_err().to_string();
    assert!(icf("NORMAL", "CYCLE_OUTSTANDING_IOS").contains("only NORMAL is done here"));
    assert!(icf("4096,80,80,100,0,1,0,0", "4096,70,80,100,0,1,0,0").contains("add up to 90 %"));
    assert!(icf("4096,80,80,100,0,1", "4096,80,80,100,5,1").starts_with("line 37: size,% of size"));
    assert!(icf("\t4 KiB; 100% read, random\n'End", "\t8 KiB\n'End").contains("there is no 8 KiB"));
    assert!(icf("0          10         30", "0 0 0").contains("give a time"));
    assert!(icf("'Target type\n\tDISK", "'Target type\n\tTCP").contains("take DISK"));
    let hcibench = |text: &str| hcibench::parse(text).unwrap_err().to_string();
    assert!(hcibench("-n 8 -lt 1000").contains("is not searched for"));
    assert!(hcibench("-w 100").contains("number of disks"));
    assert!(hcibench("-n 8 -q 5").contains("is no flag"));
    assert!(hcibench("fio-8vmdk-100ws-4k-70xpct-4threads").contains("70xpct"));
}

#[test]
fn fio_jobs_with_a_rate_and_without_run_together() {
    let plan = fio("[a]\n[b]\nrate_iops=50\n[c]\nrw=randrw\nbs=4k,8k\n").unwrap();
    let run = &plan.runs[0];
    let paces: Vec<_> = run.streams.iter().map(|stream| run.pace(stream, None)).collect();
    assert_eq!(paces, [Pace::Closed, Pace::Rate { per_s: 50.0 }, Pace::Closed]);
    assert_eq!(plan.targets.len(), 3, "without a filename each job has a target of its name");
    let sizes: Vec<(u32, u8)> = run.streams[2].spec.kinds.iter().map(|k| (k.request_bytes, k.read_percent)).collect();
    assert_eq!(sizes, [(4096, 100), (8192, 0)]);
}

/// Every option that fio 3.33 tells with `--cmdhelp=all` (and libaio and io_uring with `--enghelp`) is taken, noted or refused with a reason.
#[test]
fn every_option_of_fio_is_known() {
    let missing: Vec<&str> =
        include_str!("files/fio-3.33-options.txt").lines().filter(|name| !fio::is_option(name)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

/// The page has what becomes of each keyword. `UPDATE_PLANS=1` writes it anew.
#[test]
fn the_page_has_every_keyword() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/bench/jobs.md");
    let page = fs::read_to_string(&path).unwrap();
    let (begin, end) = ("<!-- keywords -->\n", "<!-- end -->\n");
    let from = page.find(begin).expect("the page says where the table begins") + begin.len();
    let to = from + page[from..].find(end).expect("and where it ends");
    let table = cairn_jobfile::keywords();
    if std::env::var_os("UPDATE_PLANS").is_some() {
        fs::write(&path, format!("{}{table}{}", &page[..from], &page[to..])).unwrap();
    } else {
        assert_eq!(&page[from..to], table);
    }
}

/// Files as people post them: a name for the section, options of another file, no page cache said in the other way, and what concerns
/// fio's own process.
#[test]
fn fio_files_as_they_are_posted() {
    let plan = fio("[global]\nname=lat\ninclude common.inc\nfilename=/dev/sdb\nsize=1g\n[a]\nrw=randread\nbuffered=0\ncpus_allowed=0-3\nend_fsync=1\n[b]\nname=own\nstonewall\n").unwrap();
    let names: Vec<&str> = plan.runs.iter().map(|run| run.streams[0].name.as_str()).collect();
    assert_eq!(names, ["a", "own"], "what [global] says names no job, as in fio 3.33");
    assert_eq!(plan.runs[0].streams[0].spec.kinds[0].request_bytes, 8192);
    for noted in ["cpus_allowed", "end_fsync"] {
        assert!(plan.notes.iter().any(|note| note.text.starts_with(&format!("{noted} is not used"))), "{noted}");
    }
}

/// A run on storage definitions alone reads at random in 4 KiB, or as it says itself; with both, `sd=` says where.
#[test]
fn a_vdbench_run_needs_no_workload() {
    let plan = vdb(&format!(
        "{SD}rd=default,sd=sd*,iorate=max,elapsed=10,interval=1\nrd=r1,xfersize=8k,rdpct=30,seekpct=100\n"
    ))
    .unwrap();
    let stream = &plan.runs[0].streams[0];
    let kind = stream.spec.kinds[0];
    assert_eq!((kind.request_bytes, kind.read_percent, kind.random_percent, stream.outstanding), (8192, 30, 100, 8));
    assert_eq!(plan.runs[0].name, "r1 xfersize=8192 rdpct=30 seekpct=100");
    let both = vdb("sd=sd1,lun=/dev/vdb\nsd=sd2,lun=/dev/vdc\nwd=w,sd=sd1\nrd=r,wd=w,sd=sd2\n").unwrap();
    assert_eq!(both.runs[0].streams[0].target, 1);
    let neither = vdb(&format!("{SD}rd=r,elapsed=10\n")).unwrap_err().to_string();
    assert!(neither.contains("neither wd= nor sd="), "{neither}");
}

/// Older releases of IOMeter have no unit in the title; HCIBench puts a time behind the names of its results.
#[test]
fn titles_and_names_of_other_releases() {
    let text = file("server.icf");
    assert!(text.contains("'Ramp Up Time (s)"));
    let older = icf::parse(&text.replace("'Ramp Up Time (s)", "'Ramp Up Time"), 0).unwrap();
    assert_eq!(older.runs, icf::parse(&text, 0).unwrap().runs);
    let name = "fio-8vmdk-100ws-4k-70rdpct-100randompct-4threads";
    let plain = hcibench::parse(name).unwrap();
    for timed in [format!("{name}-1602087441"), format!("{name}-20201007-101010")] {
        assert!(hcibench::is_name(&timed));
        assert_eq!(hcibench::parse(&timed).unwrap().runs, plain.runs);
    }
    assert!(!hcibench::is_name(&format!("{name}-old")));
}

/// Where a file of IOMeter names no target, each worker goes to all that are given.
#[test]
fn iometer_files_without_workers_go_to_all_targets() {
    let text = file("server.icf");
    let text = &text[..text.find("'MANAGER LIST").unwrap()];
    let plan = icf::parse(text, 3).unwrap();
    assert_eq!((plan.targets.len(), plan.runs.len(), plan.runs[0].streams.len()), (3, 2, 3));
}
