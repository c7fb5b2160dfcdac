// SPDX-License-Identifier: MIT
/*
 * Words: what streams write with cuStreamWriteValue32() and its kin, and wait for.
 *
 * A wait for a value comes after the first write that satisfies it, of the writes that it can see. It does not see a
 * write if a later write comes between the two. In memory that the CPU reaches, it does not see a write that the host
 * knew when the wait was submitted, because the CPU may have changed the word since. Fills and copies write words as
 * well.
 *
 * An operation on a word is an access to its bytes, as a copy is. word_race() has the pairs of unordered operations
 * that are no race:
 *
 *   - Two writes of a value, and a write of a value and a wait: that is how streams synchronize.
 *   - A wait, and a fill or copy of a word that may satisfy it: the same. A fill that does not satisfy the wait is a
 *     race, because it may come between the write that the stream waits for and the wait, which then never ends.
 *   - A write of a value, and a copy that reads no more than a word: the program polls, and may then know that the
 *     write is done. Strict mode reports this pair.
 */
#include <stdlib.h>

#include "check/check.h"

#define TABLE	256u
#define WRITES	16u
#define WORDS	4096u		/* more are not remembered */

struct word_write {
	uint64_t value;
	bool known;
	unsigned int slot;
	uint64_t time;
	struct clock clock;
};

/* A word that streams write or wait for, and its last writes. */
struct word {
	uint64_t addr;
	unsigned int count;		/* of all writes */
	struct word_write write[WRITES];
	struct word *next;
};

static struct word *words[TABLE];
static unsigned int word_total;
static struct spares spare_uses;

/* ---- writes */

static struct word *word_at(uint64_t addr, bool make)
{
	struct word **list = &words[(addr >> 2) % TABLE], *word;

	for (word = *list; word; word = word->next)
		if (word->addr == addr)
			return word;
	if (!make || word_total == WORDS)
		return NULL;
	word = calloc(1, sizeof(*word));
	if (word) {
		word->addr = addr;
		word->next = *list;
		*list = word;
		word_total++;
	}
	return word;
}

static void word_write(struct word *word, uint64_t value, bool known, const struct actor *actor)
{
	struct word_write *write = &word->write[word->count++ % WRITES];

	write->value = value;
	write->known = known;
	write->slot = actor->slot;
	write->time = actor_time(actor);
	clock_copy(&write->clock, &actor->clock);
	steps_wake(word->addr);
}

static bool satisfies(unsigned int bytes, unsigned int flags, uint64_t wanted, uint64_t word)
{
	uint64_t mask = bytes == 4 ? UINT32_MAX : UINT64_MAX;

	switch (flags & 3) {
	case CU_STREAM_WAIT_VALUE_GEQ:
		return bytes == 4 ? (int32_t)(word - wanted) >= 0 : (int64_t)(word - wanted) >= 0;
	case CU_STREAM_WAIT_VALUE_EQ:
		return !((word ^ wanted) & mask);
	case CU_STREAM_WAIT_VALUE_AND:
		return word & wanted & mask;
	default:
		return ~(word | wanted) & mask;
	}
}

bool word_satisfies(const struct step *wait, uint64_t value)
{
	return satisfies(wait->bytes, wait->flags, wait->value, value);
}

/* Whether a later write comes between a write and the wait. @known: to the host when the wait was submitted. */
static bool write_hidden(const struct word *word, unsigned int index, const struct clock *before,
			 const struct clock *known)
{
	unsigned int i;

	for (i = index + 1; i < word->count; i++) {
		const struct word_write *later = &word->write[i % WRITES];
		const struct word_write *write = &word->write[index % WRITES];

		if ((clock_covers(before, later->slot, later->time) || clock_covers(known, later->slot, later->time)) &&
		    clock_covers(&later->clock, write->slot, write->time))
			return true;
	}
	return false;
}

bool word_polled(uint64_t addr)
{
	const struct memory *memory = memory_at(addr);

	return !memory || memory->open;
}

const struct clock *word_awaited(const struct step *wait, const struct clock *before)
{
	const struct clock *known = wait->submitted.count ? &wait->submitted : &host.clock;
	/* A later fill of more than the word is remembered only if the word is known. */
	const struct word *word = word_at(wait->addr, true);
	bool open = word && word_polled(wait->addr);
	unsigned int i;

	if (!word)
		return NULL;
	for (i = word->count > WRITES ? word->count - WRITES : 0; i < word->count; i++) {
		const struct word_write *write = &word->write[i % WRITES];

		if (open && clock_covers(known, write->slot, write->time))
			continue;
		if ((!write->known || satisfies(wait->bytes, wait->flags, wait->value, write->value)) &&
		    !write_hidden(word, i, before, known))
			return &write->clock;
	}
	return NULL;
}

void word_written(uint64_t addr, uint64_t value, const struct actor *actor)
{
	struct word *word = word_at(addr, true);

	if (word)
		word_write(word, value, true, actor);
}

/* Whether an access writes the byte @offset bytes behind its first one. */
static bool access_has(const struct step *step, uint64_t offset)
{
	const struct box *box = &step->box;

	if (box->depth > 1 && step->dst.slice) {
		if (offset / step->dst.slice >= box->depth)
			return false;
		offset %= step->dst.slice;
	}
	if (box->height > 1 && step->dst.pitch) {
		if (offset / step->dst.pitch >= box->height)
			return false;
		offset %= step->dst.pitch;
	}
	return offset < box->width;
}

void words_written(const struct step *step, uint64_t base)
{
	uint64_t addr = base + step->dst.at, bytes = step->box.width * step->box.height * step->box.depth;
	bool one = bytes <= WORD_MOST && step->box.height * step->box.depth == 1;
	unsigned int i;

	if (one)
		word_at(addr, true);
	if (!word_total)
		return;
	if (one) {
		for (i = 0; i < bytes; i++) {
			struct word *word = word_at(addr + i, false);

			if (word)
				word_write(word, step->value, step->known && !i && bytes >= 4, step->actor);
		}
		return;
	}
	for (i = 0; i < TABLE; i++) {
		struct word *word;

		for (word = words[i]; word; word = word->next)
			if (access_has(step, word->addr - addr))
				word_write(word, step->value, step->known, step->actor);
	}
}

void words_forget(const struct memory *memory)
{
	unsigned int i, j;

	for (i = 0; word_total && i < TABLE; i++) {
		struct word **at = &words[i], *word;

		while ((word = *at)) {
			if (word->addr - memory->base >= memory->size) {
				at = &word->next;
				continue;
			}
			*at = word->next;
			for (j = 0; j < WRITES; j++)
				clock_free(&word->write[j].clock);
			free(word);
			word_total--;
		}
	}
}

/* ---- races */

void word_use(struct op *op, enum word_kind kind, uint64_t addr, unsigned int bytes, bool known, uint64_t value,
	      unsigned int flags)
{
	struct word_use *use = op->word ? op->word : spare_take(&spare_uses, sizeof(*use));

	if (use)
		*use = (struct word_use) {
			.kind = kind, .known = known, .bytes = bytes, .flags = flags, .addr = addr, .value = value,
		};
	op->word = use;
}

void word_use_free(struct word_use *use)
{
	spare_give(&spare_uses, use);
}

/* A copy may have read what writes of a value wrote that do not come before it. */
static void copy_polls(uint64_t addr, const struct clock *before)
{
	const struct word *word = word_at(addr, false);
	unsigned int i;

	for (i = 0; word && i < word->count && i < WRITES; i++)
		if (!clock_covers(before, word->write[i].slot, word->write[i].time))
			clock_join(&polled, &word->write[i].clock);
}

/* Whether a fill or copy that writes a word may keep a wait from ending. */
static bool hides(const struct word_use *copy, const struct word_use *wait)
{
	return copy->known && copy->addr == wait->addr && copy->bytes >= wait->bytes &&
		!satisfies(wait->bytes, wait->flags, wait->value, copy->value);
}

bool word_race(const struct op *op, const struct clock *clock, bool write, const struct op *other, bool wrote)
{
	const struct word_use *a = op->word, *b = other->word;

	if (!a || !b || (a->kind == WORD_COPY && b->kind == WORD_COPY))
		return true;
	if (a->kind != WORD_COPY && b->kind != WORD_COPY)
		return false;
	if (a->kind == WORD_WAIT || b->kind == WORD_WAIT)
		return a->kind == WORD_WAIT ? hides(b, a) : hides(a, b);
	/* A copy and a write of a value. */
	if (write && wrote)
		return true;
	if (write)
		clock_join(&polled, clock);
	else
		copy_polls(b->addr, clock);
	return options.strict;
}
