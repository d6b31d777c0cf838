/* Readings in the partition `storage_partition`. Compile-checked against a small stand-in of flash_map.h only; not run on hardware yet. */
#include <zephyr/storage/flash_map.h>

#include "nilometer_edge.h"

static int flash_read_at(void *area, uint32_t address, void *to, uint32_t bytes) {
    return flash_area_read(area, (off_t)address, to, bytes);
}

static int flash_program_at(void *area, uint32_t address, const void *from, uint32_t bytes) {
    return flash_area_write(area, (off_t)address, from, bytes);
}

static int flash_erase_at(void *area, uint32_t address) {
    return flash_area_erase(area, (off_t)address, 4096);
}

int main(void) {
    static uint64_t arena[1536];
    static const ne_field fields[1] = {{"temperature", NE_FLOAT}};
    static ne_series climate = {"climate", NULL, 0, fields, 1, NULL, 0, 0};
    const struct flash_area *area;
    ne_flash flash = {NULL, flash_read_at, flash_program_at, flash_erase_at, 4096, 0, 0};
    ne_store *store;
    ne_value value;
    if (flash_area_open(FIXED_PARTITION_ID(storage_partition), &area) != 0) {
        return 1;
    }
    flash.context = (void *)area;
    flash.sectors = (uint32_t)(area->fa_size / flash.sector_bytes);
    flash.unit_bytes = flash_area_align(area);
    if (ne_open(&store, &flash, NULL, arena, sizeof arena) != NE_OK) {
        return 1;
    }
    while (ne_maintain(store) == NE_OK) {
    }
    value.number = 21.5;
    return ne_insert(store, &climate, 0, &value) == NE_OK ? 0 : 1;
}
