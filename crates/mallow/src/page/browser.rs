//! The user's browser.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use anyhow::{Context, Result};

/// Opens an address in the browser that `$BROWSER` names, or the desktop's. Fails where no such program can be started.
pub fn open(address: &str) -> Result<()> {
    let program = std::env::var_os("BROWSER").filter(|name| !name.is_empty()).unwrap_or_else(|| "xdg-open".into());
    let mut command = Command::new(&program);
    command.arg(address).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // The terminal's Ctrl-C ends mallow, not the browser.
    command.process_group(0);
    let mut child = command.spawn().with_context(|| format!("cannot start {}", shown(&program)))?;
    // Whatever it says of itself: the address was printed.
    std::thread::spawn(move || child.wait());
    Ok(())
}

fn shown(program: &OsString) -> String {
    program.to_string_lossy().into_owned()
}
