/* A firmware for the machine sifive_u of QEMU: rows in the SPI NOR flash of the board, until the power goes.
 *
 * Without an operating system: the flash behind the SPI controller, the serial line as console. It opens the store, says what it
 * finds, and goes on with the next row: each is told once it is durable. The letter `s` on the serial line lets it seal
 * everything and stop. Rows follow from their numbers; crates/nilometer/tests/edge/emulated.rs knows them too.
 */
#include "nilometer_edge.h"

#include <string.h>

#define SECTOR 4096u
#define SECTORS 64u

/* ---- the board ---- */

/* Stacks are for one: the other processor sleeps. */
__asm__(".section .text.start, \"ax\"\n"
        ".globl _start\n"
        "_start:\n"
        ".option push\n"
        ".option arch, +zicsr\n"
        "    csrr t0, mhartid\n"
        ".option pop\n"
        "    bnez t0, 2f\n"
        "    la sp, stack_end\n"
        "    la t0, bss_begin\n"
        "    la t1, bss_end\n"
        "1:  bgeu t0, t1, 3f\n"
        "    sw zero, 0(t0)\n"
        "    addi t0, t0, 4\n"
        "    j 1b\n"
        "2:  wfi\n"
        "    j 2b\n"
        "3:  call run\n"
        "    j 2b\n");

static volatile uint32_t *const uart = (volatile uint32_t *)0x10010000; /* data, received, transmitter, receiver */
static volatile uint32_t *const spi = (volatile uint32_t *)0x10040000;
enum { UART_DATA = 0, UART_RECEIVED = 1, UART_TRANSMITTER = 2, UART_RECEIVER = 3, SPI_SELECT = 0x18 / 4, SPI_SEND = 0x48 / 4, SPI_RECEIVE = 0x4c / 4 };

static void put(char letter) {
    while (uart[UART_DATA] >> 31) {
    }
    uart[UART_DATA] = (uint8_t)letter;
}

static void say(const char *text) {
    for (; *text != 0; text++) {
        put(*text);
    }
}

static void say_number(uint32_t number) {
    char digits[11];
    unsigned at = sizeof digits;
    digits[--at] = 0;
    do {
        digits[--at] = (char)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    say(digits + at);
}

static uint8_t exchange(uint8_t byte) {
    uint32_t back;
    spi[SPI_SEND] = byte;
    do {
        back = spi[SPI_RECEIVE];
    } while (back >> 31);
    return (uint8_t)back;
}

/* Hold keeps the chip selected over several bytes. */
static void begin(uint8_t command) {
    spi[SPI_SELECT] = 2;
    exchange(command);
}

static void end(void) { spi[SPI_SELECT] = 0; }

static void address(uint32_t at) {
    exchange((uint8_t)(at >> 16));
    exchange((uint8_t)(at >> 8));
    exchange((uint8_t)at);
}

static void enable_writing(void) {
    begin(0x06);
    end();
}

static void wait(void) {
    uint8_t status;
    do {
        begin(0x05);
        status = exchange(0);
        end();
    } while (status & 1);
}

static int flash_read(void *context, uint32_t at, void *to, uint32_t bytes) {
    uint8_t *out = to;
    (void)context;
    begin(0x03);
    address(at);
    while (bytes-- > 0) {
        *out++ = exchange(0);
    }
    end();
    return 0;
}

/* The chip programs within a page of 256 bytes. */
static int flash_program(void *context, uint32_t at, const void *from, uint32_t bytes) {
    const uint8_t *in = from;
    (void)context;
    while (bytes > 0) {
        uint32_t some = 256 - at % 256;
        some = some < bytes ? some : bytes;
        bytes -= some;
        enable_writing();
        begin(0x02);
        address(at);
        at += some;
        while (some-- > 0) {
            exchange(*in++);
        }
        end();
        wait();
    }
    return 0;
}

static int flash_erase(void *context, uint32_t at) {
    (void)context;
    enable_writing();
    begin(0x20);
    address(at);
    end();
    wait();
    return 0;
}

/* ---- the firmware ---- */

static uint64_t arena[1536];

static void stop(const char *why, ne_status status) {
    say("! ");
    say(why);
    put(' ');
    say_number((uint32_t)-status);
    put('\n');
    for (;;) {
    }
}

/* How many rows are there, and the number after the greatest. */
static uint32_t look(ne_store *store) {
    ne_query query = {NULL, NULL, 0, "count", INT64_MIN, INT64_MAX};
    ne_cursor cursor;
    ne_row row;
    uint32_t rows = 0, next = 0;
    ne_status status = ne_query_open(store, &query, &cursor);
    while (status == NE_OK && (status = ne_query_next(store, &cursor, &row)) == NE_OK) {
        rows++;
        next = (uint32_t)row.value.integer + 1 > next ? (uint32_t)row.value.integer + 1 : next;
    }
    if (status != NE_END) {
        stop("query", status);
    }
    say("found ");
    say_number(rows);
    put(' ');
    say_number(next);
    put('\n');
    return next;
}

static void insert(ne_store *store, uint32_t number) {
    static const ne_field fields[2] = {{"temperature", NE_FLOAT}, {"count", NE_INT}};
    static const char *const rooms[3] = {"attic", "north hall", "a,b=c"};
    static ne_tag tags[3][1];
    static ne_series series[3];
    ne_value values[2];
    unsigned which = number % 3;
    ne_status status;
    if (series[which].table == NULL) {
        tags[which][0].name = "room";
        tags[which][0].value = rooms[which];
        series[which].table = "climate";
        series[which].tags = tags[which];
        series[which].tag_count = 1;
        series[which].fields = fields;
        series[which].field_count = 2;
    }
    values[0].number = (double)(2150 + number * 7919 % 431) / 100.0;
    values[1].integer = number;
    while ((status = ne_insert(store, &series[which], 1700000000000 + 250 * (int64_t)number, values)) == NE_FULL && ne_maintain(store) == NE_OK) {
    }
    if (status != NE_OK) {
        stop("insert", status);
    }
}

void run(void) {
    ne_flash flash = {NULL, flash_read, flash_program, flash_erase, SECTOR, SECTORS, 1};
    ne_store *store;
    uint32_t number;
    ne_status status;
    uart[UART_TRANSMITTER] = 1;
    uart[UART_RECEIVER] = 1;
    status = ne_open(&store, &flash, NULL, arena, sizeof arena);
    if (status != NE_OK) {
        stop("open", status);
    }
    number = look(store);
    while (ne_maintain(store) == NE_OK) {
    }
    for (;; number++) {
        if ((uart[UART_RECEIVED] & 0x800000ff) == 's') {
            ne_seal(store);
            while ((status = ne_maintain(store)) == NE_OK) {
            }
            if (status != NE_END) {
                stop("seal", status);
            }
            look(store);
            say("sealed\n");
            for (;;) {
            }
        }
        insert(store, number);
        put('+');
        say_number(number);
        put('\n');
        if (number % 40 == 39) {
            if (number % 200 == 199) {
                ne_seal(store);
            }
            ne_maintain(store);
        }
    }
}
