# Everypath at work on a program, also when strace and gdb watch it.
# real: limit 300
# real: small-chaos gdb is large, and chaos translates it again and again
setup() {
    cat >"$SHARED/work.c" <<'EOF'
#include <pthread.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
static int depth(int n) { return n ? 1 + depth(n - 1) : 0; }
static int twice(int n) { return depth(n) + depth(n); }
static void *thread(void *n) { return (void *)(long)twice((long)n); }
int main(void)
{
    pthread_t other;
    void *there;
    pthread_create(&other, 0, thread, (void *)7);
    pthread_join(other, &there);
    pid_t child = fork();
    if (child == 0) _exit(depth(3));
    int status;
    waitpid(child, &status, 0);
    printf("%ld %d %d\n", (long)there, WEXITSTATUS(status), twice(5));
    return 4;
}
EOF
    gcc -g -O0 -w -pthread -o "$SHARED/work" "$SHARED/work.c"
}

run() {
    "$PRODUCT" run -- "$SHARED/work" || echo "status $?"
    counted contexts --cost calls -k 3 --funcs depth,twice --report report
    [[ $SIZE == full ]] || return 0
    counted contexts --cost calls --funcs depth,thread,twice -o recording
    "$PRODUCT" report recording --format json | python3 -c 'import json, sys; print(sorted(f["name"] for p in json.load(sys.stdin)["processes"] for f in p["functions"]))'
    "$PRODUCT" run -- "$PRODUCT" run -- "$SHARED/work" || echo "status $?"
    strace -f -qq -o trace "$PRODUCT" contexts -q -- "$SHARED/work" || echo "status $?"
    gdb -nx -batch -iex 'set auto-solib-add off' -ex run --args "$PRODUCT" run -- "$SHARED/work" 2>/dev/null | grep -oE '^[0-9 ]+$|exited with code 04'
    rm -f trace report recording
}

counted() {
    "$PRODUCT" "$1" -q "${@:2}" -- "$SHARED/work" || echo "status $?"
    without_times
}

without_times() {
    [[ -e report ]] || return 0
    # Process ids and times differ.
    sed -E 's/after .*//; s/process [0-9]+/process N/; s/thread [0-9]+/thread N/' report
    rm report
}
