#!/usr/bin/env bash
# Checks that this machine can build Nilometer, and installs what is missing where it may. Running it again changes nothing.
# With `tests` it does the same for what tests run beside Rust: real clients of InfluxDB and PostgreSQL, and InfluxDB itself. Without these
# the build goes on, and the parts of the tests that need them fail.
set -euo pipefail
cd "$(dirname "$0")/.."
for_tests=${1:-}

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
problems=()
present=()

# Debian packages to install: a program that is missing names the one that brings it.
packages=()

compiles_c() {
    local source='#include <stdio.h>
int main(void) { return puts("") < 0; }'
    command -v cc >/dev/null && printf '%s\n' "$source" | cc -x c -o "$scratch/program" - 2>/dev/null
}

missing_tools() {
    packages=()
    command -v git >/dev/null || packages+=(git)
    command -v make >/dev/null || packages+=(make)
    # Compression (zstd) is C code; its headers and the linker come with the same package.
    compiles_c || packages+=(build-essential)
    [ "$for_tests" = tests ] || return 0
    # Clients of InfluxDB and PostgreSQL in Python, Go and JavaScript, and psql.
    python3 -c 'import ensurepip, venv' 2>/dev/null || packages+=(python3 python3-venv)
    command -v go >/dev/null || packages+=(golang-go)
    command -v node >/dev/null || packages+=(nodejs)
    command -v npm >/dev/null || packages+=(npm)
    command -v psql >/dev/null || packages+=(postgresql-client)
    # PostgreSQL itself, which answers the same statements, pgJDBC with what compiles its test, and certificates.
    ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || packages+=(postgresql)
    command -v javac >/dev/null || packages+=(default-jdk-headless)
    [ -e /usr/share/java/postgresql.jar ] || packages+=(libpostgresql-jdbc-java)
    command -v openssl >/dev/null || packages+=(openssl)
    # The library for microcontrollers is built for two of them and run on one; without these the part edge says what it skipped.
    command -v riscv64-unknown-elf-gcc >/dev/null || packages+=(gcc-riscv64-unknown-elf picolibc-riscv64-unknown-elf)
    command -v arm-none-eabi-gcc >/dev/null || packages+=(gcc-arm-none-eabi libnewlib-arm-none-eabi)
    command -v xtensa-lx106-elf-gcc >/dev/null || packages+=(gcc-xtensa-lx106)
    command -v qemu-system-riscv32 >/dev/null || packages+=(qemu-system-misc)
    command -v cmake >/dev/null || packages+=(cmake)
    # libFuzzer for hostile flash. Where no clang is there the rest is tested.
    command -v clang >/dev/null || packages+=(clang)
}

as_root() {
    if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo -n "$@"; fi
}

may_install() {
    command -v apt-get >/dev/null || return 1
    [ "$(id -u)" -eq 0 ] || { command -v sudo >/dev/null && sudo -n true 2>/dev/null; }
}

missing_tools
if [ "${#packages[@]}" -gt 0 ] && may_install; then
    echo "setup: installing ${packages[*]}"
    as_root apt-get update -qq || echo "setup: the package lists could not be refreshed; trying with the old ones"
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${packages[@]}" >/dev/null || true
    missing_tools
fi
for package in "${packages[@]}"; do
    case $package in
    # Compilers and an emulator for microcontrollers: the part edge of the tests goes on without them.
    *-elf | *-eabi | *-lx106 | qemu-* | cmake | clang)
        echo "setup: without the package $package the tests skip what needs it"
        continue
        ;;
    esac
    problems+=("the package $package is missing and could not be installed from here; install it with the system's package manager")
done
[ "${#packages[@]}" -gt 0 ] || present+=(git make cc)

wanted=$(sed -n 's/^rust-version = "\(.*\)"$/\1/p' Cargo.toml)
if ! command -v cargo >/dev/null; then
    problems+=("cargo is missing; install Rust $wanted or newer, for instance with rustup (https://rustup.rs)")
else
    have=$(cargo --version | cut -d ' ' -f 2)
    if [ "$(printf '%s\n' "$wanted" "$have" | sort -V | head -n 1)" != "$wanted" ]; then
        problems+=("cargo is $have, Nilometer needs $wanted or newer; update it, for instance with \`rustup update stable\`")
    else
        present+=("cargo $have")
    fi
    for component in rustfmt clippy; do
        subcommand=${component/rustfmt/fmt}
        if ! cargo "$subcommand" --version >/dev/null 2>&1 && command -v rustup >/dev/null; then
            echo "setup: installing $component"
            rustup component add "$component" || true
        fi
        if cargo "$subcommand" --version >/dev/null 2>&1; then
            present+=("$component")
        else
            problems+=("$component is missing; install it, for instance with \`rustup component add $component\`")
        fi
    done
fi

# It is compared with, so no other version will do; it is unpacked below the folder of builds and not installed.
if [ "$for_tests" = tests ] && [ "${#problems[@]}" -eq 0 ]; then
    if scripts/influxdb/reference.sh >/dev/null; then present+=("InfluxDB"); else problems+=("InfluxDB is missing, so the part influxdb of the tests will fail"); fi
fi

if [ "${#problems[@]}" -gt 0 ]; then
    printf 'setup: %s\n' "${problems[@]}" >&2
    exit 1
fi
printf 'setup: ready (%s)\n' "$(printf '%s, ' "${present[@]}" | sed 's/, $//')"
