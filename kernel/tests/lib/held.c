// SPDX-License-Identifier: GPL-2.0
#include "held.h"
#include "cpu.h"
#include "data.h"
#include "ktap.h"

#include <linux/userfaultfd.h>
#include <poll.h>
#include <sys/ioctl.h>

#define HELD_WAIT_S 20

static void *held_main(void *arg)
{
	struct holder *r = arg;
	struct held *h = r->held;

	cpu_pin(1 + r->index);
	for (;;) {
		sem_wait(&r->go);
		r->got = pread(h->fd, h->dest + r->index * PAGE, HELD_BYTES, r->offset);
		if (r->got < 0)
			r->got = -errno;
		sem_post(&h->done);
	}
	return NULL;
}

static int held_uffd(struct held *h)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register reg = {
		.range = { (u64)(uintptr_t)h->dest, h->nr * PAGE },
		.mode = UFFDIO_REGISTER_MODE_MISSING,
	};

	h->uffd = syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
	if (h->uffd < 0)
		return -errno;
	if (ioctl(h->uffd, UFFDIO_API, &api) || ioctl(h->uffd, UFFDIO_REGISTER, &reg))
		return -errno;
	return 0;
}

int held_init(struct held *h, u32 nr)
{
	u32 i;
	int err;

	memset(h, 0, sizeof(*h));
	h->nr = nr;
	h->wp_fd = -1;
	h->dest = mmap(NULL, h->nr * PAGE, PROT_READ | PROT_WRITE,
	               MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (h->dest == MAP_FAILED)
		return -ENOMEM;
	err = held_uffd(h);
	if (err)
		return err;
	sem_init(&h->done, 0, 0);
	for (i = 0; i < nr; i++) {
		h->holders[i].held = h;
		h->holders[i].index = i;
		sem_init(&h->holders[i].go, 0, 0);
		if (pthread_create(&h->holders[i].thread, NULL, held_main,
		                   &h->holders[i]))
			return -EAGAIN;
	}
	return 0;
}

/* Waits for the next of the readers' faults. Returns false if none came. */
static bool held_fault(struct held *h)
{
	struct pollfd p = { .fd = h->uffd, .events = POLLIN };
	struct uffd_msg msg;

	if (poll(&p, 1, HELD_WAIT_S * 1000) <= 0)
		return false;
	return read(h->uffd, &msg, sizeof(msg)) == sizeof(msg) &&
	       msg.event == UFFD_EVENT_PAGEFAULT;
}

void held_start(struct held *h, u32 first, u32 nr, u64 offset)
{
	u32 i;

	madvise(h->dest + first * PAGE, nr * PAGE, MADV_DONTNEED);
	for (i = first; i < first + nr; i++) {
		h->holders[i].offset = offset + i * h->stride;
		sem_post(&h->holders[i].go);
	}
}

void held_stopped(struct held *h, u32 nr)
{
	u32 i;

	for (i = 0; i < nr; i++) {
		if (!held_fault(h)) {
			ktap_fail("only %u of %u readers stopped in their copy", i, nr);
			return;
		}
	}
}

void held_take(struct held *h, u32 first, u32 nr, u64 offset)
{
	held_start(h, first, nr, offset);
	held_stopped(h, nr);
}

void held_let_go(struct held *h, u32 first, u32 nr)
{
	u32 i;

	for (i = first; i < first + nr; i++) {
		struct uffdio_zeropage zero = {
			.range = { (u64)(uintptr_t)(h->dest + i * PAGE), PAGE },
		};

		if (ioctl(h->uffd, UFFDIO_ZEROPAGE, &zero) && errno != EEXIST)
			ktap_fail("UFFDIO_ZEROPAGE: %s", strerror(errno));
	}
}

void held_wait(struct held *h, u32 nr)
{
	struct timespec until;
	u32 i;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += HELD_WAIT_S;
	for (i = 0; i < nr; i++) {
		if (sem_timedwait(&h->done, &until)) {
			ktap_fail("%u of %u reads have not ended", nr - i, nr);
			return;
		}
	}
}

void held_check(struct held *h, u32 first, u32 nr, bool zeros_ok)
{
	size_t at = 0, zeros;
	u32 i;

	for (i = first; i < first + nr; i++) {
		struct holder *r = &h->holders[i];

		if (r->got != HELD_BYTES) {
			ktap_fail("reader %u: pread returned %zd", i, r->got);
			continue;
		}
		if (data_check(h->dest + i * PAGE, h->expect + r->offset, HELD_BYTES,
		               zeros_ok, &at, &zeros))
			ktap_fail("reader %u: byte %zu is 0x%02x, not 0x%02x", i, at,
			          h->dest[i * PAGE + at], h->expect[r->offset + at]);
	}
}

void held_release(struct held *h, u32 first, u32 nr, bool zeros_ok)
{
	held_let_go(h, first, nr);
	held_wait(h, nr);
	held_check(h, first, nr, zeros_ok);
}
