//! Hashes of text that came from outside.
//!
//! Does: hash under a key of its own, so that nobody can choose texts that collide. Does not: give the same number
//! twice in two lives of the process; what is on disk is found by other means.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;

use twox_hash::{XxHash3_64, XxHash3_128};

/// What XXH3 mixes the text with; it needs at least 136 bytes and uses up to 192.
const SECRET_BYTES: usize = 192;

/// A secret that makes a hash function of its own.
#[derive(Clone)]
pub(crate) struct TextHash {
    secret: Arc<[u8; SECRET_BYTES]>,
}

impl Default for TextHash {
    fn default() -> Self {
        // A hasher's keys are the standard library's only public source of randomness; they are from the system.
        let random = RandomState::new();
        let mut secret = [0; SECRET_BYTES];
        for (at, word) in secret.chunks_exact_mut(8).enumerate() {
            let mut hasher = random.build_hasher();
            hasher.write_usize(at);
            word.copy_from_slice(&hasher.finish().to_le_bytes());
        }
        Self {
            secret: Arc::new(secret),
        }
    }
}

impl std::fmt::Debug for TextHash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Who knows the secret can make texts collide.
        f.write_str("TextHash")
    }
}

impl TextHash {
    /// For a table that compares the text as well.
    #[inline]
    pub(crate) fn short(&self, text: &[u8]) -> u64 {
        XxHash3_64::oneshot_with_secret(self.secret.as_slice(), text)
            .expect("the secret is longer than the shortest one allowed")
    }

    /// In place of the text: of a thousand million texts two are taken for one with a probability of 10^-21.
    #[inline]
    pub(crate) fn long(&self, text: &[u8]) -> u128 {
        XxHash3_128::oneshot_with_secret(self.secret.as_slice(), text)
            .expect("the secret is longer than the shortest one allowed")
    }
}
