/* Writing column pages, byte for byte those of docs/format/page.md.
 *
 * Does: CONST, STRIDE, FOR, DELTA, BLOCKED, RAW, DECIMAL, DYADIC, IMAGE and BITMAP, whichever is smallest; text is ne_seal.c's.
 * Does not: allocate, or take more room than the widths of 32 blocks.
 */
#include "ne_internal.h"

#include <string.h>

static const uint32_t powers[NE_DECIMAL_SCALE_MAX + 1] = {1, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000, 1000000000};
static const double float_powers[NE_DECIMAL_SCALE_MAX + 1] = {1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9};

double ne_unscaled(int64_t integer, ne_scale scale) {
    double value = (double)integer, power = 1;
    int digits = scale.scale < 0 ? -scale.scale : scale.scale;
    if (scale.form == 3) {
        /* A product with a power of two is a sum of exponents: below 2^53 neither end of their range is near. */
        uint64_t bits = ne_from_double(value);
        return integer == 0 ? value : ne_to_double(bits - ((uint64_t)(int64_t)scale.scale << 52));
    }
    if (scale.scale >= 0 && scale.scale <= NE_DECIMAL_SCALE_MAX) {
        return value / float_powers[scale.scale];
    }
    /* Powers of ten are floats up to the 22nd. This library writes none of these scales. */
    while (digits-- > 0) {
        power *= 10;
    }
    return scale.scale >= 0 ? value / power : value * power;
}

/* What a list of integers takes in each form. */
typedef struct {
    uint8_t encoding;
    size_t bytes;
    uint64_t base;
    unsigned width;
} plan;

/* Values, or the differences between neighbours, as the blocks of BLOCKED. */
static uint64_t number_at(const uint64_t *values, size_t index, bool deltas) {
    return deltas ? values[index + 1] - values[index] : values[index];
}

static void ends_of(const uint64_t *values, size_t from, size_t to, bool deltas, int64_t *min, int64_t *max) {
    size_t index;
    *min = *max = (int64_t)number_at(values, from, deltas);
    for (index = from + 1; index < to; index++) {
        int64_t number = (int64_t)number_at(values, index, deltas);
        *min = number < *min ? number : *min;
        *max = number > *max ? number : *max;
    }
}

static void pack(ne_writer *out, const uint64_t *values, size_t from, size_t to, bool deltas, uint64_t base, unsigned width) {
    uint64_t bits = 0;
    unsigned have = 0;
    size_t index;
    for (index = from; index < to && width > 0; index++) {
        uint64_t offset = number_at(values, index, deltas) - base;
        unsigned left = width;
        while (left > 0) {
            unsigned step = 8 - have < left ? 8 - have : left;
            bits |= (offset & ne_mask(step)) << have;
            offset = step < 64 ? offset >> step : 0;
            have += step;
            left -= step;
            if (have == 8) {
                ne_put_byte(out, (uint8_t)bits);
                bits = 0;
                have = 0;
            }
        }
    }
    if (have > 0) {
        ne_put_byte(out, (uint8_t)bits);
    }
}

static size_t packing_bytes(size_t n, uint64_t base, unsigned width) {
    return 2 + ne_varint_bytes(ne_zigzag(base)) + ne_packed_bytes(n, width);
}

static plan plan_flat(const uint64_t *values, size_t n) {
    plan best = {RAW, 8 * n, 0, 0};
    int64_t min, max;
    size_t bytes;
    unsigned width;
    ends_of(values, 0, n, false, &min, &max);
    if (min == max) {
        best.encoding = CONST;
        best.bytes = ne_varint_bytes(ne_zigzag(values[0]));
        return best;
    }
    width = ne_bits_of((uint64_t)max - (uint64_t)min);
    bytes = packing_bytes(n, (uint64_t)min, width);
    if (bytes < best.bytes) {
        best.encoding = FRAME;
        best.bytes = bytes;
        best.base = (uint64_t)min;
        best.width = width;
    }
    ends_of(values, 0, n - 1, true, &min, &max);
    if (min == max) {
        best.encoding = STRIDE;
        best.bytes = ne_varint_bytes(ne_zigzag(values[0])) + ne_varint_bytes(ne_zigzag((uint64_t)min));
        return best;
    }
    width = ne_bits_of((uint64_t)max - (uint64_t)min);
    bytes = ne_varint_bytes(ne_zigzag(values[0])) + packing_bytes(n - 1, (uint64_t)min, width);
    if (bytes < best.bytes) {
        best.encoding = DELTA;
        best.bytes = bytes;
        best.base = (uint64_t)min;
        best.width = width;
    }
    return best;
}

static void encode_flat(ne_writer *out, const uint64_t *values, size_t n, const plan *chosen) {
    size_t index;
    uint8_t word[8];
    switch (chosen->encoding) {
    case CONST:
        ne_put_zigzag(out, (int64_t)values[0]);
        break;
    case STRIDE:
        ne_put_zigzag(out, (int64_t)values[0]);
        ne_put_zigzag(out, (int64_t)(values[1] - values[0]));
        break;
    case RAW:
        for (index = 0; index < n; index++) {
            ne_put64(word, values[index]);
            ne_put(out, word, 8);
        }
        break;
    default:
        if (chosen->encoding == DELTA) {
            ne_put_zigzag(out, (int64_t)values[0]);
            n--;
        }
        ne_put_byte(out, (uint8_t)chosen->width);
        ne_put_byte(out, 0);
        ne_put_zigzag(out, (int64_t)chosen->base);
        pack(out, values, 0, n, chosen->encoding == DELTA, chosen->base, chosen->width);
    }
}

static void encode_flat_chunk(ne_writer *out, const uint64_t *values, size_t n) {
    plan chosen = plan_flat(values, n);
    ne_put_byte(out, chosen.encoding);
    encode_flat(out, values, n, &chosen);
}

/* Widths and bases of BLOCKED: of at most 1024 values. */
typedef struct {
    uint64_t widths[32], bases[32];
    size_t count, bytes;
} blocks;

static void plan_blocks(const uint64_t *values, size_t n, bool deltas, blocks *out) {
    size_t from, numbers = deltas ? n - 1 : n;
    out->count = 0;
    out->bytes = 1 + (deltas ? ne_varint_bytes(ne_zigzag(values[0])) : 0);
    for (from = 0; from < numbers; from += BLOCK) {
        size_t to = numbers - from < BLOCK ? numbers : from + BLOCK;
        int64_t min, max;
        unsigned width;
        ends_of(values, from, to, deltas, &min, &max);
        width = ne_bits_of((uint64_t)max - (uint64_t)min);
        out->widths[out->count] = width;
        out->bases[out->count++] = (uint64_t)min;
        out->bytes += ne_packed_bytes(to - from, width);
    }
    out->bytes += 2 + plan_flat(out->widths, out->count).bytes + plan_flat(out->bases, out->count).bytes;
}

static void encode_blocks(ne_writer *out, const uint64_t *values, size_t n, bool deltas, const blocks *of) {
    size_t index, numbers = deltas ? n - 1 : n;
    ne_put_byte(out, deltas);
    if (deltas) {
        ne_put_zigzag(out, (int64_t)values[0]);
    }
    encode_flat_chunk(out, of->widths, of->count);
    encode_flat_chunk(out, of->bases, of->count);
    for (index = 0; index < of->count; index++) {
        size_t from = index * BLOCK, to = numbers - from < BLOCK ? numbers : from + BLOCK;
        pack(out, values, from, to, deltas, of->bases[index], (unsigned)of->widths[index]);
    }
}

/* Puts the encoding at `place`, which is behind in the same writer, and the body at the end. */
static void encode_integers(ne_writer *out, uint8_t *place, const uint64_t *values, size_t n) {
    plan flat_plan = plan_flat(values, n);
    blocks of;
    int deltas;
    if (n >= 2 * BLOCK && flat_plan.encoding != CONST && flat_plan.encoding != STRIDE) {
        for (deltas = 0; deltas < 2; deltas++) {
            plan_blocks(values, n, deltas, &of);
            if (of.bytes < flat_plan.bytes) {
                flat_plan.bytes = of.bytes;
                flat_plan.encoding = BLOCKED;
                flat_plan.width = (unsigned)deltas;
            }
        }
    }
    *place = flat_plan.encoding;
    if (flat_plan.encoding == BLOCKED) {
        plan_blocks(values, n, flat_plan.width == 1, &of);
        encode_blocks(out, values, n, flat_plan.width == 1, &of);
    } else {
        encode_flat(out, values, n, &flat_plan);
    }
}

void ne_chunk_encode(ne_writer *out, const uint64_t *values, size_t n) {
    uint8_t *place = out->at;
    ne_put_byte(out, 0);
    if (!out->full) {
        encode_integers(out, place, values, n);
    }
}

/* The scale at which a float is an integer over a power of two, by its bits alone; false if there is none. */
static bool dyadic_scale(uint64_t bits, int *scale) {
    int exponent = (int)(bits >> 52 & 0x7ff), zeros = 0;
    uint32_t word;
    uint64_t fraction = (bits & ne_mask(52)) | (uint64_t)1 << 52;
    if (bits == 0) {
        *scale = -128;
        return true;
    }
    if (exponent == 0 || exponent == 0x7ff) {
        return false;
    }
    if ((uint32_t)fraction == 0) {
        fraction >>= 32;
        zeros = 32;
    }
    for (word = (uint32_t)fraction; !(word & 1); word >>= 1) {
        zeros++;
    }
    *scale = 52 - zeros - (exponent - 1023);
    return *scale <= 127;
}

/* The integer of a float at a scale that is at least its own; false if it is 2^53 or more. */
static bool dyadic_integer(uint64_t bits, int scale, int64_t *integer) {
    int shift = (int)(bits >> 52 & 0x7ff) - 1023 - 52 + scale;
    uint64_t fraction = (bits & ne_mask(52)) | (uint64_t)1 << 52;
    if (bits == 0) {
        *integer = 0;
        return true;
    }
    if (shift > 0 || shift <= -64) {
        return false;
    }
    fraction >>= -shift;
    *integer = bits >> 63 ? -(int64_t)fraction : (int64_t)fraction;
    return true;
}

static bool choose_dyadic(const uint64_t *values, size_t n, int *scale) {
    size_t row;
    int of_value;
    int64_t integer;
    *scale = -128;
    for (row = 0; row < n; row++) {
        if (!dyadic_scale(values[row], &of_value)) {
            return false;
        }
        *scale = of_value > *scale ? of_value : *scale;
    }
    for (row = 0; row < n; row++) {
        if (!dyadic_integer(values[row], *scale, &integer)) {
            return false;
        }
    }
    return true;
}

/* The float is m / 2^k and rounds from i / p if i * 2^k is no farther from m * p than p / 2: a quarter of p from below where the floats
 * below lie twice as dense. Below 2^51 no such distance is a tie, and no other integer is as near. */
bool ne_decimal_integer(uint64_t bits, unsigned scale, int64_t *integer) {
    uint32_t power = powers[scale], most = power & ~(uint32_t)1, rest;
    uint64_t fraction = (bits & ne_mask(52)) | (uint64_t)1 << 52;
    uint64_t low = (uint64_t)(uint32_t)fraction * power, high = (uint64_t)(uint32_t)(fraction >> 32) * power;
    int k = 1075 - (int)(bits >> 52 & 0x7ff);
    *integer = 0;
    if (bits == 0) {
        return true;
    }
    if (k <= 0 || k > 32 + 52) {
        return false;
    }
    low += power / 2;
    high += low >> 32;
    rest = (uint32_t)low;
    if (k > 32) {
        if (high & ne_mask((unsigned)k - 32)) {
            return false;
        }
        high >>= k - 32;
    } else {
        if (high >> (19 + k)) {
            return false;
        }
        high = high << (32 - k) | (uint64_t)rest >> k;
        rest &= (uint32_t)ne_mask((unsigned)k);
    }
    if ((bits & ne_mask(52)) == 0) {
        most = power / 2 + power / 4;
    }
    *integer = bits >> 63 ? -(int64_t)high : (int64_t)high;
    return rest <= most;
}

/* Bits after the point that no decimal is looked for below. */
#define DYADIC_NEAR 20

static bool choose_decimal(const uint64_t *values, size_t n, int *scale) {
    size_t row, finest = 0;
    int64_t integer;
    *scale = 0;
    for (row = 0; row < n; row++) {
        while (!ne_decimal_integer(values[row], (unsigned)*scale, &integer)) {
            finest = row;
            if (++*scale > NE_DECIMAL_SCALE_MAX) {
                return false;
            }
        }
    }
    /* A finer scale may have lost a value that a coarser one had: one before the last that asked for a finer one. */
    for (row = 0; row < finest; row++) {
        if (!ne_decimal_integer(values[row], (unsigned)*scale, &integer)) {
            return false;
        }
    }
    return true;
}

/* The integer of a float at the scale that was chosen for it. */
static int64_t scaled(uint64_t bits, ne_scale scale) {
    int64_t integer = 0;
    if (scale.form == 3) {
        dyadic_integer(bits, scale.scale, &integer);
    } else if (scale.form == 2) {
        ne_decimal_integer(bits, (unsigned)scale.scale, &integer);
    } else {
        integer = (int64_t)bits;
    }
    return integer;
}

/* A common scale of all values: dyadic where that has no more bits than the decimal has digits. */
static ne_scale choose_scale(const uint64_t *values, size_t n) {
    ne_scale scale = {0, 0};
    int dyadic, decimal;
    bool is_dyadic = choose_dyadic(values, n, &dyadic);
    /* As decimals, steps of a power of two take as many digits as bits: of a few bits nothing else is looked for. */
    if ((!is_dyadic || dyadic > DYADIC_NEAR) && choose_decimal(values, n, &decimal)) {
        scale.form = 2;
        scale.scale = (int8_t)decimal;
    } else if (is_dyadic) {
        scale.form = 3;
        scale.scale = (int8_t)dyadic;
    }
    return scale;
}

static void encode_floats(ne_writer *out, uint8_t *place, uint64_t *values, size_t n, ne_scale *scale) {
    size_t row;
    uint8_t *start = out->at;
    unsigned shift = 0;
    uint64_t all = 0;
    *scale = choose_scale(values, n);
    if (scale->form != 0) {
        for (row = 0; row < n; row++) {
            values[row] = (uint64_t)scaled(values[row], *scale);
        }
        *place = scale->form == 3 ? DYADIC : DECIMAL;
        ne_put_byte(out, (uint8_t)scale->scale);
        ne_put_byte(out, 0);
        ne_chunk_encode(out, values, n);
        return;
    }
    for (row = 0; row < n; row++) {
        all |= values[row];
    }
    while (shift < 63 && !(all >> shift & 1)) {
        shift++;
    }
    for (row = 0; row < n; row++) {
        /* An arithmetic shift, without relying on what the compiler does with negative numbers. */
        uint64_t sign = values[row] >> 63 ? ~ne_mask(64 - shift) : 0;
        values[row] = values[row] >> shift | (shift ? sign : 0);
    }
    *place = IMAGE;
    ne_put_byte(out, (uint8_t)shift);
    ne_chunk_encode(out, values, n);
    for (row = 0; row < n; row++) {
        values[row] <<= shift;
    }
    if (!out->full && (size_t)(out->at - start) >= 8 * n) {
        plan raw = {RAW, 8 * n, 0, 0};
        out->at = start;
        *place = RAW;
        encode_flat(out, values, n, &raw);
    }
}

void ne_page_encode(ne_writer *out, uint8_t type, uint64_t *values, size_t rows, ne_scale *scale) {
    uint8_t head[4];
    uint8_t *place = out->at;
    head[0] = 0;
    head[1] = type;
    ne_put16(head + 2, (uint16_t)rows);
    ne_put(out, head, 4);
    scale->form = type <= NE_UINT ? 1 : 0;
    scale->scale = 0;
    if (out->full) {
        return;
    }
    if (type == NE_FLOAT) {
        encode_floats(out, place, values, rows, scale);
    } else if (type == NE_BOOL) {
        plan flat_plan = plan_flat(values, rows);
        if (flat_plan.bytes < ne_packed_bytes(rows, 1)) {
            *place = flat_plan.encoding;
            encode_flat(out, values, rows, &flat_plan);
        } else {
            *place = BITMAP;
            pack(out, values, 0, rows, false, 0, 1);
        }
    } else {
        encode_integers(out, place, values, rows);
    }
}
