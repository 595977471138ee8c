# SPDX-License-Identifier: GPL-2.0
# Reads a trace; see observe.sh. A line is "comm-PID [cpu] flags TIME: EVENT: fields".
# These drop what a socket held, and not what a packet did.
BEGIN { SOCKETS = "^(inet_sock_destruct|__sk_destruct|tcp_v4_connect)$" }
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
# A packet counts its dst entry from __dev_queue_xmit() until its receiver drops it. One
# processor delivers packets in their order. So the first that was sent is the first to drop.
event == "dst_xmit" {
	at = field("ref")
	# The lowest bit says that the packet has not counted its entry yet.
	takes = at ~ /[13579bdf]$/
	call[takes ? "takes|__dev_queue_xmit" : "takes none|__dev_queue_xmit"]++
	at = substr(at, 1, length(at) - 1)
	sent[at, ++last[at]] = takes ? now : 0
}
event == "dst_route" { call["takes|ip_route_output_key_hash_rcu"]++ }
event == "dst_rx" {
	takes = field("ref") !~ /^0x0+$/
	call[(takes ? "takes" : "takes none") "|inet_sk_rx_dst_set"]++
}
event == "dst_put" && field("at") !~ /^0x0+$/ {
	at = field("at")
	from = field("from")
	sub(/\+.*/, "", from)
	call["drops|" from]++
	at = substr(at, 1, length(at) - 1)
	if (from ~ SOCKETS || first[at] == last[at])
		next
	if (sent[at, ++first[at]])
		held("dst", now - sent[at, first[at]])
}
END {
	for (c in call)
		printf "dst|%s|%s|%d\n", who, c, call[c]
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
