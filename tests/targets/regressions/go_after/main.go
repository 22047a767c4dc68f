// A program after it was changed: tests/end_to_end/diff_regressions.rs describes the change.
package main

import (
	"os"
	"runtime"
	"runtime/pprof"
)

var kept [][]int
var names [][]byte

//go:noinline
func buildIndex(rows int) []int {
	var index []int
	for i := 0; i < rows; i++ {
		index = append(index, i)
	}
	return index
}

//go:noinline
func fetchName(number int) []byte {
	return make([]byte, 24+number%3)
}

func main() {
	for i := 0; i < 400; i++ {
		kept = append(kept, buildIndex(500))
		names = append(names, fetchName(i))
	}
	runtime.GC()
	file, err := os.Create(os.Args[1])
	if err != nil {
		panic(err)
	}
	if err := pprof.Lookup("allocs").WriteTo(file, 0); err != nil {
		panic(err)
	}
	file.Close()
}

func init() {
	runtime.MemProfileRate = 1
}
