/* Uploader of Nilometer edge: sealed pages to a server, over whatever transport the firmware has.
 *
 * C99, no allocation; all memory is one ne_sync that the caller gives (about 1.3 KB). It needs no place in the flash: how far the
 * server has come it asks the server. A request that broke off is sent again, and the server stores nothing twice.
 * What is sent: docs/format/device-sync.md. How to use it: docs/guide/edge.md. Under the same lock as the store.
 */
#ifndef NILOMETER_EDGE_SYNC_H
#define NILOMETER_EDGE_SYNC_H

#include "nilometer_edge.h"

#ifdef __cplusplus
extern "C" {
#endif

#define NE_SYNC_PATH_MAX 512
#define NE_SYNC_ANSWER_MAX 512

/* How a request reaches the server, step by step. All callbacks answer 0 if they did what they should; after another answer the
 * request is given up, and `begin` is the next that is called. */
typedef struct {
    void *context;
    /* Begins POST `path` with a body of `body_bytes`. Unless it is NULL, `signature` goes into the header X-Nilometer-Signature. */
    int (*begin)(void *context, const char *path, const char *signature, uint32_t body_bytes);
    /* The next bytes of the body. */
    int (*write)(void *context, const void *bytes, uint32_t count);
    /* The status of the answer, and the first bytes of its body: at most `room`, as many as `*answered` says. */
    int (*finish)(void *context, int *status, char *answer, uint32_t room, uint32_t *answered);
} ne_transport;

/* Names are UTF-8 without control characters, 255 bytes at most. */
typedef struct {
    const char *database;
    const char *device;
    uint32_t store;         /* the number of the flash's life: raise it when the flash was erased */
    const uint8_t *key;     /* the key of this device, as `nilometer edge key` prints it, in bytes; NULL = requests are not signed */
    size_t key_bytes;       /* 32 */
    uint32_t request_bytes; /* pages that are sent together have so many bytes at most, one page always; 0 = 8192 */
} ne_sync_options;

/* Its members are the library's, but for those that are named here. */
typedef struct {
    ne_store *_store;
    ne_transport _transport;
    ne_sync_options _options;
    uint64_t acknowledged; /* the sequence of the last page that the server has; 0 = none */
    uint64_t refused;      /* the page that the server does not take, or that has no clock; 0 = it is not about a page */
    int http_status;       /* of the last answer; 0 = there was none */
    uint64_t _skipped;
    bool _is_known, _is_single;
    char _path[NE_SYNC_PATH_MAX];
    char answer[NE_SYNC_ANSWER_MAX + 1]; /* the beginning of the last answer, as text */
} ne_sync;

/* Takes what it needs; sends nothing. NE_TOO_LONG: the names do not fit a request. */
ne_status ne_sync_open(ne_sync *sync, ne_store *store, const ne_transport *transport, const ne_sync_options *options);

/* One request. NE_OK: call it again. NE_END: the server has all sealed pages (ne_seal() and ne_maintain() make pages of the others).
 * NE_IO: no answer, or the server is busy; try again later. NE_NO_CLOCK: the next page has ticks of a boot whose clock is not known;
 * call ne_set_clock(). NE_REFUSED: see `refused`, `http_status` and `answer`. NE_OTHER_LIFE: the server knows another flash under
 * this number; raise `store` and open again. */
ne_status ne_sync_step(ne_sync *sync);

/* Gives up the page `refused`: the next ones are sent without it. */
void ne_sync_skip(ne_sync *sync);

#ifdef __cplusplus
}
#endif

#endif
