/* The suite on this machine: operations of the flash without instructions. The program `nilometer bench edge` does the same. */
#include "ne_suite.h"

#include <stdio.h>

int main(void) {
    static uint8_t memory[NE_SUITE_MEMORY];
    static char out[16384];
    size_t bytes = ne_suite(memory, out, sizeof out, NULL);
    if (bytes == 0) {
        printf("FAILED: %s\n", out);
        return 1;
    }
    fwrite(out, 1, bytes, stdout);
    return 0;
}
