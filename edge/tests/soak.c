/* A long life: 100,000,000 rows through a ring of 1 MiB, some one by one, some in batches, reopened again and again.
 *
 * Does: keep the rules of NOR (each byte is programmed once between two erases); after each hundredth of the rows read everything that is
 * there: of each series the newest rows without a gap, each with the value that its time has. Does not: cut the power (test_cuts.c does).
 * `soak [ROWS]`.
 */
#include "nilometer_edge.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECTOR 4096u
#define SECTORS 256u
#define FLASH (SECTOR * SECTORS)
#define SERIES 4u
#define BATCH 50u

static uint8_t flash_bytes[FLASH], programmed[FLASH];
static uint64_t arena[1100];
static uint64_t erases, bytes_programmed;

static void fail(const char *what) {
    printf("soak: %s\n", what);
    exit(1);
}

static int flash_read(void *context, uint32_t address, void *to, uint32_t bytes) {
    (void)context;
    memcpy(to, flash_bytes + address, bytes);
    return 0;
}

static int flash_program(void *context, uint32_t address, const void *from, uint32_t bytes) {
    uint32_t index;
    (void)context;
    for (index = 0; index < bytes; index++) {
        if (programmed[address + index]) {
            fail("a byte was programmed twice");
        }
        programmed[address + index] = 1;
    }
    memcpy(flash_bytes + address, from, bytes);
    bytes_programmed += bytes;
    return 0;
}

static int flash_erase(void *context, uint32_t address) {
    (void)context;
    memset(flash_bytes + address, 0xff, SECTOR);
    memset(programmed + address, 0, SECTOR);
    erases++;
    return 0;
}

static const ne_field fields[2] = {{"t", NE_FLOAT}, {"n", NE_INT}};
static char names[SERIES][4];
static ne_tag tags[SERIES][1];
static ne_series series[SERIES];
static int64_t next_time[SERIES];

/* What a row has, by its series and time alone. */
static double number_of(unsigned of, int64_t time) {
    return (double)((time / 10 * 7 + (int64_t)of * 31) % 4000) / 100.0;
}

static void insert(ne_store *store, unsigned of, unsigned rows) {
    static int64_t times[BATCH];
    static ne_value values[2 * BATCH];
    size_t stored, done = 0;
    unsigned row;
    for (row = 0; row < rows; row++) {
        times[row] = next_time[of] + 10 * (int64_t)row;
        values[2 * row].number = number_of(of, times[row]);
        values[2 * row + 1].integer = times[row] / 10;
    }
    while (done < rows) {
        ne_status status = ne_insert_rows(store, &series[of], times + done, values + 2 * done, rows - done, &stored);
        done += stored;
        if (status == NE_FULL) {
            while (ne_maintain(store) == NE_OK) {
            }
        } else if (status != NE_OK) {
            fail("a row is not stored");
        }
    }
    next_time[of] += 10 * (int64_t)rows;
}

static uint64_t check(ne_store *store) {
    uint64_t found = 0;
    unsigned of;
    for (of = 0; of < SERIES; of++) {
        ne_query query = {"m", tags[of], 1, "t", INT64_MIN, INT64_MAX};
        static ne_cursor cursor;
        ne_row row;
        int64_t last = -1;
        ne_status status = ne_query_open(store, &query, &cursor);
        while (status == NE_OK && (status = ne_query_next(store, &cursor, &row)) == NE_OK) {
            if (last >= 0 && row.time != last + 10) {
                fail("a row is missing or there twice");
            }
            if (row.value.number != number_of(of, row.time)) {
                fail("a row has another value");
            }
            last = row.time;
            found++;
        }
        if (status != NE_END || last != next_time[of] - 10) {
            fail("the newest row is missing");
        }
    }
    return found;
}

int main(int argc, char **argv) {
    uint64_t rows = argc > 1 ? strtoull(argv[1], NULL, 10) : 100000000, done = 0, checked = 0, next_check = rows / 100, found = 0, draws = 1;
    ne_flash flash = {NULL, flash_read, flash_program, flash_erase, SECTOR, SECTORS, 1};
    ne_store *store = NULL;
    ne_usage usage;
    unsigned of;
    memset(flash_bytes, 0x5a, FLASH);
    memset(programmed, 1, FLASH);
    if (ne_open(&store, &flash, NULL, arena, sizeof arena) != NE_OK) {
        fail("does not open");
    }
    while (ne_maintain(store) == NE_OK) {
    }
    for (of = 0; of < SERIES; of++) {
        sprintf(names[of], "s%u", of);
        tags[of][0].name = "id";
        tags[of][0].value = names[of];
        series[of].table = "m";
        series[of].tags = tags[of];
        series[of].tag_count = 1;
        series[of].fields = fields;
        series[of].field_count = 2;
    }
    while (done < rows) {
        unsigned count;
        draws = draws * 6364136223846793005u + 1442695040888963407u;
        of = (unsigned)(draws >> 33) % SERIES;
        count = draws >> 40 & 1 ? 1 : 1 + (unsigned)(draws >> 45) % BATCH;
        insert(store, of, count);
        done += count;
        if (done >= next_check) {
            if (ne_open(&store, &flash, NULL, arena, sizeof arena) != NE_OK) {
                fail("does not open again");
            }
            for (of = 0; of < SERIES; of++) {
                series[of]._store = NULL;
            }
            found = check(store);
            checked += found;
            next_check += rows / 100;
        }
    }
    ne_usage_of(store, &usage);
    printf("%llu rows through a ring of 1 MiB: %llu bytes programmed and %llu erases, sectors erased %lu to %lu times; %llu rows read and "
           "compared, the last time %llu; %lu pages damaged\n",
           (unsigned long long)done, (unsigned long long)bytes_programmed, (unsigned long long)erases, (unsigned long)usage.erases_min,
           (unsigned long)usage.erases_max, (unsigned long long)checked, (unsigned long long)found, (unsigned long)usage.damaged);
    return usage.damaged > 0;
}
