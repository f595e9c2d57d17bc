//! The program: reads its arguments and hands over.

use std::process::ExitCode;

fn main() -> ExitCode {
    // The lab's keeper is this same program, started again: it must be recognised before anything else.
    kneepoint_lab::keeper_entry();
    // So is a double.
    kneepoint_double::entry();
    // And an agent of a lab.
    kneepoint_agents::entry().unwrap_or_else(kneepoint::main)
}
