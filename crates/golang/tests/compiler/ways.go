// Package flow has a way to the heap of each kind.
package flow

import (
	"bytes"
	"fmt"
	"io"
	"os"
)

type T struct{ a, b int }

type Namer interface{ Name() string }

func (t *T) Name() string { return "t" }

var (
	kept   any
	keptT  *T
	keptFn func() int
	queue  = make(chan *T, 1)
	made   = []*T{new(T), {a: 1}}
)

func Stream(data, find []byte, output *bytes.Buffer) {
	input := bytes.NewBuffer(data)
	size := len(find)
	buf := make([]byte, size)
	end := size - 1
	if n, err := io.ReadFull(input, buf[:end]); err != nil {
		output.Write(buf[:n])
	}
}

func same(p *T) *T { return p }

func keep(p *T) { keptT = p }

func KeepContent(p **T) { keptT = *p }

func Inlined() *T {
	t := T{1, 2}
	keep(&t)
	return same(&T{})
}

func Closures(n int) func() int {
	x := n
	return func() int {
		y := 1
		f := func() int {
			x++
			y++
			return x + y
		}
		keptFn = f
		return f()
	}
}

func MethodValue(t *T) func() string { return t.Name }

func Boxed(n int) {
	kept = n
	kept = "a constant: (x) at y.go:1:1"
	kept = make([]int, n)
	fmt.Println(n, "a")
}

func Sent() { queue <- &T{3, 4} }

func Large() int {
	var a [20 << 20]byte
	b := make([]byte, 1<<20)
	return int(a[3]) + int(b[4])
}

func Maps(k string, p *T) map[string]*T {
	m := map[string]*T{"a": p}
	m[k] = new(T)
	return m
}

func Strings(a, b string) (string, []byte) { return a + b + "x", []byte(a) }

func Appended(xs []int, n int) []int { return append(xs, n) }

func Goroutines(n int) {
	m := n
	go func() { kept = m }()
	go keep(&T{n, n})
	defer func() { m++ }()
}

type G[K comparable, V any] struct {
	m map[K]V
	v *V
}

func NewG[K comparable, V any](v V) *G[K, V] { return &G[K, V]{m: make(map[K]V), v: &v} }

func (g *G[K, V]) Put(k K, v V) { g.v = &v }

func Generic() (*G[string, int], *G[int, T]) { return NewG[string](3), NewG[int](T{}) }

func Loop() *int {
	var last *int
	for i := 0; i < 3; i++ {
		last = new(int)
		*last += i
	}
	return last
}

func Named(n Namer, w io.Writer) {
	buf := []byte(n.Name())
	w.Write(buf)
	for {
		var p *T
		p = &T{}
		fmt.Fprintf(os.Stdout, "%p", p)
	}
}

func Stays(n int) int {
	t := &T{n, n}
	xs := make([]int, 4)
	return t.a + xs[n]
}
