#!/usr/bin/env bash
# make bench: Cairn beside the protocol's ceiling and the medium, in one run on one machine, as a table in docs/bench.
#
# Promises  systems take turns within every round, so that a disturbance of the machine meets all of them; medians of the rounds
#           everything is ended and removed at the end; only processes started here are ended, by their numbers
# Assumes   fio with the nbd engine, nbdkit, etcd, jq (scripts/setup.sh); some 6 GiB free below target/
# Usage     scripts/bench.sh [ROUNDS] [SECONDS]     default 3 rounds, 5 s each
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH=$HOME/.cargo/bin:$PATH
rounds=${1:-3} seconds=${2:-5} size=512M
target=${CARGO_TARGET_DIR:-$PWD/target}
bin=${CAIRN_BIN:-$target/dist}
[[ -n ${CAIRN_BIN:-} ]] || "${CARGO:-cargo}" build --profile dist --locked --quiet -p cairnd -p cairn-cli

dir=$target/tmp/bench-$$ run=/run/cairn-bench-$$
mkdir -p "$dir" "$run" docs/bench
pids=() hosts=()
finish() {
    ((${#pids[@]})) && kill -9 "${pids[@]}" 2>/dev/null || true
    wait 2>/dev/null || true
    rm -rf "$dir" "$run"
}
trap finish EXIT

# Three hosts as three processes on loopback addresses, with one etcd member: etcd is not on the path of I/O.
member='{ host = "h1", peer_url = "http://127.77.0.1:2380", client_url = "http://127.77.0.1:2379" }'
for n in 1 2 3; do
    mkdir -p "$dir/h$n"
    cat >"$dir/h$n/cairnd.toml" <<TOML
[cluster]
name = "bench"
[host]
name = "h$n"
data_dir = "$dir/h$n/data"
[listen]
peers = "127.77.0.$n:9600"
api = ""
api_socket = "$run/h$n-api.sock"
nbd = ""
nbd_socket = "$run/h$n-nbd.sock"
[directory]
kind = "etcd"
members = [$member]
[log]
level = "warn"
[[disk_group]]
cache = "$dir/h$n/cache.img"
capacity = ["$dir/h$n/capacity.img"]
cache_size = "1GiB"
capacity_size = "1GiB"
TOML
    "$bin/cairnd" --config "$dir/h$n/cairnd.toml" 2>"$dir/h$n/log" &
    pids+=($!) hosts+=($!)
done
cairn() { "$bin/cairn" --api "unix:$run/h1-api.sock" --output json "$@"; }
for _ in $(seq 300); do
    cairn disk create bench --size "$size" --host h1 >/dev/null 2>"$dir/create" && break
    sleep 0.2
done
cairn disk attach bench --host h1 >/dev/null || { cat "$dir/create" "$dir"/h*/log >&2; exit 1; }

nbdkit --foreground --unix "$run/nbdkit.sock" memory "$size" &
pids+=($!)
fallocate -l "$size" "$dir/raw.0.img"
for _ in $(seq 50); do [[ -S $run/nbdkit.sock ]] && break; sleep 0.1; done

cairn_uri="nbd+unix:///bench?socket=$run/h1-nbd.sock"
engine() { # system -> fio's arguments
    case $1 in
        nbdkit) echo "--ioengine=nbd --uri=nbd+unix:///?socket=$run/nbdkit.sock" ;;
        cairn) echo "--ioengine=nbd --uri=$cairn_uri" ;;
        # Every write on stable media when it is acknowledged, as Cairn's are.
        raw-dsync) echo "--ioengine=libaio --filename=$dir/raw.0.img --direct=1 --sync=dsync" ;;
        # Two at once: what the two copies of one write, here on one device, have of it at best.
        raw-twice) echo "--ioengine=libaio --directory=$dir --filename_format=raw.\$jobnum.img --direct=1 --sync=dsync --numjobs=2 --group_reporting" ;;
        raw-fdatasync) echo "--ioengine=libaio --filename=$dir/raw.0.img --direct=1 --fdatasync=1" ;;
    esac
}
cpu() { # clock ticks of the daemons
    local sum=0 pid fields
    for pid in "${hosts[@]}"; do
        fields=($(sed 's/.*) //' "/proc/$pid/stat"))
        sum=$((sum + fields[11] + fields[12]))
    done
    echo "$sum"
}
# All of the disk is written once with noise first: reads of holes would be no reads.
for system in nbdkit raw-dsync cairn; do
    # shellcheck disable=SC2046
    fio --name=fill $(engine "$system") --rw=write --bs=1M --iodepth=4 --size="$size" --output=/dev/null
done
cp --sparse=never "$dir/raw.0.img" "$dir/raw.1.img"

rows=(
    "4K random read QD1|--rw=randread --bs=4k --iodepth=1"
    "4K random read QD32|--rw=randread --bs=4k --iodepth=32"
    "4K random write QD1|--rw=randwrite --bs=4k --iodepth=1"
    "4K random write QD32|--rw=randwrite --bs=4k --iodepth=32"
    "4K 70/30 QD32|--rw=randrw --rwmixread=70 --bs=4k --iodepth=32"
    "1M sequential read QD4|--rw=read --bs=1M --iodepth=4"
    "1M sequential write QD4|--rw=write --bs=1M --iodepth=4"
)
systems=(nbdkit raw-dsync raw-twice raw-fdatasync cairn)
results=$dir/results
for round in $(seq "$rounds"); do
    for row in "${rows[@]}"; do
        name=${row%%|*} job=${row#*|}
        for system in "${systems[@]}"; do
            [[ $system == raw-fdatasync && $name == *read* ]] && continue
            [[ $system == raw-twice && $name != "4K random write QD1" ]] && continue
            before=$(cpu)
            # shellcheck disable=SC2046,SC2086
            fio --name=bench $(engine "$system") $job --size="$size" --time_based --runtime="$seconds" --ramp_time=1 \
                --output-format=json --output="$dir/fio.json"
            after=$(cpu)
            # requests per second, MiB per second, mean latency in us, CPU seconds of the daemons per 1000 requests
            jq -r --arg s "$system" --arg n "$name" --argjson ticks $((after - before)) --argjson all $((seconds + 1)) \
                '.jobs[0] | (.read.iops + .write.iops) as $i | [$s, $n, $i, (.read.bw_bytes + .write.bw_bytes) / 1048576,
                 (if .write.iops > .read.iops then .write.clat_ns.mean else .read.clat_ns.mean end) / 1000,
                 (if $i > 0 then $ticks / 100 / ($i * $all) * 1000 else 0 end)] | @tsv' "$dir/fio.json" >>"$results"
            echo "round $round: $name: $system: $(tail -1 "$results" | cut -f3 | cut -d. -f1) IOPS"
        done
    done
done

median() { # system, row, column
    awk -F'\t' -v s="$1" -v n="$2" -v c="$3" '$1 == s && $2 == n { print $c }' "$results" | sort -g | awk '{ v[NR] = $1 } END { print NR ? v[int((NR + 1) / 2)] : "" }'
}
share() { awk -v a="$1" -v b="$2" 'BEGIN { if (a != "" && b != "" && b > 0) printf "%.0f %%", 100 * a / b; else printf "-" }'; }
figure() { awk -v v="$1" 'BEGIN { if (v == "") printf "-"; else printf (v < 10 ? "%.3f" : "%.0f"), v }'; }
rss=0
for pid in "${hosts[@]}"; do rss=$((rss + $(awk '/VmRSS/ { print $2 }' "/proc/$pid/status"))); done
version=$("$bin/cairn" version 2>/dev/null | head -1)
out=docs/bench/speed-floor.md
{
    echo "# Speed beside the protocol's ceiling and the medium"
    echo
    echo "Made by \`scripts/bench.sh $rounds $seconds\` on $(date -u +%F), $version, commit $(git rev-parse --short HEAD)."
    echo "Machine: $(nproc) processors ($(awk -F': ' '/model name/ { print $2; exit }' /proc/cpuinfo)), $(awk '/MemTotal/ { printf "%.0f GiB", $2 / 1048576 }' /proc/meminfo), kernel $(uname -r);"
    echo "load average at the end $(cut -d' ' -f1-3 /proc/loadavg). Client, servers and files share the machine: compare within this page only."
    echo
    echo "*nbdkit*: \`nbdkit memory\` on a unix socket, no storage. *raw*: a preallocated file with O_DIRECT, every write durable by"
    echo "O_DSYNC or by fdatasync after it. *Cairn*: 3 hosts as 3 processes on loopback, mirror with FTT 1, NBD on a unix socket of the"
    echo "owner's host, every acknowledged write on stable media of both copies. $size written before; $rounds rounds in turns, $seconds s each, medians."
    echo
    echo "| job | nbdkit IOPS | raw O_DSYNC IOPS | raw fdatasync IOPS | Cairn IOPS | Cairn MiB/s | of nbdkit | of raw O_DSYNC | Cairn CPU s per 1000 | mean latency us: nbdkit, O_DSYNC, Cairn |"
    echo "|---|---|---|---|---|---|---|---|---|---|"
    for row in "${rows[@]}"; do
        name=${row%%|*}
        n=$(median nbdkit "$name" 3) d=$(median raw-dsync "$name" 3) f=$(median raw-fdatasync "$name" 3) c=$(median cairn "$name" 3)
        echo "| $name | $(figure "$n") | $(figure "$d") | $(figure "$f") | $(figure "$c") | $(figure "$(median cairn "$name" 4)") | $(share "$c" "$n") | $(share "$c" "$d") | $(figure "$(median cairn "$name" 6)") | $(figure "$(median nbdkit "$name" 5)"), $(figure "$(median raw-dsync "$name" 5)"), $(figure "$(median cairn "$name" 5)") |"
    done
    echo
    echo "Two O_DSYNC writes of 4 KiB at once, as the two copies of one write on this one device: $(figure "$(median raw-twice "4K random write QD1" 5)") us each."
    echo "Resident memory of the three daemons at the end: $((rss / 1024)) MiB, read caches included."
    echo
    echo "Aims: random read QD32 at least 40 % of nbdkit, random write QD32 at least 25 % of nbdkit, QD1 write latency at most 3 times O_DSYNC's."
} >"$out"
cat "$out"
