//! The way to the broker: one thread that sends and receives, and a queue in each direction.

use crate::error::AgentsError;
use crate::messages::{LARGEST, Message, Unreadable, written};
use crate::moments::now_ns;
use async_nats::{Client, ConnectErrorKind, ConnectOptions, Event, ServerAddr};
use futures_util::StreamExt as _;
use kneepoint_linux::namespace;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use tokio::runtime;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// How long a first connection may take.
const CONNECTING: Duration = Duration::from_secs(5);
/// How often the connection is tried, so that a cut network is noticed.
const PING: Duration = Duration::from_secs(2);
/// Longest pause between two attempts to connect again: a broker that restarts is back within a second.
const LONGEST_PAUSE: Duration = Duration::from_millis(250);
/// How long what was said last may take to leave.
const LEAVING: Duration = Duration::from_millis(500);

/// How a broker is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Access {
    /// `nats://host:4222`, `tls://...`, with `user:password@` or `token@` where that is how the account is named.
    pub url: String,
    /// A file of credentials (`.creds`).
    pub creds: Option<PathBuf>,
    /// The network namespace it is reached from, as a path to open; `None` is this process's own.
    pub netns: Option<PathBuf>,
}

/// Something that came.
#[derive(Debug)]
pub(crate) enum Incoming {
    /// A message, at a moment of this machine's clock.
    Message(Letter),
    /// What happened to the connection, in words.
    Told(String),
    /// The broker does not do what it was asked to, in its words.
    Denied(String),
}

/// A message as it came.
#[derive(Debug)]
pub(crate) struct Letter {
    pub(crate) subject: String,
    pub(crate) bytes: Vec<u8>,
    /// Where an answer is awaited.
    pub(crate) answer_to: Option<String>,
    pub(crate) came_ns: u64,
}

#[derive(Debug)]
enum Order {
    Say(String, Option<String>, Vec<u8>),
    Listen(String),
    Leave(String),
    /// What was said before is the last.
    End,
}

/// A connection to the broker.
#[derive(Debug)]
pub(crate) struct Broker {
    orders: Option<UnboundedSender<Order>>,
    incoming: Receiver<Incoming>,
    thread: Option<JoinHandle<()>>,
    /// An address that nobody else has, for answers.
    pub(crate) inbox: String,
    /// Whether the broker is on this machine.
    pub(crate) is_local: bool,
}

/// A part of a broker that others may send through.
#[derive(Debug, Clone)]
pub(crate) struct Mouth(UnboundedSender<Order>);

impl Mouth {
    /// One that nobody hears.
    pub(crate) fn to_nobody() -> Self {
        Self(unbounded_channel().0)
    }

    /// Sends a message; what cannot be written is too long, and whoever made it has looked.
    pub(crate) fn say(&self, subject: &str, message: &Message) {
        if let Ok(bytes) = written(message) {
            self.say_bytes(subject, bytes);
        }
    }

    /// Sends a message that was written before.
    pub(crate) fn say_bytes(&self, subject: &str, bytes: Vec<u8>) {
        // Where the thread is gone, so is the connection: silence is what the other side notices.
        let _ = self.0.send(Order::Say(subject.to_owned(), None, bytes));
    }
}

impl Broker {
    /// Connects, and refuses a broker that refuses us or that anybody may command others through.
    ///
    /// # Errors
    /// No connection, or not one to use.
    pub(crate) fn connect(access: &Access, name: &str) -> Result<Self, AgentsError> {
        let (url, is_local) = place(access)?;
        let problem = |problem: String| AgentsError::Broker {
            url: url.clone(),
            problem,
        };
        let (told, incoming) = mpsc::channel();
        let options = options(access, name, told.clone()).map_err(problem)?;
        let (orders, to_do) = unbounded_channel();
        let (ready, connected) = mpsc::channel();
        let (address, netns) = (access.url.clone(), access.netns.clone());
        let thread = thread::Builder::new()
            .name("broker".into())
            .spawn(move || match namespace::enter_path(netns.as_deref()) {
                Ok(()) => converse(options, &address, to_do, &told, &ready),
                Err(error) => {
                    let _ = ready.send(Err(format!("its network cannot be entered: {error}")));
                }
            })
            .map_err(|error| problem(error.to_string()))?;
        let gone = || Err("the connection's thread ended".to_owned());
        let hello = connected
            .recv()
            .unwrap_or_else(|_| gone())
            .map_err(problem)?;
        if !hello.wants_account && !is_local {
            return Err(problem(
                "it asks for no account, so that anybody could command the agents; give it users or accounts, or use one \
                 on 127.0.0.1"
                    .into(),
            ));
        }
        Ok(Self {
            orders: Some(orders),
            incoming,
            thread: Some(thread),
            inbox: hello.inbox,
            is_local,
        })
    }

    pub(crate) fn mouth(&self) -> Mouth {
        match &self.orders {
            Some(orders) => Mouth(orders.clone()),
            None => Mouth::to_nobody(),
        }
    }

    /// Sends a message.
    pub(crate) fn say(&self, subject: &str, message: &Message) {
        self.mouth().say(subject, message);
    }

    /// Sends a message that is to be answered somewhere.
    ///
    /// # Errors
    /// It cannot be sent: it is too long.
    pub(crate) fn ask(
        &self,
        subject: &str,
        answer_to: &str,
        message: &Message,
    ) -> Result<(), Unreadable> {
        let order = Order::Say(
            subject.to_owned(),
            Some(answer_to.to_owned()),
            written(message)?,
        );
        if let Some(orders) = &self.orders {
            let _ = orders.send(order);
        }
        Ok(())
    }

    /// Receives what is said there from now on.
    pub(crate) fn listen(&self, subject: &str) {
        if let Some(orders) = &self.orders {
            let _ = orders.send(Order::Listen(subject.to_owned()));
        }
    }

    /// Receives it no more.
    pub(crate) fn leave(&self, subject: &str) {
        if let Some(orders) = &self.orders {
            let _ = orders.send(Order::Leave(subject.to_owned()));
        }
    }

    /// The next thing that comes within a time.
    pub(crate) fn next(&self, within: Duration) -> Option<Incoming> {
        self.incoming.recv_timeout(within).ok()
    }
}

impl Drop for Broker {
    /// What was said last still leaves. Others may hold a mouth: nobody waits for them.
    fn drop(&mut self) {
        if let Some(orders) = self.orders.take() {
            let _ = orders.send(Order::End);
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The broker's address without a password, and whether it is on this machine.
fn place(access: &Access) -> Result<(String, bool), AgentsError> {
    let address: ServerAddr = access.url.parse().map_err(|_| AgentsError::Broker {
        url: "as given".into(),
        problem: "that is no address; write for example nats://broker:4222".into(),
    })?;
    let host = address.host().to_owned();
    let literal = host.trim_matches(['[', ']']).parse::<IpAddr>();
    let is_local = host == "localhost" || literal.is_ok_and(|ip| ip.is_loopback());
    Ok((format!("{host}:{}", address.port()), is_local))
}

fn options(access: &Access, name: &str, told: Sender<Incoming>) -> Result<ConnectOptions, String> {
    let options = by_url(access)
        .name(name)
        .connection_timeout(CONNECTING)
        .ping_interval(PING)
        .reconnect_delay_callback(|attempts| {
            let pause = Duration::from_millis(20).saturating_mul(attempts as u32);
            pause.min(LONGEST_PAUSE)
        })
        .event_callback(move |event| {
            let words = |words: &str| Some(Incoming::Told(words.to_owned()));
            let incoming = match event {
                Event::Connected => words("connected"),
                Event::Disconnected => words("the connection is lost; trying again"),
                Event::ServerError(error) => {
                    Some(Incoming::Denied(format!("the broker says: {error}")))
                }
                Event::SlowConsumer(_) => words("messages were dropped: too many at once"),
                _ => None,
            };
            if let Some(incoming) = incoming {
                let _ = told.send(incoming);
            }
            async {}
        });
    let Some(file) = &access.creds else {
        return Ok(options);
    };
    let wrong = |error: std::io::Error| format!("--creds {}: {error}", file.display());
    let text = std::fs::read_to_string(file).map_err(wrong)?;
    options.credentials(&text).map_err(wrong)
}

/// The account that a URL names: the client leaves that alone. A name without a password is a token.
fn by_url(access: &Access) -> ConnectOptions {
    let of_url = access.url.parse::<ServerAddr>().ok();
    let account = of_url
        .as_ref()
        .and_then(|url| Some((url.username()?, url.password())));
    match account {
        Some((user, Some(password))) => {
            ConnectOptions::with_user_and_password(user.to_owned(), password.to_owned())
        }
        Some((token, None)) if !token.is_empty() => ConnectOptions::with_token(token.to_owned()),
        _ => ConnectOptions::new(),
    }
}

/// What is known once the connection stands.
struct Hello {
    inbox: String,
    wants_account: bool,
}

/// The life of the thread.
fn converse(
    options: ConnectOptions,
    url: &str,
    to_do: UnboundedReceiver<Order>,
    told: &Sender<Incoming>,
    ready: &Sender<Result<Hello, String>>,
) {
    let runtime = match runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            let _ = ready.send(Err(error.to_string()));
            return;
        }
    };
    runtime.block_on(async {
        let client = match options.connect(url).await {
            Ok(client) => client,
            Err(error) => {
                let _ = ready.send(Err(refused(&error)));
                return;
            }
        };
        let _ = ready.send(Ok(Hello {
            inbox: client.new_inbox(),
            wants_account: client.server_info().auth_required,
        }));
        obey(&client, to_do, told).await;
        let _ = tokio::time::timeout(LEAVING, client.flush()).await;
    });
}

fn refused(error: &async_nats::ConnectError) -> String {
    match error.kind() {
        ConnectErrorKind::AuthorizationViolation | ConnectErrorKind::Authentication => {
            // Spelt out, since a record takes out whatever looks like a password in an address.
            "it refuses this account; name one it knows with --creds FILE, or write its user, a colon, its password and an @ \
             (of a token, the token and an @) before the host in --nats"
                .into()
        }
        _ => format!("{error}; is a nats-server listening there?"),
    }
}

async fn obey(client: &Client, mut to_do: UnboundedReceiver<Order>, told: &Sender<Incoming>) {
    let mut listening = Vec::new();
    while let Some(order) = to_do.recv().await {
        match order {
            Order::End => return,
            Order::Say(subject, None, bytes) => {
                let _ = client.publish(subject, bytes.into()).await;
            }
            Order::Say(subject, Some(inbox), bytes) => {
                let _ = client
                    .publish_with_reply(subject, inbox, bytes.into())
                    .await;
            }
            Order::Listen(subject) => {
                let Ok(mut letters) = client.subscribe(subject.clone()).await else {
                    continue;
                };
                let told = told.clone();
                let task = tokio::spawn(async move {
                    while let Some(message) = letters.next().await {
                        if message.payload.len() > LARGEST {
                            continue;
                        }
                        let letter = Letter {
                            subject: message.subject.to_string(),
                            bytes: message.payload.to_vec(),
                            answer_to: message.reply.map(|reply| reply.to_string()),
                            came_ns: now_ns(),
                        };
                        if told.send(Incoming::Message(letter)).is_err() {
                            return;
                        }
                    }
                });
                listening.push((subject, task));
            }
            // A subscription that is let go unsubscribes by itself.
            Order::Leave(subject) => listening.retain(|(known, task)| {
                let other = *known != subject;
                if !other {
                    task.abort();
                }
                other
            }),
        }
    }
}
