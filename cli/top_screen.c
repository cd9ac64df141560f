/* SPDX-License-Identifier: MIT */
#include "cli/top_screen.h"

#include "cli/child.h"
#include "cli/top_show.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#define ENTER "\033[?1049h\033[?25l\033[?7l\033[H"
#define LEAVE "\033[0m\033[?7h\033[?25h\033[?1049l"
#define LINE_END "\033[K"
#define BELOW "\033[J"
#define END_TRIES 10 /* of 100 ms each, for what the output has not taken */

static volatile sig_atomic_t was_resized, was_stopped;
static struct termios before;

static void on_resize(int signal)
{
	(void)signal;
	was_resized = 1;
}

static void on_stop(int signal)
{
	(void)signal;
	was_stopped = 1;
}

/* Ctrl-S may have stopped the terminal. Start it again, so that the user sees the end. */
static void output_resume(void)
{
	if (!tcflow(STDOUT_FILENO, TCOOFF)) /* TCOON undoes this alone */
		tcflow(STDOUT_FILENO, TCOON);
}

ssize_t top_screen_write(int fd, const void *bytes, size_t count)
{
	struct pollfd room = { .fd = fd, .events = POLLOUT };

	for (int tries = 0; tries < END_TRIES; tries += child_interrupts() != 0) {
		/* what has room takes so much without a wait, in which a signal could be missed */
		if (poll(&room, 1, 100) > 0)
			return write(fd, bytes, count < PIPE_BUF ? count : PIPE_BUF);
		if (child_interrupts())
			output_resume();
	}
	errno = EAGAIN;
	return -1;
}

static int write_all(const char *text, size_t bytes)
{
	while (bytes) {
		ssize_t wrote = top_screen_write(STDOUT_FILENO, text, bytes);

		if (wrote < 0 && errno != EINTR)
			return -errno;
		if (wrote > 0) {
			text += wrote;
			bytes -= (size_t)wrote;
		}
	}
	return 0;
}

static int say(const char *sequence)
{
	return write_all(sequence, strlen(sequence));
}

int top_screen_is_fit(void)
{
	const char *term = getenv("TERM");

	return isatty(STDOUT_FILENO) && term && *term && strcmp(term, "dumb") != 0;
}

static void size_read(struct top_screen *screen)
{
	struct winsize size;

	screen->lines = 24;
	screen->columns = 80;
	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) || !size.ws_row || !size.ws_col)
		return;
	screen->lines = size.ws_row;
	screen->columns = size.ws_col;
}

static void signal_catch(int signal, void (*handler)(int))
{
	struct sigaction action = { .sa_handler = handler }, was;

	if (!sigaction(signal, NULL, &was) && was.sa_handler != SIG_IGN)
		sigaction(signal, &action, NULL);
}

/* Keys come one by one and unseen; Ctrl-C and Ctrl-Z still send signals. */
static void keys_begin(struct top_screen *screen)
{
	struct termios raw;

	screen->has_keys = isatty(STDIN_FILENO) && !tcgetattr(STDIN_FILENO, &before);
	if (!screen->has_keys)
		return;
	raw = before;
	raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
	raw.c_cc[VMIN] = 0;
	raw.c_cc[VTIME] = 0;
	tcsetattr(STDIN_FILENO, TCSANOW, &raw);
}

void top_screen_begin(struct top_screen *screen)
{
	const char *no_color = getenv("NO_COLOR");

	screen->has_colour = !no_color || !*no_color;
	signal_catch(SIGWINCH, on_resize);
	signal_catch(SIGTSTP, on_stop);
	keys_begin(screen);
	screen->is_on = 1;
	size_read(screen);
	say(ENTER);
}

void top_screen_end(struct top_screen *screen)
{
	if (!screen->is_on)
		return;
	screen->is_on = 0;
	if (screen->has_keys)
		tcsetattr(STDIN_FILENO, TCSANOW, &before);
	say(LEAVE);
	signal_catch(SIGTSTP, SIG_DFL);
	signal_catch(SIGWINCH, SIG_DFL);
}

int top_screen_renew(struct top_screen *screen)
{
	if (!screen->is_on || !was_resized)
		return 0;
	was_resized = 0;
	size_read(screen);
	return 1;
}

int top_screen_suspend(struct top_screen *screen)
{
	if (!screen->is_on || !was_stopped)
		return 0;
	was_stopped = 0;
	top_screen_end(screen);
	raise(SIGTSTP); /* returns when SIGCONT has come */
	top_screen_begin(screen);
	return 1;
}

int top_screen_key(const struct top_screen *screen)
{
	struct pollfd key = { .fd = STDIN_FILENO, .events = POLLIN };
	char pressed;

	if (!screen->is_on || !screen->has_keys || poll(&key, 1, 0) <= 0 ||
	    read(STDIN_FILENO, &pressed, 1) != 1)
		return 0;
	return (unsigned char)pressed;
}

static void put(struct text *to, const char *words)
{
	text_add(to, words, strlen(words));
}

/* A line without its mark, which becomes a way of writing. */
static void put_line(const struct top_screen *screen, struct text *to, const char *line,
		     size_t bytes)
{
	int is_title = bytes && *line == TOP_MARK_TITLE, is_head = bytes && *line == TOP_MARK_HEAD;
	int is_marked = is_title || is_head;

	if (is_marked && screen->has_colour)
		put(to, is_title ? "\033[7m" : "\033[1m");
	text_add(to, line + is_marked, bytes - (size_t)is_marked);
	if (is_marked && screen->has_colour)
		put(to, "\033[0m");
	put(to, LINE_END);
}

int top_screen_draw(const struct top_screen *screen, const struct text *text, const char *footer)
{
	struct text out = { 0 };
	const char *at = text->at, *end = text->at + text->bytes;
	unsigned int line = 1;
	int err;

	put(&out, "\033[H");
	for (; at < end && line < screen->lines; line++) {
		const char *next = memchr(at, '\n', (size_t)(end - at));

		next = next ? next : end;
		put_line(screen, &out, at, (size_t)(next - at));
		put(&out, "\r\n");
		at = next + 1;
	}
	put(&out, BELOW);
	text_format(&out, "\033[%u;1H%s%s%s" LINE_END, screen->lines,
		    screen->has_colour ? "\033[7m" : "", footer,
		    screen->has_colour ? "\033[0m" : "");
	err = out.error ? out.error : write_all(out.at, out.bytes);
	text_release(&out);
	return err == -EAGAIN ? 0 : err; /* a word about it would wait in the same terminal */
}

int top_screen_print(const struct text *text)
{
	struct text out = { 0 };
	int err;

	for (size_t i = 0; i < text->bytes; i++)
		if (text->at[i] != TOP_MARK_TITLE && text->at[i] != TOP_MARK_HEAD)
			text_add(&out, &text->at[i], 1);
	put(&out, "\n");
	err = out.error ? out.error : write_all(out.at, out.bytes);
	text_release(&out);
	return err;
}
