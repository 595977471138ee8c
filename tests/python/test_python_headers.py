#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""lodic's own reader of safetensors headers, and the format's package: equal over hostile headers.

    LODIC_BUILD=FOLDER test_python_headers.py [--seed N] [--headers N]

A header is made of random parts, right ones and wrong ones. Both readers accept it, and say the
same, or both refuse it.
"""

import argparse
import os
import pathlib
import random
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from py_case import lay_out  # pylint: disable=C0413

lay_out()

try:
    import numpy  # noqa: F401  pylint: disable=W0611
    import safetensors
except ImportError as _error:
    print(f"python headers: {_error}: tools/wheels.sh has not installed it")
    sys.exit(77)

from lodic import _header  # pylint: disable=C0413

BITS = {**_header.BITS}
STRINGS = ("a", "layer.0.weight", "", "\\u0061", "\\ud83d\\ude00", "\\ud83d", "\\ude00\\ud83d",
           "\\udc00", "\\uD83D\\u0041", "\u00e9", "\U0001f600", "\\u0000", "\\n", "\\x41", "\\",
           "\\u12", "\\u12g4", "\t", "\x01", "\x7f", "__metadata__", "dtype",
           "\\u005f_metadata__", "\\/", "\u2028", "'", "\\u00 1", "\\u+123")
NUMBERS = ("0", "-0", "1", "-1", "2", "1.0", "1e2", "1E+0", "1e400", "-1e400", "0e999", "1e-999",
           "18446744073709551615", "18446744073709551616", "-9223372036854775808",
           "-9223372036854775809", "9" * 30, "9" * 400, "1" + "0" * 5000, "01", "-01", "+1", "1.",
           ".5", "1e", "1e+", "NaN", "Infinity", "-Infinity", "nan", "- 1", "0x10", "1_0",
           "\u0661", "-", "true", "null", '"1"', "0" * 3, "4294967296", "1e00001", "0.0e-0")
SPACE = ("", " ", "\n", "\t", "\r", "  \r\n\t", "\f", "\v", "\u00a0", "\ufeff", "\x00", "//\n",
         "/**/")
VALUES = ("null", "true", "false", "tru", "[]", "{}", "[[]]", '{"a":{}}', '"x"', "[1,]", "{,}",
          '{"a"}', '{"a":1,}', "{1:2}", "[1 2]", "undefined", "")
# Corners that random headers meet rarely: right in one way, and wrong just beside it.
ENTRY = '{"a":{"dtype":%s,"shape":%s,"data_offsets":[0,4]%s}}'
CORNERS = [ENTRY % ('"BF16"', "[2]", f',"x":{begin * depth}1{end * depth}')
           for begin, end in (("[", "]"), ('{"y":', "}")) for depth in range(122, 130)]
CORNERS += [ENTRY % ('"BF16"', shape, "") for shape in
            ("[2]", "[true,2]", "[]", "[[2]]", "[1,2,1]", "[4294967296,4294967296,0]", "1", "{}",
             "[0,2]", "[-0]", "[2e0]", "null")]
CORNERS += [ENTRY % (kind, "[4]", "") for kind in
            ('"BOOL"', '{"BOOL":null}', '{"BOOL":{}}', '{"BOOL":null,"BF16":null}',
             '{"BOLL":null}', '"\\u0042OOL"', '["BOOL"]', "{}", "0", "null", '"F6_E2M3"')]
CORNERS += ['{"a":["BOOL",[4],[0,4]]}', '{"a":["BOOL",[4],[0,4],null]}', '{"a":["BOOL",[4]]}',
            '{"a":["BOOL",[4],[0,4]],"a":["BF16",[2],[0,4]]}', '{"a":1,"a":["BF16",[2],[0,4]]}',
            '{"a":["F6_E2M3",[1],[0,0]],"b":["BOOL",[4],[0,4]]}',
            '{"a":["BOOL",[0],[4,4]],"b":["BOOL",[4],[0,4]]}',
            '{"a":["BOOL",[4],[0,4]],"__metadata__":null,"__metadata__":null}']
EMPTY = ["{}", "[]", '{"__metadata__":{}}', '{"a":["BOOL",[0],[0,0]],"b":["F6_E2M3",[0,9],[0,0]]}']
MOST_BYTES = 100_000_000 # of a header, so the format says


class Maker:
    """Makes headers of a seeded generator. `wrong` of 100 parts are not what the format says."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.wrong = 0

    def odd(self):
        return self.random.random() * 100 < self.wrong

    def one(self, *choices):
        return self.random.choice(choices)

    def space(self):
        return self.one(*SPACE) if self.odd() else self.one("", "", "", " ", "\n")

    def string(self, right=None):
        text = self.one(*STRINGS) if self.odd() or right is None else right
        return f'"{text}"'

    def number(self, right):
        return self.one(*NUMBERS) if self.odd() else str(right)

    def nested(self):
        depth = self.one(1, 2, 100, *range(118, 132), 200, 999, 1001, 30000)
        begin, end = self.one(("[", "]"), ('{"a":', "}"), ('[{"a":', "}]"))
        inner = self.value() if self.random.random() < 0.2 else self.one("1", "[]", "{}", '"a"')
        return begin * depth + inner + end * (depth if self.random.random() < 0.95 else depth - 1)

    def value(self):
        """Anything, that no entry should be."""
        return self.one(lambda: self.one(*NUMBERS), lambda: self.one(*VALUES), self.nested,
                        self.string, self.string)()

    def numbers(self, right):
        if self.odd():
            return self.value()
        parts = [self.number(n) for n in right]
        if self.odd():
            parts.insert(self.random.randrange(len(parts) + 1), self.one(*NUMBERS))
        if self.odd() and parts:
            parts.pop()
        return "[" + self.space() + ",".join(parts) + self.space() + "]"

    def kind(self, right):
        if not self.odd():
            return f'"{right}"'
        return self.one(f'{{"{right}":null}}', f'{{"{right}":null,"{right}":null}}',
                        f'{{"{right}":{{}}}}', f'{{"{right}":[]}}', f'{{"{right}":1}}', "{}", "7",
                        f'"{right.lower()}"', '"F128"', f'["{right}"]', "null", '"BF\\u00316"',
                        f'{{"{right}":null,"x":1}}')

    def shape(self):
        """Few bytes, and rarely so many that the count overflows."""
        if self.odd():
            return self.one((0, 1 << 40, 1 << 40), (1 << 40, 1 << 40, 0), (1 << 63, 2),
                            (1 << 61, 1), (1 << 64,), (1 << 32, 1 << 32), (1 << 60, 0), (3,),
                            (1, 5))
        return tuple(self.random.randrange(0, 5) for _ in range(self.random.randrange(0, 4)))

    def entry(self, at):
        """(text, end) of a tensor whose bytes begin at `at`."""
        kind = self.random.choice(list(BITS))
        shape, elements = self.shape(), 1
        for n in shape:
            elements *= n
        if elements * BITS[kind] % 8: # whole bytes, most of the time
            shape, elements = (*shape, 8), elements * 8
        end = at + elements * BITS[kind] // 8
        if end > 1 << 20:
            end = self.one(at, (1 << 64) - 1, 1 << 64)
        places = (at, end)
        if self.odd():
            places = self.one((end, at), (at + 1, end + 1), (at, end + 1), (at - 1, end), (0, end),
                              (at, at), (at,), (at, end, end), ((1 << 64) - 8, 8))
        fields = [("dtype", self.kind(kind)), ("shape", self.numbers(shape)),
                  ("data_offsets", self.numbers(places))]
        if self.odd():
            return self.array([text for _, text in fields]), end
        return self.object(fields), end

    def array(self, parts):
        if self.odd():
            parts = self.one(parts[:2], [*parts, "1"], parts[::-1])
        return "[" + ",".join(parts) + "]"

    def object(self, fields):
        fields = list(fields)
        self.random.shuffle(fields)
        if self.odd():
            fields.append((self.one("x", "shap", "Dtype"), self.value()))
        if self.odd():
            fields.append(self.random.choice(fields))
        if self.odd():
            fields.pop(self.random.randrange(len(fields)))
        return "{" + self.space() + ",".join(
            f'"{name}"{self.space()}:{self.space()}{text}' for name, text in fields) + "}"

    def metadata(self):
        if self.odd():
            return self.one("null", self.value(), '{"a":1}', '{"a":null}', '{"a":{"b":"c"}}',
                            '[["a","b"]]', "{}")
        pairs = [f"{self.string(f'k{i}')}:{self.string('v')}" for i in
                 range(self.random.randrange(3))]
        if self.odd():
            pairs *= 2
        return "{" + ",".join(pairs) + "}"

    def header(self):
        """(text, bytes of tensors)"""
        self.wrong = self.one(0, 2, 2, 4, 4, 15)
        parts, at = [], 0
        for i in range(self.random.randrange(0, 5)):
            text, at = self.entry(at)
            parts.append(f"{self.string(f't{i}')}:{text}")
            if self.odd():
                parts.append(self.random.choice(parts))
            if self.odd():
                parts.insert(0, f'"t{i}":{self.value()}')
        for _ in range(self.one(0, 1, 1, 2 if self.odd() else 1)):
            parts.append('"__metadata__":' + self.metadata())
        if self.odd():
            parts.append(f"{self.string()}:{self.value()}")
        self.random.shuffle(parts)
        text = self.space() + "{" + self.space() + ",".join(parts) + self.space() + "}"
        text += self.space()
        if self.odd():
            text = self.one("[" + text + "]", text + text, text + "x", text[:-1], "", "null", "1",
                            "[" * 100000, '{"a":' * 100000)
        return self.encoded(text), at

    def encoded(self, text):
        code = self.one("utf-16", "utf-16-le", "utf-32", "utf-8-sig") if self.odd() else "utf-8"
        data = text.encode(code, "surrogatepass")
        if self.odd() and data:
            at = self.random.randrange(len(data))
            data = data[:at] + self.one(b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80",
                                        b'"', b"\\", b"{", b"", b"\x00") + data[at + 1:]
        return data

    def file(self):
        """The bytes of a file."""
        text, size = self.header()
        n = len(text)
        if self.odd():
            n = self.one(n + 1, max(n - 1, 0), 0, 100_000_001, (1 << 64) - 1, 1 << 63, n + size)
        size = max(min(size, 1 << 20), 0) + (self.one(-1, 1, 8) if self.odd() else 0)
        data = (n % (1 << 64)).to_bytes(8, "little") + text + bytes(max(size, 0))
        return data[:self.random.randrange(12)] if self.odd() and self.odd() else data


def official_says(path):
    """(tensors, metadata), or None for a refusal."""
    try:
        with safetensors.safe_open(path, "np") as opened:
            return ({name: (part.get_dtype(), tuple(part.get_shape())) for name, part in
                     ((name, opened.get_slice(name)) for name in opened.keys())},
                    opened.metadata())
    except safetensors.SafetensorError:
        return None


def lodic_says(read, data):
    """The same of lodic. Its places must be those that the types and shapes lead to."""
    try:
        n = _header.length(data[:8], len(data))
        header = read(data[:8 + n], len(data))
    except _header.FormatError:
        return None
    at = 0
    for tensor in header.tensors.values():
        assert tensor.first == at, header
        at = tensor.end
    assert header.begin + at == len(data), header
    return ({name: (tensor.kind, tensor.shape) for name, tensor in header.tensors.items()},
            header.metadata)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(4), "little"))
    parser.add_argument("--headers", type=int, default=6000)
    options = parser.parse_args()
    print(f"seed {options.seed}")
    maker, accepted, wrong = Maker(options.seed), 0, 0
    corners = [len(text).to_bytes(8, "little") + text.encode() + bytes(n)
               for texts, n in ((CORNERS, 4), (EMPTY, 0)) for text in texts]
    corners += [n.to_bytes(8, "little") + b"{}".ljust(n) for n in (MOST_BYTES, MOST_BYTES + 1)]
    # In memory: a disk takes longer than all else.
    with open(os.memfd_create("header"), "wb", 0) as file:
        path = f"/proc/self/fd/{file.fileno()}"
        for i in range(options.headers):
            data = corners[i] if i < len(corners) else maker.file()
            file.truncate(0)
            os.pwrite(file.fileno(), data, 0)
            right = official_says(path)
            accepted += right is not None
            for name, read in (("own", _header.own),
                               ("judged", lambda *file: _header.read(*file, "numpy"))):
                said = lodic_says(read, data)
                if said != right:
                    wrong += 1
                    print(f"header {i}, {name}: {data[:300]!r} of {len(data)} bytes\n"
                          f"    lodic: {said}\n    safetensors {safetensors.__version__}: {right}")
            if wrong >= 10:
                break
    refused = options.headers - accepted
    print(f"{accepted} headers accepted, {refused} refused, {wrong} times not as safetensors")
    if wrong or min(accepted, refused) < options.headers // 5:
        sys.exit(1)


if __name__ == "__main__":
    main()
