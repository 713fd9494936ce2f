//! `count-tokens`: reads a JSON array of texts from standard input and writes the number of
//! `cl100k_base` tokens of each to standard output as a JSON array.
#![expect(clippy::print_stdout, reason = "its answer goes there")]

use std::io::stdin;

fn main() -> anyhow::Result<()> {
    let texts: Vec<String> = serde_json::from_reader(stdin().lock())?;
    let counts: Vec<usize> = texts
        .iter()
        .map(|text| integration_tests::tokens::count(text))
        .collect();
    println!("{}", serde_json::to_string(&counts)?);
    Ok(())
}
