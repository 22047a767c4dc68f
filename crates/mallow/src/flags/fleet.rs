//! Flags of `watch` for scrapers.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use clap::Args;

/// Where a watch answers scrapers.
#[derive(Debug, Args)]
pub struct ListenFlags {
    /// Answer scrapers at this address
    ///
    /// /metrics for Prometheus, /debug/pprof/heap and /debug/pprof/allocs for go tool pprof and stores of profiles,
    /// /healthz. An address of this machine with a port, where port 0 takes a free one; or unix:PATH, a socket that its
    /// owner alone can open. Default: nothing listens. Example: --listen 127.0.0.1:6060.
    #[arg(long, value_name = "ADDRESS", value_parser = listen, conflicts_with_all = ["set", "stop"])]
    pub listen: Option<ListenAddress>,
    /// Listen beyond this machine
    ///
    /// Allows an address that other machines reach; needs --token. A profile shows the program's functions and its
    /// command line. Default: off. Example: --listen 0.0.0.0:6060 --listen-publicly --token /run/secrets/mallow.
    #[arg(long, requires = "listen", requires = "token")]
    pub listen_publicly: bool,
    /// File with the token of requests
    ///
    /// Each request needs it, as Authorization: Bearer TOKEN or as ?token=TOKEN: 16 to 512 letters, digits and -_.~.
    /// Default: none, for whoever reaches the address. Example: --token /run/secrets/mallow.
    #[arg(long, value_name = "FILE", requires = "listen")]
    pub token: Option<PathBuf>,
    /// Who looks up names for profiles
    ///
    /// profile: mallow, and the profile has them, as go tool pprof wants it; store: the reader, by addresses and build
    /// ids, as Parca and Pyroscope can. Text has names always. Example: --symbols store.
    #[arg(long, value_name = "WHO", default_value = "profile", requires = "profiles")]
    pub symbols: SymbolsIn,
}

/// Where names of functions are looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum SymbolsIn {
    /// Here: profiles have them.
    Profile,
    /// By the reader.
    Store,
}

/// An address to listen on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListenAddress {
    /// Of TCP.
    Tcp(SocketAddr),
    /// A socket file.
    File(PathBuf),
}

fn listen(text: &str) -> Result<ListenAddress, String> {
    if let Some(path) = text.strip_prefix("unix:") {
        return match path {
            "" => Err("unix: needs a path".to_owned()),
            path => Ok(ListenAddress::File(path.into())),
        };
    }
    let local = text.strip_prefix("localhost:").and_then(|port| port.parse().ok());
    if let Some(port) = local {
        return Ok(ListenAddress::Tcp(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port)));
    }
    let address = text.parse().map(ListenAddress::Tcp);
    address.map_err(|_| "an address and its port (127.0.0.1:6060, [::1]:6060), or unix:PATH".to_owned())
}

#[cfg(test)]
mod tests {
    use super::{ListenAddress, listen};

    #[test]
    fn addresses_have_a_port() {
        for good in ["127.0.0.1:6060", "[::1]:0", "localhost:80", "0.0.0.0:1"] {
            assert!(matches!(listen(good), Ok(ListenAddress::Tcp(_))), "{good}");
        }
        assert_eq!(listen("unix:/run/x"), Ok(ListenAddress::File("/run/x".into())));
        for wrong in ["", "127.0.0.1", ":6060", "6060", "host.example:80", "unix:", "localhost:x", "127.0.0.1:65536"] {
            assert!(listen(wrong).is_err(), "{wrong}");
        }
    }
}
