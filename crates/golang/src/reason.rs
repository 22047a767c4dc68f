//! Why something is in the heap, in a word.

use crate::advice::Advice;
use crate::applies::{Occasion, is_method_value};
use crate::chain;
use crate::model::{Diagnostic, FlowStep, Kind, Reason, Scope, Verdict};

impl Reason {
    /// The reason that an escape flow shows; [`Reason::Unknown`] where it shows none.
    pub fn of(kind: Kind, flow: &[FlowStep]) -> Self {
        if let Some(reason) = flow.iter().find_map(|step| Self::of_its_own(&step.how)) {
            return reason;
        }
        let Some(last) = flow.last() else { return Self::Unknown };
        let (to, from) = last.flow.split_once(" ← ").unwrap_or_default();
        let interface = kind == Kind::Boxed || chain::has_interface(flow);
        match last.how.as_str() {
            "go" => Self::Goroutine,
            "defer" => Self::Deferred,
            "spill" if to == "{heap}" && last.expression == "func literal" => Self::GoOrDefer,
            "return" => Self::Returned,
            "send" => Self::Sent,
            "map literal key" | "map literal value" | "key of map put" => Self::InMap,
            "captured by a closure" | "reference" => Self::Captured,
            "appendee slice" => Self::Appended,
            "copied slice" => Self::Stored { place: "a slice".to_owned() },
            "call parameter" if last.expression.starts_with("append(") => Self::Appended,
            "call parameter" => {
                let callee = chain::callee(&last.expression).to_owned();
                if chain::calls_through(&callee, from) || chain::is_value(&callee) {
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
                // What refers to the variable is in the heap: why, the compiler says of that.
                None if to == "{temp}" => match from.strip_prefix('&').filter(|from| !from.contains(['.', '{', '['])) {
                    Some(variable) => Self::Outlived { variable: variable.to_owned(), scope: Scope::Unknown },
                    None => Self::Unknown,
                },
                None if to.is_empty() => Self::Unknown,
                // Code of another package names its variables with the package.
                None if to.rsplit('.').next().is_some_and(|name| name.starts_with("~r")) => Self::Returned,
                None => Self::Outlived { variable: to.to_owned(), scope: Scope::Unknown },
            },
        }
    }

    /// The reason of a step that puts the value into the heap wherever it goes to.
    pub fn of_its_own(how: &str) -> Option<Self> {
        match how {
            "too large for stack" => Some(Self::TooLarge),
            "non-constant size" => Some(Self::UnknownSize),
            "too aligned for stack" => Some(Self::Aligned),
            _ => None,
        }
    }

    /// Name of the reason in JSON.
    pub fn key(&self) -> &'static str {
        match self {
            Self::TooLarge => "too_large",
            Self::UnknownSize => "unknown_size",
            Self::Aligned => "aligned",
            Self::Returned => "returned",
            Self::Captured => "captured",
            Self::CapturedByLoop => "captured_by_loop",
            Self::Sent => "sent",
            Self::InMap => "in_map",
            Self::Appended => "appended",
            Self::Passed { .. } => "passed",
            Self::PassedToUnknown { .. } => "passed_to_unknown",
            Self::Stored { .. } => "stored",
            Self::InInterface => "in_interface",
            Self::PartOf { .. } => "part_of",
            Self::Outlived { .. } => "outlived",
            Self::InItself { .. } => "in_itself",
            Self::Goroutine => "goroutine",
            Self::Deferred => "deferred",
            Self::GoOrDefer => "go_or_defer",
            Self::Unknown => "unknown",
        }
    }

    /// The reason in a few words.
    pub fn words(&self) -> String {
        match self {
            Self::TooLarge => "too large for the stack".to_owned(),
            Self::UnknownSize => "size not known at compile time".to_owned(),
            Self::Aligned => "aligned to more than the stack is".to_owned(),
            Self::Returned => "returned".to_owned(),
            Self::Captured => "captured by a closure that lives longer".to_owned(),
            Self::CapturedByLoop => {
                "captured by the body of a loop over a function, which may keep that body".to_owned()
            }
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
            Self::PartOf { whole } if whole == "... argument" => {
                "one of the ...arguments, whose slice is in the heap".to_owned()
            }
            Self::PartOf { whole } if is_method_value(whole) => {
                format!("held by the method value {}, which is in the heap", chain::plain(whole))
            }
            Self::PartOf { whole } => format!("part of {}, which is in the heap", chain::plain(whole)),
            Self::Outlived { variable, scope } => {
                let variable = chain::plain(variable);
                match scope {
                    Scope::Loop => format!("assigned to {variable}, which is declared outside of the loop"),
                    Scope::Function => format!("assigned to {variable} of the enclosing function"),
                    Scope::Unknown => format!("assigned to {variable}, which lives longer"),
                }
            }
            Self::InItself { place } => format!("its own address is stored in {}", chain::plain(place)),
            Self::Goroutine => "starts a goroutine".to_owned(),
            Self::Deferred => "deferred in a loop".to_owned(),
            Self::GoOrDefer => "started by go, or deferred in a loop".to_owned(),
            Self::Unknown => "the compiler does not say why".to_owned(),
        }
    }
}

impl Diagnostic {
    /// False of what the compiler calls escaping though nothing is allocated when it runs: a constant that is put into
    /// an interface is in read-only data, and what cgo adds to inform the compiler never runs.
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

    /// The suggestion against this allocation, where one applies.
    pub fn remedy(&self) -> Option<Advice> {
        match self.kind {
            // An array in the place of what is a constant in read-only data has nothing to advise on.
            _ if !self.allocates() => None,
            kind => {
                let occasion = Occasion {
                    kind,
                    what: &self.what,
                    reason: &self.reason,
                    of: None,
                    allocator: None,
                    function: self.function.as_deref(),
                    surroundings: self.surroundings,
                };
                Advice::of(kind, &self.reason).and_then(|advice| occasion.fitted(advice))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(flow: &str, how: &str, expression: &str) -> FlowStep {
        FlowStep { flow: flow.into(), how: how.into(), expression: expression.into(), ..FlowStep::default() }
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
            (of("p ← &x", "assign", "p = &x"), Reason::Outlived { variable: "p".into(), scope: Scope::Unknown }),
            (of("slices.~r0 ← p", "assign", "slices.~r0 = p"), Reason::Returned),
            (of("{heap} ← &{storage for func literal}", "spill", "func literal"), Reason::GoOrDefer),
            (
                of("{heap} ← #yield1", "call parameter", ".autotmp_4(#yield1)"),
                Reason::PassedToUnknown { callee: ".autotmp_4".into() },
            ),
            (of("{heap} ← p", "a new way", "p"), Reason::Unknown),
            (of("{temp} ← &r", "address-of", "&r"), Reason::Outlived { variable: "r".into(), scope: Scope::Unknown }),
            (of("{temp} ← &r.f", "address-of", "&r.f"), Reason::Unknown),
            (Reason::of(Kind::Composite, &[]), Reason::Unknown),
        ] {
            assert_eq!(reason, expected);
        }
        let through = [step("r ← p", "interface-converted", "p"), step("{heap} ← r", "call parameter", "f(r)")];
        assert_eq!(Reason::of(Kind::Composite, &through), Reason::Passed { callee: "f".into(), interface: true });
    }
}
