//! Where an application has the settings of its database and cache, and how the lab's get in.

mod changes;

mod database;
mod environment;
mod hosts;
mod ini;
mod known;
mod listed;
mod own;
mod reads;
mod redis;
mod roles;
pub(super) mod seeds;

pub use changes::FileChange;
pub use database::DbEngine;
pub(super) use database::read;
pub use environment::EnvValue;

use super::InitFacts;
use changes::PortStyle;
use database::{DbSetting, SettingsFile};
use environment::Environment;
use ini::Section;
use kneepoint_model::AppKind;
use kneepoint_stack::detect::Detected;
use listed::Listed;
use reads::Reads;
use std::collections::BTreeMap;
use std::path::Path;

/// Where installers write settings, relative to the application or to the directory of its front controller.
const WRITTEN: [(&str, &str); 6] = [
    ("Moodle", "config.php"),
    ("MyBB", "inc/config.php"),
    ("Nextcloud", "config/config.php"),
    ("phpBB", "config.php"),
    ("PrestaShop", "app/config/parameters.php"),
    // Up to 1.6.
    ("PrestaShop", "config/settings.inc.php"),
];
/// Directories of installers that shut a site as long as they are there.
const INSTALLERS: [(&str, &str); 2] = [("Joomla", "installation"), ("phpBB", "install")];

/// Finds the database, the way to it, and what it begins with.
pub(super) fn look(root: &Path, found: &Detected, facts: &mut InitFacts) {
    let public = found.front.parent().unwrap_or(Path::new(""));
    let files = database::settings_files(root, public);
    let reads = reads::look(root, &files);
    let environment = environment::look(root, found.kind, &reads);
    let settings = database::settings(&files);
    let listed = lists(found, &files);
    let ini_files = ini::files(root, public);
    let sections = ini::databases(&ini_files);
    let elsewhere = wordpress_elsewhere(root, found, &settings);
    let told = database::engine(&settings)
        .or(environment.engine)
        .or_else(|| listed.iter().find_map(Listed::engine))
        .or_else(|| sections.iter().find_map(Section::engine))
        .or_else(|| engine_of_own(found, &files));
    let has_settings =
        !settings.is_empty() || !listed.is_empty() || !sections.is_empty() || elsewhere.is_some();
    let usual = (found.kind == AppKind::Wordpress).then_some(DbEngine::Mariadb);
    let likely = told
        .or(usual)
        .or_else(|| database::by_default(&files).filter(|_| !environment.has_driver))
        .or(by_code(&reads));
    let name = database_name(elsewhere.as_ref(), &settings, &listed, &sections);
    let of_list = database_of_own(found, &files);
    let wanted = seeds::Wanted {
        kind: found.kind,
        engine: likely,
        database: name
            .or(of_list.as_deref())
            .or(environment.database.as_deref()),
    };
    let needs_one = has_settings || told.is_some() || reads_database(&environment, &reads);
    let seed = needs_one.then(|| seeds::best(root, wanted)).flatten();
    let nothing_says = likely.is_none() && !has_settings && environment.told_in.is_none();
    facts.engine = likely
        .filter(|_| needs_one)
        .or(seed.as_ref().map(|seed| seed.engine))
        .or_else(|| database::by_files(root).filter(|_| nothing_says));
    facts.seed = seed.filter(|_| facts.engine != Some(DbEngine::Sqlite));
    facts.told_in = settings
        .first()
        .map(|setting| setting.file)
        .or(listed.first().map(|list| list.file))
        .or(sections.first().map(|section| section.file))
        .map(str::to_owned)
        .or(environment.told_in.clone());
    facts.redis = environment.redis;
    facts.hosts = environment.hosts.clone();
    facts.hosts.extend(hosts::of_files(&files));
    facts
        .hosts
        .extend(facts.seed.iter().flat_map(|seed| seed.hosts.clone()));
    change_settings(root, found, &files, &settings, &listed, &reads, facts);
    change_lists(found, &listed, facts);
    change_ini(&ini_files, &sections, facts);
    change_redis(root, found, &files, facts);
    change_elsewhere(elsewhere, facts);
    facts.changes = without_made(&files, std::mem::take(&mut facts.changes));
    set_environment(root, found, environment, facts);
    note_what_is_missing(root, found, has_settings, facts);
    note_outside(root, &files, facts);
    if facts.engine.is_none() {
        facts.notes.extend(unclear(needs_one, usual, &reads));
    }
}

/// The lists of settings that are read as such.
fn lists<'f>(found: &Detected, files: &'f [SettingsFile]) -> Vec<Listed<'f>> {
    // A file is laid over Nextcloud's list.
    if found.name == "Nextcloud" {
        return Vec::new();
    }
    let mut listed = listed::listed(files);
    // Others of Drupal's are those that it was moved from.
    listed.sort_by_key(|list| !list.is_in(known::DRUPAL));
    listed
}

/// Which database the list of an application says that is read in a way of its own.
fn engine_of_own(found: &Detected, files: &[SettingsFile]) -> Option<DbEngine> {
    let driver = files.iter().find_map(|file| match found.name {
        "Drupal" => known::drupal_driver(file),
        "Nextcloud" => own::nextcloud_driver(file),
        _ => None,
    });
    DbEngine::named(&driver?)
}

/// The name of the database in such a list.
fn database_of_own(found: &Detected, files: &[SettingsFile]) -> Option<String> {
    let mut files = files.iter().filter(|_| found.name == "Nextcloud");
    files.find_map(own::nextcloud_database)
}

/// The name of the database, where a file has it.
fn database_name<'t>(
    elsewhere: Option<&'t known::Elsewhere>,
    settings: &'t [DbSetting<'_>],
    listed: &'t [Listed<'_>],
    sections: &'t [Section<'_>],
) -> Option<&'t str> {
    let mut of_name = settings
        .iter()
        .filter(|setting| setting.role == roles::Role::Name);
    elsewhere
        .and_then(|found| found.database.as_deref())
        .or_else(|| of_name.find_map(|setting| setting.code.text()))
        .or_else(|| listed.iter().find_map(Listed::name))
        .or_else(|| sections.iter().find_map(Section::name))
}

fn wordpress_elsewhere(
    root: &Path,
    found: &Detected,
    settings: &[DbSetting<'_>],
) -> Option<known::Elsewhere> {
    // Debian's wp-config.php names a database and a host where nobody else does, and never a password.
    let own = settings
        .iter()
        .any(|setting| setting.role == roles::Role::Password || setting.reads_environment());
    let is_wordpress = found.name == "WordPress" && !own;
    is_wordpress
        .then(|| known::wordpress_elsewhere(root))
        .flatten()
}

/// What is not known of the database, in a sentence. Code that can reach several says of none that it is used.
fn unclear(needs_one: bool, usual: Option<DbEngine>, reads: &Reads) -> Option<String> {
    const DO: &str = "if it needs one, switch `db` on in [stack]";
    if needs_one {
        return Some(format!(
            "it has settings of a database that do not say which program it is: {DO}"
        ));
    }
    let mariadb = (reads.mysql || usual.is_some()).then_some("MySQL or MariaDB");
    let postgresql = reads.postgresql.then_some("PostgreSQL");
    let reached: Vec<&str> = mariadb.into_iter().chain(postgresql).collect();
    (!reached.is_empty()).then(|| {
        format!(
            "no settings of a database were found, and its code can reach {}: {DO}, and let an [[app.file]] make it read \
             getenv('DB_HOST') and so on, or write {{DB_HOST}} and so on into it",
            reached.join(", and ")
        )
    })
}

/// Whether the environment or what the code reads of it names a database.
fn reads_database(environment: &Environment, reads: &Reads) -> bool {
    let in_code = || {
        reads
            .env
            .iter()
            .any(|name| roles::of_database(name).is_some())
    };
    environment.told_in.is_some() || in_code()
}

/// What the code connects to, where it is one of the two.
fn by_code(reads: &Reads) -> Option<DbEngine> {
    match (reads.mysql, reads.postgresql) {
        (true, false) => Some(DbEngine::Mariadb),
        (false, true) => Some(DbEngine::Postgresql),
        _ => None,
    }
}

fn change_settings(
    root: &Path,
    found: &Detected,
    files: &[SettingsFile],
    settings: &[DbSetting<'_>],
    listed: &[Listed<'_>],
    reads: &Reads,
    facts: &mut InitFacts,
) {
    let server = facts.engine.filter(|engine| engine.server().is_some());
    // What Joomla's object says, it says itself.
    if let Some(engine) = server.filter(|_| found.name != "Joomla") {
        let style = match listed.iter().any(Listed::is_port_alone) {
            true => PortStyle::Apart,
            false => PortStyle::of(found.kind, engine, settings, reads),
        };
        let (changes, notes) = changes::of_database(engine, settings, style);
        facts.changes.extend(changes);
        facts.notes.extend(notes);
    }
    facts.changes.extend(own::changes(root, found.name, files));
    facts.changes.extend(changes::of_overriding(root, reads));
    for file in files {
        facts.changes.extend(known::own_paths(root, file));
        match (found.kind, found.name, file.path.as_str()) {
            (AppKind::Wordpress, _, "wp-config.php") => {
                facts.changes.extend(known::wordpress(file))
            }
            (AppKind::Mediawiki, _, "LocalSettings.php") => {
                let (changes, notes) = known::mediawiki(root, file);
                facts.changes.extend(changes);
                facts.notes.extend(notes);
            }
            (_, "Drupal", _) if server.is_some() => facts.changes.extend(known::drupal(file)),
            _ => {}
        }
    }
}

fn change_lists(found: &Detected, listed: &[Listed<'_>], facts: &mut InitFacts) {
    let Some(engine) = facts.engine.filter(|engine| engine.server().is_some()) else {
        return;
    };
    // Drupal's own statement is changed whatever stands in its list.
    let is_changed = |list: &&Listed<'_>| found.name == "Drupal" && list.is_in(known::DRUPAL);
    for list in listed.iter().filter(|list| !is_changed(list)) {
        match list.change(engine) {
            Ok(change) => facts.changes.push(change),
            Err(note) => facts.notes.push(note),
        }
    }
}

fn change_ini(files: &[SettingsFile], sections: &[Section<'_>], facts: &mut InitFacts) {
    let has_server = facts.engine.is_some_and(|engine| engine.server().is_some());
    let of_database = sections.iter().filter(|_| has_server).map(Section::change);
    for change in of_database.chain(ini::matomo(files)) {
        match change {
            Ok(change) => facts.changes.push(change),
            Err(note) => facts.notes.push(note),
        }
    }
}

fn change_redis(root: &Path, found: &Detected, files: &[SettingsFile], facts: &mut InitFacts) {
    let (changes, notes) = redis::changes(files, redis::is_asked(root, found, files));
    let is_named = !changes.is_empty() || !notes.is_empty();
    facts.redis |= is_named || own::is_in_redis(found.name, files);
    facts.changes.extend(changes);
    facts.notes.extend(notes);
}

/// Changes without those that others before them make as well: what stands in two branches of the code is replaced in both at
/// once, and a second time it would not be found.
fn without_made(files: &[SettingsFile], changes: Vec<FileChange>) -> Vec<FileChange> {
    let texts = files
        .iter()
        .map(|file| (file.path.clone(), file.text.clone()));
    let mut texts: BTreeMap<String, String> = texts.collect();
    let mut left: Vec<FileChange> = Vec::new();
    for change in changes {
        let is_same = |it: &FileChange| (&it.path, &it.find) == (&change.path, &change.find);
        let text = texts.get_mut(&change.path);
        if let (Some(find), Some(text)) = (&change.find, text) {
            if left.iter().any(is_same) || !text.contains(find.as_str()) {
                continue;
            }
            *text = text.replace(find.as_str(), &change.text);
        }
        left.push(change);
    }
    left
}

/// A file that is made from settings elsewhere takes the place of all changes of its own.
fn change_elsewhere(elsewhere: Option<known::Elsewhere>, facts: &mut InitFacts) {
    if let Some(elsewhere) = elsewhere {
        facts.told_in = Some(elsewhere.from.display().to_string());
        facts
            .changes
            .retain(|change| change.path != elsewhere.change.path);
        facts.changes.push(elsewhere.change);
    }
}

/// Takes over what the environment needs, and the mode; what stands for a tier that is not in the chain is left out.
fn set_environment(root: &Path, found: &Detected, environment: Environment, facts: &mut InitFacts) {
    let has_server = facts.engine.is_some_and(|engine| engine.server().is_some());
    let redis = facts.redis;
    let answers_over_tls = found.name == "Shopware" && environment.tls;
    facts.notes.extend(environment.note);
    facts.env = environment.values;
    facts.env.retain(|set| {
        (has_server || !set.value.contains("{DB_")) && (redis || !set.value.contains("{REDIS_"))
    });
    facts.env.extend(environment::mode(root, found));
    facts.env.extend(
        answers_over_tls.then(|| EnvValue::over_tls("It knows its own address with https alone")),
    );
}

fn note_outside(root: &Path, files: &[SettingsFile], facts: &mut InitFacts) {
    for file in files {
        let outside = known::outside(root, file, &facts.changes);
        facts.notes.extend(outside);
    }
}

/// The file that an installer has yet to write, or left empty.
fn not_written(root: &Path, found: &Detected) -> Option<&'static str> {
    let own = || {
        let known = WRITTEN.iter();
        known.filter(move |(name, _)| *name == found.name)
    };
    let (_, first) = own().next()?;
    let public = found.front.parent().unwrap_or(Path::new(""));
    let is_there = |dir: &Path, file: &str| {
        let about = std::fs::metadata(root.join(dir).join(file));
        about.is_ok_and(|about| about.len() > 0)
    };
    let is_written = |file: &str| is_there(Path::new(""), file) || is_there(public, file);
    (!own().any(|(_, file)| is_written(file))).then_some(*first)
}

fn note_what_is_missing(root: &Path, found: &Detected, has_settings: bool, facts: &mut InitFacts) {
    let not_installed = match found.kind {
        AppKind::Wordpress if !has_settings && facts.told_in.is_none() => Some("wp-config.php"),
        AppKind::Mediawiki if !root.join("LocalSettings.php").exists() => Some("LocalSettings.php"),
        _ => not_written(root, found),
    };
    if let Some(file) = not_installed {
        facts.notes.push(format!(
            "{} has no {file}: it is not installed yet, and only its installer would be measured; install it first",
            found.name
        ));
    }
    // Where settings in PHP were changed, it has them there.
    let example = || environment::only_an_example(root);
    let is_bare = facts.changes.is_empty();
    facts.notes.extend(is_bare.then(example).flatten());
    let mut installers = INSTALLERS.iter().filter(|(name, _)| *name == found.name);
    if let Some((_, dir)) = installers.find(|(_, dir)| root.join(dir).is_dir()) {
        facts.notes.push(format!(
            "{} may show nobody a page as long as {dir} is there: remove that directory once it is installed",
            found.name
        ));
    }
    match facts.engine {
        Some(DbEngine::Sqlite) => {
            let files = database::sqlite_files(root);
            let named = files.iter().take(2).map(|file| file.display().to_string());
            let named = named.collect::<Vec<_>>().join(" and ");
            if !named.is_empty() {
                facts.notes.push(format!(
                    "it has data in {named} (SQLite), which the private copy has a copy of"
                ));
            }
        }
        Some(engine) if facts.seed.is_none() => {
            let maker = match engine {
                DbEngine::Postgresql => "pg_dump --no-owner NAME > seed.sql",
                _ => "mariadb-dump NAME > seed.sql",
            };
            facts.notes.push(format!(
                "no dump of its database was found: the lab's {} is empty. Write one on the machine that has it \
                 ({maker}), put it beside the scenario and name it as `seed`",
                engine.title()
            ));
        }
        _ => {}
    }
}
