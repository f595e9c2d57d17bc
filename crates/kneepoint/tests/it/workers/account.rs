//! The account of a page whose parts are known.

use crate::support::company::alone;
use crate::support::{kneepoint, needs_root, start, text, wait};
use kneepoint_model::account::{Account, TimeKind};
use kneepoint_model::{Layer, Owner};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A page that computes three parts in a plugin and one in a package, and takes many short naps in another plugin: those
/// who look at the clock on the wall meet it there as often, waiting for a core.
const FILES: [(&str, &str); 4] = [
    (
        "index.php",
        "<?php\nforeach (['wp-content/plugins/x/x.php', 'wp-content/plugins/w/w.php', 'vendor/y/z/z.php'] as $file) {\n    \
         require __DIR__ . '/' . $file;\n}\nfor ($turn = 0; $turn < 5; $turn++) {\n    X\\a();\n    W\\nap();\n    \
         Z\\b();\n}\necho 'served';\n",
    ),
    (
        "wp-content/plugins/x/x.php",
        "<?php\nnamespace X;\nfunction a() {\n    $sum = 0;\n    for ($n = 0; $n < 240000; $n++) {\n        \
         $sum = ($sum * 31 + $n) % 1000003;\n    }\n    return $sum;\n}\n",
    ),
    (
        "vendor/y/z/z.php",
        "<?php\nnamespace Z;\nfunction b() {\n    $sum = 0;\n    for ($n = 0; $n < 80000; $n++) {\n        \
         $sum = ($sum * 31 + $n) % 1000003;\n    }\n    return $sum;\n}\n",
    ),
    (
        "wp-content/plugins/w/w.php",
        "<?php\nnamespace W;\nfunction nap() {\n    for ($n = 0; $n < 8; $n++) {\n        usleep(300);\n    }\n}\n",
    ),
];

const SCENARIO: &str = r#"
[app]
root = "."
front = "index.php"

[stack]
web = { server = "nginx" }
php = { runtime = "fpm", settings = { "pm" = "static", "pm.max_children" = "6" } }

[[request]]
path = "/"
expect = { status = 200, body_contains = "served" }

[slo]
response_time = { p95 = "400ms" }
"#;

fn site(directory: &Path) -> PathBuf {
    let open = || fs::Permissions::from_mode(0o755);
    for (path, content) in FILES {
        let path = directory.join(path);
        fs::create_dir_all(path.parent().expect("a directory")).expect("directories made");
        fs::write(&path, content).expect("a file");
    }
    fs::set_permissions(directory, open()).expect("opened");
    let scenario = directory.join("kneepoint.toml");
    fs::write(&scenario, SCENARIO).expect("a scenario");
    scenario
}

#[test]
fn the_parts_of_a_page_have_their_shares() {
    if !needs_root("the account of a page") {
        return;
    }
    let _place = alone();
    let directory = tempfile::tempdir().expect("temp dir");
    let scenario = site(directory.path());
    let mut command = kneepoint();
    command
        .arg("diagnose")
        .arg(&scenario)
        .args([
            "--loopback",
            "--confirm",
            "0",
            "--budget",
            "30s",
            "--json",
            "-",
            "--runs",
        ])
        .arg(directory.path());
    let output = wait(start(&mut command), Duration::from_secs(300));
    assert!(output.status.success(), "{}", text(&output.stderr));
    let run: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let account: Account =
        serde_json::from_value(run["run"]["accounts"][0].clone()).expect("an account");
    is_right(&account);
}

fn is_right(account: &Account) {
    let code = account.code.as_ref().expect("PHP's stacks");
    let share = |file: &str| {
        let owner = Owner::of_file(file);
        let of = code.owners.iter().find(|one| one.owner == owner);
        of.map_or(0.0, |one| one.share)
    };
    let (plugin, package) = (share(FILES[1].0), share(FILES[2].0));
    // Three to one; of some two hundred stacks, of which a sixth is the package's, chance makes three quarters more or less.
    let ratio = plugin / package;
    assert!(
        (1.7..5.3).contains(&ratio),
        "{plugin} to {package}: {code:#?}"
    );
    assert!(share(FILES[3].0) < 0.15, "naps take no CPU: {code:#?}");
    assert_eq!(code.functions[0].place.function, "X\\a", "{code:#?}");
    assert!(account.cpu_share(Layer::Php) > 0.8, "{account:#?}");
    let explained = account.explained_share().expect("tiers");
    assert!(explained > 0.85, "{explained}: {account:#?}");
    let naps = TimeKind::Wait("sleep".to_owned());
    let naps = account.time.iter().find(|part| part.kind == naps);
    let line = naps.and_then(|part| part.lines.first());
    let place = &line.expect("a line that naps").place;
    assert_eq!(place.function, "W\\nap", "{account:#?}");
    // Where the kernel lets its clock be used, PHP's own program is what computes.
    let native = account
        .native
        .iter()
        .find(|one| one.layer == Some(Layer::Php));
    if let Some(native) = native {
        let largest = native.objects.first().map(|one| one.object.as_str());
        assert!(
            largest.is_some_and(|name| name.contains("php")),
            "{native:#?}"
        );
    }
}
