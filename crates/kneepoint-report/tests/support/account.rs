//! Where the CPU and a request's time went, as a diagnosis would have it.

use kneepoint_model::account::{
    Account, CodeAccount, CpuOf, CpuPart, FileShare, FunctionShare, KernelStack, NativeAccount,
    NativeShare, OwnerShare, TimeKind, TimePart, WaitLine,
};
use kneepoint_model::{Layer, Owner, Place};

fn place(function: &str, file: &str, line: u32) -> Place {
    Place {
        function: function.to_owned(),
        file: Some(file.to_owned()),
        line: Some(line),
    }
}

fn cpu(of: CpuOf, cores: f64, ms: f64, share: f64) -> CpuPart {
    CpuPart {
        of,
        cores,
        ms,
        share,
    }
}

fn time(layer: Layer, kind: TimeKind, what: &str, ms: f64, all_ms: f64) -> TimePart {
    TimePart {
        layer,
        kind,
        what: what.to_owned(),
        ms,
        share: ms / all_ms,
        lines: Vec::new(),
    }
}

fn code() -> CodeAccount {
    let owner = |file: &str, share: f64, with_calls: f64| OwnerShare {
        owner: Owner::of_file(file),
        share,
        with_calls,
    };
    let boot = "bootstrap/app.php";
    let render = "vendor/symfony/templating/Engine.php";
    let password = Place {
        function: "password_verify".to_owned(),
        ..Place::default()
    };
    let function =
        |place: Place, caller: Option<Place>, file: &str, share, with_calls| FunctionShare {
            place,
            caller,
            owner: Owner::of_file(file),
            share,
            with_calls,
        };
    CodeAccount {
        phase: "knee".to_owned(),
        stacks: 412,
        owners: vec![
            owner(boot, 0.62, 0.98),
            owner(render, 0.31, 0.35),
            owner("vendor/monolog/monolog/Logger.php", 0.004, 0.006),
        ],
        files: vec![
            FileShare {
                file: boot.to_owned(),
                share: 0.41,
            },
            FileShare {
                file: render.to_owned(),
                share: 0.31,
            },
        ],
        functions: vec![
            function(
                place("require_once bootstrap/app.php", boot, 14),
                None,
                boot,
                0.41,
                0.41,
            ),
            function(
                place("Engine::render", render, 220),
                None,
                render,
                0.29,
                0.35,
            ),
            function(
                password,
                Some(place("App\\Login::check", "app/Login.php", 54)),
                "app/Login.php",
                0.21,
                0.21,
            ),
        ],
        unnamed: 0.066,
    }
}

fn native() -> NativeAccount {
    let share = |object: &str, symbol: Option<&str>, samples| NativeShare {
        object: object.to_owned(),
        symbol: symbol.map(str::to_owned),
        samples,
    };
    NativeAccount {
        layer: Some(Layer::Php),
        samples: 600,
        objects: vec![
            share("php-fpm8.2", None, 400),
            share("opcache.so", None, 120),
            share("the kernel", None, 80),
        ],
        symbols: vec![
            share("php-fpm8.2", Some("execute_ex"), 210),
            share("the kernel", Some("__x64_sys_newfstatat"), 40),
        ],
        kernel: vec![KernelStack {
            functions: ["do_syscall_64", "vfs_statx"].map(str::to_owned).to_vec(),
            samples: 80,
        }],
    }
}

/// What the kernel does for a proxy: so many of 100 samples in the search for a local port.
pub(crate) fn proxy(searching: u64) -> NativeAccount {
    let stack = |functions: &[&str], samples| KernelStack {
        functions: functions.iter().map(|&name| name.to_owned()).collect(),
        samples,
    };
    NativeAccount {
        layer: Some(Layer::Proxy),
        samples: 150,
        kernel: vec![
            stack(
                &["__sys_connect", "tcp_v4_connect", "__inet_hash_connect"],
                searching,
            ),
            stack(&["__x64_sys_writev", "tcp_sendmsg"], 100 - searching),
        ],
        ..NativeAccount::default()
    }
}

/// The account of a configuration, in which PHP takes so many ms of CPU a request.
pub(crate) fn account(arm: &str, offered_hz: f64, php_ms: f64) -> Account {
    let stack_ms = php_ms + 2.0;
    let mut waits = time(
        Layer::Db,
        TimeKind::Wait("recv db".to_owned()),
        "waiting: recv db",
        5.1,
        php_ms + 44.0,
    );
    waits.lines = vec![WaitLine {
        place: place(
            "App\\Http\\VisitController::index",
            "app/Http/VisitController.php",
            22,
        ),
        share: 0.93,
    }];
    let all_ms = php_ms + 44.0;
    Account {
        phase: "knee".to_owned(),
        arm: arm.to_owned(),
        offered_hz,
        requests: (offered_hz * 10.0) as u64,
        response_ms: all_ms,
        cpu: vec![
            cpu(
                CpuOf::Tier(Layer::Php),
                php_ms * offered_hz / 1e3,
                php_ms,
                php_ms / stack_ms,
            ),
            cpu(CpuOf::Tier(Layer::Db), 0.05, 1.5, 1.5 / stack_ms),
            cpu(CpuOf::Tier(Layer::Web), 0.02, 0.5, 0.5 / stack_ms),
            cpu(CpuOf::Generator, 0.03, 0.8, 0.0),
        ],
        code: Some(code()),
        native: vec![native()],
        time: vec![
            time(Layer::Php, TimeKind::Queue, "accept queue", 20.0, all_ms),
            time(Layer::Php, TimeKind::Cpu, "computing", php_ms, all_ms),
            time(
                Layer::Php,
                TimeKind::Core,
                "ready, but without a core",
                15.0,
                all_ms,
            ),
            waits,
            time(
                Layer::Web,
                TimeKind::Rest,
                "not seen: the network, and servers without a core",
                3.9,
                all_ms,
            ),
        ],
        notes: Vec::new(),
    }
}
