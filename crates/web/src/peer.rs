//! The other end of a TCP connection of this machine: whose socket it is.

use std::fs;
use std::net::{IpAddr, SocketAddr};

#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer {
    pub(crate) client: SocketAddr,
    pub(crate) server: SocketAddr,
}

/// The user of the client's socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PeerUser {
    /// The user of this server, or root, which may read everything.
    Trusted,
    /// Another user, by id.
    Other(u32),
    /// The client's socket is not in the kernel's tables that this process sees, or it is being closed: then the kernel
    /// names root.
    Unknown,
}

/// A connection that is open at this end.
const ESTABLISHED: &str = "01";

impl Peer {
    pub(crate) fn user(self) -> PeerUser {
        let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(|table| fs::read_to_string(table).unwrap_or_default());
        let uid = tables.iter().flat_map(|table| table.lines()).find_map(|line| self.uid_in(line));
        match uid {
            Some(uid) if uid == 0 || uid == rustix::process::geteuid().as_raw() => PeerUser::Trusted,
            Some(uid) => PeerUser::Other(uid),
            None => PeerUser::Unknown,
        }
    }

    /// `sl local_address rem_address st tx:rx tr:when retrnsmt uid …` of the client's socket.
    fn uid_in(self, line: &str) -> Option<u32> {
        let mut words = line.split_ascii_whitespace();
        let (local, remote, state) = (words.nth(1)?, words.next()?, words.next()?);
        let is_it = state == ESTABLISHED && is_same(local, self.client) && is_same(remote, self.server);
        words.nth(3).filter(|_| is_it)?.parse().ok()
    }
}

/// Whether `0100007F:1F90`, or the same of IPv6 in four words, is this address. The kernel prints words in the
/// machine's order.
fn is_same(text: &str, address: SocketAddr) -> bool {
    let Some((host, port)) = text.split_once(':') else { return false };
    let words = host.as_bytes().chunks(8).map(|word| {
        let word = std::str::from_utf8(word).ok()?;
        u32::from_str_radix(word, 16).ok().map(u32::to_ne_bytes)
    });
    let host: Option<Vec<u8>> = words.collect::<Option<Vec<_>>>().map(|words| words.concat());
    let host = host.and_then(|host| match (<[u8; 4]>::try_from(&host[..]), <[u8; 16]>::try_from(&host[..])) {
        (Ok(v4), _) => Some(IpAddr::from(v4)),
        (_, Ok(v6)) => Some(IpAddr::from(v6)),
        _ => None,
    });
    host.map(|host| host.to_canonical()) == Some(address.ip().to_canonical())
        && u16::from_str_radix(port, 16) == Ok(address.port())
}

#[cfg(test)]
mod tests {
    use std::net::{Shutdown, TcpListener, TcpStream};

    use super::{Peer, PeerUser, is_same};

    #[test]
    fn a_socket_of_this_process_is_trusted_while_it_is_open() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(address) else { continue };
            let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (stream, address) = listener.accept().unwrap();
            let peer = Peer { client: address, server: stream.local_addr().unwrap() };
            assert_eq!(peer.user(), PeerUser::Trusted);
            client.shutdown(Shutdown::Write).unwrap();
            assert_eq!(peer.user(), PeerUser::Unknown);
        }
    }

    #[test]
    fn another_users_socket_is_not() {
        let line =
            "  1: 0100007F:D431 0100007F:1F90 01 00000000:00000000 00:00000000 00000000  1234  0 77 1 0 20 4 1 10 -1";
        let peer = Peer { client: "127.0.0.1:54321".parse().unwrap(), server: "127.0.0.1:8080".parse().unwrap() };
        assert_eq!(peer.uid_in(line), Some(1234));
        // The server's own end, and a socket that is being closed.
        let back = Peer { client: peer.server, server: peer.client };
        assert_eq!(back.uid_in(line), None);
        assert_eq!(peer.uid_in(&line.replace(" 01 ", " 06 ")), None);
        for nonsense in
            ["", "1: 2 3 01 4 5 6", "  sl  local_address rem_address   st tx_queue", "1: é:1 é:1 01 1 1 1 1"]
        {
            assert_eq!(peer.uid_in(nonsense), None, "{nonsense}");
        }
    }

    #[test]
    fn addresses_as_the_kernel_prints_them() {
        let is = |text, address: &str| is_same(text, address.parse().unwrap());
        assert!(is("0100007F:1F90", "127.0.0.1:8080") && !is("0100007F:1F91", "127.0.0.1:8080"));
        assert!(is("00000000000000000000000001000000:1F90", "[::1]:8080"));
        // IPv4 in IPv6.
        assert!(is("0000000000000000FFFF00000100007F:1F90", "127.0.0.1:8080"));
        assert!(is("0100007F:1F90", "[::ffff:127.0.0.1]:8080"));
    }
}
