//! Reports of whole folders, and what a browser makes of them: nothing runs into anything else, everything has its name and unit.
//! The pictures that were looked at stay in `target/tmp/report-*`.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

use serde::Deserialize;
use tempfile::TempDir;

#[path = "../../../pure/report/tests/data/mod.rs"]
mod data;

fn bench(words: &[&str], folders: &[&Path]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_cairn-bench")).args(words).args(folders).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// A folder as a study leaves it.
fn folder(name: &str, files: &data::Files) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("report-{name}"));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("manifest.json"), serde_json::to_vec(&files.0).unwrap()).unwrap();
    fs::write(folder.join("results.json"), serde_json::to_vec(&files.1).unwrap()).unwrap();
    folder
}

#[test]
fn a_folder_gets_its_reports() {
    let folder = folder("written", &data::optane_mixed(true));
    fs::write(folder.join("report.md"), "an old one").unwrap();
    let output = bench(&["report"], &[&folder]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let names = ["report.md", "report.html", "results.csv"].map(|name| format!("{}\n", folder.join(name).display()));
    assert_eq!(text(&output.stdout), names.concat());
    assert!(fs::read_to_string(folder.join("report.md")).unwrap().starts_with("# optane-mixed, scale quick\n"));
    assert_eq!(fs::read_to_string(folder.join("results.csv")).unwrap().lines().count(), 1 + 24);
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 5, "nothing else is left behind");
}

#[test]
fn what_is_no_folder_of_results_is_refused_with_one_sentence() {
    let dir = tempfile::tempdir().unwrap();
    let refused = |says: &str| {
        for words in [&["report"][..], &["compare", dir.path().to_str().unwrap()]] {
            let output = bench(words, &[dir.path()]);
            let told = text(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{told}");
            assert!(told.starts_with("error: ") && told.contains(says) && told.lines().count() == 1, "{told}");
            assert!(output.stdout.is_empty());
        }
    };
    refused("no folder of results: cannot read manifest.json: No such file");
    fs::write(dir.path().join("manifest.json"), "{\"schema\": 1, ").unwrap();
    refused("manifest.json is not as a study writes it: EOF while parsing");
    let (mut manifest, results) = data::resilience();
    manifest.schema = 99;
    fs::write(dir.path().join("manifest.json"), serde_json::to_vec(&manifest).unwrap()).unwrap();
    refused("cannot read results.json");
    fs::write(dir.path().join("results.json"), serde_json::to_vec(&results).unwrap()).unwrap();
    refused("manifest.json has version 99, and this program reads up to 1");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2, "nothing was written");
}

#[test]
fn two_folders_are_compared() {
    let one = folder("compared-1", &data::optane_mixed(true));
    let mut files = data::optane_mixed(true);
    files.0.seed = 8;
    let two = folder("compared-2", &files);
    let output = bench(&["compare"], &[&one, &two]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let told = text(&output.stdout);
    assert!(told.contains("Same load: NO") && told.contains("| seed"), "{told}");
    assert!(told.contains("1.00x"), "{told}");
}

/// Chromium on a page, with these words; it is ended when it takes longer than it may.
fn chromium(profile: &TempDir, words: &[String], page: &Path) -> String {
    let mut child = Command::new("chromium")
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .args(words)
        .arg(format!("file://{}", page.display()))
        .stdout(fs::File::create(profile.path().join("stdout")).unwrap())
        .stderr(Stdio::null())
        .spawn()
        .expect("chromium is installed (`make setup`)");
    let until = Instant::now() + Duration::from_secs(180);
    while child.try_wait().unwrap().is_none() {
        if Instant::now() > until {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("chromium takes too long: {words:?}");
        }
        thread::sleep(Duration::from_millis(50));
    }
    fs::read_to_string(profile.path().join("stdout")).unwrap()
}

/// What a browser tells of one picture, in pixels of the page.
#[derive(Debug, Deserialize)]
struct Plot {
    title: String,
    series: usize,
    rect: Rect,
    scale: f64,
    texts: Vec<Text>,
}

#[derive(Debug, Deserialize)]
struct Text {
    text: String,
    class: String,
    size: f64,
    rect: Rect,
}

#[derive(Debug, Clone, Copy, Deserialize)]
struct Rect {
    left: f64,
    top: f64,
    right: f64,
    bottom: f64,
}

impl Rect {
    fn overlaps(self, other: Self) -> bool {
        let apart = |a: (f64, f64), b: (f64, f64)| a.1 <= b.0 + 0.5 || b.1 <= a.0 + 0.5;
        !apart((self.left, self.right), (other.left, other.right))
            && !apart((self.top, self.bottom), (other.top, other.bottom))
    }

    fn within(self, other: Self) -> bool {
        self.left >= other.left - 0.5
            && self.right <= other.right + 0.5
            && self.top >= other.top - 0.5
            && self.bottom <= other.bottom + 0.5
    }
}

/// Added to a copy of a page: writes where all text is, as JSON, at its end.
const PROBE: &str = r#"<script>
const rect = element => { const {left, top, right, bottom} = element.getBoundingClientRect(); return {left, top, right, bottom}; };
const tables = [...document.querySelectorAll("div.table")].map(table => table.scrollWidth - table.clientWidth);
const plots = [...document.querySelectorAll("svg.plot")].map(svg => ({
  title: svg.querySelector("title").textContent,
  series: Number(svg.dataset.series),
  rect: rect(svg),
  scale: svg.getBoundingClientRect().width / svg.viewBox.baseVal.width,
  texts: [...svg.querySelectorAll("text")].map(text => ({
    text: text.textContent, class: text.getAttribute("class"), size: parseFloat(getComputedStyle(text).fontSize), rect: rect(text),
  })),
}));
const probe = document.createElement("pre");
probe.id = "probe";
probe.textContent = JSON.stringify({plots, tables});
document.body.append(probe);
</script>"#;

/// What a browser tells of a page.
#[derive(Debug, Deserialize)]
struct Page {
    plots: Vec<Plot>,
    /// By how much each table is wider than its room.
    tables: Vec<f64>,
}

/// A browser shows this page in a window of this width, and tells what it has.
fn probed(folder: &Path, page: &str, width: u32) -> Page {
    let path = folder.join("probed.html");
    fs::write(&path, page.replace("</body>", &format!("{PROBE}</body>"))).unwrap();
    let profile = tempfile::tempdir().unwrap();
    let words = [format!("--window-size={width},1000"), "--virtual-time-budget=5000".into(), "--dump-dom".into()];
    let dom = chromium(&profile, &words, &path);
    fs::remove_file(path).unwrap();
    let json = dom.split("<pre id=\"probe\">").nth(1).and_then(|rest| rest.split("</pre>").next());
    let json = json.unwrap_or_else(|| panic!("the browser did not show the page: {dom:.300}"));
    serde_json::from_str(&json.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")).unwrap()
}

/// The report of a study as a browser shows it; leaves a picture and a print of it beside it.
fn shown(name: &str, files: &data::Files) -> Vec<Plot> {
    let folder = folder(name, files);
    assert_eq!(bench(&["report"], &[&folder]).status.code(), Some(0));
    let path = folder.join("report.html");
    let page = fs::read_to_string(&path).unwrap();
    let Page { plots, tables } = probed(&folder, &page, 1280);
    assert!(tables.iter().all(|over| *over <= 1.0), "a table is wider than a window of 1280 pixels: {tables:?}");
    // A4 has 186 mm between its margins, of 96 pixels each 25.4 mm.
    let paper = probed(&folder, &page.replace("@media print", "@media all"), 703);
    assert!(paper.tables.iter().all(|over| *over <= 1.0), "a table is wider than paper: {:?}", paper.tables);
    legible(&plots);
    legible(&paper.plots);

    let profile = tempfile::tempdir().unwrap();
    let print = folder.join("report.pdf");
    chromium(&profile, &["--no-pdf-header-footer".into(), format!("--print-to-pdf={}", print.display())], &path);
    let print = fs::read(print).unwrap();
    assert!(print.starts_with(b"%PDF") && print.windows(11).filter(|word| word == b"/Type /Page").count() > 2);
    let picture = folder.join("report.png");
    chromium(&profile, &["--window-size=1280,3000".into(), format!("--screenshot={}", picture.display())], &path);
    assert!(fs::metadata(picture).unwrap().len() > 50_000, "a picture of an empty page");
    plots
}

/// What holds for every picture of every report.
fn legible(plots: &[Plot]) {
    for plot in plots {
        let of = |class: &'static str| plot.texts.iter().filter(move |text| text.class == class);
        for (number, text) in plot.texts.iter().enumerate() {
            assert!(text.rect.within(plot.rect), "{}: {text:?} leaves its picture {:?}", plot.title, plot.rect);
            assert!(text.size * plot.scale >= 9.0, "{}: {text:?} is too small", plot.title);
            for other in &plot.texts[number + 1..] {
                assert!(!text.rect.overlaps(other.rect), "{}: {text:?} runs into {other:?}", plot.title);
            }
        }
        assert!(of("axis-title").count() >= 2, "{}: an axis has no name", plot.title);
        for title in of("axis-title") {
            let unit = title.text.split_once('(').map(|(_, unit)| unit);
            assert!(
                unit.is_some_and(|unit| unit.len() > 1 && unit.ends_with(')')),
                "{}: no unit in {title:?}",
                plot.title
            );
        }
        let names: std::collections::BTreeSet<&str> = of("legend").map(|text| text.text.as_str()).collect();
        assert_eq!((names.len(), of("legend").count()), (plot.series, plot.series), "{}: {names:?}", plot.title);
        assert!(plot.series > 0 && of("stamp").count() > 0 && of("title").count() > 0, "{}", plot.title);
        assert!(of("tick").count() >= 6, "{}: too few numbers at its axes", plot.title);
    }
}

fn count(plots: &[Plot], says: &str) -> usize {
    plots.iter().filter(|plot| plot.title.contains(says)).count()
}

#[test]
fn a_browser_shows_quality_of_service() {
    let plots = shown("iometer-qos", &data::iometer_qos(10.0, false));
    for arm in ["all-flash", "hybrid"] {
        assert_eq!(count(&plots, &format!("{arm}: share of requests within a time")), 3);
    }
    assert_eq!(count(&plots, "Requests a second and mean latency"), 1);
    assert_eq!(count(&plots, "As printed in 2014"), 1);
}

#[test]
fn a_browser_shows_arms() {
    let plots = shown("optane-mixed", &data::optane_mixed(true));
    assert_eq!(count(&plots, "by arm"), 3);
}

#[test]
fn a_browser_shows_a_buffer_that_fills() {
    let plots = shown("optane-seqwrite", &data::optane_seqwrite());
    assert_eq!((count(&plots, "throughput and destage"), count(&plots, "congestion")), (6, 6));
}

#[test]
fn a_browser_shows_a_death() {
    let mut files = data::resilience();
    files.1.ended_early = Some("made to end".into());
    let plots = shown("resilience", &files);
    assert_eq!((count(&plots, "throughput over time"), count(&plots, "latency over time")), (1, 1));
}

/// Names as long as people make them, and more lines than one picture can hold.
#[test]
fn a_browser_shows_long_names_too() {
    let (mut manifest, mut results) = data::iometer_qos(2.5, false);
    let name = |arm: &str| format!("{arm}-on-the-new-controllers-of-the-second-rack");
    manifest.media.iter_mut().for_each(|media| media.arm = name(&media.arm));
    results.caption =
        format!("{}; {}", results.caption, "a caption that goes on for longer than a line is wide ".repeat(4));
    let mut more = Vec::new();
    for cell in &mut results.cells {
        let old = std::mem::take(&mut cell.params.arm);
        cell.params.arm = name(&old);
        cell.id = cell.id.replace(&old, &cell.params.arm);
        let mut other = cell.clone();
        (other.params.vms, other.id) = (cell.params.vms + 1000, cell.id.replace("vms-", "vms-10"));
        more.push(other);
    }
    results.cells.append(&mut more);
    let plots = shown("long-names", &(manifest, results));
    assert_eq!(count(&plots, "part 2 of 2"), 6);
}
