/* SPDX-License-Identifier: MIT */
/*
 * The terminal of `waymark top`, by ECMA-48's sequences, which all terminals of today have: the
 * alternate screen, no line wrap, no cursor. One per process: signal handlers belong to it.
 */
#ifndef CLI_TOP_SCREEN_H
#define CLI_TOP_SCREEN_H

#include "base/text_buffer.h"

#include <stddef.h>
#include <sys/types.h>

struct top_screen {
	int is_on;		     /* tables are drawn there */
	int has_keys;		     /* stdin is the terminal */
	int has_colour;		     /* NO_COLOR is not set */
	unsigned int lines, columns; /* as of the last top_screen_size() */
};

/* Whether standard output is a terminal that can be drawn on. */
int top_screen_is_fit(void);

/* Take the terminal. Undo it with top_screen_end(), which may be called at any time. */
void top_screen_begin(struct top_screen *screen);
void top_screen_end(struct top_screen *screen);

/* The size may have changed, or Ctrl-Z stopped the process until now: returns whether to draw. */
int top_screen_renew(struct top_screen *screen);

/* Ctrl-Z was pressed, or SIGTSTP sent: give the terminal back, stop, and take it again. */
int top_screen_suspend(struct top_screen *screen);

/* A key, or 0: none was pressed. */
int top_screen_key(const struct top_screen *screen);

/*
 * Draw lines of top_show(), the last line of the terminal being `footer`, from the upper left:
 * nothing is cleared before it is drawn again. 0 or -errno; 0 also where a signal ends the
 * command and the terminal takes nothing.
 */
int top_screen_draw(const struct top_screen *screen, const struct text *text, const char *footer);

/*
 * As write(2): some of the bytes. After a signal that ends the command it waits for the reader for
 * one second without progress. Then it returns -1 with EAGAIN.
 */
ssize_t top_screen_write(int fd, const void *bytes, size_t count);

/* The same where there is no terminal: the lines as they are. */
int top_screen_print(const struct text *text);

#endif
