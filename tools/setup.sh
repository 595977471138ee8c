#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only OR MIT
# Makes FOLDER a meson build folder with these options. Does nothing when it is one
# already, of this source tree, with the same options and the same meson: ninja notices
# the rest by itself. What it does not notice is whether Python.h is there, so that is an
# option like the others. Other files in FOLDER stay.
#
#   tools/setup.sh FOLDER OPTION...
set -eu

folder=$1
shift
cd "$(dirname "$0")/.."

if [ -e "$folder" ] && ! [ -w "$folder" ]; then
	echo "setup: $folder belongs to another user." >&2
	echo "setup: Remove it, or choose another: make BUILD=..." >&2
	exit 1
fi
mkdir -p "$folder"
python_h=$(/usr/bin/python3 -c 'import os, sysconfig
print(os.path.exists(sysconfig.get_path("include") + "/Python.h"))' 2>/dev/null || true)
# Meson looks at the mutants that are there, and does not notice a new file.
rows=$(find check/mutants -name '*.mutants' | sort | cksum)
stamp="$(pwd -P) $rows ${CC:-} ${CXX:-} $(meson --version) ${python_h:-False} $*"
if [ -f "$folder/build.ninja" ] &&
	[ "$(cat "$folder/setup.stamp" 2>/dev/null)" = "$stamp" ]; then
	exit 0
fi
rm -rf "$folder/build.ninja" "$folder/meson-private" "$folder/meson-info" \
	"$folder/setup.stamp"
if ! meson setup "$folder" "$@" >"$folder/setup.log" 2>&1; then
	tail -n 20 "$folder/setup.log" >&2
	echo "setup: meson failed; the end of its output is above, all in $folder/setup.log" >&2
	exit 1
fi
printf '%s\n' "$stamp" >"$folder/setup.stamp"
