//! `mallow test --swift-package`: the package with which Swift programs measure regions, written where SwiftPM takes it
//! from.

use std::fs;
use std::io::Write;
use std::path::Path;

pub const HEADER: &str = include_str!("../../../../preload/include/mallow.h");

/// Files of the package, by their paths in it. The example that the sources have is left out.
const FILES: [(&str, &str); 4] = [
    (
        "Package.swift",
        "// swift-tools-version:5.9\n\
         // Written by mallow test --swift-package.\n\
         import PackageDescription\n\
         \n\
         let package = Package(\n    \
             name: \"mallow-measure\",\n    \
             products: [.library(name: \"MallowMeasure\", targets: [\"MallowMeasure\"])],\n    \
             targets: [\n        \
                 .systemLibrary(name: \"CMallow\"),\n        \
                 .target(name: \"MallowMeasure\", dependencies: [\"CMallow\"]),\n    \
             ]\n\
         )\n",
    ),
    ("Sources/CMallow/mallow.h", HEADER),
    ("Sources/CMallow/module.modulemap", include_str!("../../../../faces/swift/Sources/CMallow/module.modulemap")),
    (
        "Sources/MallowMeasure/Measure.swift",
        include_str!("../../../../faces/swift/Sources/MallowMeasure/Measure.swift"),
    ),
];

/// Writes the package. Returns a summary with the lines that a `Package.swift` needs; an error is one line. Files that
/// are there with other text are left as they are, and nothing is written: `directory` may be something else than it
/// seems.
pub fn write(directory: &Path) -> Result<String, String> {
    let shown = directory.display();
    for (name, text) in FILES {
        let path = directory.join(name);
        match fs::read(&path) {
            Ok(old) if old != text.as_bytes() => {
                return Err(format!("{} is there already, with other text; name an empty directory", path.display()));
            }
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(format!("cannot read {}: {error}", path.display())),
        }
    }
    for (name, text) in FILES {
        let path = directory.join(name);
        let failed = |error| format!("cannot write {}: {error}", path.display());
        if path.exists() {
            continue;
        }
        path.parent().map_or(Ok(()), fs::create_dir_all).map_err(failed)?;
        let mut file = fs::File::create_new(&path).map_err(failed)?;
        file.write_all(text.as_bytes()).map_err(failed)?;
    }
    Ok(format!(
        "{shown}: the package mallow-measure. In your Package.swift:\n  \
         dependencies: [.package(name: \"mallow-measure\", path: \"{shown}\")]\n  \
         and of a target: .product(name: \"MallowMeasure\", package: \"mallow-measure\")\n"
    ))
}
