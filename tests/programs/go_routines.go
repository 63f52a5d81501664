// A Go program: static, own stacks, preemption by signals, many goroutines,
// garbage collection, a child process, a recovered nil dereference.
// build: go build
// run: nondeterministic-counts
// run: timeout 60
// run: no-oracle its threads, stacks and preemption depend on time, and its stacks are its own
package main

import (
	"fmt"
	"os/exec"
	"sync"
)

func work(id int) (sum uint64) {
	for i := 0; i < 200000; i++ {
		sum = sum*31 + uint64(i^id)
	}
	return
}

func nilLoad() (text string) {
	defer func() { text = fmt.Sprint(recover()) }()
	var p *int
	return fmt.Sprint(*p)
}

func main() {
	var group sync.WaitGroup
	sums := make([]uint64, 100)
	for id := range sums {
		group.Add(1)
		go func(id int) {
			defer group.Done()
			sums[id] = work(id)
			_ = make([]byte, 100000)
		}(id)
	}
	group.Wait()
	var total uint64
	for _, sum := range sums {
		total ^= sum
	}
	fmt.Println(total)
	fmt.Println(nilLoad())
	output, err := exec.Command("/bin/echo", "child").Output()
	fmt.Printf("%s%v\n", output, err)
	_, err = exec.Command("/no/such/program").Output()
	fmt.Println(err)
}
