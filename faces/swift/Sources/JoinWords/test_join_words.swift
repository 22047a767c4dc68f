// A test as SwiftNIO has them: `run(identifier:)` measures under the name that it is given.
import MallowMeasure

private let words = ["how", "many", "allocations", "are", "there", "in", "these", "words"]

@inline(never)
private func join(_ words: [String]) -> String {
    var text = ""
    for word in words {
        text += word
        text += " "
    }
    return text
}

func run(identifier: String) {
    measure(identifier: identifier) {
        let count = operations(otherwise: 1000)
        var length = 0
        for _ in 0..<count {
            length += join(words).utf8.count
        }
        return length > 0 ? count : 0
    }
    measure(identifier: identifier + ".fds", trackFDs: true) {
        join(words).isEmpty ? 0 : 1
    }
    measure(identifier: identifier + ".task") { () async -> Int in
        await Task { join(words).isEmpty ? 0 : 1 }.value
    }
}
