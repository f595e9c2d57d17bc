//! OPC-05: OPcache's buffer of interned strings is nearly full.

use crate::rule::prelude::*;

/// Free share of the buffer below which it is nearly full (catalogue OPC-05).
const LITTLE_FREE: f64 = 0.10;
/// The buffer is carved out of the shared memory: more than this share of it starves the scripts (catalogue OPC-05).
const LARGEST_SHARE: f64 = 0.25;
/// Buffers below this many MiB are too small for any framework.
const LEAST_MIB: f64 = 16.0;

pub(crate) static RULE: Rule = Rule {
    code: "OPC-05",
    name: "opcache-interned-full",
    since: "0.1.0",
    layers: &[Layer::Php],
    stage: RuleStage::Code,
    signal: UseSignal::Saturation,
    applies_to: AppliesTo::Any,
    requires: &[metric::OPCACHE_INTERNED_FREE_SHARE],
    yields_to: &["OPC-01"],
    title: "OPcache's buffer of interned strings is nearly full",
    doc: RuleDoc {
        what_it_is: "PHP keeps one copy of every name and literal of your code in a buffer that all workers share. When \
            it is full, each worker keeps its own copies of the rest: memory grows with the number of workers, and \
            comparing strings gets slower. Nothing fails and nothing is logged.",
        how_it_shows: "opcache_get_status() says interned_strings_usage.free_memory below a tenth of buffer_size; the \
            workers' private memory is larger than it was.",
        how_it_is_confirmed: "Double the buffer, restart, warm up: free memory appears in it and the workers' private \
            memory falls.",
        what_to_write: "In php.ini, 16 to 64 MiB and at most a quarter of opcache.memory_consumption, since it is part of \
            it; restart PHP-FPM:\n\n    opcache.interned_strings_buffer = 16",
        references: &[
            "https://www.php.net/manual/en/opcache.configuration.php",
            "https://github.com/nextcloud/server/issues/31223",
        ],
    },
    check,
};

fn check(evidence: &Evidence) -> Option<Finding> {
    let phase = evidence.knee()?;
    let free = phase
        .series
        .last(Layer::Php, metric::OPCACHE_INTERNED_FREE_SHARE)?;
    if free >= LITTLE_FREE {
        return None;
    }
    let number = |name| evidence.stack.number(Layer::Php, name).unwrap_or(0.0);
    let buffer = number("opcache.interned_strings_buffer");
    let wanted = (2.0 * buffer).max(LEAST_MIB);
    let memory = number("opcache.memory_consumption").max(wanted / LARGEST_SHARE);
    RULE.finds(Layer::Php, RULE.title)
        .configured(evidence.quote(Layer::Php, "opcache.interned_strings_buffer"))
        .measured(format!("{} of the buffer free", format_share(free)), phase)
        // It costs memory first; that it costs rate takes an A/B to say.
        .suspected_if(false)
        .weight(0.0)
        .refuted_by("the same private memory of workers with twice the buffer")
        .remedy(
            Advice::new(
                evidence,
                "Double the buffer, and keep it within a quarter of OPcache's memory; restart PHP.",
            )
            .set(Layer::Php, "opcache.interned_strings_buffer", wanted)
            .also(Layer::Php, "opcache.memory_consumption", memory)
            .build(),
        )
        .done()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_noted_when_little_is_free() {
        let case = Case::healthy()
            .set(Layer::Php, "opcache.interned_strings_buffer", "8")
            .set(Layer::Php, "opcache.memory_consumption", "32")
            .everywhere(Layer::Php, metric::OPCACHE_INTERNED_FREE_SHARE, "", 0.02);
        verify(
            &RULE,
            case,
            expect![[r#"
            named: CAP-02
            noted php (0 %): OPcache's buffer of interned strings is nearly full
              saw php.opcache.interned_strings_buffer = 8
              saw 2.0 % of the buffer free, at 190/s offered for 10 s
              set php.opcache.interned_strings_buffer = 16
              set php.opcache.memory_consumption = 64
        "#]],
        );
    }

    #[test]
    fn stays_silent_with_room_to_spare() {
        stays_silent(&RULE, Case::healthy());
    }
}
