//! Kneepoint's own form: what every other syntax is printed as.

use crate::{Syntax, canonical};

pub(crate) static SYNTAX: Syntax = Syntax {
    name: "kneepoint profile",
    example: "open const(50,60s) first=start arrivals=even",
    recognises: |text| {
        let kind = text.split_whitespace().next();
        kind == Some("open") || kind == Some("closed")
    },
    read: canonical::read,
};
