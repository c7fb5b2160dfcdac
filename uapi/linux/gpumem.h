/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * gpumem: device memory, address spaces, sharing and ordered submission for a
 * software GPU.
 *
 * Sections of this file, in order (the names without GPUMEM_):
 *
 *  - General: MMAP_OFFSET(), the cache page, ioctl numbers, INFO,
 *    DEVICE_ATTACH, DESTROY
 *  - Buffer objects: BO_ALLOC, BO_PIN, BO_INFO, BO_ADVISE, BO_RETIRE, BO_EXPORT,
 *    BO_IMPORT
 *  - Tokens of memory: TOKEN_CREATE, TOKEN_OPEN
 *  - Address spaces: VM_CREATE, VM_MAP, VM_UNMAP, VM_ACCESS, VM_EXPORT, VM_BIND
 *  - Streams: entries, the ring, the timeline page, STREAM_CREATE,
 *    STREAM_DOORBELL
 *  - Timelines: TIMELINE_CREATE, TIMELINE_SIGNAL, TIMELINE_TAKE, TIMELINE_WAIT,
 *    TIMELINE_EXPORT, TIMELINE_IMPORT
 *  - Events: EVENT_CREATE, EVENT_OPEN, EVENT_RECORD, EVENT_GET
 *  - Pools: POOL_CREATE, POOL_SET, POOL_INFO, POOL_EXPORT, POOL_IMPORT,
 *    POOL_CHUNK_OPEN, CHANNEL_ATTACH
 *  - Reports: REFUSAL, STATS, notices by read()
 *
 * General rules
 *
 * Every ioctl takes a pointer to one structure whose first member is @size, the
 * size of that structure as the caller knows it.  A kernel that knows a longer
 * structure reads the missing tail as zero and writes back no more than @size
 * bytes.  A kernel that knows a shorter structure fails the call with E2BIG
 * unless the tail is zero.  Structures only grow at their end, flags are only
 * added, and padding is explicit and must be zero.  All offsets, lengths and
 * addresses are in bytes.
 *
 * A file description of /dev/gpumemN is a *client*.  It belongs to the address
 * space that opened it.  Objects are named by ids in that client; an id is
 * non-zero and says nothing about another client's ids.  GPUMEM_DESTROY gives
 * an id back, never fails for a valid id and never waits for userspace.
 *
 * Meaning of errno, for every ioctl:
 *
 *  - ENOTTY: the ioctl number is not known.
 *  - EFAULT: a pointer is bad.
 *  - E2BIG: the structure has a non-zero tail that this kernel does not know.
 *  - EOPNOTSUPP: a flag, a selector or a reserved member that this kernel does
 *    not know is set.
 *  - EINVAL: a known member has a value outside its range, or @size is shorter
 *    than the structure's first version.
 *  - EOVERFLOW: offset + length or address + length wraps or leaves the object.
 *  - ENOENT: no object with this id and of this type, or no such token.
 *  - EEXIST: the address range is occupied, the client has another channel, or
 *    the pool has a token of another scope.
 *  - EPERM: one of these is true.  The caller's address space, or for
 *    GPUMEM_STREAM_CREATE the caller's process, is not the one that opened the
 *    client.  The client does not hold the channel that the call needs.  The
 *    module's parameter ipc_scope refuses the token.
 *  - EAGAIN: the process may have no more threads (RLIMIT_NPROC, pids.max).
 *  - EACCES: the device is not attached to the client, or the token's scope
 *    does not admit the caller, or the client imported the pool and only the
 *    pool's maker may make the call.
 *  - ENOSPC: the device's memory budget refuses or, for pinned host memory, the
 *    size of the system's memory.
 *  - EDQUOT: one of these limits refuses: the user's budget of pinned memory or
 *    of rings, the budget of all users, the user's limit of mappings,
 *    RLIMIT_MEMLOCK, the pool's limit, a dmem cgroup's limit.
 *  - ENOMEM: the system, its limit of committed memory included, or the
 *    caller's memory cgroup refuses.
 *  - EMFILE: the client has too many objects or streams, or the range has too
 *    many mappings for one DMA-buf.
 *  - EBUSY: too many other clients have DMA-bufs over several buffer objects
 *    that contain this memory.
 *  - EIO: the work waited for failed, or the owner of the timeline is gone.
 *  - ETIMEDOUT, EINTR: a wait ended without its condition.
 */
#ifndef _UAPI_LINUX_GPUMEM_H
#define _UAPI_LINUX_GPUMEM_H

#include <linux/types.h>
#include <linux/ioctl.h>

/** GPUMEM_ABI_VERSION - rises when a change cannot be expressed by growth */
#define GPUMEM_ABI_VERSION	2

/** GPUMEM_MAX_DEVICES - devices a client can attach; indices are below this */
#define GPUMEM_MAX_DEVICES	16

#define GPUMEM_IOC_TYPE		0xE7

/* Object ids are below this, so that an id fits into an mmap offset. */
#define GPUMEM_MAX_OBJECTS	0x40000U

#define GPUMEM_MMAP_SHIFT	40

/**
 * GPUMEM_MMAP_OFFSET() - file offset at which mmap() finds an object
 * @id: buffer object, stream or timeline; GPUMEM_MMAP_CACHE is an offset, too
 *
 * For a buffer object the caller adds the page aligned offset in the object,
 * and must use MAP_SHARED.  A stream maps its ring (see struct gpumem_ring), a
 * timeline its read-only page.  fork() copies mappings of host memory
 * (GPUMEM_BO_ALLOC_HOST), which the child then shares with its parent, and no
 * other mappings.
 */
#define GPUMEM_MMAP_OFFSET(id)	((__u64)(id) << GPUMEM_MMAP_SHIFT)

/* Offset of the cache page, and words in it; word 0 stands for none. */
#define GPUMEM_MMAP_CACHE	0ULL
#define GPUMEM_CACHE_WORDS	1024U

/**
 * enum gpumem_cache_word - values of a chunk's word in the cache page
 * @GPUMEM_CACHE_USED: the chunk may be in use; value for a new chunk
 * @GPUMEM_CACHE_KEPT: written by the client: the chunk is empty, and the kernel
 *	may discard its memory
 * @GPUMEM_CACHE_TAKEN: written by the kernel over KEPT: it discards the memory
 *
 * The cache page is one page, mapped with MAP_SHARED; a child after fork() does
 * not inherit it.  A client that has mapped the page gets a word (struct
 * gpumem_bo_alloc) for each chunk it makes, while words are free.  To use a
 * kept chunk again, the client changes KEPT to USED by an atomic compare and
 * exchange.  If the exchange finds TAKEN, the client can only destroy the
 * chunk's id.  Kept chunks count as *cached* in their pool, not as reserved.
 * The kernel discards them before it refuses memory to a client, and when the
 * system is short of memory.
 */
enum gpumem_cache_word {
	GPUMEM_CACHE_USED = 0,
	GPUMEM_CACHE_KEPT = 1,
	GPUMEM_CACHE_TAKEN = 2,
};

/* mmap() offset of the residency words.  The length is their size, in pages. */
#define GPUMEM_MMAP_RESIDENT	(1ULL << (GPUMEM_MMAP_SHIFT - 1))
#define GPUMEM_RESIDENT_WORDS	4096U

/**
 * GPUMEM_RESIDENT_WORD() - the residency word of a block of managed memory
 * @id: buffer object
 * @block: number of the block in it: its offset / GPUMEM_MANAGED_BLOCK
 *
 * The residency words are 64 bits each, mapped with MAP_SHARED and PROT_READ.  A
 * child after fork() does not inherit them.  They exist once the client has made a
 * managed buffer object; without memory for them, mmap() answers ENXIO.
 *
 * While a word has GPUMEM_RESIDENT_TAG() of a block, all pages of the block exist,
 * so the CPU can access it instead of an engine.  The place in the tag is one of
 * these:
 *
 *  - The index of a device: the block is resident there.
 *  - The index of a device | GPUMEM_RESIDENT_AGED: the block is resident there, and
 *    one of the next that the device evicts.
 *  - The index of a device | GPUMEM_RESIDENT_EVICTED: the device evicted the block
 *    to make room, and there was no free swap space.  The block is in host memory.
 *    There is no advice about it.
 *
 * Several blocks share a word, which shows one of them at most.  An engine that
 * uses a resident block shows it.  A block that the CPU accesses instead does not
 * count as used; GPUMEM_ADVICE_TOUCHED says that it is.  What is shown may change
 * at any time.
 */
#define GPUMEM_RESIDENT_WORD(id, block) \
	((__u32)((__u32)(id) * 0x9e3779b1U + (block)) % GPUMEM_RESIDENT_WORDS)

/**
 * GPUMEM_RESIDENT_TAG() - what the word of a block contains
 * @id: buffer object
 * @block: number of the block
 * @place: where the block is
 */
#define GPUMEM_RESIDENT_TAG(id, block, place) \
	((__u64)(id) << 32 | (__u64)(block) << 8 | ((__u64)(place) + 1))

/* What a place has beside the index of a device. */
#define GPUMEM_RESIDENT_AGED	0x40U
#define GPUMEM_RESIDENT_EVICTED	0x80U

enum {
	GPUMEM_CMD_BASE = 0x40,
	GPUMEM_CMD_INFO = GPUMEM_CMD_BASE,
	GPUMEM_CMD_DEVICE_ATTACH,
	GPUMEM_CMD_DESTROY,
	GPUMEM_CMD_BO_ALLOC,
	GPUMEM_CMD_BO_INFO,
	GPUMEM_CMD_BO_RETIRE,
	GPUMEM_CMD_BO_EXPORT,
	GPUMEM_CMD_BO_IMPORT,
	GPUMEM_CMD_TOKEN_CREATE,
	GPUMEM_CMD_TOKEN_OPEN,
	GPUMEM_CMD_VM_CREATE,
	GPUMEM_CMD_VM_MAP,
	GPUMEM_CMD_VM_UNMAP,
	GPUMEM_CMD_VM_ACCESS,
	GPUMEM_CMD_STREAM_CREATE,
	GPUMEM_CMD_STREAM_DOORBELL,
	GPUMEM_CMD_TIMELINE_CREATE,
	GPUMEM_CMD_TIMELINE_SIGNAL,
	GPUMEM_CMD_TIMELINE_WAIT,
	GPUMEM_CMD_STATS,
	GPUMEM_CMD_BO_PIN,
	GPUMEM_CMD_EVENT_CREATE,
	GPUMEM_CMD_EVENT_OPEN,
	GPUMEM_CMD_EVENT_RECORD,
	GPUMEM_CMD_EVENT_GET,
	GPUMEM_CMD_POOL_CREATE,
	GPUMEM_CMD_POOL_SET,
	GPUMEM_CMD_POOL_INFO,
	GPUMEM_CMD_POOL_EXPORT,
	GPUMEM_CMD_POOL_IMPORT,
	GPUMEM_CMD_POOL_CHUNK_OPEN,
	GPUMEM_CMD_CHANNEL_ATTACH,
	GPUMEM_CMD_REFUSAL,
	GPUMEM_CMD_TIMELINE_EXPORT,
	GPUMEM_CMD_TIMELINE_IMPORT,
	GPUMEM_CMD_VM_EXPORT,
	GPUMEM_CMD_VM_BIND,
	GPUMEM_CMD_BO_ADVISE,
	GPUMEM_CMD_TIMELINE_TAKE,
};

/**
 * enum gpumem_info_flags - optional properties of a device
 * @GPUMEM_INFO_EXCLUSIVE_MANAGED: the CPU must not access managed memory while
 *	the device works on it; the module does not enforce this
 * @GPUMEM_INFO_PAGEABLE: entries of its streams may name memory of the process
 *	(enum gpumem_sqe_flags); the module parameter "pageable" sets it
 */
enum gpumem_info_flags {
	GPUMEM_INFO_EXCLUSIVE_MANAGED = 1 << 0,
	GPUMEM_INFO_PAGEABLE = 1 << 1,
};

/**
 * struct gpumem_info - properties of a device (GPUMEM_INFO)
 * @size: sizeof(struct gpumem_info)
 * @device: index of the device in this client; 0 is the one opened
 * @abi: GPUMEM_ABI_VERSION of the module, out
 * @ordinal: N of /dev/gpumemN, out
 * @total: memory of the device, out
 * @used: memory in use by all clients, out: what the device's tmpfs mount has in
 *	use, and resident managed memory
 * @node: NUMA node of the memory, or -1, out
 * @engine_workers: most streams of a client that execute at the same time, out
 * @engine: name of the engine, NUL terminated, out
 * @release: version of the module, NUL terminated, out
 * @uuid: identity of the device, the same after a reload, out
 * @cached: part of @used that is in cached chunks of all clients, which the
 *	kernel discards to make room for allocations, out
 * @excess: bytes above its share that this client holds, out; see struct
 *	gpumem_notice
 * @flags: enum gpumem_info_flags, out
 * @reserved: 0, out
 *
 * Errors: EACCES if @device is not attached.
 */
struct gpumem_info {
	__u32 size;
	__u32 device;
	__u32 abi;
	__u32 ordinal;
	__aligned_u64 total;
	__aligned_u64 used;
	__s32 node;
	__u32 engine_workers;
	__u8 engine[16];
	__u8 release[16];
	__u8 uuid[16];
	__aligned_u64 cached;
	__aligned_u64 excess;
	__u32 flags;
	__u32 reserved;
};

#define GPUMEM_INFO _IO(GPUMEM_IOC_TYPE, GPUMEM_CMD_INFO)

/**
 * struct gpumem_device_attach - use another device in this client
 *	(GPUMEM_DEVICE_ATTACH)
 * @size: sizeof(struct gpumem_device_attach)
 * @fd: open descriptor of the other device's node
 * @flags: must be 0
 * @device: index of the device in this client, out; attaching a device again
 *	gives the same index
 *
 * Errors: EBADF, EINVAL if @fd is not a gpumem node, EMFILE.
 */
struct gpumem_device_attach {
	__u32 size;
	__s32 fd;
	__u32 flags;
	__u32 device;
};

#define GPUMEM_DEVICE_ATTACH _IO(GPUMEM_IOC_TYPE, GPUMEM_CMD_DEVICE_ATTACH)

/**
 * struct gpumem_destroy - give an id back (GPUMEM_DESTROY)
 * @size: sizeof(struct gpumem_destroy)
 * @id: object of any type
 *
 * A buffer object's memory lives on while it is mapped, exported or in use by
 * work; its tokens are revoked, and new opens of it as a chunk fail.  A stream
 * finishes the entries in its ring.  A pool's chunks are objects of their own
 * and live on.
 */
struct gpumem_destroy {
	__u32 size;
	__u32 id;
};

#define GPUMEM_DESTROY _IO(GPUMEM_IOC_TYPE, GPUMEM_CMD_DESTROY)

/* Buffer objects */

/**
 * enum gpumem_bo_alloc_flags - flags of GPUMEM_BO_ALLOC
 * @GPUMEM_BO_ALLOC_HOST: pinned system memory instead of the device's; counts
 *	against the user's budget of pinned memory
 * @GPUMEM_BO_ALLOC_MANAGED: managed memory: allocate no memory now.  Pages are
 *	allocated when a process or an engine first touches them.  A block of
 *	GPUMEM_MANAGED_BLOCK bytes that an engine touches becomes *resident* on
 *	the engine's device.  Not together with GPUMEM_BO_ALLOC_HOST or @pool;
 *	only if the module parameter "managed" is set
 */
enum gpumem_bo_alloc_flags {
	GPUMEM_BO_ALLOC_HOST = 1 << 0,
	GPUMEM_BO_ALLOC_MANAGED = 1 << 1,
};

/** GPUMEM_MANAGED_BLOCK - bytes of a block of managed memory */
#define GPUMEM_MANAGED_BLOCK	0x200000

/**
 * struct gpumem_bo_alloc - allocate device memory (GPUMEM_BO_ALLOC)
 * @size: sizeof(struct gpumem_bo_alloc)
 * @flags: enum gpumem_bo_alloc_flags
 * @device: index of the device in this client
 * @id: buffer object, out
 * @length: bytes, a multiple of the page size, at most 1 TiB
 * @name: shown in debug output, NUL terminated, may be empty
 * @pool: pool that the memory becomes a chunk of, or 0
 * @tag: any number; GPUMEM_BO_INFO returns it for the buffer object and for all
 *	views of it
 * @chunk: number of the chunk in its pool, never used again there, out; 0
 *	without @pool
 * @word: of the chunk in the cache page, out; 0 if it has none
 * @reserved2: must be 0
 *
 * When the call returns, all of the memory is allocated and zero, except managed
 * memory, which may be larger than the device's memory.  A chunk counts as
 * reserved in its pool until its memory is given back: until its id, its views,
 * its DMA-bufs, its mappings and pins by other subsystems are gone.
 *
 * A resident block of managed memory counts as memory in use of its device.  The
 * kernel evicts the least recently used resident blocks when the device has no
 * room for other blocks or for allocations.  The bytes of a block that is not
 * resident are in ordinary memory of the system and can be swapped out.  All
 * pages are charged to a memory cgroup: of the process that touches them, or of
 * the client's process if an engine does.  If the device has no room for a block, engines work
 * on it where it is.  Managed memory maps by mmap() and GPUMEM_VM_MAP.  It cannot
 * be exported, named by a token, retired or bound to a sparse mapping
 * (EOPNOTSUPP).
 *
 * Errors: ENOSPC, EDQUOT, ENOMEM, EINVAL for @length 0 or unaligned and for a
 * @device or flags that are not those of @pool, EOPNOTSUPP for
 * GPUMEM_BO_ALLOC_MANAGED with GPUMEM_BO_ALLOC_HOST or @pool or if the module
 * parameter forbids it, EACCES if @pool is imported, EINTR when killed.
 */
struct gpumem_bo_alloc {
	__u32 size;
	__u32 flags;
	__u32 device;
	__u32 id;
	__aligned_u64 length;
	__u8 name[16];
	__u32 pool;
	__u32 tag;
	__aligned_u64 chunk;
	__u32 word;
	__u32 reserved2;
};

#define GPUMEM_BO_ALLOC _IO(GPUMEM_IOC_TYPE, GPUMEM_CMD_BO_ALLOC)

/**
 * enum gpumem_bo_pin_flags - flags of GPUMEM_BO_PIN
 * @GPUMEM_BO_PIN_RDONLY: the memory is only read; it need not be writable
 */
enum gpumem_bo_pin_flags {
	GPUMEM_BO_PIN_RDONLY = 1 << 0,
};

/**
 * struct gpumem_bo_pin - register memory of the owner's process (GPUMEM_BO_PIN)
 * @size: sizeof(struct gpumem_bo_pin)
 * @flags: enum gpumem_bo_pin_flags
 * @addr: first byte, any alignment
 * @length: bytes, not 0
 * @id: buffer object of kind GPUMEM_BO_PINNED, out
 * @reserved: must be 0
 *
 * The pages are pinned for as long as the buffer object lives, even if the
 * process maps other memory at @addr later.  Unlike other buffer objects a
 * registration has a length of any number of bytes, maps at device addresses of
 * any alignment, and does not answer mmap().
 *
 * Errors: EEXIST if a byte of the range is registered by this client, EFAULT if
 * part of it is not memory that can be pinned (a hole, no access, a mapping of
 * device registers), EDQUOT, ENOMEM, EINTR when killed.
 */
struct gpumem_bo_pin {
	__u32 size;
	__u32 flags;
	__aligned_u64 addr;
	__aligned_u64 length;
	__u32 id;
	__u32 reserved;
};

#define GPUMEM_BO_PIN _IO(GPUMEM_IOC_TYPE, GPUMEM_CMD_BO_PIN)

/**
 * enum gpumem_bo_kind - where a buffer object's memory comes from
 * @GPUMEM_BO_DEVICE: allocated by this client
 * @GPUMEM_BO_VIEW: a window of a buffer object that another client (or this
 *	one) exported
 * @GPUMEM_BO_PINNED: registered memory of the owner's process
 * @GPUMEM_BO_HOST: allocated by this client, outside the device's memory
 * @GPUMEM_BO_FOREIGN: a DMA-buf that another driver made
 * @GPUMEM_BO_MANAGED: managed memory of this client
 */
enum gpumem_bo_kind {
	GPUMEM_BO_DEVICE = 1,
	GPUMEM_BO_VIEW = 2,
	GPUMEM_BO_PINNED = 3,
	GPUMEM_BO_HOST = 4,
	GPUMEM_BO_FOREIGN = 5,
	GPUMEM_BO_MANAGED = 6,
};

/**
 * struct gpumem_bo_info - properties of a buffer object (GPUMEM_BO_INFO)
 * @size: sizeof(struct gpumem_bo_info)
 * @id: buffer object
 * @kind: enum gpumem_bo_kind, out
 * @device: index of its device in this client, out
 * @length: bytes, out
 * @huge: bytes that lie in folios of PMD size, out; 0 for managed memory
 * @exports: live DMA-bufs, memory handles and views of any part of the buffer
 *	object, and those that only mappings keep, out
 * @tag: number that the client which allocated the memory gave it, or 0, out
 * @present: allocated bytes of managed memory, also those in swap, out; 0 for
 *	other kinds
 * @resident: bytes of managed memory in resident blocks, out; 0 for other kinds
 * @faults: of the blocks, as gpumem_stats.managed_faults, out
 * @evictions: of the blocks, as gpumem_stats.managed_evictions, out
 * @thrash: of the blocks, as gpumem_stats.managed_thrash, out
 * @moved_in: of the blocks, as gpumem_stats.managed_in, out
 * @moved_out: of the blocks, as gpumem_stats.managed_out, out
 *
 * The last five are 0 unless the memory is managed.
 */
struct gpumem_bo_info {
	__u32 size;
	__u32 id;
	__u32 kind;
	__u32 device;
	__aligned_u64 length;
	__aligned_u64 huge;
	__u32 exports;
	__u32 tag;
	__aligned_u64 present;
	__aligned_u64 resident;
	__aligned_u64 faults;
	__aligned_u64 evictions;
	__aligned_u64 thrash;
	__aligned_u64 moved_in;
	__aligned_u64 moved_out;
};

#define GPUMEM_BO_INFO _IO(GPUMEM_IOC_TYPE, GPUMEM_CMD_BO_INFO)

/**
 * enum gpumem_advice - what GPUMEM_BO_ADVISE says about blocks
 * @GPUMEM_ADVICE_PREFERRED: their preferred location is @device, which is an
 *	index, GPUMEM_ADVICE_HOST or GPUMEM_ADVICE_NONE; it replaces another
 * @GPUMEM_ADVICE_ACCESSED_BY: @device works on them where they are
 * @GPUMEM_ADVICE_NOT_ACCESSED_BY: undo GPUMEM_ADVICE_ACCESSED_BY
 * @GPUMEM_ADVICE_READ_MOSTLY: reads duplicate them; @device is
 *	GPUMEM_ADVICE_NONE
 * @GPUMEM_ADVICE_NOT_READ_MOSTLY: undo GPUMEM_ADVICE_READ_MOSTLY, and drop the
 *	copies; @device is GPUMEM_ADVICE_NONE
 * @GPUMEM_ADVICE_TOUCHED: the CPU accessed bytes of a block instead of @device,
 *	which now makes the block resident, or the most recently used
 */
enum gpumem_advice {
	GPUMEM_ADVICE_PREFERRED = 1,
	GPUMEM_ADVICE_ACCESSED_BY = 2,
	GPUMEM_ADVICE_NOT_ACCESSED_BY = 3,
	GPUMEM_ADVICE_READ_MOSTLY = 4,
	GPUMEM_ADVICE_NOT_READ_MOSTLY = 5,
	GPUMEM_ADVICE_TOUCHED = 6,
};

/* Preferred locations that are not devices: the host, and no location. */
#define GPUMEM_ADVICE_HOST	0xfffffffeU
#define GPUMEM_ADVICE_NONE	0xffffffffU

/**
 * struct gpumem_bo_advise - say where blocks are to be (GPUMEM_BO_ADVISE)
 * @size: sizeof(struct gpumem_bo_advise)
 * @id: managed memory
 * @offset: first byte, any alignment
 * @length: bytes, not 0
 * @advice: enum gpumem_advice
 * @device: index of a device in this client, or a preferred location
 *
 * GPUMEM_ADVICE_TOUCHED is not stored.  If the block of @offset is resident, or a
 * residency word shows it, the call moves it as an engine of @device would for a large
 * copy.  The range must not leave the block.  @device is an index.  A call that
 * fails with -ENOMEM or -EDQUOT is no refusal: GPUMEM_REFUSAL and the netlink family
 * do not report it.
 *
 * Other advice moves no block, unless GPUMEM_ADVICE_READ_MOSTLY ends.  It is about
 * the blocks that lie completely in the range, with or without pages; the last
 * block may be shorter than others.  The kernel follows the advice when an engine
 * touches a block that is not in use:
 *
 *  - A block that prefers the host does not become resident.  If the user may
 *    not pin more, it becomes resident as without advice.
 *  - A block that prefers a device becomes resident there.  If that device has
 *    no room, it becomes resident on the toucher's device.
 *  - A block that is resident on another device stays there if it prefers that
 *    device or the host.
 *  - A block that has pages stays where it is if the toucher's device is one of
 *    GPUMEM_ADVICE_ACCESSED_BY.
 *  - A block that is resident on the toucher's device stays there.
 *
 * A device evicts its blocks that prefer the host or another device first, and
 * the blocks that prefer the device last.  GPUMEM_OP_PREFETCH moves blocks as
 * without advice.
 *
 * GPUMEM_ADVICE_READ_MOSTLY comes before the other advice.  If an engine reads
 * such a block, or prefetches it, its device gets a copy, which counts as resident
 * there.  The copies that other devices have stay.  A prefetch to the host makes
 * the device's block a copy.  A write of the CPU to the block drops all copies.  A
 * write of an engine drops all but one, where the block becomes resident, and
 * moves it to the engine's device if that has room.  A device evicts copies before
 * it evicts resident blocks.  A block with a pinned page is not duplicated.
 * Long-term pins of the buffer object for writing may fail with EFAULT from the
 * first GPUMEM_ADVICE_READ_MOSTLY on.  When the advice ends, a block that prefers a
 * device with a copy becomes resident there.
 *
 * Errors: EOPNOTSUPP for an @advice that is not known, and if @id is not managed
 * memory; EINVAL for @length 0, for a @device with advice that has none, and for a
 * touch of two blocks; EOVERFLOW, EACCES, ENOMEM.  A touch may also fail as an
 * engine's does: EDQUOT, EIO, EINTR.
 */
struct gpumem_bo_advise {
	__u32 size;
	__u32 id;
	__aligned_u64 offset;
	__aligned_u64 length;
	__u32 advice;
	__u32 device;
};

#define GPUMEM_BO_ADVISE _IO(GPUMEM_IOC_TYPE, GPUMEM_CMD_BO_ADVISE)

/**
 * enum gpumem_bo_retire_flags - flags of GPUMEM_BO_RETIRE
 * @GPUMEM_BO_RETIRE_QUERY: only count, revoke nothing
 */
enum gpumem_bo_retire_flags {
	GPUMEM_BO_RETIRE_QUERY = 1 << 0,
};

/**
 * struct gpumem_bo_retire - stop sharing a range (GPUMEM_BO_RETIRE)
 * @size: sizeof(struct gpumem_bo_retire)
 * @id: buffer object of kind GPUMEM_BO_DEVICE
 * @offset: start of the range
 * @length: bytes, not 0
 * @flags: enum gpumem_bo_retire_flags
 * @live: number of DMA-bufs, memory handles and views that still reach a page of
 *	the range, also if only mappings of them are left; plus 1 if another
 *	subsystem holds a folio of the range (pinned for DMA, in a pipe), out
 *
 * The call revokes all tokens that overlap the range in any byte.  While @live
 * is not 0, the caller must not give the range to a new owner: the old users
 * can still read and write it.  A call that fails with EFAULT may have revoked
 * tokens; a second call returns @live.
 */
struct gpumem_bo_retire {
	__u32 size;
	__u32 id;
	__aligned_u64 offset;
	__aligned_u64 length;
	__u32 flags;
	__u32 live;
};

#define GPUMEM_BO_RETIRE _IO(GPUMEM_IOC_TYPE, GPUMEM_CMD_BO_RETIRE)

/**
 * enum gpumem_bo_export_flags - flags of GPUMEM_BO_EXPORT
 * @GPUMEM_BO_EXPORT_CLOEXEC: the descriptor is closed by execve()
 * @GPUMEM_BO_EXPORT_RDONLY: the descriptor cannot be mapped for writing
 * @GPUMEM_BO_EXPORT_HANDLE: make a memory handle instead of a DMA-buf: a
 *	descriptor of the whole buffer object that only GPUMEM_BO_IMPORT with
 *	GPUMEM_BO_IMPORT_HANDLE takes
 */
enum gpumem_bo_export_flags {
	GPUMEM_BO_EXPORT_CLOEXEC = 1 << 0,
	GPUMEM_BO_EXPORT_RDONLY = 1 << 1,
	GPUMEM_BO_EXPORT_HANDLE = 1 << 2,
};

/**
 * struct gpumem_bo_export - make a DMA-buf or a memory handle
 *	(GPUMEM_BO_EXPORT)
 * @size: sizeof(struct gpumem_bo_export)
 * @id: buffer object
 * @offset: start of the range, page aligned
 * @length: bytes, page aligned, not 0
 * @flags: enum gpumem_bo_export_flags
 * @fd: new descriptor of a new DMA-buf or handle, out
 *
 * A handle keeps the memory alive as a DMA-buf does.  Work on memory that
 * processes share by handles gets no fences.
 *
 * Errors: EINVAL for a handle of a part of the buffer object, of one that the
 * client did not allocate, of a chunk, or together with
 * GPUMEM_BO_EXPORT_RDONLY.
 */
struct gpumem_bo_export {
	__u32 size;
	__u32 id;
	__aligned_u64 offset;
	__aligned_u64 length;
	__u32 flags;
	__s32 fd;
};

#define GPUMEM_BO_EXPORT _IO(GPUMEM_IOC_TYPE, GPUMEM_CMD_BO_EXPORT)

/**
 * enum gpumem_bo_import_flags - flags of GPUMEM_BO_IMPORT
 * @GPUMEM_BO_IMPORT_HANDLE: the descriptor is a memory handle
 */
enum gpumem_bo_import_flags {
	GPUMEM_BO_IMPORT_HANDLE = 1 << 0,
};

/**
 * struct gpumem_bo_import - use a DMA-buf or a memory handle (GPUMEM_BO_IMPORT)
 * @size: sizeof(struct gpumem_bo_import)
 * @fd: descriptor of a DMA-buf, or of a handle
 * @flags: enum gpumem_bo_import_flags
 * @id: buffer object of kind GPUMEM_BO_VIEW if gpumem made the DMA-buf or
 *	handle, else of kind GPUMEM_BO_FOREIGN, out
 * @device: index in this client of the device whose memory it is; 0 if another
 *	driver made it, out
 * @reserved: must be 0
 * @length: bytes, out
 *
 * Streams use a foreign buffer object like any other.  Engine work waits for
 * the fences that other drivers left in its DMA-buf.  By the rules of DMA-buf
 * this work is access by the CPU.  mmap() at offset 0 gives the exporter's own
 * mapping, or EINVAL if the exporter has none; a process must bracket its
 * access to that mapping with DMA_BUF_IOCTL_SYNC.  The object is not in the
 * device's memory, and cannot be exported, named by a token or retired.
 *
 * Errors: EBADF; EINVAL if @fd is no DMA-buf (with GPUMEM_BO_IMPORT_HANDLE: no
 * handle) or the DMA-buf does not consist of whole pages; EOPNOTSUPP if the
 * exporter, another driver, gives the CPU no access to the memory (no vmap, or
 * registers of a device); EOVERFLOW if the DMA-buf is larger than a buffer
 * object can be; EACCES if its device is not attached to this client or the
 * descriptor is read-only; ENOMEM; or the exporter's own error.
 */
struct gpumem_bo_import {
	__u32 size;
	__s32 fd;
	__u32 flags;
	__u32 id;
	__u32 device;
	__u32 reserved;
	__aligned_u64 length;
};

#define GPUMEM_BO_IMPORT _IO(GPUMEM_IOC_TYPE, GPUMEM_CMD_BO_IMPORT)

/* Tokens of memory */

#define GPUMEM_TOKEN_SIZE	16

/**
 * enum gpumem_token_flags - flags of GPUMEM_TOKEN_CREATE and
 * GPUMEM_EVENT_CREATE:
 *	the scope of the token, that is, who may open it
 * @GPUMEM_TOKEN_ANY_USER: every user that can open the device
 * @GPUMEM_TOKEN_PID_NS: the same user in the same user namespace, from the
 *	maker's pid namespace or one below it
 *
 * Without a flag the same user in the same user namespace may open the token.
 * Both flags together are an error (EINVAL).  The maker is the calling task,
 * with the credentials and the pid namespace that it has then.
 *
 * The module's parameter ipc_scope is the widest scope that the administrator
 * allows: "pidns", "user" or "any".  A call that asks for a wider scope fails
 * with EPERM.  A caller can open a token if both the token's own scope and the
 * current ipc_scope admit the caller.  If only ipc_scope refuses, the open
 * fails with EPERM.
 */
enum gpumem_token_flags {
	GPUMEM_TOKEN_ANY_USER = 1 << 0,
	GPUMEM_TOKEN_PID_NS = 1 << 1,
};

/**
 * struct gpumem_token_create - name a range for other processes
 *	(GPUMEM_TOKEN_CREATE)
 * @size: sizeof(struct gpumem_token_create)
 * @bo: buffer object of kind GPUMEM_BO_DEVICE
 * @offset: start of the range, any alignment
 * @length: bytes, not 0
 * @flags: enum gpumem_token_flags
 * @id: token object, out; destroying it revokes the token
 * @token: random name of the range, out
 *
 * Errors: EPERM if the parameter ipc_scope allows only narrower scopes.
 */
struct gpumem_token_create {
	__u32 size;
	__u32 bo;
	__aligned_u64 offset;
	__aligned_u64 length;
	__u32 flags;
	__u32 id;
	__u8 token[GPUMEM_TOKEN_SIZE];
};

#define GPUMEM_TOKEN_CREATE _IO(GPUMEM_IOC_TYPE, GPUMEM_CMD_TOKEN_CREATE)

/**
 * enum gpumem_token_open_result - @result of GPUMEM_TOKEN_OPEN
 * @GPUMEM_TOKEN_OPEN_OWN: this client made the token
 */
enum gpumem_token_open_result {
	GPUMEM_TOKEN_OPEN_OWN = 1 << 0,
};

/**
 * struct gpumem_token_open - reach a range that a token names
 *	(GPUMEM_TOKEN_OPEN)
 * @size: sizeof(struct gpumem_token_open)
 * @flags: must be 0
 * @token: name of the range
 * @id: buffer object of kind GPUMEM_BO_VIEW, out
 * @device: index of its device in this client, out
 * @length: bytes of the view, whole pages around the range, out
 * @delta: start of the range in the view, out
 * @bytes: length of the range, out
 * @result: enum gpumem_token_open_result, out
 * @reserved: must be 0
 *
 * Errors: ENOENT if no such token lives, EACCES if the token's scope does not
 * admit the caller or the device is not attached, EPERM if only the parameter
 * ipc_scope refuses.
 */
struct gpumem_token_open {
	__u32 size;
	__u32 flags;
	__u8 token[GPUMEM_TOKEN_SIZE];
	__u32 id;
	__u32 device;
	__aligned_u64 length;
	__aligned_u64 delta;
	__aligned_u64 bytes;
	__u32 result;
	__u32 reserved;
};

#define GPUMEM_TOKEN_OPEN _IO(GPUMEM_IOC_TYPE, GPUMEM_CMD_TOKEN_OPEN)

/* Address spaces */

/**
 * struct gpumem_vm_create - make an address space (GPUMEM_VM_CREATE)
 * @size: sizeof(struct gpumem_vm_create)
 * @flags: must be 0
 * @id: address space, out
 * @reserved: must be 0
 */
struct gpumem_vm_create {
	__u32 size;
	__u32 flags;
	__u32 id;
	__u32 reserved;
};

#define GPUMEM_VM_CREATE _IO(GPUMEM_IOC_TYPE, GPUMEM_CMD_VM_CREATE)

/**
 * enum gpumem_vm_map_flags - flags of GPUMEM_VM_MAP
 * @GPUMEM_VM_MAP_SPARSE: map no buffer object, but make a sparse mapping: tiles
 *	that GPUMEM_VM_BIND binds to memory.  A tile that is not bound is a hole:
 *	reads of it return zeros, and writes to it are dropped
 */
enum gpumem_vm_map_flags {
	GPUMEM_VM_MAP_SPARSE = 1 << 0,
};

/** GPUMEM_TILE_SIZE - bytes of a tile of a sparse mapping */
#define GPUMEM_TILE_SIZE	0x10000

/**
 * struct gpumem_vm_map - put a buffer object at a device address
 *	(GPUMEM_VM_MAP)
 * @size: sizeof(struct gpumem_vm_map)
 * @vm: address space
 * @bo: buffer object, which the mapping keeps alive; 0 if the mapping is sparse
 * @flags: enum gpumem_vm_map_flags
 * @offset: in the buffer object, page aligned; 0 if the mapping is sparse
 * @addr: device address, page aligned, not 0
 * @length: bytes, page aligned, not 0; for a registration @offset, @addr and
 *	@length may have any alignment; for a sparse mapping @addr and @length
 *	are multiples of GPUMEM_TILE_SIZE
 * @readers: devices (bit = index in this client) that may read
 * @writers: devices that may write; must be a subset of @readers
 *
 * Errors: EEXIST if any part of the range is mapped, EACCES for a device that
 * is not attached, EINVAL for @writers of a registration with
 * GPUMEM_BO_PIN_RDONLY, EDQUOT if the user has as many mappings as the module's
 * parameter map_limit says.
 */
struct gpumem_vm_map {
	__u32 size;
	__u32 vm;
	__u32 bo;
	__u32 flags;
	__aligned_u64 offset;
	__aligned_u64 addr;
	__aligned_u64 length;
	__u32 readers;
	__u32 writers;
};

#define GPUMEM_VM_MAP _IO(GPUMEM_IOC_TYPE, GPUMEM_CMD_VM_MAP)

/**
 * struct gpumem_vm_unmap - take mappings away (GPUMEM_VM_UNMAP)
 * @size: sizeof(struct gpumem_vm_unmap)
 * @vm: address space
 * @addr: device address
 * @length: bytes, not 0
 * @unmapped: bytes that were mapped, out
 *
 * The range may contain several mappings and holes.  It must cover each mapping
 * that it touches as a whole; else the call fails with EINVAL and changes
 * nothing.  Queued work that accesses the range fails when it is executed.  The
 * call fails with EINTR if its process is killed while other threads keep
 * changing the range.
 */
struct gpumem_vm_unmap {
	__u32 size;
	__u32 vm;
	__aligned_u64 addr;
	__aligned_u64 length;
	__aligned_u64 unmapped;
};

#define GPUMEM_VM_UNMAP _IO(GPUMEM_IOC_TYPE, GPUMEM_CMD_VM_UNMAP)

/**
 * struct gpumem_vm_access - change a device's access to mappings
 *	(GPUMEM_VM_ACCESS)
 * @size: sizeof(struct gpumem_vm_access)
 * @vm: address space
 * @addr: device address
 * @length: bytes, not 0; whole mappings without holes
 * @device: index of the device in this client
 * @access: 0 for none, GPUMEM_ACCESS_READ, or both bits
 *
 * Errors: EACCES for a device that is not attached; EINVAL if the range is not
 * whole mappings, or if @access has WRITE and the range contains a registration
 * with GPUMEM_BO_PIN_RDONLY.  A call that fails changes nothing.
 */
struct gpumem_vm_access {
	__u32 size;
	__u32 vm;
	__aligned_u64 addr;
	__aligned_u64 length;
	__u32 device;
	__u32 access;
};

#define GPUMEM_VM_ACCESS _IO(GPUMEM_IOC_TYPE, GPUMEM_CMD_VM_ACCESS)

/**
 * enum gpumem_access - bits of struct gpumem_vm_access.access
 * @GPUMEM_ACCESS_READ: the device may read
 * @GPUMEM_ACCESS_WRITE: the device may write; only together with READ
 */
enum gpumem_access {
	GPUMEM_ACCESS_READ = 1 << 0,
	GPUMEM_ACCESS_WRITE = 1 << 1,
};

/**
 * GPUMEM_EXPORT_PARTS - mappings that a DMA-buf of GPUMEM_VM_EXPORT may have
 */
#define GPUMEM_EXPORT_PARTS	16384

/**
 * struct gpumem_vm_export - make a DMA-buf of a range of addresses
 *	(GPUMEM_VM_EXPORT)
 * @size: sizeof(struct gpumem_vm_export)
 * @vm: address space
 * @addr: device address, page aligned
 * @length: bytes, page aligned, not 0
 * @flags: GPUMEM_BO_EXPORT_CLOEXEC and GPUMEM_BO_EXPORT_RDONLY
 * @fd: new descriptor of a new DMA-buf, out
 *
 * The range may begin and end within mappings, and may contain several.  The
 * access that devices have to them does not matter.  The DMA-buf keeps the
 * memory that is mapped at the time of the call, whatever becomes of the
 * mappings.
 *
 * If the range has more than one mapping, each counts as a further mapping of
 * the user for as long as the DMA-buf lives (EDQUOT).
 *
 * Errors: EINVAL if a byte of the range has no mapping, or if a mapping in it
 * is sparse or not of whole pages; EACCES if it contains a registration with
 * GPUMEM_BO_PIN_RDONLY; EOPNOTSUPP if it contains a DMA-buf of another driver;
 * EMFILE if it has more than GPUMEM_EXPORT_PARTS mappings; EOVERFLOW if it is
 * longer than the machine's memory, because it has the same memory many times;
 * EBUSY if too many other clients have such DMA-bufs of the same memory.
 */
struct gpumem_vm_export {
	__u32 size;
	__u32 vm;
	__aligned_u64 addr;
	__aligned_u64 length;
	__u32 flags;
	__s32 fd;
};

#define GPUMEM_VM_EXPORT _IO(GPUMEM_IOC_TYPE, GPUMEM_CMD_VM_EXPORT)

/**
 * enum gpumem_vm_bind_flags - flags of GPUMEM_VM_BIND
 * @GPUMEM_VM_BIND_RESERVE: bind nothing, but allocate the kernel's memory for
 *	binds of these tiles, which then do not fail for want of memory; @bo is 0
 */
enum gpumem_vm_bind_flags {
	GPUMEM_VM_BIND_RESERVE = 1 << 0,
};

/**
 * struct gpumem_vm_bind - bind tiles of a sparse mapping to memory
 *	(GPUMEM_VM_BIND)
 * @size: sizeof(struct gpumem_vm_bind)
 * @vm: address space
 * @bo: buffer object, neither a registration nor managed memory; each bound tile
 *	keeps it alive.  0 makes the tiles holes
 * @flags: enum gpumem_vm_bind_flags
 * @offset: of the first tile's memory in the buffer object
 * @step: from the memory of a tile to that of the next tile; usually
 *	GPUMEM_TILE_SIZE
 * @addr: device address of the first tile
 * @length: bytes of addresses, not 0
 *
 * The range lies in one sparse mapping.  All of its tiles are bound, whatever
 * they were bound to before.  Each tile changes at once for work of all
 * streams, also for work that was queued before.  @offset, @step and @length
 * are multiples of GPUMEM_TILE_SIZE; @offset and @step are 0 without @bo.
 *
 * Errors: EINVAL if the range is not whole tiles of a sparse mapping, or for a
 * registration; EOVERFLOW if a tile's memory is not in the buffer object;
 * EDQUOT, by the limit of mappings: the kernel's memory for each 256 tiles
 * counts as 64 mappings; ENOMEM; EINTR when killed.  A call that fails has
 * bound nothing and keeps no memory of the kernel, unless another thread
 * unmapped the range meanwhile.
 */
struct gpumem_vm_bind {
	__u32 size;
	__u32 vm;
	__u32 bo;
	__u32 flags;
	__aligned_u64 offset;
	__aligned_u64 step;
	__aligned_u64 addr;
	__aligned_u64 length;
};

#define GPUMEM_VM_BIND _IO(GPUMEM_IOC_TYPE, GPUMEM_CMD_VM_BIND)

/* Streams */

/**
 * enum gpumem_op - operations of ring entries
 * @GPUMEM_OP_NOP: nothing; completes in order
 * @GPUMEM_OP_COPY: copy @height rows of @width bytes
 * @GPUMEM_OP_FILL: fill @height rows of @width elements of 1, 2, 4 or 8 bytes
 *	with the low bytes of @value; @dst and @dst_pitch are multiples of
 *	@elem
 * @GPUMEM_OP_WAIT: complete when timeline object @handle has reached @value
 * @GPUMEM_OP_SIGNAL: raise timeline object @handle to @value; a lower or equal
 *	value changes nothing
 * @GPUMEM_OP_TIMESTAMP: write CLOCK_MONOTONIC_RAW in ns as a u64 to @dst, which
 *	is 8-byte aligned; the time is that of the time namespace in which the
 *	client was opened
 * @GPUMEM_OP_ADD: raise timeline object @handle by @value; fails with EOVERFLOW
 *	if the sum needs more than 64 bits, but a counting timeline then stays at
 *	the largest value
 * @GPUMEM_OP_POLL: complete when the word of @elem (4 or 8) bytes at @dst, aligned
 *	to its size, compares with @value as enum gpumem_poll in @handle says;
 *	fails with EFAULT if the word is not aligned in a registration's memory
 * @GPUMEM_OP_PREFETCH: make the blocks of managed memory that the @width bytes
 *	at @dst touch resident on the stream's device, or do what enum
 *	gpumem_prefetch in @handle says.  A prefetch stops, and
 *	completes without an error, at a byte that is not mapped, that is not
 *	managed memory or to which the device has no access, where there is no
 *	memory, and at a page that failed or cannot be read from swap
 */
enum gpumem_op {
	GPUMEM_OP_NOP = 0,
	GPUMEM_OP_COPY = 1,
	GPUMEM_OP_FILL = 2,
	GPUMEM_OP_WAIT = 3,
	GPUMEM_OP_SIGNAL = 4,
	GPUMEM_OP_TIMESTAMP = 5,
	GPUMEM_OP_ADD = 6,
	GPUMEM_OP_POLL = 7,
	GPUMEM_OP_PREFETCH = 8,
};

/**
 * enum gpumem_prefetch - where GPUMEM_OP_PREFETCH moves blocks
 * @GPUMEM_PREFETCH_DEVICE: to the stream's device
 * @GPUMEM_PREFETCH_HOST: to the system's memory; pages move back to the memory
 *	node on which they were before they moved to a device's node
 * @GPUMEM_PREFETCH_NODE: to the system's memory, to the memory node whose number
 *	is in @value; also pages of blocks that are not resident move there
 * @GPUMEM_PREFETCH_DISCARD: nowhere: the blocks are evicted, and the whole pages
 *	of the range are given back to the system.  Blocks in use, and pages that
 *	another subsystem holds, stay.  The pages are zero, or what they were
 */
enum gpumem_prefetch {
	GPUMEM_PREFETCH_DEVICE = 0,
	GPUMEM_PREFETCH_HOST = 1,
	GPUMEM_PREFETCH_NODE = 2,
	GPUMEM_PREFETCH_DISCARD = 3,
};

/*
 * GPUMEM_SHARED_MOST - buffer objects with DMA-bufs that an entry may touch.  A
 * buffer object in several mappings that are not adjacent counts once for each.
 * An entry that touches more fails with E2BIG before it executes anything.
 */
#define GPUMEM_SHARED_MOST	16384

/**
 * enum gpumem_poll - what GPUMEM_OP_POLL waits for
 * @GPUMEM_POLL_GEQ: word - value, as a signed number of the word's size, is not
 *	negative
 * @GPUMEM_POLL_EQ: word == value
 * @GPUMEM_POLL_AND: word & value is not 0
 * @GPUMEM_POLL_NOR: ~(word | value) is not 0
 *
 * Any process or stream that reaches the memory may write the word.  The poll
 * sees a write by a stream of the same client at once, any other write within
 * GPUMEM_POLL_NS.
 */
enum gpumem_poll {
	GPUMEM_POLL_GEQ = 0,
	GPUMEM_POLL_EQ = 1,
	GPUMEM_POLL_AND = 2,
	GPUMEM_POLL_NOR = 3,
};

/** GPUMEM_POLL_NS - longest time between two looks at a word, ns */
#define GPUMEM_POLL_NS	1000000

/**
 * enum gpumem_sqe_flags - flags of a ring entry
 * @GPUMEM_SQE_DST_PAGEABLE: @dst of a copy, fill or poll is an address of the
 *	process that opened the client, not a device address
 * @GPUMEM_SQE_SRC_PAGEABLE: the same for @src of a copy
 *
 * The engine accesses the process's memory as a thread of the process does: it
 * works on what is mapped when the entry is executed, and page faults populate
 * the memory.  The entry fails with EFAULT at a byte that the process could not
 * access so.  If the other side of a copy has DMA-bufs, the kernel pins the
 * process's pages for as long as a fence is published, and charges the pages as
 * GPUMEM_BO_PIN does (EDQUOT).
 *
 * An entry with one of these flags fails with EOPNOTSUPP on a device without
 * GPUMEM_INFO_PAGEABLE.
 */
enum gpumem_sqe_flags {
	GPUMEM_SQE_DST_PAGEABLE = 1 << 0,
	GPUMEM_SQE_SRC_PAGEABLE = 1 << 1,
};

/**
 * GPUMEM_SQE_DST_RIGHTS - flags: whose access to @dst of a copy is checked
 * @device: index of a device
 *
 * Without it, that is the stream's device.  The stream's device executes the
 * copy in either case.
 *
 * The entry fails with EACCES if the device has no access or is not attached;
 * with EINVAL if @device is not below GPUMEM_MAX_DEVICES, or if the same side
 * is pageable; with EOPNOTSUPP if it is no copy.
 */
#define GPUMEM_SQE_DST_RIGHTS(device)				\
	((((device) + 1) & GPUMEM_SQE_RIGHTS_MASK) <<		\
	 GPUMEM_SQE_DST_RIGHTS_SHIFT)

/** GPUMEM_SQE_SRC_RIGHTS - the same for @src of a copy */
#define GPUMEM_SQE_SRC_RIGHTS(device)				\
	((((device) + 1) & GPUMEM_SQE_RIGHTS_MASK) <<		\
	 GPUMEM_SQE_SRC_RIGHTS_SHIFT)

/** GPUMEM_SQE_RIGHTS_MASK - values of either, shifted to bit 0; 0: none */
#define GPUMEM_SQE_RIGHTS_MASK		0x1f
#define GPUMEM_SQE_DST_RIGHTS_SHIFT	4
#define GPUMEM_SQE_SRC_RIGHTS_SHIFT	9

/**
 * struct gpumem_sqe - ring entry, 64 bytes
 * @op: enum gpumem_op
 * @elem: element size of a fill, size of a polled word; else 0
 * @flags: enum gpumem_sqe_flags, GPUMEM_SQE_DST_RIGHTS(),
 *	GPUMEM_SQE_SRC_RIGHTS()
 * @handle: timeline id of wait, signal, add and take; enum gpumem_poll of a
 *	poll; enum gpumem_prefetch of a prefetch; 0 for other operations
 * @dst: destination device address; address of a polled word or of a prefetch
 * @src: source device address of a copy
 * @value: pattern of a fill; value of wait, signal, add and poll
 * @width: bytes (copy) or elements (fill) per row; bytes of a prefetch, not 0
 * @height: rows; 0 and 1 both mean one row
 * @dst_pitch: bytes from one destination row to the next, if @height > 1
 * @src_pitch: bytes from one source row to the next, if @height > 1
 * @reserved2: must be 0
 *
 * Members that an operation does not use must be 0.  A copy between overlapping
 * ranges leaves undefined bytes in the destination.  The kernel copies an entry
 * out of the ring and then checks the copy.  After an entry that failed, later
 * entries complete, and the stream's value rises, but the kernel executes only
 * those with GPUMEM_OP_ADD.
 */
struct gpumem_sqe {
	__u8 op;
	__u8 elem;
	__u16 flags;
	__u32 handle;
	__aligned_u64 dst;
	union {
		__aligned_u64 src;
		__aligned_u64 value;
	};
	__aligned_u64 width;
	__aligned_u64 height;
	__aligned_u64 dst_pitch;
	__aligned_u64 src_pitch;
	__aligned_u64 reserved2;
};

/** GPUMEM_RING_SQES - offset of the entries in a stream's mapping */
#define GPUMEM_RING_SQES	4096

/**
 * struct gpumem_ring - first page of a stream's mapping, written by the client
 * @tail: number of entries submitted since the stream was made; entry n lies in
 *	slot n modulo the number of entries
 *
 * A client fills slots, then stores @tail with release semantics, then, after a
 * full barrier, reads @flags of the stream's timeline page and calls
 * GPUMEM_STREAM_DOORBELL if GPUMEM_TIMELINE_NEED_WAKEUP is set.  A slot is free
 * again when @head of the timeline page has passed it.
 *
 * The kernel allocates a page of slots at the first access to it; until then
 * its slots are zeros.  If the limit of rings is reached, the access raises
 * SIGBUS.  A client that wants an error instead calls
 * madvise(MADV_POPULATE_WRITE) before it writes to a page.  The call fails with
 * EFAULT at the limit, and with ENOMEM if the memory cgroup or the system has
 * no memory.
 */
struct gpumem_ring {
	__aligned_u64 tail;
};

/**
 * enum gpumem_timeline_flags - @flags of struct gpumem_timeline_page
 * @GPUMEM_TIMELINE_NEED_WAKEUP: the stream's worker sleeps; ring the doorbell
 */
enum gpumem_timeline_flags {
	GPUMEM_TIMELINE_NEED_WAKEUP = 1 << 0,
};

/**
 * struct gpumem_timeline_page - a timeline's page, written by the kernel alone
 * @value: never falls; stream: number of entries completed
 * @error: 0, or the errno of the first entry that failed; written before @value
 * @reserved: 0
 * @failed: stream: number of the first entry that failed, counted from 0;
 *	written before @error
 * @reserved1: 0
 * @head: stream: entries taken from the ring
 * @flags: enum gpumem_timeline_flags
 * @reserved2: 0
 */
struct gpumem_timeline_page {
	__aligned_u64 value;
	__u32 error;
	__u32 reserved;
	__aligned_u64 failed;
	__u32 reserved1[10];
	__aligned_u64 head;
	__u32 flags;
	__u32 reserved2[13];
};

/**
 * struct gpumem_stream_create - make a queue (GPUMEM_STREAM_CREATE)
 * @size: sizeof(struct gpumem_stream_create)
 * @flags: must be 0
 * @vm: address space its entries are in; kept alive by the stream
 * @device: index of the device that executes, in this client
 * @priority: 0 (lowest) to -5 (highest)
 * @entries: length of the ring, a power of two from 16 to 4096
 * @id: stream, out
 * @timeline: timeline object of the stream, out; a handle of its own
 */
struct gpumem_stream_create {
	__u32 size;
	__u32 flags;
	__u32 vm;
	__u32 device;
	__s32 priority;
	__u32 entries;
	__u32 id;
	__u32 timeline;
};

#define GPUMEM_STREAM_CREATE _IO(GPUMEM_IOC_TYPE, GPUMEM_CMD_STREAM_CREATE)

/**
 * struct gpumem_stream_doorbell - wake a stream's worker
 *	(GPUMEM_STREAM_DOORBELL)
 * @size: sizeof(struct gpumem_stream_doorbell)
 * @id: stream
 */
struct gpumem_stream_doorbell {
	__u32 size;
	__u32 id;
};

#define GPUMEM_STREAM_DOORBELL _IO(GPUMEM_IOC_TYPE, GPUMEM_CMD_STREAM_DOORBELL)

/* Timelines */

/**
 * enum gpumem_timeline_create_flags - flags of GPUMEM_TIMELINE_CREATE
 * @GPUMEM_TIMELINE_COUNTING: the value counts signals, and
 *	GPUMEM_TIMELINE_TAKE gives each of them to one caller
 */
enum gpumem_timeline_create_flags {
	GPUMEM_TIMELINE_COUNTING = 1 << 0,
};

/**
 * struct gpumem_timeline_create - make a timeline without a stream
 *	(GPUMEM_TIMELINE_CREATE)
 * @size: sizeof(struct gpumem_timeline_create)
 * @flags: enum gpumem_timeline_create_flags
 * @value: where it starts
 * @id: timeline, out
 * @reserved: must be 0
 */
struct gpumem_timeline_create {
	__u32 size;
	__u32 flags;
	__aligned_u64 value;
	__u32 id;
	__u32 reserved;
};

#define GPUMEM_TIMELINE_CREATE _IO(GPUMEM_IOC_TYPE, GPUMEM_CMD_TIMELINE_CREATE)

/**
 * struct gpumem_timeline_signal - raise a timeline (GPUMEM_TIMELINE_SIGNAL)
 * @size: sizeof(struct gpumem_timeline_signal)
 * @id: timeline; EINVAL for that of a stream or of a sync_file
 * @value: new value; a lower or equal one changes nothing
 */
struct gpumem_timeline_signal {
	__u32 size;
	__u32 id;
	__aligned_u64 value;
};

#define GPUMEM_TIMELINE_SIGNAL _IO(GPUMEM_IOC_TYPE, GPUMEM_CMD_TIMELINE_SIGNAL)

/**
 * struct gpumem_timeline_take - take the next signal of a counting timeline
 *	(GPUMEM_TIMELINE_TAKE)
 * @size: sizeof(struct gpumem_timeline_take)
 * @id: timeline that was made with GPUMEM_TIMELINE_COUNTING; else EINVAL
 * @value: value at which the timeline has the signal, out
 *
 * A call may take a signal that has not come yet: the caller waits for @value.
 * The order of these calls, whichever client makes them, decides who gets which
 * signal.  A signal that was taken stays taken, also if the caller ends before
 * it waits: another client may then add one in its place.
 */
struct gpumem_timeline_take {
	__u32 size;
	__u32 id;
	__aligned_u64 value;
};

#define GPUMEM_TIMELINE_TAKE _IO(GPUMEM_IOC_TYPE, GPUMEM_CMD_TIMELINE_TAKE)

/**
 * struct gpumem_timeline_wait - wait for a timeline (GPUMEM_TIMELINE_WAIT)
 * @size: sizeof(struct gpumem_timeline_wait)
 * @id: timeline
 * @value: to be reached
 * @deadline: CLOCK_MONOTONIC ns, of the caller's time namespace; 0 polls, ~0
 *	waits forever
 * @flags: must be 0
 * @error: the timeline's error, or ECANCELED if the timeline has no error and
 *	ended below @value, out
 * @reached: the timeline's value, out
 *
 * Errors: ETIMEDOUT; EINTR; EIO if the wait is over and @error is not 0,
 * whether the timeline has reached @value or has ended below it.  The kernel
 * writes
 * @error and @reached also with ETIMEDOUT and EIO.
 */
struct gpumem_timeline_wait {
	__u32 size;
	__u32 id;
	__aligned_u64 value;
	__aligned_u64 deadline;
	__u32 flags;
	__u32 error;
	__aligned_u64 reached;
};

#define GPUMEM_TIMELINE_WAIT _IO(GPUMEM_IOC_TYPE, GPUMEM_CMD_TIMELINE_WAIT)

/**
 * enum gpumem_timeline_export_flags - flags of GPUMEM_TIMELINE_EXPORT
 * @GPUMEM_TIMELINE_EXPORT_CLOEXEC: the descriptor is closed by execve()
 */
enum gpumem_timeline_export_flags {
	GPUMEM_TIMELINE_EXPORT_CLOEXEC = 1 << 0,
};

/**
 * struct gpumem_timeline_export - let other clients use a timeline
 *	(GPUMEM_TIMELINE_EXPORT)
 * @size: sizeof(struct gpumem_timeline_export)
 * @id: timeline without a stream, of this client or imported
 * @flags: enum gpumem_timeline_export_flags
 * @fd: new descriptor, out
 *
 * A client that has the descriptor may import the timeline, and then wait for
 * it, raise it and take from it.  The timeline belongs to the client that made
 * it: when that client destroys its id, or ends, the timeline is lost, and waits
 * for values that it has not reached fail.  Descriptors and imports do not
 * change that.
 *
 * Errors: EINVAL for the timeline of a stream or of a sync_file; EMFILE.
 */
struct gpumem_timeline_export {
	__u32 size;
	__u32 id;
	__u32 flags;
	__s32 fd;
};

#define GPUMEM_TIMELINE_EXPORT _IO(GPUMEM_IOC_TYPE, GPUMEM_CMD_TIMELINE_EXPORT)

/**
 * enum gpumem_timeline_import_result - @result of GPUMEM_TIMELINE_IMPORT
 * @GPUMEM_TIMELINE_IMPORT_COUNTING: it was made with GPUMEM_TIMELINE_COUNTING
 * @GPUMEM_TIMELINE_IMPORT_FENCE: it stands for the fence of a sync_file
 */
enum gpumem_timeline_import_result {
	GPUMEM_TIMELINE_IMPORT_COUNTING = 1 << 0,
	GPUMEM_TIMELINE_IMPORT_FENCE = 1 << 1,
};

/**
 * struct gpumem_timeline_import - use a timeline that was exported, or a fence
 *	(GPUMEM_TIMELINE_IMPORT)
 * @size: sizeof(struct gpumem_timeline_import)
 * @fd: descriptor that GPUMEM_TIMELINE_EXPORT gave, or of a sync_file of any
 *	driver; the call does not close it
 * @flags: must be 0
 * @id: timeline, a new id with each call, out
 * @result: enum gpumem_timeline_import_result, out
 * @reserved: must be 0
 *
 * The import of a timeline cannot be mapped, and ends with its id.  A sync_file
 * becomes a timeline of this client that starts at 0.  It rises to 1 when the
 * fence is signalled without an error.  It is lost, with the fence's error, when
 * the fence is signalled with one.  No client can raise it.
 *
 * Errors: EBADF; EINVAL if @fd is neither a timeline's nor a sync_file.
 */
struct gpumem_timeline_import {
	__u32 size;
	__s32 fd;
	__u32 flags;
	__u32 id;
	__u32 result;
	__u32 reserved;
};

#define GPUMEM_TIMELINE_IMPORT _IO(GPUMEM_IOC_TYPE, GPUMEM_CMD_TIMELINE_IMPORT)

/* Events */

/**
 * struct gpumem_event_create - make an event that other processes can open
 *	(GPUMEM_EVENT_CREATE)
 * @size: sizeof(struct gpumem_event_create)
 * @flags: enum gpumem_token_flags
 * @id: event object, out
 * @reserved: must be 0
 * @token: random name of the event, out; opens while @id lives
 *
 * An event stands for the entries that a stream had submitted when the event
 * was recorded last.  An event that was never recorded is complete.  An event
 * lives until every process that opened it has destroyed its id.
 *
 * Errors: EPERM if the parameter ipc_scope allows only narrower scopes.
 */
struct gpumem_event_create {
	__u32 size;
	__u32 flags;
	__u32 id;
	__u32 reserved;
	__u8 token[GPUMEM_TOKEN_SIZE];
};

#define GPUMEM_EVENT_CREATE _IO(GPUMEM_IOC_TYPE, GPUMEM_CMD_EVENT_CREATE)

/**
 * enum gpumem_event_open_result - @result of GPUMEM_EVENT_OPEN
 * @GPUMEM_EVENT_OPEN_OWN: this client made the event
 */
enum gpumem_event_open_result {
	GPUMEM_EVENT_OPEN_OWN = 1 << 0,
};

/**
 * struct gpumem_event_open - reach an event that a token names
 *	(GPUMEM_EVENT_OPEN)
 * @size: sizeof(struct gpumem_event_open)
 * @flags: must be 0
 * @token: name of the event
 * @id: event object, a new one with each call, out
 * @result: enum gpumem_event_open_result, out
 *
 * Errors: ENOENT if no such event lives, EACCES if the token's scope does not
 * admit the caller, EPERM if only the parameter ipc_scope refuses.
 */
struct gpumem_event_open {
	__u32 size;
	__u32 flags;
	__u8 token[GPUMEM_TOKEN_SIZE];
	__u32 id;
	__u32 result;
};

#define GPUMEM_EVENT_OPEN _IO(GPUMEM_IOC_TYPE, GPUMEM_CMD_EVENT_OPEN)

/**
 * struct gpumem_event_record - record an event
 *	(GPUMEM_EVENT_RECORD)
 * @size: sizeof(struct gpumem_event_record)
 * @id: event
 * @timeline: timeline of a stream of this client, or 0: complete at once
 * @reserved: must be 0
 * @value: that the timeline has to reach; 0 if @timeline is 0
 *
 * Waits that began before the call wait for what the event stood for then.
 */
struct gpumem_event_record {
	__u32 size;
	__u32 id;
	__u32 timeline;
	__u32 reserved;
	__aligned_u64 value;
};

#define GPUMEM_EVENT_RECORD _IO(GPUMEM_IOC_TYPE, GPUMEM_CMD_EVENT_RECORD)

/**
 * enum gpumem_event_get_flags - flags of GPUMEM_EVENT_GET
 * @GPUMEM_EVENT_GET_QUERY: make no timeline object
 */
enum gpumem_event_get_flags {
	GPUMEM_EVENT_GET_QUERY = 1 << 0,
};

/**
 * enum gpumem_event_state - @state of struct gpumem_event_get
 * @GPUMEM_EVENT_COMPLETE: the recorded work has completed
 * @GPUMEM_EVENT_PENDING: the recorded work has not completed yet
 * @GPUMEM_EVENT_LOST: the recorded work never completes, because its stream has
 *	ended
 */
enum gpumem_event_state {
	GPUMEM_EVENT_COMPLETE = 0,
	GPUMEM_EVENT_PENDING = 1,
	GPUMEM_EVENT_LOST = 2,
};

/**
 * struct gpumem_event_get - query what an event stands for now
 *	(GPUMEM_EVENT_GET)
 * @size: sizeof(struct gpumem_event_get)
 * @id: event
 * @flags: enum gpumem_event_get_flags
 * @state: enum gpumem_event_state, out
 * @timeline: timeline object by which GPUMEM_TIMELINE_WAIT and wait entries can
 *	wait for the event, out; 0 if @state is not PENDING or @flags has QUERY
 * @reserved: must be 0
 * @value: to wait for, out; 0 without @timeline
 *
 * The timeline may belong to another client: this client can wait for it, but
 * neither map nor raise it.  Each call makes a new id.
 */
struct gpumem_event_get {
	__u32 size;
	__u32 id;
	__u32 flags;
	__u32 state;
	__u32 timeline;
	__u32 reserved;
	__aligned_u64 value;
};

#define GPUMEM_EVENT_GET _IO(GPUMEM_IOC_TYPE, GPUMEM_CMD_EVENT_GET)

/* Pools */

/**
 * enum gpumem_pool_flags - properties of a pool
 * @GPUMEM_POOL_HOST: its chunks are pinned system memory; they are allocated
 *	with GPUMEM_BO_ALLOC_HOST
 * @GPUMEM_POOL_IMPORTED: the id is an import; only returned, never passed
 */
enum gpumem_pool_flags {
	GPUMEM_POOL_HOST = 1 << 0,
	GPUMEM_POOL_IMPORTED = 1 << 1,
};

/**
 * struct gpumem_pool_create - make a pool (GPUMEM_POOL_CREATE)
 * @size: sizeof(struct gpumem_pool_create)
 * @flags: enum gpumem_pool_flags: HOST or nothing
 * @device: index of the device in this client whose memory the chunks are
 * @id: pool, out
 * @limit: bytes that chunks may have together, or 0 for no limit of its own
 * @name: shown in lists of pools, NUL terminated, may be empty
 *
 * A pool holds no memory by itself: GPUMEM_BO_ALLOC makes its chunks, and
 * a client that imports the pool may open any of them and nothing else.
 *
 * Errors: EACCES for a device that is not attached.
 */
struct gpumem_pool_create {
	__u32 size;
	__u32 flags;
	__u32 device;
	__u32 id;
	__aligned_u64 limit;
	__u8 name[16];
};

#define GPUMEM_POOL_CREATE _IO(GPUMEM_IOC_TYPE, GPUMEM_CMD_POOL_CREATE)

/**
 * struct gpumem_pool_set - state how much of a pool is in use (GPUMEM_POOL_SET)
 * @size: sizeof(struct gpumem_pool_set)
 * @id: pool of this client
 * @flags: must be 0
 * @reserved: must be 0
 * @used: bytes in use in the chunks; capped at the reserved bytes
 * @used_high: maximum of @used; at least @used, and capped at the maximum ever
 *	reserved
 * @reserved_high: maximum of the reserved bytes, as the client counts it: the
 *	client uses cached chunks again without a call, which the kernel does
 *	not see; raises the kernel's own maximum, up to the maximum of bytes in
 *	chunks
 *
 * The kernel shows these counters in lists of pools and has no other use for
 * them.
 *
 * Errors: EACCES if the pool is imported.
 */
struct gpumem_pool_set {
	__u32 size;
	__u32 id;
	__u32 flags;
	__u32 reserved;
	__aligned_u64 used;
	__aligned_u64 used_high;
	__aligned_u64 reserved_high;
};

#define GPUMEM_POOL_SET _IO(GPUMEM_IOC_TYPE, GPUMEM_CMD_POOL_SET)

/**
 * enum gpumem_pool_info_flags - flags of GPUMEM_POOL_INFO
 * @GPUMEM_POOL_INFO_RESET_RESERVED: afterwards reserved_high is equal to
 *	reserved_bytes
 * @GPUMEM_POOL_INFO_RESET_USED: afterwards used_high is equal to used
 */
enum gpumem_pool_info_flags {
	GPUMEM_POOL_INFO_RESET_RESERVED = 1 << 0,
	GPUMEM_POOL_INFO_RESET_USED = 1 << 1,
};

/**
 * struct gpumem_pool_info - properties and counters of a pool
 * (GPUMEM_POOL_INFO)
 * @size: sizeof(struct gpumem_pool_info)
 * @id: pool or import
 * @flags: enum gpumem_pool_info_flags; the counters below are those before the
 *	reset
 * @pool_flags: enum gpumem_pool_flags, out
 * @device: index of its device in this client, out
 * @reserved: must be 0
 * @limit: bytes that chunks may have together, or 0, out
 * @reserved_bytes: bytes in chunks that have memory and are not cached, out
 * @reserved_high: maximum of @reserved_bytes since the pool was made or since
 *	the reset, out
 * @used: as the maker stated it, at most @reserved_bytes, out
 * @used_high: as the maker stated it, out
 * @chunks: number of chunks whose memory is not freed, out
 * @imports: live imports, of all clients, out
 * @name: given by the maker, NUL terminated, out
 * @cached: bytes in cached chunks, out
 *
 * Errors: EACCES for a reset if the pool is imported.
 */
struct gpumem_pool_info {
	__u32 size;
	__u32 id;
	__u32 flags;
	__u32 pool_flags;
	__u32 device;
	__u32 reserved;
	__aligned_u64 limit;
	__aligned_u64 reserved_bytes;
	__aligned_u64 reserved_high;
	__aligned_u64 used;
	__aligned_u64 used_high;
	__aligned_u64 chunks;
	__aligned_u64 imports;
	__u8 name[16];
	__aligned_u64 cached;
};

#define GPUMEM_POOL_INFO _IO(GPUMEM_IOC_TYPE, GPUMEM_CMD_POOL_INFO)

/**
 * enum gpumem_pool_export_flags - flags of GPUMEM_POOL_EXPORT
 * @GPUMEM_POOL_EXPORT_CLOEXEC: the descriptor is closed by execve()
 * @GPUMEM_POOL_EXPORT_FABRIC: give a token instead of a descriptor
 * @GPUMEM_POOL_EXPORT_SAME_USER: with FABRIC: only the same user in the same user
 *	namespace may import the pool by the token
 * @GPUMEM_POOL_EXPORT_PID_NS: with FABRIC: as SAME_USER, and only from the
 *	maker's pid namespace or one below it
 *
 * With FABRIC alone every user that can open the device and holds the channel
 * may import the pool.  Every scope requires the channel.
 */
enum gpumem_pool_export_flags {
	GPUMEM_POOL_EXPORT_CLOEXEC = 1 << 0,
	GPUMEM_POOL_EXPORT_FABRIC = 1 << 1,
	GPUMEM_POOL_EXPORT_SAME_USER = 1 << 2,
	GPUMEM_POOL_EXPORT_PID_NS = 1 << 3,
};

/**
 * struct gpumem_pool_export - let others import a pool (GPUMEM_POOL_EXPORT)
 * @size: sizeof(struct gpumem_pool_export)
 * @id: pool of this client
 * @flags: enum gpumem_pool_export_flags
 * @fd: new descriptor, out; -1 with FABRIC
 * @token: random name of the pool, the same with each call, out; zero without
 *	FABRIC
 *
 * A process with the descriptor may import the pool for as long as the
 * descriptor is open, also when the pool's id is gone.  The token is valid for
 * clients that hold the same channel (GPUMEM_CHANNEL_ATTACH) as the pool's
 * maker, while the pool's id lives.  The first call with FABRIC decides the
 * token's scope.
 *
 * Errors: EACCES if the pool is imported; EPERM with FABRIC if this client
 * holds no channel or the parameter ipc_scope allows only narrower scopes;
 * EEXIST if the pool has a token of another scope; EINVAL for CLOEXEC with
 * FABRIC, for SAME_USER or PID_NS without FABRIC and for both of these; EMFILE.
 */
struct gpumem_pool_export {
	__u32 size;
	__u32 id;
	__u32 flags;
	__s32 fd;
	__u8 token[GPUMEM_TOKEN_SIZE];
};

#define GPUMEM_POOL_EXPORT _IO(GPUMEM_IOC_TYPE, GPUMEM_CMD_POOL_EXPORT)

/**
 * enum gpumem_pool_import_flags - flags of GPUMEM_POOL_IMPORT
 * @GPUMEM_POOL_IMPORT_FABRIC: by token, not by descriptor
 */
enum gpumem_pool_import_flags {
	GPUMEM_POOL_IMPORT_FABRIC = 1 << 0,
};

/**
 * enum gpumem_pool_import_result - @result of GPUMEM_POOL_IMPORT
 * @GPUMEM_POOL_IMPORT_OWN: this client made the pool
 */
enum gpumem_pool_import_result {
	GPUMEM_POOL_IMPORT_OWN = 1 << 0,
};

/**
 * struct gpumem_pool_import - use a pool that another client (or this one)
 *	exported (GPUMEM_POOL_IMPORT)
 * @size: sizeof(struct gpumem_pool_import)
 * @flags: enum gpumem_pool_import_flags
 * @fd: descriptor that GPUMEM_POOL_EXPORT gave; 0 with FABRIC
 * @id: import, a new one with each call, out
 * @token: name of the pool; zero without FABRIC
 * @device: index of its device in this client, out
 * @pool_flags: enum gpumem_pool_flags, out
 * @result: enum gpumem_pool_import_result, out
 * @reserved: must be 0
 *
 * An import opens chunks (GPUMEM_POOL_CHUNK_OPEN) and allocates none.
 *
 * Errors: EBADF; EINVAL if @fd is not a pool's; ENOENT if no pool has this
 * token; EPERM if this client does not hold the channel of the pool's maker, or
 * if the token's scope or the parameter ipc_scope does not admit the caller;
 * EACCES if the device is not attached.
 */
struct gpumem_pool_import {
	__u32 size;
	__u32 flags;
	__s32 fd;
	__u32 id;
	__u8 token[GPUMEM_TOKEN_SIZE];
	__u32 device;
	__u32 pool_flags;
	__u32 result;
	__u32 reserved;
};

#define GPUMEM_POOL_IMPORT _IO(GPUMEM_IOC_TYPE, GPUMEM_CMD_POOL_IMPORT)

/**
 * struct gpumem_pool_chunk_open - reach a chunk of a pool
 *	(GPUMEM_POOL_CHUNK_OPEN)
 * @size: sizeof(struct gpumem_pool_chunk_open)
 * @flags: must be 0
 * @pool: pool or import
 * @id: buffer object of kind GPUMEM_BO_VIEW, the whole chunk, out
 * @chunk: number that GPUMEM_BO_ALLOC gave
 * @length: bytes, out
 * @device: index of its device in this client, out
 * @reserved: must be 0
 *
 * When the maker destroys the chunk's id, the view keeps the chunk's memory,
 * which stays reserved in the pool.  The kernel makes no new views then.
 *
 * Errors: ENOENT if the pool has no chunk of this number, or the chunk's id is
 * gone.
 */
struct gpumem_pool_chunk_open {
	__u32 size;
	__u32 flags;
	__u32 pool;
	__u32 id;
	__aligned_u64 chunk;
	__aligned_u64 length;
	__u32 device;
	__u32 reserved;
};

#define GPUMEM_POOL_CHUNK_OPEN _IO(GPUMEM_IOC_TYPE, GPUMEM_CMD_POOL_CHUNK_OPEN)

/** GPUMEM_CHANNELS_NAME - of channel files' major number in /proc/devices */
#define GPUMEM_CHANNELS_NAME	"gpumem-channels"

/**
 * struct gpumem_channel_attach - hold a channel (GPUMEM_CHANNEL_ATTACH)
 * @size: sizeof(struct gpumem_channel_attach)
 * @fd: open descriptor of a channel file: a character device of the major
 *	number that /proc/devices lists as gpumem-channels, made by the
 *	administrator with mknod
 * @flags: must be 0
 * @channel: number of the channel, the file's minor number, out
 *
 * The file's permissions decide which processes can make a client hold the
 * channel.  A client keeps it until it ends, even if @fd is closed.
 *
 * Errors: EBADF, EINVAL if @fd is not a channel file, EEXIST if the client
 * holds another channel.
 */
struct gpumem_channel_attach {
	__u32 size;
	__s32 fd;
	__u32 flags;
	__u32 channel;
};

#define GPUMEM_CHANNEL_ATTACH _IO(GPUMEM_IOC_TYPE, GPUMEM_CMD_CHANNEL_ATTACH)

/* Reports */

/**
 * struct gpumem_refusal_info - the limit that refused the calling thread
 *	(GPUMEM_REFUSAL)
 * @size: sizeof(struct gpumem_refusal_info)
 * @limit: enum gpumem_limit of <linux/gpumem_netlink.h>, out; 0 if no limit
 *	refused the thread's last call, or if a limit has refused another thread
 *	of the client since
 * @device: N of the /dev/gpumemN that the refused call was about, out
 * @pool: id of the pool whose limit it is, or 0, out
 * @asked: bytes, or objects, that the call asked for, out
 * @used: what counted against the limit at that time, out
 * @max: the limit, or 0 if it is not known, out
 *
 * The kernel keeps only the last refusal of a client.  It drops the refusal
 * when the thread reads it or makes another ioctl.
 */
struct gpumem_refusal_info {
	__u32 size;
	__u32 limit;
	__u32 device;
	__u32 pool;
	__aligned_u64 asked;
	__aligned_u64 used;
	__aligned_u64 max;
};

#define GPUMEM_REFUSAL _IO(GPUMEM_IOC_TYPE, GPUMEM_CMD_REFUSAL)

/**
 * struct gpumem_stats - counters of this client (GPUMEM_STATS)
 * @size: sizeof(struct gpumem_stats)
 * @flags: must be 0
 * @objects: live ids
 * @bos: live buffer objects of kind GPUMEM_BO_DEVICE
 * @bo_bytes: bytes in them
 * @views: live buffer objects of kind GPUMEM_BO_VIEW
 * @view_bytes: bytes in them
 * @vm_bytes: bytes mapped in address spaces
 * @exports: live DMA-bufs that this client made, and handles of its memory
 * @export_bytes: bytes in them
 * @tokens: tokens that can be opened
 * @streams: live streams, including those that execute the rest of their ring
 *	after their id was destroyed
 * @jobs: ring entries completed without error
 * @copy_bytes: bytes that copies wrote
 * @fill_bytes: bytes that fills wrote
 * @doorbells: doorbell calls
 * @pins: live buffer objects of kind GPUMEM_BO_PINNED
 * @pin_bytes: bytes in them
 * @host: live buffer objects of kind GPUMEM_BO_HOST
 * @host_bytes: bytes in them
 * @pools: live pools that this client made; a pool lives on after its id while
 *	it has chunks, imports or open descriptors
 * @pool_reserved: bytes in the chunks of these pools; @bo_bytes and @host_bytes
 *	contain them, too, until only mappings or pins keep the memory
 * @pool_imports: live imports of pools by this client
 * @imports: live buffer objects of kind GPUMEM_BO_FOREIGN
 * @import_bytes: bytes in them, none of which is the device's memory
 * @pool_cached: bytes in cached chunks, which are not part of @pool_reserved
 * @mappings: mappings in address spaces, and parts of DMA-bufs of several
 *	mappings
 * @ring_bytes: bytes of rings that are allocated
 * @managed: live buffer objects of kind GPUMEM_BO_MANAGED
 * @managed_resident: bytes in their blocks that are resident on a device
 * @managed_faults: how often a block became resident because an engine touched
 *	it, not because of a prefetch
 * @managed_evictions: how often a resident block was evicted to make room
 * @managed_in: bytes in blocks that became resident, summed over time
 * @managed_out: bytes in blocks that were evicted, to make room or by a prefetch
 *	to the host, or that became resident on another device, summed over time
 * @managed_held: bytes in blocks that engines use, but that are not resident,
 *	because the device had no room; they count as pinned by the user
 * @managed_thrash: how often a block became resident on a device that had
 *	evicted it to make room, and that had not evicted more bytes since than
 *	its memory has
 * @managed_moved: bytes of managed memory that were copied from a memory node to
 *	another one
 * @managed_stayed: bytes of managed memory that were to move to another memory
 *	node and stayed: other subsystems held the pages, or the node had no
 *	memory
 * @managed_duplicated: bytes in copies of blocks, which are part of
 *	@managed_resident
 * @managed_duplications: how often a device, or the host by a prefetch, got a copy
 *	of a block
 * @managed_collapses: how often the copies of a block went because it was written,
 *	or because its advice ended
 * @engine_ns: nanoseconds that workers spent in streams, summed over workers
 *
 * /proc/PID/fdinfo shows the same numbers.
 */
struct gpumem_stats {
	__u32 size;
	__u32 flags;
	__aligned_u64 objects;
	__aligned_u64 bos;
	__aligned_u64 bo_bytes;
	__aligned_u64 views;
	__aligned_u64 view_bytes;
	__aligned_u64 vm_bytes;
	__aligned_u64 exports;
	__aligned_u64 export_bytes;
	__aligned_u64 tokens;
	__aligned_u64 streams;
	__aligned_u64 jobs;
	__aligned_u64 copy_bytes;
	__aligned_u64 fill_bytes;
	__aligned_u64 doorbells;
	__aligned_u64 pins;
	__aligned_u64 pin_bytes;
	__aligned_u64 host;
	__aligned_u64 host_bytes;
	__aligned_u64 pools;
	__aligned_u64 pool_reserved;
	__aligned_u64 pool_imports;
	__aligned_u64 imports;
	__aligned_u64 import_bytes;
	__aligned_u64 pool_cached;
	__aligned_u64 mappings;
	__aligned_u64 ring_bytes;
	__aligned_u64 managed;
	__aligned_u64 managed_resident;
	__aligned_u64 managed_faults;
	__aligned_u64 managed_evictions;
	__aligned_u64 managed_in;
	__aligned_u64 managed_out;
	__aligned_u64 managed_held;
	__aligned_u64 managed_thrash;
	__aligned_u64 managed_moved;
	__aligned_u64 managed_stayed;
	__aligned_u64 managed_duplicated;
	__aligned_u64 managed_duplications;
	__aligned_u64 managed_collapses;
	__aligned_u64 engine_ns;
};

#define GPUMEM_STATS _IO(GPUMEM_IOC_TYPE, GPUMEM_CMD_STATS)

/**
 * enum gpumem_notice_type - types of notices
 * @GPUMEM_NOTICE_OVER_BUDGET: the client holds more of a device's memory than
 *	its share
 */
enum gpumem_notice_type {
	GPUMEM_NOTICE_OVER_BUDGET = 1,
};

/**
 * struct gpumem_notice - an unsolicited notification
 * @type: enum gpumem_notice_type, out
 * @device: index of the device, out
 * @bytes: bytes above its share that the client held, out
 *
 * read() of the client's file returns one notice.  It waits for a notice, or
 * fails with EAGAIN if the file is O_NONBLOCK.  poll() reports POLLIN while
 * there is a notice.  A read() of fewer bytes than this structure fails with
 * EINVAL; a read() of more leaves the rest of the buffer unchanged.  Later
 * versions may add types, and members at the end.
 *
 * A share is the value of the device's attribute "budget" in sysfs, or else the
 * device's memory divided by the number of clients that hold some.  A share is
 * no limit.  A client gets a notice when it comes to hold more than its share,
 * and again when the device refuses memory to another client that would have
 * stayed within its own share.  GPUMEM_INFO gives the current excess at any
 * time.
 */
struct gpumem_notice {
	__u32 type;
	__u32 device;
	__aligned_u64 bytes;
};

#endif /* _UAPI_LINUX_GPUMEM_H */
