/* Sealing: the rows of a hot sector, series by series and column by column, as device pages.
 *
 * Does: check a sector and index its row frames, as many as the index has room for, series by series; read the frames of a block once
 * for times and first field, and once for each other field; sort the rows of a block by time; write blocks with statistics into pages,
 * and pages into sealed sectors. Does not: erase, or decide when.
 */
#include "ne_store.h"

#include <string.h>

bool ne_take_rows(ne_reader *in, const ne_frame *frame, ne_rows *rows) {
    const uint8_t *head = ne_take(in, frame->kind == NE_FRAME_ROWS ? 2 : 1);
    rows->rows = 1;
    rows->is_regular = false;
    if (in->bad) {
        return false;
    }
    rows->series = head[0];
    if (frame->kind == NE_FRAME_ROWS) {
        rows->rows = head[1];
        rows->is_regular = head[1] == 0;
        if (rows->is_regular) {
            head = ne_take(in, 1);
            rows->rows = in->bad ? 0 : *head;
        }
    }
    return !in->bad;
}

int64_t ne_take_time(ne_reader *in, ne_rows *rows, unsigned row, int64_t time) {
    if (row > 0 && rows->is_regular) {
        return (int64_t)((uint64_t)time + (uint64_t)rows->step);
    }
    time = (int64_t)((uint64_t)time + (uint64_t)ne_take_zigzag(in));
    if (rows->is_regular) {
        rows->step = ne_take_zigzag(in);
    }
    return time;
}

bool ne_take_definition(const ne_store *store, const ne_frame *frame, ne_definition *out) {
    const uint8_t *start = store->frame + NE_FRAME_HEAD;
    ne_reader in = {start, start + frame->length, false};
    const uint8_t *byte = ne_take(&in, 1);
    unsigned index;
    if (in.bad) {
        return false;
    }
    out->key_bytes = *byte;
    ne_take(&in, out->key_bytes);
    byte = ne_take(&in, 1);
    if (in.bad || *byte == 0 || *byte > NE_FIELDS_MAX) {
        return false;
    }
    out->fields = *byte;
    for (index = 0; index < out->fields; index++) {
        byte = ne_take(&in, 2);
        if (in.bad) {
            return false;
        }
        out->types[index] = byte[0];
        out->name_bytes[index] = byte[1];
        out->names[index] = (uint16_t)(ne_take(&in, byte[1]) - start);
    }
    return !in.bad;
}

ne_status ne_definition_of(ne_store *store, uint16_t sector, uint8_t index, ne_frame *frame, ne_definition *out) {
    bool is_known = index < store->match_count;
    uint32_t at = is_known ? store->match[index].at : store->content;
    ne_status status;
    index = is_known ? 0 : index;
    while ((status = ne_frame_at(store, sector, at, false, frame)) == NE_OK) {
        at = frame->next;
        if (frame->kind == NE_FRAME_SERIES && index-- == 0) {
            return ne_take_definition(store, frame, out) ? NE_OK : NE_CORRUPT;
        }
    }
    return status;
}

#define TIMES NE_FIELDS_MAX
/* Head, series, number of rows, a time. */
#define PEEK 15u

/* Reads no more of a frame than its head and what it says of series and first time. */
static ne_status peek(ne_sealing *it, ne_frame *frame) {
    ne_store *store = it->store;
    uint32_t bytes = it->end - it->at < PEEK ? it->end - it->at : PEEK;
    ne_status status = ne_read_at(store, it->sector, it->at, store->frame, bytes);
    frame->kind = store->frame[0] >> 6;
    frame->length = (uint32_t)(store->frame[0] & 0x3f) << 8 | store->frame[1];
    frame->payload = it->at + NE_FRAME_HEAD;
    frame->next = it->at + ne_pad(store, NE_FRAME_HEAD + frame->length + 4);
    return status;
}

/* Enters a row frame, if it is of the series that the index is about; false if there is no room for it. */
static bool enter(ne_sealing *it, uint8_t series, int64_t time) {
    ne_store *store = it->store;
    uint64_t offset;
    if (series < it->low || series >= it->high) {
        return true;
    }
    it->origin = it->entries == 0 ? time : it->origin;
    offset = (uint64_t)time - (uint64_t)it->origin;
    if (it->entries == store->index_max || offset + 0x80000000u > 0xffffffffu) {
        it->is_short = true;
        return false;
    }
    store->index_at[it->entries] = (uint16_t)it->at;
    store->index_time[it->entries] = (int32_t)offset;
    store->index_series[it->entries++] = series;
    return true;
}

/* Indexes frames from `at` on. The first time, when `end` is the end of the sector, all of them are looked at, checked and counted: frames
 * count up to the first whose checksum does not hold, for that one was never acknowledged, nor any behind it. */
static NE_APART ne_status scan(ne_sealing *it, bool is_first, uint16_t *series) {
    ne_store *store = it->store;
    ne_frame frame;
    ne_status status = NE_OK;
    it->entries = 0;
    it->is_short = false;
    for (; it->at < it->end; it->at = frame.next) {
        ne_reader in;
        ne_rows rows;
        status = is_first ? ne_frame_at(store, it->sector, it->at, true, &frame) : peek(it, &frame);
        if (status != NE_OK) {
            break;
        }
        in.at = store->frame + NE_FRAME_HEAD;
        in.end = in.at + frame.length;
        in.bad = false;
        if (is_first && frame.kind == NE_FRAME_SERIES) {
            if (*series < store->series_max) {
                store->match[*series].at = (uint16_t)it->at;
                store->match[*series].frames = 0;
                store->match_count = (uint16_t)(*series + 1);
            }
            ++*series;
        }
        if (frame.kind <= NE_FRAME_ROWS) {
            int64_t time;
            if (!ne_take_rows(&in, &frame, &rows)) {
                return NE_CORRUPT;
            }
            time = ne_take_time(&in, &rows, 0, it->chain);
            if (!enter(it, rows.series, time) && !is_first) {
                break;
            }
            if (is_first && rows.series < store->match_count) {
                uint8_t *frames = &store->match[rows.series].frames;
                *frames = (uint8_t)(*frames + (*frames < 255));
            }
            it->chain = time;
        }
    }
    if (is_first && status != NE_IO) {
        it->end = it->at;
        status = NE_OK;
    }
    return status;
}

/* Fills store->times, or store->values in the order of times, with rows of a series from those of `entry` on that are not in blocks. With the
 * times come the values of the first field, in the order of arrival: as a rule that is the same. */
static NE_APART ne_status collect(ne_sealing *it, uint8_t series, unsigned column, size_t max, size_t *count) {
    ne_store *store = it->store;
    const ne_definition *of = &store->defined;
    uint16_t entry, skip = it->skip;
    ne_frame frame;
    *count = 0;
    it->is_sorted = it->is_sorted || column == TIMES;
    for (entry = it->entry; entry < it->entries && *count < max; entry++) {
        ne_reader in;
        ne_rows rows;
        unsigned row;
        int64_t time = 0;
        ne_status status;
        if (store->index_series[entry] != series) {
            continue;
        }
        status = ne_frame_at(store, it->sector, store->index_at[entry], false, &frame);
        if (status != NE_OK) {
            return status == NE_IO ? NE_IO : NE_CORRUPT;
        }
        in.at = store->frame + NE_FRAME_HEAD;
        in.end = in.at + frame.length;
        in.bad = false;
        ne_take_rows(&in, &frame, &rows);
        for (row = 0; row < rows.rows && *count < max; row++) {
            bool wanted = row >= skip;
            unsigned field;
            time = ne_take_time(&in, &rows, row, time);
            time = row == 0 ? (int64_t)((uint64_t)it->origin + (uint64_t)(int64_t)store->index_time[entry]) : time;
            for (field = 0; field < of->fields; field++) {
                bool is_it = wanted && field == (column == TIMES ? 0 : column);
                uint64_t value = ne_take_value(&in, of->types[field], is_it, frame.payload, store->frame + NE_FRAME_HEAD);
                if (is_it) {
                    store->values[column == TIMES ? *count : store->order[*count]] = value;
                }
            }
            if (wanted && column == TIMES) {
                it->is_sorted = it->is_sorted && (*count == 0 || (int64_t)store->times[*count - 1] <= time);
                store->times[*count] = (uint64_t)time;
            }
            *count += wanted;
        }
        if (in.bad) {
            return NE_CORRUPT;
        }
        skip = 0;
        if (row < rows.rows) {
            skip = (uint16_t)row;
            break;
        }
    }
    if (column == TIMES) {
        it->next_entry = entry;
        it->next_skip = skip;
    }
    return NE_OK;
}

/* Sorts store->times, rows of one time in the order of their arrival; store->order says where each row went. */
static void sort(ne_store *store, size_t n) {
    size_t index;
    for (index = 0; index < n; index++) {
        uint64_t time = store->times[index];
        size_t place = index;
        while (place > 0 && (int64_t)store->times[place - 1] > (int64_t)time) {
            store->times[place] = store->times[place - 1];
            store->values[place] = store->values[place - 1];
            place--;
        }
        store->times[place] = time;
        store->values[place] = index;
    }
    for (index = 0; index < n; index++) {
        store->order[store->values[index]] = (uint16_t)index;
    }
}

/* Of integers, or of floats that `ne_page_encode` made integers of. */
static NE_APART void put_statistics(ne_writer *out, const uint64_t *values, size_t n, ne_scale scale) {
    const int64_t limit = (int64_t)1 << 52;
    int64_t min, max;
    uint64_t sum = 0;
    size_t row;
    ne_ends_of(values, 0, n, false, &min, &max);
    if (scale.form == 0 || min <= -limit || max >= limit) {
        ne_put_byte(out, 0);
        return;
    }
    for (row = 0; row < n; row++) {
        sum += values[row] - (uint64_t)min;
    }
    ne_put_byte(out, 1);
    ne_put_zigzag(out, min);
    ne_put_varint(out, (uint64_t)max - (uint64_t)min);
    ne_put_varint(out, sum);
    ne_put_varint(out, values[0] - (uint64_t)min);
    ne_put_varint(out, values[n - 1] - (uint64_t)min);
}

/* Encoding a column takes the room of a frame: frames are read again behind it. */
static uint64_t *encode_room(ne_store *store) {
    return store->frame_words;
}

/* Text as PLAIN: the lengths, then the bytes, from the flash straight into the page. */
static ne_status put_text(ne_sealing *it, uint8_t type, size_t n) {
    ne_store *store = it->store;
    ne_status status = NE_OK;
    size_t row;
    ne_page_begin(&it->out, PLAIN, type, n);
    for (row = 0; row < n; row++) {
        store->times[row] = store->values[row] & 0xffffffff;
    }
    ne_chunk_encode(&it->out, store->times, n, encode_room(store));
    for (row = 0; row < n && status == NE_OK && !it->out.full; row++) {
        uint32_t bytes = (uint32_t)store->values[row];
        if ((size_t)(it->out.end - it->out.at) < bytes) {
            it->out.full = true;
            break;
        }
        status = ne_read_at(store, it->sector, (uint32_t)(store->values[row] >> 32), it->out.at, bytes);
        it->out.at += bytes;
    }
    return status;
}

/* Collects at most `rows` rows of a series for a block, sorted by their times; the definition is in store->defined then. */
static NE_APART ne_status begin_block(ne_sealing *it, uint8_t series, size_t *rows) {
    ne_store *store = it->store;
    ne_frame frame;
    size_t n, row;
    ne_status status = ne_definition_of(store, it->sector, series, &frame, &store->defined);
    if (status == NE_OK) {
        it->definition = frame.payload - NE_FRAME_HEAD;
        status = collect(it, series, TIMES, *rows, &n);
    }
    if (status != NE_OK) {
        return status;
    }
    *rows = n;
    if (n == 0) {
        return NE_OK;
    }
    if (it->is_sorted) {
        for (row = 0; row < n; row++) {
            store->order[row] = (uint16_t)row;
        }
    } else {
        sort(store, n);
    }
    it->min = (int64_t)store->times[0];
    it->max = (int64_t)store->times[n - 1];
    if (it->head.blocks == 0) {
        it->head.base = it->min;
    }
    for (row = 0; row < n; row++) {
        store->times[row] -= (uint64_t)it->head.base;
    }
    return NE_OK;
}

/* What a column begins with: that of times with what the whole block does. */
static ne_status put_names(ne_sealing *it, unsigned column, size_t n) {
    const ne_definition *of = &it->store->defined;
    const uint8_t *payload = it->store->frame + NE_FRAME_HEAD;
    ne_frame frame;
    ne_status status = ne_frame_at(it->store, it->sector, it->definition, false, &frame);
    if (column != TIMES) {
        ne_put_byte(&it->out, of->name_bytes[column]);
        ne_put(&it->out, payload + of->names[column], of->name_bytes[column]);
        return status;
    }
    ne_put_varint(&it->out, of->key_bytes);
    ne_put(&it->out, payload + 1, of->key_bytes);
    ne_put_varint(&it->out, n);
    ne_put_varint(&it->out, of->fields);
    ne_put_zigzag(&it->out, (int64_t)((uint64_t)it->min - (uint64_t)it->head.base));
    ne_put_varint(&it->out, (uint64_t)it->max - (uint64_t)it->min);
    return status;
}

/* Appends a column of `n` rows: times or a field with its statistics. */
static ne_status put_column(ne_sealing *it, uint8_t series, unsigned column, size_t n) {
    ne_store *store = it->store;
    uint8_t type = column == TIMES ? (uint8_t)NE_INT : store->defined.types[column];
    ne_status status = put_names(it, column, n);
    uint8_t *length = it->out.at;
    ne_scale scale;
    size_t ignored;
    ne_put(&it->out, "\0\0", 2);
    /* Values of the first field came with the times. */
    if (status == NE_OK && column != TIMES && (column > 0 || !it->is_sorted)) {
        status = collect(it, series, column, n, &ignored);
    }
    scale.form = 0;
    if (status == NE_OK && type >= NE_TEXT) {
        status = put_text(it, type, n);
    } else if (status == NE_OK) {
        ne_page_encode(&it->out, type, column == TIMES ? store->times : store->values, n, &scale, encode_room(store));
        scale.form = type == NE_BOOL ? 1 : scale.form;
    }
    if (status != NE_OK || it->out.full) {
        return status;
    }
    ne_put16(length, (uint16_t)(it->out.at - length - 2));
    if (column != TIMES) {
        put_statistics(&it->out, store->values, n, scale);
    }
    return NE_OK;
}

/* Appends a block of at most `rows` rows of a series; `out.full` if the page has no room for it. */
static ne_status put_block(ne_sealing *it, uint8_t series, size_t *rows) {
    unsigned field;
    ne_status status = begin_block(it, series, rows);
    if (status != NE_OK || *rows == 0) {
        return status;
    }
    status = put_column(it, series, TIMES, *rows);
    for (field = 0; field < it->store->defined.fields && status == NE_OK && !it->out.full; field++) {
        status = put_column(it, series, field, *rows);
    }
    if (status != NE_OK || it->out.full) {
        return status;
    }
    it->head.min = it->head.blocks == 0 || it->min < it->head.min ? it->min : it->head.min;
    it->head.max = it->head.blocks == 0 || it->max > it->head.max ? it->max : it->head.max;
    it->head.blocks++;
    return NE_OK;
}

static void begin_page(ne_sealing *it) {
    uint8_t *page = it->store->page;
    it->out.start = it->out.at = page + NE_PAGE_HEAD;
    it->out.end = page + it->store->page_max - 4;
    it->out.full = false;
    it->head.blocks = 0;
}

static NE_APART ne_status end_page(ne_sealing *it, bool is_last) {
    ne_store *store = it->store;
    uint8_t *page = store->page;
    uint32_t body = (uint32_t)(it->out.at - page);
    memcpy(page, "NMDP\1", 5);
    page[5] = is_last ? NE_PAGE_LAST : 0;
    ne_put16(page + 6, (uint16_t)(store->next_page - it->first_page));
    ne_put32(page + 8, body + 4);
    ne_put32(page + 12, it->head.blocks);
    ne_put64(page + 16, store->next_page);
    ne_put64(page + 24, (uint64_t)it->head.base);
    ne_put64(page + 32, (uint64_t)it->head.min);
    ne_put64(page + 40, (uint64_t)it->head.max);
    ne_put32(page + 48, store->tick_ns);
    ne_put32(page + 52, it->head.boot);
    ne_put32(page + 56, it->head.source);
    ne_put32(page + body, ne_crc32c(0, page, body));
    return ne_append_page(store, body + 4);
}

/* Puts the rows of a series that are in the index into blocks. */
static ne_status put_series(ne_sealing *it, uint8_t series) {
    size_t most = it->store->block_rows;
    ne_status status;
    it->entry = it->skip = 0;
    for (;;) {
        uint8_t *before = it->out.at;
        size_t rows = most;
        status = put_block(it, series, &rows);
        if (status != NE_OK || rows == 0) {
            return status;
        }
        if (!it->out.full) {
            it->entry = it->next_entry;
            it->skip = it->next_skip;
            if (rows < most) {
                return NE_OK;
            }
            most = it->store->block_rows;
            continue;
        }
        it->out.at = before;
        it->out.full = false;
        if (it->head.blocks > 0) {
            status = end_page(it, false);
            begin_page(it);
        } else if (rows > 1) {
            most = rows / 2;
        } else {
            status = NE_TOO_LONG;
        }
        if (status != NE_OK) {
            return status;
        }
    }
}

/* How many frames of rows a series has, as far as that was counted. */
static unsigned frames_of(const ne_store *store, unsigned series) {
    return series < store->match_count ? store->match[series].frames : 255;
}

ne_status ne_seal_sector(ne_store *store, uint16_t sector) {
    ne_sealing *it = &store->shared.seal;
    uint16_t series = 0;
    unsigned index;
    bool is_indexed;
    ne_status status;
    memset(it, 0, sizeof *it);
    it->store = store;
    it->sector = sector;
    store->owner = NULL;
    store->defined_in = 0;
    store->match_count = 0;
    it->at = store->content;
    it->end = store->flash.sector_bytes;
    it->high = 256;
    status = scan(it, true, &series);
    if (status != NE_OK) {
        return status;
    }
    is_indexed = !it->is_short; /* all frames at once */
    it->head.boot = ne_hot_boot(store, sector);
    it->head.source = store->sequences[sector];
    it->first_page = store->next_page;
    begin_page(it);
    for (it->low = 0; it->low < series && status == NE_OK; it->low = it->high) {
        unsigned frames = 0;
        it->high = it->low;
        while (it->high < series && (is_indexed || it->high == it->low || frames + frames_of(store, it->high) <= store->index_max)) {
            frames += frames_of(store, it->high++);
        }
        it->at = is_indexed ? it->end : store->content;
        it->chain = 0;
        do {
            if (!is_indexed) {
                status = scan(it, false, &series);
                if (it->is_short && it->high > it->low + 1) {
                    /* Times that are far apart: one series at a time has its windows wherever they must be. */
                    it->high = (uint16_t)(it->low + 1);
                    it->at = store->content;
                    it->chain = 0;
                    continue;
                }
            }
            for (index = it->low; index < it->high && status == NE_OK; index++) {
                status = put_series(it, (uint8_t)index);
            }
        } while (status == NE_OK && it->at < it->end);
    }
    if (status != NE_OK) {
        return status;
    }
    return it->head.blocks > 0 ? end_page(it, true) : NE_OK;
}
