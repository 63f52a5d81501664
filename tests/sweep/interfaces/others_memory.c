// Memory of a child read and written from outside: process_vm_readv, /proc/PID/mem, pidfd.
#include <sys/uio.h>
int main(void) {
    u64 *cell = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), digest = 0, value;
    int go[2], done[2];
    MUST(pipe(go));
    MUST(pipe(done));
    pid_t child = fork();
    MUST(child);
    if (child == 0) {
        char byte;
        close(go[1]);
        while (read(go[0], &byte, 1) == 1) {
            cell[1] = work(cell[0]);
            MUST(write(done[1], &byte, 1));
        }
        _exit(0);
    }
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/mem", child);
    int memory = open(path, O_RDWR);
    MUST(memory);
    for (u64 i = 0; i < 10; i++) {
        char byte = 0;
        struct iovec mine = {&value, 8}, theirs = {&cell[0], 8}, result = {&cell[1], 8};
        value = i * 3;
        if (i & 1) MUST(process_vm_writev(child, &mine, 1, &theirs, 1, 0));
        else MUST(pwrite(memory, &value, 8, (off_t)&cell[0]));
        MUST(write(go[1], &byte, 1));
        MUST(read(done[0], &byte, 1));
        if (i & 2) MUST(process_vm_readv(child, &mine, 1, &result, 1, 0));
        else MUST(pread(memory, &value, 8, (off_t)&cell[1]));
        digest = mix(mix(digest, value), work(i));
    }
    int pidfd = (int)syscall(SYS_pidfd_open, child, 0);
    MUST(pidfd);
    MUST(syscall(SYS_pidfd_send_signal, pidfd, SIGTERM, 0, 0));
    int status;
    MUST(waitpid(child, &status, 0));
    show("status", (u64)status);
    show("digest", digest);
}
