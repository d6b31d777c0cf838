/* Readings in the partition `log`. Compile-checked against a small stand-in of esp_partition.h only; not run on hardware yet. */
#include "esp_partition.h"
#include "nilometer_edge.h"
#include "upload.h"

static int flash_read(void *partition, uint32_t address, void *to, uint32_t bytes) {
    return esp_partition_read(partition, address, to, bytes) == ESP_OK ? 0 : -1;
}

static int flash_program(void *partition, uint32_t address, const void *from, uint32_t bytes) {
    return esp_partition_write(partition, address, from, bytes) == ESP_OK ? 0 : -1;
}

static int flash_erase(void *partition, uint32_t address) {
    return esp_partition_erase_range(partition, address, 4096) == ESP_OK ? 0 : -1;
}

void app_main(void) {
    static uint64_t arena[1536];
    static const ne_field fields[1] = {{"temperature", NE_FLOAT}};
    static ne_series climate = {"climate", NULL, 0, fields, 1, NULL, 0, 0};
    const esp_partition_t *log = esp_partition_find_first(ESP_PARTITION_TYPE_DATA, (esp_partition_subtype_t)0x40, "log");
    ne_flash flash = {(void *)log, flash_read, flash_program, flash_erase, 4096, 0, 1};
    static const uint8_t key[32] = {0};
    static const ne_sync_options to = {"edge", "attic", 1, key, sizeof key, 0};
    ne_store *store;
    ne_value value;
    if (log == NULL) {
        return;
    }
    flash.sectors = log->size / flash.sector_bytes;
    if (log->encrypted) {
        flash.unit_bytes = 16;
    }
    if (ne_open(&store, &flash, NULL, arena, sizeof arena) != NE_OK) {
        return;
    }
    /* When nothing else has to run: erasing stops the cache of both cores. */
    while (ne_maintain(store) == NE_OK) {
    }
    value.number = 21.5;
    ne_begin_boot(store, 1);
    ne_insert(store, &climate, 0, &value);
    /* Once there is a network and the clock is known (here from SNTP, in milliseconds): `nilometer edge key` prints the key. */
    ne_set_clock(store, 1, 1700000000000);
    upload(store, &to);
}
