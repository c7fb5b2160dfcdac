/* SPDX-License-Identifier: MIT */
/*
 * Touching the program's memory while something of the library is held.
 *
 * A part of stream.h. touch.c has the rules.
 */
#ifndef GPUMEM_TOUCH_H
#define GPUMEM_TOUCH_H

struct stage;

/* TOUCH_NEW: the thread is not registered yet, so ctx_thread_end() would not run at its end. */
enum { TOUCH_NONE, TOUCH_ON, TOUCH_NEW };

/* Resources that the calling thread holds while it copies. */
struct touch {
	uint8_t state;			/* TOUCH_ON: the thread copies, or left a copy by a jump */
	CUstream stream;		/* the stream whose lock is held, or NULL */
	struct hold hold;		/* to be released after the copy; hold.queue is NULL if there is none */
	struct stage *stage;		/* staging memory that is copied to or from, or NULL */
	struct stage *other;		/* staging memory that work in @queue uses, or NULL */
	struct queue *queue;		/* the queue that uses @other */
};

extern __thread HIDDEN struct touch touch_note __attribute__((tls_model("initial-exec")));

/* The slow path of touch_check(): release what a copy held that was left by a jump. */
void touch_recover(void);

/* Every function that takes a stream's lock or waits calls this first. */
static inline void touch_check(void)
{
	if (unlikely(touch_note.state))
		touch_recover();
}

/*
 * From here on the thread accesses memory that may fault. @stream: the stream whose lock the thread has, or NULL.
 */
static inline void touch_begin(CUstream stream)
{
	touch_note.stream = stream;
	touch_note.state = TOUCH_ON;
	/* A handler in this thread finds the note complete. */
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
}

/* False if a signal handler called the library meanwhile: that call released what the note names. */
static inline bool touch_end(void)
{
	bool on;

	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	on = touch_note.state;
	touch_note.state = TOUCH_NONE;
	return likely(on);
}

/* touch_end(), and drop the stream's lock. */
static inline void touch_drop(CUstream stream)
{
	if (touch_end())
		lock_drop(&stream->lock);
}

/* touch_drop() for a function that does not keep the stream. */
static inline void touch_drop_noted(void)
{
	CUstream stream = touch_note.stream;

	if (touch_end())
		lock_drop(&stream->lock);
}

/* touch_begin() with a hold. */
static inline void touch_begin_hold(CUstream stream, const struct hold *hold)
{
	touch_note.hold = *hold;
	touch_begin(stream);
}

static inline bool touch_end_hold(void)
{
	bool on = touch_end();

	touch_note.hold.queue = NULL;
	return on;
}

/* touch_begin() with staging memory of a queue. */
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
