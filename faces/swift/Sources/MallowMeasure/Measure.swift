/// Measured regions for Swift: `mallow.h`, in the shape of SwiftNIO's allocation tests. No effect without Mallow.
///
///     func run(identifier: String) {
///         measure(identifier: identifier) {
///             let rows = parse(document)
///             return rows.count
///         }
///     }
///
/// Under `mallow test` the body runs as often as the test wants, and what each run allocates is counted; without Mallow it
/// runs once. It returns how many operations it performed, or 0.
import CMallow
import Dispatch

/// What is counted.
public enum Scope: UInt32, Sendable {
    /// What all threads allocate. Begin and end wait until the other threads are quiet.
    case wholeProcess = 0
    /// What the calling thread allocates.
    case thisThread = 1
}

/// What the library calls has no room for a closure but behind a pointer.
private final class Body {
    let run: () -> Int

    init(_ run: @escaping () -> Int) {
        self.run = run
    }
}

/// Runs `body`: once, or, where `mallow test` says so, some times to warm up and then some times measured.
///
/// `trackFDs` is there for tests that come from SwiftNIO: descriptors are always counted.
public func measure(identifier: String, trackFDs: Bool = true, _ body: () -> Int) {
    measure(identifier: identifier, trackFDs: trackFDs, scope: .wholeProcess, body)
}

/// The same in a scope. A function of its own: with a default here the compiler took the one for bodies that wait, which has
/// fewer of them, and the cost of a task was counted.
public func measure(identifier: String, trackFDs: Bool = true, scope: Scope, _ body: () -> Int) {
    withoutActuallyEscaping(body) { body in
        let context = Body(body)
        withExtendedLifetime(context) {
            let call: mallow_function = { Unmanaged<Body>.fromOpaque($0!).takeUnretainedValue().run() }
            mallow_measure_in(identifier, call, Unmanaged.passUnretained(context).toOpaque(), scope.rawValue)
        }
    }
}

/// Written before a group is left, and read after the wait for it. One for all: a task's closure holds what SwiftNIO's does, and no more.
private final class Performed: @unchecked Sendable {
    var operations = 0
}

private let performed = Performed()

/// The same with a body that waits for others: in a task of its own, behind a group, as SwiftNIO's tests do it. What these cost is counted
/// with the body, there and here, so that limits from there hold.
@available(macOS 10.15, iOS 13, tvOS 13, watchOS 6, *)
public func measure(identifier: String, trackFDs: Bool = true, _ body: @escaping () async -> Int) {
    performed.operations = 0
    measure(identifier: identifier, scope: .wholeProcess) {
        let group = DispatchGroup()
        group.enter()
        Task {
            performed.operations = await body()
            group.leave()
        }
        group.wait()
        return performed.operations
    }
}

/// How many operations the test wants a run to perform; `otherwise` where it does not say.
public func operations(otherwise: Int) -> Int {
    mallow_operations(otherwise)
}

/// A measured run from its making to its end, for code that is no function. Its own blocks are made before it begins and
/// go after it has ended.
public final class Region {
    private let region = UnsafeMutablePointer<mallow_region>.allocate(capacity: 1)
    private let name: UnsafeMutableBufferPointer<CChar>
    private var open = true

    public init(_ name: String, scope: Scope = .wholeProcess) {
        let text = name.utf8CString
        self.name = .allocate(capacity: text.count)
        _ = self.name.initialize(from: text)
        region.initialize(to: mallow_region())
        mallow_begin(region, self.name.baseAddress, scope.rawValue)
    }

    /// Ends it; `operations` were performed, or 0. It ends once.
    public func end(operations: Int = 0) {
        if open {
            open = false
            mallow_end(region, operations)
        }
    }

    deinit {
        end()
        region.deallocate()
        name.deallocate()
    }
}
