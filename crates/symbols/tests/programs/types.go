// Types of which some contain locks and some refer to others of their own type. Each function makes one.
package main

import "sync"

type inner struct {
	locks [2]sync.Mutex
	n     int
}

type guardedType struct {
	name string
	in   inner
}

type pointingType struct {
	lock *sync.Mutex
	all  []inner
}

type listType struct {
	next *listType
	n    int
}

type treeType struct{ below []*treeType }

type graphType struct{ edges struct{ to map[string]*graphType } }

type instanceType[T any] struct {
	next  *instanceType[T]
	value T
}

var (
	kept  any
	one   *guardedType
	two   *pointingType
	three *listType
	four  *treeType
	five  *graphType
	six   *instanceType[int]
)

//go:noinline
func guarded() { one = &guardedType{} }

//go:noinline
func pointing() { two = &pointingType{} }

//go:noinline
func list() { three = &listType{} }

//go:noinline
func tree() { four = &treeType{} }

//go:noinline
func graph() { five = &graphType{} }

func push[T any](head *instanceType[T], value T) *instanceType[T] {
	return &instanceType[T]{next: head, value: value}
}

//go:noinline
func instance() { six = push(six, 1) }

func main() {
	guarded()
	pointing()
	list()
	tree()
	graph()
	instance()
	kept = []any{one, two, three, four, five, six}
}
