// A shell starts two hundred short programs, in pipes, in the background and
// in subshells, and counts them.
// build: cc -O1
// run: oracle own-functions
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
int main(void) {
    setlinebuf(stdout);
    return system("i=0; n=0; while [ $i -lt 60 ]; do i=$((i+1)); ( exit $((i%3)) ) && n=$((n+1)); done; echo $i $n;"
                  "i=0; while [ $i -lt 15 ]; do i=$((i+1)); /bin/true && echo $i | cat; done | tail -1;"
                  "for k in 1 2 3 4 5; do sh -c \"exit $k\" & done; wait; echo waited; x=$(echo inner $(echo nested)); echo $x");
}
