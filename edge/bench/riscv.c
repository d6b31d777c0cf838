/* The suite on RISC-V under QEMU with -icount: the same figures in every run, with the instructions of the library. */
#include "ne_suite.h"

#include <stdio.h>

static uint32_t instructions(void) {
    uint32_t count;
    __asm__ volatile(".option push\n.option arch, +zicsr\ncsrr %0, minstret\n.option pop" : "=r"(count));
    return count;
}

int main(void) {
    static uint8_t memory[NE_SUITE_MEMORY];
    static char out[16384];
    size_t bytes = ne_suite(memory, out, sizeof out, instructions);
    if (bytes == 0) {
        printf("FAILED: %s\n", out);
        return 1;
    }
    fwrite(out, 1, bytes, stdout);
    return 0;
}
