//! Choice of processes: by their program, their control group and their environment.

use std::fmt;

use mallow_profile::Process;
use regex::Regex;

use crate::flags::{VariablePattern, WatchFlags};
use crate::runs::process_files;

/// Conditions on a process.
#[derive(Clone, Copy)]
pub struct Choice<'a> {
    pattern: &'a Regex,
    /// Pattern for a path of the process's control groups.
    cgroup: Option<&'a Regex>,
    /// Patterns of the environment, all of which must match.
    variables: &'a [VariablePattern],
}

impl<'a> Choice<'a> {
    /// The choice that the flags ask for; None without `--match`.
    pub fn of(flags: &'a WatchFlags) -> Option<Self> {
        let chosen = &flags.choice;
        let pattern = flags.pattern.as_ref()?;
        Some(Self { pattern, cgroup: chosen.match_cgroup.as_ref(), variables: &chosen.match_env })
    }

    /// Whether the conditions hold for a process, which has number `here` in mallow's `/proc`. A file that cannot be
    /// read there does not match.
    pub fn takes(&self, process: &Process, here: Option<u32>) -> bool {
        let read = |name| here.map(|pid| process_files::read(pid, name)).unwrap_or_default();
        matches(self.pattern, process)
            && self.cgroup.is_none_or(|cgroup| is_in_group(cgroup, &String::from_utf8_lossy(&read("cgroup"))))
            && (self.variables.is_empty() || {
                let environment = read("environ");
                self.variables.iter().all(|variable| variable.is_in(&environment))
            })
    }

    /// The choice as flags of the command line.
    pub fn arguments(&self) -> Vec<String> {
        let mut arguments = vec!["--match".to_owned(), self.pattern.to_string()];
        arguments.extend(self.cgroup.into_iter().flat_map(|cgroup| ["--match-cgroup".to_owned(), cgroup.to_string()]));
        let variables = self.variables.iter();
        arguments.extend(variables.flat_map(|variable| ["--match-env".to_owned(), variable.to_string()]));
        arguments
    }
}

/// `^/srv/`, or `^/srv/ with cgroup web and POD_NAMESPACE=shop`.
impl fmt::Display for Choice<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.pattern)?;
        let cgroup = self.cgroup.map(|cgroup| format!("cgroup {cgroup}"));
        let all = cgroup.into_iter().chain(self.variables.iter().map(VariablePattern::to_string));
        for (at, condition) in all.enumerate() {
            write!(f, " {} {condition}", if at == 0 { "with" } else { "and" })?;
        }
        Ok(())
    }
}

/// Whether the pattern matches the path of the executable, the path that it was executed as, or the first argument,
/// which is the name that the program was given.
fn matches(pattern: &Regex, process: &Process) -> bool {
    let named = [&process.executable, &process.executed_as];
    named.into_iter().chain(process.arguments.first()).any(|name| !name.is_empty() && pattern.is_match(name))
}

/// cgroups(7): a line `hierarchy:controllers:path` for each hierarchy.
fn is_in_group(pattern: &Regex, cgroup: &str) -> bool {
    cgroup.lines().filter_map(|line| line.splitn(3, ':').nth(2)).any(|path| pattern.is_match(path))
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use mallow_profile::Process;
    use regex::Regex;

    use super::{Choice, is_in_group, matches};
    use crate::flags::{Command, Flags};

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

    #[test]
    fn a_group_is_a_path_of_any_hierarchy() {
        let is_in = |pattern: &str, cgroup: &str| is_in_group(&Regex::new(pattern).expect("a pattern"), cgroup);
        let both = "4:memory:/kubepods/pod1\n0::/system.slice/web-1.service:x\n";
        assert!(is_in("^/kubepods", both) && is_in(r"web-\d\.service:x$", both));
        assert!(!is_in("memory", both) && !is_in("^$", "") && !is_in(".", "nonsense"));
    }

    #[test]
    fn conditions_have_to_hold_together_and_are_named() {
        let line =
            ["mallow", "watch", "--match", "x", "--match-cgroup", "/", "--match-env", "A=*", "--match-env", "B=1"];
        let flags = Flags::try_parse_from(line).expect("flags");
        let Command::Watch(flags) = flags.command else { panic!("another command") };
        let choice = Choice::of(&flags).expect("a choice");
        assert_eq!(choice.to_string(), "x with cgroup / and A=* and B=1");
        assert_eq!(choice.arguments(), line[2..]);
        // This process has no variable A.
        let own = Process { executable: "/x".to_owned(), ..Process::default() };
        assert!(!choice.takes(&own, Some(std::process::id())) && !choice.takes(&own, None));
        let plain = Choice { cgroup: None, variables: &[], ..choice };
        assert!(plain.takes(&own, None), "nothing is read that nobody asked for");
        assert!(Choice { variables: &[], ..choice }.takes(&own, Some(std::process::id())));
        for rest in [&["--", "x"][..], &["-p", "1"], &[]] {
            for flag in ["--match-env=A=1", "--match-cgroup=x"] {
                let line = [&["mallow", "watch", flag], rest].concat();
                assert!(Flags::try_parse_from(&line).is_err(), "{line:?} needs --match");
            }
        }
    }
}
