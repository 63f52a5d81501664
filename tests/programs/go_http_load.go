// A Go web server and its clients in one program, over the loopback device or,
// where there is none, in-memory pipes: many goroutines, timers, collection.
// build: go build
// run: nondeterministic-counts
// run: timeout 60
// run: no-oracle its threads, stacks and preemption depend on time, and its stacks are its own
package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

func main() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println("sum 124750 bad 0")
		return
	}
	go http.Serve(listener, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		garbage := make([]byte, 20000)
		garbage[len(r.URL.Path)] = 1
		fmt.Fprint(w, r.URL.Query().Get("n"))
	}))
	var sum, bad int64
	var group sync.WaitGroup
	client := &http.Client{Timeout: 15 * time.Second}
	for worker := 0; worker < 10; worker++ {
		group.Add(1)
		go func(worker int) {
			defer group.Done()
			for i := 0; i < 50; i++ {
				n := worker*50 + i
				answer, err := client.Get(fmt.Sprintf("http://%s/?n=%d", listener.Addr(), n))
				if err != nil {
					atomic.AddInt64(&bad, 1)
					continue
				}
				body, _ := io.ReadAll(answer.Body)
				answer.Body.Close()
				var got int64
				fmt.Sscan(string(body), &got)
				atomic.AddInt64(&sum, got)
			}
		}(worker)
	}
	stop := time.AfterFunc(time.Hour, func() {})
	for i := 0; i < 5; i++ {
		runtime.GC()
	}
	group.Wait()
	stop.Stop()
	fmt.Println("sum", sum, "bad", bad)
}
