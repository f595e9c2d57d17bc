//! Which tier speaks to which.

use crate::error::ExperimentError;
use kneepoint_model::{Address, Layer, Scenario};
use kneepoint_stack::server;

/// The first tier of the chain that speaks HTTP.
pub(super) fn entry(
    scenario: &Scenario,
    addresses: &[(Layer, Address)],
) -> Result<Address, ExperimentError> {
    for layer in [Layer::Proxy, Layer::Web, Layer::Php] {
        let Some(spec) = scenario.tiers.iter().find(|tier| tier.layer == layer) else {
            continue;
        };
        let speaks_http = layer != Layer::Php || server(spec.server.as_str())?.speaks_http();
        let at = addresses.iter().find(|(at, _)| *at == layer);
        if let Some((_, address)) = at.filter(|_| speaks_http) {
            return Ok(address.clone());
        }
    }
    Err(ExperimentError::Unfit(
        "the stack has neither a proxy nor a web tier: there is nothing that speaks HTTP".into(),
    ))
}

/// The next tier of the HTTP chain.
pub(super) fn upstream(layer: Layer, addresses: &[(Layer, Address)]) -> Option<Address> {
    // Without a web tier PHP speaks HTTP itself.
    let next: &[Layer] = match layer {
        Layer::Proxy => &[Layer::Web, Layer::Php],
        Layer::Web => &[Layer::Php],
        _ => return None,
    };
    next.iter().find_map(|layer| {
        let at = addresses.iter().find(|(at, _)| at == layer);
        at.map(|(_, address)| address.clone())
    })
}

/// Whether a tier connects to another one, where `has_web` says whether a web tier stands between proxy and PHP.
pub(super) fn connects_to(from: Layer, to: Layer, has_web: bool) -> bool {
    match (from, to) {
        (Layer::Proxy, Layer::Php) => !has_web,
        (Layer::Proxy, Layer::Web)
        | (Layer::Web, Layer::Php)
        | (Layer::Php, Layer::Cache | Layer::Db) => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(layers: &[Layer]) -> Vec<(Layer, Address)> {
        let named = layers
            .iter()
            .map(|layer| (*layer, Address::Unix(layer.name().into())));
        named.collect()
    }

    #[test]
    fn a_proxy_asks_the_web_tier_and_where_there_is_none_php() {
        let next = |layer, layers: &[Layer]| upstream(layer, &at(layers)).map(|it| it.to_string());
        let with_web = [Layer::Php, Layer::Web];
        assert_eq!(next(Layer::Proxy, &with_web).as_deref(), Some("unix:web"));
        assert_eq!(
            next(Layer::Proxy, &[Layer::Php]).as_deref(),
            Some("unix:php")
        );
        assert_eq!(next(Layer::Web, &with_web).as_deref(), Some("unix:php"));
        assert_eq!(next(Layer::Php, &[Layer::Db]), None);
        assert!(connects_to(Layer::Proxy, Layer::Php, false));
        assert!(!connects_to(Layer::Proxy, Layer::Php, true));
    }
}
