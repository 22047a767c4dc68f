//! Servers of debug files, as the environment names them for all clients of debuginfod.

use std::time::Duration;

/// Limits of one file's download.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Time in which a server has to send [`PACE`] bytes, or all.
    pub timeout: Duration,
    /// Time for the whole file.
    pub time: Duration,
    /// Largest file, in bytes.
    pub size: u64,
}

/// Bytes that have to arrive in [`Limits::timeout`], as with elfutils' client.
pub const PACE: u64 = 100_000;

impl Limits {
    /// `DEBUGINFOD_TIMEOUT`, `DEBUGINFOD_MAXTIME` and `DEBUGINFOD_MAXSIZE`; what makes no sense there is not heeded.
    pub fn of_environment() -> Self {
        let number = |name: &str| std::env::var(name).ok()?.trim().parse::<u64>().ok().filter(|&number| number > 0);
        let seconds = |name, default| Duration::from_secs(number(name).unwrap_or(default).min(u32::MAX.into()));
        Self {
            timeout: seconds("DEBUGINFOD_TIMEOUT", 90),
            time: seconds("DEBUGINFOD_MAXTIME", 3600),
            size: number("DEBUGINFOD_MAXSIZE").unwrap_or(4 << 30),
        }
    }
}

/// A server, and how it is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// Address without a slash at the end.
    pub url: String,
    pub client: Client,
    pub failures: u32,
}

impl Server {
    /// Whether the server failed seldom enough to be asked.
    pub fn is_usable(&self) -> bool {
        /// Each may have taken the whole of [`Limits::timeout`].
        const FAILURES: u32 = 2;
        self.failures < FAILURES
    }
}

/// The program that asks a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Client {
    /// Mallow itself, which has no TLS.
    Mallow,
    DebuginfodFind,
}

pub fn configured() -> Vec<Server> {
    std::env::var("DEBUGINFOD_URLS").map_or_else(|_| Vec::new(), |urls| parse(&urls))
}

fn parse(urls: &str) -> Vec<Server> {
    let mut servers: Vec<Server> = Vec::new();
    // `ima:enforcing` and the like are elfutils' settings between the addresses.
    for word in urls.split_whitespace().filter(|word| !word.starts_with("ima:")) {
        let url = word.trim_end_matches('/').to_owned();
        let client = if url.starts_with("http://") { Client::Mallow } else { Client::DebuginfodFind };
        if servers.iter().all(|server| server.url != url) {
            servers.push(Server { url, client, failures: 0 });
        }
    }
    servers
}

#[cfg(test)]
mod tests {
    use super::{Client, parse};

    #[test]
    fn servers_are_words() {
        let servers = parse("  ima:permissive http://a:8002/ https://b/x \n http://a:8002");
        let found: Vec<_> = servers.iter().map(|server| (server.url.as_str(), server.client)).collect();
        assert_eq!(found, [("http://a:8002", Client::Mallow), ("https://b/x", Client::DebuginfodFind)]);
        assert_eq!(parse(" "), []);
    }
}
