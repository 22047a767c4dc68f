//! Reports of a fleet, as text: programs, what grows in them, and the processes that grow or hold most.

use mallow_report::analysis::sampled::{Estimate, NEEDED_SAMPLES, Verdict};
use mallow_report::analysis::{FleetPlace, FleetProcess, FleetProgram, FleetReport, WatchedPlace};

use super::super::watch::headline::{is_too_early, losses, name, seconds, steady, too_early};
use crate::output::text::estimates::{column_bytes, estimated_bytes, not_enough, rate_per_hour, sampled_bytes};
use crate::output::text::units::{bytes, count, of};
use crate::output::text::utc::moment;
use crate::output::text::{Line, Look, Page, described_by};

/// Places of a program that do not grow, and of a process.
const LARGEST: usize = 3;

/// A report. `stacks`: with the callers of each place that a process holds.
pub fn report(report: &FleetReport, look: &Look, stacks: bool) -> String {
    let mut page = Page::new(*look);
    let sums = &report.sums;
    page.line(
        Line::new()
            .plain(moment(report.at_unix_ms))
            .plain("  ")
            .strong(format!("{} that match {}", of(sums.processes, "process"), report.pattern))
            .plain(format!(
                ", of {}, watched for {}",
                of(report.programs_in_all, "program"),
                seconds(report.watched_ms)
            )),
    );
    let grows = match (sums.growing_processes, sums.processes_growing_so_far) {
        (0, 0) => no_growth(report) + &elsewhere(report, look),
        (0, so_far) => format!("{} so far; too early to say whether it ends", growing(so_far)),
        (surely, 0) => format!("{} significantly", growing(surely)),
        (surely, so_far) => format!("{} significantly, and {} so far", growing(surely), growing(so_far)),
    };
    page.line(Line::new().plain("  ").strong(grows));
    let mut live = match sums.samples {
        0 => "no sample is live".to_owned(),
        samples => format!("live: {}", sampled_bytes(&sums.live_bytes, samples, look)),
    };
    if sums.ended > 0 {
        live += &format!("; {} since the last report", ended(sums.ended));
    }
    page.line(Line::new().plain("  ").plain(live));
    for program in &report.programs {
        show_program(program, look, stacks, &mut page);
    }
    if let Some(hidden) = &report.programs_hidden {
        page.gap();
        let rest = format!(
            "and {} more, with {} and {} live; --limit 0 shows all",
            of(hidden.rows, "program"),
            of(hidden.sums.processes, "process"),
            estimated_bytes(&hidden.sums.live_bytes, look)
        );
        page.line(Line::new().faint(rest));
    }
    if !report.unwatched.is_empty() || !losses(&report.lost).is_empty() {
        page.gap();
    }
    for some in &report.unwatched {
        page.line(Line::new().warning(format!("not watched: {}: {}", of(some.processes, "process"), some.reason)));
    }
    losses(&report.lost).iter().for_each(|loss| page.line(Line::new().warning(loss)));
    page.gap();
    page.into_text()
}

/// The sentence where no place grows: for how many processes that is known, or what is missing to know it.
fn no_growth(report: &FleetReport) -> String {
    let (all, judged) = (report.sums.processes, report.sums.processes_judged);
    let nothing = |within: &str| steady(within, report.sums.processes_grown_unsteadily, "process");
    match judged {
        _ if all == 0 => "No process runs".to_owned(),
        _ if is_too_early(report.watched_ms) => too_early(),
        0 => format!("Too few samples to say what grows: a place needs {NEEDED_SAMPLES} sampled blocks that settle"),
        _ if judged == all => nothing(""),
        _ => {
            let within = format!(" in {judged} of {}", of(all, "process"));
            nothing(&within) + "; too few samples to say of the others"
        }
    }
}

/// Growth of RSS where no sampled block is: `; worker 4711 has at least 42.2 MB more in memory than at first, outside
/// of sampled blocks`. Empty where nothing grew much.
fn elsewhere(report: &FleetReport, look: &Look) -> String {
    let Some(most) = &report.grown_elsewhere else { return String::new() };
    let more = match report.sums.processes_grown_elsewhere.saturating_sub(1) {
        0 => String::new(),
        more => format!(", and {} more such", of(more, "process")),
    };
    let grown = bytes(most.bytes, look.exact);
    let who = format!("{} {}", most.program, most.pid);
    format!("; {who} has at least {grown} more in memory than at first, outside of sampled blocks{more}")
}

/// `after 3 min 10 s: worker 4711: keep worker.c:12 grows 3.60 MB/h ±20 %`
pub fn news(process: &FleetProcess, watched_ms: u64, look: &Look) -> String {
    let growing = process.places.iter().filter(|place| place.growth.verdict == Verdict::Growing);
    let place = |place: &WatchedPlace| {
        format!("{} grows {}", name(place, look), rate_per_hour(&place.growth.bytes_per_hour, look))
    };
    let all: Vec<String> = growing.map(place).take(LARGEST).collect();
    format!("after {}: {} {}: {}", seconds(watched_ms), process.program, process.pid, all.join("; "))
}

/// Live bytes, as far as there are enough samples: `1.20 GB ±8 % live`, `live: not enough samples (3 of 8)`.
fn live(bytes: &Estimate, samples: u64, look: &Look) -> String {
    match bytes.enough() {
        true => format!("{} live", column_bytes(bytes, look)),
        false => format!("live: {}", not_enough(samples)),
    }
}

fn growing(processes: u64) -> String {
    match processes {
        1 => "1 process grows".to_owned(),
        n => format!("{} processes grow", count(n)),
    }
}

fn ended(processes: u64) -> String {
    format!("{} ended", of(processes, "process"))
}

fn show_program(program: &FleetProgram, look: &Look, stacks: bool, page: &mut Page) {
    page.gap();
    let sums = &program.sums;
    let running = match sums.processes {
        0 => "no process runs".to_owned(),
        processes => format!("{}, {}", of(processes, "process"), live(&sums.live_bytes, sums.samples, look)),
    };
    let mut line = Line::new().strong(&program.program).plain(format!("  {running}"));
    if sums.growing_processes > 0 {
        line = line.plain(", ").strong(growing(sums.growing_processes));
    }
    if sums.ended > 0 {
        line = line.plain(format!(", {}", ended(sums.ended)));
    }
    page.line(line);
    let (growing, rest): (Vec<&FleetPlace>, Vec<&FleetPlace>) =
        program.places.iter().partition(|place| place.verdict >= Verdict::SoFar);
    for place in growing.iter().chain(rest.iter().take(LARGEST)) {
        show_place(place, look, page);
    }
    let hidden = program.places_in_all.saturating_sub((growing.len() + rest.len().min(LARGEST)) as u64);
    if hidden > 0 {
        page.line(Line::new().faint(format!("    and {} more", of(hidden, "place"))));
    }
    // One process is its program.
    let is_alone = sums.processes + sums.ended == 1;
    for process in program.processes.iter().filter(|process| !is_alone || stacks || !process.running) {
        show_process(process, look, stacks, page);
    }
    if is_alone && let Some(process) = program.processes.first().filter(|process| process.running && !stacks) {
        page.line(Line::new().faint(format!("    pid {}{}", process.pid, whose(process))));
    }
    if let Some(hidden) = &program.processes_hidden {
        let rest = format!(
            "    and {} more, {}",
            of(hidden.rows, "process"),
            live(&hidden.sums.live_bytes, hidden.sums.samples, look)
        );
        page.line(Line::new().faint(rest));
    }
}

fn show_place(place: &FleetPlace, look: &Look, page: &mut Page) {
    let live = match place.by {
        // In the others it is among all that the line allocates.
        Some(_) => live(&place.live_bytes, place.samples, look),
        None => {
            format!("{} in {}", live(&place.live_bytes, place.samples, look), of(place.processes, "process"))
        }
    };
    let line = match place.verdict >= Verdict::SoFar {
        false => Line::new().plain(format!("    {live}  ")),
        true => {
            let so_far = if place.verdict == Verdict::SoFar { " so far" } else { "" };
            let pids: Vec<String> = place.growing_pids.iter().map(u32::to_string).collect();
            let more = if place.grows_in > place.growing_pids.len() as u64 { ", …" } else { "" };
            Line::new()
                .plain("    ")
                .strong(format!("+{}{so_far}", rate_per_hour(&place.bytes_per_hour, look)))
                .plain(format!(" in {}{more}; {live}  ", pids.join(", ")))
        }
    };
    let called = (place.by.as_deref(), place.through.as_deref());
    page.line(line.then(described_by(place.frame.as_ref(), 1, called, &Default::default(), look)));
}

/// ` of shop/web-1, app`: the pod and the container, where they are known.
fn whose(process: &FleetProcess) -> String {
    let label = |name: &str| process.labels.get(name).cloned();
    let pod = label("pod").map(|pod| label("namespace").map_or(pod.clone(), |namespace| format!("{namespace}/{pod}")));
    let all: Vec<String> = pod.into_iter().chain(label("container")).collect();
    if all.is_empty() { String::new() } else { format!(" of {}", all.join(", ")) }
}

fn show_process(process: &FleetProcess, look: &Look, stacks: bool, page: &mut Page) {
    let state = match (process.running, process.abrupt) {
        (true, _) => String::new(),
        (false, false) => " ended".to_owned(),
        (false, true) => " ended by a signal, or without its exit handlers".to_owned(),
    };
    let live = match process.samples {
        0 => "no sample is live".to_owned(),
        samples if process.live_bytes.enough() => {
            format!("{} live in {}", column_bytes(&process.live_bytes, look), of(samples, "sample"))
        }
        samples => live(&process.live_bytes, samples, look),
    };
    let mut line = Line::new().plain(format!("    pid {}{}{state}: {live}", process.pid, whose(process)));
    if process.attached {
        line = line.faint(", attached");
    }
    let grows = |place: &&WatchedPlace| place.growth.verdict >= Verdict::SoFar;
    if process.running
        && let Some(place) = process.places.iter().find(grows)
    {
        let so_far = if place.growth.verdict == Verdict::SoFar { " so far" } else { "" };
        let rate = rate_per_hour(&place.growth.bytes_per_hour, look);
        line = line.plain(", ").strong(format!("{} grows {rate}{so_far}", name(place, look)));
    }
    page.line(line);
    if stacks {
        for place in process.places.iter().take(LARGEST) {
            let through = place.through.as_deref();
            let named = described_by(
                place.frame.as_ref(),
                place.sites,
                (place.by.as_deref(), through),
                &place.largest_site,
                look,
            );
            page.line(Line::new().plain(format!("      {}  ", column_bytes(&place.live_bytes, look))).then(named));
        }
    }
}
