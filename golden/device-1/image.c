/* Wrote image_unit_*.img: a series of boot 7, 140 rows sealed, 10 that are not, a clock. Prints the pages that ne_next_page finds.
 * cc -Iedge/include -Iedge/src edge/src/*.c golden/device-1/image.c -o image && ./image FILE UNIT [BATCH]; with BATCH the last 10 rows are
 * inserted at once. */
#include "nilometer_edge.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define SECTOR 1024u
#define SECTORS 12u
static uint8_t flash_bytes[SECTOR * SECTORS];
static int rd(void *c, uint32_t a, void *to, uint32_t n) { (void)c; memcpy(to, flash_bytes + a, n); return 0; }
static int pr(void *c, uint32_t a, const void *f, uint32_t n) { (void)c; memcpy(flash_bytes + a, f, n); return 0; }
static int er(void *c, uint32_t a) { (void)c; memset(flash_bytes + a, 0xff, SECTOR); return 0; }
int main(int count, char **words) {
    static uint64_t arena[4096];
    static const ne_field fields[2] = {{"temperature", NE_FLOAT}, {"open", NE_BOOL}};
    static const ne_tag tags[1] = {{"room", "attic"}};
    ne_series climate = {"climate", tags, 1, fields, 2, NULL, 0, 0};
    ne_flash flash = {NULL, rd, pr, er, SECTOR, SECTORS, (uint32_t)atoi(words[2])};
    ne_store *store;
    ne_status status;
    int i, rows = 0;
    uint64_t after = 0;
    uint32_t address, bytes;
    FILE *file;
    memset(flash_bytes, 0xff, sizeof flash_bytes);
    status = ne_open(&store, &flash, NULL, arena, sizeof arena);
    while (status == NE_OK && ne_maintain(store) == NE_OK) { }
    ne_begin_boot(store, 7);
    for (i = 0; status == NE_OK && i < 150; i++) {
        ne_value values[2];
        values[0].number = (2150 + i % 7) / 100.0;
        values[1].integer = i % 10 == 0;
        if (count > 3 && i >= 140) {
            static int64_t times[10];
            static ne_value batch[20];
            size_t stored;
            times[i - 140] = 1000 + 10 * (int64_t)i;
            memcpy(batch + 2 * (i - 140), values, sizeof values);
            status = i == 149 ? ne_insert_rows(store, &climate, times, batch, 10, &stored) : NE_OK;
            rows++;
            continue;
        }
        status = ne_insert(store, &climate, 1000 + 10 * (int64_t)i, values);
        rows++;
        if (i == 139) { ne_seal(store); while (ne_maintain(store) == NE_OK) { } ne_set_clock(store, 7, 1700000000000); }
    }
    printf("status %d rows %d\n", status, rows);
    while (ne_next_page(store, &after, &address, &bytes) == NE_OK) printf("page %" PRIu64 " at %u bytes %u\n", after, address, bytes);
    file = fopen(words[1], "wb");
    fwrite(flash_bytes, 1, sizeof flash_bytes, file);
    fclose(file);
    return count < 3 || status != NE_OK;
}
