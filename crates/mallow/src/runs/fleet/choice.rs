//! Which processes a pattern chooses.

use mallow_profile::Process;
use regex::Regex;

/// Whether it matches the path of the executable, the path that it was executed as, or the first argument, which is the name that
/// the program was given.
pub fn matches(pattern: &Regex, process: &Process) -> bool {
    let named = [&process.executable, &process.executed_as];
    named.into_iter().chain(process.arguments.first()).any(|name| !name.is_empty() && pattern.is_match(name))
}

#[cfg(test)]
mod tests {
    use mallow_profile::Process;
    use regex::Regex;

    use super::matches;

    #[test]
    fn a_pattern_chooses_by_path_and_name_and_not_by_arguments() {
        let process = Process {
            executable: "/usr/bin/python3.13".to_owned(),
            executed_as: "/usr/bin/python3".to_owned(),
            arguments: vec!["worker: one".to_owned(), "server.py".to_owned()],
            ..Process::default()
        };
        for (pattern, chosen) in [
            ("python", true),
            ("^/usr/bin/python3$", true),
            (r"python3\.13$", true),
            ("^worker", true),
            ("server", false),
            ("^python", false),
        ] {
            assert_eq!(matches(&Regex::new(pattern).expect("a pattern"), &process), chosen, "{pattern}");
        }
        assert!(!matches(&Regex::new("").expect("a pattern"), &Process::default()), "nothing is known of it");
    }
}
