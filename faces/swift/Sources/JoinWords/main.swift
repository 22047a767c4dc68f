import MallowMeasure

run(identifier: "test_join_words")

let region = Region("keep", scope: .thisThread)
let kept = [Int](repeating: CommandLine.argc > 100 ? 1 : 0, count: 1000)
region.end(operations: 1)
print(kept.count)
