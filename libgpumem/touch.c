// SPDX-License-Identifier: MIT
/*
 * Touching the program's memory while something of the library is held.
 *
 * A thread that executes a copy or fill itself holds the stream's lock, and perhaps staging memory
 * or a turn. The program's memory may fault: its file was truncated, or it was never mapped. If the
 * program's handler for SIGBUS or SIGSEGV leaves by siglongjmp(), the library's function does not
 * return, and nothing gives back what it held. So the thread writes down what it holds before it
 * touches memory. The next call in the same thread that takes a stream's lock, waits, or destroys a
 * stream finds the note and gives everything back first; so does the end of the thread. A part of
 * the copy may have been done; work that is submitted later comes after it.
 *
 * Until that call other threads wait for the stream. A signal handler that interrupts a copy and
 * returns must not make such a call: it would give back what the copy still uses.
 *
 * A thread touches at most one thing at a time. Before it touches memory, what it has put into the
 * ring has been kicked: recovery does not submit anything.
 *
 * Locks: the note is the thread's own.
 */
#include "copy.h"
#include "internal.h"

__thread struct touch touch_note __attribute__((tls_model("initial-exec"))) = { .state = TOUCH_NEW };

void touch_recover(void)
{
	const struct touch note = touch_note;

	memset(&touch_note, 0, sizeof(touch_note));
	if (note.state == TOUCH_NEW) {
		/* It may never have a context, and its end gives back what it holds, too. */
		thread_register();
		return;
	}
	copy_abandon(note.stage, note.other, note.queue);
	if (note.stream)
		lock_drop(&note.stream->lock);
	/* The turn had come before the memory was touched: this does not wait for other work. */
	if (note.turn.queue)
		order_over(&note.turn);
}
