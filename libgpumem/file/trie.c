// SPDX-License-Identifier: MIT
/*
 * Tries (trie.h).
 *
 * All leaves below a branch have the same bits above the branch's bit. Below its child 0 the bit is 0, below its
 * child 1 it is 1. A branch tests a lower bit than the branch above it, and always has two children.
 */
#include <stddef.h>
#include <stdlib.h>

#include "file/trie.h"

struct trie_branch {
	unsigned int bit;
	struct trie_link child[2];
};

static unsigned int side_of(const struct trie_branch *branch, uint64_t addr)
{
	return addr >> branch->bit & 1;
}

/* A leaf that has as many upper bits in common with an address as any other; NULL: there is none. */
static struct trie_leaf *trie_near(const struct trie *trie, uint64_t addr)
{
	const struct trie_link *link = &trie->root;

	while (link->branch)
		link = &link->branch->child[side_of(link->branch, addr)];
	return link->leaf;
}

struct trie_leaf *trie_find(const struct trie *trie, uint64_t addr)
{
	struct trie_leaf *leaf = trie_near(trie, addr);

	return leaf && leaf->addr == addr ? leaf : NULL;
}

/* The highest bit in which two different addresses differ. */
static unsigned int highest_difference(uint64_t a, uint64_t b)
{
	return 63 - __builtin_clzll(a ^ b);
}

struct trie_leaf *trie_last(const struct trie *trie, uint64_t addr)
{
	const struct trie_link *link = &trie->root, *below = NULL;
	struct trie_leaf *near;
	unsigned int bit;

	if (!link->branch && !link->leaf)
		return NULL;
	near = trie_near(trie, addr);
	if (near->addr == addr)
		return near;
	bit = highest_difference(near->addr, addr);
	while (link->branch && link->branch->bit > bit) {
		unsigned int side = side_of(link->branch, addr);

		if (side)
			below = &link->branch->child[0];
		link = &link->branch->child[side];
	}
	/* All leaves below @link have the other value of the bit: they are above the address, or below it. */
	if (near->addr > addr)
		link = below;
	while (link && link->branch)
		link = &link->branch->child[1];
	return link ? link->leaf : NULL;
}

bool trie_add(struct trie *trie, struct trie_leaf *leaf)
{
	struct trie_link *link = &trie->root;
	struct trie_branch *branch;
	unsigned int side;

	if (!link->branch && !link->leaf) {
		link->leaf = leaf;
		return true;
	}
	branch = malloc(sizeof(*branch));
	if (!branch)
		return false;
	branch->bit = highest_difference(trie_near(trie, leaf->addr)->addr, leaf->addr);
	while (link->branch && link->branch->bit > branch->bit)
		link = &link->branch->child[side_of(link->branch, leaf->addr)];
	side = side_of(branch, leaf->addr);
	branch->child[side] = (struct trie_link) { .leaf = leaf };
	branch->child[!side] = *link;
	*link = (struct trie_link) { .branch = branch };
	return true;
}

void trie_remove(struct trie *trie, struct trie_leaf *leaf)
{
	struct trie_link *link = &trie->root, *above = NULL;
	struct trie_branch *branch;

	while (link->branch) {
		above = link;
		link = &link->branch->child[side_of(link->branch, leaf->addr)];
	}
	if (!above) {
		link->leaf = NULL;
		return;
	}
	branch = above->branch;
	*above = branch->child[!side_of(branch, leaf->addr)];
	free(branch);
}
