// Socket pairs: messages with descriptors and credentials, many messages at once, shutdown.
#include <sys/socket.h>
int main(void) {
    int pair[2], file = memfd_create("passed", 0);
    u64 digest = 0, value, many[4];
    MUST(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair));
    for (int i = 0; i < 12; i++) {
        char control[CMSG_SPACE(sizeof(int))] = {0}, got[64];
        value = work((u64)i);
        struct iovec part = {&value, 8};
        struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
        struct cmsghdr *head = CMSG_FIRSTHDR(&message);
        *head = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
        memcpy(CMSG_DATA(head), &file, sizeof file);
        MUST(sendmsg(pair[0], &message, 0));
        value = 0;
        message.msg_control = got, message.msg_controllen = sizeof got;
        MUST(recvmsg(pair[1], &message, MSG_CMSG_CLOEXEC));
        int passed = *(int *)CMSG_DATA(CMSG_FIRSTHDR(&message));
        MUST(write(passed, &value, 8));
        MUST(close(passed));
        digest = mix(digest, value);
        struct iovec parts[4];
        struct mmsghdr messages[4] = {0};
        for (int k = 0; k < 4; k++) {
            many[k] = work((u64)k);
            parts[k] = (struct iovec){&many[k], 8};
            messages[k].msg_hdr = (struct msghdr){.msg_iov = &parts[k], .msg_iovlen = 1};
        }
        MUST(sendmmsg(pair[1], messages, 4, 0));
        memset(many, 0, sizeof many);
        digest = mix(digest, (u64)recvmmsg(pair[0], messages, 4, 0, 0));
        digest = mix_bytes(digest, many, sizeof many);
    }
    MUST(shutdown(pair[0], SHUT_WR));
    show("end", (u64)read(pair[1], &value, 8));
    show("size", (u64)lseek(file, 0, SEEK_END));
    show("digest", digest);
}
