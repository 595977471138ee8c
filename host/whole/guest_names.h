/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Before all else in the sources of the simulated shim. Its functions of libc (preload/hooks.h) get
 * other names, as this program needs libc's own. And it goes through guest_own.c where the real
 * shim goes through preload/posix/os_impl.h.
 */
#ifndef LODIC_HOST_WHOLE_GUEST_NAMES_H
#define LODIC_HOST_WHOLE_GUEST_NAMES_H

#define HOOKS_PREFIX "hooked_"

#define read hooked_read
#define __read hooked___read
#define __read_chk hooked___read_chk
#define readv hooked_readv
#define pread hooked_pread
#define pread64 hooked_pread64
#define __pread64 hooked___pread64
#define __pread_chk hooked___pread_chk
#define __pread64_chk hooked___pread64_chk
#define preadv hooked_preadv
#define preadv64 hooked_preadv64
#define preadv2 hooked_preadv2
#define preadv64v2 hooked_preadv64v2
#define __open_2 hooked___open_2
#define __open64_2 hooked___open64_2
#define __openat_2 hooked___openat_2
#define __openat64_2 hooked___openat64_2
#define creat hooked_creat
#define creat64 hooked_creat64
#define close hooked_close
#define __close hooked___close
#define close_range hooked_close_range
#define closefrom hooked_closefrom
#define dup hooked_dup
#define dup2 hooked_dup2
#define __dup2 hooked___dup2
#define dup3 hooked_dup3
#define lockf hooked_lockf
#define lockf64 hooked_lockf64
#define flock hooked_flock
#define fclose hooked_fclose
#define _IO_fclose hooked__IO_fclose
#define pclose hooked_pclose
#define endmntent hooked_endmntent
#define __endmntent hooked___endmntent
#define mq_close hooked_mq_close
#define login_tty hooked_login_tty
#define freopen hooked_freopen
#define freopen64 hooked_freopen64
#define posix_fadvise hooked_posix_fadvise
#define posix_fadvise64 hooked_posix_fadvise64

#define port_socket guest_socket
#define port_dup guest_dup
#define port_replace guest_replace
#define port_close guest_close
#define port_shut guest_shut
#define port_event_tell guest_event_tell
#define port_send guest_send
#define port_receive guest_receive

#endif
