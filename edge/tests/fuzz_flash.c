/* Hostile flash, found by coverage: a flash that a device wrote, with edits that the fuzzer chooses and checksums that are right again, so
 * that what lies behind them is reached. Opens it, asks everything of it, goes on using it, and opens it again.
 *
 * Does: run under libFuzzer (`make edge-fuzz`), or, built with NE_FUZZ_ALONE, some thousand random inputs without it. Rows, pages and
 * steps have bounds that no flash of this size can exceed: an endless loop is a failure, as is whatever the sanitizers find.
 */
#include "ne_internal.h"
#include "ne_store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECTOR 1024u
#define SECTORS 8u
#define FLASH (SECTOR * SECTORS)

static uint8_t flash_bytes[FLASH], written[FLASH];
static uint64_t arena[1536];

static int flash_read(void *context, uint32_t address, void *to, uint32_t bytes) {
    (void)context;
    if (address > FLASH || bytes > FLASH - address) {
        abort();
    }
    memcpy(to, flash_bytes + address, bytes);
    return 0;
}

static int flash_program(void *context, uint32_t address, const void *from, uint32_t bytes) {
    uint32_t index;
    (void)context;
    if (address > FLASH || bytes > FLASH - address) {
        abort();
    }
    for (index = 0; index < bytes; index++) {
        flash_bytes[address + index] &= ((const uint8_t *)from)[index];
    }
    return 0;
}

static int flash_erase(void *context, uint32_t address) {
    (void)context;
    if (address % SECTOR != 0 || address >= FLASH) {
        abort();
    }
    memset(flash_bytes + address, 0xff, SECTOR);
    return 0;
}

static const ne_field fields[5] = {{"t", NE_FLOAT}, {"i", NE_INT}, {"b", NE_BOOL}, {"w", NE_TEXT}, {"x", NE_BYTES}};
static const ne_tag tags[1] = {{"id", "7"}};

static ne_store *open_store(uint32_t unit) {
    ne_flash flash = {NULL, flash_read, flash_program, flash_erase, SECTOR, SECTORS, unit};
    ne_options options = {0, 32, 0, 8};
    ne_store *store = NULL;
    return ne_open(&store, &flash, &options, arena, sizeof arena) == NE_OK ? store : NULL;
}

static void upkeep(ne_store *store) {
    unsigned steps = 0;
    while (ne_maintain(store) == NE_OK) {
        if (++steps > 20 * SECTORS) {
            fprintf(stderr, "upkeep has no end\n");
            abort();
        }
    }
}

static ne_series series_of(const char *table, size_t field_count) {
    ne_series series;
    memset(&series, 0, sizeof series);
    series.table = table;
    series.tags = tags;
    series.tag_count = 1;
    series.fields = fields;
    series.field_count = field_count;
    return series;
}

static void add_rows(ne_store *store, ne_series *series, unsigned from, unsigned rows) {
    static int64_t times[64];
    static ne_value values[64 * 5];
    size_t stored;
    unsigned row;
    for (row = 0; row < rows; row++) {
        ne_value *of = values + row * series->field_count;
        times[row] = 1000 * (int64_t)(from + row) + (row % 7 == 3 && from % 2 ? 5 : 0);
        of[0].number = from % 3 == 2 ? (double)((from + row) % 50) / 7.0 : (double)((from + row) % 50) / 100.0;
        if (series->field_count == 5) {
            of[1].integer = (int64_t)row * row;
            of[2].integer = row % 2;
            of[3].text.bytes = "words";
            of[3].text.length = row % 6;
            of[4].text.bytes = "\xff\x00\x01";
            of[4].text.length = row % 4;
        }
    }
    ne_insert_rows(store, series, times, values, rows, &stored);
}

/* A life: sealed and hot sectors, all types, a boot without a clock. */
static void write_flash(void) {
    ne_series one = series_of("one", 1), all = series_of("all", 5);
    ne_store *store;
    unsigned round;
    memset(flash_bytes, 0, FLASH);
    store = open_store(1);
    upkeep(store);
    for (round = 0; round < 7; round++) {
        if (round == 3) {
            ne_begin_boot(store, 3);
        }
        add_rows(store, &one, 40 * round, 36);
        add_rows(store, &all, 40 * round, 9);
        add_rows(store, &one, 40 * round + 37, 1);
        if (round == 5) {
            ne_set_clock(store, 3, 1700000000000);
        }
        if (round < 5) {
            upkeep(store);
        }
    }
    memcpy(written, flash_bytes, FLASH);
}

/* Makes checksums of headers, frames and pages right. */
static void mend(void) {
    uint32_t sector;
    for (sector = 0; sector < SECTORS; sector++) {
        uint8_t *start = flash_bytes + sector * SECTOR;
        uint32_t at = 32, sequence = ne_get32(start + 20);
        ne_put32(start + 12, ne_crc32c(0, start, 12));
        if (start[16] == NE_SECTOR_HOT || start[16] == NE_SECTOR_SEALED) {
            ne_put32(start + 28, ne_crc32c(1, start + 16, 12));
        }
        while (start[16] == NE_SECTOR_HOT && at + 6 <= SECTOR && start[at] != 0xff) {
            uint32_t length = (uint32_t)(start[at] & 0x3f) << 8 | start[at + 1];
            if (length > NE_PAYLOAD_MAX || at + length + 6 > SECTOR) {
                break;
            }
            ne_put32(start + at + 2 + length, ne_crc32c(sequence << 16 | at, start + at, 2 + length));
            at += length + 6;
        }
        while (start[16] == NE_SECTOR_SEALED && at + NE_PAGE_HEAD + 4 <= SECTOR && start[at] != 0xff) {
            uint32_t bytes = ne_get32(start + at + 8);
            if (bytes < NE_PAGE_HEAD + 4 || bytes > SECTOR - at) {
                break;
            }
            ne_put32(start + at + bytes - 4, ne_crc32c(0, start + at, bytes - 4));
            at += bytes;
        }
    }
}

/* Rows that a flash of this size can claim: no frame has more than 255 in 9 bytes, no block more than 1024 in 40. */
#define ROWS_MAX (FLASH / 9 * 255)

/* One field of some series: the fuzzer says which. */
static void ask(ne_store *store, unsigned field) {
    static ne_rollup intervals[16];
    uint64_t after = 0;
    uint32_t address, bytes, pages = 0;
    ne_usage usage;
    ne_usage_of(store, &usage);
    {
        ne_query query = {field % 2 ? "all" : NULL, tags, field % 2, NULL, INT64_MIN, INT64_MAX};
        ne_cursor cursor;
        ne_row row;
        uint32_t rows = 0;
        volatile uint8_t sum = 0;
        query.field = fields[field].name;
        if (ne_query_open(store, &query, &cursor) != NE_OK) {
            abort();
        }
        while (ne_query_next(store, &cursor, &row) == NE_OK) {
            uint32_t index;
            for (index = 0; index < row.series_bytes; index++) {
                sum = (uint8_t)(sum + (uint8_t)row.series[index]);
            }
            for (index = 0; row.type >= NE_TEXT && index < row.value.text.length; index++) {
                sum = (uint8_t)(sum + (uint8_t)row.value.text.bytes[index]);
            }
            if (++rows > ROWS_MAX) {
                fprintf(stderr, "a cursor has no end\n");
                abort();
            }
        }
        query.start = 0;
        ne_rollup_of(store, &query, 20000, intervals, 16);
    }
    while (ne_next_page(store, &after, &address, &bytes) == NE_OK) {
        if (address > FLASH || bytes > FLASH - address || ++pages > FLASH / NE_PAGE_HEAD) {
            abort();
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static bool is_written;
    ne_store *store;
    ne_series one = series_of("one", 1);
    uint32_t unit;
    if (!is_written) {
        write_flash();
        is_written = true;
    }
    if (size < 1) {
        return 0;
    }
    memcpy(flash_bytes, written, FLASH);
    unit = data[0] & 8 ? 1u << (data[0] >> 4) % 6 : 1;
    /* Edits: where, how many bytes, and these. */
    for (size_t at = 1; at + 3 <= size;) {
        uint32_t place = ne_get16(data + at) % FLASH, bytes = data[at + 2];
        bytes = bytes < size - at - 3 ? bytes : (uint32_t)(size - at - 3);
        bytes = bytes < FLASH - place ? bytes : FLASH - place;
        memcpy(flash_bytes + place, data + at + 3, bytes);
        at += 3 + bytes;
    }
    if (!(data[0] & 1)) {
        mend();
    }
    store = open_store(unit);
    if (store == NULL) {
        return 0;
    }
    ask(store, size % 5);
    if (data[0] & 2) {
        ne_seal(store);
    }
    upkeep(store);
    add_rows(store, &one, 900, 12);
    if (data[0] & 4) {
        ne_retain(store, 5000);
        upkeep(store);
    }
    store = open_store(unit);
    if (store != NULL) {
        ask(store, size / 5 % 5);
    }
    return 0;
}

#ifdef NE_FUZZ_ALONE
int main(int argc, char **argv) {
    unsigned rounds = argc > 1 ? (unsigned)atoi(argv[1]) : 10000, round;
    uint64_t state = 88172645463325252u;
    for (round = 0; round < rounds; round++) {
        static uint8_t data[64];
        size_t size = 1 + round % sizeof data, index;
        for (index = 0; index < size; index++) {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            data[index] = (uint8_t)(state >> 24);
            /* Few bytes an edit, so that there are many. */
            data[index] = index % 5 == 3 ? data[index] % 4 : data[index];
        }
        LLVMFuzzerTestOneInput(data, size);
    }
    printf("%u hostile flashes opened, asked and used\n", rounds);
    return 0;
}
#endif
