/* SPDX-License-Identifier: MIT */
/*
 * Values of all sorts where a probe may find them: USDT's forms of arguments, with notes of our
 * own, since which forms a compiler takes is its choice; strings that lead anywhere; parameters of
 * many types.
 */
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define KEEP __attribute__((noinline, noclone))
#define PAGE 4096

enum color { RED, GREEN = 5, NOTHING = -1 };
struct pair {
	int a, b;
};
struct mixed {
	char c;
	short h;
	int i;
	long l;
} mixed = { -1, -2, -3, -4 };

long global_longs[4] __attribute__((used)) = { 11, 22, 33, 44 };
static int static_int __attribute__((used)) = 77;

KEEP void text(const char *p);
KEEP enum color types(enum color c, bool b, struct pair pair, unsigned char y, signed char s,
		      float f, double d, char ch, const struct pair *at);
KEEP void forms(long a, long b, char c, unsigned char d, struct mixed *p, long *array, long index);

/* A note as sys/sdt.h writes it, for the instruction before; five bytes, as its nop may be. */
#define NOTE(name, arguments)                                                                      \
	"990:	nopw	0(%%rax, %%rax, 1)\n"                                                           \
	"	.pushsection .note.stapsdt, \"\", \"note\"\n"                                            \
	"	.balign 4\n"                                                                             \
	"	.4byte 992f - 991f, 994f - 993f, 3\n"                                                    \
	"991:	.asciz \"stapsdt\"\n"                                                                \
	"992:	.balign 4\n"                                                                         \
	"993:	.8byte 990b, _.stapsdt.base, 0\n"                                                    \
	"	.asciz \"forms\"\n"                                                                      \
	"	.asciz \"" name "\"\n"                                                             \
	"	.asciz \"" arguments "\"\n"                                                        \
	"994:	.balign 4\n"                                                                         \
	"	.popsection\n"

__asm__(".pushsection .stapsdt.base, \"aG\", \"progbits\", .stapsdt.base, comdat\n"
	".weak _.stapsdt.base\n.hidden _.stapsdt.base\n"
	"_.stapsdt.base: .space 1\n.size _.stapsdt.base, 1\n.popsection\n");

void forms(long a, long b, char c, unsigned char d, struct mixed *p, long *array, long index)
{
	register struct mixed *r8 __asm__("r8") = p;
	register long *r9 __asm__("r9") = array;
	register unsigned long r10 __asm__("r10") = 0x1234567890abcdef;
	register float xmm1 __asm__("xmm1") = 1.25f;
	register double xmm2 __asm__("xmm2") = -2.5;

	__asm__ volatile(
		NOTE("one", "-4@%%edi 8@%%rsi -1@%%dl 1@%%cl -1@(%%r8) -2@2(%%r8) -4@4(%%r8) "
			    "-8@8(%%r8) 8@(%%r9,%%rax,8) 8@global_longs+8(%%rip) -4@$-5 "
			    "8@8(%%r9,%%rax,8) -4@static_int(%%rip) 1@$7 4f@%%xmm1 8f@%%xmm2")
			NOTE("two", "2@%%di 4@%%esi 1@%%ah 8@-8+16(%%r9) 8@%%r10 4@%%r10d 2@%%r10w "
				    "1@%%r10b %%rdi 8@global_longs -8@global_longs+16")
		:
		: "a"(index), "D"(a), "S"(b), "d"(c), "c"(d), "r"(r8), "r"(r9), "r"(r10), "x"(xmm1),
		  "x"(xmm2)
		: "memory");
}

void text(const char *p)
{
	__asm__ volatile("" : : "r"(p));
}

enum color types(enum color c, bool b, struct pair pair, unsigned char y, signed char s, float f,
		 double d, char ch, const struct pair *at)
{
	__asm__ volatile(""
			 : "+r"(c)
			 : "r"(b), "r"(pair.a), "r"(y), "r"(s), "x"(f), "x"(d), "r"(ch), "r"(at));
	return c;
}

static void texts(void)
{
	char *pages = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			   0);
	char *large = malloc(1 << 20), name[] = "/tmp/waymark-forms-XXXXXX";
	int fd = mkstemp(name);
	char *file;

	unlink(name);
	if (ftruncate(fd, 10) || mprotect(pages + PAGE, PAGE, PROT_NONE))
		exit(1);
	file = mmap(NULL, 2 * PAGE, PROT_READ, MAP_SHARED, fd, 0);
	memset(large, 'x', (1 << 20) - 1);
	large[(1 << 20) - 1] = 0;
	memcpy(pages + PAGE - 4, "end", 4);
	memcpy(pages + 2 * PAGE, "start", 6);
	text("plain");
	text("");
	text(pages + PAGE - 4); /* the last bytes of what can be read */
	text(pages + 2 * PAGE); /* and the first */
	text("\xff\xfe not UTF-8");
	text("quote\" back\\slash\n");
	text(NULL);
	text((const char *)1);
	text(pages + PAGE);			/* may not be read */
	text(file + PAGE);			/* behind the end of a file: SIGBUS */
	text((const char *)0x8000000000000000); /* no address at all */
	text((const char *)0xffffffffff600000); /* the vsyscall page */
	text((const char *)0xffffffffffffffff);
	text(large);
}

int main(void)
{
	long array[4] = { 100, 200, 300, 400 };
	struct pair pair = { 1, 2 };

	forms(-1, -2, -3, 253, &mixed, array, 1);
	texts();
	types(NOTHING, true, pair, 200, -5, 1.5f, 2.5, 'q', &pair);
	types(GREEN, false, pair, 255, 5, -1.5f, -2.5, '\n', &pair);
	return 0;
}
