// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* What a fork, an exec and the end of a thread leave counted. */
#include "calls.h"
#include "test.h"

void case_fork(void)
{
	pid_t pid;

	expect("a ref", user_ref(objects), 0);
	fflush(stdout);
	pid = fork();
	if (!pid) {
		/* The same address, and another memory. */
		expect("the sum in a child", user_readall(objects), 0);
		expect("an unref in a child", user_unref(objects), -ENOENT);
		expect("a ref in a child", user_ref(objects), 0);
		expect("another", user_ref(objects), 0);
		expect("the sum in a child", user_readall(objects), 2);
		expect("the parent's held with it", debug_read().held, 3);
		_exit(ktap_failing());
	}
	child_done("the child", pid);
	expect("the sum", user_readall(objects), 1);
	expect("all that is held", debug_read().held, 1);
	expect("an unref", user_unref(objects), 0);
}

/* A child that runs in its parent's memory sees its objects, and holds what it takes itself. */
void case_vfork(void)
{
	pid_t pid;

	expect("a ref", user_ref(objects), 0);
	fflush(stdout);
	pid = vfork();
	if (!pid) {
		long own = user_unref(objects), sum, more = user_ref(objects);

		sum = user_readall(objects);
		_exit((own != -ENOENT) | (sum != 2) << 1 | !!more << 2);
	}
	child_done("the child", pid);
	expect("the sum", user_readall(objects), 1);
	expect("an unref", user_unref(objects), 0);
}

static char *exec_words[4] = { "/proc/self/exe", AFTER_EXEC };

static void *exec_in_thread(void *unused)
{
	(void)unused;
	if (user_ref(objects))
		_exit(3);
	execv(exec_words[0], exec_words);
	_exit(4);
}

int after_exec(const char *object)
{
	const void *at = (const void *)strtoul(object, NULL, 16);
	struct debug d = debug_read();

	return (d.held != 0) | (d.threads != 0) << 1 | (user_readall(at) != 0) << 2 |
	       (user_unref(at) != -ENOENT) << 3;
}

void case_exec(void)
{
	char address[32];
	u32 thread;
	pid_t pid;

	snprintf(address, sizeof(address), "%lx", (unsigned long)objects);
	exec_words[2] = address;
	fflush(stdout);
	for (thread = 0; thread < 2; thread++) {
		pid = fork();
		if (!pid) {
			if (user_ref(objects) || user_ref(objects))
				_exit(2);
			execv("/nowhere", exec_words);
			if (user_readall(objects) != 2)
				_exit(5);
			/* The second time another thread does it, and the first one dies. */
			if (thread)
				pthread_join(start(exec_in_thread, NULL), NULL);
			execv(exec_words[0], exec_words);
			_exit(4);
		}
		child_done(thread ? "the thread's exec" : "the exec", pid);
	}
}

/* -- threads that end -------------------------------------------------------------------- */

enum end { BY_RETURN, BY_EXIT, BY_CANCEL };

static void *end_holding(void *arg)
{
	u32 i;

	for (i = 0; i < 3; i++)
		expect("a ref", user_ref(objects + i), 0);
	on_cpu(1);
	expect("a ref on 1", user_ref(objects), 0);
	if ((enum end)(u64)arg == BY_EXIT)
		pthread_exit(NULL);
	while ((enum end)(u64)arg == BY_CANCEL)
		pause();
	return NULL;
}

void case_thread_ends(void)
{
	pthread_t thread;
	u64 how, i;

	on_cpu(0);
	expect("a ref", user_ref(objects), 0);
	for (how = BY_RETURN; how <= BY_CANCEL; how++) {
		thread = start(end_holding, (void *)how);
		if (how == BY_CANCEL) {
			while (user_readall(objects) < 3)
				sched_yield();
			pthread_cancel(thread);
		}
		pthread_join(thread, NULL);
		/* At once, because the kernel takes the references before it says who has ended. */
		expect("the sum", user_readall(objects), 1);
		for (i = 1; i < 3; i++)
			expect("another object's sum", user_readall(objects + i), 0);
	}
	expect("an unref", user_unref(objects), 0);
}
