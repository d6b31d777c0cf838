/* The uploader: asks how far the server has come, and sends the pages behind. */
#include "nilometer_edge_sync.h"

#include <string.h>

#include "../ne_store.h"
#include "ne_hmac.h"

#define ROUTE "/api/edge/v1/pages"
#define CHUNK 128u
#define REQUEST_BYTES 8192u

/* Digits of a 64-bit number with its sign. */
#define NUMBER_BYTES 21u

/* Pages that go together. */
typedef struct {
    uint64_t after, first, last;
    uint32_t bytes, pages, boot;
} run;

/* A path that is written; `full` once something did not fit. */
typedef struct {
    char *at, *end;
    bool full;
} text;

static void put_raw(text *out, const char *from) {
    size_t count = strlen(from);
    if (out->full || count >= (size_t)(out->end - out->at)) {
        out->full = true;
        return;
    }
    memcpy(out->at, from, count + 1);
    out->at += count;
}

/* A value of a query: everything but letters, digits and four more is escaped. */
static void put_escaped(text *out, const char *from) {
    static const char digits[] = "0123456789ABCDEF";
    for (; *from != 0; from++) {
        unsigned char byte = (unsigned char)*from;
        char one[4] = {0, 0, 0, 0};
        if ((byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') || (byte >= '0' && byte <= '9') ||
            strchr("-._~", byte) != NULL) {
            one[0] = (char)byte;
        } else {
            one[0] = '%';
            one[1] = digits[byte >> 4];
            one[2] = digits[byte & 15];
        }
        put_raw(out, one);
    }
}

static const char *shown(int64_t value, bool is_signed, char to[NUMBER_BYTES]) {
    uint64_t rest = is_signed && value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    char *at = to + NUMBER_BYTES - 1;
    *at = 0;
    do {
        *--at = (char)('0' + rest % 10);
        rest /= 10;
    } while (rest != 0);
    if (is_signed && value < 0) {
        *--at = '-';
    }
    return at;
}

static bool is_name(const char *name) {
    size_t count;
    for (count = 0; name != NULL && name[count] != 0; count++) {
        if ((unsigned char)name[count] < 0x20 || name[count] == 0x7f || count == 255) {
            return false;
        }
    }
    return count > 0;
}

/* What to add to the ticks of a boot; false if that is not known. */
static bool clock_of(const ne_store *store, uint32_t boot, int64_t *shift) {
    unsigned at;
    for (at = 0; at < store->clock_count; at++) {
        if (store->clocks[at].boot == boot) {
            *shift = store->clocks[at].shift;
            return true;
        }
    }
    return false;
}

/* The pages behind what the server has, as many as go together. */
static ne_status find_run(ne_sync *sync, run *found) {
    ne_store *store = sync->_store;
    const ne_flash *flash = &store->flash;
    uint32_t most = sync->_options.request_bytes != 0 ? sync->_options.request_bytes : REQUEST_BYTES;
    uint64_t at = sync->acknowledged > sync->_skipped ? sync->acknowledged : sync->_skipped;
    ne_status status;
    memset(found, 0, sizeof *found);
    found->after = at;
    for (;;) {
        uint32_t address, bytes, boot;
        uint8_t word[4];
        status = ne_next_page(store, &at, &address, &bytes);
        if (status != NE_OK) {
            break;
        }
        /* The boot of a page: docs/format/device-page.md. */
        if (flash->read(flash->context, address + 52, word, 4) != 0) {
            return NE_IO;
        }
        boot = ne_get32(word);
        if (found->pages > 0 && (boot != found->boot || sync->_is_single || bytes > most || found->bytes > most - bytes)) {
            return NE_OK;
        }
        found->first = found->pages == 0 ? at : found->first;
        found->boot = boot;
        found->last = at;
        found->bytes += bytes;
        found->pages++;
    }
    return status == NE_END && found->pages > 0 ? NE_OK : status;
}

/* Gives the pages of a run to a hash or to the transport. */
static ne_status each_page(ne_sync *sync, const run *pages, ne_hmac *hash) {
    ne_store *store = sync->_store;
    const ne_flash *flash = &store->flash;
    uint64_t at = pages->after;
    uint32_t count;
    for (count = 0; count < pages->pages; count++) {
        uint32_t address, bytes, done, some;
        ne_status status = ne_next_page(store, &at, &address, &bytes);
        if (status != NE_OK) {
            return status == NE_END ? NE_CHANGED : status;
        }
        for (done = 0; done < bytes; done += some) {
            uint8_t chunk[CHUNK];
            some = bytes - done < CHUNK ? bytes - done : CHUNK;
            if (flash->read(flash->context, address + done, chunk, some) != 0) {
                return NE_IO;
            }
            if (hash != NULL) {
                ne_hmac_add(hash, chunk, some);
            } else if (sync->_transport.write(sync->_transport.context, chunk, some) != 0) {
                return NE_IO;
            }
        }
    }
    return NE_OK;
}

/* The number behind a name in the answer; false if there is none. */
static bool number_in(const char *answer, const char *name, uint64_t *number) {
    const char *at = strstr(answer, name);
    if (at == NULL) {
        return false;
    }
    at += strlen(name);
    while (*at == ' ') {
        at++;
    }
    if (*at < '0' || *at > '9') {
        return false;
    }
    for (*number = 0; *at >= '0' && *at <= '9'; at++) {
        *number = *number * 10 + (uint64_t)(*at - '0');
    }
    return true;
}

/* Sends the pages of a run; none: asks how far the server has come. */
static ne_status request(ne_sync *sync, const run *pages) {
    static const char digits[] = "0123456789abcdef";
    const ne_transport *transport = &sync->_transport;
    const ne_sync_options *options = &sync->_options;
    char numbers[4][NUMBER_BYTES], clock[2 * NUMBER_BYTES], signature[2 * NE_HASH_BYTES + 1];
    const char *values[5];
    static const char *const names[5] = {"?db=", "&device=", "&store=", "&after=", "&clock="};
    text out = {sync->_path, sync->_path + sizeof sync->_path, false};
    uint32_t answered = 0;
    ne_status status;
    unsigned at;
    values[0] = options->database;
    values[1] = options->device;
    values[2] = shown((int64_t)options->store, false, numbers[0]);
    values[3] = pages->pages > 0 ? shown((int64_t)sync->acknowledged, false, numbers[1]) : "";
    clock[0] = 0;
    values[4] = clock;
    if (pages->boot != 0) {
        text told = {clock, clock + sizeof clock, false};
        int64_t shift = 0;
        if (!clock_of(sync->_store, pages->boot, &shift)) {
            return NE_NO_CLOCK;
        }
        put_raw(&told, shown((int64_t)pages->boot, false, numbers[2]));
        put_raw(&told, ":");
        put_raw(&told, shown(shift, true, numbers[3]));
    }
    put_raw(&out, ROUTE);
    for (at = 0; at < 5; at++) {
        put_raw(&out, names[at]);
        put_escaped(&out, values[at]);
    }
    if (out.full) {
        return NE_TOO_LONG;
    }
    if (options->key != NULL) {
        ne_hmac hash;
        uint8_t tag[NE_HASH_BYTES];
        static const char first[] = "nilometer-edge-1\n";
        ne_hmac_begin(&hash, options->key, options->key_bytes);
        ne_hmac_add(&hash, first, sizeof first - 1);
        for (at = 0; at < 5; at++) {
            ne_hmac_add(&hash, values[at], strlen(values[at]));
            ne_hmac_add(&hash, "\n", 1);
        }
        status = each_page(sync, pages, &hash);
        if (status != NE_OK) {
            return status;
        }
        ne_hmac_end(&hash, tag);
        for (at = 0; at < NE_HASH_BYTES; at++) {
            signature[2 * at] = digits[tag[at] >> 4];
            signature[2 * at + 1] = digits[tag[at] & 15];
        }
        signature[2 * NE_HASH_BYTES] = 0;
    }
    sync->http_status = 0;
    sync->answer[0] = 0;
    if (transport->begin(transport->context, sync->_path, options->key != NULL ? signature : NULL, pages->bytes) != 0) {
        return NE_IO;
    }
    status = each_page(sync, pages, NULL);
    if (status != NE_OK) {
        return status;
    }
    if (transport->finish(transport->context, &sync->http_status, sync->answer, NE_SYNC_ANSWER_MAX, &answered) != 0) {
        sync->http_status = 0;
        return NE_IO;
    }
    sync->answer[answered < NE_SYNC_ANSWER_MAX ? answered : NE_SYNC_ANSWER_MAX] = 0;
    return NE_OK;
}

/* Whether the server will say the same to the same request. */
static bool is_final(int http_status) { return http_status >= 400 && http_status < 500 && http_status != 408 && http_status != 429; }

/* The server's pages are those of this flash: the last one has the same checksum, if it is still here. */
static ne_status check_life(ne_sync *sync, uint64_t checksum) {
    ne_store *store = sync->_store;
    uint64_t at = sync->acknowledged - 1;
    uint32_t address, bytes;
    ne_status status;
    uint8_t word[4];
    if (sync->acknowledged == 0) {
        return NE_OK;
    }
    if (sync->acknowledged >= store->next_page) {
        return NE_OTHER_LIFE;
    }
    status = ne_next_page(store, &at, &address, &bytes);
    if (status != NE_OK || at != sync->acknowledged) {
        return status == NE_END ? NE_OK : status;
    }
    if (store->flash.read(store->flash.context, address + bytes - 4, word, 4) != 0) {
        return NE_IO;
    }
    return ne_get32(word) == checksum ? NE_OK : NE_OTHER_LIFE;
}

static ne_status ask(ne_sync *sync) {
    uint64_t acknowledged, checksum;
    run none;
    ne_status status;
    memset(&none, 0, sizeof none);
    status = request(sync, &none);
    if (status != NE_OK) {
        return status;
    }
    if (sync->http_status != 200 || !number_in(sync->answer, "\"acknowledged\":", &acknowledged) ||
        !number_in(sync->answer, "\"checksum\":", &checksum)) {
        return is_final(sync->http_status) ? NE_REFUSED : NE_IO;
    }
    sync->acknowledged = acknowledged;
    status = check_life(sync, checksum);
    sync->_is_known = status == NE_OK;
    return status;
}

ne_status ne_sync_open(ne_sync *sync, ne_store *store, const ne_transport *transport, const ne_sync_options *options) {
    if (store == NULL || transport == NULL || options == NULL || !is_name(options->database) || !is_name(options->device)) {
        return NE_INVALID;
    }
    memset(sync, 0, sizeof *sync);
    sync->_store = store;
    sync->_transport = *transport;
    sync->_options = *options;
    return NE_OK;
}

ne_status ne_sync_step(ne_sync *sync) {
    uint64_t acknowledged;
    run pages;
    ne_status status;
    sync->refused = 0;
    if (!sync->_is_known) {
        return ask(sync);
    }
    status = find_run(sync, &pages);
    if (status == NE_OK) {
        status = request(sync, &pages);
    }
    if (status != NE_OK) {
        sync->refused = status == NE_NO_CLOCK ? pages.first : 0;
        return status;
    }
    if (number_in(sync->answer, "\"acknowledged\":", &acknowledged) && acknowledged != sync->acknowledged) {
        /* What was before a page that is refused counts; and a server that was restored from a backup has come less far. */
        sync->acknowledged = acknowledged;
        sync->_is_single = sync->_is_single && acknowledged < pages.last;
        if (acknowledged < pages.after) {
            sync->_skipped = 0;
        }
        return NE_OK;
    }
    if (!is_final(sync->http_status)) {
        return NE_IO;
    }
    if (pages.pages > 1) {
        /* One at a time they are within a limit, or show which it is. */
        sync->_is_single = true;
        return NE_OK;
    }
    sync->refused = pages.first;
    return NE_REFUSED;
}

void ne_sync_skip(ne_sync *sync) {
    sync->_skipped = sync->refused;
    sync->_is_single = false;
}
