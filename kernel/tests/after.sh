#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# What must hold after every test, whichever it was: the kernel's log has no complaint since
# the test before; no local reference is out; test file systems write back and unmount.
# Prints "# " lines for what is wrong; status 1 if anything was. A negative control has
# broken the kernel on purpose: nothing is asked after it.
bad=0
wrong() {
	echo "# after: $*"
	bad=1
}

[ -e /tmp/lodic-broken ] && exit 0

# Lines since our own last mark. The words are klog_words of lib.h.
words='BUG:|Bad page|Bad rss|bad_page|WARNING:|Oops|general protection|Kernel panic|KASAN'
words="$words|KFENCE|UBSAN|refcount_t:|kernel BUG at|INFO: lockdep|INFO: possible|rcu: INFO"
words="$words|soft lockup|blocked for more|EXT4-fs (error|warning)|XFS: Assertion"
words="$words|Internal error|unable to handle|page dumped because|Memory corrupt"
found=$(dmesg | awk '/lodic-tests: after/ { text = ""; next } { text = text $0 "\n" }
	END { printf "%s", text }' | grep -E "$words" | head -n 5)
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
