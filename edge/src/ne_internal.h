/* What the files of the edge library share. Not for programs that use it. */
#ifndef NE_INTERNAL_H
#define NE_INTERNAL_H

#include "nilometer_edge.h"

/* Of a function that is not to be part of its caller: the stack of a task is as deep as the longest chain of calls, and what a compiler makes
 * one function of takes the room of all of them at once. */
#if defined(__GNUC__)
#define NE_APART __attribute__((noinline))
#else
#define NE_APART
#endif

/* Little-endian numbers at any address: no access here is wider than a byte, so that no processor minds the alignment. */
uint16_t ne_get16(const uint8_t *at);
uint32_t ne_get32(const uint8_t *at);
uint64_t ne_get64(const uint8_t *at);
void ne_put16(uint8_t *at, uint16_t value);
void ne_put32(uint8_t *at, uint32_t value);
void ne_put64(uint8_t *at, uint64_t value);

uint32_t ne_crc32c(uint32_t seed, const uint8_t *bytes, size_t n);

bool ne_is_utf8(const uint8_t *at, size_t n);

/* Bytes that are taken off the front; `bad` once they were too few or contradicted themselves. */
typedef struct {
    const uint8_t *at, *end;
    bool bad;
} ne_reader;

/* Bytes that are appended; `full` once they did not fit, and then nothing more is written. */
typedef struct {
    uint8_t *start, *at, *end;
    bool full;
} ne_writer;

const uint8_t *ne_take(ne_reader *in, size_t n);
uint64_t ne_take_varint(ne_reader *in);
int64_t ne_take_zigzag(ne_reader *in);

void ne_put(ne_writer *out, const void *bytes, size_t n);
void ne_put_byte(ne_writer *out, uint8_t byte);
void ne_put_varint(ne_writer *out, uint64_t value);
void ne_put_zigzag(ne_writer *out, int64_t value);

size_t ne_varint_bytes(uint64_t value);
uint64_t ne_zigzag(uint64_t value);
unsigned ne_bits_of(uint64_t value);
size_t ne_packed_bytes(size_t n, unsigned width);
uint64_t ne_mask(unsigned width);
/* Packed value number `index`; the bytes are known to be there. */
uint64_t ne_packed_at(const uint8_t *packed, size_t index, unsigned width);

/* Encodings of docs/format/page.md. */
enum {
    CONST = 0,
    STRIDE = 1,
    FRAME = 2,
    DELTA = 3,
    RAW = 4,
    RUNS = 5,
    DISTINCT = 6,
    GRID = 7,
    DECIMAL = 8,
    IMAGE = 9,
    DYADIC = 10,
    PCO = 11,
    BITMAP = 12,
    BLOCKED = 13,
    PLAIN = 16,
    DICTIONARY = 17,
    TRANSPOSED = 20
};

/* Values of a block of BLOCKED. */
#define BLOCK 32u

/* Column pages: docs/format/page.md. A value is 64 bits: an integer, the bits of a double, 0 or 1; of text it is the place in the
 * page in the high half and the length in the low half. */
typedef struct {
    uint8_t type;
    uint16_t rows;
    const uint8_t *present; /* one bit a row, or NULL: every row has a value */
} ne_page_info;

/* `room` has as many values as `values`, or is NULL: then pages that devices never write are refused (NE_UNSUPPORTED). The library
 * gives none; with NE_ALL_ENCODINGS, as in the tests, the code for those pages is there. */
ne_status ne_page_decode(const uint8_t *page, size_t bytes, uint64_t *values, size_t values_max, uint64_t *room, ne_page_info *info);

/* Values without nulls. Of floats over a scale `values` are the integers afterwards, and of the others nothing is left; the scale is told. */
typedef struct {
    uint8_t form; /* 0: bits as they are, 1: integers, 2: decimals, 3: dyadics */
    int8_t scale;
} ne_scale;
/* What a page begins with. */
void ne_page_begin(ne_writer *out, uint8_t encoding, uint8_t type, size_t rows);
void ne_page_encode(ne_writer *out, uint8_t type, uint64_t *values, size_t rows, ne_scale *scale, uint64_t *room);
void ne_chunk_encode(ne_writer *out, const uint64_t *values, size_t n, uint64_t *room);
/* The least and greatest of values, or of the differences between neighbours. */
void ne_ends_of(const uint64_t *values, size_t from, size_t to, bool deltas, int64_t *min, int64_t *max);
/* Numbers that the two have room for, so that no stack of a task must: widths and bases of 32 blocks. */
#define NE_ENCODE_ROOM 64u

/* The float that an integer over a scale is. */
double ne_unscaled(int64_t integer, ne_scale scale);

/* Digits after the point that a writer looks for: more is noise to a sensor. */
#define NE_DECIMAL_SCALE_MAX 9
/* The integer below 2^51 that is this float when it is divided by 10^scale; false if there is none. Without arithmetic of floats. */
bool ne_decimal_integer(uint64_t bits, unsigned scale, int64_t *integer);

double ne_to_double(uint64_t bits);
uint64_t ne_from_double(double value);

#endif
