// SPDX-License-Identifier: GPL-2.0-only OR MIT
use std::ffi::CString;
use std::os::raw::{c_char, c_int};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::io::{AsRawFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::ptr::{self, NonNull};
use std::{fs, mem};

use crate::error::{Error, Result};
use crate::ffi;

const EINVAL: c_int = 22;

/// What `struct lodic_options` says. What is empty or 0 says nothing.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Where the service listens.
    pub socket: Option<PathBuf>,
    /// The program `lodic` that is started when no service listens. An empty path: none is.
    pub service: Option<PathBuf>,
    /// What blocks and holds may have together, of a service that this process starts.
    pub cache_bytes: u64,
    /// How long that service stays without a client, in milliseconds.
    pub idle_exit_ms: u32,
    /// What holds may have of that memory at most.
    pub hold_bytes: u64,
}

fn c_path(path: &Option<PathBuf>) -> Result<Option<CString>> {
    path.as_ref()
        .map(|p| CString::new(p.as_os_str().as_bytes()).map_err(|_| Error::of(EINVAL)))
        .transpose()
}

fn pointer_of(text: &Option<CString>) -> *const c_char {
    text.as_ref().map_or(ptr::null(), |t| t.as_ptr())
}

/// This process's attachment to a cache. Any thread may use it.
#[derive(Debug)]
pub struct Cache(pub(crate) NonNull<ffi::lodic>);

// SAFETY: lodic.h: any thread may use it.
unsafe impl Send for Cache {}
unsafe impl Sync for Cache {}

impl Cache {
    /// Attaches, and starts the service if none listens.
    pub fn attach(options: &Options) -> Result<Cache> {
        let (socket, service) = (c_path(&options.socket)?, c_path(&options.service)?);
        let plain = ffi::lodic_options {
            bytes: mem::size_of::<ffi::lodic_options>(),
            socket: pointer_of(&socket),
            service: pointer_of(&service),
            cache_bytes: options.cache_bytes,
            scheme: 0,
            idle_exit_ms: options.idle_exit_ms,
            hold_bytes: options.hold_bytes,
        };
        let mut lodic = ptr::null_mut();
        // SAFETY: the texts live until the call has returned.
        Error::check(unsafe { ffi::lodic_attach(&plain, &mut lodic) } as isize)?;
        Ok(Cache(NonNull::new(lodic).expect("lodic_attach() gives one")))
    }

    /// What the cache holds now, and what it has done.
    pub fn stat(&self) -> Result<ffi::lodic_stat> {
        let mut stat = ffi::lodic_stat::default();
        // SAFETY: the library writes no more than it is told.
        let result = unsafe {
            ffi::lodic_stat(self.0.as_ptr(), &mut stat, mem::size_of::<ffi::lodic_stat>())
        };
        Error::check(result as isize)?;
        Ok(stat)
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        // SAFETY: it is ours. Contexts, files and holds go on without it.
        unsafe { ffi::lodic_detach(self.0.as_ptr()) }
    }
}

/// An open file. Any thread may use it.
#[derive(Debug)]
pub struct File(pub(crate) NonNull<ffi::lodic_file>);

// SAFETY: lodic.h: any thread may use it.
unsafe impl Send for File {}
unsafe impl Sync for File {}

impl File {
    /// Opens a file by its path.
    pub fn open<P: AsRef<Path>>(cache: &Cache, path: P) -> Result<File> {
        use std::os::unix::io::AsFd;
        File::of(cache, fs::File::open(path)?.as_fd())
    }

    /// A file by a descriptor that was opened for reading only. The library duplicates it.
    pub fn of(cache: &Cache, descriptor: BorrowedFd<'_>) -> Result<File> {
        let mut file = ptr::null_mut();
        // SAFETY: the cache and the descriptor are there.
        let result =
            unsafe { ffi::lodic_open(cache.0.as_ptr(), descriptor.as_raw_fd(), &mut file) };
        Error::check(result as isize)?;
        Ok(File(NonNull::new(file).expect("lodic_open() gives one")))
    }

    /// `Ok`: the file is cached now. Else the reason why it is not.
    pub fn cached(&self) -> Result<()> {
        // SAFETY: the file is open.
        Error::check(unsafe { ffi::lodic_file_cached(self.0.as_ptr()) } as isize).map(|_| ())
    }
}

impl Drop for File {
    fn drop(&mut self) {
        // SAFETY: it is ours, and pins borrow it.
        unsafe { ffi::lodic_close(self.0.as_ptr()) }
    }
}
