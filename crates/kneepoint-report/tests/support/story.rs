//! The story of the sample `tune`: what was found, tried and decided.

use super::interval;
use kneepoint_model::run::Decision;
use kneepoint_model::{
    Confidence, Effect, Evidenced, Finding, Interval, Layer, Remedy, Setting, Verdict,
};

pub(crate) fn effect(
    change: &str,
    settings: Vec<Setting>,
    quantity: &str,
    ratio: Interval,
    pairs: u32,
) -> Effect {
    let clear = !(ratio.low..=ratio.high).contains(&1.0);
    Effect {
        change: change.into(),
        settings,
        quantity: quantity.into(),
        ratio: Some(ratio),
        pairs,
        e_value: if clear { 4_812.0 } else { 0.21 },
        verdict: if !clear {
            Verdict::Equivalent
        } else if ratio.low > 1.0 {
            Verdict::Better
        } else {
            Verdict::Worse
        },
        smallest_visible: Some(ratio.relative_half_width() * 1.4),
        conditions: "at saturation, 8 workers, 5 s each".into(),
        permutation_p: None,
        bootstrap: None,
        void_pairs: 0,
        measures: Vec::new(),
        cpu_binds: None,
    }
}

fn opcache() -> Vec<Setting> {
    vec![Setting::new(Layer::Php, "opcache.enable", 1)]
}

fn pool() -> Vec<Setting> {
    vec![
        Setting::new(Layer::Php, "pm", "static"),
        Setting::new(Layer::Php, "pm.max_children", 16),
    ]
}

fn keepalive() -> Vec<Setting> {
    vec![Setting::new(Layer::Web, "upstream.keepalive", 32)]
}

fn finding(
    code: &str,
    title: &str,
    layer: Layer,
    confidence: Confidence,
    settings: Vec<Setting>,
) -> Finding {
    Finding {
        code: code.into(),
        arm: String::new(),
        title: title.into(),
        layer,
        seen: Vec::new(),
        refuted_by: String::new(),
        remedy: Some(Remedy {
            text: String::new(),
            settings,
        }),
        expected_gain: String::new(),
        confidence,
        weight: 0.5,
        source: "reference catalogue".into(),
        effects: Vec::new(),
    }
}

fn seen(what: &str, conditions: &str) -> Evidenced {
    Evidenced {
        what: what.into(),
        conditions: conditions.into(),
    }
}

fn remedy(text: &str, settings: Vec<Setting>) -> Option<Remedy> {
    Some(Remedy {
        text: text.into(),
        settings,
    })
}

pub(crate) fn findings() -> Vec<Finding> {
    vec![
        opcache_is_off(),
        pool_is_small(),
        connections_are_not_kept(),
        files_are_checked(),
    ]
}

fn opcache_is_off() -> Finding {
    let near = "at 36.6/s offered for 10 s";
    Finding {
        seen: vec![
            seen("opcache.enable = 0 in the FPM runtime that serves", ""),
            seen(
                "every request compiles 402 files; 71 % of PHP's CPU time is compilation",
                near,
            ),
            seen("CPU of the php tier at 98 % of 1 core", near),
        ],
        refuted_by: "Goodput at saturation does not rise with OPcache on.".into(),
        remedy: remedy("Switch OPcache on and restart FPM.", opcache()),
        expected_gain: "2 to 5 times, from the share of time spent compiling".into(),
        effects: vec![effect(
            "php.opcache.enable 0 -> 1",
            opcache(),
            "goodput at saturation",
            interval(2.21, 2.29, 2.38),
            8,
        )],
        source: "https://www.php.net/manual/en/opcache.configuration.php".into(),
        ..finding(
            "OPC-01",
            "OPcache is off",
            Layer::Php,
            Confidence::Proved,
            opcache(),
        )
    }
}

fn pool_is_small() -> Finding {
    Finding {
        seen: vec![
            seen("5 of 5 children busy, 0 idle", "at 88.0/s offered for 10 s"),
            seen(
                "accept queue 9.4 of 511 on average, 31 at most",
                "at 88.0/s offered for 10 s",
            ),
            seen(
                "61 % of busy children sleep in poll on the cache and the database",
                "at 88.0/s offered for 10 s",
            ),
        ],
        refuted_by: "Goodput at saturation stays when the pool grows.".into(),
        remedy: remedy(
            "Let more children wait at the same time; memory allows 42.",
            pool(),
        ),
        expected_gain: "1.2 to 1.4 times, from the children that wait".into(),
        effects: vec![effect(
            "php.pm.max_children 5 -> 16",
            pool(),
            "goodput at saturation",
            interval(1.28, 1.33, 1.39),
            11,
        )],
        source: "https://www.php.net/manual/en/install.fpm.configuration.php".into(),
        ..finding(
            "FPM-01",
            "The pool is too small for its waiting time",
            Layer::Php,
            Confidence::Proved,
            pool(),
        )
    }
}

fn connections_are_not_kept() -> Finding {
    Finding {
        seen: vec![seen(
            "active opens 87.1/s towards php at 88.0 requests/s",
            "at 88.0/s offered for 10 s",
        )],
        refuted_by: "Goodput at saturation stays when connections are kept.".into(),
        remedy: remedy("Keep connections to FPM open.", keepalive()),
        ..finding(
            "NGX-04",
            "Every request opens a connection to PHP",
            Layer::Web,
            Confidence::Suspected,
            keepalive(),
        )
    }
}

fn files_are_checked() -> Finding {
    Finding {
        seen: vec![seen("opcache.validate_timestamps = 1", "")],
        remedy: remedy("Switch it off and reload on deployment.", Vec::new()),
        ..finding(
            "OPC-06",
            "Every request asks whether files changed",
            Layer::Php,
            Confidence::Noted,
            Vec::new(),
        )
    }
}

pub(crate) fn decisions() -> Vec<Decision> {
    let at_saturation = "goodput at saturation";
    vec![
        Decision {
            code: "OPC-01".into(),
            layer: None,
            settings: opcache(),
            effect: effect(
                "php.opcache.enable 0 -> 1",
                opcache(),
                at_saturation,
                interval(2.21, 2.29, 2.38),
                8,
            ),
            kept: true,
            failed: false,
            leave_one_out: Some(effect(
                "without php.opcache.enable = 1",
                opcache(),
                at_saturation,
                interval(2.31, 2.42, 2.54),
                8,
            )),
            reason: "Better beyond doubt, and still needed at the end.".into(),
        },
        Decision {
            code: "FPM-01".into(),
            layer: None,
            settings: pool(),
            effect: effect(
                "php.pm.max_children 5 -> 16",
                pool(),
                at_saturation,
                interval(1.28, 1.33, 1.39),
                11,
            ),
            kept: true,
            failed: false,
            leave_one_out: Some(effect(
                "without php.pm.max_children = 16",
                pool(),
                at_saturation,
                interval(1.27, 1.32, 1.37),
                11,
            )),
            reason: "Better beyond doubt; 16 is the smallest pool within 2 % of the best.".into(),
        },
        Decision {
            code: "NGX-04".into(),
            layer: None,
            settings: keepalive(),
            effect: effect(
                "web.upstream.keepalive 0 -> 32",
                keepalive(),
                at_saturation,
                interval(0.985, 1.004, 1.019),
                16,
            ),
            kept: false,
            failed: false,
            leave_one_out: None,
            reason: "No difference within 2 %, so the simpler configuration stays.".into(),
        },
    ]
}
