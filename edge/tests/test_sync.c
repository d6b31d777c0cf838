/* The uploader against a server in memory: whatever breaks off, is lost or is refused, the server gets each page once, in order.
 * HMAC-SHA256 against the vectors of RFC 4231. */
#include "nilometer_edge_sync.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nor.h"
#include "sync/ne_hmac.h"

#define CHECK(condition)                                                               \
    do {                                                                               \
        if (!(condition)) {                                                            \
            printf("%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition);       \
            exit(1);                                                                   \
        }                                                                              \
    } while (0)

/* ---- RFC 4231 ---- */

static void vector(const void *key, size_t key_bytes, const void *data, size_t bytes, const char *expected) {
    size_t split;
    for (split = 0; split <= bytes; split++) {
        ne_hmac hmac;
        uint8_t tag[NE_HASH_BYTES];
        char shown[2 * NE_HASH_BYTES + 1];
        unsigned at;
        ne_hmac_begin(&hmac, key, key_bytes);
        ne_hmac_add(&hmac, data, split);
        ne_hmac_add(&hmac, (const char *)data + split, bytes - split);
        ne_hmac_end(&hmac, tag);
        for (at = 0; at < NE_HASH_BYTES; at++) {
            sprintf(shown + 2 * at, "%02x", tag[at]);
        }
        CHECK(strncmp(shown, expected, strlen(expected)) == 0);
    }
}

static void vectors(void) {
    uint8_t key[131], data[50];
    unsigned at;
    static const char block[] = "Test Using Larger Than Block-Size Key - Hash Key First";
    static const char both[] = "This is a test using a larger than block-size key and a larger than block-size data. The key needs to be "
                               "hashed before being used by the HMAC algorithm.";
    memset(key, 0x0b, sizeof key);
    vector(key, 20, "Hi There", 8, "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
    vector("Jefe", 4, "what do ya want for nothing?", 28, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    memset(key, 0xaa, sizeof key);
    memset(data, 0xdd, sizeof data);
    vector(key, 20, data, 50, "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe");
    vector(key, 131, block, sizeof block - 1, "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
    vector(key, 131, both, sizeof both - 1, "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2");
    for (at = 0; at < 25; at++) {
        key[at] = (uint8_t)(at + 1);
    }
    memset(data, 0xcd, sizeof data);
    vector(key, 25, data, 50, "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b");
    memset(key, 0x0c, 20);
    vector(key, 20, "Test With Truncation", 20, "a3b6167473100ee06e0c796c2955552b");
}

/* ---- a server ---- */

#define PAGES_MAX 256

typedef struct {
    uint8_t body[1u << 16];
    uint32_t announced, have;
    char path[NE_SYNC_PATH_MAX], signature[65];
    bool is_begun, has_signature;
    uint64_t acknowledged, stored[PAGES_MAX];
    uint32_t checksum, pages, requests;
    long left;            /* bytes until the connection breaks; -1 = it holds */
    bool loses_answers;   /* it stores, and nobody hears of it */
    uint64_t refuses;     /* this page */
    uint32_t pages_max;   /* of one request; 0 = any */
    int busy;             /* requests that are answered with 503 */
} server;

static uint32_t get32(const uint8_t *at) { return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24; }

static int lose(server *it, uint32_t count) {
    if (it->left < 0 || it->left > (long)count) {
        it->left -= it->left < 0 ? 0 : (long)count;
        return 0;
    }
    it->left = -1;
    it->is_begun = false;
    return -1;
}

static int begin(void *context, const char *path, const char *signature, uint32_t body_bytes) {
    server *it = context;
    strcpy(it->path, path);
    it->has_signature = signature != NULL;
    if (signature != NULL) {
        strcpy(it->signature, signature);
    }
    it->announced = body_bytes;
    it->have = 0;
    it->is_begun = true;
    it->requests++;
    CHECK(body_bytes <= sizeof it->body);
    return lose(it, 100);
}

static int write_body(void *context, const void *bytes, uint32_t count) {
    server *it = context;
    CHECK(it->is_begun && it->have + count <= it->announced);
    if (lose(it, count) != 0) {
        return -1;
    }
    memcpy(it->body + it->have, bytes, count);
    it->have += count;
    return 0;
}

static int finish(void *context, int *status, char *answer, uint32_t room, uint32_t *answered) {
    server *it = context;
    uint32_t at = 0, pages = 0;
    char text[200];
    CHECK(it->is_begun && it->have == it->announced);
    it->is_begun = false;
    *status = 200;
    if (it->busy > 0) {
        it->busy--;
        *status = 503;
        *answered = 0;
        return 0;
    }
    if (it->have > 0) {
        const char *after = strstr(it->path, "&after=");
        CHECK(after != NULL && strtoull(after + 7, NULL, 10) <= it->acknowledged);
    }
    while (at < it->have) {
        const uint8_t *page = it->body + at;
        uint64_t sequence = get32(page + 16);
        uint32_t bytes = get32(page + 8);
        CHECK(it->have - at >= bytes && memcmp(page, "NMDP", 4) == 0);
        pages++;
        if (sequence == it->refuses || (it->pages_max != 0 && pages > it->pages_max)) {
            *status = 422;
            break;
        }
        if (sequence > it->acknowledged) {
            CHECK(it->pages < PAGES_MAX);
            it->stored[it->pages++] = sequence;
            it->acknowledged = sequence;
            it->checksum = get32(page + bytes - 4);
        }
        at += bytes;
    }
    sprintf(text, "{\"acknowledged\":%lu,\"checksum\":%lu,\"pages\":0}\n", (unsigned long)it->acknowledged, (unsigned long)it->checksum);
    if (it->loses_answers) {
        return -1;
    }
    *answered = (uint32_t)strlen(text) < room ? (uint32_t)strlen(text) : room;
    memcpy(answer, text, *answered);
    return 0;
}

/* ---- a device ---- */

static nor flash_of_device;
static uint64_t arena[4096];
static ne_sync sync_of_device;
static uint8_t key_of_device[32];

static ne_store *reopened(void) {
    ne_flash flash = nor_flash(&flash_of_device);
    ne_store *store;
    CHECK(ne_open(&store, &flash, NULL, arena, sizeof arena) == NE_OK);
    return store;
}

/* Stores rows and seals them; returns the last page. */
static uint64_t filled(ne_store *store, int rows, int64_t from) {
    static const ne_field fields[1] = {{"n", NE_INT}};
    ne_series series = {"m", NULL, 0, fields, 1, NULL, 0, 0};
    uint64_t after = 0;
    uint32_t address, bytes;
    int row;
    for (row = 0; row < rows; row++) {
        ne_value value;
        value.integer = (int64_t)row * row * row - 1000 * row;
        CHECK(ne_insert(store, &series, from + row, &value) == NE_OK);
        if (row % 100 == 99) {
            CHECK(ne_seal(store) == NE_OK);
            while (ne_maintain(store) == NE_OK) { }
        }
    }
    CHECK(ne_seal(store) == NE_OK);
    while (ne_maintain(store) == NE_OK) { }
    while (ne_next_page(store, &after, &address, &bytes) == NE_OK) { }
    return after;
}

static ne_store *new_device(void) {
    ne_store *store;
    nor_init(&flash_of_device, 2048, 32, 1);
    store = reopened();
    while (ne_maintain(store) == NE_OK) { }
    return store;
}

static void open_sync(server *it, ne_store *store, uint32_t request_bytes) {
    ne_transport transport = {NULL, begin, write_body, finish};
    ne_sync_options options;
    memset(&options, 0, sizeof options);
    transport.context = it;
    options.database = "a b&c";
    options.device = "d\xc3\xa9/1";
    options.store = 4294967295u;
    options.request_bytes = request_bytes;
    options.key = key_of_device;
    options.key_bytes = sizeof key_of_device;
    CHECK(ne_sync_open(&sync_of_device, store, &transport, &options) == NE_OK);
}

/* Steps until something else than NE_OK, at most so many. */
static ne_status run(int most) {
    ne_status status = NE_OK;
    while (status == NE_OK && most-- > 0) {
        status = ne_sync_step(&sync_of_device);
    }
    return status;
}

static void check_stored(const server *it, uint64_t last) {
    uint32_t at;
    CHECK(it->acknowledged == last);
    for (at = 1; at < it->pages; at++) {
        CHECK(it->stored[at] > it->stored[at - 1]);
    }
}

static server one;

static server *new_server(void) {
    memset(&one, 0, sizeof one);
    one.left = -1;
    return &one;
}

static void sends_all(void) {
    ne_store *store = new_device();
    server *it = new_server();
    uint64_t last = filled(store, 500, 0);
    CHECK(last >= 5);
    open_sync(it, store, 0);
    CHECK(run(100) == NE_END);
    check_stored(it, last);
    CHECK(it->pages == last && it->has_signature);
    CHECK(strstr(it->path, "/api/edge/v1/pages?db=a%20b%26c&device=d%C3%A9%2F1&store=4294967295&after=") == it->path);
    /* Nothing to send: no request. */
    it->requests = 0;
    CHECK(run(1) == NE_END && it->requests == 0);
    last = filled(store, 50, 10000);
    CHECK(run(10) == NE_END);
    check_stored(it, last);
}

/* The connection breaks after every byte of an upload, the device restarts and goes on. */
static void breaks_everywhere(void) {
    ne_store *store = new_device();
    uint64_t last = filled(store, 300, 0);
    long at;
    for (at = 0;; at++) {
        server *it = new_server();
        bool is_whole;
        it->left = at;
        open_sync(it, store, 700);
        is_whole = run(100) == NE_END && it->left > 0;
        it->left = -1;
        store = reopened();
        open_sync(it, store, 700);
        CHECK(run(100) == NE_END);
        check_stored(it, last);
        CHECK(it->pages == last);
        if (is_whole) {
            break;
        }
    }
    CHECK(at > 1000);
}

static void answers_get_lost(void) {
    ne_store *store = new_device();
    server *it = new_server();
    uint64_t last = filled(store, 300, 0);
    open_sync(it, store, 1);
    CHECK(run(1) == NE_OK);
    while (it->acknowledged < last) {
        it->loses_answers = true;
        CHECK(run(1) == NE_IO);
        CHECK(run(1) == NE_IO);
        it->loses_answers = false;
        it->busy = 1;
        CHECK(run(1) == NE_IO && sync_of_device.http_status == 503);
        CHECK(run(1) == NE_OK);
    }
    CHECK(run(1) == NE_END);
    check_stored(it, last);
    CHECK(it->pages == last);
}

static void limits_and_refusals(void) {
    ne_store *store = new_device();
    server *it = new_server();
    uint64_t last = filled(store, 300, 0);
    /* What is too much at once goes one by one. */
    it->pages_max = 1;
    open_sync(it, store, 0);
    CHECK(run(100) == NE_END);
    check_stored(it, last);
    /* A page that is never taken holds the others up until it is given up. */
    it = new_server();
    it->refuses = 2;
    open_sync(it, store, 0);
    CHECK(run(100) == NE_REFUSED && sync_of_device.refused == 2 && sync_of_device.http_status == 422);
    CHECK(it->acknowledged == 1 && run(100) == NE_REFUSED);
    ne_sync_skip(&sync_of_device);
    CHECK(run(100) == NE_END);
    check_stored(it, last);
    CHECK(it->pages == last - 1);
}

static void other_servers_and_other_flashes(void) {
    ne_store *store = new_device();
    server *it = new_server();
    uint64_t last = filled(store, 300, 0);
    open_sync(it, store, 0);
    CHECK(run(100) == NE_END);
    /* The server comes back from a backup. */
    it->acknowledged = 1;
    it->pages = 1;
    last = filled(store, 20, 5000);
    {
        const uint8_t *bytes = NULL;
        uint64_t after = 0;
        uint32_t address, count;
        CHECK(ne_next_page(store, &after, &address, &count) == NE_OK && after == 1);
        bytes = flash_of_device.bytes + address + count - 4;
        it->checksum = get32(bytes);
    }
    open_sync(it, store, 0);
    CHECK(run(100) == NE_END);
    check_stored(it, last);
    CHECK(it->pages == last);
    /* The flash is erased: its sequences begin again, first with fewer, then with other pages. */
    store = new_device();
    filled(store, 20, 90000);
    open_sync(it, store, 0);
    CHECK(run(100) == NE_OTHER_LIFE);
    while (filled(store, 100, 100000) <= last) { }
    open_sync(it, store, 0);
    CHECK(run(100) == NE_OTHER_LIFE);
    check_stored(it, last);
}

static void clocks(void) {
    ne_store *store = new_device();
    server *it = new_server();
    uint64_t first, last;
    CHECK(ne_begin_boot(store, 7) == NE_OK);
    first = filled(store, 100, 10);
    CHECK(ne_begin_boot(store, 8) == NE_OK);
    last = filled(store, 100, 10);
    CHECK(last > first);
    open_sync(it, store, 0);
    CHECK(run(100) == NE_NO_CLOCK && it->pages == 0);
    CHECK(ne_set_clock(store, 7, -1700) == NE_OK);
    CHECK(run(100) == NE_NO_CLOCK);
    check_stored(it, first);
    CHECK(strstr(it->path, "&clock=7%3A-1700") != NULL);
    CHECK(ne_set_clock(store, 8, INT64_MIN) == NE_OK);
    CHECK(run(100) == NE_END);
    check_stored(it, last);
    CHECK(strstr(it->path, "&clock=8%3A-9223372036854775808") != NULL);
    /* A boot whose clock nobody will ever know holds up what comes after it until its pages are given up. */
    CHECK(ne_begin_boot(store, 9) == NE_OK);
    filled(store, 100, 10);
    CHECK(ne_set_clock(store, 10, 0) == NE_OK);
    last = filled(store, 100, 500);
    while (run(100) == NE_NO_CLOCK) {
        CHECK(sync_of_device.refused > it->acknowledged);
        ne_sync_skip(&sync_of_device);
    }
    check_stored(it, last);
}

static void invalid_names(void) {
    ne_store *store = new_device();
    ne_transport transport = {NULL, begin, write_body, finish};
    ne_sync_options options;
    char long_name[300];
    memset(&options, 0, sizeof options);
    options.database = "edge";
    CHECK(ne_sync_open(&sync_of_device, store, &transport, &options) == NE_INVALID);
    options.device = "";
    CHECK(ne_sync_open(&sync_of_device, store, &transport, &options) == NE_INVALID);
    options.device = "a\nb";
    CHECK(ne_sync_open(&sync_of_device, store, &transport, &options) == NE_INVALID);
    memset(long_name, ' ', sizeof long_name);
    long_name[255] = 0;
    options.device = long_name;
    CHECK(ne_sync_open(&sync_of_device, store, &transport, &options) == NE_OK);
    transport.context = new_server();
    CHECK(ne_sync_step(&sync_of_device) == NE_TOO_LONG);
    long_name[255] = ' ';
    long_name[256] = 0;
    CHECK(ne_sync_open(&sync_of_device, store, &transport, &options) == NE_INVALID);
}

int main(void) {
    vectors();
    sends_all();
    breaks_everywhere();
    answers_get_lost();
    limits_and_refusals();
    other_servers_and_other_flashes();
    clocks();
    invalid_names();
    printf("the uploader: all well; %u bytes of memory\n", (unsigned)sizeof(ne_sync));
    return 0;
}
