//! What holds of every profile, whoever made it and whatever file it was read from.

use std::collections::HashSet;
use std::fmt;
use std::hash::BuildHasherDefault;

use rustc_hash::FxHasher;

use crate::counts::{Count, Counts};
use crate::profile::Profile;
use crate::stacks::StackId;

/// A promise of the model that a profile breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Defect {
    /// An index names an element that does not exist.
    Reference {
        /// Kind of the element that holds the index: `site`, `frame`, …
        from: &'static str,
        /// Position of the element that holds the index, among its kind.
        index: usize,
        /// Kind of the element that the index names.
        to: &'static str,
        /// The index that has no element.
        number: u32,
        /// Elements of the kind that is named.
        length: usize,
    },
    /// A stack whose caller does not come before it, or whose depth is not its caller's and one more.
    Stack(StackId),
    /// Two sites have one process and one stack.
    SameSite {
        /// Index of the second site with the pair.
        site: usize,
    },
    /// A sum is not that of its parts.
    Sum {
        /// Index of the process whose sum is wrong; None for the profile's totals.
        process: Option<usize>,
        /// Name of the count, as [`crate::Count::key`].
        key: &'static str,
        /// The sum as the profile has it.
        sum: u64,
        /// What the parts add up to, saturated.
        parts: u64,
    },
    /// A count is not 0 whose quantity the profile does not have.
    Unavailable {
        /// Index of the site that has the count.
        site: usize,
        /// Name of the count, as [`crate::Count::key`].
        key: &'static str,
    },
    /// The memory of a process makes no sense.
    Footprint {
        /// Index of the footprint in the profile.
        index: usize,
        /// A clause: what of the footprint is not so.
        what: &'static str,
    },
    /// A list is not in the order that the model promises.
    Order {
        /// Name of the list, in the plural.
        what: &'static str,
    },
}

impl fmt::Display for Defect {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reference { from, index, to, number, length } => {
                write!(out, "{from} {index} refers to {to} {number} of {length}")
            }
            Self::Stack(stack) => write!(out, "stack {} does not follow its caller", stack.0),
            Self::SameSite { site } => write!(out, "site {site} has the process and the stack of another one"),
            Self::Sum { process: Some(process), key, sum, parts } => {
                write!(out, "{key} of process {process} is {sum}, and its sites have {parts}")
            }
            Self::Sum { process: None, key, sum, parts } => {
                write!(out, "{key} is {sum}, and the processes have {parts}")
            }
            Self::Unavailable { site, key } => write!(out, "site {site} has {key}, which the profile does not have"),
            Self::Order { what } => write!(out, "{what} are not in their order"),
            Self::Footprint { index, what } => write!(out, "footprint {index}: {what}"),
        }
    }
}

impl std::error::Error for Defect {}

impl Profile {
    /// Whether the profile keeps what the model promises: every index names something, callers come before those that
    /// they call, a process and a stack are one site, sums are those of their parts, and counts of quantities that the
    /// profile does not have are 0.
    ///
    /// Analyses stand anything; a reader that brings something else has misread its file. Takes some 10 ns for each
    /// site, frame and stack.
    pub fn check(&self) -> Result<(), Defect> {
        self.check_code()?;
        self.check_processes()?;
        self.check_orders()?;
        self.check_sites()?;
        self.check_sums()
    }

    fn check_code(&self) -> Result<(), Defect> {
        for (index, frame) in self.frames.iter().enumerate() {
            if let Some(module) = frame.module {
                reference("frame", index, "module", module.0, self.modules.len())?;
            }
            let lines = frame.lines.iter().flat_map(|line| [Some(line.function), line.file]);
            for string in lines.chain([frame.folded]).flatten() {
                reference("frame", index, "string", string.0, self.strings.len())?;
            }
        }
        for number in 0..self.stacks.len() as u32 {
            let stack = StackId(number);
            let Some((frame, caller)) = self.stacks.top(stack) else { continue };
            reference("stack", number as usize, "frame", frame.0, self.frames.len())?;
            if caller >= stack || self.stacks.depth(stack) != self.stacks.depth(caller) + 1 {
                return Err(Defect::Stack(stack));
            }
        }
        for (index, module) in self.names.iter().flat_map(|names| &names.modules).enumerate() {
            reference("summary", index, "module", module.module.0, self.modules.len())?;
        }
        Ok(())
    }

    fn check_processes(&self) -> Result<(), Defect> {
        for (index, thread) in self.threads.iter().enumerate() {
            reference("thread", index, "process", thread.process.0, self.processes.len())?;
        }
        for (index, scan) in self.scans.iter().enumerate() {
            reference("scan", index, "process", scan.process.0, self.processes.len())?;
            let stacks = scan.cycles.iter().flat_map(|cycle| &cycle.stacks).copied();
            for stack in scan.lost.iter().flat_map(|lost| [Some(lost.stack), lost.head]).flatten().chain(stacks) {
                reference("scan", index, "stack", stack.0, self.stacks.len())?;
            }
        }
        for (index, footprint) in self.footprints.iter().enumerate() {
            reference("footprint", index, "process", footprint.process.0, self.processes.len())?;
            footprint.check().map_err(|what| Defect::Footprint { index, what })?;
        }
        for (index, series) in self.rss.iter().enumerate() {
            reference("RSS series", index, "process", series.process.0, self.processes.len())?;
        }
        for (index, classes) in self.size_classes.iter().enumerate() {
            reference("size classes", index, "process", classes.process.0, self.processes.len())?;
        }
        for (index, allocator) in self.custom_allocators.iter().enumerate() {
            reference("custom allocator", index, "process", allocator.process.0, self.processes.len())?;
        }
        Ok(())
    }

    /// Whether footprints, RSS series, their points and usable sizes are in the orders that searches rely on.
    pub fn check_orders(&self) -> Result<(), Defect> {
        let order = |what, is_ordered: bool| if is_ordered { Ok(()) } else { Err(Defect::Order { what }) };
        order("footprints", self.footprints.is_sorted_by_key(|footprint| (footprint.process, footprint.ms)))?;
        order("points of RSS", self.rss.iter().all(|series| series.points.is_sorted_by_key(|point| point.ms)))?;
        order("RSS series", self.rss.is_sorted_by(|one, next| one.process < next.process))?;
        order("usable sizes", self.size_classes.iter().all(|classes| classes.usable.is_sorted()))
    }

    fn check_sites(&self) -> Result<(), Defect> {
        let mut known = HashSet::<_, BuildHasherDefault<FxHasher>>::default();
        let missing: Vec<Count> = Count::ALL.into_iter().filter(|count| !self.has(count.quantity)).collect();
        for (index, site) in self.sites.iter().enumerate() {
            reference("site", index, "process", site.process.0, self.processes.len())?;
            reference("site", index, "stack", site.stack.0, self.stacks.len())?;
            if !known.insert((site.process, site.stack)) {
                return Err(Defect::SameSite { site: index });
            }
            if let Some(count) = missing.iter().find(|count| (count.of)(&site.counts) != 0) {
                return Err(Defect::Unavailable { site: index, key: count.key });
            }
        }
        Ok(())
    }

    fn check_sums(&self) -> Result<(), Defect> {
        let mut sums = vec![Counts::default(); self.processes.len()];
        self.sites.iter().for_each(|site| sums[site.process.0 as usize] += site.counts);
        let mut whole = Counts::default();
        for (index, (process, parts)) in self.processes.iter().zip(&sums).enumerate() {
            sum(Some(index), &process.totals, parts)?;
            whole += process.totals;
        }
        sum(None, &self.totals, &whole)
    }
}

fn reference(from: &'static str, index: usize, to: &'static str, number: u32, length: usize) -> Result<(), Defect> {
    match (number as usize) < length {
        true => Ok(()),
        false => Err(Defect::Reference { from, index, to, number, length }),
    }
}

fn sum(process: Option<usize>, sum: &Counts, parts: &Counts) -> Result<(), Defect> {
    let wrong = Count::ALL.iter().find(|count| (count.of)(sum) != (count.of)(parts));
    wrong.map_or(Ok(()), |count| {
        Err(Defect::Sum { process, key: count.key, sum: (count.of)(sum), parts: (count.of)(parts) })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Frame, FrameId, Line, Module, ModuleId, Origin, Process, ProcessId, Quantities, Quantity, Site, StringId,
        Thread,
    };

    /// One process, main that calls f, and three allocations there.
    fn profile() -> Profile {
        let mut profile = Profile::default();
        let function = profile.strings.intern("main");
        profile.modules.push(Module { path: "/bin/a".into(), build_id: Vec::new() });
        let lines = vec![Line { function, file: None, line: 7 }];
        profile.frames.push(Frame { lines, ..Frame::new(Some(ModuleId(0)), 16, false) });
        profile.frames.push(Frame::new(None, 32, false));
        let main = profile.stacks.push(crate::Stacks::ROOT, FrameId(0));
        let stack = profile.stacks.push(main, FrameId(1));
        let counts = Counts { allocations: 3, allocated_bytes: 30, ..Counts::default() };
        profile.processes.push(Process { totals: counts, ..Process::default() });
        profile.threads.push(Thread { process: ProcessId(0), tid: 1 });
        profile.sites.push(Site {
            process: ProcessId(0),
            stack,
            counts,
            patterns: Default::default(),
            live_oldest_ms: 0,
            live_youngest_ms: 0,
            precisions: None,
        });
        profile.totals = counts;
        profile
    }

    #[test]
    fn a_broken_profile_is_reported() {
        assert_eq!(Profile::default().check(), Ok(()));
        assert_eq!(profile().check(), Ok(()));
        type Break = fn(&mut Profile);
        let point = |ms| crate::RssPoint { ms, rss: 1, live_bytes: 0 };
        let series = |process, points| crate::RssSeries { process: ProcessId(process), points, peak: None };
        type Case<'a> = (&'a str, &'a dyn Fn(&mut Profile));
        let orders: [Case<'_>; 5] = [
            ("footprints are not in their order", &|p| {
                let at = |ms| crate::Footprint { ms, page_bytes: 4096, ..Default::default() };
                p.footprints = vec![at(2), at(1)];
            }),
            ("points of RSS are not in their order", &|p| p.rss = vec![series(0, vec![point(2), point(1)])]),
            ("RSS series are not in their order", &|p| p.rss = vec![series(0, vec![]), series(0, vec![])]),
            ("RSS series 0 refers to process 1 of 1", &|p| p.rss = vec![series(1, vec![])]),
            ("usable sizes are not in their order", &|p| {
                p.size_classes = vec![crate::SizeClasses { process: ProcessId(0), usable: vec![8, 4] }];
            }),
        ];
        for (text, breaks) in orders {
            let mut profile = profile();
            breaks(&mut profile);
            assert_eq!(profile.check().expect_err(text).to_string(), text);
        }
        let broken: [(&str, Break); 15] = [
            ("frame 0 refers to module 1 of 1", |p| p.frames[0].module = Some(ModuleId(1))),
            ("frame 0 refers to string 4 of 1", |p| p.frames[0].lines[0].function = StringId(4)),
            ("frame 0 refers to string 2 of 1", |p| p.frames[0].lines[0].file = Some(StringId(2))),
            ("frame 0 refers to string 3 of 1", |p| p.frames[0].folded = Some(StringId(3))),
            ("stack 3 refers to frame 1 of 1", |p| drop(p.frames.pop())),
            ("summary 0 refers to module 9 of 1", |p| {
                let found = crate::NameSource::Nothing;
                let summary = crate::ModuleSummary {
                    module: ModuleId(9),
                    found,
                    debug_file: None,
                    notes: Vec::new(),
                    frames: 0,
                    named: 0,
                    located: 0,
                    remedy: None,
                };
                p.names = Some(crate::Summary { modules: vec![summary], ..Default::default() });
            }),
            ("thread 0 refers to process 1 of 1", |p| p.threads[0].process = ProcessId(1)),
            ("site 0 refers to process 1 of 1", |p| p.sites[0].process = ProcessId(1)),
            ("site 0 refers to stack 9 of 4", |p| p.sites[0].stack = StackId(9)),
            ("site 1 has the process and the stack of another one", |p| p.sites.push(p.sites[0].clone())),
            ("allocations of process 0 is 3, and its sites have 2", |p| p.sites[0].counts.allocations = 2),
            ("peak_bytes of process 0 is 1, and its sites have 0", |p| p.processes[0].totals.peak_bytes = 1),
            ("allocated_bytes is 31, and the processes have 30", |p| p.totals.allocated_bytes = 31),
            ("site 0 has allocated_bytes, which the profile does not have", |p| {
                let quantities = Quantities::of(&[Quantity::Allocations]);
                p.origin = Some(Origin { format: "pprof", quantities, sampled_bytes: None });
            }),
            ("custom allocator 0 refers to process 1 of 1", |p| {
                let process = ProcessId(1);
                p.custom_allocators.push(crate::CustomAllocator {
                    process,
                    kind: Default::default(),
                    found: String::new(),
                    remedy: String::new(),
                });
            }),
        ];
        for (text, breaks) in broken {
            let mut profile = profile();
            breaks(&mut profile);
            assert_eq!(profile.check().expect_err(text).to_string(), text);
        }
    }
}
