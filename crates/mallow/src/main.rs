//! The `mallow` command: flags, commands, text, exit codes. It knows no wire layouts and no DWARF.

// A damaged file, or a hostile one, ends in an error: what cannot fail says why in an `expect` of its own.
#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::unreachable,
        clippy::todo,
        clippy::unimplemented
    )
)]

mod flags;
mod gate;
mod go;
mod host_names;
mod input;
mod output;
mod page;
mod runs;
mod schemas;
mod views;

use std::process::ExitCode;

use anyhow::Result;

use flags::{Command, Flags};
use output::{exit, stdio};

fn main() -> ExitCode {
    if let Some(status) = runs::guard::keeper() {
        return status;
    }
    host_names::settle();
    let command = match Flags::from_command_line() {
        Ok(flags) => flags.command,
        Err(status) => return status,
    };
    run(&command).unwrap_or_else(|error| {
        stdio::notify(&format!("{error:#}"));
        ExitCode::from(of_failure(&command, &error))
    })
}

fn run(command: &Command) -> Result<ExitCode> {
    match command {
        Command::Stat(flags) => runs::stat::run(flags),
        Command::Record(flags) => runs::record::run(flags),
        Command::Run(flags) => runs::run::run(flags),
        Command::Guard(flags) => runs::guard::run(flags),
        Command::View(flags) if flags.live.is_some() => runs::watch::show_page(flags),
        Command::View(flags) => page::run(flags),
        Command::Report(flags) => views::report::run(flags),
        Command::Top(flags) => views::top::run(flags),
        Command::Tree(flags) => views::tree::run(flags),
        Command::List(flags) => views::list::run(flags),
        Command::Leaks(flags) => views::leaks::run(flags),
        Command::Flame(flags) => views::flame::run(flags),
        Command::Timeline(flags) => views::timeline::run(flags),
        Command::Rss(flags) => runs::rss::run(flags),
        Command::Sizes(flags) => views::blocks::sizes(flags),
        Command::Lifetimes(flags) => views::blocks::lifetimes(flags),
        Command::Threads(flags) => views::blocks::threads(flags),
        Command::Diff(flags) => views::diff::run(flags),
        Command::Merge(flags) => runs::merge::run(flags),
        Command::Export(flags) if flags.format == flags::ExportFormat::Html => page::export(flags),
        Command::Export(flags) => views::export::run(flags),
        Command::Test(flags) => gate::run(flags),
        Command::Go(flags) => go::run(flags),
        Command::Watch(flags) if flags.pattern.is_some() => runs::fleet::run(flags),
        Command::Watch(flags) => runs::watch::run(flags),
        Command::Import(flags) => runs::import::run(flags),
        Command::Pack(flags) => runs::pack::run(flags),
        Command::Symbols(flags) => runs::symbols::run(flags),
        Command::Recover(flags) => runs::recover::run(flags),
        Command::Doctor(flags) => runs::doctor::run(flags),
        Command::Completions(flags) => views::manual::completions(flags),
        Command::Man(flags) => views::manual::man(flags),
        Command::Help(flags) => views::help::run(flags),
    }
}

/// The code of a command that failed.
fn of_failure(command: &Command, error: &anyhow::Error) -> u8 {
    match command {
        _ if error.is::<exit::UsageError>() => exit::USAGE,
        Command::Stat(_) | Command::Record(_) | Command::Run(_) | Command::Guard(_) => exit::FAILED_AROUND_COMMAND,
        Command::Test(_) => exit::BROKEN,
        _ => exit::FAILED,
    }
}
