/* What a device does in its life: queries, rollups, filters, clocks, retention, wear, bad arguments. Expected values are computed here from
 * what was put in. Prints what rows cost in the flash. */
#include "nor.h"

#include <inttypes.h>
#include <math.h>
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

static nor flash_memory;
static uint64_t arena[4096];

static ne_store *fresh(uint32_t sector_bytes, uint32_t sectors, uint32_t unit, const ne_options *options) {
    ne_flash flash;
    ne_store *store = NULL;
    nor_init(&flash_memory, sector_bytes, sectors, unit);
    flash = nor_flash(&flash_memory);
    CHECK(ne_open(&store, &flash, options, arena, sizeof arena) == NE_OK);
    while (ne_maintain(store) == NE_OK) {
    }
    return store;
}

static ne_store *again(const ne_options *options) {
    ne_flash flash = nor_flash(&flash_memory);
    ne_store *store = NULL;
    CHECK(ne_open(&store, &flash, options, arena, sizeof arena) == NE_OK);
    return store;
}

static void upkeep(ne_store *store) {
    ne_status status;
    while ((status = ne_maintain(store)) == NE_OK) {
    }
    CHECK(status == NE_END);
}

/* Inserts, with upkeep when the device is out of sectors. */
static void put(ne_store *store, ne_series *series, int64_t time, const ne_value *values) {
    ne_status status = ne_insert(store, series, time, values);
    if (status == NE_FULL) {
        upkeep(store);
        status = ne_insert(store, series, time, values);
    }
    CHECK(status == NE_OK);
}

static uint32_t mix(uint32_t x) {
    x ^= x >> 16;
    x *= 0x7feb352du;
    x ^= x >> 15;
    x *= 0x846ca68bu;
    return x ^ x >> 16;
}

static const ne_field one_field[1] = {{"v", NE_FLOAT}};

static unsigned count_of(ne_store *store, int64_t *last) {
    ne_query query = {"m", NULL, 0, "v", INT64_MIN, INT64_MAX};
    ne_cursor cursor;
    ne_row row;
    unsigned rows = 0;
    CHECK(ne_query_open(store, &query, &cursor) == NE_OK);
    while (ne_query_next(store, &cursor, &row) == NE_OK) {
        CHECK(row.value.number == (double)row.time / 4);
        *last = row.time;
        rows++;
    }
    return rows;
}

/* A device sealed everything, sent it, and was started anew; its first row was gone after the start behind that. The page had gone into a
 * sealed sector that is older than the log it was made of, the log was erased, and a new log got its number: it was taken for sealed. */
static void rows_behind_a_seal_and_a_start_stay(void) {
    ne_series series = {"m", NULL, 0, one_field, 1, NULL, 0, 0};
    ne_store *store = fresh(4096, 8, 1, NULL);
    int64_t time, last;
    for (time = 0; time < 12; time++) {
        ne_value value;
        value.number = (double)time / 4;
        CHECK(ne_insert(store, &series, time, &value) == NE_OK);
        store = again(NULL);
        series._store = NULL;
        CHECK(count_of(store, &last) == (unsigned)time + 1 && last == time);
        if (time % 3 < 2) {
            ne_seal(store);
            upkeep(store);
            store = again(NULL);
            series._store = NULL;
        }
        CHECK(count_of(store, &last) == (unsigned)time + 1 && last == time);
    }
    printf("seals and starts: %u rows stay\n", (unsigned)time);
}

/* Rows of one call that are as far apart as each other have one time; others have each their own. */
static void batches_come_back(void) {
    static const unsigned sizes[6] = {1, 2, 4, 40, 64, 200};
    static int64_t times[200];
    static ne_value values[200];
    ne_series series = {"m", NULL, 0, one_field, 1, NULL, 0, 0};
    ne_store *store = fresh(4096, 16, 8, NULL);
    ne_usage usage;
    unsigned round, index, rows = 0, kind;
    int64_t time = 0, last;
    size_t stored;
    for (round = 0; round < 36; round++) {
        kind = round % 4; /* regular; late in the middle; late at the end; all at one time */
        for (index = 0; index < sizes[round % 6]; index++) {
            time += kind == 3 ? 0 : kind == 1 && index == 70 ? 33 : kind == 2 && index + 1 == sizes[round % 6] ? 5 : 10;
            times[index] = time;
            values[index].number = (double)time / 4;
        }
        time += 10;
        CHECK(ne_insert_rows(store, &series, times, values, sizes[round % 6], &stored) == NE_OK && stored == sizes[round % 6]);
        rows += sizes[round % 6];
        CHECK(count_of(store, &last) == rows && last == times[sizes[round % 6] - 1]);
        if (round % 5 == 4) {
            store = again(NULL);
            series._store = NULL;
        }
        if (round % 9 == 8) {
            ne_seal(store);
            upkeep(store);
        }
        CHECK(count_of(store, &last) == rows && last == times[sizes[round % 6] - 1]);
    }
    CHECK(ne_usage_of(store, &usage) == NE_OK && usage.damaged == 0);
    printf("batches: %u rows, regular and not, come back\n", rows);
}

/* ---- rollups against sums made here ---- */

static void rollups_are_those_of_the_rows(void) {
    static const ne_field fields[2] = {{"v", NE_FLOAT}, {"n", NE_INT}};
    static ne_tag tags[3][1] = {{{"room", "a"}}, {{"room", "b"}}, {{"room", "c"}}};
    ne_series series[3];
    ne_options options = {0, 64, 0, 0};
    ne_store *store = fresh(4096, 16, 8, &options);
    enum { ROWS = 3000, HOURS = 12 };
    static int64_t times[ROWS];
    static double values[ROWS];
    unsigned index, hour, pass, width;
    memset(series, 0, sizeof series);
    for (index = 0; index < 3; index++) {
        series[index].table = "climate";
        series[index].tags = tags[index];
        series[index].tag_count = 1;
        series[index].fields = fields;
        series[index].field_count = 2;
    }
    for (index = 0; index < ROWS; index++) {
        ne_value value[2];
        /* Some are late, and some share a time. */
        times[index] = 1000000 + (int64_t)(index / 2) * 20000 - (mix(index) % 50 == 0 ? 100000 : 0);
        values[index] = index % 1000 == 7 ? -273.15 : (1500 + (double)(mix(index) % 1000)) / 100;
        value[0].number = values[index];
        value[1].integer = (int64_t)mix(index) - (1 << 30);
        put(store, &series[index % 3], times[index], value);
    }
    for (pass = 0; pass < 3; pass++) {
        if (pass == 1) {
            ne_seal(store);
            upkeep(store);
        } else if (pass == 2) {
            store = again(&options);
        }
        for (index = 0; index < 4; index++) {
            for (width = 0; width < 3; width++) {
                ne_tag room = {"room", index == 0 ? "a" : index == 1 ? "b" : "c"};
                ne_query query = {"climate", &room, index < 3 ? 1 : 0, "v", 1000000 - (int64_t)width * 777, INT64_MAX};
                ne_query of_integers = query;
                int64_t step = width == 0 ? 3600000 : width == 1 ? 50000 : 100000000;
                ne_rollup found[HOURS], integers[HOURS];
                CHECK(ne_rollup_of(store, &query, step, found, HOURS) == NE_OK);
                of_integers.field = "n";
                CHECK(ne_rollup_of(store, &of_integers, step, integers, HOURS) == NE_OK);
                for (hour = 0; hour < HOURS; hour++) {
                    int64_t from = query.start + (int64_t)hour * step;
                    uint64_t count = 0;
                    double min = 0, max = 0, sum = 0, magnitude = 0, int_sum = 0;
                    int64_t first_time = 0, last_time = 0;
                    bool first_seen = false, last_seen = false;
                    unsigned row;
                    for (row = 0; row < ROWS; row++) {
                        if ((index < 3 && row % 3 != index) || times[row] < from || times[row] >= from + step) {
                            continue;
                        }
                        min = count == 0 || values[row] < min ? values[row] : min;
                        max = count == 0 || values[row] > max ? values[row] : max;
                        first_time = count == 0 || times[row] < first_time ? times[row] : first_time;
                        last_time = count == 0 || times[row] > last_time ? times[row] : last_time;
                        sum += values[row];
                        magnitude += fabs(values[row]);
                        int_sum += (double)((int64_t)mix(row) - (1 << 30));
                        count++;
                    }
                    if (found[hour].count != count) {
                        printf("pass %u series %u width %u interval %u: %u rows, expected %u\n", pass, index, width, hour, (unsigned)found[hour].count, (unsigned)count);
                    }
                    CHECK(found[hour].count == count);
                    CHECK(integers[hour].count == count);
                    if (count == 0) {
                        continue;
                    }
                    /* Where rows share the first or last time, any of theirs will do. */
                    for (row = 0; row < ROWS; row++) {
                        if (index == 3 || row % 3 == index) {
                            first_seen = first_seen || (times[row] == first_time && values[row] == found[hour].first);
                            last_seen = last_seen || (times[row] == last_time && values[row] == found[hour].last);
                        }
                    }
                    CHECK(first_seen && last_seen);
                    CHECK(found[hour].first_time == first_time && found[hour].last_time == last_time);
                    CHECK(found[hour].min == min && found[hour].max == max);
                    CHECK(fabs(found[hour].sum - sum) <= 1e-12 * magnitude);
                    CHECK(integers[hour].sum == int_sum);
                }
            }
        }
    }
    printf("rollups: as computed, hot, sealed and after opening\n");
}

/* ---- filters ---- */

static unsigned count_rows(ne_store *store, const ne_query *query) {
    ne_cursor cursor;
    ne_row row;
    unsigned rows = 0;
    CHECK(ne_query_open(store, query, &cursor) == NE_OK);
    while (ne_query_next(store, &cursor, &row) == NE_OK) {
        CHECK(row.time >= query->start && row.time < query->end);
        rows++;
    }
    return rows;
}

static void filters_choose_series_and_times(void) {
    static ne_tag tags[2][2] = {{{"b", "x,y"}, {"a", "1"}}, {{"a", "1"}, {"b", "x"}}};
    ne_series series[3];
    ne_store *store = fresh(2048, 8, 4, NULL);
    unsigned index, pass;
    memset(series, 0, sizeof series);
    for (index = 0; index < 3; index++) {
        series[index].table = index == 2 ? "m" : "m n";
        series[index].tags = tags[index % 2];
        series[index].tag_count = index == 2 ? 0 : 2;
        series[index].fields = one_field;
        series[index].field_count = 1;
    }
    for (index = 0; index < 90; index++) {
        ne_value value = {0};
        value.number = index;
        put(store, &series[index % 3], (int64_t)index - 45, &value);
    }
    for (pass = 0; pass < 2; pass++) {
        ne_tag comma = {"b", "x,y"}, short_one = {"b", "x"}, one = {"a", "1"}, none = {"c", "1"}, prefix = {"a", ""};
        ne_tag both[2] = {{"b", "x"}, {"a", "1"}};
        ne_query all = {NULL, NULL, 0, "v", INT64_MIN, INT64_MAX};
        ne_query it = all;
        CHECK(count_rows(store, &all) == 90);
        it.table = "m";
        CHECK(count_rows(store, &it) == 30);
        it.table = "m n";
        CHECK(count_rows(store, &it) == 60);
        it.table = "m ";
        CHECK(count_rows(store, &it) == 0);
        it = all;
        it.tag_count = 1;
        it.tags = &comma;
        CHECK(count_rows(store, &it) == 30);
        it.tags = &short_one;
        CHECK(count_rows(store, &it) == 30);
        it.tags = &one;
        CHECK(count_rows(store, &it) == 60);
        it.tags = &none;
        CHECK(count_rows(store, &it) == 0);
        it.tags = &prefix;
        CHECK(count_rows(store, &it) == 0);
        it.tags = both;
        it.tag_count = 2;
        CHECK(count_rows(store, &it) == 30);
        it = all;
        it.field = "w";
        CHECK(count_rows(store, &it) == 0);
        it = all;
        it.start = -45;
        it.end = -44;
        CHECK(count_rows(store, &it) == 1);
        it.end = -45;
        CHECK(count_rows(store, &it) == 0);
        it.start = 0;
        it.end = 1000;
        CHECK(count_rows(store, &it) == 45);
        ne_seal(store);
        upkeep(store);
    }
    printf("filters: as chosen\n");
}

static void two_cursors_do_not_disturb_each_other(void) {
    ne_series series = {"m", NULL, 0, one_field, 1, NULL, 0, 0};
    ne_store *store = fresh(2048, 10, 4, NULL);
    ne_query query = {NULL, NULL, 0, "v", INT64_MIN, INT64_MAX};
    ne_cursor one, two;
    ne_row row;
    int index, done = 0;
    for (index = 0; index < 500; index++) {
        ne_value value = {0};
        value.number = index / 7.0;
        put(store, &series, index, &value);
    }
    CHECK(ne_query_open(store, &query, &one) == NE_OK);
    CHECK(ne_query_open(store, &query, &two) == NE_OK);
    for (index = 0; index < 500; index++) {
        CHECK(ne_query_next(store, &one, &row) == NE_OK && row.time == index && row.value.number == index / 7.0);
        if (index % 3 == 0) {
            CHECK(ne_query_next(store, &two, &row) == NE_OK && row.time == done && row.value.number == done / 7.0);
            done++;
        }
        if (index == 250) {
            /* A row that comes meanwhile is seen, at the end. */
            ne_value value = {0};
            value.number = 500 / 7.0;
            CHECK(ne_insert(store, &series, 500, &value) == NE_OK);
        }
    }
    CHECK(ne_query_next(store, &one, &row) == NE_OK && row.time == 500);
    CHECK(ne_query_next(store, &one, &row) == NE_END);
    CHECK(ne_query_next(store, &one, &row) == NE_END);
    ne_seal(store);
    CHECK(ne_maintain(store) == NE_OK);
    CHECK(ne_query_next(store, &two, &row) == NE_CHANGED);
    printf("cursors: apart from each other, and told when rows moved\n");
}

/* Rows in frames are decimals since they may be: 12 bytes instead of 17. Bytes by docs/format/device-page.md and hand. */
static void decimals_have_the_bytes_of_the_format(void) {
    ne_series series = {"m", NULL, 0, one_field, 1, NULL, 0, 0};
    static const double values[7] = {21.55, -0.5, 1e9 + 0.25, 21.6, 1.0 / 3, 0.1234567, -3.25};
    /* Form and zigzag: 2155 at two digits; -50 at two, in 2 bytes instead of 5; 100000000025 at two; 2160; no decimal;
     * then one that is not looked for, as one in vain was just before; -325 at the two digits that are tried always. */
    static const uint8_t bytes[7][10] = {{2, 5, 0xd6, 0x21},
                                         {1, 5, 0x63},
                                         {6, 5, 0xb2, 0xa0, 0xb7, 0x87, 0xe9, 0x05},
                                         {2, 5, 0xe0, 0x21},
                                         {8, 3, 0x55, 0x55, 0x55, 0x55, 0x55, 0x55, 0xd5, 0x3f},
                                         {8, 3},
                                         {2, 5, 0x89, 0x05}};
    ne_store *store = fresh(1024, 8, 1, NULL);
    ne_query query = {NULL, NULL, 0, "v", INT64_MIN, INT64_MAX};
    ne_cursor cursor;
    ne_row row;
    uint32_t at = 0, index;
    for (index = 0; index < 7; index++) {
        ne_value value = {0};
        value.number = values[index];
        put(store, &series, index, &value);
    }
    while (memcmp(flash_memory.bytes + at, "\x80\x06\x01m\x01\x02\x01v", 8) != 0 && at < sizeof flash_memory.bytes - 200) {
        at++;
    }
    CHECK(flash_memory.bytes[at] == 0x80);
    at += 2 + 6 + 4;
    for (index = 0; index < 7; index++) {
        uint32_t length = 1 + 1 + 1 + bytes[index][0];
        CHECK(flash_memory.bytes[at] == 0 && flash_memory.bytes[at + 1] == length && flash_memory.bytes[at + 2] == 0);
        CHECK(memcmp(flash_memory.bytes + at + 4, bytes[index] + 1, index == 5 ? 1 : 1 + (size_t)bytes[index][0]) == 0);
        at += 2 + length + 4;
    }
    CHECK(ne_query_open(store, &query, &cursor) == NE_OK);
    for (index = 0; index < 7; index++) {
        CHECK(ne_query_next(store, &cursor, &row) == NE_OK && row.value.number == values[index]);
    }
    printf("decimals: frames have the bytes of the format\n");
}

/* What a cursor remembers of a frame is gone when rows come meanwhile, of another series too. */
static void rows_come_between_those_that_are_read(void) {
    ne_series one = {"m", NULL, 0, one_field, 1, NULL, 0, 0}, other = {"n", NULL, 0, one_field, 1, NULL, 0, 0};
    ne_store *store = fresh(4096, 10, 4, NULL);
    ne_query query = {"m", NULL, 0, "v", INT64_MIN, INT64_MAX};
    ne_cursor cursor;
    ne_row row;
    int index;
    int64_t times[20];
    ne_value values[20];
    size_t stored;
    for (index = 0; index < 20; index++) {
        times[index] = index;
        values[index].number = index / 100.0;
    }
    CHECK(ne_insert_rows(store, &one, times, values, 20, &stored) == NE_OK && stored == 20);
    CHECK(ne_query_open(store, &query, &cursor) == NE_OK);
    for (index = 0; index < 20; index++) {
        CHECK(ne_query_next(store, &cursor, &row) == NE_OK && row.time == index && row.value.number == index / 100.0);
        CHECK(row.series_bytes == 1 && row.series[0] == 'm');
        if (index % 3 != 0) {
            put(store, &other, index, &values[index]);
        }
    }
    CHECK(ne_query_next(store, &cursor, &row) == NE_END);
    printf("cursors: rows that come meanwhile disturb none\n");
}

/* ---- clocks ---- */

static void ticks_become_times_when_the_clock_is_known(void) {
    ne_series series = {"m", NULL, 0, one_field, 1, NULL, 0, 0};
    ne_store *store = fresh(1024, 8, 16, NULL);
    ne_query query = {NULL, NULL, 0, "v", INT64_MIN, INT64_MAX};
    ne_value value = {0};
    unsigned pass;
    int index;
    CHECK(ne_begin_boot(store, 0) == NE_INVALID);
    CHECK(ne_begin_boot(store, 7) == NE_OK);
    for (index = 0; index < 30; index++) {
        put(store, &series, 100 + index, &value);
    }
    ne_seal(store);
    upkeep(store);
    store = again(NULL);
    CHECK(ne_begin_boot(store, 8) == NE_OK);
    put(store, &series, 5, &value);
    CHECK(ne_set_clock(store, 8, 2000000) == NE_OK);
    put(store, &series, 2000010, &value);
    CHECK(ne_set_clock(store, 7, 1000000) == NE_OK);
    for (pass = 0; pass < 4; pass++) {
        query.start = 1000100;
        query.end = 1000130;
        CHECK(count_rows(store, &query) == 30);
        query.start = 2000005;
        query.end = 2000006;
        CHECK(count_rows(store, &query) == 1);
        query.start = 2000010;
        query.end = 2000011;
        CHECK(count_rows(store, &query) == 1);
        query.start = 0;
        query.end = 1000000;
        CHECK(count_rows(store, &query) == 0);
        if (pass == 0) {
            store = again(NULL);
        } else if (pass == 1) {
            ne_seal(store);
            upkeep(store);
            put(store, &series, 3000000, &value);
        } else {
            /* What is known of clocks outlives the sector that it was written to. */
            ne_seal(store);
            put(store, &series, 3000001, &value);
            upkeep(store);
            store = again(NULL);
        }
    }
    printf("clocks: ticks of two starts have their times, through seals and openings\n");
}

/* ---- retention, wear, costs ---- */

static void wear_is_even_and_old_rows_go(void) {
    ne_series series = {"m", NULL, 0, one_field, 1, NULL, 0, 0};
    ne_store *store = fresh(1024, 16, 1, NULL);
    ne_query query = {NULL, NULL, 0, "v", INT64_MIN, INT64_MAX};
    ne_usage usage;
    ne_value value = {0};
    int64_t time = 0;
    unsigned before;
    while (flash_memory.erases < 100 * 16) {
        value.number = (double)(mix((uint32_t)time) % 4096) / 16;
        put(store, &series, time++, &value);
    }
    CHECK(ne_usage_of(store, &usage) == NE_OK);
    CHECK(flash_memory.violations == 0);
    printf("wear: erased %u to %u times after %" PRIu64 " rows in 100 turns\n", usage.erases_min, usage.erases_max, time);
    CHECK(usage.erases_max - usage.erases_min <= 10);
    CHECK(usage.free + usage.hot + usage.sealed + usage.dirty == 16 && usage.damaged == 0);
    before = count_rows(store, &query);
    CHECK(before > 2000);
    ne_retain(store, time - 1000);
    upkeep(store);
    CHECK(count_rows(store, &query) < before);
    query.start = time - 1000;
    CHECK(count_rows(store, &query) == 1000);
}

static void full_flash_refuses_and_loses_nothing(void) {
    ne_series series = {"m", NULL, 0, one_field, 1, NULL, 0, 0};
    ne_store *store = fresh(1024, 6, 4, NULL);
    ne_query query = {NULL, NULL, 0, "v", INT64_MIN, INT64_MAX};
    ne_value value = {0};
    unsigned stored = 0;
    while (ne_insert(store, &series, stored, &value) == NE_OK) {
        stored++;
    }
    CHECK(ne_insert(store, &series, stored, &value) == NE_FULL);
    CHECK(stored > 200 && count_rows(store, &query) == stored);
    upkeep(store);
    CHECK(ne_insert(store, &series, stored, &value) == NE_OK);
    CHECK(count_rows(store, &query) == stored + 1);
    printf("a full flash: refused after %u rows, which are all there\n", stored);
}

static void bad_arguments_are_refused(void) {
    static char long_name[600];
    ne_series series = {"m", NULL, 0, one_field, 1, NULL, 0, 0};
    ne_tag same[2] = {{"a", "1"}, {"a", "2"}}, empty = {"a", ""}, utf8 = {"a", "\xff"};
    ne_flash flash;
    ne_options options = {0, 16, 0, 0};
    ne_store *store = fresh(1024, 8, 4, NULL);
    ne_value value = {0}, text = {0};
    ne_field text_field = {"t", NE_TEXT};
    ne_query query = {NULL, NULL, 0, NULL, 0, 1};
    ne_cursor cursor;
    ne_rollup rollup;
    memset(long_name, 'x', sizeof long_name - 1);
    series.tags = same;
    series.tag_count = 2;
    CHECK(ne_insert(store, &series, 0, &value) == NE_INVALID);
    series.tags = &empty;
    series.tag_count = 1;
    CHECK(ne_insert(store, &series, 0, &value) == NE_INVALID);
    series.tags = &utf8;
    CHECK(ne_insert(store, &series, 0, &value) == NE_INVALID);
    series.tag_count = 0;
    series.table = "";
    CHECK(ne_insert(store, &series, 0, &value) == NE_INVALID);
    series.table = long_name;
    CHECK(ne_insert(store, &series, 0, &value) == NE_TOO_LONG);
    series.table = "m";
    series.field_count = 0;
    CHECK(ne_insert(store, &series, 0, &value) == NE_INVALID);
    series.field_count = 1;
    series.fields = &text_field;
    text.text.bytes = long_name;
    text.text.length = 599;
    CHECK(ne_insert(store, &series, 0, &text) == NE_TOO_LONG);
    text.text.bytes = "\xc0\x80";
    text.text.length = 2;
    CHECK(ne_insert(store, &series, 0, &text) == NE_INVALID);
    CHECK(ne_query_open(store, &query, &cursor) == NE_INVALID);
    query.field = "v";
    CHECK(ne_rollup_of(store, &query, 0, &rollup, 1) == NE_INVALID);
    flash = nor_flash(&flash_memory);
    CHECK(ne_arena_bytes(&flash, &options) == 0);
    CHECK(ne_open(&store, &flash, NULL, arena, 100) == NE_TOO_SMALL);
    flash.unit_bytes = 3;
    CHECK(ne_open(&store, &flash, NULL, arena, sizeof arena) == NE_INVALID);
    flash.unit_bytes = 64;
    CHECK(ne_arena_bytes(&flash, NULL) == 0);
    flash.unit_bytes = 1;
    flash.sectors = 5;
    CHECK(ne_arena_bytes(&flash, NULL) == 0);
    printf("bad arguments: refused\n");
}

/* Rows of any shape are refused or sealed: one that is accepted and fits no page would stop the upkeep for ever. */
static void what_is_accepted_can_be_sealed(void) {
    static char names[16][40], text[400], table[200];
    static ne_field fields[16];
    unsigned round, accepted = 0, refused = 0;
    for (round = 0; round < 400; round++) {
        ne_options options = {0, 32, 960, 4};
        ne_store *store = fresh(1024, 8, 1u << round % 6, &options);
        ne_series series = {table, NULL, 0, fields, 1 + mix(round) % 16, NULL, 0, 0};
        ne_query query = {NULL, NULL, 0, names[0], INT64_MIN, INT64_MAX};
        ne_value values[16];
        size_t index, name_bytes = 1 + mix(round + 1000) % 30, table_bytes = 1 + mix(round + 2000) % 150;
        ne_status status;
        memset(table, 't', sizeof table);
        table[table_bytes] = 0;
        memset(text, 'x', sizeof text);
        memset(values, 0, sizeof values);
        for (index = 0; index < series.field_count; index++) {
            memset(names[index], 'a' + (int)index, sizeof names[index]);
            names[index][name_bytes] = 0;
            fields[index].name = names[index];
            fields[index].type = (ne_type)(mix(round * 16 + (unsigned)index) % 6);
            if (fields[index].type >= NE_TEXT) {
                values[index].text.bytes = text;
                values[index].text.length = mix(round + 3000 + (unsigned)index) % 300;
            } else if (fields[index].type == NE_FLOAT) {
                values[index].number = -1.0 / 3;
            } else {
                values[index].integer = fields[index].type == NE_BOOL ? 1 : INT64_MIN + (int64_t)round;
            }
        }
        status = ne_insert(store, &series, INT64_MIN + 5, values);
        CHECK(status == NE_OK || status == NE_TOO_LONG);
        accepted += status == NE_OK;
        refused += status != NE_OK;
        ne_seal(store);
        upkeep(store);
        CHECK(count_rows(store, &query) == (status == NE_OK));
    }
    CHECK(accepted > 50 && refused > 50);
    printf("rows of any shape: %u sealed, %u refused\n", accepted, refused);
}

/* Flash bytes, programs and erases a row: 20 series, a row each 10 s, floats in steps of 0.01. */
static void costs(void) {
    static const ne_field fields[1] = {{"t", NE_FLOAT}};
    static ne_tag tags[20][1];
    static char names[20][8];
    static ne_series series[20];
    ne_options options = {0, 128, 2048, 32};
    ne_flash flash;
    ne_store *store;
    ne_usage usage;
    unsigned index, kind;
    for (kind = 0; kind < 3; kind++) {
        unsigned rows = 20000, count = kind == 2 ? 1 : 20;
        uint64_t hot_bytes, programs, erases;
        memset(series, 0, sizeof series);
        store = fresh(kind == 1 ? 8192 : 4096, kind == 1 ? 8 : 16, 1, &options);
        for (index = 0; index < count; index++) {
            sprintf(names[index], "s%u", index);
            tags[index][0].name = "id";
            tags[index][0].value = names[index];
            series[index].table = "climate";
            series[index].tags = tags[index];
            series[index].tag_count = 1;
            series[index].fields = fields;
            series[index].field_count = 1;
        }
        flash_memory.programmed_bytes = flash_memory.programs = flash_memory.erases = 0;
        hot_bytes = 0;
        for (index = 0; index < rows; index++) {
            ne_value value = {0};
            uint64_t start;
            unsigned of = index % count, beat = index / count;
            value.number = (double)(2000 + (int)(mix(of) % 500) + (int)(mix(beat + 977 * of) % 7)) / 100;
            start = flash_memory.programmed_bytes;
            if (ne_insert(store, &series[of], 1700000000000 + (int64_t)beat * 10000, &value) != NE_OK) {
                while (ne_maintain(store) == NE_OK) {
                }
                start = flash_memory.programmed_bytes;
                CHECK(ne_insert(store, &series[of], 1700000000000 + (int64_t)beat * 10000, &value) == NE_OK);
            }
            hot_bytes += flash_memory.programmed_bytes - start;
        }
        programs = flash_memory.programs;
        erases = flash_memory.erases;
        ne_seal(store);
        while (ne_maintain(store) == NE_OK) {
        }
        CHECK(ne_usage_of(store, &usage) == NE_OK);
        flash = nor_flash(&flash_memory);
        printf("costs, %u series, sectors of %u bytes: %.1f bytes a row hot, %.0f programs and %.1f erases in 1000 rows, %u bytes in sealed pages, arena %zu bytes\n",
               count, flash.sector_bytes, (double)hot_bytes / rows, 1000.0 * (double)programs / rows, 1000.0 * (double)erases / rows,
               usage.sealed_bytes, ne_arena_bytes(&flash, &options));
        {
            ne_query query = {NULL, NULL, 0, "t", INT64_MIN, INT64_MAX};
            printf("    %.2f bytes a sealed row\n", (double)usage.sealed_bytes / count_rows(store, &query));
        }
    }
}

int main(void) {
    rows_behind_a_seal_and_a_start_stay();
    batches_come_back();
    rollups_are_those_of_the_rows();
    filters_choose_series_and_times();
    two_cursors_do_not_disturb_each_other();
    decimals_have_the_bytes_of_the_format();
    rows_come_between_those_that_are_read();
    ticks_become_times_when_the_clock_is_known();
    wear_is_even_and_old_rows_go();
    full_flash_refuses_and_loses_nothing();
    bad_arguments_are_refused();
    what_is_accepted_can_be_sealed();
    costs();
    return 0;
}
