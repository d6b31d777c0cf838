/* HMAC-SHA256 (RFC 2104, FIPS 180-4). Not for programs that use the library. */
#ifndef NE_HMAC_H
#define NE_HMAC_H

#include <stddef.h>
#include <stdint.h>

#define NE_HASH_BYTES 32u

typedef struct {
    uint32_t state[8];
    uint64_t bytes;
    uint8_t block[64];
} ne_sha256;

typedef struct {
    ne_sha256 inner;
    uint8_t outer_pad[64];
} ne_hmac;

void ne_sha256_begin(ne_sha256 *it);
void ne_sha256_add(ne_sha256 *it, const void *bytes, size_t count);
void ne_sha256_end(ne_sha256 *it, uint8_t hash[NE_HASH_BYTES]);

void ne_hmac_begin(ne_hmac *it, const void *key, size_t key_bytes);
void ne_hmac_add(ne_hmac *it, const void *bytes, size_t count);
void ne_hmac_end(ne_hmac *it, uint8_t tag[NE_HASH_BYTES]);

#endif
