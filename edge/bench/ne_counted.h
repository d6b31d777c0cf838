/* What ne_suite.c counts with: a flash that keeps the rules of NOR and counts, accounts of operations, and stores on that flash.
 *
 * One file of its own so that the suite has its tests and nothing else; only ne_suite.c includes it, and all is static.
 */
#ifndef NE_COUNTED_H
#define NE_COUNTED_H

#include "ne_suite.h"

#include "ne_internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Typical values of the W25Q32JV (3 V, 4 MiB): a page of 256 bytes is programmed in 0.4 ms, however few of its bytes, a sector of
 * 4 KiB is erased in 45 ms. 10 MB/s is what 40 MHz on two lines read, as the reference's flash was set. */
#define PAGE_BYTES 256u
#define PAGE_NS 400000u
#define ERASE_NS 45000000u
#define READ_BYTE_NS 100u
#define ERASED_BYTES 4096u

typedef struct {
    uint64_t programs, pages, bytes, erases, reads, read_bytes, instructions;
} cost;

/* The sum of some operations, and the worst of them. */
typedef struct {
    cost sum;
    uint64_t operations, worst_flash_ns, worst_instructions;
} account;

#define ROWS_MAX 2000u

static struct {
    uint8_t *flash, *programmed;
    uint32_t sector_bytes, sectors;
    uint32_t (*instructions)(void);
    cost now, begun;
    uint32_t started, inside;
    const char *broken;
    char *out;
    size_t room, used;
    uint64_t arena[4096];
    size_t arena_bytes;
    int64_t times[ROWS_MAX];
    ne_value values[ROWS_MAX];
    uint64_t list[1024], again[1024], spare[1024], encode_room[NE_ENCODE_ROOM];
    uint8_t page[16384];
} it;

static uint32_t count_instructions(void) {
    return it.instructions != NULL ? it.instructions() : 0;
}

static void fail(const char *what) {
    it.broken = it.broken != NULL ? it.broken : what;
}

/* ---- flash ---- */

static int flash_read(void *context, uint32_t address, void *to, uint32_t bytes) {
    uint32_t start = count_instructions();
    (void)context;
    memcpy(to, it.flash + address, bytes);
    it.now.reads++;
    it.now.read_bytes += bytes;
    it.inside += count_instructions() - start;
    return 0;
}

static int flash_program(void *context, uint32_t address, const void *from, uint32_t bytes) {
    uint32_t start = count_instructions(), at;
    (void)context;
    for (at = address; at < address + bytes; at++) {
        if (it.programmed[at / 8] >> at % 8 & 1) {
            fail("a byte was programmed twice");
        }
        it.programmed[at / 8] = (uint8_t)(it.programmed[at / 8] | 1u << at % 8);
    }
    memcpy(it.flash + address, from, bytes);
    it.now.programs++;
    it.now.pages += (address + bytes - 1) / PAGE_BYTES - address / PAGE_BYTES + 1;
    it.now.bytes += bytes;
    it.inside += count_instructions() - start;
    return 0;
}

static int flash_erase(void *context, uint32_t address) {
    uint32_t start = count_instructions();
    (void)context;
    memset(it.flash + address, 0xff, it.sector_bytes);
    memset(it.programmed + address / 8, 0, it.sector_bytes / 8);
    /* A sector of the store may be several of the flash. */
    it.now.erases += it.sector_bytes > ERASED_BYTES ? it.sector_bytes / ERASED_BYTES : 1;
    it.inside += count_instructions() - start;
    return 0;
}

static ne_flash flash_of(void) {
    ne_flash flash;
    flash.context = NULL;
    flash.read = flash_read;
    flash.program = flash_program;
    flash.erase = flash_erase;
    flash.sector_bytes = it.sector_bytes;
    flash.sectors = it.sectors;
    flash.unit_bytes = 1;
    return flash;
}

/* ---- accounts ---- */

static void begin(void) {
    it.begun = it.now;
    it.inside = 0;
    it.started = count_instructions();
}

static uint64_t flash_ns(const cost *of) {
    return of->pages * PAGE_NS + of->erases * ERASE_NS + of->read_bytes * READ_BYTE_NS;
}

static cost taken(void) {
    uint32_t instructions = count_instructions() - it.started - it.inside;
    cost of;
    of.programs = it.now.programs - it.begun.programs;
    of.pages = it.now.pages - it.begun.pages;
    of.bytes = it.now.bytes - it.begun.bytes;
    of.erases = it.now.erases - it.begun.erases;
    of.reads = it.now.reads - it.begun.reads;
    of.read_bytes = it.now.read_bytes - it.begun.read_bytes;
    of.instructions = instructions;
    return of;
}

static void add(account *to, cost of) {
    to->sum.programs += of.programs;
    to->sum.pages += of.pages;
    to->sum.bytes += of.bytes;
    to->sum.erases += of.erases;
    to->sum.reads += of.reads;
    to->sum.read_bytes += of.read_bytes;
    to->sum.instructions += of.instructions;
    to->operations++;
    to->worst_flash_ns = flash_ns(&of) > to->worst_flash_ns ? flash_ns(&of) : to->worst_flash_ns;
    to->worst_instructions = of.instructions > to->worst_instructions ? of.instructions : to->worst_instructions;
}

static void end(account *to) {
    add(to, taken());
}

static void print(const char *format, ...) {
    va_list words;
    int bytes;
    va_start(words, format);
    bytes = vsnprintf(it.out + it.used, it.room - it.used, format, words);
    va_end(words);
    if (bytes < 0 || (size_t)bytes >= it.room - it.used) {
        fail("the text has no room");
    } else {
        it.used += (size_t)bytes;
    }
}

/* `value` is what the figure is about besides, such as bytes. */
static void show(const char *name, uint64_t points, const account *of, uint64_t value) {
    print("%s\t%lu\t%lu\t%lu\t%lu\t%lu\t%lu\t%lu\t%lu\t%lu\t%lu\t%lu\t%lu\t%lu\n", name, (unsigned long)points,
          (unsigned long)of->operations, (unsigned long)of->sum.programs, (unsigned long)of->sum.pages,
          (unsigned long)of->sum.bytes, (unsigned long)of->sum.erases, (unsigned long)of->sum.reads,
          (unsigned long)of->sum.read_bytes, (unsigned long)(flash_ns(&of->sum) / 1000),
          (unsigned long)(of->worst_flash_ns / 1000), (unsigned long)of->sum.instructions, (unsigned long)of->worst_instructions,
          (unsigned long)value);
}

/* ---- the store ---- */

static ne_store *fresh(uint32_t sector_bytes, uint32_t sectors, const ne_options *options) {
    ne_flash flash;
    ne_store *store = NULL;
    it.sector_bytes = sector_bytes;
    it.sectors = sectors;
    memset(it.flash, 0xa5, sector_bytes * sectors);
    memset(it.programmed, 0xff, sector_bytes * sectors / 8);
    flash = flash_of();
    /* What is needed and a little more, whatever pointers take: 8 KB for 64 sectors. Still more would make seals faster. */
    it.arena_bytes = ne_arena_bytes(&flash, options) + 1008;
    if (it.arena_bytes > sizeof it.arena || ne_open(&store, &flash, options, it.arena, it.arena_bytes) != NE_OK) {
        fail("a store does not open");
    }
    while (store != NULL && ne_maintain(store) == NE_OK) {
    }
    return store;
}

/* As the reference had it: 4 MiB in sectors of 4 KiB. */
static ne_store *fresh_large(void) {
    return fresh(4096, NE_SUITE_FLASH / 4096, NULL);
}

static ne_series series_of(const char *table, const ne_tag *tags, size_t tag_count, const ne_field *fields, size_t field_count) {
    ne_series series;
    memset(&series, 0, sizeof series);
    series.table = table;
    series.tags = tags;
    series.tag_count = tag_count;
    series.fields = fields;
    series.field_count = field_count;
    return series;
}

/* All steps of upkeep until there is none: those that erase nothing are of the seal. */
static void upkeep(ne_store *store, account *seals, account *erases) {
    for (;;) {
        ne_status status;
        cost of;
        begin();
        status = ne_maintain(store);
        of = taken();
        if (status != NE_OK) {
            if (status != NE_END) {
                fail("upkeep fails");
            }
            return;
        }
        add(of.erases > 0 ? erases : seals, of);
    }
}

static void insert_rows(ne_store *store, ne_series *series, size_t rows, account *to) {
    size_t stored = 0;
    ne_status status;
    begin();
    status = ne_insert_rows(store, series, it.times, it.values, rows, &stored);
    end(to);
    if (status != NE_OK || stored != rows) {
        fail("rows are not stored");
    }
}

static void insert(ne_store *store, ne_series *series, int64_t time, const ne_value *values, account *to) {
    ne_status status;
    begin();
    status = ne_insert(store, series, time, values);
    if (status == NE_FULL) {
        /* The device was not idle for long enough; upkeep is no part of an insert. */
        while (ne_maintain(store) == NE_OK) {
        }
        begin();
        status = ne_insert(store, series, time, values);
    }
    end(to);
    if (status != NE_OK) {
        fail("a row is not stored");
    }
}

#endif
