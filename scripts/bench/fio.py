"""fio: its command line for a job on a system, and what its JSON says.

Promises  reads and writes, and all jobs of a run, are merged bin by bin: percentiles are never averaged
          an error of fio, or a job that did nothing, is an exception and never a number
Assumes   fio 3.33 or newer with the engines nbd and libaio
"""

import json
import subprocess
from dataclasses import dataclass, field

from figures import merged, percentile, weighted_mean
from processes import die_with_parent

# In per cent; fio's own percentiles are in its JSON for whoever looks there, ours come from the same bins.
PERCENTILES = (50, 99, 99.9)


class FioError(Exception):
    """fio failed, or said what cannot be."""


@dataclass(frozen=True)
class Job:
    """What is asked of a system.

    seconds 0 and mib set: ends when so much is moved. Both set: at what comes first. Only seconds: at the time.
    """

    rw: str
    block: str
    depth: int
    seconds: float = 0
    mib: int = 0
    read_percent: int = 70


@dataclass
class Outcome:
    """What one run of fio measured. Latencies in microseconds, from submission to completion."""

    ios: int
    iops: float
    mib_s: float
    mean_us: float
    p50_us: float
    p99_us: float
    p999_us: float
    # Mean latency of each job, in the order of the jobs.
    job_means_us: list = field(default_factory=list)


def command(job, targets, output):
    """The command line: one fio job for each target, which is a list of arguments (engine, address, range)."""
    line = ["fio", "--thread", f"--percentile_list={':'.join(map(str, PERCENTILES))}", "--output-format=json+"]
    line += [f"--output={output}", f"--rw={job.rw}", f"--bs={job.block}", f"--iodepth={job.depth}"]
    # The same addresses in every run, but other ones in every pass over the range: with randrepeat fio begins each pass of a job
    # that ends by an amount with the same seed, so that a mixed job would never read what it has written.
    line += ["--randrepeat=0", "--randseed=1"]
    if job.rw == "randrw":
        line.append(f"--rwmixread={job.read_percent}")
    if job.seconds:
        line.append(f"--runtime={job.seconds * 1000:.0f}ms")
        if not job.mib:
            line.append("--time_based")
    if job.mib:
        line.append(f"--io_size={job.mib * 1024 // len(targets)}k")
    for number, target in enumerate(targets):
        line += [f"--name=job{number}", *target]
    return line


def run(job, targets, folder):
    """Runs fio and gives its Outcome; FioError where it failed."""
    output = folder / "fio.json"
    output.unlink(missing_ok=True)
    line = command(job, targets, output)
    done = subprocess.run(line, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, preexec_fn=die_with_parent)
    if done.returncode or not output.exists():
        raise FioError(f"{' '.join(line)}\nfio ended with code {done.returncode}: {done.stdout.strip()}")
    return parse(output.read_text())


def jobs_of(text):
    """The jobs in fio's JSON; fio may write warnings before it."""
    start = text.find("{")
    if start < 0:
        raise FioError(f"fio wrote no JSON: {text.strip()[:300]}")
    return json.loads(text[start:])["jobs"]


def parse(text):
    """What fio's JSON (json+, with bins) says of all jobs together."""
    jobs = jobs_of(text)
    sides, means, iops = [], [], 0.0
    for job in jobs:
        if job["error"]:
            raise FioError(f"fio's job {job['jobname']} met error {job['error']}")
        own = [job[side] for side in ("read", "write") if job[side]["total_ios"]]
        if not own:
            raise FioError(f"fio's job {job['jobname']} did nothing")
        sides += own
        iops += sum(side["iops"] for side in own)
        means.append(weighted_mean([(side["clat_ns"]["mean"], side["total_ios"]) for side in own]) / 1000)
    bins = merged({int(value): count for value, count in side["clat_ns"]["bins"].items()} for side in sides)
    if not bins:
        raise FioError("fio gave no bins of latency: it must run with --output-format=json+")
    middle, p99, p999 = (percentile(bins, percent) / 1000 for percent in PERCENTILES)
    return Outcome(
        ios=sum(side["total_ios"] for side in sides),
        iops=iops,
        mib_s=sum(side["bw_bytes"] for side in sides) / (1 << 20),
        mean_us=weighted_mean([(side["clat_ns"]["mean"], side["total_ios"]) for side in sides]) / 1000,
        p50_us=middle,
        p99_us=p99,
        p999_us=p999,
        job_means_us=means,
    )
