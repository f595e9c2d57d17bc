//! A `nats-server` of our own on loopback, and as much of its protocol as a measurement of it needs: a client library
//! would be measured with it.

use anyhow::{Context as _, bail, ensure};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long the server may take to start.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long an answer may take.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// Pause between two attempts to connect.
const PAUSE: Duration = Duration::from_micros(200);

/// A server that ends when it is dropped.
pub(super) struct Broker {
    child: Child,
    address: SocketAddr,
}

impl Broker {
    /// Starts one on a free port.
    ///
    /// # Errors
    /// It is not installed, or does not answer.
    pub(super) fn start() -> anyhow::Result<Self> {
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
        let broker = Self {
            child: launch(free)?,
            address: free,
        };
        broker.wait()?;
        Ok(broker)
    }

    /// Connects to it.
    ///
    /// # Errors
    /// It does not answer as a NATS server does.
    pub(super) fn connect(&self) -> anyhow::Result<Connection> {
        Connection::open(self.address)
    }

    /// Kills it and starts it again on the same port. The time until it takes connections again.
    ///
    /// # Errors
    /// It does not start again.
    pub(super) fn restart(&mut self) -> anyhow::Result<Duration> {
        let began = Instant::now();
        self.child.kill()?;
        self.child.wait()?;
        self.child = launch(self.address)?;
        self.wait()?;
        Ok(began.elapsed())
    }

    /// CPU time that it has used.
    ///
    /// # Errors
    /// The kernel does not tell.
    pub(super) fn cpu_time(&self) -> anyhow::Result<Duration> {
        let mut sum = 0;
        for thread in std::fs::read_dir(format!("/proc/{}/task", self.child.id()))? {
            let told = std::fs::read_to_string(thread?.path().join("schedstat"))?;
            let ns: Option<u64> = told.split(' ').next().and_then(|ns| ns.parse().ok());
            sum += ns.with_context(|| format!("`{told}` is no schedstat"))?;
        }
        Ok(Duration::from_nanos(sum))
    }

    fn wait(&self) -> anyhow::Result<()> {
        let began = Instant::now();
        loop {
            match self.connect() {
                Ok(_) => return Ok(()),
                Err(error) if began.elapsed() > PATIENCE => {
                    return Err(
                        error.context(format!("nats-server does not answer on {}", self.address))
                    );
                }
                Err(_) => std::thread::sleep(PAUSE),
            }
        }
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        // One that has ended already is what is wanted.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn launch(address: SocketAddr) -> anyhow::Result<Child> {
    Command::new("nats-server")
        .args(["--addr", &address.ip().to_string(), "--port", &address.port().to_string()])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .context("`nats-server` cannot be started: install it (apt-get install nats-server), or leave --measure out")
}

/// One client.
pub(super) struct Connection {
    reader: BufReader<TcpStream>,
    writer: TcpStream,
}

/// What came in on a subscription.
pub(super) struct Received {
    /// Where an answer is expected.
    pub(super) reply: Option<String>,
}

impl Connection {
    fn open(address: SocketAddr) -> anyhow::Result<Self> {
        let writer = TcpStream::connect(address)?;
        writer.set_nodelay(true)?;
        writer.set_read_timeout(Some(ANSWER_WITHIN))?;
        let mut opened = Self {
            reader: BufReader::new(writer.try_clone()?),
            writer,
        };
        let info = opened.line()?;
        ensure!(
            info.starts_with("INFO "),
            "{address} is no NATS server: it says `{info}`"
        );
        opened.send(b"CONNECT {\"verbose\":false,\"pedantic\":false}\r\n")?;
        opened.settle()?;
        Ok(opened)
    }

    /// Waits until the server has done all that it was asked before.
    ///
    /// # Errors
    /// It refuses, or is gone.
    pub(super) fn settle(&mut self) -> anyhow::Result<()> {
        self.send(b"PING\r\n")?;
        loop {
            match self.line()?.as_str() {
                "PONG" => return Ok(()),
                // It measures the way to a new client.
                "PING" => self.send(b"PONG\r\n")?,
                other => bail!("nats-server answers `{other}`"),
            }
        }
    }

    /// # Errors
    /// The server is gone.
    pub(super) fn subscribe(&mut self, subject: &str) -> anyhow::Result<()> {
        self.send(format!("SUB {subject} 1\r\n").as_bytes())?;
        self.settle()
    }

    /// # Errors
    /// The server is gone.
    pub(super) fn publish(
        &mut self,
        subject: &str,
        reply: &str,
        payload: &[u8],
    ) -> anyhow::Result<()> {
        let mut text = format!("PUB {subject} {reply} {}\r\n", payload.len()).into_bytes();
        text.extend_from_slice(payload);
        text.extend_from_slice(b"\r\n");
        self.send(&text)
    }

    /// Waits for a message.
    ///
    /// # Errors
    /// None comes in time.
    pub(super) fn receive(&mut self) -> anyhow::Result<Received> {
        loop {
            let line = self.line()?;
            let words: Vec<&str> = line.split(' ').collect();
            match words.as_slice() {
                ["PING"] => self.send(b"PONG\r\n")?,
                ["MSG", _, _, between @ .., length] => {
                    let reply = between.first().map(|reply| (*reply).to_owned());
                    let length: usize = length.parse().context("a message without a length")?;
                    let mut payload = vec![0; length + "\r\n".len()];
                    self.reader.read_exact(&mut payload)?;
                    return Ok(Received { reply });
                }
                _ => bail!("nats-server says `{line}`"),
            }
        }
    }

    fn send(&mut self, text: &[u8]) -> anyhow::Result<()> {
        Ok(self.writer.write_all(text)?)
    }

    fn line(&mut self) -> anyhow::Result<String> {
        let mut line = String::new();
        let read = self.reader.read_line(&mut line)?;
        ensure!(read > 0, "nats-server has closed the connection");
        Ok(line.trim_end().to_owned())
    }
}
