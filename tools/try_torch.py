#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Four workers load a file with numpy, safetensors, pandas, pyarrow, torch and others: who shares?

    tools/try_torch.py --build build [--only ROW]... [--mib 128] [--json]

It makes a virtual environment below the build folder, with pip and the wheel of this tree. It makes
random files: models, and tables for pandas and pyarrow. It installs and makes only what the chosen
rows need. torch has some GiB, and llama.cpp is compiled, so the first time takes long.

Each row runs four processes that start together. "copies" says by how much their memory (Pss) grew
when they loaded, counted in files. A table that is decoded is private to each worker. There
"served" says more: how much of what they read came from lodic's blocks and not from the kernel. The
program fails if a row's workers do not compute what those of the plain row do.
"""

import argparse
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import typing

ROOT = pathlib.Path(__file__).resolve().parent.parent
PYTHON = "/usr/bin/python3"
# Less of llama.cpp to compile: no pictures, no threads' library, no processor's own instructions.
LLAMA = ("-DLLAVA_BUILD=OFF -DMTMD_BUILD=OFF -DLLAMA_BUILD_COMMON=OFF -DGGML_NATIVE=OFF "
         "-DGGML_OPENMP=OFF")
WORKERS = 4
MIB = 1 << 20

MODEL = """
import pathlib, sys
import numpy
path, mib = pathlib.Path(sys.argv[1]), int(sys.argv[2])
layers = max((mib - 16) // 16, 1)
places = numpy.random.default_rng(1)
arrays = {f"layer.{i}": places.standard_normal((mib << 15, 1), numpy.float32).reshape(-1, 1024)
          for i in range(8)}
"""
TABLE = """
table = pyarrow.table({name: places.standard_normal(mib << 15) for name in "abcd"})
"""
# file: (packages, how it is made)
FILES = {
    "plain.safetensors": (("safetensors",), """
import safetensors.numpy
safetensors.numpy.save_file(arrays, path)"""),
    "array.npy": ((), """
numpy.save(path, numpy.concatenate(list(arrays.values())))"""),
    "table.parquet": (("pyarrow",), f"""
import pyarrow, pyarrow.parquet{TABLE}
pyarrow.parquet.write_table(table, path, use_dictionary=False)"""),
    "table.feather": (("pyarrow",), f"""
import pyarrow, pyarrow.feather{TABLE}
pyarrow.feather.write_feather(table, str(path), compression="uncompressed")"""),
    "model.pt": (("torch",), """
import torch
torch.save({name: torch.from_numpy(array) for name, array in arrays.items()}, path)"""),
    "llama": (("torch", "transformers"), """
import torch
from transformers import LlamaConfig, LlamaForCausalLM
torch.manual_seed(1)
LlamaForCausalLM(LlamaConfig(
    vocab_size=4096, hidden_size=512, intermediate_size=2048, num_attention_heads=8,
    num_hidden_layers=layers)).save_pretrained(path)"""),
    "model.gguf": (("gguf",), """
import gguf
n, ff, tokens = 512, 2048, 4096
writer = gguf.GGUFWriter(path, "llama")
writer.add_context_length(64)
writer.add_embedding_length(n)
writer.add_block_count(layers)
writer.add_feed_forward_length(ff)
writer.add_head_count(8)
writer.add_head_count_kv(8)
writer.add_rope_dimension_count(n // 8)
writer.add_layer_norm_rms_eps(1e-5)
writer.add_vocab_size(tokens)
writer.add_file_type(gguf.LlamaFileType.ALL_F32)
writer.add_tokenizer_model("llama")
special = ["<unk>", "<s>", "</s>"]
writer.add_token_list(special + [f"<0x{i:02X}>" for i in range(256)] +
                      [f"t{i}" for i in range(tokens - 259)])
writer.add_token_scores([0.0] * tokens)
writer.add_token_types([2, 3, 3] + [6] * 256 + [1] * (tokens - 259))
def tensor(name, *shape):
    writer.add_tensor(name, (places.standard_normal(shape, numpy.float32) * 0.02)
                      if len(shape) > 1 else numpy.ones(shape, numpy.float32))
tensor("token_embd.weight", tokens, n)
tensor("output.weight", tokens, n)
tensor("output_norm.weight", n)
for i in range(layers):
    for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
        tensor(f"blk.{i}.{name}.weight", n, n)
    tensor(f"blk.{i}.ffn_gate.weight", ff, n)
    tensor(f"blk.{i}.ffn_up.weight", ff, n)
    tensor(f"blk.{i}.ffn_down.weight", n, ff)
    tensor(f"blk.{i}.attn_norm.weight", n)
    tensor(f"blk.{i}.ffn_norm.weight", n)
writer.write_header_to_file()
writer.write_kv_data_to_file()
writer.write_tensors_to_file()
writer.close()"""),
}
# A worker: imports, says so, waits for a line, loads, says what it has, and waits for the end.
WORKER = """
import sys
path = sys.argv[1]
{imports}
print("ready", flush=True)
sys.stdin.readline()
{load}
print(repr(said), flush=True)
sys.stdin.read()
"""
# name: (file, packages, imports, load)
PROGRAMS = {
    "safetensors.numpy": ("plain.safetensors", (), "import safetensors.numpy", """
loaded = safetensors.numpy.load_file(path)
said = float(sum(a.sum(dtype="f8") for a in loaded.values()))"""),
    "numpy.load": ("array.npy", (), "import numpy", """
loaded = numpy.load(path)
said = float(loaded.sum(dtype="f8"))"""),
    "pandas.read_parquet": ("table.parquet", ("pandas",), "import pandas, pyarrow.parquet", """
loaded = pandas.read_parquet(path)
said = float(loaded.sum().sum())"""),
    "pyarrow.parquet": ("table.parquet", (), "import pyarrow.parquet, pyarrow.compute", """
loaded = pyarrow.parquet.read_table(path)
said = sum(pyarrow.compute.sum(c).as_py() for c in loaded.columns)"""),
    "pyarrow.feather": ("table.feather", (), "import pyarrow.feather, pyarrow.compute", """
loaded = pyarrow.feather.read_table(path, memory_map=True)
said = sum(pyarrow.compute.sum(c).as_py() for c in loaded.columns)"""),
    "safetensors.torch": ("plain.safetensors", ("torch",), "import torch, safetensors.torch", """
loaded = safetensors.torch.load_file(path)
said = float(sum(a.double().sum() for a in loaded.values()))"""),
    "torch.load(mmap=True)": ("model.pt", (), "import torch", """
loaded = torch.load(path, mmap=True, weights_only=True)
said = float(sum(a.double().sum() for a in loaded.values()))"""),
    # transformers imports much when it first makes a model.
    "transformers": ("llama", (), """
import torch, transformers
transformers.logging.disable_progress_bar()
transformers.AutoModelForCausalLM.from_config(transformers.LlamaConfig(
    vocab_size=64, hidden_size=64, intermediate_size=64, num_hidden_layers=1)).eval()(
    torch.arange(3, 11)[None])""", """
loaded = transformers.AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32)
with torch.no_grad():
    said = round(float(loaded(torch.arange(3, 11)[None]).logits.abs().sum()), 1)"""),
    "llama.cpp": ("model.gguf", ("llama-cpp-python",), "import llama_cpp", """
loaded = llama_cpp.Llama(path, n_ctx=64, n_threads=1, verbose=False, logits_all=True)
loaded.eval(list(range(300, 308)))
said = round(float(abs(loaded.scores[:8]).sum()), 1)"""),
}


class Row(typing.NamedTuple):
    program: str
    way: str = "plain"
    auto: str = "0" # LODIC_AUTO
    run: bool = False # by `lodic run --mmap`?
    scheme: str = "" # stands before the path


def _rows():
    for name in PROGRAMS:
        yield Row(name)
        if name in ("safetensors.numpy", "numpy.load", "safetensors.torch", "transformers"):
            yield Row(name, "LODIC_AUTO=1", auto="1")
        if name not in ("safetensors.numpy", "numpy.load"):
            yield Row(name, "lodic run --mmap", run=True)
        if name in SCHEMES:
            yield Row(name, SCHEMES[name], scheme=SCHEMES[name]) # nothing is cached yet
            yield Row(name, "the same again", scheme=SCHEMES[name])


SCHEMES = {"pandas.read_parquet": "lodic://", "pyarrow.parquet": "fsspec+lodic://"}
ROWS = list(_rows())


def tell(text):
    print(f"try: {text}", file=sys.stderr, flush=True)


def command(words, **more):
    """Runs a command that must succeed. Its output goes to stderr."""
    done = subprocess.run([str(word) for word in words], stdout=sys.stderr, check=False, **more)
    if done.returncode:
        sys.exit(f"try: this failed, with status {done.returncode}: "
                 f"{' '.join(map(str, words))[:200]}")


class Place:
    """The virtual environment, the models and a service."""

    def __init__(self, options):
        self.folder = options.build.resolve() / "try"
        self.venv = self.folder / "venv"
        self.python = self.venv / "bin" / "python"
        self.models = self.folder / f"models-{options.mib}"
        self.mib = options.mib
        self.lodic = options.build.resolve() / "lodic"
        self.build = options.build
        # torch and llama.cpp map a file once, so the mmap() itself waits for the hold.
        told = subprocess.run([self.lodic, "run", "--help"], stdout=subprocess.PIPE, check=True)
        self.wait = ["--mmap-wait"] * (b"--mmap-wait" in told.stdout)

    def make(self, programs):
        """What these programs need and is missing."""
        if not self.python.exists():
            command([PYTHON, "-m", "venv", self.venv])
        files = {PROGRAMS[name][0] for name in programs}
        self.install({"numpy"}.union(*(FILES[file][0] for file in files),
                                     *(PROGRAMS[name][1] for name in programs)))
        wheel = subprocess.run([PYTHON, ROOT / "tools" / "wheel.py", "--build", self.build],
                               stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
        command([self.python, "-m", "pip", "install", "--quiet", "--no-deps", "--force-reinstall",
                 wheel])
        self.models.mkdir(parents=True, exist_ok=True)
        for file in sorted(files):
            if not (self.models / file).exists():
                self.make_file(file)

    def install(self, packages):
        listed = subprocess.run([self.python, "-m", "pip", "list", "--format=json"], check=True,
                                stdout=subprocess.PIPE).stdout
        there = {one["name"].replace("_", "-") for one in json.loads(listed)}
        missing = sorted(packages - there)
        if missing:
            tell(f"installing {', '.join(missing)} in {self.venv}")
            if "llama-cpp-python" in missing:
                tell("compiling llama.cpp: minutes on many processors, an hour on two")
            command([self.python, "-m", "pip", "install", *missing],
                    env={**os.environ, "CMAKE_ARGS": LLAMA})

    def make_file(self, file):
        tell(f"making {file}, about {self.mib} MiB, in {self.models}")
        part = self.models / f"part-{file}"
        shutil.rmtree(part, True) # a folder that an interrupted run left
        command([self.python, "-c", MODEL + FILES[file][1], part, self.mib])
        part.rename(self.models / file)

    def size(self, name):
        """How many bytes a program loads."""
        path = self.models / PROGRAMS[name][0]
        return sum(f.stat().st_size for f in path.glob("*.safetensors")) or path.stat().st_size


def memory_of(pid):
    """(Pss, Pss in holds) of a process, in bytes."""
    total = held = here = 0
    with open(f"/proc/{pid}/smaps", encoding="ascii", errors="replace") as file:
        for line in file:
            if line[0] in "0123456789abcdef":
                here = "memfd:lodic" in line and "hold" in line
            elif line.startswith("Pss:"):
                total += int(line.split()[1]) << 10
                held += (int(line.split()[1]) << 10) * here
    return total, held


def reported(report, file):
    """What was read from this file by pread(), and what of that lodic served."""
    lines = [json.loads(line) for line in report.read_text("utf-8").splitlines()] \
        if report.exists() else []
    lines = [line for line in lines if line["path"].endswith("/" + file)]
    return sum(line["bytes"] for line in lines), sum(line["served_bytes"] for line in lines)


def counted(place, socket):
    """What programs that use the library have read, and what of that was cached. In blocks."""
    stat = json.loads(subprocess.run([place.lodic, "stat", "--socket", socket, "--json"],
                                     stdout=subprocess.PIPE, check=True).stdout)
    return stat["hits"] + stat["misses"], stat["hits"]


def measure(place, socket, row):
    """What a row's workers say, and their memory."""
    file, _, imports, load = PROGRAMS[row.program]
    words = [place.python, "-c", WORKER.format(imports=imports, load=load),
             f"{row.scheme}{place.models / file}"]
    report = pathlib.Path(socket).parent / "report"
    report.unlink(missing_ok=True)
    if row.run:
        words = [place.lodic, "run", "--socket", socket, f"--mmap={place.models.resolve()}/*",
                 *place.wait, f"--report={report}", "--json", "--", *words]
    environment = {**os.environ, "LODIC_SOCKET": socket, "LODIC_AUTO": row.auto}
    start = counted(place, socket)
    workers = []
    try:
        for _ in range(WORKERS):
            workers.append(subprocess.Popen([str(word) for word in words], stdin=subprocess.PIPE,
                                            stdout=subprocess.PIPE, text=True, env=environment))
        for worker in workers:
            if worker.stdout.readline() != "ready\n":
                sys.exit(f"try: {row.program}, {row.way}: a worker ended")
        before = [memory_of(worker.pid) for worker in workers]
        for worker in workers:
            worker.stdin.write("\n")
            worker.stdin.flush()
        said = {worker.stdout.readline().strip() for worker in workers}
        after = [memory_of(worker.pid) for worker in workers]
        for worker in workers:
            worker.communicate() # its input ends, and so it does
    finally:
        for worker in workers:
            if worker.poll() is None:
                worker.kill()
                worker.communicate()
    end_at = counted(place, socket)
    read, served = reported(report, file) if row.run else \
        (end_at[i] - start[i] for i in range(2))
    return {"program": row.program, "way": row.way, "said": sorted(said),
            "model_bytes": place.size(row.program),
            "grown_bytes": sum(a[0] for a in after) - sum(b[0] for b in before),
            "held_bytes": sum(a[1] for a in after), "served": served / read if read else None}


def serve(place):
    """A service whose holds have room for the models."""
    folder = tempfile.mkdtemp(prefix="lodic-try-")
    socket = folder + "/s"
    size = f"{place.mib * 8}M"
    command([place.lodic, "serve", "--daemon", "--idle-exit", "600", "--socket", socket,
             "--memory", f"{place.mib * 12}M", "--holds", size])
    return folder, socket


def end(place, folder, socket):
    done = subprocess.run([place.lodic, "stat", "--socket", socket, "--json"],
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
    if done.returncode == 0:
        os.kill(json.loads(done.stdout)["service_pid"], signal.SIGTERM)
    shutil.rmtree(folder, True)


def rows(options):
    """What is made, and then what each row measures."""
    place, results = Place(options), []
    chosen = [row for row in ROWS if not options.only or row.program in options.only]
    place.make({row.program for row in chosen})
    folder, socket = serve(place)
    try:
        for row in chosen:
            tell(f"{row.program}, {row.way}")
            results.append(measure(place, socket, row))
    finally:
        end(place, folder, socket)
    return results


def show(results):
    print(f"{WORKERS} workers. copies: by how much their Pss grew together, in files. A model that "
          "is shared is 1.")
    print("served: what came from lodic's blocks, of all that they read by calls.")
    print(f"{'program':24}{'way':20}{'file MiB':>10}{'copies':>8}{'in holds MiB':>14}{'served':>8}")
    for result in results:
        served = "-" if result["served"] is None else f"{100 * result['served']:.1f} %"
        print(f"{result['program']:24}{result['way']:20}{result['model_bytes'] / MIB:10.0f}"
              f"{result['grown_bytes'] / result['model_bytes']:8.2f}"
              f"{result['held_bytes'] / MIB:14.0f}{served:>8}")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build"),
                        help="the build folder")
    parser.add_argument("--mib", type=int, default=128, help="a model's size (at least 32)")
    parser.add_argument("--only", action="append", choices=list(PROGRAMS), help="these rows")
    parser.add_argument("--json", action="store_true", help="an array of objects")
    options = parser.parse_args()
    if options.mib < 32:
        parser.error("--mib: a model has at least 32 MiB")
    try:
        results = rows(options)
    except KeyboardInterrupt:
        sys.exit("try: interrupted")
    if options.json:
        print(json.dumps(results))
    else:
        show(results)
    plain = {r["program"]: r["said"] for r in results if r["way"] == "plain"}
    wrong = [r for r in results if len(r["said"]) != 1 or r["said"] != plain[r["program"]]]
    for result in wrong:
        tell(f"{result['program']}, {result['way']}: {result['said']}, and plainly "
             f"{plain[result['program']]}")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
