#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only OR MIT
# Makes the wheel for every x86-64 Linux with glibc 2.28 or later (manylinux_2_28), and has
# auditwheel judge it. Its programs have jansson and liburing within them.
#
#   tools/manylinux.sh BUILD
#
# The first time pip installs tools/manylinux.txt, 100 MB, in BUILD/manylinux/tools. That needs a
# network. The wheel goes to BUILD/manylinux/wheel.
set -eu

folder=$(mkdir -p "$1/manylinux" && cd "$1/manylinux" && pwd -P)
cd "$(dirname "$0")/.."
python=/usr/bin/python3
tag=manylinux_2_28_x86_64

fail() {
	echo "manylinux: $*" >&2
	exit 1
}
[ "$(uname -m)" = x86_64 ] || fail "tools/manylinux.txt has a compiler for x86-64 only"
LODIC_WHEELS=$folder/tools sh tools/wheels.sh tools/manylinux.txt
[ -x "$folder/tools/ziglang/zig" ] || fail "no compiler without ziglang: pip must reach its index"

# meson asks in two ways that this compiler does not answer. The headers of jansson, liburing and
# Python come after its own, which are those of glibc 2.28.
cat >"$folder/cc.new" <<END
#!/bin/sh
target=x86_64-linux-gnu.2.28
case " \$* " in
*" -dM "*) target=x86_64-linux-gnu ;;
*" -Wl,--version "*)
	echo "LLD (compatible with GNU linkers)"
	exit 0
	;;
esac
export ZIG_GLOBAL_CACHE_DIR='$folder/zig-cache'
exec '$folder/tools/ziglang/zig' cc -target "\$target" -fno-sanitize=undefined \\
	-idirafter /usr/include -idirafter /usr/include/x86_64-linux-gnu "\$@"
END
chmod +x "$folder/cc.new"
mv "$folder/cc.new" "$folder/cc"
# In a folder of its own: other objects of this tree are for the glibc of this machine.
CC="'$folder/cc'" sh tools/setup.sh "$folder/build" -Dbuildtype=debugoptimized \
	-Dunits=true -Drocksdb=disabled -Dpython=enabled -Dprefer_static=true
ninja -C "$folder/build" wheel-parts

# The linker lets an extension have names that only Python has, and auditwheel believes it. One of
# glibc without a version is one that 2.28 lacks.
for part in "$folder/build/lodic" "$folder/build/"*.so "$folder/build/python/"*.so; do
	lacks=$(nm -D --undefined-only "$part" |
		sed -n 's/^ *U \([^@]*\)$/\1/p' | grep -v '^_*Py' || true)
	[ -z "$lacks" ] || fail "glibc 2.28 lacks what $part calls:" $lacks
done
wheel=$($python tools/wheel.py --build "$folder/build" --output "$folder/wheel" --platform $tag \
	--notice jansson=/usr/share/doc/libjansson-dev/copyright \
	--notice liburing=/usr/share/doc/liburing-dev/copyright)
judged=$(PYTHONPATH=$folder/tools $python -m auditwheel show "$wheel" 2>/dev/null || true)
judged=$(echo "$judged" | tr '\n' ' ')
case $judged in
*"following platform tag: \"$tag\""*) ;;
*) fail "auditwheel does not find that it is $tag: $judged" ;;
esac
echo "manylinux: auditwheel finds that this is $tag:"
echo "$wheel"
