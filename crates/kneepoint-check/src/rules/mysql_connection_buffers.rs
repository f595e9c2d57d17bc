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

/// Part of the memory that may go to buffers of connections \[ours\].
const MOST: f64 = 0.5;

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    for (at, service) in snapshot.of(ServiceKind::Mysql) {
        let connections = service.settings.or("max_connections", "151");
        let place = Around::service(snapshot, at, service);
        let values = EACH.map(|(name, usual)| (name, usual, service.settings.or(name, usual)));
        let sizes = values.iter().filter_map(|(_, _, value)| value.size());
        let each: f64 = sizes.sum();
        let Some(most) = connections.number() else {
            continue;
        };
        let come = most.min(place.workers() as f64 + 10.0);
        let (sum, all) = (each * come, place.memory_bytes());
        let raised: Vec<&(&str, &str, SettingValue)> = values
            .iter()
            .filter(|(_, usual, value)| {
                value.size() > SettingValue::new(usual, SettingSource::Default).size()
            })
            .collect();
        let Some((_, _, first)) = raised.first().filter(|_| all > 0.0 && sum > all * MOST) else {
            continue;
        };
        let lines: Vec<String> = raised
            .iter()
            .map(|(name, usual, _)| format!("{name} = {usual}"))
            .collect();
        let mut draft = RULE.at(snapshot, at, Severity::Risk);
        for (name, _, value) in &raised {
            draft = draft.value(name, value);
        }
        draft
            .value("max_connections", &connections)
            .cost(format!(
                "{} for each of {come:.0} connections, {} in all, of {} ({})",
                format_bytes(each as u64),
                format_bytes(sum as u64),
                format_bytes(all as u64),
                place.memory_source()
            ))
            .fix(Fix::line(service, first, &lines.join("\n")))
            .weight(0.2)
            .tell(found);
    }
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
        let both =
            Case::healthy()
                .set(3, "sort_buffer_size", "512M")
                .set(3, "read_buffer_size", "64M");
        let found = super::super::tests_of(&RULE, &both);
        assert_eq!(
            found[0].fix.lines,
            ["sort_buffer_size = 2M", "read_buffer_size = 128K"]
        );
    }
}
