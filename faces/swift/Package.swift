// swift-tools-version:5.9
import PackageDescription

let package = Package(
    name: "mallow-measure",
    products: [.library(name: "MallowMeasure", targets: ["MallowMeasure"])],
    targets: [
        .systemLibrary(name: "CMallow"),
        .target(name: "MallowMeasure", dependencies: ["CMallow"]),
        .executableTarget(name: "JoinWords", dependencies: ["MallowMeasure"]),
    ]
)
