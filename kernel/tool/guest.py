# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The guest: its initramfs, its disks, its QEMU, and what it says.

The guest has two serial lines. The first carries KTAP and nothing else. The second carries the
kernel's log, in which the guest also writes which test begins. So we can tell to which test a
report of the kernel belongs, and a report never breaks a line of KTAP.
"""

import os
import queue
import re
import shutil
import subprocess
import threading
import time

from tool import selftests
from tool.work import KERNEL, ROOT, Failed, digest, read_lines, say, started

BOOT = KERNEL / "boot"
TESTS = KERNEL / "tests"
LIB = TESTS / "lib"
CFLAGS = ["-static", "-O2", "-g0", "-std=gnu11", "-Wall", "-Wextra", "-Werror",
          "-Wmissing-prototypes", "-pthread", "-iquote", str(LIB)]
# What the guest reads beside the programs: see tests/list and tests/alarms.
TEXTS = [TESTS / "list", TESTS / "alarms"]
# Programs of this machine that tests/map.c runs as they are.
STOCK = ["perl", "cat"]
# Programs that tests/observe.sh watches.
# program -> how one gets it. No goal of ours installs nginx: its package starts a server.
WATCHED = {"db_bench": "`make deps-bench` installs it",
           "nginx": "install nginx-light, and stop the server that the package starts"}
LIBRARY = re.compile(r"(/\S+) \(0x[0-9a-f]+\)$", re.MULTILINE)
DISKS = {"ext4": ["mkfs.ext4", "-q", "-F"], "xfs": ["mkfs.xfs", "-q", "-f"]}
# Those of `kernel/run proofs`, after the others.
MORE_DISKS = {"btrfs": ["mkfs.btrfs", "-q", "-f"], "f2fs": ["mkfs.f2fs", "-q", "-f"]}
DISK_BYTES = 512 << 20
BOOT_LIMIT_S = 120
DONE = "# guest: done"
# Words of a test in tests/list, or of --append.
ONE_THREAD = "lodic.one_thread"
FIVE_LEVELS = "lodic.five_levels"
TWO_TIER = "lodic.two_tier"
BEGIN = re.compile(r"^# guest: begin (\S+)")


# -- initramfs -----------------------------------------------------------------------------

def programs():
    """name -> (sources, options). Each .c file of kernel/tests is a program; those of
    kernel/tests/lib are parts. In kernel/extra lists have lines 'NAME SOURCE|-IFOLDER ...'."""
    found = {path.stem: ([path], []) for path in sorted(TESTS.glob("*.c"))}
    for listed in sorted(KERNEL.glob("extra/*/programs")):
        here = listed.parent
        for name, *words in (line.split() for line in read_lines(listed)):
            sources, options = found.setdefault(name, ([], []))
            sources += [here / w for w in words if not w.startswith("-I")]
            options += [f"-I{here / w[2:]}" for w in words if w.startswith("-I")]
    return found


def compile_lib(work, folder):
    """What the programs share, as one archive. Returns its path and the hash of its text."""
    archive = folder / "lib.a"
    sources = sorted(LIB.glob("*.c"))
    key = digest(*sources, *sorted(LIB.glob("*.h")), " ".join(CFLAGS))
    if not archive.exists() or not work.stamped("program-lib", key):
        objects = folder / "lib"
        shutil.rmtree(objects, ignore_errors=True)
        objects.mkdir()
        archive.unlink(missing_ok=True)
        work.run(["gcc", *CFLAGS, "-c", *sources], "guest.log", cwd=objects)
        work.run(["ar", "rcs", archive, *sorted(objects.glob("*.o"))], "guest.log")
        work.stamp("program-lib", key)
    return archive, key


def compile_tests(work, folder):
    """The programs are linked statically, because the guest has no C library."""
    archive, lib_key = compile_lib(work, folder)
    for name, (sources, options) in programs().items():
        binary = folder / name
        key = digest(*sources, *sorted(sources[0].parent.glob("*.h")), lib_key)
        if binary.exists() and work.stamped(f"program-{name}", key):
            continue
        work.run(["gcc", *CFLAGS, *options, "-o", binary, *sources, archive], "guest.log")
        work.stamp(f"program-{name}", key)


def build_programs(work):
    """Compiles what has changed; the folder with all of them."""
    folder = work.folder / "guest/programs"
    folder.mkdir(parents=True, exist_ok=True)
    compile_tests(work, folder)
    return folder


def build_lodic(work):
    """`lodic`, `lodic-sim` and the library that `lodic map` preloads; the folder with them."""
    folder = work.folder / "lodic"
    work.run(["sh", ROOT / "tools/setup.sh", folder, "-Dbuildtype=debugoptimized",
              "-Dtests=disabled"], "guest.log")
    work.run(["ninja", "-C", folder, "lodic", "lodic-sim", "liblodic-preload.so"], "guest.log")
    return folder


def copy_dynamic(work, program, target, root):
    """A program as it is, and the loader and libraries that ldd finds for it."""
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(program, target)
    said = work.run(["ldd", program], "guest.log")
    if "not found" in said:
        raise Failed(f"{program}: a shared library is missing\n{said}")
    for name in LIBRARY.findall(said):
        place = root / name.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(name, place)


def copy_found(work, root, name, why):
    """A program of this machine, into the guest's /usr/bin."""
    program = shutil.which(name, path=f"{work.env()['PATH']}:/usr/sbin")
    if not program:
        raise Failed(f"{name} is not there: {why}")
    copy_dynamic(work, program, root / "usr/bin" / name, root)


def copy_map(work, root):
    """What tests/map.c needs: `lodic map`, its shim beside it, and the programs to run."""
    built = build_lodic(work)
    copy_dynamic(work, built / "lodic", root / "opt/lodic/lodic", root)
    shutil.copy(built / "liblodic-preload.so", root / "opt/lodic")
    for name in STOCK:
        copy_found(work, root, name, "tests/map.c runs it in the guest")


def copy_watched(work, root):
    """What tests/observe.sh needs: the programs, and the users that nginx asks for."""
    copy_map(work, root)
    for name, how in WATCHED.items():
        copy_found(work, root, name, how)
    for name in ("etc", "var/log/nginx"):
        (root / name).mkdir(parents=True, exist_ok=True)
    (root / "etc/passwd").write_text("root:x:0:0:root:/:/bin/sh\n")
    (root / "etc/group").write_text("root:x:0:\n")
    for name in ("observe.awk", "observe.sites"):
        shutil.copy(TESTS / name, root / "tests")


def initramfs(work, tests):
    """busybox, the tests and init; for some of the tests also programs of others."""
    root, built = work.folder / "guest/root", build_programs(work)
    shutil.rmtree(root, ignore_errors=True)
    for sub in ("bin", "dev", "proc", "sys", "tmp", "run", "mnt", "tests"):
        (root / sub).mkdir(parents=True)
    busybox = shutil.which("busybox")
    if not busybox:
        raise Failed("busybox is not there: `make deps-kernel` installs busybox-static")
    shutil.copy(busybox, root / "bin/busybox")
    for name in programs():
        shutil.copy(built / name, root / "tests")
    for script in [*sorted(BOOT.glob("*.sh")), *sorted(TESTS.glob("*.sh"))]:
        shutil.copy(script, root / "tests")
        (root / "tests" / script.name).chmod(0o755)
    for text in TEXTS:
        shutil.copy(text, root / "tests")
    if "map" in tests:
        copy_map(work, root)
    if any(name in tests for name in ("group", "tier", "tier_nodes")):
        copy_map(work, root)
        copy_found(work, root, "sqlite3", "`make deps-check` installs it")
    if "kloc_trace" in tests:
        copy_dynamic(work, build_lodic(work) / "lodic-sim", root / "opt/lodic/lodic-sim", root)
    if "kloc_lists" in tests:
        copy_found(work, root, "db_bench", WATCHED["db_bench"])
    if "observe" in tests:
        copy_watched(work, root)
    if any(name.startswith("selftests") for name in tests):
        selftests.copy(work, root / "opt/selftests")
        shutil.copy(selftests.LIST, root / "tests")
    shutil.copy(BOOT / "init", root / "init")
    (root / "init").chmod(0o755)
    image = work.folder / "guest/initramfs.cpio"
    names = sorted(str(p.relative_to(root)) for p in root.rglob("*"))
    packed = subprocess.run(["cpio", "-o", "-H", "newc", "--quiet", "-R", "0:0", "--reproducible"],
                            input="\n".join(names).encode(), cwd=root, capture_output=True,
                            check=False)
    if packed.returncode:
        raise Failed(f"cpio: {packed.stderr.decode().strip()}")
    image.write_bytes(packed.stdout)
    return image


def disks(work, tests):
    """Fresh file systems for every boot."""
    made = []
    for name, mkfs in (DISKS | (MORE_DISKS if "proofs_all" in tests else {})).items():
        path = work.folder / f"guest/{name}.img"
        path.unlink(missing_ok=True)
        with open(path, "wb") as f:
            f.truncate(DISK_BYTES)
        program = shutil.which(mkfs[0], path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
        work.run([program or mkfs[0], *mkfs[1:], path], "guest.log")
        made.append(path)
    return made


# -- QEMU ----------------------------------------------------------------------------------

def arguments(name):
    """A QEMU line from kernel/boot/NAME.args."""
    path = BOOT / f"{name}.args"
    if not path.exists():
        raise Failed(f"there is no kernel/boot/{name}.args")
    return [word for line in read_lines(path) for word in line.split()]


def accelerator(machine, cmdline):
    """How QEMU runs the processors. The machines of the measurements say so themselves."""
    if machine.startswith("icount"):
        return []
    return arguments("one-thread" if ONE_THREAD in cmdline else "threads")


def processor(machine, cmdline):
    """The machine, or with TWO_TIER the one for tests of tiers. With FIVE_LEVELS its processors
    have five-level tables."""
    words = arguments("two-tier" if TWO_TIER in cmdline else machine)
    return [w.replace(",-la57", "") for w in words] if FIVE_LEVELS in cmdline else words


def qemu(work, image, machine, cmdline, console):
    """The whole command. TCG always: a /dev/kvm may be there and still not boot Linux."""
    words = ["qemu-system-x86_64", *accelerator(machine, cmdline), *processor(machine, cmdline),
             "-kernel", image,
             "-initrd", initramfs(work, tests_of(cmdline)), "-append", " ".join(cmdline),
             "-serial", "stdio", "-serial", f"file:{console}"]
    for path in disks(work, tests_of(cmdline)):
        words += ["-drive", f"if=virtio,format=raw,cache=unsafe,file={path}"]
    return words


def kernel_line(tests, extra, log="ttyS1"):
    """The kernel's command line: ours, what the boot asks for, and what init reads."""
    words = [word for line in read_lines(BOOT / "cmdline") for word in line.split()]
    words += [f"console={log}", *extra]
    return words + [f"lodic.tests={','.join(tests)}"] if tests else words


def tests_of(cmdline):
    """The tests of kernel_line(); for a shell, those that come with more programs."""
    if "lodic.shell" in cmdline:
        return ["map", "selftests"]
    names = [word.partition("=")[2] for word in cmdline if word.startswith("lodic.tests=")]
    return names[0].split(",") if names else []


class Lines:
    """Lines of a pipe, with a deadline for each."""

    def __init__(self, stream):
        self.queue = queue.Queue()
        threading.Thread(target=self.pump, args=(stream,), daemon=True).start()

    def pump(self, stream):
        for raw in stream:
            self.queue.put(raw.decode(errors="replace").rstrip("\r\n"))
        self.queue.put(None)

    def next(self, deadline):
        """The next line, or None at the end. Raises queue.Empty when it is too late."""
        return self.queue.get(timeout=max(deadline - time.monotonic(), 0.01))


def boot(work, image, machine, cmdline, name, limit, on_line=None):
    """Boots once; returns (KTAP lines, kernel log, why it ended: done, ended, time).

    limit(test) is the seconds that a test may take; None asks for the boot itself. What
    on_line(line) returns is how many seconds the test has left, or None.
    """
    console = work.logs / f"{name}.console"
    console.write_text("")
    command = qemu(work, image, machine, cmdline, console)
    lines, ended, current = [], "ended", None
    with open(work.logs / f"{name}.ktap", "w", encoding="utf-8") as f, \
            started(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT) as process:
        source = Lines(process.stdout)
        deadline = time.monotonic() + limit(None)
        while True:
            try:
                line = source.next(deadline)
            except queue.Empty:
                ended = "time"
                lines.append(f"# host: {current or 'the boot'} took longer than its limit")
                break
            if line is None:
                break
            lines.append(line)
            f.write(line + "\n")
            f.flush()
            if on_line and (left := on_line(line)):
                deadline = min(deadline, time.monotonic() + left)
            if found := BEGIN.match(line):
                current = found[1]
                deadline = time.monotonic() + limit(current)
            if line == DONE:
                ended = "done"
                break
    return lines, console.read_text(errors="replace"), ended


def shell(work, image, machine, extra):
    """A prompt in the guest; the kernel's log stays in log/shell.console. Ctrl-A x ends."""
    console = work.logs / "shell.console"
    command = qemu(work, image, machine, kernel_line([], [*extra, "lodic.shell"]), console)
    at = command.index("stdio")
    command[at] = "mon:stdio"
    say(f"shell: Ctrl-A x ends it; the kernel's log is {console}")
    process = subprocess.Popen([str(c) for c in command])
    try:
        process.wait()
    finally:
        process.kill()
        process.wait()
