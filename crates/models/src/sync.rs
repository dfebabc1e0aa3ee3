//! The types that the engine's sources use from the standard library and crossbeam, built on
//! the types of loom.
//!
//! Two of loom's deviations from the language's memory model are corrected here. loom treats a
//! sequentially consistent access only as acquire and release. loom's fences are exact, so this
//! module surrounds each such access with two fences. In addition, where several threads access one
//! variable with plain stores and swaps, a swap in loom may read a value that was already
//! overwritten. This module therefore replaces each store by a swap. All changes of a variable are
//! then in one order, and a load may still read an outdated value.

use std::collections::VecDeque;
use std::ops::{Deref, DerefMut};
use std::sync::{LockResult, TryLockResult};
pub(crate) use std::sync::{PoisonError, TryLockError};
/// Not replaced: loom sees each of its operations as one step.
pub(crate) use tokio::sync::watch;

/// A mutex whose `try_lock` can fail in a model. loom never switches threads between a thread's
/// last access and its unlock, so a `try_lock` of loom's own mutex would not fail there. This mutex
/// makes an atomic access at both ends of a critical section, where loom can switch.
#[derive(Debug, Default)]
pub(crate) struct Mutex<T> {
    inner: loom::sync::Mutex<T>,
    held: atomic::AtomicBool,
}

#[derive(Debug)]
pub(crate) struct MutexGuard<'a, T> {
    inner: loom::sync::MutexGuard<'a, T>,
    held: &'a atomic::AtomicBool,
}

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Self { inner: loom::sync::Mutex::new(value), held: atomic::AtomicBool::new(false) }
    }

    pub(crate) fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
        let inner = self.inner.lock().expect("a model ends at its first panic");
        self.held.store(true, atomic::Ordering::Relaxed);
        Ok(MutexGuard { inner, held: &self.held })
    }

    pub(crate) fn try_lock(&self) -> TryLockResult<MutexGuard<'_, T>> {
        if self.held.load(atomic::Ordering::Relaxed) {
            return Err(TryLockError::WouldBlock);
        }
        let inner = self.inner.try_lock().map_err(|_| TryLockError::WouldBlock)?;
        self.held.store(true, atomic::Ordering::Relaxed);
        Ok(MutexGuard { inner, held: &self.held })
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.inner
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.inner
    }
}

impl<T> Drop for MutexGuard<'_, T> {
    fn drop(&mut self) {
        self.held.store(false, atomic::Ordering::Relaxed);
    }
}

/// Yields to another thread; otherwise loom would let a spin loop run forever.
pub(crate) fn spin_loop() {
    loom::thread::yield_now();
}

/// Replaces `core::sync::atomic`.
pub(crate) mod atomic {
    pub(crate) use loom::sync::atomic::{Ordering, fence};

    fn fenced<R>(order: Ordering, access: impl FnOnce() -> R) -> R {
        let exact = || {
            if order == Ordering::SeqCst {
                fence(Ordering::SeqCst);
            }
        };
        exact();
        let result = access();
        exact();
        result
    }

    macro_rules! atomic {
        ($name:ident, $value:ty) => {
            #[derive(Debug, Default)]
            pub(crate) struct $name(loom::sync::atomic::$name);

            impl $name {
                pub(crate) fn new(value: $value) -> Self {
                    Self(loom::sync::atomic::$name::new(value))
                }

                pub(crate) fn load(&self, order: Ordering) -> $value {
                    fenced(order, || self.0.load(order))
                }

                pub(crate) fn store(&self, value: $value, order: Ordering) {
                    self.swap(value, order);
                }

                pub(crate) fn swap(&self, value: $value, order: Ordering) -> $value {
                    fenced(order, || self.0.swap(value, order))
                }

                pub(crate) fn compare_exchange(
                    &self,
                    from: $value,
                    to: $value,
                    order: Ordering,
                    failed: Ordering,
                ) -> Result<$value, $value> {
                    fenced(order, || self.0.compare_exchange(from, to, order, failed))
                }

                pub(crate) fn fetch_update(
                    &self,
                    order: Ordering,
                    failed: Ordering,
                    change: impl FnMut($value) -> Option<$value>,
                ) -> Result<$value, $value> {
                    fenced(order, || self.0.fetch_update(order, failed, change))
                }
            }
        };
    }

    macro_rules! number {
        ($name:ident, $value:ty) => {
            atomic!($name, $value);

            impl $name {
                pub(crate) fn fetch_add(&self, value: $value, order: Ordering) -> $value {
                    fenced(order, || self.0.fetch_add(value, order))
                }

                pub(crate) fn fetch_sub(&self, value: $value, order: Ordering) -> $value {
                    fenced(order, || self.0.fetch_sub(value, order))
                }
            }
        };
    }

    atomic!(AtomicBool, bool);
    atomic!(AtomicU8, u8);
    number!(AtomicU32, u32);
    number!(AtomicU64, u64);
    number!(AtomicUsize, usize);

    impl AtomicU64 {
        pub(crate) fn fetch_and(&self, value: u64, order: Ordering) -> u64 {
            fenced(order, || self.0.fetch_and(value, order))
        }

        pub(crate) fn fetch_or(&self, value: u64, order: Ordering) -> u64 {
            fenced(order, || self.0.fetch_or(value, order))
        }
    }
}

/// A bounded queue with weaker guarantees than crossbeam's: `is_empty` may be outdated.
#[derive(Debug)]
pub(crate) struct ArrayQueue<T> {
    items: loom::sync::Mutex<VecDeque<T>>,
    len: atomic::AtomicUsize,
    max: usize,
}

impl<T> ArrayQueue<T> {
    pub(crate) fn new(max: usize) -> Self {
        Self { items: loom::sync::Mutex::new(VecDeque::new()), len: atomic::AtomicUsize::new(0), max }
    }

    pub(crate) fn push(&self, item: T) -> Result<(), T> {
        let mut items = self.items.lock().expect("no panic while the lock is held");
        if items.len() == self.max {
            return Err(item);
        }
        items.push_back(item);
        self.len.store(items.len(), atomic::Ordering::Relaxed);
        Ok(())
    }

    pub(crate) fn pop(&self) -> Option<T> {
        if self.is_empty() {
            return None;
        }
        let mut items = self.items.lock().expect("no panic while the lock is held");
        let item = items.pop_front();
        self.len.store(items.len(), atomic::Ordering::Relaxed);
        item
    }

    pub(crate) fn len(&self) -> usize {
        self.len.load(atomic::Ordering::Relaxed)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
