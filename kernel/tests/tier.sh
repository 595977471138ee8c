#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# lodic's service on a machine with two tiers of memory: node 1 has no processor. The service
# must bind its fast tier to node 0 and its slow one to node 1. A file must go from one to the
# other and back, while sqlite3 reads it and gets the same answer. Where the bytes are, the
# kernel says: /proc/PID/numa_maps of the service.
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
query() {
	[ "$(lodic run -s $SOCKET -- sqlite3 -readonly $FILE "$QUERY")" = "$want" ] || {
		echo "# wrong answer"
		touch /tmp/tier.wrong
	}
}
# Pages of the cache's blocks on a node.
pages() { # node
	awk -v node="N$1=" '/memfd:lodic/ { for (i = 1; i <= NF; i++) if (index($i, node) == 1)
		n += substr($i, length(node) + 1) } END { print n + 0 }' "/proc/$pid/numa_maps"
}
# Blocks of the file in a tier, as the service says.
blocks() { # fast|slow
	lodic tier --json -s $SOCKET | tr '{' '\n' | grep tier.db |
		grep -o "\"$1\": *[0-9]*" | grep -o '[0-9]*$'
}
show() {
	echo "# $1: $(blocks fast) blocks fast, $(blocks slow) slow;" \
		"$(pages 0) pages on node 0, $(pages 1) on node 1"
}

echo "KTAP version 1"
if [ "$(cat $NODES/has_memory)" != 0-1 ] || [ "$(cat $NODES/has_cpu)" != 0 ]; then
	echo "1..0 # SKIP no node of memory alone"
	exit 4
fi
echo "1..6"
sqlite3 $FILE "create table t(n integer primary key, b blob);
	with recursive c(n) as (select 1 union all select n + 1 from c where n < 2000)
	insert into t select n, randomblob(4000) from c" || exit 1
want=$(sqlite3 -readonly $FILE "$QUERY")

lodic serve -m 64M --fast-memory 16M --holds 0 --huge-pages off -s $SOCKET \
	>/tmp/tier.out 2>/tmp/tier.err &
while ! lodic stat -s $SOCKET >/dev/null 2>&1; do usleep 100000; done
pid=$(lodic stat --json -s $SOCKET | grep -o '"service_pid": *[0-9]*' | grep -o '[0-9]*$')
grep -q "fast on node 0,.* slow on node 1" /tmp/tier.err
result $? "tiers-are-nodes"

for round in 1 2 3; do query; done
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
kill "$pid"
wait
sed 's/^/# /' /tmp/tier.err

lodic serve -m 64M --fast-memory 16M --fast '/nothing' --slow '/mnt/ext4/*' --holds 0 \
	--huge-pages off -s $SOCKET >/tmp/tier.out 2>/tmp/tier.err &
while ! lodic stat -s $SOCKET >/dev/null 2>&1; do usleep 100000; done
pid=$(lodic stat --json -s $SOCKET | grep -o '"service_pid": *[0-9]*' | grep -o '[0-9]*$')
for round in 1 2 3; do query; done
show "placed by a glob"
[ "$(blocks slow)" -ge 2000 ] && [ "$(pages 1)" -ge 2000 ]
result $? "placed-slow"
kill "$pid"
wait
rm -f $FILE
exit $failed
