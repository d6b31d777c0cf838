#!/usr/bin/env bash
# Prints the folder cargo builds into, wherever the environment or a configuration file has put it.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo metadata --no-deps --offline --format-version 1 | sed -n 's/.*"target_directory":"\([^"]*\)".*/\1/p'
