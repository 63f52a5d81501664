/* Decodes packets of Intel PT with libipt, which shares nothing with Everypath, and writes
 * the address of every instruction, 8 bytes each: decode CODE PACKETS > ADDRESSES
 *
 * The code comes from the .code file of `everypath dump --pt`; a PTWRITE payload says which
 * fragment's code is executed from then on, over that of addresses. */
#include <intel-pt.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct piece { uint32_t fragment, len; uint64_t pc; const uint8_t *bytes; };
struct page { uint64_t number; uint8_t bytes[4096]; uint8_t known[4096]; struct page *next; };

static struct piece *pieces;
static size_t count;
static struct page *pages[1 << 16];
static uint32_t current;

static void *slurp(const char *path, size_t *size)
{
    FILE *file = fopen(path, "rb");
    if (!file) { perror(path); exit(2); }
    fseek(file, 0, SEEK_END);
    *size = ftell(file);
    rewind(file);
    void *bytes = malloc(*size + 1);
    if (fread(bytes, 1, *size, file) != *size) { perror(path); exit(2); }
    fclose(file);
    return bytes;
}

static struct page *page_of(uint64_t number, int make)
{
    struct page **slot = &pages[(number ^ number >> 16) & 0xffff];
    for (struct page *page = *slot; page; page = page->next)
        if (page->number == number) return page;
    if (!make) return NULL;
    struct page *page = calloc(1, sizeof *page);
    page->number = number;
    page->next = *slot;
    return *slot = page;
}

static void load(const char *path)
{
    size_t size;
    uint8_t *file = slurp(path, &size);
    for (size_t at = 0; at + 16 <= size;) {
        struct piece piece;
        memcpy(&piece.fragment, file + at, 4);
        memcpy(&piece.len, file + at + 4, 4);
        memcpy(&piece.pc, file + at + 8, 8);
        piece.bytes = file + at + 16;
        at += 16 + piece.len;
        if (piece.fragment) {
            pieces = realloc(pieces, (count + 1) * sizeof *pieces);
            pieces[count++] = piece;
            continue;
        }
        for (uint32_t i = 0; i < piece.len; i++) {
            uint64_t pc = piece.pc + i;
            struct page *page = page_of(pc >> 12, 1);
            if (page->known[pc & 4095]) continue;
            page->known[pc & 4095] = 1;
            page->bytes[pc & 4095] = piece.bytes[i];
        }
    }
}

static int at(uint64_t pc, uint8_t *byte)
{
    if (current) {
        for (size_t i = 0; i < count; i++)
            if (pieces[i].fragment == current && pc - pieces[i].pc < pieces[i].len) {
                *byte = pieces[i].bytes[pc - pieces[i].pc];
                return 1;
            }
    }
    struct page *page = page_of(pc >> 12, 0);
    if (!page || !page->known[pc & 4095]) return 0;
    *byte = page->bytes[pc & 4095];
    return 1;
}

static int read_memory(uint8_t *buffer, size_t size, const struct pt_asid *asid, uint64_t ip,
                       void *context)
{
    size_t done = 0;
    while (done < size && at(ip + done, buffer + done)) done++;
    return done ? (int)done : -pte_nomap;
}

static void fail(struct pt_insn_decoder *decoder, const char *what, int status, uint64_t done)
{
    uint64_t offset = 0;
    pt_insn_get_offset(decoder, &offset);
    fprintf(stderr, "[frag %u] %s: %s after %llu instructions, at byte %llu\n", current, what,
            pt_errstr(pt_errcode(status)), (unsigned long long)done, (unsigned long long)offset);
    exit(1);
}

int main(int argc, char **argv)
{
    size_t size;
    load(argv[1]);
    uint8_t *packets = slurp(argv[2], &size);
    struct pt_config config;
    pt_config_init(&config);
    config.begin = packets;
    config.end = packets + size;
    struct pt_insn_decoder *decoder = pt_insn_alloc_decoder(&config);
    pt_image_set_callback(pt_insn_get_image(decoder), read_memory, NULL);
    int status = pt_insn_sync_forward(decoder);
    uint64_t done = 0;
    if (status < 0) fail(decoder, "no beginning", status, done);
    for (;;) {
        while (status & pts_event_pending) {
            struct pt_event event;
            status = pt_insn_event(decoder, &event, sizeof event);
            if (status < 0) fail(decoder, "event", status, done);
            if (event.type == ptev_ptwrite) current = event.variant.ptwrite.payload;
            else if (event.type == ptev_overflow) fail(decoder, "overflow", 0, done);
        }
        if (status & pts_eos) break;
        struct pt_insn insn;
        status = pt_insn_next(decoder, &insn, sizeof insn);
        if (status == -pte_eos) break;
        if (insn.iclass != ptic_error) {
            fwrite(&insn.ip, 8, 1, stdout);
            done++;
        }
        if (status < 0) fail(decoder, "instruction", status, done);
    }
    return 0;
}
