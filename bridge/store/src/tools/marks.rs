//! The lines of `user_tools.py` between which a saved tool is.

/// Both marks, as messages name them.
pub(super) const MARKS: &str = "# >>> tool, # <<< tool";
pub(super) const BEGIN: &str = "# >>> tool ";
pub(super) const END: &str = "# <<< tool ";

/// Whether a line could be taken for a mark, so that no tool may contain it.
pub(super) fn looks_like_a_mark(line: &str) -> bool {
    let line = line.trim_start();
    line.starts_with(BEGIN.trim_end()) || line.starts_with(END.trim_end())
}
