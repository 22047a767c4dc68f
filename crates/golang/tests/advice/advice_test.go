package advice

import "testing"

// Each benchmark is named after a suggestion: Before has the allocation, all others have what is suggested in its place.

var (
	buf     = make([]byte, 0, 1000)
	numbers = make([]int, 0, 100)
	three   = []int{1, 2, 3}
	counts  = map[string]int{}
	holder  Holder
	sink    Sink
	room    Room
	f       = func() int { return number }
	channel chan int
	counter func() int
	result  *Point
	whole   *Holder
	seq     = all(3)
	text    = "a text of more than thirty-two bytes, which no stack has room for"
)

func run(b *testing.B, f func()) {
	for i := 0; i < b.N; i++ {
		f()
	}
}

func BenchmarkAppendTextBefore(b *testing.B) { run(b, func() { keptText = appendTextBefore(words) }) }
func BenchmarkAppendTextAfter(b *testing.B)  { run(b, func() { keptText = appendTextAfter(words) }) }
func BenchmarkAppendTextKept(b *testing.B)   { run(b, func() { appendTextKept(words) }) }

func BenchmarkOneOfBothBefore(b *testing.B) { run(b, func() { keptBytes = oneOfBothBefore(text) }) }
func BenchmarkOneOfBothAfter(b *testing.B)  { run(b, func() { buf = oneOfBothAfter(buf[:0], text) }) }

func BenchmarkKeptSliceBefore(b *testing.B) { run(b, func() { keptSliceBefore(20) }) }
func BenchmarkKeptSliceAfter(b *testing.B)  { run(b, func() { keptSliceAfter(20) }) }
func BenchmarkKeptSliceMade(b *testing.B)   { run(b, func() { keptSliceMade(20) }) }

func BenchmarkCallersSliceBefore(b *testing.B) {
	run(b, func() { keptNumbers = callersSliceBefore(3) })
}
func BenchmarkCallersSliceAfter(b *testing.B) {
	run(b, func() { numbers = callersSliceAfter(numbers[:0], 3) })
}

func BenchmarkKeptMapBefore(b *testing.B) { run(b, func() { keptMapBefore(100) }) }
func BenchmarkKeptMapAfter(b *testing.B) {
	keptSquares = make(map[int]int, 100)
	run(b, func() { keptMapAfter(100) })
}

func BenchmarkSizedMapBefore(b *testing.B) { run(b, func() { sizedMapBefore(100) }) }
func BenchmarkSizedMapAfter(b *testing.B)  { run(b, func() { sizedMapAfter(100) }) }

func BenchmarkCallersMapBefore(b *testing.B) { run(b, func() { keptMap = callersMapBefore(words) }) }
func BenchmarkCallersMapAfter(b *testing.B)  { run(b, func() { callersMapAfter(counts, words) }) }

func BenchmarkFormatBefore(b *testing.B) { run(b, func() { formatBefore(123456) }) }
func BenchmarkFormatAfter(b *testing.B)  { run(b, func() { buf = formatAfter(buf[:0], 123456) }) }

func BenchmarkFormatTextBefore(b *testing.B) { run(b, func() { keptText = formatTextBefore(123456) }) }
func BenchmarkFormatTextAfter(b *testing.B)  { run(b, func() { keptText = formatTextAfter(123456) }) }

func BenchmarkKeptArgumentsBefore(b *testing.B) { run(b, func() { keptArgumentsBefore(1) }) }
func BenchmarkKeptArgumentsAfter(b *testing.B)  { run(b, func() { keptArgumentsAfter(three, 1) }) }

func BenchmarkOneClosureBefore(b *testing.B)    { run(b, func() { oneClosureBefore(1000) }) }
func BenchmarkOneClosureAfter(b *testing.B)     { run(b, func() { oneClosureAfter(f) }) }
func BenchmarkOneClosureArguments(b *testing.B) { run(b, func() { oneClosureArguments(1000) }) }

func BenchmarkMethodBefore(b *testing.B) { run(b, func() { counter = methodBefore(1) }) }
func BenchmarkMethodAfter(b *testing.B) {
	run(b, func() { counter := methodAfter(1); number = counter.Next() })
}

func BenchmarkDirectCallBefore(b *testing.B) { run(b, func() { counter = directCallBefore(&point) }) }
func BenchmarkDirectCallAfter(b *testing.B)  { run(b, func() { number = directCallAfter(&point) }) }

func BenchmarkCallersBufferBefore(b *testing.B) { run(b, func() { callersBufferBefore(1000) }) }
func BenchmarkCallersBufferAfter(b *testing.B) {
	run(b, func() { callersBufferAfter(buf[:1000], 1000) })
}

func BenchmarkConstantSizeBefore(b *testing.B) { run(b, func() { number = constantSizeBefore(1000) }) }
func BenchmarkConstantSizeAfter(b *testing.B)  { run(b, func() { number = constantSizeAfter(1000) }) }
func BenchmarkConstantSizeBuffer(b *testing.B) {
	run(b, func() { number = constantSizeBuffer(buf, 1000) })
}

func BenchmarkConcreteBefore(b *testing.B)  { run(b, func() { concreteBefore(1000) }) }
func BenchmarkConcreteAfter(b *testing.B)   { run(b, func() { concreteAfter(1000) }) }
func BenchmarkConcretePointer(b *testing.B) { run(b, func() { concretePointer(&point) }) }

func BenchmarkKnownCalleeBefore(b *testing.B) { run(b, func() { knownCalleeBefore(&sink, 1) }) }
func BenchmarkKnownCalleeAfter(b *testing.B)  { run(b, func() { knownCalleeAfter(&sink, 1) }) }

func BenchmarkKeptBefore(b *testing.B) { run(b, func() { number = keptBefore(5) }) }
func BenchmarkKeptAfter(b *testing.B)  { run(b, func() { number = keptAfter(5) }) }

func BenchmarkByValueBefore(b *testing.B) { run(b, func() { result = byValueBefore(1) }) }
func BenchmarkByValueAfter(b *testing.B)  { run(b, func() { point = byValueAfter(1) }) }
func BenchmarkByValueFilled(b *testing.B) { run(b, func() { byValueFilled(&point, 1) }) }

func BenchmarkCapturedCopyBefore(b *testing.B) { run(b, func() { capturedCopyBefore(1) }) }
func BenchmarkCapturedCopyAfter(b *testing.B)  { run(b, func() { capturedCopyAfter(1) }) }

func BenchmarkInlinedIteratorBefore(b *testing.B) {
	run(b, func() { number = inlinedIteratorBefore(seq) })
}
func BenchmarkInlinedIteratorAfter(b *testing.B) { run(b, func() { number = inlinedIteratorAfter(3) }) }
func BenchmarkInlinedIteratorSlice(b *testing.B) {
	run(b, func() { number = inlinedIteratorSlice(three) })
}

func BenchmarkSentValueBefore(b *testing.B) { run(b, func() { number = sentValueBefore(1) }) }
func BenchmarkSentValueAfter(b *testing.B)  { run(b, func() { number = sentValueAfter(1) }) }

func BenchmarkMapOfValuesBefore(b *testing.B) { run(b, func() { mapOfValuesKey(1) }) }
func BenchmarkMapOfValuesAfter(b *testing.B)  { run(b, func() { mapOfValuesAfter(1) }) }

func BenchmarkSliceOfValuesBefore(b *testing.B) { run(b, func() { sliceOfValuesBefore(1) }) }
func BenchmarkSliceOfValuesAfter(b *testing.B)  { run(b, func() { sliceOfValuesAfter(1) }) }

func BenchmarkOneArrayBefore(b *testing.B) { run(b, func() { oneArrayBefore(words) }) }
func BenchmarkOneArrayAfter(b *testing.B)  { run(b, func() { oneArrayAfter(words) }) }

func BenchmarkOwnMethodsBefore(b *testing.B) { run(b, func() { number = ownMethodsBefore(buf, buf) }) }
func BenchmarkOwnMethodsAfter(b *testing.B)  { run(b, func() { number = ownMethodsAfter(buf, buf) }) }

func BenchmarkPassedValueBefore(b *testing.B)  { run(b, func() { passedValueBefore(1) }) }
func BenchmarkPassedValueAfter(b *testing.B)   { run(b, func() { passedValueAfter(1) }) }
func BenchmarkPassedValueNotKept(b *testing.B) { run(b, func() { passedValueNotKept(1) }) }

func BenchmarkStoredValueBefore(b *testing.B) { run(b, func() { storedValueBefore(&holder, 1) }) }
func BenchmarkStoredValueAfter(b *testing.B)  { run(b, func() { storedValueAfter(&holder, 1) }) }

func BenchmarkPartByValueBefore(b *testing.B) { run(b, func() { whole = partByValueBefore(1) }) }
func BenchmarkPartByValueAfter(b *testing.B)  { run(b, func() { whole = partByValueAfter(1) }) }

func BenchmarkInsideLoopBefore(b *testing.B)  { run(b, func() { number = insideLoopBefore(3) }) }
func BenchmarkInsideLoopAfter(b *testing.B)   { run(b, func() { number = insideLoopAfter(3) }) }
func BenchmarkInsideLoopOutside(b *testing.B) { run(b, func() { number = insideLoopOutside(3) }) }

func BenchmarkLateReferenceBefore(b *testing.B) { run(b, func() { room = lateReferenceBefore() }) }
func BenchmarkLateReferenceAfter(b *testing.B)  { run(b, func() { room = lateReferenceAfter() }) }

func BenchmarkWorkerBefore(b *testing.B) { run(b, func() { number = workerBefore(1) }) }
func BenchmarkWorkerAfter(b *testing.B)  { run(b, func() { number = workerAfter(1) }) }

func BenchmarkLoopBodyBefore(b *testing.B) { run(b, func() { loopBodyBefore(three) }) }
func BenchmarkLoopBodyAfter(b *testing.B)  { run(b, func() { loopBodyAfter(three) }) }

func BenchmarkGrowBefore(b *testing.B) { run(b, func() { keptText = growBefore(words) }) }
func BenchmarkGrowAfter(b *testing.B)  { run(b, func() { keptText = growAfter(words) }) }

func BenchmarkKeptChannelBefore(b *testing.B) { run(b, func() { channel = keptChannelBefore() }) }
func BenchmarkKeptChannelAfter(b *testing.B)  { run(b, func() { channel = keptChannelAfter() }) }

func BenchmarkNoReflectionBefore(b *testing.B) {
	run(b, func() { keptAny = noReflectionBefore(&point) })
}
func BenchmarkNoReflectionAfter(b *testing.B) { run(b, func() { result = noReflectionAfter(&point) }) }

func BenchmarkKeptTimerBefore(b *testing.B) { run(b, func() { timer = keptTimerBefore() }) }
func BenchmarkKeptTimerAfter(b *testing.B)  { run(b, func() { timer = keptTimerAfter() }) }
