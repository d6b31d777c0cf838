/* Suite `edge` of the benchmark: the tests that esp_idf_timeseries publishes figures of, on a simulated flash. */
#ifndef NE_SUITE_H
#define NE_SUITE_H

#include <stddef.h>
#include <stdint.h>

/* How much memory the suite takes: a flash of 4 MiB, and a bit for each of its bytes. */
#define NE_SUITE_FLASH (4u << 20)
#define NE_SUITE_MEMORY (NE_SUITE_FLASH + NE_SUITE_FLASH / 8)

/* Runs everything and writes its figures to `out` as text of at most `room` bytes: lines of a name and numbers with tabs between them,
 * the first line names the columns. `instructions` counts those of this processor, or is NULL. Returns how many bytes were
 * written; 0 = something failed, and `out` says what as a text that ends with 0. Not for several threads at once. */
size_t ne_suite(uint8_t *memory, char *out, size_t room, uint32_t (*instructions)(void));

#endif
