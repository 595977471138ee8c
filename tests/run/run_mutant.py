#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Does a case of a script here fail with a shim in which one rule is broken?

    run_mutant.py LODIC SHIM RUN_READER SCRIPT CASE [WORD...]

One other case, of test_run.py, must pass with that shim: it is there, and serves. SCRIPT gets
LODIC, RUN_READER, the words and the case.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

PASSES = "Ways.test_offset_stays_with_kernel"
TRIES = 10  # what two threads do is a matter of luck, and a miss takes two seconds


def passes(script, lodic, *words, seconds=60):
    script = pathlib.Path(__file__).with_name(script)
    done = subprocess.run([sys.executable, script, lodic, *words], check=False,
                          env={**os.environ, "LODIC_TEST_SECONDS": str(seconds)},
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    print(done.stdout.decode(errors="replace"), end="", flush=True)
    return done.returncode == 0


def main():
    lodic, shim, reader, script, case, *words = sys.argv[1:]
    with tempfile.TemporaryDirectory(prefix="lodic-mutant-") as folder:
        # lodic looks for the shim beside itself.
        program = shutil.copy(lodic, folder)
        shutil.copyfile(shim, pathlib.Path(folder, "liblodic-preload.so"))
        if not passes("test_run.py", program, reader, PASSES):
            print("mutant: it spoils more than its rule")
            return 1
        if all(passes(script, program, reader, *words, case, seconds=10)
               for _ in range(TRIES)):
            print("mutant NOT caught")
            return 1
    print("mutant caught")
    return 0


if __name__ == "__main__":
    sys.exit(main())
