//! What rules on databases have in common: slots that are used up, and sessions that are opened again and again.

use crate::advice::{Advice, app_switch};
use crate::rule::prelude::*;
use crate::saturation::pool::SPARE_CONNECTIONS;
use crate::saturation::ports::does_not_last;

/// Share of the slots from which on they count as used up: a few are reserved for the superuser (catalogue PG-01).
const USED_UP: f64 = 0.97;
/// Sessions per request PHP served from which on connecting is the habit; pages that use no database lower it
/// \[ours\]. Kept connections give about 1 per max_requests.
const PER_REQUEST: f64 = 0.2;
/// CPU time that a new session takes in PHP at most, in seconds \[ours\]: its part of a password's exchange (SCRAM).
const CLIENT_COST_S: f64 = 0.001;
/// Fewer sessions than this are too few to judge \[ours\].
const FEWEST: f64 = 20.0;

/// The finding that no connection slot is left. `reasonable` is how many connections the database may be given; `text`
/// says what to do.
pub(crate) fn no_slot_left(
    rule: &'static Rule,
    evidence: &Evidence,
    reasonable: f64,
    text: &str,
) -> Option<Finding> {
    let refused = evidence.logged(&[Layer::Db, Layer::Php], LogKind::TooManyDbClients);
    let slots = evidence
        .stack
        .number(Layer::Db, "max_connections")
        .or(evidence.latest(Layer::Db, metric::DB_MAX_CONNECTIONS))?;
    let held = evidence
        .largest(Layer::Db, metric::DB_CONNECTIONS)
        .unwrap_or(0.0);
    if refused.is_none() && held < USED_UP * slots {
        return None;
    }
    let workers = evidence
        .stack
        .tier(Layer::Php)
        .and_then(|tier| tier.pool.as_ref())
        .map_or(slots, |pool| pool.max_workers as f64);
    let wanted = ((workers.max(2.0 * slots) + SPARE_CONNECTIONS) / 10.0).ceil() * 10.0;
    let mut verdict = rule
        .finds(Layer::Db, rule.title)
        .configured(evidence.quote(Layer::Db, "max_connections"))
        .configured(format!(
            "{workers:.0} PHP workers, each of which can hold a connection"
        ))
        .under(
            format!("at most {held:.0} of {slots:.0} connections held"),
            String::new(),
        )
        .suspected_if(
            refused
                .as_ref()
                .is_some_and(|refused| evidence.refusals_bind(refused.below_the_limit)),
        );
    if let Some(refused) = refused {
        verdict = verdict.under(
            format!("{} connections refused: {}", refused.count, refused.example),
            refused.conditions,
        );
    }
    verdict
        .refuted_by("as many refusals with slots for every worker")
        .remedy(
            Advice::new(evidence, text)
                .set(
                    Layer::Db,
                    "max_connections",
                    wanted.min(reasonable.max(slots)),
                )
                .build(),
        )
        .done()
}

/// The finding that PHP opens a session for every request. `cost_s` is the CPU time of a new session in seconds; `text`
/// says what to do.
pub(crate) fn connects_each_time(
    rule: &'static Rule,
    evidence: &Evidence,
    cost_s: f64,
    text: &str,
) -> Option<Finding> {
    let phase = evidence.knee()?;
    let opened = phase.series.delta(Layer::Db, metric::DB_SESSIONS)?;
    let hz = phase.series.rate(Layer::Db, metric::DB_SESSIONS)?;
    let share = hz / phase.pool_hz().max(f64::MIN_POSITIVE);
    if share < PER_REQUEST || opened < FEWEST || phase.is_recycling(hz) {
        return None;
    }
    let connecting = phase.connecting(Layer::Db);
    // What a session costs at the database is no more than all that the database used.
    let of_php = hz * cost_s.min(CLIENT_COST_S);
    let of_database = phase.cores_used(Layer::Db).unwrap_or(f64::INFINITY);
    let of_database = (hz * cost_s - of_php).min(of_database);
    let cpu = evidence.part_of_cpu(phase, &[(Layer::Php, of_php), (Layer::Db, of_database)]);
    let fleeting = does_not_last(evidence, phase, Layer::Db, hz);
    let cost = cpu.max(connecting).max(fleeting);
    let mut verdict = rule
        .finds(Layer::Db, rule.title)
        .measured(
            format!(
                "{} sessions opened, {share:.2} for each request PHP served",
                format_rate(hz)
            ),
            phase,
        )
        .gain(format!(
            "about {} of the limit, from an estimated {} ms of CPU for each session",
            format_share(cpu),
            cost_s * 1e3
        ));
    if let Some(used) = phase.cores_used(Layer::Db) {
        verdict = verdict.measured(format!("the database uses {used:.2} cores"), phase);
    }
    if connecting > 0.0 {
        verdict = verdict.measured(
            format!(
                "busy workers wait {} of their time to be connected",
                format_share(connecting)
            ),
            phase,
        );
    }
    if fleeting > 0.0 {
        verdict = verdict.measured(fleeting_words(fleeting), phase);
    }
    let slots = evidence.stack.number(Layer::Db, "max_connections");
    verdict
        .inside(evidence.seen_calls(CallKind::Connect, |call| call.peer == Layer::Db.name()))
        .weight(cost)
        .refuted_by("as many sessions opened with persistent connections on")
        .remedy({
            let advice = Advice::new(evidence, text).set_all(app_switch(evidence, "db.persistent"));
            match (slots, needed_slots(evidence)) {
                (Some(slots), Some(needed)) if needed > slots => {
                    advice.also(Layer::Db, "max_connections", needed)
                }
                _ => advice,
            }
            .build()
        })
        .done()
}

/// That connections take more ports than last.
pub(crate) fn fleeting_words(share: f64) -> String {
    format!(
        "{} of that rate lasts less than a minute: each closed connection keeps a local port for so long",
        format_share(share)
    )
}

/// Connections the database must accept when every worker keeps one, with some to spare.
fn needed_slots(evidence: &Evidence) -> Option<f64> {
    let pool = evidence.stack.tier(Layer::Php)?.pool.as_ref()?;
    let needed = pool.max_workers as f64 + SPARE_CONNECTIONS;
    Some((needed / 10.0).ceil() * 10.0)
}
