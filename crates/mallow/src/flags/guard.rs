//! Flags of `guard`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::program::CommandFlags;
use super::quantities::{SIZES, number, size};
use super::run::period;
use super::views::ViewFlags;

/// Flags of `guard`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Each block gets pages of its own; the page behind it, and the pages of a block that was freed, are missing. A wrong read or
write stops its thread in the kernel, Mallow reads its stack from outside, and the program goes on. No rebuild, any allocator
that comes by malloc and free. A signal handler reports crashes, where the program has none of its own.

Found at the access: uses after free; accesses past the end of a block, or before its beginning with --place begin.
Found at the call: double frees, frees of addresses inside of blocks, frees that do not belong to the allocation (new[] and
delete); without --sample also frees of what is no block.
Found before the call: wrong buffers of read, write, send, recv and their kind.
Found at the exit with --leaks: blocks that nothing points to any more.
Found when a signal ends the program: what it was, the stack, the registers, and the guarded block nearest to the address.
Found at the free, or at the exit: writes beside a block, within its pages. Alignment leaves up to 15 bytes behind a block; a
read of these is not found, unless --alignment 1.
Not found: accesses to stack and static memory, and what other system calls do: they fail with EFAULT where the memory is missing.

Exit status: 3 where an error was found, 4 where less was guarded than --require-guarded asks for, 125 where guarding is impossible here, otherwise the command's.

Examples:
  mallow guard -- ./tests
  mallow guard --place begin -- ./tests         look for accesses before blocks
  mallow guard --alignment 1 -- ./tests         find reads one byte behind odd sizes; a few programs need 16
  mallow guard --leaks -- ./tests               look for leaks, too
  mallow guard --sample 64KiB -- ./server       guard one allocation in 64 KiB
  mallow guard --junit guard.xml -- ./tests     for CI")]
pub struct GuardFlags {
    /// Guard one allocation in SIZE bytes
    ///
    /// Picked at random, on average: each requested byte with the same chance. Much cheaper; the chance to find an
    /// error in one run falls accordingly. Default: every allocation is guarded. Example: --sample 64KiB.
    #[arg(long, value_name = "SIZE", value_parser = period)]
    pub sample: Option<u32>,
    /// Memory of live guarded blocks
    ///
    /// A block takes whole pages. What is allocated while so much is live is not guarded, and is counted. Example:
    /// --memory 4GiB.
    #[arg(long, value_name = "SIZE", default_value = "1GiB", value_parser = memory)]
    pub memory: u64,
    /// Side of blocks that is guarded
    ///
    /// A block ends before the missing page, or begins after it, or one of both at random for each allocation.
    #[arg(long, value_name = "SIDE", default_value = "end")]
    pub place: PlaceFlag,
    /// Least alignment of blocks
    ///
    /// malloc promises 16. With less, a block ends nearer to the missing page: with 1 right before it. Programs that
    /// use vector instructions on odd sizes, or low bits of pointers, need 16. Example: --alignment 8.
    #[arg(long, value_name = "N", default_value = "16", value_parser = alignment)]
    pub alignment: u32,
    /// Allow a signal handler in the program
    ///
    /// Where userfaultfd is forbidden, as in Docker's default, pages are protected instead, and a handler for SIGSEGV
    /// in the program waits for Mallow at a wrong access. It passes on what is none. A thread that blocks SIGSEGV ends
    /// the program at its wrong access, and 24,000 live blocks are guarded at a time: more need more mappings than a
    /// process may have. Default: off, mallow ends with 125 there.
    #[arg(long)]
    pub signal_handler: bool,
    /// Search each process for leaks at its exit
    ///
    /// A leak is a guarded block that no pointer leads to any more: not from static memory, stacks or registers, not
    /// through other blocks. Each process waits at its exit until its memory was searched, some milliseconds as a rule
    /// and 20 s at the most. Processes that end by a signal, _exit or exec, that were forked, or that a seccomp filter
    /// keeps from waiting, are not searched; the report counts them. --suppressions has lines leak:PATTERN for leaks.
    #[arg(long)]
    pub leaks: bool,
    /// End the command at its first error
    ///
    /// By SIGABRT, with the registers of the wrong access: for a core file or a debugger. Default: it goes on.
    #[arg(long)]
    pub fail_fast: bool,
    /// Fail where nothing, or too little, was guarded
    ///
    /// With a percentage: where fewer of the allocations that were to be guarded were, or where how many is not known,
    /// as of a process that Mallow does not see. Mallow exits with 4 then, unless an error was found. Default: no
    /// requirement. Examples:
    /// --require-guarded, --require-guarded=95%.
    #[arg(long, value_name = "PERCENT", num_args = 0..=1, require_equals = true, default_missing_value = "0", value_parser = percentage)]
    pub require_guarded: Option<f64>,
    /// File of errors to leave out
    ///
    /// A line guard:PATTERN for each, as leaks has them: it matches functions, files and modules of the error's stacks.
    /// Lines leak:PATTERN leave out leaks. Default: nothing is left out. Example: --suppressions known.supp.
    #[arg(long, value_name = "FILE")]
    pub suppressions: Option<PathBuf>,
    /// File for the report
    ///
    /// Default: standard error. Example: -o guard.json --json.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// JUnit report to write
    ///
    /// For CI servers: a test for each error. Default: nothing is written. Example: --junit guard.xml.
    #[arg(long, value_name = "FILE")]
    pub junit: Option<PathBuf>,
    /// SARIF file to write
    ///
    /// For code scanning, in version 2.1.0: errors at the lines of the access. Default: nothing is written. Example:
    /// --sarif guard.sarif.
    #[arg(long, value_name = "FILE")]
    pub sarif: Option<PathBuf>,
    /// Print GitHub workflow commands
    ///
    /// On standard output, so that GitHub shows errors at their lines. Default: off.
    #[arg(long)]
    pub github: bool,
    /// Show whole stacks
    ///
    /// Of each error. Default: the innermost functions.
    #[arg(long)]
    pub stacks: bool,
    /// How it looks.
    #[command(flatten)]
    pub view: ViewFlags,
    /// What to run.
    #[command(flatten)]
    pub run: CommandFlags,
}

/// Side of a block that is guarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PlaceFlag {
    /// Accesses behind blocks are found
    End,
    /// Accesses before blocks are found
    Begin,
    /// Either, for each allocation anew
    Random,
}

fn alignment(text: &str) -> Result<u32, String> {
    let number = text.parse::<u32>().ok().filter(|number| number.is_power_of_two() && *number <= 4096);
    number.ok_or_else(|| "it is a power of two, 1 to 4096: 8, 16".to_owned())
}

fn memory(text: &str) -> Result<u64, String> {
    size(text, SIZES)
}

fn percentage(text: &str) -> Result<f64, String> {
    const FORMS: &str = "it is a percentage, 0% to 100%: 95%";
    match number(text.strip_suffix('%').unwrap_or(text), FORMS)? {
        percent if percent <= 100.0 => Ok(percent),
        _ => Err(FORMS.to_owned()),
    }
}
