// Readings in the memory of the program, for boards without a flash driver of their own: replace the three functions by those of
// your flash chip. Not run on hardware yet.
#include <nilometer_edge.h>
#include <string.h>

static const uint32_t kSector = 1024, kSectors = 8;
static uint8_t flashBytes[kSector * kSectors];

static int flashRead(void *, uint32_t address, void *to, uint32_t bytes) {
    memcpy(to, flashBytes + address, bytes);
    return 0;
}

static int flashProgram(void *, uint32_t address, const void *from, uint32_t bytes) {
    memcpy(flashBytes + address, from, bytes);
    return 0;
}

static int flashErase(void *, uint32_t address) {
    memset(flashBytes + address, 0xff, kSector);
    return 0;
}

static uint64_t arena[1024];
static const ne_field fields[] = {{"temperature", NE_FLOAT}};
static ne_series climate = {"climate", nullptr, 0, fields, 1, nullptr, 0, 0};
static ne_store *store;

void setup() {
    static ne_flash flash = {nullptr, flashRead, flashProgram, flashErase, kSector, kSectors, 1};
    static ne_options options = {0, 32, 960, 8};
    if (ne_open(&store, &flash, &options, arena, sizeof arena) == NE_OK) {
        ne_begin_boot(store, 1);
    }
}

void loop() {
    ne_value value;
    value.number = 21.5;
    while (ne_maintain(store) == NE_OK) {
    }
    ne_insert(store, &climate, (int64_t)millis(), &value);
    delay(10000);
}
