//! `kneepoint load`: drive load at a URL, a FastCGI listener, or both under one schedule.

use crate::args::LoadArgs;
use crate::session::{print, stop_flag};
use crate::{FOUND, INTERRUPTED};
use anyhow::{Context as _, Result, bail};
use indicatif::{ProgressBar, ProgressStyle};
use kneepoint_load::{Engine, LoadPlan, Mode, Target};
use kneepoint_model::units::{format_bytes, format_ms, format_rate, format_share, parse_duration};
use kneepoint_model::{
    Address, Arrivals, ClosedLoop, Expect, LatencyHistogram, LoadPoint, Method, Outcome, Request,
    Schedule, Slo, Validity, Workload,
};
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

/// One hop under load.
struct Hop {
    name: String,
    plan: LoadPlan,
}

pub(super) fn run(args: &LoadArgs) -> Result<ExitCode> {
    let hops = hops(args)?;
    let stop = stop_flag()?;
    let mut results = Vec::new();
    for hop in &hops {
        let point = drive(hop, &stop)?;
        results.push((hop.name.as_str(), point));
        if stop.load(Ordering::Relaxed) {
            break;
        }
    }
    if args.json {
        let json: Vec<_> = results
            .iter()
            .map(|(name, point)| serde_json::json!({ "target": name, "result": point }))
            .collect();
        print(&serde_json::to_string_pretty(&json)?)?;
    } else {
        print(&table(&results))?;
    }
    Ok(if stop.load(Ordering::Relaxed) {
        ExitCode::from(INTERRUPTED)
    } else if results.iter().any(|(_, point)| !point.validity.is_valid()) {
        ExitCode::from(FOUND)
    } else {
        ExitCode::SUCCESS
    })
}

fn hops(args: &LoadArgs) -> Result<Vec<Hop>> {
    let mut targets = Vec::new();
    let mut path = "/".to_owned();
    if let Some(url) = &args.url {
        let (target, url_path) = http_target(url, args)?;
        path = url_path;
        targets.push((url.clone(), target));
    }
    if let Some(address) = &args.fastcgi {
        targets.push((format!("fastcgi {address}"), fastcgi_target(address, args)?));
    }
    if let Some(given) = &args.path {
        path.clone_from(given);
    }
    if targets.is_empty() {
        bail!(
            "nothing to load: name a URL (kneepoint load http://127.0.0.1:8080/) or --fastcgi unix:/path.sock --script /path/index.php"
        );
    }
    let (workload, mode, slo) = (workload(args, &path)?, mode(args)?, slo(args)?);
    Ok(targets
        .into_iter()
        .map(|(name, target)| {
            let mut plan = LoadPlan::new(target, workload.clone(), mode.clone());
            plan.slo = slo.clone();
            plan.threads = args.threads;
            plan.max_connections = args.connections;
            plan.seed = args.seed;
            Hop { name, plan }
        })
        .collect())
}

fn http_target(url: &str, args: &LoadArgs) -> Result<(Target, String)> {
    let rest = match url.split_once("://") {
        Some(("http", rest)) => rest,
        Some((scheme, _)) => bail!("{url}: the scheme `{scheme}` is not supported yet, only http"),
        None => url,
    };
    let (host, path) = rest.find('/').map_or((rest, "/"), |at| rest.split_at(at));
    let address = resolve(host, 80).with_context(|| format!("cannot resolve `{host}` of {url}"))?;
    owned(address.ip(), host, args)?;
    let target = Target::Http {
        address: Address::Tcp(address),
        host_header: host.to_owned(),
        keep_alive: !args.close,
    };
    Ok((target, path.to_owned()))
}

fn resolve(host: &str, port: u16) -> Result<SocketAddr> {
    if let Ok(address) = host.parse::<SocketAddr>() {
        return Ok(address);
    }
    let with_port = if host
        .rsplit_once(':')
        .is_some_and(|(_, port)| port.parse::<u16>().is_ok())
    {
        host.to_owned()
    } else {
        format!("{host}:{port}")
    };
    with_port
        .to_socket_addrs()?
        .next()
        .context("the name has no address")
}

/// Load goes to loopback, or to what a person says is theirs (DESIGN section 16).
fn owned(ip: IpAddr, host: &str, args: &LoadArgs) -> Result<()> {
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    if ip.is_loopback() || args.i_own.as_deref() == Some(name) {
        return Ok(());
    }
    bail!("{host} is not this machine. If it is yours and may be loaded, say so: --i-own {name}")
}

fn fastcgi_target(address: &str, args: &LoadArgs) -> Result<Target> {
    let address: Address = address
        .parse()
        .map_err(|error| anyhow::anyhow!("--fastcgi: {error}"))?;
    if let Address::Tcp(tcp) = &address {
        owned(tcp.ip(), &tcp.to_string(), args)?;
    }
    let Some(script) = args.script.clone() else {
        bail!("--fastcgi needs --script /path/to/index.php: the file PHP is to run")
    };
    if !script.is_absolute() {
        bail!(
            "--script {}: write the absolute path, as PHP-FPM sees it",
            script.display()
        );
    }
    let root = script.parent().unwrap_or(Path::new("/")).to_owned();
    Ok(Target::FastCgi {
        address,
        script,
        document_root: root,
        keep_conn: false,
    })
}

fn workload(args: &LoadArgs, path: &str) -> Result<Workload> {
    let headers = args
        .header
        .iter()
        .map(|header| {
            let (name, value) = header
                .split_once(':')
                .with_context(|| format!("-H {header}: write \"Name: value\""))?;
            Ok((name.trim().to_owned(), value.trim().to_owned()))
        })
        .collect::<Result<Vec<_>>>()?;
    let mut request = Request::get(path);
    request.method = Method(if args.data.is_some() && args.method == "GET" {
        "POST".to_owned()
    } else {
        args.method.clone()
    });
    request.headers = headers;
    request.body = args.data.clone().map(Into::into);
    request.expect = Expect {
        status: args.status.into_iter().map(Into::into).collect(),
        body_contains: args.contains.iter().cloned().collect(),
        ..Expect::default()
    };
    Ok(Workload {
        requests: vec![request],
        users: 1,
        sessions: None,
        feeders: Vec::new(),
    })
}

fn mode(args: &LoadArgs) -> Result<Mode> {
    if let Some(workers) = args.workers {
        let duration = parse_duration(&args.duration)?;
        return Ok(Mode::Closed(ClosedLoop::new(workers, duration)));
    }
    let schedule: Schedule = args
        .schedule
        .parse()
        .map_err(|error| anyhow::anyhow!("--schedule: {error}"))?;
    let arrivals = if args.even {
        Arrivals::Even
    } else {
        Arrivals::Poisson { seed: args.seed }
    };
    Ok(Mode::Open { schedule, arrivals })
}

fn slo(args: &LoadArgs) -> Result<Slo> {
    Ok(Slo {
        timeout: parse_duration(&args.timeout)?,
        response_time: parse_duration(&args.good)?,
        ..Slo::default()
    })
}

fn drive(hop: &Hop, stop: &AtomicBool) -> Result<LoadPoint> {
    let bar = ProgressBar::new((hop.plan.mode.duration().as_secs_f64() * 10.0) as u64);
    bar.set_style(
        ProgressStyle::with_template("{bar:24} {wide_msg}")
            .unwrap_or_else(|_| ProgressStyle::default_bar()),
    );
    let whole = hop.plan.mode.duration();
    let point = Engine::run(
        &hop.plan,
        &|progress| {
            let left = whole.saturating_sub(progress.elapsed);
            bar.set_position((progress.elapsed.as_secs_f64() * 10.0) as u64);
            let p95 = progress
                .p95_ms
                .map_or(String::new(), |ms| format!("  p95 {}", format_ms(ms)));
            bar.set_message(format!(
                "{}: {} good{p95}, {} left",
                hop.name,
                format_rate(progress.goodput_hz),
                crate::progress::minutes(left)
            ));
        },
        stop,
    );
    bar.finish_and_clear();
    Ok(point?)
}

/// The results side by side.
fn table(results: &[(&str, LoadPoint)]) -> String {
    let mut text = String::new();
    let mut row = |name: &str, cell: &dyn Fn(&LoadPoint) -> String| {
        text.push_str(&format!("{name:<26}"));
        for (_, point) in results {
            text.push_str(&format!("{:>28}", cell(point)));
        }
        text.push('\n');
    };
    if results.len() > 1 {
        let names: Vec<&str> = results.iter().map(|(name, _)| *name).collect();
        let width = 28;
        row("", &|point| {
            let at = results
                .iter()
                .position(|(_, other)| std::ptr::eq(other, point))
                .unwrap_or(0);
            shorten(names[at], width - 2)
        });
    }
    row("offered", &|point| format_rate(point.offered_hz));
    row("ok", &|point| format_rate(point.throughput_hz()));
    row("good (in time)", &|point| format_rate(point.goodput_hz()));
    row("requests", &|point| point.arrivals.to_string());
    for outcome in Outcome::ALL {
        if results
            .iter()
            .any(|(_, point)| point.outcomes.of(outcome) > 0)
        {
            row(&format!("  {}", outcome.name()), &|point| {
                point.outcomes.of(outcome).to_string()
            });
        }
    }
    for quantile in [0.5, 0.75, 0.9, 0.95, 0.99, 0.999] {
        row(&format!("response p{}", quantile * 100.0), &|point| {
            quantile_cell(&point.response, quantile)
        });
    }
    row("response max", &|point| {
        point.response.max_ms().map_or("-".to_owned(), format_ms)
    });
    row("service p50", &|point| quantile_cell(&point.service, 0.5));
    row("service p95", &|point| quantile_cell(&point.service, 0.95));
    row("connections opened", &|point| {
        point.connections_opened.to_string()
    });
    row("received", &|point| format_bytes(point.bytes_received));
    row("generator CPU", &|point| {
        format!("{} of a core", format_share(point.health.cpu_share))
    });
    row("send lag p99", &|point| {
        format_ms(point.health.send_lag_p99_ms)
    });
    text.push_str("\nresponse: from the intended start; service: from the send; over requests that ended ok\n");
    for (name, point) in results {
        if let Validity::Invalid { because } = &point.validity {
            text.push_str(&format!(
                "{name}: INVALID, not slow: {}\n",
                because.join("; ")
            ));
        }
        for example in &point.examples {
            text.push_str(&format!("{name}: {example}\n"));
        }
    }
    text
}

fn quantile_cell(histogram: &LatencyHistogram, quantile: f64) -> String {
    histogram
        .quantile_ms(quantile)
        .map_or("-".to_owned(), format_ms)
}

/// A name with its middle left out: the scheme and the end tell targets apart.
fn shorten(text: &str, width: usize) -> String {
    let characters: Vec<char> = text.chars().collect();
    if characters.len() <= width {
        return text.to_owned();
    }
    let head: String = characters[..8].iter().collect();
    let tail: String = characters[characters.len() - (width - 11)..]
        .iter()
        .collect();
    format!("{head}...{tail}")
}
