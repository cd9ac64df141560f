/* SPDX-License-Identifier: MIT */
/* What a hit does with sums: no libc, no vector registers. */
#include "arch/cpu_number.h"
#include "inside/marker/careful.h"
#include "inside/marker/hit.h"
#include "inside/marker/sums.h"
#include "inside/store/thread_writer.h"

#include <stddef.h>

#define KEEPS_REGISTERS __attribute__((no_caller_saved_registers))
#define MIX UINT64_C(0x9e3779b97f4a7c15)
/* Keep the compiler from moving stores over a point. */
#define store_barrier() __atomic_signal_fence(__ATOMIC_SEQ_CST)

struct unaligned_word {
	uint64_t word;
} __attribute__((packed, may_alias));

static inline uint64_t load64(const unsigned char *from)
{
	return ((const volatile struct unaligned_word *)(const void *)from)->word;
}

static inline void put64(unsigned char *to, uint64_t value)
{
	((volatile struct unaligned_word *)(void *)to)->word = value;
}

static inline uint64_t low_bytes(uint64_t word, unsigned int bytes)
{
	return bytes < 8 ? word & ((UINT64_C(1) << 8 * bytes) - 1) : word;
}

/* A field as a number of 64 bits, with its sign. */
static inline uint64_t number_of(const struct writer *writer, const struct plan_sums_field *field,
				 const unsigned char *payload)
{
	unsigned int unused = 64 - 8u * field->bytes;
	uint64_t word;

	if (field->of == PREDICATE_OF_tid)
		return (uint32_t)writer->tid;
	if (field->of == PREDICATE_OF_pid)
		return (uint32_t)writer->pid;
	if (field->of == PREDICATE_OF_cpu)
		return cpu_number();
	/* may read past the payload, but never past the stack that holds it */
	word = load64(payload + field->offset) << unused;
	return field->is_signed ? (uint64_t)((int64_t)word >> unused) : word >> unused;
}

static uint64_t bucket_of(uint64_t value, int is_signed)
{
	return is_signed && (int64_t)value < 0 ? 0 - sum_bucket(0 - value) : sum_bucket(value);
}

/* A string of the program's own, which it says is one. */
static unsigned char *text_put(unsigned char *to, const char *from)
{
	unsigned char *start = to;

	*to++ = from ? FIELD_WHOLE : FIELD_NULL;
	for (unsigned int i = 0; from && i < SUM_TEXT_BYTES; i++) {
		unsigned char byte = *(const volatile unsigned char *)from++;

		if (!byte)
			break;
		*to++ = byte;
	}
	if (from && to - start > SUM_TEXT_BYTES && *(const volatile char *)from)
		*start = FIELD_CUT;
	*to++ = 0;
	return to;
}

static unsigned char *callchain_put(unsigned char *to, const struct hit_callers *callers,
				    unsigned int most)
{
	unsigned int count = callers->count < most ? callers->count : most;

	*to = count < callers->count ? FIELD_CUT : callers->state;
	__builtin_memcpy(to + 1, &count, sizeof count);
	to += 5;
	for (unsigned int i = 0; i < count; i++, to += 8)
		put64(to, callers->all[i]);
	return to;
}

/* A field's value, as a row has it. */
static unsigned char *value_put(unsigned char *to, const struct writer *writer,
				const struct plan *plan, const struct plan_sums *sums,
				const struct plan_sums_field *field, const unsigned char *payload,
				const struct hit_callers *callers)
{
	const char *text;

	if (field->of == SUM_OF_CALLCHAIN)
		return callchain_put(to, callers, 1u + sums->callers);
	if (field->of == SUM_OF_CALLER) {
		put64(to, !callers	       ? load64(payload + sums->top_at)
			  : callers->count > 1 ? callers->all[1]
					       : 0);
		return to + 8;
	}
	if (field->type == WM_TYPE_STR) {
		text = field->of == PREDICATE_OF_comm
			       ? writer->comm
			       : (const char *)(uintptr_t)load64(payload + field->offset);
		return field->of == PREDICATE_OF_comm || !plan->is_careful
			       ? text_put(to, text)
			       : careful_string(to, to + SUMS_TEXT_ROOM_BYTES, text,
						SUM_TEXT_BYTES);
	}
	put64(to, field->as == SUM_HIST
			  ? bucket_of(number_of(writer, field, payload), field->is_signed)
			  : number_of(writer, field, payload));
	return to + (field->as == SUM_HIST ? 8 : field->bytes);
}

/*
 * The row of these values in the page; NULL: not found. Each of the page's words is read once: a
 * handler that forks and returns here in the child finds them wiped.
 */
static unsigned char *row_find(const struct rows_page *page, const uint16_t *set, uint32_t id,
			       const unsigned char *key, unsigned int bytes, unsigned int more)
{
	unsigned char *base = __atomic_load_n(&page->lane.base, __ATOMIC_RELAXED);
	uint32_t end = (uint32_t)__atomic_load_n(&page->lane.word, __ATOMIC_RELAXED);

	for (unsigned int way = 0; base && way < ROWS_WAYS; way++) {
		unsigned int at = __atomic_load_n(&set[way], __ATOMIC_RELAXED), i = 0;
		unsigned char *row = base + at + EVENT_EXTENDED_BYTES;

		if (!at || at + EVENT_EXTENDED_BYTES + bytes + more > end ||
		    (uint32_t)load64(row - EVENT_EXTENDED_BYTES + 1) != id)
			continue;
		while (i + 8 <= bytes && load64(row + i) == load64(key + i))
			i += 8;
		/* the last bytes: behind them are the sums */
		if (i + 8 > bytes && !low_bytes(load64(row + i) ^ load64(key + i), bytes - i))
			return row;
	}
	return NULL;
}

/* Where the next row goes, as of one moment. */
struct row_place {
	struct wm_page *page;
	unsigned char *base;
	uint64_t word;
};

/* Whether it has room in the thread's page. A child that returns here has no page. */
static int row_fits(struct lane *lane, uint32_t growth, struct row_place *place)
{
	int64_t limit;

	place->page = __atomic_load_n(&lane->page, __ATOMIC_RELAXED);
	place->base = __atomic_load_n(&lane->base, __ATOMIC_RELAXED);
	place->word = __atomic_load_n(&lane->word, __ATOMIC_RELAXED);
	store_barrier();
	limit = __atomic_load_n(&lane->limit, __ATOMIC_RELAXED);
	return limit - (uint32_t)place->word > (int64_t)growth;
}

/*
 * Make the index one of the thread's page. It is invalid while that changes, and after a handler
 * has jumped out meanwhile: offsets of the page before would lead into the middle of other rows.
 */
static void index_clear(struct rows_page *page)
{
	for (unsigned int i = 0; i < ROWS_INDEX; i++)
		page->index[i] = 0;
	store_barrier();
	page->is_indexed = 1;
}

/* A page with room for a row. 0, or -1; then the thread keeps the one that it has. */
static int row_page(struct writer *writer, struct rows_page *page, unsigned int session, int depth,
		    uint32_t growth, uint64_t ticks, uintptr_t sp)
{
	page->is_indexed = 0;
	store_barrier();
	page->lane.use = PAGE_ROWS;
	if (lane_next_page(writer, &page->lane, session, depth, growth, ticks, sp)) {
		page->is_indexed = 1;
		return -1;
	}
	index_clear(page);
	return 0;
}

/* One with no hit yet. NULL: there is no room. */
static unsigned char *row_new(struct writer *writer, struct rows_page *page, uint16_t *set,
			      unsigned int session, int depth, uint32_t id,
			      const unsigned char *key, unsigned int bytes,
			      const struct plan_sums *sums, uintptr_t sp)
{
	struct lane *lane = &page->lane;
	unsigned int words = 1u + sums->count - sums->key_count, way = 0;
	uint32_t growth = EVENT_EXTENDED_BYTES + bytes + 8 * words;
	uint64_t ticks = clock_ticks(stores[session].clock);
	struct row_place place;
	unsigned char *row;

	if (!row_fits(lane, growth, &place) &&
	    (row_page(writer, page, session, depth, growth, ticks, sp) ||
	     !row_fits(lane, growth, &place)))
		return NULL;
	if ((int64_t)(ticks - place.page->end_ticks) < 0)
		ticks = place.page->end_ticks;
	place.page->end_ticks = ticks;
	row = place.base + (uint32_t)place.word;
	row[0] = EVENT_EXTENDED;
	__builtin_memcpy(row + 1, &id, sizeof id);
	put64(row + 5, ticks);
	row += EVENT_EXTENDED_BYTES;
	for (unsigned int i = 0; i < bytes; i++)
		row[i] = key[i];
	put64(row + bytes, 0);
	for (unsigned int i = sums->key_count; i < sums->count; i++) {
		const struct plan_sums_field *field = &sums->fields[i];
		uint64_t most = field->is_signed ? INT64_MAX : UINT64_MAX;

		put64(row + bytes + 8 * (1 + i - sums->key_count),
		      field->as == SUM_MIN   ? most
		      : field->as == SUM_MAX ? (field->is_signed ? ~most : 0)
					     : 0);
	}
	/* the same order as for any event; a handler that jumps out before leaves no row */
	store_barrier();
	lane->word = place.word + PAGE_WORD(growth, 1);
	store_barrier();
	__atomic_store_n(&place.page->word, place.word + PAGE_WORD(growth, 1), __ATOMIC_RELEASE);
	while (way < ROWS_WAYS - 1 && set[way])
		way++;
	set[way] = (uint16_t)place.word;
	return row;
}

static int is_less(uint64_t a, uint64_t b, int is_signed)
{
	return is_signed ? (int64_t)a < (int64_t)b : a < b;
}

int KEEPS_REGISTERS sums_add(struct writer *writer, int depth, const struct plan *plan,
			     const struct plan_consumer *consumer, const unsigned char *payload,
			     uintptr_t sp, const struct hit_callers *callers)
{
	const struct plan_sums *sums = &plan->sums[consumer->sums - 1];
	struct rows *rows = writer_rows(writer, consumer->lane, depth);
	/* as large as the values need: coroutines have stacks of 2 KiB */
	unsigned char *key = __builtin_alloca(sums->key_bytes), *to = key, *row = NULL;
	unsigned int bytes;
	struct rows_page *page;
	uint64_t hash = consumer->event_id;
	uint16_t *set;

	if (!rows) {
		lane_discard(writer, NULL, consumer->lane, depth);
		return -1;
	}
	for (unsigned int i = 0; i < sums->key_count; i++)
		to = value_put(to, writer, plan, sums, &sums->fields[i], payload, callers);
	bytes = (unsigned int)(to - key);
	put64(to, 0);
	for (unsigned int i = 0; i < bytes; i += 8)
		hash = (hash << 7 | hash >> 57) ^ load64(key + i);
	hash *= MIX;
	page = &rows->of[__atomic_load_n(&rows->turn, __ATOMIC_RELAXED)];
	if (!page->is_indexed)
		index_clear(page);
	/* the highest bits are of all bytes */
	set = page->index + (hash >> (64 - ROWS_INDEX_BITS) & ~(uint64_t)(ROWS_WAYS - 1));
	row = row_find(page, set, consumer->event_id, key, bytes,
		       8 * (1u + sums->count - sums->key_count));
	if (!row)
		row = row_new(writer, page, set, consumer->lane, depth, consumer->event_id, key,
			      bytes, sums, sp);
	if (!row) {
		lane_crowded(writer, &page->lane, consumer->lane, depth);
		return -1;
	}
	row += bytes;
	for (unsigned int i = sums->key_count; i < sums->count; i++) {
		const struct plan_sums_field *field = &sums->fields[i];
		unsigned char *at = row + 8 * (1 + i - sums->key_count);
		uint64_t value = number_of(writer, field, payload), old = load64(at);

		if (field->as == SUM_SUM)
			put64(at, old + value);
		else if (is_less(value, old, field->is_signed) == (field->as == SUM_MIN))
			put64(at, value);
	}
	/* last: a row that a kill leaves in between has a hit too few, and none too many */
	put64(row, load64(row) + 1);
	return 0;
}
