"""The facts that sentences state, computed from Mallow's JSON."""


def share(part, whole):
    """From 0 to 1; None where there is no whole."""
    return part / whole if whole else None


def families(rows):
    """`malloc 47, calloc 3`"""
    return ", ".join(f"{row['family']} {row['allocations']:,}" for row in rows)


def insight_limits(insight, document):
    """The least and the most that an insight's share may be, by DEFINITIONS.md.

    An allocation with its free costs 20 ns, a copied byte 0.1 ns, a free by another thread 40 ns. The whole has at least all
    allocations, and what the insight saves.
    """
    saves = insight["saves"]
    of_peak = min(share(saves["peak_bytes"], document["peak_bytes"]) or 0.0, 1.0)
    more = 0.1 * saves["copied_bytes"] + 40 * saves["freed_by_others"]
    whole = 20 * document["allocations"] + more
    of_cost = min(share(20 * saves["allocations"] + more, whole) or 0.0, 1.0)
    return of_peak - 1e-3, max(of_peak, of_cost) + 1e-3


def of_report(document):
    """Of `mallow report --json`."""
    facts = {
        key: value for key, value in document.items() if isinstance(value, (int, float)) and not isinstance(value, bool)
    }
    threads = sum(process["threads"] for process in document["processes"])
    status = document.get("exit_status")
    window = [document["duration_ms"], *(document[key] for key in ("window_ms",) if key in document)]
    starts = [process["start_ms"] for process in document["processes"]]
    ends = [process["end_ms"] for process in document["processes"]]
    if starts:
        # The rate is of the time in which there were processes.
        window += [max(ends) - min(starts), document["duration_ms"] - min(starts)]
    facts |= {
        "processes": len(document["processes"]),
        "threads": threads,
        "signal": (status or 0) - 128,
        "rate": [document["allocations"] * 1000 / ms for ms in window if ms > 0],
        "families": families(document["families"]),
        "temporary_share": share(document["temporary"], document["allocations"]),
        "peak_when": share(document["peak_ms"], document["duration_ms"]),
        "unscanned_bytes": sum(part["leaked_bytes"] for part in document.get("unscanned", [])),
        "insights": document.get("insights_in_all", 0),
        "zero": 0,
    }
    facts["pool_bytes"] = (document.get("emergency_pool") or {}).get("leaked_bytes")
    highest = document.get("highest_rss")
    if highest:
        facts |= {
            "highest_rss": highest["peak_rss"],
            "read_rss": highest["rss"],
            "highest_ms": highest["ms"],
            "highest_pid": highest["pid"],
            "highest_live": highest.get("live"),
            "below_share": share(highest["peak_rss"] - highest["rss"], highest["peak_rss"]),
            "highest_live_bytes": highest["recorded_live_bytes"],
            "highest_live_share": share(highest["recorded_live_bytes"], highest["rss"]),
            "swap": highest.get("swap"),
        }
    if document.get("insights"):
        facts["best_share"] = document["insights"][0]["share"]
    for places in document["largest"]:
        if places["largest"]:
            facts[f"first_{places['by']}_share"] = share(_measure(places, places["largest"][0]), places["total"])
            facts[f"first_{places['by']}_name"] = places["largest"][0].get("function")
    return facts


MEASURE = {
    "allocations": "allocations",
    "bytes": "allocated_bytes",
    "peak": "peak_bytes",
    "leaked": "leaked_bytes",
    "temporary": "temporary",
}


def _measure(places, place):
    return place[MEASURE[places["by"]]]


def of_place(place, word, whole, names):
    """A row of a list: its amount, its share of the whole, how many blocks."""
    return {
        "amount": place[word],
        "share": share(place[word], whole),
        "times": place.get("heads") or place.get("leaked"),
        "sites": place["sites"],
        **names,
    }


def of_leaks(document):
    """Of `mallow leaks --json`."""
    facts = {
        key: value for key, value in document.items() if isinstance(value, (int, float)) and not isinstance(value, bool)
    }
    facts["unscanned_bytes"] = sum(part["leaked_bytes"] for part in document.get("unscanned", []))
    facts["unscanned_blocks"] = sum(part["leaked"] for part in document.get("unscanned", []))
    facts["pool_bytes"] = (document.get("emergency_pool") or {}).get("leaked_bytes")
    facts["pool_blocks"] = (document.get("emergency_pool") or {}).get("leaked")
    # Suppressed blocks are in neither list of the text; JSON's sums have them.
    for word, suppressed in (("reachable_blocks", "suppressed"), ("reachable_bytes", "suppressed_bytes")):
        if word in document:
            facts[word] = [document[word], document[word] - document[suppressed]]
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
    cause = document.get("cause")
    if cause:
        facts["cause_bytes"] = cause["bytes"]
        facts["cause_share"] = share(cause["bytes"], document["rss"])
        facts["cause_place_bytes"] = (cause.get("place") or {}).get("bytes")
    return facts
