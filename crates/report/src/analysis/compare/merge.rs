//! Several profiles as one: of runs, of hosts, of tools.

use mallow_profile::{
    Counts, Frame, FrameId, Line, Module, ModuleId, Origin, Precisions, Process, ProcessId, Profile, Quantities,
    Quantity, Site, StackId, Stacks, add_precisions,
};
use rustc_hash::FxHashMap;

use crate::analysis::stacks::narrow::add_up;

const BETWEEN: &str = "; ";

/// Adds profiles up, one at a time; each may be dropped when it has been added.
#[derive(Debug, Default)]
pub struct Merger {
    profile: Profile,
    modules: FxHashMap<Module, ModuleId>,
    frames: FxHashMap<Frame, FrameId>,
    sites: FxHashMap<(ProcessId, StackId), usize>,
    inputs: Vec<Input>,
    sampled_bytes: Option<u64>,
    /// False until one of the profiles has estimates: recordings have millions of sites.
    keeps_precisions: bool,
    /// Index into `inputs` of the one with the highest peak, and that peak in bytes.
    peak: Option<(usize, u64)>,
}

#[derive(Clone, Debug)]
struct Input {
    name: String,
    quantities: Quantities,
}

#[derive(Debug)]
pub struct Merged {
    /// The sum, with the quantities that each of the profiles has.
    pub profile: Profile,
    /// Name of the profile with the highest peak, which is the sum's; None for a single profile, and where not all have
    /// peaks.
    pub peak_of: Option<String>,
    /// Quantities that not all profiles have, each with the name of the first that lacks it.
    pub left_out: Vec<(Quantity, String)>,
    /// Quantities that some of the profiles have, whether left out or not.
    pub some_have: Quantities,
}

impl Merger {
    /// Adds a profile. `name` distinguishes its processes from others, unless they have a source already.
    pub fn add(&mut self, name: &str, other: &Profile) {
        let at = self.inputs.len();
        let quantities = Quantity::ALL
            .into_iter()
            .filter(|&quantity| other.has(quantity))
            .fold(Quantities::default(), Quantities::with);
        self.inputs.push(Input { name: name.to_owned(), quantities });
        let sampled_bytes = other.origin.as_ref().and_then(|origin| origin.sampled_bytes);
        self.sampled_bytes = self.sampled_bytes.max(sampled_bytes);
        if sampled_bytes.is_some() && !self.keeps_precisions {
            self.keeps_precisions = true;
            for site in &mut self.profile.sites {
                site.precisions = Some(Box::new(Precisions::exact(&site.counts)));
            }
        }
        self.command(other);
        let mine = &mut self.profile;
        mine.started_unix_ms = match (mine.started_unix_ms, other.started_unix_ms) {
            (0, started) | (started, 0) => started,
            (a, b) => a.min(b),
        };
        let its_peak = self.peak.is_none_or(|(_, bytes)| other.totals.peak_bytes > bytes);
        if its_peak {
            self.peak = Some((at, other.totals.peak_bytes));
            mine.sites.iter_mut().for_each(|site| (site.counts.peak, site.counts.peak_bytes) = (0, 0));
        }
        let first = mine.processes.len() as u32;
        mine.processes.extend(other.processes.iter().map(|process| Process {
            pid: process.pid,
            attached: process.attached,
            executable: process.executable.clone(),
            executed_as: process.executed_as.clone(),
            arguments: process.arguments.clone(),
            source: if process.source.is_empty() { name.to_owned() } else { process.source.clone() },
            ..Process::default()
        }));
        let stacks = self.stacks(other);
        for site in &other.sites {
            let known = (site.process.0 as usize) < other.processes.len();
            let process = ProcessId(if known { first + site.process.0 } else { u32::MAX });
            let stack = stacks.get(site.stack.0 as usize).copied().unwrap_or(Stacks::ROOT);
            let counts = match its_peak {
                true => site.counts,
                false => Counts { peak: 0, peak_bytes: 0, ..site.counts },
            };
            // Those of a foreign sampled profile stay unknown.
            let precisions = match sampled_bytes {
                None if self.keeps_precisions => Some(Box::new(Precisions::exact(&site.counts))),
                _ => site.precisions.clone(),
            };
            let sites = &mut self.profile.sites;
            match self.sites.entry((process, stack)) {
                std::collections::hash_map::Entry::Occupied(known) => {
                    let known = &mut sites[*known.get()];
                    known.counts += counts;
                    add_precisions(&mut known.precisions, precisions.as_deref());
                }
                std::collections::hash_map::Entry::Vacant(new) => {
                    new.insert(sites.len());
                    // A merged profile has neither patterns nor ages.
                    sites.push(Site { precisions, ..Site::of(process, stack, counts) });
                }
            }
        }
    }

    /// Takes out what was added so far, but for modules, frames and stacks: those of later profiles have the same
    /// numbers.
    pub(in crate::analysis) fn take_sites(&mut self) -> Vec<Site> {
        self.sites.clear();
        self.inputs.clear();
        self.peak = None;
        self.profile.processes.clear();
        std::mem::take(&mut self.profile.sites)
    }

    /// Adds the command to the text, where each is once. A profile that was merged before has several.
    fn command(&mut self, other: &Profile) {
        let text = other.command.join(" ");
        let merged = other.processes.iter().any(|process| !process.source.is_empty());
        let known = &mut self.profile.command;
        for text in if merged && !known.is_empty() { text.split(BETWEEN).collect() } else { vec![text.as_str()] } {
            let between = |text: &str| format!("{BETWEEN}{text}{BETWEEN}");
            match known.first_mut() {
                _ if text.is_empty() => {}
                None => known.push(text.to_owned()),
                Some(known) if between(known).contains(&between(text)) => {}
                Some(known) => *known = format!("{known}{BETWEEN}{text}"),
            }
        }
    }

    /// By stack of the other profile, the stack of this one.
    fn stacks(&mut self, other: &Profile) -> Vec<StackId> {
        let modules: Vec<ModuleId> = other.modules.iter().map(|module| self.module(module)).collect();
        let frames: Vec<FrameId> = other.frames.iter().map(|frame| self.frame(other, frame, &modules)).collect();
        let mut moved = vec![Stacks::ROOT; other.stacks.len()];
        for at in 0..moved.len() {
            let id = StackId(at as u32);
            moved[at] = match other.stacks.top(id) {
                None if other.stacks.is_cut(id) => Stacks::CUT_ROOT,
                None => Stacks::ROOT,
                Some((frame, caller)) => match frames.get(frame.0 as usize) {
                    Some(&frame) => self.profile.stacks.push(moved[caller.0 as usize], frame),
                    None => moved[caller.0 as usize],
                },
            };
        }
        moved
    }

    fn module(&mut self, module: &Module) -> ModuleId {
        if let Some(&id) = self.modules.get(module) {
            return id;
        }
        let id = ModuleId(self.profile.modules.len() as u32);
        self.profile.modules.push(module.clone());
        self.modules.insert(module.clone(), id);
        id
    }

    fn frame(&mut self, other: &Profile, frame: &Frame, modules: &[ModuleId]) -> FrameId {
        let strings = &mut self.profile.strings;
        let lines = frame.lines.iter().map(|line| Line {
            function: strings.intern(other.strings.get(line.function)),
            file: line.file.map(|file| strings.intern(other.strings.get(file))),
            line: line.line,
        });
        let moved = Frame {
            module: frame.module.and_then(|module| modules.get(module.0 as usize).copied()),
            address: frame.address,
            exact: frame.exact,
            start: frame.start,
            lines: lines.collect(),
            folded: frame.folded.map(|folded| strings.intern(other.strings.get(folded))),
        };
        if let Some(&id) = self.frames.get(&moved) {
            return id;
        }
        let id = FrameId(self.profile.frames.len() as u32);
        self.profile.frames.push(moved.clone());
        self.frames.insert(moved, id);
        id
    }

    /// Returns the sum. It has the quantities that all profiles have: a sum over some of them would look like one over
    /// all. Its peak is the highest one, whole, because the peaks of different runs were at different moments.
    pub fn finish(mut self) -> Merged {
        let has = |input: &Input, quantity| input.quantities.has(quantity);
        let mut quantities = Quantities::default().with(Quantity::Processes);
        let mut some_have = Quantities::default();
        let mut left_out = Vec::new();
        for quantity in Quantity::ALL {
            let some = self.inputs.iter().any(|input| has(input, quantity));
            let lacking = self.inputs.iter().find(|input| !has(input, quantity));
            some_have = if some { some_have.with(quantity) } else { some_have };
            match lacking {
                None if Quantity::COUNTS.contains(&quantity) || quantity == Quantity::Started => {
                    quantities = quantities.with(quantity)
                }
                Some(lacking) if some && Quantity::COUNTS.contains(&quantity) => {
                    left_out.push((quantity, lacking.name.clone()))
                }
                _ => {}
            }
        }
        let has_peaks = quantities.has(Quantity::PeakBytes) && self.inputs.len() > 1;
        let peak_of = self.peak.filter(|_| has_peaks).map(|(input, _)| self.inputs[input].name.clone());
        for site in &mut self.profile.sites {
            site.counts = site.counts.of(quantities);
        }
        self.profile.origin = Some(Origin { format: "merged", quantities, sampled_bytes: self.sampled_bytes });
        add_up(&mut self.profile);
        Merged { profile: self.profile, peak_of, left_out, some_have }
    }
}

#[cfg(test)]
mod tests {
    use mallow_profile::{Counts, Origin, ProcessId, Profile, Quantities, Quantity, Stacks};

    use super::{Merged, Merger};
    use crate::testing::{Builder, blocks, parser};

    fn merged(all: &[(&str, &Profile)]) -> Merged {
        let mut merger = Merger::default();
        all.iter().for_each(|(name, profile)| merger.add(name, profile));
        let sound = all.iter().all(|(_, profile)| profile.check().is_ok());
        let merged = merger.finish();
        assert!(!sound || merged.profile.check() == Ok(()), "{:?}", merged.profile.check());
        merged
    }

    #[test]
    fn sums_are_those_of_all_and_the_peak_is_the_highest() {
        let one = parser();
        let mut b = Builder::default();
        let process = b.process(1, &["a"], 10);
        b.site(process, &["f", "main"], blocks(3, 1_000_000_000, 0, 3));
        let other = b.profile;
        for (order, of) in
            [([("one", &one), ("other", &other)], "other"), ([("other", &other), ("one", &one)], "other")]
        {
            let Merged { profile, peak_of, left_out, .. } = merged(&order);
            let mut expected = one.totals;
            expected += other.totals;
            (expected.peak, expected.peak_bytes) = (other.totals.peak, other.totals.peak_bytes);
            assert!(other.totals.peak_bytes > one.totals.peak_bytes);
            assert_eq!((profile.totals, peak_of.as_deref(), left_out.len()), (expected, Some(of), 0));
        }
    }

    #[test]
    fn the_same_stack_is_one_and_processes_stay_apart() {
        let one = parser();
        let Merged { profile, .. } = merged(&[("a", &one), ("b", &one)]);
        assert_eq!((profile.stacks.len(), profile.frames.len()), (one.stacks.len(), one.frames.len()));
        assert_eq!(profile.sites.len(), 2 * one.sites.len());
        let sources: Vec<_> = profile.processes.iter().map(|process| process.source.as_str()).collect();
        assert_eq!(sources.len(), 2 * one.processes.len());
        assert!(
            sources[..one.processes.len()].iter().all(|s| *s == "a")
                && sources[one.processes.len()..].iter().all(|s| *s == "b")
        );
        // What was merged before keeps its names.
        let again = merged(&[("ab", &profile), ("c", &one)]).profile;
        assert_eq!(
            (again.processes[0].source.as_str(), again.processes[again.processes.len() - 1].source.as_str()),
            ("a", "c")
        );
        assert_eq!((&profile.command, &again.command), (&vec![one.command.join(" ")], &profile.command), "each once");
    }

    #[test]
    fn quantities_missing_in_one_are_left_out() {
        let one = parser();
        let mut b = Builder::default();
        let process = b.process(1, &["a"], 10);
        b.site(process, &["f", "main"], Counts { allocations: 7, live: 2, ..Counts::default() });
        let mut other = b.profile;
        let quantities = Quantities::of(&[Quantity::Allocations, Quantity::Live]);
        other.origin = Some(Origin { format: "pprof", quantities, sampled_bytes: Some(4096) });
        assert_eq!(other.check(), Ok(()));
        let Merged { profile, peak_of, left_out, some_have } = merged(&[("one", &one), ("other", &other)]);
        let mut sum = Counts { allocations: one.totals.allocations, live: one.totals.live, ..Counts::default() };
        sum += other.totals;
        assert_eq!(profile.totals, sum, "no numbers of the quantities that are left out");
        let held: Vec<Quantity> = Quantity::ALL.into_iter().filter(|&quantity| profile.has(quantity)).collect();
        assert_eq!(held, [Quantity::Allocations, Quantity::Live, Quantity::Processes]);
        assert_eq!((peak_of, profile.origin.expect("an origin").sampled_bytes), (None, Some(4096)));
        assert!(left_out.contains(&(Quantity::PeakBytes, "other".to_owned())) && some_have.has(Quantity::Events));
    }

    #[test]
    fn cut_stacks_and_stray_numbers_stay_what_they_are() {
        let mut b = Builder::default();
        let process = b.process(1, &["a"], 10);
        b.site(process, &["f"], blocks(1, 1, 0, 0));
        b.profile.sites[0].stack = Stacks::CUT_ROOT;
        b.site(ProcessId(7), &["g"], blocks(1, 1, 0, 0));
        let profile = merged(&[("a", &b.profile)]).profile;
        assert!(profile.stacks.is_cut(profile.sites[0].stack) && !profile.stacks.is_cut(profile.sites[1].stack));
        assert_eq!(profile.totals.allocations, 2);
    }
}
