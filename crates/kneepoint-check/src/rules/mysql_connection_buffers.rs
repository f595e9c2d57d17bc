//! MYS-17: buffers of each connection are large.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "MYS-17",
    name: "mysql-connection-buffers",
    title: "Each connection to MariaDB may take a great deal of memory",
    what_it_is: "sort_buffer_size, join_buffer_size, read_buffer_size and read_rnd_buffer_size are taken by each \
        connection that needs them, some of them more than once a query. Advice to raise them is everywhere; with as \
        many connections as PHP has workers it is the sum that counts. A join that needs such a buffer needs an \
        index instead.",
    how_it_shows: "The database is killed by the kernel, or the host swaps, at the moment of the highest load.",
    unless: "Few connections run large queries at the same time.",
    what_to_write: "sort_buffer_size = 2M, join_buffer_size = 256K, read_buffer_size = 128K: what the database comes \
        with.",
    check,
};

/// The buffers that each connection may take, with what they are as the database comes.
const EACH: [(&str, &str); 4] = [
    ("sort_buffer_size", "2M"),
    ("join_buffer_size", "256K"),
    ("read_buffer_size", "128K"),
    ("read_rnd_buffer_size", "256K"),
];

const SORT: Directive = Directive {
    home: Home::Program(ServiceKind::Mysql),
    name: "max_connections",
    usual: "151",
    beside: &[
        ("sort_buffer_size", "2M"),
        ("join_buffer_size", "256K"),
        ("read_buffer_size", "128K"),
    ],
    severity: Severity::Risk,
    costs: |value, around| {
        /// Part of the memory that may go to buffers of connections \[ours\].
        const MOST: f64 = 0.5;
        let sizes = EACH.map(|(name, usual)| around.settings.or(name, usual).size());
        let each: f64 = sizes.into_iter().flatten().sum();
        let connections = value.number()?.min(around.workers() as f64 + 10.0);
        let sum = each * connections;
        (around.memory_bytes() > 0.0 && sum > around.memory_bytes() * MOST).then(|| {
            format!(
                "{} for each of {connections:.0} connections, {} in all, of {} ({})",
                format_bytes(each as u64),
                format_bytes(sum as u64),
                format_bytes(around.memory_bytes() as u64),
                around.memory_source()
            )
        })
    },
    better: |_| "sort_buffer_size = 2M, join_buffer_size = 256K, read_buffer_size = 128K".into(),
    weight: 0.2,
};

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    SORT.check(&RULE, snapshot, found);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sick_and_healthy() {
        verify(
            &RULE,
            &[(
                Case::healthy().set(3, "sort_buffer_size", "512M"),
                Severity::Risk,
                "of 30 connections",
            )],
        );
    }
}
