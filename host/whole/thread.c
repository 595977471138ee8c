/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Contract: port.h and port/thread.h. Threads, locks, conditions, a word of each thread. */
#include "host/whole/machine.h"
#include "lib/port.h"
#include "lib/port/thread.h"

/* What lies in a struct port_lock, port_condition, port_thread. */
struct lock {
	struct task *holder;
	struct waiters waiters;
};
struct condition {
	struct waiters waiters;
};
struct thread {
	struct task *task;
};
_Static_assert(sizeof(struct lock) <= sizeof(struct port_lock), "a lock has room");
_Static_assert(sizeof(struct condition) <= sizeof(struct port_condition), "so has a condition");
_Static_assert(sizeof(struct thread) <= sizeof(struct port_thread), "so has a thread");

/* ---- locks ---- */

void port_lock_init(struct port_lock *lock)
{
	*(struct lock *)lock = (struct lock){ 0 };
}

void port_lock_end(struct port_lock *lock)
{
	const struct lock *l = (struct lock *)lock;

	if (l->holder || l->waiters.first)
		machine_fail("a lock ends that somebody has or wants");
}

bool port_lock_try(struct port_lock *lock)
{
	struct lock *l = (struct lock *)lock;

	machine_pass(CALL_LOCK_TRY);
	if (l->holder)
		return false;
	l->holder = machine.running;
	return true;
}

void port_lock_take(struct port_lock *lock)
{
	struct lock *l = (struct lock *)lock;

	machine_pass(CALL_LOCK_TAKE);
	if (l->holder == machine.running)
		machine_fail("a thread takes a lock that it has");
	if (l->holder && machine.running->waits_for_no_lock)
		machine_fail("a thread waits for a lock, which another one has");
	while (l->holder)
		task_wait(&l->waiters, NS_NEVER);
	l->holder = machine.running;
}

void port_lock_give(struct port_lock *lock)
{
	struct lock *l = (struct lock *)lock;

	machine_pass(CALL_LOCK_GIVE);
	if (l->holder != machine.running)
		machine_fail("a thread gives a lock that it does not have");
	l->holder = NULL;
	waiters_wake_one(&l->waiters);
}

/* ---- conditions ---- */

#define EARLY_ONE_IN 16u
#define EARLY_NS 10000000u

void port_condition_init(struct port_condition *condition)
{
	*(struct condition *)condition = (struct condition){ 0 };
}

void port_condition_end(struct port_condition *condition)
{
	if (((struct condition *)condition)->waiters.first)
		machine_fail("a condition ends that somebody waits for");
}

bool port_condition_wait_until(struct port_condition *condition, struct port_lock *lock,
                               uint64_t until_ns)
{
	struct condition *c = (struct condition *)condition;
	struct lock *l = (struct lock *)lock;
	/* Now and then it wakes for nothing, as a condition may. */
	u64 early = machine_draw(EARLY_ONE_IN) == 0 ? machine.now_ns + machine_draw(EARLY_NS)
	                                            : NS_NEVER;
	bool in_time;

	machine_pass(CALL_CONDITION_WAIT_UNTIL);
	if (l->holder != machine.running)
		machine_fail("a thread waits under a lock that it does not have");
	l->holder = NULL;
	waiters_wake_one(&l->waiters);
	in_time = task_wait(&c->waiters, early < until_ns ? early : until_ns) ||
	          machine.now_ns < until_ns;
	while (l->holder)
		task_wait(&l->waiters, NS_NEVER);
	l->holder = machine.running;
	return in_time;
}

void port_condition_wait(struct port_condition *condition, struct port_lock *lock)
{
	port_condition_wait_until(condition, lock, NS_NEVER);
}

void port_condition_tell(struct port_condition *condition)
{
	machine_pass(CALL_CONDITION_TELL);
	waiters_wake_one(&((struct condition *)condition)->waiters);
}

void port_condition_tell_all(struct port_condition *condition)
{
	machine_pass(CALL_CONDITION_TELL_ALL);
	waiters_wake(&((struct condition *)condition)->waiters);
}

/* ---- threads ---- */

int port_thread_start(struct port_thread *ret_thread, void (*run)(void *arg), void *arg)
{
	int err = machine_call(CALL_THREAD_START);
	struct task *t;

	if (!err && machine.nr_tasks == MACHINE_MOST_TASKS)
		err = -EAGAIN;
	if (err)
		return err;
	t = task_start(process_now(), "thread", run, arg);
	t->no_cancel = true; /* door: it is never cancelled */
	((struct thread *)ret_thread)->task = t;
	return (int)machine_result(0);
}

void port_thread_join(struct port_thread *thread)
{
	struct task *t = ((struct thread *)thread)->task;

	machine_pass(CALL_THREAD_JOIN);
	while (t->state != TASK_OVER)
		task_wait(&t->over, NS_NEVER);
}

int port_thread_start_alone(void (*run)(void *arg), void *arg, size_t stack_bytes)
{
	struct port_thread thread;
	int err = machine_call(CALL_THREAD_START_ALONE);

	(void)stack_bytes;
	return err ? err : port_thread_start(&thread, run, arg);
}

uint64_t port_thread_cpu_ns(void)
{
	machine_pass(CALL_THREAD_CPU_NS);
	return machine.now_ns;
}

void port_once(struct port_once *once, void (*init)(void))
{
	enum { NOT_YET, BEGUN, DONE };

	machine_pass(CALL_ONCE);
	if (once->words[0] == NOT_YET) {
		once->words[0] = BEGUN;
		init();
		once->words[0] = DONE;
		waiters_wake(&process_now()->once);
	}
	while (once->words[0] != DONE)
		task_wait(&process_now()->once, NS_NEVER);
}

/* ---- cancellation ---- */

struct cleanup {
	struct cleanup *before;
	void (*cancelled)(void *arg);
	void *arg;
};

/* What may wait, and what pthreads(7) names besides. None of these is a lock. */
static bool cancel_ends(enum call call)
{
	switch (call) {
	case CALL_LOCK_TAKE:
	case CALL_ONCE:
	case CALL_MAP: return false;
	case CALL_CLOSE:
	case CALL_SEND:
	case CALL_RECEIVE:
	case CALL_CONNECT:
	case CALL_EVENT_TELL:
	case CALL_SYSTEM_OPEN:
	case CALL_SYSTEM_READ: return true;
	default: return call_marks[call] != CALL_MARK_NONE;
	}
}

void task_cancel_point(enum call call)
{
	struct task *t = machine.running;

	if (!t->cancelled || t->no_cancel || !cancel_ends(call))
		return;
	machine_note("the thread is cancelled in %s", call_names[call]);
	t->no_cancel = true;
	while (t->cleanups) {
		struct cleanup *c = t->cleanups;

		t->cleanups = c->before;
		c->cancelled(c->arg);
	}
	task_exit();
}

void task_cancel(struct task *task)
{
	machine_note("thread %u of %s is to be cancelled", task->number, task->process->name);
	task->cancelled = true;
	if (task->state == TASK_WAITS && !task->no_cancel && cancel_ends(task->call))
		task->until_ns = 0; /* it wakes, and finds that */
}

int port_cancel_off(void)
{
	int before = !machine.running->no_cancel;

	machine.running->no_cancel = true;
	return before;
}

void port_cancel_as(int before)
{
	machine.running->no_cancel = !before;
}

void port_cancellable(int as, void (*work)(void *arg), void (*cancelled)(void *arg),
                      void *arg)
{
	struct cleanup c = { machine.running->cleanups, cancelled, arg };

	machine_pass(CALL_CANCELLABLE);
	machine.running->cleanups = &c;
	port_cancel_as(as);
	work(arg);
	port_cancel_off();
	machine.running->cleanups = c.before;
}

/* ---- a word of each thread ---- */

static u32 word_number(struct port_word *word)
{
	struct process *p = process_now();

	if (word->made == 0) {
		if (p->nr_words == MACHINE_MOST_WORDS)
			machine_fail("too many words for the machine");
		p->word_ends[p->nr_words] = word->end;
		word->made = ++p->nr_words;
	}
	return (u32)word->made - 1;
}

bool port_word_make(struct port_word *word)
{
	machine_pass(CALL_WORD_MAKE);
	if (machine_fails(CALL_WORD_MAKE))
		return false;
	word_number(word);
	return true;
}

void *port_word_get(struct port_word *word)
{
	return machine.running->words[word_number(word)];
}

bool port_word_set(struct port_word *word, void *value)
{
	machine_pass(CALL_WORD_SET);
	if (machine_fails(CALL_WORD_SET)) {
		machine.nr_failed[CALL_WORD_SET]++;
		return false;
	}
	machine.running->words[word_number(word)] = value;
	return true;
}

void words_end(struct task *task)
{
	for (u32 i = 0; i < task->process->nr_words; i++)
		if (task->words[i] && task->process->word_ends[i])
			task->process->word_ends[i](task->words[i]);
}

void *port_sequences(void)
{
	return NULL;
}

void port_sleep(uint64_t ns)
{
	machine_pass(CALL_SLEEP);
	task_wait(NULL, machine.now_ns + ns);
	task_cancel_point(CALL_SLEEP);
}
