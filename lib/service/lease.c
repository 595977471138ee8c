/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The lease thread: why no reader ever believes an old byte.
 *
 * A process opens a file for writing, or truncates it. If the file has a read lease, the
 * kernel makes that process wait and sends the service a signal. The process goes on when
 * the service gives the lease back. This thread does nothing else. So it gives the lease
 * back at once, whatever the main thread is busy with.
 *
 * Order
 * L1 a break: file_proof_end() stores, fences, and calls F_UNLCK last. The writer's open
 *    returns after F_UNLCK, so a reader that begins after it finds the file revoked.
 * L2 an admission: file_proof_begin() calls F_SETLEASE, asks for the size, and admits. This
 *    thread does all three and also answers breaks, so no break can fall in between. The
 *    size shows a writer that came and went before the lease; a later one meets L1.
 * L3 the orderly end: arena_end() marks the service dead and fences; then the leases go.
 * L4 the end by SIGKILL: a task that exits goes through exit_mm before exit_files. In
 *    exit_mm the kernel walks the thread's robust list and marks the futex on it: the low
 *    half of header->alive. The kernel closes the descriptors, and drops the leases, when
 *    the last thread of the process has passed exit_files. That is later than this thread's
 *    exit_mm, in whatever order the threads die. Hence a writer that gets through because
 *    the service was killed comes after the mark. The same holds for exec.
 *    The kernel reads the list, which is plain memory, at that moment. The list lies in a
 *    shared mapping, because the OOM killer's reaper takes private memory away beforehand.
 *    mlock() keeps the list and the marked word in memory, so that no disk has to answer.
 *
 * file_proof.live. This thread writes it for files under a lease, the main thread for files
 * with another proof. One thread at a time writes it for each file: the main thread gets a
 * file's slot back only by lease_drop(), which this thread answers.
 *
 * The main thread closes a descriptor with a lease after lease_drop(). As long as this
 * thread knows the number, it means that file.
 *
 * What is not here: a service that is stopped for longer than lease-break-time. The kernel
 * then lets the writer through, and the service learns of it too late (lodic.h says so).
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lib/service/lease.h"

#define SIGNALS_AT_ONCE 64
/* Any real-time signal will do: the thread that gets it blocks it. */
#define LEASE_SIGNAL (SIGRTMIN + 4)

enum lease_order_kind { LEASE_TAKE, LEASE_DROP, LEASE_STOP };

struct lease_order {
	u32 kind; /* enum lease_order_kind */
	u32 id;
	int fd;
	u32 nr; /* slots */
	u32 slots[LEASE_DROPS];
};

struct lease_answer {
	int error;
	u64 size;
};

struct lease {
	int fd;
	u32 slot;
};

/* What the kernel reads when the thread dies (L4). */
struct death_mark {
	struct robust_list_head head;
	struct robust_list entry;
};

/* The thread's own, but for what stands still while it runs: the ends of the order
 * channel, the eventfd, and the arena's addresses. */
struct lease_thread {
	pthread_t thread;
	int orders[2]; /* [0]: main thread; [1]: lease thread */
	int broken;    /* eventfd; the main thread reads it */
	int signals;
	struct arena_header *header;
	struct file_proof *files;
	struct death_mark *mark;
	/* A bit for each slot that was revoked because of a writer. This thread sets bits, the
	 * main thread takes them. */
	u64 *revoked;
	u32 nr_words;         /* of revoked */
	struct lease *leases; /* held ones, in no order */
	u32 nr_leases;
	u32 *places; /* of each slot's lease in leases, counted from 1; 0: it has none */
	pid_t tid;
};

static void mark_set(struct lease_thread *t)
{
	struct death_mark *mark = t->mark;
	char *word = (char *)&t->header->alive;

	mark->entry.next = &mark->head.list;
	mark->head.list.next = &mark->entry;
	mark->head.list_op_pending = NULL;
	/* From the entry to its futex; a distance between two mappings is fine. */
	mark->head.futex_offset = (long)((intptr_t)word - (intptr_t)&mark->entry);
	syscall(SYS_set_robust_list, &mark->head, sizeof(mark->head));
	/* The kernel marks the word only if this thread's id stands in its low half. It
	 * leaves the upper half alone, which tells two services with one id apart. */
	host_store_release(&t->header->alive,
	                   t->header->generation << 32 | (u32)t->tid);
}

static void mark_clear(struct lease_thread *t)
{
	arena_end(t->header); /* L3 */
	t->mark->head.list.next = &t->mark->head.list;
}

static void lease_forget(struct lease_thread *t, u32 i)
{
	t->places[t->leases[i].slot] = 0;
	t->leases[i] = t->leases[--t->nr_leases];
	if (i < t->nr_leases)
		t->places[t->leases[i].slot] = i + 1;
}

static void lease_unlock(void *ctx)
{
	const struct lease *lease = ctx;

	fcntl(lease->fd, F_SETLEASE, F_UNLCK);
}

/* L1. */
static void lease_revoke(struct lease_thread *t, u32 i)
{
	file_proof_end(&t->files[t->leases[i].slot], lease_unlock, &t->leases[i]);
	lease_forget(t, i);
}

/* Is there a break? F_GETLEASE tells what the lease will be: none, from before the kernel
 * sends the signal. A signal can be late and mean an earlier use of the number. */
static bool lease_is_breaking(const struct lease *lease)
{
	return fcntl(lease->fd, F_GETLEASE) != F_RDLCK;
}

/* The main thread alone can make it try again, and does so once for each event. */
static void lease_note_revoked(struct lease_thread *t, u32 slot)
{
	u64 *word = &t->revoked[slot / 64];
	u64 old;

	do
		old = host_load_relaxed(word);
	while (!host_cas(word, old, old | (u64)1 << slot % 64));
}

static void leases_tell_main(struct lease_thread *t)
{
	const u64 one = 1;

	if (write(t->broken, &one, sizeof(one)) != sizeof(one))
		return; /* full: it has not looked since 2^64 others */
}

/* fd < 0: look at all leases. */
static void leases_check(struct lease_thread *t, int fd)
{
	bool any = false;
	u32 i = 0, slot;

	while (i < t->nr_leases) {
		if ((fd >= 0 && t->leases[i].fd != fd) ||
		    !lease_is_breaking(&t->leases[i])) {
			i++;
			continue;
		}
		slot = t->leases[i].slot;
		lease_revoke(t, i);
		lease_note_revoked(t, slot);
		any = true;
	}
	if (any)
		leases_tell_main(t);
}

static void signals_read(struct lease_thread *t)
{
	struct signalfd_siginfo infos[SIGNALS_AT_ONCE];
	ssize_t n = read(t->signals, infos, sizeof(infos));

	for (ssize_t i = 0; i < n / (ssize_t)sizeof(*infos); i++) {
		/* The queue of real-time signals was full. The kernel sends one plain SIGIO
		 * instead, which names no descriptor. */
		if (infos[i].ssi_signo == SIGIO)
			leases_check(t, -1);
		else
			leases_check(t, infos[i].ssi_fd);
	}
}

static int lease_error(int error)
{
	switch (error) {
	case EACCES:
	case EPERM: return -EACCES;
	case EAGAIN: return -ETXTBSY;
	case ENOMEM: return -ENOMEM;
	default: return -EOPNOTSUPP;
	}
}

/* What file_proof_begin() needs for a lease (L2). */
struct lease_asked {
	struct lease lease;
	pid_t tid; /* the thread that the kernel tells of a break */
};

static int lease_lock(void *ctx)
{
	const struct lease_asked *asked = ctx;
	struct f_owner_ex owner = { .type = F_OWNER_TID, .pid = asked->tid };
	int fd = asked->lease.fd;

	if (fcntl(fd, F_SETOWN_EX, &owner) != 0 ||
	    fcntl(fd, F_SETSIG, LEASE_SIGNAL) != 0 ||
	    fcntl(fd, F_SETLEASE, F_RDLCK) != 0)
		return lease_error(errno);
	return 0;
}

static int lease_size(void *ctx, u64 *ret_size)
{
	const struct lease_asked *asked = ctx;
	struct stat st;

	if (fstat(asked->lease.fd, &st) != 0 || st.st_size == 0)
		return -ENODATA;
	*ret_size = (u64)st.st_size;
	return 0;
}

static void lease_back(void *ctx)
{
	struct lease_asked *asked = ctx;

	lease_unlock(&asked->lease);
}

/* L2. */
static int lease_take_here(struct lease_thread *t, const struct lease_order *order,
                           u64 *ret_size)
{
	static const struct file_proof_ops ops = { lease_lock, lease_size, lease_back };
	u32 slot = order->slots[0];
	struct lease_asked asked = { { order->fd, slot }, t->tid };
	int err = file_proof_begin(&t->files[slot], order->id, &ops, &asked, ret_size);

	if (!err) {
		t->leases[t->nr_leases++] = asked.lease;
		t->places[slot] = t->nr_leases;
	}
	return err;
}

static void lease_drop_here(struct lease_thread *t, u32 slot)
{
	if (t->places[slot] > 0) /* else a writer was faster */
		lease_revoke(t, t->places[slot] - 1);
}

/* false: that was the last one. */
static bool order_carry_out(struct lease_thread *t)
{
	struct lease_answer answer = { 0 };
	struct lease_order order;

	if (recv(t->orders[1], &order, sizeof(order), 0) != sizeof(order))
		return true; /* interrupted */
	if (order.kind == LEASE_TAKE) {
		answer.error = lease_take_here(t, &order, &answer.size);
	} else if (order.kind == LEASE_DROP) {
		for (u32 i = 0; i < order.nr; i++)
			lease_drop_here(t, order.slots[i]);
	} else {
		mark_clear(t);
		while (t->nr_leases > 0)
			lease_revoke(t, t->nr_leases - 1);
	}
	send(t->orders[1], &answer, sizeof(answer), MSG_NOSIGNAL);
	return order.kind != LEASE_STOP;
}

static void *lease_run(void *arg)
{
	struct lease_thread *t = arg;
	struct lease_answer ready = { 0 };
	struct pollfd wait[2] = { { .fd = t->signals, .events = POLLIN },
		                  { .fd = t->orders[1], .events = POLLIN } };
	bool more = true;

	t->tid = (pid_t)syscall(SYS_gettid);
	mark_set(t);
	send(t->orders[1], &ready, sizeof(ready), MSG_NOSIGNAL);
	while (more) {
		if (poll(wait, 2, -1) <= 0)
			continue;
		if (wait[0].revents)
			signals_read(t); /* first: a writer waits */
		if (wait[1].revents)
			more = order_carry_out(t);
	}
	return NULL;
}

static void lease_receive(struct lease_thread *t, struct lease_answer *ret)
{
	ssize_t n;

	do
		n = recv(t->orders[0], ret, sizeof(*ret), 0);
	while (n < 0 && errno == EINTR);
	CHECK(n == sizeof(*ret), "the lease thread answers");
}

static int lease_order(struct lease_thread *t, const struct lease_order *order,
                       u64 *ret_size)
{
	struct lease_answer answer;

	CHECK(send(t->orders[0], order, sizeof(*order), MSG_NOSIGNAL) == sizeof(*order),
	      "the lease thread listens");
	lease_receive(t, &answer);
	if (!answer.error && ret_size)
		*ret_size = answer.size;
	return answer.error;
}

int lease_take(struct service *s, int fd, u32 slot, u32 id, u64 *ret_size)
{
	const struct lease_order order = { LEASE_TAKE, id, fd, 1, { slot } };

	return lease_order(s->lease, &order, ret_size);
}

void lease_drop(struct service *s, const u32 *slots, u32 nr)
{
	struct lease_order order = { .kind = LEASE_DROP, .fd = -1, .nr = nr };

	CHECK(nr <= LEASE_DROPS, "an order has room");
	memcpy(order.slots, slots, nr * sizeof(*slots));
	if (s->lease) /* else lease_stop() has dropped them all */
		lease_order(s->lease, &order, NULL);
}

void lease_each_broken(struct service *s, void (*each)(struct service *s, u32 slot))
{
	struct lease_thread *t = s->lease;

	for (u32 i = 0; i < t->nr_words; i++) {
		u64 bits = host_load_relaxed(&t->revoked[i]);

		if (bits)
			bits = host_xchg(&t->revoked[i], 0);
		for (; bits; bits &= bits - 1)
			each(s, i * 64 + (u32)__builtin_ctzll(bits));
	}
}

int lease_broken_event(const struct service *s)
{
	return s->lease->broken;
}

static void lease_free(struct lease_thread *t)
{
	service_close(&t->orders[0]);
	service_close(&t->orders[1]);
	service_close(&t->broken);
	service_close(&t->signals);
	if (t->mark)
		munmap(t->mark, sizeof(*t->mark));
	free(t->leases);
	free(t->places);
	free(t->revoked);
	free(t);
}

static int lease_make(struct lease_thread *t, u32 nr_files)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, LEASE_SIGNAL);
	sigaddset(&set, SIGIO);
	t->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	t->broken = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	t->leases = calloc(nr_files, sizeof(*t->leases));
	t->places = calloc(nr_files, sizeof(*t->places));
	t->nr_words = (nr_files + 63) / 64;
	t->revoked = calloc(t->nr_words, sizeof(*t->revoked));
	t->mark = mmap(NULL, sizeof(*t->mark), PROT_READ | PROT_WRITE,
	               MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (t->mark == MAP_FAILED)
		t->mark = NULL;
	if (t->signals < 0 || t->broken < 0 || !t->leases || !t->places ||
	    !t->revoked || !t->mark)
		return -ENOMEM;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, t->orders) != 0)
		return -errno;
	/* L4; without the right to it, the pages are merely likely to be there. */
	mlock(t->mark, sizeof(*t->mark));
	mlock(t->header, sizeof(*t->header));
	return 0;
}

/* Creates the thread with all signals blocked: it reads them from a descriptor. */
static int lease_spawn(struct lease_thread *t)
{
	sigset_t all, old;
	int err;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	err = pthread_create(&t->thread, NULL, lease_run, t);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return -err;
}

int lease_start(struct service *s)
{
	struct lease_thread *t = calloc(1, sizeof(*t));
	struct lease_answer ready;
	int err;

	if (!t)
		return -ENOMEM;
	t->orders[0] = t->orders[1] = t->broken = t->signals = -1;
	t->header = s->arena.header;
	t->files = s->arena.files;
	err = lease_make(t, s->shape.nr_files);
	if (!err)
		err = lease_spawn(t);
	if (err) {
		lease_free(t);
		return err;
	}
	lease_receive(t, &ready);
	s->lease = t;
	return 0;
}

void lease_stop(struct service *s)
{
	const struct lease_order order = { .kind = LEASE_STOP, .fd = -1 };

	if (!s->lease)
		return;
	lease_order(s->lease, &order, NULL);
	pthread_join(s->lease->thread, NULL);
	lease_free(s->lease);
	s->lease = NULL;
}
