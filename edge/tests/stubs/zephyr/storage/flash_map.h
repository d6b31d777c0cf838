/* Stands in for Zephyr's header of the same name, so that the example can be compiled where Zephyr is not. */
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
struct flash_area {
    size_t fa_size;
};
#define FIXED_PARTITION_ID(label) 0
int flash_area_open(uint8_t id, const struct flash_area **area);
int flash_area_read(const struct flash_area *area, off_t offset, void *to, size_t size);
int flash_area_write(const struct flash_area *area, off_t offset, const void *from, size_t size);
int flash_area_erase(const struct flash_area *area, off_t offset, size_t size);
uint32_t flash_area_align(const struct flash_area *area);
