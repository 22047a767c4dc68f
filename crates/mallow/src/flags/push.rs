//! Flags of `watch` for stores that profiles are sent to.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::quantities::{TIMES, duration};

/// Where a watch sends profiles.
#[derive(Debug, Args)]
pub struct PushFlags {
    /// Send heap profiles to this store
    ///
    /// otlp=URL: a Collector of OpenTelemetry, or what else takes its profiles (URL/v1development/profiles).
    /// pyroscope=URL: Pyroscope (URL/ingest). parca=URL: Parca. Several stores get a flag each. Each process has a
    /// profile of its own, with what it allocated since the last one and what is live. Default: nothing is sent.
    /// Example: --push otlp=http://127.0.0.1:4318.
    #[arg(long, value_name = "STORE=URL", conflicts_with_all = ["set", "stop"])]
    pub push: Vec<String>,
    /// Interval between pushes
    ///
    /// A tenth longer or shorter by chance, so that a fleet does not push at once. With a unit (ms, s, m, h), at least
    /// 100ms. Example: --push-every 1m.
    #[arg(long, value_name = "TIME", default_value = "15s", value_parser = interval, requires = "push")]
    pub push_every: Duration,
    /// File with headers of pushes
    ///
    /// A line NAME: VALUE each, as Authorization: Bearer TOKEN; read again at each push. STORE=FILE is for one kind of
    /// store alone. They need https, or a store on this machine. Default: no headers. Example: --push-header-file
    /// /run/secrets/push.
    #[arg(long, value_name = "[STORE=]FILE", requires = "push")]
    pub push_header_file: Vec<PathBuf>,
    /// File with certificates to trust
    ///
    /// Authorities (PEM) that may sign the certificates of stores with https. Default: those of the system. Example:
    /// --push-ca /etc/ssl/private-ca.pem.
    #[arg(long, value_name = "FILE", requires = "push")]
    pub push_ca: Option<PathBuf>,
}

fn interval(text: &str) -> Result<Duration, String> {
    match duration(text, TIMES)? {
        ms @ 100.. => Ok(Duration::from_millis(ms)),
        _ => Err("at least 100ms: 500ms, 15s, 1m".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::interval;

    #[test]
    fn intervals_have_a_lower_bound() {
        assert_eq!(interval("100ms").map(|time| time.as_millis()), Ok(100));
        assert!(interval("99ms").is_err() && interval("0").is_err() && interval("x").is_err());
    }
}
