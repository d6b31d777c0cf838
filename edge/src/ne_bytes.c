/* Bytes and bits: numbers at any address, varints, packed values, the checksum, UTF-8. */
#include "ne_internal.h"

#include <string.h>

uint16_t ne_get16(const uint8_t *at) {
    return (uint16_t)(at[0] | at[1] << 8);
}

uint32_t ne_get32(const uint8_t *at) {
    return (uint32_t)ne_get16(at) | (uint32_t)ne_get16(at + 2) << 16;
}

uint64_t ne_get64(const uint8_t *at) {
    return (uint64_t)ne_get32(at) | (uint64_t)ne_get32(at + 4) << 32;
}

void ne_put16(uint8_t *at, uint16_t value) {
    at[0] = (uint8_t)value;
    at[1] = (uint8_t)(value >> 8);
}

void ne_put32(uint8_t *at, uint32_t value) {
    ne_put16(at, (uint16_t)value);
    ne_put16(at + 2, (uint16_t)(value >> 16));
}

void ne_put64(uint8_t *at, uint64_t value) {
    ne_put32(at, (uint32_t)value);
    ne_put32(at + 4, (uint32_t)(value >> 32));
}

double ne_to_double(uint64_t bits) {
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

uint64_t ne_from_double(double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

uint32_t ne_crc32c(uint32_t seed, const uint8_t *bytes, size_t n) {
    /* Half a byte at a time: a table of 64 bytes, where one for whole bytes takes 1024. */
    static const uint32_t table[16] = {
        0x00000000, 0x105ec76f, 0x20bd8ede, 0x30e349b1, 0x417b1dbc, 0x5125dad3, 0x61c69362, 0x7198540d,
        0x82f63b78, 0x92a8fc17, 0xa24bb5a6, 0xb21572c9, 0xc38d26c4, 0xd3d3e1ab, 0xe330a81a, 0xf36e6f75};
    uint32_t crc = ~seed;
    size_t i;
    for (i = 0; i < n; i++) {
        crc ^= bytes[i];
        crc = crc >> 4 ^ table[crc & 15];
        crc = crc >> 4 ^ table[crc & 15];
    }
    return ~crc;
}

const uint8_t *ne_take(ne_reader *in, size_t n) {
    const uint8_t *at = in->at;
    if (in->bad || (size_t)(in->end - in->at) < n) {
        in->bad = true;
        return in->end;
    }
    in->at += n;
    return at;
}

uint64_t ne_take_varint(ne_reader *in) {
    uint64_t value = 0;
    uint32_t word = 0;
    unsigned index;
    /* As far as 32 bits go, in 32 bits: as a rule that is all. */
    for (index = 0; index < 4 && !in->bad && in->at < in->end; index++) {
        uint32_t byte = *in->at++;
        word |= (byte & 0x7f) << (7 * index);
        if (byte < 0x80) {
            return word;
        }
    }
    value = word;
    for (; index < 10; index++) {
        const uint8_t *byte = ne_take(in, 1);
        if (in->bad) {
            return 0;
        }
        /* The tenth byte carries the 64th bit alone. */
        if (index == 9 && *byte > 1) {
            break;
        }
        value |= (uint64_t)(*byte & 0x7f) << (7 * index);
        if (*byte < 0x80) {
            return value;
        }
    }
    in->bad = true;
    return 0;
}

int64_t ne_take_zigzag(ne_reader *in) {
    uint64_t value = ne_take_varint(in);
    return (int64_t)(value >> 1 ^ (~(value & 1) + 1));
}

void ne_put(ne_writer *out, const void *bytes, size_t n) {
    if (out->full || (size_t)(out->end - out->at) < n) {
        out->full = true;
        return;
    }
    memcpy(out->at, bytes, n);
    out->at += n;
}

void ne_put_byte(ne_writer *out, uint8_t byte) {
    if (out->full || out->at == out->end) {
        out->full = true;
        return;
    }
    *out->at++ = byte;
}

void ne_put_varint(ne_writer *out, uint64_t value) {
    uint32_t word;
    while (value >> 32) {
        ne_put_byte(out, (uint8_t)(value | 0x80));
        value >>= 7;
    }
    for (word = (uint32_t)value; word >= 0x80; word >>= 7) {
        ne_put_byte(out, (uint8_t)(word | 0x80));
    }
    ne_put_byte(out, (uint8_t)word);
}

uint64_t ne_zigzag(uint64_t value) {
    return value << 1 ^ (~(value >> 63) + 1);
}

void ne_put_zigzag(ne_writer *out, int64_t value) {
    ne_put_varint(out, ne_zigzag((uint64_t)value));
}

unsigned ne_bits_of(uint64_t value) {
    unsigned width = 0;
    while (value >> width && ++width < 64) {
    }
    return width;
}

size_t ne_varint_bytes(uint64_t value) {
    size_t bytes = 1;
    while (value >= 0x80) {
        value >>= 7;
        bytes++;
    }
    return bytes;
}

size_t ne_packed_bytes(size_t n, unsigned width) {
    return (n * width + 7) / 8;
}

uint64_t ne_mask(unsigned width) {
    return width == 0 ? 0 : ~(uint64_t)0 >> (64 - width);
}

/* Packed value number `index`; the bytes are known to be there. */
uint64_t ne_packed_at(const uint8_t *packed, size_t index, unsigned width) {
    size_t bit = index * width;
    const uint8_t *at = packed + bit / 8;
    unsigned shift = (unsigned)(bit % 8), have;
    uint64_t value;
    if (width == 0) {
        return 0;
    }
    value = (uint64_t)*at++ >> shift;
    for (have = 8 - shift; have < width; have += 8) {
        value |= (uint64_t)*at++ << have;
    }
    return value & ne_mask(width);
}

/* UTF-8 as Unicode has it: no overlong forms, no surrogates, nothing above U+10FFFF. */
bool ne_is_utf8(const uint8_t *at, size_t n) {
    const uint8_t *end = at + n;
    while (at < end) {
        uint8_t lead = *at++;
        uint8_t low = 0x80, high = 0xbf;
        int more;
        if (lead < 0x80) {
            continue;
        }
        if (lead >= 0xc2 && lead <= 0xdf) {
            more = 1;
        } else if (lead >= 0xe0 && lead <= 0xef) {
            more = 2;
            low = lead == 0xe0 ? 0xa0 : 0x80;
            high = lead == 0xed ? 0x9f : 0xbf;
        } else if (lead >= 0xf0 && lead <= 0xf4) {
            more = 3;
            low = lead == 0xf0 ? 0x90 : 0x80;
            high = lead == 0xf4 ? 0x8f : 0xbf;
        } else {
            return false;
        }
        for (; more > 0; more--, low = 0x80, high = 0xbf) {
            if (at == end || *at < low || *at > high) {
                return false;
            }
            at++;
        }
    }
    return true;
}
