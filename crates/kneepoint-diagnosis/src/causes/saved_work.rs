//! Work that a cache of the application would save.

use crate::Evidence;
use crate::evidence::hot::ENOUGH;

/// Work that a cache saves.
pub(crate) struct Saved {
    /// Functions in which it is done; beginnings of their names.
    functions: &'static [&'static str],
    /// What it is, as it follows "PHP's CPU goes into".
    pub(crate) work: &'static str,
    /// Which cache keeps it, and what switches that on.
    pub(crate) kept_by: &'static str,
}

/// What is known to be kept by a cache: in the order of applications, then of libraries. Sources:
/// https://www.mediawiki.org/wiki/Manual:Caching, https://www.dokuwiki.org/caching,
/// https://twig.symfony.com/doc/3.x/api.html#environment-options, https://smarty-php.github.io/smarty/stable/api/caching,
/// https://laravel.com/docs/views#optimizing-views, https://symfony.com/doc/current/performance.html,
/// https://www.doctrine-project.org/projects/doctrine-orm/en/stable/reference/caching.html.
const SAVED: [Saved; 12] = [
    Saved {
        functions: &[
            "WikitextContentHandler::fillParserOutput",
            "MediaWiki\\Content\\WikitextContentHandler::fillParserOutput",
        ],
        work: "parsing wikitext",
        kept_by: "MediaWiki's parser cache ($wgParserCacheType, $wgMainCacheType; an extension can keep a page out of it)",
    },
    Saved {
        functions: &["LocalisationCache::recache"],
        work: "building texts of the interface",
        kept_by: "MediaWiki's localisation cache ($wgLocalisationCacheConf, $wgCacheDirectory)",
    },
    Saved {
        functions: &["p_get_instructions", "p_render"],
        work: "parsing and rendering wiki pages",
        kept_by: "DokuWiki's cache ($conf['cachetime']; ~~NOCACHE~~ on a page keeps it out)",
    },
    Saved {
        functions: &["Twig\\Environment::compile", "Twig_Environment::compile"],
        work: "compiling Twig templates",
        kept_by: "Twig's cache (its directory must be set and writable: `cache` of Twig, TempDir of phpMyAdmin)",
    },
    Saved {
        functions: &[
            "Smarty_Internal_TemplateCompilerBase::compile",
            "Smarty\\Compiler\\Template::compile",
        ],
        work: "compiling Smarty templates",
        kept_by: "Smarty's compile directory (compile_dir must be writable, force_compile off)",
    },
    Saved {
        functions: &["Illuminate\\View\\Compilers\\BladeCompiler::compile"],
        work: "compiling Blade templates",
        kept_by: "Laravel's compiled views (storage/framework/views must be writable; php artisan view:cache)",
    },
    Saved {
        functions: &["Latte\\Engine::compile", "Latte\\Compiler::"],
        work: "compiling Latte templates",
        kept_by: "Latte's temporary directory (setTempDirectory)",
    },
    Saved {
        functions: &["Symfony\\Component\\DependencyInjection\\ContainerBuilder::compile"],
        work: "building the container of services",
        kept_by: "Symfony's cache directory (var/cache must be writable; APP_DEBUG=0)",
    },
    Saved {
        functions: &["Doctrine\\Common\\Annotations\\DocParser::parse"],
        work: "parsing annotations",
        kept_by: "Doctrine's metadata cache",
    },
    Saved {
        functions: &["Doctrine\\ORM\\Query\\Parser::parse"],
        work: "parsing DQL",
        kept_by: "Doctrine's query cache",
    },
    Saved {
        functions: &["Symfony\\Component\\Yaml\\Parser::parse"],
        work: "parsing YAML",
        kept_by: "a cache of the configuration",
    },
    Saved {
        functions: &[
            "Less_Parser::parse",
            "lessc::compile",
            "ScssPhp\\ScssPhp\\Compiler::compile",
        ],
        work: "compiling style sheets",
        kept_by: "files that are compiled once",
    },
];

/// A work with its share of the stacks that computed, and how many those were.
pub(crate) struct Done {
    /// The work.
    pub(crate) saved: &'static Saved,
    /// Of the stacks that computed.
    pub(crate) share: f64,
    /// How many those were.
    pub(crate) of: u64,
}

/// The work that takes most of PHP's CPU.
pub(crate) fn most_saved_work(evidence: &Evidence) -> Option<Done> {
    let done = SAVED.iter().filter_map(|saved| {
        let (share, of) = evidence.computing_in(saved.functions)?;
        (of >= ENOUGH).then_some(Done { saved, share, of })
    });
    done.max_by(|a, b| a.share.total_cmp(&b.share))
}
