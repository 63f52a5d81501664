// Asynchronous input and output by the kernel's own interface, completed in order.
#include <linux/aio_abi.h>
int main(void) {
    aio_context_t context = 0;
    u64 digest = 0, block[64], back[64];
    char name[] = "/tmp/everypath-aio-XXXXXX";
    int file = mkstemp(name);
    MUST(file);
    MUST(unlink(name));
    MUST(syscall(SYS_io_setup, 8, &context));
    for (int i = 0; i < 8; i++) {
        for (int k = 0; k < 64; k++) block[k] = (u64)k * (u64)i;
        block[5] = work((u64)i);
        struct iocb put = {.aio_lio_opcode = IOCB_CMD_PWRITE, .aio_fildes = (unsigned)file, .aio_buf = (u64)block, .aio_nbytes = sizeof block, .aio_data = 1};
        struct iocb get = {.aio_lio_opcode = IOCB_CMD_PREAD, .aio_fildes = (unsigned)file, .aio_buf = (u64)back, .aio_nbytes = sizeof back, .aio_data = 2};
        struct iocb *list[] = {&put}, *second[] = {&get};
        struct io_event event;
        MUST(syscall(SYS_io_submit, context, 1, list));
        MUST(syscall(SYS_io_getevents, context, 1, 1, &event, 0));
        digest = mix(mix(digest, event.data), (u64)event.res);
        MUST(syscall(SYS_io_submit, context, 1, second));
        MUST(syscall(SYS_io_getevents, context, 1, 1, &event, 0));
        digest = mix_bytes(mix(mix(digest, event.data), (u64)event.res), back, sizeof back);
    }
    MUST(syscall(SYS_io_destroy, context));
    show("digest", mix(digest, work(1)));
}
