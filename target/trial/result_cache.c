/* SPDX-License-Identifier: MIT */
#include "target/trial/result_cache.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#define FILE_BYTES_MAX 8192
#define FORMAT 1
#define BOOT_ID "/proc/sys/kernel/random/boot_id"

/* FNV-1a, against torn files; not against anybody who can write here. */
static uint64_t sum_of(const char *text, size_t bytes)
{
	uint64_t sum = UINT64_C(0xcbf29ce484222325);

	for (size_t i = 0; i < bytes; i++)
		sum = (sum ^ (unsigned char)text[i]) * UINT64_C(0x100000001b3);
	return sum;
}

/*
 * The folder's descriptor, made where it is not there and `is_made`; -errno. It is ours alone, or
 * it is refused.
 */
static int folder_open(int is_made)
{
	const char *cache = secure_getenv("XDG_CACHE_HOME"), *home = secure_getenv("HOME");
	char base[PATH_MAX], path[PATH_MAX];
	struct stat status;
	int fd;

	if (cache && cache[0] == '/')
		snprintf(base, sizeof(base), "%s", cache);
	else if (home && home[0] == '/')
		snprintf(base, sizeof(base), "%s/.cache", home);
	else
		return -ENOENT;
	if ((size_t)snprintf(path, sizeof(path), "%s/waymark", base) >= sizeof(path))
		return -ENAMETOOLONG;
	if (is_made &&
	    ((mkdir(base, 0700) && errno != EEXIST) || (mkdir(path, 0700) && errno != EEXIST)))
		return -errno;
	fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (fstat(fd, &status) || status.st_uid != geteuid() || status.st_mode & 022) {
		close(fd);
		return -EPERM;
	}
	return fd;
}

/* The first lines: boot, kernel, user and build of the results. 0 or -errno. */
static int head_make(char *text, size_t bytes)
{
	char boot[64] = "";
	struct utsname names;
	int fd = open(BOOT_ID, O_RDONLY | O_CLOEXEC);
	ssize_t got = fd < 0 ? -1 : read(fd, boot, sizeof(boot) - 1);

	if (fd >= 0)
		close(fd);
	if (got <= 0 || uname(&names))
		return -ENOENT;
	boot[strcspn(boot, "\n")] = '\0';
	snprintf(text, bytes, "waymark trials %d of %s\nboot %s\nkernel %s %s\nuser %u\n", FORMAT,
		 WAYMARK_VERSION, boot, names.release, names.version, geteuid());
	return 0;
}

static int file_read(char text[FILE_BYTES_MAX])
{
	int folder = folder_open(0), fd = -1;
	struct stat status;
	ssize_t got = -1;

	if (folder < 0)
		return folder;
	fd = openat(folder, "trials", O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	close(folder);
	if (fd < 0)
		return -errno;
	if (!fstat(fd, &status) && S_ISREG(status.st_mode) && status.st_uid == geteuid() &&
	    !(status.st_mode & 022))
		got = read(fd, text, FILE_BYTES_MAX - 1);
	close(fd);
	if (got <= 0 || memchr(text, '\0', (size_t)got))
		return -EINVAL;
	text[got] = '\0';
	return 0;
}

/* Cut off the last line, which must be the sum of all before. */
static int sum_check(char *text)
{
	char *last = strstr(text, "\nsum "), *end;
	uint64_t sum;

	if (!last)
		return -EINVAL;
	last++;
	sum = strtoull(last + 4, &end, 16);
	if (strcmp(end, "\n") != 0 || sum != sum_of(text, (size_t)(last - text)))
		return -EINVAL;
	*last = '\0';
	return 0;
}

/* "NAME works|fails [WORDS]" */
static int line_take(char *line, struct trial_answer answers[TRIAL_COUNT])
{
	char *rest = NULL, *name = strtok_r(line, " ", &rest), *state = strtok_r(NULL, " ", &rest);
	int trial = name ? trial_find(name) : -ENOENT;

	if (trial < 0 || !state || !trial_row((enum trial)trial)->is_kept ||
	    (strcmp(state, "works") != 0 && strcmp(state, "fails") != 0))
		return -EINVAL;
	answers[trial] = (struct trial_answer){ .state = *state == 'w' ? TRIAL_WORKS
								       : TRIAL_FAILS };
	snprintf(answers[trial].words, TRIAL_WORDS_BYTES, "%s", rest ? rest : "");
	return trial;
}

uint64_t cache_read(struct trial_answer answers[TRIAL_COUNT])
{
	char text[FILE_BYTES_MAX], head[1024], *rest = NULL;
	uint64_t taken = 0;

	if (file_read(text) || sum_check(text) || head_make(head, sizeof(head)) ||
	    strncmp(text, head, strlen(head)) != 0)
		return 0;
	for (char *line = strtok_r(text + strlen(head), "\n", &rest); line;
	     line = strtok_r(NULL, "\n", &rest)) {
		int trial = line_take(line, answers);

		if (trial < 0) /* of another build */
			return 0;
		taken |= UINT64_C(1) << trial;
	}
	return taken;
}

static size_t text_make(char text[FILE_BYTES_MAX], const struct trial_answer answers[TRIAL_COUNT])
{
	size_t used;

	if (head_make(text, FILE_BYTES_MAX))
		return 0;
	used = strlen(text);
	for (int i = 0; i < TRIAL_COUNT; i++) {
		const struct trial_row *row = trial_row((enum trial)i);

		if (row->is_kept && answers[i].state != TRIAL_UNKNOWN)
			used += (size_t)snprintf(
				text + used, FILE_BYTES_MAX - used, "%s %s %s\n", row->name,
				answers[i].state == TRIAL_WORKS ? "works" : "fails",
				answers[i].words);
	}
	used += (size_t)snprintf(text + used, FILE_BYTES_MAX - used, "sum %016llx\n",
				 (unsigned long long)sum_of(text, used));
	return used;
}

/* A write past RLIMIT_FSIZE would raise SIGXFSZ in the program. */
static int is_too_large(size_t bytes)
{
	struct rlimit limit;

	return !getrlimit(RLIMIT_FSIZE, &limit) && bytes > limit.rlim_cur;
}

int cache_write(const struct trial_answer answers[TRIAL_COUNT])
{
	char text[FILE_BYTES_MAX], name[64];
	size_t bytes = text_make(text, answers);
	int folder = bytes ? folder_open(1) : -ENOENT, fd, err = 0;

	if (folder < 0)
		return folder;
	if (is_too_large(bytes)) {
		close(folder);
		return -EFBIG;
	}
	snprintf(name, sizeof(name), "trials.%d", (int)getpid());
	fd = openat(folder, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0) {
		err = -errno;
		close(folder);
		return err;
	}
	if (write(fd, text, bytes) != (ssize_t)bytes)
		err = -EIO;
	close(fd);
	if (!err && renameat(folder, name, folder, "trials"))
		err = -errno;
	if (err)
		unlinkat(folder, name, 0);
	close(folder);
	return err;
}
