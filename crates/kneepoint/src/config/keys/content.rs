//! Keys of what is sent, by whom, and what is expected.

use super::{EXPECT, Key, REQUEST, TOP, key};

const MULTIPART: &[&str] = &["request.multipart"];
const CAPTURE: &[&str] = &["request.capture"];
const FEEDER: &[&str] = &["feeder"];
const SESSION: &[&str] = &["session"];
const THINK_TIME: &[&str] = &["think_time"];
const PEER: &[&str] = &["peer"];
const JOB: &[&str] = &["job"];

/// In the order of the reference.
pub(super) const KEYS: &[Key] = &[
    key(
        TOP,
        "changes",
        "`{ \"db.sql.orders_by_customer\" = \"CREATE INDEX orders_by_customer ON orders (customer_id)\" }`",
        "none",
        "Changes that are no setting of a server, by name: `db.sql.NAME` is a statement that the lab's database runs after \
         its seed, `app.line.FILE:LINE` the text of that line and `app.run.NAME` a command in the application's directory, \
         both in the private copy. Remedies are of these kinds, too.",
    ),
    key(
        TOP,
        "users",
        "`100`, from 1 to 1000000",
        "`100`",
        "How many users' cookie jars take turns; visitors of a [[session]] each begin with an empty one. Stands before the first [table] of the file.",
    ),
    key(
        TOP,
        "mix",
        "`\"access.log\"`",
        "the [[request]] tables",
        "Learns the mix from an access log of nginx or Apache, gzip or not, in place of [[request]] tables: the GET and HEAD requests of its 100 most frequent routes, each with some of its real paths. Every request stands for itself: visits and think times are replayed by `kneepoint load`. Stands before the first [table] of the file.",
    ),
    key(
        TOP,
        "mix_format",
        "`'$remote_addr $msec $request_time \"$request\" $status'`",
        "seen in the log's first lines",
        "Format of the log of `mix`: common, combined, vhost_combined, main, json, or the text of nginx's log_format or Apache's LogFormat.",
    ),
    key(
        REQUEST,
        "name",
        "`\"login\"`",
        "none",
        "Name by which a [[session]] refers to it.",
    ),
    key(
        REQUEST,
        "multipart",
        "array of tables",
        "none",
        "Parts of a form with files, sent as multipart/form-data.",
    ),
    key(
        REQUEST,
        "json",
        "`{ user = \"{{users.name}}\", stay = true }`",
        "none",
        "Body as JSON. Variables stand within strings, escaped.",
    ),
    key(
        REQUEST,
        "body_file",
        "`\"upload.bin\"`",
        "none",
        "File whose content is the body as sent, variables and all. A request has one body.",
    ),
    key(
        REQUEST,
        "capture",
        "`{ csrf = { cookie = \"XSRF-TOKEN\" } }`",
        "none",
        "Values taken from a good response, by name, for later requests of the same user: `{{csrf}}` in a path \
         (percent-encoded), header, form (encoded) or body. A response without one counts as wrong, and a request that \
         needs one which was never captured is not sent and counts as failed.",
    ),
    key(
        REQUEST,
        "client_mbit",
        "`1.6`, in Mbit/s",
        "as fast as it comes",
        "What the line of the client who asks for it carries. It comes with a connection of its own, and reads its \
         response no faster; the response time and the timeout include what the line takes. A Linux server has to wait for it \
         only beyond what its kernel buffers, about a megabyte. Pages that are asked for before the load come at full \
         speed. For HTTP/1.1 over TCP.",
    ),
    key(
        MULTIPART,
        "name",
        "`\"photo\"`",
        "required",
        "Name of the field.",
    ),
    key(
        MULTIPART,
        "value",
        "text",
        "required without `file`",
        "What it holds.",
    ),
    key(
        MULTIPART,
        "file",
        "`\"photo.png\"`",
        "required without `value`",
        "File it holds.",
    ),
    key(
        MULTIPART,
        "filename",
        "`\"me.png\"`",
        "the file's own name",
        "Name of the file as the server is told.",
    ),
    key(
        MULTIPART,
        "type",
        "`\"image/png\"`",
        "`application/octet-stream` for a file",
        "Content type of the part.",
    ),
    key(
        CAPTURE,
        "body_between",
        "`['name=\"_token\" value=\"', '\"']`",
        "none",
        "The value stands in the body between the first occurrence of one text and the next of the other; at most 8 KiB.",
    ),
    key(
        CAPTURE,
        "header",
        "`\"X-CSRF-Token\"`",
        "none",
        "The value is that of a header.",
    ),
    key(
        CAPTURE,
        "json",
        "`\"/data/token\"`",
        "none",
        "The value is where a JSON pointer leads in the body, of at most 1 MiB: a string, number or boolean.",
    ),
    key(
        CAPTURE,
        "cookie",
        "`\"XSRF-TOKEN\"`",
        "none",
        "The value is that of the user's cookie after the response, percent-decoded as scripts in browsers do.",
    ),
    key(
        EXPECT,
        "header",
        "`{ X-Cache = \"HIT\", ETag = true }`",
        "anything",
        "Headers it must have, with text their value must contain or `true`.",
    ),
    key(
        EXPECT,
        "body_lacks",
        "`[\"Fatal error\", \"Warning:\"]`",
        "nothing",
        "Text its body must not contain, or a list of such.",
    ),
    key(
        EXPECT,
        "body_min",
        "`500` or `\"2K\"`",
        "any length",
        "Least length of its body on the wire.",
    ),
    key(
        TOP,
        "feeder",
        "tables by name",
        "none",
        "Tables that variables take their values from: `{{users.name}}` is the column `name` of [feeder.users].",
    ),
    key(
        FEEDER,
        "file",
        "`\"users.csv\"`",
        "required",
        "CSV file in UTF-8 whose first line names the columns.",
    ),
    key(
        FEEDER,
        "order",
        "`in-turn` or `random`",
        "`in-turn`",
        "Which row comes next: one after the other, from the first again after the last, or drawn. A visitor of a \
         [[session]] takes a row for his visit, a user of a request with `session` keeps his, and any other request \
         takes a row for itself.",
    ),
    key(
        TOP,
        "session",
        "array of tables",
        "none: every request stands for itself",
        "Visitors who make several requests each, with cookies and captured values of their own.",
    ),
    key(
        SESSION,
        "name",
        "`\"buyer\"`",
        "`session 1`",
        "Name for reports.",
    ),
    key(
        SESSION,
        "weight",
        "`8`",
        "`1`",
        "Share of the visitors, relative to the other weights.",
    ),
    key(
        SESSION,
        "requests",
        "`[\"login\", \"cart\"]`",
        "required",
        "The requests of a visit in order, by name. Their own weights count no more.",
    ),
    key(
        TOP,
        "think_time",
        "`\"300ms\"` or a table",
        "no pause",
        "Pause between a response and the visitor's next request. Stands before the first [table] of the file.",
    ),
    key(
        THINK_TIME,
        "mean",
        "`\"2s\"`",
        "required",
        "Mean of exponentially distributed pauses, as independent visitors make.",
    ),
    key(
        TOP,
        "peer",
        "array of tables",
        "none",
        "Doubles: what stands in the lab for somebody outside whom the application must talk to.",
    ),
    key(
        PEER,
        "host",
        "`\"api.example.org\"`",
        "required",
        "The name, or the IPv4 address, by which the application asks for it. The lab's own list of hosts has the name; a \
         library that asks a nameserver itself does not read it.",
    ),
    key(
        PEER,
        "kind",
        "`http` or `smtp`",
        "required",
        "What it speaks. It has no certificate, so that nobody can ask it over TLS.",
    ),
    key(
        PEER,
        "port",
        "`8080`",
        "`80` for http, `25` for smtp",
        "The port it listens on.",
    ),
    key(
        PEER,
        "latency",
        "`\"80ms\"`",
        "none",
        "How long it takes for an answer, beside what the machine takes.",
    ),
    key(
        PEER,
        "capacity",
        "`20`",
        "`1000`",
        "How many requests, or mails, it serves at once; the others wait.",
    ),
    key(
        PEER,
        "status",
        "`200`",
        "`200`",
        "The status of its answers (http).",
    ),
    key(
        PEER,
        "body",
        "text",
        "`{}`",
        "The body of its answers (http), as JSON where it begins like that.",
    ),
    key(
        TOP,
        "job",
        "array of tables",
        "none",
        "What runs beside the requests, on the host of PHP: cron jobs, queue workers, a backup.",
    ),
    key(
        JOB,
        "name",
        "`\"backup\"`",
        "`job 1`",
        "What it is called in messages.",
    ),
    key(
        JOB,
        "run",
        "`\"php artisan schedule:run\"`",
        "required",
        "The command, for a shell, in the directory of the application's private copy and with the application's environment \
         and user, so that DB_HOST and so on are there. It takes from the cores of PHP's host like any other process.",
    ),
    key(
        JOB,
        "every",
        "`\"10s\"`",
        "started again one second after it has ended, as a queue worker is",
        "From one start to the next; one that takes longer is started again when it has ended. It is tried once before the \
         load, and the run is refused where it fails. The first start in the load is so long after the rehearsal.",
    ),
];
