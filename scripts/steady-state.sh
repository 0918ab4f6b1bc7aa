#!/usr/bin/env bash
# Random writes that never end: the rate of every second, and of every byte where it went, as a table.
#
# Promises  4 KiB random writes over a working set of four times the write buffers, on modelled media (docs/bench/media.md): rates
#           scale with what the drives allow, not with this machine; every disk is written in full before anything counts
#           everything is ended and removed at the end; only what was started here is ended
# Assumes   jq; free space below target/ for the files: 8 x LOG, and 4 x CAPACITY
# Usage     scripts/steady-state.sh [SECONDS] [OUTSTANDING] [DILATION]     default 600 s, 128 outstanding in all, x80
#           LOG=128 MiB a host, CAPACITY=2048 MiB a host, RAMP=60 s, CAIRN_BIN=where the programs are: by the environment
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH=$HOME/.cargo/bin:$PATH
time_s=${1:-600} outstanding=${2:-128} dilation=${3:-80} ramp_s=${RAMP:-60}
log_mib=${LOG:-128} capacity_mib=${CAPACITY:-2048} hosts=4
cache_medium=${CACHE_MEDIUM:-nvme-nand} capacity_medium=${CAPACITY_MEDIUM:-sata-ssd}
target=${CARGO_TARGET_DIR:-$PWD/target}
bin=${CAIRN_BIN:-$target/dist}
[[ -n ${CAIRN_BIN:-} ]] || "${CARGO:-cargo}" build --profile dist --locked --quiet -p cairnd -p cairn-cli -p cairn-bench

dir=$target/tmp/steady-$$
mkdir -p "$dir"
pid=
finish() {
    [[ -n $pid ]] && kill -9 "$pid" 2>/dev/null || true
    wait 2>/dev/null || true
    if [[ -n ${KEEP:-} ]]; then mkdir -p "$KEEP" && cp "$dir"/*.json "$dir"/cairnd.log "$KEEP"; fi
    rm -rf "$dir"
}
trap finish EXIT

# Two copies of each block: what the disks hold together is twice a group's share of it.
disk_mib=$((log_mib * 4 / 2))
metadata_mib=$((capacity_mib / 50 + 32))
cache_mib=$((log_mib + metadata_mib * 3 + 64))
# What processors take is not stretched, the delays of a filling buffer are.
delay_ms=$((${DELAY:-100} * dilation < 10000 ? ${DELAY:-100} * dilation : 10000))
printf '[tuning]\nlog = "%sMiB"\nread_cache = "16MiB"\ncongestion_delay_max_ms = %s\n' "$log_mib" "$delay_ms" >"$dir/cairnd.toml"
"$bin/cairnd" --config "$dir/cairnd.toml" --data-dir "$dir" --embedded-hosts $hosts --embedded-cache "${cache_mib}MiB" \
    --embedded-capacity "${capacity_mib}MiB" --listen-nbd "" --listen-api "" --embedded-cache-medium "$cache_medium" \
    --embedded-capacity-medium "$capacity_medium" --embedded-medium-dilation "$dilation" 2>"$dir/cairnd.log" &
pid=$!
cairn() { "$bin/cairn" --api "unix:$dir/api.sock" --output json "$@"; }
for _ in $(seq 1200); do
    cairn cluster status >/dev/null 2>&1 && break
    kill -0 "$pid" || { tail -3 "$dir/cairnd.log" >&2; exit 1; }
    sleep 0.1
done
# All of it is set aside, and no host is preferred, so that the parts are placed by what is free: two on each host. With a host preferred for each
# disk one of them has three parts now and then, and is the limit.
cairn policy create even --reservation 100 >/dev/null
disks=()
for n in $(seq $hosts); do
    cairn disk create "vm-$n" --size "${disk_mib}MiB" --policy even >/dev/null
    cairn disk attach "vm-$n" --host "host-$n" >/dev/null
    disks+=("nbd+unix:///vm-$n?socket=$dir/host-$n/nbd.sock")
    # What is free is told with heartbeats.
    sleep 3
done
cpu() { sed 's/.*) //' "/proc/$pid/stat" | awk '{ print ($12 + $13) / 100 }'; }
# Written in order once, and then as it will be measured.
"$bin/cairn-bench" precondition "${disks[@]}" --passes 1 --block 1M --destructive >/dev/null
load() { # seconds, seed
    "$bin/cairn-bench" load "${disks[@]}" --block 4k --read 0 --outstanding $((outstanding / hosts)) --ramp 0 --time "$1" \
        --seed "$2" --destructive --style json
}
load "$ramp_s" 1 >/dev/null
cairn counters >"$dir/before.json"
cpu_before=$(cpu)
load "$time_s" 2 >"$dir/load.json"
cpu_after=$(cpu)
cairn counters >"$dir/after.json"

sum() { # counter -> how much it grew over all disk groups
    local n
    for n in before after; do
        jq --arg k "$1" '[.. | objects | select(has($k) and has("destage_rounds")) | .[$k]] | add' "$dir/$n.json"
    done | paste -sd' ' | awk '{ printf "%.0f", $2 - $1 }'
}
mb() { awk -v b="$1" 'BEGIN { printf "%.1f", b / 1e6 }'; }
part() { awk -v a="$1" -v b="$2" 'BEGIN { printf "%.3f", (b > 0 ? a / b : 0) }'; }
guest=$(jq '.write.bytes // ([.seconds[].write.bytes] | add)' "$dir/load.json")
written=$(sum write_bytes) destaged=$(sum destaged_bytes) rounds=$(sum destage_rounds)
echo "4 KiB random writes, $outstanding outstanding over $hosts disks of $disk_mib MiB, two copies; $hosts hosts, each a log of $log_mib MiB on"
echo "$cache_medium and $capacity_mib MiB on $capacity_medium, all times x$dilation; $time_s s after $ramp_s s of the same"
echo
echo "| | |"
echo "|---|---|"
jq -r '[.seconds[:-1][].requests] as $s | ($s | add / length) as $m |
    "| rate of a second, mean | \($m | round) IOPS |",
    "| coefficient of variation | \((([$s[] | pow(. - $m; 2)] | add / length | sqrt) / $m * 1000 | round) / 10) % |",
    "| slowest, fastest second | \($s | min), \($s | max) IOPS |"' "$dir/load.json"
jq -r '.write | "| p50, p99, p99.9, longest | \([.lat.p50_ns, .lat.p99_ns, .lat.p999_ns, .lat.max_ns] | map(. / 1e6 * 10 | round / 10 | tostring) | join(", ")) ms |"' "$dir/load.json"
awk -v a="$cpu_before" -v b="$cpu_after" -v t="$time_s" 'BEGIN { printf "| processors in use by the daemon | %.2f |\n", (b - a) / t }'
echo
echo "| stage | MB | for each byte of a copy |"
echo "|---|---|---|"
row() { echo "| $1 | $(mb "$2") | $(part "$2" "$written") |"; }
row "guests" "$guest"
row "copies (two of each)" "$written"
row "written to the log, headers included" "$(sum log_write_bytes)"
row "read from the log by destage" "$(sum destage_read_bytes)"
row "destaged blocks" "$destaged"
row "written to capacity by destage" "$(sum capacity_write_destage_bytes)"
row "read from capacity by cleaning" "$(sum clean_read_bytes)"
row "written to capacity by cleaning" "$(sum capacity_write_clean_bytes)"
row "metadata rows" "$(sum metadata_row_bytes)"
row "metadata written to the cache device" "$(sum metadata_write_bytes)"
echo
echo "Copies written by host: $(for n in before after; do
    jq -c '[.. | objects | select(has("write_bytes") and has("destage_rounds")) | .write_bytes]' "$dir/$n.json"
done | jq -sr 'transpose | map((.[1] - .[0]) / 1e6 | round | tostring) | join(", ")') MB."
echo "Metadata written: $(part "$(sum metadata_write_bytes)" "$destaged") of destaged bytes. $rounds rounds of $(awk -v d="$destaged" -v r="$rounds" 'BEGIN { printf "%.0f", (r > 0 ? d / 4096 / r : 0) }') blocks."
