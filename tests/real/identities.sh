# Who a program is and what it sees: other users and groups, namespaces, no /proc, limits, other personalities, chroot.
# real: limit 240
setup() {
    cat >"$SHARED/work.c" <<'END'
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/wait.h>
#include <unistd.h>
static int order(const void *a, const void *b) { return *(int *)a - *(int *)b; }
static volatile int got;
static void handler(int s) { got += s; }
static void *thread(void *p) { raise(SIGUSR1); return p; }
int main(void)
{
    int v[500], status; unsigned x = 1;
    for (int i = 0; i < 500; i++) v[i] = (x = x * 1103515245 + 12345) >> 8;
    qsort(v, 500, sizeof *v, order);
    signal(SIGUSR1, handler);
    pthread_t t; pthread_create(&t, 0, thread, 0); pthread_join(t, 0);
    fflush(stdout);
    if (!fork()) { execl("/bin/sh", "sh", "-c", "exit 7", (char *)0); _exit(8); }
    wait(&status);
    unsigned char *page = mmap(0, 4096, 7, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int made = -1;
    if (page != MAP_FAILED) { memcpy(page, "\xb8\x2a\0\0\0\xc3", 6); made = ((int (*)(void))page)(); }
    printf("%d %d child %d code %d ids %d %d %d %d personality %x\n", v[250], got, WEXITSTATUS(status), made,
        getuid(), geteuid(), getgid(), getegid(), personality(-1));
    return 0;
}
END
    gcc -O1 -w -pthread -o "$SHARED/work" "$SHARED/work.c"
    gcc -O1 -w -pthread -static -o "$SHARED/static" "$SHARED/work.c"
}

# One command: what it says, on both channels, and how it ends.
try() {
    echo "--- $1: ${*:2}"
    "${@:2}" 2>&1 </dev/null || echo "status $?"
}

run() {
    # Folders have names of their own.
    everything | sed "s,$(dirname "$(mktemp -u)")/tmp.[A-Za-z0-9]*,ROOT,g"
}

everything() {
    local root
    # The folders above may be closed to others.
    root=$(mktemp -d); chmod 755 "$root"
    mkdir "$root/bin" "$root/proc" "$root/tmp"; chmod 1777 "$root/tmp"
    cp "$SHARED/static" /bin/busybox "$root/bin"; ln -s busybox "$root/bin/sh"
    cp "$SHARED/work" "$root/work"

    try identity setpriv --reuid=65534 --regid=65534 --clear-groups -- id
    try identity setpriv --reuid=65534 --regid=65534 --clear-groups --no-new-privs --bounding-set=-all "$root/work"
    try identity setpriv --reuid=1 --regid=1 --init-groups sh -c "$root/work; id -u; $root/work"
    try identity runuser -u nobody -- "$root/work"
    try identity su -s /bin/bash -c "$root/work; id -un" nobody
    try identity sudo -n -u nobody "$root/work"
    try identity sudo -n -u nobody -g daemon sh -c 'id; exit 3'
    try identity python3 -c "import os; os.setgroups([]); os.setresgid(1, 1, 1); os.setresuid(1, 1, 1); os.execv('$root/work', ['work'])"
    try identity perl -e '$) = "1 1"; $> = 65534; print "$> $)\n"; $> = 0; print "$>\n"; system "id -u"'
    # Programs that change rights by themselves.
    try capabilities setpriv --dump

    try namespace unshare -pfr --mount-proc sh -c 'echo $$; readlink /proc/self/exe | xargs basename; ps -o pid= | wc -l'
    try namespace unshare -pfr --mount-proc "$root/work"
    try namespace unshare -pf --kill-child sh -c "$root/work; echo \$\$"
    try namespace unshare -Ur "$root/work"
    try namespace unshare -n "$root/work"
    try namespace unshare -uim sh -c "hostname inside; hostname; mount -t tmpfs none /mnt; echo x >/mnt/x; ls /mnt; $root/work"
    try namespace unshare -m sh -c "mount -t tmpfs none /proc; ls /proc; $root/work; exit 4"
    try namespace unshare -m sh -c "umount -l /proc; $root/work; id -u"
    try namespace unshare -m -R "$root" /bin/sh -c '/bin/static; exit 5'
    try chroot chroot "$root" /bin/static
    try chroot chroot --userspec=65534:65534 "$root" /bin/sh -c '/bin/static; echo $0; exit 6'

    try limit bash -c "ulimit -v 2000000; $root/work"
    try limit bash -c "ulimit -v 8000000; python3 -c 'print(sum(range(1000)))'; node -e 0 2>/dev/null || echo refused"
    try limit bash -c "ulimit -d 500000 -s 1024 -n 20; $root/work; ulimit -d -s -n"
    try limit bash -c "ulimit -u 5000 -l 0 -c 0; $root/work"
    try limit prlimit --nofile=9 --as=3000000000 "$root/work"
    try limit timeout 20 nice -n 3 ionice -c 3 chrt -b 0 taskset -c 0 "$root/work"

    try personality setarch x86_64 -R "$root/work"
    try personality setarch x86_64 -L "$root/work"
    try personality setarch x86_64 -B -S "$root/work"
    try personality setarch linux64 -R bash -c "$root/work; uname -m"
    try personality setsid -w "$root/work"
    try personality env -i "$root/work"
    try personality flock "$root/tmp/lock" nohup "$root/work"
    rm -rf "$root"
}
