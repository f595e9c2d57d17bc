//! Local ports towards a peer: how many a layer holds, and whether the load itself would use them up.

use crate::evidence::{Evidence, Phase};
use kneepoint_model::ports::lasting_hz;
use kneepoint_model::units::format_share;
use kneepoint_model::{Layer, metric};

/// What a layer holds of its local ports towards one peer during a phase.
pub(crate) struct Use<'a> {
    /// When.
    pub(crate) phase: &'a Phase,
    /// Who holds them.
    pub(crate) layer: Layer,
    /// Towards whom.
    pub(crate) peer: String,
    /// How many, open and closed a moment ago.
    pub(crate) held: f64,
    /// How many there are.
    pub(crate) range: f64,
}

impl Use<'_> {
    /// Whether the connections opened in the phase itself would hold the cliff. Closed ones stay for a minute, so
    /// those of an earlier overload may still be there without being a matter of this load.
    pub(crate) fn keeps_up(&self) -> bool {
        let opened_hz = self.phase.series.rate(self.layer, metric::ACTIVE_OPENS);
        opened_hz.is_some_and(|hz| hz >= lasting_hz(self.range, 1.0))
    }
}

/// The kernel's function that looks for a free local port (net/ipv4/inet_hashtables.c).
const SEARCH: &str = "__inet_hash_connect";
/// Share of the kernel's work for a tier from which on that search is worth a word \[ours\].
const NOTICEABLE: f64 = 0.1;

/// That the kernel looks for free local ports most of its time.
pub(crate) struct PortSearch<'a> {
    /// In words.
    pub(crate) words: String,
    /// The part of the CPU of all tiers that it takes.
    pub(crate) part: f64,
    /// When.
    pub(crate) phase: &'a Phase,
}

/// How much of a layer's CPU just below the limit is the search for local ports; `None` where that is little, or nobody looked
/// into the kernel.
pub(crate) fn search(evidence: &Evidence, layer: Layer) -> Option<PortSearch<'_>> {
    let phase = evidence.knee()?;
    let mut accounts = evidence.native.iter();
    let native = accounts.find(|account| account.layer == Some(layer))?;
    let of_kernel = native
        .kernel_share(SEARCH)
        .filter(|share| *share >= NOTICEABLE)?;
    let in_kernel: u64 = native.kernel.iter().map(|stack| stack.samples).sum();
    let of_tier = of_kernel * in_kernel as f64 / native.samples.max(1) as f64;
    Some(PortSearch {
        words: format!(
            "{} of the kernel's work for the {layer} is the search for a free local port ({SEARCH})",
            format_share(of_kernel)
        ),
        part: of_tier * evidence.part_of_cpu(phase, &[(layer, phase.cores_used(layer)?)]),
        phase,
    })
}

/// Ports in TIME_WAIT for each connection opened in a phase, from which on this end closes them \[ours\].
const CLOSED_HERE: f64 = 0.5;

/// Part of the rate that does not last: closed connections of PHP towards a tier keep their local ports for a minute, and
/// beyond the cliff connecting collapses. 0 where the other end closes, ports are shared, or they last.
pub(crate) fn does_not_last(evidence: &Evidence, phase: &Phase, to: Layer, opened_hz: f64) -> f64 {
    let towards = |used: &Use<'_>| used.peer == to.name();
    let used = uses(evidence, phase, &[Layer::Php]).find(towards);
    let closed = |used: &Use<'_>| used.held >= CLOSED_HERE * opened_hz * phase.load.window_s;
    let lasting = used.filter(closed).map(|used| lasting_hz(used.range, 1.0));
    lasting.map_or(0.0, |lasting| (1.0 - lasting / opened_hz).max(0.0))
}

/// What these layers hold, for those that have a network of their own: on a shared one nobody can say whose a port is.
pub(crate) fn uses<'a>(
    evidence: &'a Evidence,
    phase: &'a Phase,
    layers: &'a [Layer],
) -> impl Iterator<Item = Use<'a>> {
    layers
        .iter()
        .copied()
        .filter(|layer| {
            evidence
                .stack
                .tier(*layer)
                .is_some_and(|tier| tier.own_network)
        })
        .flat_map(move |layer| {
            let range = phase.largest(layer, metric::PORT_RANGE);
            phase
                .series
                .all(layer, metric::TIME_WAIT)
                .filter_map(move |series| {
                    let open = phase
                        .series
                        .labelled(layer, metric::ESTABLISHED, &series.label);
                    Some(Use {
                        phase,
                        layer,
                        peer: series.label.clone(),
                        held: series.max()? + open.and_then(|open| open.max()).unwrap_or(0.0),
                        range: range.filter(|range| *range > 0.0)?,
                    })
                })
        })
}
