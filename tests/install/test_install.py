#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""What `make install` puts below a prefix, used as a stranger uses it, and taken away again.

The program is the README's, compiled by the README's line. As root the test runs it as an
ordinary user, in namespaces in which the source and the build cannot be read.

    test_install.py SOURCE BUILD
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE, BUILD = (pathlib.Path(path).resolve() for path in sys.argv[1:3])
PYTHON = "/usr/bin/python3"
PROGRAMS = ["lodic", "lodic-check", "lodic-sim"]
NOBODY = 65534
SECONDS = 60
BLOCK = 4096
NR_BLOCKS = 20
TAIL = 100
STEP = 7

# C and C++: an object is killed while it is held. GUARD is defined for C++ alone.
COUNTER = """
#ifdef __cplusplus
#include <lodic/counter.hpp>
static bool guarded(struct lodic_domain *domain, struct lodic_counter *counter);
#else
#include <lodic/counter.h>
static bool guarded(struct lodic_domain *domain, struct lodic_counter *counter)
{
	struct lodic_guard *guard = lodic_guard_take(domain, counter);

	if (guard)
		lodic_guard_drop(guard);
	return guard != NULL;
}
#endif
#include <stdio.h>

static int nr_released;

static void release(struct lodic_counter *counter, void *arg)
{
	(void)counter;
	(void)arg;
	nr_released++;
}

int main(void)
{
	static struct lodic_domain_options options;
	struct lodic_counter counter = LODIC_COUNTER_INIT;
	struct lodic_domain *domain;
	uint64_t token;

	options.release = release;
	if (lodic_domain_create(&options, &domain) != 0)
		return 1;
	if (!guarded(domain, &counter))
		return 2;
	if (!lodic_counter_try_get(domain, &counter, &token))
		return 3;
	if (lodic_counter_kill(domain, &counter) != 0 || nr_released != 0)
		return 4;
	if (guarded(domain, &counter))
		return 5;
	lodic_counter_put(domain, &counter, token);
	lodic_domain_destroy(domain);
	printf("released %d\\n", nr_released);
	return 0;
}
"""
GUARD = """
#include <utility>

static bool guarded(struct lodic_domain *domain, struct lodic_counter *counter)
{
	lodicpp::counter_guard guard(domain, *counter);
	lodicpp::counter_handle handle = lodicpp::counter_handle::take(domain, *counter);
	lodicpp::counter_handle copy = handle, moved = std::move(handle);

	if (handle || bool(copy) != bool(guard) || bool(moved) != bool(guard))
		return !guard;
	if (guard && lodic_counter_sum(domain, counter) != 3)
		return false;
	return bool(guard);
}
"""
# A second file of the same program. It has all headers of C++, whose names must not collide. The
# compiler puts guards' functions into both, and the linker throws one copy away. No sequence of
# that copy may stay.
OTHER = """
#include <lodic/counter.hpp>
#include <lodic/lodic.hpp>

bool other(struct lodic_domain *domain, struct lodic_counter *counter);
bool other(struct lodic_domain *domain, struct lodic_counter *counter)
{
	lodicpp::counter_guard guard(domain, *counter);

	return bool(guard);
}
"""
# A plug-in's library goes, and its threads go on. Linux still reads the descriptor of the last
# sequence, whenever the thread was switched out.
CLOSED = """
#include <dlfcn.h>
#include <sched.h>
#include <stdio.h>
#include <time.h>
#include <lodic/counter.h>

static void release(struct lodic_counter *counter, void *arg)
{
	(void)counter;
	(void)arg;
}

int main(int argc, char **argv)
{
	struct lodic_domain_options options = { .release = release };
	const struct timespec pause = { 0, 10000 };
	struct lodic_counter counter = LODIC_COUNTER_INIT;
	struct lodic_domain *domain;
	uint64_t token;
	void *library = dlopen(argv[argc - 1], RTLD_NOW | RTLD_LOCAL);
	__typeof__(lodic_domain_create) *create = dlsym(library, "lodic_domain_create");
	__typeof__(lodic_domain_destroy) *destroy = dlsym(library, "lodic_domain_destroy");
	__typeof__(lodic_counter_try_get_call) *get =
		dlsym(library, "lodic_counter_try_get_call");
	__typeof__(lodic_counter_put_call) *put = dlsym(library, "lodic_counter_put_call");

	if (create(&options, &domain) != 0 || !get(domain, &counter, &token))
		return 1;
	put(domain, &counter, token);
	destroy(domain);
	dlclose(library);
	for (int i = 0; i < 100; i++) {
		nanosleep(&pause, NULL);
		sched_yield();
	}
	puts("went on");
	return 0;
}
"""
# Reads until a read is served, which /proc/self/io does not count, for at most 20 s.
READS = """
import os, time
def reads():
    with open("/proc/self/io", "rb", 0) as f:
        return int(f.read().split(b"syscr:")[1].split()[0])
fd = os.open("data", os.O_RDONLY)
end = time.monotonic() + 20
of_one = -reads() + reads()
while time.monotonic() < end:
    for i in range(200):
        os.pread(fd, 1000, 0)
    before = reads()
    os.pread(fd, 1000, 0)
    if reads() - before == of_one:
        break
"""

# In namespaces of its own: what it mounts and starts ends with it. The folder in /run is where
# the library looks for a user's socket.
AS_NOBODY = """
set -e
mount -t tmpfs none '{source}'
[ ! -d '{build}' ] || mount -t tmpfs none '{build}'
mount -t tmpfs none /run
mkdir -p /run/user/{uid}/home
chmod 755 /run/user
mount --bind '{home}' /run/user/{uid}/home # files in tmpfs are not cached
chown -R {uid}:{uid} /run/user/{uid}
cd /run/user/{uid}/home
[ ! -e '{source}/README.md' ]
export HOME=$PWD TMPDIR=$PWD
exec setpriv --reuid {uid} --regid {uid} --clear-groups sh -ec {script}
"""


def run(*command, **more):
    more.setdefault("stdout", subprocess.PIPE)
    return subprocess.run([str(word) for word in command], stderr=subprocess.PIPE, text=True,
                          stdin=subprocess.DEVNULL, check=False, timeout=SECONDS, **more)


def installer(what, prefix, *more, **how):
    return run(PYTHON, SOURCE / "tools" / "install.py", what, "--build", BUILD, "--prefix",
               prefix, *more, **how)


def files_below(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def program_of(name):
    """(the first program of a page, the line that compiles it)"""
    page = (SOURCE / name).read_text(encoding="utf-8")
    program = re.search(r"^```c(?:pp)?\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    line = re.search(r"^ +(c(?:c|\+\+) .*)$", page[program.end():], re.MULTILINE)
    return program[1], line[1]


class Installed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="lodic-install-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder, True)
        cls.folder.chmod(0o755)
        cls.prefix = cls.folder / "opt" / "lodic"
        cls.done = installer("install", cls.prefix)
        if cls.done.returncode:
            raise AssertionError(cls.done.stderr)

    def as_stranger(self, script):
        """What script prints: run by an ordinary user who cannot read source and build."""
        home = self.folder / "home"
        home.mkdir(exist_ok=True)
        if os.geteuid() != 0:
            done = run("sh", "-ec", script, cwd=home, env={**os.environ, "TMPDIR": str(home)})
        else:
            text = AS_NOBODY.format(source=SOURCE, build=BUILD, uid=NOBODY, home=home,
                                    script='"$0"')
            done = run("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc",
                       "sh", "-ec", text, script, cwd="/")
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_nothing_names_source_or_build(self):
        for path in self.prefix.rglob("*"):
            content = path.read_bytes() if path.is_file() else b""
            for place in SOURCE, BUILD:
                self.assertNotIn(os.fsencode(place), content, path)

    def test_readme_program_reads_in_place_from_installed_service(self):
        self.reads_in_place("sum.c", *program_of("README.md"))

    def test_program_in_cpp_reads_in_place_from_installed_service(self):
        self.reads_in_place("sum.cc", *program_of("doc/use/own.md"))

    def reads_in_place(self, name, program, line):
        """The program is compiled by the page's line, and reads all blocks in place."""
        (self.folder / name).write_text(program, encoding="ascii")
        packages = next(self.prefix.rglob("lodic.pc")).parent
        done = run("sh", "-c", line, cwd=self.folder,
                   env={**os.environ, "PKG_CONFIG_PATH": str(packages)})
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))
        data = bytes(i * STEP % 256 for i in range(NR_BLOCKS * BLOCK + TAIL))
        (self.folder / "data").write_bytes(data)
        said = self.as_stranger(f"""
            cp {self.folder}/data .
            {self.folder}/sum data
            {self.folder}/sum data
            {self.prefix}/bin/lodic stat --json >stat
            cat stat
            pid=$(sed -n 's/.*"service_pid": *\\([0-9]*\\).*/\\1/p' stat)
            readlink /proc/$pid/exe
            kill $pid
            """)
        first, second, rest = said.split("\n", 2)
        for line in first, second:
            found = re.fullmatch(r"sum (\d+); (\d+) blocks in place, (\d+) copied", line)
            self.assertEqual(tuple(map(int, found.groups())), (sum(data), NR_BLOCKS + 1, 0))
        text, service = rest.rstrip("\n").rsplit("\n", 1)
        stat = json.loads(text)
        self.assertEqual(service, str(self.prefix / "bin" / "lodic"))
        self.assertGreaterEqual(stat["hits"], 2 * NR_BLOCKS)
        self.assertEqual(stat["misses"], 0)

    def test_programs_find_their_parts(self):
        bin_ = self.prefix / "bin"
        said = self.as_stranger(f"""
            {bin_}/lodic-sim drbh --topology 8x15 --cpus 1,2 --schemes atomic --no-band
            {bin_}/lodic-check --scenario fold --scheme lodic --schedules 6
            echo mapped >data
            {bin_}/lodic map -- cat data
            head -c 1000000 /dev/urandom >large
            {bin_}/lodic bench memory --file large --memory 32M --json
            """)
        self.assertIn("simulated: topology 8x15, parameters xeon-ex", said)
        self.assertIn("24 searches, ", said)
        self.assertIn("mapped", said)
        self.assertIn('"bytes_per_context": ', said)  # lodic-bench has started a service

    def test_unchanged_program_is_served(self):
        (self.folder / "reads.py").write_text(READS, encoding="ascii")
        said = self.as_stranger(f"""
            head -c 20000 /dev/zero >data
            {self.prefix}/bin/lodic run --report=report --json -- {PYTHON} {self.folder}/reads.py
            cat report
            {self.prefix}/bin/lodic stat --json >stat
            kill $(sed -n 's/.*"service_pid": *\\([0-9]*\\).*/\\1/p' stat)
            """)
        served = [r["served"] for r in map(json.loads, said.splitlines())
                  if r["path"].endswith("/data")]
        self.assertEqual(len(served), 1)
        self.assertGreater(served[0], 0)

    def test_counter_program_runs_by_each_compiler(self):
        library = next(self.prefix.rglob("liblodic.so")).parent
        for name, text in (("c.c", COUNTER), ("c.cc", COUNTER + GUARD), ("other.cc", OTHER)):
            (self.folder / name).write_text(text, encoding="ascii")
        for compiler, *names in (("gcc", "c.c"), ("clang", "c.c"),
                                 ("g++", "c.cc", "other.cc"), ("clang++", "c.cc", "other.cc")):
            for level in "-O0", "-O2":
                program = self.folder / f"counter-{compiler}{level}"
                standard = ["-std=c++17"] if "++" in compiler else []
                done = run(compiler, *standard, "-Wall", "-Wextra", "-Werror", level, "-I",
                           self.prefix / "include", *(self.folder / name for name in names),
                           "-o", program, f"-L{library}", "-llodic",
                           f"-Wl,-rpath,{library}", "-pthread")
                self.assertEqual((done.returncode, done.stderr), (0, ""), compiler)
                self.assertEqual(self.as_stranger(str(program)), "released 1\n", compiler)

    def test_thread_goes_on_after_library_was_closed(self):
        (self.folder / "closed.c").write_text(CLOSED, encoding="ascii")
        library = next(self.prefix.rglob("liblodic.so"))
        done = run("cc", "-Wall", "-Wextra", "-Werror", "-O2", "-I", self.prefix / "include",
                   self.folder / "closed.c", "-o", self.folder / "closed", "-ldl")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(self.as_stranger(f"{self.folder}/closed {library}"), "went on\n")

    def test_one_version_everywhere(self):
        header = (self.prefix / "include" / "lodic" / "lodic.h").read_text(encoding="ascii")
        version = ".".join(re.search(rf"LODIC_VERSION_{part} (\d+)", header)[1]
                           for part in ("MAJOR", "MINOR", "PATCH"))
        for name in PROGRAMS:
            done = run(self.prefix / "bin" / name, "--version")
            self.assertRegex(done.stdout, rf"^{name} {re.escape(version)} \(\w")
        package = next(self.prefix.rglob("lodic.pc")).read_text(encoding="utf-8")
        self.assertIn(f"\nVersion: {version}\n", package)
        self.assertEqual([path.name for path in self.prefix.rglob("liblodic.so.*")],
                         [f"liblodic.so.{version.split('.', maxsplit=1)[0]}"])

    def test_man_pages_and_completion_are_where_they_are_looked_for(self):
        share = self.prefix / "share"
        for name in "man1/lodic.1", "man1/lodic-run.1", "man3/lodic_pin.3", "man5/lodic.conf.5":
            text = (share / "man" / name).read_text(encoding="utf-8")
            self.assertRegex(text, r"(?m)^\.TH ", name)
        for name in PROGRAMS:
            self.assertTrue((share / "bash-completion" / "completions" / name).is_file(), name)
        self.assertTrue((share / "zsh" / "site-functions" / "_lodic").is_file())
        named = set(re.findall(r"doc\\?/([\w-]+\.md)", "".join(
            page.read_text(encoding="utf-8").replace("\\-", "-")
            for page in (share / "man").rglob("*.[135]"))))
        self.assertIn("hazards.md", named)
        for name in named:
            self.assertTrue((share / "doc" / "lodic" / "doc" / name).is_file(), name)

    def test_install_says_what_is_still_to_do(self):
        packages = next(self.prefix.rglob("lodic.pc")).parent
        self.assertIn(f"export PKG_CONFIG_PATH={packages}\n", self.done.stdout)
        self.assertIn(f"export PATH={self.prefix}/bin:$PATH\n", self.done.stdout)


class Uninstalled(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="lodic-install-"))
        self.addCleanup(shutil.rmtree, self.folder, True)
        self.folder.chmod(0o755)

    def test_uninstall_leaves_nothing(self):
        prefix = self.folder / "a" / "b"
        for where in [], ["--destdir", self.folder / "stage"]:
            self.assertEqual(installer("install", prefix, *where).returncode, 0)
            self.assertTrue(list(self.folder.rglob("lodic.h")))
            done = installer("uninstall", prefix, *where)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertEqual(files_below(self.folder), [])

    def test_uninstall_leaves_what_others_have_put_there(self):
        (self.folder / "share" / "lodic").mkdir(parents=True)
        (self.folder / "share" / "lodic" / "mine").touch()
        (self.folder / "bin").mkdir()
        before = files_below(self.folder)
        for _ in range(2):  # the second time over the first
            self.assertEqual(installer("install", self.folder).returncode, 0)
        self.assertEqual(installer("uninstall", self.folder).returncode, 0)
        self.assertEqual(files_below(self.folder), before)

    def test_uninstall_of_nothing_fails_with_one_message(self):
        done = installer("uninstall", self.folder)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertRegex(done.stderr, r"\Auninstall: no lodic is installed in .*\n\Z")

    def test_install_where_it_may_not_fails_with_one_message(self):
        (self.folder / "bin").write_text("not a folder", encoding="ascii")
        before = files_below(self.folder)
        done = installer("install", self.folder)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertRegex(done.stderr, rf"\Ainstall: {self.folder}/bin.*: Not a directory\n\Z")
        self.assertEqual(files_below(self.folder), before)

    def test_units_of_staged_install_name_final_prefix(self):
        installer("install", "/opt/x", "--destdir", self.folder)
        units = self.folder / "opt" / "x" / "lib" / "systemd"
        self.assertEqual([path for path in files_below(units) if "." in path],
                         [f"{path}.{kind}" for path in ("system/lodic@", "user/lodic")
                          for kind in ("service", "socket")])
        for unit in units.rglob("*.service"):
            self.assertIn("\nExecStart=/opt/x/bin/lodic serve\n",
                          unit.read_text(encoding="ascii"))

    def test_package_of_staged_install_names_final_prefix(self):
        installer("install", "/opt/x", "--destdir", self.folder)
        package = next(self.folder.rglob("lodic.pc")).read_text(encoding="utf-8")
        self.assertTrue(package.startswith("prefix=/opt/x\n"))
        self.assertIn("-Wl,-rpath,${libdir}", package)
        installer("install", "/usr", "--destdir", self.folder / "usr")
        package = next((self.folder / "usr").rglob("lodic.pc")).read_text(encoding="utf-8")
        self.assertTrue(package.startswith("prefix=/usr\n"))
        self.assertNotIn("rpath", package)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=0)
