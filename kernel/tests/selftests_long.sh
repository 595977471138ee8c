#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# The selftests of Linux's mm that take minutes each: only when asked for.
if ! grep -qw lodic.long /proc/cmdline; then
	echo "1..0 # SKIP 4 minutes: kernel/run test -k selftests_long --append lodic.long"
	exit 4
fi
exec /tests/selftests.sh long
