#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Puts what a build folder holds below a prefix, and takes exactly that away again.

`make install` and `make uninstall` call it. Nothing that is installed names the build folder
or the source, so one build serves every prefix. PREFIX/share/lodic/installed lists the files
and the folders that installing made; uninstalling needs no build.
"""

import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

LIST = "share/lodic/installed"
FILE_MODE, PROGRAM_MODE, FOLDER_MODE = 0o644, 0o755, 0o755
SYSTEM_PREFIXES = ("/usr", "/")


class Problem(Exception):
    """What the user is told, in one line."""


class Place:
    """A prefix, perhaps below a staging folder (DESTDIR)."""

    def __init__(self, prefix, destdir):
        self.prefix = pathlib.Path(os.path.abspath(prefix))
        self.destdir = pathlib.Path(os.path.abspath(destdir)) if destdir else None
        self.list = self.prefix / LIST

    def real(self, path):
        """Where path is on this disk: below DESTDIR, if there is one."""
        return self.destdir / str(path).lstrip("/") if self.destdir else pathlib.Path(path)

    def read_list(self):
        """(files, made folders) of what is installed; None: nothing is."""
        try:
            lines = self.real(self.list).read_text(encoding="utf-8").splitlines()
        except FileNotFoundError:
            return None
        for line in lines:
            outside = line.startswith("/") and self.prefix not in pathlib.Path(line).parents
            if ".." in line.split("/") or not line.startswith("/") or \
                    (outside and not line.endswith("/")):
                raise Problem(f"{self.real(self.list)} is damaged: {line}")
        return ([line for line in lines if not line.endswith("/")],
                [line for line in lines if line.endswith("/")])

    def write_list(self, files, folders):
        deepest_first = sorted(folders, key=len, reverse=True)
        put(self.real(self.list), "".join(f"{line}\n" for line in [*files, *deepest_first])
            .encode(), FILE_MODE)


def put(path, content, mode):
    """Writes a file in one step: a program that runs from the old one keeps it."""
    new = path.with_name(path.name + ".new")
    new.unlink(missing_ok=True)
    try:
        new.write_bytes(content)
        new.chmod(mode)
        new.rename(path)
    finally:
        new.unlink(missing_ok=True)


def give_back(build):
    """What meson wrote as root into a user's build folder becomes the user's again."""
    log = build / "meson-logs" / "install-log.txt"
    if os.geteuid() == 0 and log.exists():
        os.chown(log, build.stat().st_uid, build.stat().st_gid)


def stage(build, folder):
    """Lets meson install into folder, without debugging information. Gives meson's prefix, below
    folder and as it is."""
    done = subprocess.run(["meson", "install", "-C", build, "--no-rebuild", "--quiet",
                           "--strip", "--destdir", folder], text=True, check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    give_back(pathlib.Path(build))
    if done.returncode:
        raise Problem(f"meson install failed: {done.stdout.strip()[-300:]}")
    for library in pathlib.Path(folder).rglob("*.a"):
        subprocess.run(["strip", "--strip-debug", library], check=True)
    package = next(pathlib.Path(folder).rglob("lodic.pc"))
    prefix = package.read_text(encoding="utf-8").split("\n", 1)[0].removeprefix("prefix=")
    return pathlib.Path(folder) / prefix.lstrip("/"), prefix


def describe_package(text, prefix):
    """lodic.pc for this prefix. In /usr the loader looks by itself."""
    lines = text.split("\n")
    lines[0] = f"prefix={prefix}"
    if str(prefix) in SYSTEM_PREFIXES:
        lines = [line.replace(" -Wl,-rpath,${libdir}", "") for line in lines]
    return "\n".join(lines)


def describe_unit(text, staged_prefix, prefix):
    """A unit of systemd's for this prefix."""
    return text.replace(f"={staged_prefix}/", f"={str(prefix).rstrip('/')}/")


def missing_folders(place, files):
    """Folders that must be made, as the list names them; the topmost first."""
    found = []
    for file in files:
        for parent in reversed(pathlib.PurePath(file).parents):
            name = f"{parent}/".replace("//", "/")
            if name not in found and not place.real(name).is_dir():
                found.append(name)
    return found


def copy(staged, built_for, place, files):
    for file in files:
        if file == str(place.list):
            continue
        source = staged / os.path.relpath(file, place.prefix)
        target = place.real(file)
        if source.is_symlink():
            target.unlink(missing_ok=True)
            target.symlink_to(os.readlink(source))
            continue
        content = source.read_bytes()
        if source.suffix == ".pc":
            content = describe_package(content.decode(), place.prefix).encode()
        if source.suffix in (".service", ".socket"):
            content = describe_unit(content.decode(), built_for, place.prefix).encode()
        runs = os.access(source, os.X_OK)
        put(target, content, PROGRAM_MODE if runs else FILE_MODE)


def install(place, build):
    """Over an older one too: what that had and this one lacks goes."""
    old_files, old_folders = place.read_list() or ([], [])
    with tempfile.TemporaryDirectory(prefix="lodic-install-") as folder:
        staged, built_for = stage(build, folder)
        files = [str(place.prefix / path.relative_to(staged))
                 for path in sorted(staged.rglob("*")) if path.is_symlink() or path.is_file()]
        files.append(str(place.list))
        made = missing_folders(place, files)
        try:
            for name in made:
                place.real(name).mkdir()
                place.real(name).chmod(FOLDER_MODE)
            # First, so that uninstalling finds all of an install that was cut off.
            place.write_list(sorted({*files, *old_files}), [*made, *old_folders])
            copy(staged, built_for, place, files)
        except OSError:
            if not old_files:
                remove(place, files, sorted(made, key=len, reverse=True))
            raise
    gone = [file for file in old_files if file not in files]
    remove(place, gone, old_folders if gone else [])
    place.write_list(files, [*made, *(f for f in old_folders if place.real(f).is_dir())])
    return files


def remove(place, files, folders):
    """Folders in which somebody else has put something stay."""
    for file in files:
        place.real(file).unlink(missing_ok=True)
    for folder in folders:
        try:
            place.real(folder).rmdir()
        except OSError as err:
            if isinstance(err, PermissionError):
                raise


def uninstall(place):
    installed = place.read_list()
    if not installed:
        raise Problem(f"no lodic is installed in {place.real(place.prefix)}: there is no {LIST}")
    files, folders = installed
    # The list goes last: if this is cut off, the next try finds the rest.
    files.sort(key=lambda file: file == str(place.list))
    remove(place, files, folders)
    return files


def ldconfig(*arguments):
    program = shutil.which("ldconfig", path=f"{os.environ.get('PATH', '')}:/sbin:/usr/sbin")
    if not program:
        return ""
    done = subprocess.run([program, *arguments], stdout=subprocess.PIPE, text=True, check=False,
                          stderr=subprocess.DEVNULL)
    return done.stdout


def refresh_loader(libdir):
    """The loader keeps a list of the libraries in its folders, which only root can renew."""
    theirs = [line.split(":")[0] for line in ldconfig("-N", "-X", "-v").splitlines()
              if line.startswith("/")]
    if str(libdir) not in theirs:
        return
    if os.geteuid() == 0:
        ldconfig()
    else:
        print("Run `ldconfig' as root: only then does the loader find liblodic.so.")


def packages_of(files):
    return next(pathlib.PurePath(file).parent for file in files if file.endswith(".pc"))


def tell_user(place, files):
    """What is still to do before the README's commands work as they stand there."""
    packages = packages_of(files)
    print(f"lodic is installed in {place.real(place.prefix)}: {len(files)} files.")
    if place.destdir:
        return
    refresh_loader(packages.parent)
    known = subprocess.run("pkg-config --variable=prefix lodic", shell=True, check=False,
                           text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
    if known.strip() != str(place.prefix):
        print(f"Tell pkg-config:  export PKG_CONFIG_PATH={packages}")
    if shutil.which("lodic") != str(place.prefix / "bin" / "lodic"):
        print(f"Tell the shell:   export PATH={place.prefix}/bin:$PATH")


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["install", "uninstall"])
    parser.add_argument("--build", default="build", help="the build folder (default: build)")
    parser.add_argument("--prefix", default="/usr/local", help="default: /usr/local")
    parser.add_argument("--destdir", default="", help="put it below this folder, for a package")
    return parser.parse_args()


def main():
    options = parse_options()
    place = Place(options.prefix, options.destdir)
    try:
        if options.what == "install":
            tell_user(place, install(place, options.build))
        else:
            files = uninstall(place)
            if not place.destdir:
                refresh_loader(packages_of(files).parent)
            print(f"lodic is gone from {place.real(place.prefix)}: {len(files)} files.")
    except PermissionError as err:
        print(f"{options.what}: cannot write {err.filename}: {err.strerror}. Be root, or choose "
              f"a folder of your own: make {options.what} PREFIX=$HOME/.local", file=sys.stderr)
        return 1
    except OSError as err:
        print(f"{options.what}: {err.filename}: {err.strerror}", file=sys.stderr)
        return 1
    except Problem as err:
        print(f"{options.what}: {err}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
