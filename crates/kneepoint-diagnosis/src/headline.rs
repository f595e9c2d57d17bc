//! What may be said to bind: decided by measured parts, in this one place.

pub(crate) mod clear;
pub(crate) mod mending;

use crate::rule::LEAST_PART;
use crate::{Rule, RuleStage};
use kneepoint_model::{Confidence, Finding};

/// Makes a note of a suspicion whose part of the limit is small or not known, so that it never heads a report.
///
/// An error, a limit of the kernel and a load that is not what it should be are seen directly and have no part to
/// measure; that the CPU is used up has none either.
pub(crate) fn settle(rule: &Rule, finding: &mut Finding) {
    let is_measured = matches!(
        rule.stage,
        RuleStage::Waits | RuleStage::Code | RuleStage::Pool
    );
    if is_measured && finding.weight < LEAST_PART {
        finding.confidence = finding.confidence.min(Confidence::Noted);
    }
}

#[cfg(test)]
mod tests {
    use crate::PhaseKind;
    use crate::diagnose;
    use crate::test_support::Case;
    use kneepoint_model::metric::{DB_SESSIONS, REDIS_CONNECTIONS};
    use kneepoint_model::{Confidence, Layer};

    fn check(case: Case, code: &str, first: &str) {
        let findings = diagnose(&case.evidence());
        let mut suspected = findings
            .iter()
            .filter(|it| it.confidence >= Confidence::Suspected);
        assert_eq!(suspected.next().map(|it| it.code.as_str()), Some(first));
        let small = findings.iter().find(|it| it.code == code);
        assert_eq!(
            small.map(|it| it.confidence),
            Some(Confidence::Noted),
            "{code}"
        );
    }

    #[test]
    fn what_costs_a_little_is_noted_and_the_cpu_binds() {
        // A session a request at MariaDB costs a few hundredths of the CPU, whatever binds.
        let mysql =
            Case::healthy()
                .on_mariadb()
                .counter(PhaseKind::Knee, Layer::Db, DB_SESSIONS, 190.0);
        check(mysql, "MYS-02", "CAP-02");
        let redis =
            Case::healthy().counter(PhaseKind::Knee, Layer::Cache, REDIS_CONNECTIONS, 190.0);
        check(redis, "RDS-01", "CAP-02");
    }
}
