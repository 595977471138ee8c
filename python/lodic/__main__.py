# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""`python3 -m lodic`, and the program `lodic` that the wheel installs: the one it brings."""

import os
import sys

from lodic._cache import _service


def main() -> None:
    """Becomes the program."""
    program = _service() or os.path.join(os.path.dirname(__file__), "lodic")
    if os.path.realpath(program) == os.path.realpath(sys.argv[0]): # it would start itself for ever
        sys.exit(f"lodic: {os.path.dirname(__file__)} has no program: install the package anew")
    os.execv(program, [program, *sys.argv[1:]])


if __name__ == "__main__":
    main()
