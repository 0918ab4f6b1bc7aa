"""A load of one thread on many disks (`cairn-bench load`): its command line, and what its JSON says.

Promises  what it measured comes as an Outcome, like fio's: the same names, each disk's mean beside them
          a load that broke, or a disk that did nothing, is an exception and never a number
Why       fio takes a thread for each disk, and 64 of them on few processors are themselves what bounds the row: a server without
          storage loses most of its speed with them. One thread asks of 64 disks what it asks of one
"""

import json
import subprocess

from fio import FioError, Outcome
from figures import percentile
from processes import die_with_parent

PROGRAM = "cairn-bench"


def command(program, job, uris, span_mib):
    """The command line: the job on each of these targets, its first span_mib MiB."""
    percents = {"randwrite": 0, "randread": 100, "randrw": job.read_percent}
    if job.rw not in percents:
        raise ValueError(f"{job.rw}: the load of one thread has random requests only")
    read = percents[job.rw]
    line = [str(program), "load", "--style=json", f"--block={job.block}", f"--read={read}", "--random=100", "--ramp=0"]
    line += [f"--outstanding={job.depth}", f"--span={span_mib}MiB"]
    if job.seconds:
        line.append(f"--time={job.seconds:g}")
    if job.mib:
        line.append(f"--bytes={job.mib}MiB")
    if read < 100:
        line.append("--destructive")
    return [*line, *uris]


def run(program, job, uris, span_mib):
    """Runs the load and gives its Outcome; FioError where it failed."""
    line = command(program, job, uris, span_mib)
    done = subprocess.run(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=die_with_parent)
    if done.returncode:
        raise FioError(f"{' '.join(line)}\n{PROGRAM} ended with code {done.returncode}: {done.stderr.strip()}")
    return parse(done.stdout)


def parse(text):
    """What the JSON says of all disks together."""
    data = json.loads(text)
    if not data["complete"]:
        raise FioError(f"the load broke: {'; '.join(data['doubts'])}")
    total = data["total"]
    bins = {int(value): count for value, count in total["bins"].items()}
    means = []
    for stream in data["streams"]:
        sides = [stream[side] for side in ("read", "write") if stream[side]["requests"]]
        if not sides:
            raise FioError(f"{stream['target']}: the load did nothing there")
        ios = sum(side["requests"] for side in sides)
        means.append(sum(side["requests"] * side["lat"]["mean_ns"] for side in sides) / ios / 1000)
    return Outcome(
        ios=total["requests"],
        iops=total["iops"],
        mib_s=total["bytes_per_s"] / (1 << 20),
        mean_us=total["lat"]["mean_ns"] / 1000,
        p50_us=percentile(bins, 50) / 1000,
        p99_us=percentile(bins, 99) / 1000,
        p999_us=percentile(bins, 99.9) / 1000,
        job_means_us=means,
    )
