package main

import "fmt"

type counter struct{ n int }

//go:noinline
func (c *counter) add(x int) int { c.n += x; return c.n }

//go:noinline
func fib(n int) int {
	if n < 2 {
		return n
	}
	return fib(n-1) + fib(n-2)
}

func main() {
	c := &counter{}
	fmt.Println(fib(10), c.add(3))
}
