//! What the lab promises, on real namespaces, control groups and servers.
//!
//! The binary is its own keeper (as every program with a lab is), and its own victim and unprivileged helper.

#![expect(
    clippy::disallowed_methods,
    reason = "what is tested is how processes end, so they are started from outside too"
)]

mod closed;
mod endings;
mod hosts;
mod loopback;
mod servers;
mod support;

use libtest_mimic::{Arguments, Failed, Trial};
use std::process::ExitCode;

type Test = fn() -> Result<(), Failed>;

/// Needs namespaces, so needs root.
const AS_ROOT: &[(&str, Test)] = &[
    ("hosts_reach_each_other_and_nothing_else", hosts::reach),
    ("each_host_has_its_own_sysctls", hosts::sysctls),
    ("no_socket_of_the_machine_is_reached", closed::sockets),
    ("nothing_outside_the_lab_is_written", closed::files),
    ("semaphores_stay_in_the_lab", closed::memory),
    ("no_process_of_the_machine_is_seen", closed::processes),
    ("a_planted_log_is_not_opened", closed::planted_log),
    ("a_lab_is_listed_by_root_alone", closed::directories),
    ("a_cpu_limit_throttles", hosts::cpu_limit),
    ("a_memory_limit_kills_and_is_named", hosts::memory_limit),
    ("a_link_carries_what_it_may", hosts::link_limit),
    ("a_disk_does_what_it_may", hosts::disk_limit),
    ("hosts_come_and_go", hosts::come_and_go),
    ("two_labs_do_not_see_each_other", hosts::two_labs),
    ("a_server_is_started_reloaded_and_stopped", servers::life),
    (
        "a_server_that_does_not_become_ready_is_quoted",
        servers::not_ready,
    ),
    ("a_server_runs_as_its_user", servers::user),
    ("fpm_is_reloaded_in_place", servers::fpm),
    (
        "postgresql_is_made_and_run_by_its_user",
        servers::postgresql,
    ),
    (
        "commands_run_to_their_end_or_their_timeout",
        servers::commands,
    ),
    ("an_ended_lab_leaves_nothing", endings::orderly),
    ("a_panic_leaves_nothing", endings::panic),
    ("ctrl_c_leaves_nothing", endings::interrupt),
    (
        "sigkill_at_any_moment_leaves_nothing",
        endings::killed_at_random,
    ),
    (
        "a_killed_keeper_is_cleaned_up_after",
        endings::killed_keeper,
    ),
    ("a_stopped_keeper_is_given_up", endings::stopped_keeper),
    (
        "clean_removes_the_dead_and_spares_the_living",
        endings::clean,
    ),
];

const AS_ANYONE: &[(&str, Test)] = &[
    ("loopback_works_without_root", loopback::unprivileged),
    ("loopback_can_be_asked_for", loopback::forced),
    (
        "loopback_survives_the_keepers_death",
        loopback::killed_keeper,
    ),
];

fn main() -> ExitCode {
    kneepoint_lab::keeper_entry();
    let mode: Vec<String> = std::env::args().skip(1).collect();
    match mode.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["__victim", how] => return endings::victim(how),
        ["__unprivileged"] => return loopback::helper(),
        _ => {}
    }
    let root = support::is_root();
    let trial = |(name, test): &(&str, Test)| Trial::test(*name, *test);
    let mut trials: Vec<Trial> = AS_ANYONE.iter().map(trial).collect();
    trials.extend(AS_ROOT.iter().map(|it| {
        let kind = if root { "" } else { "skipped: needs root" };
        trial(it).with_kind(kind).with_ignored_flag(!root)
    }));
    let mut arguments = Arguments::from_args();
    // The machine has few cores, and these tests load it.
    arguments.test_threads.get_or_insert(2);
    libtest_mimic::run(&arguments, trials).exit_code()
}
