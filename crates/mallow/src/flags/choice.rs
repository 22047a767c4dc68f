//! Flags of `watch --match` that choose among the processes whose program matches.

use std::fmt;

use clap::Args;
use regex::Regex;

/// Which of the processes whose program matches.
#[derive(Debug, Args)]
pub struct ChoiceFlags {
    /// Only processes in control groups that match
    ///
    /// Compared with the paths of /proc/PID/cgroup, as mallow sees them: the unit of systemd, the pod's UID and the
    /// container's ID. Needs --match. Default: processes in all control groups.
    /// Example: --match . --match-cgroup 'system.slice/web-.*\.service'.
    #[arg(long, value_name = "REGEX", value_parser = Regex::new, requires = "pattern", conflicts_with_all = ["pid", "command"])]
    pub match_cgroup: Option<Regex>,
    /// Only processes with this environment variable
    ///
    /// The value is a pattern for all of it: * is any text, ? any character. As the program was started, in
    /// /proc/PID/environ; given several times, all have to match. Names and labels of pods are there if the pod's
    /// manifest puts them there. Needs --match. Default: processes with any environment. Example: --match . --match-env
    /// POD_NAMESPACE=shop --match-env 'POD_NAME=web-*'.
    #[arg(long, value_name = "NAME=GLOB", value_parser = variable, requires = "pattern", conflicts_with_all = ["pid", "command"])]
    pub match_env: Vec<VariablePattern>,
}

/// A variable of a process's environment, and what its value has to be.
#[derive(Clone, Debug)]
pub struct VariablePattern {
    text: String,
    name: String,
    value: Regex,
}

impl VariablePattern {
    /// Whether an environment has it: `NAME=value`, a 0 behind each. The first one of a name counts, as for getenv.
    pub fn is_in(&self, environment: &[u8]) -> bool {
        let mut all = environment.split(|byte| *byte == 0);
        let value = all.find_map(|pair| pair.strip_prefix(self.name.as_bytes())?.strip_prefix(b"="));
        value.is_some_and(|value| self.value.is_match(&String::from_utf8_lossy(value)))
    }
}

impl fmt::Display for VariablePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

fn variable(text: &str) -> Result<VariablePattern, String> {
    let Some((name, glob)) = text.split_once('=').filter(|(name, _)| !name.is_empty()) else {
        return Err("a variable and its value are NAME=GLOB, as POD_NAMESPACE=shop or POD_NAME=web-*".to_owned());
    };
    let value = regex::escape(glob).replace(r"\*", ".*").replace(r"\?", ".");
    let value = Regex::new(&format!("(?s)^{value}$")).map_err(|error| error.to_string())?;
    Ok(VariablePattern { text: text.to_owned(), name: name.to_owned(), value })
}

#[cfg(test)]
mod tests {
    use super::variable;

    #[test]
    fn a_variable_is_compared_as_a_whole() {
        let environment = b"A=1\0POD_NAME=web-1\0EMPTY=\0POD_NAME=other\0LINES=a\nb\0XPOD_NAME=x\0ODD=a*b\0";
        let is_in = |text: &str| variable(text).expect("a pattern").is_in(environment);
        for chosen in
            ["A=1", "A=?", "POD_NAME=web-*", "POD_NAME=*", "EMPTY=", "EMPTY=*", "LINES=a*b", "ODD=a*b", "POD_NAME=w*1"]
        {
            assert!(is_in(chosen), "{chosen}");
        }
        for other in [
            "A=11",
            "A=",
            "POD_NAME=web",
            "POD_NAME=eb-1",
            "POD_NAME=other",
            "NONE=*",
            "OD_NAME=*",
            "EMPTY=?",
            "A=.",
            "A=[0-9]",
        ] {
            assert!(!is_in(other), "{other}");
        }
        for wrong in ["POD_NAME", "=x", ""] {
            assert!(variable(wrong).is_err(), "{wrong}");
        }
        assert!(variable("A=*").expect("a pattern").is_in(b"A=\xff\xfe\0"));
    }
}
