use super::libraries::LIBRARIES;
use super::library::{is_module, is_source};
use super::purpose;
use crate::analysis::stacks::function_kind::{FunctionKind, classify};

/// A declaration of C or C++ with this short name, as demanglers print it.
fn demangled(name: &str) -> String {
    let name = name.replace("<…>", "<Row>");
    if name.contains("::") { format!("{name}(unsigned long)") } else { name }
}

#[test]
fn a_namesake_in_a_program_of_ones_own_is_the_programs_own() {
    let mut names = 0;
    for library in LIBRARIES {
        for name in library.allocators.iter().chain(library.containers) {
            names += 1;
            for (file, module) in [
                (None, Some("/home/me/app/bin/app")),
                (Some("/home/me/app/src/app.cpp"), Some("/home/me/app/bin/app")),
                (Some("src/app.c"), Some("/usr/local/lib/libapp.so.1")),
                (None, None),
            ] {
                for name in [demangled(name), format!("__{}", demangled(name)), format!("{}.part.0", demangled(name))] {
                    let own = classify(Some(&name), file, module);
                    assert_eq!(own, FunctionKind::Own, "{name} of {file:?} in {module:?}");
                }
            }
        }
    }
    assert!(names > 200, "{names}");
}

#[test]
fn a_librarys_function_is_known_by_its_module_and_by_its_source() {
    for library in LIBRARIES {
        let lists = [(library.allocators, FunctionKind::Allocator), (library.containers, FunctionKind::Runtime)];
        for (name, expected) in lists.into_iter().flat_map(|(list, kind)| list.iter().map(move |name| (*name, kind))) {
            for module in library.modules {
                let path =
                    if module.starts_with("lib") { format!("/lib/{module}.so.1") } else { format!("/bin/{module}") };
                assert_eq!(classify(Some(&demangled(name)), None, Some(&path)), expected, "{name} in {path}");
            }
            for source in library.sources {
                let source = source.trim_start_matches('/');
                let path =
                    if source.ends_with('/') { format!("/build/{source}x.c") } else { format!("/build/{source}") };
                let statically_linked = classify(Some(&demangled(name)), Some(&path), Some("/home/me/app/bin/app"));
                assert_eq!(statically_linked, expected, "{name} of {path}");
            }
        }
    }
}

#[test]
fn modules_have_a_name_and_what_may_stand_around_it() {
    for (path, name) in [
        ("/lib/libcrypto.so.3", "libcrypto"),
        ("/opt/numpy.libs/libcrypto-1a2b3c4d.so.1.1", "libcrypto"),
        ("/usr/lib/libglib-2.0.so.0", "libglib"),
        ("/usr/lib/libpython3.12.so.1.0", "libpython"),
        ("/usr/bin/python3.12", "python"),
        ("/usr/bin/x86_64-linux-gnu-gcc-12", "gcc"),
        ("/usr/bin/aarch64-linux-gnu-as", "as"),
        ("/np/_multiarray_umath.cpython-312-x86_64-linux-gnu.so", "_multiarray_umath"),
        ("redis-server", "redis-server"),
    ] {
        assert!(is_module(path, name), "{path} {name}");
    }
    for (path, name) in [
        ("/usr/bin/gitlab", "git"),
        ("/usr/bin/git-stats", "git"),
        ("/home/me/node-editor", "node"),
        ("/home/me/my-gcc", "gcc"),
        ("/usr/bin/assembler", "as"),
        ("/lib/libcryptopp.so.8", "libcrypto"),
        ("/opt/redis-server/app", "redis-server"),
        ("", "git"),
    ] {
        assert!(!is_module(path, name), "{path} {name}");
    }
}

#[test]
fn sources_are_whole_parts_of_a_path() {
    assert!(is_source("/build/sqlite3.c", "sqlite3.c") && is_source("crypto/mem.c", "crypto/mem.c"));
    assert!(is_source("/b/openssl/crypto/mem.c", "crypto/mem.c") && is_source("/b/gnulib/lib/x.c", "/gnulib/"));
    assert!(!is_source("/home/me/mycrypto/mem.c", "crypto/mem.c") && !is_source("/home/me/mysqlite3.c", "sqlite3.c"));
    assert_eq!(purpose("xmalloc", Some("/home/me/src/libiberty.c"), None), None);
}
