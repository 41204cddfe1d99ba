//! How far the student is: a file of the user's, `learn.json` in `$XDG_STATE_HOME/rdma-by-example`
//! (`~/.local/state/rdma-by-example`).

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::language::Language;
use crate::lesson::Lesson;
use crate::words::words;

/// Progress in one lesson.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    /// A run of it was right once.
    #[serde(default)]
    pub is_done: bool,
    /// Hints that were shown.
    #[serde(default)]
    pub hints: usize,
    /// In which language it was opened last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub language: Option<Language>,
}

/// Contents of the file.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Known {
    /// The language that was chosen last.
    #[serde(default)]
    language: Language,
    #[serde(flatten)]
    lessons: BTreeMap<String, State>,
}

/// The file.
#[derive(Debug)]
pub struct Progress {
    path: PathBuf,
    known: Known,
}

impl Progress {
    /// The user's.
    pub fn of_user() -> Result<Self, Error> {
        let state = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from);
        let state = state
            .filter(|path| path.is_absolute())
            .or_else(|| std::env::var_os("HOME").map(|home| Path::new(&home).join(".local/state")));
        let state = state.ok_or_else(|| {
            Error::Usage(words!(
                "there is no HOME to keep your progress in: set XDG_STATE_HOME",
                "没有 HOME，进度没有地方可记：请设置 XDG_STATE_HOME"
            ))
        })?;
        Self::read(&state.join("rdma-by-example/learn.json"))
    }

    /// Progress in a file, which need not be there.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let known = match fs::read_to_string(path) {
            Ok(text) => serde_json::from_str(&text).map_err(|error| {
                let path = path.display();
                Error::Usage(words!(
                    "{path} is broken, remove it: {error}",
                    "{path} 已损坏，请删除它：{error}"
                ))
            })?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Known::default(),
            Err(error) => return Err(Error::read(path)(error)),
        };
        Ok(Self { path: path.to_owned(), known })
    }

    /// Progress in a lesson.
    pub fn of(&self, lesson: &Lesson) -> State {
        self.known.lessons.get(lesson.folder).copied().unwrap_or_default()
    }

    /// Changes it, and writes the file.
    pub fn change(&mut self, lesson: &Lesson, change: impl Fn(&mut State)) -> Result<(), Error> {
        let state = self.known.lessons.entry(lesson.folder.to_owned()).or_default();
        let before = *state;
        change(state);
        if *state == before {
            return Ok(());
        }
        self.write()
    }

    /// The language of lessons that are opened for the first time.
    pub fn language(&self) -> Language {
        self.known.language
    }

    /// Chooses it, and writes the file.
    pub fn choose(&mut self, language: Language) -> Result<(), Error> {
        if self.known.language == language {
            return Ok(());
        }
        self.known.language = language;
        self.write()
    }

    fn write(&self) -> Result<(), Error> {
        let dir = self.path.parent().unwrap_or(Path::new("/"));
        fs::create_dir_all(dir).map_err(Error::write(dir))?;
        let text = serde_json::to_string_pretty(&self.known).expect("numbers and texts only");
        // Whole or not at all.
        let new = self.path.with_extension("new");
        fs::write(&new, text + "\n").map_err(Error::write(&new))?;
        fs::rename(&new, &self.path).map_err(Error::write(&self.path))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
mod tests {
    use super::*;
    use crate::lesson::LESSONS;

    #[test]
    fn what_is_changed_is_read_again() {
        let dir = std::env::temp_dir().join(format!("learn progress {}", std::process::id()));
        let path = dir.join("deep/learn.json");
        let mut progress = Progress::read(&path).unwrap();
        assert_eq!(progress.of(&LESSONS[1]), State::default());
        progress.change(&LESSONS[1], |state| state.hints += 1).unwrap();
        progress.change(&LESSONS[1], |state| state.is_done = true).unwrap();
        progress.choose(Language::C).unwrap();
        let again = Progress::read(&path).unwrap();
        let state = State { is_done: true, hints: 1, language: None };
        assert_eq!((again.of(&LESSONS[1]), again.language()), (state, Language::C));
        assert_eq!(again.of(&LESSONS[0]), State::default());
        // As it was written before there were languages.
        let folder = LESSONS[1].folder;
        fs::write(&path, format!("{{\"{folder}\": {{\"is_done\": true}}}}")).unwrap();
        let old = Progress::read(&path).unwrap();
        assert_eq!((old.of(&LESSONS[1]).is_done, old.language()), (true, Language::Rust));
        fs::write(&path, "{").unwrap();
        assert!(Progress::read(&path).unwrap_err().to_string().contains("is broken"));
        fs::remove_dir_all(&dir).unwrap();
    }
}
