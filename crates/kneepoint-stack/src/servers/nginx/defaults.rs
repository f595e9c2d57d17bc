//! The configuration a tier has when its user brings none: what a careful team would write.

use super::{USER, spelled};
use crate::TierContext;
use kneepoint_model::{Address, Layer};

/// Room for that many connections a worker, and files for two ends of each (catalogue NGX-01, NGX-02).
const WORKER_CONNECTIONS: u32 = 4096;

/// The content types a PHP site serves as files.
const TYPES: &[(&str, &str)] = &[
    ("text/html", "html htm"),
    ("text/css", "css"),
    ("text/plain", "txt"),
    ("text/xml", "xml"),
    ("application/javascript", "js mjs"),
    ("application/json", "json map"),
    ("application/pdf", "pdf"),
    ("application/wasm", "wasm"),
    ("font/woff2", "woff2"),
    ("font/woff", "woff"),
    ("image/avif", "avif"),
    ("image/gif", "gif"),
    ("image/jpeg", "jpeg jpg"),
    ("image/png", "png"),
    ("image/svg+xml", "svg"),
    ("image/webp", "webp"),
    ("image/x-icon", "ico"),
];

/// The CGI variables PHP reads, and where nginx has them.
const FASTCGI_PARAMS: &[(&str, &str)] = &[
    ("SCRIPT_FILENAME", "$document_root$fastcgi_script_name"),
    ("SCRIPT_NAME", "$fastcgi_script_name"),
    ("PATH_INFO", "$fastcgi_path_info"),
    ("QUERY_STRING", "$query_string"),
    ("REQUEST_METHOD", "$request_method"),
    ("CONTENT_TYPE", "$content_type"),
    ("CONTENT_LENGTH", "$content_length"),
    ("REQUEST_URI", "$request_uri"),
    ("DOCUMENT_URI", "$document_uri"),
    ("DOCUMENT_ROOT", "$document_root"),
    ("SERVER_PROTOCOL", "$server_protocol"),
    ("REQUEST_SCHEME", "$scheme"),
    ("HTTPS", "$https if_not_empty"),
    ("GATEWAY_INTERFACE", "CGI/1.1"),
    ("SERVER_SOFTWARE", "nginx/$nginx_version"),
    ("REMOTE_ADDR", "$remote_addr"),
    ("REMOTE_PORT", "$remote_port"),
    ("SERVER_ADDR", "$server_addr"),
    ("SERVER_PORT", "$server_port"),
    ("SERVER_NAME", "$server_name"),
    // A client's `Proxy:` header must not become the proxy of the application's own requests.
    ("HTTP_PROXY", "\"\""),
    // A PHP built to be called by redirect only wants to see one.
    ("REDIRECT_STATUS", "200"),
];

/// The main file without servers; it also carries a user's file that has servers and nothing around them.
pub(super) fn main(workers: u32) -> String {
    let files = 2 * WORKER_CONNECTIONS;
    format!(
        "user {USER};\nworker_processes {workers};\nworker_rlimit_nofile {files};\n\n\
         events {{\n    worker_connections {WORKER_CONNECTIONS};\n}}\n\n\
         http {{\n    types {{\n{}    }}\n    default_type application/octet-stream;\n\n    \
         sendfile on;\n    tcp_nopush on;\n    keepalive_timeout 65s;\n    server_tokens off;\n    \
         access_log /var/log/nginx/access.log combined buffer=64k flush=1s;\n}}\n",
        TYPES
            .iter()
            .map(|(kind, names)| format!("        {kind} {names};\n"))
            .collect::<String>(),
    )
}

/// The whole file.
pub(super) fn text(context: &TierContext) -> String {
    let workers = context.cpus.ceil().max(1.0) as u32;
    let main = main(workers);
    let inside = main.strip_suffix("}\n").unwrap_or(&main);
    let servers = match (&context.upstream, context.layer) {
        (Some(web), Layer::Proxy) => proxy(web),
        (Some(php), _) => web(context, Some(php)),
        (None, _) => web(context, None),
    };
    format!("{inside}\n{servers}}}\n")
}

fn proxy(web: &Address) -> String {
    format!(
        "    upstream web {{\n        server {};\n        keepalive 32;\n    }}\n\n    \
         server {{\n        listen 80;\n\n        location / {{\n            \
         proxy_pass http://web;\n            proxy_http_version 1.1;\n            \
         proxy_set_header Connection \"\";\n            proxy_set_header Host $host;\n            \
         proxy_set_header X-Real-IP $remote_addr;\n            \
         proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;\n            \
         proxy_set_header X-Forwarded-Proto $scheme;\n        }}\n    }}\n",
        spelled(web),
    )
}

fn web(context: &TierContext, php: Option<&Address>) -> String {
    let root = crate::text::nginx::quote(&context.app.document_root().to_string_lossy());
    let front = context.app.front_name();
    let Some(php) = php else {
        return format!(
            "    server {{\n        listen 80;\n        root {root};\n        index index.html;\n\n        \
             location / {{\n            try_files $uri $uri/ =404;\n        }}\n    }}\n"
        );
    };
    let index = context.app.index_names();
    let params: String = FASTCGI_PARAMS
        .iter()
        .map(|(name, value)| format!("            fastcgi_param {name} {value};\n"))
        .collect();
    format!(
        "    upstream php {{\n        server {};\n    }}\n\n    \
         server {{\n        listen 80;\n        root {root};\n        index {index};\n\n        \
         location / {{\n            try_files $uri $uri/ /{front}$is_args$args;\n        }}\n\n        \
         location ~ [^/]\\.php(/|$) {{\n            fastcgi_split_path_info ^(.+?\\.php)(/.*)$;\n            \
         fastcgi_pass php;\n{params}        }}\n    }}\n",
        spelled(php),
    )
}
