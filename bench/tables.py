"""The results as tables in Markdown."""

import statistics

MIB = 1024

# opentelemetry-ebpf-profiler, design-docs/00003-memory-profiling, "Expected Runtime Cost".
OTEL_DORMANT_NS = 10.4

# The head of its table, what it is taken from of all runs. Other work on the machine only adds to a time: the least shows a
# difference that it hides in the median.
CLOCKS = (("wall", statistics.median, "the target's time"),
          ("processor", statistics.median, "the target's processor time"),
          ("processor", min, "the least processor time of the runs"))


def render(results, chosen):
    """All tables; `results` is what goes into results.json."""
    parts = [about(results), times(results, chosen), shares(results, chosen)]
    if any(not workload["pair"] for workload in results["workloads"].values()):
        parts += [spread(results, chosen), reports(results, chosen), memory(results, chosen), sizes(results, chosen)]
    parts.append(failures(results))
    return "\n\n".join(part for part in parts if part) + "\n"


def about(results):
    machine = results["machine"]
    load = f"{results['load_before'][0]:.1f} before, {results['load_after'][0]:.1f} after"
    runs = "1 run, small workloads (--quick)" if results["quick"] else f"medians of {results['runs']} alternating runs"
    return (f"{machine['processor']}, {machine['cores']} cores, Linux {machine['kernel']}, {machine['libc']}, "
            f"{machine['heaptrack'] or 'no heaptrack'}; {runs}; load average {load}.")


def times(results, chosen):
    """The table of the numbers to reach, by wall time, and again by the time that the target had the processor."""
    legend = ("Pairs: nanoseconds a pair, over bare, where no other is named. "
              "Programs: × bare, and in parentheses nanoseconds over bare for each allocation.")
    tables = [legend, *dormant_probes(chosen)]
    for clock, of_runs, head in CLOCKS:
        rows = []
        for variant in chosen:
            cells = [time_cell(workload, variant, clock, of_runs) for workload in results["workloads"].values()]
            rows.append([variant.title, *cells])
        tables.append(markdown([head, *titles(results["workloads"].values())], rows))
    return "\n\n".join(tables)


def dormant_probes(chosen):
    """What others measured of the same."""
    if not any(variant.name in ("dormant", "sample") for variant in chosen):
        return []
    return [f"Nobody listens to the probes of `otel_memory`, whether the program is dormant or sampled. For its own sampler with an inactive "
            f"semaphore OpenTelemetry's design names {OTEL_DORMANT_NS} ns a pair of 64 B on x86-64."]


def time_cell(workload, variant, clock, of_runs=statistics.median):
    figures = workload["variants"][variant.name]
    bare = workload["variants"][variant.over]
    if "failed" in figures or "failed" in bare:
        return "failed"
    time, alone = of_runs(figures["times"][clock]), of_runs(bare["times"][clock])
    if variant.name == "bare":
        return f"{alone:.1f} ns" if workload["pair"] else f"{alone:.2f} s"
    if workload["pair"]:
        return f"{time - alone:+.1f}"
    return f"{time / alone:.2f}× ({(time - alone) * 1e9 / workload['allocations']:.0f})"


def shares(results, chosen):
    """What recording adds to the bare time, as a share of what heaptrack's recorder adds: 0.10 is a tenth of its cost."""
    names = [variant.name for variant in chosen]
    recorders = [variant for variant in chosen if variant.name.startswith("record")]
    if "heaptrack" not in names or not recorders:
        return ""
    rows = [[f"{variant.title}: {head}", *(share_cell(workload, variant, clock, of_runs) for workload in results["workloads"].values())]
            for variant in recorders for clock, of_runs, head in CLOCKS]
    return markdown(["overhead as a share of heaptrack's", *titles(results["workloads"].values())], rows)


def share_cell(workload, variant, clock, of_runs):
    figures = [workload["variants"][name] for name in ("bare", variant.name, "heaptrack")]
    if any("failed" in figure for figure in figures):
        return "failed"
    bare, ours, theirs = (of_runs(figure["times"][clock]) for figure in figures)
    return f"{(ours - bare) / (theirs - bare):.2f}" if theirs > bare else "–"


def spread(results, chosen):
    """Each run of a program stands beside a bare one, or one of what it is over: the ratios show what chance does."""
    rows = [[variant.title, *(spread_cell(workload, variant) for workload in programs(results))]
            for variant in chosen if variant.name != "bare"]
    return markdown(["the lowest and highest ratio of a turn: time; processor time", *titles(programs(results))], rows)


def spread_cell(workload, variant):
    figures, bare = workload["variants"][variant.name], workload["variants"][variant.over]
    if "failed" in figures or "failed" in bare:
        return "failed"
    pairs = [sorted(time / alone for time, alone in zip(figures["times"][clock], bare["times"][clock]))
             for clock in ("wall", "processor")]
    return "; ".join(f"{ratios[0]:.2f}…{ratios[-1]:.2f}×" for ratios in pairs)


def reports(results, chosen):
    return program_table(results, chosen, "until the report is on the screen (after the target's end)", "report_s",
                         lambda figures, _: f"{figures['report_s']:.2f} s ({figures['report_after_s']:.2f} s)")


def memory(results, chosen):
    def cell(figures, workload):
        bare = workload["variants"]["bare"].get("target_maxrss_kib")
        if bare is None or "target_maxrss_kib" not in figures:
            return "–"
        target = figures["target_maxrss_kib"]
        text = f"{target / MIB:.0f} MB"
        if figures is not workload["variants"]["bare"]:
            text = f"{(target - bare) / MIB:+.0f} MB"
        if "tool_kib" in figures:
            # The kernel keeps 15 letters of a name.
            process = figures["tool_process"].replace("heaptrack_inter", "its reader")
            text += f"; {process} {figures['tool_kib'] / MIB:.0f} MB"
        return text

    return program_table(results, chosen, "peak memory: target; tool", "target_maxrss_kib", cell)


def sizes(results, chosen):
    def cell(figures, workload):
        text = f"{figures['recording_bytes'] / workload['events']:.2f}"
        read = figures.get("report_recording_bytes")
        if read is not None and variant_differs(read, figures["recording_bytes"]):
            text += f" ({read / workload['events']:.2f} after its reader)"
        return text

    table = program_table(results, [v for v in chosen if v.name in ("record", "record-before", "heaptrack")],
                          "recording, bytes an event", "recording_bytes", cell)
    events = [f"{workload['title']} {workload['events']:,}" for workload in programs(results)]
    return f"{table}\n\nEvents (allocations and frees): {', '.join(events)}." if table else ""


def variant_differs(one, other):
    return abs(one - other) > 0.05 * max(one, other)


def program_table(results, chosen, head, key, cell):
    rows = []
    for variant in chosen:
        figures = [workload["variants"][variant.name] for workload in programs(results)]
        if not any(key in figure or (key == "report_s" and "report_failed" in figure) for figure in figures):
            continue
        cells = []
        for figure, workload in zip(figures, programs(results)):
            if key in figure:
                cells.append(cell(figure, workload))
            else:
                cells.append("died" if key == "report_s" and "report_failed" in figure else "–")
        rows.append([variant.title, *cells])
    return markdown([head, *titles(programs(results))], rows) if rows else ""


def failures(results):
    lines = list(results["left_out"])
    for name, workload in results["workloads"].items():
        for variant, figures in workload["variants"].items():
            for key in ("failed", "report_failed"):
                if key in figures:
                    lines.append(f"{variant} on {name}: {figures[key]}")
    return "\n".join(f"- {line}" for line in lines)


MALLOWS = ("bare", "again", "stat", "sample", "watch", "record", "record-no-rss")


def mallow_failures(results):
    """A peer may die; Mallow may not."""
    return [figures for workload in results["workloads"].values() for name, figures in workload["variants"].items()
            if name.removesuffix("-before") in MALLOWS and ("failed" in figures or "report_failed" in figures)]


def programs(results):
    return [workload for workload in results["workloads"].values() if not workload["pair"]]


def titles(workloads):
    return [workload["title"] for workload in workloads]


def markdown(heads, rows):
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
