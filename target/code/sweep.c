/* SPDX-License-Identifier: MIT */
#include "target/code/sweep.h"

#include "base/array.h"
#include "base/sorted.h"
#include "target/code/file.h"
#include "target/code/gather.h"
#include "target/code/symbol.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define EDGES_A_BEAT 256
#define LOOKERS_MAX 64 /* more are forged, or one of them has a pointer to it */

static bool bit_get(const uint64_t *bits, uint64_t at)
{
	return bits[at / 64] >> (at % 64) & 1;
}

void sweep_address_add(struct gather *gather, struct address_list *list, uint64_t address)
{
	if (array_grow(&list->all, &list->room, list->count + 1, sizeof(*list->all))) {
		gather->err = -ENOMEM;
		return;
	}
	list->all[list->count++] = address;
}

void sweep_address_sort(struct address_list *list)
{
	size_t kept = 0;

	if (!list->count)
		return;
	sorted_make(list->all, list->count, sizeof(*list->all));
	for (size_t i = 1; i < list->count; i++)
		if (list->all[i] != list->all[kept])
			list->all[++kept] = list->all[i];
	list->count = kept + 1;
}

void sweep_gather_target(struct gather *gather, uint64_t address)
{
	const struct sweep_part *part = sweep_part_at(gather->sweep, address);

	if (part) {
		uint64_t at = address - part->range.start;

		part->targets[at / 64] |= 1ull << (at % 64);
	}
}

static int parts_make(struct sweep *sweep)
{
	const struct image *image = &sweep->image;

	sweep->parts = calloc(image->code_count + 1, sizeof(*sweep->parts));
	if (!sweep->parts)
		return -ENOMEM;
	for (size_t i = 0; i < image->code_count; i++) {
		struct sweep_part *part = &sweep->parts[sweep->part_count++];
		size_t words, left;

		part->range = image->code[i];
		words = (part->range.end - part->range.start) / 64 + 1;
		part->data = image_at(image, part->range.start, &left);
		part->starts = calloc(words, sizeof(uint64_t));
		part->targets = calloc(words, sizeof(uint64_t));
		if (!part->starts || !part->targets)
			return -ENOMEM;
	}
	return 0;
}

static void pad_add(uint64_t address, void *data)
{
	sweep_gather_target(data, address);
}

/* ---- code and words ---- */

/* Code from one edge to the next. */
struct stretch {
	struct sweep_part *part;
	uint64_t start, end;
};

static void bit_set(uint64_t *bits, uint64_t at)
{
	bits[at / 64] |= 1ull << (at % 64);
}

static void tail_add(struct gather *gather, uint64_t at, uint64_t target)
{
	if (array_grow(&gather->tails, &gather->tail_room, gather->tail_count + 1,
		       sizeof(*gather->tails))) {
		gather->err = -ENOMEM;
		return;
	}
	gather->tails[gather->tail_count++] = (struct gather_lea){ at, target };
}

static void lea_add(struct gather *gather, uint64_t at, uint64_t target)
{
	if (array_grow(&gather->leas, &gather->lea_room, gather->lea_count + 1,
		       sizeof(*gather->leas))) {
		gather->err = -ENOMEM;
		return;
	}
	gather->leas[gather->lea_count++] = (struct gather_lea){ at, target };
}

static void guess_add(struct gather *gather, uint64_t address)
{
	if (sweep_part_at(gather->sweep, address))
		sweep_address_add(gather, &gather->guesses, address);
}

/* In a program that isn't position-independent numbers may be addresses. */
static void fixed_take(struct gather *gather, const ZydisDecodedInstruction *insn, uint64_t at)
{
	for (int i = 0; i < 2; i++) {
		if (insn->raw.imm[i].size >= 32 && !insn->raw.imm[i].is_relative) {
			guess_add(gather, insn->raw.imm[i].value.u);
			lea_add(gather, at, insn->raw.imm[i].value.u);
		}
	}
	if (insn->raw.disp.size == 32 && !(insn->raw.modrm.mod == 0 && insn->raw.modrm.rm == 5)) {
		guess_add(gather, (uint64_t)insn->raw.disp.value);
		lea_add(gather, at, (uint64_t)insn->raw.disp.value);
	}
}

static void insn_take(struct gather *gather, const ZydisDecodedInstruction *insn, uint64_t at)
{
	const ZydisDecodedInstructionRaw *raw = &insn->raw;
	uint64_t next = at + insn->length;

	if (raw->imm[0].is_relative) {
		sweep_gather_target(gather, next + (uint64_t)raw->imm[0].value.s);
		return;
	}
	if (insn->attributes & ZYDIS_ATTRIB_HAS_MODRM) {
		if (raw->modrm.mod == 0 && raw->modrm.rm == 5) {
			uint64_t target = next + (uint64_t)raw->disp.value;

			if (insn->mnemonic == ZYDIS_MNEMONIC_LEA) {
				sweep_gather_target(gather, target);
				lea_add(gather, at, target);
			}
		} else if (insn->mnemonic == ZYDIS_MNEMONIC_JMP && raw->modrm.mod == 3) {
			sweep_address_add(gather, &gather->jumps, at);
		} else if (insn->mnemonic == ZYDIS_MNEMONIC_ENDBR64) {
			sweep_gather_target(gather, at);
		}
	}
	if (gather->sweep->image.is_fixed)
		fixed_take(gather, insn, at);
}

/* Jumps that leave the stretch, and words that are read for another thing than a jump or a call. */
static void tail_take(struct gather *gather, const struct stretch *stretch,
		      const ZydisDecodedInstruction *insn, uint64_t at)
{
	const ZydisDecodedInstructionRaw *raw = &insn->raw;
	uint64_t next = at + insn->length;
	bool is_call = insn->meta.category == ZYDIS_CATEGORY_CALL;
	struct sweep_import *import;

	if (raw->imm[0].is_relative) {
		uint64_t target = next + (uint64_t)raw->imm[0].value.s;

		if (!is_call && (target < stretch->start || target >= stretch->end))
			tail_add(gather, at, target);
		return;
	}
	if (!(insn->attributes & ZYDIS_ATTRIB_HAS_MODRM) || raw->modrm.mod || raw->modrm.rm != 5)
		return;
	if (insn->mnemonic == ZYDIS_MNEMONIC_JMP) {
		tail_add(gather, at, next + (uint64_t)raw->disp.value);
		return;
	}
	import = (struct sweep_import *)sweep_import_at(gather->sweep,
							next + (uint64_t)raw->disp.value);
	if (import && !is_call)
		import->is_pointer = true;
}

/* Take all that could be a branch, at every byte: for a stretch that does not decode. */
static void stretch_suspect(struct gather *gather, const struct stretch *stretch)
{
	const uint8_t *data = stretch->part->data;
	uint64_t base = stretch->part->range.start;
	uint64_t bytes = stretch->part->range.end - base;

	for (uint64_t at = stretch->start - base; at < stretch->end - base; at++) {
		ZydisDecodedInstruction insn;

		if (ZYAN_SUCCESS(ZydisDecoderDecodeInstruction(&gather->fast, NULL, data + at,
							       bytes - at, &insn)))
			insn_take(gather, &insn, base + at);
	}
}

static void stretch_take(struct gather *gather, const struct stretch *stretch)
{
	const uint8_t *data = stretch->part->data;
	uint64_t base = stretch->part->range.start;
	uint64_t at = stretch->start - base, end = stretch->end - base;

	while (at < end) {
		ZydisDecodedInstruction insn;

		if (ZYAN_FAILED(ZydisDecoderDecodeInstruction(&gather->fast, NULL, data + at,
							      end - at, &insn))) {
			stretch_suspect(gather, stretch);
			return;
		}
		bit_set(stretch->part->starts, at);
		insn_take(gather, &insn, base + at);
		if (gather->has_lookers)
			tail_take(gather, stretch, &insn, base + at);
		at += insn.length;
	}
}

/* Decode all code: starts, targets of branches and of computed addresses, leas, jumps. */
static void gather_code(struct gather *gather)
{
	const struct address_list *edges = &gather->edges;
	size_t edge = 0;

	for (size_t i = 0; i < gather->sweep->part_count; i++) {
		struct sweep_part *part = &gather->sweep->parts[i];

		/* a part's start is an edge, and each edge is inside a part */
		while (edge < edges->count && edges->all[edge] < part->range.end) {
			struct stretch stretch = { part, edges->all[edge], part->range.end };

			if (edge % EDGES_A_BEAT == 0 && !gather->err)
				gather->err = code_file_beat(gather->file, 0, 0);
			if (gather->err)
				return;
			if (++edge < edges->count && edges->all[edge] < part->range.end)
				stretch.end = edges->all[edge];
			stretch_take(gather, &stretch);
		}
	}
	sweep_address_sort(&gather->jumps);
	/* suspected ones come out of order */
	sorted_make(gather->leas, gather->lea_count, sizeof(*gather->leas));
}

static void relocations_take(struct gather *gather)
{
	const struct image *image = &gather->sweep->image;
	Elf64_Rela rela;

	for (uint64_t at = 0; at + sizeof(rela) <= image->relocation_bytes; at += sizeof(rela)) {
		if (image_read(image, image->relocations + at, &rela, sizeof(rela)))
			return;
		if (image_is_table(image, rela.r_offset))
			continue;
		if (ELF64_R_TYPE(rela.r_info) == R_X86_64_RELATIVE ||
		    ELF64_R_TYPE(rela.r_info) == R_X86_64_IRELATIVE)
			sweep_gather_target(gather, (uint64_t)rela.r_addend);
	}
}

/*
 * A number that would be an address of code. Nobody has one of an instruction's middle but a direct
 * branch, over a lock prefix perhaps: such a number is something else.
 */
static void guess_take(struct gather *gather, uint64_t address)
{
	const struct sweep_part *part = sweep_part_at(gather->sweep, address);
	uint64_t before = sweep_previous(gather->sweep, address);
	ZydisDecodedInstruction insn;

	if (part && before && !sweep_is_start(gather->sweep, address) &&
	    ZYAN_SUCCESS(ZydisDecoderDecodeInstruction(&gather->fast, NULL,
						       part->data + (before - part->range.start),
						       part->range.end - before, &insn)) &&
	    before + insn.length > address)
		return;
	sweep_gather_target(gather, address);
}

/* What the words of a range say has been taken otherwise, or means nothing. */
static int is_passed_over(const struct image *image, uint64_t address)
{
	return address - image->relocations < image->relocation_bytes ||
	       image_is_table(image, address);
}

/* RELR keeps addends in the words themselves, as does a program that needs no relocation. */
/* Words of data and addends of relocations that are addresses of code. */
static void gather_words(struct gather *gather)
{
	const struct sweep *sweep = gather->sweep;
	uint64_t low, high;

	relocations_take(gather);
	if (!sweep->part_count)
		return;
	low = sweep->parts[0].range.start;
	high = sweep->parts[sweep->part_count - 1].range.end;
	for (size_t i = 0; i < sweep->image.part_count; i++) {
		const struct image_part *part = &sweep->image.parts[i];

		for (size_t at = (8 - part->address % 8) % 8; at + 8 <= part->bytes; at += 8) {
			uint64_t word;

			memcpy(&word, part->data + at, sizeof(word));
			if (word >= low && word < high &&
			    !is_passed_over(&sweep->image, part->address + at))
				guess_take(gather, word);
		}
	}
	for (size_t i = 0; i < gather->guesses.count; i++)
		guess_take(gather, gather->guesses.all[i]);
}

/* ---- the words that the loader fills with addresses of functions ---- */

void sweep_import_add(struct gather *gather, struct sweep_import import)
{
	struct sweep *sweep = gather->sweep;

	if (array_grow(&sweep->imports, &sweep->import_room, sweep->import_count + 1,
		       sizeof(*sweep->imports))) {
		gather->err = -ENOMEM;
		return;
	}
	sweep->imports[sweep->import_count++] = import;
}

static bool is_import(const Elf64_Rela *rela)
{
	uint32_t type = ELF64_R_TYPE(rela->r_info);

	return ELF64_R_SYM(rela->r_info) &&
	       (type == R_X86_64_JUMP_SLOT || type == R_X86_64_GLOB_DAT || type == R_X86_64_64);
}

/* Functions of other modules are known by libc's names for them. */
static void import_take(struct gather *gather, const Elf64_Rela *rela)
{
	const struct image *image = &gather->sweep->image;
	struct sweep_import import = { .at = rela->r_offset };
	Elf64_Sym symbol;

	if (image_read(image, image->symbols + ELF64_R_SYM(rela->r_info) * sizeof(symbol), &symbol,
		       sizeof(symbol)))
		return;
	import.name = image_text(image, image->texts + symbol.st_name);
	if (symbol.st_shndx != SHN_UNDEF) {
		/* that of an indirect function is of what chooses it */
		if (ELF64_ST_TYPE(symbol.st_info) == STT_FUNC)
			import.address = symbol.st_value;
	} else if (unpatchable_name_looks(import.name + strspn(import.name, "_"))) {
		import.looks = true;
		import.profiles = strstr(import.name, "mcount") || strstr(import.name, "fentry") ||
				  strstr(import.name, "acktrace");
		/* what returns twice is called by its name */
		gather->has_lookers |= !strncmp(import.name, "dl", 2);
	}
	import.is_pointer = ELF64_R_TYPE(rela->r_info) == R_X86_64_64 ||
			    (symbol.st_shndx == SHN_UNDEF && symbol.st_value);
	sweep_import_add(gather, import);
}

static void table_take(struct gather *gather, uint64_t table, uint64_t bytes)
{
	Elf64_Rela rela;

	for (uint64_t at = 0; at + sizeof(rela) <= bytes; at += sizeof(rela)) {
		if (gather->err ||
		    image_read(&gather->sweep->image, table + at, &rela, sizeof(rela)))
			return;
		if (is_import(&rela))
			import_take(gather, &rela);
	}
}

/*
 * The words that the loader fills with addresses of functions. After
 * unpatchable_gather().
 */
static void imports_gather(struct gather *gather)
{
	struct sweep *sweep = gather->sweep;
	const struct image *image = &sweep->image;

	table_take(gather, image->relocations, image->relocation_bytes);
	table_take(gather, image->plt_relocations, image->plt_relocation_bytes);
	sorted_make(sweep->imports, sweep->import_count, sizeof(*sweep->imports));
}

/* ---- pointers to them ---- */

static bool is_looker(const struct address_list *lookers, uint64_t address)
{
	for (size_t i = 0; i < lookers->count; i++)
		if (lookers->all[i] == address)
			return true;
	return false;
}

/* Whether a jump leads to a function that looks at its return address. */
static bool tail_looks(const struct sweep *sweep, const struct address_list *lookers,
		       uint64_t target)
{
	const struct sweep_import *import = sweep_import_at(sweep, target);

	if (!import)
		import = sweep_stub_import(sweep, target);
	if (import && import->looks)
		return !import->profiles;
	return is_looker(lookers, import ? import->address : target);
}

/* In the procedure linkage table, whose stubs are no functions of the module's. */
static bool is_stub(const struct gather *gather, uint64_t address)
{
	static const char *const names[] = { ".plt", ".plt.got", ".plt.sec" };

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		const struct code_section *section = code_file_section(gather->file, names[i]);

		if (section && address - section->address < section->bytes)
			return true;
	}
	return false;
}

/* Functions of the module's own that end in a jump to one, and those that end in a jump to them. */
static void lookers_find(struct gather *gather, struct address_list *lookers)
{
	const struct sweep *sweep = gather->sweep;
	size_t before;

	do {
		before = lookers->count;
		for (size_t i = 0; i < gather->tail_count && lookers->count < LOOKERS_MAX; i++) {
			const struct frame *frame = frames_at(&sweep->frames, gather->tails[i].at);

			if (frame && !is_looker(lookers, frame->start) &&
			    tail_looks(sweep, lookers, gather->tails[i].target) &&
			    !is_stub(gather, frame->start))
				sweep_address_add(gather, lookers, frame->start);
		}
	} while (lookers->count > before && !gather->err);
}

static bool is_in_data(const struct gather *gather, const struct address_list *lookers)
{
	const struct image *image = &gather->sweep->image;
	Elf64_Rela rela;

	for (uint64_t at = 0; at + sizeof(rela) <= image->relocation_bytes; at += sizeof(rela)) {
		if (image_read(image, image->relocations + at, &rela, sizeof(rela)))
			break;
		if (ELF64_R_TYPE(rela.r_info) == R_X86_64_RELATIVE &&
		    is_looker(lookers, (uint64_t)rela.r_addend))
			return true;
	}
	for (size_t i = 0; i < image->part_count; i++) {
		const struct image_part *part = &image->parts[i];
		uint64_t word;

		for (size_t at = (8 - part->address % 8) % 8;
		     !part->is_code && at + sizeof(word) <= part->bytes; at += sizeof(word)) {
			memcpy(&word, part->data + at, sizeof(word));
			/* the symbols end where their names begin */
			if (is_looker(lookers, word) && (part->address + at < image->symbols ||
							 part->address + at >= image->texts))
				return true;
		}
	}
	return false;
}

static bool has_pointer(const struct gather *gather, const struct address_list *lookers)
{
	const struct sweep *sweep = gather->sweep;

	for (size_t i = 0; i < sweep->import_count; i++)
		if (sweep->imports[i].is_pointer && is_looker(lookers, sweep->imports[i].address))
			return true;
	for (size_t i = 0; i < gather->lea_count; i++)
		if (is_looker(lookers, gather->leas[i].target))
			return true;
	return is_in_data(gather, lookers);
}

/* Which function that looks at its return address a pointer may lead to. After gather_code(). */
static void imports_gather_pointers(struct gather *gather)
{
	struct sweep *sweep = gather->sweep;
	struct address_list lookers = { 0 };
	const char *name = NULL;

	if (!gather->has_lookers)
		return;
	for (size_t i = 0; i < sweep->import_count; i++) {
		const struct sweep_import *import = &sweep->imports[i];

		if (!import->looks || import->profiles)
			continue;
		name = import->name;
		if (import->is_pointer)
			sweep->looking_pointer = name;
	}
	lookers_find(gather, &lookers);
	if (!sweep->looking_pointer && lookers.count &&
	    (lookers.count == LOOKERS_MAX || has_pointer(gather, &lookers)))
		sweep->looking_pointer = name;
	free(lookers.all);
}

/* ---- all passes ---- */

/* Function starts, by frames, symbols and sections. Each is a target: somebody will call it. */
static void gather_edges(struct gather *gather, const struct code_symbols *symbols)
{
	struct sweep *sweep = gather->sweep;
	struct address_list *edges = &gather->edges;

	for (size_t i = 0; i < sweep->frames.count; i++) {
		const struct frame *frame = &sweep->frames.all[i];

		sweep_address_add(gather, edges, frame->start);
		/* what follows is filler, or a function that has no frame */
		if (sweep_part_at(sweep, frame->end))
			sweep_address_add(gather, edges, frame->end);
		sweep_gather_target(gather, frame->start);
		/* a damaged table of landing pads: it isn't known where they are */
		if (frames_landing_pads(&sweep->image, frame, pad_add, gather))
			sweep_address_add(gather, &gather->unread, frame->start);
	}
	for (size_t i = 0; symbols && i < symbols->function_count; i++) {
		uint64_t start = symbols->functions[i].address;

		if (!sweep_part_at(sweep, start))
			continue;
		sweep_address_add(gather, edges, start);
		sweep_gather_target(gather, start);
	}
	for (size_t i = 0; i < sweep->part_count; i++)
		sweep_address_add(gather, edges, sweep->parts[i].range.start);
	sweep_address_sort(edges);
}

static int passes_run(struct gather *gather, struct code_file *file,
		      const struct code_symbols *symbols)
{
	if (ZYAN_FAILED(ZydisDecoderInit(&gather->fast, ZYDIS_MACHINE_MODE_LONG_64,
					 ZYDIS_STACK_WIDTH_64)) ||
	    ZYAN_FAILED(ZydisDecoderInit(&gather->full, ZYDIS_MACHINE_MODE_LONG_64,
					 ZYDIS_STACK_WIDTH_64)) ||
	    ZYAN_FAILED(ZydisDecoderEnableMode(&gather->fast, ZYDIS_DECODER_MODE_MINIMAL, true)))
		return -ENOTSUP;
	gather_edges(gather, symbols);
	unpatchable_gather(gather, file, symbols);
	imports_gather(gather);
	gather_code(gather);
	if (gather->err)
		return gather->err;
	gather_words(gather);
	imports_gather_pointers(gather);
	jump_table_gather(gather);
	return gather->err;
}

int sweep_make(struct sweep *sweep, struct code_file *file, const struct code_symbols *symbols)
{
	struct gather gather = { .sweep = sweep, .file = file };
	int err;

	*sweep = (struct sweep){ 0 };
	err = image_load(&sweep->image, file);
	if (!err)
		err = frames_read(&sweep->frames, &sweep->image);
	if (!err)
		err = parts_make(sweep);
	if (!err)
		err = passes_run(&gather, file, symbols);
	free(gather.edges.all);
	free(gather.jumps.all);
	free(gather.unread.all);
	free(gather.guesses.all);
	free(gather.leas);
	free(gather.tails);
	return err;
}

int sweep_make_outline(struct sweep *sweep, struct code_file *file)
{
	struct gather gather = { .sweep = sweep, .file = file };
	int err;

	*sweep = (struct sweep){ 0 };
	err = image_load(&sweep->image, file);
	if (!err)
		err = frames_read(&sweep->frames, &sweep->image);
	if (!err)
		imports_gather(&gather);
	return err ? err : gather.err;
}

void sweep_release(struct sweep *sweep)
{
	for (size_t i = 0; i < sweep->part_count; i++) {
		free(sweep->parts[i].starts);
		free(sweep->parts[i].targets);
	}
	free(sweep->parts);
	free(sweep->doubts);
	free(sweep->unpatchables);
	free(sweep->return_excluded);
	free(sweep->imports);
	frames_release(&sweep->frames);
	image_release(&sweep->image);
	*sweep = (struct sweep){ 0 };
}

const struct sweep_part *sweep_part_at(const struct sweep *sweep, uint64_t address)
{
	for (size_t i = 0; i < sweep->part_count; i++)
		if (address >= sweep->parts[i].range.start && address < sweep->parts[i].range.end)
			return &sweep->parts[i];
	return NULL;
}

bool sweep_is_start(const struct sweep *sweep, uint64_t address)
{
	const struct sweep_part *part = sweep_part_at(sweep, address);

	return part && bit_get(part->starts, address - part->range.start);
}

bool sweep_is_target(const struct sweep *sweep, uint64_t address)
{
	const struct sweep_part *part = sweep_part_at(sweep, address);

	return part && bit_get(part->targets, address - part->range.start);
}

uint64_t sweep_next_target(const struct sweep *sweep, uint64_t from, uint64_t end)
{
	while (from < end && !sweep_is_target(sweep, from))
		from++;
	return from;
}

uint64_t sweep_previous(const struct sweep *sweep, uint64_t address)
{
	const struct sweep_part *part = sweep_part_at(sweep, address);
	uint64_t at;

	if (!part)
		return 0;
	at = address - part->range.start;
	for (unsigned int back = 1; back <= ZYDIS_MAX_INSTRUCTION_LENGTH && back <= at; back++)
		if (bit_get(part->starts, at - back))
			return address - back;
	return 0;
}

bool sweep_is_doubtful(const struct sweep *sweep, uint64_t address)
{
	size_t at_most = sorted_at_most(sweep->doubts, sweep->doubt_count, sizeof(*sweep->doubts),
					offsetof(struct image_range, start), address);

	return at_most && address < sweep->doubts[at_most - 1].end;
}

static int unpatchable_in(const struct sweep_unpatchable *all, size_t count, uint64_t start,
			  uint64_t end)
{
	for (size_t i = 0; i < count && all[i].start < end; i++)
		if (all[i].end > start)
			return all[i].refusal;
	return 0;
}

int sweep_unpatchable(const struct sweep *sweep, uint64_t start, uint64_t end)
{
	return unpatchable_in(sweep->unpatchables, sweep->unpatchable_count, start, end);
}

int sweep_return_excluded(const struct sweep *sweep, uint64_t address)
{
	return unpatchable_in(sweep->return_excluded, sweep->return_excluded_count, address,
			      address + 1);
}

const struct sweep_import *sweep_import_at(const struct sweep *sweep, uint64_t address)
{
	size_t at = sorted_below(sweep->imports, sweep->import_count, sizeof(*sweep->imports),
				 offsetof(struct sweep_import, at), address);

	return at < sweep->import_count && sweep->imports[at].at == address ? &sweep->imports[at]
									    : NULL;
}

const struct sweep_import *sweep_stub_import(const struct sweep *sweep, uint64_t address)
{
	static const uint8_t endbr64[] = { 0xf3, 0x0f, 0x1e, 0xfa };
	size_t left;
	const uint8_t *at = image_at(&sweep->image, address, &left);
	int32_t distance;

	if (left > sizeof(endbr64) && !memcmp(at, endbr64, sizeof(endbr64))) {
		at += sizeof(endbr64);
		address += sizeof(endbr64);
		left -= sizeof(endbr64);
	}
	if (left && (*at == 0xf2 || *at == 0x48)) { /* bnd, or no more than a prefix */
		at++;
		address++;
		left--;
	}
	if (left < 6 || at[0] != 0xff || at[1] != 0x25)
		return NULL;
	memcpy(&distance, at + 2, sizeof(distance));
	return sweep_import_at(sweep, address + 6 + (uint64_t)(int64_t)distance);
}
