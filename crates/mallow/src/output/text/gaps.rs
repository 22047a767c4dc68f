//! What a recording lacks, in sentences.

use super::units::of;

/// One for each thing: the file stops before the run did, events are lost, records made no sense.
pub fn lacks(cut_short: Option<&str>, lost: u64, damaged: u64) -> impl Iterator<Item = String> {
    let cut = cut_short.map(|why| format!("The recording is cut short: {why}. Numbers are those up to the cut."));
    let lost = (lost > 0).then(|| format!("{} could not be recorded: the true numbers are higher.", of(lost, "event")));
    let damaged =
        (damaged > 0).then(|| format!("Skipped, because the target had written over it: {}.", of(damaged, "record")));
    [cut, lost, damaged].into_iter().flatten()
}
