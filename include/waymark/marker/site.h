/* SPDX-License-Identifier: MIT */
/*
 * waymark/marker.h: sites: what a marker compiles to, and how it enters the agent. Nothing in here
 * is for use.
 */
#ifndef WAYMARK_MARKER_SITE_H
#define WAYMARK_MARKER_SITE_H

#pragma GCC system_header

#include <waymark/marker/field.h>

#if defined(__code_model_large__) && !defined(__clang__)
#error "waymark: gcc has no constant addresses under -mcmodel=large; use medium or WAYMARK_DISABLE"
#endif

/* clang-format off: it takes assembler in macros apart */

/*
 * A site, in assembler, because only assembler can put an object into the COMDAT group of whatever
 * function the compiler copied the site into (flag ?), drop it with that function's section (flag
 * o), and keep its record once per module (a COMDAT group of its own). abi/site.h describes the
 * three sections and the note. A record's name has the line and a count, since markers of one name
 * may have different fields: each WAYMARK in the source has its own record.
 */
#define WM__NAME(kind, subsys, event)                                                              \
	"waymark." kind "." subsys "." event "." WM__TEXT(__LINE__) "." WM__TEXT(__COUNTER__)

#define WM__RECORDS(name)                                                                          \
	".ifndef " name "\n\t"                                                                     \
	".pushsection waymark_markers,\"awG\",@progbits," name ",comdat\n\t"                       \
	".balign 8\n\t"                                                                            \
	".hidden " name "\n\t"                                                                     \
	".weak " name "\n\t"                                                                       \
	".type " name ",@object\n\t"                                                               \
	".size " name ",32\n" name ":\n\t"                                                         \
	".quad 0, 0, 0, 0\n\t"                                                                     \
	".popsection\n\t"                                                                          \
	".endif\n\t"                                                                               \
	".ifndef .Lwaymark_note\n\t"                                                               \
	".pushsection .note.waymark,\"a\",@note\n\t"                                               \
	".balign 4\n"                                                                              \
	".Lwaymark_note:\n\t"                                                                      \
	".hidden __start_waymark_sites, __stop_waymark_sites\n\t"                                  \
	".hidden __start_waymark_markers, __stop_waymark_markers\n\t"                              \
	".long 8, 16, 1\n\t"                                                                       \
	".asciz \"Waymark\"\n\t"                                                                   \
	".long __start_waymark_sites - ., __stop_waymark_sites - .\n\t"                            \
	".long __start_waymark_markers - ., __stop_waymark_markers - .\n\t"                        \
	".popsection\n\t"                                                                          \
	".endif\n\t"

#define WM__ENTRY(name, site, cold, types)                                                         \
	".pushsection waymark_sites,\"ao?\",@progbits,.Lwm_site%=\n\t"                             \
	".balign 8\n\t"                                                                            \
	".long " site ", " cold "\n\t"                                                             \
	".long " name " - ., %c[wm_text] - .\n\t"                                                  \
	".long " types "\n\t"                                                                      \
	".popsection\n"

/*
 * Instructions are in AT&T syntax, also under -masm=intel: what {|} has second is for that alone.
 * There clang loses each $, so immediates have a second form.
 */
#define WM__ATT "{|.att_syntax prefix\n\t}"
#define WM__ATT_END "{|\n\t.intel_syntax noprefix}"
#define WM__REG(operand) "{|%%}%[" operand "]"

#ifdef WAYMARK_PORTABLE
#define WM__WAY "p"
#define WM__TEST(name, cold)                                                                       \
	".Lwm_site%=: {cmpl $0, " name "+16(%%rip)|cmp dword ptr " name "[rip+16], 0}\n\t"         \
	"jne " cold "\n\t"
#else
#define WM__WAY "j"
#define WM__TEST(name, cold)                                                                       \
	".Lwm_site%=: .byte 0x3d\n\t"                                                              \
	".long " cold " - . - 4\n\t"
#endif

/*
 * What a site's text operand says, line by line; the fields' text comes last, as written. A level
 * is " info" and the like, or "".
 */
#define WM__SITE_TEXT(kind, level, subsys, event, fields)                                          \
	kind WM__WAY "\n" subsys "\n" event "\n" __FILE__ "\n" WM__TEXT(__LINE__) level "\n" fields

#define WM__TABLES(name, cold)                                                                     \
	WM__RECORDS(name)                                                                          \
	WM__ENTRY(name, ".Lwm_site%= - .", cold " - .",                                            \
		  "%c[wm_t0], %c[wm_t4], %c[wm_t8], %c[wm_t12]")
#define WM__SITE(name, ...)                                                                        \
	__asm__ goto(WM__TEST(name, "%l[wm__armed]") WM__TABLES(name, "%l[wm__armed]")             \
		     :                                                                             \
		     : __VA_ARGS__                                                                 \
		     : "cc"                                                                        \
		     : wm__armed)

/* A marker's record, as the agent fills it in: struct wm_record of abi/site.h. */
struct wm__record {
	void *enter;
	void *agent_word;
	unsigned long long rest[2];
};

/*
 * WM__OPEN opens the block that runs while armed, WM__CLOSE closes it.
 *
 * clang 14 assumes that each asm goto of a function jumps to the labels of all of them. It refuses
 * that if the initialization of a variable, a cleanup or a VLA is between them. So every asm goto
 * has a function of its own that is always inlined. In C one serves all: its operands are constants
 * once inlined, which needs an optimizer; without one the asm sets a flag.
 */
#define WM__TYPE_WORDS(a, ...)                                                                     \
	WM__TYPES(0, ##__VA_ARGS__), WM__TYPES(4, ##__VA_ARGS__), WM__TYPES(8, ##__VA_ARGS__),     \
		WM__TYPES(12, ##__VA_ARGS__)
#define WM__INPUTS(...) WM__INPUTS1(__VA_ARGS__)
#define WM__INPUTS1(text, t0, t4, t8, t12)                                                         \
	[wm_text] "i"(text), [wm_t0] "i"(t0), [wm_t4] "i"(t4), [wm_t8] "i"(t8), [wm_t12] "i"(t12)

#ifndef __clang__
#define WM__OPEN(name, text, ...)                                                                  \
	{                                                                                          \
		__label__ wm__armed;                                                               \
		WM__SITE(name, WM__INPUTS(text, WM__TYPE_WORDS(_, ##__VA_ARGS__)));                \
		if (0) {                                                                           \
wm__armed:                                                                                         \
			__attribute__((cold));
#elif defined(__cplusplus)
#define WM__OPEN(name, text, ...)                                                                  \
	{                                                                                          \
		constexpr unsigned int wm__types0 = WM__TYPES(0, ##__VA_ARGS__);                   \
		constexpr unsigned int wm__types4 = WM__TYPES(4, ##__VA_ARGS__);                   \
		constexpr unsigned int wm__types8 = WM__TYPES(8, ##__VA_ARGS__);                   \
		constexpr unsigned int wm__types12 = WM__TYPES(12, ##__VA_ARGS__);                 \
		struct wm__site {                                                                  \
			WM__INLINE bool is_armed()                                                 \
			{                                                                          \
				WM__SITE(name, WM__INPUTS(text, wm__types0, wm__types4,            \
							  wm__types8, wm__types12));               \
				return false;                                                      \
wm__armed:                                                                                         \
				return true;                                                       \
			}                                                                          \
		};                                                                                 \
		if (__builtin_expect(wm__site::is_armed(), false)) {
#elif defined(__OPTIMIZE__)
WM__INLINE _Bool wm__is_armed(struct wm__record *record, const char *text, unsigned int types0,
			      unsigned int types4, unsigned int types8, unsigned int types12)
{
	WM__SITE("%c[wm_record]",
		 WM__INPUTS(text, types0, types4, types8, types12), [wm_record] "i"(record));
	return 0;
wm__armed:
	return 1;
}
#define WM__OPEN(name, text, ...)                                                                  \
	WM__OPEN1(WM__GLUE(wm__record_, __COUNTER__), name, text, ##__VA_ARGS__)
#define WM__OPEN1(record, name, text, ...)                                                         \
	{                                                                                          \
		extern struct wm__record record __asm__(name)                                      \
			__attribute__((visibility("hidden")));                                     \
		if (__builtin_expect(                                                              \
			    wm__is_armed(&record, text, WM__TYPE_WORDS(_, ##__VA_ARGS__)), 0)) {
#else
#define WM__FLAG(value) "mov{l $" value ", %[wm_flag]| %[wm_flag], " value "}"
#define WM__OPEN(name, text, ...)                                                                  \
	{                                                                                          \
		int wm__is_armed;                                                                  \
		__asm__ volatile(WM__TEST(name, ".Lwm_cold%=")                                     \
					 WM__FLAG("0") "\n\t"                                      \
						       "jmp .Lwm_done%=\n"                         \
						       ".Lwm_cold%=: " WM__FLAG(                   \
							       "1") "\n"                           \
								    ".Lwm_done%=:\n\t" WM__TABLES( \
									    name, ".Lwm_cold%=")   \
				 : [wm_flag] "=r"(wm__is_armed)                                    \
				 : WM__INPUTS(text, WM__TYPE_WORDS(_, ##__VA_ARGS__))              \
				 : "cc");                                                          \
		if (wm__is_armed) {
#endif
#define WM__CLOSE                                                                                  \
	}                                                                                          \
	}

/*
 * Enter the agent. The asm clobbers no register and declares no call: the agent's stub preserves
 * everything that it uses, so a leaf function stays a leaf and the hot path gains no push. First
 * step over the red zone (System V ABI 3.2.2), then push the payload and the agent's own word.
 *
 * These instructions move the stack pointer, and an asynchronous signal may have the stack unwound
 * at each of them. The function's own CFI cannot follow: the asm cannot know which register the
 * function's CFA is computed from. So they are out of line, in a section with an FDE of its own.
 * To an unwinder that section is a function which the site called with its stack unchanged:
 *
 *   CFA              the stack pointer at the site; WM__ENTER_FDE counts what was pushed.
 *   return address   where the last jump leads. The section is aligned and has 32 bytes, so the
 *                    expression in the CIE finds the jump's displacement in bytes 27 to 30. No
 *                    register is needed for it. The jump does not end with the 32 bytes: some
 *                    processors decode such a jump each time (Intel, "Jump Conditional Code
 *                    Erratum").
 *   the call         The agent's CFI restores the stack pointer of the site (abi/site.h). Unwinders
 *                    look a caller's row up by its return address - 1: the row for a stack pointer
 *                    already restored begins one byte into the call.
 *
 * The section joins the group of the function's section (flag ?) and only the site refers to it, so
 * a linker keeps or drops both. It has a name of its own; with a common name, one function in use
 * would keep all of them. "inline": the compiler counts lines as instructions.
 */
#ifdef __clang__
#define WM__EH_FRAME ".pushsection .eh_frame,\"a\",@unwind\n\t"
#else
#define WM__EH_FRAME ".pushsection .eh_frame,\"a\",@progbits\n\t"
#endif

/*
 * By hand: clang 14's assembler refuses a .cfi_startproc while that of the function is open, in
 * whatever section. Lengths are fixed, since padding between two entries would end the table.
 */
#define WM__ENTER_CIE                                                                              \
	".ifndef .Lwaymark_cie\n\t"                                                                \
	".balign 4\n"                                                                              \
	".Lwaymark_cie: .long 36, 0\n\t"                                                           \
	".byte 1\n\t"                                                                              \
	".asciz \"zR\"\n\t"                                                                        \
	".byte 1, 0x78, 16, 1, 0x1b\n\t" /* steps 1 and -8, rip, FDEs: pcrel | sdata4 */           \
	".byte 0x0c, 7, 0\n\t"		 /* def_cfa rsp, 0 */                                      \
	".byte 0x16, 16, 15\n\t"	 /* val_expression rip: */                                 \
	".byte 0x80, 0, 9, 0xe0, 0x1a, 0x23, 23\n\t"	/* at = (rip & -32) + 23 */                \
	".byte 0x12, 6, 8, 32, 0x26, 0x22, 0x23, 8\n\t" /* at + (*(int64_t *)at >> 32) + 8 */      \
	".byte 0, 0\n\t"                                                                           \
	".endif\n\t"

/* In front of each row, how many bytes of code the last one is for. */
#define WM__ENTER_FDE                                                                              \
	".long 36, . - .Lwaymark_cie, .Lwm_enter%= - ., 32\n\t"                                    \
	".byte 0\n\t"                                                                              \
	".byte 0x40 + (.Lwm_payload%= - .Lwm_enter%=), 0x0e, 0x80, 1\n\t" /* rsp + 128 */          \
	".byte 0x40 + (.Lwm_word%= - .Lwm_payload%=), 0x0e, 0x88, 1\n\t"  /* rsp + 136 */          \
	".byte 0x40 + (.Lwm_call%= - .Lwm_word%=), 0x0e, 0x90, 1\n\t"	  /* rsp + 144 */          \
	".byte 0x41, 0x0e, 0\n\t"					  /* in the call: rsp */   \
	".byte 0x3f + (.Lwm_called%= - .Lwm_call%=), 0x0e, 0x90, 1\n\t"	  /* rsp + 144 */          \
	".byte 0x40 + (.Lwm_left%= - .Lwm_called%=), 0x0e, 0\n\t"	  /* rsp */                \
	".byte 0\n\t"

#define WM__ENTER_BY(payload, word, call)                                                          \
	WM__ATT "jmp .Lwm_enter%=\n"                                                               \
		".Lwm_back%=:\n\t"                                                                 \
		".pushsection .text.unlikely.waymark.%=,\"ax?\",@progbits\n\t"                     \
		".balign 32\n"                                                                     \
		".Lwm_enter%=: .byte 0x48, 0x83, 0xc4, 0x80\n" /* add $-128, %rsp */               \
		".Lwm_payload%=: pushq " payload "\n"                                              \
		".Lwm_word%=: pushq " word "\n"                                                    \
		".Lwm_call%=: call *" call "\n"                                                    \
		".Lwm_called%=: .byte 0x48, 0x81, 0xc4, 144, 0, 0, 0\n" /* add $144, %rsp */       \
		".Lwm_left%=: .org .Lwm_enter%= + 26, 0x90\n\t"                                    \
		".byte 0xe9\n\t"                                                                   \
		".long .Lwm_back%= - . - 4\n\t"                                                    \
		".byte 0xcc\n\t"                                                                   \
		".popsection\n\t" WM__EH_FRAME WM__ENTER_CIE WM__ENTER_FDE                         \
		".popsection" WM__ATT_END

#define WM__ENTER(name, payload, input)                                                            \
	__asm__ __inline__ volatile(WM__ENTER_BY(WM__REG("wm_at"), name "+8(%%rip)",               \
						 name "(%%rip)")                                   \
				    :                                                              \
				    : [wm_at] "l"(payload), "m"(input)                             \
				    : "cc")

#define WM__MARK(kind, level, subsys, event, fields, ...)                                          \
	WM__MARK1(WM__NAME(kind, subsys, event),                                                   \
		  WM__SITE_TEXT(kind, level, subsys, event, fields), ##__VA_ARGS__)
#define WM__MARK1(name, text, ...)                                                                 \
	do {                                                                                       \
		WM__CHECK_FIELDS(_, ##__VA_ARGS__)                                                 \
		WM__OPEN(name, text, ##__VA_ARGS__)                                                \
		WM__COLD_BLOCK(name, ##__VA_ARGS__)                                                \
		WM__CLOSE                                                                          \
	} while (0)

/* The payload is rounded up to words, and has one at least: the agent copies it by words. */
#define WM__PAYLOAD_ROOM(a, ...)                                                                   \
	((WM__PAYLOAD_BYTES(_, ##__VA_ARGS__) + 7) / 8 * 8 + 8 * !WM__COUNT(_, ##__VA_ARGS__))
/* A block of its own, so that its declarations come first in one. */
#define WM__COLD_BLOCK(name, ...)                                                                  \
	{                                                                                          \
		WM__EACH(WM__HOLD_FIELD, _, ##__VA_ARGS__)                                         \
		unsigned char wm__payload[WM__PAYLOAD_ROOM(_, ##__VA_ARGS__)]                      \
			__attribute__((aligned(8)));                                               \
		unsigned char *wm__to = wm__payload;                                               \
		const unsigned char *wm__from = wm__payload;                                       \
		WM__EACH(WM__PUT_FIELD, _, ##__VA_ARGS__)                                          \
		WM__ENTER(name, wm__payload, wm__payload);                                         \
		WM__EACH(WM__TOUCH_FIELD, _, ##__VA_ARGS__)                                        \
		(void)wm__to;                                                                      \
		(void)wm__from;                                                                    \
	}

/* True while armed. The event has no payload; what the stub is given is never read. */
#define WM__ARMED(kind, subsys, event)                                                             \
	WM__ARMED1(WM__NAME(kind, subsys, event), WM__SITE_TEXT(kind, "", subsys, event, ""))
#define WM__ARMED1(name, text)                                                                     \
	(__extension__({                                                                           \
		int wm__passed = 0;                                                                \
		WM__OPEN(name, text)                                                               \
		WM__ENTER(name, 0L, *(const char *)"");                                            \
		wm__passed = 1;                                                                    \
		WM__CLOSE                                                                          \
		wm__passed;                                                                        \
	}))

WM__INLINE void wm__scope_leave(struct wm__record **scope)
{
	if (__builtin_expect(*scope != 0, 0))
		/* the payload is never read */
		__asm__ __inline__ volatile(WM__ENTER_BY("{$0|%%rsp}",
							 "8(" WM__REG("wm_record") ")",
							 "(" WM__REG("wm_record") ")")
					    :
					    : [wm_record] "r"(*scope)
					    : "cc");
}

/*
 * The end has an entry in the table too, with no site: it is armed along with its beginning. All is
 * in the initializer, so that what may follow a declaration may follow this.
 */
#define WM__SCOPE(level, subsys, event, fields, ...)                                               \
	WM__SCOPE1(WM__GLUE(wm__scope_, __COUNTER__), WM__NAME("b", subsys, event),                \
		   WM__NAME("e", subsys, event), WM__SITE_TEXT("b", level, subsys, event, fields), \
		   WM__SITE_TEXT("e", level, subsys, event, ""), ##__VA_ARGS__)
#define WM__SCOPE1(scope, begin, end, begin_text, end_text, ...)                                   \
	struct wm__record *scope __attribute__((cleanup(wm__scope_leave),                          \
						unused)) = __extension__({                         \
		struct wm__record *wm__scope = 0;                                                  \
		WM__CHECK_FIELDS(_, ##__VA_ARGS__)                                                 \
		WM__OPEN(begin, begin_text, ##__VA_ARGS__)                                         \
		WM__COLD_BLOCK(begin, ##__VA_ARGS__)                                               \
		__asm__ volatile(".Lwm_site%=: " WM__ATT "lea " end                                \
				 "(%%rip), " WM__REG("wm_record") WM__ATT_END                      \
				 "\n\t" WM__RECORDS(end) WM__ENTRY(end, "0", "0", "0, 0, 0, 0")    \
				 : [wm_record] "=r"(wm__scope)                                     \
				 : [wm_text] "i"(end_text));                                       \
		WM__CLOSE                                                                          \
		wm__scope;                                                                         \
	})

#endif
