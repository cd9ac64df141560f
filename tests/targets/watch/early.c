/* SPDX-License-Identifier: MIT */
/* Changes a variable of its library's and errno in turn. */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>
void library_write(void);
int main(void)
{
	for (int i = 0; i < 5; i++) {
		library_write();
		open("/nonexistent", O_RDONLY);
		if (write(-1, "", 1) >= 0)
			return 1;
	}
	return 0;
}
