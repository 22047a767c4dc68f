//! What a command line calls its program, and command lines without their arguments, which may hold passwords, tokens
//! and names of customers.

use crate::process::Process;
use crate::profile::Profile;

/// What a command line calls its program: its first word. A process that has written a title over its arguments has one
/// word, such as `nginx: master process nginx -c …`, of which this is the part before the first white space; unless it
/// is the name of one of `executables`.
pub fn command_word<'a, 'b>(word: &'a str, executables: impl IntoIterator<Item = &'b str>) -> &'a str {
    let end = word.find(char::is_whitespace).unwrap_or(word.len());
    let is_whole =
        end == word.len() || executables.into_iter().any(|path| !path.is_empty() && file_name(path) == file_name(word));
    if is_whole { word } else { &word[..end] }
}

/// The name of a program as it was called, without its directory, and without the colon of a title. Called by nothing,
/// it has its executable's.
pub fn program_name<'a>(called: &'a str, executable: &'a str) -> &'a str {
    if called.is_empty() {
        return file_name(executable);
    }
    let word = Some(command_word(called.trim_start(), [executable])).filter(|word| !word.is_empty()).unwrap_or(called);
    file_name(word.strip_suffix(':').filter(|name| word.len() < called.len() && !name.is_empty()).unwrap_or(word))
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

impl Process {
    /// The program's name as [`program_name`] has it, of the first argument and the executable.
    pub fn program(&self) -> &str {
        program_name(self.arguments.first().map_or("", |name| name), &self.executable)
    }

    /// What the command line calls the program ([`command_word`]); None without a command line.
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
    fn a_title_is_no_path() {
        for (called, executable, name) in [
            ("/usr/bin/gcc", "/usr/bin/x86_64-linux-gnu-gcc-12", "gcc"),
            ("nginx", "/usr/sbin/nginx", "nginx"),
            ("nginx: master process nginx -p /srv/ngx -c n.conf", "/usr/sbin/nginx", "nginx"),
            ("nginx: worker process", "/usr/sbin/nginx", "nginx"),
            ("redis-server *:6379", "/usr/bin/redis-check-rdb", "redis-server"),
            ("/opt/puma 5.6 (tcp://0.0.0.0:80) [app]", "/usr/bin/ruby3.1", "puma"),
            ("/opt/My Tools/a tool", "/opt/My Tools/a tool", "a tool"),
            ("./a tool", "/opt/My Tools/a tool", "a tool"),
            ("", "/usr/bin/sort", "sort"),
            (":", "/usr/bin/true", ":"),
            (" ", "/usr/bin/true", " "),
            ("-bash", "/usr/bin/bash", "-bash"),
            ("", "", ""),
        ] {
            assert_eq!(program_name(called, executable), name, "{called:?}");
        }
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
