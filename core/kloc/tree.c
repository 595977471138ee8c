/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Red-black trees over numbered nodes. See tree.h. */
#include "core/kloc/tree.h"

/* A red-black tree of 2^32 nodes is not higher. */
#define TREE_MAX_HEIGHT 64u

static bool is_red(const struct tree_node *nodes, u32 node)
{
	return node != TREE_NONE && nodes[node].red;
}

static bool is_before(const struct tree_node *nodes, u64 key, u32 node, u32 other)
{
	return key < nodes[other].key || (key == nodes[other].key && node < other);
}

/* other takes the place of node below node's parent. */
static void put_in_place(struct tree_node *nodes, u32 *root, u32 node, u32 other)
{
	u32 parent = nodes[node].parent;

	if (parent == TREE_NONE)
		*root = other;
	else
		nodes[parent].child[nodes[parent].child[1] == node] = other;
	if (other != TREE_NONE)
		nodes[other].parent = parent;
}

/* node sinks to side; its child of the other side takes its place. */
static void rotate(struct tree_node *nodes, u32 *root, u32 node, u32 side)
{
	u32 up = nodes[node].child[!side], inner = nodes[up].child[side];

	put_in_place(nodes, root, node, up);
	nodes[node].child[!side] = inner;
	if (inner != TREE_NONE)
		nodes[inner].parent = node;
	nodes[up].child[side] = node;
	nodes[node].parent = up;
}

static void mend_insert(struct tree_node *nodes, u32 *root, u32 node)
{
	while (is_red(nodes, nodes[node].parent)) {
		u32 parent = nodes[node].parent, above = nodes[parent].parent;
		u32 side = nodes[above].child[1] == parent;
		u32 uncle = nodes[above].child[!side];

		if (is_red(nodes, uncle)) {
			nodes[parent].red = nodes[uncle].red = false;
			nodes[above].red = true;
			node = above;
			continue;
		}
		if (nodes[parent].child[!side] == node) {
			rotate(nodes, root, parent, side);
			parent = node;
		}
		nodes[parent].red = false;
		nodes[above].red = true;
		rotate(nodes, root, above, !side);
		break;
	}
	nodes[*root].red = false;
}

void tree_insert(struct tree_node *nodes, u32 *root, u32 node, u64 key,
                 struct tree_walks *w)
{
	u32 parent = TREE_NONE, at = *root, side = 0;

	w->walks++;
	while (at != TREE_NONE) {
		w->visits++;
		parent = at;
		side = !is_before(nodes, key, node, at);
		at = nodes[at].child[side];
	}
	nodes[node] = (struct tree_node){ .key = key,
		                          .child = { TREE_NONE, TREE_NONE },
		                          .parent = parent,
		                          .red = true };
	if (parent == TREE_NONE)
		*root = node;
	else
		nodes[parent].child[side] = node;
	mend_insert(nodes, root, node);
}

/* The path to node, a child of parent or missing, has one black node too few. */
static void mend_remove(struct tree_node *nodes, u32 *root, u32 node, u32 parent)
{
	while (node != *root && !is_red(nodes, node)) {
		u32 side = nodes[parent].child[1] == node &&
		           nodes[parent].child[0] != node;
		u32 sibling = nodes[parent].child[!side];

		if (nodes[sibling].red) {
			nodes[sibling].red = false;
			nodes[parent].red = true;
			rotate(nodes, root, parent, side);
			sibling = nodes[parent].child[!side];
		}
		if (!is_red(nodes, nodes[sibling].child[0]) &&
		    !is_red(nodes, nodes[sibling].child[1])) {
			nodes[sibling].red = true;
			node = parent;
			parent = nodes[node].parent;
			continue;
		}
		if (!is_red(nodes, nodes[sibling].child[!side])) {
			nodes[nodes[sibling].child[side]].red = false;
			nodes[sibling].red = true;
			rotate(nodes, root, sibling, !side);
			sibling = nodes[parent].child[!side];
		}
		nodes[sibling].red = nodes[parent].red;
		nodes[parent].red = false;
		nodes[nodes[sibling].child[!side]].red = false;
		rotate(nodes, root, parent, side);
		node = *root;
	}
	if (node != TREE_NONE)
		nodes[node].red = false;
}

/* The paper's walk: from the root to the node. */
static void count_walk(const struct tree_node *nodes, u32 node, struct tree_walks *w)
{
	w->walks++;
	for (; node != TREE_NONE; node = nodes[node].parent)
		w->visits++;
}

void tree_remove(struct tree_node *nodes, u32 *root, u32 node, struct tree_walks *w)
{
	u32 next = node, rest, parent;
	bool was_red;

	count_walk(nodes, node, w);
	if (nodes[node].child[0] != TREE_NONE && nodes[node].child[1] != TREE_NONE) {
		next = nodes[node].child[1];
		while (nodes[next].child[0] != TREE_NONE) {
			next = nodes[next].child[0];
			w->visits++;
		}
	}
	rest = nodes[next].child[nodes[next].child[0] == TREE_NONE];
	parent = nodes[next].parent;
	was_red = nodes[next].red;
	put_in_place(nodes, root, next, rest);
	if (next != node) {
		/* next takes node's place, children and colour. */
		if (parent == node)
			parent = next;
		put_in_place(nodes, root, node, next);
		nodes[next].red = nodes[node].red;
		for (u32 side = 0; side < 2; side++) {
			u32 child = nodes[node].child[side];

			nodes[next].child[side] = child;
			if (child != TREE_NONE)
				nodes[child].parent = next;
		}
	}
	if (!was_red && *root != TREE_NONE)
		mend_remove(nodes, root, rest, parent);
}

u32 tree_find(const struct tree_node *nodes, u32 root, u64 key, struct tree_walks *w)
{
	u32 at = root, found = TREE_NONE;

	w->walks++;
	while (at != TREE_NONE) {
		w->visits++;
		if (nodes[at].key == key)
			found = at;
		at = nodes[at].child[nodes[at].key < key];
	}
	return found;
}

u32 tree_next(const struct tree_node *nodes, u32 root, u32 node)
{
	u32 at = node == TREE_NONE ? root : nodes[node].child[1];

	if (at != TREE_NONE) {
		while (nodes[at].child[0] != TREE_NONE)
			at = nodes[at].child[0];
		return at;
	}
	while (node != TREE_NONE) {
		u32 parent = nodes[node].parent;

		if (parent == TREE_NONE || nodes[parent].child[0] == node)
			return parent;
		node = parent;
	}
	return TREE_NONE;
}

static u32 blacks_above(const struct tree_node *nodes, u32 node)
{
	u32 nr = 0, height = 0;

	for (; node != TREE_NONE; node = nodes[node].parent) {
		CHECK(++height <= TREE_MAX_HEIGHT, "KL31: a tree is not deep");
		nr += !nodes[node].red;
	}
	return nr;
}

u32 tree_check(const struct tree_node *nodes, u32 root)
{
	u32 node, before = TREE_NONE, nr = 0, blacks = 0, side;

	CHECK(!is_red(nodes, root), "KL31: a root is black");
	for (node = tree_next(nodes, root, TREE_NONE); node != TREE_NONE;
	     node = tree_next(nodes, root, node)) {
		if (before != TREE_NONE)
			CHECK(is_before(nodes, nodes[before].key, before, node),
			      "KL30: a tree is in order");
		for (side = 0; side < 2; side++) {
			u32 child = nodes[node].child[side];

			CHECK(child == TREE_NONE || nodes[child].parent == node,
			      "KL30: a child knows its parent");
			CHECK(!nodes[node].red || !is_red(nodes, child),
			      "KL31: no red node below a red one");
			if (child != TREE_NONE)
				continue;
			if (!blacks)
				blacks = blacks_above(nodes, node);
			CHECK(blacks_above(nodes, node) == blacks,
			      "KL31: as many black nodes on all paths");
		}
		before = node;
		nr++;
	}
	return nr;
}
