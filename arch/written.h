/* SPDX-License-Identifier: MIT */
/*
 * What an instruction that has just run wrote to memory, by its bytes and the registers it left
 * behind. x86-64.
 *
 * Only what these say is said: a `mov` stores what is in its register still, an exchange leaves
 * behind what was there; what `add` has made of the memory is known by who knows what was there
 * before. Nothing is read but the code that is handed over and the context. Hit path.
 */
#ifndef ARCH_WRITTEN_H
#define ARCH_WRITTEN_H

#include <stddef.h>
#include <stdint.h>
#include <ucontext.h>

#define WRITTEN_BYTES_MAX 64

enum written_way {
	WRITTEN_SOMEHOW, /* the values are not known */
	WRITTEN_NEW,	 /* `value` */
	WRITTEN_CHANGED, /* `value` is of the operation: it changes what was there */
	WRITTEN_NOT,	 /* it reads alone */
	WRITTEN_COPIED,	 /* `value` is what `source` has now; access_decode_copied() fills it in */
};

enum written_change {
	CHANGE_ADD,
	CHANGE_OR,
	CHANGE_AND,
	CHANGE_SUB,
	CHANGE_XOR,
	CHANGE_NOT,
	CHANGE_NEG,
};

/* An exchange leaves what it met in its register, and its operand is gone. */
enum written_exchange { EXCHANGE_NONE, EXCHANGE_SWAP, EXCHANGE_ADD };

struct written {
	uintptr_t address;
	uint32_t bytes; /* from there on; 0: how many is not known */
	uint8_t way;	/* enum written_way */
	uint8_t change; /* enum written_change */
	uint8_t has_old;
	uint8_t is_locked;
	uint8_t exchange; /* enum written_exchange, if `operand` can be looked for */
	uint8_t operand;  /* its general register */
	uint8_t value[WRITTEN_BYTES_MAX] __attribute__((aligned(8)));
	uint64_t old, old_high; /* what it met in all of `bytes`, if has_old */
	uintptr_t source;	/* what a string instruction reads beside; 0: nothing */
	uint32_t source_bytes;
	uint64_t kept; /* of the first 64 bytes, those that a mask excluded: a bit each */
	/*
	 * if `bytes` is 0: it wrote unknown ones of so many bytes; 0: this number is unknown, too
	 */
	uint32_t reach;
};

/* Where the thread's fs leads. */
typedef uint64_t written_thread(void);

/*
 * The instruction of `bytes` bytes at `code`, which ended at the context's program counter. 0; -1:
 * it has no memory operand, or its address is lost. `thread` returns the base of fs; NULL: unknown.
 * If the context has no frame of vector registers (fpregs), their values are not known.
 */
int written_tell(struct written *written, const uint8_t *code, size_t bytes,
		 const ucontext_t *context, written_thread *thread);

/*
 * The string instruction with a repeat prefix at the program counter, which has just made a step
 * and continues. 0; -1: another instruction is there.
 */
int written_tell_repeated(struct written *written, const uint8_t *code, size_t bytes,
			  const ucontext_t *context);

#endif
