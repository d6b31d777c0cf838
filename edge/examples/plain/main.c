/* A store in a file that stands for the flash: cmake -B build edge && cmake --build build && build/plain flash.img */
#include "nilometer_edge.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define SECTOR 4096u
#define SECTORS 64u

static int flash_read(void *file, uint32_t address, void *to, uint32_t bytes) {
    return fseek(file, (long)address, SEEK_SET) == 0 && fread(to, 1, bytes, file) == bytes ? 0 : -1;
}

static int flash_program(void *file, uint32_t address, const void *from, uint32_t bytes) {
    return fseek(file, (long)address, SEEK_SET) == 0 && fwrite(from, 1, bytes, file) == bytes && fflush(file) == 0 ? 0 : -1;
}

static int flash_erase(void *file, uint32_t address) {
    static uint8_t erased[SECTOR];
    memset(erased, 0xff, sizeof erased);
    return flash_program(file, address, erased, sizeof erased);
}

int main(int count, char **words) {
    static uint64_t arena[2048];
    static const ne_field fields[2] = {{"temperature", NE_FLOAT}, {"door_open", NE_BOOL}};
    static const ne_tag tags[1] = {{"room", "attic"}};
    ne_series climate = {"climate", tags, 1, fields, 2, NULL, 0, 0};
    ne_query query = {"climate", NULL, 0, "temperature", INT64_MIN, INT64_MAX};
    const char *path = count > 1 ? words[1] : "flash.img";
    FILE *file = fopen(path, "r+b");
    ne_flash flash = {NULL, flash_read, flash_program, flash_erase, SECTOR, SECTORS, 1};
    ne_store *store;
    ne_cursor cursor;
    ne_row row;
    ne_status status;
    int index;
    if (file == NULL) {
        file = fopen(path, "w+b");
        for (index = 0; file != NULL && index < (int)SECTORS; index++) {
            flash_erase(file, (uint32_t)index * SECTOR);
        }
    }
    if (file == NULL) {
        return 1;
    }
    flash.context = file;
    status = ne_open(&store, &flash, NULL, arena, sizeof arena);
    while (status == NE_OK && ne_maintain(store) == NE_OK) {
    }
    for (index = 0; status == NE_OK && index < 100; index++) {
        ne_value values[2];
        values[0].number = (2150 + index % 7) / 100.0;
        values[1].integer = index % 10 == 0;
        status = ne_insert(store, &climate, 1700000000000 + 10000 * (int64_t)index, values);
    }
    if (status == NE_OK) {
        status = ne_query_open(store, &query, &cursor);
    }
    for (index = 0; status == NE_OK && (status = ne_query_next(store, &cursor, &row)) == NE_OK; index++) {
        if (index < 3) {
            printf("%.*s %" PRId64 " %g\n", (int)row.series_bytes, row.series, row.time, row.value.number);
        }
    }
    printf("%d rows\n", index);
    fclose(file);
    return status == NE_END ? 0 : 1;
}
