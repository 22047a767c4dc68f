// Package advice has each kind of allocation that Mallow advises on, before and after the advice.
package advice

import (
	"fmt"
	"io"
	"iter"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

var (
	keptBytes   []byte
	keptText    string
	keptNumbers []int
	keptMap     map[string]int
	keptSquares = map[int]int{}
	keptAny     any
	keptPoint   *Point
	point       Point
	points      []*Point
	values      []Point
	number      int
	words       = []string{"one long word of many bytes", "another long word of many bytes", "a third"}
	byName      = map[string]*Point{}
	valueByName = map[string]Point{}
	parts       [][]byte
	queue       = make(chan *Point, 1)
	values1     = make(chan Point, 1)
	work        = make(chan func())
	done        = make(chan int)
	timer       = time.NewTimer(time.Hour)
)

func init() {
	go func() {
		for {
			(<-work)()
		}
	}()
}

// Point has two numbers.
type Point struct{ X, Y int }

// Sum is a method with a value for a receiver.
func (p Point) Sum() int { return p.X + p.Y }

// Adder is what Point is.
type Adder interface{ Sum() int }

// Writer keeps what it gets, or does not: the compiler does not know.
type Writer interface{ Put([]byte) }

// Sink does not keep it.
type Sink struct{ n int }

//go:noinline
func (s *Sink) Put(b []byte) { s.n += len(b) }

// AppendText: strings that are added up.

//go:noinline
func appendTextBefore(words []string) string {
	all := ""
	for _, word := range words {
		all += word
	}
	return all
}

//go:noinline
func appendTextAfter(words []string) string {
	var all strings.Builder
	all.Grow(80)
	for _, word := range words {
		all.WriteString(word)
	}
	return all.String()
}

//go:noinline
func appendTextKept(words []string) {
	keptBytes = keptBytes[:0]
	for _, word := range words {
		keptBytes = append(keptBytes, word...)
	}
}

//go:noinline
func oneOfBothBefore(text string) []byte { return []byte(text) }

//go:noinline
func oneOfBothAfter(buf []byte, text string) []byte { return append(buf, text...) }

//go:noinline
func keptSliceBefore(n int) {
	var all []int
	for i := 0; i < n; i++ {
		all = append(all, i)
	}
	keptNumbers = all
}

//go:noinline
func keptSliceAfter(n int) {
	all := keptNumbers[:0]
	for i := 0; i < n; i++ {
		all = append(all, i)
	}
	keptNumbers = all
}

//go:noinline
func keptSliceMade(n int) {
	all := make([]int, 0, n)
	for i := 0; i < n; i++ {
		all = append(all, i)
	}
	keptNumbers = all
}

//go:noinline
func callersSliceBefore(n int) []int {
	var all []int
	for i := 0; i < n; i++ {
		all = append(all, i)
	}
	return all
}

//go:noinline
func callersSliceAfter(all []int, n int) []int {
	for i := 0; i < n; i++ {
		all = append(all, i)
	}
	return all
}

//go:noinline
func keptMapBefore(n int) {
	squares := make(map[int]int)
	for i := range n {
		squares[i] = i * i
	}
	number = len(squares)
}

//go:noinline
func keptMapAfter(n int) {
	clear(keptSquares)
	for i := range n {
		keptSquares[i] = i * i
	}
	number = len(keptSquares)
}

//go:noinline
func sizedMapBefore(n int) {
	keptSquares = map[int]int{}
	for i := range n {
		keptSquares[i] = i * i
	}
}

//go:noinline
func sizedMapAfter(n int) {
	keptSquares = make(map[int]int, n)
	for i := range n {
		keptSquares[i] = i * i
	}
}

//go:noinline
func callersMapBefore(words []string) map[string]int {
	counts := make(map[string]int)
	for _, word := range words {
		counts[word]++
	}
	return counts
}

//go:noinline
func callersMapAfter(counts map[string]int, words []string) {
	clear(counts)
	for _, word := range words {
		counts[word]++
	}
}

//go:noinline
func formatBefore(n int) { fmt.Fprintf(io.Discard, "number %d", n) }

//go:noinline
func formatAfter(buf []byte, n int) []byte {
	return strconv.AppendInt(append(buf, "number "...), int64(n), 10)
}

//go:noinline
func formatTextBefore(n int) string { return fmt.Sprintf("number %d", n) }

//go:noinline
func formatTextAfter(n int) string {
	buf := make([]byte, 0, 64)
	return string(strconv.AppendInt(append(buf, "number "...), int64(n), 10))
}

//go:noinline
func keeps(numbers ...int) { keptNumbers = numbers }

//go:noinline
func keptArgumentsBefore(n int) { keeps(n, 2, 3) }

//go:noinline
func keptArgumentsAfter(args []int, n int) {
	args[0] = n
	keeps(args...)
}

var keptFunc func() int

//go:noinline
func keepsFunc(f func() int) { keptFunc = f }

//go:noinline
func oneClosureBefore(n int) { keepsFunc(func() int { return n }) }

//go:noinline
func oneClosureAfter(f func() int) { keepsFunc(f) }

//go:noinline
func keepsPlain(f func(int) int, n int) { number = f(n) }

//go:noinline
func oneClosureArguments(n int) { keepsPlain(func(n int) int { return n }, n) }

//go:noinline
func methodBefore(n int) func() int { return func() int { n++; return n } }

// Counter has a method in place of a function literal.
type Counter struct{ n int }

//go:noinline
func methodAfter(n int) Counter { return Counter{n} }

// Next counts.
func (c *Counter) Next() int { c.n++; return c.n }

//go:noinline
func directCallBefore(p *Point) func() int { return p.Sum }

//go:noinline
func directCallAfter(p *Point) int { return p.Sum() }

//go:noinline
func keepsBytes(b []byte) { keptBytes = b }

//go:noinline
func callersBufferBefore(n int) { keepsBytes(make([]byte, n)) }

//go:noinline
func callersBufferAfter(buf []byte, n int) { keepsBytes(buf[:n]) }

//go:noinline
func constantSizeBefore(n int) int {
	buf := make([]byte, n)
	buf[n-1] = 1
	return len(buf)
}

//go:noinline
func constantSizeAfter(n int) int {
	buf := make([]byte, 1000)
	buf[n-1] = 1
	return len(buf)
}

//go:noinline
func constantSizeBuffer(buf []byte, n int) int {
	buf = buf[:n]
	buf[n-1] = 1
	return len(buf)
}

//go:noinline
func keepsAdder(a Adder) { number += a.Sum() }

//go:noinline
func concreteBefore(n int) { keepsAdder(Point{n, 2}) }

//go:noinline
func keepsOne(p Point) { number += p.Sum() }

//go:noinline
func concreteAfter(n int) { keepsOne(Point{n, 2}) }

//go:noinline
func concretePointer(p *Point) { keepsAdder(p) }

//go:noinline
func knownCalleeBefore(w Writer, n int) {
	buf := [8]byte{byte(n)}
	w.Put(buf[:])
}

//go:noinline
func knownCalleeAfter(s *Sink, n int) {
	buf := [8]byte{byte(n)}
	s.Put(buf[:])
}

//go:noinline
func keptBefore(n int) int {
	var large [20 << 20]byte
	large[n] = 1
	return int(large[n+1])
}

var large [20 << 20]byte

//go:noinline
func keptAfter(n int) int {
	large[n] = 1
	return int(large[n+1])
}

//go:noinline
func byValueBefore(n int) *Point { return &Point{n, 2} }

//go:noinline
func byValueAfter(n int) Point { return Point{n, 2} }

//go:noinline
func byValueFilled(p *Point, n int) { *p = Point{n, 2} }

//go:noinline
func capturedCopyBefore(n int) {
	n++
	keepsFunc(func() int { return n })
	n++
	number = n
}

//go:noinline
func capturedCopyAfter(n int) {
	n++
	copied := n
	keepsFunc(func() int { return copied })
	n++
	number = n
}

//go:noinline
func all(n int) iter.Seq[int] {
	return func(yield func(int) bool) {
		for i := 0; i < n; i++ {
			if !yield(i) {
				return
			}
		}
	}
}

func inlined(n int) iter.Seq[int] {
	return func(yield func(int) bool) {
		for i := 0; i < n; i++ {
			if !yield(i) {
				return
			}
		}
	}
}

//go:noinline
func inlinedIteratorBefore(all iter.Seq[int]) (sum int) {
	for i := range all {
		sum += i
	}
	return sum
}

//go:noinline
func inlinedIteratorAfter(n int) (sum int) {
	for i := range inlined(n) {
		sum += i
	}
	return sum
}

//go:noinline
func inlinedIteratorSlice(numbers []int) (sum int) {
	for _, i := range numbers {
		sum += i
	}
	return sum
}

//go:noinline
func sentValueBefore(n int) int { queue <- &Point{n, 2}; return (<-queue).X }

//go:noinline
func sentValueAfter(n int) int { values1 <- Point{n, 2}; return (<-values1).X }

//go:noinline
func mapOfValuesBefore(name *string, n int) { byPointer[name] = n }

var (
	byPointer = map[*string]int{}
	byString  = map[string]int{}
)

//go:noinline
func mapOfValuesKey(n int) {
	key := "a"
	if n < 0 {
		key = "b"
	}
	clear(byPointer)
	byPointer[&key] = n
}

//go:noinline
func mapOfValuesAfter(n int) {
	key := "a"
	if n < 0 {
		key = "b"
	}
	clear(byString)
	byString[key] = n
}

//go:noinline
func sliceOfValuesBefore(n int) { points = append(points[:0], &Point{n, 2}, &Point{n, 3}) }

//go:noinline
func sliceOfValuesAfter(n int) { values = append(values[:0], Point{n, 2}, Point{n, 3}) }

//go:noinline
func oneArrayBefore(words []string) {
	parts = parts[:0]
	for _, word := range words {
		parts = append(parts, make([]byte, len(word)))
	}
}

//go:noinline
func oneArrayAfter(words []string) {
	parts = parts[:0]
	whole := make([]byte, 100)
	for _, word := range words {
		parts = append(parts, whole[:len(word):len(word)])
		whole = whole[len(word):]
	}
}

//go:noinline
func ownMethodsBefore(data []byte, b []byte) int {
	in := &Reader{data: data}
	return readAll(in, b)
}

// Reader reads bytes.
type Reader struct {
	data []byte
	at   int
}

// Read is io.Reader's.
func (r *Reader) Read(b []byte) int { n := copy(b, r.data[r.at:]); r.at += n; return n }

//go:noinline
func readAll(r interface{ Read([]byte) int }, b []byte) int { return r.Read(b) }

//go:noinline
func ownMethodsAfter(data []byte, b []byte) int {
	in := &Reader{data: data}
	return in.Read(b)
}

//go:noinline
func keepsPoint(p *Point) { keptPoint = p }

//go:noinline
func reads(p Point) int { return p.X }

//go:noinline
func passedValueBefore(n int) { p := Point{n, 2}; keepsPoint(&p) }

//go:noinline
func passedValueAfter(n int) { p := Point{n, 2}; number = reads(p) }

//go:noinline
func readsPointer(p *Point) int { return p.X }

//go:noinline
func passedValueNotKept(n int) { p := Point{n, 2}; number = readsPointer(&p) }

// Holder has a pointer, or a value.
type Holder struct {
	pointer *Point
	value   Point
}

//go:noinline
func storedValueBefore(h *Holder, n int) { h.pointer = &Point{n, 2} }

//go:noinline
func storedValueAfter(h *Holder, n int) { h.value = Point{n, 2} }

//go:noinline
func partByValueBefore(n int) *Holder { return &Holder{pointer: &Point{n, 2}} }

//go:noinline
func partByValueAfter(n int) *Holder { return &Holder{value: Point{n, 2}} }

//go:noinline
func insideLoopBefore(n int) int {
	var last *int
	for i := 0; i < n; i++ {
		last = new(int)
		*last = i
	}
	return *last
}

//go:noinline
func insideLoopAfter(n int) (sum int) {
	for i := 0; i < n; i++ {
		last := new(int)
		*last = i
		sum = *last
	}
	return sum
}

//go:noinline
func insideLoopOutside(n int) int {
	var one int
	for i := 0; i < n; i++ {
		last := &one
		*last = i
	}
	return one
}

// Room refers to itself.
type Room struct {
	part []int
	room [4]int
}

//go:noinline
func lateReferenceBefore() Room { var r Room; r.part = r.room[:0]; return r }

//go:noinline
func lateReferenceAfter() Room { var r Room; return r }

//go:noinline
func workerBefore(n int) int { go func() { done <- n }(); return <-done }

var job = func() { done <- number }

//go:noinline
func workerAfter(n int) int { number = n; work <- job; return <-done }

//go:noinline
func loopBodyBefore(numbers []int) {
	for _, n := range numbers {
		defer func() { number += n }()
	}
}

//go:noinline
func loopBodyAfter(numbers []int) {
	for _, n := range numbers {
		once(n)
	}
}

func once(n int) { defer func() { number += n }() }

//go:noinline
func growBefore(words []string) string {
	var all strings.Builder
	for _, word := range words {
		all.WriteString(word)
	}
	return all.String()
}

//go:noinline
func growAfter(words []string) string {
	var all strings.Builder
	all.Grow(80)
	for _, word := range words {
		all.WriteString(word)
	}
	return all.String()
}

//go:noinline
func keptChannelBefore() chan int { return make(chan int, 1) }

//go:noinline
func keptChannelAfter() chan int { return done }

//go:noinline
func noReflectionBefore(p *Point) any { return reflect.New(reflect.TypeFor[Point]()).Interface() }

//go:noinline
func noReflectionAfter(p *Point) *Point { return p }

//go:noinline
func keptTimerBefore() *time.Timer { return time.NewTimer(time.Hour) }

//go:noinline
func keptTimerAfter() *time.Timer { timer.Reset(time.Hour); return timer }

var _ = slices.Values[[]int]
