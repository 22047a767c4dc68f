//! Command lines without their arguments, which may hold passwords, tokens and names of customers.

use crate::process::Process;
use crate::profile::Profile;

/// What a command line calls its program: its first word. A process that has written a title over its arguments has one word, such as
/// `nginx: master process nginx -c …`, of which this is the part before the first space; unless it is the name of one of `executables`.
pub fn command_word<'a, 'b>(word: &'a str, executables: impl IntoIterator<Item = &'b str>) -> &'a str {
    let name = |path: &str| path.rsplit('/').next().unwrap_or(path).to_owned();
    let end = word.find(' ').unwrap_or(word.len());
    let is_whole =
        end == word.len() || executables.into_iter().any(|path| !path.is_empty() && name(path) == name(word));
    if is_whole { word } else { &word[..end] }
}

impl Process {
    /// What its command line calls the program. None: it has no command line.
    pub fn command_word(&self) -> Option<&str> {
        let first = self.arguments.first()?;
        Some(command_word(first, [&*self.executable, &*self.executed_as]))
    }
}

impl Profile {
    /// Leaves of each command line what it calls its program.
    pub fn remove_arguments(&mut self) {
        let executables = self.processes.iter().flat_map(|process| [&*process.executable, &*process.executed_as]);
        let command = self.command.first().map(|first| command_word(first, executables).to_owned());
        self.command = command.into_iter().collect();
        for process in &mut self.processes {
            process.arguments = process.command_word().map(str::to_owned).into_iter().collect();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_is_cut_and_a_path_with_spaces_is_not() {
        assert_eq!(command_word("mysql", []), "mysql");
        assert_eq!(command_word("nginx: master process nginx -c x", ["/usr/sbin/nginx"]), "nginx:");
        assert_eq!(command_word("./my program", ["", "/opt/my program"]), "./my program");
        assert_eq!(command_word("", ["/x"]), "");
    }

    #[test]
    fn command_and_processes_keep_their_programs_alone() {
        let words = |all: &[&str]| all.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let process = |executable: &str, all: &[&str]| Process {
            executable: executable.to_owned(),
            arguments: words(all),
            ..Process::default()
        };
        let mut profile = Profile { command: words(&["mysql", "-psecret"]), ..Profile::default() };
        profile.processes = vec![
            process("/usr/bin/mysql", &["mysql", "-psecret"]),
            process("/a b", &["/a b", "x"]),
            process("/c", &[]),
        ];
        profile.remove_arguments();
        let left: Vec<_> = profile.processes.iter().map(|process| process.arguments.clone()).collect();
        assert_eq!(profile.command, ["mysql"]);
        assert_eq!(left, [words(&["mysql"]), words(&["/a b"]), words(&[])]);
    }
}
