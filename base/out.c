/* SPDX-License-Identifier: MIT */
#include "base/out.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const char two_digits[] = "00010203040506070809101112131415161718192021222324"
				 "25262728293031323334353637383940414243444546474849"
				 "50515253545556575859606162636465666768697071727374"
				 "75767778798081828384858687888990919293949596979899";
static const char hex_digits[] = "0123456789abcdef";

void out_init(struct out *out, int fd)
{
	out->write = write;
	out->at = out->bytes;
	out->end = out->bytes + sizeof(out->bytes);
	out->fd = fd;
	out->error = 0;
}

int out_flush(struct out *out)
{
	const char *from = out->bytes;

	while (!out->error && from < out->at) {
		ssize_t count = out->write(out->fd, from, (size_t)(out->at - from));

		if (count >= 0)
			from += count;
		else if (errno != EINTR)
			out->error = -errno;
	}
	out->at = out->bytes;
	return out->error;
}

void out_text(struct out *out, const char *text, size_t bytes)
{
	while (bytes) {
		size_t piece = bytes < OUT_PIECE ? bytes : OUT_PIECE;

		out_short(out, text, piece);
		text += piece;
		bytes -= piece;
	}
}

void out_u64(struct out *out, uint64_t value)
{
	char digits[20], *at = digits + sizeof(digits);

	while (value >= 100) {
		at -= 2;
		memcpy(at, two_digits + value % 100 * 2, 2);
		value /= 100;
	}
	if (value >= 10) {
		at -= 2;
		memcpy(at, two_digits + value * 2, 2);
	} else {
		*--at = (char)('0' + value);
	}
	out_short(out, at, (size_t)(digits + sizeof(digits) - at));
}

void out_i64(struct out *out, int64_t value)
{
	if (value < 0)
		out_char(out, '-');
	out_u64(out, value < 0 ? 0 - (uint64_t)value : (uint64_t)value);
}

void out_hex(struct out *out, uint64_t value)
{
	char digits[18], *at = digits + sizeof(digits);

	do
		*--at = hex_digits[value & 15];
	while (value >>= 4);
	*--at = 'x';
	*--at = '0';
	out_short(out, at, (size_t)(digits + sizeof(digits) - at));
}

void out_bytes(struct out *out, const uint8_t *bytes, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		char *to = out_room(out, 2);

		to[0] = hex_digits[bytes[i] >> 4];
		to[1] = hex_digits[bytes[i] & 15];
		out->at += 2;
	}
}

void out_nine(struct out *out, uint32_t value)
{
	char *to = out_room(out, 9);
	uint32_t low = value % 10000, middle = value / 10000 % 10000;

	to[0] = (char)('0' + value / 100000000 % 10);
	memcpy(to + 1, two_digits + middle / 100 * 2, 2);
	memcpy(to + 3, two_digits + middle % 100 * 2, 2);
	memcpy(to + 5, two_digits + low / 100 * 2, 2);
	memcpy(to + 7, two_digits + low % 100 * 2, 2);
	out->at += 9;
}

void out_f64(struct out *out, double value)
{
	char digits[40];

	for (int precision = 15; precision <= 17; precision += 2) {
		snprintf(digits, sizeof(digits), "%.*g", precision, value);
		if (strtod(digits, NULL) == value)
			break;
	}
	if (isnan(value))
		strcpy(digits, "nan"); /* without a sign or payload */
	out_short(out, digits, strlen(digits));
}

void out_f32(struct out *out, float value)
{
	char digits[40];

	for (int precision = 6; precision <= 9; precision += 3) {
		snprintf(digits, sizeof(digits), "%.*g", precision, (double)value);
		if (strtof(digits, NULL) == value)
			break;
	}
	if (isnan(value))
		strcpy(digits, "nan");
	out_short(out, digits, strlen(digits));
}

/* Bytes of the UTF-8 sequence that begins here, at most `left`; 0 for an invalid one. */
static size_t utf8_bytes(const char *text, size_t left)
{
	const uint8_t *at = (const uint8_t *)text;
	size_t bytes = *at < 0x80 ? 1 : *at < 0xc2 ? 0 : *at < 0xe0 ? 2 : *at < 0xf0 ? 3 : 4;

	if (!bytes || *at > 0xf4 || bytes > left)
		return 0;
	for (size_t i = 1; i < bytes; i++)
		if ((at[i] & 0xc0) != 0x80)
			return 0;
	/* Overlong, surrogates, past U+10FFFF. */
	if ((*at == 0xe0 && at[1] < 0xa0) || (*at == 0xed && at[1] > 0x9f) ||
	    (*at == 0xf0 && at[1] < 0x90) || (*at == 0xf4 && at[1] > 0x8f))
		return 0;
	return bytes;
}

/* Of a sequence of 2 or 3 bytes. */
static unsigned int code_point(const char *text, size_t sequence)
{
	const uint8_t *at = (const uint8_t *)text;

	return sequence == 2 ? (at[0] & 0x1fu) << 6 | (at[1] & 0x3fu)
			     : (at[0] & 0x0fu) << 12 | (at[1] & 0x3fu) << 6 | (at[2] & 0x3fu);
}

size_t out_character(const char *text, size_t bytes, int *is_unfit)
{
	size_t sequence = utf8_bytes(text, bytes);
	unsigned int code = sequence == 2 || sequence == 3 ? code_point(text, sequence) : 0;

	/*
	 * C1; the marks, embeddings, overrides and isolates of Unicode's UAX 9; separators of
	 * lines; the byte order mark
	 */
	*is_unfit = sequence == 0   ? 1
		    : sequence == 1 ? (uint8_t)*text < ' ' || *text == 0x7f
		    : sequence == 4
			    ? 0
			    : code < 0xa0 || code == 0x61c || code == 0x200e || code == 0x200f ||
				      (code >= 0x2028 && code <= 0x202e) ||
				      (code >= 0x2066 && code <= 0x2069) || code == 0xfeff;
	return sequence ? sequence : 1;
}

size_t out_tame(char *to, size_t room, const char *text)
{
	size_t left = strlen(text), at = 0;

	while (left) {
		int is_unfit;
		size_t bytes = out_character(text, left, &is_unfit);

		if (at + (is_unfit ? 1 : bytes) >= room)
			break;
		if (is_unfit)
			to[at++] = '?';
		else
			memcpy(to + at, text, bytes), at += bytes;
		text += bytes;
		left -= bytes;
	}
	to[at] = '\0';
	return at;
}

/* Bytes from the start that need no escape in either form. */
static size_t plain_bytes(const char *text, size_t bytes)
{
	size_t count = 0, most = bytes < OUT_PIECE ? bytes : OUT_PIECE;

	while (count < most && text[count] >= ' ' && text[count] < 0x7f && text[count] != '"' &&
	       text[count] != '\\')
		count++;
	return count;
}

static char short_escape(char c)
{
	switch (c) {
	case '\n':
		return 'n';
	case '\t':
		return 't';
	case '\r':
		return 'r';
	case '"':
	case '\\':
		return c;
	default:
		return 0;
	}
}

static void escape_byte(struct out *out, uint8_t byte)
{
	char *to = out_room(out, 4);

	to[0] = '\\';
	to[1] = 'x';
	to[2] = hex_digits[byte >> 4];
	to[3] = hex_digits[byte & 15];
	out->at += 4;
}

static void escape(struct out *out, const char *text, size_t bytes, int json)
{
	while (bytes) {
		size_t plain = plain_bytes(text, bytes), sequence;
		int is_unfit;
		char letter;

		out_short(out, text, plain);
		text += plain;
		bytes -= plain;
		if (!bytes || plain == OUT_PIECE)
			continue;
		letter = short_escape(*text);
		sequence = out_character(text, bytes, &is_unfit);
		if (letter) {
			out_char(out, '\\');
			out_char(out, letter);
		} else if (!is_unfit) {
			out_short(out, text, sequence);
		} else if (!json) {
			for (size_t i = 0; i < sequence; i++)
				escape_byte(out, (uint8_t)text[i]);
		} else if ((uint8_t)*text >= 0x80 && sequence == 1) {
			out_literal(out, "\\ufffd");
		} else {
			unsigned int code = sequence > 1 ? code_point(text, sequence)
							 : (uint8_t)*text;
			const uint8_t pair[2] = { (uint8_t)(code >> 8), (uint8_t)code };

			out_literal(out, "\\u");
			out_bytes(out, pair, 2);
		}
		text += sequence;
		bytes -= sequence;
	}
}

void out_escaped(struct out *out, const char *text, size_t bytes)
{
	escape(out, text, bytes, 0);
}

void out_json(struct out *out, const char *text, size_t bytes)
{
	escape(out, text, bytes, 1);
}
