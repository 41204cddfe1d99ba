//! The TCP side channel of the manual's programs.
