/* A firmware on a computer: keeps rows in a flash that is a file, and sends its pages over a socket.
 * upload FILE PORT DEVICE STORE KEY FIRST ROWS CUT
 * KEY: 64 hexadecimal digits, or - for none. Rows FIRST to FIRST + ROWS - 1 are stored, and each is printed once it is durable:
 * time in milliseconds, temperature as the bits of the float, count. CUT: bytes of requests after which the power goes, -1 = never. Ends with 0 if the server has everything, 3 after a cut, 4 if it refuses, 5 if it knows another flash. */
#include "nilometer_edge.h"
#include "nilometer_edge_sync.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#define SECTOR 2048u
#define SECTORS 64u

static int file;
static long left; /* bytes until the power goes; -1 = it stays */

static int flash_read(void *context, uint32_t at, void *to, uint32_t count) {
    (void)context;
    return pread(file, to, count, at) == (ssize_t)count ? 0 : -1;
}

static int flash_program(void *context, uint32_t at, const void *from, uint32_t count) {
    (void)context;
    return pwrite(file, from, count, at) == (ssize_t)count ? 0 : -1;
}

static int flash_erase(void *context, uint32_t at) {
    uint8_t ones[SECTOR];
    (void)context;
    memset(ones, 0xff, sizeof ones);
    return pwrite(file, ones, sizeof ones, at) == (ssize_t)sizeof ones ? 0 : -1;
}

typedef struct {
    int socket;
    uint16_t port;
} network;

static int send_all(network *net, const void *bytes, size_t count) {
    const char *at = bytes;
    while (count > 0) {
        size_t some = left >= 0 && (size_t)left < count ? (size_t)left : count;
        ssize_t sent = some > 0 ? send(net->socket, at, some, MSG_NOSIGNAL) : 0;
        if (sent < 0) {
            return -1;
        }
        at += sent;
        count -= (size_t)sent;
        if (left >= 0) {
            left -= sent;
            if (left == 0) {
                /* Nothing is closed in order, and nobody reads the answer. */
                fflush(stdout);
                _exit(3);
            }
        }
    }
    return 0;
}

static int begin(void *context, const char *path, const char *signature, uint32_t body_bytes) {
    network *net = context;
    struct sockaddr_in to;
    char head[1024];
    int count;
    if (net->socket >= 0) {
        close(net->socket);
    }
    memset(&to, 0, sizeof to);
    to.sin_family = AF_INET;
    to.sin_port = htons(net->port);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    net->socket = socket(AF_INET, SOCK_STREAM, 0);
    if (net->socket < 0 || connect(net->socket, (struct sockaddr *)&to, sizeof to) != 0) {
        return -1;
    }
    count = snprintf(head, sizeof head, "POST %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: %u\r\n%s%s%s\r\n", path,
                     body_bytes, signature != NULL ? "X-Nilometer-Signature: " : "", signature != NULL ? signature : "",
                     signature != NULL ? "\r\n" : "");
    return count > 0 && (size_t)count < sizeof head ? send_all(net, head, (size_t)count) : -1;
}

static int write_body(void *context, const void *bytes, uint32_t count) { return send_all(context, bytes, count); }

static int finish(void *context, int *status, char *answer, uint32_t room, uint32_t *answered) {
    network *net = context;
    static char all[8192];
    size_t have = 0;
    ssize_t some;
    char *body;
    while (have + 1 < sizeof all && (some = recv(net->socket, all + have, sizeof all - 1 - have, 0)) > 0) {
        have += (size_t)some;
    }
    all[have] = 0;
    close(net->socket);
    net->socket = -1;
    body = strstr(all, "\r\n\r\n");
    if (strncmp(all, "HTTP/1.1 ", 9) != 0 || body == NULL) {
        return -1;
    }
    *status = atoi(all + 9);
    body += 4;
    *answered = (uint32_t)strlen(body) < room ? (uint32_t)strlen(body) : room;
    memcpy(answer, body, *answered);
    return 0;
}

int main(int count, char **words) {
    static uint64_t arena[4096];
    static ne_sync sync;
    static const ne_field fields[2] = {{"temperature", NE_FLOAT}, {"count", NE_INT}};
    ne_flash flash = {NULL, flash_read, flash_program, flash_erase, SECTOR, SECTORS, 1};
    network net = {-1, 0};
    ne_transport transport = {NULL, begin, write_body, finish};
    ne_sync_options options;
    uint8_t key[32];
    ne_store *store;
    ne_status status;
    long row, first, rows;
    unsigned at;
    if (count != 9) {
        return 2;
    }
    file = open(words[1], O_RDWR | O_CREAT, 0600);
    net.port = (uint16_t)atoi(words[2]);
    memset(&options, 0, sizeof options);
    options.database = "edge";
    options.device = words[3];
    options.store = (uint32_t)atoi(words[4]);
    options.request_bytes = 3000;
    if (strlen(words[5]) == 64) {
        for (at = 0; at < 32; at++) {
            unsigned byte;
            sscanf(words[5] + 2 * at, "%2x", &byte);
            key[at] = (uint8_t)byte;
        }
        options.key = key;
        options.key_bytes = sizeof key;
    }
    first = atol(words[6]);
    rows = atol(words[7]);
    left = atol(words[8]);
    if (lseek(file, 0, SEEK_END) < (off_t)(SECTOR * SECTORS)) {
        for (at = 0; at < SECTORS; at++) {
            flash_erase(NULL, at * SECTOR);
        }
    }
    status = ne_open(&store, &flash, NULL, arena, sizeof arena);
    while (status == NE_OK && (status = ne_maintain(store)) == NE_OK) { }
    if (status != NE_END) {
        return 2;
    }
    for (row = first; row < first + rows; row++) {
        static const char *const rooms[3] = {"attic", "north hall", "a,b=c"};
        ne_tag tags[1] = {{"room", rooms[row % 3]}};
        ne_series series = {"climate", tags, 1, fields, 2, NULL, 0, 0};
        ne_value values[2];
        uint64_t bits;
        int64_t time = 1700000000000 + 250 * (int64_t)row;
        values[0].number = (double)(2150 + (row * 7919) % 431) / 100.0;
        values[1].integer = row * row - 1000;
        while ((status = ne_insert(store, &series, time, values)) == NE_FULL && ne_maintain(store) == NE_OK) { }
        if (status != NE_OK) {
            return 2;
        }
        memcpy(&bits, &values[0].number, sizeof bits);
        printf("%s\t%" PRId64 "\t%016" PRIx64 "\t%" PRId64 "\n", rooms[row % 3], time, bits, values[1].integer);
    }
    ne_seal(store);
    while ((status = ne_maintain(store)) == NE_OK) { }
    transport.context = &net;
    if (status != NE_END || ne_sync_open(&sync, store, &transport, &options) != NE_OK) {
        return 2;
    }
    while ((status = ne_sync_step(&sync)) == NE_OK) { }
    fprintf(stderr, "status %d http %d acknowledged %" PRIu64 " answer %s\n", (int)status, sync.http_status, sync.acknowledged,
            sync.answer);
    fflush(stdout);
    return status == NE_END ? 0 : status == NE_REFUSED ? 4 : status == NE_OTHER_LIFE ? 5 : 6;
}
