//! OPcache's blacklist: scripts that every request compiles although the cache is on.

use crate::rule::prelude::*;

/// Scripts of a request that the blacklist keeps out, from which on it is not an exception \[ours\].
const FEWEST_LEFT_OUT: f64 = 3.0;

/// OPcache is on, and told to leave scripts out. `compile_share` is the share of PHP's CPU that compiling every script takes.
pub(crate) fn left_out(
    rule: &'static Rule,
    evidence: &Evidence,
    compile_share: f64,
) -> Option<Finding> {
    let phase = evidence.knee()?;
    let rate = |of| phase.series.rate(Layer::Php, of);
    let hz = rate(metric::OPCACHE_BLACKLISTED)?;
    let files = hz / phase.pool_hz();
    if !files.is_finite() || files < FEWEST_LEFT_OUT {
        return None;
    }
    let kept: f64 = [metric::OPCACHE_HITS, metric::OPCACHE_MISSES]
        .into_iter()
        .filter_map(rate)
        .sum();
    let part = hz / (hz + kept);
    let title =
        format!("OPcache is told to leave {files:.0} files of each request out: PHP compiles them");
    rule.finds(Layer::Php, title)
        .configured(evidence.quote(Layer::Php, "opcache.blacklist_filename"))
        .measured(
            format!(
                "{files:.0} scripts in each request are on the blacklist, {} of all it includes",
                format_share(part)
            ),
            phase,
        )
        .inside(evidence.seen_opened())
        .weight(compile_share * part * evidence.part_of_tiers(Layer::Php))
        .refuted_by("the same limit without the blacklist")
        .remedy(
            Advice::new(
                evidence,
                "Take opcache.blacklist_filename out, or only the lines that name whole directories of the application; \
                 reload PHP at each deployment instead.",
            )
            .build(),
        )
        .done()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::check_code;

    #[test]
    fn fires_when_a_blacklist_keeps_the_application_out() {
        let case = Case::healthy()
            .set(
                Layer::Php,
                "opcache.blacklist_filename",
                "/etc/php/exclude.txt",
            )
            .counter(
                PhaseKind::Knee,
                Layer::Php,
                metric::OPCACHE_BLACKLISTED,
                190.0 * 75.0,
            );
        check_code(
            "OPC-01",
            case,
            expect![[r#"
            named: OPC-01
            suspected php (10 %): OPcache is told to leave 75 files of each request out: PHP compiles them
              saw php.opcache.blacklist_filename = /etc/php/exclude.txt
              saw 75 scripts in each request are on the blacklist, 20 % of all it includes, at 190/s offered for 10 s
              do: Take opcache.blacklist_filename out, or only the lines that name whole directories of the application; reload PHP at each deployment instead.
        "#]],
        );
    }
}
