#!/usr/bin/env bash
# Runs the simulations until they are stopped, the store's and that of requests at the same time, each on a thread of its
# own. The first argument may be `engine` or `requests`: that one alone. The rest goes to the simulations, for instance
# `--minutes 60`. Fails if one of them found something.
set -euo pipefail
cd "$(dirname "$0")/.."

which=both
case ${1:-} in
engine | requests | both)
    which=$1
    shift
    ;;
esac

programs="$(scripts/target-dir.sh)/release"
pids=()
trap 'for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done' EXIT INT TERM

# start NAME PROGRAM FOLDER ARGUMENTS...: each line of what it says begins with the name.
start() {
    local name=$1 program=$2 folder=$3
    shift 3
    "$programs/$program" soak --keep "$folder" "$@" > >(while IFS= read -r line; do printf '%-9s %s\n' "$name" "$line"; done) &
    pids+=($!)
}

# Built before either starts, and the simulation of requests with the program, whose libraries have its features already.
if [ "$which" != requests ]; then cargo build --release --locked -p nilometer-sim; fi
if [ "$which" != engine ]; then cargo build --release --locked -p nilometer -p nilometer-simserver; fi
if [ "$which" != requests ]; then start engine nilometer-sim soak-findings "$@"; fi
if [ "$which" != engine ]; then start requests nilometer-simserver soak-findings-requests "$@"; fi

failed=0
for pid in "${pids[@]}"; do
    wait "$pid" || failed=1
done
pids=()
exit "$failed"
