# Programs of other tool chains: musl (dynamic and static), busybox, C++ with
# exceptions in threads, Go with a web server on loopback.
setup() {
    cd "$SHARED"
    cat >pipes.c <<'END'
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
static sigjmp_buf back;
static void on_segv(int s) { siglongjmp(back, s); }
static int order(const void *a, const void *b) { return *(int *)a - *(int *)b; }
static void *sum(void *p) { long n = (long)p, s = 0; while (n--) s += n % 7; return (void *)s; }
int main(void)
{
    int v[1000]; unsigned x = 1; long total = 0;
    for (int i = 0; i < 1000; i++) v[i] = (x = x * 1103515245 + 12345) >> 8;
    qsort(v, 1000, sizeof *v, order);
    printf("%d %d\n", v[0], v[999]);
    pthread_t t[4];
    for (long i = 0; i < 4; i++) pthread_create(t + i, 0, sum, (void *)(i * 100000));
    for (int i = 0; i < 4; i++) { void *r; pthread_join(t[i], &r); total += (long)r; }
    signal(SIGSEGV, on_segv);
    for (int i = 0; i < 3; i++) if (!sigsetjmp(back, 1)) *(volatile int *)0 = 1; else total++;
    int fd[2], status; char text[9] = "";
    if (pipe(fd)) return 1;
    if (!fork()) { execlp("sh", "sh", "-c", "echo child >&3; exit 6", (char *)0); }
    wait(&status);
    if (!fork()) { dup2(fd[1], 1); execlp("echo", "echo", "piped", (char *)0); }
    wait(0); if (read(fd[0], text, 8) < 0) return 1;
    printf("%ld %d %s", total, WEXITSTATUS(status), text);
    FILE *f = popen("cat; exit 2", "w"); fputs("to popen\n", f); fflush(stdout);
    status = pclose(f);
    printf("%d %s\n", WEXITSTATUS(status), strsignal(SIGSEGV));
    return 5;
}
END
    cat >throw.cpp <<'END'
#include <exception>
#include <future>
#include <iostream>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>
struct Odd : std::runtime_error { using std::runtime_error::runtime_error; };
struct Guard { int &n; ~Guard() { ++n; } };
static int unwound(int depth, int &n)
{
    Guard guard{n};
    if (depth == 0) throw Odd("at the bottom");
    return unwound(depth - 1, n) + 1;
}
static long work(int rounds)
{
    long sum = 0;
    int guards = 0;
    for (int i = 0; i < rounds; i++) {
        try {
            try { sum += unwound(i % 30, guards); }
            catch (const Odd &e) { sum += std::string(e.what()).size(); if (i % 3 == 0) throw; }
        } catch (const std::exception &e) {
            std::exception_ptr p = std::current_exception();
            try { std::rethrow_exception(p); } catch (std::runtime_error &) { sum++; }
        }
    }
    return sum + guards;
}
static void nothrow() noexcept { throw 1; }
int main(int argc, char **)
{
    std::vector<std::future<long>> parts;
    for (int t = 0; t < 4; t++) parts.push_back(std::async(std::launch::async, work, 1500));
    long sum = 0;
    for (auto &p : parts) sum += p.get();
    std::cout << sum << std::endl;
    auto failing = std::async(std::launch::async, [] { throw std::out_of_range("from a thread"); });
    try { failing.get(); } catch (std::exception &e) { std::cout << e.what() << std::endl; }
    try { std::map<int, int>().at(3); } catch (std::out_of_range &e) { std::cout << e.what() << std::endl; }
    try { dynamic_cast<Odd &>(*std::unique_ptr<std::runtime_error>(new std::runtime_error("x"))); }
    catch (std::bad_cast &) { std::cout << "bad cast" << std::endl; }
    if (argc > 1) nothrow();
}
END
    cat >serve.go <<'END'
package main

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"sort"
	"strings"
	"sync"
	"syscall"
	"time"
)

type tree struct{ left, right *tree }

func grow(n int) *tree {
	if n == 0 {
		return &tree{}
	}
	return &tree{grow(n - 1), grow(n - 1)}
}
func (t *tree) count() int {
	if t.left == nil {
		return 1
	}
	return 1 + t.left.count() + t.right.count()
}
func recovered() (err error) {
	defer func() { err = fmt.Errorf("recovered: %v", recover()) }()
	var p *tree
	return errors.New(fmt.Sprint(p.left))
}
func main() {
	http.HandleFunc("/hash", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		json.NewEncoder(w).Encode(map[string]string{"sum": fmt.Sprintf("%x", sha256.Sum256(body))})
	})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	go http.Serve(listener, nil)
	url := "http://" + listener.Addr().String() + "/hash"
	var group sync.WaitGroup
	var lock sync.Mutex
	var lines []string
	for i := 0; i < 40; i++ {
		group.Add(1)
		go func(i int) {
			defer group.Done()
			answer, err := http.Post(url, "text/plain", strings.NewReader(strings.Repeat("x", i*1000)))
			if err != nil {
				panic(err)
			}
			defer answer.Body.Close()
			text, _ := io.ReadAll(answer.Body)
			lock.Lock()
			lines = append(lines, string(text))
			lock.Unlock()
		}(i)
	}
	group.Wait()
	sort.Strings(lines)
	fmt.Printf("%x\n", sha256.Sum256([]byte(strings.Join(lines, ""))))
	total := 0
	for i := 0; i < 20; i++ {
		total += grow(12).count()
		runtime.GC()
	}
	fmt.Println(total, recovered())
	squares := make(chan int)
	go func() {
		for i := 0; i < 20000; i++ {
			squares <- i * i
		}
		close(squares)
	}()
	sum := 0
	for s := range squares {
		sum += s
	}
	fmt.Println(sum)
	out, err := exec.Command("sh", "-c", "echo from a child; exit 3").Output()
	fmt.Println(strings.TrimSpace(string(out)), err)
	got := make(chan os.Signal, 1)
	signal.Notify(got, syscall.SIGUSR1)
	syscall.Kill(os.Getpid(), syscall.SIGUSR1)
	select {
	case s := <-got:
		fmt.Println(s)
	case <-time.After(20 * time.Second):
		fmt.Println("no signal")
	}
	// A loop without calls must be preempted by a signal.
	runtime.GOMAXPROCS(1)
	stop := false
	go func() { for !stop { } }()
	time.Sleep(20 * time.Millisecond)
	fmt.Println("preempted")
	os.Exit(4)
}
END
    gcc -O2 -pthread -o pipes.glibc pipes.c
    gcc -O2 -pthread -static -o pipes.glibc-static pipes.c
    musl-gcc -O2 -pthread -o pipes.musl pipes.c
    musl-gcc -O2 -static -pthread -o pipes.musl-static pipes.c
    g++ -O2 -pthread -o throw throw.cpp
    g++ -O1 -static -pthread -o throw-static throw.cpp
    CGO_ENABLED=0 GO111MODULE=off GOCACHE="$SHARED/gocache" go build -o serve serve.go
    GO111MODULE=off GOCACHE="$SHARED/gocache" go build -race -o /dev/null serve.go 2>/dev/null || true
    rm -rf gocache
}

run() {
    local variant
    for variant in glibc glibc-static musl musl-static; do
        "$SHARED/pipes.$variant" 3>&1 || echo "$variant: $?"
    done
    for variant in throw throw-static; do
        "$SHARED/$variant"
        (ulimit -c 0; "$SHARED/$variant" x) 2>/dev/null || echo "$variant: $?"
    done
    "$SHARED/serve" || echo "serve: $?"
    busybox sh -c '
        for i in 1 2 3; do echo $((i * i)); done | busybox awk "{ s += \$1 } END { print s }"
        trap "echo caught" USR1; kill -USR1 $$
        busybox seq 2000 | busybox sort -r | busybox md5sum
        (exit 9); echo $?
        busybox tar -cf - /etc/debian_version 2>/dev/null | busybox tar -tf -
        busybox seq 300 | busybox gzip | busybox gunzip | busybox tail -1
        echo hello | busybox vi -h >/dev/null 2>&1; busybox bc </dev/null; busybox find /etc/debian_version
        busybox sleep 5 & busybox kill $!; wait $!; echo $?'
}
