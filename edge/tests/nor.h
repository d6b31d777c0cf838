/* NOR flash in memory: programs only from 1 to 0 and each unit once, erases sectors, loses power after any byte. */
#ifndef NOR_H
#define NOR_H

#include "nilometer_edge.h"

#define NOR_BYTES_MAX (64u << 10)

typedef struct {
    uint32_t sector_bytes, sectors, unit_bytes;
    uint8_t bytes[NOR_BYTES_MAX];
    uint8_t programmed[NOR_BYTES_MAX]; /* of each unit, at its first byte */
    uint64_t left;                     /* bytes until the power goes; an erase counts as ERASE_STEPS */
    bool is_off;
    uint64_t random;
    uint32_t violations;
    uint64_t programs, erases, programmed_bytes;
} nor;

#define ERASE_STEPS 3u

void nor_init(nor *it, uint32_t sector_bytes, uint32_t sectors, uint32_t unit_bytes);
ne_flash nor_flash(nor *it);

#endif
