#!/usr/bin/env bash
# Builds the suite for RISC-V, runs it under QEMU, and compares it with instructions.txt, which `nilometer bench edge` takes instructions
# from: operations of the flash must be the same, instructions within a twentieth, as another compiler makes others.
# `count.sh FOLDER` compares, `count.sh FOLDER --write` writes the file anew.
set -euo pipefail
cd "$(dirname "$0")/.."
out=$1
riscv64-unknown-elf-gcc --specs=picolibc.specs -march=rv32imac -mabi=ilp32 -std=gnu99 -O2 -ffp-contract=off -Iinclude -Isrc -Ibench \
    src/*.c bench/ne_suite.c bench/riscv.c --oslib=semihost --crt0=hosted -Wl,--defsym=__flash=0x80000000 -Wl,--defsym=__flash_size=0x200000 \
    -Wl,--defsym=__ram=0x80200000 -Wl,--defsym=__ram_size=0xc00000 -T picolibc.ld -o "$out/suite.elf"
timeout 300 qemu-system-riscv32 -M virt -m 16M -nographic -bios none -kernel "$out/suite.elf" -icount shift=0 \
    -chardev stdio,id=console -semihosting-config enable=on,target=native,chardev=console -serial none -monitor none </dev/null >"$out/suite.txt"
grep -q '^wear_100_turns' "$out/suite.txt" || { cat "$out/suite.txt"; exit 1; }
if [ "${2:-}" = --write ]; then
    cp "$out/suite.txt" bench/instructions.txt
    exit 0
fi
# Of memory the two have other words: pointers have 32 bits here, and so has the file.
paste "$out/suite.txt" bench/instructions.txt | awk -F'\t' '
    NF != 28 { print "lines differ: " $0; bad = 1; next }
    NR > 1 {
        for (i = 1; i <= 14; i++)
            if (i < 12 || i == 14) { if ($i != $(i + 14)) { print $1 ": column " i " is " $i " instead of " $(i + 14); bad = 1 } }
            else { d = $i - $(i + 14); d = d < 0 ? -d : d; if (d > $(i + 14) / 20) { print $1 ": " $i " instructions instead of " $(i + 14); bad = 1 } }
    }
    END { if (bad) print "edge/bench/count.sh FOLDER --write writes the file anew"; exit bad }'
