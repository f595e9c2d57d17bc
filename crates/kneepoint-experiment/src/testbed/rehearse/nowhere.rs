//! Attempts to connect that led nowhere, as the kernel counts them for the network of PHP's host: during load nobody is
//! stopped to be looked at, so there are counts and no names.
//!
//! A socket of the file system that is not there is in no counter.

use crate::record::Recorder;
use crate::testbed::Testbed;
use kneepoint_linux::network;
use kneepoint_model::{Layer, RunningTier};
use std::ops::{AddAssign, Sub};

/// Attempts so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(in crate::testbed) struct Nowhere {
    /// Without a way to the address.
    no_way: u64,
    /// To an address of a host of the lab where nobody listens.
    refused: u64,
    /// Packets to the host itself where nobody listens: questions for names.
    names: u64,
}

impl Nowhere {
    /// The counters of a host with a network of its own; nothing where they would be the machine's.
    pub(in crate::testbed) fn of(tiers: &[RunningTier]) -> Option<Self> {
        let mut tiers = tiers.iter();
        let php = tiers.find(|tier| tier.layer == Layer::Php && tier.netns.is_some())?;
        let read = |name: &str| {
            let path = format!("/proc/{}/net/{name}", php.pid);
            std::fs::read_to_string(path).unwrap_or_default()
        };
        Some(Self::parse(&read("snmp"), &read("snmp6")))
    }

    fn parse(snmp: &str, snmp6: &str) -> Self {
        let in_table =
            |table, column| network::parse_counter(snmp.as_bytes(), table, column).unwrap_or(0);
        let v6 = |name: &str| {
            let mut lines = snmp6
                .lines()
                .filter_map(|line| line.split_once(char::is_whitespace));
            let found = lines.find(|(known, _)| *known == name);
            found.and_then(|(_, count)| count.trim().parse().ok())
        };
        Self {
            no_way: in_table("Ip", "OutNoRoutes") + v6("Ip6OutNoRoutes").unwrap_or(0),
            refused: in_table("Tcp", "AttemptFails"),
            names: in_table("Udp", "NoPorts") + v6("Udp6NoPorts").unwrap_or(0),
        }
    }

    /// What is doubtful about loads during which there were so many.
    fn doubt(self, expected: &[String]) -> Option<String> {
        let counts = [
            (self.no_way, "to addresses beyond the lab"),
            (self.refused, "to where nobody listens"),
            (self.names, "questions for names that nobody answers"),
        ];
        let told: Vec<String> = counts
            .iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, what)| format!("{count} {what}"))
            .collect();
        if told.is_empty() {
            return None;
        }
        let what = told.join(", ");
        Some(match expected {
            [] => format!(
                "under load, PHP made attempts to connect that led nowhere ({what}), which the rehearsal did not: a part of \
                 what was measured is errors, or waits for them. `kneepoint profile --calls` names the line of PHP"
            ),
            names => format!(
                "under load, PHP made attempts to connect that led nowhere ({what}), as [app] unreachable allows for {}: what \
                 was measured includes them",
                names.join(", ")
            ),
        })
    }
}

impl AddAssign for Nowhere {
    fn add_assign(&mut self, more: Self) {
        self.no_way += more.no_way;
        self.refused += more.refused;
        self.names += more.names;
    }
}

impl Sub for Nowhere {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        Self {
            no_way: self.no_way.saturating_sub(before.no_way),
            refused: self.refused.saturating_sub(before.refused),
            names: self.names.saturating_sub(before.names),
        }
    }
}

impl Testbed {
    /// Says what attempts of PHP led nowhere during all load so far, where there were any.
    pub fn tell_nowhere(&self, recorder: &mut Recorder<'_>) {
        if let Some(doubt) = self.nowhere().doubt(&self.scenario.unreachable) {
            recorder.warn(doubt);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_read_and_told_in_words() {
        let snmp = "Ip: Forwarding OutNoRoutes\nIp: 1 7\nTcp: AttemptFails\nTcp: 3\nUdp: InDatagrams NoPorts\nUdp: 9 4\n";
        let after = Nowhere::parse(snmp, "Ip6OutNoRoutes   \t2\nUdp6NoPorts\t1\n");
        let expected = Nowhere {
            no_way: 9,
            refused: 3,
            names: 5,
        };
        assert_eq!(after, expected);
        assert_eq!(Nowhere::parse("", ""), Nowhere::default());
        let during = after - Nowhere { names: 5, ..after };
        assert_eq!(during.doubt(&[]), None);
        let during = after
            - Nowhere {
                no_way: 1,
                refused: 3,
                names: 5,
            };
        let doubt = during.doubt(&[]).expect("8 led nowhere");
        assert!(doubt.contains("(8 to addresses beyond the lab)"), "{doubt}");
        let doubt = during.doubt(&["api.example.test".to_owned()]);
        assert!(
            doubt
                .expect("8 led nowhere")
                .contains("for api.example.test")
        );
    }
}
