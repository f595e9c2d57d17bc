//! Causes that take more than a rule's page to find or to name.

mod commits;
pub(crate) mod database;
pub(crate) mod index;
mod left_out;
mod named_lock;
mod pauses;
mod repeated;
mod saved_work;
mod slow_tier;
mod sql;
mod taker;
pub(crate) mod unprepared;

pub(crate) use commits::commits;
pub(crate) use left_out::left_out;
pub(crate) use named_lock::named_lock;
pub(crate) use pauses::pauses;
pub(crate) use repeated::Repeated;
pub(crate) use saved_work::{Saved, most_saved_work};
pub(crate) use slow_tier::{mostly_waits, slow_peer};
pub(crate) use sql::{counted_whole, table_of};
pub(crate) use taker::Taker;
pub(crate) use unprepared::Preparation;
