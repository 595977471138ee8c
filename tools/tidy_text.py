# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The rules of text: licence, width, and names that must lead somewhere."""

import fnmatch
import posixpath
import re
from pathlib import PurePath

from tidy_source import C_SUFFIXES, c_files, comments_of, line_of, rule

MAX_COLUMNS = 100
TAB = 8
ADDRESS = re.compile(r"\S+://\S+")

# Measured data and pictures, which hold no lines of ours; mails, whose parts have files.
DATA_SUFFIXES = (".json", ".csv", ".svg", ".png", ".patch", ".generated")
NOT_OURS = ("LICENSES/", "kernel/patches/")
# A line that a program wrote stands between markers in a page: <!-- demo --> ... <!-- /demo -->.
WRITTEN = re.compile(r"<!-- (\w+) -->.*?<!-- /\1 -->", re.DOTALL)

# Records of a fixed form, one a line.
RECORDS = ("kernel/config/", "kernel/series", "kernel/tests/list", "kernel/tests/selftests.list",
           "sim/parameters/")

# What Linux or a build has under the name of a folder of ours, and names that stand for any.
ELSEWHERE = re.compile(r"include/(linux|trace|asm|uapi|generated)\b|tools/(testing|include)\b|"
                       r"kernel/randomize_va_space|lib/(pkgconfig|percpu-refcount\.c)|"
                       r".*(\bNAME\b|\b(\w+_)?mine\.c|_x\.[ch]$)")
FILE_NAME = re.compile(r"(?<![\w/.<>-])([A-Za-z]\w*\.(?:c|h|py|md|sh))\b(?!\w)")
LINK = re.compile(r"\]\(((?!\w+:)[^)#\s]+)")
# Files that a reader or a program makes.
MADE = re.compile(r"(\w+_)?mine\.c|costs\.md|(program|sum)\.c")
# What may name a rule besides comments of C.
PROSE_SUFFIXES = (".md", ".rst", ".py", ".sh", ".build")
RULE_ID = re.compile(r"(?:(?<![\w$-])|(?<=[A-Z]\d-))([A-Z]\d{1,2})(?!\w|-[A-Z]{2}|\.\d|\\)")
RULE_DEFINED = re.compile(r"^ \* ([A-Z]\d{1,2}) ", re.MULTILINE)
NOT_RULE_IDS = {"C11", "C17"}

# Terms of the code that a newcomer does not guess.
TERMS = ("seat", "claim", "orphan", "segment", "hold", "view", "gate", "token", "reap", "proof")


@rule(bad=[{"a.c": "int a;\n"}, {"b.md": "\n\n\n<!-- SPDX-License-Identifier: MIT -->"}],
      good={"a.sh": "#!/bin/sh\n# SPDX-License-Identifier: MIT\n", "a.json": "{}\n"})
def spdx(tree):
    """Every file names its licence in its first three lines."""
    for path, text in tree.items():
        if path.startswith((*NOT_OURS, *RECORDS)) or path.endswith(DATA_SUFFIXES):
            continue
        if "SPDX-License-Identifier: " not in "\n".join(text.split("\n")[:3]):
            yield path, 1, "no SPDX-License-Identifier in the first three lines"


SETTINGS, SETTINGS_PAGE = "lib/settings_list.h", "doc/settings.md"
SETTING = re.compile(r'^SETTING\(\w+,\s*"([^"]+)",.*?\b(?:NOT_)?LEFT,\s*((?:"[^"]*"\s*)+),',
                     re.MULTILINE | re.DOTALL)
SETTINGS_ROW = re.compile(r"^\| (`[^|]+) \| [^|]+ \| ([^|]+) \|$", re.MULTILINE)
A_SETTING = 'SETTING(A, "a", KIND_YES(a), SERVICE, LIVE, LEFT, "no",\n        0, NULL, "")\n'


@rule(bad=[{SETTINGS: A_SETTING, SETTINGS_PAGE: "| `b` | text | `no` |\n"},
           {SETTINGS: A_SETTING, SETTINGS_PAGE: "| `a` | text | `yes` |\n"},
           {SETTINGS: A_SETTING, SETTINGS_PAGE: ""}],
      good={SETTINGS: A_SETTING, SETTINGS_PAGE: "| `a` | text | `no`; see below |\n"})
def settings(tree):
    """doc/settings.md has each row of lib/settings_list.h, in its order and with its default."""
    page = tree.get(SETTINGS_PAGE, "")
    told = [(name, default.replace("`", ""), line_of(page, row.start()))
            for row in SETTINGS_ROW.finditer(page)
            for name, default in [(key, row[2]) for key in re.findall(r"`([^`]+)`", row[1])]]
    known = [(row[1], "".join(re.findall(r'"([^"]*)"', row[2])))
             for row in SETTING.finditer(tree.get(SETTINGS, ""))]
    if [name for name, _, _ in told] != [name for name, _ in known]:
        yield SETTINGS_PAGE, 1, (f"the table has {', '.join(name for name, _, _ in told)}; "
                                 f"{SETTINGS} has {', '.join(name for name, _ in known)}")
        return
    for (name, says, line), (_, default) in zip(told, known):
        if not says.startswith(default):
            yield SETTINGS_PAGE, line, f"the default of {name} is '{default}' in {SETTINGS}"


VERSIONS = {
    "meson.build": re.compile(r"^  version: '([^']*)'", re.MULTILINE),
    "CITATION.cff": re.compile(r"^version: (.*)$", re.MULTILINE),
    "include/lodic/lodic.h": re.compile(r"^#define LODIC_VERSION_(?:MAJOR|MINOR|PATCH) (.*)$",
                                        re.MULTILINE),
}


@rule(bad=[{"meson.build": "  version: '1.2.3',\n", "CITATION.cff": "version: 1.2\n"},
           {"meson.build": "  version: '0.1.0',\n", "include/lodic/lodic.h":
            "#define LODIC_VERSION_MAJOR 0\n#define LODIC_VERSION_MINOR 1\n"}],
      good={"meson.build": "  version: '1.2.3',\n", "CITATION.cff": "version: 1.2.3\n",
            "include/lodic/lodic.h": "#define LODIC_VERSION_MAJOR 1\n"
                                     "#define LODIC_VERSION_MINOR 2\n"
                                     "#define LODIC_VERSION_PATCH 3\n"})
def one_version(tree):
    """lodic.h and CITATION.cff have the version of meson.build."""
    found = {path: ".".join(pattern.findall(tree[path]))
             for path, pattern in VERSIONS.items() if path in tree}
    for path, version in found.items():
        if version != found.get("meson.build", version):
            yield path, 1, f"version {version}, but meson.build has {found['meson.build']}"


@rule(bad=[{"doc/a.md": "[x](../core/gone.h)\n"}, {"a.md": "[x](doc/)\n"}],
      good={"doc/a.md": "[x](../core/a.h), [x](#x), [x](b/c.md#x), [x](b/), [x](https://x)\n",
            "core/a.h": "", "doc/b/c.md": ""})
def dead_links(tree):
    """A link of a page to a file or a folder leads to one."""
    places = set(tree) | {str(folder) for path in tree for folder in PurePath(path).parents}
    for path, text in tree.items():
        for found in LINK.finditer(text) if path.endswith(".md") else ():
            if posixpath.normpath(posixpath.join(posixpath.dirname(path), found[1])) not in places:
                yield path, line_of(text, found.start()), f"there is no {found[1]}"


@rule(bad=[{"a.c": "/* " + "x" * 98 + "\n"}, {"a.md": "y" * 101 + "\n"},
           {"Makefile": "\t" * 12 + "echo a\n"}, {"a.c": "|" + "x" * 100 + "\n"},
           {"a.c": "x" * 101 + " https://x\n"}],
      good={"a.c": "x" * 100 + "\n/* https://" + "x" * 100 + " */\n",
            "a.md": "| " + "x" * 100 + " |\n<!-- a -->\n" + "x" * 120 + "\n<!-- /a -->\n",
            "a.csv": "1," * 60 + "\n"})
def width(tree):
    """A line has at most 100 columns; tables, addresses and measured data may be wider."""
    for path, text in tree.items():
        if path.startswith((*NOT_OURS, *RECORDS)) or path.endswith(DATA_SUFFIXES):
            continue
        text = WRITTEN.sub(lambda m: "\n" * m[0].count("\n"), text)
        for i, line in enumerate(text.split("\n")):
            columns = len(ADDRESS.sub("", line).expandtabs(TAB))
            columns -= path.endswith(".mutants") and line.startswith((" ", "+", "-"))
            if columns > MAX_COLUMNS and not (path.endswith(".md") and line.startswith("|")):
                yield path, i + 1, f"{columns} columns, more than {MAX_COLUMNS}"


@rule(bad=[{"core/a.c": "/* \u2192 */\n"}], good={"a.md": "\u2192\n"})
def ascii_only(tree):
    """C sources are ASCII."""
    for path, text in c_files(tree):
        for i, line in enumerate(text.split("\n")):
            if not line.isascii():
                yield path, i + 1, "not ASCII"


@rule(bad=[{"a.md": "see /" + "home/me/main\n"}], good={"a.md": "homework/a, ./work/b\n"})
def own_machine(tree):
    """Nothing names a place on somebody's own machine."""
    for path, text in tree.items():
        for found in re.finditer(r"(?<![\w.}])/(home|Users)/", text):
            if not path.startswith("tools/tidy"):
                yield path, line_of(text, found.start()), f"a path of one machine: {found[0]}"


def exists(tree, name):
    """Is there such a file, such a folder, a program made of such a file, or something that
    this pattern fits?"""
    plain = name.rstrip("/")
    folder, _, base = plain.rpartition("/")
    patterns = (plain, plain + "/*", plain + ".c", f"{folder}/*/{base}.c")
    return plain in tree or any(fnmatch.fnmatch(path, pattern) for path in tree
                                for pattern in patterns)


def alternatives(name):
    """a/{b,c}.h: both."""
    found = re.search(r"\{([^{}]*)\}", name)
    if not found:
        return [name]
    return [other for choice in found[1].split(",")
            for other in alternatives(name[:found.start()] + choice + name[found.end():])]


@rule(bad=[{"core/a.h": "/* see core/b.h */\n"}, {"doc/a.md": "`core/{a,b}.h`\n", "core/a.h": ""},
           {"tools/a.py": "# doc/gone.md says why\n", "doc/a.md": ""},
           {"core/a.h": "/* core/cache/ */\n"}, {"core/a.h": "/* core/b*.c */\n"}],
      good={"core/a.h": "/* core/a.h, core/a*.h, core/ and core/<name>.c; and/or */\n",
            "doc/a.md": "`core/{a,b}.h`, ../core/x.h, /doc/x.md, core/a.h.\n", "core/b.h": ""})
def dead_paths(tree):
    """A path of this repository that a text names exists."""
    folders = {path.split("/")[0] for path in tree if "/" in path}
    names = "|".join(sorted(re.escape(folder) for folder in folders))
    mention = re.compile(rf"(?<![\w./<>@$}})-])((?:{names})/[\w./*{{}},-]*)(?![\w<@%$-])")
    for path, text in tree.items():
        if path.startswith((*NOT_OURS, "kernel/files/", "tools/tidy")) or \
                path.endswith(DATA_SUFFIXES):
            continue
        for found in mention.finditer(text):
            name = re.sub(r"[.,{}-]+$", "", found[1]) if "}" not in found[1] else \
                found[1].rstrip(".,")
            # In a program's text a name may be put together at run time.
            if ELSEWHERE.match(name) or "{" in name and "," not in name:
                continue
            # A path may also begin in the room or the folder of the file that names it.
            roots = ("", path.split("/")[0] + "/", path.rpartition("/")[0] + "/")
            for one in alternatives(name):
                if not any(exists(tree, root + one) for root in roots):
                    yield path, line_of(text, found.start()), f"there is no {one}"


@rule(bad=[{"core/a.h": "/* gone.c has the rest */\n"}, {"doc/a.md": "`test_gone.py`\n"}],
      good={"core/a.h": "/* a.h, b.md, count_mine.c */ f(\"gone.c\");\n", "doc/b.md": "",
            "kernel/a.md": "mm.h\n"})
def dead_names(tree):
    """A file that a comment or a page names without its folder exists; Linux's files may be
    named in kernel/."""
    names = {path.rsplit("/", 1)[-1] for path in tree}
    for path, text in tree.items():
        if path.startswith(("kernel/", *NOT_OURS)):
            continue
        if path.endswith(C_SUFFIXES):
            text = comments_of(text)
        elif not path.endswith(".md"):
            continue
        for found in FILE_NAME.finditer(text):
            if found[1] not in names and not MADE.match(found[1]):
                yield path, line_of(text, found.start()), f"there is no {found[1]}"


@rule(bad=[{"core/a.h": "/* ADR-" + "0009 */\n"}, {"a.md": "ADR" + " 0009\n"}],
      good={"core/a.h": "/* ADR-" + "0009 */\n", "doc/adr/0009-x.md": ""})
def decisions(tree):
    """A decision that is named, as ADR and four digits, exists in doc/adr/."""
    known = {m[1] for path in tree if (m := re.match(r"doc/adr/(\d{4})-", path))}
    for path, text in tree.items():
        for found in re.finditer(r"\bADR[- ]?(\d+)", text):
            if not path.startswith("tools/tidy") and found[1] not in known:
                yield path, line_of(text, found.start()), f"no doc/adr/{found[1]}-*.md"


@rule(bad=[{"core/a.c": "/* O3: after the fence */\n"},
           {"check/a.c": "/* O3: after the fence */\n"},
           {"core/a.h": "/*\n * O3 first this\n */\n", "lib/a.h": "/*\n * O3 then that\n */\n"},
           {"core/a.h": "/*\n * O3 first this\n * O3 and this\n */\n"},
           {"doc/races.md": "The rule O3 is broken.\n"}, {"tests/a.sh": "# O3\n"},
           {"core/a.h": "/*\n * O3 first this\n */\n", "core/a.c": "/* O3-O5 */\n"}],
      good={"core/a.h": "/*\n * O3 first this\n */\n",
            "core/b.c": "/* O3. S3-FIFO, C11 */\n", "doc/races.md": "O3\n"})
def rule_ids(tree):
    """A rule (I1, O3 ...) is defined once in the tree, by a line ' * O3 what it says'; a
    comment, page or script that names a rule names one that is defined."""
    defined = {}
    for path, text in c_files(tree):
        for found in RULE_DEFINED.finditer(text):
            at = line_of(text, found.start())
            if found[1] in defined:
                yield path, at, f"rule {found[1]} is also defined in {defined[found[1]]}"
            else:
                defined[found[1]] = f"{path}:{at}"
    for path, text in tree.items():
        if path.endswith(C_SUFFIXES):
            text = comments_of(text)
        elif path.startswith((*NOT_OURS, "tools/tidy")) or not path.endswith(PROSE_SUFFIXES):
            continue
        for found in RULE_ID.finditer(text):
            if found[1] not in defined and found[1] not in NOT_RULE_IDS:
                yield path, line_of(text, found.start()), f"rule {found[1]} is defined nowhere"


def terms_of(page):
    """(line, word) of each word in the first column of the table of words."""
    for i, line in enumerate(page.split("\n")):
        cell = re.match(r"\| ([^|]+) \|", line)
        if cell and cell[1] != "word":
            for word in cell[1].replace("*", "").replace("`", "").split(", "):
                yield i + 1, word.strip()


@rule(bad=[{"doc/words.md": "| word | x |\n| flub | a thing |\n", "core/a.c": "/* flubber */\n"},
           {"doc/words.md": "| word | x |\n", "core/a.c": "/* a seat */\n"},
           {"doc/words.md": "| gap | a |\n| seat, gap | b |\n", "core/a.c": "/* gap seat */\n"}],
      good={"doc/words.md": "| word | x |\n| gap, seat | a thing |\n",
            "core/a.c": "/* Its seats have a gap. */\n"})
def words(tree):
    """Each word of doc/words.md is in use and stands there once; each term in use (TERMS) is
    there."""
    page = tree.get("doc/words.md")
    if page is None:
        return
    texts = "\n".join(text for path, text in tree.items()
                      if path.endswith((*C_SUFFIXES, ".py", ".rst", ".mutants")) and
                      not path.startswith("tools/")).lower()

    def is_used(word):
        return re.search(rf"(?<![a-z]){re.escape(word.lower())}(?:s|es|d|ed)?(?![a-z])", texts)

    listed = set()
    for at, word in terms_of(page):
        if word in listed:
            yield "doc/words.md", at, f"the word {word} stands here twice"
        listed.add(word)
        if not is_used(word):
            yield "doc/words.md", at, f"nothing uses the word {word}"
    for word in TERMS:
        if word not in listed and is_used(word):
            yield "doc/words.md", 1, f"the code uses the word {word}"
