/* SPDX-License-Identifier: MIT */
#include <unistd.h>
static struct {
	long weight;
	short parts[2];
} chest = { 7, { 1, 2 } };
int main(int words, char **word)
{
	while (words == 1) {
		chest.weight++;
		chest.parts[0]++;
		write(1, ".", 1);
		usleep(10000);
	}
	return !word[1];
}
