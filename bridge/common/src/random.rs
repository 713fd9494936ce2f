//! Words that nobody can guess: names of runs, and the token of the HTTP server.

use std::io;

/// Digits and letters without those that look alike; 32, so that each stands for five bits.
const ALPHABET: &[u8; 32] = b"23456789abcdefghijkmnpqrstuvwxyz";

/// A word of so many characters, with five random bits in each. Fails only where the operating system has no source of
/// randomness; it never falls back to a guessable word.
pub fn word(characters: usize) -> io::Result<String> {
    let mut bytes = vec![0; characters];
    getrandom::fill(&mut bytes)?;
    let letters = bytes
        .iter()
        .map(|byte| char::from(ALPHABET[usize::from(byte % 32)]));
    Ok(letters.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_differ_and_are_easy_to_copy() {
        let words = [word(12), word(12)].map(|word| word.expect("random bytes"));
        assert_ne!(words[0], words[1]);
        assert!(
            words
                .iter()
                .all(|word| word.len() == 12 && word.bytes().all(|byte| ALPHABET.contains(&byte)))
        );
    }
}
