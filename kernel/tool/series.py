# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The series as files, and as commits: fetch, apply, refresh, export.

In the repository a patch is three things, so that it quotes of Linux only what git needs:
  patches/TOPIC.patch     a mail with hunks in files that Linux has
  files/TOPIC/...         the files it adds, as they are
  files/TOPIC.generated   files it adds that are made from core/: lines 'TARGET SOURCE'
  files/TOPIC.mutants     what these have besides core's text: rules to break, as check/mutants/
                          has them, and windows
In the work tree it is one commit. Both ways lead back: refresh(apply(x)) == x.

Patches that kernel/extra/series names come on top, for the kernels that are tested. Each is one
whole mail, kernel/extra/NAME/NAME.patch, and fits the base without the series, too.
"""

import os
import re
import shutil
import sys

from tool.work import KERNEL, ROOT, Failed, digest, files_below, read_fields, read_lines, say

sys.path.append(str(ROOT / "check/mutants"))
import rows  # noqa: E402

PATCHES = KERNEL / "patches"
FILES = KERNEL / "files"
EXTRA = KERNEL / "extra"
COVER = PATCHES / "0000-cover.txt"
HOST_HEADER = '#include "lodic_host.h"'
OUR_INCLUDE = re.compile(r'#include "(?:core|host)/[^"]*"$')
DIFF = ["--no-renames", "--no-ext-diff", "--no-textconv", "--no-color",
        "--diff-algorithm=histogram", "--src-prefix=a/", "--dst-prefix=b/", "--abbrev=12"]
MAIL = ["format-patch", "--stdout", "--zero-commit", "--no-signature", "--no-numbered", "--always",
        *DIFF]


def topics():
    return read_lines(KERNEL / "series")


def extras():
    return read_lines(EXTRA / "series")


def extra_patch(name):
    return EXTRA / name / f"{name}.patch"


def generated(topic):
    """(file in Linux, file in our repository) of what a patch takes from core."""
    lines = read_lines(FILES / f"{topic}.generated")
    pairs = [tuple(line.split()) for line in lines]
    for pair in pairs:
        if len(pair) != 2 or not (ROOT / pair[1]).is_file():
            raise Failed(f"kernel/files/{topic}.generated: '{' '.join(pair)}' is not "
                         "'TARGET SOURCE' with a source that exists")
    return pairs


def tabbed(line):
    """We align with spaces what does not fit on a line, and Linux with as many tabs as fit."""
    text = line.lstrip(" \t")
    width = len(line[:len(line) - len(text)].expandtabs(8))
    return "\t" * (width // 8) + " " * (width % 8) + text


def with_mutants(source):
    """Lines of core's text, with what the kernel's debugfs can break there."""
    lines = rows.DISK[source].splitlines()
    for row in rows.parse(folder=rows.KERNEL):
        lines = rows.changed(row, source, lines)
    return lines


def generate(target, source):
    """core's text as Linux wants it: licence line, where it comes from, includes, tabs."""
    text = with_mutants(source)
    licence = text.pop(0)
    if target.endswith(".c"):
        licence = re.sub(r"^/\* (SPDX.*?) \*/$", r"// \1", licence)
    lines = [licence, f"/* Generated from lodic's {source}; do not edit. */"]
    included = False
    for line in text:
        if OUR_INCLUDE.match(line):
            if included:
                continue
            line, included = HOST_HEADER, True
        lines.append(tabbed(line))
    return "\n".join(lines) + "\n"


def inputs():
    """Every file that the series is made of."""
    found = [p for p in (KERNEL / "series", KERNEL / "BASE", EXTRA / "series") if p.exists()]
    found += [extra_patch(name) for name in extras()]
    for topic in topics():
        found += [p for p in (PATCHES / f"{topic}.patch", FILES / f"{topic}.generated",
                              FILES / f"{topic}.mutants") if p.exists()]
        found += files_below(FILES / topic)
        found += [ROOT / source for _, source in generated(topic)]
    return found


def series_key():
    return digest(*(piece for p in inputs() for piece in (str(p.relative_to(ROOT)), p)))


# -- fetch ---------------------------------------------------------------------------------

def fetch(work, source=None):
    """The unpacked base as the first commit of a scratch repository."""
    base = read_fields(KERNEL / "BASE")
    tarball = source or base["file"]
    if work.stamped("fetch", base["sha256"]) or work.stamped("fetch", f"other {tarball}"):
        say(f"fetch: {work.note('fetch')} is there")
        return
    if not os.path.exists(tarball):
        raise Failed(f"{tarball} is not there. `make deps-kernel` installs {base['package']}, "
                     "or name another tarball: run fetch --source FILE")
    say(f"fetch: checking and unpacking {tarball} (about a minute, 2.2 GB of disk)")
    found = work.run(["sha256sum", tarball], "fetch.log").split()[0]
    key = base["sha256"] if found == base["sha256"] else f"other {tarball}"
    unpack(work, tarball)
    version = version_of(work.tree)
    if found != base["sha256"]:
        say(f"fetch: THIS IS ANOTHER BASE. {tarball} is Linux {version}, sha256 {found}; the "
            f"series was made on {base['version']} ({base['package-version']}). Trying it: "
            "where a patch does not fit, `run apply` says which.")
        if not version.startswith("6.12."):
            raise Failed(f"Linux {version} is no 6.12: the series is not meant for it")
    work.stamp("fetch", key, f"Linux {version}")
    say(f"fetch: Linux {version}")


def unpack(work, tarball):
    part = work.folder / "linux.part"
    shutil.rmtree(part, ignore_errors=True)
    shutil.rmtree(work.tree, ignore_errors=True)
    for step in ("fetch", "apply"):
        work.unstamp(step)
    part.mkdir()
    work.run(["tar", "-xf", tarball, "--strip-components=1", "--no-same-owner"], "fetch.log",
             cwd=part)
    env = work.env(GIT_AUTHOR_DATE="@0 +0000", GIT_COMMITTER_DATE="@0 +0000")
    for words in (["init", "-q"], ["add", "-A", "-f"],
                  ["commit", "-q", "-m", f"Linux {version_of(part)}"], ["tag", "base"]):
        work.run(["git", *words], "fetch.log", cwd=part, env=env)
    part.rename(work.tree)


def version_of(tree):
    text = (tree / "Makefile").read_text()
    return ".".join(re.search(rf"^{name} = (\w+)", text, re.MULTILINE)[1]
                    for name in ("VERSION", "PATCHLEVEL", "SUBLEVEL"))


# -- apply ---------------------------------------------------------------------------------

def apply(work, force=False):
    """The series as commits on top of the base. Files that end up the same keep their time,
    so that make does not build them again."""
    if not (work.tree / ".git").exists():
        raise Failed("there is no tree yet: run fetch")
    key = series_key()
    head = work.git("rev-parse", "HEAD").strip()
    if work.stamped("apply", key) and work.note("apply") == head and not is_dirty(work):
        say(f"apply: {len(topics())} patches are in place")
        return
    if not force:
        refuse_to_lose(work, head)
    before = blobs(work, "HEAD")
    times = {path: os.stat(work.tree / path).st_mtime_ns for path in before
             if (work.tree / path).exists()}
    work.unstamp("apply")
    abort_am(work)
    work.run(["git", "reset", "-q", "--hard", "base"], "apply.log", cwd=work.tree)
    work.run(["git", "clean", "-q", "-d", "-f", "-x"], "apply.log", cwd=work.tree)
    for number, topic in enumerate(topics(), 1):
        say(f"apply: {number}/{len(topics())} {topic}")
        apply_one(work, topic)
    for name in extras():
        say(f"apply: {name}, on top")
        apply_mail(work, name, extra_patch(name))
    for path, blob in blobs(work, "HEAD").items():
        if before.get(path) == blob and path in times:
            os.utime(work.tree / path, ns=(times[path], times[path]))
    work.stamp("apply", key, work.git("rev-parse", "HEAD").strip())
    say(f"apply: {len(topics())} patches on Linux {version_of(work.tree)}")


def is_dirty(work):
    return bool(work.git("status", "--porcelain", "--untracked-files=normal").strip())


def refuse_to_lose(work, head):
    """Commits and edits in the tree that the series does not have are somebody's work."""
    known = work.note("apply") or work.git("rev-parse", "base").strip()
    if head != known or is_dirty(work):
        raise Failed(f"{work.tree} has changes of its own. `run refresh` takes them over "
                     "(commit first), `run apply --force` throws them away")


def abort_am(work):
    if (work.tree / ".git/rebase-apply").exists():
        work.git("am", "--abort")


def blobs(work, commit):
    """path -> blob, of the files in which a commit differs from the base."""
    listed = work.git("diff", "--raw", "--no-abbrev", "--no-renames", "-z", "base", commit)
    fields = listed.split("\0")
    return {path: info.split()[3] for info, path in zip(fields[0::2], fields[1::2])}


def apply_mail(work, name, patch):
    try:
        work.run(["git", "am", "-q", "--empty=keep", "--committer-date-is-author-date", patch],
                 "apply.log", cwd=work.tree)
    except Failed as err:
        abort_am(work)
        raise Failed(f"{name} does not apply to Linux {version_of(work.tree)}\n{err}") from err


def apply_one(work, topic):
    patch = PATCHES / f"{topic}.patch"
    if not patch.exists():
        raise Failed(f"kernel/series names {topic}: there is no kernel/patches/{topic}.patch")
    apply_mail(work, topic, patch)
    names = []
    for path in files_below(FILES / topic):
        name = str(path.relative_to(FILES / topic))
        put(work, topic, name, path.read_bytes())
        shutil.copymode(path, work.tree / name)
        names.append(name)
    for target, source in generated(topic):
        put(work, topic, target, generate(target, source).encode())
        names.append(target)
    if names:
        work.git("add", "-f", "--", *names)
        date = work.git("show", "-s", "--format=%ad", "--date=raw", "HEAD").strip()
        work.git("commit", "-q", "--amend", "--no-edit", "--allow-empty",
                 env=work.env(GIT_COMMITTER_DATE=date))


def put(work, topic, name, content):
    path = work.tree / name
    if path.exists():
        raise Failed(f"kernel/files/{topic} adds {name}, which is there already")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


# -- refresh, export -----------------------------------------------------------------------

def all_commits(work):
    """The commits of the tree, one for each topic, and then one for each of extras()."""
    found = work.git("rev-list", "--reverse", "base..HEAD").split()
    names = topics() + extras()
    if len(found) != len(names):
        raise Failed(f"the tree has {len(found)} commits, kernel/series and kernel/extra/series "
                     f"{len(names)} names: write the new ones there first, in the order of the "
                     "commits")
    return list(zip(names, found))


def commits(work):
    """Those of the series."""
    return all_commits(work)[:len(topics())]


def extra_mails(work):
    """name -> the whole mail."""
    return {name: work.git(*MAIL, "-p", "-1", commit, binary=True)
            for name, commit in all_commits(work)[len(topics()):]}


def as_files(work):
    """What the repository must hold for the tree to be as it is: path below kernel/ -> (bytes,
    executable)."""
    files = {str(extra_patch(name).relative_to(KERNEL)): (mail, False)
             for name, mail in extra_mails(work).items()}
    for topic, commit in commits(work):
        mail = work.git(*MAIL, "--diff-filter=a", "-p", "-U2", "-1", commit, binary=True)
        files[f"patches/{topic}.patch"] = (mail, False)
        made = dict(generated(topic))
        added = work.git("diff-tree", "-r", "-z", "--no-renames", "--diff-filter=A",
                         f"{commit}^", commit).split("\0")
        for info, name in zip(added[0::2], added[1::2]):
            content = work.git("cat-file", "blob", info.split()[3], binary=True)
            if name in made:
                if content != generate(name, made[name]).encode():
                    raise Failed(f"{name} is generated from {made[name]}: change that, then "
                                 "run apply")
            else:
                files[f"files/{topic}/{name}"] = (content, info.split()[1] == "100755")
    return files


def ours():
    """What the repository holds now, of what refresh writes."""
    paths = [p for p in files_below(PATCHES) if p.suffix == ".patch"]
    paths += [extra_patch(name) for name in extras()]
    paths += [p for p in files_below(FILES)
              if p.parent != FILES or p.suffix not in (".generated", ".mutants")]
    return {str(p.relative_to(KERNEL)): (p.read_bytes(), bool(p.stat().st_mode & 0o100))
            for p in paths}


def refresh(work):
    """The tree's commits back into kernel/patches and kernel/files."""
    if is_dirty(work):
        raise Failed(f"{work.tree} has changes that are not committed")
    new, old = as_files(work), ours()
    for name in sorted(new.keys() | old.keys()):
        if new.get(name) == old.get(name):
            continue
        path = KERNEL / name
        if name not in new:
            path.unlink()
            say(f"refresh: removed {name}")
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(new[name][0])
        path.chmod(0o755 if new[name][1] else 0o644)
        say(f"refresh: wrote {name}")
    work.stamp("apply", series_key(), work.git("rev-parse", "HEAD").strip())
    say(f"refresh: {len(topics())} patches, {len(new)} files")


def check_refresh(work):
    """export(apply(series)) == series, to the byte; generated files equal core's."""
    new, old = as_files(work), ours()
    different = sorted(name for name in new.keys() | old.keys() if new.get(name) != old.get(name))
    if different:
        raise Failed("the series does not come back as it went in (run apply --force; run "
                     "refresh; look at git diff): " + ", ".join(different))
    for topic in topics():
        for target, source in generated(topic):
            found = (work.tree / target).read_text(encoding="utf-8")
            if found != generate(target, source):
                raise Failed(f"{target} in the tree is not what {source} gives")


def mails(work):
    """Complete mails, new files and all: [(name, bytes)]."""
    return [(f"{number:04d}-{topic}.patch",
             work.git(*MAIL, "--stat", "-p", "-1", commit, binary=True))
            for number, (topic, commit) in enumerate(commits(work), 1)]


def export(work, folder):
    """Writes the mails to send: the cover letter and the complete patches."""
    folder.mkdir(parents=True, exist_ok=True)
    total = len(topics())
    for number, (name, mail) in enumerate(mails(work), 1):
        mail = mail.replace(b"Subject: [PATCH] ", b"Subject: [PATCH %d/%d] " % (number, total), 1)
        (folder / name).write_bytes(mail)
    if COVER.exists():
        stat = work.git("diff", "--stat", "--summary", *DIFF, "base", commits(work)[-1][1])
        cover = re.sub(r"(?<=\[PATCH 0/)\d+", str(total), COVER.read_text(), count=1)
        (folder / "0000-cover-letter.patch").write_text(f"{cover}\n{stat}")
    say(f"export: {total} patches{' and the cover letter' if COVER.exists() else ''} in {folder}")


def checkpatch_ignored():
    return [line.split()[0] for line in read_lines(KERNEL / "config/checkpatch.ignore")]


def checkpatch_mail(work, mail):
    """What scripts/checkpatch.pl --strict has to say of one complete patch."""
    words = ["perl", "scripts/checkpatch.pl", "--strict", "--show-types", "--no-summary", "--quiet",
             "--color=never"]
    ignored = checkpatch_ignored()
    words += [f"--ignore={','.join(ignored)}"] if ignored else []
    try:
        return work.run([*words, "-"], "checkpatch.log", cwd=work.tree, text=mail).strip()
    except Failed as err:
        return str(err)


def checkpatch(work):
    """checkpatch_mail() reports nothing of any patch."""
    said = {name: checkpatch_mail(work, mail)
            for name, mail in [*mails(work), *extra_mails(work).items()]}
    wrong = [f"{name}\n{text}" for name, text in said.items() if text]
    if wrong:
        raise Failed("\n".join(wrong))
    ignored = checkpatch_ignored()
    say(f"checkpatch: {len(topics())} patches, nothing to report"
        + (f" (ignored: {', '.join(ignored)})" if ignored else ""))
