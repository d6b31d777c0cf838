#!/usr/bin/env bash
# Tests of the library for microcontrollers: builds it with the C compiler and sanitizers, reads the golden pages, cuts the power,
# compares C with Rust, and, where cross compilers and emulators are, counts instructions and bytes of code. Says what it skipped.
# `scripts/edge.sh [CUTS]`; 200000 cuts take 40 seconds of one core, the 1000000 of `make edge` a little more than three minutes.
set -euo pipefail
cd "$(dirname "$0")/.."
cuts=${1:-200000}
compiler=${CC:-cc}
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
passed=0
failed=0

# check NAME COMMAND...
check() {
    local name=$1
    shift
    printf 'edge: %s\n' "$name"
    if "$@"; then passed=$((passed + 1)); else failed=$((failed + 1)); printf 'edge: %s FAILED\n' "$name"; fi
}

skip() { printf 'edge: skipped %s: %s; install it with scripts/setup.sh tests\n' "$1" "$2"; }

warnings=(-std=c99 -Wall -Wextra -Wpedantic -Wconversion -Werror)
sources=(edge/src/*.c)
# Apart from the library: who does not upload does not pay for it.
uploader=(edge/src/sync/*.c)
here=(-Iedge/include -Iedge/src -Iedge/tests)
# The tests use POSIX for folders and files in memory; the library does not, nor does it read pages that no device writes.
tests=("$compiler" -DNE_ALL_ENCODINGS -std=gnu99 -Wall -Wextra -Werror "${here[@]}" "${sources[@]}" edge/tests/nor.c)
sanitize=()
if printf 'int main(void) { return 0; }\n' | "$compiler" -fsanitize=address,undefined -x c - -o "$out/probe" 2>/dev/null && "$out/probe"; then
    sanitize=(-O1 -g -fsanitize=address,undefined -fno-sanitize-recover)
else
    skip "sanitizers" "the C compiler has none"
fi

library() { for file in "${sources[@]}" "${uploader[@]}"; do "$compiler" "${warnings[@]}" -O2 "${here[@]}" -c "$file" -o "$out/object.o" || return 1; done; }
check "the library is C99 without warnings" library

"${tests[@]}" "${sanitize[@]}" edge/tests/test_pages.c -o "$out/pages"
"${tests[@]}" "${sanitize[@]}" edge/tests/test_device.c -o "$out/device"
"${tests[@]}" "${sanitize[@]}" edge/tests/test_life.c -lm -o "$out/life"
"${tests[@]}" "${sanitize[@]}" edge/tests/test_faults.c -o "$out/faults"
"${tests[@]}" "${sanitize[@]}" edge/tests/test_cuts.c -o "$out/cuts_checked"
"${tests[@]}" -O2 edge/tests/test_cuts.c -o "$out/cuts"
"${tests[@]}" "${uploader[@]}" "${sanitize[@]}" edge/tests/test_sync.c -o "$out/sync"
check "golden column pages" "$out/pages" golden/0/page "$out/lists"
check "golden device pages" "$out/device" golden/device-1
check "golden images" "$out/device" --images golden/device-1
check "golden images with decimals in frames" "$out/device" --images golden/device-2
check "golden images with regular rows in frames" "$out/device" --images golden/device-3
check "device pages in a segment" "$out/device" --segment golden/4/device golden/device-1
if command -v python3 >/dev/null; then
    check "golden device pages, read by a reader in Python" python3 golden/device-1/read.py
    check "golden device pages, packed anew in Python" python3 golden/device-1/vectors.py --check
    check "device pages in a segment, read by a reader in Python" python3 golden/4/device/read.py
else
    skip "golden device pages in Python" "python3 is missing"
fi
check "a device's life" "$out/life"
check "sectors that fail, options that change" "$out/faults"
check "the uploader, and HMAC-SHA256 by RFC 4231" "$out/sync"
"${tests[@]}" "${sanitize[@]}" -DNE_FUZZ_ALONE edge/tests/fuzz_flash.c -o "$out/hostile"
check "hostile flash under sanitizers" "$out/hostile" 3000
if command -v clang >/dev/null && clang -fsanitize=fuzzer,address,undefined "${here[@]}" -g -O1 "${sources[@]}" edge/tests/fuzz_flash.c -o "$out/fuzz" 2>/dev/null; then
    check "hostile flash, found by coverage (make edge-fuzz for more)" "$out/fuzz" -runs=2000 -max_len=200 -verbosity=0
else
    skip "hostile flash by coverage" "clang or its libFuzzer is missing"
fi
"$compiler" -std=gnu99 -Wall -Wextra -Werror -O2 "${here[@]}" "${sources[@]}" edge/tests/soak.c -o "$out/soak"
check "a long life, shortened (soak alone has 100,000,000 rows)" "$out/soak" 300000
check "the same with the whole table of the checksum" bash -c '"$1" -DNILO_EDGE_CRC_TABLE -std=gnu99 -O2 -Iedge/include edge/src/*.c edge/tests/soak.c -o "$0/table" && "$0/table" 100000' "$out" "$compiler"
check "power cuts under sanitizers" "$out/cuts_checked" 6000 11
check "power cuts" "$out/cuts" "$cuts" 1
check "C written, Rust read" env NILOMETER_EDGE_LISTS="$out/lists" cargo test --release --locked -q -p nilometer-codec --features pco,zstd --test device_pages

examples() {
    "$compiler" -std=c99 -Wall -Wextra -Werror -Iedge/include -Iedge/src "${sources[@]}" edge/examples/plain/main.c -o "$out/plain" &&
        "$out/plain" "$out/flash.img" && "$out/plain" "$out/flash.img" &&
        "$compiler" -std=gnu99 -Wall -Wextra -Werror -fsyntax-only -Iedge/include -Iedge/tests/stubs edge/examples/esp-idf/main/*.c &&
        "$compiler" -std=gnu99 -Wall -Wextra -Werror -fsyntax-only -Iedge/include -Iedge/tests/stubs edge/examples/zephyr/src/main.c &&
        "${CXX:-c++}" -std=gnu++11 -Wall -Werror -fsyntax-only -Iedge/include -Iedge/tests/stubs -include Arduino.h \
            -x c++ edge/examples/arduino/SensorLog/SensorLog.ino
}
# The Arduino IDE looks for headers in the folder src alone: the sketch did not find the library's there once.
arduino() {
    local file
    "${CXX:-c++}" -std=gnu++11 -Wall -Werror -fsyntax-only -Iedge/src -Iedge/tests/stubs -include Arduino.h -x c++ edge/examples/arduino/SensorLog/SensorLog.ino || return 1
    for file in "${sources[@]}" "${uploader[@]}"; do
        "$compiler" -std=gnu99 -Wall -Werror -fsyntax-only -Iedge/src "$file" || return 1
    done
}
check "Arduino library, headers where its IDE looks for them" arduino
check "examples (plain runs; the others are compiled against stand-ins of their headers)" examples
if command -v cmake >/dev/null; then
    check "plain CMake" bash -c 'cmake -S edge -B "$0/cmake" >/dev/null && cmake --build "$0/cmake" >/dev/null && "$0/cmake/plain" "$0/cmake.img"' "$out"
else
    skip "plain CMake" "cmake is missing"
fi

# cross NAME TRIPLE FLAGS...
cross() {
    local name=$1 triple=$2
    shift 2
    if ! command -v "$triple-gcc" >/dev/null; then
        skip "$name" "$triple-gcc is missing"
        return 0
    fi
    build() {
        local file text=0 more=0 bytes
        for file in "${uploader[@]}"; do
            "$triple-gcc" "${warnings[@]}" -Os "$@" "${here[@]}" -c "$file" -o "$out/object.o" || return 1
            bytes=$("$triple-size" "$out/object.o" | awk 'NR == 2 { print $1 }')
            more=$((more + bytes))
        done
        for file in "${sources[@]}"; do
            "$triple-gcc" "${warnings[@]}" -Os "$@" "${here[@]}" -c "$file" -o "$out/object.o" || return 1
            bytes=$("$triple-size" "$out/object.o" | awk 'NR == 2 { print $1 }')
            text=$((text + bytes))
        done
        # RISC-V calls have 8 bytes until the linker makes them 4: what counts is what a firmware has.
        if [ "$triple" = riscv64-unknown-elf ]; then
            "$triple-gcc" -std=c99 -Os "$@" "${here[@]}" -nostdlib -nostartfiles -Wl,--unresolved-symbols=ignore-all -Wl,-e,ne_open \
                -Wl,--no-gc-sections "${sources[@]}" -o "$out/linked.elf" || return 1
            text=$("$triple-size" "$out/linked.elf" | awk 'NR == 2 { print $1 }')
        fi
        printf 'edge: %s: %s bytes of code (-Os), at most 24576 are promised; the uploader has %s more\n' "$name" "$text" "$more"
        [ "$text" -le 24576 ]
    }
    check "$name" build "$@"
}
riscv=(-march=rv32imac -mabi=ilp32)
[ ! -d /usr/lib/picolibc/riscv64-unknown-elf ] || riscv+=(--specs=picolibc.specs)
cross "RISC-V" riscv64-unknown-elf "${riscv[@]}"
cross "Cortex-M3" arm-none-eabi -mcpu=cortex-m3 -mthumb
# What an ESP8266 has, the nearest to an ESP32 for which there is a compiler here. It comes without a C library. With -mlongcalls it is 25,652 bytes
# before the linker shortens calls.
cross "Xtensa LX106" xtensa-lx106-elf -ffreestanding -Iedge/tests/stubs/freestanding

if command -v riscv64-unknown-elf-gcc >/dev/null && command -v qemu-system-riscv32 >/dev/null; then
    check "instructions on RISC-V" edge/tests/count.sh "$out"
    check "the suite's instructions on RISC-V are those that nilometer bench edge has" edge/bench/count.sh "$out"
    check "stack by the graph of calls, at most 512 bytes for insert, query and seal" python3 edge/tests/stack.py "$out/stack" \
        riscv64-unknown-elf-gcc "${riscv[@]}" -std=c99 -O2 "${here[@]}"
else
    skip "instructions on RISC-V, and those of the suite" "qemu-system-riscv32 or the compiler is missing"
fi

printf 'test result: edge. %s passed; %s failed;\n' "$passed" "$failed"
[ "$failed" -eq 0 ]
