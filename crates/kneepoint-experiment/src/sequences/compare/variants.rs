//! The same scenario on another PHP runtime.

use crate::error::ExperimentError;
use kneepoint_model::{Layer, Scenario, ServerKind, TierSpec};
use kneepoint_stack::server;
use std::collections::BTreeMap;

/// The scenario with another runtime, and which settings it lost because that runtime has none of the name.
///
/// One that answers HTTP itself has no web tier before it; one that speaks FastCGI gets nginx.
///
/// # Errors
/// There is no such runtime, or the scenario has no PHP.
pub fn on_runtime(
    scenario: &Scenario,
    runtime: &str,
) -> Result<(Scenario, Vec<String>), ExperimentError> {
    let kind = server(runtime)?;
    let is_runtime = kind.layers().contains(&Layer::Php);
    let mut changed = scenario.clone();
    let php = changed
        .tiers
        .iter_mut()
        .find(|tier| tier.layer == Layer::Php);
    let Some(php) = php.filter(|_| is_runtime) else {
        let why = match is_runtime {
            true => format!(
                "{} runs no PHP, so it has no runtime to change",
                scenario.name
            ),
            false => format!("{runtime} is no PHP runtime"),
        };
        return Err(ExperimentError::Unfit(why));
    };
    if php.server.as_str() == runtime {
        return Ok((changed, Vec::new()));
    }
    php.server = ServerKind::new(runtime);
    php.config = None;
    let known = kind.tunables(Layer::Php, "");
    let (kept, lost): (BTreeMap<_, _>, BTreeMap<_, _>) = std::mem::take(&mut php.settings)
        .into_iter()
        .partition(|(name, _)| known.iter().any(|tunable| tunable.name == *name));
    php.settings = kept;
    if kind.speaks_http() {
        changed.tiers.retain(|tier| tier.layer != Layer::Web);
        php_on_tcp(&mut changed);
    } else if !changed.tiers.iter().any(|tier| tier.layer == Layer::Web) {
        let at = changed
            .tiers
            .iter()
            .position(|tier| tier.layer == Layer::Php);
        changed.tiers.insert(at.unwrap_or(0), nginx());
    }
    Ok((changed, lost.into_keys().collect()))
}

/// A proxy reaches a runtime by its address.
fn php_on_tcp(scenario: &mut Scenario) {
    for tier in &mut scenario.tiers {
        tier.unix_socket &= tier.layer != Layer::Php;
    }
}

fn nginx() -> TierSpec {
    TierSpec {
        layer: Layer::Web,
        server: ServerKind::new("nginx"),
        config: None,
        ini: None,
        seed: None,
        unix_socket: false,
        settings: BTreeMap::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kneepoint_model::{AppKind, Budget, Slo, Workload};
    use std::time::Duration;

    fn tier(layer: Layer, server: &str, settings: &[(&str, &str)]) -> TierSpec {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        TierSpec {
            layer,
            server: ServerKind::new(server),
            settings: settings.iter().map(owned).collect(),
            ..nginx()
        }
    }

    fn chain(scenario: &Scenario) -> Vec<String> {
        let tiers = scenario.tiers.iter();
        tiers
            .map(|tier| format!("{} {} {:?}", tier.layer, tier.server, tier.settings))
            .collect()
    }

    fn fpm() -> Scenario {
        let settings = [("opcache.enable", "0"), ("pm.max_children", "9")];
        Scenario {
            name: "shop".into(),
            root: "/srv/shop".into(),
            front: "index.php".into(),
            kind: AppKind::Plain,
            env: BTreeMap::new(),
            app_settings: Vec::new(),
            app_files: Vec::new(),
            changes: BTreeMap::new(),
            unreachable: Vec::new(),
            generators: None,
            peers: Vec::new(),
            jobs: Vec::new(),
            tiers: vec![
                tier(Layer::Proxy, "nginx", &[]),
                tier(Layer::Web, "nginx", &[]),
                tier(Layer::Php, "fpm", &settings),
            ],
            hosts: BTreeMap::new(),
            workload: Workload::single("/"),
            slo: Slo::default(),
            budget: Budget {
                time: Duration::from_secs(60),
                memory_bytes: None,
                keep: Vec::new(),
            },
        }
    }

    #[test]
    fn a_runtime_that_answers_http_has_no_web_tier_and_phps_own_settings() {
        let (apache, lost) = on_runtime(&fpm(), "apache").expect("Apache is a runtime");
        assert_eq!(
            chain(&apache),
            ["proxy nginx {}", "php apache {\"opcache.enable\": \"0\"}"]
        );
        assert_eq!(lost, ["pm.max_children"]);
    }

    #[test]
    fn one_that_speaks_fastcgi_gets_nginx_before_it() {
        let apache = on_runtime(&fpm(), "apache").expect("Apache is a runtime").0;
        let (back, _) = on_runtime(&apache, "fpm").expect("FPM is a runtime");
        assert_eq!(
            chain(&back),
            [
                "proxy nginx {}",
                "web nginx {}",
                "php fpm {\"opcache.enable\": \"0\"}"
            ]
        );
    }

    #[test]
    fn what_runs_no_php_is_refused_by_name() {
        let why = on_runtime(&fpm(), "redis").expect_err("Redis runs no PHP");
        assert_eq!(why.to_string(), "redis is no PHP runtime");
    }
}
