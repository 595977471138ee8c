#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# lodic's service and a program in one control group of version 2, as a kernel has it. sqlite3
# fills the cache. Then the program's own memory grows until less than an eighth of the limit is
# left. The service must make the cache smaller before the kernel kills anybody, and sqlite3 must
# still get the same answer. `lodic doctor` must know the limit.
export PATH=$PATH:/usr/bin:/opt/lodic
GROUP=/sys/fs/cgroup/lodic-test
LIMIT=192
FILE=/mnt/ext4/group.db
SOCKET=/tmp/group.sock
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
inside() { # command: in the group
	sh -c 'echo $$ >'$GROUP/cgroup.procs'; exec "$@"' sh "$@"
}
stat() { # name
	lodic stat --json -s $SOCKET | grep -o "\"$1\": *[0-9]*" | grep -o '[0-9]*$'
}
query() {
	inside lodic run -s $SOCKET -- sqlite3 -readonly $FILE "$QUERY"
}
number_in() { # file key
	awk -v key="$2" '$1 == key { print $2 }' "$GROUP/$1"
}

echo "KTAP version 1"
if ! grep -qw memory /sys/fs/cgroup/cgroup.controllers; then
	echo "1..0 # SKIP this kernel has no control groups of version 2 for memory"
	exit 4
fi
echo "1..5"
echo +memory >/sys/fs/cgroup/cgroup.subtree_control
mkdir $GROUP
echo ${LIMIT}M >$GROUP/memory.max
sqlite3 $FILE "create table t(n integer primary key, b blob);
	with recursive c(n) as (select 1 union all select n + 1 from c where n < 12000)
	insert into t select n, randomblob(4000) from c" || exit 1
want=$(sqlite3 -readonly $FILE "$QUERY")

inside lodic serve -m 64M -s $SOCKET >/tmp/group.out 2>/tmp/group.err &
while ! lodic stat -s $SOCKET >/dev/null 2>&1; do usleep 100000; done
for round in 1 2 3; do
	[ "$(query)" = "$want" ] || echo "# wrong answer"
done
filled=$(stat cached)
before=$(stat frames)
echo "# cached: $filled of $before frames; the group: $(cat $GROUP/memory.current) bytes"
[ "$filled" -gt 8000 ]
result $? "cache-is-filled"

# Memory that is no file's: of the group, and more and more of it.
used=0
while [ "$(stat frames)" = "$before" ] && [ $used -lt $LIMIT ]; do
	used=$((used + 2))
	inside dd if=/dev/zero of=/dev/shm/use.$used bs=1M count=2 2>/dev/null
	usleep 500000
done
echo "# after $used MiB of another program: $(stat frames) frames"
[ "$(stat frames)" -lt "$before" ]
result $? "cache-shrinks"
! [ "$(number_in memory.events oom_kill)" -gt 0 ] && grep -q "the control group has" /tmp/group.err
result $? "nobody-is-killed"
[ "$(query)" = "$want" ]
result $? "answers-stay-right"

inside lodic doctor --json=/tmp/doctor.json -- sqlite3 -readonly $FILE "$QUERY" \
	>/tmp/doctor.out 2>&1
grep -q '"limit_bytes": *'$((LIMIT << 20)) /tmp/doctor.json || {
	cat /tmp/doctor.out
	false
}
result $? "doctor-knows-the-limit"

sed 's/^/# /' /tmp/group.err
kill "$(stat service_pid)"
wait
while [ -n "$(cat $GROUP/cgroup.procs)" ]; do usleep 100000; done
rm -f /dev/shm/use.* $FILE
rmdir $GROUP
exit $failed
