#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Linux's own selftests (tools/testing/selftests, built by tool/selftests.py), as selftests.list
# says. Those of mm show that with LODIC on, every way to change entries and to look
# at them works as before. Few of these programs read files, so they hold few local
# references. With the argument "long" the script runs the long ones, but only in a boot with
# lodic.long on the command line.
list=/tests/selftests.list
programs=/opt/selftests
log=/tmp/selftest.log
wanted=${1:-short}
number=0
failed=0

rows() {
	sed 's/#.*//' $list | awk -v wanted="$wanted" \
		'NF && (wanted == "short" || $2 ~ /^long:/)'
}

skip() { # name why
	echo "ok $number $1 # SKIP $2"
}

result() { # status name
	case $1 in
	0)
		if grep -q 'otals: pass:0 fail:0 ' $log; then
			skip "$2" "it skips all of its cases"
		else
			echo "ok $number $2"
		fi
		;;
	4) skip "$2" "$(tail -n 1 $log)" ;;
	*)
		grep -vi 'skip' $log | tail -n 25 | sed 's/^/# | /'
		# A program that was killed may have left its last line open.
		echo
		echo "not ok $number $2: status $1"
		failed=1
		;;
	esac
}

# In a folder of its own, so that nothing that it leaves is in the way of the next.
run() { # seconds program arguments
	seconds=$(($1 * ${LODIC_SLOW:-1}))
	name=$(echo "$2 $3 $4" | sed 's/ *$//; s/[ /]/-/g; s/--*/-/g')
	program=$programs/$2
	shift 2
	mkdir -p /tmp/selftest
	began=$(cut -d. -f1 /proc/uptime)
	(cd /tmp/selftest && exec timeout -s KILL "$seconds" "$program" "$@") \
		< /dev/null > $log 2>&1
	status=$?
	echo "# $name: $(($(cut -d. -f1 /proc/uptime) - began)) s" \
		"$(grep -iE '^# totals|unit tests: pass' $log | tail -n 1 | tr -d '#')"
	result $status "$name"
	rm -rf /tmp/selftest
}

row() { # program seconds arguments
	if [ "$2" = skip ]; then
		program=$1
		shift 2
		skip "$program" "$*"
		return
	fi
	program=$1
	seconds=$2
	shift 2
	case $1 in
	if:*)
		if [ ! -e "${1#if:}" ]; then
			skip "$program" "no ${1#if:} in this kernel"
			return
		fi
		shift
		;;
	esac
	case $seconds in
	long:*)
		if [ $wanted = short ]; then
			skip "$program" "long: it is in selftests_long"
			return
		fi
		;;
	esac
	run "${seconds#long:}" "$program" "$@"
}

if [ "$wanted" = long ] && ! grep -qw lodic.long /proc/cmdline; then
	echo "1..0 # SKIP 4 minutes: kernel/run test -k selftests_long --append lodic.long"
	exit 4
fi
if [ ! -d $programs ]; then
	echo "1..0 # SKIP no selftests in this image"
	exit 4
fi
echo "KTAP version 1"
echo "1..$(rows | wc -l)"
# mremap_test maps 2 GiB and uses little of them: refused otherwise. khugepaged maps at 1 GiB,
# where a heap at a random place sometimes is. Local references at one mapper.
settings="vm/overcommit_memory=1 kernel/randomize_va_space=1 vm/lodic_mappers=1"
old=
for setting in $settings; do
	file=/proc/sys/${setting%=*}
	[ -e "$file" ] || continue
	old="$old ${setting%=*}=$(cat "$file")"
	echo "${setting#*=}" > "$file"
done
rows > /tmp/selftests.rows
while read -r words; do
	number=$((number + 1))
	# Word splitting is meant.
	row $words
done < /tmp/selftests.rows
for setting in $old; do
	echo "${setting#*=}" > "/proc/sys/${setting%=*}"
done
rm -f $log /tmp/selftests.rows
exit $failed
