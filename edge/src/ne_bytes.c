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

#ifdef NILO_EDGE_CRC_TABLE
/* A byte at a time: the whole table, 1 KiB of constants, for those who have the room. */
static const uint32_t crc_table[256] = {
    0x00000000, 0xf26b8303, 0xe13b70f7, 0x1350f3f4, 0xc79a971f, 0x35f1141c, 0x26a1e7e8, 0xd4ca64eb,
    0x8ad958cf, 0x78b2dbcc, 0x6be22838, 0x9989ab3b, 0x4d43cfd0, 0xbf284cd3, 0xac78bf27, 0x5e133c24,
    0x105ec76f, 0xe235446c, 0xf165b798, 0x030e349b, 0xd7c45070, 0x25afd373, 0x36ff2087, 0xc494a384,
    0x9a879fa0, 0x68ec1ca3, 0x7bbcef57, 0x89d76c54, 0x5d1d08bf, 0xaf768bbc, 0xbc267848, 0x4e4dfb4b,
    0x20bd8ede, 0xd2d60ddd, 0xc186fe29, 0x33ed7d2a, 0xe72719c1, 0x154c9ac2, 0x061c6936, 0xf477ea35,
    0xaa64d611, 0x580f5512, 0x4b5fa6e6, 0xb93425e5, 0x6dfe410e, 0x9f95c20d, 0x8cc531f9, 0x7eaeb2fa,
    0x30e349b1, 0xc288cab2, 0xd1d83946, 0x23b3ba45, 0xf779deae, 0x05125dad, 0x1642ae59, 0xe4292d5a,
    0xba3a117e, 0x4851927d, 0x5b016189, 0xa96ae28a, 0x7da08661, 0x8fcb0562, 0x9c9bf696, 0x6ef07595,
    0x417b1dbc, 0xb3109ebf, 0xa0406d4b, 0x522bee48, 0x86e18aa3, 0x748a09a0, 0x67dafa54, 0x95b17957,
    0xcba24573, 0x39c9c670, 0x2a993584, 0xd8f2b687, 0x0c38d26c, 0xfe53516f, 0xed03a29b, 0x1f682198,
    0x5125dad3, 0xa34e59d0, 0xb01eaa24, 0x42752927, 0x96bf4dcc, 0x64d4cecf, 0x77843d3b, 0x85efbe38,
    0xdbfc821c, 0x2997011f, 0x3ac7f2eb, 0xc8ac71e8, 0x1c661503, 0xee0d9600, 0xfd5d65f4, 0x0f36e6f7,
    0x61c69362, 0x93ad1061, 0x80fde395, 0x72966096, 0xa65c047d, 0x5437877e, 0x4767748a, 0xb50cf789,
    0xeb1fcbad, 0x197448ae, 0x0a24bb5a, 0xf84f3859, 0x2c855cb2, 0xdeeedfb1, 0xcdbe2c45, 0x3fd5af46,
    0x7198540d, 0x83f3d70e, 0x90a324fa, 0x62c8a7f9, 0xb602c312, 0x44694011, 0x5739b3e5, 0xa55230e6,
    0xfb410cc2, 0x092a8fc1, 0x1a7a7c35, 0xe811ff36, 0x3cdb9bdd, 0xceb018de, 0xdde0eb2a, 0x2f8b6829,
    0x82f63b78, 0x709db87b, 0x63cd4b8f, 0x91a6c88c, 0x456cac67, 0xb7072f64, 0xa457dc90, 0x563c5f93,
    0x082f63b7, 0xfa44e0b4, 0xe9141340, 0x1b7f9043, 0xcfb5f4a8, 0x3dde77ab, 0x2e8e845f, 0xdce5075c,
    0x92a8fc17, 0x60c37f14, 0x73938ce0, 0x81f80fe3, 0x55326b08, 0xa759e80b, 0xb4091bff, 0x466298fc,
    0x1871a4d8, 0xea1a27db, 0xf94ad42f, 0x0b21572c, 0xdfeb33c7, 0x2d80b0c4, 0x3ed04330, 0xccbbc033,
    0xa24bb5a6, 0x502036a5, 0x4370c551, 0xb11b4652, 0x65d122b9, 0x97baa1ba, 0x84ea524e, 0x7681d14d,
    0x2892ed69, 0xdaf96e6a, 0xc9a99d9e, 0x3bc21e9d, 0xef087a76, 0x1d63f975, 0x0e330a81, 0xfc588982,
    0xb21572c9, 0x407ef1ca, 0x532e023e, 0xa145813d, 0x758fe5d6, 0x87e466d5, 0x94b49521, 0x66df1622,
    0x38cc2a06, 0xcaa7a905, 0xd9f75af1, 0x2b9cd9f2, 0xff56bd19, 0x0d3d3e1a, 0x1e6dcdee, 0xec064eed,
    0xc38d26c4, 0x31e6a5c7, 0x22b65633, 0xd0ddd530, 0x0417b1db, 0xf67c32d8, 0xe52cc12c, 0x1747422f,
    0x49547e0b, 0xbb3ffd08, 0xa86f0efc, 0x5a048dff, 0x8ecee914, 0x7ca56a17, 0x6ff599e3, 0x9d9e1ae0,
    0xd3d3e1ab, 0x21b862a8, 0x32e8915c, 0xc083125f, 0x144976b4, 0xe622f5b7, 0xf5720643, 0x07198540,
    0x590ab964, 0xab613a67, 0xb831c993, 0x4a5a4a90, 0x9e902e7b, 0x6cfbad78, 0x7fab5e8c, 0x8dc0dd8f,
    0xe330a81a, 0x115b2b19, 0x020bd8ed, 0xf0605bee, 0x24aa3f05, 0xd6c1bc06, 0xc5914ff2, 0x37faccf1,
    0x69e9f0d5, 0x9b8273d6, 0x88d28022, 0x7ab90321, 0xae7367ca, 0x5c18e4c9, 0x4f48173d, 0xbd23943e,
    0xf36e6f75, 0x0105ec76, 0x12551f82, 0xe03e9c81, 0x34f4f86a, 0xc69f7b69, 0xd5cf889d, 0x27a40b9e,
    0x79b737ba, 0x8bdcb4b9, 0x988c474d, 0x6ae7c44e, 0xbe2da0a5, 0x4c4623a6, 0x5f16d052, 0xad7d5351};
#endif

uint32_t ne_crc32c(uint32_t seed, const uint8_t *bytes, size_t n) {
    const uint8_t *end = bytes + n;
    uint32_t crc = ~seed;
#ifdef NILO_EDGE_CRC_TABLE
    while (bytes < end) {
        crc = crc >> 8 ^ crc_table[(crc ^ *bytes++) & 255];
    }
#else
    /* Half a byte at a time: a table of 64 bytes, where one for whole bytes takes 1024. */
    static const uint32_t table[16] = {
        0x00000000, 0x105ec76f, 0x20bd8ede, 0x30e349b1, 0x417b1dbc, 0x5125dad3, 0x61c69362, 0x7198540d,
        0x82f63b78, 0x92a8fc17, 0xa24bb5a6, 0xb21572c9, 0xc38d26c4, 0xd3d3e1ab, 0xe330a81a, 0xf36e6f75};
    while (bytes < end) {
        crc ^= *bytes++;
        crc = crc >> 4 ^ table[crc & 15];
        crc = crc >> 4 ^ table[crc & 15];
    }
#endif
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
    uint32_t word = (uint32_t)(value >> 32);
    unsigned width = word ? 32 : 0;
    word = word ? word : (uint32_t)value;
    if (word >> 16) {
        width += 16;
        word >>= 16;
    }
    for (; word; word >>= 1) {
        width++;
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
        uint8_t lead = *at++, low, high;
        int more;
        if (lead < 0x80) {
            continue;
        }
        if (lead < 0xc2 || lead > 0xf4) {
            return false;
        }
        low = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
        high = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
        more = lead < 0xe0 ? 1 : lead < 0xf0 ? 2 : 3;
        for (; more > 0; more--, low = 0x80, high = 0xbf) {
            if (at == end || *at < low || *at > high) {
                return false;
            }
            at++;
        }
    }
    return true;
}
