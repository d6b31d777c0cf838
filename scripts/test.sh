#!/usr/bin/env bash
# Runs every test in parts, prints the time of each, and ends with `N passed, M failed` on a line of its own. A part that
# fails does not stop the others. The parts are cut so that each third-party package is compiled for as few selections of
# crates as possible: cargo gives a package the features that the whole selection asks for.
set -euo pipefail
cd "$(dirname "$0")/.."
export CARGO_TERM_COLOR=never

below=(-p nilometer-codec -p nilometer-lineproto -p nilometer-summaries -p nilometer-engine -p nilometer-series -p nilometer-hostile)
# The same features as the program (`cargo xtask graph` checks that), so that `make demo` has nothing left to compile.
rest=(--workspace --exclude nilometer-sim --exclude nilometer-codec --exclude nilometer-lineproto --exclude nilometer-summaries
    --exclude nilometer-engine --exclude nilometer-series --exclude nilometer-hostile --exclude xtask)

tests() { cargo test --release --locked --no-fail-fast "$@"; }

# The crates below are selected with xtask for their features, not for their tests.
own_tools() {
    local failed=0
    cargo build --release --locked -p xtask "${below[@]}" --bin xtask || return 1
    xtask tidy || failed=1
    tests -p xtask "${below[@]}" --bin xtask || failed=1
    return "$failed"
}

xtask() { "$(scripts/target-dir.sh)/release/xtask" "$@"; }

lints() {
    local failed=0
    cargo clippy --release --locked --workspace --exclude nilometer-sim --all-targets -- -D warnings || failed=1
    cargo clippy --release --locked -p nilometer-sim --all-targets -- -D warnings || failed=1
    # The program without SQL, which nothing else here compiles.
    cargo clippy --release --locked -p nilometer --no-default-features -- -D warnings || failed=1
    return "$failed"
}

dependencies() {
    local failed=0
    xtask deny || failed=1
    xtask graph || failed=1
    return "$failed"
}

# The program is there already; what is compiled is the ledger itself. The same seed each time, as everywhere in the tests;
# `make ledger` draws others. The load that other databases get by hand is tried on our own server.
ledger() {
    local failed=0
    cargo build --release --locked "${rest[@]}" --bin nilometer --bin nilometer-ledger || return 1
    "$(scripts/target-dir.sh)/release/nilometer-ledger" --quick --seed 4 || failed=1
    "$(scripts/target-dir.sh)/release/nilometer-ledger" peers kills power --peer nilometer --quick --seed 4 || failed=1
    return "$failed"
}

# Our program and InfluxDB's, which is fetched if it is not here, must answer the same.
influxdb() {
    cargo build --release --locked "${rest[@]}" --bin nilometer || return 1
    python3 scripts/influxdb/compare.py
}

# The client libraries and the shell that users of InfluxDB have, unchanged, in the versions that lock files name.
clients() {
    cargo build --release --locked "${rest[@]}" --bin nilometer || return 1
    python3 scripts/influxdb/clients.py
}

# The same for PostgreSQL: psql and drivers of Python, Java, JavaScript and Go.
postgres() {
    cargo build --release --locked "${rest[@]}" --bin nilometer || return 1
    local failed=0
    python3 scripts/postgresql/clients.py || failed=1
    # The same statements to PostgreSQL itself.
    python3 scripts/postgresql/differential.py || failed=1
    # Statements that TimescaleDB has answered.
    python3 scripts/postgresql/timescaledb.py || failed=1
    # What pg_dump writes, restored by PostgreSQL.
    python3 scripts/postgresql/dump.py || failed=1
    return "$failed"
}

# A client of TStorage's protocol, written from its description.
tstorage() {
    cargo build --release --locked "${rest[@]}" --bin nilometer || return 1
    python3 scripts/tstorage/clients.py
}

log=$(mktemp)
trap 'rm -f "$log"' EXIT
passed=0
failed=0
summary=()

# part NAME COMMAND...
part() {
    local name=$1 begun=$SECONDS outcome=passed counts part_passed part_failed
    shift
    printf '\n== %s\n' "$name"
    # The part runs apart from this shell's `set -e`: its status is what the pipe returns.
    if ! { "$@" 2>&1 | tee "$log"; }; then outcome=FAILED; fi
    counts=$(awk '/^test result:/ { for (i = 2; i <= NF; i++) { if ($i == "passed;") p += $(i - 1); if ($i == "failed;") f += $(i - 1) } }
        END { print p + 0, f + 0 }' "$log")
    part_passed=${counts% *}
    part_failed=${counts#* }
    # What fails without a failed test (formatting, a lint, code that does not compile) counts as one failure.
    if [ "$outcome" = FAILED ] && [ "$part_failed" -eq 0 ]; then part_failed=1; fi
    passed=$((passed + part_passed))
    failed=$((failed + part_failed))
    local seconds=$((SECONDS - begun))
    summary+=("part $name: $((seconds / 60)) min $((seconds % 60)) s, $outcome ($part_passed passed, $part_failed failed)")
}

part format cargo fmt --all --check
part tidy own_tools
part below tests "${below[@]}"
# Alone, so that what is below the query engine is tested before that is compiled.
part simulation tests -p nilometer-sim
part lint lints
part rest tests "${rest[@]}"
part edge scripts/edge.sh
part ledger ledger
part influxdb influxdb
part clients clients
part postgres postgres
part tstorage tstorage
part dependencies dependencies

printf '\n'
printf '%s\n' "${summary[@]}"
printf 'total: %s min %s s\n' "$((SECONDS / 60))" "$((SECONDS % 60))"
printf '%s passed, %s failed\n' "$passed" "$failed"
[ "$failed" -eq 0 ]
