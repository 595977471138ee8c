#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Four workers load a model with safetensors, numpy, torch, transformers and llama.cpp: who shares?

    tools/try_torch.py --build build [--only ROW]... [--mib 128] [--json]

It makes a virtual environment below the build folder, with pip and the wheel of this tree, and
random models. torch has some GiB, and llama.cpp is compiled, so the first time takes long. Each row
runs four processes that start together. It says by how much their memory (Pss) grew when they
loaded, counted in models. Another column says how much lies in lodic's holds. It fails if a row's
workers do not compute what those of the plain row do.
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

ROOT = pathlib.Path(__file__).resolve().parent.parent
PYTHON = "/usr/bin/python3"
PACKAGES = ("numpy", "safetensors", "torch", "transformers", "gguf")
# Less of llama.cpp to compile: no pictures, no threads' library, no processor's own instructions.
LLAMA = ("-DLLAVA_BUILD=OFF -DMTMD_BUILD=OFF -DLLAMA_BUILD_COMMON=OFF -DGGML_NATIVE=OFF "
         "-DGGML_OPENMP=OFF")
WORKERS = 4
MIB = 1 << 20

MODELS = """
import pathlib, sys
import numpy, torch, safetensors.numpy, gguf
from transformers import LlamaConfig, LlamaForCausalLM
folder, mib = pathlib.Path(sys.argv[1]), int(sys.argv[2])
places = numpy.random.default_rng(1)
arrays = {f"layer.{i}": places.standard_normal((mib << 15, 1), numpy.float32).reshape(-1, 1024)
          for i in range(8)}
safetensors.numpy.save_file(arrays, folder / "plain.safetensors")
numpy.save(folder / "array.npy", numpy.concatenate(list(arrays.values())))
torch.save({name: torch.from_numpy(array) for name, array in arrays.items()}, folder / "model.pt")
torch.manual_seed(1)
LlamaForCausalLM(LlamaConfig(
    vocab_size=4096, hidden_size=512, intermediate_size=2048, num_attention_heads=8,
    num_hidden_layers=max((mib - 16) // 16, 1))).save_pretrained(folder / "llama")
n, ff, layers, tokens = 512, 2048, max((mib - 16) // 16, 1), 4096
writer = gguf.GGUFWriter(folder / "model.gguf", "llama")
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
writer.close()
"""
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
# name: (file, imports, load)
PROGRAMS = {
    "safetensors.numpy": ("plain.safetensors", "import safetensors.numpy", """
loaded = safetensors.numpy.load_file(path)
said = float(sum(a.sum(dtype="f8") for a in loaded.values()))"""),
    "numpy.load": ("array.npy", "import numpy", """
loaded = numpy.load(path)
said = float(loaded.sum(dtype="f8"))"""),
    "safetensors.torch": ("plain.safetensors", "import torch, safetensors.torch", """
loaded = safetensors.torch.load_file(path)
said = float(sum(a.double().sum() for a in loaded.values()))"""),
    "torch.load(mmap=True)": ("model.pt", "import torch", """
loaded = torch.load(path, mmap=True, weights_only=True)
said = float(sum(a.double().sum() for a in loaded.values()))"""),
    # transformers imports much when it first makes a model.
    "transformers": ("llama", """
import torch, transformers
transformers.logging.disable_progress_bar()
transformers.AutoModelForCausalLM.from_config(transformers.LlamaConfig(
    vocab_size=64, hidden_size=64, intermediate_size=64, num_hidden_layers=1)).eval()(
    torch.arange(3, 11)[None])""", """
loaded = transformers.AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32)
with torch.no_grad():
    said = round(float(loaded(torch.arange(3, 11)[None]).logits.abs().sum()), 1)"""),
    "llama.cpp": ("model.gguf", "import llama_cpp", """
loaded = llama_cpp.Llama(path, n_ctx=64, n_threads=1, verbose=False, logits_all=True)
loaded.eval(list(range(300, 308)))
said = round(float(abs(loaded.scores[:8]).sum()), 1)"""),
}
AUTO = {"LODIC_AUTO": "1"}
# (program, way, environment, is it run by `lodic run --mmap`?)
ROWS = []
for _name in ("safetensors.numpy", "numpy.load"):
    ROWS += [(_name, "plain", {}, False), (_name, "LODIC_AUTO=1", AUTO, False)]
for _name in ("safetensors.torch", "transformers"):
    ROWS += [(_name, "plain", {}, False), (_name, "LODIC_AUTO=1", AUTO, False),
             (_name, "lodic run --mmap", {}, True)]
for _name in ("torch.load(mmap=True)", "llama.cpp"):
    ROWS += [(_name, "plain", {}, False), (_name, "lodic run --mmap", {}, True)]


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

    def make(self):
        """What is missing."""
        if not (self.venv / "made").exists():
            tell(f"installing {', '.join(PACKAGES)} in {self.venv}: some GiB")
            command([PYTHON, "-m", "venv", self.venv])
            command([self.python, "-m", "pip", "install", *PACKAGES])
            tell("compiling llama.cpp: minutes on many processors, an hour on two")
            command([self.python, "-m", "pip", "install", "llama-cpp-python"],
                    env={**os.environ, "CMAKE_ARGS": LLAMA})
            (self.venv / "made").touch()
        wheel = subprocess.run([PYTHON, ROOT / "tools" / "wheel.py", "--build", self.build],
                               stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
        command([self.python, "-m", "pip", "install", "--quiet", "--no-deps", "--force-reinstall",
                 wheel])
        if not (self.models / "made").exists():
            tell(f"making models of about {self.mib} MiB in {self.models}")
            self.models.mkdir(parents=True, exist_ok=True)
            command([self.python, "-c", MODELS, self.models, self.mib])
            (self.models / "made").touch()

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


def measure(place, socket, row):
    """What a row's workers say, and their memory."""
    name, way, environment, run = row
    file, imports, load = PROGRAMS[name]
    words = [place.python, "-c", WORKER.format(imports=imports, load=load), place.models / file]
    if run:
        words = [place.lodic, "run", "--socket", socket, f"--mmap={place.models.resolve()}/*",
                 *place.wait, "--", *words]
    environment = {**os.environ, "LODIC_SOCKET": socket, "LODIC_AUTO": "0", **environment}
    workers = []
    try:
        for _ in range(WORKERS):
            workers.append(subprocess.Popen([str(word) for word in words], stdin=subprocess.PIPE,
                                            stdout=subprocess.PIPE, text=True, env=environment))
        for worker in workers:
            if worker.stdout.readline() != "ready\n":
                sys.exit(f"try: {name}, {way}: a worker ended")
        before = [memory_of(worker.pid) for worker in workers]
        for worker in workers:
            worker.stdin.write("\n")
            worker.stdin.flush()
        said = {worker.stdout.readline().strip() for worker in workers}
        after = [memory_of(worker.pid) for worker in workers]
    finally:
        for worker in workers:
            worker.kill()
            worker.communicate()
    return {"program": name, "way": way, "said": sorted(said), "model_bytes": place.size(name),
            "grown_bytes": sum(a[0] for a in after) - sum(b[0] for b in before),
            "held_bytes": sum(a[1] for a in after)}


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
    place.make()
    folder, socket = serve(place)
    try:
        for row in ROWS:
            if not options.only or row[0] in options.only:
                tell(f"{row[0]}, {row[1]}")
                results.append(measure(place, socket, row))
    finally:
        end(place, folder, socket)
    return results


def show(results):
    print(f"{WORKERS} workers. copies: by how much their Pss grew together, in models. A model "
          "that is shared is 1.")
    print(f"{'program':24}{'way':20}{'model MiB':>10}{'copies':>8}{'in holds MiB':>14}")
    for result in results:
        print(f"{result['program']:24}{result['way']:20}{result['model_bytes'] / MIB:10.0f}"
              f"{result['grown_bytes'] / result['model_bytes']:8.2f}"
              f"{result['held_bytes'] / MIB:14.0f}")


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
