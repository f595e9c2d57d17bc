//! MYS-19: the limit of open files cuts the database.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "MYS-19",
    name: "mysql-few-descriptors",
    title: "MariaDB may open fewer files than its tables and connections need",
    what_it_is: "Each connection and each open table is a file or more. Where the limit of open files is below \
        max_connections plus twice table_open_cache, the database lowers both at its start and says so once in its log.",
    how_it_shows: "`Could not increase number of max_open_files` in the error log; max_connections is smaller than \
        what the file says.",
    unless: "The database has few tables and few connections.",
    what_to_write: "LimitNOFILE=65535 in its unit, or `ulimits:` of its container; then restart it. open_files_limit, where a file \
        sets it, must not be smaller.",
    check,
};

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    for (at, service) in snapshot.of(ServiceKind::Mysql) {
        let connections = service.settings.or("max_connections", "151");
        let tables = service.settings.or("table_open_cache", "2000");
        let numbers = (connections.number(), tables.number(), service.limits.files);
        let (Some(clients), Some(open), Some(files)) = numbers else {
            continue;
        };
        let needed = clients + 2.0 * open + 10.0;
        if files >= needed || service.settings.is_empty() {
            continue;
        }
        let left = ((files - 10.0 - clients) / 2.0).max(0.0);
        RULE.at(snapshot, at, Severity::Risk)
            .value("max_connections", &connections)
            .value("table_open_cache", &tables)
            .seen(format!("it may open {files:.0} files, and needs {needed:.0}"), format!("/proc/{}/limits", service.pid))
            .cost(format!("about {left:.0} open tables instead of {open:.0}, or fewer connections: queries close one another's tables"))
            .fix(Fix::open_files(service))
            .weight(0.1)
            .tell(found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sick_and_healthy() {
        let few = Case::healthy().with(|all| all.services[3].limits.files = Some(1024.0));
        verify(&RULE, &[(few, Severity::Risk, "407 open tables")]);
    }
}
