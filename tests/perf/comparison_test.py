#!/usr/bin/env python3
"""What perf/compare computes and how it deals with programs that fail. Programs are played by small scripts."""

import contextlib
import io
import json
import os
import pathlib
import stat
import sys
import tempfile
import unittest
import xml.etree.ElementTree as ET

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "perf"))
sys.dont_write_bytecode = True

from comparison import chart, command, limit, machine, markdown, peers, processes, programs, report, session, table

MACHINE = {"processor": "test", "processors": 2, "caches": {"L2": "1024K"}, "kernel": "1"}


def entry(p05, p50=None, scheme=""):
    return [{"p05": p05, "p50": p50 or p05, "scheme": scheme}]


def measured(program, role, rows, regime="near", collective="all_reduce", ranks=2, line_ns=(50.0, 50.0)):
    return {"program": program, "role": role, "buffers": "", "collective": collective, "ranks": ranks, "regime": regime,
            "line_ns": list(line_ns), "rows": rows}


class Regimes(unittest.TestCase):
    def test_both_pingpongs_decide(self):
        self.assertEqual(session.classify(50, 119), "near")
        self.assertEqual(session.classify(120, 300), "far")
        self.assertEqual(session.classify(50, 120), "mixed")
        self.assertEqual(session.classify(120, 50), "mixed")

    def test_are_never_put_together_and_mixed_ones_are_left_out(self):
        runs = [measured("tutti private", "tutti", {8: entry(1)}, regime) for regime in ("far", "near", "mixed")]
        self.assertEqual([one.regime for one in table.tables(runs)], ["near", "far"])

    def test_without_tutti_there_is_no_table(self):
        self.assertEqual(table.tables([measured("mpich", "peer", {8: entry(1)})]), [])


class Ratios(unittest.TestCase):
    def setUp(self):
        self.runs = [
            measured("tutti private", "tutti", {8: entry(1, 2), 65536: entry(10)}),
            measured("tutti private", "tutti", {8: entry(3, 4), 65536: entry(10)}),
            measured("tutti private", "tutti", {8: entry(2, 3), 65536: entry(10)}),
            measured("mpich", "peer", {8: entry(4, 30), 65536: entry(80)}),
            measured("open mpi sm", "peer", {8: entry(5, 6), 65536: entry(20)}),
            measured("gloo", "peer", {8: entry(200), 65536: entry(300)}),
        ]

    def test_are_of_the_best_peer_at_each_size_and_of_medians_over_runs(self):
        one = table.tables(self.runs)[0]
        rows = one.ratios["tutti private"]
        self.assertEqual((rows[8]["best peer"], rows[8]["peer"], rows[8]["gloo"]), ("mpich", 2, 100))
        self.assertEqual((rows[65536]["best peer"], rows[65536]["peer"]), ("open mpi sm", 2))
        self.assertEqual(rows[8]["peer median"], 2, "the best median may be another peer's")

    def test_have_a_geometric_mean_and_a_worst_size(self):
        self.runs.append(measured("open mpi tuned", "peer", {65536: entry(5)}))
        summary = table.tables(self.runs)[0].summary("tutti private")
        self.assertAlmostEqual(summary["peer"]["mean"], 1.0)
        self.assertEqual((summary["peer"]["worst"], summary["peer"]["at"]), (0.5, 65536))
        self.assertAlmostEqual(summary["gloo to 32 KiB"]["mean"], 100)
        self.assertNotIn("gloo from 1 MiB", summary)

    def test_count_the_better_scheme_of_a_bare_loop(self):
        self.runs.append(measured("bare private", "bare", {8: entry(4, 5, "slow") + entry(1, 2, "fast")}))
        self.runs.append(measured("bare private", "bare", {8: entry(4, 5, "slow") + entry(3, 3, "fast")}))
        one = table.tables(self.runs)[0]
        self.assertEqual(one.times["bare private"][8], {"p05": 2, "p50": 2.5, "scheme": "fast"})
        self.assertEqual(one.ratios["tutti private"][8]["bare"], 1)
        self.assertEqual(one.summary("tutti private")["a bare loop ahead of the best peer"]["mean"], 2)
        self.assertIn("; a bare loop ahead of the best peer 2.00", table.summary_text(one, "tutti private"))

    def test_of_another_build_are_those_of_the_same_buffers(self):
        self.runs.append(measured("other private", "other", {8: entry(3, 6)}))
        self.runs.append(measured("other library", "other", {8: entry(1, 1)}))
        one = table.tables(self.runs)[0]
        own = one.times["tutti private"][8]
        row = one.ratios["tutti private"][8]
        self.assertEqual((row["other"], row["other median"]), (3 / own["p05"], 6 / own["p50"]))
        self.assertEqual(row["best peer"], "mpich", "another build is no peer")
        self.assertIn("other build", table.text(one))

    def test_are_left_out_where_nothing_was_measured(self):
        runs = [run for run in self.runs if run["role"] == "tutti"]
        one = table.tables(runs)[0]
        self.assertEqual(one.ratios["tutti private"][8], {})
        self.assertIn("no peer was measured in this regime", table.text(one))
        self.assertNotIn("geometric means", table.text(one))

    def test_stand_in_the_text_with_their_size_and_peer(self):
        text = table.text(table.tables(self.runs)[0])
        self.assertIn("all_reduce, 2 ranks, near: a line crosses in 50 to 50 ns; 1 to 3 runs", text)
        self.assertRegex(text, r"\n *8 B +2\.00 +2\.00 +100 +mpich\n")
        self.assertRegex(text, r"tutti private, geometric means: best peer 2\.00, worst 2\.00 at 8 B")

    def test_stand_in_tables_for_documents(self):
        text = markdown.document(table.tables(self.runs)[0])
        self.assertIn("| | tutti private | best peer | best peer | medians | Gloo |\n|---|---|---|---|---|---|\n", text)
        self.assertIn("| 8 B | 2.00 / 3.00 | 4.00 / 30.0 mpich | 2.00 | 2.00 | 100 |\n", text)
        self.assertIn("tutti private, geometric means: best peer 2.00", text)

    def test_other_collectives_and_rank_counts_have_tables_of_their_own(self):
        self.runs.append(measured("tutti private", "tutti", {8: entry(1)}, collective="barrier"))
        self.runs.append(measured("tutti private", "tutti", {8: entry(1)}, ranks=4))
        self.assertEqual([one.key() for one in table.tables(self.runs)],
                         ["all_reduce, 2 ranks, near", "barrier, 2 ranks, near", "all_reduce, 4 ranks, near"])


class Limit(unittest.TestCase):
    KI, MI = 1 << 10, 1 << 20

    def setUp(self):
        self.kinds = dict.fromkeys(limit.KINDS, 10.0)
        self.slots = dict.fromkeys(limit.KINDS, 40.0)
        self.large = dict.fromkeys(limit.KINDS, 1000.0)
        self.speeds = {32 * self.KI: self.kinds, 256 * self.KI: self.slots, self.MI: self.large}

    def test_of_library_buffers_is_the_cheapest_way_to_read_and_write_all_once(self):
        self.kinds.update({"copy own to peer": 4.0, "copy peer to own": 6.0})
        self.assertAlmostEqual(limit.library(self.speeds, 32 * self.KI, 50), 2 + 3 + 0.1)
        self.kinds.update({"read own": 1, "read peer": 1, "write own": 1, "write peer": 1})
        self.assertAlmostEqual(limit.library(self.speeds, 32 * self.KI, 50), 2 + 0.1)

    def test_of_two_copies_goes_through_slots_that_stay_in_the_cache(self):
        self.large.update({"read own": 100, "write own": 200})
        self.slots.update({"write own": 10, "read peer": 30})
        self.assertAlmostEqual(limit.two_copies(self.speeds, self.MI, 50), 100 + 200 + 4 * (10 + 30) + 0.1)
        self.large["copy own to own"] = 50
        self.assertAlmostEqual(limit.two_copies(self.speeds, self.MI, 50), 50 + 4 * (10 + 30) + 0.1)

    def test_of_two_copies_may_be_copies_where_the_slots_hold_all(self):
        self.kinds.update({"copy own to own": 3, "copy peer to own": 4})
        self.assertAlmostEqual(limit.two_copies(self.speeds, 32 * self.KI, 0), 7)

    def test_of_private_buffers_reduces_from_slot_to_slot(self):
        two_copies = limit.two_copies(self.speeds, self.MI, 50)
        self.slots.update({"read own": 1})
        self.assertAlmostEqual(limit.private(self.speeds, self.MI, 50), two_copies + 4 * (1 + 40 / 2))

    def test_takes_streaming_stores_where_they_are_faster(self):
        self.kinds["copy own to own, streaming"] = 3.0
        self.kinds["copy peer to peer, streaming"] = 30.0
        self.assertAlmostEqual(limit.library(self.speeds, 32 * self.KI, 0), (3 + 10) / 2)

    def test_of_small_sizes_is_hops_and_the_bandwidth_of_32_kib(self):
        self.assertAlmostEqual(limit.library(self.speeds, 8, 50), 0.05 + 10 * 8 / 32768)
        self.assertAlmostEqual(limit.library(self.speeds, 512, 50), 0.1 + 10 * 512 / 32768)

    def test_tells_what_must_be_measured(self):
        self.assertEqual(limit.needed([8, 4096, self.MI]), [32 * self.KI, 256 * self.KI, self.MI])
        self.assertTrue(all(limit.complete(self.speeds, size) for size in (8, 32 * self.KI, self.MI)))
        self.assertFalse(limit.complete(self.speeds, 4 * self.MI))

    def test_is_printed_as_a_fraction_of_the_time(self):
        rows = {size: [{"p05": us, "p50": us, "scheme": kind} for kind, us in kinds.items()]
                for size, kinds in self.speeds.items()}
        runs = [measured("tutti library", "tutti", {1 << 20: entry(2000.2)}),
                measured("tutti registered", "tutti", {1 << 20: entry(4000.4)}), measured("memory speed", "limit", rows)]
        one = table.tables(runs)[0]
        self.assertAlmostEqual(one.limits()["library"][1 << 20], 1000.1)
        self.assertAlmostEqual(one.ratios["tutti library"][1 << 20]["limit"], 1000.1 / 2000.2)
        self.assertAlmostEqual(one.ratios["tutti registered"][1 << 20]["limit"], 1000.1 / 4000.4)
        self.assertAlmostEqual(one.summary("tutti library")["limit from 1 MiB"]["mean"], 0.5)

    def test_is_held_against_the_best_peer_too(self):
        rows = {size: [{"p05": us, "p50": us, "scheme": kind} for kind, us in kinds.items()]
                for size, kinds in self.speeds.items()}
        runs = [measured("tutti library", "tutti", {1 << 20: entry(1500)}), measured("memory speed", "limit", rows),
                measured("mpich", "peer", {1 << 20: entry(2000.2)})]
        summary = table.tables(runs)[0].summary("tutti library")
        self.assertAlmostEqual(summary["the limit ahead of the best peer"]["mean"], 2000.2 / 1000.1)

    def test_is_left_out_where_a_kind_was_not_measured(self):
        del self.kinds["copy own to own"]
        self.assertFalse(limit.complete(self.speeds, 8))


class Output(unittest.TestCase):
    def test_is_read_line_by_line(self):
        rows = programs.parse_rows("8 1.5 2\n\n64 3 4 slices, copied\n64 2 5\n", [8, 64], ["x"])
        self.assertEqual(rows[8], [{"p05": 1.5, "p50": 2.0, "scheme": ""}])
        self.assertEqual([one["scheme"] for one in rows[64]], ["slices, copied", ""])

    def test_that_is_odd_is_an_error_with_the_text(self):
        for text, why in (("8 1 2\nhello there", "hello there"), ("8 2 1", "cannot be"), ("8 nan nan", "cannot be"),
                          ("8 0 1", "cannot be"), ("16 1 2", "cannot be"), ("", "nothing for 8 bytes")):
            with self.assertRaises(programs.ProgramError) as caught:
                programs.parse_rows(text, [8], ["program", "8"])
            self.assertIn(why, str(caught.exception))
            self.assertIn("program 8", str(caught.exception))

    def test_can_say_that_a_library_has_no_such_collective(self):
        with self.assertRaises(programs.Unsupported) as caught:
            programs.parse_rows("unsupported: no scatter here\n", [8], ["x"])
        self.assertEqual(str(caught.exception), "no scatter here")

    def test_sizes_are_swept_in_as_few_runs_as_factors_allow(self):
        self.assertEqual(programs.geometric_ranges(list(command.SIZES)),
                         [(8, 262144, 8), (1 << 20, 64 << 20, 4)])
        self.assertEqual(programs.geometric_ranges([8]), [(8, 8, 2)])
        self.assertEqual(programs.geometric_ranges([8, 12, 24]), [(8, 8, 2), (12, 24, 2)])
        self.assertEqual(programs.geometric_ranges([]), [])


class Processes(unittest.TestCase):
    def test_that_fail_are_told_with_what_they_printed(self):
        with self.assertRaises(processes.ProgramError) as caught:
            processes.run(["sh", "-c", "echo some words; echo more >&2; exit 3"], 60)
        for part in ("failed with 3", "some words", "more"):
            self.assertIn(part, str(caught.exception))

    def test_that_do_not_exist_are_told(self):
        with self.assertRaises(processes.ProgramError) as caught:
            processes.run(["/no/such/program"], 60)
        self.assertIn("/no/such/program", str(caught.exception))

    def test_that_hang_are_killed_with_all_that_they_started(self):
        with tempfile.TemporaryDirectory() as folder:
            pids = pathlib.Path(folder) / "pids"
            # A child in a session of its own, which ignores its parent's end, as the ranks of a launcher are.
            script = (f"setsid sh -c 'trap \"\" TERM; echo $$ >> {pids}; sleep 1000' & echo $$ >> {pids}; echo begun; "
                      f"while [ $(wc -l < {pids}) -lt 2 ]; do sleep 0.01; done; sleep 1000")
            with self.assertRaises(processes.ProgramHung) as caught:
                processes.run(["sh", "-c", script], 2)
            self.assertIn("begun", str(caught.exception))
            left = [int(pid) for pid in pids.read_text().split()]
            self.assertEqual(len(left), 2)
            for pid in left:
                with contextlib.suppress(OSError):
                    state = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
                    self.assertEqual(state, "Z", f"process {pid} is left")

    def test_when_one_of_several_fails_the_others_are_ended(self):
        with self.assertRaises(processes.ProgramError) as caught:
            processes.run_together([["sh", "-c", "exit 4"], ["sleep", "1000"]], 60)
        self.assertIn("failed with 4", str(caught.exception))


class Played:
    """A program that does what a test wants."""

    buffers = "private"

    def __init__(self, name, role, action):
        self.name, self.role, self.action, self.calls = name, role, action, 0

    def measure(self, sizes):
        self.calls += 1
        return self.action(sizes)


def raises(error):
    def action(_):
        raise error
    return action


class Sessions(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.build = pathlib.Path(self.folder.name)
        self.pingpong("echo 60")
        self.report = report.new(MACHINE)
        self.session = session.Session(self.build, self.report)

    def tearDown(self):
        self.folder.cleanup()

    def pingpong(self, line):
        file = self.build / "perf/line_pingpong"
        file.parent.mkdir(exist_ok=True)
        file.write_text("#!/bin/sh\n" + line + "\n")
        file.chmod(file.stat().st_mode | stat.S_IXUSR)

    def run_twice(self, *played):
        with contextlib.redirect_stderr(io.StringIO()) as errors:
            self.session.run([("all_reduce", 2, [8], played)], 2)
        return errors.getvalue()

    def test_take_all_programs_in_turn(self):
        order = []
        played = [Played(name, "peer", lambda sizes, name=name: order.append(name) or {8: entry(1)}) for name in "ab"]
        self.run_twice(*played)
        self.assertEqual(order, list("abab"))
        self.assertEqual([run["regime"] for run in self.report["runs"]], ["near"] * 4)
        self.assertFalse(self.session.failed)

    def test_go_on_without_a_peer_that_hangs(self):
        hung = Played("mpich", "peer", raises(processes.ProgramHung("did not end in 1 s: mpich says hello")))
        fine = Played("gloo", "peer", lambda sizes: {8: entry(1)})
        errors = self.run_twice(hung, fine)
        self.assertEqual((hung.calls, fine.calls), (1, 2))
        self.assertIn("mpich says hello", errors)
        self.assertFalse(self.session.failed)
        self.assertIn("mpich says hello", self.report["problems"][0])

    def test_fail_when_tutti_hangs(self):
        self.run_twice(Played("tutti private", "tutti", raises(processes.ProgramHung("did not end"))))
        self.assertTrue(self.session.failed)

    def test_fail_when_a_program_says_odd_things(self):
        self.run_twice(Played("gloo", "peer", raises(processes.ProgramError("printed nonsense"))))
        self.assertTrue(self.session.failed)

    def test_leave_out_what_a_library_does_not_have(self):
        lacking = Played("gloo", "peer", raises(programs.Unsupported("no scatter")))
        self.assertIn("no scatter", self.run_twice(lacking))
        self.assertEqual(lacking.calls, 1)
        self.assertFalse(self.session.failed)

    def test_do_not_trust_a_pingpong_that_prints_no_number(self):
        self.pingpong("echo soon")
        self.assertIn("soon", self.run_twice(Played("gloo", "peer", lambda sizes: {8: entry(1)})))
        self.assertTrue(self.session.failed)
        self.assertEqual(self.report["runs"], [])


class Reports(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.file = pathlib.Path(self.folder.name) / "one.json"
        self.one = report.new(MACHINE)
        self.one["runs"].append(measured("tutti private", "tutti", {8: entry(2)}))

    def tearDown(self):
        self.folder.cleanup()

    def refused(self, content):
        self.file.write_text(content)
        with self.assertRaises(report.ReportError) as caught:
            report.read(self.file)
        self.assertIn("one.json", str(caught.exception))
        return str(caught.exception)

    def test_are_read_as_they_were_written(self):
        report.write(self.file, self.one, [])
        self.assertEqual(report.read(self.file)["runs"], self.one["runs"])

    def test_are_put_together_run_by_run(self):
        other = report.new({**MACHINE, "kernel": "2"})
        other["runs"].append(measured("tutti private", "tutti", {8: entry(4)}))
        other["peers"]["gloo"] = "PyTorch"
        merged = report.merge([self.one, other])
        self.assertEqual(table.tables(merged["runs"])[0].times["tutti private"][8]["p05"], 3)
        self.assertEqual(merged["peers"], {"gloo": "PyTorch"})

    def test_of_different_machines_are_not_put_together(self):
        with self.assertRaises(report.ReportError) as caught:
            report.merge([self.one, report.new({**MACHINE, "processor": "other"})])
        self.assertIn("different machines", str(caught.exception))

    def test_that_are_damaged_are_refused_with_the_reason(self):
        self.assertIn("no JSON", self.refused('{"format": "tut'))
        self.assertIn("no file of perf/compare", self.refused("[1]"))
        self.assertIn("measure again", self.refused(json.dumps({**self.one, "version": 99})))
        self.assertIn("by hand", self.refused(json.dumps({**self.one, "runs": [{"rows": {}}]})))
        self.assertIn("by hand", self.refused(json.dumps({**self.one, "machine": 3})))
        self.file.unlink()
        with self.assertRaises(report.ReportError):
            report.read(self.file)


class Charts(unittest.TestCase):
    def setUp(self):
        rows = {8: entry(1), 1 << 20: entry(100)}
        runs = [measured("tutti private", "tutti", rows), measured("mpich", "peer", {8: entry(2), 1 << 20: entry(400)}),
                measured("gloo", "peer", {8: entry(300), 1 << 20: entry(1000)}),
                measured("bare private", "bare", {8: entry(0.9), 1 << 20: entry(90)})]
        self.text = chart.draw(table.tables(runs)[0], "all_reduce <2 ranks>")

    def test_are_well_formed_and_named(self):
        root = ET.fromstring(self.text)
        words = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
        for word in ("all_reduce <2 ranks>", "bytes of the buffer of a rank", "time / Tutti private buffers", "1 MiB",
                     "mpich", "bare private", "tutti private", "gloo is up to 300 times slower: what is above 16 is not drawn"):
            self.assertIn(word, words)

    def test_leave_out_points_beyond_the_axis(self):
        drawn = [title.text for title in ET.fromstring(self.text).iter("{http://www.w3.org/2000/svg}title")]
        self.assertIn("gloo, 1 MiB: 10.0", drawn)
        self.assertNotIn("gloo, 8 B: 300", drawn)

    def test_follow_the_readers_colours(self):
        self.assertIn("prefers-color-scheme: dark", self.text)
        shapes = self.text.split("</style>")[1]
        self.assertNotIn("#", shapes, "a colour outside of the style sheet does not change")

    def test_of_one_size_can_be_drawn(self):
        ET.fromstring(chart.draw(table.tables([measured("tutti library", "tutti", {8: entry(1)})])[0], "one"))


class CommandLine(unittest.TestCase):
    def refused(self, *words):
        with contextlib.redirect_stderr(io.StringIO()) as errors, self.assertRaises(SystemExit) as caught:
            command.main(list(words))
        self.assertNotEqual(caught.exception.code, 0)
        return errors.getvalue() + str(caught.exception.code)

    def test_refuses_what_makes_no_sense(self):
        self.assertIn("known: all_reduce", self.refused("--collective", "all_think"))
        self.assertIn("known: open mpi tuned", self.refused("--peers", "nccl"))
        self.assertIn("no size", self.refused("--sizes", "8,many"))
        self.assertIn("multiples of 4", self.refused("--sizes", "7"))
        self.assertIn("not 1 or more", self.refused("--runs", "0"))
        self.assertIn("cannot be read", self.refused("--merge", "/no/such.json"))

    def test_says_what_to_do_where_nothing_is_built(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertIn("run scripts/demo first", self.refused("--no-build", "--build", folder))

    def test_sizes_are_those_that_the_ranks_can_share(self):
        options = command.arguments(["--ranks", "4", "--sizes", "8,64K"])
        self.assertEqual(command.sizes_for(options, "all_gather", 2), [65536])
        self.assertEqual(command.sizes_for(options, "all_reduce", 2), [8, 65536])
        self.assertEqual(command.sizes_for(command.arguments(["--ranks", "4"]), "all_reduce", 2), [8, 65536])
        self.assertEqual(len(command.sizes_for(command.arguments([]), "all_reduce", 2)), 10)

    def test_when_it_is_stopped_what_was_measured_is_kept(self):
        def interrupted(*_):
            raise KeyboardInterrupt
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "a.json"
            real = session.Session.run
            session.Session.run = lambda self, *_: self.report["runs"].append(
                measured("tutti private", "tutti", {8: entry(1)})) or interrupted()
            (pathlib.Path(folder) / "perf").mkdir()
            for name in [*command.build.TOOLS, "all_reduce_perf"]:
                (pathlib.Path(folder) / "perf" / name).touch()
            try:
                with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as errors:
                    code = command.main(["--no-build", "--build", folder, "--peers", "none", "--json", str(file)])
            finally:
                session.Session.run = real
            self.assertEqual(code, 0)
            self.assertIn("stopped", errors.getvalue())
            self.assertEqual(len(report.read(file)["runs"]), 1)

    def test_merged_files_give_one_table_and_a_picture(self):
        with tempfile.TemporaryDirectory() as folder:
            files = [pathlib.Path(folder) / name for name in ("a.json", "b.json", "c.json", "d.svg", "e.md")]
            for file, time in zip(files, (2, 4)):
                one = report.new(MACHINE)
                one["runs"] = [measured("tutti private", "tutti", {8: entry(time)}),
                               measured("mpich", "peer", {8: entry(6)})]
                report.write(file, one, [])
            with contextlib.redirect_stdout(io.StringIO()) as output:
                code = command.main(["--merge", str(files[0]), str(files[1]), "--json", str(files[2]), "--svg",
                                     str(files[3]), "--markdown", str(files[4])])
            self.assertEqual(code, 0)
            self.assertIn("best peer 2.00", output.getvalue())
            self.assertEqual(len(report.read(files[2])["runs"]), 4)
            ET.fromstring(files[3].read_text())
            self.assertIn("| 8 B |", files[4].read_text())


class MissingPeers(unittest.TestCase):
    def test_are_named_with_what_to_install(self):
        path = os.environ["PATH"]
        os.environ["PATH"] = "/no/such/folder"
        try:
            found = peers.Peers(ROOT, pathlib.Path("/no/such/build"), "/no/such/python", list(peers.NAMES))
        finally:
            os.environ["PATH"] = path
        text = "\n".join(found.missing)
        for part in ("open mpi tuned and open mpi sm: not found; apt-get install openmpi-bin libopenmpi-dev",
                     "mpich: not found; apt-get install mpich libmpich-dev", "pip install torch"):
            self.assertIn(part, text)
        self.assertEqual(found.programs("all_reduce", 2, 2, 60), [])

    def test_that_nobody_asked_for_are_not_missed(self):
        self.assertEqual(peers.Peers(ROOT, pathlib.Path("/no/such/build"), None, []).missing, [])


class Machines(unittest.TestCase):
    def test_describe_themselves(self):
        described = machine.describe()
        self.assertTrue(machine.same(described, json.loads(json.dumps(described))))
        self.assertIn(described["processor"], machine.text(described))


if __name__ == "__main__":
    unittest.main()
