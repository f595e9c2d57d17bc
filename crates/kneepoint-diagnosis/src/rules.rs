//! The catalogue: one file a rule in the folder of its stage, and this one list.
//!
//! The order is the discriminating order of the catalogue (section 3). `RULES` feeds the diagnosis, `explain`, the
//! documentation and the tests; a file that is missing here would not be compiled, and a test says so.

macro_rules! catalogue {
    ($($stage:ident { $($rule:ident,)* })*) => {
        $(mod $stage { $(pub(super) mod $rule;)* })*

        /// Every rule, in the discriminating order.
        pub static RULES: &[&crate::Rule] = &[$($(&$stage::$rule::RULE,)*)*];
    };
}

catalogue! {
    // 1: the generator and what it asks for
    generator {
        generator_limits,
        fatal_with_status_200,
        drift_during_plateau,
    }
    // 2: errors with exactly one meaning
    errors {
        worker_crash_loop,
        fatal_errors,
        too_few_worker_connections,
        too_few_descriptors,
        too_many_db_clients,
        too_many_mysql_clients,
        too_many_cache_clients,
        unix_backlog_full,
        given_up_requests,
    }
    // 3: the kernel
    kernel {
        tcp_backlog_full,
        ephemeral_ports_used_up,
        cgroup_throttled,
        cpu_stolen,
        memory_short,
        disk_waited_for,
        link_full,
    }
    // 4: what workers wait for
    waits {
        keep_conn_pins_workers,
        session_lock,
        own_lock,
        output_through_master,
        access_log_unbuffered,
        buffering_off,
        redis_session_lock,
        session_row_lock,
        blocked_on_unknown_peer,
        asks_itself,
        names_asked_again,
        program_per_request,
        cron_by_visitors,
        hot_row,
        postgresql_lock_chain,
        mysql_commits_wait_for_disk,
        postgresql_commits_wait_for_disk,
        blocked_downstream,
        redis_connect_per_request,
        redis_core_full,
        db_connect_per_request,
        mysql_connect_per_request,
        upstream_keepalive_missing,
        upstream_keepalive_too_small,
        single_nginx_worker,
        max_requests_churn,
    }
    // 5: code that need not run
    code {
        opcache_off,
        opcache_memory_full,
        opcache_keys_full,
        opcache_interned_full,
        opcache_validates_timestamps,
        tracing_extension,
        debug_switched_on,
        cache_switched_off,
        laravel_not_cached,
        symfony_env_parsed,
        autoloader_not_optimized,
        session_cleaning,
        repeated_query,
        repeated_command,
        whole_table_counted,
        full_scan,
        sequential_scan,
        large_answers,
        large_payload,
        job_takes_cpu,
        cache_stampede,
        hot_function,
    }
    // 6: the number of workers
    pool {
        spawn_lag,
        too_many_children,
        too_few_children,
    }
    // 7: nothing is wrong
    capacity {
        unit_unsupported,
        cpu_used_up,
    }
}

#[cfg(test)]
mod tests {
    use super::RULES;
    use std::collections::BTreeSet;
    use std::path::Path;

    #[test]
    #[expect(
        clippy::disallowed_methods,
        reason = "the test reads which rules there are"
    )]
    fn every_file_is_in_the_list_and_named_as_its_rule() {
        let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/src/rules");
        let entries = |directory: &Path| {
            let entries = std::fs::read_dir(directory).expect("a directory");
            entries.map(|entry| entry.expect("an entry").path())
        };
        let files: BTreeSet<String> = entries(Path::new(directory))
            .flat_map(|stage| entries(&stage))
            .map(|file| {
                file.file_stem()
                    .expect("a name")
                    .to_string_lossy()
                    .replace('_', "-")
            })
            .collect();
        let names: BTreeSet<String> = RULES.iter().map(|rule| rule.name.to_owned()).collect();
        assert_eq!(files, names);
    }

    #[test]
    fn no_two_rules_say_the_same() {
        let titles: BTreeSet<&str> = RULES.iter().map(|rule| rule.title).collect();
        assert_eq!(titles.len(), RULES.len());
    }

    #[test]
    fn codes_are_unique_and_the_order_is_that_of_the_stages() {
        let codes: BTreeSet<&str> = RULES.iter().map(|rule| rule.code).collect();
        assert_eq!(codes.len(), RULES.len());
        assert!(RULES.is_sorted_by_key(|rule| rule.stage));
        for rule in RULES {
            for code in rule.yields_to {
                assert!(
                    codes.contains(code),
                    "{} yields to nobody: {code}",
                    rule.code
                );
            }
        }
    }
}
