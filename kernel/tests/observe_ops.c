// SPDX-License-Identifier: GPL-2.0
/*
 * observe_ops FILE [udp]: instructions of calls that get and put one object each, by the time stamp
 * counter of `-icount shift=0`. Run with probes and without them, it says what a probe costs.
 * Prints "call instructions", the medians of 201. With `udp` the only call is a datagram to
 * itself. For observe.sh.
 */
#include "ticks.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/socket.h>

#define ROUNDS 201

static const char *path;
static int file;
static int udp;
static char other[256];

static void op_read(void)
{
	static char to[64];

	if (pread(file, to, sizeof(to), 0) < 0)
		exit(1);
}

static void op_stat(void)
{
	struct stat st;

	if (stat(path, &st))
		exit(1);
}

static void op_unlink(void)
{
	int fd = open(other, O_WRONLY | O_CREAT, 0600);

	if (fd < 0)
		exit(1);
	close(fd);
	if (unlink(other))
		exit(1);
}

static void op_send(void)
{
	char c = 0;

	if (send(udp, &c, 1, 0) != 1 || recv(udp, &c, 1, 0) != 1)
		exit(1);
}

/* A socket that is connected to itself. */
static int udp_open(void)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(8081) };
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (fd < 0 || bind(fd, (struct sockaddr *)&to, sizeof(to)) ||
	    connect(fd, (struct sockaddr *)&to, sizeof(to)))
		exit(1);
	return fd;
}

static void measure(const char *name, void (*op)(void))
{
	static u64 samples[ROUNDS];
	u32 i;

	for (i = 0; i < ROUNDS; i++) {
		u64 began = ticks();

		op();
		samples[i] = ticks() - began;
	}
	printf("%s %llu\n", name, (unsigned long long)ticks_median(samples, ROUNDS));
}

static void *wait_for_ever(void *arg)
{
	pause();
	return arg;
}

int main(int argc, char **argv)
{
	pthread_t thread;
	void *map;

	if (argc > 2) {
		udp = udp_open();
		measure("send", op_send);
		return 0;
	}
	path = argc > 1 ? argv[1] : "/bin/busybox";
	file = open(path, O_RDONLY);
	if (file < 0)
		return 1;
	snprintf(other, sizeof(other), "%s.other", path);
	map = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, file, 0);
	if (map == MAP_FAILED || madvise(map, PAGE, MADV_POPULATE_READ))
		return 1;
	/* With a second thread each call takes a reference of the open file. */
	if (pthread_create(&thread, NULL, wait_for_ever, NULL))
		return 1;
	measure("read", op_read);
	measure("stat", op_stat);
	measure("unlink", op_unlink);
	return 0;
}
