// Allocations of each kind, each in a function of its own. It prints how many of a thousand small objects its heap profile has.
package main

import (
	"fmt"
	"runtime"
)

type Point struct {
	X, Y int
	Name string
}

var (
	Points []*Point
	Bytes  []byte
	Any    any
	Text   string
	Wait   chan Point
	Ages   map[string]Point
	Made   func() int
)

//go:noinline
func object() { Points[0] = &Point{} }

//go:noinline
func slice(n int) { Bytes = make([]byte, n) }

//go:noinline
func two() { Bytes = make([]byte, 2) }

//go:noinline
func twoOrFour(few bool) {
	n := 2
	if !few {
		n = 4
	}
	Bytes = make([]byte, n)
}

//go:noinline
func grow(p *Point) { Points = append(Points, p) }

//go:noinline
func box(p Point) { Any = p }

//go:noinline
func number(n int) { Any = n }

//go:noinline
func concatenate(s string) { Text += s }

//go:noinline
func channel(n int) { Wait = make(chan Point, n) }

//go:noinline
func fill(s string) { Ages[s] = Point{} }

//go:noinline
func closure(n int) { Made = func() int { return n } }

//go:noinline
func through(f func(int)) { f(1) }

//go:noinline
func small() { Bytes = make([]byte, 5) }

func main() {
	runtime.MemProfileRate = 1
	Points = make([]*Point, 1)
	Ages = map[string]Point{}
	object()
	slice(100)
	two()
	twoOrFour(len(Bytes) == 2)
	grow(Points[0])
	box(*Points[0])
	number(1000)
	concatenate("x")
	channel(1)
	fill("x")
	closure(1)
	through(slice)
	for i := 0; i < 1000; i++ {
		small()
	}
	runtime.GC()
	runtime.GC()
	records := make([]runtime.MemProfileRecord, 10000)
	n, _ := runtime.MemProfile(records, true)
	var seen int64
	for _, record := range records[:n] {
		for _, pc := range record.Stack() {
			if f := runtime.FuncForPC(pc); f != nil && f.Name() == "main.small" {
				seen += record.AllocObjects
			}
		}
	}
	fmt.Println(seen)
}
