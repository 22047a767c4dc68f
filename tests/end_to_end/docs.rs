//! The examples of README.md print what it shows. Times differ, and are not compared. Those of the guide: `guide`.

use std::fs;

use harness::{Run, directory, mallow, workspace};

/// A command of a document, without `$`, and the lines that it is said to print.
type Example = (String, Vec<String>);

/// All commands in the code blocks of a document that follow a `$`.
fn examples(text: &str) -> Vec<Example> {
    let mut all: Vec<Example> = Vec::new();
    let mut inside = false;
    for line in text.lines() {
        if line.starts_with("```") {
            inside = !inside;
            // The next block belongs to no earlier command.
            all.push((String::new(), Vec::new()));
        } else if let Some(command) = line.strip_prefix("$ ").filter(|_| inside) {
            all.push((command.to_owned(), Vec::new()));
        } else if let Some((_, lines)) = all.last_mut().filter(|_| inside) {
            lines.push(line.to_owned());
        }
    }
    all.retain(|(command, _)| !command.is_empty());
    all
}

/// The line without the times in it, and without the widths of columns that times have.
fn timeless(line: &str) -> String {
    // What the kernel and the C library have loaded differs from machine to machine.
    if ["highest RSS", "live then"].iter().any(|name| line.trim_start().starts_with(name)) {
        return line.split_whitespace().take(2).collect::<Vec<_>>().join(" ");
    }
    // When it began, and what of it was a wait: where that is next to nothing, it is not said.
    let line = &match line.split_once(", exit status") {
        Some((_, rest)) if line.starts_with("ran ") => format!("ran 0 ms, exit status{rest}"),
        _ => line.to_owned(),
    };
    const UNITS: [&str; 5] = ["s", "ms", "min", "h", "/s"];
    let number = |word: &str| word.chars().all(|c| c.is_ascii_digit() || ".,".contains(c));
    let words: Vec<&str> = line.split_whitespace().collect();
    let time = |at: usize| {
        let unit = words.get(at + 1).map_or("", |word| word.trim_end_matches([',', ';', ')']));
        let of_the_whole = words.get(at + 1..at + 5) == Some(&["%", "of", "the", "recording"]);
        number(words[at]) && (UNITS.contains(&unit) || unit.ends_with("/s") || of_the_whole)
    };
    if (0..words.len()).all(|at| !time(at)) {
        return line.trim_end().to_owned();
    }
    let masked = words.iter().enumerate().map(|(at, word)| match at.checked_sub(1).is_some_and(time) {
        _ if time(at) => "TIME",
        true => "UNIT",
        false => word,
    });
    masked.collect::<Vec<_>>().join(" ")
}

/// Whether the lines are those of the document, where `…` stands for any number of them.
pub fn fits(document: &[String], printed: &[String]) -> bool {
    match document.split_first() {
        None => printed.is_empty(),
        Some((first, rest)) if first == "…" => (0..=printed.len()).any(|skipped| fits(rest, &printed[skipped..])),
        Some((first, rest)) => {
            printed.split_first().is_some_and(|(line, more)| timeless(first) == timeless(line) && fits(rest, more))
        }
    }
}

/// The lines without empty ones at both ends.
pub fn trimmed(lines: &[String]) -> Vec<String> {
    let begin = lines.iter().position(|l| !l.is_empty()).unwrap_or(0);
    let end = lines.iter().rposition(|l| !l.is_empty()).map_or(0, |last| last + 1);
    lines[begin..end.max(begin)].to_vec()
}

/// Runs the examples of a document, in order and in one directory, and counts them.
fn check(document: &str) -> usize {
    let make = Run::new("make", &workspace()).arg("build/examples/leak").go();
    assert_eq!(make.status, 0, "{}{}", make.out(), make.err());
    let place = directory();
    std::os::unix::fs::symlink(workspace().join("build"), place.path().join("build")).expect("a link");
    let text = fs::read_to_string(workspace().join(document)).expect("the document");
    let all = examples(&text);
    for (command, lines) in &all {
        let words = command.strip_prefix("mallow ").unwrap_or_else(|| panic!("{document}: {command}: not mallow"));
        let run = Run::new(mallow(), place.path()).args(words.split(' ')).go();
        let printed: Vec<String> = (run.out() + &run.err()).lines().map(str::to_owned).collect();
        assert!(
            fits(&trimmed(lines), &trimmed(&printed)),
            "{document} says of `{command}`:\n{}\n\nIt prints:\n{}",
            lines.join("\n"),
            printed.join("\n")
        );
    }
    all.len()
}

#[test]
fn every_example_of_the_readme() {
    assert!(check("README.md") >= 4);
}

#[test]
fn times_are_not_compared_and_all_else_is() {
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    let document =
        lines("ran 5 ms, exit status 0\n  leaked   3   192 B\n…\n  peak  at 4 ms, 80.0 % of the recording\nend");
    for (printed, same) in [
        ("ran 12.3 s, exit status 0\n  leaked   3   192 B\n  peak  at 1 ms, 9 % of the recording\nend", true),
        (
            "ran 5 ms, exit status 0\n  leaked   3   192 B\nany\nany\n  peak at 14 ms, 80.0 % of the recording\nend",
            true,
        ),
        ("ran 5 ms, exit status 1\n  leaked   3   192 B\n  peak  at 4 ms, 80.0 % of the recording\nend", false),
        ("ran 5 ms, exit status 0\n  leaked   3   193 B\n  peak  at 4 ms, 80.0 % of the recording\nend", false),
        ("ran 5 ms, exit status 0\n  leaked  3   192 B\n  peak  at 4 ms, 80.0 % of the recording\nend", false),
        ("ran 5 ms, exit status 0\n  leaked   3   192 B\n  peak  at 4 ms, 80.0 % of the recording", false),
    ] {
        assert_eq!(fits(&document, &lines(printed)), same, "{printed}");
    }
}
