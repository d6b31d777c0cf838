/* Sectors, pages and upkeep.
 *
 * A sector is dirty, free, hot or sealed. Erasing writes an erase header; taking a free sector writes a use header behind it with
 * the kind and a sequence. A hot sector is a log of frames; a full one waits to be sealed into device pages (ne_seal.c), which
 * are appended to sealed sectors, and is dirty once the last page of its seal is there. Nothing is appended behind a torn frame
 * or page. So every unit is programmed once, and what a cut leaves behind is found by its checksum.
 */
#include "ne_store.h"

#include <string.h>

uint32_t ne_pad(const ne_store *store, uint32_t bytes) {
    return (bytes + store->flash.unit_bytes - 1) & ~(store->flash.unit_bytes - 1);
}

ne_status ne_read_at(ne_store *store, uint16_t sector, uint32_t at, void *to, uint32_t bytes) {
    const ne_flash *flash = &store->flash;
    if (at > flash->sector_bytes || bytes > flash->sector_bytes - at) {
        return NE_CORRUPT;
    }
    return flash->read(flash->context, (uint32_t)sector * flash->sector_bytes + at, to, bytes) == 0 ? NE_OK : NE_IO;
}

/* Programs whole units; what is behind `bytes` in the last one is 0xff. */
ne_status ne_program(ne_store *store, uint16_t sector, uint32_t at, const uint8_t *from, uint32_t bytes) {
    const ne_flash *flash = &store->flash;
    uint32_t address = (uint32_t)sector * flash->sector_bytes + at;
    uint32_t whole = bytes & ~(flash->unit_bytes - 1);
    uint8_t unit[32];
    if (whole > 0 && flash->program(flash->context, address, from, whole) != 0) {
        return NE_IO;
    }
    if (whole < bytes) {
        memset(unit, 0xff, sizeof unit);
        memcpy(unit, from + whole, bytes - whole);
        if (flash->program(flash->context, address + whole, unit, flash->unit_bytes) != 0) {
            return NE_IO;
        }
    }
    return NE_OK;
}

/* ---- sectors ---- */

uint32_t ne_count_of(const ne_store *store, uint8_t kind) {
    uint32_t sector, count = 0;
    for (sector = 0; sector < store->flash.sectors; sector++) {
        count += store->kinds[sector] == kind;
    }
    return count;
}

/* The sector of this kind whose sequence is nearest to `from`, on one side of it. */
static uint16_t nearest(const ne_store *store, uint8_t kind, uint32_t from, bool is_after) {
    uint32_t sector, least = UINT32_MAX;
    uint16_t found = NE_NONE;
    for (sector = 0; sector < store->flash.sectors; sector++) {
        uint32_t sequence = store->sequences[sector], distance = is_after ? sequence - from : from - sequence;
        if (store->kinds[sector] == kind && sequence != from && (sequence > from) == is_after && distance < least) {
            least = distance;
            found = (uint16_t)sector;
        }
    }
    return found;
}

uint16_t ne_sector_after(const ne_store *store, uint8_t kind, uint32_t after) {
    return nearest(store, kind, after, true);
}

uint16_t ne_sector_before(const ne_store *store, uint8_t kind, uint32_t before) {
    return nearest(store, kind, before, false);
}

bool ne_is_erased(const uint8_t *bytes, size_t n) {
    while (n > 0) {
        if (bytes[--n] != 0xff) {
            return false;
        }
    }
    return true;
}

ne_status ne_erase_count(ne_store *store, uint16_t sector, uint32_t *count) {
    uint8_t header[HEADER_BYTES];
    ne_status status = ne_read_at(store, sector, 0, header, HEADER_BYTES);
    *count = 0;
    if (status != NE_OK) {
        return status;
    }
    if (ne_get32(header) != ERASE_MAGIC || header[4] != 1 || ne_get32(header + 12) != ne_crc32c(0, header, 12)) {
        return NE_CORRUPT;
    }
    *count = ne_get32(header + 8);
    return NE_OK;
}

static NE_APART ne_status erase(ne_store *store, uint16_t sector) {
    uint8_t header[HEADER_BYTES] = {0};
    uint32_t count;
    ne_status status = ne_erase_count(store, sector, &count);
    if (status == NE_IO) {
        return status;
    }
    /* A sector that cannot be erased must not keep the others from it: it is left alone until the store is opened again. */
    store->kinds[sector] = NE_SECTOR_BAD;
    if (store->flash.erase(store->flash.context, (uint32_t)sector * store->flash.sector_bytes) != 0) {
        return NE_IO;
    }
    ne_put32(header, ERASE_MAGIC);
    header[4] = 1;
    ne_put32(header + 8, count + 1);
    ne_put32(header + 12, ne_crc32c(0, header, 12));
    status = ne_program(store, sector, 0, header, HEADER_BYTES);
    if (status == NE_OK) {
        store->kinds[sector] = NE_SECTOR_FREE;
    }
    return status;
}

/* Free sectors whose wear is compared: a large flash has hundreds, and whoever inserts waits for it. The ring makes the rest even. */
#define COMPARED 16u

/* Takes a free sector: of those next in the ring the least worn one to be hot, for that comes back soon, and the most worn one to rest as
 * sealed. `word` is the boot of hot sectors, the next page of sealed ones. */
ne_status ne_take_sector(ne_store *store, uint8_t kind, uint32_t word, uint16_t *taken) {
    uint8_t header[HEADER_BYTES] = {0};
    uint32_t turn, best = 0, compared = 0;
    ne_status status;
    uint16_t sector = NE_NONE;
    for (turn = 1; turn <= store->flash.sectors && compared < COMPARED; turn++) {
        uint32_t at = (store->last_taken + turn) % store->flash.sectors, count;
        if (store->kinds[at] != NE_SECTOR_FREE || ne_erase_count(store, (uint16_t)at, &count) != NE_OK) {
            continue;
        }
        compared++;
        if (sector == NE_NONE || (kind == NE_SECTOR_HOT ? count < best : count > best)) {
            sector = (uint16_t)at;
            best = count;
        }
    }
    if (sector == NE_NONE) {
        return NE_FULL;
    }
    header[0] = kind;
    ne_put32(header + 4, store->next_sequence);
    ne_put32(header + 8, word);
    ne_put32(header + 12, ne_crc32c(1, header, 12));
    store->kinds[sector] = NE_SECTOR_DIRTY;
    status = ne_program(store, sector, ne_pad(store, HEADER_BYTES), header, HEADER_BYTES);
    if (status == NE_OK) {
        store->kinds[sector] = kind;
        store->sequences[sector] = store->next_sequence++;
        store->last_taken = sector;
        *taken = sector;
    }
    return status;
}

/* ---- pages ---- */

ne_status ne_page_head_at(ne_store *store, uint16_t sector, uint32_t at, ne_page_head *head) {
    uint8_t bytes[NE_PAGE_HEAD];
    uint32_t room = store->flash.sector_bytes - at;
    ne_status status;
    if (at > store->flash.sector_bytes || room < NE_PAGE_HEAD + 4) {
        return NE_END;
    }
    status = ne_read_at(store, sector, at, bytes, NE_PAGE_HEAD);
    if (status != NE_OK) {
        return status;
    }
    if (bytes[0] == 0xff) {
        return NE_END;
    }
    if (memcmp(bytes, "NMDP", 4) != 0 || bytes[4] != 1) {
        return NE_CORRUPT;
    }
    head->flags = bytes[5];
    head->part = ne_get16(bytes + 6);
    head->bytes = ne_get32(bytes + 8);
    head->blocks = ne_get16(bytes + 12);
    head->sequence = ne_get32(bytes + 16);
    head->first = head->sequence - head->part;
    head->base = (int64_t)ne_get64(bytes + 24);
    head->min = (int64_t)ne_get64(bytes + 32);
    head->max = (int64_t)ne_get64(bytes + 40);
    head->tick_ns = ne_get32(bytes + 48);
    head->boot = ne_get32(bytes + 52);
    head->source = ne_get32(bytes + 56);
    return head->bytes >= NE_PAGE_HEAD + 4 && head->bytes <= room ? NE_OK : NE_CORRUPT;
}

ne_status ne_page_check(ne_store *store, uint16_t sector, uint32_t at, uint32_t bytes) {
    uint8_t part[64];
    uint32_t done, crc = 0, body = bytes - 4;
    ne_status status = NE_OK;
    for (done = 0; done < body && status == NE_OK; done += sizeof part) {
        uint32_t step = body - done < sizeof part ? body - done : (uint32_t)sizeof part;
        status = ne_read_at(store, sector, at + done, part, step);
        crc = ne_crc32c(crc, part, step);
    }
    if (status == NE_OK) {
        status = ne_read_at(store, sector, at + body, part, 4);
    }
    return status != NE_OK ? status : ne_get32(part) == crc ? NE_OK : NE_CORRUPT;
}

bool ne_page_counts(ne_store *store, uint16_t sector, uint32_t at, const ne_page_head *head) {
    ne_page_head next = *head;
    while (!(next.flags & NE_PAGE_LAST)) {
        uint32_t sequence = next.sequence;
        ne_status status;
        at += ne_pad(store, next.bytes);
        status = ne_page_head_at(store, sector, at, &next);
        while (status != NE_OK) {
            /* The next page is at the start of the next sealed sector that has one. */
            sector = ne_sector_after(store, NE_SECTOR_SEALED, store->sequences[sector]);
            if (sector == NE_NONE) {
                return false;
            }
            at = store->content;
            status = ne_page_head_at(store, sector, at, &next);
        }
        if (next.first != head->first || next.sequence != sequence + 1) {
            return false;
        }
    }
    return (head->flags & NE_PAGE_LAST) || ne_page_check(store, sector, at, next.bytes) == NE_OK;
}

ne_status ne_append_page(ne_store *store, uint32_t bytes) {
    uint32_t padded = ne_pad(store, bytes);
    ne_status status = NE_OK;
    if (store->sealed == NE_NONE || padded > store->flash.sector_bytes - store->sealed_end) {
        uint16_t sector = NE_NONE;
        status = ne_take_sector(store, NE_SECTOR_SEALED, store->next_page, &sector);
        if (status != NE_OK) {
            return status;
        }
        store->sealed = sector;
        store->sealed_end = store->content;
    }
    status = ne_program(store, store->sealed, store->sealed_end, store->page, bytes);
    store->next_page++;
    if (status != NE_OK && ne_page_check(store, store->sealed, store->sealed_end, bytes) == NE_OK) {
        /* It is there all the same, and would count besides the rows that it was made of. */
        status = NE_OK;
    }
    if (status == NE_OK) {
        store->sealed_end += padded;
    } else {
        store->sealed = NE_NONE;
    }
    return status;
}

/* ---- upkeep ---- */

/* The oldest sealed sector that is not the newest one, whose pages number those to come. */
static uint16_t oldest_sealed(const ne_store *store) {
    uint16_t oldest = ne_sector_after(store, NE_SECTOR_SEALED, 0);
    uint16_t newest = ne_sector_before(store, NE_SECTOR_SEALED, UINT32_MAX);
    return oldest == newest ? NE_NONE : oldest;
}

static uint16_t hot_to_seal(const ne_store *store) {
    uint16_t sector = ne_sector_after(store, NE_SECTOR_HOT, 0);
    return sector == store->hot ? NE_NONE : sector;
}

/* Whether all pages of a sector are older than what is retained. */
static bool is_expired(ne_store *store, uint16_t sector) {
    ne_page_head head;
    uint32_t at = store->content;
    while (ne_page_head_at(store, sector, at, &head) == NE_OK) {
        int64_t shift = ne_shift_of(store, head.boot);
        if ((head.boot != 0 && shift == 0) || (int64_t)((uint64_t)head.max + (uint64_t)shift) >= store->retain_before) {
            return false;
        }
        at += ne_pad(store, head.bytes);
    }
    return at > store->content;
}

static uint16_t any_of(const ne_store *store, uint8_t kind) {
    uint32_t sector;
    for (sector = 0; sector < store->flash.sectors; sector++) {
        if (store->kinds[sector] == kind) {
            return (uint16_t)sector;
        }
    }
    return NE_NONE;
}

/* What upkeep is about next: a hot sector to seal, a dirty or sealed one to erase, or NE_NONE. */
static NE_APART uint16_t next_sector(ne_store *store) {
    uint32_t free_sectors = ne_count_of(store, NE_SECTOR_FREE);
    uint16_t sector = free_sectors >= store->reserve ? hot_to_seal(store) : NE_NONE;
    /* What is dirty goes before anything sealed: a hot sector must not outlive the pages that say it was sealed. */
    if (sector == NE_NONE) {
        sector = any_of(store, NE_SECTOR_DIRTY);
    }
    if (sector == NE_NONE) {
        sector = oldest_sealed(store);
        if (sector != NE_NONE && free_sectors > store->reserve && !is_expired(store, sector)) {
            sector = NE_NONE;
        }
    }
    return sector;
}

ne_status ne_maintain(ne_store *store) {
    uint16_t sector = next_sector(store);
    ne_status status;
    if (sector == NE_NONE) {
        return NE_END;
    }
    store->generation += store->kinds[sector] != NE_SECTOR_DIRTY;
    if (store->kinds[sector] != NE_SECTOR_HOT) {
        return erase(store, sector);
    }
    status = ne_seal_sector(store, sector);
    if (status == NE_OK) {
        store->sealed_through = store->sequences[sector];
        store->kinds[sector] = NE_SECTOR_DIRTY;
    } else if (status == NE_FULL) {
        /* Rows of many series may take less than their pages: with as little room again it would fail for ever, and the history would go to
         * make that room. */
        store->reserve++;
        status = NE_OK;
    }
    return status;
}
