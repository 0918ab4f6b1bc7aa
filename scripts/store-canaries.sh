#!/usr/bin/env bash
# make canaries, what is caught by the store's own tests: runs the test that is there for each deliberate bug, with it and without.
#
# Promises  one line for each bug; exit code 0 only where each test fails with its bug, and holds without
# Assumes   `make canaries` has built the simulator with them: it lists the bugs
# Usage     scripts/store-canaries.sh
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH=$HOME/.cargo/bin:$PATH
cargo=${CARGO:-cargo} folder=target/canaries
declare -A packages=([store]=cairn-store [store_crash]=cairn-sim)

# run PROGRAM TEST: as the environment says.
run() {
    "$cargo" test --quiet --release --locked -p "${packages[$1]}" --features canaries --target-dir "$folder" --test "$1" -- "$2" </dev/null >"$folder/store.log" 2>&1
}

for program in "${!packages[@]}"; do
    "$cargo" test --quiet --release --locked -p "${packages[$program]}" --features canaries --target-dir "$folder" --test "$program" --no-run
done
bugs=$("$folder/release/sim" canaries --of-store)
missed=0 held=" "
while read -r canary program test; do
    if [[ $held != *" $program/$test "* ]]; then
        run "$program" "$test" || { echo "store-canaries: $test fails without a bug; see $folder/store.log" >&2 && exit 1; }
        held+="$program/$test "
    fi
    if STORE_CANARY=$canary CRASH_CANARY=$canary run "$program" "$test"; then
        echo "| $canary | **not by $program, $test** | - |"
        missed=$((missed + 1))
    else
        # The words of the first panic: behind the line that names its place.
        words=$(sed -n '/panicked at/{n;p;q}' "$folder/store.log" | cut -c1-160 | tr '|' '/')
        echo "| $canary | $program, \`$test\` | ${words:-see $folder/store.log} |"
    fi
done <<<"$bugs"
exit $((missed > 0))
