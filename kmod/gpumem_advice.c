// SPDX-License-Identifier: GPL-2.0
/*
 * gpumem_advice: what a program says about the location of managed memory.
 *
 * GPUMEM_BO_ADVISE stores advice; gpumem_managed.c asks for the conclusions when
 * an engine touches a block, and when a block is no longer in use.
 *
 * A buffer object gets a word for each block when it is first advised.  The words
 * are charged to the memory cgroup of the caller, and are freed with the buffer
 * object.
 *
 * Locks: none of its own.  The words are atomic.  After a change of a word,
 * gpumem_managed_sort() takes gpumem_managed_lock, so each block that was not in
 * use then has the new rank.
 */
#include <linux/atomic.h>
#include <linux/sched.h>
#include <linux/slab.h>

#include "gpumem_bo.h"
#include "gpumem_client.h"
#include "gpumem_duplicate.h"
#include "gpumem_fault.h"
#include "gpumem_ioctl.h"
#include "gpumem_managed.h"
#include "gpumem_mem.h"
#include "gpumem_object.h"
#include "gpumem_resident.h"

/*
 * A word: the devices of GPUMEM_ADVICE_ACCESSED_BY, a preferred location, and
 * whether the block is mostly read.
 */
#define GPUMEM_WORD_DEVICES	GENMASK(GPUMEM_MAX_DEVICES - 1, 0)
#define GPUMEM_WORD_SHIFT	GPUMEM_MAX_DEVICES
#define GPUMEM_WORD_PLACE	GENMASK(30, GPUMEM_WORD_SHIFT)
#define GPUMEM_WORD_READ_MOSTLY	BIT(31)
/* Preferred locations in a word; a device is its index + GPUMEM_WORD_DEVICE. */
#define GPUMEM_WORD_NONE	0
#define GPUMEM_WORD_HOST	1
#define GPUMEM_WORD_DEVICE	2

static u32 gpumem_advice_word(const struct gpumem_block *block)
{
	/* Pairs with the cmpxchg() in gpumem_advice_make(). */
	const u32 *word = READ_ONCE(block->bo->managed->advice);

	return word ? READ_ONCE(word[block->index]) : 0;
}

/* The preferred location in a word. */
static u32 gpumem_word_place(u32 word)
{
	return (word & GPUMEM_WORD_PLACE) >> GPUMEM_WORD_SHIFT;
}

/* The preferred device of a block, or NULL. */
static struct gpumem_device *gpumem_word_device(const struct gpumem_block *block,
						u32 word)
{
	u32 place = gpumem_word_place(word);

	if (place < GPUMEM_WORD_DEVICE)
		return NULL;
	return gpumem_client_device(block->bo->obj.client,
				    place - GPUMEM_WORD_DEVICE);
}

/**
 * gpumem_advice_target - where a touch makes a block resident
 * @block: block; the caller holds gpumem_managed_lock
 * @dev: device whose engine touches the block
 * @devbit: bit of @dev in access masks, or 0 to ignore the advice
 * @there: the block had pages before the touch
 *
 * Return: a device, or NULL if the block stays where it is.
 */
struct gpumem_device *gpumem_advice_target(const struct gpumem_block *block,
					   struct gpumem_device *dev,
					   u32 devbit, bool there)
{
	u32 word = devbit ? gpumem_advice_word(block) : 0;
	struct gpumem_device *preferred;

	/* As CUDA defines it, this advice comes before the other two. */
	if (!word || block->dev == dev || word & GPUMEM_WORD_READ_MOSTLY)
		return dev;
	if (gpumem_word_place(word) == GPUMEM_WORD_HOST)
		return NULL;
	/* As on an H200: only memory that is nowhere yet goes to such a device. */
	if (there && word & devbit)
		return NULL;
	preferred = gpumem_word_device(block, word);
	return preferred ?: dev;
}

/**
 * gpumem_advice_given - is there advice about a block?
 * @block: block
 *
 * Return: true if a program has given advice and not taken it back.
 */
bool gpumem_advice_given(const struct gpumem_block *block)
{
	return gpumem_advice_word(block);
}

/**
 * gpumem_advice_read_mostly - is a block mostly read?
 * @block: block
 *
 * Return: true if the advice says so.
 */
bool gpumem_advice_read_mostly(const struct gpumem_block *block)
{
	return gpumem_advice_word(block) & GPUMEM_WORD_READ_MOSTLY;
}

/**
 * gpumem_advice_device - the device that a block prefers
 * @block: block
 *
 * Return: the device, or NULL.
 */
struct gpumem_device *gpumem_advice_device(const struct gpumem_block *block)
{
	return gpumem_word_device(block, gpumem_advice_word(block));
}

/**
 * gpumem_advice_rank - when a device evicts a block
 * @block: resident block; the caller holds gpumem_managed_lock
 *
 * Return: the rank.
 */
enum gpumem_rank gpumem_advice_rank(const struct gpumem_block *block)
{
	u32 word = gpumem_advice_word(block);

	if (gpumem_word_place(word) == GPUMEM_WORD_NONE)
		return GPUMEM_RANK_OLDEST;
	return gpumem_word_device(block, word) == block->dev ?
	       GPUMEM_RANK_LAST : GPUMEM_RANK_FIRST;
}

/* The words of a buffer object, made if there are none; NULL without memory. */
static u32 *gpumem_advice_make(struct gpumem_bo *bo)
{
	u32 *words = READ_ONCE(bo->managed->advice), *old;

	if (words)
		return words;
	words = kvcalloc(DIV_ROUND_UP_ULL(bo->length, GPUMEM_MANAGED_BLOCK),
			 sizeof(*words), GFP_KERNEL_ACCOUNT);
	if (!words)
		return NULL;
	old = cmpxchg(&bo->managed->advice, NULL, words);
	if (!old)
		return words;
	kvfree(words);
	return old;
}

/* Change the bits of @clear and @set in a word. */
static void gpumem_word_change(u32 *word, u32 clear, u32 set)
{
	u32 old = READ_ONCE(*word);

	while (!try_cmpxchg(word, &old, (old & ~clear) | set))
		;
}

/* Which bits of a word the caller's advice clears and sets. */
static int gpumem_advice_read(struct gpumem_client *client,
			      const struct gpumem_bo_advise *cmd,
			      u32 *clear, u32 *set)
{
	bool preferred = cmd->advice == GPUMEM_ADVICE_PREFERRED;
	u32 place;

	if (cmd->advice < GPUMEM_ADVICE_PREFERRED ||
	    cmd->advice > GPUMEM_ADVICE_NOT_READ_MOSTLY)
		return -EOPNOTSUPP;
	if (cmd->advice >= GPUMEM_ADVICE_READ_MOSTLY) {
		if (cmd->device != GPUMEM_ADVICE_NONE)
			return -EINVAL;
		*clear = GPUMEM_WORD_READ_MOSTLY;
		*set = cmd->advice == GPUMEM_ADVICE_READ_MOSTLY ? *clear : 0;
		return 0;
	}
	if (preferred && cmd->device == GPUMEM_ADVICE_NONE)
		place = GPUMEM_WORD_NONE;
	else if (preferred && cmd->device == GPUMEM_ADVICE_HOST)
		place = GPUMEM_WORD_HOST;
	else if (gpumem_client_device(client, cmd->device))
		place = cmd->device + GPUMEM_WORD_DEVICE;
	else
		return -EACCES;
	if (preferred) {
		*clear = GPUMEM_WORD_PLACE;
		*set = place << GPUMEM_WORD_SHIFT;
	} else {
		*clear = BIT(cmd->device);
		*set = cmd->advice == GPUMEM_ADVICE_ACCESSED_BY ? *clear : 0;
	}
	return 0;
}

static int gpumem_advice_apply(struct gpumem_bo *bo,
			       const struct gpumem_bo_advise *cmd,
			       u32 clear, u32 set)
{
	u64 end = cmd->offset + cmd->length;
	unsigned long index, last;
	u32 *words;

	if (!bo->managed)
		return -EOPNOTSUPP;
	if (cmd->offset > bo->length || cmd->length > bo->length - cmd->offset)
		return -EOVERFLOW;
	words = gpumem_advice_make(bo);
	if (!words)
		return -ENOMEM;
	/* The last block may be shorter than the others. */
	if (end == bo->length)
		end = round_up(end, GPUMEM_MANAGED_BLOCK);
	last = end / GPUMEM_MANAGED_BLOCK;
	index = DIV_ROUND_UP_ULL(cmd->offset, GPUMEM_MANAGED_BLOCK);
	if (set & GPUMEM_WORD_READ_MOSTLY && index < last)
		gpumem_fault_track(bo->file);
	for (; index < last; index++) {
		gpumem_word_change(&words[index], clear, set);
		if (clear & ~set & GPUMEM_WORD_READ_MOSTLY)
			gpumem_duplicate_unset(bo, index);
		gpumem_managed_sort(bo, index);
		cond_resched();
	}
	return 0;
}

/*
 * Let a device touch a block that the client sees in its words, without work for
 * its engine.
 */
static int gpumem_advice_touch(struct gpumem_bo *bo,
			       const struct gpumem_bo_advise *cmd)
{
	struct gpumem_device *dev = gpumem_client_device(bo->obj.client,
							 cmd->device);
	struct gpumem_uses uses = { };
	int ret;

	if (!dev)
		return -EACCES;
	if (!bo->managed)
		return -EOPNOTSUPP;
	if (cmd->offset > bo->length || cmd->length > bo->length - cmd->offset)
		return -EOVERFLOW;
	if (cmd->length > gpumem_block_end(cmd->offset) - cmd->offset)
		return -EINVAL;
	if (!gpumem_resident_touched(bo, cmd->offset))
		return 0;
	ret = gpumem_managed_fetch(bo, cmd->offset, dev, BIT(cmd->device),
				   &uses, GPUMEM_FETCH_TOUCHED);
	gpumem_uses_drop(&uses);
	return ret;
}

int gpumem_ioctl_bo_advise(struct gpumem_ucmd *ucmd)
{
	const struct gpumem_bo_advise *cmd = ucmd->cmd;
	bool touched = cmd->advice == GPUMEM_ADVICE_TOUCHED;
	u32 clear = 0, set = 0;
	struct gpumem_bo *bo;
	int ret;

	if (!cmd->length)
		return -EINVAL;
	ret = touched ? 0 : gpumem_advice_read(ucmd->client, cmd, &clear, &set);
	if (ret)
		return ret;
	bo = gpumem_bo_get(ucmd->client, cmd->id);
	if (!bo)
		return -ENOENT;
	if (touched)
		ret = gpumem_advice_touch(bo, cmd);
	else
		ret = gpumem_advice_apply(bo, cmd, clear, set);
	gpumem_object_put(&bo->obj);
	return ret;
}
