#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# The kernel writes what came in and what it decided, while tests/kloc runs its cases. lodic-sim
# makes the same calls of core/kloc again, and must decide the same. With a line that was changed on
# purpose it must not.
export PATH=$PATH:/opt/lodic
TRACE=/sys/kernel/tracing
KLOC=/sys/kernel/mm/kloc
CASES="close-ext4 close-xfs promote unlink age uses ping-pong busy place not-counted limit"
RECORD=/tmp/kloc.trace
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
if [ ! -d $KLOC ] || [ "$(cat /sys/devices/system/node/has_cpu)" != 0 ]; then
	echo "1..0 # SKIP no KLOC, or no node of memory alone"
	exit 4
fi
echo "1..4"
echo 8192 >$TRACE/buffer_size_kb
echo counter >$TRACE/trace_clock
echo >$TRACE/trace
echo 0 >$KLOC/tick_ms
echo 1 >$TRACE/events/kloc/enable
echo 1 >$KLOC/enabled
echo kloc >$KLOC/policy
bad=0
for name in $CASES; do
	/tests/kloc -s "$name" >/tmp/kloc.out 2>&1 || {
		sed 's/^/# /' /tmp/kloc.out
		bad=1
	}
done
result $bad "the-cases-pass"
echo 0 >$TRACE/events/kloc/enable
cat $TRACE/trace >$RECORD
echo nop >$TRACE/current_tracer
echo "# $(grep -c kloc_input: $RECORD) inputs, $(grep -c kloc_decision: $RECORD) decisions"
[ "$(grep -c 'kloc_decision: what=demote' $RECORD)" -gt 5 ] && ! grep -q LOST $RECORD
result $? "the-record-is-whole"

lodic-sim tier --replay $RECORD >/tmp/replay.out 2>&1
status=$?
sed 's/^/# /' /tmp/replay.out | tail -5
[ $status = 0 ] || sed 's/^/# record: /' $RECORD
result $status "the-same-decisions"

awk '!done && /kloc_decision: what=demote/ && sub(/why=state/, "why=age") { done = 1 } { print }' \
	$RECORD >$RECORD.broken
cmp -s $RECORD $RECORD.broken && echo "# nothing was changed"
! lodic-sim tier --replay $RECORD.broken >/tmp/replay.out 2>&1
status=$?
sed 's/^/# /' /tmp/replay.out | tail -2
result $status "another-decision-is-noticed"
echo local >$TRACE/trace_clock
rm -f $RECORD $RECORD.broken
exit $failed
