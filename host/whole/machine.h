/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The simulated machine: processes and threads behind lib/port.h, in virtual time.
 *
 * lib/ runs here unchanged. Each thread of a simulated process is a fiber (a task). One task runs
 * at a time. It may lose its turn at each call of the door and at each access of host.h, as the
 * seed says. Time passes at calls of the door only. One seed gives one run.
 *
 * The product is a shared object of its own (liblodic-whole.so). Two processes that run the same
 * text differ by its static variables. image.c keeps a copy of them for each process, and puts it
 * in place when a task of that process gets its turn.
 *
 * A call of the door, in each file here:
 *
 *    int err = machine_call(CALL_CONNECT);   time passes, others run, a fault is drawn
 *    if (err)
 *            return err;
 *    ...                                     what the kernel would do, in one step
 *    return machine_result(fd);              the trace has it
 */
#ifndef LODIC_HOST_WHOLE_MACHINE_H
#define LODIC_HOST_WHOLE_MACHINE_H

#include <errno.h>
#include <whole_calls.h>

#include "host/fiber/fiber.h"
#include "host/host.h"
#include "host/whole/messages.h"

#define NS_NEVER UINT64_MAX
#define NS_PER_US ((u64)1000)
/* A call takes so long at most, if nothing delays it. */
#define CALL_NS 4000u
#define MACHINE_MOST_PROCESSES 128u
#define MACHINE_MOST_TASKS 512u
#define MACHINE_MOST_FDS 256u
#define MACHINE_MOST_WORDS 8u
#define MACHINE_MOST_BREAKS 4u
#define MACHINE_GUEST_WORDS 16u

struct description;
struct mapping;
struct fd_process;
struct group;
struct heap_block;
struct inode;
struct member;
struct process;
struct task;

/* Tasks that wait for one thing. */
struct waiters {
	struct task *first;
};

/* The product's shared objects: service and clients; the shim, which only some programs have. */
enum image_of { IMAGE_PRODUCT, IMAGE_GUEST, NR_IMAGES };

enum task_state { TASK_READY, TASK_WAITS, TASK_OVER };

struct task {
	struct fiber *fiber;
	struct process *process;
	struct task *next; /* of its process */
	char name[24];
	u32 number;
	u8 state; /* enum task_state */
	bool timed_out;
	struct description *held; /* a call of its waits for it */
	bool joined; /* somebody waits for its end, or will */
	bool no_cancel;
	bool cancelled; /* somebody wants its end (task_cancel()) */
	struct cleanup *cleanups; /* what then runs, the last one first (thread.c) */
	void (*run)(void *arg);
	void *arg;
	/* TASK_WAITS. */
	u64 until_ns;
	struct waiters *on;
	struct task *next_on;
	struct waiters over; /* who joins it */
	enum call call; /* until machine_result() */
	u32 sends; /* the kind of message that it is about to send */
	enum call tried; /* it has failed so often in a row, and nothing else was called */
	u32 nr_tries;
	u32 reads_by; /* the descriptor that a call under way reads by, counted from 1 */
	/* Rules of the scenario's; NULL: any. The second one says what it may close; unread: what
	 * lies in a socket that it closes. */
	bool (*may_call)(enum call call);
	bool (*may_close)(const struct description *d, bool unread);
	bool waits_for_no_lock; /* it may take one that is free */
	u32 cpu;
	u32 preempt_off;
	void *mark; /* port_mark_set() */
	struct inode *writing; /* it waits for leases of that */
	/* Signals of leases that break. The queue is small, so that it is soon full. */
	int breaks[MACHINE_MOST_BREAKS];
	u32 nr_breaks;
	bool break_any;
	void *words[MACHINE_MOST_WORDS]; /* port_word_set() */
	u64 guest_words[MACHINE_GUEST_WORDS]; /* the shim's words of the thread (guest.c) */
	u64 nr_reads; /* that the kernel has done for a program with the shim */
};

/* What comes to pass at a time, by nobody's call: a delay ends, a lease is broken by force. */
struct event {
	u64 at_ns;
	void (*happens)(void *of);
	void *of;
	struct event *next; /* in the order of time */
	bool pending;
};

struct process {
	u32 number; /* counted from 1, and its pid */
	u32 uid, real_uid; /* the effective user, which files know, and the real one */
	u32 gid;           /* one, as if it was in all lists of groups that it has */
	u32 pid_space;     /* processes of another one have no number here: 0 */
	char name[24];
	struct task *tasks;
	u32 nr_tasks; /* that are not over */
	bool stopped; /* SIGSTOP */
	bool frozen;  /* its group is (group.h) */
	struct group *group; /* NULL: the machine's own, without limits */
	bool dead;
	bool mortal; /* faults may stop it, or kill it */
	struct event *resume; /* a fault has stopped it until then; NULL: none has */
	bool closed;    /* and all its descriptors are */
	u32 close_order; /* enum close_order, once it is dead */
	struct event closes;
	u8 *images[NR_IMAGES]; /* NULL: it does not have that */
	struct description *fds[MACHINE_MOST_FDS];
	bool received[MACHINE_MOST_FDS]; /* in a message */
	u32 fd_limit;
	u32 nr_before_zero; /* so many more descriptors come before number 0 is free */
	u32 call_ns; /* each call of its takes so long at most; 0: as of others */
	struct heap_block *heap; /* what it has allocated (heap.c) */
	struct heap_block *freed; /* what it has freed: nobody may write to it */
	u64 heap_bytes, freed_bytes;
	u64 bytes_read;  /* of files */
	u32 nr_accepted; /* connections */
	u32 nr_memory_files; /* that it has made */
	struct mapping *mappings;
	void (*word_ends[MACHINE_MOST_WORDS])(void *value);
	u32 nr_words;
	struct waiters once; /* tasks that wait until a port_once() is done */
	u32 signals; /* enum process_signal that wait, a bit each */
	struct description *signals_fd;
	const char *const *environment;
	int status;
	struct waiters ended; /* who waits for its death */
	struct description *breaks; /* port_breaks() */
	bool break_any; /* a signal waits for whichever thread asks first */
	struct fd_process *watched; /* by descriptors (fd_process.c) */
};

enum fault {
	FAULT_ERRNO, /* a call fails, as its comment allows */
	FAULT_SHORT, /* fewer bytes */
	FAULT_DELAY, /* from nothing to minutes */
	FAULT_DEATH, /* of any process, between any two calls */
	FAULT_STOP,  /* SIGSTOP, and SIGCONT later */
	FAULT_HANG,  /* a file system does not answer for a while: calls with PORT_HANGS */
	NR_FAULTS
};
extern const char *const fault_names[NR_FAULTS];

struct machine {
	u64 seed, random;
	u64 now_ns;
	struct fiber *main;
	struct task *running;
	struct task tasks[MACHINE_MOST_TASKS];
	u32 nr_tasks;
	struct process processes[MACHINE_MOST_PROCESSES];
	u32 nr_processes;
	struct event *events;
	bool in_event; /* what happens now is not by the running task */
	u32 nr_descriptions; /* that somebody has */
	u32 nr_described;    /* that there have been */
	u64 steps; /* accesses and calls so far */
	u64 most_steps;
	u32 turn;      /* accesses left until others may run */
	u32 turn_most; /* drawn for a run */
	u32 nr_cpus;
	u32 rate[NR_FAULTS]; /* one in so many draws; 0: never */
	bool barred[NR_FAULTS]; /* never, whatever the scenario says */
	bool deaths_at_send; /* death comes to nobody but when a message is about to be sent */
	u64 longest_ns; /* a call is delayed for so long at most; 0: for minutes */
	u32 fault_call;  /* enum call: the one that fails; NR_CALLS: each may */
	u32 fault_which; /* of its errnos; CALL_MOST_ERRNOS: any of them */
	u32 fault_also;  /* another one that fails, by any errno; NR_CALLS: none */
	bool faults_end;     /* from now on nothing fails: what remains must get well */
	/* What this machine does not have: leases, reads under way. */
	bool no_leases, no_reads;
	u32 read_ms; /* a worker's read takes so long at most, until faults end; 0: no time */
	u32 most_watches; /* of an instance; 0: any number */
	u32 most_looks; /* of a process, at files of one silent server; 0: any number */
	u64 nr_called[NR_CALLS];
	u64 nr_failed[NR_CALLS]; /* by FAULT_ERRNO */
	u64 nr_failed_by[NR_CALLS][CALL_MOST_ERRNOS];
	u64 nr_faults[NR_FAULTS]; /* that have come true */
	u64 nr_messages[MESSAGE_MOST_KINDS][NR_MESSAGE_FATES];
	u64 hash; /* of all that has happened */
	bool failed;
	char what[200];
	bool tracing;
};

extern struct machine machine;

/* ---- a run ---- */

/* A new machine. Everything that a run before has left is forgotten. */
void machine_begin(u64 seed);
/* Runs until each task waits for ever or is over, or something has failed. */
void machine_run(void);
/* A rule is broken: the run ends here. */
_Noreturn void machine_fail(const char *format, ...)
	__attribute__((format(printf, 1, 2)));
/* From now on one error of one call is the only one that is drawn. Of all errors each has its turn,
 * at each second seed. guest: of the calls that only the shim makes. */
void machine_one_error(bool guest);
/* A number below n, from the seed. */
u32 machine_draw(u32 n);
/* Is it so, once in so many times as the run has drawn for that fault? */
bool machine_draws(enum fault fault);

/* ---- turns ---- */

/* Before each access of shared memory. */
void machine_step(void);
/* A step, of which a run has so many at most. */
void machine_count(void);
/* Others may run now. */
void machine_yield(void);
/* A call of the door begins: time passes, others run, somebody may die. Returns 0, or an errno of
 * the call's list that a fault has drawn. */
int machine_call(enum call call);
/* Does the call fail now? For one that has no errnos. */
bool machine_fails(enum call call);
/* For what ends by itself: an errno that a fault has drawn, or 0. */
int machine_fault(enum call call);
/* From a microsecond to minutes, each magnitude as often. */
u64 machine_long(void);
/* The same, but as long as the run allows a delay. */
u64 machine_delay(void);
/* The same for a call that cannot fail. */
void machine_pass(enum call call);
/* The result of the call, for the trace. */
long machine_result(long result);
/* Has it to do with the trace? printf(3)'s arguments, without addresses. */
void machine_note(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The running task waits until somebody wakes it, or until then. false: it is that late. */
bool task_wait(struct waiters *on, u64 until_ns);
void waiters_wake_one(struct waiters *on);
void waiters_wake(struct waiters *on);

/* ---- events ---- */

void event_at(struct event *event, u64 at_ns, void (*happens)(void *of), void *of);
void event_drop(struct event *event);

/* ---- processes ---- */

/* A process whose first task runs run(arg), and then ends it. */
struct process *process_start(const char *name, u32 uid, void (*run)(void *arg),
                              void *arg);
/* The running task's process ends: its other tasks stop where they are. */
_Noreturn void process_exit(int status);
/* As SIGKILL: at once. If it is the running task's, this does not return. */
void process_kill(struct process *process);
void process_stop(struct process *process, bool stopped);
/* It stands still for so long, unless it does so already. */
void process_stop_for(struct process *process, u64 ns);
enum process_signal { SIGNAL_END, SIGNAL_HANG_UP };
void process_signal(struct process *process, enum process_signal signal);
struct task *task_start(struct process *process, const char *name,
                        void (*run)(void *arg), void *arg);
/* The running thread ends. */
_Noreturn void task_exit(void);
/* The thread ends in one of the calls that pthread_cancel(3) ends, once it lets itself be
 * cancelled. port_cancellable() says what runs then. */
void task_cancel(struct task *task);
/* thread.c: it ends here, if it is to end in such a call. */
void task_cancel_point(enum call call);
static inline struct process *process_now(void)
{
	return machine.running->process;
}

/* image.c: the product's static variables. */
void image_find(void);
u8 *image_new(enum image_of of);
void image_free(enum image_of of, u8 *image);
void image_switch(struct process *to);
bool image_has(const void *at); /* it is a static variable of the product */
/* All that a process has there. */
const u64 *image_words(const struct process *process, size_t *ret_nr);

/* guest.c: the shim's words of a thread are those of the task that runs. NULL: of none. */
void guest_switch(struct task *from, const struct task *to);

/* heap.c, memory.c, thread.c, lease.c: what ends with a process, or with a task. */
void heap_end(struct process *process);
u32 heap_nr(const struct process *process); /* blocks */
/* Those to which nothing leads from static variables and from what threads keep by a word. Stacks
 * do not count: nobody may be in the product. */
u32 heap_nr_lost(const struct process *process);
void mappings_end(struct process *process);
u32 mappings_nr(const struct process *process);
bool mappings_any_file(const struct process *process); /* it has memory of others */
u64 mappings_bytes(const struct process *process);
void words_end(struct task *task);
void mark_end(struct task *task);
void leases_end(struct task *task);
/* memory.c: how long the close of this descriptor takes passes, as it frees memory. */
void memory_frees(const struct description *d);
/* fd_process.c: it is dead, for those that have a descriptor of it. */
void process_watched(struct process *process);
/* A new descriptor of it; or -errno. */
int process_watch(struct process *process);

/* ---- descriptors (fd.c) ---- */

/* What struct kind.ready says, besides PORT_INPUT: the other side has hung up. */
#define READY_HANG_UP 16u

struct kind {
	const char *name;
	/* PORT_INPUT and READY_HANG_UP, as they are now; NULL: nobody ever waits for it. */
	unsigned int (*ready)(const struct description *d);
	void (*end)(struct description *d); /* the last descriptor has gone */
};

/* What descriptors lead to. It lies first in a struct of its kind. */
struct description {
	const struct kind *kind;
	u32 nr;   /* descriptors, and messages under way, that lead here */
	u32 number; /* no other one has it */
	u32 maker;  /* the process that has made it */
	u32 mode; /* enum port_mode */
	struct waiters waiters;  /* until it is ready */
	struct member *members;  /* of the sets that watch it (set.c) */
	u64 inputs;              /* how often input has come */
};

/* A new one; the caller fills in the rest. bytes: of the struct that it lies in. */
void *description_new(const struct kind *kind, size_t bytes);
void description_keep(struct description *d);
void description_put(struct description *d);
/* The running task closes it: fails if that breaks a rule of the scenario's (struct task). */
void description_closes(const struct description *d, bool unread);
/* The running task waits for it: it stays until then, or until the task is killed. */
void description_hold(struct description *d);
void description_release(struct task *task);
/* Input has come, or the other side has hung up: those that wait look again. */
void description_changed(struct description *d);
/* The lowest free number. -EMFILE: the caller still has d. */
int fd_new(struct process *process, struct description *d);
/* Is there a free number? The kernel takes one before it looks at anything else. */
bool fd_any(const struct process *process);
/* NULL: there is none. */
struct description *fd_get(int fd);
bool fd_file_is(const struct description *d); /* it is of a file (files.c) */
bool fd_event_is(const struct description *d);
/* The same, if it is of that kind. */
void *fd_of(int fd, const struct kind *kind);
void fd_close(struct process *process, int fd);
/* No thread reads by it now; or the run fails. */
void fd_unused(const struct process *process, int fd);
/* Into a pipe, if it has room for all of it. */
void pipe_write(int fd, const void *from, size_t bytes);
/* set.c: the sets that watch it are told. */
void members_changed(struct description *d);
void members_end(struct description *d);

#endif
