//! What can be set of nginx. Defaults are those of nginx.org's reference.

use crate::tunable_spec::{Kind::*, Spelling, TunableSpec, version};
use kneepoint_model::Apply::{Reload, Restart};
use kneepoint_model::Layer;

pub(super) const SPELLING: Spelling = Spelling {
    sizes: ["k", "m", "g"],
    seconds: "s",
    milliseconds: Some("ms"),
};

const SWITCH: crate::tunable_spec::Kind = Switch("off", "on");
const DAY_S: u64 = 86_400;

#[rustfmt::skip]
const COMMON: &[TunableSpec] = &[
    TunableSpec::new("worker_processes", Integer(1, 1024, "processes"), "1", Reload, "worker processes; auto is one a core of the machine, not of the quota (NGX-03)").or(&["auto"]),
    TunableSpec::new("worker_connections", Integer(16, 1_048_576, "connections"), "512", Reload, "most connections of one worker, upstream ones included (NGX-01)"),
    TunableSpec::new("worker_rlimit_nofile", Integer(64, 1_048_576, "files"), "", Reload, "open files of one worker (NGX-02)"),
    TunableSpec::new("multi_accept", SWITCH, "off", Reload, "accept all waiting connections at once"),
    TunableSpec::new("listen.backlog", Integer(1, 65_535, "connections"), "511", Restart, "connections that may wait to be accepted, cut by net.core.somaxconn (NGX-15)"),
    TunableSpec::new("listen.reuseport", SWITCH, "off", Restart, "a listener for each worker (NGX-16)"),
    TunableSpec::new("keepalive_timeout", Duration(0, DAY_S), "75s", Reload, "how long an idle client connection stays; 0 closes at once (NGX-20)"),
    TunableSpec::new("keepalive_requests", Integer(1, 1_000_000_000, "requests"), "1000", Reload, "requests of one client connection (NGX-06)"),
    TunableSpec::new("access_log", Choice(&["off", "on", "buffered"]), "on", Reload, "log every request: not, at once, or through a buffer (NGX-13)"),
    TunableSpec::new("upstream.keepalive", Integer(0, 65_535, "connections"), "0", Reload, "idle connections to the next tier that one worker keeps; 0 is none (NGX-04, NGX-05, FPM-10)"),
    TunableSpec::new("upstream.keepalive_requests", Integer(1, 1_000_000_000, "requests"), "1000", Reload, "requests of one connection to the next tier (NGX-06, FPM-11)"),
    TunableSpec::new("upstream.keepalive_timeout", Duration(0, DAY_S), "60s", Reload, "how long an idle connection to the next tier stays (FPM-11)"),
    TunableSpec::new("upstream.max_fails", Integer(0, 1_000_000, "failures"), "1", Reload, "failures after which the next tier counts as down; 0 is never (NGX-18)"),
    TunableSpec::new("gzip", SWITCH, "off", Reload, "compress responses (NGX-12)"),
    TunableSpec::new("gzip_comp_level", Integer(1, 9, "level"), "1", Reload, "how hard (NGX-12)"),
    TunableSpec::new("gzip_min_length", Integer(0, 1_000_000_000, "bytes"), "20", Reload, "smallest response to compress (NGX-12)"),
    TunableSpec::new("gzip_static", Choice(&["off", "on", "always"]), "off", Reload, "serve .gz files made at build time (NGX-11)"),
    TunableSpec::new("sendfile", SWITCH, "off", Reload, "send files from the page cache (NGX-14)"),
    TunableSpec::new("tcp_nopush", SWITCH, "off", Reload, "full packets with sendfile (NGX-14)"),
    TunableSpec::new("tcp_nodelay", SWITCH, "on", Reload, "no waiting to fill packets"),
    TunableSpec::new("open_file_cache", Text, "off", Reload, "keep files open: off, or max=10000 inactive=60s (NGX-14)"),
    TunableSpec::new("client_body_buffer_size", Bytes(0, 1 << 32), "16k", Reload, "request body kept in memory (NGX-10)"),
    TunableSpec::new("client_header_timeout", Duration(1, DAY_S), "60s", Reload, "for the request's header (NGX-20)"),
    TunableSpec::new("client_body_timeout", Duration(1, DAY_S), "60s", Reload, "between two reads of the request's body (NGX-20)"),
    TunableSpec::new("send_timeout", Duration(1, DAY_S), "60s", Reload, "between two writes of the response (NGX-20)"),
    TunableSpec::new("reset_timedout_connection", SWITCH, "off", Reload, "reset instead of close after a timeout (NGX-20)"),
];

#[rustfmt::skip]
const WEB: &[TunableSpec] = &[
    TunableSpec::new("fastcgi_keep_conn", SWITCH, "off", Reload, "ask PHP to keep connections; each one holds a worker (FPM-10, NGX-07)"),
    TunableSpec::new("fastcgi_buffering", SWITCH, "on", Reload, "take the response before the client does (NGX-24)"),
    TunableSpec::new("fastcgi_buffers", Text, "8 4k", Reload, "number and size of response buffers (NGX-08)"),
    TunableSpec::new("fastcgi_buffer_size", Bytes(1 << 10, 1 << 30), "4k", Reload, "buffer of the response's header (NGX-09, FPM-18)"),
    TunableSpec::new("fastcgi_busy_buffers_size", Bytes(1 << 10, 1 << 30), "8k", Reload, "of the buffers, busy sending (NGX-09)"),
    TunableSpec::new("fastcgi_max_temp_file_size", Bytes(0, 1 << 40), "1024m", Reload, "temporary file of one response; 0 is none (NGX-08)"),
    TunableSpec::new("fastcgi_connect_timeout", Duration(1, DAY_S), "60s", Reload, "for PHP to accept"),
    TunableSpec::new("fastcgi_read_timeout", Duration(1, DAY_S), "60s", Reload, "between two reads of the response (FPM-13, NGX-17)"),
];

#[rustfmt::skip]
const PROXY: &[TunableSpec] = &[
    TunableSpec::new("proxy_buffering", SWITCH, "on", Reload, "take the response before the client does"),
    TunableSpec::new("proxy_buffers", Text, "8 4k", Reload, "number and size of response buffers (NGX-08)"),
    TunableSpec::new("proxy_buffer_size", Bytes(1 << 10, 1 << 30), "4k", Reload, "buffer of the response's header (NGX-09)"),
    TunableSpec::new("proxy_busy_buffers_size", Bytes(1 << 10, 1 << 30), "8k", Reload, "of the buffers, busy sending (NGX-09)"),
    TunableSpec::new("proxy_max_temp_file_size", Bytes(0, 1 << 40), "1024m", Reload, "temporary file of one response; 0 is none (NGX-08)"),
    TunableSpec::new("proxy_connect_timeout", Duration(1, DAY_S), "60s", Reload, "for the web server to accept"),
    TunableSpec::new("proxy_read_timeout", Duration(1, DAY_S), "60s", Reload, "between two reads of the response (NGX-17)"),
];

/// From this version on, upstream connections are kept by default.
pub(super) const KEEPALIVE_BY_DEFAULT: [u32; 3] = [1, 29, 7];

/// Every tunable of a layer with the defaults of a version; an empty version is the newest.
pub(super) fn of(layer: Layer, nginx: &str) -> Vec<TunableSpec> {
    let own = if layer == Layer::Web { WEB } else { PROXY };
    let mut specs = [COMMON, own].concat();
    let newest = nginx.is_empty();
    let nginx = version(nginx);
    for spec in &mut specs {
        match spec.name {
            "upstream.keepalive" if newest || nginx >= KEEPALIVE_BY_DEFAULT => {
                spec.default = Some("32");
            }
            "keepalive_requests" | "upstream.keepalive_requests"
                if !newest && nginx < [1, 19, 10] =>
            {
                spec.default = Some("100");
            }
            _ => {}
        }
    }
    specs
}
