# SPDX-License-Identifier: GPL-2.0
# Reads a trace; see observe.sh. A line is "comm-PID [cpu] flags TIME: EVENT: fields".
function field(name,    i) {
	for (i = 1; i <= NF; i++)
		if (index($i, name "=") == 1)
			return substr($i, length(name) + 2)
	return ""
}
function held(kind, dt) {
	nr[kind]++
	all[kind, nr[kind]] = dt
}
/^#/ { next }
{
	for (i = 1; i <= NF; i++)
		if ($i ~ /^\[[0-9]+\]$/)
			break
	pid = $(i - 1)
	sub(/.*-/, "", pid)
	now = $(i + 2)
	sub(/:$/, "", now)
	event = $(i + 3)
	sub(/:$/, "", event)
	pfn = field("pfn")
	mm = who ~ /^nginx/ ? pid : "one"
}
event == "lodic_ref" {
	addr = field("addr")
	entry[pid, pfn] = mm " " addr
	began[pid, pfn] = now
	page[pfn]++
	in_entry[mm " " addr]++
	if (page[pfn] > most[pfn]) most[pfn] = page[pfn]
	if (in_entry[mm " " addr] > most_entry) most_entry = in_entry[mm " " addr]
}
event == "lodic_unref" && (pid, pfn) in entry {
	page[pfn]--
	in_entry[entry[pid, pfn]]--
	held("page", now - began[pid, pfn])
	delete entry[pid, pfn]
}
event ~ /_get2?$/ {
	kind = event
	sub(/_get2?$/, "", kind)
	at = field("at")
	# The lowest bits of what fdget() returns are flags: 0 says that it took no reference.
	if (kind == "file") {
		if (at !~ /[13579bdf]$/)
			next
		at = substr(at, 1, length(at) - 1)
	}
	since[kind, at, pid] = now
}
event ~ /_put$/ {
	kind = event
	sub(/_put$/, "", kind)
	at = field("at")
	if (kind == "file")
		at = substr(at, 1, length(at) - 1)
	if ((kind, at, pid) in since) {
		held(kind, now - since[kind, at, pid])
		delete since[kind, at, pid]
	}
}
END {
	if (!times) {
		for (p in most)
			folios[most[p]]++
		for (m in folios)
			printf "most|%s|%d|%d\n", who, m, folios[m]
		printf "most-entry|%s|%d\n", who, most_entry
		exit
	}
	for (kind in nr) {
		n = nr[kind]
		for (i = 1; i <= n; i++)
			print all[kind, i] | "sort -n >/tmp/sorted"
		close("sort -n >/tmp/sorted")
		i = 0
		while ((getline x <"/tmp/sorted") > 0)
			v[++i] = x
		close("/tmp/sorted")
		printf "held|%s|%s|%d|%d|%d|%d\n", who, kind, n, v[int((n + 1) / 2)],
			v[int(n * 0.99 + 0.5)], v[n]
	}
}
