// SPDX-License-Identifier: GPL-2.0-only OR MIT
use std::ops::Deref;
use std::os::raw::c_int;
use std::ptr::{self, NonNull};
use std::{fmt, mem, slice};

use crate::cache::{Cache, File};
use crate::error::{Error, Result};
use crate::ffi;

const EINVAL: c_int = 22;

pub(crate) fn off_t_of(offset: u64) -> Result<ffi::off_t> {
    ffi::off_t::try_from(offset).map_err(|_| Error::of(EINVAL))
}

/// One reader, which belongs to the thread that has opened it. It is neither `Send` nor `Sync`,
/// because a pointer is not.
#[derive(Debug)]
pub struct Context(NonNull<ffi::lodic_context>);

impl Context {
    /// A reader for the calling thread.
    pub fn open(cache: &Cache) -> Result<Context> {
        let mut context = ptr::null_mut();
        // SAFETY: the cache is there. The context goes on without it.
        let result = unsafe { ffi::lodic_context_open(cache.0.as_ptr(), &mut context) };
        Error::check(result as isize)?;
        Ok(Context(NonNull::new(context).expect("lodic_context_open() gives one")))
    }

    /// How many bytes were read, as by pread(2); 0: the end of the file.
    pub fn read_at(&self, file: &File, buffer: &mut [u8], offset: u64) -> Result<usize> {
        let at = off_t_of(offset)?;
        // SAFETY: the buffer is ours alone, and has so many bytes.
        Error::check(unsafe {
            ffi::lodic_read(
                self.0.as_ptr(),
                file.0.as_ptr(),
                buffer.as_mut_ptr().cast(),
                buffer.len(),
                at,
            )
        })
    }

    /// Pins the block at offset: its bytes from there on, in place. `None`: it cannot be pinned
    /// now, or the file ends before. [`Context::read_at()`] does the work then.
    pub fn pin<'c>(&'c self, file: &'c File, offset: u64) -> Option<Pin<'c>> {
        let empty = ffi::lodic_pin { data: ptr::null(), bytes: 0, word: ptr::null_mut() };
        // What lodic_pin() has filled must not move, and a Pin<'c> does.
        let mut pin = Box::new(empty);
        let at = off_t_of(offset).ok()?;
        // SAFETY: the struct is there.
        let result =
            unsafe { ffi::lodic_pin(self.0.as_ptr(), file.0.as_ptr(), at, &mut *pin) };
        if result != 0 {
            return None;
        }
        Some(Pin { context: self, pin })
    }

    /// The same for as long as a function runs, without an allocation.
    pub fn with_pin<R>(
        &self,
        file: &File,
        offset: u64,
        look: impl FnOnce(&[u8]) -> R,
    ) -> Option<R> {
        struct Ends<'a>(&'a Context, ffi::lodic_pin);
        impl Drop for Ends<'_> {
            fn drop(&mut self) {
                // SAFETY: lodic_pin() has filled it, here, or has left its word NULL.
                unsafe { ffi::lodic_unpin(self.0 .0.as_ptr(), &mut self.1) }
            }
        }
        let at = off_t_of(offset).ok()?;
        let empty = ffi::lodic_pin { data: ptr::null(), bytes: 0, word: ptr::null_mut() };
        let mut ends = Ends(self, empty);
        // SAFETY: the struct is there, and stays until it is dropped.
        let result =
            unsafe { ffi::lodic_pin(self.0.as_ptr(), file.0.as_ptr(), at, &mut ends.1) };
        if result != 0 {
            return None;
        }
        // SAFETY: pinned bytes neither change nor go.
        Some(look(unsafe { slice::from_raw_parts(ends.1.data.cast(), ends.1.bytes) }))
    }

    /// Asks the service for n bytes from offset on; 0: to the end. wait: until it has done what it
    /// could.
    pub fn prefetch(&self, file: &File, offset: u64, n: u64, wait: bool) -> Result<()> {
        let at = off_t_of(offset)?;
        let flags = if wait { ffi::LODIC_WAIT } else { 0 };
        // SAFETY: both are there.
        let result =
            unsafe { ffi::lodic_prefetch(self.0.as_ptr(), file.0.as_ptr(), at, n, flags) };
        Error::check(result as isize).map(|_| ())
    }

    /// What this context has done.
    pub fn stat(&self) -> ffi::lodic_context_stat {
        let mut stat = ffi::lodic_context_stat::default();
        // SAFETY: the library writes no more than it is told.
        unsafe {
            ffi::lodic_context_stat(
                self.0.as_ptr(),
                &mut stat,
                mem::size_of::<ffi::lodic_context_stat>(),
            )
        }
        stat
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: it is ours, and pins borrow it. One that was forgotten ends here.
        unsafe { ffi::lodic_context_close(self.0.as_ptr()) }
    }
}

/// Bytes of a block that stay in place until the pin is dropped.
pub struct Pin<'c> {
    context: &'c Context,
    pin: Box<ffi::lodic_pin>,
}

impl Deref for Pin<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: pinned bytes neither change nor go.
        unsafe { slice::from_raw_parts(self.pin.data.cast(), self.pin.bytes) }
    }
}

impl AsRef<[u8]> for Pin<'_> {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl Drop for Pin<'_> {
    fn drop(&mut self) {
        // SAFETY: lodic_pin() has filled it, at this place.
        unsafe { ffi::lodic_unpin(self.context.0.as_ptr(), &mut *self.pin) }
    }
}

impl fmt::Debug for Pin<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pin({} bytes)", self.len())
    }
}
