# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Waits for the imports of numpy and safetensors, and then lets lodic.auto put itself in place.

lodic_auto.pth imports this at the start of each Python program of the place where the wheel is
installed. Most of them import neither, so this module imports nothing that is not there already.
"""

import os
import sys

NAMES = ("numpy", "safetensors")


class Finder:
    """Finds nothing itself: what another finder has found is changed once it is loaded."""

    def find_spec(self, name, path=None, target=None):
        """What another finder says, with a loader that tells when it has loaded."""
        if name not in NAMES:
            return None
        for finder in sys.meta_path:
            if finder is not self and hasattr(finder, "find_spec"):
                spec = finder.find_spec(name, path, target)
                if spec is not None:
                    if hasattr(spec.loader, "exec_module"):
                        spec.loader = Loader(spec.loader)
                    return spec
        return None


class Loader:
    """Another loader, and then lodic.auto."""

    def __init__(self, loader):
        self._loader = loader

    def create_module(self, spec):
        """The other loader's module."""
        return self._loader.create_module(spec)

    def exec_module(self, module):
        """Loads it, and changes it. It stays as it is where lodic cannot be imported, and where
        it is another module of that name."""
        module.__spec__.loader = module.__loader__ = self._loader
        self._loader.exec_module(module)
        try:
            from lodic import auto # pylint: disable=import-outside-toplevel
            auto.put_under(module)
        except Exception as error: # pylint: disable=broad-except
            print(f"lodic.auto: {module.__name__} stays as it is: {error}", file=sys.stderr)

    def __getattr__(self, name):
        """What else a loader may be asked for, before the module is loaded."""
        return getattr(self._loader, name)


def install():
    """From now on. Modules that are there already are the caller's business."""
    if not any(isinstance(finder, Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, Finder())


def if_wanted():
    """From now on, if LODIC_AUTO says so."""
    if os.environ.get("LODIC_AUTO", "0") not in ("", "0"):
        install()
