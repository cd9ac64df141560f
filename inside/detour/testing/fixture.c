/* SPDX-License-Identifier: MIT */
#include "inside/detour/testing/fixture.h"

#include "base/testing/await.h"
#include "inside/detour/return.h"
#include "inside/detour/room.h"
#include "inside/marker/careful.h"
#include "inside/marker/linkmap.h"
#include "inside/marker/testing/fixture.h"
#include "inside/patch/batch.h"
#include "inside/runtime/control_life.h"
#include "inside/runtime/lock.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <waymark/marker.h>

struct trial_told trial_told;
struct text trial_text = { .fd = -1 };
uint64_t trial_last[3];

/* The fixture's own needs a site table. */
void trial_marker(void);
void trial_marker(void)
{
	WAYMARK(trial, marker);
}

static void told_event(unsigned int lane, uint32_t id, const struct variant *variant)
{
	uint32_t at = trial_told.events++;

	(void)lane;
	if (at >= TRIAL_TOLD_MAX)
		return;
	trial_told.event[at].id = id;
	snprintf(trial_told.event[at].text, sizeof trial_told.event[at].text, "%s",
		 variant->sites->text);
	memcpy(trial_told.event[at].types, variant->types, 16);
}

static void told_refused(unsigned int lane, const struct refusal *refusal)
{
	uint32_t at = trial_told.refusals++;

	(void)lane;
	if (at >= TRIAL_TOLD_MAX)
		return;
	trial_told.refusal[at].error = refusal->error;
	trial_told.refusal[at].address = refusal->site->address;
}

static void told_held(unsigned int lane, uint32_t id, uint64_t begin_ns, uint64_t end_ns)
{
	uint32_t at = trial_told.holds++;

	if (at >= TRIAL_TOLD_MAX)
		return;
	trial_told.hold[at].lane = lane;
	trial_told.hold[at].id = id;
	trial_told.hold[at].begin_ns = begin_ns;
	trial_told.hold[at].end_ns = end_ns;
}

static void told_module(const struct module *module, int gone)
{
	(void)module, (void)gone;
}

static uint32_t told_flush(void)
{
	return 0;
}

static const struct registry_listener listener = {
	.event = told_event,
	.refused = told_refused,
	.held = told_held,
	.module = told_module,
	.flush = told_flush,
};

void trial_begin(void)
{
	fixture_make(UINT64_C(8) << 20, STORE_DISCARD);
	batch_register();
	cr_assert_eq(text_open(&trial_text), 0);
	cr_assert_eq(linkmap_init(&trial_text), 0);
	detour_init();
	cr_assert_eq(registry_scan(&trial_text), 0);
	registry_listen(&listener);
	registry_lane_open(TRIAL_LANE);
	detour_lane_open(TRIAL_LANE);
	careful_allow(getpid());
}

/* ---- composing ---- */

/* The bytes at a function when they are first asked for. */
static const uint8_t *original_of(void (*function)(void))
{
	static struct {
		void (*function)(void);
		uint8_t bytes[32];
	} seen[16];
	size_t i = 0;

	while (seen[i].function && seen[i].function != function)
		i++;
	if (!seen[i].function)
		memcpy(seen[i].bytes, (const void *)(uintptr_t)function, sizeof seen[i].bytes);
	seen[i].function = function;
	return seen[i].bytes;
}

uint8_t *trial_jump(const struct trial_wish *wish)
{
	return (uint8_t *)(uintptr_t)wish->function + wish->skipped + wish->pushed_bytes;
}

struct composer {
	uint8_t code[512];
	unsigned int at;
	struct detour_fixup fixups[16];
	unsigned int fixup_count;
	/* places of rip-relative words to be filled in */
	unsigned int word_at[4];
	uint16_t link_at, moved_at;
};

static void put(struct composer *c, const void *bytes, unsigned int count)
{
	memcpy(c->code + c->at, bytes, count);
	c->at += count;
}

#define PUT(c, ...)                                                                                \
	do {                                                                                       \
		const uint8_t bytes_[] = { __VA_ARGS__ };                                          \
		put(c, bytes_, sizeof bytes_);                                                     \
	} while (0)

/* pushq word(%rip); call *enter(%rip): for words `which` and `which` + 1 */
static void put_enter(struct composer *c, unsigned int which)
{
	PUT(c, 0xff, 0x35, 0, 0, 0, 0);
	c->word_at[which] = c->at - 4;
	PUT(c, 0xff, 0x15, 0, 0, 0, 0);
	c->word_at[which + 1] = c->at - 4;
}

static void put_event(struct composer *c, const struct trial_wish *wish)
{
	if (wish->argument == 2)
		PUT(c, 0x56); /* push %rsi */
	if (wish->argument)
		PUT(c, 0x57); /* push %rdi */
	PUT(c, 0x54);	      /* push %rsp */
	put_enter(c, 0);
	/* lea n(%rsp), %rsp */
	PUT(c, 0x48, 0x8d, 0x64, 0x24,
	    (uint8_t)(16 + (wish->argument == 2 ? 16
			    : wish->argument	? 8
						: 0)));
}

/* The return address is at stack_bytes(%rsp). target/code/trampoline.c says what is saved. */
static void put_return(struct composer *c, uint8_t stack_bytes)
{
	uint8_t saved = stack_bytes ? DETOUR_SAVED_BYTES : 0, down = (uint8_t)(stack_bytes + saved);

	for (unsigned int i = 0; i < saved; i += 8)
		PUT(c, 0xff, 0x74, 0x24, (uint8_t)(stack_bytes - 8)); /* push */
	PUT(c, 0x54); /* push %rsp: it pushes what it was */
	put_enter(c, 2);
	PUT(c, 0x48, 0x8d, 0x64, 0x24, (uint8_t)(24 + down), 0x3e, 0xff, 0x64, 0x24, 0xe8);
	if (down)
		PUT(c, 0x48, 0x8d, 0x64, 0x24, (uint8_t)-down);
	for (unsigned int i = 0; i < saved; i += 8)
		PUT(c, 0x8f, 0x44, 0x24, (uint8_t)(stack_bytes - 8)); /* pop */
}

static void put_words(struct composer *c, unsigned int which, uint8_t word, uint8_t enter)
{
	static const uint8_t zeros[16];

	while (c->at % 8)
		PUT(c, 0xcc);
	for (unsigned int i = 0; i < 2; i++) {
		int32_t far = (int32_t)(c->at + 8 * i) - (int32_t)(c->word_at[which + i] + 4);

		memcpy(c->code + c->word_at[which + i], &far, 4);
		c->fixups[c->fixup_count++] = (struct detour_fixup){
			.offset = (uint16_t)(c->at + 8 * i), .kind = i ? enter : word
		};
	}
	put(c, zeros, 16);
}

static void put_code(struct composer *c, const struct trial_wish *wish)
{
	static const uint8_t link[] = DETOUR_LINK;
	const uint8_t *from = original_of(wish->function) + wish->skipped + wish->pushed_bytes;

	if (!(wish->flags & DETOUR_SECRETIVE))
		put_event(c, wish);
	if (wish->flags & DETOUR_RETURN)
		put_return(c, (uint8_t)(8 * wish->pushes));
	c->link_at = (uint16_t)c->at;
	put(c, link, sizeof link);
	c->moved_at = (uint16_t)c->at;
	put(c, from, wish->insn_bytes);
	PUT(c, 0xe9, 0, 0, 0, 0);
	c->fixups[c->fixup_count++] = (struct detour_fixup){
		.offset = (uint16_t)(c->at - 4),
		.kind = FIXUP_REL32,
		.target = (uintptr_t)trial_jump(wish) + wish->insn_bytes,
	};
}

static size_t append(union trial_record *record, size_t at, const void *bytes, size_t count)
{
	cr_assert_lt(at + count, sizeof *record);
	memcpy((char *)record + at, bytes, count);
	return at + count;
}

static size_t append_text(union trial_record *record, size_t at, char kind, const char *name)
{
	char text[128];

	snprintf(text, sizeof text, "%cd\ntrial\n%s\n?\n0\nvalue", kind, name);
	return append(record, at, text, strlen(text) + 1);
}

static size_t round_up8(size_t bytes)
{
	return (bytes + 7) & ~(size_t)7;
}

/* The entry's fields, the result, the duration; callers. */
static void put_once(struct control_detour *head, const struct trial_wish *wish)
{
	uint8_t *to = head->types[1];

	memcpy(to, head->types[0], sizeof head->types[1]);
	to += strlen((const char *)to);
	*to++ = WM_TYPE_I64;
	*to++ = WM_TYPE_U64;
	if (wish->callers)
		*to = WM_TYPE_ADDRESSES;
	head->callers = wish->callers;
}

void trial_compose(union trial_record *record, const struct trial_wish *wish)
{
	struct composer c = { 0 };
	int returns = (wish->flags & DETOUR_RETURN) != 0;
	size_t at;

	memset(record, 0, sizeof *record);
	put_code(&c, wish);
	if (!(wish->flags & DETOUR_SECRETIVE))
		put_words(&c, 0, FIXUP_WORD, FIXUP_ENTER);
	if (returns)
		put_words(&c, 2, FIXUP_RETURN_WORD, FIXUP_RETURN_ENTER);

	record->head = (struct control_detour){
		.code_bytes = (uint16_t)c.at,
		.fixup_count = (uint16_t)c.fixup_count,
		.link_at = wish->flags & DETOUR_GUARDS ? 0 : c.link_at,
		.moved_at = c.moved_at,
		.insn_bytes = wish->insn_bytes,
		.kept_bytes = DETOUR_KEPT_MAX,
		.starts = wish->starts,
		.stack_bytes = (uint16_t)(8 * wish->pushes),
		.flags = wish->flags,
		.address = (uintptr_t)trial_jump(wish),
		.point = (uintptr_t)wish->function,
		.semaphore = (uintptr_t)wish->semaphore,
	};
	memcpy(record->head.original,
	       original_of(wish->function) + wish->skipped + wish->pushed_bytes,
	       detour_owned(&record->head));
	if (wish->argument)
		record->head.types[0][0] = wish->argument == 3 ? WM_TYPE_STR : WM_TYPE_I64;
	if (wish->argument == 2)
		record->head.types[0][1] = WM_TYPE_I64;
	if (wish->flags & DETOUR_ONCE)
		put_once(&record->head, wish);
	else if (returns)
		record->head.types[1][0] = wish->flags & DETOUR_RETURN_FLOAT ? WM_TYPE_F64
									     : WM_TYPE_I64;
	at = round_up8(append(record, sizeof record->head, c.code, c.at));
	at = append(record, at, c.fixups, c.fixup_count * sizeof c.fixups[0]);
	at = append_text(record, at, returns ? 'b' : 'm', wish->name);
	if (returns)
		at = append_text(record, at, 'e', wish->name);
	if (wish->predicate)
		at = append(record, round_up8(at), wish->predicate, sizeof *wish->predicate);
	record->head.predicates = wish->predicate != NULL;
	record->head.bytes = (uint32_t)round_up8(at);
}

static int place(const struct control_detour *records, unsigned int count)
{
	struct detour_refusal refusal;
	int error;

	cr_assert_eq(lock_take(&agent_lock, 5000), 0);
	error = detour_place(&trial_text, TRIAL_LANE, records, count, &refusal);
	lock_release(&agent_lock);
	return error;
}

int trial_place(const union trial_record *record)
{
	return place(&record->head, 1);
}

int trial_place_choices(const union trial_record *records, unsigned int count)
{
	static union {
		struct control_detour head;
		char bytes[(DETOUR_CHOICES_MAX + 1) * TRIAL_RECORD_BYTES];
	} all;
	size_t at = 0;

	cr_assert_leq(count, DETOUR_CHOICES_MAX + 1);
	for (unsigned int i = 0; i < count; at += records[i++].head.bytes)
		memcpy(all.bytes + at, &records[i], records[i].head.bytes);
	return place(&all.head, count);
}

int trial_try(const struct trial_wish *wish)
{
	union trial_record record;

	trial_compose(&record, wish);
	return trial_place(&record);
}

void trial_deny(const struct trial_wish *wish, enum detour_form form)
{
	union trial_record record;
	struct pun_window window;
	unsigned int number = 0;

	trial_compose(&record, wish);
	while (pun_next(&record.head, form, &number, &window)) {
		uint64_t size = UINT64_C(1) << 8 * window.free_bytes;

		cr_assert_lt(window.free_bytes, PUN_WHOLE);
		mmap((void *)(window.low & ~(int64_t)(ROOM_PAGE_BYTES - 1)), size + ROOM_PAGE_BYTES,
		     PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE,
		     -1, 0);
	}
}

void trial_write(uint8_t *at, unsigned int byte)
{
	uint8_t bytes[] = { (uint8_t)byte };

	cr_assert_eq(text_write_code(&trial_text, (uintptr_t)at, bytes, 1, PROT_READ | PROT_EXEC),
		     0);
}

int trial_commit(struct detour_result *result)
{
	int error;

	*result = (struct detour_result){ 0 };
	cr_assert_eq(lock_take(&agent_lock, 5000), 0);
	error = detour_commit(&trial_text, TRIAL_LANE, result);
	lock_release(&agent_lock);
	planning_reap(100, 0);
	return error;
}

void trial_arm_detour(const struct trial_wish *wish)
{
	struct detour_result result;
	union trial_record record;

	trial_compose(&record, wish);
	cr_assert_eq(trial_place(&record), 0);
	cr_assert_eq(trial_commit(&result), 0);
	cr_assert_eq(result.markers, 1);
	cr_assert_eq(result.refused, 0);
}

void trial_arm_return(const struct trial_wish *wish)
{
	struct trial_wish returning = *wish;

	returning.flags |= DETOUR_RETURN;
	trial_arm_detour(&returning);
}

static uint32_t let_go(unsigned int lane)
{
	struct detour_result result = { 0 };
	uint32_t left;

	cr_assert_eq(lock_take(&agent_lock, 5000), 0);
	detour_release(lane);
	left = detour_disarm_idle(&trial_text, 1000, &result);
	lock_release(&agent_lock);
	return left;
}

uint32_t trial_let_go(void)
{
	uint32_t left = let_go(TRIAL_LANE);

	planning_reap(100, 0);
	return left;
}

/* ---- threads ---- */

void trial_tell(int *flag)
{
	__atomic_store_n(flag, 1, __ATOMIC_RELEASE);
	syscall(SYS_futex, flag, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

void trial_await(int *flag)
{
	cr_assert(AWAIT(__atomic_load_n(flag, __ATOMIC_ACQUIRE)), "no thread has set the flag");
}

void trial_stay(int *flag)
{
	while (!__atomic_load_n(flag, __ATOMIC_ACQUIRE))
		syscall(SYS_futex, flag, FUTEX_WAIT, 0, NULL, NULL, 0);
}

/* ---- reading ---- */

static uint64_t width(uint32_t id, const unsigned char *fields)
{
	const uint8_t *types = NULL;
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < trial_told.events; i++) {
		if (trial_told.event[i].id == id)
			types = trial_told.event[i].types;
	}
	cr_assert_not_null(types);
	for (int i = 0; i < 16 && types[i]; i++)
		bytes += types[i] == WM_TYPE_STR ? strlen((const char *)fields + bytes + 1) + 2 : 8;
	return bytes;
}

struct search {
	uint32_t id;
	uint64_t count;
};

static void visit(const struct fixture_event *event, void *data)
{
	struct search *search = data;

	if (event->id != search->id)
		return;
	search->count++;
	memcpy(trial_last, event->fields, sizeof trial_last);
}

uint64_t trial_events(uint32_t id)
{
	struct search search = { .id = id };

	fixture_read(TRIAL_LANE, width, visit, &search);
	return search.count;
}

/* ---- another session ---- */

void trial_other_begin(void)
{
	fixture_store(TRIAL_OTHER_LANE, UINT64_C(8) << 20, STORE_DISCARD);
	registry_lane_open(TRIAL_OTHER_LANE);
	detour_lane_open(TRIAL_OTHER_LANE);
}

int trial_other_try(const struct trial_wish *wish)
{
	struct detour_result result = { 0 };
	struct detour_refusal refusal;
	union trial_record record;
	int error;

	trial_compose(&record, wish);
	cr_assert_eq(lock_take(&agent_lock, 5000), 0);
	error = detour_place(&trial_text, TRIAL_OTHER_LANE, &record.head, 1, &refusal);
	if (!error)
		error = detour_commit(&trial_text, TRIAL_OTHER_LANE, &result);
	lock_release(&agent_lock);
	cr_assert_eq(result.markers, !error);
	cr_assert_eq(result.refused, 0);
	return error;
}

void trial_other_arm(const struct trial_wish *wish)
{
	cr_assert_eq(trial_other_try(wish), 0);
}

uint32_t trial_other_let_go(void)
{
	return let_go(TRIAL_OTHER_LANE);
}

static uint64_t one_field(uint32_t id, const unsigned char *fields)
{
	(void)id, (void)fields;
	return 8;
}

uint64_t trial_other_last;

static void visit_other(const struct fixture_event *event, void *data)
{
	(void)data;
	memcpy(&trial_other_last, event->fields, sizeof trial_other_last);
}

uint64_t trial_other_events(void)
{
	return fixture_read(TRIAL_OTHER_LANE, one_field, visit_other, NULL);
}

void trial_take_runner_for_keeper(void)
{
	DIR *tasks = opendir("/proc/self/task");
	const struct dirent *entry;

	cr_assert_not_null(tasks);
	while ((entry = readdir(tasks))) {
		if (atoi(entry->d_name) && atoi(entry->d_name) != gettid())
			control_keeper = atoi(entry->d_name);
	}
	closedir(tasks);
}

long trial_forks(long value)
{
	pid_t pid = fork();
	int status;

	if (!pid)
		return value;
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_assert_eq(status, 0);
	return value;
}
