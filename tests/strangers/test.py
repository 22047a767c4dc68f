#!/usr/bin/env python3
"""Tests of the judge: a planted false statement is found by the oracle for its kind, and true ones pass. No network."""

import copy
import re
import subprocess
import unittest
from pathlib import Path
from types import SimpleNamespace

import amounts
import bare_heap
import counter
import evidence as gathering
import facts as evidence_facts
import memcheck
import page
import report
import rules
import statements
import strangers
import table
from counter import Image, Range
from evidence import Recording
from oracles import errors, filters, highest, lost, names, output, parts, samples, text, totals
from pick import pick
from places import BUILD, ROOT
from sample import BARE, COUNTS, LEAKS, LEAKS_TEXT, PAGE, PLACE, REPORT, REPORT_TEXT, RSS, RSS_TEXT, a_run, evidence


def found_by(oracle, **changes):
    """What an oracle says of the row with these changes."""
    return list(oracle.check(evidence(**changes)))


ALL = (output, totals, parts, filters, lost, highest, names, text, errors, samples)


class Truth(unittest.TestCase):
    def test_true_statements_pass(self):
        for oracle in ALL:
            self.assertEqual(found_by(oracle), [], oracle.__name__)

    def test_each_sentence_has_a_rule(self):
        self.assertEqual(list(text.unread(evidence().record["quiet"])), [])


class Falsehoods(unittest.TestCase):
    def falsified(self, **changes):
        recording = evidence().record["quiet"]
        for name, value in changes.items():
            setattr(recording, name, value)
        return {"quiet": recording}

    def test_each_number_of_each_text_is_looked_at(self):
        """Every amount in turn becomes another one."""
        for view, shown in (("report", REPORT_TEXT), ("leaks", LEAKS_TEXT), ("rss", RSS_TEXT)):
            # Not within the command, names of places, remedies of insights, ages, lines of files, notes of places.
            free = re.compile(
                r"leak 3$|a\.c:\d|^          .*|allocated \d+ ms|(?<=a\.c:3 )75\.0 %|once"
                r"|THRESHOLD_=\d+|malloc_trim\(0\)",
                re.MULTILINE,
            )
            for match in re.finditer(r"\d[\d,.]*", shown):
                if any(other.start() <= match.start() < other.end() for other in free.finditer(shown)):
                    continue
                false = str(int(float(match[0].replace(",", ""))) + 13)
                record = self.falsified(**{view: shown[: match.start()] + false + shown[match.end() :]})
                record["quiet"] = Recording(
                    **{**record["quiet"].__dict__, "run": a_run(stderr=record["quiet"].report.encode())}
                )
                at = shown[max(match.start() - 30, 0) : match.end() + 10]
                unread = list(text.unread(record["quiet"]))
                self.assertTrue(found_by(text, record=record) or unread, f"{view}: {match[0]} as {false} in {at!r}")

    def test_a_false_amount_on_the_page(self):
        for true, false in (
            ("11.0 kB\nLive", "11.1 kB\nLive"),
            ("4.00 MB", "3.90 MB"),
            ("4.00 kB lost, all", "None lost, all"),
        ):
            self.assertIn(true, PAGE)
            self.assertEqual(len(found_by(text, record=self.falsified(page=PAGE.replace(true, false)))), 1, true)

    def test_a_false_size_of_the_heaviest_place(self):
        place = {**PLACE, "bytes": 9_500_000}
        cause = {"part": "live", "bytes": 20_000_000, "place": place, "heaviest": {**PLACE, "bytes": 13_400_000}}
        facts = evidence_facts.of_rss({**RSS, "rss": 40_000_000, "cause": cause})
        sentence = (
            "Cause: f a.c:1 holds 9.50 MB of what live blocks have in memory: 20.0 MB, 50.0 % of RSS; "
            "g a.c:2 takes most memory, 13.4 MB with rounding and headers"
        )
        for said, wrong in ((sentence, 0), (sentence.replace("13.4", "9.50"), 1)):
            self.assertEqual(len(statements.check(said, rules.RSS, facts)), wrong, said)

    def test_record_prints_what_report_prints(self):
        record = self.falsified(run=a_run(stderr=REPORT_TEXT.replace("10.0 kB", "9.00 kB").encode()))
        self.assertEqual(len(found_by(text, record=record)), 1)

    def test_a_place_without_its_name(self):
        record = self.falsified(report=REPORT_TEXT.replace("grow a.c:3 ← main\n  25.0", "glow a.c:3 ← main\n  25.0"))
        self.assertIn("without its name", " ".join(one.said for one in found_by(text, record=record)))

    def test_an_insight_with_another_share(self):
        for word, value in (("malloc_share", 0.998), ("peak_share", 0.1), ("run_share", 0.5), ("run_share", None)):
            false = copy.deepcopy(REPORT)
            false["insights"][0][word] = value
            said = [one.said for one in found_by(text, record=self.falsified(report_json=false))]
            self.assertTrue(any(line.startswith(word) for line in said), (word, said))

    def test_a_verdict_that_other_numbers_contradict(self):
        verdicts = (
            {"whole": False, "statements": REPORT["verdict"]["statements"]},
            {"whole": True, "statements": [{"kind": "none_lost"}]},
            {"whole": True, "statements": [{"kind": "nothing_live"}]},
            {"whole": True, "statements": [{"kind": "nothing_allocated"}]},
            {"whole": True, "statements": REPORT["verdict"]["statements"][::-1]},
        )
        for verdict in verdicts:
            self.assertTrue(found_by(text, record=self.falsified(report_json={**REPORT, "verdict": verdict})), verdict)

    def test_totals(self):
        for word in ("allocations", "allocated_bytes", "frees", "live", "live_bytes"):
            false = {**REPORT, word: REPORT[word] + 1}
            self.assertEqual(len(found_by(totals, record=self.falsified(report_json=false))), 1, word)
        for word in ("allocations", "allocated_bytes", "frees"):
            said = {"allocations": 10, "allocated_bytes": 12_340, "frees": 7}
            said[word] -= 1
            self.assertEqual(len(found_by(totals, stat={"quiet": (BARE, said)})), 1, word)
        shown = "  calls  bytes\n  9  malloc  12,340\n  11  allocations  12,340\n  7  frees\n"
        self.assertEqual(len(found_by(totals, stat={"beside yes": (BARE, shown)})), 1)

    def test_a_parent_with_more_digits(self):
        """bash keeps PPID as text: a byte a digit, and in bytes alone."""
        for word, parent, more, count in (
            ("allocated_bytes", 18, 1, 0),
            ("allocated_bytes", 18, -1, 0),
            ("allocated_bytes", 18, 2, 1),
            ("allocated_bytes", 8, 1, 1),
            ("allocations", 118, 1, 1),
        ):
            said = {**REPORT, word: REPORT[word] + more}
            found = found_by(totals, parent=parent, record=self.falsified(report_json=said))
            self.assertEqual(len(found), count, (word, parent, more))

    def test_what_reused_memory_points_to(self):
        """Fewer lost than memcheck says: a run with filled blocks decides whether that is the memory's past."""
        fewer = {**REPORT, "lost_blocks": REPORT["lost_blocks"] - 1 - lost.STALE}
        truth = memcheck.Memcheck(lost=REPORT["lost_blocks"], lost_bytes=REPORT["lost_bytes"])
        for filled, count in ((None, 1), (fewer, 1), (REPORT, 0)):
            found = found_by(lost, memcheck=truth, filled=filled, record=self.falsified(report_json=fewer))
            self.assertEqual(len(found), count, filled)

    def test_what_words_of_the_stack_hold(self):
        """Fewer lost than memcheck says, whose malloc leaves no words there, and whose heap reuses little."""
        blocks = REPORT["lost_blocks"]
        fewer = {**REPORT, "lost_blocks": blocks - 1 - lost.STALE}
        truth = memcheck.Memcheck(lost=blocks, lost_bytes=REPORT["lost_bytes"])
        for unreached, held, count in ((blocks, 0, 1), (blocks, 1, 0), (blocks - 1, 0, 0), (blocks - 2 * lost.STALE - 2, 0, 1)):
            walk = bare_heap.BareHeap(unreached, held)
            found = found_by(lost, memcheck=truth, bare_walk=walk, record=self.falsified(report_json=fewer))
            self.assertEqual(len(found), count, walk)

    def test_a_peak_beyond_its_bound(self):
        for peak, count in ((11_000 + 110 + 4096 + 16, 0), (11_000 + 110 + 4096 + 18, 1)):
            false = copy.deepcopy(REPORT)
            false["processes"][0]["own_peak_bytes"] = false["peak_bytes"] = peak
            self.assertEqual(len(found_by(totals, record=self.falsified(report_json=false))), count, peak)

    def test_a_range_is_no_wider_than_the_counts_show(self):
        counts = [[Image("/bin/leak", {**COUNTS, "allocations": n})] for n in (10, 12)]
        for said, count in ((8, 0), (14, 0), (7, 1), (15, 1)):
            self.assertEqual(
                len(
                    found_by(
                        totals,
                        counts=counts,
                        stat={"quiet": (BARE, {"allocations": said, "allocated_bytes": 12_340, "frees": 7})},
                        record={},
                    )
                ),
                count,
            )

    def test_a_missing_process(self):
        def missing(allocations):
            shell = Image("/bin/sh", {**dict.fromkeys(COUNTS, 0), "allocations": allocations})
            found = found_by(totals, counts=[[Image("/bin/leak", dict(COUNTS)), shell]] * 2)
            return "1 process images" in [one.said for one in found]

        # One that allocates nothing is no process of a recording.
        self.assertEqual((missing(1), missing(0)), (True, False))

    def test_a_program_that_allocates_nothing(self):
        nothing = [[Image("/bin/gzip", dict.fromkeys(COUNTS, 0))]] * 2
        self.assertEqual(totals.read_stat("  No allocation was seen: the program made none")["allocations"], 0)
        rss = {"quiet": (a_run(status=125, stdout=BARE.stdout, stderr=b"mallow: nothing was recorded: gzip allocated nothing"), None)}
        self.assertEqual(found_by(output, counts=nothing, rss=rss), [])
        self.assertEqual(len(found_by(output, rss=rss)), 1)

    def test_programs_that_are_not_recorded(self):
        line = "Incomplete: started by the command, and not recorded: tsc is statically linked"
        recording = evidence().record["quiet"]
        recording.report = f"{line}\n{REPORT_TEXT}"
        recording.run = a_run(stderr=f"mallow: {line.split(': ', 1)[1]}\n{REPORT_TEXT}".encode())
        self.assertFalse([one for one in text.check(evidence(record={"quiet": recording})) if "print" in one.said])
        unrecorded = {**REPORT, "unrecorded": [{"path": "/bin/tsc"}]}
        self.assertEqual(found_by(highest, highest={"quiet": (90_000_000, unrecorded)}), [])
        self.assertEqual(len(found_by(highest, highest={"quiet": (1_000_000, unrecorded)})), 1)

    def test_parts_that_do_not_add_up(self):
        for word in ("lost_blocks", "reachable_bytes"):
            self.assertTrue(
                found_by(parts, record=self.falsified(report_json={**REPORT, word: REPORT[word] + 1})), word
            )
            self.assertTrue(found_by(parts, record=self.falsified(leaks_json={**LEAKS, word: LEAKS[word] + 1})), word)
        for change in (
            lambda d: d["processes"][0].update(temporary=1),
            lambda d: d["families"][0].update(allocations=8),
            lambda d: d["largest"][0]["hidden"].update(peak_bytes=0),
            lambda d: d["largest"][1]["largest"].reverse(),
        ):
            false = copy.deepcopy(REPORT)
            change(false)
            self.assertTrue(found_by(parts, record=self.falsified(report_json=false)))

    def test_parts_of_what_was_not_scanned(self):
        none = dict.fromkeys(("lost_blocks", "lost_bytes", "reachable_blocks", "reachable_bytes"))
        whole = {word: REPORT[word] - (REPORT[f"live_at_exec_{unit}"] or 0) for word, unit in (("live", "blocks"), ("live_bytes", "bytes"))}
        report_json = {**REPORT, **none, "unscanned": [whole]}
        self.assertEqual([], list(parts.states(report_json)))
        self.assertTrue(list(parts.states({**report_json, "unscanned": []})))

    def test_an_oracle_that_fails_is_a_row(self):
        oracle = SimpleNamespace(NAME="sums", check=lambda evidence: iter([evidence.nothing]))
        evidence = SimpleNamespace(row=SimpleNamespace(name="jq"), command=lambda way: f"mallow {way} -- jq")
        (found,) = strangers.asked(oracle, evidence)
        self.assertIn("AttributeError", found.said)
        false = copy.deepcopy(RSS)
        false["parts"][2]["bytes"] -= 1
        self.assertTrue(found_by(parts, record=self.falsified(rss_json=false)))
        self.assertTrue(found_by(parts, rss={"quiet": (BARE, false)}))

    def test_a_filter_that_loses_lost_blocks(self):
        self.assertEqual(found_by(filters, record=self.falsified(by_process={7: copy.deepcopy(LEAKS)})), [])
        without = {**LEAKS, "lost_blocks": 0, "lost_bytes": 0}
        self.assertEqual(len(found_by(filters, record=self.falsified(by_process={7: without}))), 2)

    def test_a_gate_that_passes_falsely(self):
        for gates, count in (({"": 3, "lost": 3}, 0), ({"": 0, "lost": 3}, 1), ({"": 3, "lost": 0}, 1), ({"": 101}, 1)):
            self.assertEqual(len(found_by(filters, record=self.falsified(gates=gates))), count, gates)
        unscanned = {**LEAKS, "lost_blocks": None, "unscanned": [{"live": 3, "live_bytes": 12}]}
        for lost, count in ((4, 0), (0, 1)):
            recording = SimpleNamespace(leaks_json=unscanned, gates={"": 3, "lost": lost})
            self.assertEqual(len(list(filters.gates(recording))), count, lost)

    def test_lost_blocks(self):
        for blocks, count in ((0, 0), (3, 0), (4, 1)):
            self.assertEqual(
                len(found_by(lost, record=self.falsified(report_json={**REPORT, "lost_blocks": blocks}))), count
            )
        many = memcheck.Memcheck(processes=1, lost=40, lost_bytes=4_000)
        self.assertEqual(len(found_by(lost, memcheck=many)), 1)

    def test_the_line_of_programs(self):
        processes = [("/usr/lib/cc1", 9_000), ("/usr/lib/cc1", 12_000), ("/bin/as", 800)]
        # Called by a name that is a link to the executable, or by none.
        document = {
            "processes": [
                {"executable": f"/x/{path}-12", "arguments": [path], "own_peak_bytes": peak} for path, peak in processes[:1]
            ]
            + [{"executable": path, "arguments": [], "own_peak_bytes": peak} for path, peak in processes[1:]]
        }
        right = "Programs by peak: cc1 (2 processes, up to 12.0 kB each), as (800 B)"
        self.assertEqual(text._programs(right, document), [])
        self.assertEqual(text._programs(right.replace(", as (800 B)", ", 1 more"), document), [])
        for false in ("12.0>13.0", "2 processes>3 processes", "800>801", ", as (800 B)>", "as>ld"):
            self.assertNotEqual(text._programs(right.replace(*false.split(">")), document), [], false)

    def test_json_with_a_key_twice(self):
        judged = SimpleNamespace(failures=[])
        self.assertEqual(gathering.parsed(judged, '{"a": 1, "b": {"a": 2}}', "x"), {"a": 1, "b": {"a": 2}})
        self.assertEqual(judged.failures, [])
        for broken, why in (('{"a": {"b": 1, "b": 2}}', "keys twice: b"), ('{"a": 1', "Expecting")):
            judged = SimpleNamespace(failures=[])
            self.assertIsNone(gathering.parsed(judged, broken, "mallow report --json x"))
            self.assertIn(why, judged.failures[0][1])

    def test_the_highest_rss(self):
        for peak, count in ((20_000_000 * 1.02 + 3 * 64 * 4096, 0), (24_000_000, 1), (18_500_000, 1)):
            false = {**REPORT, "highest_rss": {**REPORT["highest_rss"], "peak_rss": peak}}
            self.assertEqual(len(found_by(highest, highest={"quiet": (20_000_000, false)})), count, peak)
        self.assertEqual(len(found_by(highest, highest={"quiet": (4_000_000, {**REPORT, "highest_rss": None})})), 1)

    def test_the_first_place(self):
        false = copy.deepcopy(REPORT)
        false["largest"][0]["largest"][0].update(function="malloc", module="/lib/libc.so.6")
        self.assertEqual(len(found_by(names, record=self.falsified(report_json=false))), 1)
        false["largest"][0]["largest"][0].update(function="Arena::grow", module="/bin/leak")
        self.assertEqual(found_by(names, record=self.falsified(report_json=false)), [], "a user's own namesake")

    def test_libstdcxxs_emergency_pool_is_no_place(self):
        pool = {**PLACE, "function": "libstdc++.so.6+0xa57ba", "module": "/lib/libstdc++.so.6", "address": None}
        self.assertEqual(len(list(names.compare("places", {**pool, "peak_bytes": 72_704}))), 1)
        self.assertEqual(len(list(names.compare("places", {**pool, "peak_bytes": 72_705}))), 0)

    def test_an_address_where_a_name_exists(self):
        module = BUILD / "named"
        module.parent.mkdir(parents=True, exist_ok=True)
        source = "static int __attribute__((noinline)) hidden(int n) { return n * 3; } int main(int n, char **v) { (void)v; return hidden(n); }"
        subprocess.run(["cc", "-O0", "-x", "c", "-o", module, "-"], input=source, text=True, check=True)
        address = next(
            int(line.split()[0], 16)
            for line in subprocess.run(["nm", module], capture_output=True, text=True).stdout.splitlines()
            if line.endswith(" t hidden")
        )
        for function, count in ((f"named+{address + 4:#x}", 1), ("hidden", 0)):
            found = list(
                names.compare(
                    "places", {**PLACE, "function": function, "module": str(module), "address": hex(address + 4)}
                )
            )
            self.assertEqual(len(found), count, function)

    def test_output_status_and_files(self):
        for changes in (
            {"stdout": b"other\n"},
            {"status": 1},
            {"files": {}},
            {"files": {"f": "2"}},
            {"files": {"f": "1", "g": "1"}},
            {"timed_out": True},
        ):
            self.assertEqual(len(found_by(output, stat={"quiet": (a_run(**changes), None)})), 1, changes)
        noisy = a_run(stderr=b"one\ntwo\n")
        for seen, count in ((b"mallow: x\none\nreport\ntwo\n", 0), (b"two\none\n", 1), (b"one\n", 1)):
            self.assertEqual(
                len(
                    found_by(
                        output,
                        bare=[noisy, noisy],
                        record={},
                        stat={"quiet": (a_run(stderr=seen), None)},
                        guard={},
                        watch={},
                        rss={},
                    )
                ),
                count,
                seen,
            )

    def test_a_volatile_command_keeps_its_status(self):
        bare = [BARE, a_run(stdout=b"another\n")]
        self.assertEqual(found_by(output, bare=bare, stat={"quiet": (a_run(stdout=b"third\n"), None)}), [])
        self.assertEqual(len(found_by(output, bare=bare, stat={"quiet": (a_run(status=9), None)})), 1)

    def test_memory_errors(self):
        said = {"errors": [{}], "guarded": 10, "unguarded": 0, "unfit": 0}
        self.assertEqual(len(found_by(errors, guard={"quiet": (BARE, said)})), 1)
        wrong = memcheck.Memcheck(processes=1, errors=["InvalidRead"])
        self.assertEqual(len(found_by(errors, memcheck=wrong)), 1)
        self.assertEqual(found_by(errors, memcheck=wrong, guard={"quiet": (BARE, said)}), [])
        self.assertEqual(len(found_by(errors, guard={"quiet": (BARE, {**said, "errors": [], "guarded": 9})})), 1)
        # Another allocator moves blocks, too: nine are right where nine are counted with it, and eight are not.
        nine = [[Image("/bin/leak", {**COUNTS, "allocations": 9})]] * 2
        for guarded, found in ((9, 0), (8, 1)):
            quiet = {"quiet": (BARE, {**said, "errors": [], "guarded": guarded})}
            self.assertEqual(len(found_by(errors, elsewhere=nine, guard=quiet)), found)
        shown = "No memory error was found.  10 of 10 allocations guarded\n"
        self.assertEqual(found_by(errors, guard={"beside yes": (BARE, shown)}), [])
        self.assertEqual(len(found_by(errors, guard={"beside yes": (BARE, shown.replace("10 of 10", "9 of 9"))})), 1)
        self.assertEqual(len(found_by(errors, guard={"beside yes": (BARE, "")})), 1)
        # Named as not guarded: what these allocate is in no count, and no other program's either.
        part = "No memory error was found in what was guarded.  %s allocations guarded\n\nNot guarded: 1 process: why\n"
        for count, found in (("4 of 4", 0), ("11 of 11", 1)):
            self.assertEqual(len(found_by(errors, guard={"beside yes": (BARE, part % count)})), found, count)

    def test_what_watch_says(self):
        interval = {"value": 20_000, "low": 19_000, "high": 21_000}
        leak = [{"executable": "/bin/leak"}]
        quiet = {"growing": 0, "growing_places": 0, "period_bytes": 100, "live_bytes": interval, "processes": leak}
        self.assertEqual(len(found_by(samples, watch={"quiet": (BARE, quiet)})), 1)
        grows = {
            "growing": 1,
            "growing_places": 1,
            "period_bytes": 100,
            "live_bytes": {"value": 10_000, "low": 9_000, "high": 11_000},
            "processes": leak,
        }
        self.assertEqual(len(found_by(samples, watch={"quiet": (BARE, grows)})), 1)
        self.assertEqual(
            len(found_by(samples, watch={"beside yes": (BARE, "Watched for 1 s until it ended with status 4: leak")})),
            1,
        )
        # What a driver starts may have ended before: the report is of the programs that it names.
        other = Image("/bin/as", {**COUNTS, "live_bytes": 20_000})
        both = [[Image("/bin/leak", dict(COUNTS)), other]] * 2
        of_other = {**quiet, "processes": [{"executable": "/bin/as"}]}
        self.assertEqual(found_by(samples, counts=both, watch={"quiet": (BARE, of_other)}), [])
        self.assertEqual(len(found_by(samples, counts=both, watch={"quiet": (BARE, quiet)})), 1)
        self.assertEqual(len(found_by(samples, watch={"beside yes": (BARE, "Verdict: a grows significantly")})), 1)
        # What was live at the end is compared, not what was live before it fell.
        for end, found in (("no sample", 0), ("9.00 MB ±1 % in 900 samples", 1)):
            fell = f"  live     9.00 MB ±1 % in 900 samples after 9 s, before it fell; {end} at its end"
            self.assertEqual(len(found_by(samples, watch={"beside yes": (BARE, fell)})), found)


class Amounts(unittest.TestCase):
    def test_an_amount_stands_for_what_rounds_to_it(self):
        yes = [
            ("bytes", "999 B", 999),
            ("bytes", "12.3 kB", 12_340),
            ("bytes", "1.00 MB", 999_500),
            ("share", "33.3 %", 1 / 3),
            ("share", "<0.1 %", 1e-6),
            ("share", ">99.9 %", 0.99999),
            ("share", "0 %", 0),
            ("share", "all", 1),
            ("span", "1.71 s", 1_718),
            ("span", "3 min 05 s", 185_900),
            ("span", "12 ms", 12),
            ("count", "1,234", 1_234),
            ("rate", "436 k/s", 436_200),
        ]
        no = [
            ("bytes", "999 B", 998),
            ("bytes", "12.3 kB", 12_400),
            ("share", "33.3 %", 0.34),
            ("share", "0 %", 1e-4),
            ("share", "all", 0.9999),
            ("share", "100.0 %", 0.9999),
            ("share", "<0.1 %", 0.01),
            ("span", "1.71 s", 1_740),
            ("count", "1,234", 1_235),
            ("bytes", "1 B", None),
        ]
        self.assertEqual([case for case in yes if not amounts.is_written(*case)], [])
        self.assertEqual([case for case in no if amounts.is_written(*case)], [])

    def test_rules_compile(self):
        for rule in [
            *rules.REPORT,
            *rules.VERDICT,
            *rules.CAUSES,
            rules.PLACE,
            *rules.LEAKS,
            rules.LEAK,
            *rules.RSS,
            rules.PART,
        ]:
            statements.compiled(rule)


class TheTable(unittest.TestCase):
    def test_it_is_read(self):
        rows = table.read()
        self.assertGreater(len(rows), 130)
        self.assertEqual({row.language for row in rows}, table.LANGUAGES)

    def test_nonsense_is_refused(self):
        for line in (
            "a\tc\tapt:a\t-",
            "a\tcobol\tapt:a\t-\ta",
            "a\tc\tapt:a\todd\ta",
            "a\tc\tftp:a\t-\ta",
            "a\tc\tbase\t-\ta\na\tc\tbase\t-\tb",
        ):
            with self.assertRaises(table.Wrong):
                table.parse(line)

    def test_a_command_and_its_input(self):
        row = table.parse("a\tc\tbase\t-\ttr 'a b' c < {in}/t.txt")[0]
        self.assertEqual(row.arguments, ["tr", "a b", "c"])
        self.assertTrue(row.stdin.endswith("/t.txt"))

    def test_a_seed_picks_the_same_again_and_another_one_others(self):
        rows = table.read()
        self.assertEqual(pick(rows, 7, 20), pick(rows, 7, 20))
        self.assertNotEqual(pick(rows, 7, 20), pick(rows, 8, 20))
        self.assertGreaterEqual(len({row.language for row in pick(rows, 7, 30)}), 4)
        self.assertEqual({row.name for seed in range(200) for row in pick(rows, seed, 20)}, {row.name for row in rows})


class Oracles(unittest.TestCase):
    """The tools themselves."""

    def test_the_counter_counts_a_program_that_is_known(self):
        program = ROOT / "build" / "examples" / "leak"
        if not program.exists():
            subprocess.run(["make", "-s", "-C", ROOT, "examples"], check=True)
        tally = counter.Counter({})
        try:
            subprocess.run([program], env=tally.environment, check=True, stdout=subprocess.DEVNULL)
            images = tally.read()
        finally:
            tally.close()
        self.assertEqual([Path(image.executable).name for image in images], ["leak"])
        self.assertEqual(
            (images[0].counts["allocations"], images[0].counts["frees"], images[0].counts["live"]), (1112, 1109, 3)
        )

    def test_what_the_stack_alone_holds(self):
        """A frame with room that is never written shows what glibc's malloc left there; freed blocks do not count."""
        program = BUILD / "held"
        source = """
        #include <stdint.h>
        #include <stdlib.h>
        static void *kept;
        static void *pair(size_t first, size_t second) {
            void **volatile begins = malloc(first);
            *begins = malloc(second);
            return begins;
        }
        int main(void) {
            pair(100, 60);
            void *volatile held = pair(200, 50), *volatile freed = malloc(300);
            // Into its middle.
            volatile uintptr_t words[3] = {(uintptr_t)held + 8, (uintptr_t)freed, 0};
            kept = malloc(400);
            free(freed);
            held = freed = NULL;
            exit(words[2] != 0);
        }
        """
        BUILD.mkdir(parents=True, exist_ok=True)
        command = ["cc", "-O0", "-fno-builtin", "-x", "c", "-o", program, "-"]
        subprocess.run(command, input=source, text=True, check=True)
        row = SimpleNamespace(arguments=[program], stdin=None)
        found = bare_heap.walk(row, None, BUILD)
        self.assertEqual((found.unreached, found.held_by_the_stack), (2, 2))
        self.assertIsNone(bare_heap.walk(SimpleNamespace(arguments=["/bin/kill", "-l", "x"], stdin="/nowhere"), None, BUILD))

    def test_the_counter_with_threads_reallocs_and_forks(self):
        program = BUILD / "busy"
        source = """
        #define _GNU_SOURCE
        #include <malloc.h>
        #include <pthread.h>
        #include <stdlib.h>
        #include <sys/wait.h>
        #include <unistd.h>
        static void *work(void *unused) {
            for (int i = 0; i < 1000; i++) { char *p = malloc(100); p = realloc(p, 5000); free(p); }
            return unused;
        }
        int main(void) {
            pthread_t all[4];
            void *kept, *inherited = malloc(10);
            for (int i = 0; i < 4; i++) pthread_create(all + i, 0, work, 0);
            for (int i = 0; i < 4; i++) pthread_join(all[i], 0);
            if (posix_memalign(&kept, 64, 3000)) return 1;
            if (!fork()) { free(inherited); kept = memalign(64, 70); _exit(kept == 0); }
            wait(0);
            return 0;
        }
        """
        BUILD.mkdir(parents=True, exist_ok=True)
        subprocess.run(
            ["cc", "-O0", "-fno-builtin", "-pthread", "-x", "c", "-o", program, "-"],
            input=source,
            text=True,
            check=True,
        )
        tally = counter.Counter({})
        try:
            subprocess.run([program], env=tally.environment, check=True)
            child, parent = sorted(tally.read(), key=lambda image: image.counts["allocations"])
        finally:
            tally.close()
        self.assertEqual(child.counts["allocations"], 1)
        self.assertEqual((child.counts["frees"], child.counts["foreign_frees"], child.counts["live_bytes"]), (1, 1, 70))
        # Four threads have a thread-local table of the C library each, at the most.
        self.assertIn(parent.counts["allocations"] - 8002, range(1, 5))
        self.assertEqual(parent.counts["reallocs_in_place"] + parent.counts["reallocs_moved"], 4000)
        self.assertIn(parent.counts["live"] - 2, range(0, 5))

    def test_reads_of_the_loaders_string_functions_are_no_errors(self):
        def error(kind, file, function):
            frame = f"<frame><obj>{file}</obj><fn>{function}</fn></frame>"
            return f"<error><kind>{kind}</kind><stack>{frame}<frame><fn>main</fn></frame></stack></error>"

        loader, library = "/usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2", "/usr/lib/libbfd.so"
        for kind, file, function, count in (
            ("InvalidRead", loader, "strncmp", 0),
            ("InvalidWrite", loader, "strncmp", 1),
            ("InvalidRead", loader, "_dl_map_object", 1),
            ("InvalidRead", library, "strncmp", 1),
        ):
            document = f"<valgrindoutput>{error(kind, file, function)}</valgrindoutput>".encode()
            self.assertEqual(len(memcheck.add_up([document]).errors), count, (kind, file, function))

    def test_memchecks_document(self):
        document = b"""<valgrindoutput><error><kind>InvalidRead</kind></error>
        <error><kind>Leak_DefinitelyLost</kind><xwhat><text>1,056 (48 direct, 1,008 indirect) bytes in 2 blocks</text>
        <leakedbytes>1056</leakedbytes><leakedblocks>2</leakedblocks></xwhat></error>
        <error><kind>Leak_IndirectlyLost</kind><xwhat><leakedbytes>8</leakedbytes><leakedblocks>1</leakedblocks></xwhat></error>
        <error><kind>Leak_PossiblyLost</kind><xwhat><leakedbytes>5</leakedbytes><leakedblocks>1</leakedblocks></xwhat></error></valgrindoutput>"""
        sums = memcheck.add_up([document, document])
        self.assertEqual((sums.lost, sums.lost_bytes, sums.possibly, sums.errors), (6, 112, 2, ["InvalidRead"] * 2))

    def test_the_words_of_a_page(self):
        self.assertEqual(page.words("<p>a <b>b\n c</b></p><script>no</script><style>no</style>"), "a\nb c")

    def test_a_range(self):
        self.assertEqual((5 in Range.of([5, 5]), 6 in Range.of([5, 5])), (True, False))

    def test_the_padding_of_paths(self):
        self.assertEqual(counter.padded("/a/b", 7), "////a/b")

    def test_the_last_table_has_all_commands(self):
        one = SimpleNamespace(
            row="jq", oracle="totals", where="stat, quiet", said="1", right="2", command="mallow stat -- jq"
        )
        shown = report.text([one], [("x", "cannot be installed: y")], ["z: no oracle"], 3, 7)
        for piece in (
            "jq",
            "mallow stat -- jq",
            "cannot be installed: y",
            "z: no oracle",
            "1 disagreements in 1 of them",
        ):
            self.assertIn(piece, shown)


if __name__ == "__main__":
    unittest.main()
