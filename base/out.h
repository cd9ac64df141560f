/* SPDX-License-Identifier: MIT */
/*
 * Output by hand: a buffer in front of a descriptor, and numbers put into it without printf. What
 * goes wrong is remembered in `error`; after that, nothing more is written.
 */
#ifndef BASE_OUT_H
#define BASE_OUT_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>

#define OUT_BYTES (256u << 10)
#define OUT_PIECE 512u /* out_room() may be asked for this much */

struct out {
	char *at, *end;
	int fd;
	int error;						   /* 0 or -errno */
	ssize_t (*write)(int fd, const void *bytes, size_t count); /* write(2), or as it */
	char bytes[OUT_BYTES];
};

void out_init(struct out *out, int fd);

/* Write what is in the buffer. Returns out->error. */
int out_flush(struct out *out);

/* Make sure that `bytes`, OUT_PIECE at most, fit. */
static inline char *out_room(struct out *out, size_t bytes)
{
	if (__builtin_expect((size_t)(out->end - out->at) < bytes, 0))
		out_flush(out);
	return out->at;
}

static inline void out_char(struct out *out, char c)
{
	*out_room(out, 1) = c;
	out->at++;
}

/* A text of OUT_PIECE bytes at most. */
static inline void out_short(struct out *out, const char *text, size_t bytes)
{
	memcpy(out_room(out, bytes), text, bytes);
	out->at += bytes;
}

#define out_literal(out, text) out_short(out, text, sizeof(text) - 1)

void out_text(struct out *out, const char *text, size_t bytes); /* of any length */
void out_u64(struct out *out, uint64_t value);
void out_i64(struct out *out, int64_t value);
void out_hex(struct out *out, uint64_t value);			     /* 0x... */
void out_bytes(struct out *out, const uint8_t *bytes, size_t count); /* two hex digits each */
void out_nine(struct out *out, uint32_t value); /* nine digits, with zeros in front */

/* The shortest text that reads back as the same number; "nan", "inf", "-inf". */
void out_f64(struct out *out, double value);
void out_f32(struct out *out, float value);

/*
 * Step over the character at `text`, of `bytes`: how many bytes it has, 1 or more. *is_unfit: a
 * terminal must not get it, as it is a control character, one that changes the direction of text,
 * or a byte that is not UTF-8.
 */
size_t out_character(const char *text, size_t bytes, int *is_unfit);

/*
 * Copy as much of a text as there is room for, with a '?' for each unfit character. Returns its
 * length.
 */
size_t out_tame(char *to, size_t room, const char *text);

/*
 * A string's bytes, escaped. As text: \n, \t, \r, \", \\, and \xNN for unfit characters. As JSON:
 * likewise with \uNNNN, and what isn't UTF-8 becomes U+FFFD.
 */
void out_escaped(struct out *out, const char *text, size_t bytes);
void out_json(struct out *out, const char *text, size_t bytes);

#endif
