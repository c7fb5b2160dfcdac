// SPDX-License-Identifier: MIT
/*
 * Touching the program's memory while the thread holds a lock, a hold or staging memory of the library.
 *
 * A thread that executes a copy or fill itself holds the stream's lock, and perhaps staging memory or a hold.
 * The program's memory may fault: its file was truncated, or it was never mapped. If the program's handler for
 * SIGBUS or SIGSEGV leaves by siglongjmp(), the library's function does not return and gives back nothing. So
 * the thread writes a note of what it holds before it touches memory. The next call in the same thread that
 * takes a stream's lock, waits, or destroys a stream finds the note and gives everything back first. The end of
 * the thread does the same. A part of the copy may have been done; work that is submitted later comes after it.
 *
 * Until that call other threads wait for the stream. A signal handler that interrupts a copy and
 * returns must not make such a call: it would give back what the copy still uses.
 *
 * A thread has one note, so it touches memory for one operation at a time. Before it touches memory, it has kicked
 * the entries that it put into the ring: recovery does not submit anything.
 *
 * Locks: the note is the thread's own.
 */
#include "exec/exec.h"

__thread struct touch touch_note __attribute__((tls_model("initial-exec"))) = { .state = TOUCH_NEW };

void touch_recover(void)
{
	const struct touch note = touch_note;

	memset(&touch_note, 0, sizeof(touch_note));
	if (note.state == TOUCH_NEW) {
		/*
		 * Register the thread here: it may never have a context, and its end must give back
		 * what it holds.
		 */
		thread_register();
		return;
	}
	if (note.stage)
		stage_return(note.stage);
	if (note.other)
		stage_drop(note.other, note.queue);
	if (note.stream)
		lock_drop(&note.stream->lock);
	/* The queue had reached the hold before the memory was touched: this does not wait for other work. */
	if (note.hold.queue)
		order_release(&note.hold);
}
