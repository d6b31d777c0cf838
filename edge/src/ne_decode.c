/* Reading column pages, byte for byte those of docs/format/page.md.
 *
 * Does: every encoding but those in zstd and pco. Does not: allocate, recur, or read a byte beyond the page. Chunks inside chunks
 * are read as streams, one value at a time.
 */
#include "ne_internal.h"

#include <string.h>

/* A chunk without parts, read one value at a time: packed numbers above a base, or differences that are. Equal numbers have no bits, those
 * that are not packed all 64. */
typedef struct {
    bool is_delta;
    uint8_t width;
    uint16_t next;
    const uint8_t *packed;
    uint64_t first; /* of differences: the running sum */
    uint64_t base;
#ifdef NE_ALL_ENCODINGS
    const uint8_t *positions, *highs;
    unsigned position_width, high_width;
    size_t patches, next_patch, next_position;
#endif
} flat;

/* Takes the positions of `count` patches or exceptions: they must increase and be below `n`. */
static const uint8_t *take_positions(ne_reader *in, size_t count, size_t n, unsigned *width) {
    const uint8_t *positions;
    size_t index, lowest = 0;
    *width = ne_bits_of(n > 0 ? n - 1 : 0);
    positions = ne_take(in, ne_packed_bytes(count, *width));
    for (index = 0; index < count && !in->bad; index++) {
        size_t position = (size_t)ne_packed_at(positions, index, *width);
        if (position < lowest || position >= n) {
            in->bad = true;
        }
        lowest = position + 1;
    }
    return positions;
}

static void take_packing(ne_reader *in, flat *it, size_t n) {
    uint64_t patches;
    const uint8_t *width = ne_take(in, 1);
    it->width = in->bad ? 0 : *width;
    patches = ne_take_varint(in);
    it->base = (uint64_t)ne_take_zigzag(in);
    if (it->width > 64 || patches > n) {
        in->bad = true;
        return;
    }
    it->packed = ne_take(in, ne_packed_bytes(n, it->width));
#ifdef NE_ALL_ENCODINGS
    it->patches = (size_t)patches;
    if (patches > 0 && !in->bad) {
        const uint8_t *high = ne_take(in, 1);
        const uint8_t *start;
        it->high_width = in->bad ? 1 : *high;
        if (it->high_width == 0 || it->high_width > 64u - it->width) {
            in->bad = true;
            return;
        }
        start = in->at;
        /* Positions first, then the high parts: both must be there before one is looked at. */
        ne_take(in, ne_packed_bytes((size_t)patches, ne_bits_of(n > 0 ? n - 1 : 0)));
        it->highs = ne_take(in, ne_packed_bytes((size_t)patches, it->high_width));
        if (!in->bad) {
            ne_reader positions = {start, in->end, false};
            it->positions = take_positions(&positions, (size_t)patches, n, &it->position_width);
            in->bad = positions.bad;
            it->next_position = in->bad ? SIZE_MAX : (size_t)ne_packed_at(it->positions, 0, it->position_width);
        }
    }
#else
    /* Servers patch, devices do not. */
    in->bad = in->bad || patches > 0;
#endif
}

/* Takes the body of a chunk without parts off the front of `in`. */
static void take_flat(ne_reader *in, uint8_t encoding, size_t n, flat *it) {
    memset(it, 0, sizeof *it);
    it->packed = in->at;
#ifdef NE_ALL_ENCODINGS
    it->next_position = SIZE_MAX;
#endif
    it->is_delta = encoding == STRIDE || encoding == DELTA;
    if (it->is_delta) {
        it->first = (uint64_t)ne_take_zigzag(in);
        n--;
    }
    if (encoding <= STRIDE) {
        it->base = (uint64_t)ne_take_zigzag(in);
    } else if (encoding <= DELTA) {
        take_packing(in, it, n);
    } else {
        it->width = 64;
        it->packed = ne_take(in, 8 * n);
        in->bad = in->bad || encoding != RAW;
    }
}

static void take_flat_chunk(ne_reader *in, size_t n, flat *it) {
    const uint8_t *encoding = ne_take(in, 1);
    take_flat(in, in->bad ? RAW : *encoding, n, it);
}

static uint64_t packing_next(flat *it, size_t index) {
    uint64_t value = it->base + ne_packed_at(it->packed, index, it->width);
#ifdef NE_ALL_ENCODINGS
    if (index == it->next_position) {
        value += ne_packed_at(it->highs, it->next_patch, it->high_width) << it->width;
        it->next_patch++;
        it->next_position =
            it->next_patch < it->patches ? (size_t)ne_packed_at(it->positions, it->next_patch, it->position_width) : SIZE_MAX;
    }
#endif
    return value;
}

static bool has_patches(const flat *it) {
#ifdef NE_ALL_ENCODINGS
    return it->patches > 0;
#else
    (void)it;
    return false;
#endif
}

/* Unpacks numbers one behind the other. `before` is the running sum if they are differences, else 0 is added to each. */
static void unpack(const uint8_t *packed, size_t n, unsigned width, uint64_t base, bool deltas, uint64_t before, uint64_t *out) {
    uint32_t bits = 0, mask = (uint32_t)ne_mask(width < 24 ? width : 24);
    unsigned have = 0;
    size_t index;
    for (index = 0; index < n; index++) {
        uint64_t value = base + before;
        if (width <= 24) {
            for (; have < width; have += 8) {
                bits |= (uint32_t)*packed++ << have;
            }
            value += bits & mask;
            bits >>= width;
            have -= width;
        } else {
            value += ne_packed_at(packed, index, width);
        }
        out[index] = value;
        before = deltas ? value : 0;
    }
}

static uint64_t flat_next(flat *it) {
    size_t index = it->next++;
    if (!it->is_delta) {
        return packing_next(it, index);
    }
    if (index > 0) {
        it->first += packing_next(it, index - 1);
    }
    return it->first;
}

/* What servers write and devices do not. */
#ifdef NE_ALL_ENCODINGS
static ne_status decode_runs(ne_reader *in, uint64_t *out, size_t n) {
    uint64_t count = ne_take_varint(in);
    flat values, lengths;
    size_t row = 0;
    if (count == 0 || count > n) {
        return NE_CORRUPT;
    }
    take_flat_chunk(in, (size_t)count, &values);
    take_flat_chunk(in, (size_t)count, &lengths);
    if (in->bad) {
        return NE_CORRUPT;
    }
    for (; count > 0; count--) {
        uint64_t value = flat_next(&values), length = flat_next(&lengths);
        if (length == 0 || length > n - row) {
            return NE_CORRUPT;
        }
        while (length-- > 0) {
            out[row++] = value;
        }
    }
    return row == n ? NE_OK : NE_CORRUPT;
}

static ne_status decode_distinct(ne_reader *in, uint64_t *out, size_t n, uint64_t *room) {
    uint64_t count = ne_take_varint(in);
    flat entries, codes;
    size_t row;
    if (room == NULL) {
        return NE_UNSUPPORTED;
    }
    if (count == 0 || count > n) {
        return NE_CORRUPT;
    }
    take_flat_chunk(in, (size_t)count, &entries);
    take_flat_chunk(in, n, &codes);
    if (in->bad) {
        return NE_CORRUPT;
    }
    for (row = 0; row < count; row++) {
        room[row] = flat_next(&entries);
    }
    for (row = 0; row < n; row++) {
        uint64_t code = flat_next(&codes);
        if (code >= count) {
            return NE_CORRUPT;
        }
        out[row] = room[code];
    }
    return NE_OK;
}
static ne_status decode_grid(ne_reader *in, uint64_t *out, size_t n) {
    uint64_t base = (uint64_t)ne_take_zigzag(in), width = ne_take_varint(in);
    flat numbers;
    size_t row;
    take_flat_chunk(in, n, &numbers);
    if (in->bad) {
        return NE_CORRUPT;
    }
    for (row = 0; row < n; row++) {
        out[row] = base + width * flat_next(&numbers);
    }
    return NE_OK;
}

#endif

static NE_APART ne_status decode_blocked(ne_reader *in, uint64_t *out, size_t n) {
    const uint8_t *order = ne_take(in, 1);
    size_t first = 0, row, count;
    flat widths, bases;
    if (in->bad || *order > 1) {
        return NE_CORRUPT;
    }
    if (*order == 1) {
        out[0] = (uint64_t)ne_take_zigzag(in);
        first = 1;
        if (n < 2) {
            return NE_CORRUPT;
        }
    }
    count = (n - first + BLOCK - 1) / BLOCK;
    take_flat_chunk(in, count, &widths);
    take_flat_chunk(in, count, &bases);
    if (in->bad) {
        return NE_CORRUPT;
    }
    for (row = first; row < n;) {
        uint64_t width = flat_next(&widths), base = flat_next(&bases);
        size_t in_block = n - row < BLOCK ? n - row : BLOCK;
        const uint8_t *packed;
        if (width > 64) {
            return NE_CORRUPT;
        }
        packed = ne_take(in, ne_packed_bytes(in_block, (unsigned)width));
        if (in->bad) {
            return NE_CORRUPT;
        }
        unpack(packed, in_block, (unsigned)width, base, first == 1, first == 1 ? out[row - 1] : 0, out + row);
        row += in_block;
    }
    return NE_OK;
}

static ne_status decode_integers(ne_reader *in, uint8_t encoding, uint64_t *out, size_t n, uint64_t *room) {
    flat it;
    size_t row;
    (void)room;
    switch (encoding) {
#ifdef NE_ALL_ENCODINGS
    case RUNS:
        return decode_runs(in, out, n);
    case DISTINCT:
        return decode_distinct(in, out, n, room);
    case GRID:
        return decode_grid(in, out, n);
#else
    case RUNS:
    case DISTINCT:
    case GRID:
        return NE_UNSUPPORTED;
#endif
    case BLOCKED:
        return decode_blocked(in, out, n);
    default:
        take_flat(in, encoding, n, &it);
        if (in->bad) {
            return NE_CORRUPT;
        }
        row = it.is_delta;
        if (has_patches(&it)) {
            for (row = 0; row < n; row++) {
                out[row] = flat_next(&it);
            }
        } else if (it.width == 0) {
            it.first = it.is_delta ? it.first : it.base;
            for (row = 0; row < n; row++) {
                out[row] = it.first;
                it.first += it.is_delta ? it.base : 0;
            }
        } else {
            out[0] = it.first;
            unpack(it.packed, n - row, it.width, it.base, it.is_delta, it.first, out + row);
        }
        return NE_OK;
    }
}

static ne_status decode_chunk(ne_reader *in, uint64_t *out, size_t n, uint64_t *room) {
    const uint8_t *encoding = ne_take(in, 1);
    return in->bad ? NE_CORRUPT : decode_integers(in, *encoding, out, n, room);
}

static ne_status decode_scaled(ne_reader *in, uint8_t encoding, uint64_t *out, size_t n, uint64_t *room) {
    const uint8_t *byte = ne_take(in, 1), *positions, *bits;
    uint64_t count = ne_take_varint(in);
    uint64_t limit = (uint64_t)1 << (encoding == DYADIC ? 53 : 51);
    unsigned width;
    size_t row;
    ne_scale scale;
    ne_status status;
    if (in->bad || count > n) {
        return NE_CORRUPT;
    }
    scale.form = encoding == DYADIC ? 3 : 2;
    scale.scale = (int8_t)*byte;
    if (encoding == DECIMAL && (scale.scale > 18 || scale.scale < -18)) {
        return NE_CORRUPT;
    }
#ifndef NE_ALL_ENCODINGS
    if (encoding == DECIMAL && (scale.scale < 0 || scale.scale > NE_DECIMAL_SCALE_MAX)) {
        return NE_UNSUPPORTED;
    }
#endif
    positions = take_positions(in, (size_t)count, n, &width);
    bits = ne_take(in, 8 * (size_t)count);
    status = in->bad ? NE_CORRUPT : decode_chunk(in, out, n, room);
    for (row = 0; row < n && status == NE_OK; row++) {
        if (out[row] + limit >= 2 * limit) {
            status = NE_CORRUPT;
        }
        out[row] = ne_from_double(ne_unscaled((int64_t)out[row], scale));
    }
    for (row = 0; row < count && status == NE_OK; row++) {
        out[ne_packed_at(positions, row, width)] = ne_get64(bits + 8 * row);
    }
    return status;
}

static ne_status decode_floats(ne_reader *in, uint8_t encoding, uint64_t *out, size_t n, uint64_t *room) {
    const uint8_t *shift;
    ne_status status;
    size_t row;
    switch (encoding) {
    case RAW:
        return decode_integers(in, RAW, out, n, room);
    case DECIMAL:
    case DYADIC:
        return decode_scaled(in, encoding, out, n, room);
    case IMAGE:
        shift = ne_take(in, 1);
        if (in->bad || *shift > 63) {
            return NE_CORRUPT;
        }
        status = decode_chunk(in, out, n, room);
        for (row = 0; row < n && status == NE_OK; row++) {
            out[row] <<= *shift;
        }
        return status;
    default:
        return NE_CORRUPT;
    }
}

static ne_status decode_bools(ne_reader *in, uint8_t encoding, uint64_t *out, size_t n, uint64_t *room) {
    ne_status status = NE_OK;
    size_t row;
    if (encoding == BITMAP) {
        const uint8_t *bits = ne_take(in, ne_packed_bytes(n, 1));
        if (in->bad) {
            return NE_CORRUPT;
        }
        unpack(bits, n, 1, 0, false, 0, out);
        return NE_OK;
    }
    status = decode_integers(in, encoding, out, n, room);
    for (row = 0; row < n && status == NE_OK; row++) {
        if (out[row] > 1) {
            status = NE_CORRUPT;
        }
    }
    return status;
}

/* Turns lengths into places, counted from `page`, of bytes that are taken off the front of `in`. */
static ne_status take_texts(ne_reader *in, const uint8_t *page, uint64_t *out, size_t n, bool utf8) {
    size_t row;
    for (row = 0; row < n; row++) {
        uint64_t length = out[row];
        const uint8_t *at;
        if (length > (uint64_t)(in->end - in->at)) {
            return NE_CORRUPT;
        }
        at = ne_take(in, (size_t)length);
        if (utf8 && !ne_is_utf8(at, (size_t)length)) {
            return NE_CORRUPT;
        }
        out[row] = (uint64_t)(at - page) << 32 | length;
    }
    return NE_OK;
}

static ne_status decode_texts(ne_reader *in, const uint8_t *page, uint8_t encoding, uint64_t *out, size_t n, uint64_t *room,
                              bool utf8) {
    ne_status status;
#ifdef NE_ALL_ENCODINGS
    uint64_t count, text_bytes = 0;
    size_t row;
#endif
    if (encoding == PLAIN) {
        status = decode_chunk(in, out, n, room);
        return status == NE_OK ? take_texts(in, page, out, n, utf8) : status;
    }
    if (encoding != DICTIONARY) {
        bool is_known = encoding == DICTIONARY + 1 || encoding == DICTIONARY + 2 || encoding == TRANSPOSED;
        return is_known ? NE_UNSUPPORTED : NE_CORRUPT;
    }
#ifdef NE_ALL_ENCODINGS
    count = ne_take_varint(in);
    if (in->bad || count == 0 || count > n) {
        return NE_CORRUPT;
    }
    if (room == NULL) {
        return NE_UNSUPPORTED;
    }
    /* The codes are read with `out` as their own room: what writes codes never needs any. */
    status = decode_chunk(in, room, (size_t)count, out);
    status = status == NE_OK ? take_texts(in, page, room, (size_t)count, utf8) : status;
    if (status != NE_OK) {
        return status;
    }
    status = decode_chunk(in, out, n, NULL);
    for (row = 0; row < n && status == NE_OK; row++) {
        if (out[row] >= count) {
            return NE_CORRUPT;
        }
        out[row] = room[out[row]];
        text_bytes += out[row] & 0xffffffff;
        if (text_bytes > (n == 1 ? 32u : 16u) << 20) {
            return NE_CORRUPT;
        }
    }
    return status;
#else
    return NE_UNSUPPORTED;
#endif
}

ne_status ne_page_decode(const uint8_t *page, size_t bytes, uint64_t *values, size_t values_max, uint64_t *room,
                         ne_page_info *info) {
    ne_reader in = {page, page + bytes, false};
    const uint8_t *head = ne_take(&in, 4);
    size_t rows, n;
#ifdef NE_ALL_ENCODINGS
    size_t row;
#endif
    uint8_t encoding;
    ne_status status = NE_OK;
    if (in.bad) {
        return NE_CORRUPT;
    }
    encoding = head[0];
    info->type = head[1] & 0x7f;
    rows = ne_get16(head + 2);
    info->rows = (uint16_t)rows;
    info->present = NULL;
    if (rows == 0 || rows > 1024 || info->type > NE_BYTES) {
        return NE_CORRUPT;
    }
    if (rows > values_max) {
        return NE_UNSUPPORTED;
    }
    n = rows;
#ifdef NE_ALL_ENCODINGS
    if (head[1] & 0x80) {
        info->present = ne_take(&in, (rows + 7) / 8);
        if (in.bad) {
            return NE_CORRUPT;
        }
        for (row = 0, n = 0; row < 8 * ((rows + 7) / 8); row++) {
            bool is_set = info->present[row / 8] >> (row % 8) & 1;
            if (is_set && row >= rows) {
                return NE_CORRUPT;
            }
            n += is_set;
        }
    }
#else
    if (head[1] & 0x80) {
        return NE_UNSUPPORTED; /* nulls */
    }
#endif
    if (encoding == PCO) {
        return NE_UNSUPPORTED;
    }
    if (n == 0) {
        status = encoding == CONST ? NE_OK : NE_CORRUPT;
    } else if (info->type <= NE_UINT) {
        status = decode_integers(&in, encoding, values, n, room);
    } else if (info->type == NE_FLOAT) {
        status = decode_floats(&in, encoding, values, n, room);
    } else if (info->type == NE_BOOL) {
        status = decode_bools(&in, encoding, values, n, room);
    } else {
        status = decode_texts(&in, page, encoding, values, n, room, info->type == NE_TEXT);
    }
    if (status != NE_OK) {
        return status;
    }
    if (in.at != in.end) {
        return NE_CORRUPT;
    }
#ifdef NE_ALL_ENCODINGS
    /* From the end, so that no value is overwritten before it has moved. */
    for (row = rows; info->present != NULL && row-- > 0;) {
        values[row] = info->present[row / 8] >> (row % 8) & 1 ? values[--n] : 0;
    }
#endif
    return NE_OK;
}

