/* Nilometer edge: a time-series database in NOR flash, for microcontrollers.
 *
 * C99. No allocation, no recursion, no dependencies; all memory is one arena that the caller gives. Flash is a ring of sectors
 * behind three callbacks. Every program unit is programmed exactly once between two erases, and ne_maintain() is the only
 * function that erases. Pulling the plug at any byte loses nothing that was acknowledged.
 *
 * What it writes is read by the server as it is: docs/format/device-page.md. How to use it: docs/guide/edge.md.
 * One thread at a time: put a lock around it where several tasks call it.
 */
#ifndef NILOMETER_EDGE_H
#define NILOMETER_EDGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
    NE_OK = 0,
    NE_END = 1,              /* a cursor has no more rows */
    NE_INVALID = -1,         /* an argument that cannot be: see the function */
    NE_TOO_SMALL = -2,       /* the arena; ne_arena_bytes() says how much is needed */
    NE_IO = -3,              /* a callback of the flash failed */
    NE_FULL = -4,            /* no erased sector is left: call ne_maintain() */
    NE_TOO_LONG = -5,        /* the row, or the names of its series, do not fit a frame or a page */
    NE_CORRUPT = -6,         /* bytes that contradict themselves */
    NE_UNSUPPORTED = -7,     /* pages of an encoding that devices do not read; or what was written with longer pages,
                              * more rows in a block or more series than the options of this opening have */
    NE_CHANGED = -8,         /* ne_maintain() moved rows while the cursor was open: open it again */
    NE_REFUSED = -9,         /* the server does not take a page, or this device: see ne_sync_step() */
    NE_NO_CLOCK = -10,       /* the clock of a boot is not known: see ne_set_clock() */
    NE_OTHER_LIFE = -11      /* the server knows another flash under this number: see ne_sync_step() */
} ne_status;

/* Types of fields; the numbers are those of docs/format/page.md. */
typedef enum { NE_INT = 0, NE_UINT = 1, NE_FLOAT = 2, NE_BOOL = 3, NE_TEXT = 4, NE_BYTES = 5 } ne_type;

/* The flash. `program` gets whole units of erased bytes, in ascending order within a sector, and each unit once. All callbacks
 * answer 0 if they did what they should. */
typedef struct {
    void *context;
    int (*read)(void *context, uint32_t address, void *to, uint32_t bytes);
    int (*program)(void *context, uint32_t address, const void *from, uint32_t bytes);
    int (*erase)(void *context, uint32_t address); /* one sector */
    uint32_t sector_bytes; /* 1 KiB to 64 KiB; several erase sectors may be one of these */
    uint32_t sectors;      /* 6 to 65535 */
    uint32_t unit_bytes;   /* 1, 2, 4, 8, 16 or 32 */
} ne_flash;

typedef struct {
    uint32_t tick_ns;         /* nanoseconds in one unit of time; 0 = 1000000, milliseconds */
    uint16_t block_rows;      /* rows that are encoded together, 32 to 1024; 0 = 128 */
    uint16_t page_bytes;      /* longest device page; 0 = 2048 or what the sector has room for */
    uint16_t series_max;      /* series in one hot sector, at most 255; 0 = 32 */
} ne_options;

typedef struct {
    const char *name, *value;
} ne_tag;

typedef struct {
    const char *name;
    ne_type type;
} ne_field;

typedef union {
    int64_t integer;   /* NE_INT, NE_UINT, and NE_BOOL: 0 or 1 */
    double number;     /* NE_FLOAT */
    struct {
        const char *bytes;
        uint32_t length;
    } text;            /* NE_TEXT, NE_BYTES */
} ne_value;

/* One series with its fields: give the same one for each of its rows, and do not change it meanwhile. Tags in any order. What
 * begins with an underscore is the library's: set it to zero. */
typedef struct {
    const char *table;
    const ne_tag *tags;
    size_t tag_count;
    const ne_field *fields;
    size_t field_count; /* 1 to 16 */
    const void *_store;
    uint32_t _sequence;
    uint8_t _index;
} ne_series;

typedef struct ne_store ne_store;

/* How many bytes of arena these settings take; 0 if they cannot be. A larger one makes seals of many rows faster. */
size_t ne_arena_bytes(const ne_flash *flash, const ne_options *options);

/* Opens what is in the flash; an empty or foreign flash becomes a store once ne_maintain() has erased its sectors. Reads only.
 * `*store` lives in the arena, which must be aligned for 64-bit numbers. */
ne_status ne_open(ne_store **store, const ne_flash *flash, const ne_options *options, void *arena, size_t arena_bytes);

/* Stores one row, durable when it returns NE_OK: one or two programs, no erase. Names and text must be UTF-8, names not empty, tags
 * of different names (NE_INVALID). */
ne_status ne_insert(ne_store *store, ne_series *series, int64_t time, const ne_value *values);

/* Stores rows; `values` has field_count of them for each. `*stored` rows are durable, also after an error. */
ne_status ne_insert_rows(ne_store *store, ne_series *series, const int64_t *times, const ne_value *values, size_t rows,
                         size_t *stored);

/* One step of upkeep: seals a full hot sector, or erases a sector, or, if room is short, gives up the oldest sealed sector.
 * NE_END: there was nothing to do. Call it when the device is idle, until NE_END. */
ne_status ne_maintain(ne_store *store);

/* Seals the open hot sector too at the next ne_maintain(), for instance before an upload. */
ne_status ne_seal(ne_store *store);

/* Rows are taken without a clock from now on: times are ticks since boot number `boot`, which is not 0. */
ne_status ne_begin_boot(ne_store *store, uint32_t boot);

/* The clock is known: times from now on are real ones, and `utc_minus_ticks` is added to those of boot `boot` when read. */
ne_status ne_set_clock(ne_store *store, uint32_t boot, int64_t utc_minus_ticks);

/* Gives up sealed sectors whose rows are all older than `before`, at the next ne_maintain() calls. */
ne_status ne_retain(ne_store *store, int64_t before);

/* Which rows: `table` or NULL for all, tags that must have these values, `field` by name, from `start` until before `end`. */
typedef struct {
    const char *table;
    const ne_tag *tags;
    size_t tag_count;
    const char *field;
    int64_t start, end;
} ne_query;

/* A row of one field. `text` and `series` point into the arena and hold until the next call. `series` is the canonical key:
 * table,tag=value with tags in order, escaped as in line protocol. */
typedef struct {
    int64_t time;
    ne_type type;
    ne_value value;
    const char *series;
    uint16_t series_bytes;
} ne_row;

/* A cursor: sealed rows block by block, then those of hot sectors in the order in which they came. Its members are the library's. */
typedef struct {
    const ne_query *query;
    uint32_t generation;
    uint32_t sequence;       /* of the sector that is read */
    uint32_t at, page_bytes; /* the page or frame in it */
    uint32_t block;          /* where the next block begins in the page */
    uint32_t row, rows;
    uint16_t sector, left;   /* blocks of the page that were not looked at */
    uint8_t stage, type;
    uint32_t boot;
    int64_t base, shift, time;
    uint32_t key, key_bytes;
    uint16_t name, name_bytes;
    uint32_t next;           /* the next frame */
    uint16_t place;          /* the next row of the frame */
    uint8_t frame_series;
    bool is_regular;         /* the rows of the frame are `step` apart */
    int64_t step;
} ne_cursor;

ne_status ne_query_open(ne_store *store, const ne_query *query, ne_cursor *cursor);
ne_status ne_query_next(ne_store *store, ne_cursor *cursor, ne_row *row);

/* One interval of a rollup. Of text only `count` is meant; of booleans `sum` counts those that are true. */
typedef struct {
    uint64_t count;
    double min, max, sum, first, last;
    int64_t first_time, last_time;
} ne_rollup;

/* Adds up a field over intervals of `width` from query->start on: out[i] is [start + i * width, start + (i + 1) * width). Blocks
 * within one interval are taken from their statistics and not read. The mean is sum / count. */
ne_status ne_rollup_of(ne_store *store, const ne_query *query, int64_t width, ne_rollup *out, size_t intervals);

typedef struct {
    uint32_t sectors, free, hot, sealed, dirty;
    uint32_t sealed_bytes; /* in pages */
    uint32_t damaged; /* pages that could not be read since ne_open(), those of an interrupted program included */
    uint32_t erases_min, erases_max;
    int64_t oldest; /* time of the oldest sealed page without its boot's shift, INT64_MIN if there is none */
} ne_usage;

ne_status ne_usage_of(ne_store *store, ne_usage *out);

/* Device pages to send, oldest first. `*after` is the sequence of the last one that the server has, 0 at first; it becomes that of
 * the page found. The bytes of the page are at `*address` in the flash, `*bytes` of them, and go to the server as they are. */
ne_status ne_next_page(ne_store *store, uint64_t *after, uint32_t *address, uint32_t *bytes);

#ifdef __cplusplus
}
#endif

#endif
