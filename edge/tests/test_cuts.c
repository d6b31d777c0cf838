/* Power cuts: lives of a store, cut after every byte that is programmed and inside every erase.
 *
 * Before each step of a life the flash and the arena are kept; then the step runs once for every byte that it programs, cut
 * after that byte, the store is opened again and its rows are compared with a model: what was acknowledged is there, what was
 * never written is not, and the rows of the interrupted call are there whole frames at a time or not. Of some cuts the life
 * goes on, of some the recovery is cut too. Rows are a function of their number, so that a wrong value is seen as well.
 *
 * Usage: test_cuts [cuts] [seed]. Prints the seed that repeats a failure.
 */
#include "ne_internal.h"
#include "nor.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROWS_MAX 6000u
#define ARENA_BYTES 16384u

static uint64_t seed, state;

/* What the lives had in them: a test without these would prove little. */
static uint64_t steps[5], dropped_sectors, sealed_pages, later_parts;

static uint64_t draw(void) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static void fail(const char *what, uint64_t a, uint64_t b) {
    printf("FAILED: %s (%" PRIu64 ", %" PRIu64 "); repeat with seed %" PRIu64 "\n", what, a, b, seed);
    exit(1);
}

/* ---- rows ---- */

static ne_tag tags[4][2] = {{{"room", "hall"}, {"host", "a 1"}},
                            {{"room", "attic,2"}, {"host", "b"}},
                            {{"room", "cellar"}, {"host", "c=\\3"}},
                            {{"host", "d"}, {"room", "yard"}}};
static const ne_field number_fields[2] = {{"v", NE_INT}, {"temperature", NE_FLOAT}};
static const ne_field text_fields[3] = {{"v", NE_INT}, {"on", NE_BOOL}, {"note", NE_TEXT}};

#define SERIES 6u
static ne_series all[SERIES];

static void make_series(void) {
    unsigned index;
    memset(all, 0, sizeof all);
    for (index = 0; index < SERIES; index++) {
        all[index].table = index < 4 ? "climate" : "log book";
        all[index].tags = tags[index % 4];
        all[index].tag_count = 2;
        all[index].fields = index < 4 ? number_fields : text_fields;
        all[index].field_count = index < 4 ? 2 : 3;
    }
}

static unsigned series_of(uint32_t id) {
    return id * 2654435761u >> 28 < 11 ? (id / 7) % 4 : 4 + id % 2;
}

static int64_t time_of(uint32_t id) {
    /* Seconds as a rule, some rows late. */
    return 1700000000000 + (int64_t)id * 1000 - (id % 17 == 3 ? 60000 : 0);
}

static double temperature_of(uint32_t id) {
    return id % 97 == 5 ? -0.0 : 20.0 + (double)(id * 2654435761u >> 24) / (id / 500 % 2 ? 100.0 : 16.0);
}

static void values_of(uint32_t id, ne_value *out, char *text) {
    out[0].integer = id;
    if (series_of(id) < 4) {
        out[1].number = temperature_of(id);
    } else {
        out[1].integer = id % 3 == 0;
        out[2].text.length = (uint32_t)sprintf(text, "note %u of %s %08x%08x", id, id % 5 ? "many" : "\xc3\xa9\xe6\xb0\xb4", id * 2654435761u, id * 40503u);
        out[2].text.bytes = text;
    }
}

/* ---- what is there ---- */

typedef struct {
    uint8_t *has;
    uint32_t count;
} found;

/* Reads every row by its number; every value must be that of the number. */
static void read_all(ne_store *store, found *out, bool all_fields) {
    static const char *const fields[4] = {"v", "temperature", "on", "note"};
    unsigned field;
    memset(out->has, 0, ROWS_MAX);
    out->count = 0;
    for (field = 0; field < (all_fields ? 4u : 1u); field++) {
        ne_query query = {NULL, NULL, 0, fields[field], INT64_MIN, INT64_MAX};
        ne_cursor cursor;
        ne_row row;
        ne_status status = ne_query_open(store, &query, &cursor);
        uint32_t rows = 0, expected = 0, id;
        while (status == NE_OK && (status = ne_query_next(store, &cursor, &row)) == NE_OK) {
            rows++;
            if (field == 0) {
                id = (uint32_t)row.value.integer;
                if (row.value.integer < 0 || id >= ROWS_MAX || row.type != NE_INT || row.time != time_of(id)) {
                    fail("a row that was never written", id, (uint64_t)row.time);
                }
                if (out->has[id]) {
                    fail("a row twice", id, 0);
                }
                out->has[id] = 1;
                out->count++;
                if ((series_of(id) < 4) != (memcmp(row.series, "climate,", 8) == 0)) {
                    fail("a row of another series", id, 0);
                }
            } else {
                /* Times are those of one number or, if that is late, of two. */
                uint32_t near = (uint32_t)((row.time - 1700000000000) / 1000), late = near + 60;
                char text[64];
                ne_value values[3];
                bool same = false;
                uint32_t candidate[2], index;
                candidate[0] = near;
                candidate[1] = late;
                for (index = 0; index < 2; index++) {
                    id = candidate[index];
                    if (id >= ROWS_MAX || !out->has[id] || time_of(id) != row.time || (series_of(id) < 4) != (field == 1)) {
                        continue;
                    }
                    values_of(id, values, text);
                    if (field == 1) {
                        same = same || memcmp(&row.value.number, &values[1].number, 8) == 0;
                    } else if (field == 2) {
                        same = same || row.value.integer == values[1].integer;
                    } else {
                        same = same || (row.value.text.length == values[2].text.length &&
                                        memcmp(row.value.text.bytes, text, row.value.text.length) == 0);
                    }
                }
                if (!same) {
                    fail("a value that was never written", field, near);
                }
            }
        }
        if (status != NE_END) {
            fail("a query ended with an error", (uint64_t)-status, field);
        }
        for (id = 0; field > 0 && id < ROWS_MAX; id++) {
            expected += out->has[id] && (series_of(id) < 4) == (field == 1);
        }
        if (field > 0 && rows != expected) {
            fail("rows of a field are missing", rows, expected);
        }
    }
}

/* ---- steps of a life ---- */

typedef struct {
    uint8_t kind; /* 0 insert, 1 insert rows, 2 maintain, 3 seal, 4 open again */
    uint32_t from, rows;
} step;

static ne_status run(ne_store *store, const step *it, uint32_t *acknowledged) {
    int64_t times[64];
    static ne_value values[64 * 3];
    static char texts[64][64];
    uint32_t row;
    size_t stored = 0;
    ne_status status;
    *acknowledged = 0;
    switch (it->kind) {
    case 0:
    case 1: {
        ne_series *series = &all[series_of(it->from)];
        size_t fields = series->field_count;
        for (row = 0; row < it->rows; row++) {
            times[row] = time_of(it->from + row);
            values_of(it->from + row, values + row * fields, texts[row]);
        }
        status = it->rows == 1 ? ne_insert(store, series, times[0], values)
                               : ne_insert_rows(store, series, times, values, it->rows, &stored);
        *acknowledged = it->rows == 1 ? status == NE_OK : (uint32_t)stored;
        return status;
    }
    case 2:
        return ne_maintain(store);
    default:
        return ne_seal(store);
    }
}

static nor now, kept;
static uint8_t arena[ARENA_BYTES], kept_arena[ARENA_BYTES];
static ne_options options;
static uint64_t cuts, wanted_cuts;

static ne_store *open_store(void) {
    ne_flash flash = nor_flash(&now);
    ne_store *store = NULL;
    ne_status status;
    make_series();
    status = ne_open(&store, &flash, &options, arena, sizeof arena);
    if (status != NE_OK && !now.is_off) {
        fail("opening failed", (uint64_t)-status, ne_arena_bytes(&flash, &options));
    }
    return status == NE_OK ? store : NULL;
}

static void check_no_violation(void) {
    if (now.violations != 0) {
        fail("a unit was programmed twice, or outside its sector", now.violations, now.unit_bytes);
    }
}

/* `must` rows are there; others only if they are of the interrupted step. `may_go`: rows that the step gives up. */
static void compare(const found *is, const found *must, const uint8_t *may_go, const step *it) {
    uint32_t id;
    bool gap = false;
    for (id = 0; id < ROWS_MAX; id++) {
        bool in_step = it->kind <= 1 && id >= it->from && id < it->from + it->rows;
        if (must->has[id] && !is->has[id] && !(may_go != NULL && may_go[id])) {
            fail("an acknowledged row is lost", id, it->kind);
        }
        if (is->has[id] && !must->has[id] && !in_step) {
            fail("a row came back", id, it->kind);
        }
        if (in_step) {
            if (is->has[id] && gap) {
                fail("rows of a call are there without those before them", id, it->rows);
            }
            gap = gap || !is->has[id];
        }
    }
}

static uint8_t has_before[ROWS_MAX], has_after[ROWS_MAX], has_cut[ROWS_MAX], has_again[ROWS_MAX], gone[ROWS_MAX];

/* What happens after a cut: opened, compared, opened again, and now and then lived on. */
static void recover(const found *before, const uint8_t *may_go, const step *it, uint32_t *next_id) {
    found is = {has_cut, 0}, again = {has_again, 0};
    ne_store *store;
    now.is_off = false;
    now.left = UINT64_MAX;
    store = open_store();
    read_all(store, &is, cuts % 64 == 0);
    compare(&is, before, may_go, it);
    if (cuts % 16 == 0) {
        /* A second opening finds the same, and upkeep and writing go on, with a cut of their own now and then. */
        uint32_t more;
        if (cuts % 48 == 0) {
            now.left = draw() % 400;
        }
        for (more = 0; more < 12 && !now.is_off; more++) {
            uint32_t acknowledged;
            step on = {(uint8_t)(more % 3 == 0 ? 0 : 2), *next_id + 70 + more, 1};
            ne_status status = run(store, &on, &acknowledged);
            if (on.kind == 0 && (acknowledged || now.is_off)) {
                is.has[on.from] = 2;
            }
            if (status < 0 && status != NE_FULL && !now.is_off) {
                fail("a store that was cut does not go on", (uint64_t)-status, on.kind);
            }
        }
        now.is_off = false;
        now.left = UINT64_MAX;
        store = open_store();
        read_all(store, &again, cuts % 64 == 0);
        if (may_go == NULL) {
            uint32_t id;
            ne_usage usage;
            ne_usage_of(store, &usage);
            for (id = 0; id < ROWS_MAX; id++) {
                /* Upkeep may have given up the oldest rows if it was short of room. */
                if (again.has[id] && !is.has[id]) {
                    fail("a row came back after recovery", id, 0);
                }
                if (is.has[id] == 1 && !again.has[id] && usage.free > 4) {
                    fail("a row was lost after recovery", id, usage.free);
                }
            }
        }
    }
    check_no_violation();
    cuts++;
}

static void life(uint32_t sector_bytes, uint32_t sectors, uint32_t unit) {
    found before = {has_before, 0}, after = {has_after, 0};
    uint32_t id = 0, dropped = 0, acknowledged;
    ne_store *store;
    nor_init(&now, sector_bytes, sectors, unit);
    store = open_store();
    while (ne_maintain(store) == NE_OK) {
    }
    store = open_store();
    memset(has_before, 0, sizeof has_before);
    while (id + 200 < ROWS_MAX && dropped < 3 * sectors && cuts < wanted_cuts) {
        step it = {0, 0, 0};
        uint64_t dice = draw() % 100, start, bytes, cut;
        ne_status status;
        ne_usage usage;
        const uint8_t *may_go = NULL;
        if (dice < 60) {
            it.kind = 0;
            it.rows = 1;
        } else if (dice < 70) {
            it.kind = 1;
            it.rows = 2 + (uint32_t)(draw() % 40);
        } else if (dice < 97) {
            it.kind = 2;
        } else {
            it.kind = dice < 98 ? 3 : 4;
        }
        it.from = id;
        if (it.kind == 1) {
            /* Rows of one call are of one series. */
            uint32_t rows;
            for (rows = 1; rows < it.rows && series_of(id + rows) == series_of(id); rows++) {
            }
            it.rows = rows;
        }
        steps[it.kind]++;
        if (it.kind == 4) {
            uint64_t page = 0;
            uint32_t address, page_bytes;
            store = open_store();
            while (ne_next_page(store, &page, &address, &page_bytes) == NE_OK) {
                sealed_pages++;
                later_parts += ne_get16(now.bytes + address + 6) > 0;
            }
            continue;
        }
        ne_usage_of(store, &usage);
        memcpy(&kept, &now, sizeof now);
        memcpy(kept_arena, arena, sizeof arena);
        start = now.programmed_bytes + ERASE_STEPS * now.erases;
        status = run(store, &it, &acknowledged);
        if (status == NE_FULL) {
            it.kind = 2; /* what was acknowledged of it counts below */
        } else if (status < 0) {
            fail("a step failed without a cut", (uint64_t)-status, it.kind);
        }
        bytes = now.programmed_bytes + ERASE_STEPS * now.erases - start;
        read_all(store, &after, draw() % 16 == 0);
        if (it.kind <= 1 || status == NE_FULL) {
            uint32_t row;
            for (row = 0; row < acknowledged; row++) {
                if (!has_after[id + row]) {
                    fail("an acknowledged row cannot be read", id + row, 0);
                }
            }
            if (after.count != before.count + acknowledged) {
                fail("rows changed with an insert", after.count, before.count + acknowledged);
            }
        } else if (after.count != before.count) {
            uint32_t row;
            if (usage.free > 2 || usage.dirty > 0 || after.count > before.count) {
                fail("rows went although there was room", after.count, before.count);
            }
            for (row = 0; row < ROWS_MAX; row++) {
                gone[row] = has_before[row] && !has_after[row];
            }
            may_go = gone;
            dropped++;
            dropped_sectors++;
        }
        if (status != NE_FULL) {
            static nor done;
            static uint8_t done_arena[ARENA_BYTES];
            memcpy(&done, &now, sizeof now);
            memcpy(done_arena, arena, sizeof arena);
            for (cut = 0; cut < bytes && cuts < wanted_cuts; cut++) {
                uint32_t ignored;
                memcpy(&now, &kept, sizeof now);
                memcpy(arena, kept_arena, sizeof arena);
                now.left = cut;
                now.random += draw();
                run(store, &it, &ignored);
                if (!now.is_off) {
                    fail("a step programs less when it is cut", cut, bytes);
                }
                recover(&before, may_go, &it, &id);
            }
            memcpy(&now, &done, sizeof now);
            memcpy(arena, done_arena, sizeof arena);
            make_series();
        }
        memcpy(has_before, has_after, sizeof has_before);
        before.count = after.count;
        id += acknowledged;
        if (status == NE_FULL) {
            while ((status = ne_maintain(store)) == NE_OK) {
                ne_usage_of(store, &usage);
                if (usage.free >= 3) {
                    break;
                }
            }
            read_all(store, &before, false);
        }
        check_no_violation();
    }
    check_no_violation();
}

int main(int count, char **words) {
    static const uint32_t units[6] = {1, 32, 4, 8, 16, 2};
    unsigned turn;
    wanted_cuts = count > 1 ? strtoull(words[1], NULL, 10) : 20000;
    seed = count > 2 ? strtoull(words[2], NULL, 10) : 1;
    state = seed * 0x9e3779b97f4a7c15u + 1;
    options.block_rows = 32;
    options.page_bytes = 960;
    options.series_max = 8;
    for (turn = 0; cuts < wanted_cuts; turn++) {
        uint64_t begun = cuts, all_cuts = wanted_cuts;
        /* Each kind of flash gets its share. */
        wanted_cuts = begun + (all_cuts - begun > all_cuts / 12 ? all_cuts / 12 + 1 : all_cuts - begun);
        life(turn % 3 == 2 ? 4096 : 1024, 6 + turn % 5, units[turn % 6]);
        wanted_cuts = all_cuts;
        if (cuts == begun) {
            fail("a life without a cut", turn, 0);
        }
    }
    printf("%" PRIu64 " rows inserted alone, %" PRIu64 " calls with several, %" PRIu64 " steps of upkeep, %" PRIu64
           " reopened; %" PRIu64 " sectors given up, %" PRIu64 " pages read, %" PRIu64 " of them not the first of a seal\n",
           steps[0], steps[1], steps[2], steps[4], dropped_sectors, sealed_pages, later_parts);
    if (wanted_cuts >= 200000 && (dropped_sectors < 20 || later_parts < 20 || steps[4] < 20)) {
        fail("the lives were too short to prove anything", dropped_sectors, later_parts);
    }
    printf("%" PRIu64 " power cuts survived, seed %" PRIu64 ": nothing lost, nothing invented, every unit programmed once\n", cuts,
           seed);
    return 0;
}
