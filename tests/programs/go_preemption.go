// Goroutines that never call anything are interrupted by signals so that others
// run; memory is collected meanwhile, deep stacks grow and move.
// build: go build
// run: nondeterministic-counts
// run: timeout 60
// run: no-oracle its threads, stacks and preemption depend on time, and its stacks are its own
package main

import (
	"fmt"
	"runtime"
	"time"
)

func spin(rounds int, done chan uint64) {
	x := uint64(1)
	for i := 0; i < rounds; i++ {
		x = x*3 + 1
	}
	done <- x
}

func deep(n int) int {
	var pad [64]int
	pad[n%64] = n
	if n == 0 {
		return 0
	}
	return deep(n-1) + pad[n%64]
}

func main() {
	runtime.GOMAXPROCS(1)
	done := make(chan uint64, 3)
	for i := 0; i < 3; i++ {
		go spin(8000000, done)
	}
	total := 0
	for i := 0; i < 4; i++ {
		time.Sleep(time.Millisecond)
		total += deep(2000)
		runtime.GC()
	}
	sum := uint64(0)
	for i := 0; i < 3; i++ {
		sum += <-done
	}
	fmt.Println(total, sum)
}
