//! What tuning does next: how its time is divided, which values of a setting are worth trying, which combination of settings
//! comes next, and how large a pool must be.

mod budget;
mod levers;
mod sizes;
mod together;

pub use budget::{Costs, ToCome};
pub use levers::{Lever, MOST_LEVERS};
pub use sizes::PoolSizes;
pub use together::Together;
