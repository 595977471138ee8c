/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Put in front of each source of lib/ that is compiled for the shim: see own.h. */
#ifndef LODIC_PRELOAD_OWN_NAMES_H
#define LODIC_PRELOAD_OWN_NAMES_H

#define socket own_socket
#define fcntl own_fcntl
#define close own_close
#define write own_write
#define sendmsg own_sendmsg
#define recvmsg own_recvmsg
#define mmap own_mmap
#define munmap own_munmap
#define madvise own_madvise
#define calloc own_calloc
#define free own_free
#define strdup own_strdup
#define dup3 own_dup3
#define read own_read
#define clone own_clone
#define execve own_execve
#define syscall own_syscall

#endif
