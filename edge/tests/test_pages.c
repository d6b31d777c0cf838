/* Golden column pages, read and written again; hostile ones; golden device pages.
 *
 * Usage: test_pages FOLDER_OF_PAGES. The folder has NAME.bin and NAME.json as golden/0/page/make.py writes them, which knows nothing
 * of this library.
 */
#include "ne_internal.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void fail(const char *name, const char *what) {
    printf("FAILED: %s: %s\n", name, what);
    exit(1);
}

static uint8_t *load(const char *folder, const char *name, const char *ending, size_t *bytes) {
    char path[512];
    FILE *file;
    uint8_t *all = malloc(1u << 20);
    snprintf(path, sizeof path, "%s/%s%s", folder, name, ending);
    file = fopen(path, "rb");
    if (file == NULL || all == NULL) {
        fail(path, "cannot be opened");
        return NULL;
    }
    *bytes = fread(all, 1, 1u << 20, file);
    all[*bytes] = 0;
    fclose(file);
    return all;
}

static uint64_t values[1024], room[1024];

/* Compares one value with the next token of the JSON list, and moves behind it. */
static bool is_token(const char **at, const uint8_t *page, const ne_page_info *info, size_t row) {
    const char *token = *at;
    bool is_null = strncmp(token, "null", 4) == 0;
    bool is_present = info->present == NULL || (info->present[row / 8] >> (row % 8) & 1);
    bool same = is_null == !is_present;
    const uint8_t *text = page + (values[row] >> 32);
    uint32_t length = (uint32_t)values[row], index;
    if (*token == '"') {
        token++;
        if (info->type == NE_FLOAT) {
            same = same && strtoull(token, NULL, 16) == values[row];
            token += 16;
        } else if (info->type == NE_BYTES) {
            for (index = 0; index < length; index++, token += 2) {
                char hex[3];
                sprintf(hex, "%02x", text[index]);
                same = same && memcmp(hex, token, 2) == 0;
            }
        } else {
            /* ASCII, and characters as JSON escapes them, of 16 bits each. */
            for (index = 0; index < length;) {
                uint32_t code = text[index];
                char shown[16];
                if (code < 0x80) {
                    sprintf(shown, "%c", (int)code);
                    index += 1;
                } else {
                    unsigned more = code >= 0xf0 ? 3 : code >= 0xe0 ? 2 : 1;
                    code &= 0x3fu >> more;
                    for (index++; more > 0; more--) {
                        code = code << 6 | (text[index++] & 0x3fu);
                    }
                    if (code > 0xffff) {
                        sprintf(shown, "\\u%04x\\u%04x", 0xd800 + ((code - 0x10000) >> 10), 0xdc00 + ((code - 0x10000) & 0x3ff));
                    } else {
                        sprintf(shown, "\\u%04x", code);
                    }
                }
                same = same && strncmp(shown, token, strlen(shown)) == 0;
                token += strlen(shown);
            }
        }
        same = same && *token == '"';
    } else if (!is_null) {
        uint64_t number = *token == 't' ? 1 : *token == 'f' ? 0 : *token == '-' ? (uint64_t)strtoll(token, NULL, 10) : strtoull(token, NULL, 10);
        same = same && number == values[row];
    }
    while (*token != ',' && *token != ']') {
        token++;
    }
    *at = token + (*token == ',' ? 2 : 0);
    return same;
}

/* Whatever the bytes: an answer, and no byte read beyond them (the sanitizer sees to that: each is a block of its own). */
static void attack(const uint8_t *page, size_t bytes) {
    ne_page_info info;
    size_t end, bit;
    for (end = 0; end < bytes; end++) {
        uint8_t *cut = malloc(end > 0 ? end : 1);
        if (cut == NULL) {
            exit(2);
        }
        memcpy(cut, page, end);
        if (ne_page_decode(cut, end, values, 1024, room, &info) == NE_OK) {
            fail("a truncated page", "is accepted");
        }
        free(cut);
    }
    for (bit = 0; bit < 8 * bytes; bit++) {
        uint8_t *flipped = malloc(bytes);
        if (flipped == NULL) {
            exit(2);
        }
        memcpy(flipped, page, bytes);
        flipped[bit / 8] ^= (uint8_t)(1 << bit % 8);
        ne_page_decode(flipped, bytes, values, 1024, room, &info);
        ne_page_decode(flipped, bytes, values, 1024, NULL, &info);
        free(flipped);
    }
}

static uint64_t encode_room[NE_ENCODE_ROOM];

/* What is written of the values is read back as them. */
static void write_again(const char *name, const ne_page_info *info) {
    static uint64_t before[1024];
    static uint8_t page[16384];
    ne_writer out = {page, page, page + sizeof page, false};
    ne_scale scale;
    ne_page_info again;
    size_t n = info->rows, row;
    if (info->present != NULL || info->type >= NE_TEXT) {
        return;
    }
    memcpy(before, values, 8 * n);
    ne_page_encode(&out, info->type, values, n, &scale, encode_room);
    for (row = 0; row < n && scale.form >= 2; row++) {
        values[row] = ne_from_double(ne_unscaled((int64_t)values[row], scale));
    }
    /* Of a block with exceptions nothing is promised but what is written, and that it has no statistics. */
    if (out.full || (memcmp(before, values, 8 * n) != 0 && !(scale.form == 0 && page[0] == DYADIC))) {
        fail(name, "values are not as before they were written");
    }
    if (ne_page_decode(page, (size_t)(out.at - page), values, 1024, NULL, &again) != NE_OK || again.rows != n ||
        again.type != info->type || memcmp(before, values, 8 * n) != 0) {
        fail(name, "what was written does not read back");
    }
}

static uint64_t state = 88172645463325252u;

static uint64_t draw(void) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

/* The library divides by digits; this machine has a unit for it. */
static void quotients_are_those_of_the_machine(void) {
    static const double powers[7] = {1, 10, 100, 1000, 10000, 100000, 1000000};
    uint64_t index;
    for (index = 0; index < 3000000; index++) {
        ne_scale scale = {2, 0};
        uint64_t bits = draw();
        int64_t integer = index < 200000 ? (int64_t)index : (int64_t)(bits >> (13 + bits % 50));
        scale.scale = (int8_t)(index % 7);
        integer = bits >> 32 & 1 && integer != 0 ? -integer : integer;
        if (ne_from_double(ne_unscaled(integer, scale)) != ne_from_double((double)integer / powers[index % 7])) {
            fail("a quotient", "is not the nearest float");
        }
    }
}

/* Floats in steps of 2^-24 of which a few need finer ones: exceptions, a smaller page, no scale for statistics. */
static void few_finer_floats_are_exceptions(void) {
    static uint8_t page[16384];
    static uint64_t before[1000], read[1024];
    unsigned fine, index;
    size_t bytes[2];
    for (fine = 0; fine < 2; fine++) {
        ne_writer out = {page, page, page + sizeof page, false};
        ne_page_info info;
        ne_scale scale;
        for (index = 0; index < 1000; index++) {
            double noise = (double)(draw() >> 34) / 16777216.0 + (fine && index % 97 == 5 ? 1.0 / 4294967296.0 / 8 : 0);
            before[index] = values[index] = ne_from_double(noise);
        }
        ne_page_encode(&out, NE_FLOAT, values, 1000, &scale, encode_room);
        bytes[fine] = (size_t)(out.at - page);
        if (out.full || page[0] != DYADIC || scale.form != (fine ? 0 : 3) ||
            ne_page_decode(page, bytes[fine], read, 1024, NULL, &info) != NE_OK || memcmp(read, before, sizeof before) != 0) {
            fail("exceptions", "floats are not those that were written");
        }
    }
    /* 11 exceptions of 74 bits; with eleven bits more each the page would have 1375 bytes more. */
    if (bytes[1] > bytes[0] + 120) {
        fail("exceptions", "take more than they save");
    }
}

/* Lists of every kind, written and read; `file` gets them for the other reader of the same format. */
static void random_pages(unsigned rounds, FILE *file) {
    static const uint64_t odd[8] = {0, (uint64_t)1 << 63, 0x7ff8000000000000, 0xfff80000deadbeef, 0x7ff0000000000000, 1, 0x7fefffffffffffff, 0x0010000000000000};
    unsigned round;
    for (round = 0; round < rounds; round++) {
        static uint8_t page[16384];
        ne_writer out = {page, page, page + sizeof page, false};
        ne_page_info info;
        ne_scale scale;
        static uint64_t before[1024];
        size_t n = 1 + draw() % (round % 3 == 0 ? 1024 : 100), row;
        uint8_t type = (uint8_t)(draw() % 4);
        unsigned shift = (unsigned)(draw() % 64), kind = (unsigned)(draw() % 7);
        uint64_t at = draw() >> shift;
        double power = 1;
        for (row = draw() % 12; row > 0; row--) {
            power *= kind % 2 ? 10 : 2;
        }
        for (row = 0; row < n; row++) {
            uint64_t noise = draw() >> shift;
            switch (kind) {
            case 0: values[row] = at; break;
            case 1: values[row] = at + row * noise / (row + 1); break;
            case 2: values[row] = noise; break;
            case 3: values[row] = at += noise; break;
            case 4: values[row] = draw() >> (row / 32 % 3 == 1 ? 8 : 61); break;
            case 5: values[row] = at + row * 1000; break;
            default: values[row] = odd[noise % 8]; break;
            }
            if (type == NE_BOOL) {
                values[row] = kind == 4 ? row / 100 % 2 : values[row] & 1;
            }
            if (type == NE_FLOAT && kind < 6 && kind != 3) {
                values[row] = ne_from_double((double)(int64_t)(values[row] >> 12) / power);
                if (kind == 4 && draw() % 200 == 0) {
                    values[row] = odd[draw() % 8];
                }
            }
        }
        memcpy(before, values, 8 * n);
        ne_page_encode(&out, type, values, n, &scale, encode_room);
        info.type = type;
        info.rows = (uint16_t)n;
        info.present = NULL;
        memcpy(values, before, 8 * n);
        write_again("a random list", &info);
        if (file != NULL) {
            uint8_t word[8];
            ne_put32(word, (uint32_t)(out.at - page));
            ne_put32(word + 4, (uint32_t)n);
            fwrite(word, 1, 8, file);
            fwrite(page, 1, (size_t)(out.at - page), file);
            for (row = 0; row < n; row++) {
                ne_put64(word, before[row]);
                fwrite(word, 1, 8, file);
            }
        }
    }
}

/* Whether a float is a decimal is decided with integers; here by dividing, of decimals, their neighbours, and floats of any kind. */
static void decimals_are_those_that_divide_back(void) {
    static const double powers[10] = {1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9};
    unsigned turn, found = 0;
    for (turn = 0; turn < 400000; turn++) {
        unsigned scale = (unsigned)(draw() % 10);
        int64_t of = (int64_t)((draw() << 32 ^ draw()) >> (13 + draw() % 48)), integer;
        uint64_t bits = ne_from_double((draw() % 2 ? -1.0 : 1.0) * (double)of / powers[draw() % 4 == 0 ? draw() % 10 : scale]);
        double value, product;
        bool is;
        bits += draw() % 4 == 0 ? draw() % 3 - 1 : 0;
        bits = draw() % 16 == 0 ? (bits & 0xfff0000000000000u) : draw() % 64 == 0 ? draw() << 32 ^ draw() : bits;
        value = ne_to_double(bits);
        product = value * powers[scale];
        is = product > -2251799813685247.5 && product < 2251799813685247.5;
        if (is) {
            int64_t nearest = (int64_t)(product < 0 ? product - 0.5 : product + 0.5);
            is = ne_from_double((double)nearest / powers[scale]) == bits;
            of = nearest;
        }
        if (ne_decimal_integer(bits, scale, &integer) != is || (is && integer != of)) {
            printf("bits %016llx, %u digits\n", (unsigned long long)bits, scale);
            fail("decimals", "an integer is another one than dividing says");
        }
        found += is;
    }
    if (found < 100000 || found > 390000) {
        fail("decimals", "the floats are of one kind");
    }
}

int main(int count, char **words) {
    DIR *folder;
    struct dirent *entry;
    unsigned pages = 0, skipped = 0;
    if (count < 2 || (folder = opendir(words[1])) == NULL) {
        fail("usage", "test_pages FOLDER [FILE FOR RANDOM PAGES]");
        return 1;
    }
    decimals_are_those_that_divide_back();
    while ((entry = readdir(folder)) != NULL) {
        char name[256];
        size_t length = strlen(entry->d_name), bytes, json_bytes, row;
        uint8_t *page, *json;
        const char *at;
        ne_page_info info;
        ne_status status;
        if (length < 5 || length >= sizeof name || strcmp(entry->d_name + length - 4, ".bin") != 0) {
            continue;
        }
        memcpy(name, entry->d_name, length - 4);
        name[length - 4] = 0;
        page = load(words[1], name, ".bin", &bytes);
        json = load(words[1], name, ".json", &json_bytes);
        status = ne_page_decode(page, bytes, values, 1024, room, &info);
        if (strncmp(name, "pco", 3) == 0 || strncmp(name, "zstd", 4) == 0 || strncmp(name, "transposed", 10) == 0) {
            if (status != NE_UNSUPPORTED) {
                fail(name, "is of an encoding that devices do not have");
            }
            skipped++;
        } else {
            if (status != NE_OK) {
                fail(name, "does not decode");
            }
            at = strstr((const char *)json, "\"values\": [") + 11;
            for (row = 0; row < info.rows; row++) {
                if (!is_token(&at, page, &info, row)) {
                    printf("row %zu of %s\n", row, name);
                    fail(name, "has another value");
                }
            }
            if (*at != ']') {
                fail(name, "has fewer rows");
            }
            write_again(name, &info);
            attack(page, bytes);
            pages++;
        }
        free(page);
        free(json);
    }
    closedir(folder);
    if (pages < 60) {
        fail(words[1], "has too few pages");
    }
    if (count > 2) {
        FILE *file = fopen(words[2], "wb");
    quotients_are_those_of_the_machine();
    few_finer_floats_are_exceptions();
        random_pages(3000, file);
        fclose(file);
    } else {
        random_pages(3000, NULL);
    }
    printf("%u golden pages read, written again and attacked, %u refused as not of devices, 3000 random lists\n", pages, skipped);
    return 0;
}
