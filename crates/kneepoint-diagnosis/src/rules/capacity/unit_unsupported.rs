//! RT-08: NGINX Unit, which nobody looks after any more.

use crate::rule::prelude::*;

pub(crate) static RULE: Rule = Rule {
    code: "RT-08",
    name: "unit-unsupported",
    since: "0.1.0",
    layers: &[Layer::Php],
    stage: RuleStage::Capacity,
    signal: UseSignal::Error,
    applies_to: AppliesTo::Server("unit"),
    requires: &[],
    yields_to: &[],
    title: "NGINX Unit is no longer maintained",
    doc: RuleDoc {
        what_it_is: "Its authors have ceased all work on NGINX Unit: there are no fixes, not for its security either. That \
            costs no speed, which is why it is noted and never named as what binds.",
        how_it_shows: "The project's page on GitHub says so, and the repository is archived.",
        how_it_is_confirmed: "Compare Unit with the servers that could take its place, each tuned: kneepoint compare \
            --runtime unit --runtime fpm --runtime frankenphp.",
        what_to_write: "A plan to move. PHP-FPM behind nginx runs the same scripts unchanged; so does FrankenPHP where \
            each request is run anew.",
        references: &["https://github.com/nginx/unit"],
    },
    check,
};

fn check(evidence: &Evidence) -> Option<Finding> {
    let unit = evidence.stack.tier(Layer::Php)?;
    RULE.finds(Layer::Php, RULE.title)
        .configured(format!("php runtime = {}", unit.server))
        .suspected_if(false)
        .refuted_by("a new release by a new maintainer")
        .remedy(
            Advice::new(
                evidence,
                "Plan to move to a runtime that is maintained; kneepoint compare says what that costs or gains.",
            )
            .build(),
        )
        .done()
}

#[cfg(test)]
mod tests {
    use super::*;
    use kneepoint_model::ServerKind;

    #[test]
    fn unit_is_noted_and_nothing_else_is() {
        let unit = |tier: &mut kneepoint_model::Tier| tier.server = ServerKind::new("unit");
        verify(
            &RULE,
            Case::healthy().tier(Layer::Php, unit),
            expect![[r#"
                named: CAP-02
                noted php (0 %): NGINX Unit is no longer maintained
                  saw php runtime = unit
                  do: Plan to move to a runtime that is maintained; kneepoint compare says what that costs or gains.
            "#]],
        );
        stays_silent(&RULE, Case::healthy());
    }
}
