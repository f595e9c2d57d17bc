//! The catalogue of what can be judged without load: one file a rule, and this one list.

use crate::rule::log_page::LOG_PAGES;
use crate::rule::{CheckFinding, CheckRule, Fix, Severity, counted};
use crate::snapshot::{Service, SettingValue, Snapshot};
use kneepoint_model::{SwitchKind, rule_page};

macro_rules! catalogue {
    ($($rule:ident,)*) => {
        $(mod $rule;)*

        /// Every rule, in the order of the chain: PHP's cache, PHP's workers, the web server, the kernel, who is behind,
        /// the application, and what is written but does not run.
        pub static CHECKS: &[&CheckRule] = &[$(&$rule::RULE),*];
    };
}

catalogue! {
    opcache_off,
    opcache_directives_without_extension,
    opcache_memory_small,
    opcache_too_few_files,
    opcache_interned_small,
    opcache_validates_each_request,
    opcache_keeps_old_releases,
    opcache_harmful,
    opcache_leaves_files_out,
    opcache_optimizer_off,
    opcache_save_comments_off,
    opcache_file_cache_outlives_restart,
    preload_is_not_validated,
    preload_unused,
    realpath_cache_small,
    realpath_cache_short_lived,
    jit_without_effect,
    pool_too_small,
    spawn_lag,
    pool_few_descriptors,
    workers_niced,
    ondemand,
    max_requests_churn,
    backlog_cut,
    queue_too_long,
    local_tcp_to_php,
    pool_serves_many_sites,
    keep_conn_pins_workers,
    keep_conn_outlives_worker,
    keep_conn_waits_behind_work,
    timeouts_disagree,
    no_terminate_timeout,
    no_execution_limit,
    execution_limit_beyond_nginx,
    reload_cuts_requests,
    no_slowlog,
    slow_log_too_eager,
    requests_logged_twice,
    fpm_logs_debug,
    output_through_master,
    pools_exceed_memory,
    no_memory_limit,
    memory_limits_exceed_memory,
    request_takes_all_memory,
    worker_crashes,
    requests_terminated,
    slow_requests_logged,
    process_max_too_small,
    status_in_the_pool,
    too_few_worker_connections,
    too_few_descriptors,
    nginx_workers_and_cores,
    upstream_keepalive_missing,
    upstream_keepalive_small,
    keepalive_requests_low,
    kept_longer_than_peer,
    slow_requests_retried,
    directives_of_another_protocol,
    keep_conn_without_upstream,
    gzip_level_high,
    gzip_off,
    gzip_html_only,
    access_log_unbuffered,
    sendfile_off,
    buffering_off,
    request_bodies_to_disk,
    uploads_cut,
    nodelay_off,
    accept_mutex_on,
    error_log_verbose,
    client_timeouts_tight,
    tls_without_sessions,
    http2_off,
    listener_queue_short,
    logged_trouble,
    fatal_errors_logged,
    php_was_refused,
    local_ports,
    accept_queue_overflows,
    syn_queue_overflows,
    syncookies_off,
    conntrack_full,
    cpu_throttled,
    oom_kills,
    machine_descriptors,
    sessions_connect_per_request,
    redis_connections_per_request,
    redis_asked_whether_alive,
    redis_session_lock_spins,
    session_gc_frequent,
    sessions_never_cleared,
    session_auto_start,
    session_written_always,
    redis_few_clients,
    redis_clients_cut,
    sessions_may_be_evicted,
    redis_refuses_writes,
    redis_without_limit,
    redis_waits_for_disk,
    redis_snapshots_huge_pages,
    redis_exceeds_memory,
    mysql_few_connections,
    mysql_few_descriptors,
    mysql_resolves_names,
    mysql_buffer_pool_small,
    mysql_cache_exceeds_memory,
    mysql_connection_buffers,
    mysql_small_redo_log,
    mysql_few_open_tables,
    mysql_thread_cache_off,
    mysql_tmp_tables_cut,
    mysql_query_cache_on,
    mysql_logs_every_query,
    mysql_slow_log_off,
    mysql_durability_off,
    postgresql_few_connections,
    postgresql_idle_in_transaction,
    postgresql_small_buffers,
    postgresql_buffers_exceed_memory,
    postgresql_work_mem_large,
    postgresql_many_connections,
    postgresql_autovacuum_off,
    postgresql_frequent_checkpoints,
    postgresql_random_reads_dear,
    postgresql_logs_every_query,
    postgresql_durability_off,
    pgbouncer_few_clients,
    pgbouncer_pool_queue,
    laravel_not_cached,
    debug_on,
    cache_off,
    tracing_extension_loaded,
    apm_agent_loaded,
    apcu_small,
    autoloader_not_optimized,
    slow_drivers,
    errors_displayed,
    errors_go_nowhere,
    assertions_on,
    file_before_every_request,
    post_smaller_than_upload,
    socket_timeout_long,
    apache_keep_alive,
    apache_keep_alive_off,
    apache_was_full,
    apache_workers_cut,
    apache_exceeds_memory,
    apache_children_churn,
    apache_htaccess,
    apache_names_of_clients,
    haproxy_few_connections,
    haproxy_one_thread,
    haproxy_no_reuse,
    unit_unsupported,
    not_loaded,
    value_overridden,
}

/// Where what these rules find is told.
const BY_CHECK: &str = "Found without load, by kneepoint check";

/// What a rule is about, by its code or name in any case; `None` where there is none. Several rules may share a code.
#[must_use]
pub fn explain(code: &str) -> Option<String> {
    let is_named = |name: &str| name.eq_ignore_ascii_case(code);
    let found = CHECKS
        .iter()
        .filter(|rule| is_named(rule.code) || is_named(rule.name));
    let found: Vec<&CheckRule> = found.copied().collect();
    let first = match found.as_slice() {
        [] => return of_log(code),
        [one] => {
            let mut parts = vec![("What it is", one.what_it_is)];
            parts.extend(rest(one));
            return Some(rule_page(one.code, one.title, BY_CHECK, &parts));
        }
        [first, ..] => first,
    };
    let facts = format!("{BY_CHECK}; {} rules have this code", found.len());
    let texts: Vec<String> = found.iter().map(|rule| whole(rule)).collect();
    let titles = found.iter().map(|rule| rule.title);
    let parts: Vec<(&str, &str)> = titles.zip(texts.iter().map(String::as_str)).collect();
    Some(rule_page(first.code, first.title, &facts, &parts))
}

/// Every code that a finding may have, with what it says: one for each rule, and those of the lines of logs.
pub fn codes() -> impl Iterator<Item = (&'static str, &'static str)> {
    let of_rules = CHECKS.iter().map(|rule| (rule.code, rule.title));
    of_rules.chain(logged_trouble::codes().map(|(code, said, _)| (code, said)))
}

/// What a code is about that only lines of logs have.
fn of_log(code: &str) -> Option<String> {
    let rule = &logged_trouble::RULE;
    let mut known = logged_trouble::codes();
    let (code, said, remedy) = known.find(|(known, ..)| known.eq_ignore_ascii_case(code))?;
    let own = LOG_PAGES.iter().find(|page| page.code == code);
    let own = own.map(|page| (page.what_it_is, page.how_it_shows));
    let (what, shows) = own.unwrap_or((rule.what_it_is, rule.how_it_shows));
    let parts = [
        ("What it is", what),
        ("How it shows", shows),
        ("When it does not matter", rule.unless),
        ("What to do", remedy),
    ];
    Some(rule_page(code, said, BY_CHECK, &parts))
}

/// What stands below what a rule is about.
fn rest(rule: &CheckRule) -> [(&'static str, &'static str); 3] {
    [
        ("How it shows", rule.how_it_shows),
        ("When it does not matter", rule.unless),
        ("What to write", rule.what_to_write),
    ]
}

/// All of a rule as one text, for a page of several rules: each part says which rule it is of.
fn whole(rule: &CheckRule) -> String {
    let parts = rest(rule).map(|(heading, text)| format!("\n\n{heading}: {text}"));
    format!("{}{}", rule.what_it_is, parts.concat())
}

/// `one of 5 workers`, `the only worker`.
fn one_of(count: u64, what: &str) -> String {
    match count {
        1 => format!("the only {what}"),
        count => format!("one of {}", counted(count, what)),
    }
}

/// `all 5 workers`, `the only worker`.
fn all_of(count: u64, what: &str) -> String {
    match count {
        1 => format!("the only {what}"),
        count => format!("all {}", counted(count, what)),
    }
}

/// How bad a switch of an application is, what it costs, and how much it weighs.
type Judged = (Severity, &'static str, f64);
/// The same by a switch's name, and what to do by its file and name.
type OfSwitch = (fn(&str) -> Judged, fn(&str, &str) -> String);

/// Tells each switch of this kind that an application sets: how bad it is by its name, and what to do by its file and name.
fn switched(
    rule: &'static CheckRule,
    kind: SwitchKind,
    (costs, what): OfSwitch,
    snapshot: &Snapshot,
    found: &mut Vec<CheckFinding>,
) {
    for app in &snapshot.apps {
        for switch in app.switches.iter().filter(|switch| switch.kind == kind) {
            // A pool's environment is set in a file of PHP-FPM.
            let file = crate::files::absolute(&app.root, &switch.file);
            let place = format!("{file}:{}", switch.line);
            let what = what(&switch.file, &switch.name);
            let given = switch.name.strip_prefix("env[");
            let given = given.and_then(|name| name.strip_suffix(']'));
            let (severity, cost, weight) = costs(given.unwrap_or(&switch.name));
            rule.at(snapshot, app.service, severity)
                .app(app)
                .seen(format!("{} = {}", switch.name, switch.value), &place)
                .cost(cost)
                .fix(Fix::words(format!("In {place}, {what}.")))
                .weight(weight)
                .tell(found);
        }
    }
}

/// A setting of the kernel, where a larger one than there is can help; else what to look at instead.
fn larger_sysctl(service: &Service, name: &str, right: u32, instead: &str) -> Fix {
    let now = service.kernel.get(name).and_then(SettingValue::number);
    match now.is_some_and(|now| now >= f64::from(right)) {
        true => Fix::words(instead),
        false => Fix::sysctl(service, name, &right.to_string()),
    }
}

/// A little less than what somebody waits, in seconds: for who should give up first.
fn just_below(seconds: f64) -> String {
    format!(
        "{:.0}s",
        (seconds - 5.0).max(seconds * 0.8).floor().max(1.0)
    )
}

/// Processes of nginx that serve: as configured, or as many as may run.
fn nginx_workers(snapshot: &Snapshot, service: &Service) -> f64 {
    let value = service.settings.or("worker_processes", "1");
    match value.number() {
        Some(count) => count.max(1.0),
        // `auto` counts the cores that the process may run on, and knows no quota.
        None => service
            .limits
            .allowed_cores
            .unwrap_or(snapshot.machine.cores)
            .max(1.0),
    }
}

#[cfg(test)]
fn tests_of(rule: &CheckRule, case: &crate::rule::case::Case) -> Vec<CheckFinding> {
    crate::rule::case::run(rule, &case.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::case::{Case, run};
    use std::collections::BTreeSet;

    #[test]
    fn names_are_unique_and_every_rule_explains_itself() {
        let names: BTreeSet<&str> = CHECKS.iter().map(|rule| rule.name).collect();
        let titles: BTreeSet<&str> = CHECKS.iter().map(|rule| rule.title).collect();
        assert_eq!((names.len(), titles.len()), (CHECKS.len(), CHECKS.len()));
        for rule in CHECKS {
            let page = explain(rule.name).expect(rule.name);
            let parts = [
                (rule.what_it_is, 100),
                (rule.how_it_shows, 40),
                (rule.unless, 20),
                (rule.what_to_write, 20),
            ];
            for (part, least) in parts {
                assert!(part.len() > least && page.contains(part), "{}", rule.name);
            }
            assert!(!rule.title.ends_with('.') && page.contains(rule.title));
        }
        assert_eq!(explain("XXX-99"), None);
        for (code, said) in codes() {
            let page = explain(code).expect(code);
            assert!(page.contains(code) && !said.is_empty(), "{page}");
        }
        let page = explain("fpm-24").expect("a line of a log");
        assert!(
            page.contains("# FPM-24: Nobody listened") && page.contains("listen.owner"),
            "{page}"
        );
    }

    #[test]
    fn a_line_of_a_log_without_a_rule_has_a_page_of_its_own() {
        let has_rule = |code: &str| CHECKS.iter().any(|rule| rule.code == code);
        let alone: BTreeSet<&str> = logged_trouble::codes()
            .map(|(code, ..)| code)
            .filter(|code| !has_rule(code))
            .collect();
        let told: BTreeSet<&str> = LOG_PAGES.iter().map(|page| page.code).collect();
        assert_eq!(alone, told);
        for page in &LOG_PAGES {
            let text = explain(page.code).expect(page.code);
            assert!(text.contains(page.what_it_is) && text.contains(page.how_it_shows));
        }
        let corrupted = explain("RT-06").expect("a page");
        assert!(
            corrupted.starts_with("# RT-06: PHP found its memory corrupted\n"),
            "{corrupted}"
        );
    }

    #[test]
    fn rules_of_one_code_each_say_all_of_theirs_below_their_title() {
        let page = explain("PG-05").expect("a page");
        let at = |text: &str| page.find(text).expect(text);
        let (few, queue) = (&pgbouncer_few_clients::RULE, &pgbouncer_pool_queue::RULE);
        let second = at(&format!("\n## {}\n", queue.title));
        assert!(at(&format!("\n## {}\n", few.title)) < at(few.unless));
        assert!(at(few.what_to_write) < second && second < at(queue.how_it_shows));
        assert!(page.contains("2 rules have this code"), "{page}");
        assert!(!page.contains("\n## How it shows"), "{page}");
    }

    #[test]
    fn the_catalogue_lists_every_rule() {
        let listed = include_str!("../../../docs/catalogue.md");
        for rule in CHECKS {
            let line = format!("| {} | `{}` | {} |", rule.code, rule.name, rule.title);
            assert!(listed.contains(&line), "docs/catalogue.md lacks: {line}");
        }
    }

    #[test]
    fn every_file_is_named_as_its_rule() {
        let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/src/rules");
        let files: BTreeSet<String> = std::fs::read_dir(directory)
            .expect("the rules' directory")
            .map(|entry| entry.expect("an entry").file_name())
            .map(|name| name.to_string_lossy().replace(".rs", "").replace('_', "-"))
            .collect();
        let names: BTreeSet<String> = CHECKS.iter().map(|rule| rule.name.to_owned()).collect();
        assert_eq!(files, names);
    }

    #[test]
    fn a_switch_in_a_pools_environment_is_told_where_it_stands() {
        let (name, file) = ("env[APP_ENV]", "/etc/php/www.conf");
        let case = Case::switched(SwitchKind::DebugOn, name, file);
        let found = tests_of(&debug_on::RULE, &case);
        assert_eq!(found[0].seen[0].source, "/etc/php/www.conf:4");
        assert_eq!(found[0].severity, Severity::Problem);
    }

    #[test]
    fn nothing_is_wrong_with_a_healthy_stack() {
        let case = Case::healthy();
        let found: Vec<_> = CHECKS.iter().flat_map(|rule| run(rule, &case.0)).collect();
        assert!(found.is_empty(), "{found:#?}");
    }

    #[test]
    fn nothing_is_said_where_nothing_was_seen() {
        let empty = Snapshot::default();
        assert!(CHECKS.iter().all(|rule| run(rule, &empty).is_empty()));
    }
}
