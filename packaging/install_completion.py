#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Puts completion where bash-completion and zsh look for it below a prefix. `meson install` calls
it: a folder that the build makes can be installed under its own name only.

    install_completion.py FOLDER DATADIR
"""

import os
import pathlib
import shutil
import sys

PLACES = {"bash": "bash-completion/completions", "zsh": "zsh/site-functions"}


def main():
    folder = pathlib.Path(sys.argv[1])
    data = pathlib.Path(os.environ["MESON_INSTALL_DESTDIR_PREFIX"]) / sys.argv[2]
    for shell, place in PLACES.items():
        for source in sorted((folder / shell).iterdir()):
            target = data / place / source.name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)
            target.chmod(0o644)


if __name__ == "__main__":
    main()
