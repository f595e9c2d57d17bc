//! `[[job]]`: what runs beside the requests, on the host of PHP.

use crate::config::reader::tree::Node;
use crate::config::reader::{Reader, Section};
use kneepoint_model::JobSpec;
use std::collections::BTreeSet;

/// Reads the jobs.
pub(in crate::config) fn read(
    reader: &mut Reader<'_>,
    top: &Section<'_>,
    executes_php: bool,
) -> Vec<JobSpec> {
    let Some(node) = top.get("job") else {
        return Vec::new();
    };
    if !executes_php {
        let message = "a job runs on the host of PHP, and this chain has none";
        reader.wrong(node.at, message, "[stack.php], or no [[job]]");
    }
    let mut seen = BTreeSet::new();
    let items = reader.array(node, "[[job]] tables with run");
    let jobs = items.iter().enumerate().filter_map(|(nth, item)| {
        let job = job(reader, item, nth)?;
        reader
            .distinct(&mut seen, &job.name, item.at)
            .then_some(job)
    });
    jobs.collect()
}

fn job(reader: &mut Reader<'_>, node: &Node, nth: usize) -> Option<JobSpec> {
    const RUN: &str = "a command for a shell, such as \"php artisan schedule:run\"";
    let section = reader.section(node, "job")?;
    let run = match section.get("run") {
        Some(node) => reader.text(node, RUN),
        None => {
            reader.missing(Some(section.at), "job.run", RUN);
            None
        }
    };
    let name = match section.get("name") {
        Some(node) => reader.text(node, "a name for messages").map(str::to_owned),
        None => Some(format!("job {}", nth + 1)),
    };
    let every = match section.get("every") {
        Some(node) => Some(reader.duration(node)?),
        None => None,
    };
    Some(JobSpec {
        name: name?,
        run: run?.to_owned(),
        every,
    })
}
