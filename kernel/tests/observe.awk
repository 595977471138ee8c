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
# The paper's kinds of slab memory, by the name of the cache.
function kind_of(cache) {
	if (cache ~ /inode_cache$/) return "inode"
	if (cache == "dentry") return "dentry"
	if (cache ~ /^(bio|buffer_head|biovec)/) return "block"
	if (cache ~ /^jbd2/) return "journal"
	if (cache ~ /^ext4_(extent|es|fc|pending)/) return "extent"
	if (cache ~ /^skbuff/) return "skbuff"
	if (cache == "radix_tree_node") return "page cache tree"
	return "other slab"
}
# busybox may have no powers.
function pages_of(order,    n) {
	for (n = 1; order > 0; order--)
		n *= 2
	return n
}
function page_is(pfn, class) {
	pages[is[pfn]] -= size[pfn]
	pages[class] += size[pfn]
	is[pfn] = class
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
# Pages by kind: the first that a task gets inside allocate_slab() are a slab's. Those that users
# get are anonymous until they come into the page cache.
event == "slab_new" { in_slab[pid] = 1 }
event == "mm_page_alloc" {
	size[pfn] = pages_of(field("order"))
	class = field("gfp_flags") ~ /MOVABLE/ ? "anonymous" : "other kernel"
	if (in_slab[pid])
		class = "slab"
	delete in_slab[pid]
	is[pfn] = class
	pages[class] += size[pfn]
	born["page", pfn] = now
}
event == "mm_page_free" && ("page", pfn) in born {
	if (is[pfn] == "anonymous" || is[pfn] == "slab")
		held(is[pfn] " page", now - born["page", pfn])
	delete born["page", pfn]
}
event == "mm_filemap_add_to_page_cache" {
	if (("page", pfn) in born)
		page_is(pfn, "page cache")
	born["cache", pfn] = now
}
event == "mm_filemap_delete_from_page_cache" && ("cache", pfn) in born {
	held("page cache", now - born["cache", pfn])
	delete born["cache", pfn]
}
event == "kmem_cache_alloc" {
	born["slab", field("ptr")] = now
	site[field("ptr")] = field("call_site")
}
event == "kmem_cache_free" && ("slab", field("ptr")) in born {
	at = field("ptr")
	kind = kind_of(field("name"))
	of_site[site[at]] = kind
	held(kind, now - born["slab", at])
	delete born["slab", at]
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
	# What still lives: a slab object is of the kind of others of its call site.
	for (b in born) {
		split(b, part, SUBSEP)
		kind = part[1] == "cache" ? "page cache" : part[1] == "page" ? is[part[2]] " page" :
			(site[part[2]] in of_site) ? of_site[site[part[2]]] : "other slab"
		alive[kind]++
	}
	for (class in pages)
		printf "pages|%s|%s|%d\n", who, class, pages[class]
	for (kind in alive)
		printf "alive|%s|%s|%d\n", who, kind, alive[kind]
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
		printf "%s|%s|%s|%d|%d|%d|%d\n", lives ? "lived" : "held", who, kind, n,
			v[int((n + 1) / 2)], v[int(n * (lives ? 0.9 : 0.99) + 0.5)], v[n]
	}
}
