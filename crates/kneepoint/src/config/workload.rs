//! `[[request]]`, `users` and `[slo]`: what is asked, and when the answer counts as good.

use super::mix;
use super::reader::{Reader, Section};
use super::tree::{Node, Span, Value};
use kneepoint_model::{Expect, Method, Request, Slo, Workload};

/// Headers the load engine writes itself: a second one would make two readings of the same request.
const OWN_HEADERS: &[&str] = &["connection", "content-length", "transfer-encoding"];

/// Reads the mix.
pub(super) fn read(reader: &mut Reader<'_>, top: &Section<'_>) -> Workload {
    let mut workload = Workload::single("/");
    if let Some(learned) = mix::read(reader, top) {
        workload = learned;
    }
    if let Some(node) = top.get("users") {
        workload.users = reader.whole(node, 1, 1_000_000).unwrap_or(workload.users);
    }
    if let Some(node) = top.get("request") {
        let expected = "[[request]] tables, at least one";
        let items = reader.array(node, expected);
        if items.is_empty() && matches!(node.value, Value::Array(_)) {
            reader.wrong(node.at, "the mix is empty", expected);
        }
        workload.requests = items
            .iter()
            .filter_map(|item| {
                let section = reader.section(item, "request")?;
                Some(request(reader, &section))
            })
            .collect();
    }
    workload
}

fn request(reader: &mut Reader<'_>, section: &Section<'_>) -> Request {
    const WEIGHT: &str = "a weight above 0, such as 8";
    let mut request = Request::get("/");
    if let Some(node) = section.get("path") {
        request.path = path(reader, node).unwrap_or_default();
    }
    if let Some(node) = section.get("weight") {
        let weight = reader.number(node, f64::MIN_POSITIVE, 1e9, WEIGHT);
        request.weight = weight.unwrap_or(1.0);
    }
    if let Some(node) = section.get("headers") {
        request.headers = headers(reader, node);
    }
    body(reader, section, &mut request);
    if let Some(node) = section.get("method") {
        request.method = method(reader, node).unwrap_or_default();
    }
    if let Some(node) = section.get("expect") {
        request.expect = expect(reader, node);
    }
    if let Some(node) = section.get("session") {
        request.session = reader.boolean(node).unwrap_or_default();
    }
    request
}

fn path(reader: &mut Reader<'_>, node: &Node) -> Option<String> {
    const EXPECTED: &str =
        "a path that begins with `/`, percent-encoded, such as \"/search?q=a%20b\"";
    let path = reader.text(node, EXPECTED)?;
    refuse_placeholder(reader, path, node.at);
    let sendable = path.starts_with('/') && path.chars().all(|c| c.is_ascii_graphic() && c != '#');
    if !sendable {
        let problem = reader.wrong(node.at, format!("`{path}` cannot be requested"), EXPECTED);
        if path.contains("://") {
            problem.help("leave the host away: requests go to the first tier of the chain");
        }
    }
    sendable.then(|| path.to_owned())
}

fn method(reader: &mut Reader<'_>, node: &Node) -> Option<Method> {
    const EXPECTED: &str = "a method in capitals, such as \"POST\"";
    let method = reader.text(node, EXPECTED)?;
    if !method.is_empty() && method.chars().all(|c| c.is_ascii_uppercase()) {
        return Some(Method(method.to_owned()));
    }
    let capitals = method.to_ascii_uppercase();
    let problem = reader.wrong(node.at, format!("`{method}` is no method"), EXPECTED);
    if capitals.chars().all(|c| c.is_ascii_uppercase()) {
        problem.help(format!("did you mean `{capitals}`?"));
    }
    None
}

fn headers(reader: &mut Reader<'_>, node: &Node) -> Vec<(String, String)> {
    let mut headers = Vec::new();
    for entry in reader.entries(
        node,
        "a table of headers, such as { Accept = \"text/html\" }",
    ) {
        let name = &entry.key;
        let token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
        if name.is_empty() || !name.chars().all(token) {
            let message = format!("`{name}` is no header name");
            reader.wrong(entry.key_at, message, "a name such as Accept-Language");
        } else if OWN_HEADERS.contains(&name.to_ascii_lowercase().as_str()) {
            let message = format!("`{name}` is written by the load engine");
            reader.wrong(entry.key_at, message, "other headers");
        }
        let Some(value) = reader.plain(&entry.node) else {
            continue;
        };
        refuse_placeholder(reader, &value, entry.node.at);
        if value.chars().any(char::is_control) {
            let message = "found a control character in a header";
            reader.wrong(entry.node.at, message, "a value on one line");
        }
        headers.push((name.clone(), value));
    }
    headers
}

/// Takes over `body` or `form`, with the method and content type that go with them.
fn body(reader: &mut Reader<'_>, section: &Section<'_>, request: &mut Request) {
    let encoded = match (section.get("body"), section.get("form")) {
        (None, None) => return,
        (Some(_), Some(form)) => {
            let message = "a request has `body` or `form`, not both";
            reader.wrong(form.at, message, "one of them");
            return;
        }
        (Some(node), None) => {
            let Some(text) = reader.text(node, "the body as text") else {
                return;
            };
            refuse_placeholder(reader, text, node.at);
            text.to_owned()
        }
        (None, Some(node)) => {
            let typed = |name: &str| name.eq_ignore_ascii_case("content-type");
            if !request.headers.iter().any(|(name, _)| typed(name)) {
                let urlencoded = "application/x-www-form-urlencoded";
                request
                    .headers
                    .push(("Content-Type".into(), urlencoded.into()));
            }
            form(reader, node)
        }
    };
    request.method = Method("POST".into());
    request.body = Some(encoded);
}

fn form(reader: &mut Reader<'_>, node: &Node) -> String {
    let mut fields = Vec::new();
    for entry in reader.entries(node, "a table of fields, such as { user = \"ann\" }") {
        let Some(value) = reader.plain(&entry.node) else {
            continue;
        };
        refuse_placeholder(reader, &value, entry.node.at);
        fields.push(format!(
            "{}={}",
            form_encode(&entry.key),
            form_encode(&value)
        ));
    }
    fields.join("&")
}

/// Encodes as browsers encode forms (WHATWG URL Standard, application/x-www-form-urlencoded serializing).
fn form_encode(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        match byte {
            b' ' => encoded.push('+'),
            b'*' | b'-' | b'.' | b'_' => encoded.push(byte.into()),
            _ if byte.is_ascii_alphanumeric() => encoded.push(byte.into()),
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

/// Values per user (`{user.name}`) are planned; sent as they are they would measure something else.
fn refuse_placeholder(reader: &mut Reader<'_>, text: &str, at: Span) {
    if let Some(name) = placeholder(text) {
        let message = format!("values per user such as `{{{name}}}` are not supported yet");
        reader.wrong(at, message, "the same text for every user");
    }
}

/// The first `{word.word}` in a text, without its braces.
fn placeholder(text: &str) -> Option<&str> {
    let word =
        |part: &str| !part.is_empty() && part.chars().all(|c| c.is_alphanumeric() || c == '_');
    text.split('{')
        .skip(1)
        .filter_map(|rest| rest.split_once('}'))
        .map(|(name, _)| name)
        .find(|name| {
            name.split_once('.')
                .is_some_and(|(a, b)| word(a) && word(b))
        })
}

fn expect(reader: &mut Reader<'_>, node: &Node) -> Expect {
    let mut expect = Expect::default();
    let Some(section) = reader.section(node, "request.expect") else {
        return expect;
    };
    if let Some(node) = section.get("status") {
        let status = reader.whole(node, 100, 599);
        expect.status = status.and_then(|status| u16::try_from(status).ok());
    }
    if let Some(node) = section.get("body_contains") {
        let text = reader.text(node, "text the body must contain");
        expect.body_contains = text.map(str::to_owned);
    }
    expect
}

/// Reads the SLO.
pub(super) fn read_slo(reader: &mut Reader<'_>, top: &Section<'_>) -> Slo {
    let mut slo = Slo::default();
    let Some(section) = top.get("slo").and_then(|node| reader.section(node, "slo")) else {
        return slo;
    };
    if let Some(node) = section.get("timeout") {
        slo.timeout = reader.duration(node).unwrap_or(slo.timeout);
    }
    if let Some(node) = section.get("errors") {
        slo.errors = reader.share(node).unwrap_or(slo.errors);
    }
    let given = section.get("response_time");
    if let Some(node) = given {
        response_time(reader, node, &mut slo);
    }
    if slo.response_time > slo.timeout {
        let at = given
            .or(section.get("timeout"))
            .map_or(section.at, |node| node.at);
        let message = "the response time exceeds the timeout: no request could take so long";
        reader.wrong(at, message, "a response time up to slo.timeout");
    }
    slo
}

fn response_time(reader: &mut Reader<'_>, node: &Node, slo: &mut Slo) {
    const EXPECTED: &str = "one quantile from p50 to p99.9, such as { p95 = \"200ms\" }";
    let entries = reader.entries(node, EXPECTED);
    let is_table = matches!(node.value, Value::Table(_));
    let [entry] = entries else {
        if is_table {
            let message = format!("found {} quantiles", entries.len());
            reader.wrong(node.at, message, EXPECTED);
        }
        return;
    };
    match quantile(&entry.key) {
        Some(quantile) => slo.quantile = quantile,
        None => {
            let message = format!("`{}` is no quantile of the SLO", entry.key);
            reader.wrong(entry.key_at, message, EXPECTED);
        }
    }
    slo.response_time = reader.duration(&entry.node).unwrap_or(slo.response_time);
}

/// `p95` is 0.95, `p99.9` is 0.999; one decimal at most.
fn quantile(name: &str) -> Option<f64> {
    let digits = name.strip_prefix('p')?;
    let decimals = digits
        .split_once('.')
        .map_or(0, |(_, decimals)| decimals.len());
    let plain = digits.chars().all(|c| c.is_ascii_digit() || c == '.');
    let percent: f64 = digits.parse().ok()?;
    let good = plain && decimals <= 1 && (50.0..=99.9).contains(&percent);
    good.then_some((percent * 10.0).round() / 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_exact() {
        assert_eq!(quantile("p95"), Some(0.95));
        assert_eq!(quantile("p99.9"), Some(0.999));
        for name in ["p49", "p100", "p99.95", "95", "p", "pfifty", "p-60", "p5e1"] {
            assert_eq!(quantile(name), None, "{name}");
        }
    }

    #[test]
    fn forms_are_encoded_as_browsers_do() {
        assert_eq!(form_encode("a b&c=ü~*"), "a+b%26c%3D%C3%BC%7E*");
    }

    #[test]
    fn json_holds_no_placeholder() {
        assert_eq!(placeholder("{\"a\": {\"b\": 1.5}}"), None);
        assert_eq!(placeholder("x={user.name}"), Some("user.name"));
        assert_eq!(placeholder("{}{.}{a.}"), None);
    }
}
