//! What three rules share: a cache that is told to be larger than the memory there is for it.

use super::prelude::*;

/// The directive that says how large a cache is, and how much of the memory it may be.
pub(crate) struct MemoryShare {
    pub(crate) kind: ServiceKind,
    pub(crate) name: &'static str,
    /// Its value where nobody wrote one.
    pub(crate) usual: &'static str,
    /// Bytes of a bare number: PostgreSQL counts pages.
    pub(crate) unit_bytes: f64,
    /// Largest part of the memory, from 0 to 1.
    pub(crate) most: f64,
    /// What is beside the cache, for the cost.
    pub(crate) beside: &'static str,
}

impl MemoryShare {
    /// Finds the caches that do not fit.
    pub(crate) fn check(
        &self,
        rule: &'static CheckRule,
        snapshot: &Snapshot,
        found: &mut Vec<CheckFinding>,
    ) {
        for (at, service) in snapshot.of(self.kind) {
            let value = service.settings.or(self.name, self.usual);
            let bare = value.text.trim().parse::<f64>().ok();
            let bytes = bare.map(|count| count * self.unit_bytes);
            let Some(bytes) = bytes.or_else(|| value.bytes()) else {
                continue;
            };
            let memory = service.memory_bytes(&snapshot.machine);
            if memory <= 0.0 || bytes <= memory * self.most {
                continue;
            }
            let right = memory * self.most * 0.8;
            rule.at(snapshot, at, Severity::Risk)
                .value(self.name, &value)
                .seen(
                    format!("{} may be used in all", format_bytes(memory as u64)),
                    service.memory_source(),
                )
                .cost(format!(
                    "{:.0} % of the memory for this alone; {} comes on top: the machine swaps, or the kernel kills it",
                    bytes / memory * 100.0,
                    self.beside
                ))
                .fix(self.fix(service, &value, right))
                .weight(0.3)
                .tell(found);
        }
    }

    /// So many bytes, where what is kept now fits them.
    fn fix(&self, service: &Service, value: &SettingValue, right: f64) -> Fix {
        match service.pss.filter(|held| *held > right) {
            Some(held) => Fix::words(format!(
                "It holds {} already, and {} would be right here. Give it more memory, or have it keep less, before {} is lowered: \
                 below what it holds it refuses writes, or throws entries away, at once.",
                format_bytes(held as u64),
                format_bytes(right as u64),
                self.name
            )),
            None => Fix::line(service, value, &self.line(right)),
        }
    }

    /// The directive with so many bytes, as its program writes it.
    fn line(&self, bytes: f64) -> String {
        let megabytes = (bytes / 1_048_576.0).floor();
        match self.kind {
            ServiceKind::Redis => format!("{} {megabytes:.0}mb", self.name),
            ServiceKind::Postgresql => format!("{} = {megabytes:.0}MB", self.name),
            _ => format!("{} = {megabytes:.0}M", self.name),
        }
    }
}
