//! Whose the machine was while load ran: what a request took of its arm's CPU, and what others used meanwhile.

use crate::error::ExperimentError;
use crate::testbed::Testbed;
use crate::testbed::arm::doubles;
use crate::testbed::rehearse::nowhere::Nowhere;
use kneepoint_linux::machine::MemoryLeft;
use kneepoint_load::Progress;
use kneepoint_model::{LoadPoint, RunningTier};
use kneepoint_telemetry::CpuAccount;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// How often what others use is looked at during a step.
const A_SECOND: Duration = Duration::from_secs(1);
/// How often the machine is looked at, so that the last look before the end of a load is near it.
const A_MOMENT: Duration = Duration::from_millis(250);

/// What others did so far in a load.
pub(in crate::testbed) struct Others {
    last: Option<CpuAccount>,
    /// The most they used in a second, as a share of all cores.
    peak: Option<f64>,
}

/// The accounts of a load: of its whole, and of the time in which requests were sent.
struct Accounts {
    before: CpuAccount,
    begun: CpuAccount,
    /// The last before no more were sent.
    sending: CpuAccount,
    after: CpuAccount,
}

impl Others {
    /// A load begins at once where this process sends it; agents say when.
    pub(in crate::testbed) fn from(testbed: &Testbed) -> Self {
        let at_once = !testbed.senders.are_several();
        Self {
            last: at_once.then(|| testbed.cpu_account()).flatten(),
            peak: None,
        }
    }
}

impl Testbed {
    /// What others used in the last second, where a second has passed, and the most they did in any.
    pub(in crate::testbed) fn look_at_others(&self, others: &Mutex<Others>) {
        let mut others = others.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(known) = &others.last else {
            others.last = self.cpu_account();
            return;
        };
        if known.age() < A_SECOND {
            return;
        }
        if let Some(now) = self.cpu_account() {
            let used = now.foreign_cores_since(known) / self.machine.cpus();
            others.peak = Some(others.peak.map_or(used, |peak| peak.max(used)));
            others.last = Some(now);
        }
    }

    /// The most they used in a second of a load, without those who sent it.
    pub(in crate::testbed) fn peak_of(&self, others: &Others, point: &LoadPoint) -> Option<f64> {
        let own = self.senders.share_of_others(point, self.machine.cpus());
        others.peak.map(|peak| (peak - own).max(0.0))
    }

    /// Loads arms and says of each what a request took of the CPU, and what others took of the machine meanwhile. `load` says
    /// how its load goes. Agents agree on a moment first, and who waits for late responses may wait for the timeout: in both the
    /// stack has little to do, which says nothing of the load.
    pub(in crate::testbed) fn attended<const N: usize>(
        &self,
        names: &[&str; N],
        load: impl FnOnce(&(dyn Fn(&Progress) + Sync)) -> Result<[LoadPoint; N], ExperimentError>,
    ) -> Result<[LoadPoint; N], ExperimentError> {
        has_memory_left()?;
        for name in names {
            self.arm(name)?.drained.store(false, Ordering::Relaxed);
            self.resume_jobs(name)?;
        }
        let count = |name: &&str| Nowhere::of(&self.arms.get(*name)?.running);
        let nowhere: Vec<_> = names.iter().map(count).collect();
        let before = self.cpu_account();
        let begun = OnceLock::new();
        let sending = Mutex::new(None);
        let goes = |progress: &Progress| {
            if self.senders.are_several() {
                begun.get_or_init(|| {
                    let mut began = self.began.lock().unwrap_or_else(PoisonError::into_inner);
                    *began = Instant::now().checked_sub(progress.elapsed);
                    self.cpu_account()
                });
            }
            if progress.elapsed <= progress.total {
                self.look_again(&sending);
            }
        };
        let loaded = load(&goes);
        let after = self.cpu_account();
        names.iter().try_for_each(|name| self.rest_jobs(name))?;
        let mut points = loaded?;
        let begun = begun.into_inner().flatten().or_else(|| before.clone());
        let sending = sending.into_inner().unwrap_or_else(PoisonError::into_inner);
        let accounts = before.zip(begun).zip(after);
        let accounts = accounts.map(|((before, begun), after)| Accounts {
            sending: sending
                .filter(|it: &CpuAccount| it.since(&begun) >= A_SECOND)
                .unwrap_or_else(|| after.clone()),
            before,
            begun,
            after,
        });
        let cores = self.machine.cpus();
        let of_senders = |point| self.senders.share_of_others(point, cores);
        let own: f64 = points.iter().map(of_senders).sum();
        for ((name, point), nowhere) in names.iter().zip(&mut points).zip(nowhere) {
            let arm = self.arm(name)?;
            if let Some((before, after)) = nowhere.zip(Nowhere::of(&arm.running)) {
                *self.nowhere.lock().unwrap_or_else(PoisonError::into_inner) += after - before;
            }
            if let Some(accounts) = &accounts {
                accounts.note(point, &arm.running, own, cores);
            }
            if point.outcomes.failed() > 0 {
                arm.check_alive(name, &self.lab)?;
            }
        }
        Ok(points)
    }

    /// Takes a new account where the last is older than a moment.
    fn look_again(&self, last: &Mutex<Option<CpuAccount>>) {
        let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
        if last.as_ref().is_none_or(|known| known.age() >= A_MOMENT) {
            *last = self.cpu_account();
        }
    }

    /// What ran on the machine so far, of the lab and in all.
    fn cpu_account(&self) -> Option<CpuAccount> {
        let tiers = self.arms.values().flat_map(|arm| &arm.running);
        let arms = self.arms.iter();
        let doubles = arms.flat_map(|(name, arm)| doubles::accounts(name, arm, &self.lab));
        let own: Vec<_> = doubles.chain(self.senders.processes.clone()).collect();
        CpuAccount::read_with(tiers, &own)
    }
}

/// No load begins on a machine that runs out of memory: its kernel would end other programs for it.
fn has_memory_left() -> Result<(), ExperimentError> {
    match MemoryLeft::now().and_then(|left| left.shortage()) {
        Some(shortage) => Err(ExperimentError::Died {
            arm: None,
            words: format!(
                "{shortage}, so no further load is driven. What was measured before is kept. Give the tiers less ([hosts] \
                 memory, [tune] memory), or use a larger machine"
            ),
        }),
        None => Ok(()),
    }
}

impl Accounts {
    /// Notes what a request took of the CPU time of its own arm, and whose the rest of the machine was; `own` of it was
    /// whoever sent.
    fn note(&self, point: &mut LoadPoint, tiers: &[RunningTier], own: f64, cores: f64) {
        let others = self.sending.foreign_cores_since(&self.begun) / cores - own;
        point.health.foreign_share = Some(others.max(0.0));
        point.health.idle_share = Some(self.sending.idle_cores_since(&self.begun) / cores);
        let served = point.served_in_all();
        let is_own = |pid| tiers.iter().any(|tier| tier.pid == pid);
        let stack_s = self.after.for_requests_s_since(&self.before, is_own);
        point.cpu_ms = (served > 0).then(|| stack_s * 1e3 / served as f64);
    }
}
