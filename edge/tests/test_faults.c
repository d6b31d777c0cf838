/* What goes wrong besides the power: sectors that fail, programs that are reported as failed, seals that take more room than is kept for them,
 * options that are smaller than those before. Each test is the story of something that was found by an attack on the library through its header. */
#include "nor.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                       \
    do {                                                                       \
        if (!(condition)) {                                                    \
            printf("FAILED: line %d: %s\n", __LINE__, #condition);             \
            exit(1);                                                           \
        }                                                                      \
    } while (0)

static nor memory;
static ne_flash within; /* without faults */
static uint64_t arena[4096];

/* A sector that can be neither programmed nor erased, and a program that is reported as failed although all its bytes are there. */
static uint32_t bad_sector = UINT32_MAX, programs_until_report;

static int fault_read(void *context, uint32_t address, void *to, uint32_t bytes) {
    return within.read(context, address, to, bytes);
}

static int fault_program(void *context, uint32_t address, const void *from, uint32_t bytes) {
    if (address / memory.sector_bytes == bad_sector) {
        return -1;
    }
    if (within.program(context, address, from, bytes) != 0) {
        return -1;
    }
    return programs_until_report > 0 && --programs_until_report == 0 ? -1 : 0;
}

static int fault_erase(void *context, uint32_t address) {
    return address / memory.sector_bytes == bad_sector ? -1 : within.erase(context, address);
}

static ne_store *open_store(const ne_options *options) {
    ne_flash flash;
    ne_store *store = NULL;
    within = nor_flash(&memory);
    flash = within;
    flash.read = fault_read;
    flash.program = fault_program;
    flash.erase = fault_erase;
    CHECK(ne_open(&store, &flash, options, arena, sizeof arena) == NE_OK);
    return store;
}

/* Upkeep as a firmware does it, with an end: steps without one are what a device would erase its flash away with. */
static void upkeep(ne_store *store) {
    ne_status status = NE_OK;
    unsigned steps;
    for (steps = 0; steps < 200 && status == NE_OK; steps++) {
        status = ne_maintain(store);
    }
    CHECK(status == NE_END);
}

static ne_store *fresh(uint32_t sector_bytes, uint32_t sectors, uint32_t unit, const ne_options *options) {
    ne_store *store;
    nor_init(&memory, sector_bytes, sectors, unit);
    store = open_store(options);
    upkeep(store);
    return store;
}

/* Rows that a query of a field finds; the status that it ends with. */
static unsigned rows_of(ne_store *store, const char *table, const char *field, ne_status *end) {
    ne_query query = {NULL, NULL, 0, NULL, INT64_MIN, INT64_MAX};
    ne_cursor cursor;
    ne_row row;
    unsigned rows = 0;
    query.table = table;
    query.field = field;
    CHECK(ne_query_open(store, &query, &cursor) == NE_OK);
    while ((*end = ne_query_next(store, &cursor, &row)) == NE_OK) {
        rows++;
    }
    return rows;
}

static void put(ne_store *store, ne_series *series, int64_t time, const ne_value *values) {
    ne_status status = ne_insert(store, series, time, values);
    if (status == NE_FULL) {
        upkeep(store);
        status = ne_insert(store, series, time, values);
    }
    CHECK(status == NE_OK);
}

static const ne_field a_number[1] = {{"v", NE_INT}};

/* A hot sector with one row of each of many series took three sectors as pages, and two were kept free. The seal failed with NE_FULL, upkeep gave up
 * two sectors of history to make room, and the seal failed again: without end, until no history was left and the flash was worn out. */
static void a_seal_gets_the_room_that_it_takes(void) {
    static const ne_field flags[16] = {{"a", NE_BOOL}, {"b", NE_BOOL}, {"c", NE_BOOL}, {"d", NE_BOOL}, {"e", NE_BOOL}, {"f", NE_BOOL},
                                       {"g", NE_BOOL}, {"h", NE_BOOL}, {"i", NE_BOOL}, {"j", NE_BOOL}, {"k", NE_BOOL}, {"l", NE_BOOL},
                                       {"m", NE_BOOL}, {"n", NE_BOOL}, {"o", NE_BOOL}, {"p", NE_BOOL}};
    static ne_series many[9];
    static char names[9][12];
    ne_series history = {"history", NULL, 0, a_number, 1, NULL, 0, 0};
    ne_store *store = fresh(1024, 16, 8, NULL);
    ne_value values[16];
    ne_usage usage;
    ne_status end;
    unsigned index, round, before;
    memset(values, 0, sizeof values);
    for (index = 0; index < 4000; index++) {
        values[0].integer = (int64_t)(index * 2654435761u % 100000u);
        put(store, &history, index, values);
    }
    ne_seal(store);
    upkeep(store);
    before = rows_of(store, "history", "v", &end);
    CHECK(end == NE_END && before > 500);
    values[0].integer = 0;
    for (round = 0; round < 3; round++) {
        for (index = 0; index < 9; index++) {
            memset(&many[index], 0, sizeof many[index]);
            sprintf(names[index], "sensor_%02u", index);
            many[index].table = names[index];
            many[index].fields = flags;
            many[index].field_count = 16;
            put(store, &many[index], 10000 + round, values);
        }
        ne_seal(store);
        upkeep(store);
        CHECK(rows_of(store, "sensor_00", "a", &end) >= 1 && end == NE_END);
    }
    ne_usage_of(store, &usage);
    CHECK(usage.hot == 0 && usage.free >= 2);
    CHECK(rows_of(store, "history", "v", &end) > 0 && end == NE_END);
    printf("a seal of three sectors: done, %u of %u rows before it stay\n", rows_of(store, "history", "v", &end), before);
}

/* The first sector that could not be erased was tried again by each step of upkeep, so that no other was ever erased, and inserts ended with
 * NE_FULL on a flash of which all but one sector were good. */
static void a_bad_sector_keeps_no_other_from_upkeep(void) {
    ne_series series = {"m", NULL, 0, a_number, 1, NULL, 0, 0};
    ne_store *store = fresh(1024, 12, 1, NULL);
    ne_value value;
    ne_usage usage;
    ne_status status, end;
    unsigned index, failed = 0;
    bad_sector = 5;
    for (index = 0; index < 3000; index++) {
        value.integer = index;
        while ((status = ne_insert(store, &series, index, &value)) != NE_OK) {
            CHECK(status == NE_FULL || status == NE_IO);
            failed += status == NE_IO;
            CHECK(failed < 10);
            while ((status = ne_maintain(store)) == NE_OK || status == NE_IO) {
                failed += status == NE_IO;
                CHECK(failed < 10);
            }
        }
    }
    CHECK(failed > 0);
    ne_usage_of(store, &usage);
    CHECK(usage.dirty >= 1);
    CHECK(rows_of(store, "m", "v", &end) > 300 && end == NE_END);
    bad_sector = UINT32_MAX;
    store = open_store(NULL);
    upkeep(store);
    ne_usage_of(store, &usage);
    CHECK(usage.dirty == 0);
    CHECK(memory.violations == 0);
    printf("a bad sector: reported %u times, and the others went on\n", failed);
}

/* A program was reported as failed although all bytes of the last page of a seal had reached the flash. The page counted, the rows of the log that it
 * was made of too, and each was there twice; once the log was sealed again, for ever. */
static void a_page_that_is_there_counts_once(void) {
    ne_series series = {"m", NULL, 0, a_number, 1, NULL, 0, 0};
    ne_store *store = fresh(1024, 12, 4, NULL);
    ne_value value;
    ne_status end;
    unsigned index, failing;
    for (failing = 1; failing <= 3; failing++) {
        for (index = 0; index < 20; index++) {
            value.integer = index;
            put(store, &series, (int64_t)(failing * 100 + index), &value);
        }
        ne_seal(store);
        /* The use header of the sector of pages first, if one is begun; then the page. */
        programs_until_report = failing;
        ne_maintain(store);
        programs_until_report = 0;
        CHECK(rows_of(store, "m", "v", &end) == 20 * failing && end == NE_END);
        upkeep(store);
        CHECK(rows_of(store, "m", "v", &end) == 20 * failing && end == NE_END);
        store = open_store(NULL);
        CHECK(rows_of(store, "m", "v", &end) == 20 * failing && end == NE_END);
    }
    printf("a page that was reported as failed: its rows are there once\n");
}

/* A firmware with a smaller series_max than the one before it found no rows of the series beyond, and no error, until their log was sealed. */
static void options_that_are_smaller_are_told(void) {
    static ne_series many[10];
    static char names[10][8];
    ne_options large = {0, 0, 0, 10}, small = {0, 0, 0, 4};
    ne_store *store = fresh(4096, 8, 1, &large);
    ne_value value;
    ne_status end;
    unsigned index, round, rows = 0;
    value.integer = 7;
    for (index = 0; index < 10; index++) {
        sprintf(names[index], "s%u", index);
        memset(&many[index], 0, sizeof many[index]);
        many[index].table = names[index];
        many[index].fields = a_number;
        many[index].field_count = 1;
        put(store, &many[index], index, &value);
    }
    store = open_store(&small);
    rows_of(store, "s9", "v", &end);
    CHECK(end == NE_UNSUPPORTED);
    store = open_store(&large);
    CHECK(rows_of(store, "s9", "v", &end) == 1 && end == NE_END);
    /* Sealing needs no such room. */
    store = open_store(&small);
    ne_seal(store);
    upkeep(store);
    for (round = 0; round < 10; round++) {
        rows += rows_of(store, names[round], "v", &end);
        CHECK(end == NE_END);
    }
    CHECK(rows == 10);
    printf("a smaller series_max: told, and nothing is lost\n");
}

/* The age of a page was the sum of two numbers that overflowed, which C does not define, where a clock had jumped to the end of time. */
static void a_clock_at_the_end_of_time_is_no_error(void) {
    ne_series series = {"m", NULL, 0, a_number, 1, NULL, 0, 0};
    ne_store *store = fresh(1024, 16, 1, NULL);
    ne_value value;
    ne_usage usage;
    ne_status end;
    unsigned index;
    CHECK(ne_begin_boot(store, 1) == NE_OK);
    for (index = 0; index < 150; index++) {
        value.integer = (int64_t)((uint64_t)(index * 2654435761u) << 29 ^ index * 40503u * 2246822519u); /* pages that fill their sectors */
        put(store, &series, INT64_MAX - 150 + index, &value);
    }
    CHECK(ne_set_clock(store, 1, 1700000000000) == NE_OK);
    ne_retain(store, INT64_MIN + 1);
    for (index = 0; index < 150; index++) {
        value.integer = (int64_t)((uint64_t)(index * 2654435761u) << 29 ^ index * 40503u * 2246822519u); /* pages that fill their sectors */
        put(store, &series, 1700000000000 + index, &value);
    }
    ne_seal(store);
    upkeep(store);
    CHECK(rows_of(store, "m", "v", &end) == 300 && end == NE_END);
    ne_usage_of(store, &usage);
    CHECK(usage.sealed > 1);
    printf("a clock at the end of time: no overflow\n");
}

int main(void) {
    a_seal_gets_the_room_that_it_takes();
    a_bad_sector_keeps_no_other_from_upkeep();
    a_page_that_is_there_counts_once();
    options_that_are_smaller_are_told();
    a_clock_at_the_end_of_time_is_no_error();
    return 0;
}
