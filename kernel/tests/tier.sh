#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# lodic's service on a machine with two tiers of memory: node 1 has no processor. The service
# must bind its fast tier to node 0 and its slow one to node 1. A file must go from one to the
# other and back, while sqlite3 reads it and gets the same answer. Where the bytes are, the
# kernel says: /proc/PID/numa_maps of the service. A hold must go there too when no program has it.
# Where its pages are is in numa_maps of the next program that has it.
#
# The test `tier_nodes' has two nodes with processors. Programs of each must get a copy of a hold on
# their own. Blocks must follow the programs from node to node.
export PATH=$PATH:/usr/bin:/opt/lodic
FILE=/mnt/ext4/tier.db
SOCKET=/tmp/tier.sock
NODES=/sys/devices/system/node
QUERY="select count(*), sum(n), sum(length(b)) from t"
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
query() { # [words in front of the program]
	[ "$("$@" lodic run -s $SOCKET -- sqlite3 -readonly $FILE "$QUERY")" = "$want" ] || {
		echo "# wrong answer"
		touch /tmp/tier.wrong
	}
}
# Pages of the cache's blocks on a node.
pages() { # node
	awk -v node="N$1=" '/memfd:lodic/ { for (i = 1; i <= NF; i++) if (index($i, node) == 1)
		n += substr($i, length(node) + 1) } END { print n + 0 }' "/proc/$pid/numa_maps"
}
# A program that maps the file until release.
map_file() { # [words in front of the program]
	rm -f /tmp/tier.fifo /tmp/tier.answer
	mkfifo /tmp/tier.fifo
	"$@" lodic run -s $SOCKET --mmap='/mnt/ext4/*' -- sqlite3 -readonly $FILE \
		</tmp/tier.fifo >/tmp/tier.answer &
	holder=$!
	exec 5>/tmp/tier.fifo
	echo "pragma mmap_size=100000000; $QUERY;" >&5
	for try in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do
		[ "$(wc -l </tmp/tier.answer)" -ge 2 ] && break
		usleep 200000
	done
	[ "$(tail -n 1 /tmp/tier.answer)" = "$want" ] || {
		echo "# wrong answer from a hold"
		touch /tmp/tier.wrong
	}
}
release() {
	exec 5>&-
	wait $holder
}
# The same, and it has the hold: the first mmap() may not wait until the service has read that.
hold() { # [words in front of the program]
	for try in 1 2 3 4 5; do
		map_file "$@"
		[ $(($(hold_pages 0) + $(hold_pages 1))) -gt 0 ] && return
		release
		usleep 500000
	done
	map_file "$@"
}
# Pages of the hold on a node.
hold_pages() { # node
	awk -v node="N$1=" '/memfd:lodic-hold/ { for (i = 1; i <= NF; i++) if (index($i, node) == 1)
		n += substr($i, length(node) + 1) } END { print n + 0 }' "/proc/$holder/numa_maps"
}
# Does the hold lie on that node alone?
held_on() { # node other
	echo "# the hold: $(hold_pages 0) pages on node 0, $(hold_pages 1) on node 1"
	[ "$(hold_pages "$1")" -ge 2000 ] && [ "$(hold_pages "$2")" = 0 ]
}
# Holds in a tier, as the service says.
holds() { # fast|slow
	lodic tier --json -s $SOCKET | tr '{' '\n' | grep "\"tier\": *\"$1\"" |
		grep -o '"holds": *[0-9]*' | grep -o '[0-9]*$'
}
# Until the tier has so many.
holds_come() { # fast|slow number
	for try in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do
		[ "$(holds "$1")" = "$2" ] && return 0
		usleep 500000
	done
	return 1
}
stat() { # name
	lodic stat --json -s $SOCKET | grep -o "\"$1\": *[0-9]*" | grep -o '[0-9]*$'
}
# A service with these options, until stop.
start() {
	lodic serve -m 96M --fast-memory 16M --huge-pages off -s $SOCKET "$@" \
		>/tmp/tier.out 2>/tmp/tier.err &
	while ! lodic stat -s $SOCKET >/dev/null 2>&1; do usleep 100000; done
	pid=$(stat service_pid)
}
stop() {
	kill "$pid"
	wait
	sed 's/^/# /' /tmp/tier.err
}
make_file() {
	sqlite3 $FILE "create table t(n integer primary key, b blob);
		with recursive c(n) as (select 1 union all select n + 1 from c where n < 2000)
		insert into t select n, randomblob(4000) from c" || exit 1
	want=$(sqlite3 -readonly $FILE "$QUERY")
}
# Until the file's blocks are in that tier, or programs have read it often.
blocks_come() { # fast|slow [words in front of the program]
	tier=$1
	shift
	for try in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do
		[ "$(blocks "$tier")" -ge 2000 ] && return 0
		query "$@"
		usleep 200000
	done
	return 1
}
# Blocks of the file in a tier, as the service says.
blocks() { # fast|slow
	lodic tier --json -s $SOCKET | tr '{' '\n' | grep tier.db | head -n 1 |
		grep -o "\"$1\": *[0-9]*" | grep -o '[0-9]*$'
}
show() {
	echo "# $1: $(blocks fast) blocks fast, $(blocks slow) slow;" \
		"$(pages 0) pages on node 0, $(pages 1) on node 1"
}

echo "KTAP version 1"
if [ "$1" = nodes ]; then
	if [ "$(cat $NODES/has_memory)" != 0-1 ] || [ "$(cat $NODES/has_cpu)" != 0-1 ]; then
		echo "1..0 # SKIP no two nodes with memory and processors"
		exit 4
	fi
	echo "1..6"
	make_file
	near="taskset 1"
	far="taskset 4"
	grep -q "^processor.*: 2" /proc/cpuinfo && [ -e $NODES/node1/cpu2 ] || exit 1
	start --immutable '/mnt/ext4/*' --replicate '/mnt/ext4/*'
	hold $near
	held_on 0 1
	result $? "copy-near"
	release
	hold $far
	held_on 1 0
	result $? "copy-far"
	release
	hold $near
	held_on 0 1 && [ "$(stat holds_read)" = 2 ]
	result $? "copies-are-shared"
	release
	lodic tier -s $SOCKET | sed 's/^/# /'
	stop
	start --holds 0 --policy kloc-numa --policy-tick 0.1
	blocks_come slow $far
	show "read on node 1" && [ "$(blocks slow)" -ge 2000 ] && [ "$(pages 1)" -ge 2000 ]
	result $? "blocks-come-in-far"
	blocks_come fast $near
	show "read on node 0" && [ "$(blocks fast)" -ge 2000 ]
	result $? "blocks-follow-near"
	[ ! -e /tmp/tier.wrong ]
	result $? "answers-stay-right"
	lodic tier -s $SOCKET | sed 's/^/# /'
	stop
	rm -f $FILE
	exit $failed
fi
if [ "$(cat $NODES/has_memory)" != 0-1 ] || [ "$(cat $NODES/has_cpu)" != 0 ]; then
	echo "1..0 # SKIP no node of memory alone"
	exit 4
fi
echo "1..11"
make_file

start --holds 0
grep -q "fast on node 0,.* slow on node 1" /tmp/tier.err
result $? "tiers-are-nodes"

blocks_come fast
show "filled"
[ "$(blocks fast)" -ge 2000 ] && [ "$(blocks slow)" = 0 ]
result $? "filled-fast"
before=$(pages 1)

while [ ! -e /tmp/tier.stop ]; do query; done &
reader=$!
lodic tier --to slow --wait -s $SOCKET $FILE
show "to slow"
[ "$(blocks slow)" -ge 2000 ] && [ $(($(pages 1) - before)) -ge 2000 ]
result $? "moved-to-slow"
round=0
while [ $round -lt 10 ]; do
	round=$((round + 1))
	lodic tier --to fast --wait -s $SOCKET $FILE
	lodic tier --to slow --wait -s $SOCKET $FILE
done
lodic tier --to fast --wait -s $SOCKET $FILE
show "to fast"
[ "$(blocks fast)" -ge 2000 ]
result $? "moved-to-fast"
touch /tmp/tier.stop
wait $reader
lodic tier -s $SOCKET | sed 's/^/# /'
query
[ ! -e /tmp/tier.wrong ]
result $? "answers-stay-right"
stop

start --fast '/nothing' --slow '/mnt/ext4/*' --holds 0
blocks_come slow
show "placed by a glob"
[ "$(blocks slow)" -ge 2000 ] && [ "$(pages 1)" -ge 2000 ]
result $? "placed-slow"
stop

start --holds 32M
hold
held_on 0 1
result $? "hold-is-made-fast"
lodic tier --to slow --wait -s $SOCKET $FILE
held_on 0 1 && [ "$(holds fast)" = 1 ]
result $? "hold-stays-while-held"
release
holds_come slow 1
hold
held_on 1 0 && [ "$(stat holds_read)" = 1 ]
result $? "hold-moved-to-slow"
release
lodic tier --to fast --wait -s $SOCKET $FILE
hold
held_on 0 1 && [ "$(stat holds_read)" = 1 ]
result $? "hold-moved-to-fast"
release
lodic tier -s $SOCKET | sed 's/^/# /'
stop

start --holds 32M --policy kloc
hold
release
holds_come slow 1 && [ ! -e /tmp/tier.wrong ]
result $? "hold-demoted-at-last-close"
lodic tier -s $SOCKET | sed 's/^/# /'
stop
rm -f $FILE
exit $failed
