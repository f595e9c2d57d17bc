//! What `explain` tells of a code that only a line of a log has, and no rule of its own.

/// What a line of a log is about, and how it shows.
pub(crate) struct LogPage {
    pub(crate) code: &'static str,
    /// What it is and why it costs, for somebody who has never heard of it.
    pub(crate) what_it_is: &'static str,
    /// The line itself, and what visitors meet.
    pub(crate) how_it_shows: &'static str,
}

pub(crate) static LOG_PAGES: [LogPage; 7] = [
    LogPage {
        code: "FPM-08",
        what_it_is: "nginx could not connect to the next tier before fastcgi_connect_timeout or proxy_connect_timeout had \
            passed, 60 s by default: the queue of the listener there was full and the kernel dropped the attempts, or packets \
            were lost on the way.",
        how_it_shows: "`upstream timed out (110: Connection timed out) while connecting to upstream` in nginx's error log; \
            visitors wait, and then get 504.",
    },
    LogPage {
        code: "FPM-24",
        what_it_is: "nginx handed a request to an address or a Unix socket at which nobody listened: PHP, or another server \
            behind nginx, was down, was just starting, or listens elsewhere.",
        how_it_shows: "`connect() failed (111: Connection refused)`, or `(2: No such file or directory)` for a Unix socket, \
            `while connecting to upstream` in nginx's error log; visitors get 502 at once.",
    },
    LogPage {
        code: "NGX-08",
        what_it_is: "nginx keeps a response in memory until the client has taken it. What does not fit fastcgi_buffers or \
            proxy_buffers, it writes to a temporary file. Nothing fails; each large response costs writes to the disk and \
            reads from it.",
        how_it_shows: "`an upstream response is buffered to a temporary file` in nginx's error log, as a warning; files come \
            and go below fastcgi_temp_path or proxy_temp_path.",
    },
    LogPage {
        code: "NGX-09",
        what_it_is: "nginx reads the header of a response into one buffer, fastcgi_buffer_size or proxy_buffer_size: 4 or 8 kB \
            by default. A larger header does not fit, so nginx throws the response away and answers 502, though PHP had made \
            the page.",
        how_it_shows: "`upstream sent too big header while reading response header from upstream` in nginx's error log; \
            the same pages, or the same visitors, get 502 again and again.",
    },
    LogPage {
        code: "NGX-19",
        what_it_is: "limit_req or limit_conn of nginx refused requests, as somebody configured it: more came at once than the \
            limit allows.",
        how_it_shows: "`limiting requests, excess: ...` or `limiting connections by zone ...` in nginx's error log; those who \
            are refused get 503, or what limit_req_status and limit_conn_status say.",
    },
    LogPage {
        code: "RT-06",
        what_it_is: "PHP or an extension wrote where it may not, and overwrote what PHP keeps of its own memory. PHP notices \
            that some time later, and ends the worker with the request it serves then.",
        how_it_shows: "`zend_mm_heap corrupted` in the log of PHP, PHP-FPM or Apache; the visitor of that request gets 502, or \
            no answer at all.",
    },
    LogPage {
        code: "RT-09",
        what_it_is: "PHP used a connection to a database or to Redis that the server had closed. It meets those who keep \
            connections open for long: the server closes one that is idle for too long, and all of them when it is restarted.",
        how_it_shows: "`server has gone away`, `server closed the connection unexpectedly`, `SSL connection has been closed \
            unexpectedly` or `Redis server ... went away` in PHP's log; the page that used the connection mostly ends with \
            status 500.",
    },
];
