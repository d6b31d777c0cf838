#include "nor.h"

#include <stdio.h>
#include <string.h>

void nor_init(nor *it, uint32_t sector_bytes, uint32_t sectors, uint32_t unit_bytes) {
    memset(it, 0, sizeof *it);
    it->sector_bytes = sector_bytes;
    it->sectors = sectors;
    it->unit_bytes = unit_bytes;
    it->left = UINT64_MAX;
    it->random = 0x9e3779b97f4a7c15;
    /* As it comes from the factory, or from another program: nothing that a store may rely on. */
    memset(it->bytes, 0xa5, sizeof it->bytes);
    memset(it->programmed, 1, sizeof it->programmed);
}

static uint32_t size_of(const nor *it) {
    return it->sector_bytes * it->sectors;
}

static int nor_read(void *context, uint32_t address, void *to, uint32_t bytes) {
    nor *it = context;
    if (it->is_off) {
        return -1;
    }
    if (address > size_of(it) || bytes > size_of(it) - address) {
        it->violations++;
        return -1;
    }
    memcpy(to, it->bytes + address, bytes);
    return 0;
}

static uint64_t next_random(nor *it) {
    it->random ^= it->random << 13;
    it->random ^= it->random >> 7;
    it->random ^= it->random << 17;
    return it->random;
}

static int nor_program(void *context, uint32_t address, const void *from, uint32_t bytes) {
    nor *it = context;
    const uint8_t *at = from;
    uint32_t done;
    if (it->is_off) {
        return -1;
    }
    if (bytes == 0 || address % it->unit_bytes != 0 || bytes % it->unit_bytes != 0 || address > size_of(it) ||
        bytes > size_of(it) - address || address / it->sector_bytes != (address + bytes - 1) / it->sector_bytes) {
        it->violations++;
        return -1;
    }
    it->programs++;
    for (done = 0; done < bytes; done++) {
        if (it->left == 0) {
            it->is_off = true;
            return -1;
        }
        it->left--;
        if (done % it->unit_bytes == 0) {
            uint8_t *unit = &it->programmed[address + done];
            if (*unit) {
                it->violations++;
            }
            *unit = 1;
        }
        if (it->bytes[address + done] != 0xff) {
            it->violations++;
        }
        it->bytes[address + done] &= at[done];
        it->programmed_bytes++;
    }
    return 0;
}

static int nor_erase(void *context, uint32_t address) {
    nor *it = context;
    uint32_t step, index;
    if (it->is_off) {
        return -1;
    }
    if (address % it->sector_bytes != 0 || address >= size_of(it)) {
        it->violations++;
        return -1;
    }
    for (step = 0; step < ERASE_STEPS; step++) {
        if (it->left == 0) {
            it->is_off = true;
            return -1;
        }
        it->left--;
        /* Some bits have gone to 1, others not yet; no unit of it may be relied on. */
        for (index = 0; index < it->sector_bytes; index++) {
            it->bytes[address + index] |= (uint8_t)next_random(it);
            it->programmed[address + index] = 1;
        }
    }
    memset(it->bytes + address, 0xff, it->sector_bytes);
    memset(it->programmed + address, 0, it->sector_bytes);
    it->erases++;
    return 0;
}

ne_flash nor_flash(nor *it) {
    ne_flash flash;
    flash.context = it;
    flash.read = nor_read;
    flash.program = nor_program;
    flash.erase = nor_erase;
    flash.sector_bytes = it->sector_bytes;
    flash.sectors = it->sectors;
    flash.unit_bytes = it->unit_bytes;
    return flash;
}
