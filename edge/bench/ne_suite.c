/* Suite `edge`: what operations of the library cost in programs, erases, reads and, where they can be counted, instructions.
 *
 * The tests are those that esp_idf_timeseries publishes figures of, with its values and names as far as they are known, and
 * those of a device's life that nobody publishes. The flash is an array that keeps the rules of NOR (each byte is programmed
 * once between two erases) and counts; its own instructions are left out. Nothing here measures time.
 */
#include "ne_counted.h"

/* ---- values ---- */

static uint32_t state;

static uint32_t draw(void) {
    state = state * 1664525u + 1013904223u;
    return state >> 8;
}

/* No library of mathematics: the sine by its series, to the last bits of a float at least. */
static float sine(float of) {
    const double pi = 3.14159265358979323846;
    double x = (double)of, term, sum;
    int n;
    while (x > pi) {
        x -= 2 * pi;
    }
    term = sum = x;
    for (n = 1; n < 14; n++) {
        term *= -x * x / (2 * n * (2 * n + 1));
        sum += term;
    }
    return (float)sum;
}

static const ne_field a_float[1] = {{"temperature", NE_FLOAT}};

/* ---- the reference's tests ---- */

static void single_inserts(void) {
    static const ne_tag tags[1] = {{"location", "sensor_1"}};
    ne_series series = series_of("metrics", tags, 1, a_float, 1);
    ne_store *store = fresh_large();
    account first, others;
    unsigned index;
    memset(&first, 0, sizeof first);
    memset(&others, 0, sizeof others);
    for (index = 0; index < 100; index++) {
        ne_value value;
        value.number = 20.0 + (double)index * 0.1;
        insert(store, &series, 1000 * (int64_t)index, &value, index == 0 ? &first : &others);
    }
    show("insert_first", 1, &first, 0);
    show("insert_single", 99, &others, 0);
}

static void bulk_inserts(void) {
    static const ne_tag two[2] = {{"location", "home"}, {"device", "sensor_001"}}, one[1] = {{"location", "lab"}};
    static const ne_tag counter[1] = {{"counter_id", "counter_001"}};
    static const ne_field a_value[1] = {{"value", NE_FLOAT}}, a_measurement[1] = {{"measurement", NE_FLOAT}}, a_count[1] = {{"count", NE_INT}};
    ne_series series = series_of("bulk_test", two, 2, a_value, 1);
    ne_store *store = fresh_large();
    account sum;
    unsigned index;
    for (index = 0; index < 100; index++) {
        it.times[index] = 1000 * (int64_t)index;
        it.values[index].number = 25.0 + (double)(sine((float)index * 0.1f) * 5.0f);
    }
    memset(&sum, 0, sizeof sum);
    insert_rows(store, &series, 100, &sum);
    show("insert_bulk_100", 100, &sum, 0);

    store = fresh_large();
    series = series_of("large_bulk_test", one, 1, a_measurement, 1);
    for (index = 0; index < 1000; index++) {
        it.times[index] = 1000 * (int64_t)index;
        it.values[index].number = (double)index * 0.01;
    }
    memset(&sum, 0, sizeof sum);
    insert_rows(store, &series, 1000, &sum);
    show("insert_bulk_1000", 1000, &sum, 0);

    store = fresh_large();
    series = series_of("counters", counter, 1, a_count, 1);
    for (index = 0; index < 500; index++) {
        it.times[index] = 1000 * (int64_t)index;
        it.values[index].integer = 10 * (int64_t)index;
    }
    memset(&sum, 0, sizeof sum);
    insert_rows(store, &series, 500, &sum);
    show("insert_integers_500", 500, &sum, 0);
}

static void many_fields(void) {
    static const ne_tag tags[1] = {{"system_id", "solar_001"}};
    static const ne_field fields[6] = {{"grid_import_w", NE_FLOAT},    {"grid_export_w", NE_FLOAT}, {"solar_w", NE_FLOAT},
                                       {"battery_charge_w", NE_FLOAT}, {"battery_discharge_w", NE_FLOAT}, {"house_w", NE_FLOAT}};
    ne_series series = series_of("solar", tags, 1, fields, 6);
    ne_store *store = fresh_large();
    account sum;
    unsigned index, field;
    for (index = 0; index < 288; index++) {
        float hour = (float)index / 12.0f;
        float sun = hour >= 6.0f && hour <= 18.0f ? sine((hour - 6.0f) * 3.14159f / 12.0f) : 0.0f;
        it.times[index] = 300000 * (int64_t)index;
        for (field = 0; field < 6; field++) {
            it.values[index * 6 + field].number = (double)(1000.0f * sun + (float)(draw() % 100));
        }
    }
    memset(&sum, 0, sizeof sum);
    insert_rows(store, &series, 288, &sum);
    show("insert_fields_6x288", 6 * 288, &sum, 0);
}

static void five_tags(void) {
    static const ne_tag tags[5] = {{"location", "building_a"}, {"floor", "3"}, {"room", "server_room"}, {"rack", "12"}, {"sensor", "temp_01"}};
    ne_series series = series_of("datacenter", tags, 5, a_float, 1);
    ne_store *store = fresh_large();
    account sum;
    unsigned index;
    for (index = 0; index < 100; index++) {
        it.times[index] = 1000 * (int64_t)index;
        it.values[index].number = 20.0 + (double)index * 0.1;
    }
    memset(&sum, 0, sizeof sum);
    insert_rows(store, &series, 100, &sum);
    show("insert_tags_5x100", 100, &sum, 0);
}

static void cold_and_warm(void) {
    static const ne_tag tags[1] = {{"device", "cache_test"}};
    ne_store *store = fresh_large();
    account cold, warm;
    unsigned index, round;
    memset(&cold, 0, sizeof cold);
    memset(&warm, 0, sizeof warm);
    for (round = 0; round < 5; round++) {
        /* Without what the caller's structure remembers the series is looked up by its names. */
        ne_series series = series_of("cache", tags, 1, a_float, 1);
        for (index = 0; index < 100; index++) {
            it.times[index] = 1000 * (int64_t)(100 * round + index);
            it.values[index].number = (double)(100 * round + index);
        }
        insert_rows(store, &series, 100, round == 0 ? &cold : &warm);
    }
    show("insert_cold_100", 100, &cold, 0);
    show("insert_warm_100", 400, &warm, 0);
}

static unsigned read_all(ne_store *store, const char *table, const char *field, account *to) {
    ne_query query = {NULL, NULL, 0, NULL, INT64_MIN, INT64_MAX};
    static ne_cursor cursor;
    ne_row row;
    ne_status status;
    unsigned rows = 0;
    query.table = table;
    query.field = field;
    begin();
    status = ne_query_open(store, &query, &cursor);
    while (status == NE_OK && (status = ne_query_next(store, &cursor, &row)) == NE_OK) {
        rows++;
    }
    end(to);
    if (status != NE_END) {
        fail("a query fails");
    }
    return rows;
}

static void queries(void) {
    static const ne_tag tags[1] = {{"location", "test_site"}};
    account read, ignored;
    unsigned index, hot;
    for (hot = 0; hot < 2; hot++) {
        ne_series series = series_of("query_test", tags, 1, a_float, 1);
        ne_store *store = fresh_large();
        for (index = 0; index < 100; index++) {
            it.times[index] = 1000 * (int64_t)index;
            it.values[index].number = (double)index;
        }
        memset(&ignored, 0, sizeof ignored);
        memset(&read, 0, sizeof read);
        insert_rows(store, &series, 100, &ignored);
        if (!hot) {
            ne_seal(store);
            upkeep(store, &ignored, &ignored);
        }
        if (read_all(store, "query_test", "temperature", &read) != 100) {
            fail("a query has other rows");
        }
        show(hot ? "query_100_hot" : "query_100_sealed", 100, &read, 0);
    }
}

static void seal_of(const char *name, const char *erases_name, unsigned points, unsigned kind) {
    static const ne_tag tags[1] = {{"source", "compaction_test"}};
    static const ne_field a_value[1] = {{"value", NE_FLOAT}};
    ne_series series = series_of("compact_test", tags, 1, a_value, 1);
    ne_store *store = fresh_large();
    account ignored, seals, erases;
    unsigned index;
    for (index = 0; index < points; index++) {
        it.times[index] = 1000 * (int64_t)index;
        it.values[index].number = kind == 0 ? (double)index : (double)(sine((float)index * 0.01f) * 100.0f);
    }
    memset(&ignored, 0, sizeof ignored);
    memset(&seals, 0, sizeof seals);
    memset(&erases, 0, sizeof erases);
    insert_rows(store, &series, points, &ignored);
    ne_seal(store);
    upkeep(store, &seals, &erases);
    show(name, points, &seals, 0);
    show(erases_name, points, &erases, 0);
}

static void seal_of_many_series(void) {
    static ne_series series[20];
    static ne_tag tags[20][1];
    static char names[20][12];
    ne_store *store = fresh_large();
    account inserts, seals, erases;
    unsigned index, of;
    memset(&inserts, 0, sizeof inserts);
    memset(&seals, 0, sizeof seals);
    memset(&erases, 0, sizeof erases);
    for (of = 0; of < 20; of++) {
        sprintf(names[of], "device_%u", of);
        tags[of][0].name = "device_id";
        tags[of][0].value = names[of];
        series[of] = series_of("multi_series_compact", tags[of], 1, a_float, 1);
        for (index = 0; index < 50; index++) {
            it.times[index] = (int64_t)(index * 20 + of) * 1000;
            it.values[index].number = 20.0 + (double)of + (double)(sine((float)index * 0.1f) * 5.0f);
        }
        insert_rows(store, &series[of], 50, &inserts);
    }
    ne_seal(store);
    upkeep(store, &seals, &erases);
    show("insert_20x50", 1000, &inserts, 0);
    show("seal_20x50", 1000, &seals, 0);
    show("seal_20x50_erases", 1000, &erases, 0);
}

static void seal_by_batches(void) {
    static const ne_tag tags[1] = {{"source", "incremental_test"}};
    static const ne_field a_value[1] = {{"value", NE_FLOAT}};
    ne_series series = series_of("incremental_test", tags, 1, a_value, 1);
    ne_store *store = fresh_large();
    account inserts, seals, erases;
    unsigned index, batch;
    memset(&inserts, 0, sizeof inserts);
    memset(&seals, 0, sizeof seals);
    memset(&erases, 0, sizeof erases);
    for (batch = 0; batch < 5; batch++) {
        for (index = 0; index < 100; index++) {
            it.times[index] = (int64_t)(100 * batch + index) * 1000;
            it.values[index].number = (double)(100 * batch + index);
        }
        insert_rows(store, &series, 100, &inserts);
        ne_seal(store);
        upkeep(store, &seals, &erases);
    }
    show("insert_5x100", 500, &inserts, 0);
    show("seal_5x100", 500, &seals, 0);
    show("seal_5x100_erases", 500, &erases, 0);
}

/* Values are those of it.list; the value of the line is the bytes of the page. */
static void codec(const char *encode, const char *decode, uint8_t type, size_t n) {
    account written, read;
    ne_writer out;
    ne_scale scale;
    ne_page_info info;
    out.start = out.at = it.page;
    out.end = it.page + sizeof it.page;
    out.full = false;
    memcpy(it.again, it.list, 8 * n);
    memset(&written, 0, sizeof written);
    memset(&read, 0, sizeof read);
    begin();
    ne_page_encode(&out, type, it.again, n, &scale, it.encode_room);
    end(&written);
    begin();
    if (out.full || ne_page_decode(it.page, (size_t)(out.at - it.page), it.again, 1024, it.spare, &info) != NE_OK) {
        fail("a column does not decode");
    }
    end(&read);
    if (memcmp(it.again, it.list, 8 * n) != 0) {
        fail("a column has other values");
    }
    show(encode, n, &written, (uint64_t)(out.at - it.page));
    show(decode, n, &read, (uint64_t)(out.at - it.page));
}

static void codecs(void) {
    unsigned index;
    for (index = 0; index < 1000; index++) {
        it.list[index] = ne_from_double(20.0 + (double)sine((float)index * 0.01f) * 5.0 + (double)((float)(draw() % 100) / 100.0f));
    }
    codec("encode_floats", "decode_floats", NE_FLOAT, 1000);
    for (index = 0; index < 1000; index++) {
        it.list[index] = 1700000000000 + (uint64_t)index * 5000;
    }
    codec("encode_integers", "decode_integers", NE_INT, 1000);
    /* What a sensor says: steps of 0.01, and a walk of one step up or down. */
    for (index = 0; index < 1000; index++) {
        it.list[index] = ne_from_double((double)(2000 + (int)(draw() % 16)) / 100.0);
    }
    codec("encode_steps", "decode_steps", NE_FLOAT, 1000);
    {
        int walk = 2000;
        for (index = 0; index < 1000; index++) {
            walk += draw() % 2 ? 1 : -1;
            it.list[index] = ne_from_double((double)walk / 100.0);
        }
    }
    codec("encode_walk", "decode_walk", NE_FLOAT, 1000);
}

static void series_creation(void) {
    static ne_series series[500];
    static ne_tag tags[500][2];
    static char names[500][16];
    ne_options options = {0, 0, 0, 255};
    ne_store *store = fresh(4096, NE_SUITE_FLASH / 4096, &options);
    account first, last_of_20, first_100, last_100;
    unsigned index;
    memset(&first, 0, sizeof first);
    memset(&last_of_20, 0, sizeof last_of_20);
    memset(&first_100, 0, sizeof first_100);
    memset(&last_100, 0, sizeof last_100);
    for (index = 0; index < 500; index++) {
        ne_value value;
        account one;
        memset(&one, 0, sizeof one);
        value.number = 20.0;
        sprintf(names[index], "sensor_%03u", index);
        tags[index][0].name = "location";
        tags[index][0].value = "site";
        tags[index][1].name = "device";
        tags[index][1].value = names[index];
        series[index] = series_of("series_test", tags[index], 2, a_float, 1);
        insert(store, &series[index], 1000 * (int64_t)index, &value, &one);
        if (index < 5 || (index >= 15 && index < 20)) {
            add(index < 5 ? &first : &last_of_20, one.sum);
        }
        if (index < 100 || index >= 400) {
            add(index < 100 ? &first_100 : &last_100, one.sum);
        }
    }
    show("series_1_to_5", 5, &first, 0);
    show("series_16_to_20", 5, &last_of_20, 0);
    show("series_1_to_100", 100, &first_100, 0);
    show("series_401_to_500", 100, &last_100, 0);
}

/* ---- what nobody publishes ---- */

/* A row each 10 s of each of 20 sensors, in steps of 0.01. The value of the first line is the bytes that rows take when they
 * are durable, that of the second those in pages. */
static void sensors(uint32_t sector_bytes, unsigned rows, const char *insert_name, const char *seal_name) {
    static ne_series series[20];
    static ne_tag tags[20][1];
    static char names[20][8];
    ne_store *store = fresh(sector_bytes, (1u << 18) / sector_bytes, NULL);
    account inserts, seals, ignored;
    ne_usage usage;
    cost begun = it.now;
    unsigned of, beat, row, points = 0;
    memset(&inserts, 0, sizeof inserts);
    memset(&seals, 0, sizeof seals);
    for (of = 0; of < 20; of++) {
        sprintf(names[of], "s%u", of);
        tags[of][0].name = "id";
        tags[of][0].value = names[of];
        series[of] = series_of("climate", tags[of], 1, a_float, 1);
    }
    for (beat = 0; beat < 256; beat += rows) {
        for (of = 0; of < 20; of++) {
            size_t stored;
            for (row = 0; row < rows; row++) {
                it.times[row] = 1700000000000 + (int64_t)(beat + row) * 10000;
                it.values[row].number = (double)(1800 + 20 * (int)of + (int)(draw() % 7)) / 100;
            }
            begin();
            if (ne_insert_rows(store, &series[of], it.times, it.values, rows, &stored) != NE_OK) {
                fail("rows are not stored");
            }
            end(&inserts);
            points += rows;
            upkeep(store, &seals, &seals);
        }
    }
    show(insert_name, points, &inserts, inserts.sum.bytes);
    ne_seal(store);
    upkeep(store, &seals, &seals);
    ne_usage_of(store, &usage);
    memset(&ignored, 0, sizeof ignored);
    if (read_all(store, NULL, "temperature", &ignored) != points) {
        fail("rows of sensors are missing");
    }
    /* Everything that was programmed and erased for these rows, seals included. */
    seals.sum.programs = it.now.programs - begun.programs;
    seals.sum.pages = it.now.pages - begun.pages;
    seals.sum.bytes = it.now.bytes - begun.bytes;
    seals.sum.erases = it.now.erases - begun.erases;
    show(seal_name, points, &seals, usage.sealed_bytes);
}

static void rollup_of_a_month(void) {
    static const ne_tag tags[1] = {{"room", "attic"}};
    ne_series series = series_of("climate", tags, 1, a_float, 1);
    ne_store *store = fresh_large();
    ne_query query = {"climate", NULL, 0, "temperature", 0, INT64_MAX};
    static ne_rollup hours[31 * 24];
    account ignored, rollup, rows;
    unsigned index;
    uint64_t count = 0;
    memset(&ignored, 0, sizeof ignored);
    memset(&rollup, 0, sizeof rollup);
    memset(&rows, 0, sizeof rows);
    /* One row in half a minute: 86,400 of 30 days, blocks of an hour. */
    for (index = 0; index < 86400; index += 120) {
        unsigned row;
        for (row = 0; row < 120; row++) {
            it.times[row] = (int64_t)(index + row) * 30000;
            it.values[row].number = (double)(2000 + (int)(draw() % 300)) / 100;
        }
        insert_rows(store, &series, 120, &ignored);
        ne_seal(store);
        while (ne_maintain(store) == NE_OK) {
        }
    }
    begin();
    if (ne_rollup_of(store, &query, 3600000, hours, 720) != NE_OK) {
        fail("a rollup fails");
    }
    end(&rollup);
    for (index = 0; index < 720; index++) {
        count += hours[index].count;
    }
    if (count != 86400) {
        fail("a rollup has other rows");
    }
    show("rollup_month_by_hour", 720, &rollup, 0);
    if (read_all(store, "climate", "temperature", &rows) != 86400) {
        fail("a month has other rows");
    }
    show("query_month", 86400, &rows, 0);
}

static void mounts(void) {
    static const ne_tag tags[1] = {{"room", "attic"}};
    ne_series series = series_of("climate", tags, 1, a_float, 1);
    ne_store *store = fresh(4096, 64, NULL);
    ne_flash flash;
    ne_usage usage;
    account ignored, mount;
    unsigned round;
    memset(&ignored, 0, sizeof ignored);
    memset(&mount, 0, sizeof mount);
    for (round = 0; round < 400; round++) {
        unsigned row;
        for (row = 0; row < 100; row++) {
            it.times[row] = (int64_t)(100 * round + row) * 1000;
            it.values[row].number = ne_to_double((uint64_t)draw() << 38 | (uint64_t)draw() << 14 | 1023) / 3;
        }
        insert_rows(store, &series, 100, &ignored);
        while (ne_maintain(store) == NE_OK) {
        }
        ne_usage_of(store, &usage);
        if (usage.sealed > 56) {
            break;
        }
    }
    ne_usage_of(store, &usage);
    flash = flash_of();
    begin();
    if (ne_open(&store, &flash, NULL, it.arena, it.arena_bytes) != NE_OK) {
        fail("a full store does not open");
    }
    end(&mount);
    show("mount_64_sectors", 64, &mount, usage.sealed);
}

static void wear(void) {
    ne_series series = series_of("m", NULL, 0, a_float, 1);
    ne_store *store = fresh(1024, 16, NULL);
    ne_usage usage;
    account inserts;
    cost begun = it.now;
    int64_t time = 0;
    memset(&inserts, 0, sizeof inserts);
    while (it.now.erases - begun.erases < 100 * 16) {
        ne_value value;
        value.number = (double)(draw() % 4096) / 16;
        insert(store, &series, time++, &value, &inserts);
    }
    ne_usage_of(store, &usage);
    show("wear_100_turns", (uint64_t)time, &inserts, usage.erases_max - usage.erases_min);
}

static void memory(const char *name, uint32_t sectors) {
    ne_flash flash;
    account none;
    memset(&none, 0, sizeof none);
    it.sector_bytes = 4096;
    it.sectors = sectors;
    flash = flash_of();
    show(name, sectors, &none, ne_arena_bytes(&flash, NULL));
}

size_t ne_suite(uint8_t *bytes, char *out, size_t room, uint32_t (*instructions)(void)) {
    memset(&it, 0, sizeof it);
    it.flash = bytes;
    it.programmed = bytes + NE_SUITE_FLASH;
    it.instructions = instructions;
    it.out = out;
    it.room = room;
    state = 1;
    print("figure\tpoints\toperations\tprograms\tpages\tbytes\terases\treads\tread_bytes\tflash_us\tworst_flash_us\tinstructions\t"
          "worst_instructions\tvalue\n");
    single_inserts();
    bulk_inserts();
    many_fields();
    five_tags();
    cold_and_warm();
    queries();
    seal_of("seal_500", "seal_500_erases", 500, 0);
    seal_of("seal_2000", "seal_2000_erases", 2000, 1);
    seal_of_many_series();
    seal_by_batches();
    codecs();
    series_creation();
    sensors(4096, 1, "sensors_single", "sensors_single_sealed");
    sensors(4096, 16, "sensors_bulk", "sensors_bulk_sealed");
    sensors(4096, 32, "sensors_bulk_32", "sensors_bulk_32_sealed");
    sensors(16384, 1, "sensors_single_16k", "sensors_single_16k_sealed");
    rollup_of_a_month();
    mounts();
    wear();
    memory("arena_64_sectors", 64);
    memory("arena_256_sectors", 256);
    memory("arena_1024_sectors", 1024);
    if (it.broken != NULL) {
        strncpy(out, it.broken, room - 1);
        out[room - 1] = 0;
        return 0;
    }
    return it.used;
}
