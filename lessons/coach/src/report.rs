//! A student's progress as JSON, for a teacher.

use serde::Serialize;

use crate::language::Language;
use crate::lesson::LESSONS;
use crate::progress::Progress;

/// The whole of it.
#[derive(Debug, Serialize)]
pub struct Report {
    /// How many lessons are done.
    pub done: usize,
    /// All of them, in their order.
    pub lessons: Vec<Row>,
}

/// One lesson.
#[derive(Debug, Serialize)]
pub struct Row {
    /// Its folder.
    pub lesson: &'static str,
    /// Its subject, in a few words.
    pub title: &'static str,
    /// A run of it was right once.
    pub done: bool,
    /// Hints that were shown.
    pub hints: usize,
    /// In which language it was opened last, if it was.
    pub language: Option<Language>,
}

impl Report {
    /// Of a student's progress.
    pub fn new(progress: &Progress) -> Self {
        let row = |lesson: &'static crate::lesson::Lesson| {
            let state = progress.of(lesson);
            let (done, hints, language) = (state.is_done, state.hints, state.language);
            Row { lesson: lesson.folder, title: lesson.title.en, done, hints, language }
        };
        let lessons: Vec<Row> = LESSONS.iter().map(row).collect();
        Self { done: lessons.iter().filter(|row| row.done).count(), lessons }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_has_every_lesson_and_what_was_done() {
        let dir = std::env::temp_dir().join(format!("learn-report-{}", std::process::id()));
        let mut progress = Progress::read(&dir.join("learn.json")).unwrap();
        let (first, second) = (&LESSONS[0], &LESSONS[1]);
        progress.change(first, |state| state.is_done = true).unwrap();
        progress
            .change(second, |state| (state.hints, state.language) = (2, Some(Language::C)))
            .unwrap();
        let json = serde_json::to_value(Report::new(&progress)).unwrap();
        std::fs::remove_dir_all(&dir).unwrap();
        assert_eq!(json["done"], 1);
        let lessons = json["lessons"].as_array().unwrap();
        assert_eq!(lessons.len(), LESSONS.len());
        assert_eq!(
            (&lessons[0]["lesson"], &lessons[0]["done"]),
            (&first.folder.into(), &true.into())
        );
        assert_eq!((&lessons[1]["hints"], &lessons[1]["language"]), (&2.into(), &"c".into()));
        assert!(lessons[2]["language"].is_null() && lessons[2]["done"] == false);
    }
}
