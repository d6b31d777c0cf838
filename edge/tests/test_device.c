/* Device pages: golden ones read through the library, and its own written for other readers.
 *
 * Usage: test_device FOLDER         reads every golden page of the folder as if it were in the flash
 *        test_device --segment FOLDER PAGES reads the pages that a segment of the server holds as they are, and compares rows with PAGES
 *        test_device --write FOLDER writes pages, and the rows that were put in, as golden files `written_*`
 */
#include "ne_internal.h"
#include "nor.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static nor flash_memory;
static uint64_t arena[8192];

static void fail(const char *name, const char *what) {
    printf("FAILED: %s: %s\n", name, what);
    exit(1);
}

static size_t load(const char *folder, const char *name, const char *ending, uint8_t *to, size_t most) {
    char path[512];
    FILE *file;
    size_t bytes;
    snprintf(path, sizeof path, "%s/%s%s", folder, name, ending);
    file = fopen(path, "rb");
    if (file == NULL) {
        return SIZE_MAX;
    }
    bytes = fread(to, 1, most, file);
    fclose(file);
    return bytes;
}

/* A store with this one page in a sealed sector. */
static ne_store *store_of(const uint8_t *page, size_t bytes) {
    ne_flash flash;
    ne_options options = {0, 1024, 8128, 8};
    ne_store *store = NULL;
    uint8_t header[16] = {0};
    nor_init(&flash_memory, 8192, 6, 1);
    flash = nor_flash(&flash_memory);
    memset(flash_memory.bytes, 0xff, 8192);
    memcpy(header, "NMLE\1\0\0\0\1\0\0\0", 12);
    ne_put32(header + 12, ne_crc32c(0, header, 12));
    memcpy(flash_memory.bytes, header, 16);
    memset(header, 0, sizeof header);
    header[0] = 3;
    header[4] = 1;
    header[8] = 1;
    ne_put32(header + 12, ne_crc32c(1, header, 12));
    memcpy(flash_memory.bytes + 16, header, 16);
    memcpy(flash_memory.bytes + 32, page, bytes);
    if (ne_open(&store, &flash, &options, arena, sizeof arena) != NE_OK) {
        fail("store", "does not open");
    }
    return store;
}

static void show(FILE *to, const ne_row *row, const char *field) {
    uint32_t index;
    fprintf(to, "%.*s\t%s\t%" PRId64 "\t", (int)row->series_bytes, row->series, field, row->time);
    if (row->type == NE_FLOAT) {
        fprintf(to, "%016" PRIx64, ne_from_double(row->value.number));
    } else if (row->type == NE_UINT) {
        fprintf(to, "%" PRIu64, (uint64_t)row->value.integer);
    } else if (row->type >= NE_TEXT) {
        for (index = 0; index < row->value.text.length; index++) {
            fprintf(to, "%02x", (uint8_t)row->value.text.bytes[index]);
        }
    } else {
        fprintf(to, "%" PRId64, row->value.integer);
    }
    fputc('\n', to);
}

/* Each line of the file is found with a query of its field over its time. */
static unsigned find_rows(const char *name, ne_store *store, char *lines) {
    char *line = lines, *next, found[65536];
    unsigned rows = 0;
    for (; *line != 0; line = next, rows++) {
        char field[300], *tab = strchr(line, '\t');
        ne_query query = {NULL, NULL, 0, field, 0, 0};
        ne_cursor cursor;
        ne_row row;
        bool same = false;
        next = strchr(line, '\n') + 1;
        sscanf(tab + 1, "%299[^\t]", field);
        query.start = strtoll(strchr(tab + 1, '\t') + 1, NULL, 10);
        /* The end is exclusive, so that nothing has the last time of all; read from there on then. */
        query.end = query.start == INT64_MAX ? INT64_MAX : query.start + 1;
        ne_query_open(store, &query, &cursor);
        while (ne_query_next(store, &cursor, &row) == NE_OK) {
            FILE *to = fmemopen(found, sizeof found, "w");
            show(to, &row, field);
            fclose(to);
            same = same || strncmp(found, line, (size_t)(next - line)) == 0;
        }
        if (!same && query.start != INT64_MAX) {
            printf("%.*s", (int)(next - line), line);
            fail(name, "has not this row");
        }
    }
    return rows;
}

static void read_folder(const char *path) {
    DIR *folder = opendir(path);
    struct dirent *entry;
    unsigned pages = 0, refused = 0, rows = 0;
    if (folder == NULL) {
        fail(path, "cannot be opened");
        return;
    }
    while ((entry = readdir(folder)) != NULL) {
        static uint8_t page[8192];
        static char lines[1u << 20];
        char name[256];
        size_t length = strlen(entry->d_name), bytes, line_bytes;
        ne_store *store;
        if (length < 5 || length >= sizeof name || strcmp(entry->d_name + length - 4, ".bin") != 0) {
            continue;
        }
        memcpy(name, entry->d_name, length - 4);
        name[length - 4] = 0;
        bytes = load(path, name, ".bin", page, sizeof page - 64);
        store = store_of(page, bytes);
        line_bytes = load(path, name, ".rows", (uint8_t *)lines, sizeof lines - 1);
        if (line_bytes == SIZE_MAX) {
            /* A device trusts what its checksum covers, and must be safe with it whatever it is. */
            static const char *const fields[] = {"v", "n", "open", "by", "raw", "temperature"};
            size_t index;
            for (index = 0; index < sizeof fields / sizeof *fields; index++) {
                ne_query query = {NULL, NULL, 0, fields[index], INT64_MIN, INT64_MAX};
                ne_cursor cursor;
                ne_row row;
                ne_rollup rollup[4];
                ne_query_open(store, &query, &cursor);
                while (ne_query_next(store, &cursor, &row) == NE_OK) {
                }
                ne_rollup_of(store, &query, INT64_MAX, rollup, 4);
            }
            refused++;
            continue;
        }
        lines[line_bytes] = 0;
        if (!(page[5] & 1)) {
            /* Its last page is not there: it does not count. */
            uint64_t after = 0;
            uint32_t address, sent;
            if (ne_next_page(store, &after, &address, &sent) != NE_END) {
                fail(name, "counts although its seal has no end");
            }
        } else {
            rows += find_rows(name, store, lines);
        }
        pages++;
    }
    closedir(folder);
    if (pages < 120 || refused < 100) {
        fail(path, "has too few pages");
    }
    printf("%u golden device pages with %u values read, %u hostile ones survived\n", pages, rows, refused);
}

/* A segment holds flash pages unchanged: each unit of it, put into a flash, is read by the library as the page that it was. */
static void read_segment(const char *folder, const char *pages) {
    static uint8_t segment[65536], original[8192];
    static char units[4096], lines[1u << 20];
    size_t bytes = load(folder, "pages", ".seg", segment, sizeof segment);
    size_t unit_bytes = load(folder, "pages", ".units", (uint8_t *)units, sizeof units - 1);
    unsigned count = 0, rows = 0, at, length;
    char name[256], *line = units;
    int used;
    if (bytes == SIZE_MAX || unit_bytes == SIZE_MAX) {
        fail(folder, "has no segment");
        return;
    }
    units[unit_bytes] = 0;
    for (; sscanf(line, "%u %u %255s\n%n", &at, &length, name, &used) == 3; line += used, count++) {
        size_t line_bytes, original_bytes = load(pages, name, ".bin", original, sizeof original);
        if (at > bytes || length > bytes - at || original_bytes > length || memcmp(segment + at, original, original_bytes) != 0) {
            fail(name, "is not in the segment as it was");
            continue;
        }
        line_bytes = load(pages, name, ".rows", (uint8_t *)lines, sizeof lines - 1);
        if (line_bytes == SIZE_MAX) {
            fail(name, "has no rows");
            continue;
        }
        lines[line_bytes] = 0;
        rows += find_rows(name, store_of(segment + at, length), lines);
    }
    if (count < 4 || rows < 200) {
        fail(folder, "has too few pages");
    }
    printf("%u device pages with %u values read from a segment\n", count, rows);
}

/* ---- writing ---- */

static void save(const char *folder, const char *name, const char *ending, const void *bytes, size_t n) {
    char path[512];
    FILE *file;
    snprintf(path, sizeof path, "%s/%s%s", folder, name, ending);
    file = fopen(path, "wb");
    if (file == NULL || fwrite(bytes, 1, n, file) != n) {
        fail(path, "cannot be written");
        return;
    }
    fclose(file);
}

/* A sensor's day: what is put in is shown from the arguments, sorted as a page sorts it, and not from what is read. */
static void write_pages(const char *folder) {
    static ne_tag tags[2] = {{"sensor", "t 1"}, {"house", "north"}};
    static const ne_field fields[5] = {{"temperature", NE_FLOAT}, {"count", NE_INT}, {"on", NE_BOOL}, {"state", NE_TEXT}, {"noise", NE_FLOAT}};
    ne_series series = {"climate", tags, 2, fields, 5, NULL, 0, 0};
    ne_options options = {0, 64, 2048, 8};
    ne_flash flash;
    ne_store *store = NULL;
    uint64_t after = 0, noise = 88172645463325252u;
    uint32_t address, bytes, rows = 0;
    unsigned page = 0;
    static int64_t times[200];
    static ne_value values[200][5];
    static char states[200][16];
    nor_init(&flash_memory, 4096, 8, 4);
    flash = nor_flash(&flash_memory);
    if (ne_open(&store, &flash, &options, arena, sizeof arena) != NE_OK) {
        fail("store", "does not open");
    }
    while (ne_maintain(store) == NE_OK) {
    }
    for (rows = 0; rows < 160; rows++) {
        noise ^= noise << 13;
        noise ^= noise >> 7;
        noise ^= noise << 17;
        times[rows] = 1700000000000 + 10000 * (int64_t)rows;
        values[rows][0].number = 20 + (double)(int)(noise >> 56) / 16;
        values[rows][1].integer = (int64_t)(noise >> 50) - 8000;
        values[rows][2].integer = rows / 20 % 2;
        values[rows][3].text.length = (uint32_t)sprintf(states[rows], "state %u", rows % 3);
        values[rows][3].text.bytes = states[rows];
        values[rows][4].number = rows % 40 == 7 ? ne_to_double(0x7ff8000000000001) : ne_to_double(noise & 0x7fefffffffffffff);
        if (ne_insert(store, &series, times[rows], values[rows]) == NE_FULL) {
            while (ne_maintain(store) == NE_OK) {
            }
            rows--;
        }
    }
    ne_seal(store);
    while (ne_maintain(store) == NE_OK) {
    }
    rows = 0;
    while (ne_next_page(store, &after, &address, &bytes) == NE_OK) {
        static char lines[1u << 18];
        char name[64];
        FILE *to = fmemopen(lines, sizeof lines, "w");
        uint32_t end;
        /* Blocks of 64 rows at most, or fewer where the page is full: borders are told by the times of the page. */
        const uint8_t *at = flash_memory.bytes + address + 60, *stop = flash_memory.bytes + address + bytes - 4;
        while (at < stop) {
            ne_reader in = {at, stop, false};
            uint32_t block_rows, field, row;
            ne_take(&in, (size_t)ne_take_varint(&in));
            block_rows = (uint32_t)ne_take_varint(&in);
            ne_take_varint(&in);
            ne_take_varint(&in);
            ne_take_varint(&in);
            ne_take(&in, ne_get16(ne_take(&in, 2)));
            end = rows + block_rows;
            for (field = 0; field < 5; field++) {
                uint32_t left;
                ne_take(&in, *ne_take(&in, 1));
                ne_take(&in, ne_get16(ne_take(&in, 2)));
                for (left = *ne_take(&in, 1) ? 5 : 0; left > 0; left--) {
                    ne_take_varint(&in);
                }
                for (row = rows; row < end; row++) {
                    ne_row shown = {times[row], fields[field].type, values[row][field], "climate,house=north,sensor=t\\ 1", 31};
                    show(to, &shown, fields[field].name);
                }
            }
            rows = end;
            at = in.at;
        }
        fclose(to);
        sprintf(name, "written_%u", page++);
        save(folder, name, ".bin", flash_memory.bytes + address, bytes);
        save(folder, name, ".rows", lines, strlen(lines));
    }
    if (rows != 160 || page == 0) {
        fail("written", "rows are missing");
    }
    printf("%u pages with %u rows written to %s\n", page, rows, folder);
}

/* Images that this library and the one before wrote: rows that are not sealed are read, and those in pages. */
static void read_image(const char *folder, const char *name) {
    static const ne_tag tags[1] = {{"room", "attic"}};
    ne_query query = {"climate", tags, 1, "temperature", INT64_MIN, INT64_MAX};
    ne_flash flash;
    ne_store *store;
    ne_cursor cursor;
    ne_row row;
    char path[512];
    FILE *file;
    int index;
    nor_init(&flash_memory, 1024, 12, strstr(name, "32") ? 32 : 1);
    snprintf(path, sizeof path, "%s/%s", folder, name);
    file = fopen(path, "rb");
    if (file == NULL) {
        fail(path, "cannot be opened");
        return;
    }
    if (fread(flash_memory.bytes, 1, 12 * 1024, file) != 12 * 1024) {
        fail(path, "cannot be read");
    }
    fclose(file);
    flash = nor_flash(&flash_memory);
    if (ne_open(&store, &flash, NULL, arena, sizeof arena) != NE_OK || ne_query_open(store, &query, &cursor) != NE_OK) {
        fail(path, "does not open");
    }
    for (index = 0; index < 150; index++) {
        /* The last ten came when the clock was known. */
        int64_t time = 1000 + 10 * (int64_t)index + (index < 140 ? 1700000000000 : 0);
        if (ne_query_next(store, &cursor, &row) != NE_OK || row.time != time || row.value.number != (2150 + index % 7) / 100.0) {
            fail(path, "has other rows");
        }
    }
    if (ne_query_next(store, &cursor, &row) != NE_END) {
        fail(path, "has more rows");
    }
    printf("%s: 150 rows read\n", name);
}

int main(int count, char **words) {
    if (count == 3 && strcmp(words[1], "--write") == 0) {
        write_pages(words[2]);
    } else if (count == 4 && strcmp(words[1], "--segment") == 0) {
        read_segment(words[2], words[3]);
    } else if (count == 2) {
        read_folder(words[1]);
    } else if (count == 3 && strcmp(words[1], "--images") == 0) {
        read_image(words[2], "image_unit_1.img");
        read_image(words[2], "image_unit_32.img");
    } else {
        fail("usage", "test_device [--write | --images] FOLDER, or --segment FOLDER PAGES");
    }
    return 0;
}
