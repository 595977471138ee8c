/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Red-black trees over numbered nodes: the paper's kmap, rbtree-cache and rbtree-slab
 * (KLOCs s.4.2.2, s.4.2.3). The room needs none of them: lists and a hash do the same in O(1).
 * With parameters.trees they are kept besides, so that their walks are real and can be counted
 * (ADR-0030). A key may occur twice; nodes with one key are ordered by their number.
 *
 * Invariants
 * KL30 In order: a node's left subtree is before it, its right one after it.
 * KL31 The root is black, and a red node has no red child. All paths from a node down to a missing
 *      child have the same number of black nodes.
 */
#ifndef LODIC_CORE_KLOC_TREE_H
#define LODIC_CORE_KLOC_TREE_H

#include "core/check.h"

#define TREE_NONE 0xffffffffu

struct tree_node {
	u64 key;
	u32 child[2];
	u32 parent;
	bool red;
};
_Static_assert(sizeof(struct tree_node) == 24, "as many bytes as Linux's rb_node");

/* The nodes are an array that trees share; a tree is the number of its root. */
struct tree_walks {
	u64 walks;  /* searches, insertions and removals */
	u64 visits; /* nodes looked at in them */
};

void tree_insert(struct tree_node *nodes, u32 *root, u32 node, u64 key,
                 struct tree_walks *w);
void tree_remove(struct tree_node *nodes, u32 *root, u32 node, struct tree_walks *w);
/* The first node with that key; TREE_NONE: none has it. */
u32 tree_find(const struct tree_node *nodes, u32 root, u64 key, struct tree_walks *w);
/* In order. node TREE_NONE: the first one. TREE_NONE: it was the last one. */
u32 tree_next(const struct tree_node *nodes, u32 root, u32 node);
/* Asserts KL30 and KL31, and returns the number of nodes. */
u32 tree_check(const struct tree_node *nodes, u32 root);

#endif
