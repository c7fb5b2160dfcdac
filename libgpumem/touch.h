/* SPDX-License-Identifier: MIT */
/*
 * Touching the program's memory while something of the library is held.
 *
 * A part of internal.h; touch.c says what for.
 */
#ifndef GPUMEM_TOUCH_H
#define GPUMEM_TOUCH_H

struct stage;

/* TOUCH_NEW: nothing is known of the thread yet; its end has to be noticed. */
enum { TOUCH_NONE, TOUCH_ON, TOUCH_NEW };

/* What the calling thread holds while it copies. */
struct touch {
	uint8_t state;			/* TOUCH_ON: it copies, or left a copy by a jump */
	CUstream stream;		/* its lock is held, or NULL */
	struct turn turn;		/* is over after the copy; turn.queue is NULL: none */
	struct stage *stage;		/* staging memory that is copied to or from, or NULL */
	struct stage *other;		/* staging memory that work in @queue uses, or NULL */
	struct queue *queue;
};

extern __thread struct touch touch_note __attribute__((tls_model("initial-exec")));

/* The slow path of touch_check(): give back what a copy that was left by a jump had. */
void touch_recover(void);

/* In each call that takes a stream's lock or waits. */
static inline void touch_check(void)
{
	if (unlikely(touch_note.state))
		touch_recover();
}

/* The thread reads and writes memory that may fault from here on; @stream: whose lock it has. */
static inline void touch_begin(CUstream stream)
{
	touch_note.stream = stream;
	touch_note.state = TOUCH_ON;
	/* A handler in this thread finds the note complete. */
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
}

/* False if a signal handler made a call meanwhile, which gave back what the note says. */
static inline bool touch_end(void)
{
	bool on;

	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	on = touch_note.state;
	touch_note.state = TOUCH_NONE;
	return likely(on);
}

/* The end, and the stream's lock is dropped. */
static inline void touch_drop(CUstream stream)
{
	if (touch_end())
		lock_drop(&stream->lock);
}

/* The same as touch_begin() in a turn. */
static inline void touch_begin_turn(CUstream stream, const struct turn *turn)
{
	touch_note.turn = *turn;
	touch_begin(stream);
}

static inline bool touch_end_turn(void)
{
	bool on = touch_end();

	touch_note.turn.queue = NULL;
	return on;
}

/* The same with staging memory of a queue. */
static inline void touch_begin_stage(CUstream stream, struct queue *queue, struct stage *stage,
				     struct stage *other)
{
	touch_note.queue = queue;
	touch_note.stage = stage;
	touch_note.other = other;
	touch_begin(stream);
}

static inline bool touch_end_stage(void)
{
	bool on = touch_end();

	touch_note.stage = touch_note.other = NULL;
	return on;
}

#endif /* GPUMEM_TOUCH_H */
