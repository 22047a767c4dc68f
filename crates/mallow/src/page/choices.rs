//! What a request chooses: a query becomes the command line that asks for the same.

use std::ffi::OsString;
use std::path::Path;

use anyhow::Result;
use clap::CommandFactory;
use mallow_web::Request;

use crate::flags::{Command, Flags};
use crate::output::exit::UsageError;

/// Flags that a request may give. Not those that name files, run something, or change the look of text.
const CHOICES: [&str; 23] = [
    "asm", "at", "by", "callers", "cum", "depth", "focus", "hide", "ignore", "lifetime", "limit", "min", "no-rule",
    "only", "points", "process", "raw", "region", "size", "thread", "time", "when", "zoom",
];
/// The name of what `list` has as an operand.
const FUNCTION: &str = "function";
/// Choices of a range of time, which are no flags.
const RANGE: [&str; 3] = ["from", "to", "what"];
/// Views that show ranges of time.
const RANGED: [&str; 4] = ["flame", "list", "top", "tree"];

/// The choice of what changed since the recording before.
const BASE: &str = "base";

/// The flags of `mallow VIEW --json` for the choices of a request. A mistake is the message that the command line has
/// for it. `before` is what the recording is compared with.
pub fn flags(view: &str, request: &Request, path: &Path, before: Option<&Path>) -> Result<Command, UsageError> {
    // `--` begins a command of rss, and a path like this one is no flag.
    let plain = |path: &Path| if path.is_absolute() { path.to_owned() } else { Path::new(".").join(path) };
    let before = before.map(plain);
    let alone = || UsageError("one recording is shown: mallow view BEFORE AFTER compares two".to_owned());
    let commands = Flags::command();
    let known = commands.find_subcommand(view).ok_or_else(|| UsageError(format!("there is no view {view}")))?;
    let argument = |name: &str| known.get_arguments().find(|argument| argument.get_long() == Some(name));
    let mut line: Vec<OsString> = ["mallow", view].map(OsString::from).into();
    if argument("json").is_some() {
        line.push("--json".into());
    }
    let mut function = None;
    for (name, value) in request.query() {
        if name == FUNCTION && view == "list" {
            function = Some(value);
            continue;
        }
        if RANGE.contains(&name.as_str()) && RANGED.contains(&view) {
            continue;
        }
        if name == BASE && argument(BASE).is_some() {
            match value.as_str() {
                "0" => {}
                "1" => line.extend(["--base".into(), before.clone().ok_or_else(alone)?.into()]),
                _ => return Err(UsageError("base is 1 or 0".to_owned())),
            }
            continue;
        }
        let Some(argument) = Some(name.as_str()).filter(|name| CHOICES.contains(name)).and_then(argument) else {
            let there = CHOICES.iter().filter(|name| argument(name).is_some());
            let range = RANGE.into_iter().filter(|_| RANGED.contains(&view));
            let there = there.copied().chain(argument(BASE).map(|_| BASE));
            let there = there.chain(range).chain((view == "list").then_some(FUNCTION)).collect::<Vec<_>>().join(", ");
            return Err(UsageError(format!("{view} has no choice {name}; there is {there}")));
        };
        match (argument.get_action().takes_values(), value.as_str()) {
            (true, value) => line.push(format!("--{name}={value}").into()),
            (false, "1" | "true") => line.push(format!("--{name}").into()),
            (false, "0" | "false") => {}
            (false, _) => return Err(UsageError(format!("{name} is 1 or 0"))),
        }
    }
    if view == "list" {
        let pattern = function.ok_or_else(|| UsageError("list needs function, a regular expression".to_owned()))?;
        line.extend(["--".into(), OsString::from(pattern)]);
    }
    if view == "diff" {
        line.push(before.ok_or_else(alone)?.into());
    }
    line.push(plain(path).into());
    Flags::of_line(line).map(|flags| flags.command).map_err(UsageError)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use mallow_web::Request;

    use super::flags;
    use crate::flags::{By, Command};

    fn of(view: &str, query: &str) -> Result<Command, String> {
        let request = Request::get(&format!("/api/{view}?{query}")).expect("an address");
        flags(view, &request, Path::new("-a.mallow"), None).map_err(|error| error.0)
    }

    #[test]
    fn a_query_has_the_flags_of_the_command_line() {
        let Ok(Command::Top(top)) = of("top", "by=peak&cum=1&raw=0&limit=7&focus=%5Ea%20b&process=1,2") else {
            panic!()
        };
        assert_eq!((top.by, top.cum, top.raw, top.rows.view.limit), (Some(By::Peak), true, false, Some(7)));
        assert!(top.rows.view.json);
        assert_eq!(top.rows.source.filters.focus.expect("a pattern").as_str(), "^a b");
        assert_eq!(top.rows.source.filters.process, ["1", "2"]);
        let Ok(Command::List(list)) = of("list", "function=--help") else { panic!() };
        assert_eq!(list.regex.as_str(), "--help");
        for view in ["rss", "sizes", "lifetimes", "threads", "leaks", "report", "timeline", "flame", "tree"] {
            assert!(of(view, "").is_ok(), "{view}");
        }
    }

    #[test]
    fn a_query_names_no_file_and_runs_nothing() {
        for (view, query) in [
            ("leaks", "suppressions=/etc/passwd"),
            ("flame", "output=x.svg"),
            ("rss", "o=x.svg"),
            ("list", "function=a&source-path=/"),
            ("list", "function=a&source-map=a=/"),
            ("top", "json=1"),
            ("top", "%20--base=x"),
            ("top", "=x"),
            ("rss", "command=ls"),
            ("leaks", "fail-on-leak=1"),
            ("leaks", "from=1&to=2"),
        ] {
            assert!(of(view, query).is_err_and(|error| error.contains("has no choice")), "{view} {query}");
        }
    }

    #[test]
    fn mistakes_are_those_of_the_command_line() {
        let error = |view, query| of(view, query).expect_err(query);
        assert!(
            error("top", "by=most").contains("invalid value 'most' for '--by <BY>'"),
            "{}",
            error("top", "by=most")
        );
        assert!(error("top", "limit=x").contains("invalid value 'x' for '--limit <N>'"));
        assert!(error("top", "focus=(").contains("invalid value '('"));
        assert!(error("top", "cum=yes").contains("1 or 0"));
        assert!(error("list", "").contains("needs function"));
        for wrong in ["base=1", "base=/etc/passwd", "base="] {
            assert!(
                error("top", wrong).contains(if wrong == "base=1" { "BEFORE AFTER" } else { "base is 1 or 0" }),
                "{wrong}"
            );
        }
        assert!(error("diff", "").contains("mallow view BEFORE AFTER"));
        assert!(error("top", "limit=1&limit=2").contains("multiple times"));
    }
}
