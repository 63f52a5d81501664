// A filter asks a supervisor in another process, and one in another thread, about calls: it answers
// with a value, an error, or lets the kernel go on; a filter that asks a tracer finds none.
// build: cc -O1 -pthread
// run: oracle own-functions
// run: no-order its supervisor is another process
#define _GNU_SOURCE
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
static int listen_to(int asked, unsigned action, unsigned flags) {
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, asked, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, action),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof code / sizeof *code, code};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
}
// Answers so many questions, each in another way; the second argument of a call says which.
static void supervise(int fd, int questions) {
    for (int i = 0; i < questions; i++) {
        struct seccomp_notif asked;
        struct seccomp_notif_resp answer = {0};
        memset(&asked, 0, sizeof asked);
        if (ioctl(fd, SECCOMP_IOCTL_NOTIF_RECV, &asked)) { printf("no question: %s\n", strerrorname_np(errno)); break; }
        answer.id = asked.id;
        long how = asked.data.args[1];
        if (how == 0) answer.val = 4711;
        if (how == 1) answer.error = -EBUSY;
        if (how == 2) answer.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
        printf("asked about %d %ld %lx, valid %d\n", asked.data.nr, how, (long)asked.data.arch, !ioctl(fd, SECCOMP_IOCTL_NOTIF_ID_VALID, &asked.id));
        if (ioctl(fd, SECCOMP_IOCTL_NOTIF_SEND, &answer)) printf("no answer: %s\n", strerrorname_np(errno));
    }
    fflush(stdout);
}
// getpgid of this process, asked in three ways.
static void ask(const char *who) {
    for (long how = 0; how < 3; how++) {
        long got = syscall(SYS_getpgid, 0L, how);
        printf("%s %ld: %s\n", who, how, got == 4711 ? "4711" : got < 0 ? strerrorname_np(errno) : got == getpgrp() ? "as ever" : "odd");
    }
    fflush(stdout);
}
static void send_fd(int to, int fd) {
    char byte = 0, control[CMSG_SPACE(sizeof fd)];
    struct iovec data = {&byte, 1};
    struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET, head->cmsg_type = SCM_RIGHTS, head->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(head), &fd, sizeof fd);
    if (sendmsg(to, &message, 0) != 1) exit(3);
}
static int receive_fd(int from) {
    int fd = -1;
    char byte, control[CMSG_SPACE(sizeof fd)];
    struct iovec data = {&byte, 1};
    struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    if (recvmsg(from, &message, 0) == 1) memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof fd);
    return fd;
}
static void of_process(void) {
    int ends[2], status;
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends)) return;
    fflush(stdout);
    pid_t pid = fork();
    if (!pid) {
        int fd = listen_to(SYS_getpgid, SECCOMP_RET_USER_NOTIF, SECCOMP_FILTER_FLAG_NEW_LISTENER);
        send_fd(ends[1], fd);
        close(fd);
        char lines[3][32];
        for (long how = 0; how < 3; how++) {
            long got = syscall(SYS_getpgid, 0L, how);
            snprintf(lines[how], 32, "%s", got == 4711 ? "4711" : got < 0 ? strerrorname_np(errno) : "as ever");
        }
        // The supervisor has written by now, and ends when it hears this.
        char byte;
        if (read(ends[1], &byte, 1) != 1) _exit(4);
        printf("process: %s %s %s\n", lines[0], lines[1], lines[2]);
        fflush(stdout);
        _exit(7);
    }
    int fd = receive_fd(ends[0]);
    supervise(fd, 3);
    if (write(ends[0], "", 1) != 1) return;
    waitpid(pid, &status, 0);
    printf("ended %x\n", status);
    close(fd);
}
static int listener;
static pthread_barrier_t ready;
static void *asker(void *unused) {
    listener = listen_to(SYS_getpgid, SECCOMP_RET_USER_NOTIF, SECCOMP_FILTER_FLAG_NEW_LISTENER);
    pthread_barrier_wait(&ready);
    static long got[3];
    for (long how = 0; how < 3; how++) got[how] = syscall(SYS_getpgid, 0L, how) < 0 ? -errno : 1;
    return got;
}
static void of_thread(void) {
    pthread_t id;
    long *got;
    pthread_barrier_init(&ready, 0, 2);
    pthread_create(&id, 0, asker, 0);
    pthread_barrier_wait(&ready);
    supervise(listener, 3);
    pthread_join(id, (void **)&got);
    printf("thread: %ld %ld %ld\n", got[0], got[1], got[2]);
    close(listener);
}
static void no_tracer(void) {
    int status;
    fflush(stdout);
    pid_t pid = fork();
    if (!pid) {
        listen_to(SYS_mkdir, SECCOMP_RET_TRACE | 5, 0);
        listen_to(SYS_mmap, SECCOMP_RET_TRACE | 6, 0);
        long made = syscall(SYS_mkdir, "/nonexistent/a", 0755L);
        printf("mkdir %ld %s\n", made, strerrorname_np(errno));
        long mapped = syscall(SYS_mmap, 0L, 4096L, 3L, 0x22L, -1L, 0L);
        printf("mmap %ld %s\n", mapped, strerrorname_np(errno));
        ask("no supervisor");
        fflush(stdout);
        _exit(8);
    }
    waitpid(pid, &status, 0);
    printf("ended %x\n", status);
    // The listener is closed before the call.
    fflush(stdout);
    pid = fork();
    if (!pid) {
        close(listen_to(SYS_getpgid, SECCOMP_RET_USER_NOTIF, SECCOMP_FILTER_FLAG_NEW_LISTENER));
        long got = syscall(SYS_getpgid, 0L, 0L);
        printf("closed %ld %s\n", got, strerrorname_np(errno));
        fflush(stdout);
        _exit(9);
    }
    waitpid(pid, &status, 0);
    printf("ended %x\n", status);
}
int main(void) {
    no_tracer();
    of_process();
    of_thread();
    return 0;
}
