// System V shared memory, semaphores and messages between two processes.
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
static void turn(int set, unsigned short which, short by) {
    struct sembuf step = {which, by, 0};
    MUST(semop(set, &step, 1));
}
int main(void) {
    int memory = shmget(IPC_PRIVATE, 4096, 0600), set = semget(IPC_PRIVATE, 2, 0600), queue = msgget(IPC_PRIVATE, 0600);
    MUST(memory);
    MUST(set);
    MUST(queue);
    u64 *shared = shmat(memory, 0, 0);
    MUST(shmctl(memory, IPC_RMID, 0));
    struct { long kind; u64 value; } message = {1, 0};
    pid_t child = fork();
    MUST(child);
    for (int i = 0; i < 10; i++) {
        turn(set, child ? 0 : 1, child ? (i ? -1 : 0) : -1);
        shared[0] = mix(shared[0], work((u64)i));
        if (!child) message.value = shared[0], msgsnd(queue, &message, 8, 0);
        turn(set, child ? 1 : 0, 1);
    }
    if (!child) _exit(0);
    MUST(waitpid(child, 0, 0));
    u64 digest = shared[0];
    for (int i = 0; i < 10; i++) {
        MUST(msgrcv(queue, &message, 8, 1, 0));
        digest = mix(digest, message.value);
    }
    MUST(shmdt(shared));
    MUST(semctl(set, 0, IPC_RMID));
    MUST(msgctl(queue, IPC_RMID, 0));
    show("digest", digest);
}
