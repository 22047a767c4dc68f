//! One connection: a stream of either kind, and the requests on it.

use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::sync::Arc;

use http_body_util::Full;
use hyper::body::{Body, Bytes, Incoming};
use hyper::header::TRANSFER_ENCODING;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::Semaphore;

use crate::access::{Access, Gate};
use crate::activity::Activity;
use crate::peer::Peer;
use crate::strangers::Strangers;
use crate::{Request, Response};

/// A stream of bytes to a client.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Send {}

impl<T: AsyncRead + AsyncWrite + Send> Stream for T {}

/// A listening socket of either kind.
pub(crate) enum Acceptor {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Acceptor {
    /// The next connection, and both of its ends if it has addresses.
    pub(crate) async fn accept(&self) -> io::Result<(Pin<Box<dyn Stream>>, Option<Peer>)> {
        match self {
            Self::Tcp(listener) => {
                let (stream, client) = listener.accept().await?;
                let peer = stream.local_addr().ok().map(|server| Peer { client, server });
                // An answer is written whole: nothing is gained by waiting for more of it.
                let _ = stream.set_nodelay(true);
                Ok((Box::pin(stream), peer))
            }
            Self::Unix(listener) => listener.accept().await.map(|(stream, _)| (Box::pin(stream) as _, None)),
        }
    }
}

pub(crate) type Handler = dyn Fn(&Request) -> Response + Send + Sync;

pub(crate) struct Service {
    pub(crate) access: Access,
    pub(crate) gate: Gate,
    pub(crate) handler: Box<Handler>,
    pub(crate) activity: Activity,
    /// A permit for each thread that answers: a request whose client left before its turn costs nothing.
    pub(crate) workers: Arc<Semaphore>,
    pub(crate) strangers: Strangers,
}

/// The connection that a request came on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Connection {
    /// Key of the connection in [`Strangers`].
    pub(crate) number: u64,
    pub(crate) peer: Option<Peer>,
}

impl Service {
    pub(crate) async fn answer(
        self: Arc<Self>,
        connection: Connection,
        request: hyper::Request<Incoming>,
    ) -> Result<hyper::Response<Full<Bytes>>, Infallible> {
        Ok(self.respond(connection, request).await.into_hyper())
    }

    async fn respond(self: Arc<Self>, connection: Connection, request: hyper::Request<Incoming>) -> Response {
        let (parts, body) = request.into_parts();
        if !body.is_end_stream() || parts.headers.contains_key(TRANSFER_ENCODING) {
            // Its body is never read.
            return Response::error(413, "a request to this server has no body").with("connection", "close");
        }
        let from = (self.gate, connection.peer);
        if let Some(answer) = self.access.refusal(from, &parts.method, &parts.uri, &parts.headers) {
            // Who may not ask keeps no connection. A redirection to the page is no refusal.
            return if answer.status() < 400 { answer } else { answer.with("connection", "close") };
        }
        self.strangers.remove(connection.number);
        let running = self.activity.begin();
        let request = Request::new(&parts.method, &parts.uri, parts.headers);
        let Ok(permit) = Arc::clone(&self.workers).acquire_owned().await else {
            return Response::error(503, "the server ends");
        };
        let service = Arc::clone(&self);
        let answer = tokio::task::spawn_blocking(move || {
            // Held here: a client that leaves does not free the thread.
            let _permit = permit;
            (service.handler)(&request)
        });
        let answer = answer.await;
        drop(running);
        // A handler that panicked; its message is on standard error.
        answer.unwrap_or_else(|_| Response::error(500, "mallow failed to answer: please report it"))
    }
}
