/* Writing column pages, byte for byte those of docs/format/page.md.
 *
 * Does: CONST, STRIDE, FOR, DELTA, BLOCKED, RAW, DECIMAL, DYADIC, IMAGE and BITMAP, whichever is smallest; text is ne_seal.c's.
 * Does not: allocate, or take more room than the widths of 32 blocks.
 */
#include "ne_internal.h"

#include <string.h>

static const uint32_t powers[NE_DECIMAL_SCALE_MAX + 1] = {1, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000, 1000000000};

/* The bits of a double behind the point. */
#define FRACTION (((uint64_t)1 << 52) - 1)
/* The exponent of doubles between 2^52 and 2^53, in their bits. */
#define WHOLE_EXPONENT (1023 + 52)

/* Scales whose power of ten, times a power of two, has 16 bits. */
#define SHORT_SCALE_MAX 4

/* The bits of integer / 10^scale, rounded as IEEE 754 says: of an integer above 0 and below 2^31. Long division by digits of 16 bits, for
 * processors that divide words but no floats: a division of floats in software takes six times as many instructions. */
static uint64_t quotient(uint32_t integer, unsigned scale) {
    static const uint16_t divisors[SHORT_SCALE_MAX + 1] = {32768, 40960, 51200, 64000, 40000};
    static const uint8_t shifts[SHORT_SCALE_MAX + 1] = {15, 12, 9, 6, 2};
    uint32_t divisor = divisors[scale], exponent = 1023 + 15 + shifts[scale], high, low, rest;
    for (; integer < (uint32_t)1 << 23; integer <<= 8) {
        exponent -= 8;
    }
    for (; integer < (uint32_t)1 << 30; integer <<= 1) {
        exponent--;
    }
    high = integer / divisor << 16;
    rest = integer % divisor << 16;
    high |= rest / divisor;
    rest = rest % divisor << 16;
    low = rest / divisor << 16;
    rest = rest % divisor << 16;
    low |= rest / divisor;
    rest = rest % divisor | (low & 0x3ff);
    if (!(high >> 31)) {
        high = high << 1 | low >> 31;
        low <<= 1;
        exponent--;
    }
    /* 53 bits of 64 stay; half of the last one goes to the even neighbour. */
    rest = (low & 0x400) != 0 && (rest | (low & 0xbff)) != 0;
    return ((uint64_t)(exponent << 20 | (high >> 11 & 0xfffff)) << 32 | (high << 21 | low >> 11)) + rest;
}

double ne_unscaled(int64_t integer, ne_scale scale) {
    double value;
    uint64_t sign = (uint64_t)integer & (uint64_t)1 << 63, size = sign ? (uint64_t)0 - (uint64_t)integer : (uint64_t)integer;
    if (scale.form == 2 && scale.scale >= 0 && scale.scale <= SHORT_SCALE_MAX && size - 1 < 0x7fffffff) {
        return ne_to_double(quotient((uint32_t)size, (unsigned)scale.scale) | sign);
    }
    value = (double)integer;
    if (scale.form == 3) {
        /* A product with a power of two is a sum of exponents: below 2^53 neither end of their range is near. */
        uint64_t bits = ne_from_double(value);
        return integer == 0 ? value : ne_to_double(bits - ((uint64_t)(int64_t)scale.scale << 52));
    }
#ifdef NE_ALL_ENCODINGS
    /* Scales that this library does not write. Powers of ten are floats up to the 22nd. */
    if (scale.scale < 0 || scale.scale > NE_DECIMAL_SCALE_MAX) {
        int digits = scale.scale < 0 ? -scale.scale : scale.scale;
        double power = 1;
        while (digits-- > 0) {
            power *= 10;
        }
        return scale.scale >= 0 ? value / power : value * power;
    }
#endif
    return value / (double)powers[scale.scale];
}

/* What a list of integers takes in each form. */
typedef struct {
    uint64_t base; /* of CONST the value, of STRIDE the step */
    size_t bytes;
    uint8_t encoding, width;
} plan;

void ne_ends_of(const uint64_t *values, size_t from, size_t to, bool deltas, int64_t *min, int64_t *max) {
    uint64_t before = deltas ? values[from++] : 0;
    int64_t low = (int64_t)(values[from] - before), high = low;
    for (to += deltas; from < to; from++) {
        int64_t number = (int64_t)(values[from] - before);
        before = deltas ? values[from] : 0;
        if (number < low) {
            low = number;
        } else if (number > high) {
            high = number;
        }
    }
    *min = low;
    *max = high;
}

/* Bits that are appended, the lowest first; as many bytes as they take are known to be there. */
typedef struct {
    uint8_t *at;
    uint32_t bits;
    unsigned have;
} packer;

static void put_bits(packer *to, uint32_t bits, unsigned width) {
    to->bits |= bits << to->have;
    to->have += width;
    if (to->have >= 32) {
        ne_put32(to->at, to->bits);
        to->at += 4;
        to->have -= 32;
        to->bits = to->have > 0 ? bits >> (width - to->have) : 0;
    }
}

static void put_wide(packer *to, uint64_t bits, unsigned width) {
    if (width > 32) {
        put_bits(to, (uint32_t)bits, 32);
        bits >>= 32;
        width -= 32;
    }
    if (width > 0) {
        put_bits(to, (uint32_t)bits, width);
    }
}

/* Takes the room for `n` values; false if there is none. */
static bool begin_packing(ne_writer *out, packer *to, size_t n, unsigned width) {
    size_t bytes = ne_packed_bytes(n, width);
    if (out->full || (size_t)(out->end - out->at) < bytes) {
        out->full = true;
        return false;
    }
    to->at = out->at;
    to->bits = 0;
    to->have = 0;
    out->at += bytes;
    return true;
}

static void end_packing(packer *to) {
    for (; to->have > 0; to->have -= to->have < 8 ? to->have : 8) {
        *to->at++ = (uint8_t)to->bits;
        to->bits >>= 8;
    }
}

static NE_APART void pack(ne_writer *out, const uint64_t *values, size_t from, size_t to, bool deltas, uint64_t base, unsigned width) {
    packer it;
    uint64_t before;
    if (!begin_packing(out, &it, to - from, width)) {
        return;
    }
    before = deltas ? values[from++] : 0;
    for (to += deltas; from < to; from++) {
        put_wide(&it, values[from] - before - base, width);
        before = deltas ? values[from] : 0;
    }
    end_packing(&it);
}

static size_t packing_bytes(size_t n, uint64_t base, unsigned width) {
    return 2 + ne_varint_bytes(ne_zigzag(base)) + ne_packed_bytes(n, width);
}

/* What the packing of numbers between two ends takes, if that is less than the best so far. */
static void plan_packing(plan *best, uint8_t encoding, size_t before, size_t n, int64_t min, int64_t max) {
    unsigned width = ne_bits_of((uint64_t)max - (uint64_t)min);
    size_t bytes = before + packing_bytes(n, (uint64_t)min, width);
    if (bytes < best->bytes) {
        best->encoding = encoding;
        best->bytes = bytes;
        best->base = (uint64_t)min;
        best->width = (uint8_t)width;
    }
}

static NE_APART plan plan_flat(const uint64_t *values, size_t n) {
    plan best = {0, 8 * n, RAW, 64};
    int64_t min, max;
    size_t first = ne_varint_bytes(ne_zigzag(values[0]));
    ne_ends_of(values, 0, n, false, &min, &max);
    if (min == max) {
        best.encoding = CONST;
        best.base = (uint64_t)min;
        best.bytes = first;
        return best;
    }
    plan_packing(&best, FRAME, 0, n, min, max);
    ne_ends_of(values, 0, n - 1, true, &min, &max);
    if (min == max) {
        best.encoding = STRIDE;
        best.base = (uint64_t)min;
        best.bytes = first + ne_varint_bytes(ne_zigzag((uint64_t)min));
        return best;
    }
    plan_packing(&best, DELTA, first, n - 1, min, max);
    return best;
}

static NE_APART void encode_flat(ne_writer *out, const uint64_t *values, size_t n, const plan *chosen) {
    bool is_delta = chosen->encoding == STRIDE || chosen->encoding == DELTA;
    if (is_delta) {
        ne_put_zigzag(out, (int64_t)values[0]);
        n--;
    }
    if (chosen->encoding == FRAME || chosen->encoding == DELTA) {
        ne_put_byte(out, chosen->width);
        ne_put_byte(out, 0);
    }
    if (chosen->encoding <= DELTA) {
        ne_put_zigzag(out, (int64_t)chosen->base);
    }
    if (chosen->encoding >= FRAME) {
        pack(out, values, 0, n, is_delta, chosen->base, chosen->width);
    }
}

static void encode_flat_chunk(ne_writer *out, const uint64_t *values, size_t n) {
    plan chosen = plan_flat(values, n);
    ne_put_byte(out, chosen.encoding);
    encode_flat(out, values, n, &chosen);
}

/* The ends of all values of BLOCKED, and what their packed bits take. */
typedef struct {
    int64_t min, max;
    size_t bytes;
} blocks;

/* Widths and bases of at most 32 blocks go into the room that the caller gives. */
static uint64_t *bases_of(uint64_t *room) {
    return room + NE_ENCODE_ROOM / 2;
}

static size_t blocks_of(size_t numbers) {
    return (numbers + BLOCK - 1) / BLOCK;
}

static void plan_blocks(const uint64_t *values, size_t n, bool deltas, uint64_t *room, blocks *out) {
    size_t from, numbers = deltas ? n - 1 : n, index = 0;
    out->bytes = 0;
    for (from = 0; from < numbers; from += BLOCK) {
        size_t to = numbers - from < BLOCK ? numbers : from + BLOCK;
        int64_t min, max;
        unsigned width;
        ne_ends_of(values, from, to, deltas, &min, &max);
        out->min = from == 0 || min < out->min ? min : out->min;
        out->max = from == 0 || max > out->max ? max : out->max;
        width = ne_bits_of((uint64_t)max - (uint64_t)min);
        room[index] = width;
        bases_of(room)[index++] = (uint64_t)min;
        out->bytes += ne_packed_bytes(to - from, width);
    }
}

static NE_APART void encode_blocks(ne_writer *out, const uint64_t *values, size_t n, bool deltas, uint64_t *room) {
    size_t index, numbers = deltas ? n - 1 : n, count = blocks_of(numbers);
    ne_put_byte(out, deltas);
    if (deltas) {
        ne_put_zigzag(out, (int64_t)values[0]);
    }
    encode_flat_chunk(out, room, count);
    encode_flat_chunk(out, bases_of(room), count);
    for (index = 0; index < count; index++) {
        size_t from = index * BLOCK, to = numbers - from < BLOCK ? numbers : from + BLOCK;
        pack(out, values, from, to, deltas, bases_of(room)[index], (unsigned)room[index]);
    }
}

/* The plan of many values; BLOCKED is planned in `room`, of differences if `is_delta`. Each value is looked at twice, by itself and with its
 * neighbour: the ends of all are those of the blocks. */
static NE_APART plan plan_many(const uint64_t *values, size_t n, uint64_t *room, bool *is_delta) {
    plan best = {0, 8 * n, RAW, 64};
    size_t before = 0, bytes = SIZE_MAX;
    unsigned deltas;
    for (deltas = 0; deltas < 2; deltas++) {
        blocks of;
        plan_blocks(values, n, deltas != 0, room, &of);
        if (of.min == of.max) {
            best.encoding = deltas ? STRIDE : CONST;
            best.base = (uint64_t)of.min;
            return best;
        }
        plan_packing(&best, deltas ? DELTA : FRAME, before, n - deltas, of.min, of.max);
        of.bytes += before + 3 + plan_flat(room, blocks_of(n - deltas)).bytes;
        of.bytes += plan_flat(bases_of(room), blocks_of(n - deltas)).bytes;
        *is_delta = of.bytes < bytes;
        bytes = *is_delta ? of.bytes : bytes;
        before = ne_varint_bytes(ne_zigzag(values[0]));
    }
    if (bytes < best.bytes) {
        best.encoding = BLOCKED;
        if (!*is_delta) {
            blocks of;
            plan_blocks(values, n, false, room, &of);
        }
    }
    return best;
}

/* Puts the encoding at `place`, which is behind in the same writer, and the body at the end. */
static void encode_integers(ne_writer *out, uint8_t *place, const uint64_t *values, size_t n, bool is_bits, uint64_t *room) {
    bool deltas = false;
    plan best = n < 2 * BLOCK || is_bits ? plan_flat(values, n) : plan_many(values, n, room, &deltas);
    if (is_bits && best.bytes >= ne_packed_bytes(n, 1)) {
        best.encoding = BITMAP;
        best.base = 0;
        best.width = 1;
    }
    *place = best.encoding;
    if (best.encoding == BLOCKED) {
        encode_blocks(out, values, n, deltas, room);
    } else {
        encode_flat(out, values, n, &best);
    }
}

void ne_chunk_encode(ne_writer *out, const uint64_t *values, size_t n, uint64_t *room) {
    uint8_t *place = out->at;
    ne_put_byte(out, 0);
    if (!out->full) {
        encode_integers(out, place, values, n, false, room);
    }
}

/* The scale at which a float is an integer over a power of two, by its bits alone; false if there is none. */
static bool dyadic_scale(uint64_t bits, int *scale) {
    uint32_t high = (uint32_t)(bits >> 32), word = (uint32_t)bits;
    int exponent = (int)(high >> 20 & 0x7ff), zeros = 0;
    if (bits == 0) {
        *scale = -128;
        return true;
    }
    if (exponent == 0 || exponent == 0x7ff) {
        return false;
    }
    if (word == 0) {
        word = high | 0x100000;
        zeros = 32;
    }
    for (; !(word & 0xff); word >>= 8) {
        zeros += 8;
    }
    for (; !(word & 1); word >>= 1) {
        zeros++;
    }
    *scale = 52 - zeros - (exponent - 1023);
    return *scale <= 127;
}

/* The integer of a float at a scale at which it is below 2^53, rounded towards 0 if the scale is not as fine as its own. */
static uint64_t dyadic_integer(uint64_t bits, int scale) {
    uint32_t high = ((uint32_t)(bits >> 32) & 0xfffff) | 0x100000, low = (uint32_t)bits;
    int shift = WHOLE_EXPONENT - scale - (int)(bits >> 52 & 0x7ff);
    uint64_t integer;
    if (bits == 0 || shift >= 64) {
        return 0;
    }
    if (shift >= 32) {
        low = high;
        high = 0;
        shift -= 32;
    }
    if (shift > 0) {
        low = low >> shift | high << (32 - shift);
        high >>= shift;
    }
    integer = (uint64_t)high << 32 | low;
    return bits >> 63 ? 0 - integer : integer;
}

/* The float is m / 2^k and rounds from i / p if i * 2^k is no farther from m * p than p / 2: a quarter of p from below where the floats
 * below lie twice as dense. Below 2^51 no such distance is a tie, and no other integer is as near. */
bool ne_decimal_integer(uint64_t bits, unsigned scale, int64_t *integer) {
    uint32_t power = powers[scale], most = power & ~(uint32_t)1, rest;
    uint64_t fraction = (bits & FRACTION) | (uint64_t)1 << 52;
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
    if ((bits & FRACTION) == 0) {
        most = power / 2 + power / 4;
    }
    *integer = bits >> 63 ? -(int64_t)high : (int64_t)high;
    return rest <= most;
}

/* Bits after the point that no decimal is looked for below. */
#define DYADIC_NEAR 20
/* A value that needs a finer scale than the others takes this many bits as an exception. */
#define EXCEPTION_BITS 74u
/* How much finer exceptions may be. */
#define FINER_MAX 16u
/* What exceptions must save of each value, in bits: a block with exceptions has no statistics. */
#define SAVED_MIN 2u

/* The dyadic scale of all values but `exceptions`; false if there is none. Looks no farther than the first that needs more than `limit`. */
static NE_APART bool choose_dyadic(const uint64_t *values, size_t n, int limit, int *scale, size_t *exceptions) {
    uint16_t finer[FINER_MAX]; /* how many values need how much less than the finest */
    size_t row, index, count = 0;
    size_t least = (size_t)(n * SAVED_MIN);
    int of_value, most = -128, exponent = 0;
    memset(finer, 0, sizeof finer);
    *exceptions = 0;
    for (row = 0; row < n; row++) {
        if (!dyadic_scale(values[row], &of_value) || of_value > limit) {
            return false;
        }
        exponent = (int)(values[row] >> 52 & 0x7ff) > exponent ? (int)(values[row] >> 52 & 0x7ff) : exponent;
        if (of_value > most) {
            /* Counted from the finest one: those before are that much farther from it. */
            size_t more = (size_t)(of_value - most) < FINER_MAX ? (size_t)(of_value - most) : FINER_MAX;
            memmove(finer + more, finer, (FINER_MAX - more) * sizeof finer[0]);
            memset(finer, 0, more * sizeof finer[0]);
            most = of_value;
        }
        if (most - of_value < (int)FINER_MAX) {
            finer[most - of_value]++;
        }
    }
    *scale = most;
    for (index = 0; index < FINER_MAX && most > DYADIC_NEAR; index++) {
        count += finer[index];
        if (n * (index + 1) > least + EXCEPTION_BITS * count) {
            least = n * (index + 1) - EXCEPTION_BITS * count;
            *scale = most - 1 - (int)index;
            *exceptions = count;
        }
    }
    return exponent + *scale <= WHOLE_EXPONENT;
}

/* Makes the integers of decimals of all values; they are what they were before if some have none. */
static bool make_decimals(uint64_t *values, size_t n, ne_scale *scale) {
    size_t row = 0, back;
    int64_t integer;
    scale->form = 2;
    scale->scale = 0;
    while (row < n) {
        if (ne_decimal_integer(values[row], (unsigned)scale->scale, &integer)) {
            values[row++] = (uint64_t)integer;
            continue;
        }
        /* What is done goes back, and all begins again with the scale of this value: as a rule the first rows know it. */
        for (back = 0; back < row; back++) {
            values[back] = ne_from_double(ne_unscaled((int64_t)values[back], *scale));
        }
        do {
            if (++scale->scale > NE_DECIMAL_SCALE_MAX) {
                return false;
            }
        } while (!ne_decimal_integer(values[row], (unsigned)scale->scale, &integer));
        row = 0;
    }
    return true;
}

/* Positions and bits of the values that the scale is too coarse for. */
static void put_exceptions(ne_writer *out, const uint64_t *values, size_t n, int scale, size_t count) {
    unsigned width = ne_bits_of(n - 1);
    packer it;
    uint8_t bits[8];
    size_t row;
    int of_value;
    ne_put_varint(out, count);
    if (count == 0 || !begin_packing(out, &it, count, width)) {
        return;
    }
    for (row = 0; row < n; row++) {
        if (dyadic_scale(values[row], &of_value) && of_value > scale) {
            /* The bits are behind all positions, whose room is taken. */
            put_bits(&it, (uint32_t)row, width);
            ne_put64(bits, values[row]);
            ne_put(out, bits, 8);
        }
    }
    end_packing(&it);
}

/* Makes integers of floats, and puts what says how. */
static NE_APART void put_scale(ne_writer *out, uint8_t *place, uint64_t *values, size_t n, ne_scale *scale) {
    size_t row, exceptions = 0;
    unsigned shift = 0;
    uint64_t all = 0;
    int dyadic = 0;
    /* As decimals, steps of a power of two take as many digits as bits: of a few bits nothing else is looked for. */
    bool is_dyadic = choose_dyadic(values, n, DYADIC_NEAR, &dyadic, &exceptions);
    if (!is_dyadic && make_decimals(values, n, scale)) {
        *place = DECIMAL;
        ne_put_byte(out, (uint8_t)scale->scale);
        ne_put_byte(out, 0);
        return;
    }
    if (is_dyadic || choose_dyadic(values, n, 127, &dyadic, &exceptions)) {
        *place = DYADIC;
        ne_put_byte(out, (uint8_t)dyadic);
        put_exceptions(out, values, n, dyadic, exceptions);
        for (row = 0; row < n; row++) {
            values[row] = dyadic_integer(values[row], dyadic);
        }
        scale->form = exceptions > 0 ? 0 : 3;
        scale->scale = (int8_t)dyadic;
        return;
    }
    scale->form = 0;
    for (row = 0; row < n; row++) {
        all |= values[row];
    }
    while (shift < 63 && !(all >> shift & 1)) {
        shift++;
    }
    for (row = 0; row < n; row++) {
        /* An arithmetic shift, without relying on what the compiler does with negative numbers. */
        uint64_t sign = 0 - (values[row] >> 63);
        values[row] = ((values[row] ^ sign) >> shift) ^ sign;
    }
    *place = IMAGE;
    scale->scale = (int8_t)shift;
    ne_put_byte(out, (uint8_t)shift);
}

/* Makes floats of the integers of IMAGE again, and writes them as they are if that takes no more. */
static void end_image(ne_writer *out, uint8_t *place, uint64_t *values, size_t n, int shift) {
    size_t row;
    for (row = 0; row < n; row++) {
        values[row] <<= shift;
    }
    if (!out->full && (size_t)(out->at - (place + 4)) >= 8 * n) {
        plan raw = {0, 8 * n, RAW, 64};
        out->at = place + 4;
        *place = RAW;
        encode_flat(out, values, n, &raw);
    }
}

void ne_page_begin(ne_writer *out, uint8_t encoding, uint8_t type, size_t rows) {
    ne_put_byte(out, encoding);
    ne_put_byte(out, type);
    ne_put_byte(out, (uint8_t)rows);
    ne_put_byte(out, (uint8_t)(rows >> 8));
}

void ne_page_encode(ne_writer *out, uint8_t type, uint64_t *values, size_t rows, ne_scale *scale, uint64_t *room) {
    uint8_t *place = out->at;
    ne_page_begin(out, RAW, type, rows);
    scale->form = type <= NE_UINT ? 1 : 0;
    scale->scale = 0;
    if (out->full) {
        return;
    }
    if (type == NE_FLOAT) {
        put_scale(out, place, values, rows, scale);
        ne_chunk_encode(out, values, rows, room);
        if (*place == IMAGE) {
            end_image(out, place, values, rows, scale->scale);
        }
    } else {
        encode_integers(out, place, values, rows, type == NE_BOOL, room);
    }
}
