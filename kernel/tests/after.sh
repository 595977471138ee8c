#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Checks what must hold after every test. The kernel's log has no report since the test
# before. No local reference is out. The test file systems write back and unmount. The script
# prints a "# " line for each thing that is wrong, and then ends with status 1. It checks
# nothing after a negative control, which has broken the kernel on purpose.
bad=0
wrong() {
	echo "# after: $*"
	bad=1
}

[ -e /tmp/lodic-broken ] && exit 0

# Lines since our own last mark that are reports of the kernel: see tests/alarms.
found=$(dmesg | awk '/lodic-tests: after/ { text = ""; next } { text = text $0 "\n" }
	END { printf "%s", text }' | grep -F -f /tests/alarms | head -n 5)
[ -n "$found" ] && wrong "kernel log: $found"
echo "lodic-tests: after" > /dev/kmsg

count() {
	awk -v name="$1" '$1 == name { print $2 }' /proc/vmstat
}
if [ -n "$(count lodic_ref)" ]; then
	given=$(($(count lodic_unref) + $(count lodic_unref_global)))
	[ "$(count lodic_ref)" = "$given" ] ||
		wrong "lodic_ref $(count lodic_ref), given back $given"
	[ "$(count lodic_unref_global)" = "$(count lodic_folded)" ] ||
		wrong "unref_global $(count lodic_unref_global), folded $(count lodic_folded)"
	echo "# sums of this boot: lodic_ref $(count lodic_ref), lodic_folded $(count lodic_folded)"
fi

if [ -n "$(count paygo_hit)" ]; then
	taken=$(($(count paygo_hit) + $(count paygo_install)))
	given=$(($(count paygo_unref) + $(count paygo_away)))
	[ "$taken" = "$given" ] || wrong "paygo: $taken taken, $given given back"
	[ "$(count paygo_unref_global)" = "$(count paygo_folded)" ] ||
		wrong "paygo_unref_global $(count paygo_unref_global), folded $(count paygo_folded)"
	echo "# sums of this boot: paygo $taken, away $(count paygo_away)," \
		"folded $(count paygo_folded)"
fi

# What a test mounted and left is a failure of its own; what boot mounted is mounted anew.
sync
mounts=$(grep -E '^/dev/vd|^none /tmp/lodic-' /proc/mounts)
while read -r device dir kind rest; do
	[ -n "$dir" ] || continue
	if ! umount "$dir"; then
		wrong "$dir does not unmount"
	elif [ "${dir#/tmp/}" = "$dir" ]; then
		mount -t "$kind" "$device" "$dir" || wrong "$dir does not mount again"
	fi
done <<END
$mounts
END
exit $bad
