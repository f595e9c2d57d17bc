//! php.ini and the small files beside it, in PHP's own order.

use super::{Reader, lines};
use crate::files;
use crate::snapshot::{SettingSource, Settings};

/// Where PHP looks.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct IniPlaces {
    /// Files, the first that is there is read.
    pub(crate) files: Vec<String>,
    /// Directories of small files; those of later ones come later.
    pub(crate) dirs: Vec<String>,
    /// Whether PHP itself tells of them: then a file may have any name.
    pub(crate) told: bool,
}

/// Where a PHP-FPM of this machine looks: as the environment and the program say, and else at the places of distributions
/// and images.
impl IniPlaces {
    pub(crate) fn of(
        env: &dyn Fn(&str) -> Option<String>,
        built_dir: Option<&str>,
        built_scan: Option<&str>,
        exe: &str,
    ) -> Self {
        let home = built_dir.map_or_else(|| usual_dir(exe), str::to_owned);
        let scan = built_scan.map_or_else(|| usual_scan(&home), str::to_owned);
        let mut files = Vec::new();
        for dir in env("PHPRC").into_iter().chain([home]) {
            files.push(dir.clone());
            files.push(files::absolute(&dir, "php-fpm-fcgi.ini"));
            files.push(files::absolute(&dir, "php.ini"));
        }
        let dirs = match env("PHP_INI_SCAN_DIR") {
            // Set to nothing, it switches the reading of directories off.
            Some(list) if list.is_empty() => Vec::new(),
            Some(list) => list
                .split(':')
                .map(|dir| {
                    if dir.is_empty() {
                        scan.clone()
                    } else {
                        dir.to_owned()
                    }
                })
                .collect(),
            None => vec![scan],
        };
        Self {
            files,
            dirs,
            told: false,
        }
    }
}

/// The directory of php.ini where the program does not tell, by where it lies.
fn usual_dir(exe: &str) -> String {
    let version: String = exe
        .rsplit("php-fpm")
        .next()
        .filter(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
        .unwrap_or_default()
        .to_owned();
    match () {
        () if exe.starts_with("/usr/local/") => "/usr/local/etc/php".into(),
        () if version.contains('.') => format!("/etc/php/{version}/fpm"),
        // Alpine: php-fpm82 with /etc/php82.
        () if !version.is_empty() => format!("/etc/php{version}"),
        () => "/etc".into(),
    }
}

fn usual_scan(home: &str) -> String {
    match home {
        "/etc" => "/etc/php.d".into(),
        _ => format!("{home}/conf.d"),
    }
}

/// Everything the files set. `extension` and `zend_extension` are kept as one setting for each that is named.
pub(crate) fn read(
    reader: &mut Reader<'_>,
    places: &IniPlaces,
    env: &dyn Fn(&str) -> Option<String>,
) -> Settings {
    let mut settings = Settings::default();
    for path in &places.files {
        // A directory is no file; the next place is one in it.
        let ends = places.told || path.ends_with(".ini");
        let text = if ends { reader.may(path) } else { None };
        if let Some(text) = text {
            set(&mut settings, &text, path, env);
            break;
        }
    }
    for dir in &places.dirs {
        for name in reader.names(dir, ".ini") {
            let path = files::absolute(dir, &name);
            if let Some(text) = reader.may(&path) {
                set(&mut settings, &text, &path, env);
            }
        }
    }
    settings
}

fn set(settings: &mut Settings, text: &str, path: &str, env: &dyn Fn(&str) -> Option<String>) {
    for entry in lines::ini(text) {
        let of_some = |prefix: &str| entry.section.to_ascii_uppercase().starts_with(prefix);
        // These hold for some requests only.
        if of_some("PATH=") || of_some("HOST=") {
            continue;
        }
        let Some(value) = entry.value else { continue };
        let (value, variable, _) = lines::expanded(&value, env);
        let source = match variable {
            Some(name) => SettingSource::Variable {
                name,
                path: path.to_owned(),
                line: entry.line,
            },
            None => SettingSource::file(path, entry.line),
        };
        match entry.key.as_str() {
            key @ ("extension" | "zend_extension") => {
                let name = value.rsplit('/').next().unwrap_or(&value);
                let name = name.trim_end_matches(".so").trim_start_matches("php_");
                settings.set(&format!("{key} {name}"), &value, source);
            }
            key => settings.set(key, &value, source),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Subject;
    use crate::files::Memory;

    fn subject<'a>(files: &'a Memory) -> Subject<'a> {
        Subject {
            files,
            args: &[],
            cwd: "/",
            env: &|_| None,
            loaded_s: 200.0,
        }
    }

    #[test]
    fn later_files_come_over_earlier_ones() {
        let files = Memory::of(&[
            (
                "/usr/local/etc/php/php.ini",
                "opcache.enable=1\n[PATH=/x]\nopcache.enable=5\n[b]\nmemory_limit = ${MEM}",
            ),
            (
                "/usr/local/etc/php/conf.d/a.ini",
                "zend_extension=opcache.so\nopcache.enable=0",
            ),
            ("/extra/b.ini", "opcache.enable=${ON}"),
        ]);
        let env = |name: &str| match name {
            "PHP_INI_SCAN_DIR" => Some(":/extra".to_owned()),
            "ON" => Some("1".to_owned()),
            _ => None,
        };
        let places = IniPlaces::of(&env, None, None, "/usr/local/sbin/php-fpm");
        let subject = subject(&files);
        let settings = read(&mut Reader::new(&subject), &places, &env);
        let value = settings.get("opcache.enable").expect("set");
        assert_eq!((value.text.as_str(), value.replaced.len()), ("1", 2));
        assert_eq!(value.source.to_string(), "variable ON, by /extra/b.ini:1");
        assert!(settings.get("zend_extension opcache").is_some());
        assert_eq!(settings.text("memory_limit"), Some("${MEM}"));
    }

    #[test]
    fn places_follow_the_distribution() {
        let none = |_: &str| None;
        let home = |exe: &str| IniPlaces::of(&none, None, None, exe).dirs;
        assert_eq!(home("/usr/sbin/php-fpm8.2"), ["/etc/php/8.2/fpm/conf.d"]);
        assert_eq!(home("/usr/sbin/php-fpm82"), ["/etc/php82/conf.d"]);
        assert_eq!(home("/usr/sbin/php-fpm"), ["/etc/php.d"]);
        let scan = |list: &str| {
            let env = |name: &str| (name == "PHP_INI_SCAN_DIR").then(|| list.to_owned());
            IniPlaces::of(&env, None, None, "/usr/sbin/php-fpm").dirs
        };
        assert_eq!(scan("/a:"), ["/a", "/etc/php.d"]);
        assert!(scan("").is_empty());
        let built = IniPlaces::of(
            &none,
            Some("/opt/p/etc"),
            Some("/opt/p/d"),
            "/opt/p/php-fpm",
        );
        assert_eq!(
            (built.files[2].as_str(), built.dirs[0].as_str()),
            ("/opt/p/etc/php.ini", "/opt/p/d")
        );
    }
}
