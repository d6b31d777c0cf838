/* Hot frames: rows in, one program each; clocks.
 *
 * A hot sector is a log of frames that define series and hold rows. Everything in it refers to that sector alone.
 */
#include "ne_store.h"

#include <string.h>

/* What the checksum of a frame begins with: a frame in another place is none. */
static uint32_t frame_seed(uint32_t sequence, uint32_t at) {
    return sequence << 16 | (at & 0xffff);
}

ne_status ne_frame_at(ne_store *store, uint16_t sector, uint32_t at, bool check, ne_frame *frame) {
    uint32_t room = store->flash.sector_bytes - at;
    ne_status status;
    if (at > store->flash.sector_bytes || room < NE_FRAME_HEAD + 4) {
        return NE_END;
    }
    store->reader = NULL;
    status = ne_read_at(store, sector, at, store->frame, NE_FRAME_HEAD);
    if (status != NE_OK) {
        return status;
    }
    if (store->frame[0] == 0xff) {
        return NE_END;
    }
    frame->kind = store->frame[0] >> 6;
    frame->length = (uint32_t)(store->frame[0] & 0x3f) << 8 | store->frame[1];
    frame->payload = at + NE_FRAME_HEAD;
    frame->next = at + ne_pad(store, NE_FRAME_HEAD + frame->length + 4);
    if (frame->length > NE_PAYLOAD_MAX || frame->next - at > room) {
        return NE_CORRUPT;
    }
    status = ne_read_at(store, sector, frame->payload, store->frame + NE_FRAME_HEAD, frame->length + 4);
    if (status == NE_OK && check) {
        uint32_t expected = ne_crc32c(frame_seed(store->sequences[sector], at), store->frame, NE_FRAME_HEAD + frame->length);
        status = ne_get32(store->frame + NE_FRAME_HEAD + frame->length) == expected ? NE_OK : NE_CORRUPT;
    }
    return status;
}

/* Completes the frame whose payload of `length` bytes is in store->frame behind the frames that wait, so that it waits too. */
static void add_frame(ne_store *store, uint8_t kind, uint32_t length) {
    uint8_t *frame = store->frame + store->ahead;
    uint32_t body = NE_FRAME_HEAD + length, padded = ne_pad(store, body + 4);
    frame[0] = (uint8_t)((uint32_t)kind << 6 | length >> 8);
    frame[1] = (uint8_t)length;
    ne_put32(frame + body, ne_crc32c(frame_seed(store->sequences[store->hot], store->hot_end + store->ahead), frame, body));
    memset(frame + body + 4, 0xff, padded - body - 4);
    store->ahead = (uint16_t)(store->ahead + padded);
}

/* Programs the frames that wait. */
static ne_status append_frames(ne_store *store) {
    ne_status status = ne_program(store, store->hot, store->hot_end, store->frame, store->ahead);
    if (status == NE_OK) {
        store->hot_end += store->ahead;
    } else {
        /* What was programmed is not known: nothing more is appended here. */
        store->hot = NE_NONE;
    }
    store->ahead = 0;
    return status;
}

static bool has_room(const ne_store *store, uint32_t length) {
    return ne_pad(store, NE_FRAME_HEAD + length + 4) <= store->flash.sector_bytes - store->hot_end;
}

void ne_remember_clock(ne_store *store, uint32_t boot, int64_t shift) {
    unsigned index;
    for (index = 0; index < store->clock_count && store->clocks[index].boot != boot; index++) {
    }
    if (index == NE_CLOCKS) {
        memmove(store->clocks, store->clocks + 1, sizeof store->clocks - sizeof store->clocks[0]);
        index--;
    } else if (index == store->clock_count) {
        store->clock_count++;
    }
    store->clocks[index].boot = boot;
    store->clocks[index].shift = shift;
}

int64_t ne_shift_of(const ne_store *store, uint32_t boot) {
    unsigned index;
    for (index = 0; boot != 0 && index < store->clock_count; index++) {
        if (store->clocks[index].boot == boot) {
            return store->clocks[index].shift;
        }
    }
    return 0;
}

/* Behind the frames that wait. */
static ne_writer payload_writer(ne_store *store) {
    ne_writer out;
    out.start = out.at = store->frame + store->ahead + NE_FRAME_HEAD;
    out.end = out.start + NE_PAYLOAD_MAX;
    out.full = false;
    store->reader = NULL;
    return out;
}

/* Starts a hot sector, with what is known of clocks. */
static ne_status open_hot(ne_store *store) {
    unsigned index;
    uint16_t sector;
    ne_status status = ne_count_of(store, NE_SECTOR_FREE) > store->reserve ? NE_OK : NE_FULL;
    if (status == NE_OK) {
        status = ne_take_sector(store, NE_SECTOR_HOT, store->boot, &sector);
    }
    if (status != NE_OK) {
        return status;
    }
    store->hot = sector;
    store->reader = NULL;
    store->hot_end = store->content;
    store->hot_time = 0;
    store->series_count = 0;
    for (index = 0; index < store->clock_count && status == NE_OK; index++) {
        ne_writer out = payload_writer(store);
        ne_put_varint(&out, store->clocks[index].boot);
        ne_put_zigzag(&out, store->clocks[index].shift);
        add_frame(store, NE_FRAME_CLOCK, (uint32_t)(out.at - out.start));
        status = append_frames(store);
    }
    return status;
}

/* ---- rows ---- */


static void put_escaped(ne_writer *out, const char *text) {
    for (; *text != 0; text++) {
        if (*text == ',' || *text == '=' || *text == ' ' || *text == '\\') {
            ne_put_byte(out, '\\');
        }
        ne_put_byte(out, (uint8_t)*text);
    }
}

/* Writes the definition of a series: its canonical key and its fields. */
static bool put_series(ne_writer *out, const ne_series *series) {
    uint8_t *length = out->at;
    const char *last = NULL;
    size_t round, index;
    ne_put_byte(out, 0);
    if (series->table == NULL || series->table[0] == 0 || series->field_count == 0 || series->field_count > NE_FIELDS_MAX) {
        return false;
    }
    put_escaped(out, series->table);
    /* In the order of their names, without room to sort them in: the least one that is above the last. */
    for (round = 0; round < series->tag_count; round++) {
        const ne_tag *next = NULL;
        for (index = 0; index < series->tag_count; index++) {
            const ne_tag *tag = &series->tags[index];
            if ((last == NULL || strcmp(tag->name, last) > 0) && (next == NULL || strcmp(tag->name, next->name) < 0)) {
                next = tag;
            }
        }
        if (next == NULL || next->name[0] == 0 || next->value[0] == 0) {
            return false; /* two of one name, or an empty one */
        }
        ne_put_byte(out, ',');
        put_escaped(out, next->name);
        ne_put_byte(out, '=');
        put_escaped(out, next->value);
        last = next->name;
    }
    if (!out->full && !ne_is_utf8(length + 1, (size_t)(out->at - length - 1))) {
        return false;
    }
    if (out->full || out->at - length - 1 > (int)NE_KEY_MAX) {
        out->full = true;
        return true;
    }
    *length = (uint8_t)(out->at - length - 1);
    ne_put_byte(out, (uint8_t)series->field_count);
    for (index = 0; index < series->field_count; index++) {
        size_t bytes = strlen(series->fields[index].name);
        if (bytes == 0 || bytes > 255 || series->fields[index].type > NE_BYTES ||
            !ne_is_utf8((const uint8_t *)series->fields[index].name, bytes)) {
            return false;
        }
        ne_put_byte(out, (uint8_t)series->fields[index].type);
        ne_put_byte(out, (uint8_t)bytes);
        ne_put(out, series->fields[index].name, bytes);
    }
    return true;
}

/* Whether the payload at `at` of the hot sector is the one in store->frame. */
static bool is_same_payload(ne_store *store, uint32_t at, uint32_t length) {
    uint8_t part[32];
    uint32_t done;
    if (ne_read_at(store, store->hot, at, part, NE_FRAME_HEAD) != NE_OK ||
        ((uint32_t)(part[0] & 0x3f) << 8 | part[1]) != length) {
        return false;
    }
    for (done = 0; done < length; done += sizeof part) {
        uint32_t step = length - done < sizeof part ? length - done : (uint32_t)sizeof part;
        if (ne_read_at(store, store->hot, at + NE_FRAME_HEAD + done, part, step) != NE_OK ||
            memcmp(part, store->frame + NE_FRAME_HEAD + done, step) != 0) {
            return false;
        }
    }
    return true;
}

/* Finds the number of the series in the hot sector. If it has none its definition is programmed, or waits for the row that it is for:
 * `is_new` then, until that row is durable. NE_FULL if the sector has no room. */
static ne_status series_index(ne_store *store, ne_series *series, bool *is_new) {
    ne_writer out;
    uint32_t length, hash;
    uint16_t index;
    *is_new = false;
    if (series->_store == store && series->_sequence == store->sequences[store->hot]) {
        return NE_OK;
    }
    out = payload_writer(store);
    if (!put_series(&out, series)) {
        return NE_INVALID;
    }
    if (out.full) {
        return NE_TOO_LONG;
    }
    length = (uint32_t)(out.at - out.start);
    hash = ne_crc32c(0, out.start, length);
    for (index = 0; index < store->series_count; index++) {
        if (store->series[index].hash == hash && is_same_payload(store, store->series[index].at, length)) {
            break;
        }
    }
    if (index == store->series_count) {
        if (index == store->series_max || !has_room(store, length)) {
            return NE_FULL;
        }
        store->series[index].hash = hash;
        store->series[index].at = (uint16_t)store->hot_end;
        store->series[index].length = (uint16_t)length;
        add_frame(store, NE_FRAME_SERIES, length);
        *is_new = store->ahead <= NE_AHEAD_MAX;
        if (!*is_new) {
            ne_status status = append_frames(store);
            if (status != NE_OK) {
                return status;
            }
            store->series_count++;
        }
    }
    series->_store = store;
    series->_sequence = store->sequences[store->hot];
    series->_index = (uint8_t)index;
    return NE_OK;
}

/* Floats by what they need: 0 = zero, 1 = a whole number, 2 = binary32, 3 = all bits, 4 and more = a decimal of 1 and more digits after
 * the point. Looks at bits only, for processors without a floating-point unit. */
enum { FLOAT_ZERO = 0, FLOAT_WHOLE = 1, FLOAT_SINGLE = 2, FLOAT_BITS = 3 };

/* Digits after the point that an insert looks for. */
#define DIGITS_MAX 6u
/* Floats that are not looked at again after one that was no decimal: what measures noise goes on to. */
#define IN_VAIN 15u

/* Puts a decimal in less than `room` bytes. A sensor has always as many digits: those of the last one are tried first. */
static bool put_decimal(ne_store *store, ne_writer *out, uint64_t bits, size_t room) {
    int64_t integer;
    unsigned digits = store->digits, next = 1;
    while (digits == 0 || !ne_decimal_integer(bits, digits, &integer) || ne_varint_bytes(ne_zigzag((uint64_t)integer)) >= room) {
        if (next == 1 && store->in_vain > 0) {
            store->in_vain--;
            return false;
        }
        if (next > DIGITS_MAX) {
            store->in_vain = IN_VAIN;
            return false;
        }
        digits = next++;
    }
    store->digits = (uint8_t)digits;
    ne_put_byte(out, (uint8_t)(FLOAT_BITS + digits));
    ne_put_zigzag(out, integer);
    return true;
}

static void put_float(ne_store *store, ne_writer *out, double number) {
    uint64_t bits = ne_from_double(number);
    int exponent = (int)(bits >> 52 & 0x7ff) - 1023;
    uint8_t word[8];
    if (bits == 0) {
        ne_put_byte(out, FLOAT_ZERO);
        return;
    }
    if (exponent >= 0 && exponent < 20 && (bits & (((uint64_t)1 << (52 - exponent)) - 1)) == 0) {
        int64_t whole = (int64_t)(((bits & (((uint64_t)1 << 52) - 1)) | (uint64_t)1 << 52) >> (52 - exponent));
        ne_put_byte(out, FLOAT_WHOLE);
        ne_put_zigzag(out, bits >> 63 ? -whole : whole);
        return;
    }
    if ((bits & 0x1fffffff) == 0 && exponent > -127 && exponent < 128) {
        /* Sign, eight bits of exponent, 23 of the fraction. */
        uint32_t single;
        if (put_decimal(store, out, bits, 4)) {
            return;
        }
        single = (uint32_t)(bits >> 63) << 31 | (uint32_t)(exponent + 127) << 23 | (uint32_t)(bits >> 29 & 0x7fffff);
        ne_put_byte(out, FLOAT_SINGLE);
        ne_put32(word, single);
        ne_put(out, word, 4);
        return;
    }
    if (put_decimal(store, out, bits, 8)) {
        return;
    }
    ne_put_byte(out, FLOAT_BITS);
    ne_put64(word, bits);
    ne_put(out, word, 8);
}

static uint64_t take_float(ne_reader *in, bool wanted) {
    const uint8_t *form = ne_take(in, 1), *word;
    uint32_t single;
    int64_t integer;
    ne_scale scale;
    if (in->bad) {
        return 0;
    }
    switch (*form) {
    case FLOAT_ZERO:
        return 0;
    case FLOAT_WHOLE:
        integer = ne_take_zigzag(in);
        return wanted ? ne_from_double((double)integer) : 0;
    case FLOAT_SINGLE:
        word = ne_take(in, 4);
        single = in->bad ? 0 : ne_get32(word);
        return (uint64_t)(single >> 31) << 63 | (uint64_t)((single >> 23 & 0xff) + 1023 - 127) << 52 |
               (uint64_t)(single & 0x7fffff) << 29;
    case FLOAT_BITS:
        word = ne_take(in, 8);
        return in->bad ? 0 : ne_get64(word);
    default:
        if (*form > FLOAT_BITS + NE_DECIMAL_SCALE_MAX) {
            in->bad = true;
            return 0;
        }
        scale.form = 2;
        scale.scale = (int8_t)(*form - FLOAT_BITS);
        integer = ne_take_zigzag(in);
        return wanted ? ne_from_double(ne_unscaled(integer, scale)) : 0;
    }
}

static bool put_value(ne_store *store, ne_writer *out, ne_type type, const ne_value *value) {
    switch (type) {
    case NE_INT:
    case NE_UINT:
        ne_put_zigzag(out, value->integer);
        return true;
    case NE_FLOAT:
        put_float(store, out, value->number);
        return true;
    case NE_BOOL:
        ne_put_byte(out, value->integer != 0);
        return true;
    default:
        ne_put_varint(out, value->text.length);
        ne_put(out, value->text.bytes, value->text.length);
        return out->full || type == NE_BYTES || ne_is_utf8((const uint8_t *)value->text.bytes, value->text.length);
    }
}

uint64_t ne_take_value(ne_reader *in, uint8_t type, bool wanted, uint32_t payload_at, const uint8_t *payload) {
    const uint8_t *at;
    uint64_t length;
    switch (type) {
    case NE_INT:
    case NE_UINT:
        return (uint64_t)ne_take_zigzag(in);
    case NE_FLOAT:
        return take_float(in, wanted);
    case NE_BOOL:
        at = ne_take(in, 1);
        return in->bad ? 0 : *at & 1;
    default:
        length = ne_take_varint(in);
        at = ne_take(in, (size_t)length);
        return (uint64_t)(payload_at + (uint32_t)(at - payload)) << 32 | (uint32_t)length;
    }
}

/* Rows that are a frame of their own if they are regular and those behind them are not. */
#define REGULAR_MIN 64u

/* How many of the first rows are as far apart as the first two. */
static size_t regular_rows(const int64_t *times, size_t rows) {
    size_t row = 1;
    uint64_t step = rows > 1 ? (uint64_t)times[1] - (uint64_t)times[0] : 0;
    while (row < rows && (uint64_t)times[row] - (uint64_t)times[row - 1] == step) {
        row++;
    }
    return row;
}

/* Appends a frame of as many of the rows as it has room for. */
static ne_status insert_some(ne_store *store, ne_series *series, const int64_t *times, const ne_value *values, size_t rows,
                             size_t *stored) {
    ne_writer out = payload_writer(store);
    uint32_t room = store->flash.sector_bytes - store->hot_end - store->ahead;
    int64_t time = store->hot_time;
    /* A row must fit a page by itself: what a block takes besides names and values is at most this. */
    uint32_t besides = NE_PAGE_HEAD + 4 + 40 + 36 * (uint32_t)series->field_count + store->series[series->_index].length;
    size_t row, field, regular;
    ne_status status;
    uint8_t *count;
    *stored = 0;
    if (room < NE_FRAME_HEAD + 4 + 32) {
        return NE_FULL;
    }
    room -= NE_FRAME_HEAD + 4;
    room &= ~(store->flash.unit_bytes - 1);
    if (room < NE_PAYLOAD_MAX) {
        out.end = out.start + room;
    }
    rows = rows < 255 ? rows : 255;
    regular = regular_rows(times, rows);
    /* Not a few rows before one that is late: each frame is a program. */
    ne_put_byte(&out, series->_index);
    if (regular > 3 && (regular == rows || regular >= REGULAR_MIN)) {
        rows = regular;
        ne_put_byte(&out, 0);
    } else {
        regular = 0;
    }
    count = out.at;
    if (rows > 1) {
        ne_put_byte(&out, 0);
    }
    for (row = 0; row < rows; row++) {
        uint8_t *before = out.at;
        if (row == 0 || regular == 0) {
            ne_put_zigzag(&out, (int64_t)((uint64_t)times[row] - (uint64_t)time));
        }
        if (row == 0 && regular > 0) {
            ne_put_zigzag(&out, (int64_t)((uint64_t)times[1] - (uint64_t)times[0]));
        }
        for (field = 0; field < series->field_count; field++) {
            if (!put_value(store, &out, series->fields[field].type, &values[row * series->field_count + field])) {
                return NE_INVALID;
            }
        }
        if (!out.full && besides + (uint32_t)(out.at - before) > store->page_max) {
            return NE_TOO_LONG;
        }
        if (out.full) {
            out.at = before;
            break;
        }
        time = times[row];
    }
    if (row == 0) {
        return out.end - out.start < (int)NE_PAYLOAD_MAX ? NE_FULL : NE_TOO_LONG;
    }
    if (rows > 1) {
        *count = (uint8_t)row;
    }
    add_frame(store, rows > 1 ? NE_FRAME_ROWS : NE_FRAME_ROW, (uint32_t)(out.at - out.start));
    status = append_frames(store);
    if (status == NE_OK) {
        store->hot_time = times[0];
        *stored = row;
    }
    return status;
}

ne_status ne_insert_rows(ne_store *store, ne_series *series, const int64_t *times, const ne_value *values, size_t rows,
                         size_t *stored) {
    ne_status status = NE_OK;
    *stored = 0;
    while (*stored < rows && status == NE_OK) {
        size_t some = 0;
        bool is_new = false, is_new_series = false;
        if (store->hot == NE_NONE) {
            status = open_hot(store);
            is_new = true;
        }
        if (status == NE_OK) {
            status = series_index(store, series, &is_new_series);
        }
        if (status == NE_OK) {
            status = insert_some(store, series, times + *stored, values + *stored * series->field_count, rows - *stored, &some);
            *stored += some;
            if (is_new_series && status == NE_OK) {
                store->series_count++;
            } else if (is_new_series) {
                /* Its definition was for this row. */
                series->_store = NULL;
                store->ahead = 0;
            }
        }
        if (status == NE_FULL && store->hot != NE_NONE) {
            /* This sector is full; a row that does not fit a new one fits none. */
            store->hot = NE_NONE;
            status = is_new ? NE_TOO_LONG : NE_OK;
        }
    }
    return status;
}

ne_status ne_insert(ne_store *store, ne_series *series, int64_t time, const ne_value *values) {
    size_t stored;
    return ne_insert_rows(store, series, &time, values, 1, &stored);
}

/* ---- clocks and retention ---- */

ne_status ne_begin_boot(ne_store *store, uint32_t boot) {
    if (boot == 0) {
        return NE_INVALID;
    }
    if (store->boot != boot) {
        store->boot = boot;
        store->hot = NE_NONE;
    }
    return NE_OK;
}

ne_status ne_set_clock(ne_store *store, uint32_t boot, int64_t utc_minus_ticks) {
    uint32_t before = store->boot;
    ne_status status;
    if (boot == 0) {
        return NE_INVALID;
    }
    ne_remember_clock(store, boot, utc_minus_ticks);
    store->boot = 0;
    store->hot = NE_NONE;
    status = open_hot(store);
    if (status != NE_OK) {
        store->boot = before;
    }
    return status;
}

ne_status ne_retain(ne_store *store, int64_t before) {
    store->retain_before = before;
    return NE_OK;
}

ne_status ne_seal(ne_store *store) {
    store->hot = NE_NONE;
    return NE_OK;
}
