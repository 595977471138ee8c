/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Readers that stop in the middle of a read. Their destination is memory whose faults this
 * program answers itself (userfaultfd). So each reader holds its reference on the page that it
 * reads until the program lets it go. Races make it likely that an entry changes while
 * references are held; this makes it certain.
 */
#ifndef LODIC_TESTS_HELD_H
#define LODIC_TESTS_HELD_H

#include "base.h"

#include <pthread.h>
#include <semaphore.h>

#define HOLDERS 4
#define HOLDERS_MOST 40
#define HELD_BYTES 64 /* of each read */

struct held;

struct holder {
	struct held *held;
	u32 index;
	pthread_t thread;
	sem_t go;
	u64 offset;
	ssize_t got;
};

struct held {
	const char *path;
	int fd;     /* for reading and writing */
	int uffd;   /* answers faults of dest */
	int wp_fd;  /* protects the mapping from writes; -1 for none */
	u32 nr;     /* holders */
	u64 stride; /* from one holder's offset to the next one's */
	u8 *dest;   /* a page for each holder */
	const u8 *expect;
	char *map; /* of the file, in this process */
	size_t map_bytes;
	bool all_held;      /* an act ends before the readers go on */
	const char *cannot; /* why the case cannot run here */
	sem_t done;
	struct holder holders[HOLDERS_MOST];
};

/* Starts nr threads. Returns 0, or -errno if this kernel has no userfaultfd. */
int held_init(struct held *h, u32 nr);

/*
 * Makes holders first .. first + nr - 1 read. The first of all holders reads at offset, the
 * others at their strides from there.
 */
void held_start(struct held *h, u32 first, u32 nr, u64 offset);

/* Waits until nr more of them hold a reference. */
void held_stopped(struct held *h, u32 nr);

/* Makes them read, and waits until each holds. */
void held_take(struct held *h, u32 first, u32 nr, u64 offset);

/* Answers their faults. Their reads may still go on when this returns. */
void held_let_go(struct held *h, u32 first, u32 nr);

/* Waits for nr reads to end. */
void held_wait(struct held *h, u32 nr);

/* Fails the subtest if they read wrong bytes. With zeros_ok zeros are not wrong. */
void held_check(struct held *h, u32 first, u32 nr, bool zeros_ok);

/* Lets them go, waits for them and checks what they read. */
void held_release(struct held *h, u32 first, u32 nr, bool zeros_ok);

#endif
