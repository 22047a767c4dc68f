//! What to type next: this command line, with something more.

use std::borrow::Cow;
use std::ffi::OsStr;

use crate::flags::TestFlags;

/// `mallow test` with the file, baseline, label and command of these flags, and with `flag` and `filters`; to be copied
/// into a shell.
pub fn with(flags: &TestFlags, flag: &str, filters: &[String]) -> String {
    let mut words = vec!["mallow".to_owned(), "test".to_owned()];
    let mut add = |name: &str, value: &OsStr| words.extend([name.to_owned(), value.to_string_lossy().into_owned()]);
    if flags.command.is_empty() && flags.file.as_os_str() != TestFlags::FILE {
        add("-f", flags.file.as_os_str());
    }
    if let Some(baseline) = &flags.baseline {
        add("-b", baseline.as_os_str());
    }
    if let Some(label) = &flags.label {
        add("--label", label.as_ref());
    }
    words.push(flag.to_owned());
    words.extend_from_slice(filters);
    if !flags.command.is_empty() {
        words.push("--".to_owned());
        words.extend(flags.command.iter().map(|word| word.to_string_lossy().into_owned()));
    }
    words.iter().map(|word| shell_words::quote(word)).collect::<Vec<Cow<str>>>().join(" ")
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::with;
    use crate::flags::{Command, Flags};

    #[test]
    fn what_was_typed_is_kept() {
        for (line, expected) in [
            (&["mallow", "test"][..], "mallow test --update"),
            (&["mallow", "test", "-v", "--runs", "3", "parse"], "mallow test --update parse"),
            (
                &["mallow", "test", "-f", "ci/a b.toml", "-b", "b.json", "--label", "gcc"],
                "mallow test -f 'ci/a b.toml' -b b.json --label gcc --update",
            ),
            (&["mallow", "test", "--", "sh", "-c", "exit 0"], "mallow test --update -- sh -c 'exit 0'"),
        ] {
            let Command::Test(flags) = Flags::parse_from(line).command else { panic!("{line:?} is no test") };
            assert_eq!(with(&flags, "--update", &flags.filters), expected);
        }
    }
}
