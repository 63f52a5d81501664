//! A futex lock for engine state.
//!
//! Rules of the house: never taken while it is held by the same thread; never
//! held while a thread runs program code; the signal handler takes it only
//! when it interrupted program code (so the thread cannot hold it).

use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicU32, Ordering};

const FREE: u32 = 0;
const HELD: u32 = 1;
const HELD_WITH_WAITERS: u32 = 2;

#[derive(Debug)]
pub struct Lock<T> {
    word: AtomicU32,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached only through the guard, one holder at a time.
unsafe impl<T> Sync for Lock<T> {}

#[derive(Debug)]
pub struct Guard<'a, T> {
    lock: &'a Lock<T>,
}

impl<T> Lock<T> {
    pub const fn new(value: T) -> Lock<T> {
        Lock {
            word: AtomicU32::new(FREE),
            value: UnsafeCell::new(value),
        }
    }

    pub fn lock(&self) -> Guard<'_, T> {
        if self
            .word
            .compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed)
            .is_err()
        {
            self.wait();
        }
        Guard { lock: self }
    }

    fn wait(&self) {
        for _ in 0..200 {
            if self
                .word
                .compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed)
                .is_ok()
            {
                return;
            }
            core::hint::spin_loop();
        }
        while self.word.swap(HELD_WITH_WAITERS, Ordering::Acquire) != FREE {
            let _ = sys::futex_wait(&self.word, HELD_WITH_WAITERS, None);
        }
    }

    /// After fork, in the child: whoever waited does not exist here.
    pub fn forget_waiters(&self) {
        self.word.store(HELD, Ordering::Relaxed);
    }
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: the guard holds the lock.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the guard holds the lock, and `&mut self` is its only user.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T> Drop for Guard<'_, T> {
    fn drop(&mut self) {
        if self.lock.word.swap(FREE, Ordering::Release) == HELD_WITH_WAITERS {
            sys::futex_wake(&self.lock.word, 1);
        }
    }
}
