// Go starts children in a loop and from many goroutines: statuses, missing
// programs, output, a kill by timeout.
// build: go build
// run: nondeterministic-counts
// run: timeout 60
// run: no-oracle its threads, stacks and preemption depend on time, and its stacks are its own
package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"sync"
	"time"
)

func main() {
	good, missing, statuses := 0, 0, 0
	for i := 0; i < 10; i++ {
		if exec.Command("/bin/true").Run() == nil {
			good++
		}
		if errors.Is(exec.Command("./missing").Run(), fs.ErrNotExist) {
			missing++
		}
	}
	var group sync.WaitGroup
	var lock sync.Mutex
	for i := 0; i < 8; i++ {
		group.Add(1)
		go func(i int) {
			defer group.Done()
			command := exec.Command("sh", "-c", fmt.Sprintf("exit %d", i+1))
			_ = command.Run()
			lock.Lock()
			statuses += command.ProcessState.ExitCode()
			lock.Unlock()
		}(i)
	}
	group.Wait()
	limited, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	err := exec.CommandContext(limited, "sleep", "20").Run()
	fmt.Println(good, missing, statuses, err)
}
