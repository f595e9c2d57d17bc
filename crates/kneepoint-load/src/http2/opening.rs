//! Making a connection that speaks HTTP/2: TCP or a Unix socket, TLS where it is wanted, and the preface.

use crate::connection::{Endpoint, Opening, Secure, socket};
use crate::response::Malformed;
use bytes::Bytes;
use futures_util::future::LocalBoxFuture;
use h2::client::SendRequest;
use rustix::io::Errno;
use std::io;
use std::net::IpAddr;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;

/// Windows of flow control as large as a browser's (Chrome 6 MiB and 15 MiB), so that the generator never makes a server
/// wait.
const STREAM_WINDOW: u32 = 6 << 20;
const CONNECTION_WINDOW: u32 = 15 << 20;
/// Streams before the server has said how many it allows (RFC 9113, section 6.5.2, recommends at least this).
const FIRST_STREAMS: usize = 100;
/// Streams that a timeout has reset and whose late frames are still recognised.
const RESET_STREAMS: usize = 1024;
/// Largest head of a response.
const LARGEST_HEAD: u32 = 64 << 10;

/// A connection that requests can be put on, and what must be polled for it to live.
pub(crate) struct Opened {
    pub(crate) sender: SendRequest<Bytes>,
    pub(crate) life: LocalBoxFuture<'static, Result<(), h2::Error>>,
}

/// Why there is none.
#[derive(Debug)]
pub(crate) enum NotOpened {
    /// It could not be made.
    Refused(Errno),
    /// It ended during the TLS handshake.
    Reset(Errno),
    /// TLS failed, and why.
    Tls(String),
    /// The server does not speak HTTP/2.
    Protocol(Malformed),
}

/// Opens a connection, from an address of this host if there is one.
pub(crate) async fn open(
    endpoint: &Endpoint,
    source: Option<IpAddr>,
    secure: Option<&Secure>,
) -> Result<Opened, NotOpened> {
    let opening = socket::open_from(endpoint, source, None).map_err(NotOpened::Refused)?;
    match endpoint {
        Endpoint::Tcp(_) => over(tcp(opening).await.map_err(refused)?, secure).await,
        Endpoint::Unix(_) => over(unix(opening).map_err(refused)?, secure).await,
    }
}

fn refused(error: io::Error) -> NotOpened {
    NotOpened::Refused(errno(&error))
}

fn errno(error: &io::Error) -> Errno {
    let by_kind = || match error.kind() {
        io::ErrorKind::UnexpectedEof => Errno::CONNRESET,
        _ => Errno::IO,
    };
    Errno::from_io_error(error).unwrap_or_else(by_kind)
}

async fn tcp(opening: Opening) -> io::Result<TcpStream> {
    let stream = TcpStream::from_std(std::net::TcpStream::from(opening.fd))?;
    if !opening.connected {
        stream.writable().await?;
        if let Some(error) = stream.take_error()? {
            return Err(error);
        }
    }
    Ok(stream)
}

/// A Unix socket is connected at once or not at all.
fn unix(opening: Opening) -> io::Result<UnixStream> {
    UnixStream::from_std(std::os::unix::net::UnixStream::from(opening.fd))
}

async fn over<S>(stream: S, secure: Option<&Secure>) -> Result<Opened, NotOpened>
where
    S: AsyncRead + AsyncWrite + Unpin + 'static,
{
    let Some(secure) = secure else {
        return begin(stream).await;
    };
    let connector = TlsConnector::from(secure.config().clone());
    let stream = connector
        .connect(secure.name().clone(), stream)
        .await
        .map_err(|error| {
            let by_tls = error
                .get_ref()
                .and_then(|e| e.downcast_ref::<rustls::Error>());
            match by_tls {
                Some(error) => NotOpened::Tls(secure.explain(error)),
                None => NotOpened::Reset(errno(&error)),
            }
        })?;
    if stream.get_ref().1.alpn_protocol() != Some(b"h2") {
        return Err(NotOpened::Protocol(Malformed(
            "the server did not agree to HTTP/2 (ALPN); enable it there or leave --http2 out",
        )));
    }
    begin(stream).await
}

/// Sends the preface. The server's answer is not waited for: requests may go out with it.
async fn begin<S>(stream: S) -> Result<Opened, NotOpened>
where
    S: AsyncRead + AsyncWrite + Unpin + 'static,
{
    let made = h2::client::Builder::new()
        .initial_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .initial_max_send_streams(FIRST_STREAMS)
        .max_header_list_size(LARGEST_HEAD)
        .max_concurrent_reset_streams(RESET_STREAMS)
        .enable_push(false)
        .handshake::<_, Bytes>(stream)
        .await;
    match made {
        Ok((sender, connection)) => Ok(Opened {
            sender,
            life: Box::pin(connection),
        }),
        Err(error) => Err(NotOpened::Reset(
            error.get_io().map_or(Errno::CONNRESET, errno),
        )),
    }
}
