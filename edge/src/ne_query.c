/* Reading rows: cursors and rollups, block by block, with one page and two columns in memory. */
#include "ne_store.h"

#include <string.h>

enum { STAGE_SEALED = 0, STAGE_HOT = 1, STAGE_END = 2 };

/* ---- which series ---- */

/* Compares the part of a key up to an unescaped `,` or `=` with a text, and moves behind that. */
static bool part_is(const uint8_t **at, const uint8_t *end, const char *text) {
    bool same = true;
    while (*at < end && **at != ',' && **at != '=') {
        uint8_t byte = *(*at)++;
        if (byte == '\\' && *at < end) {
            byte = *(*at)++;
        }
        same = same && *text != 0 && (uint8_t)*text == byte;
        if (same) {
            text++;
        }
    }
    if (*at < end) {
        (*at)++;
    }
    return same && *text == 0;
}

static bool key_matches(const ne_query *query, const uint8_t *key, uint32_t bytes) {
    const uint8_t *end = key + bytes, *tags = key;
    size_t index;
    bool is_table = part_is(&tags, end, query->table == NULL ? "" : query->table);
    if (query->table != NULL && !is_table) {
        return false;
    }
    for (index = 0; index < query->tag_count; index++) {
        const uint8_t *at = tags;
        bool found = false;
        while (at < end && !found) {
            bool is_name = part_is(&at, end, query->tags[index].name);
            bool is_value = part_is(&at, end, query->tags[index].value);
            found = is_name && is_value;
        }
        if (!found) {
            return false;
        }
    }
    return true;
}

static bool name_is(const char *name, const uint8_t *bytes, uint32_t n) {
    return strlen(name) == n && memcmp(name, bytes, n) == 0;
}

static bool is_in(const ne_query *query, int64_t time) {
    return time >= query->start && time < query->end;
}

static int64_t plus(int64_t a, int64_t b) {
    return (int64_t)((uint64_t)a + (uint64_t)b);
}

/* ---- sealed blocks ---- */

typedef struct {
    const uint8_t *key, *times, *field, *statistics, *end;
    uint32_t key_bytes, rows, times_bytes, field_bytes, next;
    int64_t min, max;
    bool matches;
} block;

/* Takes the block at `at` of the page in memory apart. */
static ne_status parse_block(ne_store *store, const ne_cursor *cursor, uint32_t at, block *out) {
    ne_reader in = {store->page + at, store->page + cursor->page_bytes - 4, false};
    uint64_t key_bytes = ne_take_varint(&in), rows, fields;
    const uint8_t *word;
    memset(out, 0, sizeof *out);
    out->key = ne_take(&in, (size_t)key_bytes);
    out->key_bytes = (uint32_t)key_bytes;
    rows = ne_take_varint(&in);
    fields = ne_take_varint(&in);
    out->min = plus(plus(cursor->base, ne_take_zigzag(&in)), cursor->shift);
    out->max = plus(out->min, (int64_t)ne_take_varint(&in));
    word = ne_take(&in, 2);
    out->times_bytes = in.bad ? 0 : ne_get16(word);
    out->times = ne_take(&in, out->times_bytes);
    if (in.bad || rows == 0 || rows > 1024 || fields == 0 || fields > NE_FIELDS_MAX) {
        return NE_CORRUPT;
    }
    out->rows = (uint32_t)rows;
    out->matches = key_matches(cursor->query, out->key, out->key_bytes);
    for (; fields > 0; fields--) {
        const uint8_t *name_bytes = ne_take(&in, 1), *name, *page, *form, *statistics;
        uint32_t bytes, left;
        name = in.bad ? in.end : ne_take(&in, *name_bytes);
        word = ne_take(&in, 2);
        bytes = in.bad ? 0 : ne_get16(word);
        page = ne_take(&in, bytes);
        statistics = in.at;
        form = ne_take(&in, 1);
        for (left = in.bad || *form == 0 ? 0 : 5; left > 0; left--) {
            ne_take_varint(&in);
        }
        if (in.bad || *form > 1) {
            return NE_CORRUPT;
        }
        if (out->field == NULL && name_is(cursor->query->field, name, *name_bytes)) {
            out->field = page;
            out->field_bytes = bytes;
            out->statistics = statistics;
            out->end = in.at;
        }
    }
    out->matches = out->matches && out->field != NULL && out->max >= cursor->query->start && out->min < cursor->query->end;
    out->next = (uint32_t)(in.at - store->page);
    return NE_OK;
}

/* Reads the page of the cursor into memory; NE_CORRUPT if it is damaged. */
static ne_status load_page(ne_store *store, ne_cursor *cursor) {
    ne_status status;
    if (store->owner == cursor) {
        return NE_OK;
    }
    store->owner = cursor;
    if (cursor->page_bytes > store->page_max) {
        store->owner = NULL;
        return NE_UNSUPPORTED;
    }
    status = ne_read_at(store, cursor->sector, cursor->at, store->page, cursor->page_bytes);
    if (status == NE_OK &&
        ne_crc32c(0, store->page, cursor->page_bytes - 4) != ne_get32(store->page + cursor->page_bytes - 4)) {
        status = NE_CORRUPT;
    }
    if (status != NE_OK) {
        store->owner = NULL;
    }
    return status;
}

/* Decodes times and values of a block. */
static ne_status load_block(ne_store *store, const ne_cursor *cursor, const block *of, uint8_t *type) {
    ne_page_info info;
    uint32_t row;
    ne_status status = ne_page_decode(of->times, of->times_bytes, store->times, store->block_rows, NULL, &info);
    if (status != NE_OK || info.rows != of->rows || info.type != NE_INT || info.present != NULL) {
        return status == NE_OK ? NE_CORRUPT : status;
    }
    for (row = 0; row < of->rows; row++) {
        store->times[row] += (uint64_t)cursor->base + (uint64_t)cursor->shift;
    }
    status = ne_page_decode(of->field, of->field_bytes, store->values, store->block_rows, NULL, &info);
    if (status != NE_OK || info.rows != of->rows || info.present != NULL) {
        return status == NE_OK ? NE_CORRUPT : status;
    }
    *type = info.type;
    return NE_OK;
}

/* Moves to the next page that counts and is not out of the query's time; NE_END if there is none. */
static ne_status next_page(ne_store *store, ne_cursor *cursor) {
    ne_page_head head;
    for (;;) {
        ne_status status;
        if (cursor->sector == NE_NONE) {
            cursor->sector = ne_sector_after(store, NE_SECTOR_SEALED, cursor->sequence);
            if (cursor->sector == NE_NONE) {
                return NE_END;
            }
            cursor->sequence = store->sequences[cursor->sector];
            cursor->at = store->content;
        } else {
            cursor->at += ne_pad(store, cursor->page_bytes);
        }
        status = ne_page_head_at(store, cursor->sector, cursor->at, &head);
        cursor->page_bytes = 0;
        if (status == NE_IO) {
            return status;
        }
        if (status != NE_OK) {
            store->damaged += status == NE_CORRUPT;
            cursor->sector = NE_NONE;
            continue;
        }
        cursor->page_bytes = head.bytes;
        cursor->base = head.base;
        cursor->boot = head.boot;
        cursor->shift = ne_shift_of(store, head.boot);
        cursor->block = NE_PAGE_HEAD;
        cursor->left = head.blocks;
        store->owner = store->owner == cursor ? NULL : store->owner;
        if (plus(head.max, cursor->shift) < cursor->query->start || plus(head.min, cursor->shift) >= cursor->query->end ||
            !ne_page_counts(store, cursor->sector, cursor->at, &head)) {
            cursor->left = 0;
            continue;
        }
        status = load_page(store, cursor);
        if (status != NE_CORRUPT) {
            return status;
        }
        store->damaged++;
        cursor->left = 0;
    }
}

/* The next block that may have rows of the query, its page in memory; `cursor->block` is behind it then. */
static ne_status next_block(ne_store *store, ne_cursor *cursor, block *out) {
    for (;;) {
        ne_status status = NE_OK;
        if (cursor->left == 0) {
            status = next_page(store, cursor);
            if (status != NE_OK) {
                return status;
            }
            continue;
        }
        status = load_page(store, cursor);
        if (status == NE_OK) {
            status = parse_block(store, cursor, cursor->block, out);
        }
        if (status == NE_CORRUPT) {
            store->damaged++;
            cursor->left = 0;
            continue;
        }
        if (status != NE_OK) {
            return status;
        }
        cursor->key = cursor->block; /* where the block began, to read it again */
        cursor->block = out->next;
        cursor->left--;
        if (out->matches) {
            return NE_OK;
        }
    }
}

static void set_value(ne_row *row, uint8_t type, uint64_t bits, const uint8_t *text) {
    row->type = (ne_type)type;
    if (type == NE_FLOAT) {
        row->value.number = ne_to_double(bits);
    } else if (type >= NE_TEXT) {
        row->value.text.bytes = (const char *)text + (bits >> 32);
        row->value.text.length = (uint32_t)bits;
    } else {
        row->value.integer = (int64_t)bits;
    }
}

/* ---- hot rows ---- */

/* Adds the series whose definition is in store->frame to those of the query; its field is 0 if the query does not ask for it. False if
 * there is no room, because the sector was written with a larger series_max. */
static bool match_definition(ne_store *store, const ne_query *query, const ne_frame *frame) {
    const uint8_t *payload = store->frame + NE_FRAME_HEAD;
    ne_matched *match = &store->match[store->match_count];
    ne_definition of;
    unsigned field;
    if (store->match_count == store->series_max) {
        return false;
    }
    store->match_count++;
    match->at = (uint16_t)(frame->payload - NE_FRAME_HEAD);
    match->field = 0;
    if (!ne_take_definition(store, frame, &of) || !key_matches(query, payload + 1, of.key_bytes)) {
        return true;
    }
    for (field = 0; field < of.fields && match->field == 0; field++) {
        if (name_is(query->field, payload + of.names[field], of.name_bytes[field])) {
            match->field = (uint8_t)(field + 1);
        }
    }
    return true;
}

/* Matches the series that are defined before `cursor->at`, if another cursor used the room meanwhile. */
static ne_status load_match(ne_store *store, ne_cursor *cursor) {
    uint32_t at = store->content;
    ne_frame frame;
    if (store->owner == cursor) {
        return NE_OK;
    }
    store->match_count = 0;
    while (at < cursor->at) {
        ne_status status = ne_frame_at(store, cursor->sector, at, false, &frame);
        if (status != NE_OK) {
            return status == NE_END ? NE_CORRUPT : status;
        }
        if (frame.kind == NE_FRAME_SERIES && !match_definition(store, cursor->query, &frame)) {
            return NE_UNSUPPORTED;
        }
        at = frame.next;
    }
    store->owner = cursor;
    return NE_OK;
}

/* The definition of the series in store->defined, and its key. */
static ne_status load_definition(ne_store *store, const ne_cursor *cursor, uint8_t series) {
    ne_frame frame;
    ne_status status;
    if (store->defined_in == cursor->sequence && store->defined_series == series) {
        return NE_OK;
    }
    store->defined_in = 0;
    status = ne_definition_of(store, cursor->sector, series, &frame, &store->defined);
    if (status == NE_OK) {
        memcpy(store->shared.key, store->frame + NE_FRAME_HEAD + 1, store->defined.key_bytes);
        store->defined_in = cursor->sequence;
        store->defined_series = series;
    }
    return status;
}

/* Takes the next row of the cursor's frame. */
static ne_status take_hot_row(ne_store *store, ne_cursor *cursor, ne_row *row) {
    const uint8_t *payload = store->frame + NE_FRAME_HEAD;
    uint8_t wanted = (uint8_t)(store->match[cursor->frame_series].field - 1);
    uint64_t value = 0;
    unsigned field;
    ne_reader in;
    ne_rows rows;
    ne_status status = NE_OK;
    if (store->reader != cursor || store->defined_in != cursor->sequence || store->defined_series != cursor->frame_series) {
        ne_frame frame;
        status = load_definition(store, cursor, cursor->frame_series);
        if (status == NE_OK) {
            status = ne_frame_at(store, cursor->sector, cursor->at, false, &frame);
        }
        if (status != NE_OK) {
            return status;
        }
        store->reader = cursor;
    }
    in.at = payload + cursor->place;
    in.end = payload + ((uint32_t)(store->frame[0] & 0x3f) << 8 | store->frame[1]);
    in.bad = false;
    rows.is_regular = cursor->is_regular;
    rows.step = cursor->step;
    cursor->time = ne_take_time(&in, &rows, cursor->row, cursor->time);
    cursor->step = rows.step;
    for (field = 0; field < store->defined.fields; field++) {
        uint64_t bits = ne_take_value(&in, store->defined.types[field], field == wanted, 0, payload);
        value = field == wanted ? bits : value;
    }
    cursor->place = (uint16_t)(in.at - payload);
    cursor->base = cursor->row++ == 0 ? cursor->time : cursor->base;
    if (in.bad) {
        return NE_CORRUPT;
    }
    row->time = plus(cursor->time, cursor->shift);
    row->series = store->shared.key;
    row->series_bytes = store->defined.key_bytes;
    set_value(row, store->defined.types[wanted], value, payload);
    return NE_OK;
}

/* Moves to the next frame of the hot sectors; `cursor->rows` are those of it that are asked for. */
static ne_status next_frame(ne_store *store, ne_cursor *cursor) {
    ne_frame frame;
    ne_rows rows;
    ne_status status;
    ne_reader in;
    if (cursor->sector == NE_NONE) {
        cursor->sector = ne_sector_after(store, NE_SECTOR_HOT, cursor->sequence);
        if (cursor->sector == NE_NONE) {
            return NE_END;
        }
        cursor->sequence = store->sequences[cursor->sector];
        cursor->next = store->content;
        cursor->base = 0;
        cursor->shift = ne_shift_of(store, ne_hot_boot(store, cursor->sector));
        store->owner = NULL;
    }
    cursor->at = cursor->next;
    cursor->row = cursor->rows = 0;
    status = load_match(store, cursor);
    if (status == NE_OK) {
        status = ne_frame_at(store, cursor->sector, cursor->at, true, &frame);
    }
    if (status == NE_IO || status == NE_UNSUPPORTED) {
        return status;
    }
    if (status != NE_OK) {
        cursor->sector = NE_NONE;
        return NE_OK;
    }
    store->reader = cursor;
    in.at = store->frame + NE_FRAME_HEAD;
    in.end = in.at + frame.length;
    in.bad = false;
    if (frame.kind == NE_FRAME_SERIES && !match_definition(store, cursor->query, &frame)) {
        return NE_UNSUPPORTED;
    }
    if (frame.kind <= NE_FRAME_ROWS && ne_take_rows(&in, &frame, &rows)) {
        cursor->frame_series = rows.series;
        cursor->time = cursor->base; /* that of the first row of the frame before */
        cursor->place = (uint16_t)(in.at - (store->frame + NE_FRAME_HEAD));
        if (rows.series < store->match_count && store->match[rows.series].field != 0) {
            cursor->rows = rows.rows;
            cursor->is_regular = rows.is_regular;
        } else {
            cursor->base = plus(cursor->base, ne_take_zigzag(&in));
        }
    }
    cursor->next = frame.next;
    return NE_OK;
}

static NE_APART ne_status next_hot(ne_store *store, ne_cursor *cursor, ne_row *row) {
    for (;;) {
        ne_status status;
        while (cursor->row < cursor->rows) {
            status = load_match(store, cursor);
            if (status == NE_OK) {
                status = take_hot_row(store, cursor, row);
            }
            if (status != NE_OK || is_in(cursor->query, row->time)) {
                return status;
            }
        }
        status = next_frame(store, cursor);
        if (status != NE_OK) {
            cursor->stage = status == NE_END ? STAGE_END : STAGE_HOT;
            return status;
        }
    }
}

static void begin_hot(ne_cursor *cursor) {
    cursor->stage = STAGE_HOT;
    cursor->sector = NE_NONE;
    cursor->sequence = 0;
    cursor->row = cursor->rows = 0;
}

/* ---- sealed rows ---- */

static NE_APART ne_status next_sealed(ne_store *store, ne_cursor *cursor, ne_row *row) {
    for (;;) {
        block of;
        ne_status status;
        if (cursor->row < cursor->rows && store->owner != cursor) {
            status = load_page(store, cursor);
            if (status == NE_OK) {
                status = parse_block(store, cursor, cursor->key, &of);
            }
            if (status == NE_OK) {
                status = load_block(store, cursor, &of, &cursor->type);
            }
            if (status != NE_OK) {
                return status;
            }
        }
        while (cursor->row < cursor->rows) {
            uint32_t at = cursor->row++;
            if (!is_in(cursor->query, (int64_t)store->times[at])) {
                continue;
            }
            row->time = (int64_t)store->times[at];
            row->series_bytes = cursor->name_bytes;
            row->series = (const char *)store->page + cursor->name;
            set_value(row, cursor->type, store->values[at], store->page + cursor->key_bytes);
            return NE_OK;
        }
        status = next_block(store, cursor, &of);
        if (status == NE_END) {
            begin_hot(cursor);
            return next_hot(store, cursor, row);
        }
        if (status != NE_OK) {
            return status;
        }
        status = load_block(store, cursor, &of, &cursor->type);
        cursor->row = 0;
        cursor->rows = status == NE_OK ? of.rows : 0;
        cursor->name = (uint16_t)(of.key - store->page);
        cursor->name_bytes = (uint16_t)of.key_bytes;
        cursor->key_bytes = (uint32_t)(of.field - store->page); /* where places of text are counted from */
        store->damaged += status == NE_CORRUPT;
        if (status != NE_OK && status != NE_CORRUPT) {
            return status;
        }
    }
}

/* ---- cursors ---- */

/* Nothing in the buffers is this cursor's. */
static void forget(ne_store *store, const ne_cursor *cursor) {
    store->owner = store->owner == cursor ? NULL : store->owner;
    store->reader = store->reader == cursor ? NULL : store->reader;
}

ne_status ne_query_open(ne_store *store, const ne_query *query, ne_cursor *cursor) {
    if (query == NULL || query->field == NULL || query->start > query->end) {
        return NE_INVALID;
    }
    memset(cursor, 0, sizeof *cursor);
    cursor->query = query;
    cursor->generation = store->generation;
    cursor->sector = NE_NONE;
    forget(store, cursor);
    return NE_OK;
}

ne_status ne_query_next(ne_store *store, ne_cursor *cursor, ne_row *row) {
    if (cursor->generation != store->generation) {
        return NE_CHANGED;
    }
    if (cursor->stage == STAGE_END) {
        return NE_END;
    }
    return cursor->stage == STAGE_SEALED ? next_sealed(store, cursor, row) : next_hot(store, cursor, row);
}

/* ---- rollups ---- */

/* Adds rows: the least of their values, the greatest, the sum, the first and the last. */
enum { LEAST, GREATEST, SUM, FIRST, LAST, NUMBERS };
static void add(ne_rollup *to, int64_t first_time, int64_t last_time, uint32_t count, const double *numbers) {
    bool is_new = to->count == 0;
    if (is_new || first_time < to->first_time) {
        to->first_time = first_time;
        to->first = numbers[FIRST];
    }
    /* Of two rows of one time the one that came later is the last. */
    if (is_new || last_time >= to->last_time) {
        to->last_time = last_time;
        to->last = numbers[LAST];
    }
    if (is_new || numbers[LEAST] < to->min || to->min != to->min) {
        to->min = numbers[LEAST];
    }
    if (is_new || numbers[GREATEST] > to->max || to->max != to->max) {
        to->max = numbers[GREATEST];
    }
    to->sum += numbers[SUM];
    to->count += count;
}

static double number_of(uint8_t type, uint64_t bits) {
    switch (type) {
    case NE_FLOAT:
        return ne_to_double(bits);
    case NE_UINT:
        return (double)bits;
    case NE_TEXT:
    case NE_BYTES:
        return 0;
    default:
        return (double)(int64_t)bits;
    }
}

/* The interval of a time; false if it is in none. */
static bool interval_of(const ne_query *query, int64_t width, size_t intervals, int64_t time, size_t *index) {
    uint64_t at;
    if (!is_in(query, time)) {
        return false;
    }
    at = ((uint64_t)time - (uint64_t)query->start) / (uint64_t)width;
    *index = (size_t)at;
    return at < intervals;
}

/* Adds a block from its statistics; false if it has none. */
static NE_APART bool add_statistics(const block *of, ne_rollup *to) {
    ne_reader in = {of->statistics, of->end, false};
    const uint8_t *form = ne_take(&in, 1);
    ne_scale scale = {2, 0}; /* integers are decimals without digits behind the point */
    uint64_t min = 0;
    double numbers[NUMBERS];
    unsigned index;
    if (in.bad || *form == 0 || of->field_bytes < 5) {
        return false;
    }
    if ((of->field[1] & 0x7f) == NE_FLOAT) {
        /* The scale is the one that the values are written with. */
        scale.form = of->field[0] == DECIMAL ? 2 : 3;
        scale.scale = (int8_t)of->field[4];
        if ((of->field[0] != DECIMAL && of->field[0] != DYADIC) ||
            (scale.form == 2 && (scale.scale > NE_DECIMAL_SCALE_MAX || scale.scale < 0))) {
            return false;
        }
    }
    for (index = 0; index < NUMBERS; index++) {
        /* The least value; what the greatest, the sum, the first and the last are above it. */
        uint64_t number = index == LEAST ? (uint64_t)ne_take_zigzag(&in) : ne_take_varint(&in) + min * (index == SUM ? of->rows : 1);
        min = index == LEAST ? number : min;
        numbers[index] = ne_unscaled((int64_t)number, scale);
    }
    add(to, of->min, of->max, of->rows, numbers);
    return true;
}

/* Adds a row to its interval, if it has one. */
static void add_row(const ne_query *query, int64_t width, ne_rollup *out, size_t intervals, int64_t time, double value) {
    double numbers[NUMBERS];
    size_t interval, index;
    if (interval_of(query, width, intervals, time, &interval)) {
        for (index = 0; index < NUMBERS; index++) {
            numbers[index] = value;
        }
        add(&out[interval], time, time, 1, numbers);
    }
}

ne_status ne_rollup_of(ne_store *store, const ne_query *query, int64_t width, ne_rollup *out, size_t intervals) {
    ne_cursor cursor;
    ne_row row;
    ne_status status = ne_query_open(store, query, &cursor);
    if (status != NE_OK || width <= 0) {
        return NE_INVALID;
    }
    memset(out, 0, intervals * sizeof *out);
    for (;;) {
        block of;
        size_t low, high;
        uint32_t at;
        status = next_block(store, &cursor, &of);
        if (status != NE_OK) {
            break;
        }
        if (interval_of(query, width, intervals, of.min, &low) && interval_of(query, width, intervals, of.max, &high) &&
            low == high && add_statistics(&of, &out[low])) {
            continue;
        }
        status = load_block(store, &cursor, &of, &cursor.type);
        if (status == NE_CORRUPT) {
            store->damaged++;
            continue;
        }
        if (status != NE_OK) {
            return status;
        }
        for (at = 0; at < of.rows; at++) {
            add_row(query, width, out, intervals, (int64_t)store->times[at], number_of(cursor.type, store->values[at]));
        }
    }
    begin_hot(&cursor);
    while (status == NE_END && (status = ne_query_next(store, &cursor, &row)) == NE_OK) {
        uint64_t bits = row.type == NE_FLOAT ? ne_from_double(row.value.number) : (uint64_t)row.value.integer;
        add_row(query, width, out, intervals, row.time, row.type >= NE_TEXT ? 0 : number_of((uint8_t)row.type, bits));
        status = NE_END;
    }
    forget(store, &cursor);
    return status == NE_END ? NE_OK : status;
}
