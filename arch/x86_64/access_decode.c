/* SPDX-License-Identifier: MIT */
#include "arch/access_decode.h"

#include "arch/insn.h"
#include "arch/x86_64/operand.h"

#define PAGE_BYTES 4096u
#define CHUNK_BYTES 512u
#define UNKNOWN_BYTES 4096u /* as far as one may reach that doesn't say: xsave */

/* A hit that is looked at. */
struct look {
	struct access_decode *decode;
	const struct control_watch *about;
	ucontext_t *context;
	const struct access_decode_reads *reads;
};

static int covers(const struct written *written, const struct control_watch *about)
{
	uint64_t reach = written->bytes ? written->bytes : written->reach;

	return written->address < about->address + about->bytes &&
	       written->address + (reach ? reach : UNKNOWN_BYTES) > about->address;
}

/*
 * Whether it can be the instruction that met the watched bytes; *written is then of what it did
 * with these.
 */
static int is_it(struct written *written, const struct control_watch *about)
{
	const struct written source = { .address = written->source,
					.bytes = written->source_bytes,
					.way = WRITTEN_NOT };

	if (covers(written, about) && (written->way != WRITTEN_NOT || about->on == WATCH_ON_ACCESS))
		return 1;
	if (!source.bytes || about->on != WATCH_ON_ACCESS || !covers(&source, about))
		return 0;
	*written = source;
	return 1;
}

static int is_masked(const struct written *written, const struct control_watch *about)
{
	if (!written->kept || !covers(written, about))
		return 0;
	for (unsigned int i = 0; i < about->bytes; i++) {
		uint64_t at = about->address + i - written->address;

		if (at < written->bytes && !(written->kept >> at & 1))
			return 0;
	}
	return 1;
}

int access_decode_is_masked(const struct access_decode *decode, const struct control_watch *about)
{
	return decode->is_told && is_masked(&decode->written, about);
}

int access_decode_covers(const struct access_decode *decode, const struct control_watch *about)
{
	return decode->is_told && decode->written.bytes && covers(&decode->written, about) &&
	       !is_masked(&decode->written, about) &&
	       (decode->written.way != WRITTEN_NOT || about->on != WATCH_ON_WRITE);
}

int access_decode_may_cover(const struct access_decode *decode, const struct control_watch *about)
{
	return decode->is_told && !decode->written.bytes && decode->written.way != WRITTEN_NOT &&
	       covers(&decode->written, about);
}

/* ---- the instruction ---- */

unsigned int access_decode_sweep(uint64_t at, uint64_t end,
				 int (*read)(void *data, void *to, uint64_t from, size_t bytes),
				 void *data)
{
	uint8_t chunk[CHUNK_BYTES];
	uint64_t have = at, have_end = at;
	struct insn insn = { .bytes = 0 };

	while (at < end) {
		if (have_end - at < INSN_BYTES_MAX && have_end < end) {
			size_t bytes = end - at < sizeof chunk ? end - at : sizeof chunk;

			if (read(data, chunk, at, bytes))
				return 0;
			have = at;
			have_end = at + bytes;
		}
		if (insn_decode(&insn, chunk + (at - have), have_end - at, at, 0))
			return 0;
		at += insn.bytes;
	}
	return at == end ? insn.bytes : 0;
}

/*
 * A repeated one is known while the program counter is still its address, `at`. `bytes`: of the one
 * in front, if known.
 */
static int tell_repeated(const struct look *look, struct written *written, uint64_t at,
			 unsigned int bytes)
{
	uint8_t room[INSN_BYTES_MAX];
	/* what is on the page of code that has just run is there */
	int has_run = bytes && (at - 1) / PAGE_BYTES == (at + INSN_BYTES_MAX - 1) / PAGE_BYTES;
	const uint8_t *code = look->reads->code(look->reads->data, at, INSN_BYTES_MAX, has_run,
						room);

	return code ? written_tell_repeated(written, code, INSN_BYTES_MAX, look->context) : -1;
}

/*
 * `end` is where a function begins: whether the call that led there met the watched bytes, and
 * which it is.
 */
static int tell_call(const struct look *look, uint64_t end)
{
	const struct access_decode_reads *reads = look->reads;
	greg_t *registers = look->context->uc_mcontext.gregs;
	struct written *written = &look->decode->written;
	uint64_t stack = (uint64_t)registers[REG_RSP], back = 0, target = 0;
	uint8_t room[INSN_BYTES_MAX];
	const uint8_t *code;
	struct insn insn;
	unsigned int bytes;
	int is_start, err;

	if (!reads->memory || reads->memory(reads->data, &back, stack, sizeof back))
		return -1;
	bytes = reads->before(reads->data, back, &is_start);
	code = bytes ? reads->code(reads->data, back - bytes, bytes, 1, room) : NULL;
	if (!code || insn_decode(&insn, code, bytes, back - bytes, 0) ||
	    (insn.kind == TRAIL_CALL && insn.target != end) ||
	    (insn.kind != TRAIL_CALL && insn.kind != TRAIL_CALL_INDIRECT))
		return -1;
	look->decode->ip = back - bytes;
	*written = (struct written){ .address = stack, .bytes = 8, .way = WRITTEN_NEW };
	__builtin_memcpy(written->value, &back, sizeof back);
	if (is_it(written, look->about))
		return 0;
	registers[REG_RIP] = (greg_t)back;
	registers[REG_RSP] = (greg_t)(stack + sizeof back);
	err = written_tell(written, code, bytes, look->context, reads->thread);
	registers[REG_RIP] = (greg_t)end;
	registers[REG_RSP] = (greg_t)stack;
	written->bytes = 8;
	if (err || !is_it(written, look->about) ||
	    reads->memory(reads->data, &target, written->address, sizeof target) || target != end)
		return -1;
	return 0;
}

/*
 * The common stores, known without decoding: mov, and arithmetic of memory with a register or a
 * constant. The next instruction runs after them.
 */
static int is_common_store(const uint8_t *code, unsigned int bytes)
{
	unsigned int at = bytes > 2 && (code[0] & 0xf0) == 0x40; /* behind REX */
	uint8_t opcode = code[at];

	if (opcode == 0xc6 || opcode == 0xc7) /* the last of this group is xabort, xbegin */
		return bytes > at + 1 && !(code[at + 1] >> 3 & 7);
	return (opcode & 0xfe) == 0x88 || !(opcode & 0xc6) || (opcode & 0xfc) == 0x80;
}

/* Whether behind that instruction control comes from elsewhere, if at all, or it met no memory. */
static int is_led_away(const uint8_t *code, unsigned int bytes)
{
	struct insn insn;

	return code && !is_common_store(code, bytes) && !insn_decode(&insn, code, bytes, 0, 0) &&
	       insn.kind != TRAIL_FALL;
}

/* For an exchange whose registers do not determine all of it: look for its operand. */
static void look_for_operand(const struct look *look, uint64_t at)
{
	struct written *written = &look->decode->written;
	uint64_t value;

	if (!written->exchange || operand_before(&value, written, at, look->context, look->reads))
		return;
	__builtin_memcpy(written->value, &value, sizeof value);
	written->way = written->exchange == EXCHANGE_ADD ? WRITTEN_CHANGED : WRITTEN_COPIED;
	written->change = CHANGE_ADD;
}

void access_decode_find(struct access_decode *decode, const struct control_watch *about,
			ucontext_t *context, const struct access_decode_reads *reads)
{
	const struct look look = { decode, about, context, reads };
	uintptr_t end = (uintptr_t)context->uc_mcontext.gregs[REG_RIP];
	uintptr_t begin, original, repeats_at = end, at;
	int is_start = 0, is_entered, is_before, is_repeated;
	uint8_t room[INSN_BYTES_MAX];
	struct written repeated;
	const uint8_t *code;
	unsigned int bytes;

	decode->ip = end;
	if (reads->moved && !reads->moved(end, &begin, &original)) {
		bytes = end - begin <= INSN_BYTES_MAX ? (unsigned int)(end - begin) : 0;
		if (reads->moved(end + 1, &at, &repeats_at) || at != end)
			repeats_at = original + bytes;
	} else {
		bytes = reads->before(reads->data, end, &is_start);
		begin = original = end - bytes;
	}
	code = bytes ? reads->code(reads->data, begin, bytes, 1, room) : NULL;
	is_entered = is_led_away(code, bytes);
	is_before = code && !is_entered &&
		    !written_tell(&decode->written, code, bytes, context, reads->thread) &&
		    is_it(&decode->written, about);
	is_repeated = !tell_repeated(&look, &repeated, end, bytes) && is_it(&repeated, about);
	/* a store that wrote none of it yields to any other candidate */
	if (is_before && is_masked(&decode->written, about) && (is_repeated || is_start))
		is_before = 0;
	decode->is_told = is_before != is_repeated;
	if (decode->is_told && is_repeated)
		decode->written = repeated;
	if (decode->is_told) {
		decode->ip = is_before ? original : repeats_at;
		if (is_before && begin == original)
			look_for_operand(&look, begin);
	} else if (!is_before && is_start && !tell_call(&look, end)) {
		decode->is_told = 1;
	} else if (!is_before && (is_start || is_entered)) {
		decode->ip = 0;
		decode->how |= WATCH_IP_UNKNOWN;
	} else {
		decode->ip = original + bytes - 1;
		decode->how |= WATCH_IP_BEHIND;
	}
}

/* ---- values ---- */

static uint64_t mask_of(const struct control_watch *about)
{
	return about->bytes == 8 ? ~UINT64_C(0) : (UINT64_C(1) << 8 * about->bytes) - 1;
}

/* The part of the watched bytes that the instruction wrote, as a mask; 0: all of it is unknown. */
static uint64_t written_mask(const struct access_decode *decode, const struct control_watch *about)
{
	uint64_t mask = 0;

	if (!decode->is_told || !decode->written.bytes)
		return 0;
	for (unsigned int i = 0; i < about->bytes; i++) {
		uint64_t at = about->address + i - decode->written.address;

		if (at < decode->written.bytes && !(at < 64 && decode->written.kept >> at & 1))
			mask |= UINT64_C(0xff) << 8 * i;
	}
	return mask;
}

static uint64_t written_value(const struct access_decode *decode, const struct control_watch *about)
{
	uint64_t value = 0;

	for (unsigned int i = 0; i < about->bytes; i++) {
		uint64_t at = about->address + i - decode->written.address;

		if (at < decode->written.bytes && at < WRITTEN_BYTES_MAX)
			value |= (uint64_t)decode->written.value[at] << 8 * i;
	}
	return value;
}

int access_decode_is_whole(const struct access_decode *decode, const struct control_watch *about)
{
	return decode->is_told && decode->written.way == WRITTEN_NEW &&
	       written_mask(decode, about) == mask_of(about);
}

void access_decode_copied(struct access_decode *decode,
			  int (*read)(void *data, void *to, uint64_t from, size_t bytes))
{
	struct written *written = &decode->written;

	if (decode->is_told && written->way == WRITTEN_SOMEHOW && written->source_bytes &&
	    written->source_bytes == written->bytes &&
	    !read(NULL, written->value, written->source, written->bytes))
		written->way = WRITTEN_COPIED;
}

/* What a WRITTEN_CHANGED makes of a value of its size. */
static uint64_t changed(const struct written *written, uint64_t before)
{
	uint64_t value;

	__builtin_memcpy(&value, written->value, sizeof value);
	switch (written->change) {
	case CHANGE_ADD:
		return before + value;
	case CHANGE_OR:
		return before | value;
	case CHANGE_AND:
		return before & value;
	case CHANGE_SUB:
		return before - value;
	case CHANGE_XOR:
		return before ^ value;
	case CHANGE_NOT:
		return ~before;
	default:
		return 0 - before;
	}
}

int access_decode_adds(const struct access_decode *decode, const struct control_watch *about,
		       uint64_t *added)
{
	const struct written *written = &decode->written;
	uint64_t value;

	if (!decode->is_told || written->way != WRITTEN_CHANGED || !written->is_locked ||
	    written->address != about->address || written->bytes != about->bytes ||
	    (written->change != CHANGE_ADD && written->change != CHANGE_SUB))
		return 0;
	__builtin_memcpy(&value, written->value, sizeof value);
	*added = written->change == CHANGE_ADD ? value : 0 - value;
	return 1;
}

static void judge_new(const struct access_decode *decode, const struct control_watch *about,
		      const struct access_decode_known *known, struct access_decode_values *values)
{
	uint64_t all = mask_of(about), mask = written_mask(decode, about);
	uint64_t rest = known->has_memory ? known->memory : known->before;
	int is_all = mask == all, way = decode->is_told ? decode->written.way : WRITTEN_SOMEHOW;
	int is_known = known->has_memory;

	values->now = known->memory;
	if (way == WRITTEN_NEW && mask) {
		values->now = (written_value(decode, about) & mask) | (rest & ~mask);
		is_known |= known->has_before || is_all;
		/* what it did not write is as it was, unless somebody else wrote that too */
		if (is_all || (known->has_memory && known->has_before &&
			       !((known->memory ^ known->before) & ~mask)))
			values->how |= WATCH_NEW_EXACT;
	} else if (way == WRITTEN_CHANGED && is_all && decode->written.address == about->address &&
		   decode->written.bytes == about->bytes && known->has_before) {
		uint64_t now = changed(&decode->written, known->before) & all;

		if (!known->has_memory)
			values->now = now;
		else if (now == known->memory)
			values->how |= WATCH_NEW_EXACT;
		is_known = 1;
	} else if (way == WRITTEN_COPIED && known->has_memory) {
		int is_same = !((written_value(decode, about) ^ known->memory) & mask);

		if (is_same &&
		    (is_all || (known->has_before && !((known->memory ^ known->before) & ~mask))))
			values->how |= WATCH_NEW_EXACT;
	} else if (way == WRITTEN_NOT) {
		values->how |= WATCH_READ;
		values->now = rest;
		is_known |= known->has_before;
		if (known->has_memory && known->has_before && known->memory == known->before)
			values->how |= WATCH_NEW_EXACT;
	}
	if (!is_known) {
		values->how |= WATCH_NEW_UNKNOWN;
		values->now = 0; /* and not the part that is known */
	}
	values->link = values->now;
	/*
	 * an addition that knows the value before: the result of that, whatever other threads added
	 * since
	 */
	if (way == WRITTEN_CHANGED && decode->written.has_old &&
	    (values->how & WATCH_NEW_EXACT || (is_known && !known->has_memory)))
		values->now = changed(&decode->written, decode->written.old) & all;
}

static void judge_old(const struct access_decode *decode, const struct control_watch *about,
		      const struct access_decode_known *known, struct access_decode_values *values)
{
	uint64_t all = mask_of(about), shift = 8 * (about->address - decode->written.address);
	uint64_t high = decode->written.old_high;

	if (decode->is_told && decode->written.has_old && written_mask(decode, about) == all) {
		values->old = decode->written.old >> (shift & 63);
		if (shift >= 64)
			values->old = high >> (shift & 63);
		else if (shift)
			values->old |= high << (64 - shift);
		values->old &= all;
		values->how |= WATCH_OLD_EXACT;
		return;
	}
	values->old = known->has_before ? known->before : 0;
	if (!known->has_before)
		values->how |= WATCH_OLD_UNKNOWN;
	else if (known->is_before_uncertain)
		values->how |= WATCH_OLD_UNCERTAIN;
}

void access_decode_judge(const struct access_decode *decode, const struct control_watch *about,
			 const struct access_decode_known *known,
			 struct access_decode_values *values)
{
	struct access_decode_known own = *known;

	own.before &= mask_of(about);
	judge_new(decode, about, &own, values);
	judge_old(decode, about, &own, values);
}
