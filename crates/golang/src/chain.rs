//! Escape flows, in words.

use crate::model::{Diagnostic, FlowStep, Kind, Position, Verdict};

impl Diagnostic {
    /// The path to the heap, a step a line: `assigned to input at 83`. A line without a file's name is in the file that
    /// was named last; before the first one, in the file of the allocation's own position.
    pub fn chain(&self) -> Vec<String> {
        let mut places = Places { file: &self.position.file };
        let mut words = Vec::new();
        // Where it is allocated the compiler does not say that it is an interface that wants it.
        if self.kind == Kind::Boxed && self.verdict != Verdict::DoesNotEscape {
            let place = places.name(outermost(&self.position, &self.inlined_at));
            words.push(format!("converted to an interface at {place}"));
        }
        push_words(&self.flow, &mut places, &mut words);
        words
    }

    /// The escape flow of [`Self::chain`] as one line.
    pub fn chain_line(&self) -> String {
        self.chain().join(" → ")
    }
}

/// The position in the function that was compiled.
pub fn outermost<'a>(position: &'a Position, inlined_at: &'a [Position]) -> &'a Position {
    inlined_at.last().unwrap_or(position)
}

/// Names positions, with a file's name only where it is another one than before.
struct Places<'a> {
    file: &'a str,
}

impl<'a> Places<'a> {
    fn name(&mut self, position: &'a Position) -> String {
        if position.file == self.file {
            return position.line.to_string();
        }
        self.file = &position.file;
        format!("{}:{}", base(&position.file), position.line)
    }
}

/// Steps in words. The first one names its file.
pub fn words(flow: &[FlowStep]) -> Vec<String> {
    let mut words = Vec::new();
    push_words(flow, &mut Places { file: "" }, &mut words);
    words
}

fn push_words<'a>(flow: &'a [FlowStep], places: &mut Places<'a>, words: &mut Vec<String>) {
    let mut last = None;
    for (at, step) in flow.iter().enumerate() {
        let position = outermost(&step.position, &step.inlined_at);
        let last_of_flow = flow.get(at + 1).is_none_or(|next| next.flow != step.flow);
        let in_words = |place: &str| of_step(step, place, last_of_flow, at + 1 == flow.len());
        let whole = in_words(&format!("{}:{}", position.file, position.line));
        if whole.is_none() || whole == last {
            continue;
        }
        let mut next = Places { file: places.file };
        let place = next.name(position);
        let Some(step) = in_words(&place) else { continue };
        // A step without a place names no file.
        if step.contains(&place) {
            *places = next;
        }
        words.push(step);
        last = whole;
    }
}

/// One step; none where it says nothing that the next does not say.
fn of_step(step: &FlowStep, place: &str, last_of_flow: bool, last: bool) -> Option<String> {
    let (to, from) = step.flow.split_once(" ← ").unwrap_or_default();
    let text = match step.how.as_str() {
        "go" => format!("starts a goroutine at {place}"),
        "defer" => format!("deferred in a loop at {place}"),
        "spill" if last => {
            return Some(if to == "{heap}" {
                format!("started by go, or deferred in a loop, at {place}")
            } else {
                format!("needed at {place}")
            });
        }
        // Values that are parts of others, and the address that the next step does something with.
        "spill" | "dot" | "dot of pointer" | "slice" | "indirection" | "fixed-array-index-of" | "slice-to-array" => {
            return None;
        }
        "address-of" if !last => return None,
        "appendee slice" => return None,
        "call parameter" if callee(&step.expression) == "copy" => return None,
        "copied slice" => format!("copied into a slice at {place}"),
        "address-of" => format!("its address is taken at {place}"),
        "interface-converted" => format!("converted to an interface at {place}"),
        "captured by a closure" if last || !last_of_flow => format!("captured by a closure at {place}"),
        "captured by a closure" => format!("captured at {place}"),
        "reference" => return None,
        "return" => format!("returned at {place}"),
        "send" => format!("sent to a channel at {place}"),
        "key of map put" => format!("put into a map as a key at {place}"),
        "map literal key" | "map literal value" => format!("put into a map at {place}"),
        "too large for stack" => "too large for the stack".to_owned(),
        "non-constant size" => "its size is not known at compile time".to_owned(),
        "too aligned for stack" => "aligned to more than the stack is".to_owned(),
        "range" | "range-deref" => format!("ranged over at {place}"),
        "struct literal element" | "array literal element" | "slice-literal-element" => {
            let whole = storage(to).unwrap_or(&step.expression);
            match whole {
                "... argument" => format!("one of the arguments ... at {place}"),
                whole => format!("part of {} at {place}", plain(whole)),
            }
        }
        "call parameter" => call(step, to, from, place),
        how if how.starts_with("assign") => assignment(step, to, place)?,
        how => format!("{how} at {place}"),
    };
    Some(text)
}

fn call(step: &FlowStep, to: &str, from: &str, place: &str) -> String {
    let callee = callee(&step.expression);
    match callee {
        "append" => return format!("appended to a slice at {place}"),
        "panic" => return format!("given to panic at {place}"),
        _ => {}
    }
    let name = plain(callee);
    if to != "{heap}" {
        return format!("passed to {name} at {place}");
    }
    if step.unknown_callee || calls_through(callee, from) || is_value(callee) {
        return format!("passed to {name} at {place}, whose code is not known at compile time");
    }
    format!("argument of {name} at {place}, which leaks it to the heap")
}

fn assignment(step: &FlowStep, to: &str, place: &str) -> Option<String> {
    if let Some(callee) = &step.callee {
        return Some(format!("passed to {} at {place}", plain(callee)));
    }
    // A result of code that is inlined, and what the compiler needs itself: what it is assigned to comes next.
    if to.starts_with("~r") || to.starts_with(".autotmp") {
        return None;
    }
    let target = if to == "{heap}" { assigned(step)? } else { to };
    Some(match storage(target) {
        Some(whole) => format!("part of {} at {place}", plain(whole)),
        None if target.contains("..stmp_") => format!("part of a package's variable at {place}"),
        None if to == "{heap}" => format!("stored in {} at {place}", plain(target)),
        None => format!("assigned to {} at {place}", plain(target)),
    })
}

/// The left side, if the step is an assignment.
pub fn assigned(step: &FlowStep) -> Option<&str> {
    let assigned = step.how.starts_with("assign");
    let (left, _) = step.expression.split_once(" = ").or_else(|| step.expression.split_once(" := "))?;
    assigned.then_some(left)
}

/// Whether the way leads through an interface.
pub fn has_interface(flow: &[FlowStep]) -> bool {
    flow.iter().any(|step| step.how == "interface-converted")
}

/// `X` of `{storage for X}`.
pub fn storage(text: &str) -> Option<&str> {
    text.strip_prefix("{storage for ")?.strip_suffix('}')
}

/// The function of an expression that is a call: `(*T).M` of `(*T).M(t, f(x))`.
pub fn callee(call: &str) -> &str {
    let mut depth = 0_u32;
    let mut arguments = call.len();
    let mut quote = None;
    let mut escaped = false;
    for (at, c) in call.char_indices() {
        if let Some(open) = quote {
            match c {
                _ if escaped => escaped = false,
                '\\' if open != '`' => escaped = true,
                c if c == open => quote = None,
                _ => {}
            }
            continue;
        }
        match c {
            '"' | '\'' | '`' => quote = Some(c),
            '(' | '[' | '{' => {
                if c == '(' && depth == 0 {
                    arguments = at;
                }
                depth += 1;
            }
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    &call[..arguments]
}

/// The value that is passed is the one whose method is called: an interface. What a package's function gets is never
/// the package.
pub fn calls_through(callee: &str, from: &str) -> bool {
    let value = from.trim_start_matches(['*', '&']);
    callee.rsplit_once('.').is_some_and(|(receiver, _)| receiver == value)
}

/// A variable that the compiler made for a value without a name.
pub fn is_temporary(name: &str) -> bool {
    name.strip_prefix(".autotmp_").is_some_and(|n| n.bytes().all(|byte| byte.is_ascii_digit()))
}

/// A variable that the compiler made for a loop over a function.
pub fn is_state(name: &str) -> bool {
    name.starts_with('#')
}

/// Whether the callee is a variable of the compiler's own: a function value.
pub fn is_value(callee: &str) -> bool {
    is_temporary(callee) || is_state(callee)
}

/// A name as the source has it: compilers share the code of types that look alike, and name the look; one of pointers
/// stands for all of them. Variables of the compiler's own are in words.
pub fn plain(name: &str) -> String {
    if let Some(state) = name.strip_prefix('#') {
        return match state.trim_end_matches(|c: char| c.is_ascii_digit()) {
            "yield" => "the body of the loop".to_owned(),
            _ => "the state of the loop".to_owned(),
        };
    }
    if let Some(rest) = name.strip_prefix(".autotmp_") {
        let rest = rest.trim_start_matches(|c: char| c.is_ascii_digit());
        return match rest.strip_prefix('.') {
            Some(method) => format!("method {method} of a value"),
            None => format!("a value without a name{rest}"),
        };
    }
    name.replace("go.shape.*uint8", "*…").replace("go.shape.", "")
}

/// Last part of a file's path.
pub fn base(file: &str) -> &str {
    file.rsplit('/').next().unwrap_or(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_have_callees() {
        for (call, expected) in [
            ("io.ReadAtLeast(io.r, io.buf, len(io.buf))", "io.ReadAtLeast"),
            ("(*G[go.shape.int]).Put(g, &.dict, k)", "(*G[go.shape.int]).Put"),
            ("f(\")(\", ')', `\\`)", "f"),
            ("f(x)(y)", "f(x)"),
            ("i.M()", "i.M"),
            ("nothing", "nothing"),
            ("", ""),
            ("((((", ""),
        ] {
            assert_eq!(callee(call), expected, "{call}");
        }
    }
}
