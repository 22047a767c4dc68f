"""The facts that sentences state, computed from Mallow's JSON."""


def share(part, whole):
    """From 0 to 1; None where there is no whole."""
    return part / whole if whole else None


def families(rows):
    """`malloc 47, calloc 3`"""
    return ", ".join(f"{row['family']} {row['allocations']:,}" for row in rows)


NEAR = 2e-4
"""Shares of the JSON have four digits behind the point."""


def insight_shares(insight, document):
    """The shares that an insight may have at the most, by DEFINITIONS.md, from what it saves: malloc's time, peak, run.

    Of malloc's time: an allocation with its free counts 20 ns, 5 µs more where blocks have 32 MiB on average, a copied
    byte 0.1 ns, a free by another thread 40 ns; the
    whole has at least all allocations, and what the insight saves. Of the run's CPU time: 1 µs, 0.5 ns, 1 µs, and 0.25 ns
    for a byte of a large block. None: not known.
    """
    saves = insight["saves"]
    more = 0.1 * saves["copied_bytes"] + 40 * saves["freed_by_others"]
    if saves["allocations"] and saves.get("large_bytes", 0) // saves["allocations"] >= 32 << 20:
        more += 5000 * saves["allocations"]
    malloc = share(20 * saves["allocations"] + more, 20 * document["allocations"] + more) or 0.0
    peak = share(saves["peak_bytes"], document["peak_bytes"]) or 0.0
    run_ns = 1000 * saves["allocations"] + 0.5 * saves["copied_bytes"] + 1000 * saves["freed_by_others"]
    run = share(run_ns + 0.25 * saves.get("large_bytes", 0), 1000 * (document.get("cpu_us") or 0))
    return min(malloc, 1.0), min(peak, 1.0), None if run is None else min(run, 1.0)


def matters(insight):
    """A hundredth of the peak, or of the run's CPU time where that is known: below it, an insight is no row."""
    return insight.get("peak_share", 1.0) >= 0.01 or insight.get("run_share") is None or insight["run_share"] >= 0.01


def program_of(process):
    """The name that a process was called by, without its directory."""
    called = next(iter(process["arguments"]), "") or process["executable"]
    if called.rsplit("/", 1)[-1] == process["executable"].rsplit("/", 1)[-1]:
        return called.rsplit("/", 1)[-1]
    # A title, or one word.
    word = (called.split() or [called])[0]
    return (word[:-1] if word.endswith(":") and word != called else word).rsplit("/", 1)[-1]


def lost_of_the_program(document):
    """Blocks and bytes of what was lost, without what a runtime loses by design; None where nobody knows."""
    if document.get("lost_blocks") is None:
        return None, None
    by_design = document.get("lost_kept", [])
    return (
        document["lost_blocks"] - sum(kept["live"] for kept in by_design),
        document["lost_bytes"] - sum(kept["live_bytes"] for kept in by_design),
    )


def sums_by_keeper(document, key):
    """What each interpreter or library keeps by design, whatever it is."""
    sums = {}
    for kept in document.get("kept", []):
        sums[kept["keeper"]] = sums.get(kept["keeper"], 0) + kept[key]
    return list(sums.values())


def of_statement(statement, document):
    """A statement of the verdict, computed from the rest of the JSON where that has it."""
    found = dict(statement)
    kind = statement["kind"]
    lists = {places["by"]: places for places in document["largest"]}
    causes = document.get("leak_causes") or []
    live = sum(cause["live_bytes"] for cause in causes)
    live += (document.get("leak_causes_hidden") or {}).get("live_bytes") or 0
    kept = sum(part["live_bytes"] for part in document.get("kept", []))
    kept += (document.get("emergency_pool") or {}).get("live_bytes", 0)
    if kind in ("kept", "reachable", "live_last"):
        found["kept_bytes"] = kept
    elif statement.get("kept"):
        found["kept_bytes"] = statement["kept"]["kept_bytes"]
    if kind == "at_peak":
        found["bytes"] = document["peak_bytes"]
        absent = sum(max(0, process["peak_bytes"] - process.get("peak_rss", 1 << 64)) for process in document["processes"])
        if document["peak_bytes"] - absent < document["peak_bytes"] // 2:
            found["in_memory_bytes"] = document["peak_bytes"] - absent
        else:
            found.pop("in_memory_bytes", None)
        if statement.get("program"):
            of_program = [process for process in document["processes"] if program_of(process) == statement["program"]]
            found["program_share"] = share(sum(process["peak_bytes"] for process in of_program), document["peak_bytes"])
        found["place_bytes"] = lists["peak"]["largest"][0]["peak_bytes"]
    elif kind == "lost":
        found["bytes"] = lost_of_the_program(document)[1]
    elif kind in ("reachable", "live_last") and causes:
        found["bytes"], found["place_bytes"] = live, causes[0]["live_bytes"]
    elif kind == "not_scanned":
        found["bytes"] = sum(part["live_bytes"] for part in document["unscanned"])
    if "place_bytes" in found:
        found["place_share"] = share(found["place_bytes"], found["bytes"])
    elif "place_total" in found:
        found["place_share"] = share(found["place_total"], found["total"])
    if document.get("malloc_time"):
        found |= {"least": document["malloc_time"]["least"], "most": document["malloc_time"]["most"]}
    return found


def contradictions(document):
    """Statements of the verdict that another number of the JSON contradicts: pairs of what was said and what is right."""
    lost = lost_of_the_program(document)[0]
    for statement in document["verdict"]["statements"]:
        kind = statement["kind"]
        scanned = lost is not None and not document["unscanned"]
        if kind == "none_lost" and not (scanned and lost == 0):
            yield (
                "no block was lost",
                f"{lost} lost, {len(document['unscanned'])} reasons for processes that were not scanned",
            )
        elif kind == "nothing_live" and document["live"] > document.get("live_at_exec_blocks", 0):
            yield "nothing was live at the end", f"{document['live']:,} blocks"
        elif kind == "nothing_allocated" and document["allocations"]:
            yield "nothing was allocated", f"{document['allocations']:,} allocations"
        elif kind == "reachable" and lost:
            yield "still reachable", f"{lost:,} lost"
    kinds = [statement["kind"] for statement in document["verdict"]["statements"]]
    several = len({program_of(process) for process in document["processes"] if process["allocations"]}) > 1
    if lost and "lost" in kinds and kinds.index("lost") > several:
        yield f"verdict begins with {kinds[0]}", "lost blocks first"


def of_report(document):
    """Of `mallow report --json`."""
    facts = {
        key: value for key, value in document.items() if isinstance(value, (int, float)) and not isinstance(value, bool)
    }
    status = document.get("exit_status")
    window = document.get("window_ms", document["ran_ms"] - document["table_wait_ms"])
    facts |= {
        # Images of one process follow each other by exec.
        "processes": len({process["pid"] for process in document["processes"]}),
        "images": len(document["processes"]),
        "threads": document["threads_in_all"],
        "foreign_frees": sum(process["foreign_frees"] for process in document["processes"]),
        "signal": (status or 0) - 128,
        "rate": [document["allocations"] * 1000 / window] if window > 0 else [],
        "families": families(document["families"]),
        "temporary_share": share(document["temporary"], document["allocations"]),
        "peak_when": share(min(document["peak_ms"], document["duration_ms"]), document["duration_ms"]),
        "unscanned_bytes": sum(part["live_bytes"] for part in document.get("unscanned", [])),
        "small_suggestions": sum(not matters(insight) for insight in document.get("insights") or []),
        "interpreted_allocations": document.get("interpreted_allocations", 0),
        "zero": 0,
    }
    facts["pool_bytes"] = (document.get("emergency_pool") or {}).get("live_bytes")
    facts["kept_bytes"] = sums_by_keeper(document, "live_bytes")
    facts["kept_blocks"] = sums_by_keeper(document, "live")
    facts["lost_blocks"], facts["lost_bytes"] = lost_of_the_program(document)
    highest = document.get("highest_rss")
    if highest:
        facts |= {
            "highest_rss": highest["peak_rss"],
            "read_rss": highest["rss"],
            "highest_ms": highest["ms"],
            "peak_by_ms": highest.get("peak_by_ms"),
            "peak_unread_ms": highest.get("peak_unread_ms"),
            "highest_pid": highest["pid"],
            "highest_live": highest.get("live"),
            "below_share": share(highest["peak_rss"] - highest["rss"], highest["peak_rss"]),
            "highest_live_bytes": highest["recorded_live_bytes"],
            "highest_in_memory": highest["live_resident_bytes"],
            "highest_absent": highest["recorded_live_bytes"] - (highest["live_resident_bytes"] or 0),
            "highest_live_share": share(highest["live_resident_bytes"] or 0, highest["rss"]),
            "mallow_bytes": highest["mallow_bytes"],
            "swap": highest.get("swap"),
        }
    return facts


MEASURE = {
    "allocations": "allocations",
    "bytes": "allocated_bytes",
    "peak": "peak_bytes",
    "live": "live_bytes",
    "temporary": "temporary",
}


def of_place(place, word, whole, names):
    """A row of a list: its amount, its share of the whole, how many blocks."""
    return {
        "amount": place[word],
        "share": share(place[word], whole),
        "times": place.get("heads") or place.get("live"),
        "held": (place.get("live") or 0) - place["heads"] if place.get("heads") else 0,
        "sites": place["sites"],
        **names,
    }


def of_cause(cause, whole):
    """A leak of `mallow leaks`: heads are the leaks, and they hold the other blocks."""
    heads = cause.get("heads") or cause["live"]
    return {
        "amount": cause["live_bytes"],
        "share": share(cause["live_bytes"], whole),
        "times": heads,
        "held": cause["live"] - heads,
        "sites": cause["sites"],
        "oldest": cause["oldest_ms"],
        "youngest": cause["youngest_ms"],
    }


def of_leaks(document, of_lost, of_reachable):
    """Of `mallow leaks --json`; the others are the same with `--only lost` and `--only reachable`, or None."""
    facts = {
        key: value for key, value in document.items() if isinstance(value, (int, float)) and not isinstance(value, bool)
    }
    # A sentence for each reason.
    facts["unscanned_bytes"] = [part["live_bytes"] for part in document.get("unscanned", [])]
    facts["unscanned_blocks"] = [part["live"] for part in document.get("unscanned", [])]
    facts["pool_bytes"] = (document.get("emergency_pool") or {}).get("live_bytes")
    facts["kept_bytes"] = sums_by_keeper(document, "live_bytes")
    facts["kept_blocks"] = sums_by_keeper(document, "live")
    facts["pool_blocks"] = (document.get("emergency_pool") or {}).get("live")
    # Suppressed blocks are in no list of the text; JSON's sums of states have them.
    if document.get("lost_blocks"):
        for key, lost in (("live", "lost_blocks"), ("live_bytes", "lost_bytes")):
            facts[lost] = sum(cause[key] for cause in (of_lost or {}).get("leak_causes", []))
    if of_reachable and document.get("reachable_blocks") is not None:
        facts["reachable_blocks"] = [document["reachable_blocks"], of_reachable["reported"]]
        facts["reachable_bytes"] = [document["reachable_bytes"], of_reachable["reported_bytes"]]
    return facts


def of_rss(document):
    """Of `mallow rss --json`."""
    facts = {
        key: value for key, value in document.items() if isinstance(value, (int, float)) and not isinstance(value, bool)
    }
    facts["huge_bytes"] = (document.get("kept_apart") or {}).get("huge_bytes")
    facts["name"] = document["executable"].rsplit("/", 1)[-1]
    facts["below_share"] = share(document["peak_rss"] - document["rss"], document["peak_rss"])
    freed = document.get("freed_before")
    if freed:
        facts["freed_ms"] = max(1, document["ms"] - freed["ms"])
        facts |= {"freed_bytes": freed["freed_bytes"], "freed_of_bytes": freed["live_bytes"]}
    busier = document.get("busier")
    if busier:
        facts |= {"busier_ms": busier["ms"], "busier_rss": busier["rss"], "busier_bytes": busier["live_bytes"]}
        facts["busier_more"] = busier["live_bytes"] - document["live_bytes"]
    undivided = document.get("undivided")
    if undivided:
        facts["undivided"] = undivided["bytes"]
        blocks = undivided["blocks"]
        if blocks:
            facts |= {"undivided_ms": blocks["ms"], "undivided_mapped": blocks["mapped_bytes"]}
            facts["undivided_heap"] = min(blocks["heap_bytes"] + blocks["other_bytes"], undivided["bytes"])
    kept = document.get("kept")
    if kept:
        facts |= {"kept_ms": kept["ms"], "kept_rss": kept["rss"], "kept_bytes": kept["live_bytes"]}
        facts["kept_less"] = document["live_bytes"] - kept["live_bytes"]
    if end := document.get("freed_after"):
        facts |= {"after_ms": end["ms"], "after_bytes": end["live_bytes"]}
        facts["after_less"] = document["live_bytes"] - end["live_bytes"]
    cause = document.get("cause")
    if cause:
        facts["cause_bytes"] = cause["bytes"]
        facts["cause_share"] = share(cause["bytes"], document["rss"])
        facts["cause_place_bytes"] = (cause.get("place") or {}).get("bytes")
        facts["heaviest_bytes"] = (cause.get("heaviest") or {}).get("bytes")
        facts["cause_file_bytes"], facts["cause_bss_bytes"] = cause.get("file_bytes"), cause.get("bss_bytes")
    return facts
