// SPDX-License-Identifier: GPL-2.0
#include "text.h"

static int text_add(const char *path, const char *text, int how)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC | how);
	ssize_t n;

	if (fd < 0)
		return -errno;
	n = write(fd, text, strlen(text));
	n = n < 0 ? -errno : 0;
	close(fd);
	return n;
}

int text_write(const char *path, const char *text)
{
	return text_add(path, text, O_TRUNC);
}

int text_append(const char *path, const char *text)
{
	return text_add(path, text, O_APPEND);
}

int text_write_number(const char *path, u64 n)
{
	char text[32];

	snprintf(text, sizeof(text), "%llu", (unsigned long long)n);
	return text_write(path, text);
}

long long text_read_number(const char *path)
{
	char text[64] = "";
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return -1;
	if (read(fd, text, sizeof(text) - 1) <= 0)
		text[0] = 0;
	close(fd);
	return text[0] ? atoll(text) : -1;
}

long long text_vmstat(const char *name)
{
	FILE *f = fopen("/proc/vmstat", "re");
	char line[128], found[64];
	long long value = -1, n;

	while (f && value < 0 && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%63s %lld", found, &n) == 2 && !strcmp(found, name))
			value = n;
	}
	if (f)
		fclose(f);
	return value;
}

bool text_has_word(const char *path, const char *word)
{
	FILE *f = fopen(path, "re");
	char found[256];
	bool has = false;

	while (f && !has && fscanf(f, "%255s", found) == 1)
		has = !strcmp(found, word);
	if (f)
		fclose(f);
	return has;
}
