//! Why something is in the heap, in a word, and what an expert would do about it.

use crate::chain;
use crate::model::{Diagnostic, Kind, Reason, Step, Verdict};

impl Reason {
    /// Of the escape flow.
    pub fn of(kind: Kind, flow: &[Step]) -> Self {
        if let Some(reason) = flow.iter().find_map(|step| Self::of_its_own(&step.how)) {
            return reason;
        }
        let Some(last) = flow.last() else { return Self::Unknown };
        let (to, from) = last.flow.split_once(" ← ").unwrap_or_default();
        let interface = kind == Kind::Boxed || flow.iter().any(|step| step.how == "interface-converted");
        match last.how.as_str() {
            "spill" if to == "{heap}" && last.expression == "func literal" => Self::Goroutine,
            "return" => Self::Returned,
            "send" => Self::Sent,
            "map literal key" | "map literal value" | "key of map put" => Self::InMap,
            "captured by a closure" | "reference" => Self::Captured,
            "appendee slice" => Self::Appended,
            "copied slice" => Self::Stored { place: "a slice".to_owned() },
            "call parameter" if last.expression.starts_with("append(") => Self::Appended,
            "call parameter" => {
                let callee = chain::callee(&last.expression).to_owned();
                if chain::calls_through(&callee, from) {
                    Self::PassedToUnknown { callee }
                } else {
                    Self::Passed { callee, interface }
                }
            }
            "interface-converted" if chain::storage(to).is_some() => Self::InInterface,
            _ => match chain::storage(to) {
                Some(whole) => Self::PartOf { whole: whole.to_owned() },
                None if to == "{heap}" => match chain::assigned(last) {
                    Some(place) if place.contains("..stmp_") => {
                        Self::Stored { place: "a package's variable".to_owned() }
                    }
                    Some(place) => Self::Stored { place: place.to_owned() },
                    None => Self::Unknown,
                },
                None if to.is_empty() || to == "{temp}" => Self::Unknown,
                None if to.starts_with("~r") => Self::Returned,
                None => Self::Outlived { variable: to.to_owned() },
            },
        }
    }

    /// What makes it be in the heap wherever it goes to.
    pub fn of_its_own(how: &str) -> Option<Self> {
        match how {
            "too large for stack" => Some(Self::TooLarge),
            "non-constant size" => Some(Self::UnknownSize),
            "too aligned for stack" => Some(Self::Aligned),
            _ => None,
        }
    }

    /// Its word in JSON.
    pub fn key(&self) -> &'static str {
        match self {
            Self::TooLarge => "too_large",
            Self::UnknownSize => "unknown_size",
            Self::Aligned => "aligned",
            Self::Returned => "returned",
            Self::Captured => "captured",
            Self::Sent => "sent",
            Self::InMap => "in_map",
            Self::Appended => "appended",
            Self::Passed { .. } => "passed",
            Self::PassedToUnknown { .. } => "passed_to_unknown",
            Self::Stored { .. } => "stored",
            Self::InInterface => "in_interface",
            Self::PartOf { .. } => "part_of",
            Self::Outlived { .. } => "outlived",
            Self::Goroutine => "goroutine",
            Self::Unknown => "unknown",
        }
    }

    /// In a few words.
    pub fn words(&self) -> String {
        match self {
            Self::TooLarge => "too large for the stack".to_owned(),
            Self::UnknownSize => "size not known at compile time".to_owned(),
            Self::Aligned => "aligned to more than the stack is".to_owned(),
            Self::Returned => "returned".to_owned(),
            Self::Captured => "captured by a closure that lives longer".to_owned(),
            Self::Sent => "sent to a channel".to_owned(),
            Self::InMap => "put into a map".to_owned(),
            Self::Appended => "appended to a slice".to_owned(),
            Self::Passed { callee, interface: true } => {
                format!("converted to an interface for {}", chain::plain(callee))
            }
            Self::Passed { callee, .. } => format!("passed to {}", chain::plain(callee)),
            Self::PassedToUnknown { callee } => {
                format!("passed to {}, whose code is not known at compile time", chain::plain(callee))
            }
            Self::Stored { place } => format!("stored in {}", chain::plain(place)),
            Self::InInterface => "in an interface that is in the heap".to_owned(),
            Self::PartOf { whole } => format!("part of {}, which is in the heap", chain::plain(whole)),
            Self::Outlived { variable } => format!("assigned to {}, which lives longer", chain::plain(variable)),
            Self::Goroutine => "starts a goroutine".to_owned(),
            Self::Unknown => "the compiler does not say why".to_owned(),
        }
    }

    /// What a Go expert may do about something of this kind; a suggestion.
    pub fn remedy(&self, kind: Kind) -> Option<&'static str> {
        // Where what is allocated says more than where it goes to.
        match (kind, self) {
            (Kind::Concatenation, _) => {
                return Some("write into a strings.Builder after Grow, or append to a []byte that is kept");
            }
            (Kind::Conversion, _) => {
                return Some("keep to one of string and []byte; append(buf, s...) converts into a buffer that is kept");
            }
            (Kind::Append, _) => {
                return Some("make the slice with the capacity that it will need, or take one from the caller");
            }
            (Kind::MakeMap | Kind::MapLiteral, Self::Returned) => {
                return Some("make the map once with its size, and clear it, or let the caller pass one in");
            }
            (Kind::Boxed | Kind::Variadic, Self::Passed { callee, .. } | Self::PartOf { whole: callee })
                if kind == Kind::Variadic || callee.starts_with("fmt.") || callee == "... argument" =>
            {
                return Some(
                    "format with strconv.Append… into a buffer where this runs often; ...any allocates for each value",
                );
            }
            (Kind::Closure, Self::Passed { .. } | Self::PassedToUnknown { .. }) => {
                return Some(
                    "make it once outside, or pass what it captures as arguments: a literal that captures nothing is free",
                );
            }
            (Kind::Make | Kind::SliceLiteral, Self::Passed { .. } | Self::PassedToUnknown { .. }) => {
                return Some(
                    "a buffer that the caller passes in and keeps, or a concrete type's method that does not keep it",
                );
            }
            (Kind::Boxed, _) => {
                return Some(
                    "a concrete type, or a type parameter, in place of the interface; or a pointer to what is in the heap anyway",
                );
            }
            (Kind::MethodValue, _) => {
                return Some("call the method where it is needed, or keep its value: each x.Method makes a closure");
            }
            _ => {}
        }
        match self {
            Self::TooLarge => Some("a smaller one, or one that is kept and used again (a field, sync.Pool)"),
            Self::UnknownSize => Some("a constant size, or a buffer that the caller passes in and keeps"),
            Self::Returned if kind == Kind::Closure => Some("a type with a method in place of the function literal"),
            Self::Returned => Some("return it by value, or let the caller pass in what is to be filled"),
            Self::Captured => {
                Some("pass it to the function literal as an argument, or capture a copy that is never assigned again")
            }
            Self::Sent => Some("send it by value"),
            Self::InMap => Some("a map of values, with a key that is no pointer"),
            Self::Appended => Some("a slice of values rather than of pointers"),
            Self::Passed { interface: true, .. } => {
                Some("call the concrete type's own methods rather than pass it as an interface")
            }
            Self::Passed { .. } => Some("pass it by value, or change the function so that it does not keep it"),
            Self::PassedToUnknown { .. } => {
                Some("a concrete type, or a type parameter, in place of the interface or function value")
            }
            Self::Stored { .. } => Some("store it by value, or one that is kept and used again"),
            Self::InInterface => Some("a concrete type, or a type parameter, in place of the interface"),
            Self::PartOf { .. } => {
                Some("hold it by value rather than by reference, or keep what holds it off the heap")
            }
            Self::Outlived { .. } => {
                Some("declare what refers to it inside of the loop, or one outside that is used again")
            }
            Self::Goroutine => Some("a goroutine that is started once and gets its work through a channel"),
            Self::Aligned | Self::Unknown => None,
        }
    }
}

impl Diagnostic {
    /// False of what the compiler calls escaping though nothing is allocated when it runs: a constant that is put into an
    /// interface is in read-only data, and what cgo adds to inform the compiler never runs.
    pub fn allocates(&self) -> bool {
        let constant = |what: &str| {
            let number = what.strip_prefix('-').unwrap_or(what).starts_with(|c: char| c.is_ascii_digit());
            number
                || what.starts_with('"') && what.ends_with('"')
                || what.starts_with('\'')
                || what == "struct {}{}"
                || ["true", "false"].contains(&what)
        };
        let of_cgo = matches!(&self.reason, Reason::Passed { callee, .. } if callee.starts_with("_Cgo_"));
        self.verdict != Verdict::DoesNotEscape && !(self.kind == Kind::Boxed && (of_cgo || constant(&self.what)))
    }

    /// See [`Reason::remedy`].
    pub fn remedy(&self) -> Option<&'static str> {
        self.reason.remedy(self.kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(flow: &str, how: &str, expression: &str) -> Step {
        Step { flow: flow.into(), how: how.into(), expression: expression.into(), ..Step::default() }
    }

    #[test]
    fn the_end_of_the_way_is_the_reason() {
        let of = |flow, how, expression| {
            Reason::of(Kind::Composite, &[step("x ← &y", "spill", "y"), step(flow, how, expression)])
        };
        let callee = || "io.ReadAtLeast".to_owned();
        for (reason, expected) in [
            (
                of("{heap} ← r", "call parameter", "io.ReadAtLeast(r, b)"),
                Reason::Passed { callee: callee(), interface: false },
            ),
            (of("{heap} ← i", "call parameter", "i.M(b)"), Reason::PassedToUnknown { callee: "i.M".into() }),
            (of("{heap} ← &i", "call parameter", "append(r, &i)"), Reason::Appended),
            (of("~r0 ← p", "return", "return p"), Reason::Returned),
            (of("{heap} ← p", "assign", "g.v = p"), Reason::Stored { place: "g.v".into() }),
            (of("{heap} ← p", "send", "ch <- p"), Reason::Sent),
            (of("{heap} ← k", "key of map put", "m[k]"), Reason::InMap),
            (of("{storage for func literal} ← &x", "reference", "x"), Reason::Captured),
            (
                of("{storage for T{...}} ← x", "struct literal element", "T{...}"),
                Reason::PartOf { whole: "T{...}".into() },
            ),
            (of("{heap} ← &a", "too large for stack", "a"), Reason::TooLarge),
            (of("{heap} ← &a", "non-constant size", "a"), Reason::UnknownSize),
            (of("{heap} ← *y", "appendee slice", "append(r, y...)"), Reason::Appended),
            (of("{heap} ← *y", "copied slice", "copy(r, y)"), Reason::Stored { place: "a slice".into() }),
            (of("p ← &x", "assign", "p = &x"), Reason::Outlived { variable: "p".into() }),
            (of("{heap} ← &{storage for func literal}", "spill", "func literal"), Reason::Goroutine),
            (of("{heap} ← p", "a new way", "p"), Reason::Unknown),
            (Reason::of(Kind::Composite, &[]), Reason::Unknown),
        ] {
            assert_eq!(reason, expected);
        }
        let through = [step("r ← p", "interface-converted", "p"), step("{heap} ← r", "call parameter", "f(r)")];
        assert_eq!(Reason::of(Kind::Composite, &through), Reason::Passed { callee: "f".into(), interface: true });
    }
}
