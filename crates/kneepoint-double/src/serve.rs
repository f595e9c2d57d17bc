//! Connections of a double, and how many requests it serves at once.

use crate::answers::{Answers, Places};
use crate::{Double, http, smtp};
use kneepoint_linux::privilege::give_up_root;
use kneepoint_model::PeerKind;
use std::io;
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// Most connections at once; more wait in the queue of the listener.
const CONNECTIONS: u32 = 2000;
/// Longest wait for a client that says nothing.
const SILENCE: Duration = Duration::from_secs(60);
/// Stack of the thread of a connection, in bytes: it holds a buffer and little else.
const STACK: usize = 256 << 10;

/// Listens, gives up root, and serves for as long as it lives.
///
/// # Errors
/// The address cannot be had, or root cannot be given up; in words.
pub(crate) fn serve(double: &Double) -> Result<(), String> {
    let listener = TcpListener::bind(double.listen)
        .map_err(|error| format!("cannot listen on {}: {error}", double.listen))?;
    give_up_root().map_err(|error| format!("cannot give up root: {error}"))?;
    accept(&listener, &Arc::new(Answers::of(double)))
}

fn accept(listener: &TcpListener, answers: &Arc<Answers>) -> Result<(), String> {
    let connections = Arc::new(Places::new(CONNECTIONS));
    loop {
        let stream = match listener.accept() {
            Ok((stream, _)) => stream,
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => continue,
            Err(error) => return Err(format!("cannot take connections: {error}")),
        };
        let (answers, connections) = (Arc::clone(answers), Arc::clone(&connections));
        connections.wait();
        let started = thread::Builder::new().stack_size(STACK).spawn(move || {
            let _place = connections.take();
            // A client that leaves, or says what cannot be understood, is left.
            let _ = talk(stream, &answers);
        });
        if started.is_err() {
            // Too many threads: the client is left, as by a server that is out of them.
            thread::sleep(Duration::from_millis(10));
        }
    }
}

fn talk(stream: TcpStream, answers: &Answers) -> io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(SILENCE))?;
    stream.set_write_timeout(Some(SILENCE))?;
    match answers.kind {
        PeerKind::Http => http::talk(&stream, &stream, answers),
        PeerKind::Smtp => smtp::talk(&stream, &stream, answers),
    }
}
