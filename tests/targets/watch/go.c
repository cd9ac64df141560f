/* SPDX-License-Identifier: MIT */
/* A program or a library that seems to have code of Go, or has none. */
#include <dlfcn.h>
#include <stdio.h>
volatile int word;
#ifdef IS_GO
__attribute__((section(".go.buildinfo"), used)) static const char build[32] = "\xff Go buildinf:";
#endif
#ifdef LIBRARY
__attribute__((constructor)) static void begin(void)
#else
int main(int words, char **text)
#endif
{
#ifdef LIBRARY
	word = 2; /* on a goroutine's stack, were it real */
#else
	word = 1;
	if (words > 1 && !dlopen(text[1], RTLD_NOW))
		return 2;
	word = 3;
	puts("right");
	return 0;
#endif
}
