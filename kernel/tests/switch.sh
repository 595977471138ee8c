#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# LODIC is off in this boot, and the test switches it on and off. It shows that no reader
# counts locally before vm.folioref is 1 and after it is 0 again. Nothing may be lost when it is
# switched while readers run. The boot has lodic.one_thread on its command line. With a thread
# for each processor QEMU sometimes runs a breakpoint after the kernel has patched it away. Any
# kernel dies of that; one without LODIC did, with kernel.numa_balancing.
count() {
	awk -v name="$1" '$1 == name { print $2 }' /proc/vmstat
}
number=0
failed=0
result() { # status name
	number=$((number + 1))
	if [ "$1" = 0 ]; then
		echo "ok $number $2"
	else
		echo "not ok $number $2"
		failed=1
	fi
}

echo "KTAP version 1"
if [ -z "$(count lodic_ref)" ]; then
	echo "1..0 # SKIP no LODIC"
	exit 4
fi
echo "1..6"
dir=$(awk '$1 == "/dev/vda" { print $2; exit }' /proc/mounts)
if [ -z "$dir" ]; then
	dir=/tmp/lodic-switch
	mkdir -p $dir
	mount -t ext4 /dev/vda $dir || echo "# no ext4"
	mounted=$dir
fi
file=$dir/switch

[ "$(cat /proc/sys/vm/folioref)" = 0 ]
result $? "off-at-boot"

/tests/drbh -f "$file" -p 2 -v > /dev/null && [ "$(count lodic_ref)" = 0 ]
result $? "off-counts-nothing"

echo 1 > /proc/sys/vm/folioref
/tests/drbh -f "$file" -p 2 -v > /dev/null && [ "$(count lodic_ref)" -gt 0 ]
result $? "on-counts"

turns=0
status=0
while [ $turns -lt 10 ]; do
	turns=$((turns + 1))
	echo $((turns % 2)) > /proc/sys/vm/folioref
	/tests/hold -s munmap > /tmp/switch.log || status=1
	[ "$(cat /proc/sys/vm/folioref)" = 1 ] || status=1
done
[ $status = 0 ] || sed 's/^/# /' /tmp/switch.log
[ "$(count lodic_ref)" = $(($(count lodic_unref) + $(count lodic_unref_global))) ] || status=1
result $status "off-and-on"

echo 1 > /proc/sys/vm/folioref
/tests/race -s switch -t 5 > /tmp/switch.log
status=$?
sed 's/^/# /' /tmp/switch.log
grep -q '^ok 1 switch$' /tmp/switch.log || status=1
result $status "under-load"

echo 0 > /proc/sys/vm/folioref
before=$(count lodic_ref)
/tests/drbh -f "$file" -p 2 -v > /dev/null && [ "$(count lodic_ref)" = "$before" ]
result $? "off-again"
[ -n "$mounted" ] && umount "$mounted"
exit $failed
