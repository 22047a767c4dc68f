//! Events of a sampler's probes, as `perf script`, `perf trace` and bpftrace print them.
//!
//! ```text
//! redis-server  4711 [001]  17.602282: sdt_mallow:malloc: (7f5c3d00) arg1=362 arg2=139998753980416 arg3=22605
//!             7f5c3d00 malloc+0x20 (/home/me/.cache/mallow/libmallow.so)
//!             55d0c3a1 zmalloc+0x11 (/usr/bin/redis-server)
//!
//! 17602.282 redis-server/4711 sdt_mallow:malloc(__probe_ip: 140369, arg1: 362, arg2: 139998753980416, arg3: 22605)
//!             malloc (/home/me/.cache/mallow/libmallow.so)
//! ```
//!
//! The events and their arguments are those of libpoireau under the provider `mallow` (its own text is read, too), or
//! the two of `otel_memory`. Where both are there, the latter say everything again and are passed over.

mod lines;
#[cfg(test)]
mod tests;

use std::io::Read;

use mallow_profile::{
    FAMILIES, Family, Frame, FrameId, Line, Process, ProcessId, Profile, Release, Sample, SampleEvent, SampleKey,
    StackId, Stacks,
};
use rustc_hash::FxHashMap;

use super::builder::{Builder, DEPTH};
use super::input::{Input, Lines};
use super::{FormatError, InputFormat, Progress};
use lines::{Named, Provider, arguments, frame, header, names_a_probe, period_of, without_number};

/// What a text of probes has beside its events.
#[derive(Clone, Debug)]
pub struct Probes {
    /// Strings, frames, stacks and processes that the events name.
    pub profile: Profile,
    /// Time of the last event, in nanoseconds of the text's clock.
    pub end_ns: u64,
    /// Events that were understood.
    pub events: u64,
    /// Frees and reallocs of blocks whose allocation was not seen.
    pub unseen: u64,
    /// Lines of these probes that made no sense.
    pub damaged: u64,
    /// Remarks for people, each in one line.
    pub remarks: Vec<String>,
}

/// Whether some line is an event of these probes.
pub fn looks_like<'a>(mut lines: impl Iterator<Item = &'a [u8]>) -> bool {
    lines.any(|line| header(&String::from_utf8_lossy(line)).is_some())
}

/// Reads a text, and calls `each` with its events, in the text's order. `period` is what the sampler had.
pub fn read(
    file: impl Read + Send,
    packed_length: Option<u64>,
    period: u64,
    progress: &mut dyn FnMut(Progress),
    each: &mut dyn FnMut(SampleEvent),
) -> Result<Probes, FormatError> {
    let input = Input::open(file, packed_length, progress)?;
    let mut lines = Lines::new(input, InputFormat::Probes);
    let mut reader = Reader::new(period.max(1), each);
    while let Some(line) = lines.next()? {
        reader.builder.read(line.len() + 1);
        let text = String::from_utf8_lossy(line);
        reader.line(text.trim_end())?;
    }
    let cut = lines.cut();
    reader.conclude()?;
    if reader.events == 0 {
        let what = match reader.damaged {
            0 => {
                "has no event of mallow's probes (mallow:malloc, mallow:free, …); mallow import --help shows how to get some"
            }
            _ => {
                "has events of mallow's probes, and none with its arguments; was it written by perf script, perf trace or bpftrace?"
            }
        };
        return Err(lines.unusable(what));
    }
    Ok(reader.finish(cut))
}

/// An event, and the frames that followed it so far.
struct Pending {
    pid: Option<u32>,
    tid: u32,
    at_ns: u64,
    provider: Provider,
    event: String,
    arguments: Vec<u64>,
    frames: Vec<FrameId>,
    /// Whether frames were left out.
    cut: bool,
}

struct Reader<'a> {
    builder: Builder,
    period: u64,
    each: &'a mut dyn FnMut(SampleEvent),
    processes: Vec<Process>,
    by_pid: FxHashMap<Option<u32>, ProcessId>,
    live: FxHashMap<(ProcessId, u64), SampleKey>,
    generation: u32,
    pending: Option<Pending>,
    /// Whether the frames that follow belong to another tool's event.
    passing: bool,
    began_ns: Option<u64>,
    end_ns: u64,
    events: u64,
    unseen: u64,
    damaged: u64,
    failed: u64,
    seen: Option<Provider>,
    repeated: u64,
}

impl<'a> Reader<'a> {
    fn new(period: u64, each: &'a mut dyn FnMut(SampleEvent)) -> Self {
        Self {
            builder: Builder::new(InputFormat::Probes),
            period,
            each,
            processes: Vec::new(),
            by_pid: FxHashMap::default(),
            live: FxHashMap::default(),
            generation: 0,
            pending: None,
            passing: false,
            began_ns: None,
            end_ns: 0,
            events: 0,
            unseen: 0,
            damaged: 0,
            failed: 0,
            seen: None,
            repeated: 0,
        }
    }

    fn line(&mut self, text: &str) -> Result<(), FormatError> {
        if text.trim().is_empty() {
            return self.conclude();
        }
        if let Some(header) = header(text) {
            self.conclude()?;
            self.process(header.pid, header.comm, header.at_ns);
            self.passing = false;
            self.pending = Some(Pending {
                pid: header.pid,
                tid: header.tid,
                at_ns: header.at_ns,
                provider: header.provider,
                event: header.event.to_owned(),
                arguments: arguments(header.arguments),
                frames: Vec::new(),
                cut: false,
            });
            return Ok(());
        }
        let Some(frame) = frame(text) else {
            // Another tool's event, or what a script prints: what follows is not ours.
            self.damaged += u64::from(names_a_probe(text));
            self.passing = true;
            return self.conclude();
        };
        if !self.passing && self.pending.is_some() {
            let id = self.frame(&frame);
            if let Some(pending) = &mut self.pending {
                pending.cut |= pending.frames.len() >= DEPTH;
                match id {
                    Some(id) if !pending.cut => pending.frames.push(id),
                    Some(_) => {}
                    // What stands before it is inside of it: inlined functions have no file of their own.
                    None => pending.frames.clear(),
                }
            }
        }
        Ok(())
    }

    /// None for a frame of Mallow's own: stacks begin at the caller of the allocating function.
    fn frame(&mut self, frame: &Named<'_>) -> Option<FrameId> {
        let file = frame.module.rsplit('/').next().unwrap_or(frame.module);
        if file.starts_with("libmallow") || file.starts_with("libpoireau") {
            return None;
        }
        let known = !frame.module.is_empty() && frame.module != "[unknown]" && frame.module != "inlined";
        let module = known.then(|| self.builder.module(frame.module));
        let name = frame.function.filter(|name| *name != "[unknown]");
        let lines = name.map(|name| Line { function: self.builder.profile.strings.intern(name), file: None, line: 0 });
        // A name stands for all calls in its function, or the same stack would be many.
        let address = if lines.is_some() { 0 } else { frame.address };
        Some(self.builder.frame(Frame { lines: lines.into_iter().collect(), ..Frame::new(module, address, false) }))
    }

    fn process(&mut self, pid: Option<u32>, comm: &str, at_ns: u64) -> ProcessId {
        if let Some(&id) = self.by_pid.get(&pid) {
            return id;
        }
        let id = ProcessId(self.processes.len() as u32);
        let (known_pid, comm) = (pid.unwrap_or(0), comm.to_owned());
        self.processes.push(Process {
            pid: known_pid,
            executable: comm.clone(),
            arguments: vec![comm],
            ..Process::default()
        });
        self.by_pid.insert(pid, id);
        (self.each)(SampleEvent::ProcessBegan { process: id, at_ns });
        id
    }

    /// Ends the event that the last lines belong to.
    fn conclude(&mut self) -> Result<(), FormatError> {
        let Some(pending) = self.pending.take() else { return Ok(()) };
        match self.seen {
            // The same event of another provider.
            Some(Provider::Mallow) if pending.provider == Provider::OpenTelemetry => {
                self.repeated += 1;
                return Ok(());
            }
            Some(Provider::OpenTelemetry) if pending.provider == Provider::Mallow => {
                self.repeated += 1;
                return Ok(());
            }
            _ => {}
        }
        // Who follows frame pointers, as bpftrace does, strays where there are none. What lies outside of all files
        // then is no caller, and would make many sites of one.
        let somewhere = |id: &FrameId| {
            let frame = self.builder.profile.frames.get(id.0 as usize);
            frame.is_some_and(|frame| frame.module.is_some() || !frame.lines.is_empty())
        };
        let inside = pending.frames.iter().rposition(somewhere).map_or(pending.frames.len(), |last| last + 1);
        let cut = pending.cut || inside < pending.frames.len();
        let root = if cut { Stacks::CUT_ROOT } else { Stacks::ROOT };
        let stack = self.builder.stack_on(root, pending.frames[..inside].iter().copied())?;
        let process = self.process(pending.pid, "", pending.at_ns);
        let name = without_number(&pending.event);
        let understood = match (pending.provider, name, &pending.arguments[..]) {
            (Provider::Mallow, "malloc", &[_, at, size]) => {
                self.allocated(process, &pending, stack, family("malloc"), at, size)
            }
            (Provider::Mallow, "calloc", &[_, _, _, at, size]) => {
                self.allocated(process, &pending, stack, family("calloc"), at, size)
            }
            (Provider::Mallow, "memalign", &[_, at, size, _]) => {
                self.allocated(process, &pending, stack, family("memalign"), at, size)
            }
            (Provider::Mallow, "realloc", &[_, _, _, at, size]) => {
                self.allocated(process, &pending, stack, family("realloc"), at, size)
            }
            (Provider::Mallow, "free", &[_, at, _]) | (Provider::OpenTelemetry, "free", &[at]) => {
                self.freed(process, &pending, stack, at, None)
            }
            (Provider::Mallow, "realloc_to_regular", &[_, old, _, _, size]) => {
                self.freed(process, &pending, stack, old, Some(size))
            }
            (Provider::Mallow, "realloc_from_tracked", &[_, old, _, _, at, size]) => {
                self.freed(process, &pending, stack, old, Some(size))
                    && self.allocated(process, &pending, stack, family("realloc"), at, size)
            }
            (Provider::OpenTelemetry, "alloc", &[at, size, weighted]) => {
                let period = std::mem::replace(&mut self.period, period_of(size, weighted));
                let done = self.allocated(process, &pending, stack, family("malloc"), at, size);
                self.period = period;
                done
            }
            (Provider::Mallow, "mmap_failed" | "calloc_overflow", _) => {
                self.failed += 1;
                true
            }
            _ => false,
        };
        if understood {
            self.seen = Some(pending.provider);
            self.events += 1;
            self.began_ns = Some(self.began_ns.unwrap_or(pending.at_ns).min(pending.at_ns));
            self.end_ns = self.end_ns.max(pending.at_ns);
        } else {
            self.damaged += 1;
        }
        Ok(())
    }

    fn allocated(
        &mut self,
        process: ProcessId,
        from: &Pending,
        stack: StackId,
        family: Family,
        at: u64,
        size: u64,
    ) -> bool {
        if at == 0 || size == 0 {
            return false;
        }
        self.generation = self.generation.wrapping_add(1);
        let key = SampleKey {
            process,
            slot: (self.live.len() as u32).wrapping_add(self.generation),
            generation: self.generation,
        };
        if let Some(before) = self.live.insert((process, at), key) {
            // Its free was not seen: perf lost it.
            (self.each)(SampleEvent::Gone { key: before, after_ns: from.at_ns, before_ns: from.at_ns });
        }
        let sample = Sample {
            process,
            thread: from.tid,
            family,
            size,
            period: self.period,
            address: at,
            at_ns: from.at_ns,
            stack,
        };
        (self.each)(SampleEvent::Allocated { key, sample });
        true
    }

    fn freed(&mut self, process: ProcessId, from: &Pending, stack: StackId, at: u64, size: Option<u64>) -> bool {
        if at == 0 {
            return false;
        }
        let Some(key) = self.live.remove(&(process, at)) else {
            self.unseen += 1;
            return true;
        };
        let release = Release { thread: from.tid, at_ns: from.at_ns, stack };
        (self.each)(match size {
            None => SampleEvent::Freed { key, release },
            Some(size) => SampleEvent::Reallocated { key, release, size },
        });
        true
    }

    fn finish(self, cut: bool) -> Probes {
        let mut profile = self.builder.profile;
        profile.duration_ms = self.end_ns.saturating_sub(self.began_ns.unwrap_or(0)) / 1_000_000;
        let mut remarks = Vec::new();
        if self.by_pid.contains_key(&None) {
            remarks.push(
                "no process ids in this text: all is taken for one process; perf script -F +pid,+ip,+sym,+dso tells them apart"
                    .to_owned(),
            );
        }
        if self.repeated > 0 {
            remarks.push(
                "probes of two kinds report the same calls: those of the kind that came first are counted".to_owned(),
            );
        }
        if self.failed > 0 {
            remarks.push(format!("{} allocations failed, according to the probes", self.failed));
        }
        if cut {
            remarks.push("the text ends in the middle of a line".to_owned());
        }
        profile.processes = self.processes;
        let Self { end_ns, events, unseen, damaged, .. } = self;
        Probes { profile, end_ns, events, unseen, damaged, remarks }
    }
}

fn family(name: &str) -> Family {
    Family(FAMILIES.iter().position(|family| *family == name).unwrap_or(0) as u8)
}
