/* Counts instructions on RISC-V under QEMU with -icount: the same figures in every run. Flash is an array that is read and written by
 * memcpy, whose instructions count too. */
#include "nilometer_edge.h"

#include <stdio.h>
#include <string.h>

#define SECTOR 4096u
#define SECTORS 32u

static uint8_t flash_bytes[SECTOR * SECTORS];
static uint64_t arena[1536];

static int flash_read(void *context, uint32_t address, void *to, uint32_t bytes) {
    (void)context;
    memcpy(to, flash_bytes + address, bytes);
    return 0;
}

static uint32_t programs, longest;

static int flash_program(void *context, uint32_t address, const void *from, uint32_t bytes) {
    (void)context;
    memcpy(flash_bytes + address, from, bytes);
    programs++;
    longest = bytes > longest ? bytes : longest;
    return 0;
}

static int flash_erase(void *context, uint32_t address) {
    (void)context;
    memset(flash_bytes + address, 0xff, SECTOR);
    return 0;
}

static uint32_t instructions(void) {
    uint32_t count;
    __asm__ volatile(".option push\n.option arch, +zicsr\ncsrr %0, minstret\n.option pop" : "=r"(count));
    return count;
}

/* Below the frame of main: what a call of the library takes, the callbacks of the flash included. It was counted with main's own frame once,
 * which is 112 bytes. */
#define PAINTED 6000u
static volatile uint8_t *frame;

/* Part of main, so that it has no frame itself where it paints. */
static inline __attribute__((always_inline)) void paint(void) {
    unsigned index;
    __asm__ volatile("mv %0, sp" : "=r"(frame));
    for (index = 1; index < PAINTED; index++) {
        frame[-(int)index] = 0xa7;
    }
}

/* Bytes of stack that were used since. */
static unsigned used(void) {
    unsigned index = PAINTED - 1;
    while (index > 0 && frame[-(int)index] == 0xa7) {
        index--;
    }
    return index;
}

int main(void) {
    static const ne_field fields[1] = {{"temperature", NE_FLOAT}};
    static ne_tag tags[2] = {{"room", "attic"}, {"sensor", "7"}};
    static ne_series series = {"climate", tags, 2, fields, 1, NULL, 0, 0};
    static ne_series many[3];
    static char name[8];
    ne_flash flash = {NULL, flash_read, flash_program, flash_erase, SECTOR, SECTORS, 1};
    ne_store *store;
    ne_query query = {"climate", NULL, 0, "temperature", 0, INT64_MAX};
    static ne_cursor cursor;
    static ne_row row;
    static ne_rollup rollup[1];
    ne_value value;
    uint32_t start, total, most, index, rows;
    unsigned stack;
    memset(flash_bytes, 0, sizeof flash_bytes);
    paint();
    if (ne_open(&store, &flash, NULL, arena, sizeof arena) != NE_OK) {
        printf("does not open\n");
        return 1;
    }
    while (ne_maintain(store) == NE_OK) {
    }
    start = instructions();
    if (ne_open(&store, &flash, NULL, arena, sizeof arena) != NE_OK) {
        return 1;
    }
    printf("open, %u free sectors: %lu instructions a sector\n", (unsigned)SECTORS, (unsigned long)((instructions() - start) / SECTORS));
    most = total = 0;
    for (index = 0; index < 150; index++) {
        uint32_t took;
        value.number = 20.0 + (double)(index * 2654435761u >> 28) / 16.0;
        start = instructions();
        if (ne_insert(store, &series, 1700000000000 + (int64_t)index * 10000, &value) != NE_OK) {
            return 1;
        }
        took = instructions() - start;
        total += index > 0 ? took : 0;
        most = index > 0 && took > most ? took : most;
    }
    stack = used();
    printf("insert: %lu instructions on average, %lu at most; stack %u bytes\n", (unsigned long)(total / 149), (unsigned long)most, stack);
    for (index = 0; index < 3; index++) {
        many[index] = series;
        many[index]._store = NULL;
        sprintf(name, "s%u", (unsigned)index);
        many[index].table = name;
        start = instructions();
        if (ne_insert(store, &many[index], 1700000000000, &value) != NE_OK) {
            return 1;
        }
        printf("insert into new series %u: %lu instructions\n", (unsigned)index + 2, (unsigned long)(instructions() - start));
    }
    paint();
    ne_seal(store);
    start = instructions();
    if (ne_maintain(store) != NE_OK) {
        return 1;
    }
    total = instructions() - start;
    stack = used();
    printf("seal: %lu instructions a row; stack %u bytes\n", (unsigned long)(total / 153), stack);
    while (ne_maintain(store) == NE_OK) {
    }
    paint();
    start = instructions();
    if (ne_query_open(store, &query, &cursor) != NE_OK) {
        return 1;
    }
    for (rows = 0; ne_query_next(store, &cursor, &row) == NE_OK; rows++) {
    }
    total = instructions() - start;
    stack = used();
    if (rows != 150) {
        printf("%lu rows instead of 150\n", (unsigned long)rows);
        return 1;
    }
    printf("query of sealed rows: %lu instructions a row; stack %u bytes\n", (unsigned long)(total / rows), stack);
    query.start = 1700000000000;
    start = instructions();
    if (ne_rollup_of(store, &query, INT64_MAX / 4, rollup, 1) != NE_OK || rollup[0].count != 150) {
        return 1;
    }
    printf("rollup from statistics: %lu instructions for 150 rows\n", (unsigned long)(instructions() - start));
    printf("programs: the longest had %lu bytes\n", (unsigned long)longest);
    return 0;
}
