//! What the functions of the runtime are called for.

use super::{Allocation, Appended, Call};
use crate::advice::Advice;
use crate::chain;
use crate::model::{Diagnostic, Kind, Verdict};

/// An allocation as the runtime explains it.
pub(super) struct RuntimeCause {
    pub what: String,
    /// Reason of the runtime; empty where it has none.
    pub reason: String,
    pub remedy: Option<Advice>,
    /// Whether this is the reason, whatever the compiler says of the value.
    pub decides: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Family {
    Object,
    Slice,
    Grow,
    Move,
    Concatenation,
    Conversion,
    Box,
    Channel,
    Map,
    MapGrowth,
    Goroutine,
    Buffer,
    Reflection,
    Finalizer,
    Blocking,
    Defer,
    Timer,
    Text,
    TypeCache,
    Collector,
    Statistics,
    Linked,
}

impl Family {
    pub fn of(callee: &str) -> Option<Self> {
        let name = callee.strip_suffix(".abi0").unwrap_or(callee);
        let Some(name) = name.strip_prefix("runtime.") else {
            return match name {
                _ if name.starts_with("internal/runtime/maps.") => Some(Self::MapGrowth),
                "internal/bytealg.MakeNoZero" => Some(Self::Buffer),
                _ if name.starts_with("reflect.") || name.starts_with("internal/reflectlite.") => {
                    Some(Self::Reflection)
                }
                "maps.clone" => Some(Self::Map),
                "time.newTimer" => Some(Self::Timer),
                _ if name.contains("runtime_Semacquire") || name.contains("runtime_notifyListWait") => {
                    Some(Self::Blocking)
                }
                _ => None,
            };
        };
        Some(match name {
            "newobject" | "persistentalloc" => Self::Object,
            // Compilers call these for no expression.
            "newarray" | "mapiterinit" => Self::Linked,
            _ if name.starts_with("mallocgc") => Self::Object,
            _ if name.starts_with("makeslice") => Self::Slice,
            _ if name.starts_with("growslice") => Self::Grow,
            // Go 1.26: a slice that was built on the stack is copied where it escapes.
            _ if name.starts_with("moveSlice") => Self::Move,
            _ if name.starts_with("concatstring") || name.starts_with("concatbyte") => Self::Concatenation,
            "stringtoslicebyte" | "stringtoslicerune" | "slicebytetostring" | "slicerunetostring" | "intstring" => {
                Self::Conversion
            }
            "rawstring" | "rawbyteslice" | "rawruneslice" | "rawstringtmp" => Self::Conversion,
            _ if name.starts_with("convT") => Self::Box,
            _ if name.starts_with("makechan") => Self::Channel,
            _ if name.starts_with("makemap") => Self::Map,
            _ if name.starts_with("mapassign") || name.starts_with("mapaccess") || name.starts_with("mapdelete") => {
                Self::MapGrowth
            }
            "mapclone" | "mapclear" => Self::Map,
            "newproc" => Self::Goroutine,
            "SetFinalizer" | "AddCleanup" => Self::Finalizer,
            "chansend1" | "chanrecv1" | "chanrecv2" | "selectgo" | "block" | "selectnbsend" | "selectnbrecv" => {
                Self::Blocking
            }
            "deferproc" | "deferprocat" | "deferrangefunc" | "deferprocStack" => Self::Defer,
            "newTimer" => Self::Timer,
            "GC" => Self::Collector,
            "ReadMemStats" => Self::Statistics,
            "typeAssert" | "interfaceSwitch" => Self::TypeCache,
            "gostring" | "gostringn" | "gobytes" | "Stack" | "Caller" | "Callers" | "CallersFrames"
            | "(*Frames).Next" => Self::Text,
            _ => return None,
        })
    }

    /// The kind that these functions allocate; None where it is not one alone.
    pub fn meant(self) -> Option<Kind> {
        Some(match self {
            Self::Slice => Kind::Make,
            Self::Box => Kind::Boxed,
            Self::Channel => Kind::MakeChan,
            Self::Map => Kind::MakeMap,
            Self::Grow => Kind::Append,
            _ => return None,
        })
    }

    /// Kinds that the compiler may give to an expression that makes this call.
    pub fn kinds(self, call: &Call) -> &'static [Kind] {
        use Kind::*;
        match self {
            Self::Object if is_method_value(call) => &[MethodValue, Boxed],
            // A function literal's memory begins with its code.
            Self::Object if call.of.as_ref().is_some_and(|of| of.name.starts_with("struct { F uintptr")) => {
                &[Closure, LoopBody, MethodValue]
            }
            Self::Object => {
                // The bytes of a constant are an array that is copied.
                &[
                    Composite,
                    New,
                    NewValue,
                    Variable,
                    SliceLiteral,
                    Variadic,
                    Boxed,
                    Make,
                    MapLiteral,
                    MakeMap,
                    Append,
                    Conversion,
                    Other,
                ]
            }
            Self::Slice => &[Make, Conversion, Append, Other],
            Self::Grow => &[Append, Other],
            // What appended to it: mostly on another line than the one where it escapes.
            Self::Move => &[Append],
            Self::Concatenation => &[Concatenation],
            Self::Conversion => &[Conversion],
            // A sum of numbers looks like one of strings.
            Self::Box => &[Boxed, Concatenation, Conversion, Other],
            Self::Channel => &[MakeChan, Make],
            Self::Map => &[MakeMap, MapLiteral, Make],
            Self::Goroutine => &[Closure],
            Self::MapGrowth => &[MapLiteral],
            _ => &[],
        }
    }
}

/// Whether the call puts a value into an interface, or a variable or a literal into a block: such calls stand in the
/// order of the source.
pub(super) fn puts_values(call: &Call) -> bool {
    matches!(Family::of(&call.callee), Some(Family::Box | Family::Object))
}

/// The closure of a method's value: its code, and the receiver, which the compiler calls R.
pub(super) fn is_method_value(call: &Call) -> bool {
    call.of.as_ref().is_some_and(|of| of.name.starts_with("struct { F uintptr; R "))
}

/// Reasons of conversions to bytes, runes and strings that the stack has no room for. Each has a buffer of 32 elements
/// there.
const LARGE_BYTES: &str = "the bytes do not escape, but there are more than the 32 that the stack has room for";
const LARGE_RUNES: &str = "the runes do not escape, but there are more than the 32 that the stack has room for";
const LARGE_STRING: &str = "the string does not escape, but is longer than the 32 bytes that the stack has for it";

/// The cause of a call of the runtime, where it does not depend on the compiler alone.
pub(super) fn explain(call: &Call, allocation: &Allocation, diagnostic: Option<&Diagnostic>) -> Option<RuntimeCause> {
    let family = Family::of(&call.callee)?;
    let of = call.of.as_ref().map_or("T", |of| of.name.as_str());
    let stays = diagnostic.is_some_and(|diagnostic| diagnostic.verdict == Verdict::DoesNotEscape);
    let explains = |what: String, reason: &str, remedy| {
        Some(RuntimeCause { what, reason: reason.to_owned(), remedy, decides: false })
    };
    let decides = |what: String, reason: &str, remedy| {
        Some(RuntimeCause { what, reason: reason.to_owned(), remedy, decides: true })
    };
    let name = call.callee.rsplit_once("runtime.").map_or(call.callee.as_str(), |(_, name)| name);
    match family {
        Family::Grow => {
            let (reason, remedy) = match allocation.appended {
                Appended::Grows => ("the slice grows beyond its capacity", Some(Advice::KeptSlice)),
                Appended::Copies => ("a copy: append is given a slice without room, and makes one block for all", None),
                Appended::Queue => {
                    ("the slice grows beyond its capacity; each cut of its front takes capacity away", None)
                }
                Appended::Unclear => ("append needs more room than its slice has", None),
                Appended::Buffer => ("the buffer grows to what is written", Some(Advice::Grow)),
            };
            decides(format!("append to a []{of}"), reason, remedy)
        }
        Family::Move => decides(
            if of == "T" { "a slice built on the stack".to_owned() } else { format!("a []{of} built on the stack") },
            "it escapes here: the runtime copies it to the heap",
            Some(Advice::CallersSlice),
        ),
        Family::MapGrowth => {
            let (what, reason) = allocation.room.words(if of == "T" { "map" } else { of });
            decides(
                what,
                &reason,
                allocation.room.growth.then_some(if allocation.in_own_map {
                    Advice::KeptMap
                } else {
                    Advice::SizedMap
                }),
            )
        }
        Family::Buffer => {
            decides("a buffer of bytes".to_owned(), "the buffer grows to what is written", Some(Advice::Grow))
        }
        Family::Slice if stays => explains(
            format!("make([]{of}, n)"),
            "it does not escape, but its size is known at run time only",
            Some(Advice::ConstantSize),
        ),
        // The compiler is silent: what is made is a copy, or within code that is not in the source.
        Family::Slice if diagnostic.is_none() && call.elements.is_some() => {
            explains(format!("make([]{of}, {})", call.elements.unwrap_or_default()), "", None)
        }
        Family::Slice if diagnostic.is_none() => {
            explains(format!("make([]{of}, n)"), "its size is known at run time only", Some(Advice::CallersBuffer))
        }
        Family::Concatenation => explains(
            "a string that is concatenated".to_owned(),
            match stays {
                true => "the result does not escape, but is longer than the 32 bytes that the stack has for it",
                false => "each + makes a new string",
            },
            Some(Advice::AppendText),
        ),
        Family::Conversion => {
            let (what, from) = match name {
                "stringtoslicebyte" | "rawbyteslice" => ("[]byte(string)", LARGE_BYTES),
                "stringtoslicerune" | "rawruneslice" => ("[]rune(string)", LARGE_RUNES),
                "slicerunetostring" => ("string([]rune)", LARGE_STRING),
                "intstring" => ("string(rune)", LARGE_STRING),
                _ => ("string([]byte)", LARGE_STRING),
            };
            let reason = if stays { from } else { "the conversion copies" };
            let bytes = matches!(name, "stringtoslicebyte" | "rawbyteslice" | "slicebytetostring");
            explains(what.to_owned(), reason, bytes.then_some(Advice::OneOfBoth))
        }
        Family::Box => explains(
            format!("a {} in an interface", boxed(name, of)),
            "a value in an interface is a copy in the heap",
            Some(Advice::Concrete),
        ),
        Family::Channel => explains(
            format!("make({})", if of == "T" { "chan" } else { of }),
            "channels are always in the heap",
            Some(Advice::KeptChannel),
        ),
        Family::Map => explains(
            format!("make({})", if of == "T" { "map" } else { of }),
            "the map is in the heap with all that it holds",
            stays.then_some(Advice::KeptMap),
        ),
        Family::Goroutine => decides("a goroutine".to_owned(), "starts a goroutine", Some(Advice::Worker)),
        Family::Reflection => decides(
            format!("memory for package reflect ({})", call.callee),
            "reflection makes values whose types the compiler does not know",
            Some(Advice::NoReflection),
        ),
        Family::Finalizer => {
            decides("a finalizer".to_owned(), "finalizers and cleanups have records in the heap", None)
        }
        Family::Blocking => decides(
            "a record of who waits".to_owned(),
            "the goroutine waits for others: a channel, a lock, a WaitGroup",
            None,
        ),
        Family::Defer => decides(
            "a record of a deferred call".to_owned(),
            "a defer in a loop is in the heap",
            Some(Advice::LoopBody),
        ),
        Family::Timer => decides("a timer".to_owned(), "a timer is in the heap", Some(Advice::KeptTimer)),
        Family::TypeCache => decides(
            "a cache of types".to_owned(),
            "the runtime remembers which types an assertion, a conversion or a switch has seen",
            None,
        ),
        Family::Collector => decides("a record of the collector's".to_owned(), "the collector is called for", None),
        Family::Statistics => {
            decides("a record of who waits".to_owned(), "the runtime stops the program to read its statistics", None)
        }
        Family::Linked => decides(
            format!("memory by {}", call.callee),
            "the package asks the runtime for it itself, past the compiler",
            None,
        ),
        Family::Text => decides(format!("what {} gives", call.callee), "the runtime makes a copy", None),
        _ => None,
    }
}

/// The allocation as the source names it: the compiler's expression, and its type where that says more.
pub(super) fn named(diagnostic: &Diagnostic, kind: Kind, call: Option<&Call>) -> String {
    let of = call.and_then(|call| call.of.as_ref()).map(|of| of.name.as_str());
    let what = diagnostic.what.as_str();
    match (kind, of) {
        (Kind::Variable, _) if chain::is_state(what) => format!("{} ({what})", chain::plain(what)),
        (Kind::Variable, Some(of)) if chain::is_temporary(what) => format!("{} ({of})", chain::plain(what)),
        (Kind::Variable, None) if chain::is_temporary(what) => chain::plain(what),
        (Kind::Variable, _) if call.is_some_and(|call| call.combined) => {
            format!("variable {what} and others of its function in one block")
        }
        (Kind::Variable, Some(of)) => format!("variable {what} ({of})"),
        (Kind::Variable, None) => format!("variable {what}"),
        (Kind::Boxed, _) if what.starts_with("~r") => "a result in an interface".to_owned(),
        (Kind::Boxed, _) => format!("{what} in an interface"),
        (Kind::Closure, _) => "closure".to_owned(),
        (Kind::LoopBody, _) => "the body of a loop over a function".to_owned(),
        (Kind::MethodValue, _) => format!("method value {what}"),
        (Kind::Variadic, Some(of)) => format!("the slice of ...arguments ({of})"),
        // Code that several types share names a type by its shape.
        (Kind::Make, Some(of)) if what.contains("go.shape.") => format!("make([]{}, …)", chain::plain(of)),
        (Kind::New | Kind::Composite, Some(of)) if what.contains("go.shape.") => {
            format!("&{}{{...}}", chain::plain(of))
        }
        (_, _) if what.starts_with("~r") => "a result".to_owned(),
        (Kind::Append, Some(of)) if !what.contains('(') => format!("append to a []{of}"),
        _ => chain::plain(what),
    }
}

fn boxed<'a>(name: &str, of: &'a str) -> &'a str {
    match name {
        "convT16" => "16-bit number",
        "convT32" => "32-bit number",
        "convT64" => "64-bit number",
        "convTstring" => "string",
        "convTslice" => "slice",
        _ if of == "T" => "value",
        _ => of,
    }
}
