# gdb, strace, ltrace and valgrind at work on a program.
# real: limit 300
# real: small-chaos gdb and valgrind are large, and chaos translates them again and again: only strace and ltrace there
setup() {
    cat >"$SHARED/work.c" <<'END'
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
struct node { int value; struct node *next; };
static int depth(int n) { return n ? 1 + depth(n - 1) : 0; }
static struct node *push(struct node *list, int value)
{
    struct node *made = malloc(sizeof *made);
    made->value = value;
    made->next = list;
    return made;
}
int main(int argc, char **argv)
{
    struct node *list = 0;
    for (int i = 0; i < 3; i++) list = push(list, i * i);
    printf("%d %d\n", list->value, depth(10));
    if (argc > 1) *(volatile int *)8 = 1;
    int leaked = strlen(strdup("lost"));
    while (list) { struct node *next = list->next; free(list); list = next; }
    write(1, "done\n", 5);
    return leaked;
}
END
    gcc -g -O0 -w -fno-pie -no-pie -o "$SHARED/work" "$SHARED/work.c"
}

run() {
    trace
    [[ $SIZE == full ]] || return 0
    debug
}

debug() {
    # Process ids differ, and gdb's chatter about libraries depends on the machine.
    gdb -nx -batch -iex 'set auto-solib-add off' -ex 'break push if value == 4' -ex run -ex 'bt' -ex 'print *list' -ex finish -ex 'watch list->value' \
        -ex 'break depth if n == 7' -ex continue -ex 'bt 2' -ex 'print $rip' -ex 'x/4i $pc' -ex 'stepi' -ex 'info locals' \
        -ex 'delete' -ex continue "$SHARED/work" 2>/dev/null | sed 's/process [0-9]*/process N/g'
    gdb -nx -batch -iex 'set auto-solib-add off' -ex run -ex bt -ex 'info registers rip rax' --args "$SHARED/work" crash 2>/dev/null | grep -E '^(#|rip|rax|Program)'
    valgrind -q --leak-check=full --error-exitcode=33 --log-file=log "$SHARED/work" || echo "status $?"
    sed 's/==[0-9]*==//' log | grep -E 'lost|at 0x|by 0x' | sed 's/0x[0-9A-F]*//'
    valgrind -q --tool=callgrind --callgrind-out-file=costs "$SHARED/work" 2>/dev/null || echo "status $?"
    grep -cE '^fn=.*(push|depth)' costs
    rm log costs
}

trace() {
    strace -f -e trace=write,execve,exit_group -o trace sh -c "$SHARED/work >/dev/null; exit 9" || echo "status $?"
    grep -cE 'write\(1, "done' trace; sed -E 's/^[0-9]+ +//; s/0x[0-9a-f]+/P/g' trace | grep -E 'exit|done'
    ltrace -o calls -e malloc+strlen+free "$SHARED/work" || echo "status $?"
    grep -cE '(malloc|free)' calls
    rm trace calls
}
