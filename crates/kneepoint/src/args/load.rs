//! Arguments of `kneepoint load`.

use super::{FleetArgs, OUTPUT};
use clap::{Args as ClapArgs, ValueEnum};
use kneepoint_load::Owned;
use kneepoint_model::StatusRange;
use std::path::PathBuf;

const TARGET: &str = "Target";
const LOAD: &str = "Load";
const REQUEST: &str = "Request";
const JUDGEMENT: &str = "Assertions";

/// What stands below the help.
pub(super) const AFTER_HELP: &str = "\
Examples:
  50 requests a second for 10 seconds, as independent visitors come:
    kneepoint load http://127.0.0.1:8080/
  500 a second for a minute, as `wrk2 -R500` or `vegeta -rate=500` send them:
    kneepoint load http://127.0.0.1:8080/ -q 500 -z 1m
  a closed loop of 50 connections, as `wrk -c50` and `oha -c 50` run it:
    kneepoint load http://127.0.0.1:8080/ -c 50 -z 30s
  a ramp and a plateau, with a page to look at:
    kneepoint load http://127.0.0.1:8080/ --html load.html \\
      -s 'line(10,500,30s) const(500,1m)'
  a form, sent by 200 users who each keep their own cookies:
    kneepoint load http://127.0.0.1/login -d 'user=ann&pass=secret' \\
      --users 200 --expect-status 302
  each request for another row of products.csv:
    kneepoint load http://127.0.0.1:8080 --feed p=products.csv \\
      --path '/product/{{p.id}}'
  what real visitors asked for, twice as often:
    kneepoint load http://127.0.0.1:8080/ --access-log access.log --replay 2x
  a gate for a pipeline:
    kneepoint load http://127.0.0.1:8080/ -q 200 -z 30s \\
      --threshold 'p95<200ms' --threshold 'errors<0.1%'
  what nginx costs: the same load at nginx, and straight at PHP-FPM behind it:
    kneepoint load http://127.0.0.1/ --fastcgi unix:/run/php.sock \\
      --script /srv/site/index.php

Exit codes:
  0    the load ran, its numbers hold and every threshold held
  1    a threshold did not hold, --autostop or nothing but failures ended the load, or the numbers do not hold because \
       the generator was the limit
  2    an error: an invalid option, a file that cannot be written
  130  ended by Ctrl-C; what was measured until then is printed all the same";

/// How arrivals are spread within the rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Interarrival {
    /// One after the other at equal distances
    Even,
    /// At random and independent of each other, as visitors come
    Poisson,
}

/// Arguments of `load`.
#[derive(Debug, Clone, ClapArgs)]
pub struct LoadArgs {
    /// What to load: http://HOST:PORT/PATH or https://. Several are loaded one after the other under the same load and printed
    /// side by side
    #[arg(value_name = "URL")]
    pub urls: Vec<String>,
    /// Connect to this Unix socket instead of the URL's host
    #[arg(long, value_name = "PATH", help_heading = TARGET)]
    pub unix_socket: Option<PathBuf>,
    /// A FastCGI listener, unix:/path.sock or ADDRESS:PORT. Beside a URL, both hops are measured
    #[arg(long, value_name = "ADDRESS", requires = "script", help_heading = TARGET)]
    pub fastcgi: Option<String>,
    /// The PHP script to run over FastCGI; it serves every path that is not itself a .php file
    #[arg(long, value_name = "FILE", requires = "fastcgi", help_heading = TARGET)]
    pub script: Option<PathBuf>,
    /// Reuse FastCGI connections (FCGI_KEEP_CONN)
    #[arg(long, requires = "fastcgi", help_heading = TARGET)]
    pub keep_conn: bool,
    /// Do not verify the server's certificate; the result says so
    #[arg(long, short = 'k', help_heading = TARGET)]
    pub insecure: bool,
    /// Accept certificates that an authority in this PEM file has signed, and no other
    #[arg(long, value_name = "FILE", conflicts_with = "insecure", help_heading = TARGET)]
    pub cacert: Option<PathBuf>,
    /// Speak HTTP/2: agreed on in the TLS handshake for https, at once (prior knowledge) for http
    #[arg(long, help_heading = TARGET)]
    pub http2: bool,
    /// A host outside this machine, or behind a tunnel, that you own and may load, or an address or a network (10.0.0.0/24)
    /// with every site there; may be repeated. Without, each host that requests name (URL, Host header) has to say so itself, at every start and every minute: at /.well-known/kneepoint it serves
    /// {"host": "NAME", "highest_rate": 500, "until": "2030-01-31T18:00:00Z"}
    #[arg(long, value_name = "HOST", help_heading = TARGET)]
    pub i_own: Vec<Owned>,

    /// Offer this rate however slow the answers are: 500, 500/s, 3000/m, 2k
    #[arg(long, short = 'q', visible_short_alias = 'R', value_name = "RATE", conflicts_with = "schedule", help_heading = LOAD)]
    pub rate: Option<String>,
    /// Offered rate over time: const(RATE,TIME) line(FROM,TO,TIME) step(FROM,TO,BY,TIME), one or more; or stages as
    /// k6 and JMeter write them
    #[arg(long, short = 's', value_name = "SCHEDULE", help_heading = LOAD)]
    pub schedule: Option<String>,
    /// Do what this command line of wrk, wrk2, ab, oha, vegeta or k6 would: 'wrk -t2 -c10 -d10s URL'. Differences
    /// from that tool are reported
    #[arg(long, value_name = "COMMAND", conflicts_with_all = ["schedule", "rate", "duration", "requests"], help_heading = LOAD)]
    pub like: Option<String>,
    /// Without a rate: a closed loop of N connections, each sends its next request when a response arrives. With one: most
    /// connections (1000 when left out): a request that finds none free waits, and its wait counts
    #[arg(long, short = 'c', visible_alias = "workers", value_name = "N", help_heading = LOAD)]
    pub connections: Option<u32>,
    /// How long [default: 10s]
    #[arg(long, short = 'z', value_name = "TIME", conflicts_with = "schedule", help_heading = LOAD)]
    pub duration: Option<String>,
    /// How many requests. At a rate they are then evenly spaced unless --arrivals says otherwise
    #[arg(long, short = 'n', value_name = "N", conflicts_with = "schedule", help_heading = LOAD)]
    pub requests: Option<u64>,
    /// How arrivals are spread within the rate [default: poisson]
    #[arg(long, value_name = "HOW", help_heading = LOAD)]
    pub arrivals: Option<Interarrival>,
    /// Send each request at its own moment. Without, those within a millisecond of one another leave together, which
    /// costs far less CPU
    #[arg(long, help_heading = LOAD)]
    pub exact: bool,
    /// Pause of each connection of a closed loop after an answer: 300ms, or exp:300ms for random ones
    #[arg(long, value_name = "TIME", help_heading = LOAD)]
    pub think: Option<String>,
    /// Time over which the connections of a closed loop start
    #[arg(long, value_name = "TIME", help_heading = LOAD)]
    pub ramp: Option<String>,
    /// End early when a condition holds: 'errors>10% over 10s', 'p95>500ms over 10s', or as in yandex.tank
    /// 'http(5xx,10%,1m)'; may be repeated
    #[arg(long, value_name = "CONDITION", help_heading = LOAD)]
    pub autostop: Vec<String>,
    /// Continue although every request has failed for 10 s; without this the load ends by itself
    #[arg(long, help_heading = LOAD)]
    pub go_on: bool,
    /// Refuse a load that would go beyond this rate, or whose rate nobody knows beforehand (closed loops, visits); `none`
    /// allows any. With --i-own 1000 a second when left out
    #[arg(long, value_name = "RATE", help_heading = LOAD)]
    pub max_rate: Option<String>,
    /// Address of this machine to send from; repeated, they take turns, each with its own local ports
    #[arg(long, value_name = "ADDRESS", help_heading = LOAD)]
    pub source: Vec<String>,
    /// Seed of the arrivals and of the mix: the same seed sends the same load
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = LOAD)]
    pub seed: u64,
    /// Generator threads; one is enough below some 20 000 requests a second
    #[arg(long, short = 't', value_name = "N", default_value_t = 1, help_heading = LOAD)]
    pub threads: usize,
    /// One connection per request
    #[arg(long, visible_alias = "disable-keepalive", help_heading = LOAD)]
    pub close: bool,

    /// Method [default: GET, or POST with --data]
    #[arg(long, short = 'm', visible_short_alias = 'X', value_name = "METHOD", help_heading = REQUEST)]
    pub method: Option<String>,
    /// A header, "Name: value"; may be repeated
    #[arg(long, short = 'H', value_name = "HEADER", help_heading = REQUEST)]
    pub header: Vec<String>,
    /// The body, or @FILE to read it from; a form unless a Content-Type says otherwise. Repeated ones are joined by &
    #[arg(long, short = 'd', value_name = "TEXT", help_heading = REQUEST)]
    pub data: Vec<String>,
    /// A field of a form, name=value, or name=@FILE to send a file (multipart); may be repeated
    #[arg(long, short = 'F', value_name = "FIELD", conflicts_with = "data", help_heading = REQUEST)]
    pub form: Vec<String>,
    /// Learn the requests, the pauses and the rate from an access log of nginx or Apache, gzip or not
    #[arg(long, value_name = "FILE", conflicts_with_all = ["path", "data", "form", "like"], help_heading = REQUEST)]
    pub access_log: Option<PathBuf>,
    /// Format of that log: a name such as combined, or the text of log_format or LogFormat; seen in its first lines
    /// when left out
    #[arg(long, value_name = "FORMAT", requires = "access_log", help_heading = REQUEST)]
    pub log_format: Option<String>,
    /// Replay the log's rate over time at this speed: 2x is twice as fast; without it, -q, -s or -c say how much
    #[arg(long, value_name = "TIMES", requires = "access_log", conflicts_with_all = ["rate", "schedule", "connections"], help_heading = REQUEST)]
    pub replay: Option<String>,
    /// Path and query to ask for instead of the URL's. Repeated, a mix in equal shares; "8 /" gives a path weight 8
    #[arg(long, value_name = "PATH", help_heading = REQUEST)]
    pub path: Vec<String>,
    /// Values for {{NAME.COLUMN}} in paths, headers and bodies: a CSV file whose first line names the columns; its rows
    /// take turns; may be repeated
    #[arg(long, value_name = "NAME=FILE", conflicts_with = "access_log", help_heading = REQUEST)]
    pub feed: Vec<String>,
    /// Send every request as one of N users in turn, who keep the cookies they were given
    #[arg(long, value_name = "N", help_heading = REQUEST)]
    pub users: Option<u32>,

    /// Expected status, 200 or 2xx; any of 200 to 399 when left out; may be repeated
    #[arg(long, visible_alias = "status", value_name = "STATUS", help_heading = JUDGEMENT)]
    pub expect_status: Vec<StatusRange>,
    /// Text the body must contain; may be repeated
    #[arg(long, value_name = "TEXT", help_heading = JUDGEMENT)]
    pub contains: Vec<String>,
    /// Text the body must not contain; may be repeated
    #[arg(long, value_name = "TEXT", help_heading = JUDGEMENT)]
    pub lacks: Vec<String>,
    /// What must hold, or the exit code is 1: "p95<200ms", "errors<0.1%", "rate>=490/s", "p99<500ms over 10s"; may be
    /// repeated
    #[arg(long, value_name = "THRESHOLD", help_heading = JUDGEMENT)]
    pub threshold: Vec<String>,
    /// A request that takes longer from its intended start is ended and counts as failed [default: 2s]
    #[arg(long, value_name = "TIME", help_heading = JUDGEMENT)]
    pub timeout: Option<String>,
    /// Longest response time that counts as good
    #[arg(long, value_name = "TIME", default_value = "200ms", help_heading = JUDGEMENT)]
    pub good: String,

    /// Who sends, where agents do.
    #[command(flatten)]
    pub fleet: FleetArgs,
    /// Directory of the run file to which what agents measure is written, second by second (kneepoint report reads it)
    #[arg(long, value_name = "DIR", default_value = "kneepoint-runs", help_heading = OUTPUT)]
    pub runs: PathBuf,

    /// Write the whole result as JSON, to standard output unless a file is named
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-", help_heading = OUTPUT)]
    pub json: Option<PathBuf>,
    /// Write one line a second as CSV (- for standard output)
    #[arg(long, value_name = "FILE", help_heading = OUTPUT)]
    pub csv: Option<PathBuf>,
    /// Write a page with curves, distribution and outcomes
    #[arg(long, value_name = "FILE", help_heading = OUTPUT)]
    pub html: Option<PathBuf>,
    /// Write the percentile distribution of response times as HdrHistogram's plotters read it; of one target
    #[arg(long, value_name = "FILE", help_heading = OUTPUT)]
    pub hdr: Option<PathBuf>,
    /// Show nothing while the load runs
    #[arg(long, help_heading = OUTPUT)]
    pub quiet: bool,
}
