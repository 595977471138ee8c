#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only OR MIT
# Installs the packages of tools/wheels.txt, which Debian does not have, into build/wheels, or into
# the folder LODIC_WHEELS. When they are there, it is silent and quick. When pip cannot have them,
# it says so and ends with status 0: their tests are skipped, and all else works.
#
#   tools/wheels.sh [LIST]    LIST instead of tools/wheels.txt
set -eu

cd "$(dirname "$0")/.."
wheels=${LODIC_WHEELS:-build/wheels}
list=${1:-tools/wheels.txt}
python=/usr/bin/python3
stamp="$($python --version) $(cksum <"$list")"
[ "$(cat "$wheels/stamp" 2>/dev/null)" = "$stamp" ] && exit 0

none() {
	echo "wheels: none: $1. What needs them is skipped."
	exit 0
}
mkdir -p "$(dirname "$wheels")" && new=$(mktemp -d "$wheels.XXXXXX") || none "no folder $wheels"
log=$(mktemp)
trap 'rm -rf "$log" "$new"' EXIT
names=$(sed -n 's/^\([a-z-]*==[0-9.]*\).*/\1/p' "$list" | tr '\n' ' ')
echo "wheels: installing ${names}in $wheels"
if ! $python -m pip install --quiet --no-input --disable-pip-version-check --retries 1 \
	--timeout 30 --target "$new/all" --no-deps --only-binary :all: --require-hashes \
	-r "$list" >"$log" 2>&1 </dev/null; then
	tail -n 3 "$log" >&2
	none "pip could not install them"
fi
printf '%s\n' "$stamp" >"$new/all/stamp"
[ ! -e "$wheels/stamp" ] || rm -rf "$wheels"
mv -T "$new/all" "$wheels" || none "$wheels is in the way"
