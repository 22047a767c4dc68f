#!/usr/bin/env python3
"""Tests of the bench itself: that it counts right, that failures show, and a small run of everything."""

import os
import subprocess
import sys
import unittest

import bench
import formats
import guard
import measure
import tables
import variants
import workloads
from workloads import BUILD, EXAMPLES, ROOT, Workload

ATOMIC = next(variant for variant in variants.ALL if variant.name == "atomic")
BARE = variants.ALL[0]


def shell(script):
    return Workload("shell", "shell", ["sh", "-c", script])


class CommandOf(variants.Variant):
    """A variant whose report is a shell command after the target's run."""

    def __init__(self, script):
        super().__init__("made-up", "made up")
        self.script = script

    def report(self, target, out):
        return [[*target], ["sh", "-c", self.script]]

    def report_recording(self, out):
        return measure.WORK / "output"


class Helpers(unittest.TestCase):
    def test_the_leak_example_has_the_counts_that_it_claims(self):
        counts = bench.count_events(Workload("leak", "leak", [str(EXAMPLES / "leak")]))
        self.assertEqual((counts["allocations"], counts["frees"], counts["events"]), (1112, 1109, 2221))

    def test_an_empty_hook_changes_no_output(self):
        empty = next(variant for variant in variants.ALL if variant.name == "empty")
        workload = Workload("stacks", "stacks", [str(EXAMPLES / "stacks"), "3"])
        self.assertEqual(measure.run(empty, workload).output, measure.run(BARE, workload).output)

    def test_pair_refuses_nonsense(self):
        for arguments in ([], ["128", "0", "10"], ["128", "65", "10"], ["x", "1", "10"]):
            self.assertEqual(subprocess.run([BUILD / "pair", *arguments], capture_output=True).returncode, 2)

    def test_timed_returns_the_targets_peak_memory_and_output(self):
        result = measure.run(BARE, shell("head -c 50000000 /dev/zero | tail -c 50000000 | wc -c"))
        self.assertGreater(result.maxrss_kib, 48000)
        self.assertEqual(result.output.strip(), "50000000")


class Failures(unittest.TestCase):
    def test_a_failing_target_gives_no_figure(self):
        for script in ("exit 3", "kill -9 $$"):
            with self.assertRaises(measure.Failed):
                measure.run(BARE, shell(script))

    def test_another_output_than_bare_is_a_failure(self):
        result = measure.run(BARE, shell("echo one"))
        with self.assertRaises(measure.Failed):
            bench.check_output(shell(""), result, {"output": "two\n"})

    def test_a_reader_that_dies_in_a_pipeline_shows(self):
        died = CommandOf("echo \"terminate called after throwing an instance of 'std::bad_alloc'\"")
        with self.assertRaisesRegex(measure.Failed, "its reader died, with [0-9]+ GB to use: terminate called"):
            measure.report(died, shell("echo hello"), bench.memory_bound())

    def test_a_reader_that_fails_shows(self):
        with self.assertRaisesRegex(measure.Failed, "exit code 4: no such thing"):
            measure.report(CommandOf("echo no such thing; exit 4"), shell("echo hello"), bench.memory_bound())

    def test_a_report_without_a_recording_is_a_failure(self):
        with self.assertRaisesRegex(measure.Failed, "no recording"):
            measure.report(CommandOf("true"), shell("true"), bench.memory_bound())

    def test_unknown_names_are_refused(self):
        run = subprocess.run([sys.executable, ROOT / "bench" / "bench.py", "--variants", "bare,heaptrak"],
                             capture_output=True, text=True)
        self.assertEqual(run.returncode, 2)
        self.assertIn("unknown: heaptrak", run.stderr)

    def test_a_missing_mallow_is_an_error(self):
        run = subprocess.run([sys.executable, ROOT / "bench" / "bench.py", "--quick", "--variants", "stat"],
                             env={**os.environ, "MALLOW_BIN": "/nonexistent/mallow"}, capture_output=True, text=True)
        self.assertEqual(run.returncode, 1)
        self.assertIn("/nonexistent/mallow is missing", run.stderr)


class Servers(unittest.TestCase):
    def test_the_work_of_the_client_is_the_time_and_its_results_are_the_output(self):
        redis = workloads.redis(quick=True)
        atomic = measure.run(ATOMIC, redis, {"ATOMIC_COUNT_FILE": str(measure.WORK / "counts")})
        for command in ("get", "hset", "incr", "lpush", "sadd", "set", "zadd"):
            self.assertIn(f"_{command}:calls=30000\n", atomic.output)
        self.assertTrue(atomic.output.endswith("\n30000\n"), atomic.output)
        counts = measure.figures((measure.WORK / "counts").read_text())
        self.assertGreater(counts["allocations"], 100_000, "those of the server")
        # Its start and end are not the client's work; a server that rests takes no processor time.
        self.assertLess(atomic.times["wall"], measure.target_result()["wall"])

    def client(self, **parts):
        parts = {"ready": ["true"], "work": ["true"], "results": ["true"], "end": ["touch", "over"], **parts}
        server = ["sh", "-c", "until [ -e over ]; do sleep 0.02; done"]
        return Workload("server", "server", server, client=workloads.Client(**parts))

    def test_results_that_differ_are_a_failure(self):
        result = measure.run(BARE, self.client(results=["echo", "one"]))
        with self.assertRaises(measure.Failed):
            bench.check_output(self.client(), result, {"output": "two\n"})
        bench.check_output(self.client(), result, {"output": "one\n"})

    def test_a_client_that_fails_ends_the_server_and_shows(self):
        with self.assertRaisesRegex(measure.Failed, "timed failed"):
            measure.run(BARE, self.client(work=["false"]))
        self.assertFalse((measure.WORK / "over").exists())

    def test_a_server_that_does_not_come_up_shows(self):
        gone = Workload("gone", "gone", ["sh", "-c", "echo no port >&2; exit 3"], client=self.client(ready=["false"]).client)
        with self.assertRaisesRegex(measure.Failed, "does not come up: no port"):
            measure.run(BARE, gone)


class Tables(unittest.TestCase):
    MACHINE = {"processor": "Abacus", "cores": 2, "kernel": "6", "libc": "glibc 2", "heaptrack": None}

    def results(self, **program):
        bare = {"times": {"wall": [1.0, 0.8, 1.0], "processor": [0.5, 0.5, 0.4]},
                "target_maxrss_kib": 1024, "recording_bytes": 0}
        heaptrack = {"times": {"wall": [2.5, 2.4, 3.0], "processor": [1.0, 0.9, 1.0]},
                     "target_maxrss_kib": 3072, "recording_bytes": 500}
        heaptrack.update(program)
        workload = {"pair": False, "title": "cook", "allocations": 1_000_000, "events": 1000,
                    "variants": {"bare": bare, "heaptrack": heaptrack}}
        return {"machine": self.MACHINE, "runs": 5, "quick": False, "load_before": [0.5], "load_after": [1.5],
                "left_out": [], "workloads": {"cook": workload}}

    def render(self, **program):
        chosen = [variant for variant in variants.ALL if variant.name in ("bare", "heaptrack")]
        return tables.render(self.results(**program), chosen)

    def test_a_program_is_judged_by_ratio_and_by_allocation(self):
        text = self.render(report_s=3.5, report_after_s=1.0, tool_kib=2048, tool_process="reader",
                           report_recording_bytes=250)
        self.assertIn("| bare | 1.00 s |", text)
        self.assertIn("| heaptrack | 2.50× (1500) |", text)
        self.assertIn("| heaptrack | 2.00× (500) |", text)
        self.assertIn("| heaptrack | 2.25× (500) |", text)  # the least of each
        self.assertIn("| heaptrack | 2.50…3.00×; 1.80…2.50× |", text)
        self.assertIn("| heaptrack | 3.50 s (1.00 s) |", text)
        self.assertIn("| heaptrack | +2 MB; reader 2 MB |", text)
        self.assertIn("| heaptrack | 0.50 (0.25 after its reader) |", text)

    def test_recording_is_judged_by_its_share_of_heaptracks_overhead(self):
        results = self.results()
        measured = results["workloads"]["cook"]["variants"]
        measured["record"] = {**measured["bare"], "times": {"wall": [1.3, 1.2, 1.3], "processor": [0.55, 0.55, 0.5]}}
        names = ("bare", "heaptrack", "record")
        text = tables.render(results, [variant for variant in variants.ALL if variant.name in names])
        self.assertIn("| **mallow record**: the target's time | 0.20 |", text)
        self.assertIn("| **mallow record**: the target's processor time | 0.10 |", text)
        self.assertIn("| **mallow record**: the least processor time of the runs | 0.20 |", text)
        measured["heaptrack"]["times"]["wall"] = measured["bare"]["times"]["wall"]
        text = tables.render(results, [variant for variant in variants.ALL if variant.name in names])
        self.assertIn("| **mallow record**: the target's time | – |", text)

    def test_a_death_is_reported(self):
        text = self.render(report_failed="its reader died: bad_alloc")
        self.assertIn("| heaptrack | died |", text)
        self.assertIn("- heaptrack on cook: its reader died: bad_alloc", text)
        self.assertEqual(tables.mallow_failures(self.results(report_failed="died")), [])


class Views(unittest.TestCase):
    def run_views(self, mallow=None):
        # Long enough that the middle of the run has allocations, however slowly a program starts and ends.
        environment = {**os.environ, **({"MALLOW_BIN": mallow} if mallow else {})}
        command = [sys.executable, ROOT / "bench" / "views.py", "--events", "0.5,1", "--runs", "1"]
        return subprocess.run(command, env=environment, capture_output=True, text=True)

    def test_all_views_of_two_recordings(self):
        run = self.run_views()
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        for row in ("`report`", "`top --lifetime ..1ms`", "heaptrack_print"):
            self.assertRegex(run.stdout, rf"(?m)^\| {row} \| \d+\.\d\d s, .* MB \| \d+\.\d\d s, .* MB \|$")

    def test_a_view_that_fails_shows(self):
        self.assertEqual(self.run_views("/bin/false").returncode, 1)


class Formats(unittest.TestCase):
    def test_the_made_profile_is_read_and_measured(self):
        path = formats.pprof(100_000, 100)
        row = formats.measure([formats.MALLOW, "top", str(path)], 1)
        self.assertNotIn("failed", row)
        self.assertLess(row["peak_kib"], 60_000, "Mallow's own memory, not that of what starts it")
        self.assertIn("package", (measure.WORK / "output").read_text())
        text = formats.table([{"file": "pprof", "bytes": 100_000, "reader": "mallow top", **row}])
        self.assertRegex(text, r"(?m)^\| pprof \| 0.1 MB \| mallow top \| \d+\.\d\d s \| \d+\.\d\d s \| \d+ MB \|$")

    def test_a_reader_that_fails_gives_no_figure(self):
        self.assertEqual(formats.measure(["sh", "-c", "echo no >&2; exit 3"], 1), {"failed": "exit code 3: no"})


class Inside(unittest.TestCase):
    def test_an_allocator_inside_is_compared_with_its_library(self):
        run = subprocess.run([sys.executable, ROOT / "bench" / "inside.py", "--quick"], capture_output=True, text=True)
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        if "libjemalloc-dev" in run.stderr:
            self.skipTest(run.stderr.strip())
        for mode in ("bare", "stat", "record"):
            self.assertRegex(run.stdout, rf"(?m)^\| {mode} \| \d+\.\d ns \| \d+\.\d ns \| [+-]\d+\.\d ns")


class Guard(unittest.TestCase):
    def test_guards_are_measured_on_eight_programs(self):
        run = subprocess.run([sys.executable, ROOT / "bench" / "guard.py", "--quick"], capture_output=True, text=True)
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        self.assertRegex(run.stdout, r"(?m)^\| \*\*mallow watch --guard\*\* \| \d+\.\d\d ns \| \d+\.\d\d ns \| [+-]\d+\.\d\d ns;")
        self.assertRegex(run.stdout, r"(?m)^\| \*\*mallow watch --guard\*\*( \| \d+\.\d MB \([+-]\d+\.\d %\)){8} \|$")
        for ways in ("guard", "guard --sample 64KiB"):
            figures = r"( \| \d+\.\d\d s; \d+\.\d\d s; \d+ MB){8}"
            self.assertRegex(run.stdout, rf"(?m)^\| \*\*mallow {ways}\*\*{figures} \| [\d,]+ \|$")

    def test_a_memory_error_of_a_program_is_a_failure(self):
        found = guard.Guard("guard", "guard", "")
        figures = guard.attempt(found, shell("exit 3"), "")
        self.assertIn("exit code 3", figures)
        self.assertEqual(guard.failures({"pair": {}, "memory": {}, "every": {"sh": {"guard": figures}}}), ["sh: guard"])

    def test_an_allocator_that_gives_up_is_quoted(self):
        died = guard.attempt(BARE, shell("echo mprotect failed: Cannot allocate memory >&2; exit 1"), "")
        self.assertEqual(died, "mprotect failed: Cannot allocate memory")


class Attach(unittest.TestCase):
    def test_pauses_are_measured_by_the_program_itself(self):
        run = subprocess.run([sys.executable, ROOT / "bench" / "attach.py", "--quick"], capture_output=True, text=True)
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        for tool in ("bare", "mallow stat", "mallow record"):
            self.assertRegex(run.stdout, rf"(?m)^\| {tool}( \| \d+\.\d ms){{8}} \|$")
        for mode in ("stat", "watch", "record"):
            self.assertRegex(run.stdout, rf"(?m)^\| mallow {mode} -p \| [+-]\d+\.\d ns \|$")
            self.assertRegex(run.stdout, rf"(?m)^\| mallow {mode} -p \| \d+\.\d\d× \| \d+\.\d\d× \|$")
        for command in ("set", "get", "lpush", "lrange_100"):
            self.assertRegex(run.stdout, rf"(?m)^\| {command}( \| \d+\.\d+ ms \| \d+\.\d+ ms \| \d+\.\d\d×){{2}} \|$")


class Everything(unittest.TestCase):
    def test_a_small_run_with_mallow(self):
        run = subprocess.run([sys.executable, ROOT / "bench" / "bench.py", "--quick",
                              "--workloads", "pair-128,stacks,redis",
                              "--variants", "empty,atomic,stat,sample,watch,record,again"],
                             capture_output=True, text=True)
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        for title in ("128 B pair", "redis", "**mallow stat**", "**mallow watch**", "**mallow record**",
                      "bare, once more", "recording, bytes an event"):
            self.assertIn(title, run.stdout)


if __name__ == "__main__":
    unittest.main()
