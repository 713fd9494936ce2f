//! A mutex that a panic does not poison.

use std::sync::{MutexGuard, PoisonError};

/// [`std::sync::Mutex`] for data that is whole after every statement: a thread that panicked while holding the lock has
/// left nothing half done, so others go on.
#[derive(Debug, Default)]
pub struct Mutex<T>(std::sync::Mutex<T>);

impl<T> Mutex<T> {
    /// Guards `value`.
    pub const fn new(value: T) -> Self {
        Self(std::sync::Mutex::new(value))
    }

    /// Waits for the lock.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The value itself.
    pub fn into_inner(self) -> T {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn lock_is_usable_after_a_panic() {
        let shared = Arc::new(Mutex::new(1));
        let other = Arc::clone(&shared);
        let panicked = std::thread::spawn(move || {
            let mut value = other.lock();
            *value = 2;
            panic!("while the lock is held");
        });
        assert!(panicked.join().is_err());
        assert_eq!(*shared.lock(), 2);
        let value = Arc::into_inner(shared).map(Mutex::into_inner);
        assert_eq!(value, Some(2));
    }
}
