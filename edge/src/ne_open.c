/* Opening: what the sectors of a flash say, after whatever happened to it. Reads only.
 *
 * Each sector is looked at by its headers; of sealed sectors the newest is gone through by the heads of its pages, of hot ones all frames
 * that are not sealed. One checksum a sector: that of its last header, and that of its last page.
 */
#include "ne_store.h"

#include <string.h>

/* Row frames in the index of a seal: more are not in a sector of 16 KiB. */
#define INDEX_MAX 2000u

static size_t aligned(size_t bytes) {
    return (bytes + 7) & ~(size_t)7;
}

static bool settle(const ne_flash *flash, const ne_options *options, ne_options *out) {
    static const ne_options none = {0, 0, 0, 0};
    uint32_t unit = flash->unit_bytes, room;
    *out = options == NULL ? none : *options;
    if (unit == 0 || unit > 32 || (unit & (unit - 1)) != 0 || flash->sectors < SECTORS_MIN || flash->sectors >= NE_NONE ||
        flash->sector_bytes < 1024 || flash->sector_bytes > 65536 || flash->sector_bytes % 32 != 0 ||
        flash->sector_bytes > UINT32_MAX / flash->sectors) {
        return false;
    }
    room = flash->sector_bytes - 2 * (unit > HEADER_BYTES ? unit : HEADER_BYTES);
    out->tick_ns = out->tick_ns == 0 ? 1000000 : out->tick_ns;
    out->block_rows = out->block_rows == 0 ? 128 : out->block_rows;
    out->series_max = out->series_max == 0 ? 32 : out->series_max;
    if (out->page_bytes == 0) {
        out->page_bytes = (uint16_t)(room < 2048 ? room : 2048);
    }
    out->page_bytes = (uint16_t)(out->page_bytes & ~31u);
    return out->block_rows >= 32 && out->block_rows <= 1024 && out->series_max <= 255 && out->page_bytes <= room &&
           out->page_bytes >= 960;
}

static size_t arena_bytes(const ne_flash *flash, const ne_options *it) {
    return aligned(sizeof(ne_store)) + 2 * aligned(8 * (size_t)it->block_rows) + aligned(4 * (size_t)flash->sectors) +
           aligned(flash->sectors) + aligned(it->page_bytes) + aligned(2 * (size_t)it->block_rows) +
           aligned(sizeof(ne_matched) * it->series_max) +
           aligned(sizeof(ne_defined) * it->series_max) + aligned(7 * (size_t)it->block_rows);
}

size_t ne_arena_bytes(const ne_flash *flash, const ne_options *options) {
    ne_options all;
    return settle(flash, options, &all) ? arena_bytes(flash, &all) : 0;
}

static void *carve(uint8_t **at, size_t bytes) {
    void *part = *at;
    *at += aligned(bytes);
    return part;
}

/* What the headers of a sector say. A use header is written behind an erase header that holds, so that one checksum tells of both. */
static ne_status look(ne_store *store, uint16_t sector) {
    uint8_t header[32];
    uint32_t count, use = ne_pad(store, HEADER_BYTES);
    ne_status status = ne_read_at(store, sector, use, header, use);
    if (status != NE_OK) {
        return status;
    }
    if (header[0] == 0xff) {
        status = ne_is_erased(header, use) ? ne_erase_count(store, sector, &count) : NE_CORRUPT;
        store->kinds[sector] = status == NE_OK ? NE_SECTOR_FREE : NE_SECTOR_DIRTY;
        return status == NE_CORRUPT ? NE_OK : status;
    }
    if ((header[0] == NE_SECTOR_HOT || header[0] == NE_SECTOR_SEALED) && ne_get32(header + 12) == ne_crc32c(1, header, 12)) {
        store->kinds[sector] = header[0];
        store->sequences[sector] = ne_get32(header + 4);
        if (store->sequences[sector] >= store->next_sequence) {
            store->next_sequence = store->sequences[sector] + 1;
            store->last_taken = sector;
        }
    }
    return NE_OK;
}

/* Whether nothing is programmed from `at` to the end of the sector: NE_OK if so, NE_CORRUPT if not. */
static ne_status rest_is_erased(ne_store *store, uint16_t sector, uint32_t at) {
    uint32_t part[8], step;
    ne_status status = NE_OK;
    for (; at < store->flash.sector_bytes && status == NE_OK; at += step) {
        step = store->flash.sector_bytes - at < sizeof part ? store->flash.sector_bytes - at : (uint32_t)sizeof part;
        memset(part, 0xff, sizeof part);
        status = ne_read_at(store, sector, at, part, step);
        if (status == NE_OK && (part[0] & part[1] & part[2] & part[3] & part[4] & part[5] & part[6] & part[7]) != 0xffffffff) {
            status = NE_CORRUPT;
        }
    }
    return status;
}

/* What a page that is whole says of those to come, and of what is sealed. */
static bool take_page(ne_store *store, const ne_page_head *head) {
    if (head->sequence >= store->next_page) {
        store->next_page = head->sequence + 1;
    }
    if (head->flags & NE_PAGE_LAST) {
        store->sealed_through = head->source > store->sealed_through ? head->source : store->sealed_through;
    }
    /* The log that was sealed may be erased, its page in a sector that is older than it: no later log may have its number, or it would be
     * taken for sealed. */
    if (head->source >= store->next_sequence) {
        store->next_sequence = head->source + 1;
    }
    return (head->flags & NE_PAGE_LAST) != 0;
}

/* Finds the end of the pages, the number of the next one, and the last hot sector that was sealed. A page is begun once the one before it
 * is programmed: of those in a sector the last one alone may be torn. */
static ne_status find_sealed(ne_store *store) {
    uint16_t sector = ne_sector_before(store, NE_SECTOR_SEALED, UINT32_MAX);
    bool is_newest = true, is_known = false;
    for (; sector != NE_NONE && !is_known; sector = ne_sector_before(store, NE_SECTOR_SEALED, store->sequences[sector])) {
        uint32_t at = store->content, last = 0;
        uint8_t word[4];
        ne_page_head head, before;
        ne_status status;
        memset(&before, 0, sizeof before);
        while ((status = ne_page_head_at(store, sector, at, &head)) == NE_OK) {
            is_known = (last > 0 && take_page(store, &before)) || is_known;
            before = head;
            last = at;
            at += ne_pad(store, head.bytes);
        }
        if (last > 0 && status != NE_IO) {
            ne_status check = ne_page_check(store, sector, last, before.bytes);
            status = check == NE_OK ? status : check;
            if (check == NE_OK) {
                is_known = take_page(store, &before) || is_known;
            }
        }
        if (is_newest && status != NE_IO) {
            ne_status read = ne_read_at(store, sector, ne_pad(store, HEADER_BYTES) + 8, word, 4);
            /* A torn page had a number too. */
            if (ne_get32(word) > store->next_page) {
                store->next_page = ne_get32(word);
            }
            store->next_page++;
            status = read == NE_OK ? status : read;
            if (status == NE_END && rest_is_erased(store, sector, at) == NE_OK && store->flash.sector_bytes - at >= NE_PAGE_HEAD + 4) {
                store->sealed = sector;
                store->sealed_end = at;
            }
        }
        if (status == NE_IO) {
            return status;
        }
        is_newest = false;
    }
    return NE_OK;
}

/* Goes through the frames of a hot sector: clocks of all, and of the newest what appending needs. */
static ne_status find_hot(ne_store *store, uint16_t sector, bool is_newest) {
    uint32_t at = store->content;
    ne_frame frame;
    ne_status status;
    while ((status = ne_frame_at(store, sector, at, true, &frame)) == NE_OK) {
        ne_reader in = {store->frame + NE_FRAME_HEAD, store->frame + NE_FRAME_HEAD + frame.length, false};
        if (frame.kind == NE_FRAME_CLOCK) {
            uint32_t boot = (uint32_t)ne_take_varint(&in);
            ne_remember_clock(store, boot, ne_take_zigzag(&in));
        } else if (frame.kind == NE_FRAME_SERIES && is_newest && store->series_count < store->series_max) {
            store->series[store->series_count].hash = ne_crc32c(0, in.at, frame.length);
            store->series[store->series_count].length = (uint16_t)frame.length;
            store->series[store->series_count++].at = (uint16_t)at;
        } else if (frame.kind <= NE_FRAME_ROWS && is_newest) {
            ne_rows rows;
            ne_take_rows(&in, &frame, &rows);
            store->hot_time = ne_take_time(&in, &rows, 0, store->hot_time);
        }
        at = frame.next;
    }
    if (status == NE_IO) {
        return status;
    }
    store->hot_end = at;
    /* Behind a torn frame, and where something is programmed that is no frame, nothing is appended. */
    if (is_newest && status == NE_END && at < store->flash.sector_bytes) {
        status = rest_is_erased(store, sector, at);
        status = status == NE_OK ? NE_END : status;
    }
    return status;
}

/* The boot that the times of a hot sector belong to. */
uint32_t ne_hot_boot(ne_store *store, uint16_t sector) {
    uint8_t word[4];
    return ne_read_at(store, sector, ne_pad(store, HEADER_BYTES) + 8, word, 4) == NE_OK ? ne_get32(word) : UINT32_MAX;
}

ne_status ne_open(ne_store **opened, const ne_flash *flash, const ne_options *options, void *arena, size_t bytes) {
    ne_options all;
    ne_store *store = arena;
    uint8_t *at = arena;
    uint32_t sector;
    size_t frames;
    uint16_t hot;
    ne_status status = NE_OK;
    if (opened == NULL || flash == NULL || !settle(flash, options, &all)) {
        return NE_INVALID;
    }
    if (arena == NULL || bytes < arena_bytes(flash, &all)) {
        return NE_TOO_SMALL;
    }
    memset(arena, 0, arena_bytes(flash, &all));
    store = carve(&at, sizeof *store);
    store->flash = *flash;
    store->tick_ns = all.tick_ns;
    store->page_max = all.page_bytes;
    store->block_rows = all.block_rows;
    store->series_max = all.series_max;
    store->times = carve(&at, 8 * (size_t)all.block_rows);
    store->values = carve(&at, 8 * (size_t)all.block_rows);
    store->sequences = carve(&at, 4 * (size_t)flash->sectors);
    store->series = carve(&at, sizeof(ne_defined) * all.series_max);
    store->order = carve(&at, 2 * (size_t)all.block_rows);
    store->page = carve(&at, all.page_bytes);
    store->kinds = carve(&at, flash->sectors);
    store->match = carve(&at, sizeof(ne_matched) * all.series_max);
    /* What is left of the arena too. */
    frames = all.block_rows + (bytes - arena_bytes(flash, &all)) / 7;
    store->index_max = (uint16_t)(frames < INDEX_MAX ? frames : INDEX_MAX);
    store->index_time = (int32_t *)(void *)at;
    store->index_at = (uint16_t *)(void *)(store->index_time + store->index_max);
    store->index_series = (uint8_t *)(store->index_at + store->index_max);
    store->frame = (uint8_t *)store->frame_words;
    store->content = 2 * ne_pad(store, HEADER_BYTES);
    store->next_sequence = 1;
    store->next_page = 1;
    store->reserve = RESERVE;
    store->hot = NE_NONE;
    store->sealed = NE_NONE;
    store->retain_before = INT64_MIN;
    for (sector = 0; sector < flash->sectors && status == NE_OK; sector++) {
        status = look(store, (uint16_t)sector);
    }
    if (status == NE_OK) {
        status = find_sealed(store);
    }
    if (status != NE_OK) {
        return status;
    }
    for (sector = 0; sector < flash->sectors; sector++) {
        if (store->kinds[sector] == NE_SECTOR_HOT && store->sequences[sector] <= store->sealed_through) {
            store->kinds[sector] = NE_SECTOR_DIRTY;
        }
    }
    for (hot = ne_sector_after(store, NE_SECTOR_HOT, 0); hot != NE_NONE;
         hot = ne_sector_after(store, NE_SECTOR_HOT, store->sequences[hot])) {
        bool is_newest = ne_sector_after(store, NE_SECTOR_HOT, store->sequences[hot]) == NE_NONE;
        status = find_hot(store, hot, is_newest);
        if (status == NE_IO) {
            return status;
        }
        if (is_newest && status == NE_END && ne_hot_boot(store, hot) == store->boot) {
            store->hot = hot;
        }
    }
    *opened = store;
    return NE_OK;
}

ne_status ne_usage_of(ne_store *store, ne_usage *out) {
    uint32_t sector, count, counts[NE_SECTOR_BAD + 1] = {0};
    memset(out, 0, sizeof *out);
    out->sectors = store->flash.sectors;
    out->damaged = store->damaged;
    out->erases_min = UINT32_MAX;
    out->oldest = INT64_MIN;
    for (sector = 0; sector < store->flash.sectors; sector++) {
        ne_status status = ne_erase_count(store, (uint16_t)sector, &count);
        if (status == NE_IO) {
            return status;
        }
        if (status == NE_OK) {
            out->erases_min = count < out->erases_min ? count : out->erases_min;
            out->erases_max = count > out->erases_max ? count : out->erases_max;
        }
        counts[store->kinds[sector]]++;
        if (store->kinds[sector] == NE_SECTOR_SEALED) {
            ne_page_head head;
            uint32_t at = store->content;
            while (ne_page_head_at(store, (uint16_t)sector, at, &head) == NE_OK) {
                out->sealed_bytes += head.bytes;
                out->oldest = out->oldest == INT64_MIN || head.min < out->oldest ? head.min : out->oldest;
                at += ne_pad(store, head.bytes);
            }
        }
    }
    out->free = counts[NE_SECTOR_FREE];
    out->hot = counts[NE_SECTOR_HOT];
    out->sealed = counts[NE_SECTOR_SEALED];
    out->dirty = counts[NE_SECTOR_DIRTY] + counts[NE_SECTOR_BAD];
    return NE_OK;
}

ne_status ne_next_page(ne_store *store, uint64_t *after, uint32_t *address, uint32_t *bytes) {
    uint16_t sector = ne_sector_after(store, NE_SECTOR_SEALED, 0);
    for (; sector != NE_NONE; sector = ne_sector_after(store, NE_SECTOR_SEALED, store->sequences[sector])) {
        uint32_t at = store->content;
        ne_page_head head;
        while (ne_page_head_at(store, sector, at, &head) == NE_OK) {
            if (head.sequence > *after && ne_page_counts(store, sector, at, &head) &&
                ne_page_check(store, sector, at, head.bytes) == NE_OK) {
                *after = head.sequence;
                *address = (uint32_t)sector * store->flash.sector_bytes + at;
                *bytes = head.bytes;
                return NE_OK;
            }
            at += ne_pad(store, head.bytes);
        }
    }
    return NE_END;
}
