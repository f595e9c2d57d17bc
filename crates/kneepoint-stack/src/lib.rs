//! Reads and writes the configuration of server programs: proxies and web servers, PHP runtimes with php.ini, caches,
//! databases; and what an application's own files of settings say.
//!
//! This crate alone knows their formats, directives, defaults and consistency rules. From a [`TierContext`] it
//! renders a tier: every file, the process to start, how to check, reload, seed and stop it, and the doors
//! telemetry may use. An existing configuration is kept as it is, comments included; a change touches only
//! its directive.
//!
//! It must never start or signal a process (commands go through [`kneepoint_model::Commands`], servers are
//! described as [`kneepoint_model::ProcessSpec`]), never write outside a tier's private directory, and never
//! judge a value: whether 5 children are too few is for the diagnosis to say.

pub mod application;
pub mod credentials;
pub mod detect;
mod error;
mod install;
mod php;
mod seed;
mod server;
mod servers;
pub mod text;
mod tier;
mod tunable_spec;

pub use error::StackError;
pub use install::install;
pub use php::app_env;
pub use seed::unpack_seed;
pub use server::Server;
pub use servers::{SERVERS, server};
pub use tier::{
    AppContext, ConfigFile, ConfigText, DirSpec, NGINX_ACCESS_LOG, PHP_USER, Program, RenderedTier,
    TierContext, php_user,
};
