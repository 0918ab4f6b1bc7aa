//! `cairn bench calc`, run as users run it: no cluster, published examples, own numbers, files, and what is refused.

use std::{path::Path, process::Command};

/// Exit code, stdout, stderr.
struct Ran(i32, String, String);

/// Runs with an API address that nobody answers at: a calculator that asked would end with 3.
fn calc(arguments: &[&str]) -> Ran {
    let output = Command::new(env!("CARGO_BIN_EXE_cairn"))
        .args(["bench", "calc"])
        .args(arguments)
        .env("CAIRN_API", "http://127.0.0.1:1")
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/prices"))
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Ran(output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

fn transcript(line: &str) -> String {
    let Ran(code, out, err) = calc(&line.split_whitespace().collect::<Vec<_>>());
    format!("$ cairn bench calc {line}\n{out}[stderr]\n{err}[exit {code}]\n")
}

fn transcripts(lines: &[&str]) -> String {
    lines.iter().map(|line| transcript(line)).collect::<Vec<_>>().join("\n")
}

fn json(line: &str) -> serde_json::Value {
    let Ran(_, out, err) = calc(&format!("{line} -o json").split_whitespace().collect::<Vec<_>>());
    assert_eq!(err, "", "{line}");
    serde_json::from_str(&out).unwrap_or_else(|error| panic!("{line}: {error}: {out}"))
}

#[test]
fn published_examples() {
    let lines = ["endurance", "endurance --units paper", "tco", "capacity", "easy-run", "compare"];
    insta::assert_snapshot!("bench_examples", transcripts(&lines));
}

#[test]
fn own_numbers() {
    let lines = [
        "endurance --drive fast,800GB,100DWPD --drive cheap,1.92TB,3500TBW --block 4K --read-percent 50 --copies 3 \
         --write-amplification 1.25 --cache-drives 8 --iops 40000",
        "endurance --drive fast,800GB,100DWPD --iops 40000 --units paper",
        "endurance --drive cheap,1.92TB,3500TBW --written-tb 420 --over-days 200",
        "endurance --drive new,1.92TB,3500TBW --written-tb 0 --over-days 1",
        "tco lab.toml",
        "tco lab.toml --years 3 --vms 100 --kwh-price 0.30",
        "tco lab.json --iops 50000 --watts 900",
        "tco --watts 4000 --kwh-price 0.10",
        "capacity --raw 12.8TB",
        "capacity --hosts 4 --raw-per-host 8TB --slack 25 --used 5TB",
        "capacity --hosts 4 --raw-per-host 8TB --used 13TB --protection mirror-1",
        "capacity --hosts 6 --raw-per-host 8TB --used 5TB --hosts-lost 2 --reduction 1.9",
        "capacity --hosts 1 --usable 1TB --used 500GB",
        "easy-run --protection raid-5 --free 20TB",
        "easy-run --hosts 3 --media hybrid --cache 800GB --capacity-per-group 4.8TB --latency-target --no-checksum",
        "compare 11500 17000",
        "compare 100 142 --per-watt 1.35",
    ];
    insta::assert_snapshot!("bench_own", transcripts(&lines));
}

#[test]
fn refusals_say_what_and_where_and_what_to_do() {
    let lines = [
        "endurance --drive fast,800,100DWPD",
        "endurance --drive fast,800GB",
        "endurance --drive fast,800GB,100",
        "endurance --read-percent 100",
        "endurance --read-percent 101",
        "endurance --copies 0.5",
        "endurance --years 0",
        "endurance --years 1,5",
        "endurance --block 0",
        "endurance --cache-drives 0",
        "endurance --written-tb 5",
        "endurance --written-tb 5 --over-days 3",
        "tco nowhere.toml",
        "tco --vms 0",
        "tco --kwh-price 0.2",
        "capacity --raw 1TB --usable 1TB",
        "capacity --raw-per-host 1TB",
        "capacity --hosts 5 --raw-per-host 1TB --protection raid-6",
        "capacity --slack 100",
        "capacity --reduction 0.5",
        "capacity --usable 8000PB --protection mirror-2",
        "easy-run --hosts 2",
        "easy-run --free 1TB",
        "compare 5",
        "compare 0 5",
    ];
    insta::assert_snapshot!("bench_refusals", transcripts(&lines));
}

#[test]
fn a_wrong_price_list_is_told_by_its_place() {
    let dir = tempfile::tempdir().unwrap();
    let head = "years = 3\n[[item]]\nname = \"s\"\ncategory = \"servers\"\n";
    let cases = [
        ("a.toml", format!("{head}unit = \"$5\"\n"), "a.toml:5: \"$5\" is no amount of money"),
        ("b.toml", format!("{head}unit = 5.005\n"), "b.toml:5: \"5.005\" has parts of a cent"),
        ("c.toml", format!("{head}unit = 5\nextended = 5\n"), "item 1, \"s\", has both unit and extended"),
        ("d.toml", head.to_owned(), "item 1, \"s\", has no price"),
        ("e.toml", format!("{head}prize = 5\n"), "e.toml:5: unknown field `prize`"),
        ("f.toml", "years = 3\n".to_owned(), "missing field `item`"),
        ("g.toml", "years = 3\nitem = []\n".to_owned(), "the price list has no items"),
        ("h.toml", "years = \n".to_owned(), "h.toml:1: "),
        ("i.toml", format!("{head}unit = 12345678901234.56\n"), "more than 15 digits"),
        (
            "j.toml",
            format!(
                "{head}unit = 5\n[[support]]\nname = \"h\"\nrates = [{{ category = \"x\", percent_per_year = 5 }}]\n"
            ),
            "\"h\" is a rate of the category \"x\", and no item has that",
        ),
        ("k.toml", format!("{head}unit = -5\n"), "the price of \"s\" is below 0"),
        (
            "l.json",
            "{ \"years\": 3,\n \"item\": 5 }".to_owned(),
            "l.json: invalid type: integer `5`, expected a sequence at line 2",
        ),
        ("m.json", "{}".to_owned(), "missing field `years`"),
    ];
    for (name, text, expected) in cases {
        let path = dir.path().join(name);
        std::fs::write(&path, &text).unwrap();
        let Ran(code, out, err) = calc(&["tco", path.to_str().unwrap()]);
        assert_eq!((code, out.as_str()), (2, ""), "{name}: {err}");
        assert!(err.contains(expected) && err.contains("  try: "), "{name}: {err}");
    }
}

#[test]
fn json_has_the_same_numbers() {
    let endurance = json("endurance --units paper");
    assert_eq!(endurance["drives"][1]["mb_per_s"], 948.148148);
    assert_eq!(endurance["published"]["table_1"][4]["printed"], "3,000");
    let tco = json("tco");
    assert_eq!((&tco["total_stated"], &tco["total_computed"]), (&"241663.57".into(), &"241633.57".into()));
    assert_eq!((&tco["slip"], &tco["per"][0]["stated"]), (&"30.00".into(), &302.079463.into()));
    let capacity = json("capacity");
    assert_eq!(capacity["protections"][4]["raw_bytes"], 21_845_333_333_334u64);
    let lost = json("capacity --hosts 4 --raw-per-host 8TB --used 5TB");
    assert_eq!(lost["protections"][1]["hosts_lost"]["full_after_percent"], 41.666667);
    assert_eq!(lost["cache_bytes"], 500_000_000_000u64);
    assert_eq!(json("easy-run")["profiles"][0]["outstanding"], 512);
    assert_eq!(json("compare 11500 17000")[0]["change_percent"], 47.826087);
}

/// What docs/bench/calculators.md shows as output is output, and its price list the one that is read here.
#[test]
fn the_page_shows_what_is_printed() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = std::fs::read_to_string(here.join("../../../docs/bench/calculators.md")).unwrap();
    let mut blocks = 0;
    for block in page.split("```text\n").skip(1) {
        let block = block.split("```").next().unwrap();
        let (line, shown) = block.split_once('\n').unwrap();
        let arguments = line.strip_prefix("$ cairn bench calc ").expect(line);
        let Ran(_, out, _) = calc(&arguments.split_whitespace().collect::<Vec<_>>());
        assert_eq!(out, shown, "{line}");
        blocks += 1;
    }
    assert_eq!(blocks, 9);
    let list = std::fs::read_to_string(here.join("tests/prices/lab.toml")).unwrap();
    assert!(page.contains(&list), "the price list of the page is tests/prices/lab.toml");
}

#[test]
fn help_says_units_and_defaults() {
    let lines = ["--help", "endurance --help", "tco --help", "capacity --help", "easy-run --help", "compare --help"];
    insta::assert_snapshot!("bench_help", transcripts(&lines));
}

/// `load`, `report` and `compare` are another program's: here stands only that they are passed on.
#[test]
fn the_verbs_of_bench() {
    let mut help = Command::new(env!("CARGO_BIN_EXE_cairn"));
    let output = help.args(["bench", "-h"]).env_remove("CAIRN_API").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    insta::assert_snapshot!("bench_verbs", text.split("\n\nOptions:").next().unwrap());
}

/// The load generator is the program beside this one; it gets the verb and every word behind it, flags too.
#[test]
fn words_go_on_to_the_load_generator() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let program = dir.path().join("cairn");
    std::fs::hard_link(env!("CARGO_BIN_EXE_cairn"), &program).unwrap();
    std::os::unix::fs::symlink("/bin/echo", dir.path().join("cairn-bench")).unwrap();
    let verbs = [
        "load",
        "precondition",
        "import",
        "job",
        "replay",
        "list",
        "describe",
        "plan",
        "run",
        "verify",
        "report",
        "compare",
    ];
    for verb in verbs {
        let output = Command::new(&program).args(["bench", verb, "a b", "--style", "json", "--help"]).output().unwrap();
        assert_eq!(String::from_utf8(output.stdout).unwrap(), format!("{verb} a b --style json --help\n"));
    }
}
