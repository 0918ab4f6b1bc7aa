//! Every rule holds on a run that obeys it, and is broken by the defect that it is there for, and by no other.

mod believable;

use believable::{Believable, desktops, mixed, qos, seqwrite};
use cairn_study::{Action, Checks, PhaseKind, Sample};

const WHOLE: &str = "every repeat of every test was measured";
const ORDER: &str = "caches cleared before each test and not between its repeats, tests in order";
const PHASES: &str = "each run has ramp, measure and drain one after the other, of the lengths asked for";
const LITTLE: &str = "Little's law within 5 %";
const COPIES: &str = "each written byte went to as many write buffers as there are copies (within 2 %)";
const DESTAGE: &str = "capacity devices are written by destage and cleaning alone";
const BINS: &str = "IOMeter's 21 bins and fio's bins hold the same requests";
const GROWTH: &str = "64 machines reach at least 8 times the rate of 4";
const ONE_EACH: &str = "one request outstanding for each machine";
const ONLY_CACHE: &str = "arms differ in the cache medium only";
const GAIN: &str = "latency falls as the gain implies (within 5 points)";
const FILL: &str = "the write buffer is never over its size";
const PLATEAUS: &str = "two plateaus: the buffer's speed, then destage's (within 25 %)";
const CONGESTION: &str = "congestion rises before the rate falls (within a second)";

/// The rules that are broken, each once.
fn broken(run: &Believable) -> Vec<String> {
    let verdicts = cairn_study::verify(&run.manifest, &run.results);
    let mut rules: Vec<String> = verdicts.into_iter().filter(|v| !v.holds).map(|v| v.rule).collect();
    rules.dedup();
    rules
}

/// Does something to a good run, and tells what that breaks.
fn after(mut run: Believable, defect: impl FnOnce(&mut Believable)) -> Vec<String> {
    defect(&mut run);
    broken(&run)
}

#[test]
fn good_runs_obey_every_rule() {
    for (run, rules) in [
        (qos(), vec![WHOLE, ORDER, PHASES, LITTLE, COPIES, DESTAGE, BINS, GROWTH, ONE_EACH]),
        (mixed(), vec![WHOLE, ORDER, PHASES, LITTLE, COPIES, DESTAGE, BINS, ONLY_CACHE, GAIN]),
        (seqwrite(), vec![WHOLE, ORDER, PHASES, LITTLE, COPIES, DESTAGE, BINS, FILL, PLATEAUS, CONGESTION]),
    ] {
        let study = &run.manifest.study;
        assert_eq!(broken(&run), Vec::<String>::new(), "{study}");
        let verdicts = cairn_study::verify(&run.manifest, &run.results);
        for rule in rules {
            assert!(verdicts.iter().any(|verdict| verdict.rule == rule), "{study} is not judged by {rule:?}");
        }
        assert!(verdicts.iter().all(|verdict| !verdict.because.is_empty()), "{study}");
    }
}

#[test]
fn what_was_not_measured_is_missed() {
    let missing = after(qos(), |run| {
        run.results.cells.retain(|cell| (cell.id.as_str(), cell.repeat) != ("all-flash/vms-8", 3));
    });
    assert_eq!(missing, [WHOLE]);
    let twice = after(qos(), |run| {
        let copy = run.results.cells[0].clone();
        run.results.cells[1] = copy;
    });
    assert_eq!(twice, [WHOLE], "one repeat twice is not two repeats");
    let early = after(qos(), |run| run.manifest.ended_early = Some("the target is gone".into()));
    assert_eq!(early, [WHOLE]);
    let gone = after(qos(), |run| run.results.cells[4].checks.broken = Some("connection reset".into()));
    assert_eq!(gone, [WHOLE]);
    let nothing = after(qos(), |run| {
        run.results.cells.clear();
        run.manifest.steps.clear();
    });
    assert!(nothing.contains(&WHOLE.to_owned()) && nothing.contains(&ORDER.to_owned()), "{nothing:?}");
}

#[test]
fn the_order_is_that_of_the_study() {
    let clear_of = |run: &Believable, nth: usize| {
        let clears = run.manifest.steps.iter().enumerate().filter(|(_, s)| matches!(s.action, Action::Clear { .. }));
        clears.map(|(at, _)| at).nth(nth).unwrap()
    };
    let missing = after(qos(), |run| {
        let at = clear_of(run, 1);
        run.manifest.steps.remove(at);
    });
    assert_eq!(missing, [ORDER]);
    let between = after(qos(), |run| {
        let at = clear_of(run, 1);
        let clear = run.manifest.steps[at].clone();
        run.manifest.steps.insert(at + 2, clear);
    });
    assert_eq!(between, [ORDER], "a clearing between two repeats");
    let swapped = after(qos(), |run| {
        // The first test's clearing and repeats behind those of the second.
        let (first, second) = (clear_of(run, 0), clear_of(run, 1));
        run.manifest.steps[first..second + (second - first)].rotate_left(second - first);
    });
    assert_eq!(swapped, [ORDER]);
    let skipped = after(qos(), |run| {
        let at = clear_of(run, 0) + 2;
        run.manifest.steps.remove(at);
    });
    assert_eq!(skipped, [ORDER], "the third repeat on the first");
    let dirty = after(qos(), |run| {
        let at = clear_of(run, 2);
        let buffered_after_bytes = run.manifest.target.buffer_bytes / 50;
        run.manifest.steps[at].action = Action::Clear { buffered_before_bytes: 1 << 30, buffered_after_bytes };
    });
    assert_eq!(dirty, [ORDER], "2 % of the buffers were not cleared");
}

#[test]
fn only_what_was_asked_for_counts() {
    let run_step = |run: &Believable| {
        run.manifest.steps.iter().position(|step| matches!(step.action, Action::Run { .. })).unwrap()
    };
    let short = after(qos(), |run| {
        let at = run_step(run);
        let phases = &mut run.manifest.steps[at].phases;
        phases[0].began_ms += 500;
    });
    assert_eq!(short, [PHASES], "a ramp of 1.5 s instead of 2");
    let none = after(qos(), |run| {
        let at = run_step(run);
        run.manifest.steps[at].phases.remove(0);
    });
    assert_eq!(none, [PHASES]);
    let counted = after(qos(), |run| {
        run.results.cells[0].measured_ms += 2000;
    });
    assert_eq!(counted, [PHASES], "the ramp was counted");
    let gap = after(qos(), |run| {
        let at = run_step(run);
        run.manifest.steps[at].phases[2].began_ms += 1;
    });
    assert_eq!(gap, [PHASES]);
    let less = |run: &mut Believable| {
        let at = run_step(run);
        let measure = &mut run.manifest.steps[at].phases[1..];
        assert_eq!(measure[0].kind, PhaseKind::Measure);
        measure[0].ended_ms -= 1000;
        measure[1].began_ms -= 1000;
        run.results.cells[0].measured_ms -= 1000;
    };
    assert_eq!(after(qos(), less), [PHASES], "a second less than asked for");
    assert_eq!(after(seqwrite(), less), Vec::<String>::new(), "its tests end with their bytes");
}

#[test]
fn a_closed_loop_keeps_outstanding_what_was_asked_for() {
    let off = |run: &mut Believable| run.results.cells[2].checks.little_off = Some(-0.06);
    assert_eq!(after(qos(), off), [LITTLE]);
    assert_eq!(after(qos(), |run| run.results.cells[2].checks.little_off = Some(0.049)), Vec::<String>::new());
    assert_eq!(
        after(mixed(), |run| run.results.cells[2].checks = Checks::default()),
        [LITTLE],
        "nothing is known of it"
    );
    let paced = after(mixed(), |run| {
        run.results.cells[2].checks = Checks::default();
        run.results.cells[2].params.rate_per_s = Some(100.0);
    });
    assert_eq!(paced, Vec::<String>::new(), "a fixed rate keeps nothing outstanding");
    let two_each = after(qos(), |run| {
        let cell = &mut run.results.cells[2];
        cell.checks.outstanding = cell.checks.outstanding.map(|outstanding| outstanding * 2.0);
    });
    assert_eq!(two_each, [ONE_EACH]);
}

#[test]
fn bytes_go_where_copies_and_destage_say() {
    let factor = |factor: f64| {
        move |run: &mut Believable| {
            for counted in run.results.cells.iter_mut().filter_map(|cell| cell.counted.as_mut()) {
                counted.buffered_bytes = (counted.guest_written_bytes as f64 * factor) as u64;
            }
        }
    };
    assert_eq!(after(qos(), factor(1.9)), [COPIES]);
    assert_eq!(after(qos(), factor(2.1)), [COPIES]);
    assert_eq!(after(qos(), factor(2.03)), Vec::<String>::new());
    let past = after(qos(), |run| {
        run.results.cells[7].counted.as_mut().unwrap().capacity_written_otherwise_bytes = 4096;
    });
    assert_eq!(past, [DESTAGE]);
    let unread = |run: &mut Believable| run.results.cells.iter_mut().for_each(|cell| cell.counted = None);
    assert_eq!(after(qos(), unread), [COPIES, DESTAGE], "a cluster of its own has counters");
    let one_unread = |run: &mut Believable| run.results.cells[5].counted = None;
    assert_eq!(after(qos(), one_unread), [COPIES, DESTAGE]);
    let foreign = |run: &mut Believable| {
        unread(run);
        run.manifest.target.copies = 0;
    };
    assert_eq!(after(qos(), foreign), Vec::<String>::new(), "nothing is known of another system's copies");
}

#[test]
fn bins_add_up() {
    assert_eq!(after(qos(), |run| run.results.cells[1].reads.iometer[9] += 1), [BINS]);
    assert_eq!(after(qos(), |run| run.results.cells[1].writes.bins[0].1 -= 1), [BINS]);
    assert_eq!(after(qos(), |run| run.results.cells[1].total.requests += 1), [BINS]);
    let lost = |run: &mut Believable| {
        let writes = &mut run.results.cells[1].writes;
        (writes.requests, writes.bins, writes.iometer) = (0, Vec::new(), vec![0; 21]);
    };
    assert_eq!(after(qos(), lost), [BINS], "reads alone are not both");
}

#[test]
fn many_machines_are_faster_than_few() {
    let flat = |run: &mut Believable| {
        let few = run.cells("all-flash/vms-4").next().unwrap().total.iops;
        run.cells("all-flash/vms-64").for_each(|cell| cell.total.iops = few * 7.0);
    };
    assert_eq!(after(qos(), flat), [GROWTH]);
    let hard_disks = |run: &mut Believable| {
        flat(run);
        run.manifest.media[0].capacity = "hdd10k".into();
    };
    assert_eq!(after(qos(), hard_disks), Vec::<String>::new(), "reads wait for arms of disks");
    let single = Believable::of("iometer-qos", 1);
    assert_eq!(broken(&single), Vec::<String>::new());
}

#[test]
fn arms_differ_in_the_cache_alone() {
    assert_eq!(after(mixed(), |run| run.manifest.media[1].capacity = "hdd10k".into()), [ONLY_CACHE]);
    assert_eq!(after(mixed(), |run| run.manifest.media[1].dilation *= 2.0), [ONLY_CACHE]);
    let same = after(mixed(), |run| run.manifest.media[1].cache = run.manifest.media[0].cache.clone());
    assert_eq!(same, [ONLY_CACHE], "arms that do not differ show nothing");
    let slower = after(mixed(), |run| {
        for cell in run.cells("optane/oio-32") {
            let latency = cell.total.latency.as_mut().unwrap();
            latency.mean_ns *= 1.2;
        }
    });
    assert_eq!(slower, [GAIN]);
}

#[test]
fn a_burst_a_knee_and_what_destage_sustains() {
    let samples = |act: fn(usize, &mut Sample)| {
        move |run: &mut Believable| {
            run.results.cells[0].samples.iter_mut().enumerate().for_each(|(number, sample)| act(number, sample));
        }
    };
    assert_eq!(after(seqwrite(), samples(|_, sample| sample.written_bytes = 40_000_000)), [PLATEAUS], "no knee");
    let slow = samples(|_, sample| sample.gauges.as_mut().unwrap().destaged_bytes /= 2);
    assert_eq!(after(seqwrite(), slow), [PLATEAUS], "destage moves half of what is written");
    let late = samples(|number, sample| {
        let gauges = sample.gauges.as_mut().unwrap();
        gauges.congestion = if number < 12 { 0 } else { 200 };
    });
    assert_eq!(after(seqwrite(), late), [CONGESTION]);
    let never = samples(|_, sample| sample.gauges.as_mut().unwrap().congestion = 0);
    assert_eq!(after(seqwrite(), never), [CONGESTION]);
    let over = samples(|number, sample| {
        if number == 9 {
            sample.gauges.as_mut().unwrap().log_fill_max_permille = 1001;
        }
    });
    assert_eq!(after(seqwrite(), over), [FILL]);
    let short = |run: &mut Believable| run.results.cells[0].samples.truncate(4);
    assert_eq!(after(seqwrite(), short), [PLATEAUS], "too short to tell is not good");
    let blind = samples(|_, sample| sample.gauges = None);
    let told = after(seqwrite(), blind);
    assert_eq!(told, [FILL, PLATEAUS, CONGESTION], "a cluster of its own tells of its buffers");
    let foreign = |run: &mut Believable| {
        run.manifest.target.copies = 0;
        run.results.cells.iter_mut().flat_map(|cell| &mut cell.samples).for_each(|sample| sample.gauges = None);
    };
    assert_eq!(after(seqwrite(), foreign), Vec::<String>::new(), "what does not tell is not judged");
}

#[test]
fn desktops_are_what_their_arm_says() {
    assert_eq!(broken(&desktops()), Vec::<String>::new());
    let cell = |run: &mut Believable, id: &str, defect: fn(&mut cairn_study::Cell)| {
        run.cells(id).for_each(defect);
    };
    let part = after(desktops(), |run| run.results.cells.retain(|cell| cell.id != "clones/recompose"));
    assert_eq!(part, ["each part was measured once in each arm"]);
    let early = after(desktops(), |run| run.manifest.ended_early = Some("killed".into()));
    assert_eq!(early, ["each part was measured once in each arm"]);
    let warm = after(desktops(), |run| {
        run.manifest.steps.retain(|step| !(step.arm == "clones" && matches!(step.action, Action::Clear { .. })));
    });
    assert_eq!(warm, ["caches were cleared just before all boot"]);
    let asleep = after(desktops(), |run| {
        cell(run, "own-copies/boot", |cell| cell.desktops.as_mut().unwrap().each_s.truncate(23));
    });
    assert_eq!(asleep, ["every desktop booted to its end"]);
    let copied = after(desktops(), |run| {
        cell(run, "clones/deploy", |cell| cell.counted.as_mut().unwrap().buffered_bytes *= 2);
    });
    assert_eq!(copied, ["what was deployed is what the arm says"], "clones that copy are none");
    let thin = after(desktops(), |run| {
        cell(run, "own-copies/deploy", |cell| cell.counted.as_mut().unwrap().buffered_bytes /= 2);
    });
    assert_eq!(thin, ["what was deployed is what the arm says"], "own copies that do not copy are none");
    let wrong = after(desktops(), |run| {
        run.manifest.steps.iter_mut().filter(|step| step.arm == "clones").for_each(|step| {
            if let Action::Verify { wrong, .. } = &mut step.action {
                *wrong = 1;
            }
        });
    });
    assert_eq!(wrong, ["what desktops wrote last is there"]);
    let left = after(desktops(), |run| {
        run.manifest.steps.retain(|step| !matches!(step.action, Action::Recompose { .. }));
    });
    assert_eq!(left, ["all desktops were made anew, and nothing is left of those before"]);
}
