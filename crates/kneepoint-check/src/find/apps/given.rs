//! What the workers of a pool are given before any file of an application is read.

use super::owners::Owners;
use crate::snapshot::{FpmPool, ServedApp, SettingSource, SettingValue};
use kneepoint_model::AppSwitch;
use kneepoint_stack::application::of_file;
use kneepoint_stack::application::symfony::NAMES;

/// Lets go the switches of an application's files of environment that its pools' own environment takes the place of, and
/// judges that instead: Symfony's files never replace what is there
/// (<https://symfony.com/doc/current/configuration.html#configuration-based-on-environment-variables>). What Laravel is given is
/// not looked at.
pub(super) fn judge(app: &mut ServedApp, pools: &[FpmPool], owners: &Owners) {
    if app.laravel_cached.is_some() {
        return;
    }
    for name in NAMES {
        let key = format!("env[{name}]");
        let of_pool = |pool: &FpmPool| pool.settings.get(&key).cloned();
        let given: Vec<Option<SettingValue>> = match owners {
            Owners::Pools(own) => {
                let own = pools.iter().filter(|pool| own.contains(&pool.name));
                own.map(of_pool).collect()
            }
            // Any of them may be the one.
            Owners::Unknown => pools.iter().map(of_pool).collect(),
            Owners::None | Owners::Elsewhere => Vec::new(),
        };
        let is_of_file =
            |switch: &AppSwitch| switch.name == name && switch.file.starts_with(".env");
        let is_switched = app.switches.iter().any(is_of_file);
        // A pool that is given nothing goes by the files.
        if !is_switched || given.is_empty() || given.iter().any(Option::is_none) {
            continue;
        }
        let given: Vec<SettingValue> = given.into_iter().flatten().collect();
        let costs = |value: &SettingValue| switch(name, value).is_some();
        let is_around =
            |value: &SettingValue| matches!(value.source, SettingSource::Variable { .. });
        // Where a variable of the whole service says the same, the line in the file stands for it.
        if given.iter().any(|value| is_around(value) && costs(value)) {
            continue;
        }
        app.switches.retain(|switch| !is_of_file(switch));
        let known = given.iter().filter(|_| *owners != Owners::Unknown);
        let found: Vec<AppSwitch> = known.filter_map(|value| switch(name, value)).collect();
        app.switches.extend(found);
    }
}

/// The switch that a pool's environment sets, where its value costs.
fn switch(name: &str, value: &SettingValue) -> Option<AppSwitch> {
    let told = of_file(".env", &format!("{name}={}", value.text)).pop()?;
    let SettingSource::File { path, line } = &value.source else {
        return Some(told);
    };
    Some(AppSwitch {
        name: format!("env[{name}]"),
        file: path.clone(),
        line: u32::try_from(*line).unwrap_or(u32::MAX),
        instead: None,
        ..told
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::case::Case;
    use kneepoint_model::SwitchKind;

    /// What is left of `APP_ENV=dev` in line 4 of `.env`, where the pool has this line.
    fn check(line: &str, is_laravel: bool, owners: &Owners, expected: &[&str]) {
        let case = Case::switched(SwitchKind::DebugOn, "APP_ENV", ".env").pool_with(line, "");
        let mut app = case.0.apps[0].clone();
        app.laravel_cached = is_laravel.then_some((false, false));
        judge(&mut app, &case.0.services[1].pools, owners);
        let left = app.switches.iter();
        let left = left.map(|one| format!("{} in {}", one.name, one.file));
        assert_eq!(left.collect::<Vec<_>>(), expected, "{line}");
    }

    #[test]
    fn what_a_pool_gives_counts_before_any_file() {
        let own = Owners::Pools(vec!["www".to_owned()]);
        let (prod, file) = ("env[APP_ENV] = prod", "APP_ENV in .env");
        check(prod, false, &own, &[]);
        check("", false, &own, &[file]);
        check("env[APP_DEBUG] = 0", false, &own, &[file]);
        let pool = "env[APP_ENV] in /etc/php/php-fpm.conf";
        check("env[APP_ENV] = dev", false, &own, &[pool]);
        check(prod, true, &own, &[file]);
        check(prod, false, &Owners::Unknown, &[]);
        check("env[APP_ENV] = dev", false, &Owners::Unknown, &[]);
        check(prod, false, &Owners::None, &[file]);
        let half = format!("{prod}\n[b]\nlisten = 9001");
        check(&half, false, &own, &[]);
        // Nobody knows which of both it is.
        check(&half, false, &Owners::Unknown, &[file]);
        let both = Owners::Pools(vec!["www".to_owned(), "b".to_owned()]);
        check(&half, false, &both, &[file]);
    }
}
