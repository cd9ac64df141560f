/* SPDX-License-Identifier: MIT */
#include "trace/metadata.h"

#include "abi/page.h"
#include "trace/folder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <waymark/marker.h>

/* ---- its text ---- */

#define ENUM_NAME_BYTES 48

static const char *const clock_names[TRACE_CLOCKS] = {
	[STORE_CLOCK_TSC] = "tsc",
	[STORE_CLOCK_MONOTONIC] = "monotonic",
	[CLOCK_OF_FACTS] = "wall",
};

static const char *const clock_words[TRACE_CLOCKS] = {
	[STORE_CLOCK_TSC] = "Time stamp counter, placed on the wall clock",
	[STORE_CLOCK_MONOTONIC] = "CLOCK_MONOTONIC, placed on the wall clock",
	[CLOCK_OF_FACTS] = "CLOCK_REALTIME",
};

/* The name of a type; of a run or an array, of its elements. */
static const char *type_name(uint8_t type)
{
	static const char *const hex[] = {
		[WM_TYPE_I8] = "wm_hex_i8",   [WM_TYPE_U8] = "wm_hex_u8",
		[WM_TYPE_I16] = "wm_hex_i16", [WM_TYPE_U16] = "wm_hex_u16",
		[WM_TYPE_I32] = "wm_hex_i32", [WM_TYPE_U32] = "wm_hex_u32",
		[WM_TYPE_I64] = "wm_hex_i64", [WM_TYPE_U64] = "wm_hex_u64",
	};
	static const char *const names[] = {
		[WM_TYPE_I8] = "wm_i8",	    [WM_TYPE_U8] = "wm_u8",
		[WM_TYPE_I16] = "wm_i16",   [WM_TYPE_U16] = "wm_u16",
		[WM_TYPE_I32] = "wm_i32",   [WM_TYPE_U32] = "wm_u32",
		[WM_TYPE_I64] = "wm_i64",   [WM_TYPE_U64] = "wm_u64",
		[WM_TYPE_BOOL] = "wm_bool", [WM_TYPE_F32] = "wm_f32",
		[WM_TYPE_F64] = "wm_f64",   [WM_TYPE_PTR] = "wm_ptr",
		[WM_TYPE_STR] = "string",   [WM_TYPE_BYTES] = "wm_byte",
		[WM_TYPE_CHAR] = "wm_char", [WM_TYPE_ADDRESSES] = "wm_address",
	};

	if (type == (WM_TYPE_CHAR | WM_TYPE_ARRAY))
		return "wm_text";
	if (type & WM_TYPE_HEX) /* of integers alone: schema_type_bytes() */
		return hex[type & WM_TYPE_MASK];
	type &= WM_TYPE_MASK;
	return type < sizeof(names) / sizeof(*names) && names[type] ? names[type] : "";
}

void metadata_clock_offset(struct trace_clock *clock, uint64_t ticks, uint64_t realtime_ns)
{
	__int128 hz = (__int128)clock->ticks_hz;
	/* Rounded up, since readers round down when they add the two parts. */
	__int128 zero = ((__int128)realtime_ns * hz + 999999999) / 1000000000 - (__int128)ticks;
	__int128 seconds = zero / hz;

	if (seconds * hz > zero)
		seconds--;
	clock->offset_s = (int64_t)seconds;
	clock->offset_ticks = (uint64_t)(zero - seconds * hz);
}

static void add(struct text *text, const char *string)
{
	text_add(text, string, strlen(string));
}

static void metadata_uuid(struct text *text, const uint8_t uuid[16])
{
	for (unsigned int i = 0; i < 16; i++)
		text_format(text, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
			    uuid[i]);
}

static void typealias(struct text *text, const char *name, unsigned int bits, unsigned int align,
		      const char *more)
{
	text_format(text, "typealias integer { size = %u; align = %u; %s} := %s;\n", bits, align,
		    more, name);
}

static void typealiases(struct text *text)
{
	for (unsigned int bits = 8; bits <= 64; bits *= 2) {
		char name[16];

		snprintf(name, sizeof(name), "wm_i%u", bits);
		typealias(text, name, bits, 8, "signed = true; ");
		snprintf(name, sizeof(name), "wm_u%u", bits);
		typealias(text, name, bits, 8, "signed = false; ");
		snprintf(name, sizeof(name), "wm_hex_i%u", bits);
		typealias(text, name, bits, 8, "signed = true; base = 16; ");
		snprintf(name, sizeof(name), "wm_hex_u%u", bits);
		typealias(text, name, bits, 8, "signed = false; base = 16; ");
	}
	typealias(text, "wm_byte", 8, 8, "signed = false; base = 16; ");
	typealias(text, "wm_char", 8, 8, "signed = true; ");
	typealias(text, "wm_text", 8, 8, "signed = false; encoding = UTF8; ");
	typealias(text, "wm_ptr", 64, 8, "signed = false; base = 16; ");
	typealias(text, "wm_address", 64, 8, "signed = false; base = 16; ");
	add(text,
	    "typealias floating_point { exp_dig = 8; mant_dig = 24; align = 8; } := wm_f32;\n"
	    "typealias floating_point { exp_dig = 11; mant_dig = 53; align = 8; } := wm_f64;\n"
	    "typealias enum : wm_u8 { \"false\" = 0, \"true\" = 1 } := wm_bool;\n"
	    "typealias enum : wm_u8 { whole = 0, null = 1, cut = 2, unreadable = 3, "
	    "no_rule = 4, astray = 5 } := wm_state;\n\n");
}

void metadata_head(struct text *text, const uint8_t uuid[16], const char *hostname)
{
	add(text, "/* CTF 1.8 */\n\n");
	typealiases(text);
	add(text, "trace {\n\tmajor = 1;\n\tminor = 8;\n\tuuid = \"");
	metadata_uuid(text, uuid);
	add(text, "\";\n\tbyte_order = le;\n"
		  "\tpacket.header := struct {\n"
		  "\t\twm_u32 magic;\n"
		  "\t\twm_u8 uuid[16];\n"
		  "\t\twm_u32 stream_id;\n"
		  "\t\twm_u64 stream_instance_id;\n"
		  "\t};\n};\n\n"
		  "env {\n\ttracer_name = \"waymark\";\n"
		  "\twaymark_version = \"" WAYMARK_VERSION "\";\n\thostname = ");
	text_quoted(text, hostname ? hostname : "");
	add(text, ";\n};\n\n");
}

void metadata_clock(struct text *text, uint32_t kind, const struct trace_clock *clock)
{
	const char *name = clock_names[kind];
	char map[64];

	text_format(text,
		    "clock {\n\tname = %s;\n\tdescription = \"%s\";\n\tfreq = %llu;\n"
		    "\toffset_s = %lld;\n\toffset = %llu;\n\tabsolute = TRUE;\n};\n",
		    name, clock_words[kind], (unsigned long long)clock->ticks_hz,
		    (long long)clock->offset_s, (unsigned long long)clock->offset_ticks);
	snprintf(map, sizeof(map), "signed = false; map = clock.%s.value; ", name);
	text_format(text, "typealias integer { size = 64; align = 8; %s} := %s_full;\n", map, name);
	text_format(text, "typealias integer { size = %d; align = 1; %s} := %s_low;\n\n",
		    EVENT_TICK_BITS, map, name);
}

/*
 * The packet's context is struct wm_packet from begin_ticks on; the event's header as abi/page.h.
 * What a CPU's is called is known to other CTF readers.
 */
void metadata_stream(struct text *text, uint32_t stream_id, uint32_t clock, int is_kernel)
{
	const char *name = clock_names[clock];

	text_format(text,
		    "stream {\n\tid = %u;\n"
		    "\tevent.header := struct {\n"
		    "\t\tenum : integer { size = 5; align = 1; signed = false; } "
		    "{ compact = 0 ... 30, extended = 31 } id;\n"
		    "\t\tvariant <id> {\n"
		    "\t\t\tstruct { %s_low timestamp; } compact;\n"
		    "\t\t\tstruct { wm_u32 id; %s_full timestamp; } extended;\n"
		    "\t\t} v;\n"
		    "\t} align(8);\n",
		    stream_id, name, name);
	text_format(text,
		    "\tpacket.context := struct {\n"
		    "\t\t%s_full timestamp_begin;\n"
		    "\t\t%s_full timestamp_end;\n"
		    "\t\twm_u64 content_size;\n"
		    "\t\twm_u64 packet_size;\n"
		    "\t\twm_u64 packet_seq_num;\n"
		    "\t\twm_u64 events_discarded;\n"
		    "\t\twm_u32 pid;\n"
		    "\t\twm_u32 %s;\n"
		    "\t\twm_u32 depth;\n"
		    "\t\twm_u64 monotonic_ns;\n"
		    "\t\twm_u64 monotonic_raw_ns;\n"
		    "\t\twm_u64 realtime_ns;\n"
		    "\t\twm_text comm[16];\n"
		    "\t};\n};\n\n",
		    name, name, is_kernel ? "cpu_id" : "tid");
}

static const char *enum_name(const struct enumeration *of, char name[ENUM_NAME_BYTES])
{
	snprintf(name, ENUM_NAME_BYTES, "%s_enum_%u", type_name(of->type), of->number);
	return name;
}

void metadata_enum(struct text *text, const struct enumeration *of)
{
	char name[ENUM_NAME_BYTES];
	int is_signed;

	enumeration_type_bytes(of->type, &is_signed);
	text_format(text, "typealias enum : %s {", type_name(of->type));
	for (uint32_t i = 0; i < of->count; i++) {
		text_format(text, "%s", i ? ",\n\t" : "\n\t");
		text_quoted(text, enumeration_name_at(of, i));
		if (is_signed)
			text_format(text, " = %lld", (long long)of->all[i].value);
		else
			text_format(text, " = %llu", (unsigned long long)of->all[i].value);
	}
	text_format(text, "\n} := %s;\n\n", enum_name(of, name));
}

static int name_taken(const struct trace_class *class, const char *name)
{
	for (unsigned int i = 0; i < class->count; i++)
		if (!strcmp(class->fields[i], name))
			return 1;
	return 0;
}

/*
 * The name of a field's state or length: '_' in front, and as many '_' behind as it takes to be
 * called as no field is.
 */
static void beside_name(const struct trace_class *class, unsigned int field, const char *suffix,
			char *name, size_t bytes)
{
	size_t used = (size_t)snprintf(name, bytes, "_%s_%s", class->fields[field], suffix);

	while (name_taken(class, name) && used + 2 < bytes) {
		name[used++] = '_';
		name[used] = '\0';
	}
}

static void metadata_field(struct text *text, const struct trace_class *class, unsigned int field)
{
	const char *name = class->fields[field];
	const char *type = type_name(class->types[field]);
	char alias[ENUM_NAME_BYTES];
	char state[SCHEMA_NAME_BYTES + 32], length[SCHEMA_NAME_BYTES + 32];

	if (schema_type_bytes(class->types[field]) >= 0) {
		if (class->names && class->names[field])
			type = enum_name(class->names[field], alias);
		text_format(text, "\t\t%s _%s;\n", type, name);
		return;
	}
	beside_name(class, field, "state", state, sizeof(state));
	text_format(text, "\t\twm_state _%s;\n", state);
	if (class->types[field] == WM_TYPE_STR) {
		text_format(text, "\t\tstring _%s;\n", name);
		return;
	}
	beside_name(class, field, "length", length, sizeof(length));
	text_format(text, "\t\twm_u32 _%s;\n\t\t%s _%s[_%s];\n", length, type, name, length);
}

void metadata_event(struct text *text, uint32_t stream_id, const struct trace_class *class)
{
	struct text uri = { 0 };

	text_format(&uri, "%s:%u", class->file, class->line);
	add(text, "event {\n\tname = ");
	text_quoted(text, class->name);
	text_format(text, ";\n\tid = %u;\n\tstream_id = %u;\n\tmodel.emf.uri = ", class->id,
		    stream_id);
	text_quoted(text, uri.at ? uri.at : "");
	add(text, ";\n\tfields := struct {\n");
	for (unsigned int i = 0; i < class->count; i++)
		metadata_field(text, class, i);
	add(text, "\t};\n};\n\n");
	if (uri.error)
		text->error = uri.error;
	text_release(&uri);
}

/* ---- its file ---- */

#define METADATA_NEW ".metadata.new"
#define PAGE 4096u

/* Write to the file's end, up to the end of a page each time. */
static int write_whole(struct metadata *metadata, const struct text *text)
{
	if (text->error)
		return text->error;
	for (size_t done = 0; done < text->bytes;) {
		size_t page = PAGE - metadata->bytes % PAGE;
		size_t want = text->bytes - done < page ? text->bytes - done : page;
		ssize_t count = pwrite(metadata->fd, text->at + done, want, (off_t)metadata->bytes);

		if (count < 0 && errno != EINTR)
			return -errno;
		if (count > 0) {
			done += (size_t)count;
			metadata->bytes += (uint64_t)count;
		}
	}
	return 0;
}

int metadata_replace(struct metadata *metadata, int dir, const struct text *head,
		     const struct text *body)
{
	struct metadata made = { .body_bytes = body->bytes };
	int err;

	made.fd = folder_create(dir, METADATA_NEW, 0600);
	if (made.fd < 0)
		return made.fd;
	err = write_whole(&made, head);
	if (!err)
		err = write_whole(&made, body);
	if (!err && renameat(dir, METADATA_NEW, dir, "metadata"))
		err = -errno;
	if (err) {
		close(made.fd);
		unlinkat(dir, METADATA_NEW, 0);
		return err;
	}
	metadata_release(metadata);
	*metadata = made;
	return 0;
}

/* Bytes to append: at `start` of the file. */
struct addition {
	uint64_t start;
	struct text text;
};

static int place(struct addition *to, const char *declaration, size_t bytes)
{
	size_t room = PAGE - (to->start + to->text.bytes) % PAGE;

	if (bytes > PAGE)
		return -E2BIG;
	if (bytes > room)
		text_format(&to->text, "%*s", (int)room, "\n");
	text_add(&to->text, declaration, bytes);
	return 0;
}

/* An empty line ends each declaration, and is in none: strings have no newline. */
static int place_body(struct addition *to, const char *at, size_t bytes)
{
	int err = 0;

	for (const char *end = at + bytes; at < end && !err;) {
		const char *empty = memmem(at, (size_t)(end - at), "\n\n", 2);
		size_t count = empty ? (size_t)(empty + 2 - at) : (size_t)(end - at);

		err = place(to, at, count);
		at += count;
	}
	return err;
}

int metadata_append(struct metadata *metadata, const struct text *body)
{
	struct addition added = { .start = metadata->bytes };
	int err;

	if (metadata->fd < 0)
		return -EBADF;
	err = place_body(&added, body->at + metadata->body_bytes,
			 body->bytes - metadata->body_bytes);
	if (!err) {
		err = write_whole(metadata, &added.text);
		/* as on a full disk, where a page may be written in part */
		if (err) {
			(void)!ftruncate(metadata->fd, (off_t)added.start);
			metadata_release(metadata);
		}
	}
	text_release(&added.text);
	if (!err)
		metadata->body_bytes = body->bytes;
	return err;
}

void metadata_release(struct metadata *metadata)
{
	if (metadata->fd >= 0)
		close(metadata->fd);
	*metadata = (struct metadata){ .fd = -1 };
}
