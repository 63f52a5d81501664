// Go's os.Executable, os.Args and runtime facts; it runs itself by that path.
// build: go build
// run: nondeterministic-counts
// run: timeout 60
// run: no-oracle its threads, stacks and preemption depend on time, and its stacks are its own
package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

func main() {
	path, err := os.Executable()
	if len(os.Args) > 1 {
		fmt.Println("child", filepath.Base(path), err, len(os.Args))
		os.Exit(7)
	}
	real, _ := filepath.Abs(os.Args[0])
	fmt.Println(path == real, err)
	out, err := exec.Command(path, "x").Output()
	fmt.Printf("%s%v\n", out, err)
}
