//! Flags of `view`.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::go_reasons::GoReasonsFlags;
use super::names::NameFlags;
use super::quantities::time;
use super::run::period;

/// Flags of `view`.
#[derive(Debug, Args)]
pub struct PageFlags {
    /// Process to watch, instead of a recording
    ///
    /// The page shows what is sampled of it, anew every two seconds. Like mallow watch -p, Mallow joins a process that
    /// mallow run started, and attaches to any other. Default: a recording is shown. Example: --live $(pidof server).
    #[arg(long, value_name = "PID", conflicts_with_all = ["file", "after", "go_reasons", "binary", "symfs"], value_parser = clap::value_parser!(u32).range(1..))]
    pub live: Option<u32>,
    /// Bytes between samples, on average
    ///
    /// With --live; as mallow watch --period. Default: 512KiB; what it was in a program that --live joins. Example:
    /// --period 64KiB.
    #[arg(long, value_name = "SIZE", value_parser = period, requires = "live", conflicts_with_all = ["file", "after"])]
    pub period: Option<u32>,
    /// Do not open a browser
    ///
    /// The address is printed all the same, for a browser of your choice. Default: the program that $BROWSER names, or
    /// xdg-open.
    #[arg(long)]
    pub no_browser: bool,
    /// Port to listen on
    ///
    /// Default: a free one. Example: --port 8080.
    #[arg(long, value_name = "PORT", default_value_t = 0, hide_default_value = true)]
    pub port: u16,
    /// Address to listen on
    ///
    /// Another address than a loopback one lets other machines read the recording, if they know the token; nothing is
    /// encrypted. Default: 127.0.0.1. Example: --listen 0.0.0.0.
    #[arg(long, value_name = "ADDRESS", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST), hide_default_value = true)]
    pub listen: IpAddr,
    /// End after this time without requests
    ///
    /// An open page asks once a minute, as far as the browser lets it. 0 ends with Ctrl-C alone. Default: 1h. Example:
    /// --idle 10m.
    #[arg(long, value_name = "TIME", default_value = "1h", hide_default_value = true, value_parser = time)]
    pub idle: Duration,
    /// Reasons beside Go lines.
    #[command(flatten)]
    pub reasons: GoReasonsFlags,
    /// Recording or profile to show
    ///
    /// A recording of mallow, or a file of another tool in any format that mallow reads. Default: the newest *.mallow
    /// in the current directory.
    #[arg(value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Later recording, to compare FILE with
    ///
    /// The page shows this one, and what changed since FILE. Default: FILE alone. Example: mallow view before.mallow
    /// after.mallow.
    #[arg(value_name = "AFTER")]
    pub after: Option<PathBuf>,
    /// Where its names are.
    #[command(flatten)]
    pub names: NameFlags,
}
