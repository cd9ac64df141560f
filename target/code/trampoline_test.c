/* SPDX-License-Identifier: MIT */
/*
 * Every point of every function of a fixture is run in three ways, from states made at random: as
 * it is; as it is, one instruction at a time, to know what holds at the point; and with a detour
 * for the point, each of its choices in each of its forms. The first and the last must leave the
 * same behind, and what was recorded is what the second saw.
 */
#include "target/code/trampoline.h"

#include "target/code/file.h"
#include "target/code/symbol.h"
#include "target/code/testing/fixture.h"
#include "target/code/testing/machine.h"

#include <criterion/criterion.h>
#include <cpuid.h>
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <waymark/error.h>
#include <waymark/marker.h>

#define STATES 6 /* for each choice and form */
#define BUFFER_BYTES 256
#define STACK_BYTES 65536
#define GIVEN_FLAGS 0xcd5u /* the direction flag, too */
#define TRAP_FLAG 0x100u
#define RSP 4

/* Registers by the processor's numbers, in the kernel's order. */
static const int context_register[16] = { REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP,
					  REG_RSI, REG_RDI, REG_R8,  REG_R9,  REG_R10, REG_R11,
					  REG_R12, REG_R13, REG_R14, REG_R15 };
static const uint8_t machine_number[16] = { 0, 2, 1, 3, 6, 7, 5, 4, 8, 9, 10, 11, 12, 13, 14, 15 };

static struct {
	struct code_file *file;
	struct code_symbols symbols;
	struct sweep sweep;
	uint64_t base;
	uint8_t *word_b;
	unsigned int placed[FORM_FIRST + 1], pushed, behind, refused;
} fixture;

/* All that a function can read and write. */
struct memory {
	uint8_t buffers[2][BUFFER_BYTES];
	uint8_t word_b[16];
	uint8_t stack[256]; /* from 128 below where the function begins */
};

static uint8_t buffers[2][BUFFER_BYTES];
static uint8_t *stack;
static struct machine given, plain, stepped, detoured;
static struct memory memory_given, memory_plain, memory_detoured;
static struct machine_hits hits, return_hits, expected;
static struct code_place place;
static uint64_t point;
static uint64_t random_state = 88172645463325252ull;

static uint64_t any(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state;
}

static uint64_t field_value(const struct code_operand *from, const ucontext_t *context)
{
	const greg_t *registers = context->uc_mcontext.gregs;
	uint64_t value = 0, address = (uint64_t)from->displacement;

#define DWARF(reg) ((uint64_t)registers[context_register[machine_number[reg]]])
	switch (from->kind) {
	case OPERAND_REGISTER:
		return DWARF(from->reg);
	case OPERAND_HIGH:
		return DWARF(from->reg) >> 8;
	case OPERAND_VECTOR:
		memcpy(&value, &context->uc_mcontext.fpregs->_xmm[from->reg], 8);
		return value;
	case OPERAND_CONSTANT:
		return address;
	case OPERAND_ADDRESS:
		address += fixture.base;
		break;
	default:
		address += from->reg == OPERAND_NONE ? 0 : DWARF(from->reg);
		address += from->index == OPERAND_NONE ? 0 : DWARF(from->index) * from->scale;
	}
#undef DWARF
	memcpy(&value, (void *)address, from->bytes);
	return value;
}

static uint64_t before; /* where the last step was */

static void on_step(int number, siginfo_t *info, void *data)
{
	ucontext_t *context = data;
	uint64_t at = (uint64_t)context->uc_mcontext.gregs[REG_RIP];

	(void)number;
	(void)info;
	if (at == (uint64_t)machine_back)
		context->uc_mcontext.gregs[REG_EFL] &= ~(greg_t)TRAP_FLAG;
	/* pushfq shows that we step */
	if (((uint8_t *)at)[-1] == 0x9c)
		*(uint64_t *)context->uc_mcontext.gregs[REG_RSP] &= ~(uint64_t)TRAP_FLAG;
	/* a repeated string instruction steps at its own address: it is one hit */
	if (at == point && !(at == before && (*(uint8_t *)at & 0xfe) == 0xf2)) {
		uint8_t *to = expected.payloads[expected.count++ % MACHINE_HITS_MAX];

		for (unsigned int i = 0; i < place.field_count; i++) {
			uint64_t value = field_value(&place.fields[i].from, context);

			memcpy(to, &value, place.fields[i].from.bytes);
			to += place.fields[i].from.bytes;
		}
	}
	before = at;
}

static void fixture_open(void)
{
	struct sigaction action = { .sa_sigaction = on_step, .sa_flags = SA_SIGINFO | SA_ONSTACK };
	static uint8_t signal_stack[STACK_BYTES];
	stack_t alternate = { .ss_sp = signal_stack, .ss_size = sizeof(signal_stack) };
	void *library = dlopen(DETOUR_FIXTURE, RTLD_NOW);
	struct link_map *map;

	cr_assert(library, "%s", dlerror());
	cr_assert_eq(dlinfo(library, RTLD_DI_LINKMAP, &map), 0);
	fixture.base = map->l_addr;
	fixture.word_b = dlsym(library, "word_b");
	cr_assert_eq(code_file_open(&fixture.file, DETOUR_FIXTURE), 0);
	cr_assert_eq(code_symbols_read(&fixture.symbols, fixture.file), 0);
	cr_assert_eq(sweep_make(&fixture.sweep, fixture.file, &fixture.symbols), 0);
	stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	cr_assert_neq(stack, MAP_FAILED);
	sigaltstack(&alternate, NULL);
	sigaction(SIGTRAP, &action, NULL);
}

static void fixture_close(void)
{
	sweep_release(&fixture.sweep);
	code_symbols_release(&fixture.symbols);
	code_file_close(fixture.file);
}

TestSuite(trampoline, .init = fixture_open, .fini = fixture_close, .timeout = 300);

/* Vectors of all sizes that the processor has. */
static void vectors_fill(uint8_t *vectors)
{
	uint32_t enabled, high, offset, bytes, c, d;
	uint64_t features;

	__asm__("xgetbv" : "=a"(enabled), "=d"(high) : "c"(0));
	features = enabled & 0xe6; /* SSE, AVX, AVX-512 */
	memset(vectors, 0, MACHINE_VECTOR_BYTES);
	memcpy(vectors, &(uint16_t){ 0x37f }, 2);
	memcpy(vectors + 24, &(uint32_t){ 0x1f80 }, 4);
	memcpy(vectors + 512, &features, 8);
	for (int i = 160; i < 416; i++)
		vectors[i] = (uint8_t)any();
	for (uint32_t i = 2; i < 8; i++) {
		if (!(features >> i & 1))
			continue;
		__cpuid_count(0xd, i, bytes, offset, c, d);
		for (uint32_t at = offset; at < offset + bytes; at++)
			vectors[at] = (uint8_t)any();
	}
	/* numbers that can be compared, for comisd */
	for (int i = 0; i < 3; i++)
		memcpy(vectors + 160 + 16 * i, &(double){ (double)(any() % 100) }, 8);
}

static void memory_load(const struct memory *from)
{
	memcpy(buffers, from->buffers, sizeof(buffers));
	memcpy(fixture.word_b, from->word_b, sizeof(from->word_b));
	memset(stack, 0, STACK_BYTES);
	memcpy(stack + STACK_BYTES / 2 - 128, from->stack, sizeof(from->stack));
}

static void memory_store(struct memory *to)
{
	memcpy(to->buffers, buffers, sizeof(buffers));
	memcpy(to->word_b, fixture.word_b, sizeof(to->word_b));
	memcpy(to->stack, stack + STACK_BYTES / 2 - 128, sizeof(to->stack));
	/* below the stack pointer a function leaves what it likes */
	memset(to->stack, 0, 128);
}

static void state_make(void)
{
	uint8_t *bytes = (uint8_t *)&memory_given;

	for (size_t i = 0; i < sizeof(memory_given); i++)
		bytes[i] = (uint8_t)any();
	for (int i = 0; i < 16; i++)
		given.registers[i] = any();
	given.registers[0] = (uint64_t)(buffers[0] + 128);
	given.registers[2] = any() % 8;
	given.registers[RSP] = (uint64_t)(stack + STACK_BYTES / 2);
	given.registers[6] = (uint64_t)(buffers[0] + 64);
	given.registers[7] = (uint64_t)(buffers[1] + 64);
	given.flags = 0x202 | (any() & GIVEN_FLAGS);
	vectors_fill(given.vectors);
}

static void run(struct machine *machine, struct memory *memory, const void *function,
		uint64_t flags)
{
	*machine = given;
	machine->flags |= flags;
	memory_load(&memory_given);
	machine_run(machine, function);
	if (memory)
		memory_store(memory);
}

static const uint8_t widths[4] = { 1, 2, 4, 8 };

/* A field of any kind that can be read at any point of the fixture. */
static struct code_operand operand_any(int is_entry)
{
	struct code_operand from = { .kind = (uint8_t)(any() % 6),
				     .bytes = widths[any() % 4],
				     .reg = (uint8_t)(any() % 16),
				     .index = OPERAND_NONE,
				     .scale = 1 };

	switch (from.kind) {
	case OPERAND_HIGH:
		from.bytes = 1;
		from.reg &= 3;
		break;
	case OPERAND_VECTOR:
		from.bytes = any() & 1 ? 4 : 8;
		break;
	case OPERAND_MEMORY:
		/* the stack, or what %rax holds at the start */
		from.reg = is_entry && any() & 1 ? 0 : 7;
		from.displacement = (int64_t)(any() % 64);
		if (is_entry && any() & 1) {
			from.index = 1;
			from.scale = (uint8_t)(1 << any() % 4);
		} else if (is_entry && from.reg == 7 && any() & 1) {
			/* %rsp + %rax would lie nowhere; index alone: %rax + far */
			from.reg = OPERAND_NONE;
			from.index = 0;
		}
		break;
	case OPERAND_ADDRESS:
		from.displacement = (int64_t)((uint64_t)fixture.word_b - fixture.base);
		break;
	case OPERAND_CONSTANT:
		from.displacement = any() & 1 ? (int64_t)any() : (int64_t)(any() % 100) - 50;
	}
	return from;
}

static void place_make(const struct code_function *function, uint64_t address)
{
	place = (struct code_place){ .kind = PLACE_ADDRESS,
				     .address = address,
				     .is_entry = address == function->address };
	place.field_count = (unsigned int)(any() % 9);
	for (unsigned int i = 0; i < place.field_count; i++) {
		place.fields[i].type = WM_TYPE_U64;
		place.fields[i].from = operand_any(place.is_entry);
	}
}

static void compare(const char *name, uint64_t offset)
{
	size_t payload_bytes = 0;

	for (int i = 0; i < 16; i++)
		cr_assert_eq(plain.registers[i], detoured.registers[i], "%s+%lu: register %d", name,
			     offset, i);
	cr_assert_eq(plain.flags, detoured.flags, "%s+%lu: flags %lx, not %lx", name, offset,
		     detoured.flags, plain.flags);
	/* MXCSR too; XSTATE_BV says what is not as it was reset, and may differ */
	cr_assert_arr_eq(plain.vectors, detoured.vectors, 512, "%s+%lu: vectors", name, offset);
	cr_assert_arr_eq(plain.vectors + 576, detoured.vectors + 576, MACHINE_VECTOR_BYTES - 576,
			 "%s+%lu: wide vectors", name, offset);
	cr_assert_arr_eq(&memory_plain, &memory_detoured, sizeof(memory_plain), "%s+%lu: memory",
			 name, offset);
	cr_assert_eq(hits.count, expected.count, "%s+%lu: %lu hits, not %lu", name, offset,
		     hits.count, expected.count);
	for (unsigned int i = 0; i < place.field_count; i++)
		payload_bytes += place.fields[i].from.bytes;
	for (uint64_t i = 0; i < hits.count && i < MACHINE_HITS_MAX; i++)
		cr_assert_arr_eq(hits.payloads[i], expected.payloads[i], payload_bytes,
				 "%s+%lu: payload of hit %lu", name, offset, i);
}

/* Behind the event's code, and before what is moved. */
static void layout_check(const struct trampoline *trampoline)
{
	static const uint8_t link[] = DETOUR_LINK;
	const struct control_detour *detour = &trampoline->detour;

	cr_assert_gt(detour->link_at, 0);
	cr_assert_eq(detour->moved_at, detour->link_at + sizeof(link));
	cr_assert_leq(detour->moved_at, detour->code_bytes);
	cr_assert_arr_eq(trampoline->emit.code + detour->link_at, link, sizeof(link));
}

static const struct fixture_ends ends = { machine_enter, machine_enter_return, &hits,
					  &return_hits };

/* A choice, in a form that this process has room for. */
struct option {
	unsigned int number;
	enum detour_form form;
};

#define OPTIONS_MAX (3 * DETOUR_CHOICES_MAX)

/* All that the place has. */
static unsigned int options_find(struct option *options)
{
	static struct trampoline trampoline;
	unsigned int count = 0, number = 0;
	struct placed placed;
	int err = 0;

	while (number < DETOUR_CHOICES_MAX &&
	       !(err = trampoline_compose(&fixture.sweep, &place, number, &trampoline))) {
		layout_check(&trampoline);
		for (int form = FORM_BYTE; form <= FORM_FIRST; form++) {
			if (fixture_place(&placed, &trampoline, (enum detour_form)form,
					  fixture.base, &ends))
				continue;
			fixture_remove(&placed);
			options[count++] = (struct option){ number, (enum detour_form)form };
		}
		number++;
	}
	cr_assert(!err || (err == -ENOENT) == (number > 0));
	fixture.refused += !count;
	return count;
}

static void option_try(const char *name, const struct code_function *function,
		       const struct option *option)
{
	static struct trampoline trampoline;
	const void *code = (void *)(fixture.base + function->address);
	struct placed placed;

	/* other fields may need a register that is changed before */
	if (trampoline_compose(&fixture.sweep, &place, option->number, &trampoline))
		return;
	point = fixture.base + trampoline.detour.point;
	state_make();
	run(&plain, &memory_plain, code, 0);
	expected.count = 0;
	run(&stepped, NULL, code, TRAP_FLAG);
	hits.count = 0;
	cr_assert_eq(fixture_place(&placed, &trampoline, option->form, fixture.base, &ends), 0);
	run(&detoured, &memory_detoured, code, 0);
	fixture_remove(&placed);
	compare(name, place.address - function->address);
	fixture.placed[option->form]++;
	fixture.pushed += trampoline.detour.stack_bytes != 0;
	fixture.behind += trampoline.detour.address != trampoline.detour.point;
}

/* At the point `address`, from some states. */
static void point_try(const char *name, const struct code_function *function, uint64_t address)
{
	struct option options[OPTIONS_MAX];
	unsigned int count;

	place_make(function, address);
	count = options_find(options);
	for (unsigned int i = 0; i < STATES * count; i++) {
		place_make(function, address);
		option_try(name, function, &options[i % count]);
	}
}

Test(trampoline, every_point_leaves_everything_as_it_was)
{
	for (size_t i = 0; i < fixture.symbols.function_count; i++) {
		const struct code_function *function = &fixture.symbols.functions[i];
		const char *name = fixture.symbols.all[function->first].name;

		for (uint64_t at = function->address; at < function->address + function->bytes;
		     at++)
			if (sweep_is_start(&fixture.sweep, at))
				point_try(name, function, at);
	}
	cr_log_info(
		"%u byte, %u behind, %u first; %u behind pushes, %u behind the point; %u points refused",
		fixture.placed[FORM_BYTE], fixture.placed[FORM_BEHIND], fixture.placed[FORM_FIRST],
		fixture.pushed, fixture.behind, fixture.refused);
	for (int form = FORM_BYTE; form <= FORM_FIRST; form++)
		cr_assert_gt(fixture.placed[form], 0, "form %d", form);
	cr_assert_gt(fixture.pushed, 0);
	cr_assert_gt(fixture.behind, fixture.pushed);
	cr_assert_lt(fixture.refused, 20);
}
