//! APP-04: requests look for classes in directories.

use crate::causes::{Preparation, unprepared};
use crate::rule::prelude::*;
use kneepoint_model::Unprepared;

/// Code that does it: beginnings of names of functions, from Composer's own loader.
const FUNCTIONS: [&str; 1] = ["Composer\\Autoload\\ClassLoader::findFileWithExtension"];
const COMMAND: &str = "composer dump-autoload --optimize --no-interaction --no-scripts";

pub(crate) static RULE: Rule = Rule {
    code: "APP-04",
    name: "autoloader-not-optimized",
    since: "0.2.0",
    layers: &[Layer::App],
    stage: RuleStage::Code,
    signal: UseSignal::Utilisation,
    applies_to: AppliesTo::Any,
    requires: &[],
    // Compiling PHP itself is another matter.
    yields_to: &["OPC-01", "OPC-03", "OPC-04"],
    title: "Composer looks for each class in the directories",
    doc: RuleDoc {
        what_it_is: "As it is installed without options, Composer asks the file system for each class, in several directories. With \
            --optimize it has a map of all classes, with --classmap-authoritative it never looks elsewhere.",
        how_it_shows: "PHP's CPU goes into ClassLoader::findFileWithExtension; many calls for files that are not there in each request.",
        how_it_is_confirmed: "Have Composer make the map in a copy of the application, and compare CPU time a request with and without it.",
        what_to_write: "At each deployment:\n\n    composer install --no-dev --optimize-autoloader",
        references: &["https://getcomposer.org/doc/articles/autoloader-optimization.md"],
    },
    check,
};

fn check(evidence: &Evidence) -> Option<Finding> {
    let preparation = Preparation {
        lacks: Unprepared::ComposerClasses,
        functions: &FUNCTIONS,
        missing: "vendor/composer/autoload_classmap.php does not hold the application's classes",
        doing: "looking for files of classes",
        advice: "At each deployment: composer install --no-dev --optimize-autoloader.",
        command: ("composer-classes", COMMAND),
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
                Unprepared::ComposerClasses,
                "Composer\\Autoload\\ClassLoader::findFileWithExtension",
            ),
            [
                expect![[r#"
                    named: APP-07, APP-04
                    suspected app (12 %): Composer looks for each class in the directories: 15 % of PHP's CPU
                      saw vendor/composer/autoload_classmap.php does not hold the application's classes
                      saw 15 % of 100 stacks that computed were looking for files of classes, sampled 50 times a second, at 240/s offered for 10 s
                      set app.run.composer-classes = composer dump-autoload --optimize --no-interaction --no-scripts
                "#]],
                expect![[r#"
            named: APP-07
            noted app (6.3 %): Composer looks for each class in the directories: 8.0 % of PHP's CPU
              saw vendor/composer/autoload_classmap.php does not hold the application's classes
              saw 8.0 % of 100 stacks that computed were looking for files of classes, sampled 50 times a second, at 240/s offered for 10 s
              set app.run.composer-classes = composer dump-autoload --optimize --no-interaction --no-scripts
        "#]],
            ],
        );
    }
}
