#!/usr/bin/env bash
# Copies the program that was built into dist/, without its symbols, and the symbols beside it, where a debugger finds them
# by the link that is left in the program.
set -euo pipefail
cd "$(dirname "$0")/.."

program="$(scripts/target-dir.sh)/release/nilometer"
mkdir -p dist
objcopy --only-keep-debug "$program" dist/nilometer.debug
objcopy --strip-all --add-gnu-debuglink=dist/nilometer.debug "$program" dist/nilometer
dist/nilometer --version
for file in dist/nilometer dist/nilometer.debug; do
    printf '%-22s %s MB\n' "$file" "$(($(stat -c %s "$file") / 1000000))"
done
