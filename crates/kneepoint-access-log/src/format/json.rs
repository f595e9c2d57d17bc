//! Lines that are JSON objects: nginx's `escape=json`, or what others write.

use crate::entry::time::{Clock, Unit};
use crate::entry::{BadLine, Field, Moment, Raw};
use serde_json::{Map, Value};

/// Reads a line. Keys are nginx's variables or their usual other names; unknown ones do not matter.
pub(crate) fn read(line: &str) -> Result<Raw<'static>, BadLine> {
    let object: Map<String, Value> =
        serde_json::from_str(line.trim_ascii()).map_err(|error| BadLine::Json {
            problem: error.to_string(),
        })?;
    let mut raw = Raw::default();
    for (key, value) in &object {
        let text = match value {
            Value::String(text) => text.clone(),
            Value::Number(number) => number.to_string(),
            _ => continue,
        };
        let Some(field) = field(key) else { continue };
        // Others may mean something else by `date` or `duration`; without any time the line is bad anyway.
        let vague = matches!(field, Field::At(..) | Field::Took(_));
        match raw.set_plain(&field, text) {
            Err(bad) if !vague => return Err(bad),
            _ => {}
        }
    }
    Ok(raw)
}

fn field(key: &str) -> Option<Field> {
    let key = key.trim_start_matches(['$', '@']).to_ascii_lowercase();
    Some(match key.as_str() {
        "remote_addr" | "remote_ip" | "client_ip" | "client" | "clientip" | "ip"
        | "http_x_real_ip" => Field::Address,
        "http_x_forwarded_for" | "x_forwarded_for" | "forwarded_for" => Field::Forwarded,
        "msec" | "time_iso8601" | "time_local" | "time" | "timestamp" | "ts" | "datetime"
        | "date" => Field::At(Clock::Any, Moment::End),
        "request" => Field::Request,
        "request_method" | "method" | "verb" => Field::Method,
        "request_uri" | "url" => Field::Target,
        "uri" | "path" | "document_uri" => Field::Path,
        "args" | "query_string" | "query" => Field::Query,
        "status" | "status_code" => Field::Status,
        "http_cookie" | "cookie" | "cookies" => Field::Cookies,
        "uid_got" | "uid_set" => Field::Visitor,
        "request_time" | "duration" | "request_time_s" | "duration_s" => Field::Took(Unit::Seconds),
        "request_time_ms" | "duration_ms" => Field::Took(Unit::Millis),
        "request_time_us" | "duration_us" => Field::Took(Unit::Micros),
        "http_user_agent" | "user_agent" | "agent" | "useragent" => Field::Agent,
        _ if key.starts_with("cookie_") => Field::Visitor,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use crate::format::{LineFormat, parse_line};

    #[test]
    fn keys_go_by_their_usual_names() {
        let line = r#"{"@timestamp":"2026-11-21T01:15:12.500+00:00","method":"GET","path":"/a","query":"b=1",
            "status":200,"client_ip":"::1","user_agent":"x","request_time_ms":250,"nested":{"a":[1]},"none":null}"#;
        let entry = parse_line(&LineFormat::json(), line).expect("in order");
        assert_eq!(entry.request.expect("a request").target, "/a?b=1");
        assert_eq!(entry.end_us - entry.start_us, 250_000);
        assert_eq!(entry.status, Some(200));
        assert!(entry.client.is_some());
    }

    #[test]
    fn what_is_no_object_is_bad() {
        for line in ["", "[]", "1", "{", r#"{"status":"x","msec":"1"}"#] {
            assert!(parse_line(&LineFormat::json(), line).is_err(), "{line}");
        }
    }
}
