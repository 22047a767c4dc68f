"""Text says what JSON says, sentence by sentence, and the page says the same. Oracle: the JSON of the same recording.

What JSON says is compared with other oracles; here it is only asked whether the words agree with it.
"""

import re

import facts
import rules
from amounts import is_written
from disagreement import Disagreement
from statements import check as check_sentence
from statements import read, wrong

NAME = "text"


def check(evidence):
    """All sentences of all views of the row's recordings."""
    for condition, recording in evidence.record.items():
        documents = (
            ("report", report_sentences),
            ("leaks", leaks_sentences),
            ("rss", rss_sentences),
            ("page", page_sentences),
        )
        for view, sentences in documents:
            for sentence, said in sentences(recording):
                for words, right in said or []:
                    line = f"{words}: {shortened(sentence)}"
                    command = f"mallow {'export --format html' if view == 'page' else view} {recording.file}"
                    yield Disagreement(NAME, evidence.row.name, f"{view}, {condition}", line, f"JSON: {right}", command)
        printed = recording.run.stderr.decode(errors="replace")
        for line in recording.report.splitlines():
            # What was not recorded is said before the report, as the other ways of running a command say it.
            if line not in printed and line.replace("Incomplete: ", "mallow: ", 1) not in printed:
                said = f"record does not print: {shortened(line)}"
                yield Disagreement(
                    NAME,
                    evidence.row.name,
                    f"record, {condition}",
                    said,
                    "what report prints",
                    evidence.command("record"),
                )
                break


def unread(recording):
    """Sentences with a number that no rule reads."""
    for sentences in (report_sentences, leaks_sentences, rss_sentences):
        for sentence, said in sentences(recording):
            if said is None and re.search(r"[0-9]", sentence):
                # Numbers differ from run to run, and one line for each kind is enough.
                yield shortened(re.sub(r"[0-9][0-9,.]*", "N", sentence))


def shortened(sentence, width=110):
    """One line of it."""
    sentence = " ".join(sentence.split())
    return sentence if len(sentence) <= width else sentence[: width - 1] + "…"


def paragraphs(text):
    """The lines that are not empty."""
    return [line for line in text.splitlines() if line.strip()]


# ---- report


def report_sentences(recording):
    """Pairs of a sentence and what is wrong in it; None: no rule reads it."""
    document = recording.report_json
    if not document or not recording.report:
        return
    all_facts = facts.of_report(document)
    causes = document.get("leak_causes") or []
    lost = (recording.lost_json or {}).get("leak_causes") or []
    yield from _insights(document)
    yield from _lengths(recording.report)
    section, row = None, 0
    for line in paragraphs(recording.report):
        if line == " ".join(document["command"]):
            continue
        if line.startswith("Verdict: "):
            # Of a file whose JSON has no verdict, the words have nothing to be compared with.
            yield from _verdict(line, document) if "verdict" in document else [(line, None)]
            continue
        heading = _heading(line)
        if heading:
            section, row = heading, 0
            yield line, _check_heading(line, heading, all_facts, document)
            continue
        if not line.startswith(" "):
            section = None
        said = read(rules.PLACE, line) if section else None
        if said is not None:
            yield line, _row(line, said, section, row, document, causes, lost)
            row += 1
            continue
        said = read(rules.INSIGHT, line) if section in ("Best insight", "Insights") else None
        if said is not None:
            insights = [insight for insight in document.get("insights") or [] if facts.matters(insight)]
            yield (
                line,
                list(wrong(said, insights[row]))
                if row < len(insights)
                else [(f"row {row + 1}", f"{len(insights)} insights")],
            )
            row += 1
            continue
        if line.startswith("Programs by peak: "):
            yield line, _programs(line, document)
            continue
        found = check_sentence(line, rules.REPORT, all_facts)
        if found is not None or not _is_free_text(line, section):
            yield line, found


def _programs(line, document):
    """What is wrong in `Programs by peak: cc1 (2 processes, up to 4.27 MB each), as (172 kB), 3 more`."""
    peaks = {}
    for process in document["processes"]:
        peaks.setdefault(facts.program_of(process), []).append(process["own_peak_bytes"])
    said = re.findall(r"([^\s,()][^,()]*) \((?:([0-9,]+) processes, up to )?([^,()]+?)(?: each)?\)", line.split(": ", 1)[1])
    found = []
    for name, processes, peak in said:
        own = peaks.pop(name, [])
        known = {"processes": len(own), "peak": max(own, default=None)}
        found += wrong([("count", processes or "1", "processes"), ("bytes", peak, "peak")], known)
    more = re.search(r", ([0-9,]+) more$", line)
    left = int(more[1].replace(",", "")) if more else 0
    return found + ([(f"{left} more", f"{len(peaks)} more programs")] if left != len(peaks) else [])


def _lengths(report):
    """A heading that says how many rows follow, and another number of rows."""
    heading, promised, rows = None, 0, 0
    for line in [*report.splitlines(), ""]:
        if heading and not line.startswith("  "):
            if rows != promised:
                yield heading, [(f"the largest {promised}", f"{rows} rows")]
            heading = None
        counted = re.search(r"\(the largest ([0-9,]+) of [0-9,]+\)", line)
        if counted and _heading(line) not in (None, "Processes"):
            heading, promised, rows = line, int(counted[1].replace(",", "")), 0
        elif heading:
            # What hangs below a row is indented further than any row's numbers.
            rows += bool(re.match(r" {2,8}\S", line))


def _heading(line):
    for title in rules.LISTS:
        if line.startswith(title):
            return title
    match = re.match(r"(Lost|Still reachable|Live at the end|Live), by cause: ", line)
    if match:
        return match[1]
    match = re.match(r"Best insight|Insights|Processes", line)
    return match[0] if match else None


def _check_heading(line, heading, all_facts, document):
    counted = re.search(r"\(the largest ([0-9,]+) of ([0-9,]+)\)", line)
    if heading in rules.LISTS:
        places = next(places for places in document["largest"] if places["by"] == rules.LISTS[heading])
        if counted and int(counted[2].replace(",", "")) != places["places"]:
            return [(f"{counted[2]} places", f"{places['places']}")]
        return []
    if heading in ("Best insight", "Insights", "Processes"):
        small = sum(not facts.matters(insight) for insight in document["insights"])
        wholes = [document["insights_in_all"], document["insights_in_all"] - small]
        if heading == "Processes":
            wholes = [len(document["processes"])]
        return [(f"{counted[2]}", f"{wholes}")] if counted and int(counted[2].replace(",", "")) not in wholes else []
    shown = int(counted[1].replace(",", "")) if counted else None
    listed = sum(cause["live"] for cause in document["leak_causes"]) + (
        (document.get("leak_causes_hidden") or {}).get("live") or 0
    )
    size = sum(cause["live_bytes"] for cause in document["leak_causes"]) + (
        (document.get("leak_causes_hidden") or {}).get("live_bytes") or 0
    )
    lost_causes = int(counted[2].replace(",", "")) if counted else None
    known = {
        **all_facts,
        "shown": shown,
        "lost_causes": lost_causes,
        "leak_bytes": size,
        "leak_blocks": listed,
    }
    return check_sentence(line, rules.CAUSES, known)


def _row(line, said, section, row, document, causes, lost):
    """A row of a list: its amounts, and that it begins with the name of its place."""
    if section in rules.LISTS:
        places = next(places for places in document["largest"] if places["by"] == rules.LISTS[section])
        listed, word, whole = places["largest"], facts.MEASURE[places["by"]], places["total"]
    elif section == "Lost":
        # Its causes are no list of the report's JSON.
        listed, word, whole = lost, "live_bytes", facts.lost_of_the_program(document)[1]
    elif section == "Processes":
        return []
    elif section in ("Best insight", "Insights"):
        return []
    else:
        listed, word = causes, "live_bytes"
        whole = sum(cause[word] for cause in causes) + ((document.get("leak_causes_hidden") or {}).get(word) or 0)
    if row >= len(listed):
        return [(f"row {row + 1}", f"{len(listed)} rows")]
    found = list(wrong(said, facts.of_place(listed[row], word, whole, {})))
    name = listed[row].get("function") or ""
    if re.fullmatch(r"[\w+.]+", name) and name not in line:
        found.append((f"row {row + 1} without its name", name))
    return found


def _insights(document):
    """The shares of each insight, computed anew."""
    for insight in document.get("insights") or []:
        if "malloc_share" not in insight:
            continue
        malloc, peak, run = facts.insight_shares(insight, document)
        said = insight["malloc_share"], insight["peak_share"], insight.get("run_share")
        found = []
        if said[0] > malloc + facts.NEAR:
            found.append((f"malloc_share {said[0]:.4f}", f"{malloc:.4f} at the most"))
        if abs(said[1] - peak) > facts.NEAR:
            found.append((f"peak_share {said[1]:.4f}", f"{peak:.4f}"))
        if (said[2] is None) != (run is None) or run is not None and abs(said[2] - run) > facts.NEAR + 0.01 * run:
            found.append((f"run_share {said[2]}", f"{run}"))
        if found:
            yield f"insight {insight['kind']} in {insight['function']}", found


def _verdict(line, document):
    """Each statement of the verdict, by the rule of its kind, and none that another number contradicts."""
    text = re.sub(r"^Verdict: (?:by estimates, |by estimates of what was recorded, |of what was recorded, )?", "", line)
    if document["verdict"]["whole"] == ("of what was recorded" in line):
        yield line, [("of what was recorded", f"whole: {document['verdict']['whole']}")]
    yield line, list(facts.contradictions(document))
    for statement in document["verdict"]["statements"]:
        if not text:
            break
        rule = rules.VERDICT[statement["kind"]]
        # A statement may have a semicolon of its own, in a name.
        ends = [at for at in range(1, len(text) + 1) if at == len(text) or text[at : at + 2] == "; "]
        end = next((at for at in ends if read(rule, text[:at]) is not None), None)
        if end is None:
            yield text, None
            return
        yield text[:end], list(wrong(read(rule, text[:end]), facts.of_statement(statement, document)))
        text = text[end + 2 :]


def _is_free_text(line, section):
    """Remedies below insights, names of files, the command: no amounts that JSON has under one key."""
    indented = line.startswith("          ")
    is_sentence = re.match(NAMES + r"|Incomplete: |Counted: |  Not scanned", line)
    return (
        indented
        or section in ("Best insight", "Insights", "Processes")
        or bool(is_sentence)
        or not re.search(r"\d", line)
    )


NAMES = "No names of|No source lines of|Few names of"
"""What is said of a file whose names are missing."""


# ---- leaks


def leaks_sentences(recording):
    """The same of `mallow leaks`."""
    document = recording.leaks_json
    if not document or not recording.leaks:
        return
    all_facts = facts.of_leaks(document, recording.lost_json, recording.reachable_json)
    causes = (recording.lost_json if document.get("lost_blocks") else document or {}).get("leak_causes") or []
    whole = sum(cause["live_bytes"] for cause in causes)
    row = 0
    for line in paragraphs(recording.leaks):
        if line.startswith("    ") or line.startswith("Incomplete: ") or re.match(NAMES, line):
            continue
        said = read(rules.LEAK, line)
        if line.startswith("No block was lost."):
            lost = document.get("lost_blocks")
            yield line, [] if lost == 0 else [("no block lost", f"{lost} lost")]
        elif line.startswith("Nothing leaked: all blocks were freed"):
            yield (
                line,
                [] if document["live"] == 0 else [("nothing leaked", f"{document['live']:,} live at the end")],
            )
        elif said is not None:
            yield (
                line,
                list(wrong(said, facts.of_cause(causes[row], whole))) if row < len(causes) else [("a leak", "none")],
            )
            row += 1
        else:
            rest = causes[row:]
            known = {
                "rest": len(rest),
                "rest_bytes": sum(cause["live_bytes"] for cause in rest),
                "rest_blocks": sum(cause["live"] for cause in rest),
                "lost_causes": len((recording.lost_json or {}).get("leak_causes") or []),
                "shown": row or len(re.findall(rules.LEAK_LINE, recording.leaks, re.MULTILINE)),
            }
            yield line, check_sentence(line, [*rules.LEAKS, rules.POOL, rules.KEPT, rules.EXEC], {**all_facts, **known})


# ---- rss


def rss_sentences(recording):
    """The same of `mallow rss`."""
    document = recording.rss_json
    if not document or "parts" not in document or not recording.rss:
        return
    all_facts = facts.of_rss(document)
    remedies = iter(document["remedies"])
    places = None
    # Several allocators have parts of one kind.
    rest = [(part["part"], part["bytes"]) for part in document["parts"]]
    for line in paragraphs(recording.rss):
        remedy = re.match(r"\s+-(\S+ [kMGT]?B)\s+(sure|likely|at most)\s+(.*)", line)
        label = next((label for label in rules.PARTS if re.search(rf"\s\s{re.escape(label)}", line)), None)
        label = label or next(
            ("allocator" for name in (r"\S+'s headers", r"\S+'s tables", "tables of") if re.search(rf"\s\s{name}", line)),
            None,
        )
        if remedy:
            expected = next(remedies, None)
            said = [("bytes", remedy[1], "own_bytes" if remedy[3].startswith("now ") else "expected_bytes")]
            elsewhere = re.search(r"with what would lie elsewhere, at most (\S+ [kMGT]?B)", line)
            said += [("bytes", elsewhere[1], "expected_bytes")] if elsewhere else []
            yield line, list(wrong(said, expected or {}))
        elif label:
            said = read(rules.PART, line)
            amount = _take(rest, rules.PARTS.get(label, label), said)
            known = {
                "amount": amount,
                "share": facts.share(abs(amount), document["rss"]) if amount is not None else None,
            }
            yield line, list(wrong(said, known)) if said else None
        elif line.startswith("Incomplete: ") or line == "What would help":
            continue
        elif re.match(r"\s+live\s+rounding\s+holes\s+alone\s+place", line):
            places = iter(document["places"])
        elif places is not None and (said := read(rules.RSS_PLACE, line)) is not None:
            yield line, list(wrong(said, next(places, None) or {}))
        elif (said := read(rules.FOLDED, line)) is not None:
            amount = sum(amount for _, amount in rest)
            known = {"amount": abs(amount), "rows": len(rest), "share": facts.share(abs(amount), document["rss"])}
            yield line, list(wrong([(kind, text.lstrip("-"), fact) for kind, text, fact in said], known))
        else:
            yield line, check_sentence(line, rules.RSS, all_facts)


def _take(rest, kind, said):
    """Takes the part of this kind out whose amount stands there, or the first; None where there is none."""
    written = next((text for name, text, fact in said or [] if fact == "amount"), None)
    of_kind = [part for part in rest if part[0] == kind]
    found = next((part for part in of_kind if written and is_written("bytes", written, abs(part[1]))), None)
    found = found or next(iter(of_kind), None)
    if found is None:
        return None
    rest.remove(found)
    return found[1]


# ---- the page

TILES = {
    "Live at peak": ("bytes", "peak_bytes"),
    "Live at end": ("bytes", "live_bytes"),
    "Temporary": ("count", "temporary"),
    "Highest RSS": ("bytes", "highest_rss"),
    "Allocations": ("count", "allocations"),
}
"""Words of the summary, and what stands behind each."""


def page_sentences(recording):
    """The summary's tiles, and the report's verdict and notices, which the page prints too."""
    if recording.page is None or not recording.report_json:
        return
    lines = recording.page.splitlines()
    known = facts.of_report(recording.report_json)
    for title, (kind, fact) in TILES.items():
        value = known.get(fact)
        if title in lines and lines.index(title) + 1 < len(lines) and value is not None:
            said = lines[lines.index(title) + 1]
            try:
                found = list(wrong([(kind, said, fact)], known))
            except (ValueError, IndexError, KeyError):
                found = [(said, str(value))]
            yield f"{title}: {said}", found
    everything = flat(recording.page)
    for line in recording.report.splitlines():
        if line.startswith(("Verdict: ", "Incomplete: ")):
            # A narrow terminal has fewer statements of the verdict, in the same order.
            at, missing = 0, []
            for statement in line.split(": ", 1)[1].split("; "):
                at = everything.find(flat(statement), at)
                if at < 0:
                    missing, at = [*missing, ("not on the page", f"the report's {statement}")], 0
            yield line, missing
    # Hints are about the modules of the rows that a document has, and the page has more rows.
    compared = {key: said for key, said in (recording.report_json.get("sentences") or {}).items() if key != "hints"}
    # A page in one file has room for some of many suggestions, and says so.
    cut = re.search(r"thelargest([0-9]+)of([0-9,]+);mallowreport--allshowsall", everything)
    if cut and cut[2].replace(",", "") == str(recording.report_json["insights_in_all"] - recording.report_json["small_in_all"]):
        compared["suggestions"] = compared["suggestions"][: int(cut[1])]
    for sentence in phrases(compared):
        yield sentence, [] if flat(sentence) in everything else [("not on the page", "a sentence of the report's JSON")]


def phrases(sentences):
    """All texts of the JSON's sentences."""
    if isinstance(sentences, str):
        # Keys of other lists are no sentences.
        return [sentences] if " " in sentences.strip() else []
    parts = sentences.values() if isinstance(sentences, dict) else sentences or []
    return [phrase for part in parts for phrase in phrases(part)]


def flat(text):
    """Without space and case, which a page's layout changes."""
    return re.sub(r"\s+", "", text).lower()
