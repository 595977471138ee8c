# SPDX-License-Identifier: GPL-2.0-only OR MIT
# The front door. meson.build knows what is built from what; nothing of that is here.

BUILD ?= build
FILE ?=
ARGS ?=
PREFIX ?= /usr/local
DESTDIR ?=
# What users run and `make install` installs: -O2 with debug information, and the programs that
# study schemes; with fewer things to compile. A verb that needs more adds it. build, wheel and
# install have the same options: an install by root must not make a user's build folder anew.
RELEASE = -Dbuildtype=debugoptimized -Dstudy=true -Dunits=true
PYTHON = /usr/bin/python3
# For tools/wheels.sh, and what uses them.
export LODIC_WHEELS = $(abspath $(BUILD))/wheels
C_FILES = find bench check cli core doc host include lib preload python \
	sim tests -name '*.[ch]'

.PHONY: help deps deps-build deps-check deps-arm64 deps-bench deps-deb deps-fmt deps-kernel \
	deps-python build study demo check kernel-check soak soak-cache soak-chaos soak-counter \
	soak-fuzz soak-holds soak-move soak-whole mutants deb deb-check arm64-check \
	bench bench-apps bench-faces bench-recordings bench-scale bench-share figures \
	fmt install uninstall wheel wheel-check wheel-manylinux try-torch clean
.DEFAULT_GOAL := help

help:
	@echo 'make demo [FILE=path]   install what is missing, build, read a real file, compare'
	@echo 'make check              every build, every test; ends with "N passed, N failed"'
	@echo 'make check ARGS="..."   only some of it: see tools/check.py --help'
	@echo 'make kernel-check       the Linux series: apply, build, boot under QEMU, test'
	@echo 'make soak               the checker for longer: 10^7 schedules for each scheme'
	@echo 'make soak-cache         20,000 readers, 1,000 services killed; 10^9 reads verified'
	@echo 'make soak-chaos         20 minutes: kills, stops, resizes; each byte verified'
	@echo 'make soak-counter       100,000 threads end with guards; 20,000 kills, four ways'
	@echo 'make soak-fuzz          10^6 executions of each of five fuzzers, under sanitizers'
	@echo 'make soak-holds         2,000 kills among holders; 10^6 random requests, twice'
	@echo 'make soak-move          10^6 blocks move under readers that pin, view, read and die'
	@echo 'make soak-whole         10^6 schedules of service and readers on a simulated machine'
	@echo 'make mutants            generated mutants of core/ or lib/: is each seen?'
	@echo 'make figures            figures of the papers from the model, into $(BUILD)/figures/'
	@echo 'make bench              what this machine measures, into bench/results/'
	@echo 'make bench-apps         fio, db_bench, DuckDB, nginx: with and without lodic run'
	@echo 'make bench-faces        weights of a model in 1 to 4 Python workers'
	@echo 'make bench-share        what 8 workers take that load the same weights'
	@echo 'make bench-recordings   db_bench, nginx, fio, python: what two tiers make of them'
	@echo 'make bench-scale        the same over 1 to all of its CPUs: for big machines'
	@echo 'make build              build/lodic and build/liblodic.so'
	@echo 'make study              the same, and the programs of bench/'
	@echo 'make install            into /usr/local, or PREFIX=DIR; DESTDIR=DIR: for a package'
	@echo 'make uninstall          remove exactly that, with the same PREFIX and DESTDIR'
	@echo 'make wheel              build/python/lodic-*.whl, the package for Python'
	@echo 'make wheel-manylinux    for other systems with glibc 2.28 on; pip fetches 100 MB'
	@echo 'make wheel-check        uses that wheel in a minimal system'
	@echo 'make try-torch          pandas, torch, llama.cpp from PyPI: who shares a file'
	@echo 'make deb                Debian packages, into $(BUILD)/deb/'
	@echo 'make deb-check          installs them by apt in a system of their own, and uses them'
	@echo 'make arm64-check        builds for arm64, and runs unit tests under qemu-user'
	@echo 'make deps               every package that any of the above needs'
	@echo 'make fmt                lay out the C text'
	@echo 'make clean              remove $(BUILD)/'

deps:
	@sh tools/deps.sh all

deps-build deps-check deps-arm64 deps-bench deps-deb deps-fmt deps-kernel deps-python: deps-%:
	@sh tools/deps.sh $*

build: deps-build
	@sh tools/setup.sh $(BUILD) $(RELEASE)
	@ninja -C $(BUILD)

study: RELEASE += -Dbench=true
study: build

demo: build
	@$(BUILD)/lodic demo --json-out $(BUILD)/demo.json --workdir $(BUILD) \
		$(if $(FILE),--file '$(FILE)') $(ARGS)

check: deps-check
	@$(PYTHON) tools/check.py --build $(BUILD)/check $(ARGS)

kernel-check: deps-kernel
	@$(PYTHON) kernel/run $(ARGS) check

bench: RELEASE += -Dpeers=enabled
bench: deps-bench study
	@$(PYTHON) bench/run.py --build $(BUILD) $(if $(FILE),--file '$(FILE)')

bench-scale: deps-bench study
	@$(PYTHON) bench/scale.py --build $(BUILD) $(ARGS)

bench-apps: deps-bench build
	@$(PYTHON) bench/apps.py --build $(BUILD) $(ARGS)
	@$(PYTHON) bench/limited.py --build $(BUILD) $(ARGS)
	@$(PYTHON) bench/rocksdb.py --build $(BUILD) $(ARGS)

bench-faces: deps-bench deps-python build
	@$(PYTHON) bench/faces.py --build $(BUILD) $(ARGS)

bench-share: RELEASE += -Dpython=enabled
bench-share: deps-bench deps-python build
	@$(PYTHON) bench/share.py --build $(BUILD) $(ARGS)

bench-recordings: deps-bench study
	@$(PYTHON) bench/recordings.py --build $(BUILD) $(ARGS)

figures: deps-bench study
	@$(PYTHON) sim/figures/figures.py --build $(BUILD) $(ARGS)

soak: study
	@$(BUILD)/lodic-check --all --schedules 250000 $(ARGS)

soak-whole: study
	@$(BUILD)/lodic-check --whole --schedules 1000000 $(ARGS)

soak-cache: deps-check
	@$(PYTHON) tools/soak.py --build $(BUILD)/soak $(ARGS)

soak-chaos: deps-check
	@sh tools/setup.sh $(BUILD)/soak-chaos -Dbuildtype=debugoptimized -Dtests=enabled \
		-Ddebug_checks=true
	@ninja -C $(BUILD)/soak-chaos lodic liblodic-preload.so tests/chaos/chaos
	@$(BUILD)/soak-chaos/tests/chaos/chaos --lodic $(BUILD)/soak-chaos/lodic $(ARGS)

soak-counter: deps-check
	@sh tools/setup.sh $(BUILD)/soak-counter -Dbuildtype=debugoptimized -Dtests=enabled \
		-Ddebug_checks=true
	@ninja -C $(BUILD)/soak-counter tests/unit/test_counter_threads
	@$(BUILD)/soak-counter/tests/unit/test_counter_threads --ends 100000 --kills 20000 $(ARGS)

soak-fuzz: deps-check
	@$(PYTHON) tools/soak_fuzz.py --build $(BUILD) $(ARGS)

soak-holds: deps-check
	@$(PYTHON) tools/soak_holds.py --build $(BUILD) $(ARGS)

soak-move: deps-check
	@sh tools/setup.sh $(BUILD)/soak-move -Dbuildtype=debugoptimized -Dtests=enabled \
		-Ddebug_checks=true
	@ninja -C $(BUILD)/soak-move tests/stress/stress_move
	@$(BUILD)/soak-move/tests/stress/stress_move --barrier light \
		--moves 200000 --kills 300 $(ARGS)
	@$(BUILD)/soak-move/tests/stress/stress_move --barrier lock \
		--moves 1000000 --kills 1000 $(ARGS)
	@$(BUILD)/soak-move/tests/stress/stress_move --barrier lock \
		--moves 300000 --restarts 100 $(ARGS)

mutants: deps-check
	@$(PYTHON) check/mutate.py --build $(BUILD) $(ARGS)

wheel: deps-python
	@sh tools/setup.sh $(BUILD) $(RELEASE)
	@ninja -C $(BUILD) wheel-parts
	@$(PYTHON) tools/wheel.py --build $(BUILD)

wheel-manylinux: deps-python
	@sh tools/manylinux.sh $(BUILD)

# Status 77: it cannot run here, and has said why.
wheel-check: deps-deb wheel-manylinux
	@$(PYTHON) packaging/wheel_check.py --wheels $(BUILD)/manylinux/wheel || [ $$? = 77 ]

try-torch: RELEASE += -Dpython=enabled
try-torch: deps-python build
	@$(PYTHON) tools/try_torch.py --build $(BUILD) $(ARGS)

install: build
	@$(PYTHON) tools/install.py install --build $(BUILD) --prefix '$(PREFIX)' \
		--destdir '$(DESTDIR)'

uninstall:
	@$(PYTHON) tools/install.py uninstall --prefix '$(PREFIX)' --destdir '$(DESTDIR)'

deb: deps-deb
	@$(PYTHON) packaging/deb.py --output $(BUILD)/deb $(ARGS)

# Status 77: it cannot run here, and has said why.
deb-check: deps-deb
	@$(PYTHON) packaging/deb_check.py --packages $(BUILD)/deb $(ARGS) || [ $$? = 77 ]

arm64-check: deps-check deps-arm64
	@$(PYTHON) packaging/arm64_check.py --build $(BUILD)/arm64 $(ARGS) || [ $$? = 77 ]

fmt: deps-fmt
	@$(C_FILES) -exec clang-format -i {} +

clean:
	@rm -rf $(BUILD)
