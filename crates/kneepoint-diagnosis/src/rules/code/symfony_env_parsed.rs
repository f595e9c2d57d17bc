//! APP-12: requests read what `composer dump-env` writes down once.

use crate::causes::{Preparation, unprepared};
use crate::rule::prelude::*;
use kneepoint_model::Unprepared;

/// Code that does it: the function of Symfony's own that the compiled file spares.
const FUNCTIONS: [&str; 1] = ["Symfony\\Component\\Dotenv\\Dotenv::loadEnv"];
/// Needs neither Composer's plugin nor a command that the application registers. It keeps the mode the application runs in.
const COMMAND: &str = "php -r 'require \"vendor/autoload.php\"; $_ENV = []; \
    (new Symfony\\Component\\Dotenv\\Dotenv())->loadEnv(\".env\"); unset($_ENV[\"SYMFONY_DOTENV_VARS\"]); \
    file_put_contents(\".env.local.php\", \"<?php return \" . var_export($_ENV, true) . \";\") || exit(1);'";

pub(crate) static RULE: Rule = Rule {
    code: "APP-12",
    name: "symfony-env-parsed",
    since: "0.1.0",
    layers: &[Layer::App],
    stage: RuleStage::Code,
    signal: UseSignal::Utilisation,
    applies_to: AppliesTo::Any,
    requires: &[],
    // Compiling PHP itself is another matter.
    yields_to: &["OPC-01", "OPC-03", "OPC-04"],
    title: "Symfony reads its .env files anew for every request",
    doc: RuleDoc {
        what_it_is: "`composer dump-env prod` writes what .env, .env.local and the others say into one file of PHP, \
            .env.local.php, which OPcache keeps. Without, every request reads these files letter by letter, and runs the \
            commands that stand in them as $(...). The container of services is another matter: the first request builds it \
            as bin/console cache:warmup does, and it stays in var/cache.",
        how_it_shows: "PHP's CPU goes into Dotenv::loadEnv and what it calls; there is a .env and no .env.local.php.",
        how_it_is_confirmed: "Write that file in a copy of the application, and compare CPU time a request with and without it.",
        what_to_write: "At each deployment:\n\n    composer dump-env prod\n\nor, where Composer is missing and the \
            application registers DotenvDumpCommand of symfony/dotenv:\n\n    php bin/console dotenv:dump prod\n\nAfter \
            that, run the dump again whenever you change .env.",
        references: &[
            "https://symfony.com/doc/current/configuration.html#configuring-environment-variables-in-production",
            "https://symfony.com/doc/current/performance.html",
        ],
    },
    check,
};

fn check(evidence: &Evidence) -> Option<Finding> {
    let preparation = Preparation {
        lacks: Unprepared::SymfonyEnvironment,
        functions: &FUNCTIONS,
        missing: ".env.local.php is missing",
        doing: "reading .env files",
        advice: "At each deployment: composer dump-env prod. Run it again whenever you change .env. The comparison has \
                 Symfony's own Dotenv write the same file.",
        command: ("symfony-env", COMMAND),
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
                Unprepared::SymfonyEnvironment,
                "Symfony\\Component\\Dotenv\\Dotenv::loadEnv",
            ),
            [
                expect![[r#"
                    named: APP-07, APP-12
                    suspected app (12 %): Symfony reads its .env files anew for every request: 15 % of PHP's CPU
                      saw .env.local.php is missing
                      saw 15 % of 100 stacks that computed were reading .env files, sampled 50 times a second, at 240/s offered for 10 s
                      set app.run.symfony-env = php -r 'require "vendor/autoload.php"; $_ENV = []; (new Symfony\Component\Dotenv\Dotenv())->loadEnv(".env"); unset($_ENV["SYMFONY_DOTENV_VARS"]); file_put_contents(".env.local.php", "<?php return " . var_export($_ENV, true) . ";") || exit(1);'
                "#]],
                expect![[r#"
            named: APP-07
            noted app (6.3 %): Symfony reads its .env files anew for every request: 8.0 % of PHP's CPU
              saw .env.local.php is missing
              saw 8.0 % of 100 stacks that computed were reading .env files, sampled 50 times a second, at 240/s offered for 10 s
              set app.run.symfony-env = php -r 'require "vendor/autoload.php"; $_ENV = []; (new Symfony\Component\Dotenv\Dotenv())->loadEnv(".env"); unset($_ENV["SYMFONY_DOTENV_VARS"]); file_put_contents(".env.local.php", "<?php return " . var_export($_ENV, true) . ";") || exit(1);'
        "#]],
            ],
        );
    }
}
