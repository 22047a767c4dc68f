//! Where a server listens: an address, or a socket file.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, fchmod};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with};

/// Connections that wait in the kernel until they are accepted.
const BACKLOG: i32 = 1024;

/// A bound socket that does not answer yet.
#[derive(Debug)]
pub struct Listener(pub(crate) Kind);

#[derive(Debug)]
pub(crate) enum Kind {
    Tcp(TcpListener, SocketAddr),
    Unix(UnixListener, SocketFile),
}

impl Listener {
    /// Listens on an address; port 0 takes a free one.
    pub fn bind(address: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        // std has room for 128 alone.
        listen(&listener, BACKLOG)?;
        Ok(Self(Kind::Tcp(listener, address)))
    }

    /// Listens on a socket file that its owner alone can open. The file that a dead server left is replaced, nothing
    /// else.
    pub fn bind_file(path: &Path) -> io::Result<Self> {
        if let Ok(metadata) = path.symlink_metadata() {
            let dead = metadata.file_type().is_socket() && UnixStream::connect(path).is_err_and(is_dead);
            if !dead {
                return Err(io::ErrorKind::AddrInUse.into());
            }
            std::fs::remove_file(path)?;
        }
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        // The mode of the socket becomes that of its file: nobody else can connect before it is set.
        fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
        bind(&socket, &SocketAddrUnix::new(path)?)?;
        let file = SocketFile::of(path)?;
        listen(&socket, BACKLOG)?;
        let listener = UnixListener::from(socket);
        listener.set_nonblocking(true)?;
        Ok(Self(Kind::Unix(listener, file)))
    }

    /// The address and its port; none for a socket file.
    pub fn address(&self) -> Option<SocketAddr> {
        match &self.0 {
            Kind::Tcp(_, address) => Some(*address),
            Kind::Unix(..) => None,
        }
    }
}

fn is_dead(error: io::Error) -> bool {
    error.kind() == io::ErrorKind::ConnectionRefused
}

/// The file of a socket: removed at the end, if it is still the same one.
#[derive(Debug)]
pub(crate) struct SocketFile {
    path: PathBuf,
    identity: (u64, u64),
}

impl SocketFile {
    fn of(path: &Path) -> io::Result<Self> {
        let metadata = path.symlink_metadata()?;
        Ok(Self { path: path.to_owned(), identity: (metadata.dev(), metadata.ino()) })
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let same = self.path.symlink_metadata().is_ok_and(|metadata| (metadata.dev(), metadata.ino()) == self.identity);
        if same {
            // A file that cannot be removed is replaced by the next server.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}
