/* SPDX-License-Identifier: MIT */
/*
 * Tries: things that have an address, or another number of 64 bits, found by it.
 *
 * A trie branches at the bits of the addresses, highest bit first. No path is longer than the number of bits, so
 * finding, adding and removing cost the same for any number of things.
 *
 * Locks: the owner's, for all functions.
 */
#ifndef GPUMEM_FILE_TRIE_H
#define GPUMEM_FILE_TRIE_H

#include <stdbool.h>
#include <stdint.h>

struct trie_branch;

struct trie_leaf {
	uint64_t addr;
};

/* One of the two is set, or none in an empty trie. */
struct trie_link {
	struct trie_branch *branch;
	struct trie_leaf *leaf;
};

struct trie {
	struct trie_link root;
};

/* The leaf at an address, or NULL. */
struct trie_leaf *trie_find(const struct trie *trie, uint64_t addr);
/* The last leaf at or below an address, or NULL. */
struct trie_leaf *trie_last(const struct trie *trie, uint64_t addr);
/* Add a leaf, whose address no other leaf has. False: no memory. */
bool trie_add(struct trie *trie, struct trie_leaf *leaf);
/* Remove a leaf of the trie. */
void trie_remove(struct trie *trie, struct trie_leaf *leaf);

#endif /* GPUMEM_FILE_TRIE_H */
