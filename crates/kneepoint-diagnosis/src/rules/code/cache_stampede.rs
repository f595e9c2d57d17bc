//! APP-15: what is kept for a while runs out, and all workers make it anew at once.

use crate::evidence::bursts::{Bursts, bursts, come_again, is_work, most_at_once, passed_by};
use crate::evidence::calls::times;
use crate::evidence::worker_insight::named;
use crate::rule::prelude::*;
use kneepoint_model::{MetStack, Place, StackProfile, TracedCall};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Share of those met at the line that is in the bursts \[ours\].
const IN_BURSTS: f64 = 0.9;
/// Requests of the route between two bursts that tell that most do without the line; traced ones, and looks at them \[ours\].
const WITHOUT: f64 = 20.0;
const LOOKED_AT: u64 = 10;
/// Share of the time of all workers that were met from which on it binds \[ours\]: bursts that come again are no chance.
const BINDS: f64 = 0.1;

pub(crate) static RULE: Rule = Rule {
    code: "APP-15",
    name: "cache-stampede",
    since: "0.1.0",
    layers: &[Layer::App],
    stage: RuleStage::Code,
    signal: UseSignal::Saturation,
    applies_to: AppliesTo::Any,
    requires: &[],
    // Workers that begin together connect together.
    yields_to: &["FPM-06"],
    title: "a cached value runs out and many workers make it anew at once, again and again",
    doc: RuleDoc {
        what_it_is: "A result that takes long to make is kept for some seconds, then it expires. Until the new value is \
            stored, every request computes it: all workers do the same work at the same moment, and each slows the others. \
            It is called a cache stampede.",
        how_it_shows: "The slowest response times rise and fall like the teeth of a saw, as far apart as the value is kept. \
            CPU or database peak with them, and it is quiet otherwise: most workers are at one line of PHP at once, and nobody \
            in between. A value that is kept for more than a few seconds runs out too seldom to be seen in a diagnosis.",
        how_it_is_confirmed: "Keep the value for twice as long in one run: the peaks are twice as far apart.",
        what_to_write: "Let one worker compute it, while the others answer with the old value. In Laravel:\n\n    \
            Cache::flexible('teaser', [5, 60], fn () => Teaser::make());\n\nIn Symfony, CacheInterface::get() makes a value \
            anew a little early, at a random moment. By hand: keep the value for longer than it counts as fresh, and only the \
            worker that gets the lock (SET lock 1 NX EX 10) computes it. Or let a cron job compute it before it expires.",
        references: &[
            "https://laravel.com/docs/cache#swr",
            "https://symfony.com/doc/current/components/cache.html",
        ],
    },
    check,
};

fn check(evidence: &Evidence) -> Option<Finding> {
    let it = Stampede::find(evidence)?;
    let (workers, count) = (it.bursts.workers(), it.bursts.many.len());
    let share = it.bursts.met() as f64 / it.knee.samples().max(1) as f64;
    let under = || evidence.conditions_of(it.knee);
    let at = it.line.at();
    let mut verdict = RULE
        .finds(Layer::App, format!("{}: {at}", RULE.title))
        .under(
            format!(
                "{workers} of at most {} workers at once in {}, {count} times, {:.1} s apart, and \
                 hardly any in between",
                most_at_once(it.knee),
                it.line,
                it.bursts.apart().sum::<f64>() / (count - 1) as f64,
            ),
            under(),
        )
        .under(it.at_work(), under());
    if it.above > 0 {
        let what = format!("the same above the limit, bursts: {}", it.above);
        verdict = verdict.under(what, evidence.sampled_under());
    }
    if let Some(call) = it.calls(evidence).max_by_key(|call| call.waited_us) {
        let often = times(call.count as f64);
        let what = format!("there it asks {}, {often} in all", call.what);
        verdict = verdict.under(what, evidence.traced_under());
    }
    let part = format!(
        "it takes {} of the time of all workers that were met",
        format_share(share)
    );
    let advice = format!(
        "Let one worker make it while the others answer with the old value (a lock, and a value that is kept longer than it \
         counts as fresh), make it a little early at a random moment, or make it in the background before it runs out. It is \
         made at {at}."
    );
    verdict
        .under(part, under())
        .suspected_if(share >= BINDS)
        // One of them has to make it.
        .weight(share * (1.0 - 1.0 / workers.max(1) as f64))
        .refuted_by("as many workers at that line at once although one of them makes it")
        .remedy(Advice::new(evidence, advice).build())
        .done()
}

/// A line that many workers are at in the same moments, again and again, and that other requests do without.
struct Stampede<'e> {
    knee: &'e StackProfile,
    line: &'e Place,
    /// The stack through it that was met most.
    met: &'e MetStack,
    bursts: Bursts,
    /// How many bursts there are above the limit.
    above: usize,
}

impl<'e> Stampede<'e> {
    /// Finds it: the outermost such line is where the value is made.
    fn find(evidence: &'e Evidence) -> Option<Self> {
        let knee = evidence.knee_stacks.as_ref()?;
        let over = evidence.stacks.as_ref().map_or_else(BTreeMap::new, bursts);
        let found = bursts(knee).into_iter().filter_map(|(line, bursts)| {
            let later = over.get(line);
            let recurs = bursts.share >= IN_BURSTS && come_again(&bursts, later);
            let through = |stack: &&MetStack| knee.places_of(stack).any(|place| place == line);
            let stacks = knee.stacks.iter().filter(|_| recurs).filter(through);
            Some(Self {
                knee,
                line,
                met: stacks.max_by_key(|stack| stack.count)?,
                bursts,
                above: later.map_or(0, |later| later.many.len()),
            })
        });
        found
            .filter(|it| it.others_do_without(evidence) == Some(true))
            .min_by_key(|it| {
                let depth = knee.places_of(it.met).position(|place| place == it.line);
                let (few, met) = (it.bursts.few, it.bursts.met());
                (!it.line.is_own(), few, Reverse(met), depth)
            })
    }

    /// Whether others of its route pass between two bursts, and those that were traced do not ask what is asked there: a peer
    /// that stalls now and then is waited for by all at once, too, but at a line that each request passes.
    fn others_do_without(&self, evidence: &'e Evidence) -> Option<bool> {
        let trace = evidence.calls.as_ref()?;
        let traced = trace.requests_of(&self.met.route);
        let part = traced as f64 / trace.requests().max(1) as f64;
        let hz = part * evidence.phase(PhaseKind::Knee)?.pool_hz();
        let apart = self.bursts.apart().fold(f64::INFINITY, f64::min);
        let quiet_s = apart - self.bursts.longest_s();
        let usual = self.calls(evidence).any(|call| evidence.is_usual(call));
        let looks = traced.min(passed_by(self.knee, self.line, &self.met.route));
        let most_do = hz * quiet_s >= WITHOUT && looks >= LOOKED_AT;
        Some(is_work(self.knee, self.met) && most_do && !usual)
    }

    /// Where they are at work, in words.
    fn at_work(&self) -> String {
        let waits = self.knee.wait_of(self.met);
        let waits = waits.map_or_else(String::new, |wait| format!(", waiting: {wait}"));
        format!("met most often in {}{waits}", self.innermost())
    }

    fn innermost(&self) -> &'e Place {
        named(self.knee, self.met).unwrap_or(self.line)
    }

    /// The calls that were traced there.
    fn calls(&self, evidence: &'e Evidence) -> impl Iterator<Item = &'e TracedCall> {
        let place = self.innermost();
        let all = evidence.calls.iter().flat_map(|trace| &trace.calls);
        all.filter(move |call| call.named_place() == Some(place))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::{builtin, met, place, sampled, traced};
    use kneepoint_model::MetAtOnce;

    /// For half a second from each of these on, this many workers at one line; otherwise three elsewhere.
    fn met_in(kind: PhaseKind, bursts: &[f64], workers: usize) -> StackProfile {
        let made = [
            place("Teaser::list", "app/Teaser.php", 18),
            place("Database::closest", "app/Database.php", 40),
            builtin("[recv db]"),
        ];
        let pages = (0..6).map(|nth| place("page", &format!("{nth}.php"), 1));
        let stacks = (0..6).map(|nth| met("GET /", &[nth], 160));
        let moment = |nth: u32| {
            let at_s = f64::from(nth) / 50.0;
            let mut since = bursts.iter().map(|start| at_s - start);
            let stacks = match since.any(|s| (0.0..0.5).contains(&s)) {
                true => vec![6; workers],
                false => (nth..nth + 3).map(|it| it % 6).collect(),
            };
            MetAtOnce { at_s, stacks }
        };
        let places = pages.chain(made).collect();
        let stacks = stacks.chain([met("GET /", &[6, 7, 8], 450)]).collect();
        StackProfile {
            phase: kind.name().to_owned(),
            moments: (0..400).map(moment).collect(),
            ..sampled(50, places, stacks)
        }
    }

    /// Bursts below and above the limit, and how many of forty traced requests of a route ask what is asked there.
    fn case(bursts: [&[f64]; 2], workers: usize, (route, asked): (&str, u64)) -> Case {
        let at = place("Database::closest", "app/Database.php", 40);
        let query = traced(route, CallKind::Query, "select * from articles", at, 1);
        let case = Case::healthy().traced(route, 40, vec![query]);
        case.with(|evidence| {
            evidence.knee_stacks = Some(met_in(PhaseKind::Knee, bursts[0], workers));
            evidence.stacks = Some(met_in(PhaseKind::Over, bursts[1], workers));
            let trace = evidence.calls.as_mut().expect("a trace");
            trace.calls[0].count = asked;
        })
    }

    #[test]
    fn fires_when_all_workers_make_what_ran_out() {
        verify(
            &RULE,
            case([&[1.0, 4.0, 7.0], &[1.0, 4.0]], 6, ("GET /", 1)),
            expect![[r#"
                named: APP-15
                suspected app (27 %): a cached value runs out and many workers make it anew at once, again and again: app/Teaser.php:18
                  saw 6 of at most 6 workers at once in Teaser::list at app/Teaser.php:18, 3 times, 3.0 s apart, and hardly any in between, sampled 50 times a second, at 190/s offered for 10 s
                  saw met most often in Database::closest at app/Database.php:40, waiting: recv db, sampled 50 times a second, at 190/s offered for 10 s
                  saw the same above the limit, bursts: 2, sampled 50 times a second, at 240/s offered for 10 s
                  saw there it asks select * from articles, once in all, in 40 requests that were traced, one after the other
                  saw it takes 32 % of the time of all workers that were met, sampled 50 times a second, at 190/s offered for 10 s
                  do: Let one worker make it while the others answer with the old value (a lock, and a value that is kept longer than it counts as fresh), make it a little early at a random moment, or make it in the background before it runs out. It is made at app/Teaser.php:18.
            "#]],
        );
    }

    #[test]
    fn stays_silent_when_it_does_not_come_again_or_each_request_does_it() {
        let silent = |below: &[f64], above: &[f64], workers, asked| {
            stays_silent(&RULE, case([below, above], workers, asked));
        };
        let (often, rare) = (&[1.0, 4.0, 7.0], ("GET /", 1));
        // A cache that is empty at first, bursts that may be chance, and a steady load.
        silent(&[0.0], &[0.0], 6, rare);
        silent(&[1.0, 4.0], &[], 6, rare);
        silent(&[0.5, 2.0, 6.5], &[], 6, rare);
        silent(&[0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5], &[], 6, rare);
        silent(often, often, 2, rare);
        // A database that stalls, and a route of which nobody knows what it asks.
        silent(often, often, 6, ("GET /", 40));
        silent(often, often, 6, ("GET /other", 1));
    }
}
