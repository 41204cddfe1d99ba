//! The student's folder, `learn-work` at the top of the repository: a copy of each lesson's beginning, and
//! a manifest that makes programs of them. Git ignores it.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use crate::error::Error;
use crate::language::{Language, compile_c};
use crate::lesson::{LESSONS, Lesson, START, top};
use crate::words::{Tongue, words};

/// The manifest without its programs.
const MANIFEST: &str = include_str!("work.template.toml");

/// The folder.
#[derive(Clone, Debug)]
pub struct Work {
    dir: PathBuf,
}

impl Default for Work {
    fn default() -> Self {
        Self { dir: top().join("learn-work") }
    }
}

impl Work {
    /// Another folder.
    pub fn at(dir: PathBuf) -> Self {
        Self { dir }
    }

    /// The student's program of a lesson, there or not.
    pub fn program(&self, lesson: &Lesson, language: Language) -> PathBuf {
        self.dir.join(lesson.folder).join(language.file("main"))
    }

    /// Whether the lesson was opened in a language.
    pub fn has(&self, lesson: &Lesson, language: Language) -> bool {
        self.program(lesson, language).is_file()
    }

    /// When the program was saved for the last time.
    pub fn saved(&self, lesson: &Lesson, language: Language) -> Option<SystemTime> {
        fs::metadata(self.program(lesson, language)).and_then(|found| found.modified()).ok()
    }

    /// A path as somebody types it at the top of the repository.
    pub fn shown(path: &Path) -> String {
        path.strip_prefix(top()).unwrap_or(path).display().to_string()
    }

    /// Where the record of the lesson's last run is.
    pub fn record(&self, lesson: &Lesson) -> PathBuf {
        self.dir.join(lesson.folder).join("run.shr")
    }

    /// Puts the lesson's beginning there, unless it was opened before. `anew` keeps what was there under
    /// another name and begins again.
    pub fn open(&self, lesson: &Lesson, language: Language, anew: bool) -> Result<(), Error> {
        let program = self.program(lesson, language);
        if anew && self.has(lesson, language) {
            let old = self.dir.join(lesson.folder).join(language.file("main") + ".old");
            fs::rename(&program, &old).map_err(Error::write(&old))?;
        }
        if !self.has(lesson, language) {
            let dir = self.dir.join(lesson.folder);
            fs::create_dir_all(&dir).map_err(Error::write(&dir))?;
            let start = lesson.text(&language.file(START))?;
            fs::write(&program, start).map_err(Error::write(&program))?;
        }
        match language {
            Language::Rust => self.write_manifest(),
            Language::C => Ok(()),
        }
    }

    fn write_manifest(&self) -> Result<(), Error> {
        let mut manifest = MANIFEST.to_owned();
        for lesson in LESSONS.iter().filter(|lesson| self.has(lesson, Language::Rust)) {
            let folder = lesson.folder;
            // Writing to a text does not fail.
            let _ =
                write!(manifest, "\n[[bin]]\nname = \"{folder}\"\npath = \"{folder}/main.rs\"\n");
        }
        let path = self.dir.join("Cargo.toml");
        if fs::read_to_string(&path).ok().as_ref() != Some(&manifest) {
            fs::write(&path, manifest).map_err(Error::write(&path))?;
        }
        // The releases that the repository is built with, of which some are needed here.
        let (ours, own) = (top().join("Cargo.lock"), self.dir.join("Cargo.lock"));
        let time = |path: &PathBuf| fs::metadata(path).and_then(|found| found.modified()).ok();
        if time(&own) < time(&ours) {
            fs::copy(&ours, &own).map_err(Error::write(&own))?;
        }
        Ok(())
    }

    /// Builds the lesson's program, with the compiler's words if it does not compile, and the coach's in `tongue`. Its
    /// path, if it does.
    pub fn build(
        &self,
        lesson: &Lesson,
        language: Language,
        tongue: Tongue,
    ) -> Result<Option<PathBuf>, Error> {
        let target =
            std::env::var_os("CARGO_TARGET_DIR").map_or(top().join("target"), PathBuf::from);
        let target = std::path::absolute(&target).map_err(Error::read(&target))?;
        match language {
            Language::Rust => self.build_rust(lesson, &target, tongue),
            Language::C => {
                let dir = target.join("learn-c");
                fs::create_dir_all(&dir).map_err(Error::write(&dir))?;
                let program = dir.join(lesson.folder);
                let is_built = compile_c(&self.program(lesson, language), &program)?;
                Ok(is_built.then_some(program))
            }
        }
    }

    fn build_rust(
        &self,
        lesson: &Lesson,
        target: &Path,
        tongue: Tongue,
    ) -> Result<Option<PathBuf>, Error> {
        self.write_manifest()?;
        let mut cargo = self.cargo(lesson, target, tongue);
        let status =
            cargo.status().map_err(|source| Error::Start { program: "cargo".into(), source })?;
        Ok(status.success().then(|| target.join("release").join(lesson.folder)))
    }

    /// The command that builds the lesson's program. The first build takes minutes, since it
    /// includes all crates that the programs use, and cargo shows its progress.
    fn cargo(&self, lesson: &Lesson, target: &Path, tongue: Tongue) -> Command {
        let mut cargo = Command::new("cargo");
        cargo.args(["build", "--release", "--bin", lesson.folder, "--manifest-path"]);
        cargo.arg(self.dir.join("Cargo.toml")).arg("--target-dir").arg(target);
        let is_built = |lesson: &Lesson| target.join("release").join(lesson.folder).is_file();
        if LESSONS.iter().any(is_built) {
            cargo.arg("--quiet");
        } else {
            let words = words!(
                "building what the lessons' programs use, which takes some minutes, once",
                "正在编译各课程序共用的代码，需要几分钟，只有这一次"
            );
            eprintln!("{}", words.of(tongue));
        }
        cargo
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
mod tests {
    use super::*;

    #[test]
    fn what_the_student_has_written_stays() {
        let dir = std::env::temp_dir().join(format!("learn work {}", std::process::id()));
        let (work, lesson) = (Work::at(dir.clone()), &LESSONS[2]);
        for language in Language::ALL {
            assert!(!work.has(lesson, language));
            work.open(lesson, language, false).unwrap();
            let start = lesson.text(&language.file(START)).unwrap();
            let program = work.program(lesson, language);
            let text = || fs::read_to_string(&program).unwrap();
            assert_eq!(text(), start);
            fs::write(&program, "mine").unwrap();
            work.open(lesson, language, false).unwrap();
            assert_eq!(text(), "mine");
            work.open(lesson, language, true).unwrap();
            assert_eq!(text(), start);
            let old = program.with_file_name(language.file("main") + ".old");
            assert_eq!(fs::read_to_string(old).unwrap(), "mine");
        }
        let manifest = fs::read_to_string(dir.join("Cargo.toml")).unwrap();
        assert!(manifest.contains("path = \"03-send-from-two-pieces/main.rs\""), "{manifest}");
        assert!(!manifest.contains("01-"), "{manifest}");
        // A program in C alone is none of the package's.
        work.open(&LESSONS[0], Language::C, false).unwrap();
        work.write_manifest().unwrap();
        assert_eq!(fs::read_to_string(dir.join("Cargo.toml")).unwrap(), manifest);
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn only_the_first_program_is_built_with_words() {
        let dir = std::env::temp_dir().join(format!("learn build {}", std::process::id()));
        let (work, release) = (Work::at(dir.join("work")), dir.join("release"));
        let cargo = || work.cargo(&LESSONS[2], &dir, Tongue::English);
        let is_quiet = || cargo().get_args().any(|arg| arg == "--quiet");
        fs::create_dir_all(&release).unwrap();
        assert!(!is_quiet());
        fs::write(release.join(LESSONS[0].folder), "").unwrap();
        assert!(is_quiet());
        fs::remove_dir_all(&dir).unwrap();
    }

    /// The student's programs are built with the same releases as the repository's.
    #[test]
    fn the_manifest_asks_for_what_the_workspace_does() {
        let ours = fs::read_to_string(top().join("Cargo.toml")).unwrap();
        for line in MANIFEST.lines().filter(|line| {
            ["libc = ", "rdma-sys = ", "edition = "].iter().any(|begin| line.starts_with(begin))
        }) {
            assert!(ours.lines().any(|our| our == line), "{line}");
        }
        // A package that differs is built once more.
        let (_, packages) = MANIFEST.split_once("# As in the repository").unwrap();
        for package in packages.split("[profile.release.package.").skip(1) {
            let section = format!("[profile.release.package.{}\n", package.trim_end());
            assert!(ours.contains(&section), "{section}");
        }
        let profile =
            MANIFEST.split("\n\n").find(|section| section.contains("[profile.release]\n"));
        let (_, profile) = profile.unwrap().split_once('\n').unwrap();
        assert!(ours.contains(&format!("{profile}\n")), "{profile}");
    }
}
