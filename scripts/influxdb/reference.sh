#!/usr/bin/env bash
# Prints the folder with InfluxDB 1's `influxd` and its shell `influx`, as Debian has them. They are fetched once with the
# system's package manager and unpacked below the folder of builds: nothing is installed, and no service is started.
set -euo pipefail
cd "$(dirname "$0")/../.."

# Other versions answer some statements differently, so the answers are compared with those of this one only.
version=1.6.7
packages=(influxdb influxdb-client)

is_whole() {
    [ -x "$1/influxd" ] && [ -x "$1/influx" ] && "$1/influxd" version 2>/dev/null | grep -q "^InfluxDB v$version"
}

fail() {
    echo "reference.sh: $*; install influxdb and influxdb-client $version yourself, so that influxd and influx are in the PATH" >&2
    exit 1
}

if command -v influxd >/dev/null && command -v influx >/dev/null; then
    folder=$(dirname "$(command -v influxd)")
    if is_whole "$folder"; then
        echo "$folder"
        exit
    fi
fi

cache=$(scripts/target-dir.sh)/influxdb-$version
if is_whole "$cache/usr/bin"; then
    echo "$cache/usr/bin"
    exit
fi

command -v apt-get >/dev/null || fail "InfluxDB $version is not here, and there is no apt-get to fetch it with"
mkdir -p "$cache"
scratch=$(mktemp -d "$cache/fetched.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"
if ! apt-get download -qq "${packages[@]}" >&2; then
    echo "reference.sh: the package lists are missing or old; refreshing them" >&2
    if [ "$(id -u)" -eq 0 ]; then apt-get update -qq >&2 || true; else sudo -n apt-get update -qq >&2 || true; fi
    apt-get download -qq "${packages[@]}" >&2 || fail "the packages ${packages[*]} could not be fetched"
fi
for package in *.deb; do
    dpkg-deb -x "$package" "$cache" || fail "$package could not be unpacked"
done
is_whole "$cache/usr/bin" || fail "what was fetched is not InfluxDB $version: $("$cache/usr/bin/influxd" version 2>&1 || true)"
echo "$cache/usr/bin"
