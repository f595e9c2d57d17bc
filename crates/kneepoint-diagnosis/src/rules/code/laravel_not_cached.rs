//! APP-01: requests do what `php artisan config:cache` does once.

use crate::causes::{Preparation, unprepared};
use crate::rule::prelude::*;
use kneepoint_model::Unprepared;

/// Code that does it: beginnings of names of functions, from the framework itself.
const FUNCTIONS: [&str; 5] = [
    "Illuminate\\Foundation\\Bootstrap\\LoadEnvironmentVariables::",
    "Illuminate\\Foundation\\Bootstrap\\LoadConfiguration::",
    "Illuminate\\Routing\\RouteFileRegistrar::",
    "Illuminate\\Foundation\\Support\\Providers\\RouteServiceProvider::loadRoutes",
    "Dotenv\\",
];
/// Routes that are closures cannot be cached by older versions: the configuration alone is better than nothing.
const COMMAND: &str =
    "mkdir -p bootstrap/cache && php artisan config:cache && { php artisan route:cache || true; }";

pub(crate) static RULE: Rule = Rule {
    code: "APP-01",
    name: "laravel-not-cached",
    since: "0.2.0",
    layers: &[Layer::App],
    stage: RuleStage::Code,
    signal: UseSignal::Utilisation,
    applies_to: AppliesTo::Any,
    requires: &[],
    // Compiling PHP itself is another matter.
    yields_to: &["OPC-01", "OPC-03", "OPC-04"],
    title: "Laravel reads its configuration anew for every request",
    doc: RuleDoc {
        what_it_is: "`php artisan config:cache` and `route:cache` write the configuration and the routes into one file each, below \
            bootstrap/cache. Without, every request reads .env and a dozen files of configuration, and registers every route.",
        how_it_shows: "PHP's CPU goes into LoadConfiguration, Dotenv and the registration of routes; bootstrap/cache has no config.php.",
        how_it_is_confirmed: "Write both caches in a copy of the application, and compare CPU time a request with and without them.",
        what_to_write: "At each deployment:\n\n    php artisan config:cache\n    php artisan route:cache\n\nAfter that env() outside of files of \
            configuration returns nothing: read config() there.",
        references: &["https://laravel.com/docs/deployment#optimizing-configuration-loading"],
    },
    check,
};

fn check(evidence: &Evidence) -> Option<Finding> {
    let preparation = Preparation {
        lacks: Unprepared::LaravelConfiguration,
        functions: &FUNCTIONS,
        missing: "bootstrap/cache/config.php is missing",
        doing: "loading configuration and routes",
        advice: "At each deployment: php artisan config:cache and php artisan route:cache. Read settings by config() and not by env() \
                 outside of files of configuration.",
        command: ("artisan-cache", COMMAND),
    };
    unprepared::find(&RULE, evidence, &preparation)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::causes::unprepared::tests::check;
    use expect_test::expect;

    #[test]
    fn tells_what_prepares_it_where_requests_do_it() {
        check(
            &RULE,
            (
                Unprepared::LaravelConfiguration,
                "Illuminate\\Foundation\\Bootstrap\\LoadConfiguration::bootstrap",
            ),
            [
                expect![[r#"
                    named: APP-07, APP-01
                    suspected app (12 %): Laravel reads its configuration anew for every request: 15 % of PHP's CPU
                      saw bootstrap/cache/config.php is missing
                      saw 15 % of 100 stacks that computed were loading configuration and routes, sampled 50 times a second, at 240/s offered for 10 s
                      set app.run.artisan-cache = mkdir -p bootstrap/cache && php artisan config:cache && { php artisan route:cache || true; }
                "#]],
                expect![[r#"
            named: APP-07
            noted app (6.3 %): Laravel reads its configuration anew for every request: 8.0 % of PHP's CPU
              saw bootstrap/cache/config.php is missing
              saw 8.0 % of 100 stacks that computed were loading configuration and routes, sampled 50 times a second, at 240/s offered for 10 s
              set app.run.artisan-cache = mkdir -p bootstrap/cache && php artisan config:cache && { php artisan route:cache || true; }
        "#]],
            ],
        );
    }
}
