//! What a Go expert would do about an allocation. Each of these was tried: a test applies it to a program that has the
//! allocation, and counts.

use crate::model::{Kind, Reason, Scope};
use crate::names::{formats, returns_text};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Advice {
    AppendText,
    OneOfBoth,
    KeptSlice,
    CallersSlice,
    KeptMap,
    SizedMap,
    CallersMap,
    Format,
    FormatText,
    KeptArguments,
    OneClosure,
    Method,
    DirectCall,
    CallersBuffer,
    ConstantSize,
    Concrete,
    KnownCallee,
    Kept,
    ByValue,
    CapturedCopy,
    InlinedIterator,
    SentValue,
    MapOfValues,
    SliceOfValues,
    OneArray,
    OwnMethods,
    PassedValue,
    StoredValue,
    PartByValue,
    InsideLoop,
    LateReference,
    Worker,
    LoopBody,
    Grow,
    KeptChannel,
    NoReflection,
    KeptTimer,
}

impl Advice {
    pub const ALL: [Self; 37] = [
        Self::AppendText,
        Self::OneOfBoth,
        Self::KeptSlice,
        Self::CallersSlice,
        Self::KeptMap,
        Self::SizedMap,
        Self::CallersMap,
        Self::Format,
        Self::FormatText,
        Self::KeptArguments,
        Self::OneClosure,
        Self::Method,
        Self::DirectCall,
        Self::CallersBuffer,
        Self::ConstantSize,
        Self::Concrete,
        Self::KnownCallee,
        Self::Kept,
        Self::ByValue,
        Self::CapturedCopy,
        Self::InlinedIterator,
        Self::SentValue,
        Self::MapOfValues,
        Self::SliceOfValues,
        Self::OneArray,
        Self::OwnMethods,
        Self::PassedValue,
        Self::StoredValue,
        Self::PartByValue,
        Self::InsideLoop,
        Self::LateReference,
        Self::Worker,
        Self::LoopBody,
        Self::Grow,
        Self::KeptChannel,
        Self::NoReflection,
        Self::KeptTimer,
    ];

    /// The suggestion as a clause without a full stop.
    pub fn text(self) -> &'static str {
        match self {
            Self::AppendText => {
                "append to a []byte that is kept; in a loop, a strings.Builder after Grow makes one string instead \
                 of many"
            }
            Self::OneOfBoth => {
                "keep to one of string and []byte; where nobody else keeps the bytes, append(buf, s...) converts \
                 into a buffer that is kept"
            }
            Self::KeptSlice => {
                "make the slice with the capacity that it will need; where nobody else keeps it, keep one and cut \
                 it to [:0], unless uses overlap (recursion)"
            }
            Self::CallersSlice => "append to a slice that the caller passes in and keeps",
            Self::KeptMap => "make the map once with its size, keep it and clear it, unless uses overlap (recursion)",
            Self::SizedMap => "make the map with the size that it will have: make(map[K]V, n)",
            Self::CallersMap => "let the caller pass in a map, which it can keep and clear where nobody else keeps it",
            Self::Format => {
                "format with strconv.Append… into a buffer that is kept: package fmt gets each value in an interface"
            }
            Self::FormatText => {
                "strconv.Format… for one value, or strconv.Append… into a []byte of constant size and one string \
                 of it, in place of package fmt, which gets each value in an interface"
            }
            Self::KeptArguments => "pass a slice that is kept, as f(args...), unless the function keeps it",
            Self::OneClosure => {
                "make it once outside, or pass what it captures as arguments: a literal that captures nothing is free"
            }
            Self::Method => "a type with a method in place of the function literal",
            Self::DirectCall => "call the method where it is needed, or keep its value: each x.Method makes a closure",
            Self::CallersBuffer => "a buffer that the caller passes in and keeps, where nobody else keeps it",
            Self::ConstantSize => "a constant size, or a buffer that the caller passes in and keeps",
            Self::Concrete => {
                "one conversion for all its uses; a concrete type in place of the interface, down to where it is \
                 kept; or a pointer to what is in the heap anyway"
            }
            Self::KnownCallee => "call a concrete type's method or a known function, which does not keep it",
            Self::Kept => "one that is kept and used again, where nobody else keeps it: a field, a sync.Pool",
            Self::ByValue => {
                "return it by value, or let the caller pass in what is to be filled, unless callers keep it by \
                 reference"
            }
            Self::CapturedCopy => "if the function literal only reads it, capture a copy that is never assigned again",
            Self::InlinedIterator => {
                "range over the slice or map itself, or over an iterator function that the compiler can inline"
            }
            Self::SentValue => "send it by value",
            Self::MapOfValues => "a map of values, with a key that is no pointer",
            Self::SliceOfValues => {
                "a slice of values rather than of pointers: fewer blocks, and more bytes where it is grown or copied"
            }
            Self::OneArray => {
                "where many are made, one large slice for all of them, cut into parts: as many bytes in fewer blocks"
            }
            Self::OwnMethods => {
                "call the concrete type's own methods rather than pass it as an interface, unless it is kept there"
            }
            Self::PassedValue => {
                "pass it by value, unless it is filled there; or change the function so that it does not keep it"
            }
            Self::StoredValue => {
                "store it by value where its methods and its identity allow that, or one that is kept and used again"
            }
            Self::PartByValue => "hold it by value rather than by reference, or keep what holds it off the heap",
            Self::InsideLoop => "declare what refers to it inside of the loop, or one outside that is used again",
            Self::LateReference => "refer to it where it is used, not within itself",
            Self::Worker => "a goroutine that is started once and gets its work through a channel",
            Self::LoopBody => "put the body of the loop into a function of its own",
            Self::Grow => "Grow it once to the size that it will need",
            Self::KeptChannel => "a channel that is made once and used again",
            Self::NoReflection => "code for the concrete type, written or generated, in place of reflection",
            Self::KeptTimer => "keep the timer and Reset it",
        }
    }

    /// About something of this kind that is in the heap for this reason.
    pub fn of(kind: Kind, reason: &Reason) -> Option<Self> {
        // Where what is allocated says more than where it goes to.
        match (kind, reason) {
            (Kind::Concatenation, _) => return Some(Self::AppendText),
            (Kind::Conversion, _) => return Some(Self::OneOfBoth),
            (Kind::Append, _) => return Some(Self::KeptSlice),
            (Kind::MethodValue, _) => return Some(Self::DirectCall),
            (Kind::MakeMap | Kind::MapLiteral, Reason::Returned) => return Some(Self::CallersMap),
            // Each whole has a map of its own, as long as it lives, and what is stored stays there.
            (Kind::MakeMap | Kind::MapLiteral | Kind::MakeChan, Reason::PartOf { .. }) => return None,
            (Kind::MakeMap | Kind::MapLiteral, Reason::UnknownSize | Reason::TooLarge) => return Some(Self::KeptMap),
            // Cleared, a map that somebody else has loses what is in it.
            (Kind::MakeMap | Kind::MapLiteral, _) => return None,
            (Kind::MakeChan, _) => return Some(Self::KeptChannel),
            (Kind::Boxed | Kind::Variadic, Reason::Passed { callee, .. }) if callee.starts_with("fmt.") => {
                return formats(callee).then_some(if returns_text(callee) { Self::FormatText } else { Self::Format });
            }
            (Kind::Variadic, _) => return Some(Self::KeptArguments),
            (Kind::Closure, Reason::Passed { .. } | Reason::PassedToUnknown { .. }) => {
                return Some(Self::OneClosure);
            }
            (Kind::LoopBody, _) => return Some(Self::InlinedIterator),
            (Kind::Closure, Reason::Returned) => return Some(Self::Method),
            (Kind::Boxed, _) => return Some(Self::Concrete),
            (
                Kind::Make | Kind::SliceLiteral,
                Reason::Passed { .. } | Reason::PassedToUnknown { .. } | Reason::Returned | Reason::UnknownSize,
            ) => return Some(Self::CallersBuffer),
            // It may be one of many values that live at once, as on the stack of an interpreter.
            (Kind::Make | Kind::SliceLiteral, Reason::InInterface) => return None,
            (Kind::Make | Kind::SliceLiteral, Reason::InMap | Reason::Appended | Reason::PartOf { .. }) => {
                return Some(Self::OneArray);
            }
            // What a map or a slice has is one of many; what a field or a variable has stays there, for all that is
            // known.
            (Kind::Make | Kind::SliceLiteral, Reason::Stored { place }) => {
                return place.ends_with(']').then_some(Self::OneArray);
            }
            (Kind::Make | Kind::SliceLiteral, Reason::Sent) => return None,
            _ => {}
        }
        Some(match reason {
            Reason::TooLarge => Self::Kept,
            Reason::UnknownSize => Self::CallersBuffer,
            Reason::Returned => Self::ByValue,
            Reason::Captured => Self::CapturedCopy,
            Reason::CapturedByLoop => Self::InlinedIterator,
            Reason::Sent => Self::SentValue,
            Reason::InMap => Self::MapOfValues,
            Reason::Appended => Self::SliceOfValues,
            Reason::Passed { interface: true, .. } => Self::OwnMethods,
            Reason::Passed { .. } => Self::PassedValue,
            Reason::PassedToUnknown { .. } => Self::KnownCallee,
            Reason::Stored { .. } => Self::StoredValue,
            Reason::InInterface => Self::Concrete,
            Reason::PartOf { .. } => Self::PartByValue,
            Reason::Outlived { scope: Scope::Loop, .. } => Self::InsideLoop,
            Reason::InItself { .. } => Self::LateReference,
            Reason::Goroutine => Self::Worker,
            Reason::Deferred => Self::LoopBody,
            Reason::Outlived { .. } | Reason::Aligned | Reason::GoOrDefer | Reason::Unknown => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_listed_once() {
        for (at, one) in Advice::ALL.iter().enumerate() {
            assert!(!Advice::ALL[at + 1..].iter().any(|other| other.text() == one.text()), "{one:?}");
        }
    }

    #[test]
    fn a_variable_is_not_advised_on_a_loop_that_is_not_there() {
        let of = |scope| Advice::of(Kind::New, &Reason::Outlived { variable: "p".to_owned(), scope });
        assert_eq!((of(Scope::Loop), of(Scope::Function), of(Scope::Unknown)), (Some(Advice::InsideLoop), None, None));
    }

    #[test]
    fn a_slice_and_a_map_within_something_are_not_held_by_value() {
        let of = |kind| Advice::of(kind, &Reason::PartOf { whole: "&Session{...}".to_owned() });
        assert_eq!([Kind::Make, Kind::SliceLiteral].map(of), [Some(Advice::OneArray); 2]);
        assert_eq!([Kind::MakeMap, Kind::MapLiteral, Kind::MakeChan].map(of), [None; 3]);
        assert_eq!([Kind::New, Kind::Composite].map(of), [Some(Advice::PartByValue); 2]);
    }

    #[test]
    fn a_map_that_others_may_have_is_not_cleared() {
        let (callee, place) = (|| "setValue".to_owned(), "t.m".to_owned());
        for reason in [
            Reason::Passed { callee: callee(), interface: true },
            Reason::PassedToUnknown { callee: callee() },
            Reason::Captured,
            Reason::InInterface,
            Reason::Stored { place },
            Reason::Unknown,
        ] {
            assert_eq!(
                [Kind::MakeMap, Kind::MapLiteral].map(|kind| Advice::of(kind, &reason)),
                [None; 2],
                "{reason:?}"
            );
        }
        assert_eq!(Advice::of(Kind::MakeMap, &Reason::UnknownSize), Some(Advice::KeptMap));
    }

    #[test]
    fn a_slice_that_is_a_value_among_others_has_no_buffer() {
        assert_eq!([Kind::Make, Kind::SliceLiteral].map(|kind| Advice::of(kind, &Reason::InInterface)), [None; 2]);
    }

    #[test]
    fn a_constant_size_is_no_advice_where_more_may_let_it_escape() {
        assert_eq!(Advice::of(Kind::Make, &Reason::UnknownSize), Some(Advice::CallersBuffer));
        assert_eq!(Advice::of(Kind::Make, &Reason::Returned), Some(Advice::CallersBuffer));
    }
}
