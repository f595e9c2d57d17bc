//! Requests as bytes, made ready before a load.

mod body;
mod builder;
mod template;
mod variables;

pub(crate) use template::RequestTemplate;
pub(crate) use variables::{NoValue, RequestId, Values};
