#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only OR MIT
# Installs the missing packages that lodic needs, and says what each is for. When all are
# there, it is silent and quick.
#
#   tools/deps.sh [build|check|arm64|bench|deb|fmt|kernel|python|server|all]
#
# With `check`, `bench` and `all` it then has tools/wheels.sh install what Debian does not have.
#
# The packages of `server` start a server when they are installed. So `all` is without them, and no
# goal of the Makefile asks for them: only .ci/run does.
#
# Installs as root, or by sudo where that asks for no password. Otherwise it prints the
# one command to run and ends with status 1. With LODIC_DEPS=skip in the environment
# it does nothing.
set -eu

set_name=${1:-all}
case $set_name in
build | check | arm64 | bench | deb | fmt | kernel | python | server | all) ;;
*)
	echo "deps: unknown set '$set_name'; there are" \
		"build, check, arm64, bench, deb, fmt, kernel, python, server, all" >&2
	exit 2
	;;
esac
[ "${LODIC_DEPS:-}" = skip ] && exit 0

# package, sets it is in, how other systems are asked for it, what it is for
table() {
	cat <<-'END'
	make|build|cmd:make|starts everything: make demo, make check
	gcc|build|cmd:gcc|compiles lodic
	libc6-dev|build|cmd:gcc|C library headers
	meson|build|cmd:meson|knows what is built from what
	ninja-build|build|cmd:ninja|runs the compilers for meson
	pkg-config|build|cmd:pkg-config|finds the libraries below
	liburing-dev|build|pc:liburing|io_uring: the service reads files with it
	libjansson-dev|build|pc:jansson|writes the JSON of demo, bench and stat
	g++|check bench|cmd:g++|lodic.h must be C++17 as well; compiles bench_peers
	clang|check|cmd:clang|the second compiler, with other warnings
	libcmocka-dev|check|pc:cmocka|unit tests
	python3|build check bench|cmd:python3|tools/install.py, tools/check.py, bench/run.py
	python3-dev|check bench deb python|pc:python3|python/: the extension module
	python3-pip|check bench|py:pip|tools/wheels.sh: duckdb, numpy and others
	python3-matplotlib|bench|py:matplotlib|draws the figures of make bench
	rocksdb-tools|check bench|cmd:db_bench|runs under lodic run; kernel/run observe watches it
	nginx|server|file:/usr/sbin/nginx|tests/run: a server under lodic run
	fio|check bench|cmd:fio|tests/run: reads that verify themselves; make bench-apps
	sqlite3|check|cmd:sqlite3|tests/run: a database that is only read
	librocksdb-dev|check bench|pc:rocksdb|liblodic-rocksdb.so reads for it; bench_peers
	clang-format|fmt|cmd:clang-format|make fmt
	linux-source-6.12|kernel|file:/usr/src/linux-source-6.12.tar.xz|the Linux of the series
	qemu-system-x86|kernel|cmd:qemu-system-x86_64|boots it
	busybox-static|kernel|cmd:busybox|the guest's shell and tools
	ccache|kernel|cmd:ccache|keeps what the compiler has made
	git|kernel|cmd:git|applies the series
	dpkg-dev|check deb|cmd:dpkg-buildpackage|make deb
	debhelper|check deb|cmd:dh|make deb
	dh-python|check deb|cmd:dh_python3|make deb: the package for Python
	lintian|deb|cmd:lintian|looks for faults in packages
	gcc-aarch64-linux-gnu|arm64|cmd:aarch64-linux-gnu-gcc|make arm64-check
	qemu-user|arm64|cmd:qemu-aarch64|make arm64-check
	mmdebstrap|arm64 deb|cmd:mmdebstrap|systems for make deb-check and make arm64-check
	man-db|check|cmd:man|tests/packaging: man pages as man(1) shows them
	zsh|check|cmd:zsh|tests/packaging: its completion
	musl-tools|check|cmd:musl-gcc|tests/run: a child with another loader
	perl|check kernel|cmd:perl|checkpatch.pl, and Linux's own build; tests/run
	python3-ply|kernel|py:ply|checkpatch.pl looks at licence lines with it
	python3-git|kernel|py:git|the same
	bc|kernel|cmd:bc|Linux's build
	bison|kernel|cmd:bison|Linux's build: Kconfig
	flex|kernel|cmd:flex|Linux's build: Kconfig
	libelf-dev|kernel|pc:libelf|Linux's build: objtool
	libssl-dev|kernel|pc:libcrypto|Linux's build: certificates
	kmod|kernel|cmd:depmod|Linux's build: modules
	xz-utils|kernel|cmd:xz|unpacks Linux
	rsync|check kernel|cmd:rsync|Linux's build: headers for its selftests; tests/run
	cpio|kernel|cmd:cpio|packs the guest's initramfs
	e2fsprogs|check kernel|cmd:mkfs.ext4|disks for the guest and for tests/outside
	xfsprogs|kernel|cmd:mkfs.xfs|the other disk
	END
}

# Is a package in the set that was asked for? Each set but fmt also needs what builds.
wanted() {
	case " $1 " in
	*" $set_name "* | *" build "*) [ "$set_name" != fmt ] || [ "$1" = fmt ] ;;
	*) [ "$set_name" = all ] && [ "$1" != server ] ;;
	esac
}

there() {
	case $1 in
	cmd:*) command -v "${1#cmd:}" >/dev/null 2>&1 ;;
	pc:*) pkg-config --exists "${1#pc:}" 2>/dev/null ;;
	file:*) [ -e "${1#file:}" ] ;;
	py:*) /usr/bin/python3 -c "import ${1#py:}" 2>/dev/null ;;
	esac
}

if command -v dpkg-query >/dev/null 2>&1; then
	debian=yes
	installed=" $(dpkg-query -W -f '${Package}=${db:Status-Status} ' \
		$(table | cut -d'|' -f1) 2>/dev/null || true)"
else
	debian=no
fi

wheels() {
	case $set_name in
	check | bench | all) sh "$(dirname "$0")/wheels.sh" ;;
	esac
	exit
}

missing=
why=
while IFS='|' read -r package sets probe reason; do
	wanted "$sets" || continue
	if [ $debian = yes ]; then
		case $installed in *" $package=installed "*) continue ;; esac
	else
		there "$probe" && continue
	fi
	missing="$missing $package"
	why="$why$(printf '  %-20s %s' "$package" "$reason")
"
done <<END
$(table)
END
[ -z "$missing" ] && wheels

echo "deps: missing:"
printf '%s' "$why"
if [ $debian = no ]; then
	echo "deps: the names are Debian's. Install what your system calls them, then try again."
	exit 1
fi

if [ "$(id -u)" = 0 ]; then
	as_root=
elif command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; then
	as_root="sudo -n"
else
	echo "deps: installing needs root. Run this, then try again:"
	echo
	sudo_word=
	command -v sudo >/dev/null 2>&1 && sudo_word="sudo "
	install="apt-get install -y --no-install-recommends$missing"
	echo "  ${sudo_word}sh -c 'apt-get update && $install'"
	echo
	exit 1
fi

apt() {
	$as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=120 \
		-o Dpkg::Use-Pty=0 "$@" </dev/null
}
install_missing() {
	# Word splitting is meant.
	apt install -y --no-install-recommends $missing
}

log=$(mktemp)
trap 'rm -f "$log"' EXIT
echo "deps: installing$missing"
updated=no
if ! ls /var/lib/apt/lists/*_Packages* >/dev/null 2>&1; then
	echo "deps: no package lists yet: apt-get update"
	apt update >"$log" 2>&1 || true
	updated=yes
fi
if ! install_missing >>"$log" 2>&1; then
	if [ $updated = no ]; then
		echo "deps: package lists are old: apt-get update"
		apt update >>"$log" 2>&1 || true
		install_missing >>"$log" 2>&1 && wheels
	fi
	tail -n 20 "$log" >&2
	echo "deps: apt-get could not install them; the end of its output is above" >&2
	exit 1
fi
wheels
