use super::{function, without_copies};

/// Rows: mangled, as `swift demangle` has it, our short form, its module, whether the compiler made it. The short forms
/// are those of `swift demangle --simplified` but for what is in angle brackets.
const ROWS: &str = include_str!("../../../../../tests/names/swift.tsv");

#[test]
fn five_hundred_names_of_real_libraries() {
    let mut checked = 0;
    for row in ROWS.lines() {
        let columns: Vec<&str> = row.split('\t').collect();
        let [_, whole, short, module, synthesized] = columns[..] else { panic!("five columns: {row}") };
        let read = function(whole).unwrap_or_else(|| panic!("{whole}"));
        assert_eq!(read.short, short, "{whole}");
        assert_eq!((read.module.unwrap_or("-"), read.synthesized), (module, synthesized == "true"), "{whole}");
        checked += 1;
    }
    assert_eq!(checked, 500);
}

#[test]
fn what_was_cut_or_as_long_as_a_page() {
    for (whole, short) in [
        (
            "generic specialization <NIOHTTP1.HTTPHeaders, Swift.String, Swift.Never> of (extension in Swift):Swift.Sequence.map<A, B where B1: Swift.Error>((A.Element) throws(B1) -> A1) throws(B1) -> [A1]",
            "specialized Sequence.map(_:)",
        ),
        (
            "(extension in NIOCore):Swift.String.init(buffer: NIOCore.ByteBuffer) -> Swift.String",
            "String.init(buffer:)",
        ),
        (
            "partial apply forwarder for reabstraction thunk helper from @escaping @callee_guaranteed (@in_guaranteed NIOCore.Channel) -> (@out ()) to @escaping @callee_guaranteed (@guaranteed NIOCore.Channel) -> ()",
            "partial apply for thunk for (Channel) -> (())",
        ),
        (
            "function signature specialization <Arg[0] = [Closure Propagated : closure #1 (Swift.Int32) -> () in NIOPosix.Selector.f() -> (), Argument Types : [NIOPosix.Selector]> of merged generic specialization <A> of static NIOPosix.Thread.spawn(name: Swift.String?, _: (A) -> ()) -> ()",
            "specialized static Thread.spawn(name:_:)",
        ),
        ("static Swift.Comparable.< infix(A, A) -> Swift.Bool", "static Comparable.< infix(_:_:)"),
        ("app.Pair.(in _4F71A82B8274C31663F264B9B041CCCC).init(A, b: B) -> app.Pair", "Pair.init(_:b:)"),
        ("closure #2 (A) -> B in append #1 <A>(_: A) -> () in app.f(x: [A : B]) -> ()", "closure #2 in f(x:)"),
        ("(3) await resume partial function for app.Server.run() async throws -> ()", "Server.run()"),
        // As other tools have shortened them.
        ("specialized HTTPHeaders.add(name:value:)", "specialized HTTPHeaders.add(name:value:)"),
        ("HTTPHeaders.add(name:value:)", "HTTPHeaders.add(name:value:)"),
        ("partial apply for closure #1 in Loop.run()", "partial apply for closure #1 in Loop.run()"),
    ] {
        assert_eq!(function(whole).map(|read| read.short).as_deref(), Some(short), "{whole}");
    }
}

#[test]
fn names_of_other_languages_are_none() {
    for name in [
        "main",
        "main.(*Server).handle",
        "github.com/a/b.T.deinit",
        "java.util.HashMap.resize()",
        "a::operator->()",
        "core::ops::function::FnOnce::call_once::<fn(f32) -> u8>",
        "vtable for QObject",
        "run(int, char)",
        "",
    ] {
        assert_eq!(function(name), None, "{name}");
    }
}

#[test]
fn hostile_names_end() {
    let deep = |part: &str| format!("closure #1 {}", part.repeat(20_000));
    let names = [
        deep("in closure #1 "),
        deep("(a #1 in "),
        format!("merged {}", "generic specialization <".repeat(20_000)),
        "merged ".repeat(50_000),
        "(extension in a):".repeat(50_000),
        format!("static a.{}", "(b in c #1 in ".repeat(20_000)),
        "partial apply forwarder for ".repeat(20_000),
        "static .<\u{e9}> infix(".to_owned(),
    ];
    for name in &names {
        let _ = (function(name), without_copies(name));
    }
}
