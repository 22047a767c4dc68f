// swift-tools-version:5.9
// So that SwiftPM takes the measured regions by the address of this repository; faces/swift is the same, with its example.
import PackageDescription

let package = Package(
    name: "mallow-measure",
    products: [.library(name: "MallowMeasure", targets: ["MallowMeasure"])],
    targets: [
        .systemLibrary(name: "CMallow", path: "faces/swift/Sources/CMallow"),
        .target(name: "MallowMeasure", dependencies: ["CMallow"], path: "faces/swift/Sources/MallowMeasure"),
    ]
)
