// epoll over eventfds that another thread writes, with level and edge and one shot.
#include <sys/epoll.h>
#include <sys/eventfd.h>
static int doors[3], answer;
static void *writer(void *none) {
    for (u64 i = 0; i < 15; i++) {
        u64 value = (work(i) & 0xffff) + 1, got;
        MUST(write(doors[i % 3], &value, 8));
        MUST(read(answer, &got, 8));
    }
    return 0;
}
int main(void) {
    static const unsigned kinds[3] = {EPOLLIN, EPOLLIN | EPOLLET, EPOLLIN | EPOLLONESHOT};
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    MUST(epoll);
    MUST(answer = eventfd(0, 0));
    for (int i = 0; i < 3; i++) {
        struct epoll_event event = {kinds[i], {.u32 = (unsigned)i}};
        MUST(doors[i] = eventfd(0, 0));
        MUST(epoll_ctl(epoll, EPOLL_CTL_ADD, doors[i], &event));
    }
    pthread_t thread;
    pthread_create(&thread, 0, writer, 0);
    u64 digest = 0, value, one = 1;
    for (int i = 0; i < 15; i++) {
        struct epoll_event event;
        MUST(epoll_wait(epoll, &event, 1, -1));
        MUST(read(doors[event.data.u32], &value, 8));
        digest = mix(mix(digest, event.data.u32), work(value));
        if (event.data.u32 == 2) {
            event.events = kinds[2];
            MUST(epoll_ctl(epoll, EPOLL_CTL_MOD, doors[2], &event));
        }
        MUST(write(answer, &one, 8));
    }
    pthread_join(thread, 0);
    show("digest", digest);
}
