/* SPDX-License-Identifier: MIT */
#include "record/trail/testing/pt_encode.h"

#include "base/array.h"

#include <intel-pt.h>
#include <stdlib.h>

#define STACK 64u	      /* return addresses that a processor remembers */
#define PACKETS_BYTES_MAX 64u /* for one item, at most */
#define TNT_BITS_MAX 47u
#define TNT_8_BITS_MAX 6u

struct encoding {
	struct pt_encoder *encoder;
	const struct pt_encode_options *options;
	uint64_t tsc, last_ip, bits;
	uint8_t bit_count;
	int is_on, status;
	uint64_t stack[STACK];
	unsigned int depth, top;
	uint32_t since_psb;
};

static void put(struct encoding *encoding, struct pt_packet packet)
{
	int status = encoding->status < 0 ? encoding->status
					  : pt_enc_next(encoding->encoder, &packet);

	if (status < 0)
		encoding->status = status;
}

static void tnt_flush(struct encoding *encoding)
{
	struct pt_packet packet = { .type = encoding->bit_count > TNT_8_BITS_MAX ? ppt_tnt_64
										 : ppt_tnt_8 };

	if (!encoding->bit_count)
		return;
	packet.payload.tnt.bit_size = encoding->bit_count;
	packet.payload.tnt.payload = encoding->bits;
	encoding->bits = encoding->bit_count = 0;
	put(encoding, packet);
}

static void tnt(struct encoding *encoding, int is_taken)
{
	encoding->bits = encoding->bits << 1 | (uint64_t)is_taken;
	if (++encoding->bit_count == TNT_BITS_MAX)
		tnt_flush(encoding);
}

/* With as few bytes as the last address allows. */
static void put_ip(struct encoding *encoding, enum pt_packet_type type, uint64_t ip)
{
	struct pt_packet packet = { .type = type };
	uint64_t change = ip ^ encoding->last_ip;

	tnt_flush(encoding);
	if (!(change >> 16)) {
		packet.payload.ip.ipc = pt_ipc_update_16;
		packet.payload.ip.ip = ip & 0xffff;
	} else if (!(change >> 32)) {
		packet.payload.ip.ipc = pt_ipc_update_32;
		packet.payload.ip.ip = ip & 0xffffffff;
	} else {
		packet.payload.ip.ipc = pt_ipc_sext_48;
		packet.payload.ip.ip = ip & 0xffffffffffff;
	}
	encoding->last_ip = ip;
	put(encoding, packet);
}

static void put_tsc(struct encoding *encoding)
{
	struct pt_packet packet = { .type = ppt_tsc };

	packet.payload.tsc.tsc = encoding->tsc;
	encoding->tsc += 100;
	put(encoding, packet);
}

/* PSB+: all that a decoder has to know to begin here. `ip`: where it is on; 0: it is off. */
static void put_psb(struct encoding *encoding, uint64_t ip)
{
	struct pt_packet mode = { .type = ppt_mode }, cbr = { .type = ppt_cbr };

	tnt_flush(encoding);
	put(encoding, (struct pt_packet){ .type = ppt_psb });
	encoding->last_ip = 0;
	encoding->depth = 0;
	encoding->since_psb = 0;
	put_tsc(encoding);
	cbr.payload.cbr.ratio = 26;
	put(encoding, cbr);
	mode.payload.mode.leaf = pt_mol_exec;
	mode.payload.mode.bits.exec = pt_set_exec_mode(ptem_64bit);
	put(encoding, mode);
	if (ip)
		put_ip(encoding, ppt_fup, ip);
	put(encoding, (struct pt_packet){ .type = ppt_psbend });
}

/* On again there. */
static void turn_on(struct encoding *encoding, uint64_t ip)
{
	put_tsc(encoding);
	put_ip(encoding, ppt_tip_pge, ip);
	encoding->depth = 0;
	encoding->is_on = 1;
}

static void turn_off(struct encoding *encoding)
{
	struct pt_packet packet = { .type = ppt_tip_pgd };

	tnt_flush(encoding);
	packet.payload.ip.ipc = pt_ipc_suppressed;
	put(encoding, packet);
	encoding->is_on = 0;
}

/* Interrupted there. */
static void interrupt(struct encoding *encoding, uint64_t at)
{
	put_ip(encoding, ppt_fup, at);
	turn_off(encoding);
}

static void called(struct encoding *encoding, const struct trail_entry *entry)
{
	uint64_t next = entry->start + entry->bytes;

	if (entry->kind == TRAIL_CALL && entry->target == next)
		return; /* it only asks where it is */
	encoding->top = (encoding->top + 1) % STACK;
	encoding->stack[encoding->top] = next;
	encoding->depth += encoding->depth < STACK;
}

static void returned(struct encoding *encoding, uint64_t to)
{
	if (!encoding->options->compresses_returns || !encoding->depth ||
	    encoding->stack[encoding->top] != to) {
		put_ip(encoding, ppt_tip, to);
		return;
	}
	tnt(encoding, 1);
	encoding->depth--;
	encoding->top = (encoding->top + STACK - 1) % STACK;
}

/* A block ran; `to`: where the next begins, if that follows at once; else 0. */
static void ran(struct encoding *encoding, const struct trail_entry *entry, uint64_t to)
{
	switch (entry->kind) {
	case TRAIL_BRANCH:
		if (to)
			tnt(encoding, to == entry->target);
		break;
	case TRAIL_CALL:
		called(encoding, entry);
		break;
	case TRAIL_CALL_INDIRECT:
		called(encoding, entry);
		/* fall through */
	case TRAIL_JUMP_INDIRECT:
		if (to)
			put_ip(encoding, ppt_tip, to);
		break;
	case TRAIL_RETURN:
		if (to)
			returned(encoding, to);
		break;
	case TRAIL_FAR:
		if (to)
			put_ip(encoding, ppt_tip, to);
		break;
	case TRAIL_SYSCALL:
		if (to >= TRAIL_KERNEL)
			put_ip(encoding, ppt_tip, to);
		else
			turn_off(encoding);
		break;
	case TRAIL_STOP: /* int3 and its kind: where they fault, they have not run */
		turn_off(encoding);
		break;
	default:
		break;
	}
}

/* Behind a block that leads to one place alone, whatever follows. 0: it leads elsewhere. */
static uint64_t way_on(const struct trail_entry *entry)
{
	if (entry->kind == TRAIL_JUMP || entry->kind == TRAIL_CALL)
		return entry->target;
	return entry->kind == TRAIL_FALL ? entry->start + entry->bytes : 0;
}

/* Where the thread is after item i, which is a block: the next block, or what an event says. */
static uint64_t place_after(const struct pt_item *items, size_t count, size_t i)
{
	const struct trail_between *event = i + 1 < count ? &items[i + 1].between : NULL;
	uint64_t on = way_on(&items[i].entry);

	if (i + 1 < count && items[i + 1].entry.instructions)
		return items[i + 1].entry.start;
	/* of a gap it is said only where it ends */
	if (event && event->at && event->event != TRAIL_LOST && (event->event != TRAIL_GAP || !on))
		return event->at;
	return on;
}

/* Into the kernel, which is recorded. */
static int is_interrupt(const struct trail_between *event)
{
	return event->event == TRAIL_SIGNAL && !event->values[0] &&
	       event->values[1] >= TRAIL_KERNEL;
}

static void encode_item(struct encoding *encoding, const struct pt_item *items, size_t count,
			size_t i)
{
	const struct trail_entry *entry = &items[i].entry;
	uint64_t to;

	if (!entry->instructions)
		return;
	if (!encoding->is_on)
		turn_on(encoding, entry->start);
	else if (encoding->options->psb_every &&
		 ++encoding->since_psb >= encoding->options->psb_every)
		put_psb(encoding, entry->start);
	to = place_after(items, count, i);
	ran(encoding, entry, to);
	if (i + 1 == count || items[i + 1].entry.instructions)
		return;
	if (is_interrupt(&items[i + 1].between)) {
		put_ip(encoding, ppt_fup, items[i + 1].between.at);
		put_ip(encoding, ppt_tip, items[i + 1].between.values[1]);
		return;
	}
	if (items[i + 1].between.event != TRAIL_LOST) {
		if (encoding->is_on && to)
			interrupt(encoding, to);
		return;
	}
	tnt_flush(encoding);
	put(encoding, (struct pt_packet){ .type = ppt_ovf });
	encoding->depth = 0;
	encoding->last_ip = 0;
	if (encoding->is_on && i + 2 < count && items[i + 2].entry.instructions)
		put_ip(encoding, ppt_fup, items[i + 2].entry.start);
	else
		encoding->is_on = 0;
}

int pt_encode(uint8_t **bytes, size_t *size, const struct pt_item *items, size_t count,
	      const struct pt_encode_options *options)
{
	struct encoding encoding = { .options = options, .tsc = options->tsc };
	size_t room = (count + 4) * PACKETS_BYTES_MAX;
	struct pt_config config;
	uint64_t offset = 0;

	*bytes = calloc(1, room);
	if (!*bytes)
		return -pte_nomem;
	pt_config_init(&config);
	config.begin = *bytes;
	config.end = *bytes + room;
	encoding.encoder = pt_alloc_encoder(&config);
	put_psb(&encoding, 0);
	for (size_t i = 0; i < count && encoding.status >= 0; i++)
		encode_item(&encoding, items, count, i);
	tnt_flush(&encoding);
	pt_enc_get_offset(encoding.encoder, &offset);
	pt_free_encoder(encoding.encoder);
	*size = offset;
	return encoding.status < 0 ? encoding.status : 0;
}

struct pt_item *pt_items_of(const struct trail_path *path, size_t *count)
{
	struct trail_cursor cursor = { .path = path };
	struct trail_item item;
	struct pt_item *items = NULL;
	size_t room = 0;

	*count = 0;
	while (trail_next(&cursor, &item)) {
		if (array_grow(&items, &room, *count + 1, sizeof(*items)))
			abort();
		items[*count] = (struct pt_item){ 0 };
		if (item.block) {
			items[*count].code = trail_table_code(item.table, item.block);
			items[*count].entry = (struct trail_entry){
				.start = item.block->start,
				.target = item.block->target,
				.bytes = item.block->bytes,
				.last = item.block->last,
				.instructions = item.block->instructions,
				.kind = item.block->kind,
			};
		} else {
			items[*count].between = *item.between;
		}
		++*count;
	}
	return items;
}
