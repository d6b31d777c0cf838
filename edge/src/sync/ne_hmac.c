/* HMAC-SHA256, written for size: bytes are read one at a time, so that no processor minds the alignment. */
#include "ne_hmac.h"

#include <string.h>

static const uint32_t constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be,
    0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa,
    0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85,
    0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3,
    0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f,
    0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t rotated(uint32_t value, unsigned by) { return value >> by | value << (32 - by); }

static void take_block(uint32_t state[8], const uint8_t *block) {
    /* A window of 16 words of the schedule. */
    uint32_t words[16], now[8];
    unsigned round;
    for (round = 0; round < 16; round++) {
        const uint8_t *at = block + 4 * round;
        words[round] = (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
    }
    memcpy(now, state, sizeof now);
    for (round = 0; round < 64; round++) {
        uint32_t sum0 = rotated(now[0], 2) ^ rotated(now[0], 13) ^ rotated(now[0], 22);
        uint32_t sum1 = rotated(now[4], 6) ^ rotated(now[4], 11) ^ rotated(now[4], 25);
        uint32_t majority = (now[0] & now[1]) ^ (now[0] & now[2]) ^ (now[1] & now[2]);
        uint32_t choice = (now[4] & now[5]) ^ (~now[4] & now[6]);
        uint32_t first;
        if (round >= 16) {
            uint32_t w15 = words[(round + 1) % 16], w2 = words[(round + 14) % 16];
            uint32_t small0 = rotated(w15, 7) ^ rotated(w15, 18) ^ w15 >> 3;
            uint32_t small1 = rotated(w2, 17) ^ rotated(w2, 19) ^ w2 >> 10;
            words[round % 16] += small0 + words[(round + 9) % 16] + small1;
        }
        first = now[7] + sum1 + choice + constants[round] + words[round % 16];
        memmove(now + 1, now, 7 * sizeof now[0]);
        now[4] += first;
        now[0] = first + sum0 + majority;
    }
    for (round = 0; round < 8; round++) {
        state[round] += now[round];
    }
}

void ne_sha256_begin(ne_sha256 *it) {
    static const uint32_t begin[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    memcpy(it->state, begin, sizeof begin);
    it->bytes = 0;
}

void ne_sha256_add(ne_sha256 *it, const void *bytes, size_t count) {
    const uint8_t *at = bytes;
    while (count > 0) {
        size_t filled = (size_t)(it->bytes % 64), room = 64 - filled, some = count < room ? count : room;
        memcpy(it->block + filled, at, some);
        it->bytes += some;
        at += some;
        count -= some;
        if (filled + some == 64) {
            take_block(it->state, it->block);
        }
    }
}

void ne_sha256_end(ne_sha256 *it, uint8_t hash[NE_HASH_BYTES]) {
    static const uint8_t one = 0x80, zero = 0;
    uint64_t bits = it->bytes * 8;
    uint8_t length[8];
    unsigned at;
    for (at = 0; at < 8; at++) {
        length[at] = (uint8_t)(bits >> (56 - 8 * at));
    }
    ne_sha256_add(it, &one, 1);
    while (it->bytes % 64 != 56) {
        ne_sha256_add(it, &zero, 1);
    }
    ne_sha256_add(it, length, 8);
    for (at = 0; at < NE_HASH_BYTES; at++) {
        hash[at] = (uint8_t)(it->state[at / 4] >> (24 - 8 * (at % 4)));
    }
}

void ne_hmac_begin(ne_hmac *it, const void *key, size_t key_bytes) {
    uint8_t pad[64];
    unsigned at;
    memset(pad, 0, sizeof pad);
    if (key_bytes > sizeof pad) {
        ne_sha256_begin(&it->inner);
        ne_sha256_add(&it->inner, key, key_bytes);
        ne_sha256_end(&it->inner, pad);
    } else {
        memcpy(pad, key, key_bytes);
    }
    for (at = 0; at < sizeof pad; at++) {
        it->outer_pad[at] = pad[at] ^ 0x5c;
        pad[at] ^= 0x36;
    }
    ne_sha256_begin(&it->inner);
    ne_sha256_add(&it->inner, pad, sizeof pad);
}

void ne_hmac_add(ne_hmac *it, const void *bytes, size_t count) { ne_sha256_add(&it->inner, bytes, count); }

void ne_hmac_end(ne_hmac *it, uint8_t tag[NE_HASH_BYTES]) {
    uint8_t inner[NE_HASH_BYTES];
    ne_sha256_end(&it->inner, inner);
    ne_sha256_begin(&it->inner);
    ne_sha256_add(&it->inner, it->outer_pad, sizeof it->outer_pad);
    ne_sha256_add(&it->inner, inner, sizeof inner);
    ne_sha256_end(&it->inner, tag);
}
