//! Places as lines of text: a function, where it is, and who called it.

use mallow_report::analysis::{Frame, Stack};

use super::look::Look;
use super::names::{function, function_of, location, one_code};
use super::page::{Line, Page};
use super::units::{count, of};

/// A list's title, and how much of it is shown.
pub fn heading(title: &str, shown: usize, all: u64) -> Line {
    let line = Line::new().strong(title);
    if (shown as u64) < all { line.faint(format!("  (the largest {shown} of {})", count(all))) } else { line }
}

/// A function and where it is, of a stack.
pub fn framed(frame: &Frame, look: &Look) -> Line {
    placed(frame, &Look { modules: false, ..*look })
}

/// A function that a row is named by, without a stack: `load load.cc:88 via 5 functions without names`
pub fn framed_place(frame: &Frame, look: &Look) -> Line {
    via(framed(frame, look), None, frame.nameless, look)
}

/// The line, and what was looked past between its function and the allocator.
fn via(line: Line, through: Option<&str>, nameless: u64, look: &Look) -> Line {
    match (through, passed(nameless)) {
        (None, None) => line,
        (Some(through), None) => line.faint(" via ").faint_name(function(through, look)),
        (None, Some(passed)) => line.faint(format!(" via {passed}")),
        (Some(through), Some(passed)) => {
            line.faint(" via ").faint_name(function(through, look)).faint(format!(" and {passed}"))
        }
    }
}

/// Number of functions without names that were looked past, in words; None: none were.
pub fn passed(nameless: u64) -> Option<String> {
    match nameless {
        0 => None,
        1 => Some("1 function without a name".to_owned()),
        more => Some(format!("{} functions without names", count(more))),
    }
}

fn placed(frame: &Frame, look: &Look) -> Line {
    let name = function_of(frame, look);
    let at = location(&frame.function, frame.file.as_deref(), frame.line, frame.module.as_deref(), look);
    let line = if frame.looked_past { Line::new().faint_name(name) } else { Line::new().strong_name(name) };
    let line = if at.is_empty() { line } else { line.plain(" ").plain(at) };
    with_one_code(line, &frame.function, &frame.folded, look)
}

/// The line, and the other functions that the code may be.
pub fn with_one_code(line: Line, function: &str, folded: &[String], look: &Look) -> Line {
    match one_code(function, folded, look) {
        Some(others) => line.faint(format!(" {others}")),
        None => line,
    }
}

/// `parse_row parser.cc:212 (2 sites) via std::string::_M_create ← load load.cc:88 ← main main.cc:12`
pub fn described(frame: Option<&Frame>, sites: u64, through: Option<&str>, stack: &Stack, look: &Look) -> Line {
    described_by(frame, sites, (None, through), stack, look)
}

/// The place of `frame` with its callers, and with a function by which it allocates: `keep srv.cc:21, by make_payload ←
/// load load.cc:88`.
pub fn described_by(
    frame: Option<&Frame>,
    sites: u64,
    (by, through): (Option<&str>, Option<&str>),
    stack: &Stack,
    look: &Look,
) -> Line {
    const CALLERS: usize = 4;
    const WIDE: usize = 120;
    let Some(frame) = frame else { return Line::new().faint("(no stack is known)") };
    // A function that hands out memory is a place where nothing else is on the stack.
    if frame.allocates && stack.own().iter().all(|frame| frame.allocates) {
        return Line::new().faint("(no caller is known) via ").faint_name(function(&frame.function, look));
    }
    let mut line = placed(frame, look);
    if let Some(by) = by {
        line = line.plain(", by ").faint_name(function(by, look));
    }
    // Where there is little room, callers are worth more; and what the largest of several sites went through is not
    // said of all.
    let is_wide = look.width.is_none_or(|w| w >= WIDE);
    if sites > 1 && is_wide {
        line = line.faint(format!(" ({})", of(sites, "site")));
    }
    let is_of_all = sites <= 1 || is_wide;
    let line = match is_of_all {
        true => via(line, through.filter(|_| by.is_none()), stack.nameless_below(frame), look),
        false => line,
    };
    called(line, frame, stack, CALLERS, look)
}

/// The line, and who called the function that it names: ` ← load load.cc:88 ← main main.cc:12`, at most `limit` of
/// them.
pub fn called(mut line: Line, frame: &Frame, stack: &Stack, limit: usize, look: &Look) -> Line {
    let mut last = frame.function.as_str();
    let mut callers = 0;
    for (caller, gap) in stack.callers_and_gaps(frame) {
        // Recursion reads as one call.
        if caller.function == last {
            continue;
        }
        last = &caller.function;
        callers += 1;
        if callers > limit {
            line = line.faint(" ← …");
            break;
        }
        // Functions without names between the two.
        line = line.faint(if gap { " ← … ← " } else { " ← " }).faint_name(function(last, look));
        if let (Some(file), Some(at)) = (caller.file.as_deref(), caller.line) {
            let at = location(last, Some(file), Some(at), None, look);
            line = line.faint(format!(" {at}"));
        }
    }
    line
}

/// Functions of the program's own that are shown of a stack, where not all are.
const FRAMES: usize = 5;
/// Functions between the program's own and the allocator that are shown: sites may differ in nothing else.
const INNER_FRAMES: usize = 3;
/// Lines that a stack takes at the most, where not all of it is shown.
pub const STACK_LINES: usize = FRAMES + INNER_FRAMES;

/// Puts a stack onto the page, one function a line; `all` of them, or the most informative ones.
pub fn stacked(stack: &Stack, look: &Look, stacks: bool, page: &mut Page) {
    if stack.frames.is_empty() {
        page.line(Line::new().faint("    (no stack is known)"));
    }
    let own = stack.frames.iter().position(|f| !f.looked_past).unwrap_or(stack.frames.len());
    let (inner, outer) = stack.frames.split_at(own);
    // `operator new` and its like head every stack.
    let says_nothing = inner.iter().take_while(|f| f.allocates).count();
    let inner = if stacks || says_nothing == stack.frames.len() { inner } else { &inner[says_nothing..] };
    let outer: Vec<_> = outer.iter().filter(|f| stacks || !f.looked_past).collect();
    let inner: Vec<_> = inner.iter().collect();
    let all = |frames: &[_]| if stacks { frames.len() } else { 0 };
    part(&inner, INNER_FRAMES.max(all(&inner)), look, page);
    part(&outer, FRAMES.max(all(&outer)), look, page);
    if stack.cut {
        page.line(Line::new().faint("    … outer frames are missing"));
    }
}

/// Some frames of a stack, at most `limit` lines of them; the last one always.
fn part(frames: &[&Frame], limit: usize, look: &Look, page: &mut Page) {
    let hidden = if frames.len() > limit { frames.len() + 1 - limit } else { 0 };
    let (first, last) = (frames.len().saturating_sub(hidden + 1), frames.len().saturating_sub(1));
    for (index, frame) in frames.iter().enumerate() {
        if hidden > 0 && index == first {
            page.line(Line::new().faint(format!("    … {hidden} more; --stacks shows all")));
        }
        if hidden == 0 || index < first || index == last {
            page.line(Line::new().plain("    ").then(framed(frame, look)));
        }
    }
}

#[cfg(test)]
mod tests {
    use mallow_report::analysis::{Measure, overview};
    use mallow_report::testing::{Builder, blocks};

    use super::described;
    use crate::output::text::Look;

    /// The first place of a profile with one stack.
    fn place(frames: &[&str]) -> String {
        let mut b = Builder::default();
        let process = b.process(1, &["a"], 10);
        b.site(process, frames, blocks(5, 10, 0, 0));
        let report = overview(&b.profile, 3);
        let list = report.largest.iter().find(|list| list.by == Measure::Allocations).expect("a list");
        let first = &list.largest[0];
        described(
            first.frame.as_ref(),
            first.sites,
            first.through.as_deref(),
            &first.largest_site.stack,
            &Look::default(),
        )
        .text()
    }

    #[test]
    fn functions_of_one_code_are_named_beside_it() {
        assert_eq!(
            place(&["grow@a.h:4 = Table::resize(unsigned long)", "main@a.cc:7"]),
            "grow a.h:4 (or Table::resize: one code) ← main a.cc:7"
        );
        // Arguments tell them apart.
        let three = "Vec<int>::grow(int)@a.h:4 = Vec<long>::grow(int) = Vec<Row>::grow(int)";
        let expected = "Vec<int>::grow a.h:4 (or Vec<long>::grow and 1 more: one code) ← main a.cc:7";
        assert_eq!(place(&[three, "main@a.cc:7"]), expected);
        // An inlined function is compiled there, in one of them.
        assert_eq!(
            place(&["copy@a.h:9 | grow@a.h:4 = resize", "main@a.cc:7"]),
            "copy a.h:9 ← grow a.h:4 ← main a.cc:7"
        );
        // What hands out memory is looked past.
        assert_eq!(
            place(&["operator new(unsigned long) = operator new[](unsigned long)", "load@a.cc:7"]),
            "load a.cc:7"
        );
    }

    #[test]
    fn functions_without_names_that_are_left_out_are_counted_and_marked() {
        let past = ["operator new(unsigned long)!libstdc++.so.6", "+0x10!libq.so", "+0x20!libq.so", "+0x20!libq.so"];
        let path = ["has_key!libq.so", "+0x30!libq.so", "all_pages!libq.so", "write!libq.so", "+0x40!tool"];
        assert_eq!(
            place(&[&past[..], &path].concat()),
            "has_key [libq.so] via 2 functions without names ← … ← all_pages ← write ← tool+0x40"
        );
        assert_eq!(place(&["+0x10!libq.so", "has_key!libq.so"]), "has_key [libq.so] via 1 function without a name");
        let grow = "std::vector<int, std::allocator<int> >::push_back(int const&)";
        assert_eq!(
            place(&[grow, "+0x10!libq.so", "has_key!libq.so"]),
            "has_key [libq.so] via std::vector<…>::push_back and 1 function without a name"
        );
        // An address that a row is named by is not left out.
        assert_eq!(place(&["+0x10!libq.so", "main@a.c:3"]), "libq.so+0x10 ← main a.c:3");
    }

    #[test]
    fn what_hands_out_memory_is_no_place_where_its_caller_is_unknown() {
        let new = "operator new(unsigned long)!libstdc++.so.6";
        assert_eq!(place(&[new]), "(no caller is known) via operator new");
        assert_eq!(place(&[new, "load@a.cc:7"]), "load a.cc:7");
        // A function without a name is a caller.
        assert_eq!(place(&[new, "+0x40!a"]), "a+0x40");
    }
}
