/* Sealed pages to a server with esp_http_client. Compile-checked against a small stand-in of its header only; not run on hardware yet. */
#include "upload.h"

#include <stdio.h>
#include <string.h>

#include "esp_http_client.h"

#define SERVER "https://db.example.org:8086"

static int http_begin(void *context, const char *path, const char *signature, uint32_t body_bytes) {
    esp_http_client_handle_t client = context;
    static char url[sizeof SERVER + NE_SYNC_PATH_MAX];
    snprintf(url, sizeof url, "%s%s", SERVER, path);
    esp_http_client_close(client);
    esp_http_client_set_url(client, url);
    esp_http_client_set_method(client, HTTP_METHOD_POST);
    if (signature != NULL) {
        esp_http_client_set_header(client, "X-Nilometer-Signature", signature);
    }
    return esp_http_client_open(client, (int)body_bytes) == ESP_OK ? 0 : -1;
}

static int http_write(void *context, const void *bytes, uint32_t count) {
    return esp_http_client_write(context, bytes, (int)count) == (int)count ? 0 : -1;
}

static int http_finish(void *context, int *status, char *answer, uint32_t room, uint32_t *answered) {
    int count;
    if (esp_http_client_fetch_headers(context) < 0) {
        return -1;
    }
    *status = esp_http_client_get_status_code(context);
    count = esp_http_client_read_response(context, answer, (int)room);
    *answered = count > 0 ? (uint32_t)count : 0;
    return 0;
}

ne_status upload(ne_store *store, const ne_sync_options *options) {
    static ne_sync sync;
    esp_http_client_config_t config;
    ne_transport transport = {NULL, http_begin, http_write, http_finish};
    ne_status status;
    memset(&config, 0, sizeof config);
    config.url = SERVER;
    config.timeout_ms = 10000;
    transport.context = esp_http_client_init(&config);
    if (transport.context == NULL) {
        return NE_IO;
    }
    ne_seal(store);
    while (ne_maintain(store) == NE_OK) {
    }
    status = ne_sync_open(&sync, store, &transport, options);
    while (status == NE_OK) {
        status = ne_sync_step(&sync);
    }
    esp_http_client_cleanup(transport.context);
    return status;
}
