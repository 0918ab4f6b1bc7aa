#!/usr/bin/env bash
# make fuzz: runs the fuzz targets of crates/check/fuzz under libFuzzer, on the stable compiler (docs/fuzz.md).
#
# Promises  one line for each target: inputs, features, result; exit code 0 only where none failed
#           starts from the committed corpus; what is found new is kept in target/fuzz/corpus for the next run
#           writes nothing but below the target directory; an input that fails is kept, with the call that replays it
# Usage     scripts/fuzz.sh [SECONDS [TARGET...]]     default 60 seconds for each of all targets, two at a time
#           scripts/fuzz.sh --merge                   writes the smallest corpus of the present finds into the sources
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH=$HOME/.cargo/bin:$PATH
cargo=${CARGO:-cargo} home=crates/check/fuzz
work=${CARGO_TARGET_DIR:-target}/fuzz
mkdir -p "$work"
work=$(cd "$work" && pwd)
all=(wire nbd log metadata config api)
corpus_files_max=30

# Seconds that one input may take, of which the slowest takes half a one; and MiB of memory of a whole campaign: each disk group
# that does not open keeps some KiB of redb's (engine/store/src/meta.rs), 0.9 GiB in 150,000 inputs.
input_seconds_max=30 rss_mib_max=4096
# The longest messages of interest; more only makes each input slower.
input_bytes_max=4096

# Coverage is for the crates of this workspace alone (scripts/fuzz-rustc.sh): what they stand on is as the release profile has it, and
# serves both. `--workspace` because features are those of all members then, as in scripts/test.sh.
build() {
    echo "fuzz: building with coverage" >&2
    RUSTC_WORKSPACE_WRAPPER=$PWD/scripts/fuzz-rustc.sh "$cargo" build --quiet --release --locked --workspace \
        --features cairn-fuzz/libfuzzer --bin fuzz
    cp "${CARGO_TARGET_DIR:-target}/release/fuzz" "$work/fuzz"
    program=$work/fuzz
}

# run TARGET SECONDS: one campaign; its words go to a file.
run() {
    local target=$1 seconds=$2
    mkdir -p "$work/corpus/$target" "$work/failed/$target"
    local seeds=()
    for folder in "$home/corpus/$target" "$home/regressions/$target"; do
        [[ -d $folder ]] && seeds+=("$folder")
    done
    CAIRN_FUZZ_TARGET=$target "$program" -max_total_time="$seconds" -timeout="$input_seconds_max" \
        -rss_limit_mb="$rss_mib_max" -max_len="$input_bytes_max" -print_final_stats=1 \
        -artifact_prefix="$work/failed/$target/" "$work/corpus/$target" "${seeds[@]}" >"$work/$target.log" 2>&1
}

# summary TARGET CODE
summary() {
    local target=$1 code=$2 log=$work/$1.log inputs features result="no failure"
    inputs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log" | tail -1)
    features=$(grep -ao ' ft: [0-9]*' "$log" | tail -1 | tr -dc 0-9 || true)
    ((code == 0)) || result="FAILED"
    printf 'fuzz: %-9s %10s inputs, %7s features: %s\n' "$target" "${inputs:-?}" "${features:-?}" "$result"
    ((code == 0)) && return
    sed -n '/panicked at/,+3p' "$log" | head -8 >&2
    local file
    file=$(sed -n 's/.*Test unit written to //p' "$log" | tail -1)
    if [[ -n $file ]]; then
        echo "fuzz: replay it with: cargo run --release -p cairn-fuzz -- $target $file" >&2
    else
        tail -5 "$log" >&2
    fi
}

# Keeps, for each target, files of a minimal corpus: at most $corpus_files_max.
merge() {
    local target
    for target in "${all[@]}"; do
        local merged=$work/merged/$target
        rm -rf "$merged" && mkdir -p "$merged" "$home/corpus/$target"
        CAIRN_FUZZ_TARGET=$target "$program" -merge=1 -max_len=1024 -rss_limit_mb="$rss_mib_max" "$merged" \
            "$home/corpus/$target" "$work/corpus/$target" >"$work/$target.merge.log" 2>&1
        rm -f "$home/corpus/$target"/*
        # Of a large corpus, some of each size.
        find "$merged" -type f -printf '%s %p\n' | sort -rn | sed -n 's/^[0-9]* //p' |
            awk -v most="$corpus_files_max" '{ line[NR] = $0 } END { step = NR > most ? NR / most : 1
                for (n = 1; n <= NR && n <= most; n++) print line[int((n - 1) * step) + 1] }' |
            xargs -r cp -t "$home/corpus/$target"
        echo "fuzz: $target keeps $(find "$home/corpus/$target" -type f | wc -l) of $(find "$merged" -type f | wc -l) files"
    done
}

build
if [[ ${1:-} == --merge ]]; then
    merge
    exit
fi
seconds=${1:-60}
(($# == 0)) || shift
targets=("$@")
((${#targets[@]})) || targets=("${all[@]}")
failed=0
for ((at = 0; at < ${#targets[@]}; at += 2)); do
    pair=("${targets[@]:at:2}") jobs=()
    echo "fuzz: ${pair[*]} for $seconds s" >&2
    for target in "${pair[@]}"; do
        run "$target" "$seconds" &
        jobs+=($!)
    done
    for n in "${!pair[@]}"; do
        code=0
        wait "${jobs[n]}" || code=$?
        summary "${pair[n]}" "$code"
        ((code == 0)) || failed=1
    done
done
exit "$failed"
