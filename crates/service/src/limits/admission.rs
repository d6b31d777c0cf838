//! Query admission: how many queries run at once, and how many wait for a turn.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::error::Error;

/// The turns of queries.
#[derive(Debug)]
pub struct QueryAdmission {
    running: Arc<Semaphore>,
    waiting: AtomicUsize,
    waiting_max: usize,
}

/// Whoever has it may run a query; given back when dropped.
#[derive(Debug)]
pub struct Turn(OwnedSemaphorePermit);

impl Turn {
    /// A planted bug: it is never given back.
    #[doc(hidden)]
    pub fn forget(self) {
        self.0.forget();
    }
}

impl QueryAdmission {
    /// So many run at once, one at least, and so many wait.
    pub fn new(running_max: usize, waiting_max: usize) -> Self {
        let running_max = running_max.clamp(1, Semaphore::MAX_PERMITS);
        Self {
            running: Arc::new(Semaphore::new(running_max)),
            waiting: AtomicUsize::new(0),
            waiting_max,
        }
    }

    /// Waits for a turn, or refuses if too many do already.
    pub async fn take(&self) -> Result<Turn, Error> {
        if let Ok(turn) = Arc::clone(&self.running).try_acquire_owned() {
            return Ok(Turn(turn));
        }
        let _place = QueuePlace::take(self)?;
        self.take_again().await
    }

    /// Waits for a turn to go on with what had one before: it is not refused, however many wait.
    pub async fn take_again(&self) -> Result<Turn, Error> {
        let turn = Arc::clone(&self.running).acquire_owned().await;
        Ok(Turn(turn.map_err(|_| Error::Stopping)?))
    }
}

/// A place in the queue, left when dropped.
struct QueuePlace<'a>(&'a QueryAdmission);

impl<'a> QueuePlace<'a> {
    fn take(admission: &'a QueryAdmission) -> Result<Self, Error> {
        let place = Self(admission);
        let waiting_max = admission.waiting_max;
        if admission.waiting.fetch_add(1, Ordering::Relaxed) >= waiting_max {
            return Err(Error::QueriesWaiting { waiting_max });
        }
        Ok(place)
    }
}

impl Drop for QueuePlace<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Whether a text is one statement that lists what runs, or ends it: such a one must not wait for those. The words are the same
/// in every language.
pub(crate) fn looks_after_others(text: &str) -> bool {
    let text = text.trim_end().strip_suffix(';').unwrap_or(text);
    let words: Vec<String> = text.split_whitespace().map(str::to_lowercase).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let is_number = |word: &str| word.bytes().all(|byte| byte.is_ascii_digit());
    match words.as_slice() {
        ["show", "queries"] => true,
        ["kill", number] | ["kill", "query", number] => is_number(number),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Class;
    use futures::FutureExt;

    #[test]
    fn only_one_statement_about_others_goes_before_them() {
        for text in [
            "SHOW QUERIES",
            " show\n queries ; ",
            "kill query 7",
            "KILL 12;",
        ] {
            assert!(looks_after_others(text), "{text}");
        }
        for text in [
            "SHOW QUERIES; SELECT 1",
            "SHOW DATABASES",
            "KILL QUERY 7; SELECT 1",
            "KILL QUERY (SELECT 1)",
            "SELECT 'show queries'",
            "",
        ] {
            assert!(!looks_after_others(text), "{text}");
        }
    }

    #[test]
    fn who_comes_when_all_places_are_taken_is_refused_and_a_place_left_is_free_again() {
        let admission = QueryAdmission::new(1, 1);
        let running = admission.take().now_or_never().unwrap().unwrap();
        let mut waiting = Box::pin(admission.take());
        assert!(waiting.as_mut().now_or_never().is_none());
        let refused = admission.take().now_or_never().unwrap().unwrap_err();
        assert_eq!(
            (refused.class(), refused.setting(), refused.passes()),
            (Class::TooMany, Some("queries-waiting-max"), true)
        );
        // Who goes leaves the place, and who waits gets the turn.
        drop(waiting);
        let mut waiting = Box::pin(admission.take());
        assert!(waiting.as_mut().now_or_never().is_none());
        drop(running);
        assert!(waiting.now_or_never().unwrap().is_ok());
    }
}
