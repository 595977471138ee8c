# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Tests in the guest: which ones, how long they may take, what came of them.

A test passes if it ends with status 0, none of its cases is `not ok` and after.sh finds nothing.
Also the kernel's log must have no report in the test's part. Status 4 skips. After a crash or a
hang the guest boots again for the tests that are left.
"""

import fnmatch
import json
import re
import time

from tool import guest
from tool.work import Failed, read_lines, say

# flavour -> how many times as long its tests may take, and their cases run
SLOW = {"debug": 5, "kcsan": 8, "debian": 2}
MARK = re.compile(r"guest: begin (\S+)")
NOT_OK = re.compile(r"^\s+not ok\b(?!.*# (TODO|SKIP))")
CAUGHT = re.compile(r"^\s+# caught: ")
# A kernel that was caught has so long to end its test: most do in one or two, a few never.
CAUGHT_SECONDS = 20
SKIP_REASON = re.compile(r"#\s*SKIP\b[ :]*(\S.*)")
RESULT = re.compile(r"^(ok|not ok) \d+ (\S+)(.*)$")
# With a thread for each processor TCG may run a breakpoint that the kernel has patched away:
# see boot/one-thread.args. About one boot in fifty dies of it before the first test.
QEMU_FLAW = "Oops: int3"
# What run_boot() says of a guest that ended outside a test. QEMU does so, now and then, while Linux
# looks for devices.
DIED = "the boot: the guest ended"
# Before the seconds of a test that runs only when somebody asks for it.
LONG = "long:"
STATUS = re.compile(r"^# guest: status (\S+), (\d+) s")


class Test:
    """One line of kernel/tests/list: NAME, seconds, words for the kernel's command line. What
    follows a ':' is for the guest, which reads the same file."""

    def __init__(self, name, limit, words):
        self.name, self.words = name, tuple(words)
        self.long = limit.startswith(LONG)
        self.limit = int(limit.removeprefix(LONG))
        self.lines, self.reports = [], []
        self.verdict, self.reason, self.seconds = "not ok", "it never ran", 0

    def judge(self, status, seconds):
        """From what was said to a verdict; status None means that the guest ended first."""
        self.seconds = seconds
        bad = [line.strip() for line in self.lines if NOT_OK.match(line)]
        skips = [found[1] for line in self.lines if (found := SKIP_REASON.search(line))]
        if status is None:
            self.verdict, self.reason = "not ok", self.reason
        elif self.reports:
            self.verdict, self.reason = "not ok", f"kernel: {self.reports[0]}"
        elif status == "after.sh" or bad or status not in ("0", "4"):
            last = next((line.strip() for line in reversed(self.lines) if line.strip()), "")
            self.verdict = "not ok"
            self.reason = bad[0] if bad else last if status == "after.sh" else f"status {status}"
        elif status == "4":
            self.verdict = "skip" if skips else "not ok"
            self.reason = skips[-1] if skips else "a skip without a reason"
        else:
            self.verdict, self.reason = "ok", ""

    def as_json(self):
        return {"name": self.name, "result": self.verdict, "reason": self.reason,
                "seconds": self.seconds, "cases": cases(self.lines), "reports": self.reports}


def cases(lines):
    """How many cases of a test passed, failed, were skipped."""
    found = [line.strip() for line in lines if re.match(r"^\s+(not )?ok\b", line)]
    skipped = sum("# SKIP" in line for line in found)
    bad = sum(line.startswith("not ok") for line in found)
    return {"ok": len(found) - skipped - bad, "not_ok": bad, "skip": skipped}


def all_tests():
    """The tests of kernel/tests/list."""
    rows = [line.partition(" : ")[0].split() for line in read_lines(guest.TESTS / "list")]
    for row in rows:
        if len(row) < 2 or not row[1].removeprefix(LONG).isdigit():
            raise Failed(f"kernel/tests/list: '{' '.join(row)}' is not NAME SECONDS WORDS")
    return [Test(row[0], row[1], row[2:]) for row in rows]


def chosen(word):
    """The tests with that word in their name. Without a word: those that CI has time for."""
    tests = [t for t in all_tests() if (word in t.name if word else not t.long)]
    if not tests:
        raise Failed(f"no test has '{word}' in its name")
    return tests


def expected(name):
    """Reports that a test provokes on purpose: kernel/tests/expected, lines 'TESTS REGEX'."""
    rows = [line.split(None, 1) for line in read_lines(guest.TESTS / "expected")]
    return [re.compile(row[1]) for row in rows if fnmatch.fnmatchcase(name, row[0])]


def reports_of(log):
    """test ('' before the first) -> lines of the kernel's log that have one of the phrases of
    kernel/tests/alarms. What the kernel says after the last test is the last one's: a kernel
    that a negative control has broken reports until it is off."""
    alarms = read_lines(guest.TESTS / "alarms")
    found, current = {}, ""
    for line in log.splitlines():
        mark = MARK.search(line)
        if mark:
            current = mark[1]
        elif any(alarm in line for alarm in alarms):
            text = re.sub(r"^\[[^]]*\]\s*", "", line.strip())
            if not any(e.search(text) for e in expected(current)):
                found.setdefault(current, []).append(text)
    return found


def run_boot(work, image, flavour, tests, words, name):
    """Boots once and fills in the tests that ran. Returns (those left, problems of the
    boot)."""
    slow = SLOW.get(flavour, 1)
    words = [*words, f"lodic.slow={slow}"] if slow > 1 else words
    longer = sum(int(w.partition("=")[2]) for w in words if w.startswith("lodic.seconds="))
    limits = {t.name: t.limit * slow + longer for t in tests}

    def limit(test):
        return limits[test] if test else guest.BOOT_LIMIT_S * slow

    began = time.monotonic()
    progress = Watcher({t.name: t for t in tests}, began)
    line = guest.kernel_line([t.name for t in tests], words)
    lines, log, ended = guest.boot(work, image, "two-node", line, name, limit, progress)
    reports = reports_of(log)
    for test in tests:
        test.reports = reports.pop(test.name, [])
    left = list(tests)
    for test, status, seconds in progress.finished:
        test.judge(status, seconds)
        left.remove(test)
    problems = [f"kernel: {text}" for texts in reports.values() for text in texts]
    if ended != "done":
        stopped = progress.current
        why = "took longer than its limit" if ended == "time" else "the guest ended"
        if stopped:
            stopped.reason = f"{why}; {(stopped.reports or last_words(log))[0]}"
            # A negative control has broken the kernel, and may say no more than this.
            caught = any(CAUGHT.match(line) for line in stopped.lines)
            stopped.judge("0" if caught else None, round(time.monotonic() - progress.at))
            left.remove(stopped)
        else:
            problems.append(f"the boot: {why}; {last_words(log)[0]}")
    return left, problems


def last_words(log):
    return [line.strip() for line in log.splitlines() if line.strip()][-1:] or ["no word"]


class Watcher:
    """Follows the guest's lines as they come. A call returns how many seconds the test has
    left, or None: that its limit stays."""

    def __init__(self, tests, began):
        self.tests, self.at = tests, began
        self.current, self.status, self.finished = None, None, []

    def __call__(self, line):
        if found := guest.BEGIN.match(line):
            self.current, self.at = self.tests.get(found[1]), time.monotonic()
        elif found := STATUS.match(line):
            self.status = found[1]
        elif (found := RESULT.match(line)) and self.current and found[2] == self.current.name:
            seconds = round(time.monotonic() - self.at)
            self.finished.append((self.current, self.status, seconds))
            say(f"  {found[1]:<6} {self.current.name} ({seconds} s)")
            self.current = None
        elif self.current:
            self.current.lines.append(line)
            return CAUGHT_SECONDS if CAUGHT.match(line) else None
        return None


def run_tests(work, image, flavour, tests, json_path=None, append=()):
    """All tests, grouped by what they ask of the command line; returns (passed, failed)."""
    groups, problems, number = {}, [], 0
    for test in tests:
        groups.setdefault(test.words, []).append(test)
    for words, group in (groups or {(): []}).items():
        left, again = group, False
        while True:
            number += 1
            say(f"boot {number}: {flavour} kernel, {len(left)} tests {' '.join(words)}".rstrip())
            before = len(left)
            left, wrong = run_boot(work, image, flavour, left, [*words, *append],
                                   f"{flavour}-{number}")
            if len(left) == before and not again and any(QEMU_FLAW in text or DIED in text
                                                         for text in wrong):
                again = True
                say(f"  boot {number} died before its first test ({wrong[0]}): once more")
                continue
            problems += wrong
            if not left or len(left) == before:
                break
    return table(work, tests, problems, flavour, json_path)


def table(work, tests, problems, flavour, json_path):
    """test x result, and the count."""
    if tests:
        width = max(len(t.name) for t in tests)
        say(f"{'test':<{width}}  {'result':<7} {'s':>4}  {'cases':>5}  reason")
    for test in tests:
        count = sum(cases(test.lines).values())
        say(f"{test.name:<{width}}  {test.verdict:<7} {test.seconds:>4}  {count or '':>5}  "
            f"{test.reason}".rstrip())
    for problem in problems:
        say(f"outside the tests: {problem}")
    skipped = sum(t.verdict == "skip" for t in tests)
    failed = sum(t.verdict == "not ok" for t in tests) + bool(problems)
    passed = len(tests) - skipped - failed + bool(problems) + (not problems)
    if json_path:
        result = {"kernel": flavour, "tests": [t.as_json() for t in tests],
                  "outside": problems, "passed": passed, "failed": failed, "skipped": skipped}
        with open(json_path, "w", encoding="utf-8") as f:
            json.dump(result, f, indent=1)
            f.write("\n")
    say(f"logs: {work.logs}/{flavour}-*.ktap, {flavour}-*.console; {skipped} skipped")
    return passed, failed
