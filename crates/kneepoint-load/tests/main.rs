//! The load engine on scripted and real servers: one program, so that it is linked once.
//! Apart are the tests that bear nothing beside them (`stall`, `many_connections`).

mod clients {
    mod sessions;
    mod slow_line;
}
mod closed_loop;
mod common;
mod content;
mod http2;
mod open_loop;
mod pitfalls;
mod real_servers;
mod tls;
mod watching;
