//! What a diagnosis saw from within the workers.

use kneepoint_model::{
    CallKind, CallTrace, MetStack, Place, SlowRequests, StackProfile, TracedCall, TracedRoute,
};

fn place(function: &str, file: Option<&str>, line: u32) -> Place {
    Place {
        function: function.to_owned(),
        file: file.map(str::to_owned),
        line: file.map(|_| line),
    }
}

fn places() -> Vec<Place> {
    vec![
        place("main public/index.php", Some("public/index.php"), 51),
        place("App\\Http\\Kernel::handle", Some("app/Http/Kernel.php"), 40),
        place(
            "require_once bootstrap/app.php",
            Some("bootstrap/app.php"),
            14,
        ),
        place(
            "App\\Http\\VisitController::index",
            Some("app/Http/VisitController.php"),
            22,
        ),
        place("PDOStatement::execute", None, 0),
        place("[recv db]", None, 0),
        place("[recv cache]", None, 0),
    ]
}

/// Stacks met above the limit: mostly compiling before, mostly waiting for the database after.
pub(crate) fn stacks(arm: &str, compiling: u64, waiting: u64) -> StackProfile {
    let met = |route: &str, places: &[u32], count| MetStack {
        route: route.to_owned(),
        places: places.to_vec(),
        count,
    };
    StackProfile {
        phase: "over".to_owned(),
        arm: arm.to_owned(),
        php: "PHP 8.2.35 (fpm-fcgi)".to_owned(),
        rate_hz: 40,
        ok: compiling + waiting,
        salvaged: 12,
        error: 0,
        idle: 9,
        places: places(),
        stacks: vec![
            met("GET /visits", &[0, 2], compiling),
            met("GET /visits", &[0, 1, 3, 4, 5], waiting),
            met("GET /session", &[0, 1], 80),
            met("GET /session", &[0, 1, 6], 41),
        ],
        moments: Vec::new(),
        notes: Vec::new(),
        slow: Some(slow()),
    }
}

/// The slowest requests, which wait for the database more than others.
fn slow() -> SlowRequests {
    let all = StackProfile {
        phase: "knee".to_owned(),
        places: places(),
        stacks: [(&[0, 1, 3, 4, 5][..], 60), (&[0, 2], 240)]
            .map(|(places, count)| MetStack {
                route: "GET /visits".to_owned(),
                places: places.to_vec(),
                count,
            })
            .into(),
        ..StackProfile::default()
    };
    let mut of_slow = all.stacks.clone();
    of_slow[0].count = 33;
    of_slow[1].count = 9;
    SlowRequests::of(&all, &of_slow, (12, 240), 812.4)
}

/// Calls of requests, with so many files opened in each.
pub(crate) fn calls(arm: &str, files: u64) -> CallTrace {
    let requests = 20;
    let [_, kernel, boot, controller, ..] = <[Place; 7]>::try_from(places()).expect("seven places");
    let call = |kind, what: &str, at: &Place, each: u64| TracedCall {
        route: "GET /visits".to_owned(),
        kind,
        what: what.to_owned(),
        peer: match kind {
            CallKind::Query | CallKind::Connect => "db".to_owned(),
            _ => String::new(),
        },
        through: String::new(),
        place: Some(at.clone()),
        own: Some(at.clone()),
        count: each * requests,
        failed: 0,
        most: each,
        answer_bytes: 0,
        waited_us: 0,
    };
    let mut missed = call(CallKind::Look, "storage/framework/down", &kernel, 1);
    missed.failed = requests;
    CallTrace {
        arm: arm.to_owned(),
        php: "PHP 8.2.35 (fpm-fcgi)".to_owned(),
        routes: vec![TracedRoute {
            route: "GET /visits".to_owned(),
            requests,
        }],
        calls: vec![
            call(CallKind::Open, "config/app.php", &boot, files),
            missed,
            call(CallKind::Connect, "10.87.0.6:5432", &controller, 1),
            call(
                CallKind::Query,
                "select count(*) as aggregate from \"visits\"",
                &controller,
                1,
            ),
        ],
        notes: Vec::new(),
    }
}
