//! The `mallow` command: flags, commands, text, exit codes. It knows no wire layouts and no DWARF.

mod commands;
mod exit;
mod flags;
mod output;
mod picture;
mod screen;
mod text;
mod waiting;

use std::process::ExitCode;

use anyhow::Result;

use flags::{Command, Flags};

fn main() -> ExitCode {
    let command = match Flags::from_command_line() {
        Ok(flags) => flags.command,
        Err(status) => return status,
    };
    run(&command).unwrap_or_else(|error| {
        output::say(&format!("{error:#}"));
        ExitCode::from(exit::of_failure(&command, &error))
    })
}

fn run(command: &Command) -> Result<ExitCode> {
    match command {
        Command::Stat(flags) => commands::stat::run(flags),
        Command::Record(flags) => commands::record::run(flags),
        Command::Run(flags) => commands::run::run(flags),
        Command::Report(flags) => commands::report::run(flags),
        Command::Top(flags) => commands::top::run(flags),
        Command::Tree(flags) => commands::tree::run(flags),
        Command::List(flags) => commands::list::run(flags),
        Command::Leaks(flags) => commands::leaks::run(flags),
        Command::Flame(flags) => commands::flame::run(flags),
        Command::Timeline(flags) => commands::timeline::run(flags),
        Command::Diff(flags) => commands::diff::run(flags),
        Command::Merge(flags) => commands::merge::run(flags),
        Command::Export(flags) => commands::export::run(flags),
        Command::Test(flags) => commands::test::run(flags),
        Command::Go(flags) => commands::go::run(flags),
        Command::Watch(flags) => commands::watch::run(flags),
        Command::Import(flags) => commands::import::run(flags),
        Command::Pack(flags) => commands::pack::run(flags),
        Command::Recover(flags) => commands::recover::run(flags),
        Command::Doctor(flags) => commands::doctor::run(flags),
        Command::Completions(flags) => commands::documents::completions(flags),
        Command::Man(flags) => commands::documents::man(flags),
    }
}
