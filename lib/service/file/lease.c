/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Leases, and watches beside them: why no reader believes an old byte.
 *
 * A process opens a file for writing, or truncates it. If the file has a lease (port/lease.h), the
 * kernel makes that process wait and sends the lease thread a signal. The process goes on when
 * the service gives the lease back. The lease thread does nothing else. So it gives the lease
 * back at once, whatever the main thread is busy with.
 *
 * The main thread takes leases and drops them by itself, under the lock of struct
 * lease_thread. The lease thread answers a break under the same lock. An order to the lease
 * thread would cost two changes of thread for each open.
 *
 * Order
 * L1 a break: file_proof_end() stores, fences, and gives the lease back last. The writer's
 *    open returns after that, so a reader that begins after it finds the file revoked.
 * L2 an admission: file_proof_begin() takes the lease, asks for the size, admits, and enters
 *    the lease in the table. All four are under the lock, so no answer to a break can fall in
 *    between (S5). The size shows a writer that came and went before the lease; a later one
 *    meets L1.
 * L3 the orderly end: arena_end() marks the service dead and fences; then the leases go. mark.h
 *    says what happens at any other end (L4).
 * L5 the second ear: some change a file and break no lease (doc/proofs.md). A watch hears of them
 *    when they are done, and then L1 is what happens. The order is watch, lease, size. A change
 *    that is over before there is a watch shows in the size and in the bytes. All others are
 *    heard. The lease thread looks for the watch in the table, under the lock. If it is not
 *    there yet, that change was over before the size was asked for.
 * L6 the kernel drops what does not fit in its queue, and says so once. The lease thread then
 *    revokes all files. One that is entered later was asked for its size after the change.
 *
 * What a watch hears is not always a writer. In a group's arena each file is watched, whatever its
 * proof is: one that members may no longer open must not be served on. So a change of its mode,
 * owner or path revokes it, and admit.c looks at these again when the watch is there. In a user's
 * arena they change nothing, and only leased files are watched. The main thread hears of it, as
 * the last name may have gone. A file that is not local has no watch: the call could wait for it.
 *
 * No break is missed. The kernel sends its signal after the lease was taken. The lease thread takes
 * a signal off the queue first and the lock then. At that moment the lease stands in the table, or
 * it has been given back and no writer waits. These cases look dangerous:
 * - The break comes before the entry. The lease thread waits for the lock, and finds the entry.
 * - The number is another file's by now. While a number is in the table, it means that file:
 *   the main thread closes a descriptor with a lease after lease_drop(). So the lease thread asks
 *   the right file, and the kernel tells whether it is breaking (lease_is_breaking()).
 * - The kernel's queue was full, and the signal names no descriptor. The lease thread then looks at
 *   all leases that are in the table. One that comes later sends a signal of its own.
 * - The service ends. The lease thread gives all leases back, whether they are breaking or not.
 *
 * The lock. Nothing under it waits for a client, or for a file system that asks others:
 * proof.c lets only local ones have leases. The main thread holds it for two system calls, or
 * for two in a drop. Drops of many files take it for each file anew. The lease thread holds it
 * for one break, or for LOOKS_AT_ONCE looks. To find a break's lease it reads 16 bytes of each.
 * - A main thread that the kernel preempts under the lock delays the answer until it runs
 *   again. That is no longer than the kernel may delay the lease thread itself, for the two
 *   have the same priority. The kernel gives a writer's lease up after 45 s, not before.
 * - The lock does not inherit priorities. Linux passes on real-time ones alone, and both
 *   threads have an ordinary one.
 * - Neither thread can starve the other. Each break ends a lease, and the main thread alone
 *   makes new ones. The main thread drops a bounded number in a turn.
 *
 * file_proof.live. For files in the table either thread writes it, under the lock. For all others
 * the main thread alone does. A slot changes its kind when it has left the table.
 *
 * What is not here: a service that is stopped for longer than lease-break-time (lodic.h).
 */
#include <errno.h>

#include "lib/port/lease.h"
#include "lib/port/set.h"
#include "lib/port/thread.h"
#include "lib/service/base/slot_set.h"
#include "lib/service/file/lease.h"
#include "lib/service/file/mark.h"
#include "lib/service/file/watch.h"
#include "lib/service/file/state.h"
#include "lib/service/base/base.h"

/* Each is a system call. The lock is free between two pieces of so many. */
#define LOOKS_AT_ONCE 256u
/* What the lease thread listens to: breaks, stop, watches. */
#define NR_EARS 3u

struct lease {
	int fd, watch;
	u32 slot;
	bool granted; /* false: the file has another proof, and only its watch counts */
};

struct lease_thread {
	struct port_thread thread;
	int broken, stop; /* events; the main thread takes one, and tells one */
	int breaks;
	/* The watches' instance, and the set that the lease thread waits for: all that it listens
	 * to. The main thread makes the first when the kernel lets it, and puts it into the other.
	 * -1: there is none yet. */
	int watches, ears;
	bool for_group;
	struct arena_header *header;
	struct file_proof *files;
	struct port_mark *mark; /* the thread's own */
	int tid;                /* the thread's; stands still once it has started */
	/* Slots that the lease thread has revoked, and those whose file's attributes have changed.
	 * The main thread takes them. */
	struct slot_set revoked, touched;
	/* Guards what follows, and the proofs of files that are in the table. */
	struct port_lock lock;
	struct port_condition started;
	bool has_started;
	int error;      /* why it ended at once; stands still then */
	u64 nr_removed; /* watches, with their leases; WATCH_GONE comes for each */
	u8 *whys;       /* enum lease_end of each slot's last revoked file */
	struct lease *leases; /* held ones, in no order */
	u32 nr_leases;
	u32 *places; /* of each slot's lease in leases, counted from 1; 0: it has none */
};

static void lease_enter(struct lease_thread *t, struct lease lease)
{
	t->leases[t->nr_leases++] = lease;
	t->places[lease.slot] = t->nr_leases;
}

/* The last lease takes its place. */
static void lease_forget(struct lease_thread *t, u32 i)
{
	t->nr_removed += port_watch_remove(t->watches, t->leases[i].watch);
	t->places[t->leases[i].slot] = 0;
	t->leases[i] = t->leases[--t->nr_leases];
	if (i < t->nr_leases)
		t->places[t->leases[i].slot] = i + 1;
}

static void lease_unlock(void *ctx)
{
	const struct lease *lease = ctx;

	if (lease->granted)
		port_lease_give(lease->fd);
}

/* L1. */
static void lease_revoke(struct lease_thread *t, u32 i)
{
	file_proof_end(&t->files[t->leases[i].slot], lease_unlock, &t->leases[i]);
	lease_forget(t, i);
}

/* Is there a break? A signal can be late and mean an earlier use of the number. */
static bool lease_is_breaking(const struct lease *lease)
{
	return lease->granted && !port_lease_holds(lease->fd);
}

static void leases_tell_main(const struct lease_thread *t)
{
	port_event_tell(t->broken);
}

/* The lock is held. */
static void lease_stop_vouching(struct lease_thread *t, u32 i, enum lease_end why)
{
	u32 slot = t->leases[i].slot;

	t->whys[slot] = (u8)why;
	lease_revoke(t, i);
	slot_set_add(&t->revoked, slot);
}

/* true: a writer waits for the lease, and goes on now. The lock is held. */
static bool lease_answer(struct lease_thread *t, u32 i)
{
	if (!lease_is_breaking(&t->leases[i]))
		return false;
	lease_stop_vouching(t, i, LEASE_WRITTEN);
	return true;
}

/* The signal names a descriptor. */
static void lease_check(struct lease_thread *t, int fd)
{
	bool any = false;
	u32 i = 0;

	port_lock_take(&t->lock);
	while (i < t->nr_leases && t->leases[i].fd != fd)
		i++;
	if (i < t->nr_leases)
		any = lease_answer(t, i);
	port_lock_give(&t->lock);
	if (any)
		leases_tell_main(t);
}

static bool lease_lose(struct lease_thread *t, u32 i)
{
	lease_stop_vouching(t, i, LEASE_LOST);
	return true;
}

/* Looks at all leases, from the last to the first, and lets the main thread in now and then.
 * Leases from i on have been looked at, or have come since. When one before i goes, the last one
 * takes its place, which is one of these; or all of these have gone. So none is passed over. */
static void leases_check_all(struct lease_thread *t,
                             bool (*check)(struct lease_thread *t, u32 i))
{
	bool any = false;
	u32 i = UINT32_MAX;

	while (i > 0) {
		port_lock_take(&t->lock);
		if (i > t->nr_leases)
			i = t->nr_leases;
		for (u32 looks = LOOKS_AT_ONCE; i > 0 && looks > 0; looks--)
			any |= check(t, --i);
		port_lock_give(&t->lock);
	}
	if (any)
		leases_tell_main(t);
}

static void breaks_read(struct lease_thread *t)
{
	int fds[PORT_BREAKS_AT_ONCE];
	unsigned int nr = port_breaks_next(t->breaks, fds);

	for (unsigned int i = 0; i < nr; i++) {
		if (fds[i] == PORT_BREAK_ANY)
			leases_check_all(t, lease_answer);
		else
			lease_check(t, fds[i]);
	}
}

/* L5, L6. */
static void lease_heard(void *ctx, int watch, enum watch_heard heard)
{
	struct lease_thread *t = ctx;
	u32 i = 0;

	if (heard == WATCH_LOST) {
		port_lock_take(&t->lock);
		t->nr_removed = 0; /* what told of them may be lost as well */
		port_lock_give(&t->lock);
		leases_check_all(t, lease_lose);
		return;
	}
	port_lock_take(&t->lock);
	if (heard == WATCH_GONE && t->nr_removed > 0) {
		t->nr_removed--; /* no search: each file that goes comes by here */
		i = t->nr_leases;
	}
	while (i < t->nr_leases && t->leases[i].watch != watch)
		i++;
	if (i < t->nr_leases) { /* else it has been removed */
		if (heard != WATCH_RIGHTS || t->for_group)
			lease_stop_vouching(t, i,
			                    heard == WATCH_RIGHTS ? LEASE_RIGHTS
			                                          : LEASE_WRITTEN);
		else
			slot_set_add(&t->touched, t->leases[i].slot);
		leases_tell_main(t);
	}
	port_lock_give(&t->lock);
}

static void watches_read(struct lease_thread *t)
{
	int watches;

	port_lock_take(&t->lock);
	watches = t->watches;
	port_lock_give(&t->lock);
	watch_read(watches, lease_heard, t);
}

static int lease_error(int error)
{
	switch (error) {
	case 0: return 0;
	case -EACCES:
	case -EPERM: return -EACCES;
	case -EAGAIN: return -ETXTBSY;
	case -ENOMEM: return -ENOMEM;
	default: return -EOPNOTSUPP;
	}
}

/* of: the place in *t that has fd, or will have it. */
static int lease_lend_ear(struct lease_thread *t, int fd, int *of)
{
	return port_set_add(t->ears, fd, PORT_INPUT, of);
}

/* The kernel may refuse an instance now, and have one later. */
static int lease_open_watches(struct lease_thread *t)
{
	int watches = port_watches();

	if (watches < 0)
		return watches == -ENOMEM ? -ENOMEM : -ENOLCK;
	if (lease_lend_ear(t, watches, &t->watches) != 0) {
		port_close(watches);
		return -ENOLCK;
	}
	port_lock_take(&t->lock);
	t->watches = watches;
	port_lock_give(&t->lock);
	return 0;
}

static int lease_listen(struct lease_thread *t, struct lease *lease)
{
	int err = t->watches < 0 ? lease_open_watches(t) : 0;

	return err ? err
	           : watch_add(t->watches, lease->fd, t->for_group, &lease->watch);
}

/* What file_proof_begin() needs for a lease (L2). */
struct lease_asked {
	struct lease_thread *t;
	struct lease lease;
};

static void lease_lock(void *ctx)
{
	struct lease_asked *asked = ctx;

	port_lock_take(&asked->t->lock);
}

static int lease_grant(void *ctx)
{
	const struct lease_asked *asked = ctx;

	return lease_error(port_lease_take(asked->lease.fd));
}

static int lease_size(void *ctx, u64 *ret_size)
{
	const struct lease_asked *asked = ctx;
	struct port_file file;

	if (port_look_local(asked->lease.fd, &file) != 0 || file.bytes == 0)
		return -ENODATA;
	*ret_size = file.bytes;
	return 0;
}

static void lease_granted(void *ctx)
{
	struct lease_asked *asked = ctx;

	lease_enter(asked->t, asked->lease);
}

static void lease_back(void *ctx)
{
	struct lease_asked *asked = ctx;

	lease_unlock(&asked->lease);
}

static void lease_let_in(void *ctx)
{
	struct lease_asked *asked = ctx;

	port_lock_give(&asked->t->lock);
}

/* L2, L5. */
int lease_take(struct files *s, int fd, u32 slot, u32 id, u64 *ret_size)
{
	static const struct file_proof_ops ops = { lease_lock, lease_grant,
		                                   lease_size, lease_granted,
		                                   lease_back, lease_let_in };
	struct lease_thread *t = s->lease;
	struct lease_asked asked = { t, { .fd = fd, .slot = slot, .granted = true } };
	int err = lease_error(port_lease_aim(fd, t->tid));

	if (err)
		return err;
	err = lease_listen(t, &asked.lease);
	if (err)
		return err;
	err = file_proof_begin(&t->files[slot], id, &ops, &asked, ret_size);
	if (err)
		port_watch_remove(t->watches, asked.lease.watch);
	return err;
}

int lease_watch(struct files *s, int fd, u32 slot, u32 id, u64 size)
{
	struct lease_thread *t = s->lease;
	struct lease lease = { .fd = fd, .slot = slot };
	int err = lease_listen(t, &lease);

	if (err)
		return err;
	port_lock_take(&t->lock);
	file_proof_admit(&t->files[slot], id, size);
	lease_enter(t, lease);
	port_lock_give(&t->lock);
	return 0;
}

void lease_drop(struct files *s, u32 slot)
{
	struct lease_thread *t = s->lease;

	if (!t)
		return; /* lease_stop() has dropped them all */
	port_lock_take(&t->lock);
	if (t->places[slot] > 0) /* else a writer was faster */
		lease_revoke(t, t->places[slot] - 1);
	port_lock_give(&t->lock);
}

/* The main thread waits for the end of it. */
static void leases_end(struct lease_thread *t)
{
	port_lock_take(&t->lock);
	mark_clear(t->mark, t->header); /* L3 */
	while (t->nr_leases > 0)
		lease_revoke(t, t->nr_leases - 1);
	port_lock_give(&t->lock);
}

static int lease_begin(struct lease_thread *t)
{
	int err;

	t->tid = port_thread_number();
	err = mark_set(t->mark, t->header, t->tid);
	port_lock_take(&t->lock);
	t->error = err;
	t->has_started = true;
	port_condition_tell(&t->started);
	port_lock_give(&t->lock);
	return err;
}

static void lease_run(void *arg)
{
	struct lease_thread *t = arg;
	void *heard[NR_EARS];
	bool stop = false;

	if (lease_begin(t) != 0)
		return;
	/* port_wait() would fail each time if somebody lowered the limit of descriptors to 0. */
	while (!stop) {
		int nr = port_set_wait(t->ears, heard, NR_EARS, -1);

		for (int i = 0; i < nr; i++) {
			stop |= heard[i] == &t->stop;
			if (heard[i] == &t->breaks)
				breaks_read(t);
			else if (heard[i] == &t->watches)
				watches_read(t);
		}
	}
	leases_end(t);
}

u32 lease_each_broken(struct files *s, u32 most, void (*each)(void *ctx, u32 slot))
{
	return slot_set_take(&s->lease->revoked, s, most, each);
}

void lease_broken_again(const struct files *s)
{
	leases_tell_main(s->lease);
}

u32 lease_each_touched(struct files *s, u32 most, void (*each)(void *ctx, u32 slot))
{
	return slot_set_take(&s->lease->touched, s, most, each);
}

enum lease_end lease_why(const struct files *s, u32 slot)
{
	enum lease_end why;

	port_lock_take(&s->lease->lock);
	why = (enum lease_end)s->lease->whys[slot];
	port_lock_give(&s->lease->lock);
	return why;
}

int lease_broken_event(const struct files *s)
{
	return s->lease->broken;
}

static void lease_free(struct lease_thread *t)
{
	service_close(&t->broken);
	service_close(&t->stop);
	service_close(&t->breaks);
	service_close(&t->ears);
	service_close(&t->watches);
	port_condition_end(&t->started);
	port_lock_end(&t->lock);
	mark_free(t->mark);
	port_free(t->leases);
	port_free(t->places);
	slot_set_free(&t->revoked);
	slot_set_free(&t->touched);
	port_free(t->whys);
	port_free(t);
}

static int lease_make(struct lease_thread *t, u32 nr_files)
{
	t->breaks = port_breaks();
	t->broken = port_event();
	t->stop = port_event();
	t->ears = port_set();
	t->leases = port_alloc(nr_files * sizeof(*t->leases));
	t->places = port_alloc(nr_files * sizeof(*t->places));
	t->whys = port_alloc(nr_files * sizeof(*t->whys));
	t->mark = mark_make(t->header);
	/* The ears take neither breaks nor stop if there is no such descriptor. */
	if (t->broken < 0 || t->ears < 0 || !t->leases || !t->places || !t->whys ||
	    slot_set_make(&t->revoked, nr_files) ||
	    slot_set_make(&t->touched, nr_files) || !t->mark ||
	    lease_lend_ear(t, t->breaks, &t->breaks) != 0 ||
	    lease_lend_ear(t, t->stop, &t->stop) != 0)
		return -ENOMEM;
	return 0;
}

/* Returns when the thread listens, and is known by its number; or when it has ended. */
static int lease_spawn(struct lease_thread *t, const char **ret_why)
{
	int err = port_thread_start(&t->thread, lease_run, t);

	if (err)
		return err;
	port_lock_take(&t->lock);
	while (!t->has_started)
		port_condition_wait(&t->started, &t->lock);
	port_lock_give(&t->lock);
	if (t->error) {
		port_thread_join(&t->thread);
		*ret_why = "the kernel would not tell programs of the service's death: "
			   "it refuses set_robust_list(2)";
	}
	return t->error;
}

int lease_start(struct files *s, const char **ret_why)
{
	struct lease_thread *t = port_alloc(sizeof(*t));
	int err;

	if (!t)
		return -ENOMEM;
	t->broken = t->stop = t->breaks = t->watches = t->ears = -1;
	t->for_group = s->sharing->for_group;
	port_condition_init(&t->started);
	port_lock_init(&t->lock);
	t->header = s->arena->header;
	t->files = s->arena->files;
	err = lease_make(t, s->shape->nr_files);
	if (!err) {
		lease_open_watches(t); /* else lease_listen() tries it again */
		err = lease_spawn(t, ret_why);
	}
	if (err) {
		lease_free(t);
		return err;
	}
	s->lease = t;
	return 0;
}

void lease_stop(struct files *s)
{
	if (!s->lease)
		return;
	CHECK(port_event_tell(s->lease->stop),
	      "an event that nobody has told takes one");
	port_thread_join(&s->lease->thread);
	lease_free(s->lease);
	s->lease = NULL;
}
