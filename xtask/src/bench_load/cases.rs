//! What is loaded, and how.

/// Who decides when a request starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Drive {
    /// Each connection sends its next request when the last one is answered.
    Closed,
    /// So many requests a second, evenly spaced.
    Open {
        /// The rate.
        rate_hz: u32,
    },
}

/// One comparison.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Case {
    /// What `--only` calls it.
    pub(super) name: &'static str,
    /// What the table calls it.
    pub(super) title: &'static str,
    pub(super) path: &'static str,
    pub(super) drive: Drive,
    pub(super) connections: u32,
}

/// All comparisons, each with one sending thread.
pub(super) const CASES: &[Case] = &[
    Case {
        name: "closed",
        title: "static page, closed loop",
        path: "/index.html",
        drive: Drive::Closed,
        connections: 64,
    },
    Case {
        name: "open-5000",
        title: "static page, open loop at 5 000/s",
        path: "/index.html",
        drive: Drive::Open { rate_hz: 5000 },
        connections: 64,
    },
    Case {
        name: "open-15000",
        title: "static page, open loop at 15 000/s",
        path: "/index.html",
        drive: Drive::Open { rate_hz: 15_000 },
        connections: 64,
    },
    Case {
        name: "fpm",
        title: "hello.php on PHP-FPM, closed loop",
        path: "/hello.php",
        drive: Drive::Closed,
        connections: 16,
    },
];
