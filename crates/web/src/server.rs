//! The server: a thread that accepts connections, and its end.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{Semaphore, oneshot};
use tokio_io_timeout::TimeoutStream;

use crate::access::{Gate, is_loopback};
use crate::activity::Activity;
use crate::connection::{Acceptor, Connection, Service};
use crate::listener::Kind;
use crate::strangers::Strangers;
use crate::{Access, Listener, Request, Response};

/// Limits of one client, and of all together.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections at one time; more wait in the kernel.
    pub connections: usize,
    /// Time until the headers of a request are here, and for which a connection may idle.
    pub request: Duration,
    /// Time for which a client may read nothing of its answer.
    pub reading: Duration,
    /// Requests that are answered at one time.
    pub workers: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { connections: 256, request: Duration::from_secs(10), reading: Duration::from_secs(30), workers: 4 }
    }
}

/// Bytes of a request's line and headers.
const LARGEST_REQUEST: usize = 16 << 10;
/// Headers of a request; browsers send about 15.
const MOST_HEADERS: usize = 64;
/// Pause after an error to accept: no descriptor is left, and each attempt would fail at once.
const PAUSE: Duration = Duration::from_millis(50);
/// Where all room is taken: how often connections that sent no allowed request are looked at, and how long they have
/// for it. Each look comes after what arrived was read, so that one whose request is here has room.
const LOOK: Duration = Duration::from_millis(250);
const GRACE: Duration = Duration::from_millis(500);
/// Longest time for answers under way to finish after the server was stopped.
const SHUTDOWN_LIMIT: Duration = Duration::from_secs(2);

/// A server that answers until it is stopped or dropped.
pub struct Server {
    address: Option<SocketAddr>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
    service: Arc<Service>,
}

impl Server {
    /// Answers requests that `access` admits by the handler, on threads of its own. Other machines reach it only with a
    /// token.
    pub fn start(
        listener: Listener,
        access: Access,
        limits: Limits,
        handler: impl Fn(&Request) -> Response + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let address = listener.address();
        if address.is_some_and(|address| !is_loopback(address.ip())) && !access.needs_token() {
            return Err(io::Error::other("an address that other machines reach needs a token"));
        }
        let service = Arc::new(Service {
            access,
            gate: Gate::of(address),
            handler: Box::new(handler),
            activity: Activity::new(),
            workers: Arc::new(Semaphore::new(limits.workers)),
            strangers: Strangers::default(),
        });
        let runtime = Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .max_blocking_threads(limits.workers)
            .thread_name("mallow-web")
            .build()?;
        let (stop, stopped) = oneshot::channel();
        let shared = Arc::clone(&service);
        let thread = std::thread::Builder::new()
            .name("mallow-web".to_owned())
            .spawn(move || run(runtime, listener, &shared, limits, stopped))?;
        Ok(Self { address, stop: Some(stop), thread: Some(thread), service })
    }

    /// The address and its port; none for a socket file.
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// Time since the last answer to somebody who may ask; 0 during one.
    pub fn idle(&self) -> Duration {
        self.service.activity.idle()
    }

    /// Accepts nothing more, and waits two seconds at most for answers that are under way.
    pub fn stop(self) {}
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // It panics nowhere; if it did, its message is on standard error, and nothing is left to end.
            let _ = thread.join();
        }
    }
}

fn run(runtime: Runtime, listener: Listener, service: &Arc<Service>, limits: Limits, stopped: oneshot::Receiver<()>) {
    // The file of a socket is removed as this ends.
    let (acceptor, _file) = match listener.0 {
        Kind::Tcp(listener, _) => {
            let _inside = runtime.enter();
            (tokio::net::TcpListener::from_std(listener).map(Acceptor::Tcp), None)
        }
        Kind::Unix(listener, file) => {
            let _inside = runtime.enter();
            (tokio::net::UnixListener::from_std(listener).map(Acceptor::Unix), Some(file))
        }
    };
    let Ok(acceptor) = acceptor else { return };
    runtime.block_on(async {
        let graceful = GracefulShutdown::new();
        let mut accepting = Box::pin(accept(&acceptor, service, limits, &graceful));
        let mut stopped = Box::pin(stopped);
        std::future::poll_fn(|context| {
            if stopped.as_mut().poll(context).is_ready() {
                return std::task::Poll::Ready(());
            }
            accepting.as_mut().poll(context)
        })
        .await;
        drop(accepting);
        drop(acceptor);
        // Answers that take longer are cut off.
        let _ = tokio::time::timeout(SHUTDOWN_LIMIT, graceful.shutdown()).await;
    });
    // A handler that still computes ends with the process.
    runtime.shutdown_background();
}

async fn accept(acceptor: &Acceptor, service: &Arc<Service>, limits: Limits, graceful: &GracefulShutdown) {
    let room = Arc::new(Semaphore::new(limits.connections));
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(limits.request)
        .max_buf_size(LARGEST_REQUEST)
        .max_headers(MOST_HEADERS);
    loop {
        let permit = loop {
            let free = Arc::clone(&room).acquire_owned();
            match tokio::time::timeout(LOOK, free).await {
                Ok(Ok(permit)) => break permit,
                Ok(Err(_)) => return,
                Err(_) => service.strangers.close_older(GRACE),
            }
        };
        let (stream, peer) = match acceptor.accept().await {
            Ok(stream) => stream,
            Err(_) => {
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        let mut stream = TimeoutStream::new(stream);
        stream.set_write_timeout(Some(limits.reading));
        let connected = Connection { number: service.strangers.number(), peer };
        let (asked, over) = (Arc::clone(service), Arc::clone(service));
        let requests = service_fn(move |request| Arc::clone(&asked).answer(connected, request));
        let connection = graceful.watch(http.serve_connection(TokioIo::new(Box::pin(stream)), requests));
        let task = tokio::spawn(async move {
            // A client that breaks the protocol or its connection harms itself alone.
            let _ = connection.await;
            over.strangers.remove(connected.number);
            drop(permit);
        });
        // Before the task runs: there is one thread, which is here.
        service.strangers.add(connected.number, task.abort_handle());
    }
}
