/* The store in the arena, shared by the files that write and read it. Not for programs that use the library. */
#ifndef NE_STORE_H
#define NE_STORE_H

#include "ne_internal.h"

enum { NE_SECTOR_DIRTY = 0, NE_SECTOR_FREE = 1, NE_SECTOR_HOT = 2, NE_SECTOR_SEALED = 3, NE_SECTOR_BAD = 4 };

#define NE_NONE 0xffffu /* no sector */

#define ERASE_MAGIC 0x454c4d4eu /* "NMLE" */
#define HEADER_BYTES 16u
#define SECTORS_MIN 6u
/* Free sectors that a hot sector leaves for sealing: what a seal takes as a rule. */
#define RESERVE 2u

/* Frames of hot sectors: kind and length (2 bytes), payload, CRC32C. */
enum { NE_FRAME_ROW = 0, NE_FRAME_ROWS = 1, NE_FRAME_SERIES = 2, NE_FRAME_CLOCK = 3 };
#define NE_FRAME_HEAD 2u
#define NE_PAYLOAD_MAX 400u
/* The frame that defines a series and that of its first row are one program, unless the first one is longer than this. */
#define NE_AHEAD_MAX 128u
#define NE_FRAME_MAX (NE_AHEAD_MAX + NE_FRAME_HEAD + NE_PAYLOAD_MAX + 4u + 32u)

#define NE_FIELDS_MAX 16u
#define NE_CLOCKS 4u
#define NE_KEY_MAX 255u

/* Device pages: docs/format/device-page.md. */
#define NE_PAGE_HEAD 60u
#define NE_PAGE_LAST 1u

typedef struct {
    uint32_t sequence, first; /* `first` is that of the page with part 0 */
    uint32_t bytes, tick_ns, boot, source;
    uint16_t blocks, part;
    uint8_t flags;
    int64_t base, min, max;
} ne_page_head;

typedef struct {
    uint32_t boot;
    int64_t shift;
} ne_clock;

typedef struct {
    uint32_t hash;
    uint16_t at, length; /* of the frame in the hot sector, and of its payload */
} ne_defined;

typedef struct {
    uint8_t key_bytes, fields;
    uint8_t types[NE_FIELDS_MAX], name_bytes[NE_FIELDS_MAX];
    uint16_t names[NE_FIELDS_MAX];
} ne_definition;

/* What a seal is about. */
typedef struct {
    struct ne_store *store;
    uint16_t sector;
    uint32_t end; /* of the frames whose checksums hold */
    ne_writer out;
    ne_page_head head;
    uint32_t first_page;
    /* The index has `entries` row frames of the series `low` to `high`; times in it are counted from `origin`. The frame behind them is at
     * `at`, and `chain` is the time that its own is counted from. */
    uint16_t low, high, entries;
    bool is_short; /* of room, or of bits for a time: frames of these series may be behind the index */
    uint32_t at;
    int64_t chain, origin;
    /* The frame of a block's first row, and rows of it that are in blocks before; and of the row behind the block. */
    uint16_t entry, skip, next_entry, next_skip;
    bool is_sorted; /* its rows came in the order of their times */
    uint32_t definition; /* where that of the block's series is */
    int64_t min, max; /* times of the block */
} ne_sealing;

/* A series of a hot sector that is read. */
typedef struct {
    uint16_t at;   /* of the frame that defines it */
    uint8_t field; /* to a cursor 1 + the index of the field that it reads */
    uint8_t frames; /* to a seal how many there are of its rows: 255 and more are 255 */
} ne_matched;

struct ne_store {
    ne_flash flash;
    uint32_t tick_ns, page_max, content; /* `content` is where sectors begin behind their headers */
    uint16_t block_rows, series_max;

    uint8_t *kinds;
    uint32_t *sequences;
    uint16_t last_taken;
    uint32_t next_sequence, next_page;

    uint16_t reserve; /* more than RESERVE once a seal took more */
    uint16_t hot; /* the sector that is appended to, or NE_NONE */
    uint32_t hot_end;
    int64_t hot_time;
    uint16_t series_count;
    ne_defined *series;
    uint32_t boot;
    ne_clock clocks[NE_CLOCKS];
    uint8_t clock_count;

    uint16_t sealed; /* the sector that pages are appended to, or NE_NONE */
    uint32_t sealed_end, sealed_through;

    int64_t retain_before;
    uint32_t generation, damaged;

    uint8_t *page;
    uint64_t *times, *values;
    uint16_t *order;
    ne_matched *match;
    /* Row frames of a sector that is sealed, `block_rows` or more: where they are, the times of their first rows, their series. */
    uint16_t *index_at;
    int32_t *index_time;
    uint8_t *index_series;
    uint16_t index_max;
    const ne_cursor *owner; /* whose page, block or series are in the buffers */
    const ne_cursor *reader; /* whose frame is in `frame` */
    uint16_t match_count;
    uint16_t ahead; /* bytes of frames that wait in `frame` to be programmed with the next one */
    uint8_t digits; /* of the decimal that was inserted last */
    uint8_t in_vain; /* floats for which digits are not looked for */
    /* The definition that a cursor read last: of which sector, of which series. Its key is in `shared.key`. A seal takes both: then no
     * definition is known, and cursors that were open are no longer good. */
    uint8_t defined_series;
    uint32_t defined_in;
    ne_definition defined;
    uint8_t *frame; /* the bytes of `frame_words`, which encoding a column takes as its room */
    uint64_t frame_words[(NE_FRAME_MAX + 7) / 8];
    union {
        char key[NE_KEY_MAX + 1];
        ne_sealing seal;
    } shared;
};

typedef struct {
    uint8_t kind;
    uint32_t payload, length, next; /* places in the sector */
} ne_frame;

/* Programs whole units; what is behind `bytes` in the last one is 0xff. */
ne_status ne_program(ne_store *store, uint16_t sector, uint32_t at, const uint8_t *from, uint32_t bytes);
uint32_t ne_count_of(const ne_store *store, uint8_t kind);
/* The sector of this kind with the greatest sequence below `before`, or NE_NONE. */
uint16_t ne_sector_before(const ne_store *store, uint8_t kind, uint32_t before);
bool ne_is_erased(const uint8_t *bytes, size_t n);
ne_status ne_erase_count(ne_store *store, uint16_t sector, uint32_t *count);
/* Takes a free sector. `word` is the boot of hot sectors, the next page of sealed ones. */
ne_status ne_take_sector(ne_store *store, uint8_t kind, uint32_t word, uint16_t *taken);
void ne_remember_clock(ne_store *store, uint32_t boot, int64_t shift);

uint32_t ne_pad(const ne_store *store, uint32_t bytes);
ne_status ne_read_at(ne_store *store, uint16_t sector, uint32_t at, void *to, uint32_t bytes);

/* The frame at `at`, its payload in store->frame; NE_END where there is none, NE_CORRUPT where one is torn. */
ne_status ne_frame_at(ne_store *store, uint16_t sector, uint32_t at, bool check, ne_frame *frame);

/* What a payload says at its front. */
uint64_t ne_take_value(ne_reader *in, uint8_t type, bool wanted, uint32_t payload_at, const uint8_t *payload);

/* The head of the page at `at`; NE_END where there is none. */
ne_status ne_page_head_at(ne_store *store, uint16_t sector, uint32_t at, ne_page_head *head);
/* Whether its checksum holds. */
ne_status ne_page_check(ne_store *store, uint16_t sector, uint32_t at, uint32_t bytes);
/* Whether all pages of its seal are there. */
bool ne_page_counts(ne_store *store, uint16_t sector, uint32_t at, const ne_page_head *head);

/* A row frame taken apart: its series and rows. Rows of a regular one are `step` apart, and the first alone has a time. */
typedef struct {
    uint8_t series, rows;
    bool is_regular;
    int64_t step;
} ne_rows;
bool ne_take_rows(ne_reader *in, const ne_frame *frame, ne_rows *rows);
/* The time of row number `row`, after `time`: that of the row before, or of the first row of the frame before. */
int64_t ne_take_time(ne_reader *in, ne_rows *rows, unsigned row, int64_t time);

/* A definition in store->frame taken apart; places are those in the payload. */
bool ne_take_definition(const ne_store *store, const ne_frame *frame, ne_definition *out);

/* The definition of series `index` of a hot sector, its frame in store->frame. Its place is known of those in store->match. */
ne_status ne_definition_of(ne_store *store, uint16_t sector, uint8_t index, ne_frame *frame, ne_definition *out);

uint32_t ne_hot_boot(ne_store *store, uint16_t sector);

/* The sector of this kind with the least sequence above `after`, or NE_NONE. */
uint16_t ne_sector_after(const ne_store *store, uint8_t kind, uint32_t after);

ne_status ne_seal_sector(ne_store *store, uint16_t sector);
/* Programs store->page as the next page. */
ne_status ne_append_page(ne_store *store, uint32_t bytes);
int64_t ne_shift_of(const ne_store *store, uint32_t boot);

#endif
