//! `mallow completions` and `mallow man`: what shells and `man` want to know, made from the table of flags.

use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::CommandFactory;
use clap::builder::Resettable;
use clap_complete::shells;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

use crate::flags::{CompletionsFlags, Flags, ManFlags, Shell};
use crate::output::{exit, stdio};

const DESCRIPTION: &str = "\
Mallow records every allocation of a C, C++ or Rust program, without a rebuild and without root, and says what it allocated, \
where, what was live at the peak, what live and what was temporary.

mallow record runs a command, writes a recording and prints the overview; the views show recordings. mallow stat counts, \
without stacks. FILE defaults to the newest recording in the current directory.";

pub fn completions(flags: &CompletionsFlags) -> Result<ExitCode> {
    stdio::print(&script(flags.shell)?)?;
    Ok(exit::OK)
}

fn script(shell: Shell) -> Result<String> {
    let mut command = Flags::command();
    let mut text = Vec::new();
    let name = "mallow";
    match shell {
        Shell::Bash => clap_complete::generate(shells::Bash, &mut command, name, &mut text),
        Shell::Zsh => clap_complete::generate(shells::Zsh, &mut command, name, &mut text),
        Shell::Fish => clap_complete::generate(shells::Fish, &mut command, name, &mut text),
    }
    let text = String::from_utf8(text).context("the completions are no UTF-8")?;
    Ok(match shell {
        Shell::Bash => text.replace("complete -F _mallow -o", "complete -F _mallow_or_command -o") + BASH,
        Shell::Zsh => text.replace(":PID:_default", ":PID:_pids"),
        Shell::Fish => text + FISH,
    })
}

/// Functions for bash that clap's script lacks: process ids, and the words of the command that mallow runs.
const BASH: &str = r#"
_mallow_or_command() {
    local i
    if [[ $3 == -p || $3 == --pid ]]; then
        mapfile -t COMPREPLY < <(cd /proc && compgen -W "$(printf '%s ' [0-9]*)" -- "$2")
        return
    fi
    for ((i = 2; i < COMP_CWORD; i++)); do
        if [[ ${COMP_WORDS[i]} == -- ]]; then
            if declare -F _command_offset > /dev/null; then
                _command_offset $((i + 1))
            elif ((COMP_CWORD == i + 1)); then
                mapfile -t COMPREPLY < <(compgen -c -- "$2")
            fi
            return
        fi
    done
    _mallow "$@"
}
"#;

const FISH: &str = r#"
complete -c mallow -n "__fish_seen_subcommand_from watch" -s p -l pid -x -a "(__fish_complete_pids)"
"#;

/// Prints a page, or writes all of them.
pub fn man(flags: &ManFlags) -> Result<ExitCode> {
    let pages = pages()?;
    if let Some(directory) = &flags.into {
        std::fs::create_dir_all(directory).with_context(|| format!("cannot make {}", directory.display()))?;
        for (name, page) in &pages {
            let path = directory.join(format!("{name}.1"));
            std::fs::write(&path, page).with_context(|| format!("cannot write {}", path.display()))?;
        }
        return Ok(exit::OK);
    }
    let wanted = flags.command.as_ref().map_or_else(|| "mallow".to_owned(), |command| format!("mallow-{command}"));
    match pages.iter().find(|(name, _)| *name == wanted) {
        Some((_, page)) => stdio::print(page)?,
        None => {
            let names: Vec<_> = pages.iter().filter_map(|(name, _)| name.strip_prefix("mallow-")).collect();
            let asked = flags.command.as_deref().unwrap_or_default();
            bail!(exit::UsageError(format!("there is no command {asked}; there are {}", names.join(", "))))
        }
    }
    Ok(exit::OK)
}

/// All pages with their names: that of mallow, and one for each command.
fn pages() -> Result<Vec<(String, String)>> {
    let mut whole = Flags::command();
    whole.build();
    let mut pages = Vec::new();
    add_pages(&whole, "mallow", None, &mut pages)?;
    Ok(pages)
}

/// The page of a command, and those of its subcommands: their pages refer to each other.
fn add_pages(command: &clap::Command, name: &str, of: Option<&str>, pages: &mut Vec<(String, String)>) -> Result<()> {
    pages.push((name.to_owned(), page(&command.clone().display_name(name), of)?));
    for inner in command.get_subcommands() {
        add_pages(inner, &format!("{name}-{}", inner.get_name()), Some(name), pages)?;
    }
    Ok(())
}

/// One page; `of` is the page of the command that it is a part of.
fn page(command: &clap::Command, of: Option<&str>) -> Result<String> {
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage:").trim().to_owned();
    let name = command.get_display_name().unwrap_or(command.get_name()).to_owned();
    // The text after the options has headings of its own.
    let after = command.get_after_long_help().map(ToString::to_string).unwrap_or_default();
    let mut plain = command.clone().override_usage(usage).after_long_help(Resettable::Reset);
    plain = plain.version(Resettable::Reset).subcommand_help_heading("COMMANDS");
    if of.is_none() {
        plain = plain.long_about(DESCRIPTION);
    }
    let mut text = Vec::new();
    Man::new(plain).render(&mut text).context("cannot make the page")?;
    let mut text = titled(&String::from_utf8(text).context("the page is no UTF-8")?, &name.to_uppercase());
    let mut rest = Roff::default();
    sections(&mut rest, &after);
    rest.control("SH", ["SEE ALSO"]);
    let others: Vec<_> = match of {
        None => command.get_subcommands().map(|c| format!("mallow-{}", c.get_name())).collect(),
        Some(page) => vec![page.to_owned()],
    };
    for (at, other) in others.iter().enumerate() {
        rest.text([bold(other), roman(if at + 1 < others.len() { "(1)," } else { "(1)" })]);
    }
    text.push_str(&rest.to_roff());
    Ok(text)
}

/// The page under a title of its own: without a date, so that each build makes the same one.
fn titled(page: &str, name: &str) -> String {
    let title = format!(".TH {name} 1 \"\" \"mallow {}\" Mallow", env!("CARGO_PKG_VERSION"));
    let lines = page.lines().map(|line| if line.starts_with(".TH ") { &title } else { line });
    let page: String = lines.flat_map(|line| [line, "\n"]).collect();
    // clap_mangen's two breaks around an empty line are faults to mandoc.
    page.replace("\n.br\n\n.br\n", "\n.sp\n")
}

/// Text under headings (`Exit status:`) as sections of a page. Its lines stay lines: they are small tables.
fn sections(roff: &mut Roff, text: &str) {
    let mut open = false;
    for line in text.lines().filter(|line| !line.is_empty()) {
        if let Some(heading) = line.strip_suffix(':').filter(|line| !line.starts_with(' ')) {
            if std::mem::replace(&mut open, true) {
                roff.control("fi", []);
            }
            roff.control("SH", [heading.to_uppercase().as_str()]);
            roff.control("nf", []);
        } else {
            roff.text([roman(line)]);
        }
    }
    if open {
        roff.control("fi", []);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::process::{Command, Stdio};

    use super::*;

    /// Every flag that a person can give, with the command that has it.
    fn flags() -> Vec<(String, clap::Arg)> {
        let mut whole = Flags::command();
        whole.build();
        let named = |c: &clap::Command| {
            let name = c.get_name().to_owned();
            let shown = c.get_arguments().filter(|a| !a.is_hide_set()).cloned();
            shown.map(|a| (name.clone(), a)).collect::<Vec<_>>()
        };
        whole.get_subcommands().flat_map(named).collect()
    }

    #[test]
    fn every_command_and_flag_says_what_it_is_for() {
        let mut whole = Flags::command();
        whole.build();
        for command in whole.get_subcommands() {
            assert!(command.get_about().is_some(), "mallow {} says nothing", command.get_name());
        }
        for (command, flag) in flags() {
            let help = flag.get_help().map(ToString::to_string).unwrap_or_default();
            assert!(
                !help.is_empty() && !help.trim_end_matches("..").ends_with('.'),
                "mallow {command} {}: {help:?}",
                flag.get_id()
            );
        }
    }

    /// A heading holds for all that follows it, until another replaces it.
    #[test]
    fn headings_hold_what_belongs_under_them() {
        for (command, flag) in flags() {
            let shared = flag.get_long().is_none_or(|long| ["json", "limit", "exact", "full-names"].contains(&long));
            assert!(!shared || flag.get_help_heading().is_none(), "mallow {command} {}", flag.get_id());
        }
    }

    #[test]
    fn every_flag_is_in_its_commands_page() {
        let pages = pages().expect("pages");
        for (command, flag) in flags() {
            let page = &pages.iter().find(|(name, _)| *name == format!("mallow-{command}")).expect("a page").1;
            let written = match (flag.get_long(), flag.get_value_names()) {
                (Some(long), _) => format!("--{long}").replace('-', "\\-"),
                (None, Some(names)) => names.join(" "),
                (None, None) => panic!("{} has no name", flag.get_id()),
            };
            assert!(page.contains(&written), "mallow-{command}(1) has no {written}");
        }
        let (_, record) = pages.iter().find(|(name, _)| name == "mallow-test").expect("a page");
        assert!(record.contains(".SH \"EXIT STATUS\"") && !record.contains(".SH EXTRA"), "{record}");
    }

    /// A reader who follows a reference finds a page.
    #[test]
    fn pages_refer_to_pages() {
        let pages = pages().expect("pages");
        let names: Vec<_> = pages.iter().map(|(name, _)| name.as_str()).collect();
        assert!(names.contains(&"mallow-go-bench"), "{names:?}");
        for (name, page) in &pages {
            let plain = page.replace("\\-", "-").replace("\\fB", "").replace("\\fR", "");
            let mut referred: Vec<_> =
                plain.split("(1)").map(|text| text.rsplit([' ', '\n']).next().unwrap_or_default()).collect();
            referred.pop();
            for other in referred.iter().filter(|other| other.starts_with("mallow")) {
                assert!(names.contains(other), "{name} refers to {other}(1)");
            }
        }
    }

    #[test]
    fn completions_know_every_command_and_flag() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let script = script(shell).expect("a script");
            for (command, flag) in flags() {
                assert!(script.contains(&command), "{shell:?}: {command}");
                let long = flag.get_long().unwrap_or_default();
                assert!(script.contains(long), "{shell:?}: mallow {command} --{long}");
            }
        }
    }

    /// What a program says of this text, on its standard input.
    fn checked(program: &str, arguments: &[&str], text: &str) -> String {
        let child = Command::new(program)
            .args(arguments)
            .env("LC_ALL", "C.UTF-8")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        let mut child = child.unwrap_or_else(|e| panic!("{program}: {e}: tests/prerequisites lists what to install"));
        child.stdin.take().expect("a pipe").write_all(text.as_bytes()).expect("it reads");
        let output = child.wait_with_output().expect("it ends");
        let said = [output.stdout, output.stderr].concat();
        assert!(output.status.success() || !said.is_empty(), "{program}: {}", output.status);
        String::from_utf8_lossy(&said).into_owned()
    }

    #[test]
    fn pages_are_without_faults() {
        for (name, page) in pages().expect("pages") {
            let said = checked("mandoc", &["-T", "lint", "-W", "warning"], &page);
            // They have no date, so that each build makes the same ones.
            let faults: Vec<_> = said.lines().filter(|line| !line.contains("missing date")).collect();
            assert!(faults.is_empty(), "{name}: {faults:#?}");
            let shown = checked("mandoc", &["-T", "utf8"], &page).replace('\u{8}', "");
            assert!(shown.contains("SYNOPSIS") || shown.contains("SSYYNNOOPPSSIISS"), "{shown}");
        }
    }

    #[test]
    fn completions_are_scripts() {
        for (shell, program) in [(Shell::Bash, "bash"), (Shell::Zsh, "zsh"), (Shell::Fish, "fish")] {
            let script = script(shell).expect("a script");
            assert_eq!(checked(program, &["-n", "/dev/stdin"], &script), "", "{program}");
            let broken = format!("{script}\nfor x in (((\n");
            assert_ne!(checked(program, &["-n", "/dev/stdin"], &broken), "", "{program} notices nothing");
        }
    }
}
