/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Contract: check/generated/points.h. */
#define _GNU_SOURCE
#include "check/generated/points.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static unsigned int nobody_asks[GENERATED_MAX];

unsigned int generated_now;
unsigned int *generated_seen = nobody_asks;

/* Before main(), so that all processes of the program share the file. */
__attribute__((constructor)) static void generated_begin(void)
{
	const char *number = getenv("LODIC_GENERATED");
	const char *path = getenv("LODIC_GENERATED_SEEN");
	void *p;
	int fd;

	if (number)
		generated_now = (unsigned int)strtoul(number, NULL, 10);
	if (!path)
		return;
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
	if (fd < 0 || ftruncate(fd, sizeof(nobody_asks)) != 0) {
		perror(path);
		_exit(1);
	}
	p = mmap(NULL, sizeof(nobody_asks), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (p == MAP_FAILED) {
		perror(path);
		_exit(1);
	}
	generated_seen = p;
}
