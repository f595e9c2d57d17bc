//! Settings of PHP: in php.ini, in a pool that lays its own over it, or where PHP-FPM is started.

use super::{Fix, apply, assigned, by_variable, parent, restart};
use crate::snapshot::{FpmPool, Service, SettingSource, SettingValue, Settings};

/// What PHP has where nobody writes it. A value in memory that is another was given by somebody.
const OWN: [(&str, &str); 24] = [
    ("apc.shm_size", "32M"),
    ("auto_prepend_file", ""),
    ("default_socket_timeout", "60"),
    ("display_errors", "1"),
    ("log_errors", "1"),
    ("max_execution_time", "30"),
    ("memory_limit", "128M"),
    ("opcache.consistency_checks", "0"),
    ("opcache.enable", "1"),
    ("opcache.file_cache", ""),
    ("opcache.file_cache_only", "0"),
    ("opcache.interned_strings_buffer", "8"),
    ("opcache.max_accelerated_files", "10000"),
    ("opcache.max_file_size", "0"),
    ("opcache.memory_consumption", "128"),
    ("opcache.preload", ""),
    ("opcache.save_comments", "1"),
    ("opcache.validate_timestamps", "1"),
    ("realpath_cache_size", "4096K"),
    ("realpath_cache_ttl", "120"),
    ("session.auto_start", "0"),
    ("session.gc_probability", "1"),
    ("session.lazy_write", "1"),
    ("zend.assertions", "1"),
];

impl Fix {
    /// Settings of php.ini.
    pub(crate) fn ini(service: &Service, directives: &[(&str, String)]) -> Self {
        let empty = Settings::default();
        let ini = service.php.as_ref().map_or(&empty, |php| &php.ini);
        if let Some(fix) = by_variable(service, ini, directives) {
            return fix;
        }
        if let Some(fix) = at_start(service, ini, directives) {
            return fix;
        }
        let lines = assigned(directives);
        let Some(last) = last_ini(service) else {
            let main = service
                .files
                .iter()
                .find(|file| file.path.ends_with(".ini"));
            let main = main.map_or("php.ini", |file| file.path.as_str());
            return Self {
                apply: apply(service),
                ..Self::listed(format!("In {main}, below all that it sets, write:"), lines)
            };
        };
        Self::drop_in(service, &last, "ini", lines.join("\n") + "\n")
    }

    /// Settings of PHP that a pool has: in the very lines of the pool that set them, as php.ini does not reach these; else in
    /// php.ini.
    pub(crate) fn php(service: &Service, pool: &FpmPool, directives: &[(&str, String)]) -> Self {
        if let Some(fix) = at_start(service, &pool.php, directives) {
            return fix;
        }
        if let Some(fix) = by_request(service, pool, directives) {
            return fix;
        }
        let mut own = directives
            .iter()
            .filter_map(|(name, _)| pool.own_line(name));
        let Some(first) = own.next() else {
            return Self::ini(service, directives);
        };
        let others: Vec<String> = own.map(|value| value.source.to_string()).collect();
        let as_first = directives
            .iter()
            .find_map(|(name, _)| pool.php_keys.get(*name))
            .map_or("php_value", |key| key.split('[').next().unwrap_or(key));
        let lines: Vec<String> = directives
            .iter()
            .map(|(name, value)| {
                let key = pool.php_keys.get(*name);
                let key = key.map_or_else(|| format!("{as_first}[{name}]"), String::clone);
                format!("{} = {value}", fitting(&key, value))
            })
            .collect();
        let fix = Self::line(service, &first, &lines.join("\n"));
        match others.is_empty() {
            true => fix,
            false => fix.after(&format!("Remove {}.", others.join(" and "))),
        }
    }
}

impl FpmPool {
    /// The line by which the pool itself sets a directive of PHP, where that is what runs.
    pub(crate) fn own_line(&self, name: &str) -> Option<SettingValue> {
        self.php_keys.get(name)?;
        let value = self.php.get(name)?;
        value.source.path().map(|_| value.clone())
    }
}

/// A key that takes such a value: a flag takes a switch and nothing else.
fn fitting(key: &str, value: &str) -> String {
    let is_switch = SettingValue::new(value, SettingSource::Default)
        .is_on()
        .is_some();
    match is_switch && !value.is_empty() {
        true => key.to_owned(),
        false => key.replace("_flag[", "_value["),
    }
}

/// In nginx, where that tells PHP a value with every request.
fn by_request(service: &Service, pool: &FpmPool, directives: &[(&str, String)]) -> Option<Fix> {
    let is_own = |path: &str| service.files.iter().any(|file| file.path == path);
    let values = directives.iter().filter_map(|(name, _)| pool.php.get(name));
    let place = values.map(|value| &value.source).find(|source| {
        let path = source.path();
        path.is_some_and(|path| !is_own(path))
    })?;
    let lines: Vec<String> = directives
        .iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    Some(Fix {
        text: format!(
            "{place} tells it PHP with every request (fastcgi_param). There, write {}, or take it out.",
            lines.join(" and ")
        ),
        apply: "Then have nginx read its files again.".into(),
        ..Fix::default()
    })
}

/// Where PHP-FPM is started, for a value that no file that was read sets: one that PHP was given on its command line wins over
/// every file.
fn at_start(service: &Service, settings: &Settings, directives: &[(&str, String)]) -> Option<Fix> {
    let given = directives.iter().find_map(|(name, _)| {
        let value = settings.get(name)?;
        let SettingSource::Memory { pid } = value.source else {
            return None;
        };
        is_given(service, name, value).then_some((*name, pid))
    });
    let (name, pid) = given?;
    let place = match (&service.place.container, &service.place.unit) {
        (Some(container), _) if container.in_pod => {
            "the pod's `command:` and `args:`, and the image".to_owned()
        }
        (Some(container), _) => format!("`command:` of the {}, and its image", container.called()),
        (None, Some(unit)) => format!("ExecStart in `systemctl cat {unit}`"),
        (None, None) => "the script that starts it".to_owned(),
    };
    // Of a worker it may be that of a directory or a request, too.
    let further = match pid == service.pid {
        true => "",
        false => {
            ", then for .user.ini, `fastcgi_param PHP_VALUE` in nginx and ini_set in the application"
        }
    };
    let text = format!(
        "No file that was read says so: {name} was set when PHP-FPM was started, or in a file that was not read. Look for \
         `-d {name}` and `-c` in {place} (`ps` shows only the title that PHP-FPM gives itself){further}. There, write:"
    );
    Some(Fix {
        apply: restart(service, ""),
        ..Fix::listed(text, assigned(directives))
    })
}

/// Whether somebody gave PHP a value that is in no file: neither its own default, nor what a file said before it was changed.
fn is_given(service: &Service, name: &str, value: &SettingValue) -> bool {
    let is_newer = |path: &str| {
        service
            .files
            .iter()
            .any(|one| one.path == path && one.newer)
    };
    match value.replaced.last() {
        Some((_, source)) => !source.path().is_some_and(is_newer),
        None => OWN
            .iter()
            .any(|(own, usual)| *own == name && *usual != value.text.trim()),
    }
}

/// The file of settings of PHP that is read last, or one that would be; `None` where no directory of such files is read.
fn last_ini(service: &Service) -> Option<String> {
    let dirs = service.php.as_ref().and_then(|php| php.scanned.as_ref());
    let is_scanned = |path: &str| match dirs {
        Some(dirs) => dirs
            .iter()
            .any(|dir| dir.trim_end_matches('/') == parent(path)),
        None => !path.ends_with("php.ini"),
    };
    let mut read = service.files.iter().rev();
    let last = read.find(|file| file.path.ends_with(".ini") && is_scanned(&file.path));
    match (last, dirs) {
        (Some(file), _) => Some(file.path.clone()),
        (None, Some(dirs)) => Some(format!("{}/0.ini", dirs.last()?.trim_end_matches('/'))),
        (None, None) => Some("/usr/local/etc/php/conf.d/0.ini".to_owned()),
    }
}
