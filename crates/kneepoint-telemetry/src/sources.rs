//! The list of sources. A new one is a file beside these and a line here.

use crate::source::Source;

/// Declares the modules of the sources and lists their metadata in the same order.
macro_rules! sources {
    ($($module:ident,)*) => {
        $(mod $module;)*
        /// Every source, in the order documentation shows them: kernel first, then the servers' own doors.
        pub static SOURCES: &[&Source] = &[$(&$module::SOURCE),*];
    };
}

sources! {
    machine,
    processes,
    jobs,
    memory,
    cgroup,
    workers,
    event_loops,
    accept_queue,
    tcp_states,
    kernel_counters,
    nginx_stub,
    fpm_status,
    runtime_numbers,
    opcache,
    redis_info,
    postgresql,
    mysql,
    database_disk,
    logs,
}

pub(crate) use self::mysql::options as mysql_options;
pub(crate) use self::postgresql::config as postgresql_config;
pub use workers::NOT_THE_APPLICATION;

#[cfg(test)]
mod tests {
    use super::SOURCES;

    #[test]
    fn names_are_unique_and_every_source_says_what_it_needs_and_costs() {
        let mut names: Vec<_> = SOURCES.iter().map(|source| source.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), SOURCES.len());
        for source in SOURCES {
            let texts = [source.about, source.requirements, source.overhead];
            assert!(texts.iter().all(|text| text.len() > 20), "{}", source.name);
            assert!(
                !source.metrics.is_empty() || source.name == "logs",
                "{}",
                source.name
            );
        }
    }

    #[test]
    fn every_standard_metric_of_the_model_has_a_source() {
        // The collector itself fills these two.
        let own = ["source.up", "source.cost_s"];
        let filled = |name: &str| {
            SOURCES
                .iter()
                .any(|s| s.metrics.iter().any(|m| m.name == name))
        };
        let missing: Vec<_> = kneepoint_model::metric::STANDARD
            .iter()
            .map(|metric| metric.name)
            .filter(|name| !own.contains(name) && !filled(name))
            .collect();
        assert!(missing.is_empty(), "no source fills {missing:?}");
    }
}
