//! What the numbers hold for: the machine, the generator, the noise, every step, and the journal.

pub(crate) mod html;
pub(crate) mod journal;
pub(crate) mod markdown;
pub(crate) mod steps;
pub(crate) mod terminal;
