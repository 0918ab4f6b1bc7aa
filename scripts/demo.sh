#!/usr/bin/env bash
# make demo: builds, then shows a four-host cluster in one process that loses a host under load.
#
# Promises  writes below .demo and target/ only; ends with code 0 only where the load met no error and no wrong byte
# Assumes   scripts/setup.sh has run (make demo does it)
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH=$HOME/.cargo/bin:$PATH
echo "demo: building (the first time takes some minutes)"
"${CARGO:-cargo}" build --release --locked --quiet -p cairn-demo
exec "${CARGO_TARGET_DIR:-target}/release/cairn-demo" --dir .demo "$@"
