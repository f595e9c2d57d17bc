//! `mix`: the requests, learned from an access log.

use super::reader::{Reader, Section};
use kneepoint_access_log::{LearnOptions, Learned, learn};
use kneepoint_model::Workload;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;

/// Most requests of a learned mix: half of them for routes by their share, so 100 routes at most. Each is checked
/// once on every arm that is stood up.
const MOST_REQUESTS: usize = 200;

/// Reads `mix` and `mix_format`; `None` without `mix`, or when nothing can be learnt.
pub(super) fn read(reader: &mut Reader<'_>, top: &Section<'_>) -> Option<Workload> {
    const LOG: &str = "an access log of nginx or Apache";
    const FORMAT: &str =
        "the text of nginx's log_format or Apache's LogFormat, or a name such as \"combined\"";
    let format = match top.get("mix_format") {
        Some(node) => Some(reader.text(node, FORMAT)?.to_owned()),
        None => None,
    };
    let node = top.get("mix")?;
    if top.get("request").is_some() {
        let message = "a scenario has `mix` or [[request]] tables, not both";
        reader.wrong(node.at, message, "one of them");
        return None;
    }
    let path = reader.file(node, LOG)?;
    let options = LearnOptions {
        format,
        most_requests: MOST_REQUESTS,
        ..LearnOptions::default()
    };
    match learn_file(&path, &options) {
        Ok(learned) => {
            let mut workload = learned.workload;
            // A rate of the search is one of requests: with visits it would be one of visitors, who go on for
            // minutes after a step has ended.
            workload.sessions = None;
            // The search goes beyond the rate of the log, with more users than it knew; few would wait for each
            // other's session locks.
            workload.users = workload.users.max(Workload::single("/").users);
            Some(workload)
        }
        Err(problem) => {
            reader.wrong(node.at, problem, LOG);
            None
        }
    }
}

fn learn_file(path: &Path, options: &LearnOptions) -> Result<Learned, String> {
    let file = File::open(path).map_err(|error| format!("cannot be read: {error}"))?;
    learn(BufReader::with_capacity(64 << 10, file), options).map_err(|error| error.to_string())
}
