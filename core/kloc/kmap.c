/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The kmap: the knode of an inode, or of a segment of its file. A hash, whose chains run through
 * the knodes. With parameters.trees the paper's red-black tree stands beside it (KLOCs s.4.2.2);
 * segments are not in it, because the paper has none.
 */
#include "core/kloc/state.h"

#define KMAP_HASH 0x9e3779b97f4a7c15ull

static u32 *bucket_of(const struct kloc *k, u64 inode, u32 segment)
{
	u64 hash = (inode + ((u64)segment << 32 | segment)) * KMAP_HASH;

	return &k->buckets[hash >> 32 & (k->nr_buckets - 1)];
}

static u64 inode_of(const struct kloc *k, u32 knode)
{
	return host_load_relaxed(&k->lists.names[knode].inode);
}

u32 kloc_kmap_find(struct kloc *k, u64 inode, u32 segment)
{
	u32 knode = *bucket_of(k, inode, segment);

	if (k->knode_tree && !segment)
		return tree_find(k->knode_tree, k->kmap_root, inode, &k->walks);
	while (knode != KLOC_NONE &&
	       (inode_of(k, knode) != inode || k->knodes[knode].segment != segment))
		knode = k->knodes[knode].chain;
	return knode;
}

void kloc_kmap_add(struct kloc *k, u32 knode, u64 inode)
{
	struct knode *n = &k->knodes[knode];
	u32 *bucket = bucket_of(k, inode, n->segment);

	knode_list_name(&k->lists, knode, inode);
	n->chain = *bucket;
	*bucket = knode;
	if (k->knode_tree && !n->segment)
		tree_insert(k->knode_tree, &k->kmap_root, knode, inode, &k->walks);
}

void kloc_kmap_remove(struct kloc *k, u32 knode)
{
	struct knode *n = &k->knodes[knode];
	u32 *link = bucket_of(k, inode_of(k, knode), n->segment);

	while (*link != knode)
		link = &k->knodes[*link].chain;
	*link = n->chain;
	n->chain = KLOC_NONE;
	if (k->knode_tree && !n->segment)
		tree_remove(k->knode_tree, &k->kmap_root, knode, &k->walks);
	knode_list_forget(&k->lists, knode);
}

void kloc_kmap_walk(struct kloc *k, u32 knode)
{
	u32 found;

	if (!k->knode_tree || k->knodes[knode].segment ||
	    k->knodes[knode].life.state == KLOC_UNLINKED)
		return;
	found = tree_find(k->knode_tree, k->kmap_root, inode_of(k, knode), &k->walks);
	CHECK(found == knode, "KL15: the kmap has the inode's knode");
}

u32 kloc_find(struct kloc *k, u64 inode, u32 cpu)
{
	struct knode_token found =
		knode_list_find(&k->lists, cpu, inode, &k->stat.list_stale);
	u32 knode;

	/* A list may have found a segment: its file's knode is the master. */
	if (found.knode != KLOC_NONE) {
		k->stat.list_hits++;
		return k->knodes[found.knode].master;
	}
	k->stat.list_misses++;
	knode = kloc_kmap_find(k, inode, 0);
	if (knode != KLOC_NONE)
		knode_list_use(&k->lists, cpu, knode_list_token(&k->lists, knode));
	return knode;
}
