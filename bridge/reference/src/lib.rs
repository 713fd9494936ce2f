//! The reference pages of the book (`docs/src/reference`), made from the code that they describe.
//!
//! Entry points: [`tool`], [`settings`] and [`cli`], each a whole page as Markdown. A test compares
//! them with the committed pages; `make reference` writes them. Nothing else depends on this crate,
//! and it never starts anything: it only reads definitions.

mod cli;
mod markdown;
mod settings;
mod tool;

pub use cli::cli;
pub use settings::settings;
pub use tool::tool;

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// Set by `make reference`: the pages are written instead of compared.
    const UPDATE: &str = "UPDATE_REFERENCE";

    #[test]
    fn committed_pages_are_what_the_code_says() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/src/reference");
        let pages = [
            ("tool.md", tool()),
            ("settings.md", settings()),
            ("cli.md", cli()),
        ];
        let update = std::env::var_os(UPDATE).is_some();
        let mut stale = Vec::new();
        for (name, page) in pages {
            let path = folder.join(name);
            if update {
                std::fs::write(&path, page).unwrap();
            } else if std::fs::read_to_string(&path).ok().as_deref() != Some(page.as_str()) {
                stale.push(name);
            }
        }
        assert!(
            stale.is_empty(),
            "{stale:?} in docs/src/reference differ from the code: run make reference and commit them"
        );
    }
}
